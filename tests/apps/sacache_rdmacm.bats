#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# libsacache-rdmacm over urxe0: connections that are killed come back, from both ends. And the examples
# that are built on it.
load helpers

URXE_BIN=${URXE_BIN:-${URXE%/*}/tests/apps}
EXAMPLES=$URXE_BIN/../../examples

# Both ends; the number of connections to see follows.
client=("$URXE" run -- "$URXE_BIN/sacache_reconnect" client 127.0.0.1 7001 127.0.0.1 7002)
server=("$URXE" run -- "$URXE_BIN/sacache_reconnect" server 127.0.0.1 7002 127.0.0.1 7001)

@test "a connection that is killed again and again comes back at both ends" {
	isolated "$BATS_TEST_DIRNAME/until-done" 60 "${client[@]}" 100 :: "${server[@]}" 100
}

@test "a process that is killed comes back, as client and as server" {
	# In the foreground timeout outlives what it kills, and waits for it: else the next one might meet a port
	# that is not free yet.
	# shellcheck disable=SC2016
	local thrice='for i in 1 2 3; do timeout --foreground -s KILL 0.7 "$@" 1000000; done; exec "$@" 20'
	isolated "$BATS_TEST_DIRNAME/until-done" 60 \
		"${client[@]}" 60 :: sh -c "$thrice" sh "${server[@]}"
	isolated "$BATS_TEST_DIRNAME/until-done" 60 \
		sh -c "$thrice" sh "${client[@]}" :: "${server[@]}" 60
}

@test "reliable datagrams between four nodes whose connections are killed: once each, in order" {
	local node=("$URXE" run -- "$EXAMPLES/reliable-datagrams" --messages 20000 --kill 10 --seed 4)
	local all="127.0.0.1:7101 127.0.0.1:7102 127.0.0.1:7103 127.0.0.1:7104"
	# shellcheck disable=SC2086
	isolated "$BATS_TEST_DIRNAME/until-done" 60 "${node[@]}" 0 $all :: "${node[@]}" 1 $all :: \
		"${node[@]}" 2 $all :: "${node[@]}" 3 $all
}

@test "reconnect-storm over real connections" {
	isolated timeout 60 "$URXE" run -- "$EXAMPLES/reconnect-storm" --rdma-cm 127.0.0.1 \
		--peers 100 --rounds 5 --seed 3
}

@test "reconnect-storm over a subnet: one query for each initiator and DGID, none after a warm start" {
	unshare -Urnmpf --mount-proc true 2>/dev/null || skip "no namespaces for ibsim's sockets"
	timeout 100 "$BATS_TEST_DIRNAME/sacache-subnet" 4 8 2 "$BATS_TEST_DIRNAME/sacache-storm" \
		"$EXAMPLES/reconnect-storm" --peers 31 --rounds 2 --seed 7 --limit 0 --down 100
}
