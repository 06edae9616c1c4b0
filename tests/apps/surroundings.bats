#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# Programs where something is missing or forbidden: limits, sandboxes, other people's homes. They run, or are
# told in a line what stands in the way.
load helpers

X="ibv_rc_pingpong -d urxe0 -g 0 -n 50 -c"

# under COMMAND…: a ping-pong whose client is started by that command.
under() {
	# shellcheck disable=SC2086
	isolated "$top/tests/guest/bin/pair" -q -t 30 "$URXE" run -- $X :: "$@" "$URXE" run -- $X 127.0.0.1
}

# says PATTERN COMMAND…: it fails, and the pattern is in what it says.
says() {
	run "${@:2}"
	echo "status $status, output: $output"
	[ "$status" -ne 0 ]
	[[ $output == *$1* ]]
}

setup() {
	cd "$BATS_TEST_TMPDIR"
}

# Namespaces in which mounts can be made.
needs_namespaces() {
	unshare -Urnm true 2>/dev/null || unshare -nm true 2>/dev/null || skip "no namespaces"
}

@test "few descriptors" { under prlimit --nofile=24:24; }
@test "too few descriptors" {
	local most
	for most in 8 10 12; do
		says "ulimit -n" isolated prlimit --nofile=$most:$most env \
			LD_PRELOAD="${URXE%/*}/provider/liburxe.so" ibv_devinfo -d urxe0
		[ "$(grep -c '^urxe: ' <<<"$output")" -eq 1 ]
	done
}
@test "nothing may be locked in memory" { under prlimit --memlock=0:0; }
@test "files of 1 MB at most" { under prlimit --fsize=1000000:1000000; }
@test "files of 10 KB at most: that is named" {
	says "ulimit -f" isolated prlimit --fsize=10000:10000 "$URXE" run -- ibv_devinfo -d urxe0
}
@test "no standard input, output or error" { under sh -c 'exec "$@" <&- >&- 2>&-' sh; }
@test "a umask that denies everything" { under sh -c 'umask 777; exec "$@"' sh; }
@test "no rights to gain" { under setpriv --no-new-privs --bounding-set=-all; }

# What sandboxes refuse that came to the kernel after them, by their numbers: statx first.
denied() { # ERRNO
	[ "$(uname -m)" = x86_64 ] || skip "system calls have other numbers here"
	local statx=332 reading=310 writing=311 pidfd=434 pidfd_getfd=438 memfd=319 preadv2=327 \
		membarrier=324 rseq=334 close_range=436
	under "${URXE_BIN:-${URXE%/*}/tests/apps}/deny" "$1" $statx $reading $writing $pidfd $pidfd_getfd \
		$memfd $preadv2 $membarrier $rseq $close_range --
}
@test "a sandbox that refuses the younger system calls (EPERM)" { denied 1; }
@test "a sandbox that does not know the younger system calls (ENOSYS)" { denied 38; }

@test "too little address space is named" {
	says "ulimit -v" isolated prlimit --as=100000000 "$URXE" run -- ibv_devinfo -d urxe0
}

@test "no /sys" {
	needs_namespaces
	under unshare -m sh -c 'mount -t tmpfs none /sys && exec "$@"' sh
}

@test "no /proc" {
	needs_namespaces
	isolated unshare -m sh -c 'mount -t tmpfs none /proc && exec "$@"' sh \
		"$URXE" run -- ibv_devinfo -d urxe0
}

@test "a user namespace of its own, in which the user has another uid" {
	needs_namespaces
	[ "$(id -u)" = 0 ] || skip "a namespace in the one of these tests does not know the user's uid"
	under unshare -U --map-user=1000
}

@test "a /dev/shm of its own beside others, which are not served the half of each other's packets" {
	needs_namespaces
	isolated sh -c '
		"$@" ibv_asyncwatch -d urxe0 >holder & holder=$!
		until grep -q FD holder; do sleep 0.02; done
		unshare -m sh -c "mount -t tmpfs none /dev/shm && exec \"\$@\"" sh \
			"$@" ibv_devinfo -d urxe0 >one 2>&1
		echo $? >status
		URXE_RUNTIME_DIR=$PWD "$@" ibv_devinfo -d urxe0 >two 2>&1
		echo $? >>status
		kill $holder
		wait
		# And when nobody has the port any more
		URXE_RUNTIME_DIR=$PWD exec "$@" ibv_devinfo -d urxe0' sh "$URXE" run --
	cat status one two
	[ "$(xargs <status)" != "0 0" ]
	grep -q "do not share /dev/shm/urxe" one
	grep -q "do not share $PWD/urxe" two
}

@test "a /dev/shm that cannot be written to" {
	needs_namespaces
	says "let this process write there" isolated sh -c '
		"$@" ibv_devinfo -d urxe0 && mount -o remount,bind,ro /dev/shm &&
		exec "$@" ibv_devinfo -d urxe0' sh "$URXE" run --
}

# Bound on itself, so that what lies there can still be read.
@test "a /tmp that cannot be written to" {
	needs_namespaces
	under unshare -m sh -c 'mount --bind /tmp /tmp && mount -o remount,bind,ro /tmp && exec "$@"' sh
}

@test "neither /dev/shm nor /tmp can be written to: that is named" {
	needs_namespaces
	says URXE_RUNTIME_DIR isolated env -u XDG_RUNTIME_DIR unshare -m sh -c 'for d in /dev/shm /tmp; do
		mount --bind $d $d && mount -o remount,bind,ro $d || exit; done; exec "$@"' sh \
		"$URXE" run -- ibv_rc_pingpong -d urxe0 -g 0
}

@test "a home that is another user's" {
	mkdir home
	chmod 0 home
	local as=()
	if [ "$(id -u)" = 0 ]; then
		as=(setpriv --reuid=65534 --clear-groups)
		"${as[@]}" test -x "$URXE" || skip "another user cannot reach $URXE"
	fi
	HOME=$PWD/home "${as[@]}" "$URXE" devices
}

@test "memcheck finds nothing to say" {
	command -v valgrind >/dev/null || skip "there is no valgrind"
	isolated "$top/tests/guest/bin/pair" -q -t 60 "$URXE" run -- ibv_rc_pingpong -d urxe0 -g 0 -n 5 :: \
		"$URXE" run -- valgrind -q --error-exitcode=9 ibv_rc_pingpong -d urxe0 -g 0 -n 5 127.0.0.1
}
