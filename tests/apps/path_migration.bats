#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# Path migration of RC and UC QPs under traffic, over urxe0 on lo: from one GID to another, by rings and
# by UDP, between two processes and within one. fabric_verbs.bats has links that go down.
load helpers

program=${URXE_BIN:-${URXE%/*}/tests/apps}/verbs_path_migration

# migrating CASE [COUNT]: both ends in one process, or the second one in another, as PEER says.
migrating() {
	isolated timeout -k 5 90 "$URXE" run -- "$program" "$@"
}

@test "the states, over and over, at two processes by rings" {
	PEER=$program migrating cycle 100
}

@test "the same with packets that are lost" {
	URXE_FAULT=drop=2%,seed=1 PEER=$program migrating cycle 100
}

@test "the same within a process, and over UDP with packets that are lost" {
	migrating cycle 20
	URXE_WIRE=udp URXE_FAULT=drop=2%,seed=2 migrating cycle 50
}

@test "an end that sends nothing migrates, and is followed" {
	QUIET=1 PEER=$program migrating cycle 20
	URXE_WIRE=udp QUIET=1 PEER=$program migrating cycle 20
}

@test "QPs that access their peers' memory directly arm and migrate as others do" {
	TYPE=writes PEER=$program migrating cycle 20
	TYPE=writes migrating cycle 20
	QUIET=1 TYPE=writes PEER=$program migrating cycle 20
}

@test "UC migrates by request" {
	TYPE=uc PEER=$program migrating cycle 50
	URXE_WIRE=udp TYPE=uc PEER=$program migrating cycle 50
}

@test "an address goes away under traffic, and the other one is used; and back" {
	URXE_WIRE=udp PEER=$program CUT='ip addr del 127.0.0.1/8 dev lo' \
		HEAL='ip addr add 127.0.0.1/8 dev lo' CUT_TOO='ip addr del ::1/128 dev lo' migrating back
}

@test "without a third path the QP ends by its retries" {
	URXE_WIRE=udp PEER=$program CUT='ip addr del 127.0.0.1/8 dev lo' \
		CUT_TOO='ip addr del ::1/128 dev lo' migrating spent
}

@test "a process that is killed with its path armed is spoken for by that path" {
	PEER=$program migrating killed
}
