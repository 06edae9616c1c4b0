#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# libsacache-rdmacm over urxe0: connections that are killed come back, from both ends.
load helpers

URXE_BIN=${URXE_BIN:-${URXE%/*}/tests/apps}

# Both ends; the number of connections to see follows.
client=("$URXE" run -- "$URXE_BIN/sacache_reconnect" client 127.0.0.1 7001 127.0.0.1 7002)
server=("$URXE" run -- "$URXE_BIN/sacache_reconnect" server 127.0.0.1 7002 127.0.0.1 7001)

@test "a connection that is killed again and again comes back at both ends" {
	isolated "$BATS_TEST_DIRNAME/until-done" 60 "${client[@]}" 100 :: "${server[@]}" 100
}

@test "a process that is killed comes back, as client and as server" {
	# shellcheck disable=SC2016
	local thrice='for i in 1 2 3; do timeout -s KILL 0.7 "$@" 1000000; done; exec "$@" 20'
	isolated "$BATS_TEST_DIRNAME/until-done" 60 \
		"${client[@]}" 60 :: sh -c "$thrice" sh "${server[@]}"
	isolated "$BATS_TEST_DIRNAME/until-done" 60 \
		sh -c "$thrice" sh "${client[@]}" :: "${server[@]}" 60
}
