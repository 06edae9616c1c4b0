# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# The library in other people's programs: it changes nothing for those that use no verbs, and every
# way of reaching a verb leads to it. URXE names the urxe command, URXE_BIN the folder of the test
# programs; both are set by meson.

setup() {
	: "${URXE:?the urxe command}" "${URXE_BIN:?the test programs}"
	cd "$BATS_TEST_TMPDIR"
	# Under a sanitizer build, what the programs themselves leak is not our business.
	export ASAN_OPTIONS="detect_leaks=0:$ASAN_OPTIONS"
	LIBRARY=$("$URXE" run -- env | sed -n 's/^LD_PRELOAD=//p' | tr : '\n' | grep liburxe)
	export LC_ALL=C PATH=/usr/sbin:/usr/bin:/sbin:/bin
	export URXE_DEVICES=urxe0=lo
	# meson points it at the folder of the test programs, where a library plays libibverbs.
	unset LD_LIBRARY_PATH
}

# Some things do not go together with a sanitizer's runtime.
not_sanitized() {
	if nm -D "$LIBRARY" | grep -q -e __asan_init -e __tsan_init; then
		skip "not in a sanitizer build"
	fi
}

# Runs a command without the library and with it: output, messages and exit status must be the same.
same() {
	local plain loaded plain_status=0 loaded_status=0
	plain=$("$@" 2>&1 </dev/null) || plain_status=$?
	loaded=$("$URXE" run -- "$@" 2>&1 </dev/null) || loaded_status=$?
	[ "$plain" != "" ]
	diff <(echo "$plain") <(echo "$loaded")
	[ "$plain_status" = "$loaded_status" ]
}

@test "bash runs as without it" {
	cat >script <<-'END'
		exec 5>&1; echo to five >&5; exec 5>&-
		(echo a subshell); echo a pipe | cat | tr a b
		cat <(echo substitution); read -r x <<<here; echo "$x"
		for fd in /proc/$$/fd/*; do echo "${fd##*/}"; done
		exec 700</dev/null; echo "seven hundred: $?"; trap 'echo trapped' USR1; kill -USR1 $$
		sleep 5 & kill $!; wait $!; echo "killed: $?"
		coproc cat; in=${COPROC[0]} out=${COPROC[1]}; echo through >&"$out"
		read -r x <&"$in"; echo "$x"; kill "$COPROC_PID"
		ls /nonexistent; printf -v v '%s' end; echo "$v"; exit 3
	END
	same bash ./script
}

@test "python3 runs as without it" {
	cat >script.py <<-'END'
		import os, sys, subprocess, threading, socket, multiprocessing, ctypes, tempfile
		print(os.listdir("/proc/self/fd"))
		print(subprocess.check_output(["echo", "x"], close_fds=True))
		print(subprocess.run(["sh", "-c", "exit 4"]).returncode)
		t = threading.Thread(target=lambda: print("thread")); t.start(); t.join()
		a, b = socket.socketpair(); a.send(b"pair"); print(b.recv(9))
		pid = os.fork()
		if not pid:
		    os.closerange(3, 1 << 16); os._exit(7)
		print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
		with multiprocessing.get_context("fork").Pool(2) as p: print(p.map(abs, [-1, -2]))
		print(ctypes.CDLL(None).abs(-5), ctypes.CDLL("libc.so.6").labs(-6))
		os.dup2(1, 300); os.write(300, b"three hundred\n"); os.close(300)
		try: os.close(300)
		except OSError as e: print(e)
		with tempfile.TemporaryFile() as f: f.write(b"x"); print(f.fileno())
		sys.exit(5)
	END
	same /usr/bin/python3 script.py
}

@test "git runs as without it" {
	git init -q repo
	cat >script <<-'END'
		cd repo && rm -f file && echo one >file && git add file
		git -c user.name=n -c user.email=e@e commit -q --allow-empty -m one --date=@0
		git log --format=%s -1; git status --short; git grep -n one; git diff HEAD --stat
		git clone -q . ../clone && ls ../clone && rm -rf ../clone; git fsck; git nonsense
	END
	same sh ./script
}

@test "ssh and ssh-keygen run as without it" {
	same ssh -V
	ssh-keygen -q -t ed25519 -N '' -f key
	same ssh-keygen -lf key.pub
}

@test "env shows no difference but LD_PRELOAD" {
	diff <(env | grep -v '^_=' | sort) \
		<("$URXE" run -- env | grep -v -e '^_=' -e '^LD_PRELOAD=' | sort)
}

@test "another preloaded library stays, behind ours" {
	not_sanitized	# its runtime must come first, also in the urxe command
	LD_PRELOAD=$URXE_BIN/attach_wrap.so run "$URXE" run -- env
	[[ $output == *"LD_PRELOAD="*"$LIBRARY:$URXE_BIN/attach_wrap.so"* ]]
}

@test "loading it opens no descriptor, starts no thread and maps no segment" {
	cat >script <<-'END'
		fds=(/proc/$$/fd/*) tasks=(/proc/$$/task/*); echo "${#fds[@]} ${#tasks[@]}"
		grep -c -e /dev/shm -e /memfd /proc/$$/maps; exit 0
	END
	same bash ./script
}

# About as much as libibverbs costs, in turns: what a machine takes for either differs by ten times.
@test "loading it costs less than twice what the installed libibverbs does" {
	not_sanitized
	run /usr/bin/python3 - "$LIBRARY" <<-'END'
		import os, sys, time
		libraries = [None, sys.argv[1], "libibverbs.so.1"]
		best = [10.0] * 3
		for _ in range(100):
		    for i, library in enumerate(libraries):
		        t = time.perf_counter()
		        os.waitpid(os.posix_spawn("/bin/true", ["true"], {"LD_PRELOAD": library} if library else {}), 0)
		        best[i] = min(best[i], time.perf_counter() - t)
		plain, ours, theirs = best
		print(f"{(ours - plain) * 1e6:.0f} microseconds, libibverbs {(theirs - plain) * 1e6:.0f}")
		sys.exit(ours - plain >= 2 * (theirs - plain))
	END
	echo "$output"
	[ "$status" = 0 ]
}

@test "a program with a sanitizer of its own runs" {
	not_sanitized
	cat >t.c <<-'END'
		#include <stdio.h>
		#include <stdlib.h>
		#include <infiniband/verbs.h>
		int main(void)
		{
			struct ibv_device **list = ibv_get_device_list(NULL);
			puts(list && list[0] ? ibv_get_device_name(list[0]) : "none");
			ibv_free_device_list(list);
			return 0;
		}
	END
	for how in "gcc -fsanitize=address" "gcc -fsanitize=thread" "gcc -static-libasan -fsanitize=address" \
		"clang -fsanitize=address" "clang -fsanitize=thread"
	do
		command -v "${how%% *}" || continue
		$how -o sanitized t.c -libverbs
		run "$URXE" run -- ./sanitized
		echo "$how: $output"
		[ "$status" = 0 ]
		[ "$output" = urxe0 ]
	done
}

@test "dlclose does not take it away" {
	not_sanitized	# its runtime cannot be loaded later
	run /usr/bin/python3 -c "
import _ctypes, sys
_ctypes.dlclose(_ctypes.dlopen('$LIBRARY'))
sys.exit('liburxe' not in open('/proc/self/maps').read())"
	[ "$status" = 0 ]
}

@test "no symbol of the installed libibverbs is missing" {
	local lib sym ours patterns=() p missing=0
	lib=$(ldconfig -p | awk '/libibverbs.so.1 / { print $NF; exit }')
	ours=$(nm -D --defined-only --with-symbol-versions "$LIBRARY" | awk '{ print $3 }')
	# = for the @@ of a default version, so that a pattern for @ does not match it.
	mapfile -t patterns < <(sed -e 's/#.*//' -e 's/@@/=/' -e '/^$/d' \
		"$BATS_TEST_DIRNAME/attach_symbols.allow" | awk 'NF > 1 { print $1 }')
	[ "${#patterns[@]}" -gt 20 ]
	for sym in $(nm -D --defined-only --with-symbol-versions "$lib" | awk '$2 != "A" { print $3 }')
	do
		grep -qxF -e "$sym" -e "${sym%@@IBVERBS_PRIVATE_*}" <<<"$ours" && continue
		for p in "${patterns[@]}"; do
			# shellcheck disable=SC2053
			[[ ${sym/@@/=} == $p ]] && continue 2
		done
		echo "neither defined nor listed in attach_symbols.allow: $sym"
		missing=1
	done
	[ "$missing" = 0 ]
}

@test "every symbol it exports is libibverbs' or libc's" {
	local lib libc
	lib=$(ldconfig -p | awk '/libibverbs.so.1 / { print $NF; exit }')
	libc=$(ldconfig -p | awk '/libc.so.6 / { print $NF; exit }')
	nm -D --defined-only "$libc" | awk '{ sub(/@.*/, "", $3); print $3 }' | sort -u >theirs
	nm -D --defined-only "$lib" | awk '{ sub(/@.*/, "", $3); print $3 }' | sort -u >>theirs
	# Versions of libibverbs newer than the installed one cannot be compared with it.
	nm -D --defined-only --with-symbol-versions "$LIBRARY" |
		awk '$2 != "A" && $3 !~ /@@IBVERBS_1\.1[5-9]$/ { sub(/@.*/, "", $3); print $3 }' |
		grep -vxFf theirs >strangers || true
	cat strangers
	[ ! -s strangers ]
}

@test "a program that loads libibverbs and looks symbols up gets ours" {
	run "$URXE" run -- "$URXE_BIN/attach_dlopen"
	echo "$output"
	[ "$status" = 0 ]
	[[ $output == *"version 1.1: liburxe.so.0"* ]]
	[[ $output == *"no version: liburxe.so.0"* ]]
	[[ $output == *"default: liburxe.so.0"* ]]
	[[ $output == *"old version: libibverbs.so.1"* ]]
	[[ $output == *"unknown version: nowhere"* ]]
	[[ $output == *"helper: libibverbs.so.1"* ]]
	[[ $output == *"nonsense: nowhere"* ]]
	[[ $output == *"error: told"* ]]
	[[ $output == *"libc: libc.so.6"* ]]
	[[ $output == *"device: urxe0"* ]]
	[[ $output == *"import: refused"* ]]
	[[ $output != *"without errno"* ]]
}

@test "private symbols are found whatever rdma-core the program was built with" {
	LD_LIBRARY_PATH=$URXE_BIN/future run "$URXE_BIN/attach_future"
	[ "$status" = 1 ]	# the library of the future has no devices
	LD_LIBRARY_PATH=$URXE_BIN/future run "$URXE" run -- "$URXE_BIN/attach_future"
	echo "$output"
	[ "$status" = 0 ]
	[ "$output" = "0 type 1" ]
}

@test "a wrapper of another preloaded library is called, before ours or behind" {
	not_sanitized	# its runtime must come first
	for order in "$URXE_BIN/attach_wrap.so:$LIBRARY" "$LIBRARY:$URXE_BIN/attach_wrap.so"; do
		LD_PRELOAD=$order run ibv_devices
		echo "$output"
		[[ $output == *"wrapped list"* ]]
		[[ $output == *urxe0* ]]
		LD_PRELOAD=$order run /usr/bin/python3 -c '
import ctypes; ctypes.CDLL(None).close(-77)'
		[[ $output == *"wrapped close"* ]]
	done
}

@test "devices of others are listed and served beside ours" {
	not_sanitized	# its runtime must come first
	LD_PRELOAD=$LIBRARY:$URXE_BIN/attach_other_library.so run "$URXE_BIN/attach_other"
	echo "$output"
	[ "$status" = 0 ]
	[ "$output" = ok ]
}

@test "a program that closes and replaces every descriptor leaves ours alone" {
	run "$URXE" run -- "$URXE_BIN/attach_fds"
	echo "$output"
	[ "$status" = 0 ]
	[ "${lines[-1]}" = ok ]
}

@test "ibv_devices and ibv_devinfo show the device" {
	run "$URXE" run -- ibv_devices
	[ "$status" = 0 ]
	[[ $output == *urxe0* ]]
	run "$URXE" run -- ibv_devinfo -v -d urxe0
	echo "$output"
	[ "$status" = 0 ]
	[[ $output == *PORT_ACTIVE* ]]
	[[ $output == *"127.0.0.1, RoCE v2"* ]]
}

@test "pyverbs opens the device" {
	run "$URXE" run -- /usr/bin/python3 -c '
import pyverbs.device as d
with d.Context(name="urxe0") as c:
    print(c.query_port(1).state, c.query_gid(1, 0), c.query_gid_ex(1, 0).gid_type)'
	echo "$output"
	[ "$status" = 0 ]
	[[ $output == *7f00:0001* ]]
}
