#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# rdma-core's own verbs tests, as Debian ships them with rdma-core and python3-pyverbs. The kernel's
# rxe passes 84 of them outside test_rdmacm, and so must urxe; the connection manager is not here.
load helpers

tests=/usr/share/doc/rdma-core/tests

@test "rdma-core's verbs tests: none fails, at least 84 pass outside test_rdmacm" {
	[ -e $tests/run_tests.py ] || skip "rdma-core's tests are not installed"
	dir=$BATS_TEST_TMPDIR/tests
	cp -r $tests "$dir"
	gunzip -f "$dir"/*.gz
	cd "$dir"
	isolated timeout -k 5 400 "$URXE" run -- /usr/bin/python3 run_tests.py --dev urxe0 -v \
		>"$BATS_TEST_TMPDIR/log" 2>&1 || true
	run "$BATS_TEST_DIRNAME/pyverbs-result" "$BATS_TEST_TMPDIR/log" 84
	echo "$output"
	[ "$status" -eq 0 ]
}
