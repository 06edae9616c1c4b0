# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# Two real libvirtd, each as on a machine of its own, with QEMU under software emulation, and lidtrackd on a virtual fabric:
# virsh migrate moves a guest's memory, and its vGUID comes after it.

load helpers
load migrate.bash

# missing: why libvirtd cannot be run here; nothing where it can.
missing() {
	[ -n "$(PATH=$PATH:/usr/sbin command -v libvirtd)" ] || echo "no libvirtd"
	unshare -mnup --fork true 2>/dev/null || echo "no right to make namespaces as root, which libvirtd wants to be"
}

setup_file() {
	local h
	[ -z "$(missing)" ] || return 0
	# The name of a socket is short.
	LIBVIRT=$(mktemp -d /tmp/virXXXXXX)
	export LIBVIRT
	# libvirt's environment does not reach a hook.
	cat >"$LIBVIRT/hook" <<-END
		#!/bin/bash
		[ -e "$LIBVIRT/env" ] && . "$LIBVIRT/env" || exit 0
		export LIDTRACK_HOST=\$(hostname)
		export LIDTRACK_CONTROL=\$FOLDER/\$LIDTRACK_HOST.ctl
		exec "$BATS_TEST_DIRNAME/../../daemons/lidtrackctl/orders/libvirt-hook" "\$@"
	END
	chmod +x "$LIBVIRT/hook"
	for h in h1 h2; do
		"$BATS_TEST_DIRNAME/libvirt-host" $h "$LIBVIRT" "$LIBVIRT/hook" </dev/null >"$LIBVIRT/$h.log" 2>&1 3>&- &
		echo $! >>"$LIBVIRT/pids"
	done
	# Memory that is not empty takes time to move.
	head -c 24M /dev/urandom >"$LIBVIRT/memory"
}

teardown_file() {
	local pid
	[ -n "${LIBVIRT:-}" ] || return 0
	while read -r pid; do
		kill -KILL "$pid" || true
	done <"$LIBVIRT/pids"
	rm -rf "$LIBVIRT"
}

setup() {
	local why
	why=$(missing)
	[ -z "$why" ] || skip "$why"
	migrate_setup
	mkdir "$dir/bin"
	ln -s "$LIDTRACKCTL" "$dir/bin/lidtrackctl"
	printf '%s\n' "FOLDER=$dir" "PATH=$dir/bin:\$PATH" >"$LIBVIRT/env"
	await at h1 hostname
	await at h2 hostname
}

teardown() {
	local h
	[ -n "${LIBVIRT:-}" ] || return 0
	for h in h1 h2; do
		at $h destroy guest7 >/dev/null 2>&1 || true
		at $h undefine guest7 >/dev/null 2>&1 || true
	done
	rm -f "$LIBVIRT/env"
	migrate_teardown
}

uri() {
	echo "qemu+unix:///system?socket=$LIBVIRT/$1/run/libvirt-sock"
}

# at HOST COMMAND…: virsh there.
at() {
	virsh -q -c "$(uri "$1")" "${@:2}"
}

# libvirt_agents FUNCTIONS: a fabric, and agents of which h1 and h2 have a libvirtd.
libvirt_agents() {
	hosts "$1"
	ONLY_h1="libvirt $(uri h1)"
	# shellcheck disable=SC2034
	ONLY_h2="libvirt $(uri h2)"
	agents
}

# domain [METADATA [COMMAND]]: guest7 begins on h1, or COMMAND (define) is done with it.
domain() {
	cat >"$dir/guest7.xml" <<-END
		<domain type='qemu' xmlns:qemu='http://libvirt.org/schemas/domain/qemu/1.0'>
			<name>guest7</name>
			<memory unit='MiB'>64</memory>
			<vcpu>1</vcpu>
			<os><type arch='x86_64' machine='pc'>hvm</type></os>
			<metadata>${1:-}</metadata>
			<devices><emulator>/usr/bin/qemu-system-x86_64</emulator><memballoon model='none'/></devices>
			<qemu:commandline>
				<qemu:arg value='-device'/>
				<qemu:arg value='loader,file=$LIBVIRT/memory,addr=0x1000000,force-raw=on'/>
			</qemu:commandline>
		</domain>
	END
	at h1 "${2:-create}" "$dir/guest7.xml"
}

migrate() {
	at h1 migrate --live --p2p --migrateuri "unix://$LIBVIRT/memory.sock" "$@" guest7 "$(uri h2)"
}

@test "virsh migrate: the vGUID of a domain's metadata comes after it, with its LID, and a move without it is refused" {
	local guid=0x0255525800010003 lid
	libvirt_agents 2
	domain "<lidtrack:port xmlns:lidtrack='urn:urxe:lidtrack:1' guid='$guid' pkeys='0xffff'/>"
	await is_at guest7 h1
	lid=$(lid_of guest7)
	# It runs at h1: nothing but libvirt moves it.
	run ctl h3 move guest7 --to h2
	[ "$status" = 1 ]
	[[ $output == *"its domain runs at h1"* ]]
	migrate
	await is_at guest7 h2
	[ "$(at h2 domstate guest7)" = running ]
	[ "$(lid_of guest7)" = "$lid" ]
	[ "$(functions_with $guid)" = 1 ]
	"$URXE" fabric vf h2 | grep -q " $guid "
	lacks 'ERR 0D01' "$dir/h0.osm.log"
	# QEMU dies there: the vGUID stays, for one.
	at h2 destroy guest7
	is_at guest7 h2
	[ "$(functions_with $guid)" = 1 ]
}

@test "a vGUID that lidtrackctl gives goes into the domain's metadata, and the hook refuses a full destination" {
	local guid
	libvirt_agents 1
	domain
	guid=$(guest guest7 h1)
	tagged() { at h1 metadata guest7 urn:urxe:lidtrack:1 | grep -q "guid=\"$guid\" pkeys=\"0xffff\""; }
	await tagged
	guest other h2
	run migrate
	[ "$status" != 0 ]
	[[ $output == *"no function of h2 is free"* ]]
	[ "$(at h1 domstate guest7)" = running ]
	is_at guest7 h1
	[ "$(functions_with "$guid")" = 1 ]
	# With room it goes, and takes the metadata along.
	ctl h2 remove other
	gone() { ! ctl h1 status other | grep -q other; }
	await gone
	migrate
	await is_at guest7 h2
	at h2 metadata guest7 urn:urxe:lidtrack:1 | grep -q "$guid"
}

@test "QEMU of the destination is killed while memory is copied: the guest stays, and one function has its vGUID" {
	local guid=0x0255525800010004 lid qemu
	libvirt_agents 2
	domain "<lidtrack:port xmlns:lidtrack='urn:urxe:lidtrack:1' guid='$guid'/>"
	await is_at guest7 h1
	lid=$(lid_of guest7)
	migrate --bandwidth 1 >"$dir/migrate" 2>&1 3>&- &
	pids[migrate]=$!
	copied() { at h1 domjobinfo guest7 | grep -q 'Memory processed:  *[1-9]'; }
	await copied
	qemu=$(pgrep -f "^/usr/bin/qemu-system-x86_64 -name guest=guest7.* -incoming .*$LIBVIRT/")
	kill -KILL "$qemu"
	run wait "${pids[migrate]}"
	[ "$status" != 0 ]
	unset 'pids[migrate]'
	[ "$(at h1 domstate guest7)" = running ]
	empty() { [ -z "$(at h2 list --name)" ]; }
	await empty
	is_at guest7 h1
	[ "$(lid_of guest7)" = "$lid" ]
	[ "$(functions_with $guid)" = 1 ]
	lacks reserved "$dir/h2.log"
}

@test "a domain that is suspended, and made persistent at its destination: the vGUID comes after it, and stays in both definitions" {
	local guid=0x0255525800010005 lid
	libvirt_agents 2
	domain "<lidtrack:port xmlns:lidtrack='urn:urxe:lidtrack:1' guid='$guid'/>" define
	at h1 start guest7
	await is_at guest7 h1
	lid=$(lid_of guest7)
	at h1 suspend guest7
	migrate --persistent --undefinesource
	[ "$(at h2 domstate guest7)" = paused ]
	[ -z "$(at h1 list --all --name)" ]
	await is_at guest7 h2
	at h2 dumpxml --inactive guest7 | grep -q "$guid"
	at h2 resume guest7
	is_at guest7 h2
	[ "$(lid_of guest7)" = "$lid" ]
	[ "$(functions_with $guid)" = 1 ]
}

@test "a domain that is migrated offline keeps its vGUID at its source until it begins at its destination" {
	local guid=0x0255525800010006 lid
	libvirt_agents 2
	domain "<lidtrack:port xmlns:lidtrack='urn:urxe:lidtrack:1' guid='$guid'/>" define
	at h1 start guest7
	await is_at guest7 h1
	lid=$(lid_of guest7)
	at h1 destroy guest7
	at h1 migrate --offline --p2p --persistent guest7 "$(uri h2)"
	is_at guest7 h1
	at h2 start guest7
	await is_at guest7 h2
	[ "$(lid_of guest7)" = "$lid" ]
	# Its definition is at both now. Where it begins as well it gets nothing while the other one runs.
	at h1 start guest7
	await grep -q "guest7 .*: its domain runs at h2" "$dir/h1.log"
	is_at guest7 h2
	[ "$(functions_with $guid)" = 1 ]
	at h2 destroy guest7
	await is_at guest7 h1
	[ "$(functions_with $guid)" = 1 ]
	[ "$(lid_of guest7)" = "$lid" ]
}

# libvirtd_of HOST: its pid.
libvirtd_of() {
	local pid
	for pid in $(pgrep -x libvirtd); do
		[ ! "/proc/$pid/root/run/libvirt" -ef "$LIBVIRT/$1/run" ] || echo "$pid"
	done
}

@test "both libvirtd are killed when the memory has moved: the vGUID comes after it when they are there again" {
	local guid=0x0255525800010007 lid h killed
	libvirt_agents 2
	domain "<lidtrack:port xmlns:lidtrack='urn:urxe:lidtrack:1' guid='$guid'/>"
	await is_at guest7 h1
	lid=$(lid_of guest7)
	# Nobody asks for the vGUID before; nor does the hook of h2, which would wait for its agent.
	rm "$LIBVIRT/env"
	kill -STOP "${pids[h2]}"
	migrate
	for h in h1 h2; do
		killed=$(libvirtd_of $h)
		kill -KILL "$killed"
		another() { [ -n "$(libvirtd_of $h)" ] && [ "$(libvirtd_of $h)" != "$killed" ]; }
		await another
	done
	kill -CONT "${pids[h2]}"
	await is_at guest7 h2
	[ "$(at h2 domstate guest7)" = running ]
	[ "$(lid_of guest7)" = "$lid" ]
	[ "$(functions_with $guid)" = 1 ]
	lacks 'ERR 0D01' "$dir/h0.osm.log"
}
