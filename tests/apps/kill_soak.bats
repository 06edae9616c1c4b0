#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# What of kill.bats takes a processor for a long time.
load helpers

@test "a neighbour that waits for a processor is waited for" {
	isolated timeout -k 5 120 "$URXE" run -- "${URXE_BIN:-${URXE%/*}/tests/apps}/verbs_group" starved_process
}
