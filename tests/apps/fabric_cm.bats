# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# The connection manager on hosts of a virtual InfiniBand fabric: programs of librdmacm, perftest and libfabric find
# each other by name, by address and by GID, and paths and groups come from OpenSM.

load helpers
load fabric

channel=${URXE%/*}/tests/apps/rdmacm_channel.so

setup() {
	up_with_verbs
}

# between [-k] SERVER COMMAND… :: CLIENT COMMAND…: each at its host. With -k the server is one that never ends. Some meet by
# TCP, at ports that may be somebody else's outside.
between() {
	local words=() keep=
	[ "$1" = -k ] && keep=-k && shift
	while [ "$1" != :: ]; do words+=("$1") && shift; done
	isolated "$top/tests/guest/bin/pair" -q $keep -t 60 "$URXE" run --host "${words[0]}" -- "${words[@]:1}" :: \
		"$URXE" run --host "$2" -- "${@:3}"
}

# in_background FILE HOST COMMAND…: its output is in FILE, its pid in $!.
in_background() {
	"$URXE" run --host "$2" -- stdbuf -oL "${@:3}" </dev/null >"$XDG_RUNTIME_DIR/$1" 2>&1 3>&- &
	started+=($!)
}

said() {
	grep -q "$2" "$XDG_RUNTIME_DIR/$1"
}

@test "connections, datagrams and rsockets between hosts, by name" {
	managed h1
	LD_PRELOAD=$channel between h3 rping -s -C 10 -V :: h2 rping -c -a h3 -C 10 -V
	between h4 ucmatose -c 5 -C 5 :: h2 ucmatose -s h4 -c 5 -C 5
	between h3 udaddy -c 5 -C 5 :: h2 udaddy -s h3 -c 5 -C 5
	LD_PRELOAD=$channel between h2 rping -s -C 3 -V :: h2 rping -c -a h2 -C 3 -V
	between h3 riostream -S 5000 -I 3 -C 20 :: h2 riostream -s h3 -S 5000 -I 3 -C 20
	between -k h3 cmtime -c 20 :: h2 cmtime -s h3 -c 20
}

@test "perftest -R and libfabric between hosts" {
	managed h1
	again_if_refused between h3 ib_send_bw -R -F -n 100 :: h2 ib_send_bw -R -F -n 100 h3
	between h3 fi_pingpong -p verbs -e msg -I 10 -S 4096 :: h2 fi_pingpong -p verbs -e msg -I 10 -S 4096 h3
}

@test "AF_IB: by GID, from a GID and from any" {
	local gid=fe80::255:5258:4500:601
	managed h1
	between h3 ucmatose -f gid -b $gid -P ib -C 3 :: \
		h2 ucmatose -f gid -s $gid -b fe80::255:5258:4500:501 -P ib -C 3
	between h3 ucmatose -f gid -b $gid -P ib -C 3 :: h2 ucmatose -f gid -s $gid -P ib -C 3
	run on h2 ucmatose -f gid -b $gid -P ib
	[ "$status" != 0 ]
}

@test "each host has ports of its own, and no host has another's address" {
	managed h1
	LD_PRELOAD=$channel in_background two h2 rping -s -C 2 -V -p 7471
	LD_PRELOAD=$channel in_background three h3 rping -s -C 2 -V -p 7471
	listening() { [ "$(on h2 "$URXE" listeners | grep -c 'LISTEN  *7471 ')" = 2 ]; }
	await listening
	on h4 rping -c -a h3 -p 7471 -C 2 -V
	wait "${started[-1]}"
	kill -0 "${started[-2]}"
	on h4 rping -c -a h2 -p 7471 -C 2 -V
	wait "${started[-2]}"
	run on h2 rping -s -a h3 -C 1
	[ "$status" != 0 ]
}

@test "a host is a member of a group until its last process has left, or was killed" {
	managed h1
	there() { on h1 saquery -g | grep -q 'ff12:4001:ffff::f01:203'; }
	gone() { ! there; }
	in_background first h3 mckey -m 239.1.2.3 -C 1000
	in_background second h3 mckey -m 239.1.2.3 -C 10
	await said first 'joined'
	await said second 'receiving data'
	on h2 mckey -m 239.1.2.3 -s -C 10
	wait "${started[-1]}"
	there
	kill -KILL "${started[-2]}"
	await gone
}

@test "a group whose MGID the subnet administrator chose is left by who is killed" {
	managed h1
	groups() { [ "$(on h1 saquery -g | grep -c MGID)" = "$1" ]; }
	groups 1
	in_background member h3 mckey -M 0:0:0:0:0:0:0:0 -b h3 -C 1000
	await groups 2
	kill -KILL "${started[-1]}"
	await groups 1
	# Also while the answer that names it is on its way.
	leaf2=$(on h1 ibswitches | sed -n 's/.*"leaf2".* lid \([0-9]*\) lmc.*/\1/p')
	port=$(on h1 ibnetdiscover | sed -n '/"leaf2"/,/^$/s/^\[\([0-9]*\)\].*"h3".*/\1/p')
	"$URXE" fabric errors leaf2 "$port" --delay 250ms
	in_background late h3 mckey -M 0:0:0:0:0:0:0:0 -b h3 -C 1000
	await groups 2
	kill -KILL "${started[-1]}"
	await groups 1
}

# group_of_three: h2, h3 and h4 are members of a group, and a program on each of them writes what it hears to a file;
# $group: its MGID and MLID. That mckey, which never sleeps, leaves the CPUs to the others, and does not leave the
# group before the test is over.
group_of_three() {
	local host
	managed h1
	for host in h2 h3 h4; do
		in_background member-$host $host nice -n 19 mckey -m 239.1.2.3 -C 10000
	done
	for host in h2 h3 h4; do
		await said member-$host 'joined'
	done
	group=$(on h1 saquery -g | sed -n '/f01:203$/,/Mlid/s/^\t*\(MGID\|Mlid\)\.*\(0x\)\?/\2/p')
	for host in h2 h3 h4; do
		in_background $host $host "$URXE_BIN/verbs_fabric" hear $group
	done
	all_hear() {
		on h1 "$URXE_BIN/verbs_fabric" call $group 1 3
		[ -s "$XDG_RUNTIME_DIR/h2" ] && [ -s "$XDG_RUNTIME_DIR/h3" ] && [ -s "$XDG_RUNTIME_DIR/h4" ]
	}
	await all_hear
}

# calls: h1 sends 200 datagrams, and then 30 more, so that whoever has heard one of these has all that it will hear of
# the first. Each time they have other numbers: from $base on.
calls() {
	local host
	base=$((${base-0} + 1000))
	on h1 "$URXE_BIN/verbs_fabric" call $group $((base + 1)) $((base + 230))
	for host in h2 h3 h4; do
		await over $host
	done
}

over() {
	awk -v last=$((base + 200)) '$1 > last { over = 1 } END { exit !over }' "$XDG_RUNTIME_DIR/$1"
}

# heard HOST: which of the 200 the host has heard, from 1 on. late HOST: how many milliseconds they took.
heard() {
	awk -v base=$base '$1 > base && $1 <= base + 200 { print $1 - base }' "$XDG_RUNTIME_DIR/$1"
}

late() {
	awk -v base=$base '$1 > base && $1 <= base + 200 { print $2 }' "$XDG_RUNTIME_DIR/$1"
}

# counted LID COUNTER N: that port 1 has counted so many, or a few more: the last 30, and MADs.
counted() {
	local n
	n=$(on h1 perfquery "$1" 1 | sed -n "s/^$2:\.*//p")
	echo "$2: $n, of $3"
	[ "$n" -ge "$3" ] && [ "$n" -le $(($3 + 50)) ]
}

@test "copies to a group meet the faults of the links on their way, each copy those of its branch" {
	local leaf2 lost base
	group_of_three
	leaf2=$(on h1 ibswitches | sed -n 's/.*"leaf2".* lid \([0-9]*\) lmc.*/\1/p')
	"$URXE" fabric errors leaf2 1 --loss 30%
	calls
	[ "$(heard h2)" = "$(seq 200)" ]
	[ "$(heard h4)" = "$(seq 200)" ]
	heard h3 >"$XDG_RUNTIME_DIR/first"
	lost=$((200 - $(wc -l <"$XDG_RUNTIME_DIR/first")))
	[ $lost -gt 20 ] && [ $lost -lt 120 ]
	# The subnet manager's packets to h3 are lost there, too.
	counted "$leaf2" PortXmitDiscards $lost
	# The same again, for a program that sends the same.
	calls
	heard h3 | diff "$XDG_RUNTIME_DIR/first" -
	"$URXE" fabric errors leaf2 1 --loss 0 --symbol 30%
	calls
	lost=$((200 - $(heard h3 | wc -l)))
	[ $lost -gt 20 ] && [ $lost -lt 120 ]
	"$URXE" fabric errors leaf2 1 --symbol 0
	counted "$(on h3 ibaddr -l | sed 's/.* //')" SymbolErrorCounter $lost
	# At the first link all copies go together.
	"$URXE" fabric errors h1 1 --loss 30%
	calls
	heard h2 >"$XDG_RUNTIME_DIR/first"
	lost=$((200 - $(wc -l <"$XDG_RUNTIME_DIR/first")))
	[ $lost -gt 20 ] && [ $lost -lt 120 ]
	heard h3 | diff "$XDG_RUNTIME_DIR/first" -
	heard h4 | diff "$XDG_RUNTIME_DIR/first" -
}

@test "copies to a group take the delay of the links on their way" {
	local base
	group_of_three
	"$URXE" fabric errors leaf2 1 --delay 300ms
	calls
	[ "$(heard h3)" = "$(seq 200)" ]
	[ "$(late h3 | sort -n | head -n 1)" -ge 300 ]
	[ "$(heard h4)" = "$(seq 200)" ]
	[ "$(late h4 | sort -n | head -n 1)" -lt 300 ]
}

@test "UCX connects hosts by rdma_cm: streams, tagged and active messages" {
	local example=/usr/share/doc/libucx-dev/examples/ucp_client_server.c at kind
	[ -f $example ] || skip "there is no $example (libucx-dev)"
	cc -o "$XDG_RUNTIME_DIR/ucp" $example -lucp -lucs
	managed h1
	at=$("$URXE" fabric show h2 | grep -o '127\.77\.[0-9.]*')
	export UCX_TLS=rc_v UCX_SOCKADDR_TLS_PRIORITY=rdmacm
	for kind in stream tag am; do
		run between -k h2 "$XDG_RUNTIME_DIR/ucp" -c $kind -i 3 :: h3 "$XDG_RUNTIME_DIR/ucp" -a "$at" -c $kind -i 3
		echo "$output"
		[ "$status" = 0 ]
		[[ $output == *'Client: iteration #3'*ABCDEFGHIJKLMNO* ]]
	done
}

@test "a process that is killed is disconnected" {
	managed h1
	in_background server h3 rping -s -C 1000000 -v
	in_background client h2 rping -c -a h3 -C 1000000
	await said server 'ping data'
	kill -KILL "${started[-1]}"
	await said server 'DISCONNECT EVENT'
}

@test "without a subnet manager routes are not resolved, and programs are told" {
	run on h2 rping -c -a h3 -C 1
	[ "$status" != 0 ]
	[[ $output == *'no port of this host is active'*'Network is unreachable'* ]]
	managed h1
	kill -KILL "${started[-1]}"
	wait "${started[-1]}" 2>/dev/null || true
	run on h2 rping -c -a h3 -C 1
	[ "$status" != 0 ]
	[[ $output == *'ROUTE_ERROR'* ]]
}

@test "limited members of a partition reach full ones alone" {
	cat >"$XDG_RUNTIME_DIR/partitions" <<-END
		Default=0x7fff : 0x0255525845000401=full, 0x0255525845000501=full, 0x0255525845000601, 0x0255525845000701;
	END
	managed h1 -P "$XDG_RUNTIME_DIR/partitions"
	LD_PRELOAD=$channel between h3 rping -s -C 3 -V :: h2 rping -c -a h3 -C 3 -V
	LD_PRELOAD=$channel between h2 rping -s -C 3 -V :: h3 rping -c -a h2 -C 3 -V
	run on h3 rping -c -a h4 -C 1
	[ "$status" != 0 ]
	[[ $output == *'ROUTE_ERROR, error -22'* ]]
}

@test "other LIDs: members of groups are told, and who connects anew finds them" {
	managed h1
	in_background member h3 mckey -m 239.1.2.3 -C 1000
	in_background server h3 rping -s -P -v
	await said member joined
	kill -KILL "${started[0]}"
	opensm_at h2 -l 2
	await said member 'MULTICAST_ERROR, status: -102'
	await log_says h2 'SUBNET UP'
	await on h4 rping -c -a h3 -C 2 -V
}
