#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# What goes wrong goes wrong as the manual pages and the standard have it: errnos of bad arguments,
# completion statuses of refused operations, limits.
load helpers

URXE_BIN=${URXE_BIN:-${URXE%/*}/tests/apps}

# cases PROGRAM [PREFIX…]: those cases of a verbs_*.c program.
cases() {
	isolated timeout -k 5 "${LIMIT:-120}" "$URXE" run -- "$URXE_BIN/$@"
}

@test "bad arguments" { cases verbs_errors; }
