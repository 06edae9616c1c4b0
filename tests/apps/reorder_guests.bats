#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# Two guests with the kernel's own rxe through urxe-switch. Some minutes: in the soak suite.

run_guests() { # NAME SWITCH-OPTIONS...
	local dir=$BATS_TEST_TMPDIR/$1
	rm -rf "$dir"
	mkdir "$dir"
	MESSAGES=600 SLOWER=300us timeout 400 "$BATS_TEST_DIRNAME/reorder-guests" "$dir" "${@:2}" >"$dir/out"
	cat "$dir/out"
}

said() { # NAME WHAT
	grep -oE "$2 +[0-9.]+" "$BATS_TEST_TMPDIR/$1/out" | awk 'NR == 1 { print $2 }'
}

# Guests are emulated, and the machine may do other work: where flows that are moved seem slower, both
# are run again, in turns, and the round counts in which they ran alike.
@test "the kernel's rxe sees no packet out of order when flows are moved every 50, and many without reordering" {
	local still moved
	for _ in 1 2 3; do
		run_guests still -o "reroute_every 0"
		run_guests moved -o "reroute_every 50"
		[ "$(said moved reroutes)" -gt 30 ]
		[ "$(said moved out_of_seq_request)" -eq 0 ]
		[ "$(said moved rcvd_seq_err)" -eq 0 ]
		still=$(said still goodput)
		moved=$(said moved goodput)
		awk "BEGIN { exit !($moved >= 0.9 * $still) }" && break
	done
	awk "BEGIN { exit !($moved >= 0.9 * $still) }"
	run_guests plain -o "reroute_every 50" --no-reorder
	[ "$(said plain out_of_seq_request)" -gt 0 ]
	[ "$(said plain rcvd_seq_err)" -gt 0 ]
	awk "BEGIN { exit !($(said plain goodput) < 0.5 * $still) }"
}
