#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# Two guests with the kernel's own rxe through urxe-switch. Some minutes: in the soak suite.

run_guests() { # NAME SWITCH-OPTIONS...
	local dir=$BATS_TEST_TMPDIR/$1
	mkdir "$dir"
	MESSAGES=600 SLOWER=300us timeout 400 "$BATS_TEST_DIRNAME/reorder-guests" "$dir" "${@:2}" >"$dir/out"
	cat "$dir/out"
}

said() { # NAME WHAT
	grep -o "$2 [0-9.]*" "$BATS_TEST_TMPDIR/$1/out" | head -n 1 | cut -d' ' -f2
}

@test "the kernel's rxe sees no packet out of order when flows are moved every 50, and many without reordering" {
	run_guests still -o "reroute_every 0"
	run_guests moved -o "reroute_every 50"
	run_guests plain -o "reroute_every 50" --no-reorder
	[ "$(said moved reroutes)" -gt 30 ]
	[ "$(said moved out_of_seq_request)" -eq 0 ]
	[ "$(said moved rcvd_seq_err)" -eq 0 ]
	[ "$(said plain out_of_seq_request)" -gt 0 ]
	[ "$(said plain rcvd_seq_err)" -gt 0 ]
	awk "BEGIN { exit !($(said moved goodput) >= 0.9 * $(said still goodput)) }"
	awk "BEGIN { exit !($(said plain goodput) < 0.5 * $(said still goodput)) }"
}
