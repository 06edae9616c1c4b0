#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# perftest's programs over UC and UD with all sizes, which takes them long.
load helpers

@test "ib_send_bw -c UC -a -n 20" { perf ib_send_bw -c UC -a -n 20; }
@test "ib_send_bw -c UD -a -n 20" { perf ib_send_bw -c UD -a -n 20; }
@test "ib_send_lat -c UC -a -n 20" { perf ib_send_lat -c UC -a -n 20; }
@test "ib_send_lat -c UD -a -n 20" { perf ib_send_lat -c UD -a -n 20; }
@test "ib_write_bw -c UC -a -n 20" { perf ib_write_bw -c UC -a -n 20; }
@test "ib_write_lat -c UC -a -n 20" { perf ib_write_lat -c UC -a -n 20; }
