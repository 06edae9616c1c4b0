#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# perftest's programs, server and client over urxe0 on lo, with the options that each of them has.
# All sizes over UC and UD: perftest_soak.bats, because perftest takes half a second for each size.
load helpers
load scene

@test "ib_send_bw" { perf ib_send_bw; }
@test "ib_send_bw -e" { perf ib_send_bw -e; }
@test "ib_send_bw -I 64 -s 64" { perf ib_send_bw -I 64 -s 64; }
@test "ib_send_bw -q 16 -n 200" { perf ib_send_bw -q 16 -n 200; }
@test "ib_send_bw --use-srq" { perf ib_send_bw --use-srq; }
@test "ib_send_bw -s 1048576 -n 50" { perf ib_send_bw -s 1048576 -n 50; }
@test "ib_send_bw -a -n 20" { perf ib_send_bw -a -n 20; }
@test "ib_send_bw -c UC" { perf ib_send_bw -c UC; }
@test "ib_send_bw -c UC -I 64 -s 64" { perf ib_send_bw -c UC -I 64 -s 64; }
@test "ib_send_bw -c UC -q 16 -n 200" { perf ib_send_bw -c UC -q 16 -n 200; }
@test "ib_send_bw -c UD" { perf ib_send_bw -c UD; }
@test "ib_send_bw -c UD -e" { perf ib_send_bw -c UD -e; }
@test "ib_send_bw -c UD -I 64 -s 64" { perf ib_send_bw -c UD -I 64 -s 64; }
@test "ib_send_bw -c UD -q 16 -n 200" { perf ib_send_bw -c UD -q 16 -n 200; }
@test "ib_send_bw -c UD --use-srq" { perf ib_send_bw -c UD --use-srq; }

@test "ib_send_lat" { perf ib_send_lat; }
@test "ib_send_lat -e" { perf ib_send_lat -e; }
@test "ib_send_lat -I 64 -s 64" { perf ib_send_lat -I 64 -s 64; }
@test "ib_send_lat --use-srq" { perf ib_send_lat --use-srq; }
@test "ib_send_lat -s 1048576 -n 50" { perf ib_send_lat -s 1048576 -n 50; }
# In cycles (-C), because to find out the processor's speed perftest spins a quarter of a second for each size.
@test "ib_send_lat -a -n 20 -C" { perf ib_send_lat -a -n 20 -C; }
@test "ib_send_lat -c UC" { perf ib_send_lat -c UC; }
@test "ib_send_lat -c UC -I 64 -s 64" { perf ib_send_lat -c UC -I 64 -s 64; }
@test "ib_send_lat -c UD" { perf ib_send_lat -c UD; }
@test "ib_send_lat -c UD -e" { perf ib_send_lat -c UD -e; }
@test "ib_send_lat -c UD -I 64 -s 64" { perf ib_send_lat -c UD -I 64 -s 64; }
@test "ib_send_lat -c UD --use-srq" { perf ib_send_lat -c UD --use-srq; }

@test "ib_write_bw" { perf ib_write_bw; }
@test "ib_write_bw -I 64 -s 64" { perf ib_write_bw -I 64 -s 64; }
@test "ib_write_bw -q 16 -n 200" { perf ib_write_bw -q 16 -n 200; }
@test "ib_write_bw -s 1048576 -n 50" { perf ib_write_bw -s 1048576 -n 50; }
@test "ib_write_bw -a -n 20" { perf ib_write_bw -a -n 20; }
@test "ib_write_bw -c UC" { perf ib_write_bw -c UC; }
@test "ib_write_bw -c UC -I 64 -s 64" { perf ib_write_bw -c UC -I 64 -s 64; }
@test "ib_write_bw -c UC -q 16 -n 200" { perf ib_write_bw -c UC -q 16 -n 200; }

@test "ib_write_lat" { perf ib_write_lat; }
@test "ib_write_lat -I 64 -s 64" { perf ib_write_lat -I 64 -s 64; }
@test "ib_write_lat -s 1048576 -n 50" { perf ib_write_lat -s 1048576 -n 50; }
@test "ib_write_lat -a -n 20 -C" { perf ib_write_lat -a -n 20 -C; }
@test "ib_write_lat -c UC" { perf ib_write_lat -c UC; }
@test "ib_write_lat -c UC -I 64 -s 64" { perf ib_write_lat -c UC -I 64 -s 64; }

@test "ib_read_bw" { perf ib_read_bw; }
@test "ib_read_bw -e" { perf ib_read_bw -e; }
@test "ib_read_bw -q 16 -n 200" { perf ib_read_bw -q 16 -n 200; }
@test "ib_read_bw -s 1048576 -n 50" { perf ib_read_bw -s 1048576 -n 50; }
@test "ib_read_bw -a -n 20" { perf ib_read_bw -a -n 20; }

@test "ib_read_lat" { perf ib_read_lat; }
@test "ib_read_lat -e" { perf ib_read_lat -e; }
@test "ib_read_lat -s 1048576 -n 50" { perf ib_read_lat -s 1048576 -n 50; }
@test "ib_read_lat -a -n 20 -C" { perf ib_read_lat -a -n 20 -C; }

@test "ib_atomic_bw" { perf ib_atomic_bw; }
@test "ib_atomic_bw -e" { perf ib_atomic_bw -e; }
@test "ib_atomic_bw -q 16 -n 200" { perf ib_atomic_bw -q 16 -n 200; }
@test "ib_atomic_bw -A CMP_AND_SWAP" { perf ib_atomic_bw -A CMP_AND_SWAP; }

@test "ib_atomic_lat" { perf ib_atomic_lat; }
@test "ib_atomic_lat -e" { perf ib_atomic_lat -e; }
@test "ib_atomic_lat -A CMP_AND_SWAP" { perf ib_atomic_lat -A CMP_AND_SWAP; }

@test "ib_send_bw -b (both directions)" { perf ib_send_bw -b; }
@test "ib_write_bw -b (both directions)" { perf ib_write_bw -b; }
@test "ib_send_bw -r 16 -t 16 -q 4 (short queues)" { perf ib_send_bw -r 16 -t 16 -q 4; }
@test "ib_write_bw -D 2 (for two seconds)" { perf ib_write_bw -D 2; }

# raw PROGRAM ARGS…: between two hosts. Frames that come before the server has its flow rule are lost, so the
# client waits until the server listens to all of its interface's frames.
raw() {
	two_hosts '
		# await COMMAND…: until it succeeds, for ten seconds at most.
		await() {
			for try in $(seq 200); do
				"$@" && return
				sleep 0.05
			done
			false
		}
		is_up() { "$@" ip link show type veth | grep -q "state UP"; }
		listens() { $there grep -q " 0003 " /proc/net/packet; }
		mac() { "$@" ip -o link show type veth | grep -o "ether [0-9a-f:]*" | cut -d" " -f2; }
		await is_up env
		await is_up $there
		near=$(mac env) far=$(mac $there)
		$there $run "$@" -d urxe0 -F --server -E $near -B $far >server 2>&1 &
		server=$!
		await listens
		$here $run "$@" -d urxe0 -F --client -E $far -B $near >client 2>&1
		wait $server
		grep -E "^ +[0-9]+ +[0-9]+ +[0-9.]+" client
	' "$@"
}

@test "raw_ethernet_lat between two hosts" { raw raw_ethernet_lat -s 100 -n 1000; }
@test "raw_ethernet_bw between two hosts" { raw raw_ethernet_bw -s 1000 -D 1; }
