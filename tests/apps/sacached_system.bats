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

@test "the service runs nothing as root on what the daemon can write" {
	local unit=$SACACHED_BIN/system/sacached.service
	! grep -E '^Exec.*(chown|chmod|/run/sacached|/var/lib/sacached)' "$unit" || false
	grep -qx 'RuntimeDirectory=sacached' "$unit"
	grep -qx 'StateDirectory=sacached' "$unit"
}

@test "what root runs leaves no lock that the folder's owner cannot take" {
	[ "$(id -u)" -eq 0 ] || skip "not root"
	local run=$BATS_TEST_TMPDIR/run
	chmod 755 "$BATS_TEST_TMPDIR"
	install -d -o nobody "$run"
	"$SACACHED_BIN/sacached" -c /dev/null -o "run_dir $run" -o "ibacm_dir $run" -o 'netlink no' \
		-o control_socket -o state_file -o 'hosts /nonexistent' 2>"$BATS_TEST_TMPDIR/log" 3>&- &
	until grep -q ready "$BATS_TEST_TMPDIR/log"; do
		kill -0 $!
		sleep 0.02
	done
	kill -KILL $!
	wait $! || true
	[ "$(stat -c %U "$run/lock")" = nobody ]
}

@test "the sockets' links are those that ibacm's clients open" {
	grep -qx 'Symlinks=/run/ibacm-unix.sock /run/ibacm.sock' "$SACACHED_SOURCE/system/sacached.socket"
	grep -q '"acm-listener"' "$SACACHED_SOURCE/acm_listener.c"
	grep -qx 'FileDescriptorName=acm-listener' "$SACACHED_SOURCE/system/sacached.socket"
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

# Installs into a folder of the test's. The list by which `ninja uninstall` works stays that of the user's.
install_here() {
	local list=${URXE%/*}/meson-logs/install-log.txt
	! [ -e "$list" ] || mv "$list" "$list.kept"
	meson install -C "${URXE%/*}" --quiet --no-rebuild --destdir "$BATS_TEST_TMPDIR/new"
	rm -f "$list"
	! [ -e "$list.kept" ] || mv "$list.kept" "$list"
}

@test "an installation brings the configuration file, and leaves one that was edited" {
	command -v meson >/dev/null || skip "no meson"
	cd "$BATS_TEST_TMPDIR"
	install_here
	installed=$(find new -path '*/etc/sacached.conf')
	cmp "$installed" "$SACACHED_SOURCE/system/sacached.conf"
	echo "policy always" >"$installed"
	install_here
	[ "$(cat "$installed")" = "policy always" ]
	cmp "$(find new -path '*/doc/sacached/sacached.conf')" "$SACACHED_SOURCE/system/sacached.conf"
}

@test "programs and libraries find the libraries that are installed with them" {
	command -v meson >/dev/null || skip "no meson"
	cd "$BATS_TEST_TMPDIR"
	install_here
	find new \( -path '*bin/*' -o -name 'lib*.so.*' \) -type f -exec ldd {} + >linked
	grep -q libsacache.so linked
	grep -q libmempool.so linked
	run grep 'not found' linked
	[ -z "$output" ]
}

@test "a client's connection survives a restart, and kill -9" {
	"$BATS_TEST_DIRNAME/sacached-restart" "$SACACHED_BIN/sacached" "$BATS_TEST_TMPDIR"
}
