# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# IP over InfiniBand on a virtual fabric: each host of these tests is in a network namespace of its own, and the
# fabric is all that leads from one to the other.

load helpers
load fabric

setup() {
	up_with_verbs
}

# inside HOST COMMAND…: in a namespace with ib0.
inside() {
	"$URXE" ipoib --host "$1" -- sh -c "${*:2}"
}

# in_background FILE HOST COMMAND…: its output is in FILE.
in_background() {
	"$URXE" ipoib --host "$2" -- sh -c "${*:3}" </dev/null >"$XDG_RUNTIME_DIR/$1" 2>&1 3>&- &
	started+=($!)
}

said() {
	grep -q "$2" "$XDG_RUNTIME_DIR/$1"
}

# stays HOST: it is there until the end of the test; `at HOST COMMAND…` runs commands in its namespace.
stays() {
	in_background "$1" "$1" 'echo pid $$ && exec sleep 600'
	await said "$1" pid
}

at() {
	local pid user=
	pid=$(sed -n 's/^pid //p' "$XDG_RUNTIME_DIR/$1")
	# Who is root has made no user namespace.
	[ /proc/self/ns/user -ef "/proc/$pid/ns/user" ] || user='-U --preserve-credentials'
	nsenter -t "$pid" $user -n "${@:2}"
}

show() {
	at "$1" "$URXE" ipoib show "${@:2}"
}

# counter HOST NAME
counter() {
	show "$1" | sed -n "s/^$2 *//p"
}

ping4() {
	busybox ping -c 1 -W 1 "$@"
}

@test "hosts in namespaces reach each other by IPv4 and IPv6, and by name" {
	managed h1
	stays h3
	run inside h2 'busybox ping -c 3 10.77.0.7 && busybox ping -6 -c 2 fe80::255:5258:4500:601%ib0 &&
		getent ahostsv4 h3 && ip -d link show ib0 && ip addr show ib0'
	[ "$status" = 0 ]
	[[ $output == *'3 packets received'*'2 packets received'*'10.77.0.7 '* ]]
	[[ $output == *'LOWER_UP> mtu 2044'*'link/infiniband'*'inet 10.77.0.6/16 brd 10.77.255.255'* ]]
	[[ $output == *'inet6 fe80::255:5258:4500:501/64 scope link'* ]]
	[ "$(show h3 neighbours | grep -c 'ip 10.77.0.6 .* gid fe80::255:5258:4500:501 .* lid 6')" = 1 ]
}

@test "iperf3 over TCP, whose packets are cut and put together, and over UDP" {
	managed h1
	in_background server h3 'iperf3 --forceflush -s -1 && iperf3 -s -1'
	await said server listening
	run inside h2 "iperf3 -c h3 -n 20M -J && until iperf3 -u -c h3 -n 1M -b 100M -J; do :; done &&
		$URXE ipoib show"
	[ "$status" = 0 ]
	[[ $output == *'"bytes":	20'* ]]
	[ "$(sed -n 's/^segments *//p' <<<"$output")" -gt 5000 ]
	[ "$(sed -n 's/^malformed *//p' <<<"$output")" = 0 ]
}

@test "addresses of one's own, and who has none of a net is not reached" {
	managed h1
	"$URXE" ipoib --host h3 10.1.0.3/24 fd00::3/64 -- sh -c 'echo pid $$ && exec sleep 600' \
		</dev/null >"$XDG_RUNTIME_DIR/h3" 2>&1 3>&- &
	started+=($!)
	await said h3 pid
	run "$URXE" ipoib --host h2 10.1.0.2/24 fd00::2/64 -- sh -c \
		"busybox ping -c 2 10.1.0.3 && busybox ping -6 -c 2 fd00::3; busybox ping -c 1 -W 4 10.1.0.4;
		$URXE ipoib show | grep drop_unreachable; $URXE ipoib show neighbours"
	[[ $output == *'2 packets received'*'2 packets received'*'0 packets received'* ]]
	[[ $output == *'drop_unreachable  1'*'ip 10.1.0.4  state failed'* ]]
}

@test "groups are joined when a program does, and left with it" {
	managed h1
	stays h2
	stays h3
	at h3 python3 -c '
import socket, struct
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind(("", 5007))
s.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, struct.pack("4s4s", socket.inet_aton("239.1.2.3"), socket.inet_aton("10.77.0.7")))
print("joined", flush=True)
print(s.recv(100).decode(), flush=True)
' >"$XDG_RUNTIME_DIR/receiver" 3>&- &
	started+=($!)
	await said receiver joined
	member() { show h3 groups | grep -q 'ff12:401b:ffff::f01:203 .*joined  as member'; }
	await member
	sends() {
		at h2 python3 -c '
import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton("10.77.0.6"))
s.sendto(b"to the group", ("239.1.2.3", 5007))'
		said receiver 'to the group'
	}
	await sends
	wait "${started[-1]}"
	gone() { ! member; }
	await gone
	show h2 groups | grep -q 'ff12:401b:ffff::f01:203 .*joined  as sender'
}
