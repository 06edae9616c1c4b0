#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# One-sided operations that initiators carry out themselves on the memory of neighbours
# (verbs_direct.c), and the same over packets.
load helpers

URXE_BIN=${URXE_BIN:-${URXE%/*}/tests/apps}

direct() {
	run isolated timeout -k 5 100 "$URXE" run -- "$URXE_BIN/verbs_direct" "$@"
	echo "$output"
	[ "$status" -ne 77 ] || skip "processes may not access each other's memory here"
	[ "$status" -eq 0 ]
}

@test "a stopped process's memory is written and read" { direct stopped_target; }
@test "what a responder refuses is refused, and both QPs know" { direct refused; }
@test "the same with URXE_WIRE=udp" { URXE_WIRE=udp direct refused; }
@test "nothing lands in memory that was taken away, though initiators stop and die" {
	direct memory_is_taken
}
@test "the same over a faulty wire, where every other operation goes by packets" {
	URXE_FAULT=drop=1%,reorder=2%,dup=1% direct memory_is_taken
}
@test "with URXE_WIRE=udp a stopped process's memory stays as it is" {
	URXE_WIRE=udp direct unreached_target
}

# pooled CASE: with the target's memory in a pool, which initiators map.
pooled() {
	URXE_LOG=info run isolated timeout -k 5 100 "$URXE" run --pool -- "$URXE_BIN/verbs_direct" \
		"$1" pooled
	echo "$output"
	[ "$status" -ne 77 ] || skip "processes may not access each other's memory here"
	[ "$status" -eq 0 ]
	[[ $output =~ "memory of slot "[0-9]+" is mapped" ]]
}

@test "a stopped process's pool memory is written and read" { pooled stopped_target; }
@test "nothing lands in pool memory that was taken away, though initiators stop and die" {
	pooled memory_is_taken
}
@test "atomics on pool memory are carried out once each, though initiators stop" {
	pooled atomics_add_up
}
@test "the same where every other one goes by packets, some of which are lost" {
	URXE_FAULT=drop=1%,dup=1% pooled atomics_add_up
}

# huge CASE: and with that pool in huge pages.
huge() {
	local free
	free=$(awk '/HugePages_Free/ { print $2 }' /proc/meminfo)
	[ "${free:-0}" -ge 64 ] || skip "no 64 huge pages are free here (vm.nr_hugepages)"
	pooled "$1"
	[[ $output =~ "a pool in huge pages is shown" ]]
}

@test "a stopped process's huge pages are written and read" { huge stopped_target; }
@test "nothing lands in huge pages that were taken away, though initiators stop and die" {
	huge memory_is_taken
}
@test "atomics on huge pages are carried out once each, though initiators stop" {
	huge atomics_add_up
}
