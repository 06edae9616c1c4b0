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
@test "bad input: each field of each structure" { cases verbs_bad_input; }
@test "remote operations: keys, bounds, rights" { cases verbs_status remote_table; }
@test "atomic writes" {
	cases verbs_status atomic_writes &&
		URXE_FAULT=drop=5%,dup=5%,reorder=5%,seed=1 cases verbs_status atomic_writes
}
@test "local buffers and receive buffers" { cases verbs_status local_buffers receive_buffers; }
@test "retries and flushing" { cases verbs_status rnr retry flush send_queue_error; }
@test "a link slower than its senders" {
	local slow='tc qdisc add dev lo root tbf rate 200mbit burst 128kb limit 200mb'
	PATH=$PATH:/usr/sbin:/sbin isolated sh -c "$slow" || skip "no token bucket filter here"
	isolated sh -c "$slow && exec timeout -k 5 120 \"\$0\" run -- \"\$1\" full_socket" \
		"$URXE" "$URXE_BIN/verbs_status"
}
@test "events of CQs, SRQs and drained queues" {
	cases verbs_status cq_overflow srq_events send_queue_drained notified_late \
		communication_established moderated
}
@test "memory windows" { cases verbs_windows; }
@test "two threads and one object, and a fork in the middle" { cases verbs_races; }
# What was freed is no zeros, and so no pointer to it does well.
@test "a fork at each mutex of a verb, and in a child with few descriptors" { MALLOC_PERTURB_=165 cases verbs_fork; }
# lost_memory [PREFIX…]: with a file system of which nothing is left.
lost_memory() {
	local program=$URXE_BIN/verbs_lost_memory
	mkdir "$BATS_TEST_TMPDIR/small"
	isolated sh -c 'mount -t tmpfs -o size=128k small "$SMALL_TMPFS" && exec timeout -k 5 120 "$@"' \
		sh "$URXE" run -- "$program" "$@"
}

@test "memory that was unmapped, protected or truncated while it was registered" {
	export SMALL_TMPFS=$BATS_TEST_TMPDIR/small
	lost_memory && rmdir "$SMALL_TMPFS" && URXE_WIRE=udp lost_memory
}
@test "limits of queues, lists, inline data and QPs" {
	cases verbs_limits longest many_qps many_answers parent_domains allocators \
		provider_buffers
}
# Regions, windows and groups take some seconds and 500 MB: URXE_ALL_COUNTS, in the soak suite.
@test "as many objects as are promised, and no more" {
	ulimit -n "$(ulimit -Hn)"
	cases verbs_counts begin pds queues handles work_queues \
		${URXE_ALL_COUNTS:+memory groups} end
}
@test "objects of all kinds, destroyed in a random order" { cases verbs_order; }
@test "device memory" { cases verbs_import dm; }
@test "contexts, domains and regions imported in the same process" {
	cases verbs_import import_refused import_here
}
@test "contexts, domains, regions and device memory imported by another process" {
	cases verbs_import import_elsewhere
}
@test "what a killed process has used of device memory and domains is free" {
	cases verbs_import import_killed
}
@test "XRC between processes" { cases verbs_xrc; }
@test "XRC between processes over a faulty wire" {
	URXE_FAULT=drop=5%,dup=2%,reorder=5%,corrupt=0.5%,seed=1 cases verbs_xrc messages not_ready in_turn &&
		URXE_FAULT=drop=5%,seed=1 cases verbs_xrc migrates
}
@test "UD QPs that do not hear themselves, or send by another number" {
	cases verbs_limits own_multicast source_number
}
@test "rate limits" { cases verbs_paced; }
@test "null regions" { cases verbs_limits null_region && URXE_WIRE=udp cases verbs_limits null_region; }
@test "tag matching" { cases verbs_tags; }
@test "tag matching over a faulty wire" {
	URXE_FAULT=drop=5%,dup=2%,reorder=5%,corrupt=0.5%,seed=1 \
		cases verbs_tags eager unexpected rendezvous
}
@test "raw packets and flow rules" { cases verbs_raw; }
@test "Ethernet addresses of GIDs" {
	isolated sh -c 'ip link add v0 address 02:00:00:00:00:01 type veth peer name v1 &&
		ip link set v0 addrgenmode none && ip addr add 10.9.0.1/24 dev v0 && ip link set v0 up && ip link set v1 up &&
		ip neigh add 10.9.0.2 lladdr 02:00:00:00:00:07 dev v0 &&
		URXE_DEVICES=urxe0=v0 exec timeout -k 5 20 "$0" run -- "$1" ethernet_addresses' \
		"$URXE" "$URXE_BIN/verbs_limits"
}
@test "numbers of devices are not those of kernel devices" {
	URXE_DEVICES=urxe0=lo cases verbs_limits device_numbers
}
@test "regions beyond 4 GiB and of all the address space" {
	cases verbs_limits large_region implicit_region
}
