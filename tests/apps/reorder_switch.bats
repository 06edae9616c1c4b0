#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# urxe-switch between real endpoints: urxe on TAP interfaces of hosts in namespaces of their own, as an
# ordinary user. What the NICs see of flows that are moved in their middle, with reordering and without.

setup() {
	unshare -Urnmpf --mount-proc sh -c '[ -w /dev/net/tun ] && ip tuntap add probe mode tap' 2>/dev/null ||
		skip "no TAP interfaces in a user namespace"
	conf=$BATS_TEST_TMPDIR/switch.conf
	cat >"$conf" <<-END
		leaf leaf1 leaf2
		spine spine1 spine2
		port leaf1 tap tapa
		port leaf2 tap tapb
		slower spine2 300us
	END
}

hosts() { # SWITCH-OPTION... -- SCRIPT
	local options=()
	while [ "$1" != -- ]; do
		options+=("$1")
		shift
	done
	export HERE=$BATS_TEST_DIRNAME
	timeout 200 "$HERE/reorder-hosts" "$conf" "${options[@]}" -- bash -euc "$2"
}

@test "flows moved every 50 packets reach the NIC in order" {
	hosts -o "reroute_every 50" -- '
		bw -s 65536 -n 1000
		ctl show
		[ $(count reroutes) -gt 50 ]
		[ $(count held) -gt 50 ]
		[ $(count late) -eq 0 ]
		[ $(urxe_count b out_of_seq_request) -eq 0 ]
		[ $(urxe_count a rcvd_seq_err) -eq 0 ]'
}

@test "without reordering the NIC takes them for lost" {
	hosts --no-reorder -- '
		still=$(bw -s 65536 -n 1000)
		[ $(urxe_count a rcvd_seq_err) -eq 0 ]
		ctl reroute 50
		moved=$(bw -s 65536 -n 1000)
		echo "goodput $still, with moves $moved"
		[ $(urxe_count a rcvd_seq_err) -gt 0 ]
		[ $(count held) -eq 0 ]'
}

@test "rping by IPv4 and IPv6, with a path MTU of 1024 and of 4096" {
	hosts -o "reroute_every 50" -- '
		bound() { b "$URXE" listeners | grep -q "LISTEN  *$1 "; }
		for to in 10.9.0.2 fd09::2; do
			LD_PRELOAD=${URXE%/*}/tests/apps/rdmacm_channel.so b timeout 60 "$URXE" run -- rping -s -a $to -C 50 -v -S 4000 >/dev/null &
			until_true bound 7174
			a timeout 60 "$URXE" run -- rping -c -a $to -C 50 -v -V -S 4000 >/dev/null
			wait $!
		done
		bw -m 1024 -s 20000 -n 200
		bw -m 4096 -s 20000 -n 200
		[ $(urxe_count a rcvd_seq_err) -eq 0 ]'
}

@test "frames arrive as they were sent, and with a valid ICRC" {
	command -v dumpcap >/dev/null || skip "no tshark"
	hosts -o "reroute_every 20" -- '
		dir=$(mktemp -d)
		a timeout 60 dumpcap -q -P -i tapa -w $dir/a -B 16 -f "udp port 4791" 2>/dev/null & ta=$!
		b timeout 60 dumpcap -q -P -i tapb -w $dir/b -B 16 -f "udp port 4791" 2>/dev/null & tb=$!
		until_true [ -s $dir/a ]
		until_true [ -s $dir/b ]
		bw -s 4096 -n 300 -Q 1
		captured() { [ "$(tshark -r $dir/$1 | wc -l)" -ge "$(count roce)" ]; }
		until_true captured a
		until_true captured b
		kill -INT $(pgrep -x dumpcap)
		wait $ta $tb
		for end in a b; do
			tshark -r $dir/$end -T fields -e udp.payload 2>/dev/null | sort >$dir/$end.payload
			"$HERE/capture-check" $dir/$end
		done
		[ $(wc -l <$dir/a.payload) -gt 300 ]
		cmp $dir/a.payload $dir/b.payload
		rm -r $dir'
}

@test "marks change nothing but ECN, and a queue on a slow link makes them" {
	hosts -o "rate 200M" -o "mark_min 10" -o "mark_max 40" -o "mark_all yes" -- '
		bw -s 65536 -n 200
		ctl show
		[ $(count marks) -gt 10 ]
		[ $(count malformed) -eq 0 ]'
}

@test "a spine that dies under load leaves no flow stuck" {
	hosts -- '
		{ bw -s 65536 -n 3000 >/dev/null; echo done; } >'"$BATS_TEST_TMPDIR"'/out &
		forwarded() { [ $(count roce) -gt $1 ]; }
		until_true forwarded 5000
		ctl down spine1
		until_true forwarded $(($(count roce) + 2000))
		ctl up spine1
		ctl down spine2
		wait $!
		ctl show
		grep done '"$BATS_TEST_TMPDIR"'/out
		[ $(count spines_up) -eq 1 ]'
}

@test "PFC stops links before they drop" {
	hosts -o "rate 300M" -o "host_rate 100M" -o "xoff 64" -o "buffer 4096" -- '
		bw -s 65536 -n 150
		ctl show
		[ $(count drops) -eq 0 ]
		[ $(count malformed) -eq 0 ]'
}

@test "a TAP interface that is deleted costs its host alone" {
	hosts -- '
		a ip link delete tapa
		before=$(awk "{ print \$14 + \$15 }" /proc/$SWITCH_PID/stat)
		sleep 1
		spent=$(($(awk "{ print \$14 + \$15 }" /proc/$SWITCH_PID/stat) - before))
		echo "$spent ticks of the CPU in a second"
		[ $spent -lt 30 ]
		ctl ports | grep tapb'
}

@test "a host that does not read its socket is waited for, and what is longer than a frame is dropped" {
	cat >"$BATS_TEST_TMPDIR/switch.conf" <<-END
		leaf leaf1 leaf2
		spine spine1
		port leaf1 unix $BATS_TEST_TMPDIR/a $BATS_TEST_TMPDIR/host-a
		port leaf2 unix $BATS_TEST_TMPDIR/b $BATS_TEST_TMPDIR/host-b
	END
	"$BATS_TEST_DIRNAME/switch_sockets.py" "$BATS_TEST_TMPDIR" slow
}

@test "a host with more addresses than the switch can know has no other's frames sent to all" {
	cat >"$BATS_TEST_TMPDIR/switch.conf" <<-END
		leaf leaf1 leaf2
		spine spine1
		port leaf1 unix $BATS_TEST_TMPDIR/a $BATS_TEST_TMPDIR/host-a
		port leaf2 unix $BATS_TEST_TMPDIR/b $BATS_TEST_TMPDIR/host-b
		port leaf2 unix $BATS_TEST_TMPDIR/c $BATS_TEST_TMPDIR/host-c
	END
	"$BATS_TEST_DIRNAME/switch_sockets.py" "$BATS_TEST_TMPDIR" macs
}

@test "no file and no socket of a running switch makes way for a port's" {
	echo precious >"$BATS_TEST_TMPDIR/a"
	run "${URXE%/*}/daemons/urxe-switch/urxe-switch" "$conf" -o "port leaf1 unix $BATS_TEST_TMPDIR/a $BATS_TEST_TMPDIR/b"
	echo "$output"
	[ "$status" -eq 1 ]
	[ "$(cat "$BATS_TEST_TMPDIR/a")" = precious ]
}

@test "counters for Prometheus, and a word for what is wrong" {
	hosts -o "metrics_listen 127.0.0.1:9877" -- '
		ip link set lo up
		until_true curl -s http://127.0.0.1:9877/metrics
		curl -s http://127.0.0.1:9877/metrics | grep "^urxe_switch_spines_up 2"
		ctl ports | grep tapb
		! ctl down spine9'
	for bad in 'port leaf9 tap x' 'rate 7' 'spine spine1' 'slower spine9 1ms' 'hold 0us' 'port leaf1 tap' \
		'mark_max 1' 'what 3'; do
		run "${URXE%/*}/daemons/urxe-switch/urxe-switch" "$conf" -o "$bad"
		echo "$output"
		[ "$status" -eq 1 ]
	done
}

# typed PATTERN COMMAND...: runs it on a terminal, where ^C is typed when it has printed that.
typed() {
	timeout 40 python3 -c '
import os, pty, sys
def read(fd):
    data = os.read(fd, 1024)
    if sys.argv[1].encode() in data:
        os.write(fd, b"\x03")
    return data
sys.exit(os.waitstatus_to_exitcode(pty.spawn(sys.argv[2:], read)))' "$@" </dev/null
}

@test "^C ends hosts that exchange data" {
	export HERE=$BATS_TEST_DIRNAME
	run typed exchanging "$HERE/reorder-hosts" "$conf" -- bash -euc '
		exchange() { [ $(count roce) -gt 1000 ]; }
		(until_true exchange && echo exchanging) &
		bw -s 65536 -D 50'
	echo "status $status: $output"
	[ "$status" -eq 130 ]
}

@test "the tour shows what it promises" {
	TOUR_PLOT=$BATS_TEST_TMPDIR/plot.svg timeout 200 "$BATS_TEST_DIRNAME/../../examples/leaf-spine/tour" >"$BATS_TEST_TMPDIR/out"
	cat "$BATS_TEST_TMPDIR/out"
	grep -q 'shared, 1 queue' "$BATS_TEST_TMPDIR/out"
	[ "$(grep -c 'sequence errors at the NIC  0$' "$BATS_TEST_TMPDIR/out")" -eq 1 ]
	grep -q '<polyline' "$BATS_TEST_TMPDIR/plot.svg"
}
