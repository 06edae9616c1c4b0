#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# libibverbs' own example programs, server and client over urxe0 on lo.
load helpers

@test "ibv_devices lists urxe0" {
	run isolated "$URXE" run -- ibv_devices
	echo "$output"
	[ "$status" -eq 0 ]
	[[ $output == *urxe0* ]]
}

@test "ibv_devinfo -v shows urxe0 with an active port and its GIDs" {
	run isolated "$URXE" run -- ibv_devinfo -v
	echo "$output"
	[ "$status" -eq 0 ]
	[[ $output =~ hca_id:[[:space:]]+urxe0 ]]
	[[ $output == *PORT_ACTIVE* ]]
	[[ $output == *::ffff:127.0.0.1* ]]
	[[ $output == *"RoCE v2"* ]]
}

@test "ibv_devinfo -l counts the devices that URXE_DEVICES names" {
	URXE_DEVICES=urxe7=lo run isolated "$URXE" run -- ibv_devinfo -l
	echo "$output"
	[ "$status" -eq 0 ]
	[[ $output == *"1 HCA"*urxe7* ]]
}

@test "ibv_rc_pingpong" { pingpong ibv_rc_pingpong; }
@test "ibv_rc_pingpong -e" { pingpong ibv_rc_pingpong -e; }
@test "ibv_rc_pingpong, 1 MiB" { pingpong ibv_rc_pingpong -s 1048576 -n 100; }
@test "ibv_rc_pingpong, path MTU 256" { pingpong ibv_rc_pingpong -m 256; }
@test "ibv_rc_pingpong -N (ibv_wr interface)" { pingpong ibv_rc_pingpong -N; }
@test "ibv_uc_pingpong" { pingpong ibv_uc_pingpong; }
@test "ibv_uc_pingpong -e" { pingpong ibv_uc_pingpong -e; }
@test "ibv_ud_pingpong" { pingpong ibv_ud_pingpong; }
@test "ibv_ud_pingpong -e" { pingpong ibv_ud_pingpong -e; }
@test "ibv_srq_pingpong" { pingpong ibv_srq_pingpong; }
@test "ibv_srq_pingpong -e" { pingpong ibv_srq_pingpong -e; }
@test "ibv_srq_pingpong, 64 QPs" { pingpong ibv_srq_pingpong -q 64 -r 600; }

@test "ibv_rc_pingpong over ::1" {
	isolated "$top/tests/guest/bin/pair" -q \
		"$URXE" run -- ibv_rc_pingpong -d urxe0 -g 1 -c :: \
		"$URXE" run -- ibv_rc_pingpong -d urxe0 -g 1 -c 127.0.0.1
}
