#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# libmempool on a device: its keys in a peer's hands, and the example program.
load helpers

URXE_BIN=${URXE_BIN:-${URXE%/*}/tests/apps}

@test "keys of buffers: remote read, write, atomic; one byte outside, after free, wrong rights" {
	isolated timeout -k 5 60 "$URXE" run -- "$URXE_BIN/mempool_keys" 127.0.0.1
}

@test "the example's ping-pong with pool memory" {
	local example=${URXE%/*}/examples/mempool_pingpong
	run isolated "$top/tests/guest/bin/pair" -q -t 60 \
		"$URXE" run -- "$example" 127.0.0.1 -s :: "$URXE" run -- "$example" 127.0.0.1
	echo "$output"
	[ "$status" -eq 0 ]
	[[ $output == *"ping 999"* ]] || [[ $output == *"pong 999"* ]]
}

# with_pool PROGRAM ARGS…: two of it over urxe0, with large allocations from a pool.
with_pool() {
	isolated "$top/tests/guest/bin/pair" -q -t 60 \
		"$URXE" run --pool -- "$@" :: "$URXE" run --pool -- "$@" 127.0.0.1
}

@test "urxe run --pool: a program's large buffers lie in the pool" {
	run isolated timeout -k 5 60 "$URXE" run --pool -- "$URXE_BIN/mempool_malloc"
	echo "$output"
	[ "$status" -eq 0 ]
}

@test "urxe run --pool: a program with an allocator of its own keeps it" {
	run isolated "$URXE" run --pool -- "$URXE_BIN/mempool_foreign"
	echo "$output"
	[ "$status" -eq 0 ]
}

@test "urxe run --pool: a program built with a sanitizer is refused in one line" {
	echo 'int main(void) { return 0; }' | ${CC:-cc} -fsanitize=address -x c - -o "$BATS_TEST_TMPDIR/sane"
	run isolated "$URXE" run --pool -- "$BATS_TEST_TMPDIR/sane"
	echo "$output"
	[ "$status" -eq 126 ]
	[ "${#lines[@]}" -eq 1 ]
	[[ $output == *"without --pool"* ]]
}

@test "urxe run --pool: where files may not be so long, it is libc's turn" {
	isolated prlimit --fsize=1000000:1000000 "$URXE" run --pool -- perl -e '$x = "a" x 10000000'
}

@test "urxe run --pool: ibv_rc_pingpong, 1 MiB" {
	with_pool ibv_rc_pingpong -d urxe0 -g 0 -c -s 1048576 -n 100
}

# pooled_perf PROGRAM ARGS…: one of perftest's programs with its buffers in a pool.
pooled_perf() {
	with_pool "$1" -d urxe0 -x 0 -F "${@:2}"
}

@test "urxe run --pool: ib_write_lat, 2 B" { pooled_perf ib_write_lat -s 2 -n 5000; }
@test "urxe run --pool: ib_write_bw, all sizes" { pooled_perf ib_write_bw -a -n 20; }
@test "urxe run --pool: ib_read_bw, 1 MiB" { pooled_perf ib_read_bw -s 1048576 -n 50; }
@test "urxe run --pool: ib_atomic_lat" { pooled_perf ib_atomic_lat -n 5000; }

@test "libraries export the names that are theirs, and what is private in a version of its own" {
	local top=${URXE%/*}
	nm -D --defined-only "$top/mempool/libmempool.so" | awk '$2 == "T" { print $3 }' >"$BATS_TEST_TMPDIR/names"
	[ "$(wc -l <"$BATS_TEST_TMPDIR/names")" -gt 20 ]
	! grep -v '^rmempool_' "$BATS_TEST_TMPDIR/names" || false
	[ "$(grep -c '@@MEMPOOL_PRIVATE_1$' "$BATS_TEST_TMPDIR/names")" -eq 2 ]
	# A wildcard would promise whatever is added.
	! grep -n '[a-z]\*;' "$BATS_TEST_DIRNAME/../../mempool/libmempool.map" \
		"$BATS_TEST_DIRNAME"/../../libsacache/*.map
}
