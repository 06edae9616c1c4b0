#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# What every program answers to options that it does not have, and where it cannot write.

programs() {
	local build=${URXE%/*} name
	for name in fabricd inbandd inbandctl lidtrackd lidtrackctl sacached sacachectl urxe-ipoib urxe-switch; do
		echo "$build/daemons/$name/$name"
	done
	echo "$build/inband/sim/thsim"
	echo "$build/reorder/fabric-sim"
}

# answers STATUS TEXT COMMAND…: the status, and one line on stderr that has the text.
answers() {
	local status=0
	"${@:3}" 2>"$BATS_TEST_TMPDIR/err" </dev/null || status=$?
	echo "${*:3}: status $status"
	cat "$BATS_TEST_TMPDIR/err"
	[ "$status" = "$1" ]
	[ "$(wc -l <"$BATS_TEST_TMPDIR/err")" = 1 ]
	grep -qF -- "$2" "$BATS_TEST_TMPDIR/err"
}

full() {
	"$@" >/dev/full
}

@test "an option that there is not: a line that names it and says where they are" {
	local p
	for p in $(programs); do
		answers 2 "${p##*/}: --no-such: no such option, or its value is missing; see ${p##*/} --help" "$p" --no-such
		answers 2 "${p##*/}: -~: no such option, or its value is missing; see ${p##*/} --help" "$p" -~
	done
	answers 2 '"--no-such" is not a command' "$URXE" --no-such
	answers 2 '--no-such is not an option of urxe run' "$URXE" run --no-such
	answers 2 '--no-such is not an option of urxe ipoib' "$URXE" ipoib --no-such
	answers 2 '--no-such is not an option of urxe fabric' "$URXE" fabric --no-such
}

@test "words that are too many, or no command" {
	local p build=${URXE%/*}
	for p in inbandctl lidtrackctl sacachectl; do
		answers 2 "$p: there is no command \"nonsense\"; see $p --help" "$build/daemons/$p/$p" nonsense
	done
	for p in inbandd lidtrackd sacached; do
		answers 2 "$p: nonsense: what is that; see $p --help" "$build/daemons/$p/$p" nonsense
	done
	answers 2 'fabricd: one FILE is wanted; see fabricd --help' "$build/daemons/fabricd/fabricd"
	answers 2 '"nonsense" is not a command of urxe fabric' "$URXE" fabric nonsense
	answers 2 'too few words for urxe fabric, or too many' "$URXE" fabric link
}

@test "text that cannot be written is an error" {
	local p o
	for p in $(programs) "$URXE"; do
		for o in --help --version; do
			answers 1 "${p##*/}: standard output: No space left on device" full "$p" $o
		done
	done
	for p in devices counters listeners 'fabric generate fat-tree'; do
		# shellcheck disable=SC2086
		answers 1 'urxe: standard output: No space left on device' full "$URXE" $p
	done
	answers 1 'thsim: standard output: No space left on device' full "${URXE%/*}/inband/sim/thsim" --fields
	answers 1 'fabric-sim: standard output: No space left on device' full "${URXE%/*}/reorder/fabric-sim" --jobs
}

@test "pair says where it misses /proc" {
	unshare -Urm true 2>/dev/null || skip "no namespaces of mounts"
	answers 1 'pair: /proc is not mounted here' unshare -Urm sh -c 'mount -t tmpfs none /proc && exec "$@"' sh \
		"$BATS_TEST_DIRNAME/../guest/bin/pair" true :: true
}
