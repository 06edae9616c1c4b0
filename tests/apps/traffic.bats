#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# Random operations, every byte and completion verified (tests/traffic), over urxe0 on lo: on a wire
# that loses nothing, and on one that drops, duplicates, reorders and corrupts by a seed.
load helpers

faults=drop=5%,dup=2%,reorder=5%,corrupt=0.5%
traffic=${URXE%/*}/tests/traffic/traffic

# verified ARGS…: traffic between processes of one host. TRAFFIC_TIMEOUT is the QPs': programs that
# run slowly need a longer one.
verified() {
	isolated timeout -k 5 170 "$URXE" run -- "$traffic" --dev urxe0 --time-limit 150 \
		--timeout "${TRAFFIC_TIMEOUT:-14}" "$@"
}

# faulty SEED ARGS…: the same over the faulty wire.
faulty() {
	URXE_FAULT="$faults,seed=$1" verified --seed "$@"
}

@test "RC: all operations, one process" { verified --self --qps 8; }
@test "RC: all operations, two processes" { verified --procs 1 --qps 8; }
@test "RC: sizes up to 8 MiB" { verified --procs 1 --qps 2 --ops 60 --max-size 8388608; }
@test "RC: path MTU 256" { verified --procs 1 --mtu 256 --max-size 100000 --ops 300; }
@test "RC: 256 QPs" { verified --procs 1 --qps 256 --ops 20 --max-size 20000; }
@test "RC: four pairs of processes" { verified --procs 4 --qps 4 --ops 300 --max-size 100000; }
@test "RC: four threads" { verified --procs 1 --qps 8 --threads 4 --ops 500 --max-size 100000; }
@test "RC: shared receive queue" { verified --procs 1 --qps 8 --srq --ops 500 --max-size 100000; }
@test "RC: sleeping on completion channels" {
	verified --procs 1 --qps 4 --events --ops 500 --max-size 100000
}
@test "RC: queues of two work requests" { verified --procs 1 --depth 2 --ops 500 --max-size 100000; }
@test "RC: posting and polling by the extended calls" {
	verified --procs 1 --qps 8 --api wr --cq ex --ops 500 --max-size 100000
}
@test "UC" { verified --procs 1 --qp-type uc; }
@test "UD" { verified --procs 1 --qp-type ud; }

@test "RC: buffers in a pool that the other process maps" {
	isolated timeout -k 5 100 "$URXE" run --pool -- "$traffic" --dev urxe0 --time-limit 90 \
		--procs 1 --qps 8 --ops 500
}

@test "RC over a faulty wire, seed 1" { faulty 1 --procs 1 --qps 8 --ops 500 --max-size 200000; }
@test "RC over a faulty wire, seed 2" { faulty 2 --procs 1 --qps 8 --ops 500 --max-size 200000; }
@test "RC over a faulty wire, seed 3" { faulty 3 --procs 1 --qps 8 --ops 500 --max-size 200000; }
@test "RC over a faulty wire: large messages" {
	faulty 4 --procs 1 --qps 2 --ops 40 --max-size 8388608
}
@test "RC over a faulty wire: threads, events and a shared receive queue" {
	faulty 5 --procs 2 --qps 8 --threads 2 --events --srq --ops 200 --max-size 100000
}
@test "UC over a faulty wire: what arrives is right" {
	faulty 6 --procs 1 --qp-type uc --max-size 4096
}
@test "UD over a faulty wire: what arrives is right" {
	faulty 7 --procs 1 --qp-type ud --allow-dup
}
