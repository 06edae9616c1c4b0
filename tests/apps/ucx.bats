#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# UCX over urxe0, on RC and on UD alone: what it finds, its own performance test with each kind of operation,
# and Open MPI on it, with a program that looks at every byte.
load helpers

export UCX_NET_DEVICES=urxe0:1

# ucx TRANSPORT TEST SIZE COUNT OPTIONS…: ucx_perftest between two processes; it must print a row of figures.
ucx() {
	local out
	out=$(UCX_TLS=$1 isolated "$top/tests/guest/bin/pair" -q -t 60 "$URXE" run -- ucx_perftest -p 13337 \
		:: "$URXE" run -- ucx_perftest 127.0.0.1 -p 13337 -f -t "$2" -s "$3" -n "$4" -w 10 "${@:5}" 2>&1) &&
		grep -qE "^ +$4 +[0-9.]+ +[0-9.]+ " <<<"$out" && ! grep -qE 'ERROR|WARN' <<<"$out" || {
		echo "$out"
		return 1
	}
}

# mpi TRANSPORT: two ranks of Open MPI.
mpi() {
	TMPDIR=$BATS_TEST_TMPDIR OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 UCX_TLS=$1 isolated timeout 60 \
		"$URXE" run -- mpirun.openmpi -n 2 --oversubscribe --mca plm isolated \
		--mca pml ucx --mca osc ucx --mca btl self --mca mpi_yield_when_idle 1 \
		"$BATS_TEST_DIRNAME/ucx-mpi" 2>&1
}

@test "UCX finds RC with atomics, UD, and the connection manager" {
	run isolated "$URXE" run -- ucx_info -d
	echo "$output"
	device=$(sed -n '/Memory domain: urxe0/,/Memory domain: [^u]/p' <<<"$output")
	for line in 'Transport: rc_verbs' 'atomic_fadd: 64 bit' 'atomic_cswap: 64 bit' \
		'Transport: ud_verbs' 'Connection manager: rdmacm'; do
		grep -q "$line" <<<"$device"
	done
}

@test "tagged messages, RC" { ucx rc_v tag_lat 8 1000; }
@test "tagged messages by rendezvous, RC" { ucx rc_v tag_bw 1000000 20; }
@test "tagged messages between processes that sleep, RC" { ucx rc_v tag_lat 8 500 -E sleep; }
@test "active messages, RC" { ucx rc_v ucp_am_bw 5000 500; }
@test "a stream, RC" { ucx rc_v stream_bw 70000 50; }
@test "put, RC" { ucx rc_v ucp_put_bw 70000 50; }
@test "get, RC" { ucx rc_v ucp_get 70000 50; }
@test "fetch and add, RC" { ucx rc_v ucp_fadd 8 200; }
@test "compare and swap, RC" { ucx rc_v ucp_cswap 8 200; }
@test "tagged messages, UD" { ucx ud_v tag_lat 8 1000; }
@test "active messages, UD" { ucx ud_v ucp_am_bw 5000 500; }

@test "connections by rdma_cm: streams, tagged and active messages" {
	local example=/usr/share/doc/libucx-dev/examples/ucp_client_server.c ucp=$BATS_TEST_TMPDIR/ucp kind
	[ -f $example ] || skip "there is no $example (libucx-dev)"
	cc -o "$ucp" $example -lucp -lucs
	for kind in stream tag am; do
		UCX_TLS=rc_v UCX_SOCKADDR_TLS_PRIORITY=rdmacm run isolated "$top/tests/guest/bin/pair" -q -k -t 60 \
			"$URXE" run -- "$ucp" -c $kind -i 3 :: "$URXE" run -- "$ucp" -a 127.0.0.1 -c $kind -i 3
		echo "$output"
		[ "$status" = 0 ]
		[[ $output == *'Client: iteration #3'*ABCDEFGHIJKLMNO* ]]
	done
}

@test "MPI over RC: every message, every one-sided operation, fork" {
	run mpi rc_v
	echo "$output"
	[[ $output == *'2 ranks agree'* ]]
}

@test "MPI over UD" {
	run mpi ud_v
	echo "$output"
	[[ $output == *'2 ranks agree'* ]]
}
