#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# The file /dev/infiniband/rdma_cm for a program that writes its commands itself (rdmacm_file.c).
load helpers

URXE_BIN=${URXE_BIN:-${URXE%/*}/tests/apps}

file() {
	isolated timeout -k 5 60 "$URXE" run -- "$URXE_BIN/rdmacm_file" "$@"
}

@test "it is a character device of the number that sysfs names" { file is_a_device; }
@test "commands are carried out, bad ones refused" { file commands; }
@test "an id is bound to a device by its address, to none by another of loopback" { file bound; }
@test "disconnecting a listener changes nothing" { file listener; }
@test "options that are set after binding count" { file options_after_binding; }
@test "a port that is listened on is not shared any more" { file listening_ends_sharing; }
@test "an event makes it readable" { file an_event_makes_it_readable; }
@test "copies of a descriptor share the file, which lives as long as one of them" { file copies; }
@test "dup2 and dup3 onto it close it" { file replaced; }
@test "close_range and closefrom close it" { file closed_with_many; }
@test "a number that was closed by a bare system call is another file's" {
	file closed_by_a_bare_call
}
@test "children do no harm to what they inherit" { file inherited; }
@test "threads copy, use and close descriptors at once" { file threads; }
@test "without a device of urxe it is the kernel's" {
	[ ! -e /dev/infiniband/rdma_cm ] || skip "the kernel has one"
	run isolated sh -c 'ip link set lo down; exec env -u URXE_DEVICES "$@"' sh "$URXE" run -- \
		"$URXE_BIN/rdmacm_file" is_a_device
	[ "$status" = 1 ]
	[[ "$output" == *"not true: fd >= 0 (errno 2)"* ]]
}
