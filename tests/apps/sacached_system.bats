# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# sacached in its system: units, configuration, and a restart by systemd, for which a program stands here.
load helpers

setup_file() {
	export SACACHED_BIN=${URXE%/*}/daemons/sacached
	export SACACHED_SOURCE=$BATS_TEST_DIRNAME/../../daemons/sacached
	[ -x "$SACACHED_BIN/sacached" ] || skip "the daemons are not built"
}

# The units, with an ExecStart that is there.
units() {
	sed "s,^ExecStart=.*,ExecStart=$SACACHED_BIN/sacached," "$SACACHED_BIN/system/sacached.service" \
		>"$BATS_TEST_TMPDIR/sacached.service"
	cp "$SACACHED_SOURCE/system/sacached.socket" "$BATS_TEST_TMPDIR"
	cd "$BATS_TEST_TMPDIR"
}

@test "systemd understands the units" {
	command -v systemd-analyze >/dev/null || skip "no systemd-analyze"
	units
	run systemd-analyze verify --man=no ./sacached.service ./sacached.socket
	echo "$output"
	[ "$status" -eq 0 ]
	[[ $output != *sacached* ]]
}

@test "systemd finds the service little exposed" {
	command -v systemd-analyze >/dev/null || skip "no systemd-analyze"
	units
	systemd-analyze security --offline=true --threshold=20 ./sacached.service
}

@test "the sockets' links are those that ibacm's clients open" {
	grep -qx 'Symlinks=/run/ibacm-unix.sock /run/ibacm.sock' "$SACACHED_SOURCE/system/sacached.socket"
	grep -q '"acm-door"' "$SACACHED_SOURCE/acm_door.c"
	grep -qx 'FileDescriptorName=acm-door' "$SACACHED_SOURCE/system/sacached.socket"
}

@test "every key is in the configuration file and in sacached.conf(5)" {
	keys=$(sed -n 's/^\t{"\([a-z_]*\)", [A-Z].*/\1/p' "$SACACHED_SOURCE/config.c")
	[ "$(wc -w <<<"$keys")" -gt 20 ]
	for key in $keys; do
		grep -qE "^#\s*$key\b" "$SACACHED_SOURCE/system/sacached.conf" || missing+=" $key (sacached.conf)"
		grep -qE "^\*$key\*" "$BATS_TEST_DIRNAME/../../docs/sacached.conf.5.scd" || missing+=" $key (man page)"
	done
	echo "missing:$missing"
	[ -z "$missing" ]
}

@test "a client's connection survives a restart, and kill -9" {
	"$BATS_TEST_DIRNAME/sacached-restart" "$SACACHED_BIN/sacached" "$BATS_TEST_TMPDIR"
}
