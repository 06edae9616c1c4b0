# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# A sacached before a scripted SA that knows fe80::N at LID N, with its files in $dir.

here=$BATS_TEST_DIRNAME
URXE_BIN=${URXE_BIN:-${URXE%/*}/tests/apps}
SACACHED=${URXE%/*}/daemons/sacached/sacached

setup() {
	[ -x "$SACACHED" ] || skip "the daemons are not built"
	dir=$BATS_TEST_TMPDIR
	pids=()
}

teardown() {
	local pid
	for pid in "${pids[@]}"; do
		kill -CONT "$pid" 2>/dev/null || true
		kill -KILL "$pid" 2>/dev/null || true
		wait "$pid" 2>/dev/null || true
	done
}

# serve SETTING…: starts it, as $daemon, and waits until it serves. BEFORE is a command to run it by,
# descriptors how many it may have.
BEFORE=()
serve() {
	local options=() setting tries
	for setting in 'policy always' "ibacm_dir $dir" "run_dir $dir/run" 'netlink no' "$@"; do
		options+=(-o "$setting")
	done
	rm -f "$dir/log"
	touch "$dir/log"
	(
		ulimit -n "${descriptors:-$(ulimit -Hn)}"
		export LD_PRELOAD=$URXE_BIN/sacached_sa.so
		exec "${BEFORE[@]}" "$SACACHED" -c /dev/null "${options[@]}"
	) 2>"$dir/log" 3>&- &
	daemon=$!
	pids+=("$daemon")
	for ((tries = 200; tries > 0; tries--)); do
		grep -q ready "$dir/log" && return
		kill -0 "$daemon" 2>/dev/null || break
		sleep 0.02
	done
	cat "$dir/log"
	return 1
}

ends() {
	kill "$daemon"
	wait "$daemon"
}
