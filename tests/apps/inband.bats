#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# In-band management: thsim, inbandd before it, and inbandctl.

load inband

INBANDCTL=${URXE%/*}/daemons/inbandctl/inbandctl

# serve SETTING…: an inbandd as $daemon, which has discovered what there is.
serve() {
	start_inbandd "http_listen " "$@"
}

ctl() {
	timeout 60 "$INBANDCTL" --socket "$dir/control" "$@"
}

tell() {
	"$THSIM" --tell "$*"
}

# watch: alarms go to $dir/watch from now on.
watch() {
	ctl watch >"$dir/watch" 2>&1 3>&- &
	watcher=$!
	pids+=("$watcher")
	says "$dir/watch" watching "$watcher"
}

@test "thsim counts Tianhe-2's chips, cables and hops as the paper does" {
	run "$THSIM" --machine th2 --count
	[ "$status" -eq 0 ]
	[[ $output == *'NRC    5856'* && $output == *'NIC    18304'* && $output == *'cables 46080'* ]]
	[ "$(awk '$1 ~ /^[0-8]$/ { print $2 }' <<<"$output" | xargs)" = "1 2 23 262 964 1248 1556 600 1200" ]
}

@test "thsim prints the fields of a management packet" {
	run "$THSIM" --fields
	[ "$status" -eq 0 ]
	[[ $output == *FRoutingField*105* && $output == *NMPType*6* && $output == *TransactionID*16* ]]
}

@test "a machine that is written as a file is the same when it is read" {
	"$THSIM" --machine tree:2,3,2,4 --write "$dir/machine"
	[ "$("$THSIM" --machine tree:2,3,2,4 --count)" = "$("$THSIM" --machine "$dir/machine" --count)" ]
}

@test "thsim says what is wrong with its options" {
	run "$THSIM" --machine "$dir/none" --count
	[ "$status" -eq 1 ] && [[ $output == *'No such file'* && $output == *th2* ]]
	run "$THSIM" --machine tree:2,3,2,4 --fault swap=1000
	[ "$status" -eq 1 ]
	[[ $output == *'more than this machine has'* ]]
	run "$THSIM" --credits 0
	[ "$status" -eq 2 ]
	[[ $output == *'out of range'* ]]
	run "$THSIM" --tell stats
	[ "$status" -eq 1 ] && [[ $output == *'no thsim listens'* ]]
}

@test "Tianhe-2 is discovered and is as planned" {
	machine
	serve 'plan th2'
	run ctl status
	[ "$status" -eq 0 ]
	[[ $output == *'5856 switches, 18305 nodes, 68993 links'* ]]
	run ctl check
	[ "$status" -eq 0 ]
	[[ $output == *'as planned'* ]]
	run ctl discover
	[ "$status" -eq 0 ] && [[ $output == *'5856 switches'* ]]
}

@test "check names what is broken, by chip and port and by where it is" {
	machine --fault swap=5,cut=3,dark=2 --seed 4
	serve
	run ctl check th2
	[ "$status" -eq 5 ]
	[[ $output == *'10 differences'* && $output == *'exchange the cables at cabinet'*QSFP* ]]
	# Ends of a swap in either order.
	diff <(awk '/^[a-z]+ [SN]\./ { for (i = 2; i <= NF; i++) print $1, $i }' <<<"$output" | sort) \
		<(tell truth | awk '{ for (i = 2; i <= NF; i++) print $1, $i }' | sort)
	run ctl check "$dir/none"
	[ "$status" -eq 1 ] && [[ $output == *'No such file'* ]]
}

@test "a trace follows the switches' tables and says where they end" {
	machine --routes
	serve 'plan th2'
	run ctl trace 17 18003
	[ "$status" -eq 0 ]
	[[ $output == *S.root.*'8 lanes'*N.18003*arrived ]]
	[ "$(grep -c ' out ' <<<"$output")" -eq 9 ]
	run ctl trace 17 99999
	[ "$status" -eq 1 ]
	[[ $output == *'not been found'* ]]
	[[ $(tell walk 10000) == *', at most 9 hops'* ]]
}

@test "registers are read and written, and refusals are told" {
	machine --machine tree:2,3,2,4
	serve 'plan tree:2,3,2,4'
	ctl write S.leaf.1.0 4 0x1234
	[ "$(ctl read S.leaf.1.0 4)" = 0x0000000000001234 ]
	run ctl read S.leaf.1.0 0x7fff
	[ "$status" -eq 1 ]
	[[ $output == *'the chip refuses'* ]]
	run ctl write S.leaf.1.0 0 1
	[ "$status" -eq 1 ]
	[[ $output == *'the chip refuses'* ]]
	run ctl read S.leaf.9.9 0
	[ "$status" -eq 1 ]
	[[ $output == *'not been found'* ]]
	run ctl read S.leaf.1.0 zero
	[ "$status" -eq 2 ]
	run ctl show S.leaf.1.0
	[ "$status" -eq 0 ] && [[ $output == *S.bottom.* && $output == *S.root.* ]]
}

@test "a scan compares, and lists the link that sends again" {
	machine --machine tree:2,3,2,4
	serve 'plan tree:2,3,2,4'
	run ctl scan
	[ "$status" -eq 0 ]
	[[ $output == *'20 switches'*' 0 retries'* ]]
	tell degraded S.bottom.0.0.0:8
	tell degraded S.bottom.0.0.4:10
	run ctl scan --compare 0.01
	echo "$output"
	[ "$status" -eq 4 ]
	[[ $output == *S.bottom.0.0.0:8* ]]
}

@test "a cut link is one alarm, from both its ends, until it is mended" {
	machine
	serve 'plan th2' 'hold_down 100'
	watch
	tell cut S.leaf.3.7:4
	says "$dir/watch" '^raised' "$watcher"
	run ctl alarms
	[ "$status" -eq 5 ]
	[ "$(grep -c ' link ' <<<"$output")" -eq 1 ]
	[[ $output == *'S.leaf.3.7:4 to S.bottom.10.0.4:7'*'no light at either end'* ]]
	ctl ack 1
	tell mend S.leaf.3.7:4
	says "$dir/watch" '^cleared' "$watcher"
	run ctl alarms
	[ "$status" -eq 0 ]
	[[ $output == *'no alarms'* ]]
	[ "$(grep -c '^raised' "$dir/watch")" -eq 1 ]
}

@test "a dead root switch is one alarm and not 48, and is heard again when it is back" {
	machine
	serve 'plan th2' 'hold_down 100' 'hold 50'
	watch
	tell dead S.root.3
	says "$dir/watch" '^raised.*switch S.root.3:' "$watcher"
	run ctl alarms
	[ "$status" -eq 6 ]
	[ "$(grep -c critical <<<"$output")" -eq 1 ]
	! grep -q ' link ' <<<"$output" || false
	tell mend S.root.3
	says "$dir/watch" '^cleared.*switch S.root.3:' "$watcher"
	tell cut S.root.3.0:5
	says "$dir/watch" '^raised.*link S.*no light at either' "$watcher"
	[ "$(grep -c '^raised' "$dir/watch")" -eq 2 ]
}

@test "inbandd ends when thsim does, and says so" {
	machine --machine tree:2,3,2,4
	serve
	kill "$sim"
	says "$dir/log" 'thsim has ended' "$daemon"
	local ended=0
	wait "$daemon" || ended=$?
	[ "$ended" -eq 1 ]
	run ctl status
	[ "$status" -eq 3 ]
	[[ $output == *'is it running'* ]]
	run "$INBANDD" -c /dev/null -o "control_socket $dir/control"
	[ "$status" -eq 1 ] && [[ $output == *'start thsim'* ]]
}

@test "lost and doubled packets cost time and nothing else" {
	machine --machine tree:4,6,2,8 --fault loss=2%,dup=2% --seed 3
	serve 'plan tree:4,6,2,8'
	run ctl check
	[ "$status" -eq 0 ]
	[[ $output == *'as planned'* ]]
	[[ $(ctl status) != *' 0 sent again'* ]]
}

@test "routes are loaded, lead everywhere, and follow what breaks" {
	machine --machine tree:3,4,2,8
	serve 'plan tree:3,4,2,8' 'reroute 1'
	[[ $(tell walk 1000) != *' 0 lost'* ]]
	run ctl routes
	[ "$status" -eq 0 ]
	[[ $output == *'load 1: '*' switches written'* ]]
	[[ $(tell walk 10000) == *' 0 lost, at most 7 hops' ]]
	tell dead S.root.2.0
	tell cut S.leaf.1.1:2
	says "$dir/log" 'load 2: routes' "$daemon"
	[[ $(tell walk 10000) == *' 0 lost, at most 7 hops' ]]
	run ctl trace 8 90
	[ "$status" -eq 0 ] && [[ $output == *arrived ]]
}

@test "a load that a killed inbandd has left is ended by the next" {
	machine --machine tree:3,4,2,8
	serve 'plan tree:3,4,2,8' 'window 1'
	ctl routes >"$dir/routes" 2>&1 3>&- &
	local client=$! tries
	until [ "$(tell stats | grep -o '"nrc_requests":[0-9]*' | cut -d: -f2)" -gt 3000 ]; do
		kill -0 "$client"
	done
	kill -KILL "$daemon"
	wait "$client" || true
	[[ $(tell walk 1000) != *' 0 lost'* ]]
	serve 'plan tree:3,4,2,8'
	says "$dir/log" 'begun in .* switches and not ended' "$daemon"
	says "$dir/log" 'load 2: routes' "$daemon"
	[[ $(tell walk 10000) == *' 0 lost, at most 7 hops' ]]
}

@test "a self-test tells a bad link from a good one, and is refused where the server's ways lead" {
	machine --machine tree:2,3,2,4
	serve 'plan tree:2,3,2,4'
	run ctl bist S.bottom.0.0.0:9 --seconds 10
	[ "$status" -eq 0 ]
	[[ $output == *'done, 0 packets of 1.12e+12 bits'* ]]
	tell degraded S.bottom.0.0.0:9
	run ctl bist S.bottom.0.0.0:9 --intensity 10
	[ "$status" -eq 5 ]
	[[ $output != *'this end : done, 0 packets'* ]]
	run ctl bist S.bottom.0.0.0:8
	[ "$status" -eq 1 ]
	[[ $output == *'ways of the server'* ]]
	run ctl bist S.bottom.0.0.0:0
	[ "$status" -eq 1 ]
	[[ $output == *'no link to another switch'* ]]
	run ctl bist S.bottom.0.0.0
	[ "$status" -eq 1 ] && [[ $output == *'which port'* ]]
}

@test "EEPROM images are compared, written, and read into a file" {
	machine --machine tree:1,2,1,2 --fault eeprom=60 --seed 2
	serve 'plan tree:1,2,1,2'
	run ctl eeprom verify --range 0-0x7ff
	echo "$output"
	[ "$status" -eq 5 ]
	local wrong=$(grep -c 'should be' <<<"$output")
	[ "$wrong" -eq "$(tell truth | awk -F: '/^eeprom/ && $2 < 2048' | wc -l)" ]
	run ctl eeprom write --range 0-0x7ff
	[ "$status" -eq 0 ]
	run ctl eeprom verify --range 0-0x7ff
	[ "$status" -eq 0 ]
	[[ $output == *', 0 of them wrong in 0 bytes'* ]]
	ctl eeprom read --range 0-0x3f S.leaf.0.0 "$dir/image"
	[ "$(head -c 4 "$dir/image")" = NRC1 ]
	[ "$(stat -c %s "$dir/image")" -eq 64 ]
	printf NRC2 >"$dir/other"
	run ctl eeprom verify S.leaf.0.0 "$dir/other"
	[ "$status" -eq 5 ]
	[[ $output == *'0x0003 is 0x31, should be 0x32'* ]]
	run ctl eeprom read S.leaf.9.9 "$dir/image"
	[ "$status" -eq 1 ]
	[[ $output == *'not been found'* ]]
	run ctl eeprom verify --range 5-70000
	[ "$status" -eq 2 ]
}

@test "a chip loads the tables that were written into its EEPROM" {
	machine --machine tree:1,2,1,2
	serve 'plan tree:1,2,1,2'
	[[ $(tell walk 100) != *' 0 lost'* ]]
	# Of the NRCs' tables that much is used: frames and local nodes of port 0, and the mark before them.
	ctl eeprom write S.leaf.0.0 --tables --range 0xffc-0x1100
	run ctl eeprom verify S.leaf.0.0 --tables --range 0xffc-0x1100
	[ "$status" -eq 0 ]
	watch
	tell reboot S.leaf.0.0
	says "$dir/watch" '^link' "$watcher"
	tell stats >/dev/null
	run ctl read S.leaf.0.0 1
	local tries
	for ((tries = 500; tries > 0; tries--)); do
		run ctl read S.leaf.0.0 1
		[ "$output" != 0x0000000000000005 ] || break
		sleep 0.02
	done
	[ "$output" = 0x0000000000000005 ]
}

@test "events, acknowledgements, audit and baselines outlive inbandd" {
	machine --machine tree:2,3,2,4
	local settings=('plan tree:2,3,2,4' "database $dir/state/inbandd.db" 'hold_down 100')
	serve "${settings[@]}"
	ctl baseline save golden
	[[ $(ctl baseline list) == golden* ]]
	watch
	tell cut S.leaf.1.0:1
	says "$dir/watch" '^raised' "$watcher"
	ctl ack 1
	run ctl baseline diff golden
	echo "$output"
	[ "$status" -eq 5 ] && [[ $output == *cut*S.leaf.1.0:1* && $output == *'1 differences'* ]]
	[[ $(ctl events) == *raised*discovered* ]]
	[[ $(ctl audit) == *'uid '*'"ack"'*': done'* ]]
	kill "$daemon"
	wait "$daemon" || true
	serve "${settings[@]}"
	run ctl baseline diff golden
	[ "$status" -eq 5 ]
	[[ $output == *cut*S.leaf.1.0:1* ]]
	[[ $(ctl audit) == *'"ack"'* ]]
	ctl baseline drop golden
	run ctl baseline diff golden
	[ "$status" -eq 1 ] && [[ $output == *'no baseline'* ]]
}

@test "what was saved can be looked at where the network is not" {
	machine --machine tree:2,3,2,4 --fault cut=2 --seed 6
	serve 'plan tree:2,3,2,4'
	local differences
	differences=$(ctl check || true)
	ctl save "$dir/dump"
	kill "$daemon" "$sim"
	wait "$daemon" "$sim" || true
	serve 'plan tree:2,3,2,4' "load $dir/dump"
	[ "$(ctl check || true)" = "$differences" ]
	run ctl show S.leaf.1.0
	[ "$status" -eq 0 ]
	[[ $output == *S.bottom* ]]
	run ctl scan
	[ "$status" -eq 1 ]
	[[ $output == *'does not have that'* ]]
	sed -i '$d' "$dir/dump"
	run "$INBANDD" -c /dev/null -o "control_socket $dir/second" -o "load $dir/dump"
	[ "$status" -eq 1 ] && [[ $output == *'end, is missing'* ]]
}

@test "scans have thresholds, leave suppressed ports out, and go on in a loop" {
	machine --machine tree:2,3,2,4
	serve 'plan tree:2,3,2,4'
	tell degraded S.bottom.0.0.0:8
	tell degraded S.bottom.0.0.4:10
	run ctl scan --loop 0.01 --count 3
	echo "$output"
	[ "$status" -eq 4 ]
	[ "$(grep -c 'switches in' <<<"$output")" -eq 3 ]
	[[ $output == *S.bottom.0.0.0:8* ]]
	run ctl scan --compare 0.01 --thresholds retries=1000000,errors=1000000
	[ "$status" -eq 0 ]
	run ctl scan --thresholds colour=1
	[ "$status" -eq 1 ]
	[[ $output == *'is not COUNTER=NUMBER'* ]]
	local port
	for port in S.bottom.0.0.0:8 S.bottom.0.0.4:0 S.bottom.0.0.4:10 S.leaf.0.0:0; do
		ctl suppress add "$port" 'being looked at'
	done
	[[ $(ctl suppress list) == *'S.bottom.0.0.0:8 '*'being looked at'* ]]
	run ctl scan --compare 0.01
	[ "$status" -eq 0 ]
	[[ $output == *'bad ports are suppressed'* ]]
	ctl suppress drop S.bottom.0.0.0:8
	run ctl scan --compare 0.01
	[ "$status" -eq 4 ]
}

@test "what inbandd scans by itself becomes alarms, lines of a file, and metrics of bounded size" {
	machine --machine tree:2,3,2,4
	local port=$((27500 + $$ % 2500))
	serve 'plan tree:2,3,2,4' 'scan 1' "counters $dir/counters" "metrics_listen 127.0.0.1:$port" \
		'hold_down 100'
	watch
	tell degraded S.bottom.0.0.0:8
	says "$dir/watch" '^raised.*counters S.*at a threshold' "$watcher"
	grep -Eq '^[0-9]{13} S\.bottom\.0\.0\.0:8 .*(retries|errors)=[0-9]+' "$dir/counters"
	! grep -q sent= "$dir/counters" || false
	curl -sf "http://127.0.0.1:$port/metrics" >"$dir/metrics"
	grep -Eq '^inbandd_worst_port\{port="S.bottom.0.0.[04]:[0-9]+",counter="(retries|errors)"\} [1-9]' \
		"$dir/metrics"
	grep -q '^inbandd_scans_total{end="done"} [1-9]' "$dir/metrics"
	tell mend S.bottom.0.0.0:8
	says "$dir/watch" '^cleared.*counters S' "$watcher"
}

@test "a campaign tests all links but those that ways or reports lead over, also another server's" {
	machine --machine tree:2,3,2,4 --servers 2
	serve 'plan tree:2,3,2,4'
	tell degraded S.bottom.0.0.0:9
	run ctl bist --under S. --seconds 2
	echo "$output"
	[ "$status" -eq 5 ]
	[[ $output == *' links tested'*', 1 of them bad'* ]]
	[ "$(grep -c ', 0 packets' <<<"$output")" -lt 2 ]
	local refused
	refused=$(grep -o '[0-9]* refused' <<<"$output")
	# All that a tree of ways has: a link for each switch but the first.
	[ "$refused" = '19 refused' ]
	# Another server whose reports go another way.
	"$INBANDD" -c /dev/null -o "control_socket $dir/second" -o 'http_listen ' -o 'nic 1' >"$dir/log2" 2>&1 3>&- &
	pids+=($!)
	says "$dir/log2" "of the network's time" $!
	run ctl bist --under S. --seconds 2
	refused=$(grep -o '[0-9]* refused' <<<"$output")
	[ "${refused% *}" -gt 19 ]
	run ctl bist --under S.none
	[ "$status" -eq 1 ] && [[ $output == *'no link'* ]]
}

@test "networks are exported for ibsim, for Slurm, and nodes to drain" {
	machine --machine tree:2,3,2,4
	serve 'plan tree:2,3,2,4'
	ctl export topology "$dir/net"
	[ "$(grep -c ^Switch "$dir/net")" -eq 20 ]
	[ "$(grep -c ^Ca "$dir/net")" -eq 48 ]
	# A line for each end of a link.
	[ "$(grep -c '^\[' "$dir/net")" -eq 184 ]
	ctl export slurm "$dir/topology.conf" --prefix cn
	grep -Eq '^SwitchName=s0_[0-9]+ Nodes=cn\[[0-9]+-' "$dir/topology.conf"
	# One switch is that of all others, and each other is named once.
	[ "$(grep -oE 'Switches=.*' "$dir/topology.conf" | tr , '\n' | sed 's/.*=//' | sort | uniq -d | wc -l)" -eq 0 ]
	[ "$(($(grep -c ^SwitchName "$dir/topology.conf") - 1))" -eq \
		"$(grep -oE 'Switches=.*' "$dir/topology.conf" | tr , '\n' | wc -l)" ]
	[ -z "$(ctl export drain)" ]
	watch
	tell cut S.bottom.0.0.0:2
	says "$dir/watch" '^raised' "$watcher"
	[[ $(ctl export drain --prefix cn) == 'cn'*' # its link is down' ]]
	run ctl export poster
	[ "$status" -eq 1 ] && [[ $output == *'topology, slurm, drain or routes'* ]]
}

@test "a budget slows what is asked, and several servers answer one command" {
	machine --machine tree:2,3,2,4 --servers 2
	serve 'plan tree:2,3,2,4' 'budget 10000'
	# 2,400 requests at 10,000 a second.
	run ctl scan
	[ "$status" -eq 0 ]
	[ "$(grep -oE 'in [0-9]+' <<<"$output" | head -1 | cut -c4-)" -ge 200 ]
	"$INBANDD" -c /dev/null -o "control_socket $dir/second" -o 'http_listen ' -o 'nic 1' >"$dir/log2" 2>&1 3>&- &
	pids+=($!)
	says "$dir/log2" "of the network's time" $!
	run ctl --socket "$dir/second" status
	[ "$status" -eq 0 ]
	[ "$(grep -c '^found' <<<"$output")" -eq 2 ]
	run ctl --socket "$dir/none" status
	[ "$status" -eq 3 ] && [[ $output == *found*'is it running'* ]]
}
