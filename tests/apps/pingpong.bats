#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# libibverbs' own example programs, server and client over urxe0 on lo.
load helpers
load scene

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

# 2000 round trips cost some 0.2 to 0.8 s of CPU time, and 5 s where each end polls until its time slice ends.
@test "ibv_rc_pingpong, both ends on one processor: a poller gives way to the other" {
	local cpu times=$BATS_TEST_TMPDIR/times TIMEFORMAT='%U %S'
	cpu=$(sed -n 's/^Cpus_allowed_list:[^0-9]*\([0-9]*\).*/\1/p' /proc/self/status)
	{ time urxe_pair taskset -c "$cpu" ibv_rc_pingpong -d urxe0 -g 0 -c -n 2000; } 2>"$times" || {
		cat "$times"
		return 1
	}
	cat "$times"
	tail -n 1 "$times" | awk '{ exit !($1 + $2 < 2.5) }'
}

# These programs name their XRC domains by files in /tmp, which may be another user's there: in a /tmp of
# their own all else is where it was.
own_xrc_files() {
	export INSIDE='own=$BATS_TEST_TMPDIR/tmp && mkdir -p "$own" && mount -t tmpfs tmp "$own" &&
		mkdir "$own/all" && mount --rbind /tmp "$own/all" && mount --rbind "$own" /tmp &&
		find /tmp/all -mindepth 1 -maxdepth 1 ! -name "xrc_domain*" -exec ln -s -t /tmp {} +'
}

@test "ibv_xsrq_pingpong" {
	own_xrc_files
	isolated "$top/tests/guest/bin/pair" -q -t 60 \
		"$URXE" run -- ibv_xsrq_pingpong -d urxe0 -g 0 :: \
		"$URXE" run -- ibv_xsrq_pingpong -d urxe0 -g 0 127.0.0.1
}
@test "ibv_xsrq_pingpong with four clients, each of which receives by the others' target QPs" {
	own_xrc_files
	scene '
		$run ibv_xsrq_pingpong -d urxe0 -g 0 -c 4 -n 50 >server 2>&1 &
		pids=$!
		until ss -Hltn "sport = :18515" | grep -q .; do sleep 0.02; done
		for i in 1 2 3 4; do
			$run ibv_xsrq_pingpong -d urxe0 -g 0 -n 50 127.0.0.1 >client$i 2>&1 &
			pids="$pids $!"
		done
		for pid in $pids; do wait $pid; done
	'
}
@test "ib_send_bw and ib_write_bw over XRC" {
	own_xrc_files
	LIMIT=60 perf ib_send_bw -c XRC -n 500
	LIMIT=60 URXE_WIRE=udp perf ib_write_bw -c XRC -n 500
}

@test "ibv_rc_pingpong over ::1" {
	isolated "$top/tests/guest/bin/pair" -q \
		"$URXE" run -- ibv_rc_pingpong -d urxe0 -g 1 -c :: \
		"$URXE" run -- ibv_rc_pingpong -d urxe0 -g 1 -c 127.0.0.1
}
