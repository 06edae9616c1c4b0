#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# Processes that share a device and die, stand still, fork, or are many (verbs_group.c), and many
# that send to one whose receive buffer is small (verbs_incast.c).
load helpers

URXE_BIN=${URXE_BIN:-${URXE%/*}/tests/apps}

group() {
	isolated timeout -k 5 120 "$URXE" run -- "$URXE_BIN/verbs_group" "$@"
}

@test "64 processes open urxe0 at once and exchange messages" { group many_processes; }

@test "kill -9 of one of ten: its peers know in time, the others go on, the device is whole" {
	isolated timeout -k 5 120 sh -ec '
		"$1" run -- "$2/verbs_group" killed_peer
		"$1" devices | grep -q urxe0
		"$1" run -- "$2/verbs_errors" in_use
	' sh "$URXE" "$URXE_BIN"
}

@test "a stopped process does not swallow packets of others" { group stopped_process; }
@test "a pause shorter than the timeout is no error" { group paused_process; }
@test "a longer pause of a neighbour costs its peers no retry" { group long_pause; }
@test "a neighbour that stands still for 5 s is given up" { group endless_pause; }
@test "children of a fork that exit, close everything, or open the device themselves" {
	group forks
}
@test "who received a message acknowledges it, however it ends right after" {
	group last_acknowledgement
}
@test "threads that post and poll are cancelled at any moment, and leave nothing locked" {
	for wire in auto udp; do
		isolated env URXE_WIRE=$wire timeout -k 5 60 "$URXE" run -- "$URXE_BIN/verbs_cancel"
	done
}
@test "400 processes die with QPs, one after another" { group many_deaths; }

@test "eight senders into one receiver with 208 KiB have half of one sender's goodput, and send little in vain" {
	run isolated env URXE_WIRE=udp URXE_RCVBUF=212992 timeout -k 5 120 \
		"$URXE" run -- "$URXE_BIN/verbs_incast" 0.5 0.85
	echo "$output"
	[ "$status" -eq 0 ]
}

# URXE_KILL_ROUNDS=1000: the long run.
@test "neighbours killed at random points: what they sent is whole, and nobody waits for ever" {
	isolated timeout -k 5 "$((60 + ${URXE_KILL_ROUNDS:-40}))" \
		"$URXE" run -- "$URXE_BIN/verbs_kill" "${URXE_KILL_ROUNDS:-40}"
}
