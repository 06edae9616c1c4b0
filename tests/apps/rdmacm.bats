#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# Debian's programs of librdmacm, and others that connect through it, on 127.0.0.1 and ::1.
load helpers

both() {
	URXE=$URXE isolated "$BATS_TEST_DIRNAME/rdmacm-pair" "$@"
}

@test "rping" { both rping -s -a 127.0.0.1 -C 10 -v -V :: rping -c -a 127.0.0.1 -C 10 -v -V; }
@test "rping over IPv6" { both rping -s -a ::1 -C 10 -V :: rping -c -a ::1 -C 10 -V; }
@test "rping with a server for many clients" {
	both -s rping -s -P -a 127.0.0.1 -V :: rping -c -a 127.0.0.1 -C 10 -V
}
@test "ucmatose" { both ucmatose -b 127.0.0.1 -c 20 -C 20 :: ucmatose -s 127.0.0.1 -c 20 -C 20; }
@test "ucmatose over IPv6" { both ucmatose -b ::1 -f ip6 :: ucmatose -s ::1 -f ip6; }
@test "ucmatose that migrates its ids" {
	both ucmatose -b 127.0.0.1 -c 20 -m :: ucmatose -s 127.0.0.1 -c 20 -m
}
@test "ucmatose that sets the type of service" {
	both ucmatose -b 127.0.0.1 -t 8 :: ucmatose -s 127.0.0.1 -t 8
}
@test "udaddy" { both udaddy -b 127.0.0.1 -c 10 :: udaddy -s 127.0.0.1 -c 10; }
@test "udaddy over IPv6" { both udaddy -b ::1 :: udaddy -s ::1; }
@test "mckey" {
	AGAIN=1 both mckey -m 239.7.7.7 -b 127.0.0.1 :: mckey -m 239.7.7.7 -b 127.0.0.1 -s
}
@test "cmtime: 500 connections" { both -s cmtime -b 127.0.0.1 -c 500 :: cmtime -s 127.0.0.1 -c 500; }
@test "rdma_server and rdma_client" { both rdma_server :: rdma_client -s 127.0.0.1; }
@test "rdma_xserver and rdma_xclient" { both rdma_xserver :: rdma_xclient -s 127.0.0.1; }
@test "rstream: blocking or not, with addresses resolved by rdma_cm, and verified" {
	for mode in b n r v; do
		both rstream -T $mode -S 4096 :: rstream -s 127.0.0.1 -T $mode -S 4096
	done
}
@test "udpong" { both -s udpong -b 127.0.0.1 :: udpong -s 127.0.0.1 -S 1000 -C 1000; }
@test "riostream" {
	both riostream -I 50 -C 1 -S 64 :: riostream -s 127.0.0.1 -I 50 -C 1 -S 64
}
@test "rcopy" {
	cd "$BATS_TEST_TMPDIR"
	head -c 10000000 /dev/urandom >from
	both -s rcopy :: rcopy "$PWD/from" "127.0.0.1:$PWD/to"
	cmp from to
}
@test "perftest -R" {
	for program in ib_send_bw ib_write_bw ib_read_lat; do
		both $program -R -F -n 1000 :: $program -R -F -n 1000 127.0.0.1
	done
}
@test "rdma-core's tests of rdma_cm: all that are not for one vendor's device pass" {
	local tests=/usr/share/doc/rdma-core/tests dir=$BATS_TEST_TMPDIR/tests
	if [ ! -e $tests/run_tests.py ]; then	# where dpkg is told to leave documentation out
		(cd "$BATS_TEST_TMPDIR" && apt-get download rdma-core && dpkg -x rdma-core_*.deb .)
		tests=$BATS_TEST_TMPDIR$tests
	fi
	cp -r "$tests" "$dir"
	gunzip -f "$dir"/*.gz
	cd "$dir"
	run isolated timeout -k 5 200 "$URXE" run -- /usr/bin/python3 run_tests.py --dev urxe0 -v \
		-k test_rdmacm.CMTestCase
	echo "$output"
	[ "$status" = 0 ]
	[ "$(grep -c '\.\.\. ok$' <<<"$output")" = 10 ]
}
