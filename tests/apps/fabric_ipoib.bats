# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# IP over InfiniBand on a virtual fabric: each host of these tests is in a network namespace of its own, and the
# fabric is all that leads from one to the other.

load helpers
load fabric

setup() {
	up_with_verbs
}

# For the shells of the tests, reach OPTION… ADDRESS: until an echo is answered, for half a minute at least.
export REACH='reach() { for i in $(seq 30); do busybox ping -c 1 -W 1 "$@" && return; done; return 1; }; '

# inside HOST COMMAND…: in a namespace with ib0.
inside() {
	"$URXE" ipoib --host "$1" -- sh -c "$REACH${*:2}"
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

# into HOST: `"${enter[@]}" COMMAND…` runs in its namespace.
into() {
	local pid user=
	pid=$(sed -n 's/^pid //p' "$XDG_RUNTIME_DIR/$1")
	# Who is root has made no user namespace.
	[ /proc/self/ns/user -ef "/proc/$pid/ns/user" ] || user='-U --preserve-credentials'
	# shellcheck disable=SC2206
	enter=(nsenter -t "$pid" $user -n)
}

at() {
	into "$1"
	"${enter[@]}" "${@:2}"
}

show() {
	at "$1" "$URXE" ipoib show "${@:2}"
}

@test "in a user namespace, as in a container, IPoIB finds the fabric that was begun there" {
	local as=(unshare -U --map-user=1000 --map-group=1000)
	"${as[@]}" unshare -Un true 2>/dev/null || skip "no namespaces"
	NAME=contained$$ TOPO=$BATS_TEST_DIRNAME/fabric-ring.topo run "${as[@]}" sh -c '
		folder=$XDG_RUNTIME_DIR
		unset XDG_RUNTIME_DIR
		"$URXE" fabric up --name $NAME "$TOPO" || exit
		"$URXE" ipoib --fabric $NAME --host h2 -- ls "$folder" 3>&-
		status=$?
		"$URXE" fabric down --name $NAME
		exit $status'
	rm -f /tmp/urxe-fabric-*/contained$$.log
	echo "$output"
	[ "$status" = 0 ]
}

@test "hosts in namespaces reach each other by IPv4 and IPv6, and by name" {
	managed h1
	stays h3
	run inside h2 'reach 10.77.0.7 && reach -6 fe80::255:5258:4500:601%ib0 &&
		getent ahostsv4 h3 && ip -d link show ib0 && ip addr show ib0'
	echo "$output"
	[ "$status" = 0 ]
	[[ $output == *'1 packets received'*'1 packets received'*'10.77.0.7 '* ]]
	[[ $output == *'LOWER_UP> mtu 2044'*'link/infiniband'*'inet 10.77.0.6/16 brd 10.77.255.255'* ]]
	[[ $output == *'inet6 fe80::255:5258:4500:501/64 scope link'* ]]
	[ "$(show h3 neighbours | grep -c 'ip 10.77.0.6 .* gid fe80::255:5258:4500:501 .* lid 6')" = 1 ]
}

@test "iperf3 over TCP, whose packets are cut and put together, and over UDP" {
	managed h1
	in_background server h3 'iperf3 --forceflush -s -1 && exec iperf3 -s -1'
	await said server listening
	run inside h2 "iperf3 -c h3 -n 20M -J && until iperf3 -u -c h3 -n 1M -b 100M -J; do :; done &&
		$URXE ipoib show"
	[ "$status" = 0 ]
	[[ $output == *'"bytes":	20'* ]]
	[ "$(sed -n 's/^segments *//p' <<<"$output")" -gt 5000 ]
	[ "$(sed -n 's/^malformed *//p' <<<"$output")" = 0 ]
}

@test "addresses of one's own, and what nobody has is unreachable" {
	managed h1
	"$URXE" ipoib --host h3 10.1.0.3/24 fd00::3/64 -- sh -c 'echo pid $$ && exec sleep 600' \
		</dev/null >"$XDG_RUNTIME_DIR/h3" 2>&1 3>&- &
	started+=($!)
	await said h3 pid
	run "$URXE" ipoib --host h2 10.1.0.2/24 fd00::2/64 -- sh -c \
		"$REACH reach 10.1.0.3 && reach -6 fd00::3; busybox nc -w 20 10.1.0.4 9;
		$URXE ipoib show | grep drop_unreachable; $URXE ipoib show neighbours"
	[[ $output == *'1 packets received'*'1 packets received'*'No route to host'* ]]
	[[ $output == *'drop_unreachable  '[1-9]*'ip 10.1.0.4  state failed'* ]]
}

@test "groups are joined when a program does, and left with it" {
	managed h1
	stays h2
	stays h3
	into h3
	"${enter[@]}" python3 -c '
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

@test "rdma_cm by name, by IPv6 address, and to nobody" {
	managed h1
	stays h3
	at h3 ip addr add fd00::3/64 dev ib0
	into h3
	"${enter[@]}" "$URXE" run --host h3 -- rping -s -P -a :: >/dev/null 3>&- &
	started+=($!)
	by_name() { inside h2 'rping -c -a h3 -C 3 -V'; }
	await by_name
	inside h2 'ip addr add fd00::2/64 dev ib0 && rping -c -a fd00::3 -C 3 -V'
	run inside h2 'rping -c -a 10.77.0.99 -C 1'
	[[ $output == *'ADDR_ERROR'* ]]
	run inside h2 'rping -c -a 192.168.1.1 -C 1'
	[[ $output == *'Network is unreachable'* ]]
	run inside h2 'rping -s -a 10.77.0.7 -C 1'
	[[ $output == *'Cannot assign requested address'* ]]
}

@test "a partition has an interface of its own, for rdma_cm as well" {
	printf '%s\n' 'Default=0x7fff, ipoib : ALL=full;' 'Two=0x0002, ipoib : ALL=full;' 'Three=0x0003 : ALL=full;' \
		>"$XDG_RUNTIME_DIR/partitions"
	managed h1 -P "$XDG_RUNTIME_DIR/partitions"
	"$URXE" ipoib --host h3 --pkey 2 10.2.0.3/24 -- sh -c 'echo pid $$ && rping -s' </dev/null \
		>"$XDG_RUNTIME_DIR/h3" 2>&1 3>&- &
	started+=($!)
	await said h3 pid
	run "$URXE" ipoib --host h2 --pkey 0x8002 10.2.0.2/24 -- sh -c "$REACH reach 10.2.0.3 && ip -br link &&
		until rping -c -a 10.2.0.3 -C 2 -V; do :; done; $URXE ipoib show ib0.8002 && $URXE ipoib show ib0.8002 groups"
	[ "$status" = 0 ]
	[[ $output == *'1 packets received'*'ib0.8002 '*'pkey              0x8002'* ]]
	[[ $output == *'ff12:401b:8002::ffff:ffff '*'joined'* ]]
	# One without a broadcast group, and one that is not there.
	run "$URXE" ipoib --host h2 --pkey 3 -- cat /sys/class/net/ib0.8003/carrier
	[[ $output == *'the partition has no broadcast group'* ]]
	run "$URXE" ipoib --host h2 --pkey 4 -- true
	[[ $output == *'not in the port'* ]]
}

@test "before there is a subnet manager it waits, says so once, and is up afterwards" {
	in_background h3 h3 'echo pid $$ && exec sleep 600'
	await said h3 pid
	[ "$(grep -c 'ib0 waits: the port is not active' "$XDG_RUNTIME_DIR/h3")" = 1 ]
	[ "$(at h3 cat /sys/class/net/ib0/operstate)" != up ]
	managed h1
	await said h3 'ib0 is up'
	inside h2 'reach 10.77.0.7'
	[ "$(grep -c waits "$XDG_RUNTIME_DIR/h3")" = 1 ]
}

@test "a link that goes down and up, another subnet manager, other LIDs, a peer that starts anew" {
	managed h1
	stays h2
	stays h3
	reaches() { at h2 busybox ping -c 1 -W 1 10.77.0.7; }
	is() { at h2 ip -br link show ib0 | grep -q "$1"; }
	await reaches
	"$URXE" fabric link leaf1 2 down
	await is NO-CARRIER
	"$URXE" fabric link leaf1 2 up
	await is LOWER_UP
	await reaches
	kill -KILL "${started[0]}"
	opensm_at h4 -l 2
	await log_says h4 'SUBNET UP'
	await reaches
	# The peer's QP is another one.
	kill "${started[2]}"
	wait "${started[2]}" || true
	rm "$XDG_RUNTIME_DIR/h3"
	stays h3
	await reaches
}

@test "when fabricd was killed and is back, so is the interface" {
	managed h1
	stays h2
	stays h3
	reaches() { at h2 busybox ping -c 1 -W 1 10.77.0.7; }
	is() { at h2 ip -br link show ib0 | grep -q "$1"; }
	await reaches
	"$URXE" fabric down
	await is NO-CARRIER
	up "$BATS_TEST_DIRNAME/fabric-ring.topo"
	await is LOWER_UP
	await reaches
}

@test "when its interface is deleted it ends, and says so" {
	stays h3
	at h3 ip link del ib0
	await said h3 'ib0: the interface was deleted'
	run show h3
	[ "$status" -ne 0 ]
}

@test "another user who took an interface's name is not believed" {
	[ "$(id -u)" = 0 ] || skip "only root is several users"
	cat >"$XDG_RUNTIME_DIR/squat.py" <<-'END'
		import os, socket, sys
		s = socket.socket(socket.AF_UNIX)
		os.setuid(65534)
		s.bind(b"\0urxe-ipoib/ib0".ljust(108, b"\0"))
		s.listen()
		print("pid", os.getpid(), flush=True)
		while True:
		    c = s.accept()[0]
		    c.recv(1000)
		    c.sendall(b'{"ok":true,"name":"ib0","state":"up"}\n')
	END
	unshare -n python3 "$XDG_RUNTIME_DIR/squat.py" >"$XDG_RUNTIME_DIR/squatter" 3>&- &
	started+=($!)
	await said squatter pid
	run show squatter
	[ "$status" = 3 ]
	[[ $output == *'another user listens there'* ]]
}

@test "who cannot have an interface is told why" {
	managed h1
	run "$URXE" ipoib --host h2 10.1.0.2
	[ "$status" = 2 ]
	[[ $output == *'is not an address with its prefix'* ]]
	run "$URXE" ipoib --host h77 -- true
	[ "$status" = 1 ]
	[[ $output == *h77* ]]
	run "$URXE" ipoib show ib7
	[ "$status" = 3 ]
	[[ $output == *'is it running?'*'`urxe ipoib --host HOST` makes one'* ]]
	run "$URXE" ipoib 10.1.0.2/24
	[ "$status" = 2 ]
	[[ $output == *'--host is missing'* ]]
	run inside h2 "$URXE ipoib --host h2 10.1.0.2/24"
	[[ $output == *'there is such an interface already'* ]]
	run inside h2 'exit 7'
	[ "$status" = 7 ]
}
