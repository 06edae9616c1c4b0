# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# Hosts of a virtual fabric with virtual functions, OpenSM on h0, and an agent on each of the others.

PATH=$PATH:/usr/sbin:/sbin
LIDTRACKD=${LIDTRACKD:-$(dirname "$URXE")/daemons/lidtrackd/lidtrackd}
LIDTRACKCTL=${LIDTRACKCTL:-$(dirname "$URXE")/daemons/lidtrackctl/lidtrackctl}

PEERS=${PEERS:-$(dirname "$URXE")/examples/lidtrack-peers}
GUEST=${GUEST:-$(dirname "$URXE")/examples/lidtrack-guest}

migrate_setup() {
	[ -x "$URXE" ] && [ -x "$LIDTRACKD" ] || { echo "build lidtrackd first: ninja -C build" >&2; return 1; }
	# The name of a socket is short.
	dir=$(mktemp -d /tmp/migXXXXXX)
	export XDG_RUNTIME_DIR=$dir OSM_TMP_DIR=$dir OSM_CACHE_DIR=$dir
	BASHPID_OF_TEST=$$
	declare -gA pids=() to=() from=()
	printf '%s\n' 'force_log_flush TRUE' 'sminfo_polling_timeout 300' 'polling_retry_number 2' \
		'honor_guid2lid_file TRUE' >"$dir/opensm.conf"
}

migrate_teardown() {
	local pid
	for pid in "${pids[@]}"; do
		kill -CONT "$pid" 2>/dev/null || true
		kill -KILL "$pid" 2>/dev/null || true
		wait "$pid" 2>/dev/null || true
	done
	for pid in "$dir"/*.pid; do
		[ ! -e "$pid" ] || kill -KILL "$(cat "$pid")" 2>/dev/null || true
	done
	"$URXE" fabric down 2>/dev/null || true
	rm -rf "$dir"
}

# await COMMAND…: until it succeeds, for a minute.
await() {
	local tries=${TRIES:-1200}
	until "$@" >/dev/null 2>&1; do
		[ $((tries--)) -gt 0 ] || {
			echo "waited in vain: $*"
			tail -n 20 "$dir"/*.log
			return 1
		}
		sleep 0.05
	done
}

on() {
	"$URXE" run --host "$1" -- "${@:2}"
}

ctl() {
	"$LIDTRACKCTL" --socket "$dir/$1.ctl" "${@:2}"
}

# hosts FUNCTIONS: a fabric of four hosts, each with that many functions, and OpenSM on h0.
hosts() {
	"$URXE" fabric generate hypercube dimensions=2 "functions=$1" >"$dir/topo"
	"$URXE" fabric up "$dir/topo"
	opensm_at h0
	await grep -q 'SUBNET UP' "$dir/h0.osm.log"
}

opensm_at() {
	LD_PRELOAD=$URXE_BIN/migrate_count.so MIGRATE_COUNT=$dir/$1.count LD_LIBRARY_PATH=$(dirname "$URXE")/migrate/opensm "$URXE" run --host "$1" -- opensm -F "$dir/opensm.conf" -f "$dir/$1.osm.log" "${@:2}" \
		</dev/null >/dev/null 2>&1 3>&- &
	pids[$1.osm]=$!
}

# address_of HOST [FROM]: of its agent, or where FROM's finds it; a port that nobody has, of an address of this test's own,
# with TLS.
address_of() {
	if [ -n "${MIGRATE_TLS:-}" ]; then
		echo "127.$((BASHPID_OF_TEST / 256 % 256)).$((BASHPID_OF_TEST % 256)).${1#h}:16514"
	elif [ -n "${2:-}" ]; then
		ln -sf "$dir/$1.sock" "$dir/$2-$1.sock"
		echo "$dir/$2-$1.sock"
	else
		echo "$dir/$1.sock"
	fi
}

# part HOST HOST…: the first one's agent and the others' do not reach each other.
part() {
	local h
	for h in "${@:2}"; do
		rm "$dir/$1-$h.sock" "$dir/$h-$1.sock"
	done
}

# join HOST HOST…: and do again.
join() {
	local h
	for h in "${@:2}"; do
		address_of "$1" "$h"
		address_of "$h" "$1"
	done >/dev/null
}

# small_disk HOST: its agent has its journal on a disk of 64 KiB of its own.
small_disk() {
	[ "$(id -u)" = 0 ] || skip "mounting needs root"
	unshare -m true || skip "no namespaces"
	mkdir "$dir/disk"
	eval "ONLY_$1='journal $dir/disk/journal'"
	disk_of=$1
}

# fill, empty: that disk.
fill() {
	# With what is left of it at the end, too.
	cat /dev/zero >"/proc/${pids[$disk_of]}/root$dir/disk/filling" 2>/dev/null || true
}

empty() {
	rm "/proc/${pids[$disk_of]}/root$dir/disk/filling"
}

# agent HOST: starts it, again after it was killed.
agent() {
	local wrap=()
	[ "${disk_of:-}" != "$1" ] || wrap=(unshare -m bash -c "mount -t tmpfs -o size=64k disk $dir/disk && exec \"\$@\"" bash)
	"${wrap[@]}" "$URXE" run --host "$1" -- "$LIDTRACKD" -c "$dir/$1.conf" </dev/null >>"$dir/$1.log" 2>&1 3>&- &
	pids[$1]=$!
}

# agents LINE…: on h1, h2 and h3, with these lines of configuration.
agents() {
	local h p
	for h in h1 h2 h3; do
		{
			printf '%s\n' "host $h" "journal $dir/$h.journal" "functions ${FUNCTIONS:-fabric }$h" \
				"listen $(address_of $h)" "control_socket $dir/$h.ctl" \
				"pool 0x02555258000${h#h}0000 64" 'retry 10' 'watch 300'
			for p in h1 h2 h3; do
				[ "$p" = "$h" ] || echo "peer $p $(address_of $p $h)"
			done
			[ -z "${MIGRATE_TLS:-}" ] || printf '%s\n' "tls_certificate $dir/$h.pem" "tls_key $dir/$h.key"
			printf '%s\n' "$@"
			eval "printf '%s\n' \"\${ONLY_$h:-}\""
		} >"$dir/$h.conf"
		agent "$h"
	done
	for h in h1 h2 h3; do
		await ctl "$h" status
	done
}

# guests_hold [GUEST]: $dir/guests, a guest_command whose guests, or that one, do not let go of their functions before
# $dir/go is there.
guests_hold() {
	printf '#!/bin/sh\n[ "$1 $2" != "detach %s" ] || [ -e %s/go ] || exit 75\n' "${1:-\$2}" "$dir" >"$dir/guests"
	chmod +x "$dir/guests"
}

# guests_program: $dir/guests, a guest_command whose guests have lidtrack-guest while they have an adapter: it answers at
# $dir/GUEST.crowd, and what is written to it by RDMA stays in $dir/GUEST.memory. "guests_program shared": functions share
# their host's port, of which the vGUID is an alias GUID.
guests_program() {
	local run="$URXE run --host \$2 --" alias= end=KILL
	# The agent's host is that of its commands.
	[ -z "${1:-}" ] || run= alias='$4' end=TERM
	cat >"$dir/guests" <<-END
		#!/bin/bash
		pid=\$(cat "$dir/\$2.pid" 2>"$dir/none") || pid=
		case \$1 in
		detach)
			[ -z "\$pid" ] || kill -$end "\$pid" 2>"$dir/none"
			# It takes leave of the SA, or is asked again.
			[ $end = KILL ] || [ -z "\$pid" ] || ! kill -0 "\$pid" 2>"$dir/none" || exit 75
			rm -f "$dir/\$2.pid" "$dir/\$2.crowd"
			;;
		attach)
			[ -z "\$pid" ] || ! kill -0 "\$pid" 2>"$dir/none" || exit 0
			$run "$GUEST" "$dir/\$2.crowd" "$dir/\$2.memory" $alias </dev/null >>"$dir/\$2.log" 2>&1 &
			echo \$! >"$dir/\$2.pid"
			;;
		esac
		exit 0
	END
	chmod +x "$dir/guests"
}

# move_afresh GUEST FROM TO: without lidtrackd's move, another vGUID there, which FROM's pool does not give.
move_afresh() {
	ctl "$2" remove "$1"
	until ctl "$3" add "$1" --guid 0x0255525800090009; do sleep 0.02; done >/dev/null 2>&1
	until is_at "$1" "$3"; do sleep 0.02; done
}

# move_with_takeover GUEST FROM TO PID: the master SM of that pid hangs when the guest is to go, and is killed when it is
# detached.
move_with_takeover() {
	kill -STOP "$4"
	ctl "$2" move "$1" --to "$3" --no-wait
	await grep -q 'clearing -> leaving' "$dir/$2.log"
	kill -KILL "$4"
	await is_at "$1" "$3"
}

# handing COMMAND…: guest7, of vGUID $guid and LID $lid, is being moved from h1 to h2, which that command has silenced since
# it has promised a function.
handing() {
	hosts 2
	guests_hold
	agents "guest_command $dir/guests"
	guid=$(guest guest7 h1)
	lid=$(lid_of guest7)
	ctl h1 move guest7 --to h2 --no-wait
	await grep -q 'asking -> detaching' "$dir/h1.log"
	"$@"
	touch "$dir/go"
	await grep -q 'leaving -> handing' "$dir/h1.log"
}

# is_at GUEST HOST: it is settled there, and nobody else knows it.
is_at() {
	[ "$(ctl h1 status "$1" | awk -v guest="$1" '$1 == guest { print $3, $6, $7 == "with" }')" = "$2 here 0" ]
}

# guest NAME HOST: a new guest there; prints its GUID.
guest() {
	ctl "$2" add "$1"
	await is_at "$1" "$2"
}

lid_of() {
	ctl h1 status "$1" | awk -v guest="$1" '$1 == guest { print $4 }'
}

# functions_with GUID: how many functions of the fabric have it.
functions_with() {
	"$URXE" fabric vf | grep -c " $1 "
}

# shared_port LINE…: agents whose hosts' functions share the hosts' LIDs; h1 tells OpenSM, with its plugin.
shared_port() {
	local h
	"$URXE" fabric generate hypercube dimensions=2 >"$dir/topo"
	[ -z "${TOPO_EDIT:-}" ] || sed -i "$TOPO_EDIT" "$dir/topo"
	"$URXE" fabric up "$dir/topo"
	printf '%s\n' 'event_plugin_name lidtrack' "event_plugin_options $dir/lids" >>"$dir/opensm.conf"
	opensm_at h0
	await grep -q 'SUBNET UP' "$dir/h0.osm.log"
	for h in h1 h2 h3; do
		printf '%s\n' - - >"$dir/functions.$h"
	done
	FUNCTIONS="file $dir/functions." agents 'mode shared-port' 'tracker h1' "guid2lid $dir/guid2lid" \
		"lids $dir/lids" "$@"
}

# paths [LID]: how many PathRecord requests the SA (of the host $sm; h0) has had, from that LID; see migrate_count.c.
paths() {
	local count
	if [ -n "${1:-}" ]; then
		count=$(tail -c +$((43 + 8 * $1)) "$dir/${sm:-h0}.count" | head -c 8 | tr -d '\0 \n')
	else
		count=$(head -c 20 "$dir/${sm:-h0}.count" | tr -d ' ')
	fi
	echo "${count:-0}"
}

# counted KEY: of what the fabric counts.
counted() {
	"$URXE" fabric status | awk -v key="$1:" '$1 == key { print $2 }'
}

# guests_ask: $dir/guests, a guest_command whose guests have a program while they have an adapter that uses libsacache as
# it is told (sacache_follow.c): "tell GUEST COMMAND…". Its path records move with the guest, in $dir/GUEST.records.
guests_ask() {
	cat >"$dir/guests" <<-END
		#!/bin/bash
		to=$dir/\$2.to from=$dir/\$2.from records=$dir/\$2.records
		pid=\$(cat "$dir/asks-\$2.pid" 2>"$dir/none") && kill -0 "\$pid" 2>"$dir/none" || pid=
		said() { read -r -t 60 line <"\$from" && [ "\$line" = done ]; }
		case \$1 in
		detach)
			[ -n "\$pid" ] || exit 0
			echo "save \$records" >"\$to" && said || exit 75
			kill -KILL "\$pid"
			rm "$dir/asks-\$2.pid"
			;;
		attach)
			[ -z "\$pid" ] || exit 0
			[ -e "\$to" ] || mkfifo "\$to" "\$from"
			# Both ends of both, so that nobody waits for the other to open it.
			$URXE run --host \$2 -- $URXE_BIN/sacache_follow always 0 <>"\$to" 1<>"\$from" 2>"$dir/\$2.log" &
			echo \$! >"$dir/asks-\$2.pid"
			[ ! -e "\$records" ] || { echo "resume \$records" >"\$to" && said; }
			;;
		esac
	END
	chmod +x "$dir/guests"
}

tell() {
	local name=$1 line
	shift
	[ -n "${to[$name]:-}" ] || exec {to[$name]}<>"$dir/$name.to" {from[$name]}<>"$dir/$name.from"
	echo "$*" >&"${to[$name]}"
	while read -r -t 60 line <&"${from[$name]}"; do
		case $line in
		done) return ;;
		failed*) break ;;
		*) echo "$line" ;;
		esac
	done
	echo "$name, told to $*: ${line:-has ended}" >&2
	return 1
}

host_lid() {
	on "$1" ibstat | sed -n 's/.*Base lid: //p'
}

# lacks PATTERN FILE…: none of them has it.
lacks() {
	if grep "$@"; then
		return 1
	fi
}
