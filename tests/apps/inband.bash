# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# What the tests of inbandd at thsim share: a folder for each test, both programs in the background, waiting.

export THSIM=${URXE%/*}/inband/sim/thsim
INBANDD=${URXE%/*}/daemons/inbandd/inbandd

prepare() {
	[ -x "$INBANDD" ] || skip "the daemons are not built"
	dir=$BATS_TEST_TMPDIR
	export THSIM_SOCKET=$dir/thsim
	pids=()
}

setup() {
	prepare
}

teardown() {
	local pid
	for pid in "${pids[@]}"; do
		kill -KILL "$pid" 2>/dev/null || true
	done
}

# says FILE TEXT PID: waits until that is in the file, as long as the process lives.
says() {
	local tries
	for ((tries = 1000; tries > 0; tries--)); do
		grep -q -- "$2" "$1" && return
		kill -0 "$3" 2>/dev/null || break
		sleep 0.02
	done
	# Its last words, if it has ended in between.
	grep -q -- "$2" "$1" && return
	cat "$1"
	return 1
}

# machine OPTION…: a thsim as $sim.
machine() {
	"$THSIM" "$@" >"$dir/sim.log" 2>&1 3>&- &
	sim=$!
	pids+=("$sim")
	says "$dir/sim.log" ready "$sim"
}

# start_inbandd SETTING…: an inbandd as $daemon, which has discovered what there is.
start_inbandd() {
	local options=() setting
	for setting in "control_socket $dir/control" "$@"; do
		options+=(-o "$setting")
	done
	: >"$dir/log"
	"$INBANDD" -c /dev/null "${options[@]}" >"$dir/log" 2>&1 3>&- &
	daemon=$!
	pids+=("$daemon")
	says "$dir/log" "of the network's time" "$daemon"
}
