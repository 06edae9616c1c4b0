#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# inbandd on InfiniBand: a virtual fabric with OpenSM, and ibsim; infiniband-diags are the judges.

load fabric.bash

INBANDD=${URXE%/*}/daemons/inbandd/inbandd
INBANDCTL=${URXE%/*}/daemons/inbandctl/inbandctl

# serve_on HOST SETTING…: an inbandd there as $daemon, which has discovered what there is, with its page at $url.
serve_on() {
	local options=() setting log=$XDG_RUNTIME_DIR/inbandd.log
	for setting in 'network infiniband' "control_socket $XDG_RUNTIME_DIR/control" 'http_listen 127.0.0.1' "${@:2}"; do
		options+=(-o "$setting")
	done
	"$URXE" run --host "$1" -- "$INBANDD" -c /dev/null "${options[@]}" >"$log" 2>&1 </dev/null 3>&- &
	daemon=$!
	started+=("$daemon")
	await grep -q "of the network's time" "$log"
	url=$(grep -o 'http://.*' "$log")
}

ctl() {
	timeout 60 "$INBANDCTL" --socket "$XDG_RUNTIME_DIR/control" "$@"
}

@test "702 nodes are found as ibnetdiscover finds them, and 200 traces are ibtracert's" {
	"$URXE" fabric generate fat-tree levels=2 ports=36 >"$XDG_RUNTIME_DIR/702.topo"
	up "$XDG_RUNTIME_DIR/702.topo"
	managed h5
	serve_on h17
	ON="$URXE run --host h9 --" python3 "$BATS_TEST_DIRNAME/inband_ib.py" "$XDG_RUNTIME_DIR/control" "$url" same traces
}

@test "a cut link is one alarm as soon as OpenSM says so, until it is mended" {
	"$URXE" fabric generate fat-tree levels=2 ports=8 >"$XDG_RUNTIME_DIR/tree.topo"
	up "$XDG_RUNTIME_DIR/tree.topo"
	managed h0
	serve_on h3 'sweep 0' 'hold_down 100'
	ctl watch >"$XDG_RUNTIME_DIR/watch.log" 2>&1 3>&- &
	started+=($!)
	await grep -q watching "$XDG_RUNTIME_DIR/watch.log"
	"$URXE" fabric link L0 6 down
	await grep -q '^raised.*link L0:6 to S1:1' "$XDG_RUNTIME_DIR/watch.log"
	run ctl alarms
	[ "$status" -eq 5 ]
	[ "$(grep -c ' link ' <<<"$output")" -eq 1 ]
	"$URXE" fabric link L0 6 up
	await grep -q '^cleared' "$XDG_RUNTIME_DIR/watch.log"
}

@test "what InfiniBand's devices do not have is said, and counters are there" {
	"$URXE" fabric generate fat-tree levels=2 ports=8 >"$XDG_RUNTIME_DIR/tree.topo"
	up "$XDG_RUNTIME_DIR/tree.topo"
	managed h0
	serve_on h3
	run ctl trace h1 h9
	[ "$status" -eq 0 ]
	[[ $output == *h9*arrived ]]
	run ctl read L0 4
	[ "$status" -eq 1 ]
	[[ $output == *'does not have that'* ]]
	run ctl bist L0:5
	[ "$status" -eq 1 ]
	[[ $output == *'does not have that'* ]]
	run ctl routes
	[ "$status" -eq 1 ]
	[[ $output == *'does not have that'* ]]
	run ctl scan
	[[ $output == *'12 switches'* ]]
	run curl -sS --noproxy '*' "$url/api/device?chip=L0"
	[[ $output == *'"received words"'* ]]
	run curl -sS --noproxy '*' "$url/api/table?chip=L0"
	[[ $output == *'"list":[['* ]]
	run curl -sS --noproxy '*' "$url/api/registers?chip=L0"
	[[ $output == *'does not have that'* ]]
}

@test "ports beyond 64 of large switches are seen, and traces lead over them" {
	cat >"$XDG_RUNTIME_DIR/big.topo" <<-END
		Switch 80 "S-0000000000000a01" # "big1"
		[1] "H-0000000000000b01"[1]
		[70] "H-0000000000000b02"[1]
		[80] "S-0000000000000a02"[65]

		Switch 80 "S-0000000000000a02" # "big2"
		[65] "S-0000000000000a01"[80]
		[79] "H-0000000000000b03"[1]

		Ca 1 "H-0000000000000b01" # "a"
		[1] "S-0000000000000a01"[1]

		Ca 1 "H-0000000000000b02" # "b"
		[1] "S-0000000000000a01"[70]

		Ca 1 "H-0000000000000b03" # "c"
		[1] "S-0000000000000a02"[79]
	END
	up "$XDG_RUNTIME_DIR/big.topo"
	managed a
	serve_on a
	run ctl trace b c
	echo "$output"
	[ "$status" -eq 0 ]
	[[ $output == *'in 70 out 80'*'in 65 out 79'*arrived ]]
	run ctl show big2
	[[ $output == *'79  up'*c:1* ]]
	run ctl scan
	[[ $output == *'2 switches'* ]]
}

# Of each switch and each end: the port by which it is reached.
routes_in() {
	awk '/ of switch/ { match($0, /guid 0x[0-9a-f]+/); at = substr($0, RSTART + 5, RLENGTH - 5) }
		/portguid/ { match($0, /portguid 0x[0-9a-f]+/); print at, substr($0, RSTART + 9, RLENGTH - 9), $2 }' "$@" | sort
}

@test "OpenSM loads the routes that were exported for its file engine" {
	generated fat-tree levels=2 ports=8
	serve_on h3
	ctl export routes "$XDG_RUNTIME_DIR/routes"
	[ "$(grep -c '^Unicast' "$XDG_RUNTIME_DIR/routes")" -eq 12 ]
	managed h0 -R file -U "$XDG_RUNTIME_DIR/routes"
	on h5 dump_lfts >"$XDG_RUNTIME_DIR/loaded"
	routes_in "$XDG_RUNTIME_DIR/routes" >"$XDG_RUNTIME_DIR/wanted"
	[ "$(wc -l <"$XDG_RUNTIME_DIR/wanted")" -eq $((12 * (12 + 32))) ]
	routes_in "$XDG_RUNTIME_DIR/loaded" | diff - "$XDG_RUNTIME_DIR/wanted"
	run ctl trace h1 h30
	[ "$status" -eq 0 ] && [[ $output == *arrived ]]
}

@test "a subnet of ibsim's is found as ibnetdiscover finds it, without a subnet manager" {
	[ -x "$(command -v ibsim)" ] || skip "ibsim is not installed"
	unshare -Urn true 2>/dev/null || skip "no namespaces for ibsim's sockets"
	"${URXE%/*}/inband/sim/thsim" --machine tree:4,6,2,8 --topology "$XDG_RUNTIME_DIR/topology"
	run timeout 120 unshare -Urn "$BATS_TEST_DIRNAME/inband-ibsim" "$XDG_RUNTIME_DIR" "$INBANDD" N.1 N.2
	echo "$output"
	[ "$status" -eq 0 ] && [[ $output == *' devices, '*' links'* ]]
}

@test "inbandd says what is the matter where there is no InfiniBand port" {
	run "$INBANDD" -c /dev/null -o 'network infiniband' -o "control_socket " -o 'http_listen ' -o 'ib_port nobody_0:1'
	[ "$status" -eq 1 ] && [[ $output == *ib_port* ]]
}
