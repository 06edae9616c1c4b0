#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# libsacache and sacached on a virtual fabric: what they do in ibsim, and what ibsim has no RMPP and too few clients
# for.

here=$BATS_TEST_DIRNAME
export SACACHE_FABRIC=1 URXE URXE_BIN=${URXE_BIN:-${URXE%/*}/tests/apps}
raise=$URXE_BIN/../../libsacache/opensm/libsacache-opensm.so
daemons=${URXE%/*}/daemons

setup() {
	unshare -Urnmpf --mount-proc true 2>/dev/null || skip "no namespaces"
}

# subnet LEAVES HOSTS SPINES COMMAND…
subnet() {
	timeout 100 "$here/sacache-subnet" "$@"
}

@test "paths of all pairs are asked for once, and saquery agrees with what is cached" {
	subnet 4 4 2 "$here/sacache-agree" "$URXE_BIN/sacache_subnet" always 40
}

@test "all paths of a port come by one GetTable, and agree with saquery's" {
	subnet 8 8 2 "$here/sacached-table" "$daemons/sacached/sacached" "$daemons/sacachectl/sacachectl"
}

@test "libsacache-opensm.so makes OpenSM raise the reserved field, and caching switches on" {
	OPENSM_PRELOAD=$raise subnet 3 3 1 "$here/sacache-agree" "$URXE_BIN/sacache_subnet" raised 20
}

@test "a node that goes and comes back with its LID costs no peer a query, and all hear of it" {
	OPENSM_PRELOAD=$raise subnet 2 3 1 "$here/sacache-return" auto
}

@test "an SM that takes over on another host is found, and all paths are asked for again" {
	subnet 2 3 1 "$here/sacache-sm-moves"
}

@test "saquery agrees with what is cached while nodes and links come and go and the SM is restarted" {
	subnet 3 4 2 "$here/sacache-follow" 100 "${SACACHE_SEED:-14}"
}

@test "reconnect-storm: one query for each initiator and DGID, none after a warm start" {
	subnet 4 16 2 "$here/sacache-storm" "$URXE_BIN/../../examples/reconnect-storm" \
		--peers 63 --rounds 2 --seed 7 --limit 0 --down 100
}

@test "ib_acme and rdma_getaddrinfo resolve through sacached, and OpenSM is asked once for each destination" {
	subnet 2 2 1 "$here/sacached-ibacm" "$daemons/sacached/sacached" "$URXE_BIN"
}

@test "a warm start by its own state file asks OpenSM for one table, or nothing" {
	OPENSM_PRELOAD=$raise subnet 2 2 1 "$here/sacachectl-warm" "$daemons/sacached/sacached" \
		"$daemons/sacachectl/sacachectl"
}
