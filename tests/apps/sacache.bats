#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# libsacache in a subnet of ibsim's with OpenSM as it is in Debian.

here=$BATS_TEST_DIRNAME
URXE_BIN=${URXE_BIN:-${URXE%/*}/tests/apps}

setup() {
	unshare -Urnmpf --mount-proc true 2>/dev/null || skip "no namespaces for ibsim's sockets"
}

@test "paths of all pairs are asked for once, and saquery agrees with what is cached" {
	timeout 60 "$here/sacache-subnet" 4 4 2 "$here/sacache-agree" "$URXE_BIN/sacache_subnet" 40
}

@test "a stock SM raises no reserved field, and by the method nothing is cached" {
	timeout 60 "$here/sacache-subnet" 2 2 1 sh -c \
		'SIM_HOST=host-1-1 LD_PRELOAD=$SIM exec "$0" auto $GUIDS' "$URXE_BIN/sacache_subnet"
}

@test "nothing is left behind when the subnet ends" {
	folder=$(timeout 60 "$here/sacache-subnet" 2 2 1 pwd)
	[ -n "$folder" ]
	[ ! -e "$folder" ]
	! readlink /proc/[0-9]*/cwd 2>/dev/null | grep -F "$folder"
}
