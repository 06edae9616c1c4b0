# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# Shared by the .bats files: runs real programs under `urxe run`, each test in namespaces of its own
# (network and /dev/shm), so that tests need no rights, see no other process and clash on no port.
# A machine that grants no user namespaces runs them on its own lo, one after another.

top=$(cd "$BATS_TEST_DIRNAME/../.." && pwd)
URXE=${URXE:-$top/build/urxe}
export URXE_DEVICES=${URXE_DEVICES:-urxe0=lo}

# isolated COMMAND…: runs it where lo is up and nothing else is there; before it, the commands in $INSIDE.
isolated() {
	local inside='mount -t tmpfs shm /dev/shm && ip link set lo up && eval "${INSIDE:-:}" && exec "$@"'
	PATH=$PATH:/usr/sbin:/sbin
	if unshare -Urnm true 2>/dev/null; then
		unshare -Urnm sh -c "$inside" sh "$@"
	elif unshare -nm true 2>/dev/null; then
		unshare -nm sh -c "$inside" sh "$@"
	else
		flock "${TMPDIR:-/tmp}/urxe-tests.lock" "$@"
	fi
}

# pair SERVER… :: CLIENT…: both in this namespace; fails with the output of both.
pair() {
	"$top/tests/guest/bin/pair" -q -t "${LIMIT:-120}" "$@"
}

# urxe_pair PROGRAM ARGS…: the program with itself over urxe0, on 127.0.0.1.
urxe_pair() {
	isolated "$top/tests/guest/bin/pair" -q -t "${LIMIT:-120}" \
		"$URXE" run -- "$@" :: "$URXE" run -- "$@" 127.0.0.1
}

# pingpong PROGRAM ARGS…: one of libibverbs' example programs, which check nothing but the
# completions; -c makes them check the bytes too.
pingpong() {
	urxe_pair "$1" -d urxe0 -g 0 -c "${@:2}"
}

# perf PROGRAM ARGS…: one of perftest's programs; it must have printed a row of figures.
perf() {
	local out
	out=$(urxe_pair "$1" -d urxe0 -x 0 -F "${@:2}" 2>&1) || {
		echo "$out"
		return 1
	}
	# A row begins with the size and has only numbers; its last figure, a rate or a time, is never zero
	# (MB/s is where 20 messages of 2 bytes had to wait for their turn). They all are, rates zero and times "inf", where
	# perftest could not find out the processor's speed, as it says then: it fits a line to short sleeps, which a busy
	# machine makes long.
	echo "$out" | awk '/Correlation coefficient/ { no_clock = 1 }
		/^ +[0-9]+ +[0-9]+ +([0-9.]+|inf) +([0-9.]+|inf)/ { rows++; if ($NF ~ /inf/ || $NF + 0 <= 0) bad++ }
		END { exit !(rows && (!bad || no_clock)) }' || {
		echo "$out"
		return 1
	}
}

setup() {
	[ -x "$URXE" ] || {
		echo "$URXE is not built: meson setup build && ninja -C build"
		return 1
	}
}

# again_if_refused COMMAND…: perftest's programs with -R. They shake hands, and then the server
# listens while the client connects; a client that is the faster one is refused (nobody listens)
# and, where it would try again, crashes. So we do.
again_if_refused() {
	local out
	for _ in 1 2 3 4 5; do
		out=$("$@" 2>&1) && return
		[[ $out == *"REJECTED; error: 8"* || $out == *"UNREACHABLE; error: 1"* ]] || break
	done
	echo "$out"
	return 1
}
