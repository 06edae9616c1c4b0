#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# rdma-core's own tests, as Debian ships them with rdma-core and python3-pyverbs. The kernel's rxe
# passes 84 of them outside test_rdmacm, and so must urxe; of test_rdmacm all that there are.
load helpers

tests=/usr/share/doc/rdma-core/tests

@test "rdma-core's tests: none fails, at least 159 pass, all of test_rdmacm among them" {
	dir=$BATS_TEST_TMPDIR/tests
	if [ ! -e $tests/run_tests.py ]; then	# where dpkg is told to leave documentation out
		(cd "$BATS_TEST_TMPDIR" && apt-get download rdma-core && dpkg -x rdma-core_*.deb .)
		tests=$BATS_TEST_TMPDIR$tests
	fi
	cp -r $tests "$dir"
	gunzip -f "$dir"/*.gz
	cd "$dir"
	isolated timeout -k 5 400 "$URXE" run -- /usr/bin/python3 run_tests.py --dev urxe0 -v \
		>"$BATS_TEST_TMPDIR/log" 2>&1 || true
	run "$BATS_TEST_DIRNAME/pyverbs-result" "$BATS_TEST_TMPDIR/log" 159
	echo "$output"
	[ "$status" -eq 0 ]
}
