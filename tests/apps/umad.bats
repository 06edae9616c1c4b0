#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# umad on RoCE devices: QP 1's classes, as the kernel has them on rxe. What umad_probe printed there
# is in umad_probe.kernel and umad_probe.roce.
load helpers
load scene

URXE_BIN=${URXE_BIN:-${URXE%/*}/tests/apps}

probe() {
	isolated timeout -k 5 60 "$URXE" run -- "$URXE_BIN/umad_probe" "$@"
}

@test "a umad file does what the kernel's does, over IPv4 and IPv6" {
	probe 0 | diff "$BATS_TEST_DIRNAME/umad_probe.kernel" -
	probe 1 | diff "$BATS_TEST_DIRNAME/umad_probe.kernel" -
}

@test "addresses, and agents of two processes, are the kernel's" {
	probe 1 roce | diff "$BATS_TEST_DIRNAME/umad_probe.roce" -
	URXE_WIRE=udp probe 1 roce | diff "$BATS_TEST_DIRNAME/umad_probe.roce" -
}

@test "a thread that reads a file may be cancelled anywhere" {
	isolated timeout 60 "$URXE" run -- "$URXE_BIN/umad_cancel" 3000
}

@test "a file without the P_Key index needs no room for one" {
	probe 1 old | diff "$BATS_TEST_DIRNAME/umad_probe.old" -
}

@test "a program that does not read long answers holds nobody up" {
	probe 1 full >"$BATS_TEST_TMPDIR/out"
	diff - "$BATS_TEST_TMPDIR/out" <<-END
		answered: 8000
		read of 320: errno 28
	END
}

@test "an answer of many segments crosses from host to host, beside connections" {
	two_hosts '
		$there $run "$1" 0 serve >server & server=$!
		$there $run rping -s -C 1 -a 10.1.1.2 >rping & rping=$!
		until grep -q serving server; do sleep 0.02; done
		$here $run "$1" 0 ask ::ffff:10.1.1.2
		kill $server $rping
	' "$URXE_BIN/umad_probe"
	[[ "$output" == *"answer: 5104 bytes, status 0, 0 bytes wrong"* ]]
}

@test "a file of a device that is gone fails with EIO" {
	two_hosts '
		$here $run "$1" 0 serve >server & server=$!
		until grep -q serving server; do sleep 0.02; done
		ip link del v0
		within 5000 $server
		wait $server || echo "ended with $?"
	' "$URXE_BIN/umad_probe"
	grep -q "no more: errno 5" "$BATS_TEST_TMPDIR/server"
}

@test "libibumad finds the port, and programs of infiniband-diags fail as on rxe" {
	isolated "$URXE" run -- ibstat urxe0 | grep -q "Link layer: Ethernet"
	run isolated "$URXE" run -- smpquery -C urxe0 nodeinfo 1
	[ "$status" -eq 255 ]
	[[ "$output" == *"client_register for mgmt 1 failed"* ]]
}
