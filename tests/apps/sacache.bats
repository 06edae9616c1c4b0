#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# libsacache in a subnet of ibsim's with OpenSM as it is in Debian.

here=$BATS_TEST_DIRNAME
export URXE_BIN=${URXE_BIN:-${URXE%/*}/tests/apps}
raise=$URXE_BIN/../../libsacache/opensm/libsacache-opensm.so

setup() {
	unshare -Urnmpf --mount-proc true 2>/dev/null || skip "no namespaces for ibsim's sockets"
}

@test "paths of all pairs are asked for once, and saquery agrees with what is cached" {
	timeout 60 "$here/sacache-subnet" 4 4 2 \
		"$here/sacache-agree" "$URXE_BIN/sacache_subnet" always 40
}

@test "a stock SM raises no reserved field, and by the method nothing is cached" {
	timeout 60 "$here/sacache-subnet" 2 2 1 sh -c \
		'exec "$1/sacache-on" host-1-1 "$0" auto $GUIDS' "$URXE_BIN/sacache_subnet" "$here"
}

@test "libsacache-opensm.so makes OpenSM raise it, and caching switches on" {
	OPENSM_PRELOAD=$raise timeout 60 "$here/sacache-subnet" 3 3 1 \
		"$here/sacache-agree" "$URXE_BIN/sacache_subnet" raised 20
}

@test "libsacache-opensm.so leaves the field alone when told to, and says what it does not understand" {
	OPENSM_PRELOAD=$raise SACACHE_OPENSM_RAISE=off timeout 60 "$here/sacache-subnet" 2 2 1 sh -c \
		'exec "$1/sacache-on" host-1-1 "$0" auto $GUIDS' "$URXE_BIN/sacache_subnet" "$here"
	run env LD_PRELOAD="$raise" SACACHE_OPENSM_RAISE=yes true
	[ "$status" -eq 0 ]
	[[ $output == *"hexadecimal digits"* ]]
}

@test "a node that goes and comes back with its LID costs no peer a query, by OpenSM's count" {
	OPENSM_PRELOAD=$raise timeout 60 "$here/sacache-subnet" 2 3 1 "$here/sacache-return" auto
}

@test "an SM that takes over on another host is found, and all paths are asked for again" {
	timeout 60 "$here/sacache-subnet" 2 3 1 "$here/sacache-sm-moves"
}

@test "saquery agrees with what is cached while nodes and links come and go and the SM is restarted" {
	timeout 100 "$here/sacache-subnet" 3 4 2 "$here/sacache-follow" 60 "${SACACHE_SEED:-62}"
}

@test "nothing is left behind when the subnet ends" {
	folder=$(timeout 60 "$here/sacache-subnet" 2 2 1 pwd)
	[ -n "$folder" ]
	[ ! -e "$folder" ]
	! readlink /proc/[0-9]*/cwd 2>/dev/null | grep -F "$folder" || false
}
