#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# What takes minutes on a virtual fabric: meson test -C build --suite soak. The seed is printed; SACACHE_SEED sets it.

here=$BATS_TEST_DIRNAME
export SACACHE_FABRIC=1 URXE URXE_BIN=${URXE_BIN:-${URXE%/*}/tests/apps}

setup() {
	unshare -Urnmpf --mount-proc true 2>/dev/null || skip "no namespaces"
}

@test "saquery agrees 1,000 times with what is cached while the subnet changes" {
	timeout 600 "$here/sacache-subnet" 4 4 2 \
		"$here/sacache-follow" 1000 "${SACACHE_SEED:-$RANDOM}" 2>&1 | sed 's/^/# /' >&3
	[ "${PIPESTATUS[0]}" -eq 0 ]
}

@test "reconnect-storm with 1,000 peers of 1,024 hosts" {
	timeout 800 "$here/sacache-subnet" 32 32 16 "$here/sacache-storm" \
		"$URXE_BIN/../../examples/reconnect-storm" --peers 1000 --rounds 3 --seed 7 2>&1 | sed 's/^/# /' >&3
	[ "${PIPESTATUS[0]}" -eq 0 ]
}
