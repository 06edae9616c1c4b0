#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# fabric-sim from outside: what it prints and writes, that runs repeat themselves whatever compiled them, and
# that bad input is refused with a word about it. Small fabrics and short times.

here=$BATS_TEST_DIRNAME
SIM=${URXE%/*}/reorder/fabric-sim
SMALL="--topology leaf-spine:3x3x4 --time 500us --warmup 100us --quiet"

value() { # NAME JSON
	grep -o "\"$1\": [^,}]*" <<<"$2" | head -n 1 | cut -d' ' -f2
}

refused() { # TEXT COMMAND…
	run "${@:2}"
	echo "$output"
	[ "$status" -ne 0 ] && [ "$status" -lt 128 ] && [[ $output == *"$1"* ]]
}

@test "libreorder exports the functions of its header, and no others" {
	diff <(nm -D --defined-only "${URXE%/*}/reorder/libreorder.so" |
		sed -n 's/.* T \(reorder_[a-z_]*\)@.*/\1/p' | sort) \
		<(grep -v inline "$here/../../reorder/reorder.h" | grep -o 'reorder_[a-z_]*(' | tr -d '(' | sort -u)
}

@test "its own queue waits as Pollaczek and Khinchine say" {
	run nice "$SIM" mg1
	echo "$output"
	[ "$status" -eq 0 ]
	[ "${#lines[@]}" -eq 13 ]
}

@test "every method ends all flows, and nothing is lost with PFC" {
	for lb in ecmp letflow conga drill conweave shared; do
		json=$("$SIM" $SMALL --lb $lb --json)
		echo "$json"
		[ "$(value unfinished "$json")" -eq 0 ]
		[ "$(value drops "$json")" -eq 0 ]
		[ "$(value flows "$json")" -gt 100 ]
	done
}

@test "every method ends all flows without PFC, on a fat tree" {
	for lb in ecmp letflow conga drill conweave shared; do
		json=$("$SIM" --topology fat-tree:4 --time 300us --warmup 50us --irn --lb $lb --buffer 1M --json)
		echo "$json"
		[ "$(value unfinished "$json")" -eq 0 ]
	done
}

@test "ECMP keeps packets in order, and so does the shared queue where nothing is lost" {
	json=$("$SIM" $SMALL --lb ecmp --json)
	[ "$(value nic_out_of_order "$json")" -eq 0 ]
	json=$("$SIM" $SMALL --lb shared --high 4us --low 100us --gain 4us --rest 8us --pace 2us \
		--budget 1000000 --json)
	echo "$json"
	[ "$(value reroutes "$json")" -gt 10 ]
	[ "$(value by_tail "$json")" -gt 10 ]
	[ "$(value nic_out_of_order "$json")" -eq 0 ]
}

@test "a run repeats itself, with gcc and clang, without optimisation and with" {
	sources="$here/../../reorder/*.c $here/../../reorder/sim/*.c"
	for lb in shared conweave; do
		first=$(value digest "$("$SIM" $SMALL --lb $lb --irn --json)")
		[ "$first" = "$(value digest "$("$SIM" $SMALL --lb $lb --irn --json)")" ]
		[ "$first" != "$(value digest "$("$SIM" $SMALL --lb $lb --irn --seed 2 --json)")" ]
		for cc in gcc\ -O0 clang\ -O0 clang\ -O2; do
			built="$BATS_FILE_TMPDIR/sim-${cc// /}"
			[ -x "$built" ] ||
				$cc -std=gnu11 -D_GNU_SOURCE -DURXE_VERSION='"any"' -I"$here/../.." $sources -lm -o "$built"
			[ "$first" = "$(value digest "$("$built" $SMALL --lb $lb --irn --json)")" ]
		done
	done
}

@test "flows come from a file of conweave-ns3's, and go into its columns" {
	cd "$BATS_TEST_TMPDIR"
	printf '3 \n0 5 3 20000 2.000001000\n4 9 3 1 2.000001000\n1 2 3 5000 2.000020000\n' >flows
	"$SIM" $SMALL --warmup 0ns --lb ecmp --flows flows --fct out >/dev/null
	sort out
	[ "$(wc -l <out)" -eq 3 ]
	# Alone in the fabric a flow takes what it takes alone, and the way of its acknowledgement.
	awk '$7 < $8 - 400 || $7 > $8 + 400 { exit 1 }' out
	[ "$(awk '$1 == 0 { print $2, $5, $6 }' out)" = "5 20000 2000001000" ]
}

@test "a flow file or a distribution that makes no sense is refused with its line" {
	cd "$BATS_TEST_TMPDIR"
	printf '2\n0 1 3 100 2.0\n' >flows
	refused 'fewer flows' "$SIM" $SMALL --lb ecmp --flows flows
	printf '1\n0 99 3 100 2.0\n' >flows
	refused 'line 2: no two hosts' "$SIM" $SMALL --lb ecmp --flows flows
	printf '2\n0 1 3 100 2.5\n0 1 3 100 2.0\n' >flows
	refused 'line 3: starts before' "$SIM" $SMALL --lb ecmp --flows flows
	printf '0 0\n1000 60\n900 100\n' >sizes
	refused 'line 3: smaller' "$SIM" $SMALL --lb ecmp --workload sizes
	printf '0 0\n1000 99\n' >sizes
	refused 'ends with 100' "$SIM" $SMALL --lb ecmp --workload sizes
	refused 'no workload' "$SIM" $SMALL --lb ecmp --workload nothing
	refused 'no method' "$SIM" $SMALL --lb nothing
	refused 'whole picoseconds' "$SIM" $SMALL --rate 7G
	refused 'leaf-spine' "$SIM" --topology ring:5
}

@test "a sweep is one row a method with its spread, a plot, and one command a run" {
	cd "$BATS_TEST_TMPDIR"
	run "$SIM" $SMALL --lb ecmp,shared --seed 1-3 --plot plot.svg
	echo "$output"
	[ "$status" -eq 0 ]
	[[ $output == *"shared, 1 queue"*"±"* ]]
	python3 -c 'import sys, xml.dom.minidom as m; assert len(m.parse("plot.svg").getElementsByTagName("polyline")) == 4'
	"$SIM" $SMALL --lb ecmp,shared --seed 1-3 --jobs >jobs
	[ "$(wc -l <jobs)" -eq 6 ]
	one=$(sh -c "$(tail -n 1 jobs)")
	[ "$(value digest "$one")" = "$(value digest "$("$SIM" $SMALL --lb shared --seed 3 --json)")" ]
}

@test "a slow link is left by flows that see it, and crowded by ECMP" {
	slow="$SMALL --time 1ms --load 50 --slow 0:1:20G"
	ecmp=$(value average "$("$SIM" $slow --lb ecmp --json)")
	shared=$(value average "$("$SIM" $slow --lb shared --json)")
	echo "$ecmp $shared"
	awk "BEGIN { exit !($shared < 0.7 * $ecmp) }"
}

@test "CONGA forgets that a path was busy when nothing has come by it for a while" {
	cd "$BATS_TEST_TMPDIR"
	# 2 MB make one path busy; feedback goes back with a flow of 2.4 ms. Much later one flow takes either path,
	# and the next one, which sees it, the other.
	printf '%s\n' 4 '0 2 3 2000000 2.0' '2 0 3 30000000 2.0' '0 2 3 3000000 2.0015' '1 3 3 1000000 2.00158' >flows
	for seed in 1 2 3 4; do
		"$SIM" --topology leaf-spine:2x2x2 --time 2ms --warmup 0ns --quiet --lb conga --flows flows \
			--seed $seed --fct out
		cat out
		awk '$1 == 1 { if ($7 > 1.3 * $8) exit 1 }' out
	done
}
