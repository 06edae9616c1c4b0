# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# Verbs traffic between hosts of a virtual InfiniBand fabric, under programs that know nothing of it.

load helpers
load fabric

setup() {
	up_with_verbs
}

# The subnet stays as it is: nobody sweeps it any more.
alone() {
	kill -KILL "${started[@]}"
	wait "${started[@]}" 2>/dev/null || true
	started=()
}

# in_background FILE HOST COMMAND…: its output is in FILE, its pid in $!.
in_background() {
	"$URXE" run --host "$2" -- "${@:3}" </dev/null >"$XDG_RUNTIME_DIR/$1" 2>&1 3>&- &
	started+=($!)
}

# between SERVER CLIENT PROGRAM ARGS…: the program at both hosts; TCP goes by 127.0.0.1.
between() {
	isolated "$top/tests/guest/bin/pair" -q -t 120 "$URXE" run --host "$1" -- "${@:3}" :: \
		"$URXE" run --host "$2" -- "${@:3}" 127.0.0.1
}

# counters HOST: what its port has sent and received (words, packets), as h1 asks for it; by two MADs of 72 words.
counters() {
	on h1 perfquery -x "$(lid_of "$1")" 1 |
		sed -nE 's/^Port(Xmit|Rcv)(Data|Pkts):\.*//p' | tr '\n' ' '
}

sent_packets() {
	counters "$1" | cut -d ' ' -f 3
}

spine() {
	on h1 ibtracert "$(lid_of "$1")" "$(lid_of "$2")" | sed -n 's/.*"\(spine[12]\)"$/\1/p' | head -n 1
}

@test "a device of a fabric is an InfiniBand device" {
	managed h1
	on h2 ibv_devinfo -v >"$XDG_RUNTIME_DIR/info"
	grep -q 'link_layer:.*InfiniBand' "$XDG_RUNTIME_DIR/info"
	grep -q 'state:.*PORT_ACTIVE' "$XDG_RUNTIME_DIR/info"
	[ "$(sed -n 's/.*port_lid:\s*//p' "$XDG_RUNTIME_DIR/info")" = "$(lid_of h2)" ]
	[ "$(sed -n 's/.*sm_lid:\s*//p' "$XDG_RUNTIME_DIR/info")" = "$(lid_of h1)" ]
	grep -q 'GID\[ *0\]:.*fe80:0000:0000:0000:0255:5258:4500:0501' "$XDG_RUNTIME_DIR/info"
	grep -q urxe0 <(on h2 cat /sys/class/infiniband_verbs/uverbs0/ibdev)
	on h2 test -c /dev/infiniband/uverbs0
	[ "$(on h4 ibv_devinfo | grep -c '\sport:')" = 2 ]
}

# data_by_sl HOST OPTION SL: words, as h1 asks for it by two MADs of SL 0.
data_by_sl() {
	on h1 perfquery "$2" "$(lid_of "$1")" 1 | sed -n "s/^\(Xmt\|Rcv\)DataSL$3:\.*//p"
}

@test "data is counted by its service level, which the sender chose" {
	managed h1
	between h2 h3 ib_write_bw -s 65536 -n 100 -S 3 >"$XDG_RUNTIME_DIR/out"
	[ "$(data_by_sl h3 -X 3)" -ge $((100 * 16484)) ]
	[ "$(data_by_sl h3 -X 3)" = "$(data_by_sl h2 -S 3)" ]
	[ "$(data_by_sl h3 -S 3)" = "$(data_by_sl h2 -X 3)" ]
	[ "$(data_by_sl h3 -X 4)" = 0 ]
}

@test "connections and datagrams between hosts, by LID alone and with a GRH" {
	managed h1
	between h2 h3 ibv_rc_pingpong -c
	between h2 h3 ibv_rc_pingpong -c -g 0
	between h2 h3 ibv_uc_pingpong -c
	between h2 h3 ibv_ud_pingpong -c
	between h2 h3 ibv_ud_pingpong -c -g 0
	between h2 h4 ibv_srq_pingpong -c
	between h2 h2 ibv_rc_pingpong -c
	between h1 h4 ib_atomic_bw -n 100 -F
	between h1 h4 ib_read_bw -n 100 -F
	between h1 h4 ib_send_bw -a -n 20 -F
}

# every_port: the counters of all ports, a line like "leaf1[2] PortXmitData 77" each, as h1 asks for them.
every_port() {
	"$URXE" fabric show | awk '/^[^ ]/ { node = $1; lid = / lid / ? $NF : 0 }
		/^ / { print node "[" $1 "]", lid ? lid : $3, $1 }' >"$XDG_RUNTIME_DIR/ports"
	# shellcheck disable=SC2016
	on h1 sh -c 'while read name lid port; do
		perfquery -x $lid $port | sed -nE "s/^(Port(Xmit|Rcv)(Data|Pkts)):\.*/$name \1 /p"
	done' <"$XDG_RUNTIME_DIR/ports"
}

# way FROM TO: what a packet passes, as ibtracert says it: "h3[1] PortXmit", "leaf2[2] PortRcv", and so on.
way() {
	on h1 ibtracert "$(lid_of "$1")" "$(lid_of "$2")" | sed -nE \
		's/^From.*"(.*)"$/\1/p; s/^\[([0-9]*)\] -> .*\}\[([0-9]*)\].*"(.*)"$/\1 \2 \3/p' |
		awk 'NF == 1 { node = $1; next }
			{ print node "[" $1 "] PortXmit"; print $3 "[" $2 "] PortRcv"; node = $3 }'
}

@test "each port on ibtracert's way counts what hardware would, and no other port anything" {
	local acks
	cd "$XDG_RUNTIME_DIR"
	managed h1
	alone
	every_port >first
	[ "$(wc -l <first)" = $((4 * $(wc -l <ports))) ]
	every_port >before
	between h2 h3 ib_write_bw -s 65536 -n 1000 -F
	every_port >after
	# Less what asking costs, which is the same each time.
	paste -d ' ' first before after | awk '{ n = $9 - 2 * $6 + $3 } n { print $1, $2, n }' | sort >counted
	acks=$(sed -n 's/^h3\[1\] PortRcvPkts //p' counted)
	# 16 packets of 4096 bytes, 16,484 words, a message; an acknowledgement has 7 words.
	{
		way h3 h2 | sed 's/.*/&Data 16484000\n&Pkts 16000/'
		way h2 h3 | sed "s/.*/&Data $((7 * acks))\n&Pkts $acks/"
	} | sort >expected
	[ "$(wc -l <expected)" = 32 ]
	diff expected counted
}

@test "completions tell by which way a datagram came, and QPs of other hosts are out of reach" {
	local lid qpn other guid
	managed h1
	in_background taken h2 "$URXE_BIN/verbs_fabric" take 3
	await test -s "$XDG_RUNTIME_DIR/taken"
	read -r lid qpn <"$XDG_RUNTIME_DIR/taken"
	[ "$lid" = "$(lid_of h2)" ]
	other=$(lid_of h4) guid=0255525845000501
	# The number of its QP at h4, and the LID of a switch, are nobody's.
	on h3 "$URXE_BIN/verbs_fabric" give "$other:$qpn:astray" "2:$qpn:astray" "$lid:$qpn:first:sl=0" \
		"$lid:$qpn:second:grh=$guid" "$lid:$qpn:astray:grh=0255525845000701"
	on h2 "$URXE_BIN/verbs_fabric" give "$lid:$qpn:own"
	wait "${started[-1]}"
	other=$(lid_of h3)
	diff - <(tail -n +2 "$XDG_RUNTIME_DIR/taken") <<-END
		first slid=$other sl=0 bits=0 back=$other:0:0:0
		second slid=$other sl=0 bits=0 grh=0255525845000601 back=$other:0:0:1
		own slid=$lid sl=0 bits=0 back=$lid:0:0:0
	END
}

@test "with LMC a port has several LIDs, and path bits choose among them" {
	local lid qpn from
	managed h1 -l 2
	in_background taken h2 "$URXE_BIN/verbs_fabric" take 3
	await test -s "$XDG_RUNTIME_DIR/taken"
	read -r lid qpn <"$XDG_RUNTIME_DIR/taken"
	# Bits beyond the LMC do not count.
	on h3 "$URXE_BIN/verbs_fabric" give "$((lid + 3)):$qpn:to3:from=1" "$lid:$qpn:to0:from=2" \
		"$lid:$qpn:to0:from=127"
	wait "${started[-1]}"
	from=$(lid_of h3)
	diff - <(tail -n +2 "$XDG_RUNTIME_DIR/taken") <<-END
		to3 slid=$((from + 1)) sl=0 bits=3 back=$((from + 1)):0:3:0
		to0 slid=$((from + 2)) sl=0 bits=0 back=$((from + 2)):0:0:0
		to0 slid=$((from + 3)) sl=0 bits=0 back=$((from + 3)):0:0:0
	END
}

@test "300 processes on four hosts, and as many in their places when all were killed" {
	managed h1
	crowd 300 4
}

@test "multicast reaches the members of a group" {
	managed h1
	between h2 h3 ib_send_lat -c UD -g -n 100 -F
}

@test "traffic survives a link that goes down, by another way" {
	local by port
	managed h1
	by=$(spine h3 h2)
	[ "$by" = spine1 ] && port=8 || port=7
	between h2 h3 ib_send_bw -D 3 -s 4096 -F >"$XDG_RUNTIME_DIR/bw" 2>&1 3>&- &
	started+=($!)
	busy() { [ "$(sent_packets h3)" -gt 1000 ]; }
	await busy
	"$URXE" fabric link leaf2 $port down
	moved() { [ "$(spine h3 h2)" = "spine$((3 - ${by#spine}))" ]; }
	await moved
	wait "${started[-1]}"
	on h1 perfquery "$(on h1 ibswitches | sed -n 's/.*"leaf2".* lid \([0-9]*\) lmc.*/\1/p')" $port |
		grep -q 'LinkDownedCounter:\.*1$'
}

@test "without a subnet manager a link that goes down ends connections, and nothing hangs" {
	managed h1
	alone
	between h2 h3 ib_send_bw -D 60 -s 4096 -F >"$XDG_RUNTIME_DIR/bw" 2>&1 3>&- &
	started+=($!)
	busy() { [ "$(sent_packets h3)" -gt 1000 ]; }
	await busy
	"$URXE" fabric link leaf1 2 down
	failed() { ! wait "${started[-1]}"; }
	failed
	grep -q 'status 12\|transport retry' "$XDG_RUNTIME_DIR/bw"
}

@test "limited members of a partition talk to full ones alone, and the manager is told" {
	cat >"$XDG_RUNTIME_DIR/partitions" <<-END
		Default=0x7fff : ALL=full;
		Part=0x8001 : 0x0255525845000501=full, 0x0255525845000601=limited, 0x0255525845000701=limited;
	END
	managed h1 -P "$XDG_RUNTIME_DIR/partitions"
	between h2 h3 ib_send_bw -n 100 -F --pkey_index=1
	run between h3 h4 ib_send_bw -n 100 -F --pkey_index=1
	[ "$status" != 0 ]
	violations() { on h1 smpquery portinfo "$(lid_of "$1")" 1 | sed -n 's/^PkeyViolations:\.*//p'; }
	[ "$(($(violations h3) + $(violations h4)))" -gt 0 ]
	await grep -q 'num:257 (Bad P_Key)' "$XDG_RUNTIME_DIR/h1.log"
}

# arm_h3: its port is Armed, the switch's Active.
arm_h3() {
	on h3 ibportstate -D 0 1 down
	on h3 ibportstate -D 0 1 arm
	on h3 ibportstate -D 0,1 1 arm
	on h3 ibportstate -D 0,1 1 active
	on h3 ibstat | grep -q 'State: Armed'
}

@test "an Armed port becomes Active by the first packet, and its programs are told" {
	managed h1
	alone
	in_background events h3 stdbuf -oL ibv_asyncwatch
	await grep -q 'async event FD' "$XDG_RUNTIME_DIR/events"
	arm_h3
	between h3 h2 ibv_rc_pingpong
	on h3 ibstat | grep -q 'State: Active'
	await grep -q 'IBV_EVENT_PORT_ACTIVE ' "$XDG_RUNTIME_DIR/events"
	arm_h3
	between h3 h2 ibv_uc_pingpong -n 1
	on h3 ibstat | grep -q 'State: Active'
}

@test "events reach a program that sleeps" {
	managed h1
	in_background events h2 stdbuf -oL ibv_asyncwatch
	await grep -q 'async event FD' "$XDG_RUNTIME_DIR/events"
	said() { [ "$(grep -c "IBV_EVENT_$1 " "$XDG_RUNTIME_DIR/events")" -ge "$2" ]; }
	"$URXE" fabric link leaf1 2 down
	await said PORT_ERR 1
	"$URXE" fabric link leaf1 2 up
	await said PORT_ACTIVE 1
	# Another manager takes over.
	"$URXE" run --host h3 -- opensm -F "$XDG_RUNTIME_DIR/opensm.conf" -f "$XDG_RUNTIME_DIR/h3.log" \
		</dev/null >/dev/null 2>&1 3>&- &
	started+=($!)
	await grep -q 'Entering STANDBY' "$XDG_RUNTIME_DIR/h3.log"
	kill -KILL "${started[0]}"
	await said SM_CHANGE 1
	await said CLIENT_REREGISTER 1
	# The power goes, and comes back.
	"$URXE" fabric down
	await said PORT_ERR 2
	"$URXE" fabric up "$BATS_TEST_DIRNAME/fabric-ring.topo"
	await said PORT_ACTIVE 2
}

@test "an event of a port tells of what queries say from then on" {
	in_background asleep h4 "$URXE_BIN/verbs_fabric" sleep
	in_background watch h4 stdbuf -oL ibv_asyncwatch
	await grep -q asleep "$XDG_RUNTIME_DIR/asleep"
	await grep -q 'async event FD' "$XDG_RUNTIME_DIR/watch"
	# told EVENT ATTRIBUTES: to a program that sleeps, where it asks at once, and to asyncwatch.
	told() {
		await grep -q "^$1 port=1 .*$2" "$XDG_RUNTIME_DIR/asleep"
		await grep -q "IBV_EVENT_$1 " "$XDG_RUNTIME_DIR/watch"
	}
	# No manager yet.
	on h4 ibportstate -D 0 1 lid 77
	told LID_CHANGE 'state=2 lid=77'
	on h4 ibportstate -D 0 1 smlid 9
	told SM_CHANGE 'lid=77 sm=9'
	printf '%s\n' 'subnet_prefix 0xfe80000000001234' >>"$XDG_RUNTIME_DIR/opensm.conf"
	echo 'Part=0x8001 : ALL=full;' >"$XDG_RUNTIME_DIR/partitions"
	managed h1 -P "$XDG_RUNTIME_DIR/partitions"
	told GID_CHANGE prefix=fe80000000001234
	told PKEY_CHANGE pkey=8001
	told SM_CHANGE "sm=$(lid_of h1)"
	told CLIENT_REREGISTER "lid=$(lid_of h4)"
	told PORT_ACTIVE state=4
	"$URXE" fabric link leaf2 2 down
	told PORT_ERR state=1
}

@test "what programs share goes with the fabric, or with the last of them" {
	local shm=$XDG_RUNTIME_DIR/shm
	in_background killed h2 "$URXE_BIN/verbs_fabric" sleep
	await grep -q asleep "$XDG_RUNTIME_DIR/killed"
	alone
	[ "$(find "$shm" -type f | wc -l)" -gt 1 ]
	"$URXE" fabric down
	[ -z "$(ls "$shm")" ]
	up "$BATS_TEST_DIRNAME/fabric-ring.topo"
	mkfifo "$XDG_RUNTIME_DIR/input"
	"$URXE" run --host h2 -- "$URXE_BIN/verbs_fabric" stay <"$XDG_RUNTIME_DIR/input" 3>&- &
	started+=($!)
	exec 9>"$XDG_RUNTIME_DIR/input"
	used() { [ -n "$(ls "$shm")" ]; }
	await used
	"$URXE" fabric down
	used
	exec 9>&-
	wait "${started[-1]}"
	[ -z "$(ls "$shm")" ]
}

@test "what programs shared of a fabric that was killed goes with urxe fabric down" {
	local shm=$XDG_RUNTIME_DIR/shm
	"$URXE" fabric down
	"${URXE%/*}/daemons/fabricd/fabricd" "$BATS_TEST_DIRNAME/fabric-ring.topo" 3>&- &
	started+=($!)
	await "$URXE" fabric show
	"$URXE" run --host h2 -- "$URXE_BIN/verbs_fabric" stay </dev/null
	kill -KILL "${started[0]}"
	wait "${started[0]}" || true
	[ "$(find "$shm" -type f | wc -l)" -gt 0 ]
	"$URXE" fabric down
	[ -z "$(ls "$shm")" ]
	[ -z "$(find "$XDG_RUNTIME_DIR/urxe-fabric" -type s)" ]
	run "$URXE" fabric down
	echo "$output"
	[ "$status" = 1 ]
	[[ $output == *'is not up'* ]]
}

# migrating CASE [COUNT]: verbs_path_migration at h1 and h2, whose paths are the two planes.
migrating() {
	PEER="$URXE run --host h2 -- $URXE_BIN/verbs_path_migration" timeout 90 \
		"$URXE" run --host h1 -- "$URXE_BIN/verbs_path_migration" "$@"
}

in_planes() {
	"$URXE" fabric down
	up "$BATS_TEST_DIRNAME/fabric-planes.topo"
	managed h3
}

@test "a link goes down under traffic, and QPs migrate to their other port" {
	local plane2
	in_planes
	alone
	CUT="$URXE fabric link plane1 2 down" migrating cut | grep 'to path 1, port 2'
	plane2=$(on h3 ibswitches | sed -n 's/.*"plane2".* lid \([0-9]*\) lmc.*/\1/p')
	[ "$(on h3 perfquery -x "$plane2" 1 | sed -nE 's/^PortRcvPkts:\.*//p')" -gt 300 ]
}

@test "and back, when the link is up again" {
	in_planes
	HEAL="$URXE fabric link plane1 1 up && until $URXE run --host h1 -- ibv_devinfo -i 1 |
			grep -q PORT_ACTIVE; do sleep 0.05; done" \
	CUT="$URXE fabric link plane1 1 down" CUT_TOO="$URXE fabric link plane2 1 down" migrating back
}

@test "with both links down QPs end by their retries" {
	in_planes
	alone
	CUT="$URXE fabric link plane1 2 down" CUT_TOO="$URXE fabric link plane2 1 down" migrating spent
}

@test "QPs migrate between ports and LIDs, over and over, with packets that are lost" {
	in_planes
	"$URXE" fabric errors plane1 1 --loss 2%
	migrating cycle 100
}

@test "QPs migrate between the LIDs that a port has by its LMC" {
	managed h3 -l 1
	migrating cycle 20
}

# Neither end of ib_send_bw leaves before the other one has its last acknowledgement.
@test "corrupted and lost packets are sent again, and counted" {
	managed h1
	"$URXE" fabric errors leaf2 1 --symbol 2%
	between h2 h3 ib_send_bw -b -s 4096 -n 500
	[ "$(on h1 perfquery "$(lid_of h3)" 1 | sed -n 's/^SymbolErrorCounter:\.*//p')" -gt 0 ]
	"$URXE" fabric errors leaf2 1 --symbol 0
	"$URXE" fabric errors leaf2 1 --loss 2%
	between h2 h3 ib_send_bw -b -s 4096 -n 500
}

# fastest PROGRAM: half of the quickest round trip between h2 and h3, in whole microseconds.
fastest() {
	between h2 h3 "$1" -s 8 -n 20 -F | awk '$1 == 8 && $2 == 20 && !done { print int($3); done = 1 }'
}

@test "delays of the links on the way add up, and messages stay in order" {
	managed h1
	local n addresses=() wanted=() to
	"$URXE" fabric errors leaf2 1 --delay 5ms
	"$URXE" fabric errors h3 1 --delay 3ms
	"$URXE" fabric show leaf2 | grep -q '^ *1 .* delay 5000us$'
	[ "$(fastest ib_send_lat)" -ge 4000 ]
	[ "$(fastest ib_write_lat)" -ge 4000 ]
	"$URXE" fabric errors h3 1 --delay 0
	[ "$(fastest ib_write_lat)" -ge 2500 ]
	in_background taken h3 "$URXE_BIN/verbs_fabric" take 16
	await grep -q . "$XDG_RUNTIME_DIR/taken"
	to=$(head -n 1 "$XDG_RUNTIME_DIR/taken" | tr ' ' :)
	for n in {1..16}; do
		addresses+=("$to:text$n")
		wanted+=("text$n")
	done
	on h2 "$URXE_BIN/verbs_fabric" give "${addresses[@]}"
	wait "${started[-1]}"
	[ "$(tail -n +2 "$XDG_RUNTIME_DIR/taken" | cut -d ' ' -f 1 | tr '\n' ' ')" = "${wanted[*]} " ]
	"$URXE" fabric errors leaf2 1 --delay 0
	"$URXE" fabric show leaf2 >"$XDG_RUNTIME_DIR/show"
	run grep delay "$XDG_RUNTIME_DIR/show"
	[ "$status" = 1 ]
	between h2 h3 ibv_rc_pingpong -c -n 500
}

# mpi N OPTION…: tests/apps/ucx-mpi by Open MPI, rank n on host n of a fat tree.
mpi() {
	"$URXE" fabric down
	generated fat-tree levels=2 ports=4
	managed h0
	cat >"$XDG_RUNTIME_DIR/rank" <<-'END'
		#!/bin/sh
		exec "$URXE" run --host "h$OMPI_COMM_WORLD_RANK" -- "$@"
	END
	chmod +x "$XDG_RUNTIME_DIR/rank"
	export URXE
	TMPDIR=$BATS_TEST_TMPDIR OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 \
		isolated timeout 120 mpirun.openmpi -n "$1" --oversubscribe --mca plm isolated \
		--mca mpi_yield_when_idle 1 "${@:2}" "$XDG_RUNTIME_DIR/rank" "$BATS_TEST_DIRNAME/ucx-mpi"
}

@test "UCX and Open MPI find the devices: eight ranks on eight hosts" {
	UCX_TLS=rc_v,ud_v,self mpi 8 --mca pml ucx --mca osc ucx --mca btl self
	[ "$(on h2 ucx_info -d | grep -c 'Transport: [ru][cd]_verbs')" = 2 ]
}

# It connects by datagrams of its own, knows peers by their LIDs, and writes short messages to memory
# that its peer polls.
@test "Open MPI's own verbs layer, openib: receive queues of each peer and shared ones" {
	mpi 4 --mca pml ob1 --mca btl openib,self --mca btl_openib_allow_ib 1 --mca mpi_warn_on_fork 0 \
		--mca btl_openib_warn_no_device_params_found 0 \
		--mca btl_openib_receive_queues P,128,64,32,32:S,65536,64,32,32
}

@test "a program without a descriptor for its counters says so, and goes on" {
	local memfd_create=319 deny=${URXE_BIN:-${URXE%/*}/tests/apps}/deny
	[ "$HOSTTYPE" = x86_64 ] || memfd_create=279
	managed h1
	isolated "$top/tests/guest/bin/pair" -t 60 "$URXE" run --host h1 -- ibv_rc_pingpong -n 20 :: \
		"$URXE" run --host h2 -- "$deny" 24 $memfd_create -- ibv_rc_pingpong -n 20 127.0.0.1 \
		>"$XDG_RUNTIME_DIR/said" 2>&1
	cat "$XDG_RUNTIME_DIR/said"
	[ "$(grep -c "the fabric's counters miss what this process sends: Too many open files" "$XDG_RUNTIME_DIR/said")" = 1 ]
}
