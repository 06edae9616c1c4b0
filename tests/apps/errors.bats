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
@test "remote operations: keys, bounds, rights" { cases verbs_status remote_table; }
@test "local buffers and receive buffers" { cases verbs_status local_buffers receive_buffers; }
@test "retries and flushing" { cases verbs_status rnr retry flush send_queue_error; }
@test "a link slower than its senders" {
	local slow='tc qdisc add dev lo root tbf rate 200mbit burst 128kb limit 200mb'
	PATH=$PATH:/usr/sbin:/sbin isolated sh -c "$slow" || skip "no token bucket filter here"
	isolated sh -c "$slow && exec timeout -k 5 120 \"\$0\" run -- \"\$1\" full_socket" \
		"$URXE" "$URXE_BIN/verbs_status"
}
@test "events of CQs, SRQs and drained queues" {
	cases verbs_status cq_overflow srq_events send_queue_drained notified_late
}
@test "memory windows" { cases verbs_windows; }
@test "two threads and one object, and a fork in the middle" { cases verbs_races; }
@test "limits of queues, lists, inline data and QPs" {
	cases verbs_limits longest many_qps many_answers parent_domains provider_buffers
}
@test "numbers of devices are not those of kernel devices" {
	URXE_DEVICES=urxe0=lo cases verbs_limits device_numbers
}
@test "regions beyond 4 GiB and of all the address space" {
	cases verbs_limits large_region implicit_region
}
