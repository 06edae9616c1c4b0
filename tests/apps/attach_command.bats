# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# The urxe command: what it prints, what it refuses and how it exits. URXE is set by meson.

setup() {
	: "${URXE:?the urxe command}"
	cd "$BATS_TEST_TMPDIR"
	export LC_ALL=C PATH=/usr/sbin:/usr/bin:/sbin:/bin
	export URXE_DEVICES=urxe0=lo ASAN_OPTIONS="detect_leaks=0:$ASAN_OPTIONS"
}

bats_require_minimum_version 1.5.0

# says STATUS PATTERN COMMAND...: that exit status, and the pattern somewhere in the output.
says() {
	local expected=$1 pattern=$2
	shift 2
	if [ "$expected" = 127 ]; then
		run -127 "$@"
	else
		run "$@"
	fi
	echo "status $status, output: $output"
	[ "$status" = "$expected" ]
	[[ $output == *$pattern* ]]
}

@test "help and version" {
	says 0 "usage: urxe run" "$URXE" --help
	says 0 "ib_write_bw -d urxe0" "$URXE" help
	says 0 "usage: urxe run" "$URXE" run --help
	says 2 "usage: urxe run" "$URXE"
	says 0 "urxe 0." "$URXE" --version
}

@test "a mistake in the command line is named and its cure with it" {
	says 2 "urxe run -- nonsense" "$URXE" nonsense
	says 2 "run needs a program" "$URXE" run
	says 2 "run needs a program" "$URXE" run --
	says 2 "--bogus is not an option" "$URXE" run --bogus true
	says 2 "--fault needs a value" "$URXE" run --fault
	says 2 "a chance is" "$URXE" run --fault drop=often true
	says 2 "the levels are" "$URXE" run --log loud true
	says 2 "takes no arguments" "$URXE" devices urxe0
	says 2 "at most one device" "$URXE" counters a b
	says 2 "takes no arguments" "$URXE" listeners urxe0
	says 2 "urxe fault urxe0 off" "$URXE" fault urxe0
}

@test "run passes arguments, status and environment on" {
	says 3 "a b|c|" "$URXE" run -- sh -c 'printf "%s|" "$@"; exit 3' sh "a b" c
	says 0 "-n" "$URXE" run echo x -n
	says 0 "URXE_FAULT=drop=1%" "$URXE" run --fault drop=1% --log debug -- env
	says 0 "URXE_LOG=debug" "$URXE" run --fault drop=1% --log=debug -- env
	says 0 "URXE_DEVICES=urxe7=lo" "$URXE" run --devices urxe7=lo -- env
	[ "$("$URXE" run -- "$URXE" run -- env | grep -o liburxe | wc -l)" = 1 ]
}

@test "run exits as a shell does when there is no such program" {
	says 127 "no such program in PATH" "$URXE" run -- no-such-program
	says 127 "no such program" "$URXE" run -- ./no-such-program
	says 126 "Permission denied" "$URXE" run -- /etc/passwd
	says 126 "Is a directory" "$URXE" run -- /tmp
}

@test "run starts scripts, with and without a first line" {
	printf '#!/usr/bin/env bash\necho "by bash $BASH_VERSION"\n' >with
	printf 'echo by sh\n' >without
	chmod +x with without
	says 0 "by bash 5" "$URXE" run -- ./with
	says 0 "by sh" "$URXE" run -- ./without
}

@test "run refuses what the dynamic linker would silently leave without a device" {
	echo 'int main(void) { return 0; }' >t.c
	gcc -static -o static t.c
	says 126 "linked statically" "$URXE" run -- ./static
	printf '#!%s/static\n' "$PWD" >script
	chmod +x script
	says 126 "linked statically" "$URXE" run -- ./script
	head -c 18 static >foreign
	printf '\xb7\x00' >>foreign	# e_machine of another architecture
	tail -c +21 static >>foreign
	chmod +x foreign
	says 126 "another architecture" "$URXE" run -- ./foreign
	gcc -Wl,--dynamic-linker=/lib/ld-musl-x86_64.so.1 -o musl t.c
	says 126 "linked to musl" "$URXE" run -- ./musl
	head -c 40 static >torn
	chmod +x torn
	run -127 "$URXE" run -- ./torn	# execvp() gives it to the shell
}

@test "run refuses a setuid program" {
	cp /bin/true mine
	chmod u+s mine
	says 0 "" "$URXE" run -- ./mine	# of the same user: no right is gained
	if [ "$(id -u)" = 0 ]; then
		chown nobody mine
		chmod u+s mine
		says 126 "is setuid" "$URXE" run -- ./mine
	else
		says 126 "is setuid" "$URXE" run -- su
	fi
}

@test "run says where it looked for the library" {
	mkdir -p alone "with space/provider"
	cp "$URXE" alone/urxe
	run alone/urxe run -- true
	# An installed urxe on this machine would be found, rightly.
	[ "$status" = 0 ] || [[ $output == *"meson install"* ]]
	cp "$URXE" "with space/urxe"
	touch "with space/provider/liburxe.so.0"
	says 126 "under another path" "with space/urxe" run -- true
}

@test "devices lists netdev, state, MTU and GIDs" {
	says 0 "urxe0  netdev lo  ACTIVE  MTU 4096" "$URXE" devices
	[[ $output == *"::ffff:127.0.0.1"* ]]
	URXE_DEVICES=nonsense run "$URXE" devices
	[ "$status" = 1 ]
	[[ $output == urxe:* ]]
}

@test "counters lists every counter of the device" {
	says 0 "sent_pkts" "$URXE" counters urxe0
	says 0 "urxe0" "$URXE" counters
	says 1 "urxe devices" "$URXE" counters urxe9
}

@test "fault sets and ends the damage on a device" {
	# In a network namespace of its own, or tests that run beside this one would lose packets.
	cat >script <<-END
		ip link set lo up
		"$URXE" fault urxe0 drop=2%,seed=7 && "$URXE" fault urxe0 off && echo done
		rm -f /dev/shm/urxe-*-\$(stat -Lc %i /proc/self/ns/net)
	END
	says 0 "done" unshare -Urn sh ./script
	says 2 "chance" "$URXE" fault urxe0 drop=maybe
	says 1 "no device urxe9" "$URXE" fault urxe9 off
}

@test "the completion knows commands, devices and programs" {
	cat >complete <<-END
		source "$BATS_TEST_DIRNAME/../../tools/urxe.bash"
		try() { COMP_WORDS=("\$@"); COMP_CWORD=\$((\$# - 1)); _urxe; echo "\${COMPREPLY[*]}"; }
		try "$URXE" cou
		try "$URXE" counters ""
		try "$URXE" run --log d
		try "$URXE" run mktem
	END
	run bash ./complete
	echo "$output"
	[ "${lines[0]}" = counters ]
	[ "${lines[1]}" = urxe0 ]
	[ "${lines[2]}" = debug ]
	[[ ${lines[3]} == mktemp* ]]
}
