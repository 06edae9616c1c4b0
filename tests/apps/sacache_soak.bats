#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# What takes minutes: meson test -C build --suite soak. The seed is printed; SACACHE_SEED sets it.

here=$BATS_TEST_DIRNAME
export URXE_BIN=${URXE_BIN:-${URXE%/*}/tests/apps}

@test "saquery agrees 1,000 times with what is cached while the subnet changes" {
	unshare -Urnmpf --mount-proc true 2>/dev/null || skip "no namespaces for ibsim's sockets"
	timeout 600 "$here/sacache-subnet" 4 4 2 \
		"$here/sacache-follow" 1000 "${SACACHE_SEED:-$RANDOM}" 2>&1 | sed 's/^/# /' >&3
	[ "${PIPESTATUS[0]}" -eq 0 ]
}
