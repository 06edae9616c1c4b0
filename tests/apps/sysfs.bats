# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# The sysfs view as programs find it. URXE names the urxe command, URXE_BIN the folder of the test
# programs; both are set by meson.

IB=/sys/class/infiniband
DEV=$IB/urxe0

setup() {
	: "${URXE:?the urxe command}" "${URXE_BIN:?the test programs}"
	export ASAN_OPTIONS="detect_leaks=0:$ASAN_OPTIONS"
	export LC_ALL=C PATH=/usr/sbin:/usr/bin:/sbin:/bin
	export URXE_DEVICES=urxe0=lo
	# meson points it at the folder of the test programs, where a library plays libibverbs.
	unset LD_LIBRARY_PATH
	# A kernel with RDMA devices has numbers of its own for uverbs, and a view that is not ours alone.
	[ ! -e $IB ] || skip "the kernel has RDMA devices here"
}

under() {
	"$URXE" run -- "$@"
}

# calls SECTION: one section of the program that goes through all entry points.
calls() {
	run "$URXE" run -- "$URXE_BIN/sysfs_calls" "$1"
	echo "$output"
	[ "$status" = 0 ]
}

@test "open and openat, with their 64-bit and fortified names" { calls open; }
@test "descriptors of files can be read, sought, mapped and asked" { calls descriptor; }
@test "fopen and freopen" { calls stdio; }
@test "errors are those of the kernel" { calls errors; }
@test "the stat family" { calls stat; }
@test "the access family" { calls access; }
@test "readlink and realpath" { calls links; }
@test "opendir and scandir" { calls lists; }
@test "glob and ftw" { calls trees; }
@test "extended attributes and file systems" { calls other; }
@test "contents, and attributes of empty slots" { calls contents; }
@test "libibverbs does not see the view" { calls verbs; }
@test "chdir, getcwd and programs started there" { calls directory; }
@test "threads and their forked children" { calls threads; }

@test "\"..\" leads out of what is ours alone" {
	under ls -la $IB
	for way in $IB/../net $IB/../../class/net $DEV/../../../../../../class/net; do
		[ "$(under stat -Lc %i $way)" = "$(stat -Lc %i /sys/class/net)" ]
	done
	[ "$(under ls $IB/..)" = "$(ls /sys/class)" ] || under ls $IB/.. | grep -qx infiniband
	run under stat $IB/../nothing
	[ "$status" = 1 ]
}

@test "without the library there is nothing" {
	[ ! -e $DEV ]
	[ ! -e /dev/infiniband/uverbs0 ]
}

@test "cat prints attributes in the kernel's form" {
	[ "$(under cat $DEV/ports/1/state)" = "4: ACTIVE" ]
	[ "$(under cat $DEV/node_type)" = "1: CA" ]
	under cat $DEV/node_guid | grep -Exq '([0-9a-f]{4}:){3}[0-9a-f]{4}'
	under cat $DEV/ports/1/gids/0 | grep -Exq '([0-9a-f]{4}:){7}[0-9a-f]{4}'
	[ "$(under cat $DEV/ports/1/gids/127)" = 0000:0000:0000:0000:0000:0000:0000:0000 ]
	[ "$(under cat $DEV/ports/1/gid_attrs/types/0)" = "RoCE v2" ]
	under cat $DEV/ports/1/rate | grep -Exq '[0-9.]+ Gb/sec \([0-9]+X[ A-Z0-9]*\)'
	under cat $DEV/ports/1/hw_counters/sent_pkts | grep -xq '[0-9]*'
	run under cat $DEV/ports/1/gid_attrs/types/127
	[ "$status" = 1 ]
	[[ "$output" == *"Invalid argument"* ]]
}

@test "the GIDs are the addresses of the netdev" {
	under cat $DEV/ports/1/gids/{0,1,2,3} | grep -xq 0000:0000:0000:0000:0000:ffff:7f00:0001
	[ "$(under cat $DEV/ports/1/gid_attrs/ndevs/0)" = lo ]
	[ "$(under ls $DEV/device/net)" = lo ]
	[ "$(under cat $DEV/device/net/lo/mtu)" = "$(cat /sys/class/net/lo/mtu)" ]
}

@test "ls, stat and test" {
	under ls -l $IB | grep -q 'urxe0 -> ../../devices/virtual/urxe/urxe0/infiniband/urxe0$'
	run under ls -lR $DEV/
	[ "$status" = 0 ]
	[[ "$output" != *"cannot"* && "$output" == *"-r--r--r--"*" 4096 "*" sys_image_guid"* ]]
	under ls -l /dev/infiniband | grep -Eq '^crw-rw-rw-.* 231, +192 .* uverbs0$'
	[ "$(under stat -c '%F %s %a' $DEV/node_guid)" = "regular file 4096 444" ]
	under bash -c "[ -e $DEV ] && [ -d $DEV/ports ] && [ -L $DEV ] && [ -r $DEV/node_guid ]"
	under bash -c "[ -c /dev/infiniband/uverbs0 ] && [ ! -e $IB/urxe1 ] && [ ! -w $DEV/fw_ver ]"
}

@test "the connection manager's device" {
	local misc=/sys/class/misc/rdma_cm

	[ "$(under cat $misc/abi_version)" = 4 ]
	[ "$(under readlink $misc)" = ../../devices/virtual/misc/rdma_cm ]
	[ "$(under readlink -f $misc/subsystem)" = /sys/class/misc ]
	[ "$(under stat -c '%F %a %t:%T' /dev/infiniband/rdma_cm)" = \
		"character special file 666 $(under cat $misc/dev | { IFS=: read -r a b; printf '%x:%x' "$a" "$b"; })" ]
	under ls -l /dev/infiniband | grep -Eq '^crw-rw-rw-.* rdma_cm$'
}

@test "the port's umad" {
	local mad=/sys/class/infiniband_mad/umad0

	[ "$(under cat ${mad%/*}/abi_version $mad/ibdev $mad/port | xargs)" = "5 urxe0 1" ]
	[ "$(under readlink -f $mad/device)" = /sys/devices/virtual/urxe/urxe0 ]
	[ "$(under stat -c '%F %t:%T' /dev/infiniband/umad0)" = "character special file e7:0" ]
	[ "$(under cat $mad/dev)" = 231:0 ]
}

@test "find" {
	[ "$(under find $IB)" = "$(printf '%s\n' $IB $DEV)" ]
	[ "$(under find $DEV/ports/1/gids -type f | wc -l)" = 128 ]
	[ "$(under find -L $IB -maxdepth 4 -name state)" = $DEV/ports/1/state ]
	[ "$(under find /dev/infiniband -type c | sort)" = "$(printf '/dev/infiniband/%s\n' rdma_cm umad0 uverbs0)" ]
	[ "$(under find $DEV/ports/1 -name state -execdir cat {} \; 2>&1 | wc -l)" = 1 ]
}

@test "readlink, cp, grep and diff" {
	[ "$(under readlink -f $DEV/device)" = /sys/devices/virtual/urxe/urxe0 ]
	[ "$(under readlink -f $DEV/device/net/lo)" = /sys/devices/virtual/net/lo ]
	under cp -r $DEV/ports/1/counters "$BATS_TEST_TMPDIR/copy"
	[ "$(ls "$BATS_TEST_TMPDIR/copy" | wc -l)" = 21 ]
	grep -xq '[0-9]*' "$BATS_TEST_TMPDIR/copy/port_xmit_data"
	[ "$(under grep -rl ACTIVE $DEV/ports)" = $DEV/ports/1/state ]
	under diff -r $DEV/ports/1/pkeys $DEV/ports/1/pkeys
}

@test "the shell's own globbing, redirection and read" {
	[ "$(under bash -c "echo $IB/*/ports/1/state")" = $DEV/ports/1/state ]
	[ "$(under bash -c "cat <$DEV/ports/1/state")" = "4: ACTIVE" ]
	[ "$(under bash -c "read -r x <$DEV/ports/1/link_layer; echo \$x")" = Ethernet ]
	[ "$(under sh -c "echo $IB/*/node_type")" = $DEV/node_type ]
	run under bash -c "echo 1 >$DEV/node_desc"
	[ "$status" != 0 ]
	[[ "$output" == *"Permission denied"* ]]
}

@test "python: os.walk, glob, scandir, pathlib, dir_fd" {
	under python3 - <<-'END'
		import glob, os, pathlib
		ib = '/sys/class/infiniband'
		walked = [os.path.join(d, f) for d, _, files in os.walk(ib + '/urxe0/') for f in files]
		assert len(walked) == 447, len(walked)
		for path in walked:
		    try:
		        with open(path) as f:
		            assert f.read().endswith('\n'), path
		    except OSError as e:
		        assert e.errno == 22 and '/gid_attrs/' in path, path
		assert glob.glob(ib + '/*/ports/*/state') == [ib + '/urxe0/ports/1/state']
		assert [(e.name, e.is_dir(), e.is_symlink()) for e in os.scandir(ib)] == [('urxe0', True, True)]
		assert sorted(os.listdir('/dev/infiniband')) == ['rdma_cm', 'umad0', 'uverbs0']
		assert pathlib.Path(ib, 'urxe0/device').resolve() == pathlib.Path('/sys/devices/virtual/urxe/urxe0')
		fd = os.open(ib, os.O_RDONLY)
		assert os.listdir(fd) == ['urxe0']
		assert os.stat('urxe0/ports/1/state', dir_fd=fd).st_size == 4096
	END
}

@test "a shell in a directory of the view" {
	run under bash -c "cd $DEV && cat ports/1/state && cd -P ports/1 && pwd && /bin/pwd && ls pkeys"
	home=/sys/devices/virtual/urxe/urxe0/infiniband/urxe0/ports/1
	[ "$output" = "$(printf '%s\n' '4: ACTIVE' $home $home 0)" ]
}

@test "ibstat" {
	command -v ibstat || skip "ibstat is not installed (infiniband-diags)"
	run under ibstat
	echo "$output"
	[ "$status" = 0 ]
	[[ "$output" == *"CA 'urxe0'"*"State: Active"*"Physical state: LinkUp"*"Link layer: Ethernet"* ]]
	[ "$(under ibstat -l)" = urxe0 ]
}

@test "which netdev belongs to which device, as ibdev2netdev finds out" {
	run under bash -c "for d in $IB/*; do for p in \$d/ports/*; do
		read -r n <\$p/gid_attrs/ndevs/0; echo \${d##*/} \${p##*/} \$n \$(ls \$d/device/net); done; done"
	[ "$output" = "urxe0 1 lo lo" ]
	[ "$(under bash -c 'cat /sys/class/infiniband_verbs/uverbs*/ibdev')" = urxe0 ]
}

@test "devices are listed as they are configured" {
	[ "$(URXE_DEVICES=teach7=lo under ls $IB)" = teach7 ]
	[ "$(under ls $IB)" = urxe0 ]
	[ "$(URXE_DEVICES=teach7=lo under cat $IB/teach7/uevent)" = NAME=teach7 ]
}

@test "an address that comes and goes is seen by a running program" {
	unshare -Urn true 2>/dev/null || skip "no user namespaces"
	unshare -Urn "$URXE" run -- bash <<-END
		ip link set lo up || exit 1
		read -r a <$DEV/ports/1/gids/0
		ip addr add 127.9.9.9/8 dev lo
		b=\$(cat $DEV/ports/1/gids/*)
		ip addr del 127.9.9.9/8 dev lo
		c=\$(cat $DEV/ports/1/gids/*)
		[ \$a = 0000:0000:0000:0000:0000:ffff:7f00:0001 ] || exit 2
		[[ \$b == *ffff:7f09:0909* ]] || exit 3
		[[ \$c != *ffff:7f09:0909* ]] || exit 4
	END
}

@test "an address that comes is seen through libibverbs' function for sysfs" {
	unshare -Urn true 2>/dev/null || skip "no user namespaces"
	unshare -Urn "$URXE" run -- python3 - <<-'END'
		import ctypes, subprocess
		verbs = ctypes.CDLL('libibverbs.so.1')
		buf = ctypes.create_string_buffer(100)
		dir = b'/sys/class/infiniband/urxe0/ports/1/gids'
		def gid(i):
		    return verbs.ibv_read_sysfs_file(dir, b'%d' % i, buf, 100) > 0 and buf.value
		gids = lambda: list(filter(None, map(gid, range(128))))
		subprocess.run(['ip', 'link', 'set', 'lo', 'up'], check=True)
		mine = b'0000:0000:0000:0000:0000:ffff:7f09:0909'
		assert gids() and mine not in gids()
		subprocess.run(['ip', 'addr', 'add', '127.9.9.9/8', 'dev', 'lo'], check=True)
		assert mine in gids()
	END
}

@test "a mirror that is taken away is made again" {
	under python3 - <<-'END'
		import os, subprocess
		ib = '/sys/class/infiniband'
		before = os.listdir(ib)
		link = os.readlink('/proc/self/fd/%d' % os.open(ib, os.O_RDONLY))
		root = link[:-len(ib)]
		assert '/urxe-view-' in root
		subprocess.run(['env', '-u', 'LD_PRELOAD', 'rm', '-r', root], check=True)
		assert os.listdir(ib) == before
		assert os.path.isdir(ib + '/urxe0/ports/1')
		subprocess.run(['env', '-u', 'LD_PRELOAD', 'rm', '-r', root + ib], check=True)
		assert os.listdir(ib) == before
	END
}

@test "a tree that somebody else put in the mirror's place meanwhile is not used" {
	unshare -Urm true 2>/dev/null || skip "no user namespaces"
	run unshare -Urm bash -c '
		mount -t tmpfs none /dev/shm
		"$1" run -- sh -c "export LD_PRELOAD=\$LD_PRELOAD:$2; exec ls $3"
		ls -d /dev/shm/urxe-view-*
	' bash "$URXE" "$URXE_BIN/sysfs_race.so" $IB
	echo "$output"
	[ "$status" = 0 ]
	[ "${lines[0]}" = urxe0 ]
	[[ ${lines[1]} == *.0 ]]
	[[ ${lines[2]} == *.1 ]]
}

@test "without a writable place files are still found and read" {
	unshare -Urm true 2>/dev/null || skip "no user namespaces"
	run unshare -Urm bash <<-END
		mount -t tmpfs -o ro none /dev/shm && mount --bind /tmp /tmp || exit 1
		mount -o "remount,bind,ro,\$(findmnt -nfo OPTIONS -T /tmp | sed 's/^rw,//')" /tmp || exit 1
		unset XDG_RUNTIME_DIR
		[ "\$("$URXE" run -- cat $DEV/ports/1/state)" = "4: ACTIVE" ] || exit 2
		[ "\$("$URXE" run -- stat -c %s $DEV/ports/1/state)" = 4096 ] || exit 3
		! "$URXE" run -- ls $DEV/ports || exit 4
	END
	echo "$output"
	[ "$status" = 0 ]
	[[ "$output" == *"Read-only file system"* ]]
}

@test "rate, state and GUID are those that verbs report" {
	run under ibv_devinfo -v -d urxe0
	[ "$status" = 0 ]
	[[ "$output" == *"active_width:"*"4X"* ]]
	[[ "$output" == *"active_speed:"*"2.5 Gbps"* ]]
	[[ "$output" == *"PORT_ACTIVE"* && "$output" == *"LINK_UP (5)"* ]]
	[ "$(under cat $DEV/ports/1/rate)" = "10 Gb/sec (4X)" ]
	[[ "$output" == *"node_guid:"*"$(under cat $DEV/node_guid)"* ]]
	[[ "$output" == *"fw_ver:"*"$(under cat $DEV/fw_ver)"* ]]
	[[ "$output" == *"board_id:"*"$(under cat $DEV/board_id)"* ]]
}

@test "devices of the kernel are seen beside ours" {
	cat >"$BATS_TEST_TMPDIR/inside" <<-END
		set -e
		is() { [ "\$1" = "\$2" ] || { echo "expected: \$2"; echo "found:    \$1"; exit 1; }; }
		is "\$(ls $IB)" "\$(printf 'rxe0\nurxe0')"
		is "\$(cat $IB/*/ports/1/state)" "\$(printf '4: ACTIVE\n4: ACTIVE')"
		is "\$(cat /sys/class/infiniband_verbs/uverbs{0,1}/ibdev)" "\$(printf 'rxe0\nurxe0')"
		is "\$(find /dev/infiniband -type c | sort | tail -2)" \
			"\$(printf '/dev/infiniband/uverbs0\n/dev/infiniband/uverbs1')"
		is "\$(stat -c %t:%T /dev/infiniband/uverbs1)" e7:c1
		is "\$(readlink $IB/rxe0)" ../../devices/virtual/infiniband/rxe0
		cd $IB
		is "\$(cat rxe0/ports/1/link_layer urxe0/ports/1/link_layer)" \
			"\$(printf 'Ethernet\nEthernet')"
		is "\$(find -L . -maxdepth 2 -name node_type 2>/dev/null | sort)" \
			"\$(printf './rxe0/node_type\n./urxe0/node_type')"
		python3 -c "import os; os.close(os.open('/dev/infiniband/uverbs0', os.O_RDWR))"
		is "\$(ibv_devices | awk 'NR > 2 { print \$1 }' | sort)" "\$(printf 'rxe0\nurxe0')"
		echo all seen
	END
	run "$BATS_TEST_DIRNAME/../guest/run" -- "$URXE" run -- bash "$BATS_TEST_TMPDIR/inside"
	echo "$output"
	[ "$status" != 125 ] || skip "no guest can be booted here"
	[ "$status" = 0 ]
	[[ "$output" == *"all seen"* ]]
}
