# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# What the tests of virtual fabrics share: a folder for each test, OpenSM in the background, waiting.

PATH=$PATH:/usr/sbin:/sbin

prepare() {
	[ -x "$URXE" ] || return 1
	# The name of a socket is short.
	XDG_RUNTIME_DIR=$(mktemp -d /tmp/fabXXXXXX)
	export XDG_RUNTIME_DIR OSM_TMP_DIR=$XDG_RUNTIME_DIR OSM_CACHE_DIR=$XDG_RUNTIME_DIR
	started=()
	printf '%s\n' 'force_log_flush TRUE' 'sminfo_polling_timeout 300' 'polling_retry_number 2' \
		'sweep_interval 1' >"$XDG_RUNTIME_DIR/opensm.conf"
}

setup() {
	prepare
}

# A fabric whose hosts run verbs programs: what they share lies in the test's folder, too.
up_with_verbs() {
	prepare
	mkdir "$XDG_RUNTIME_DIR/shm"
	export URXE_RUNTIME_DIR=$XDG_RUNTIME_DIR/shm
	up "$BATS_TEST_DIRNAME/fabric-ring.topo"
}

teardown() {
	local pid
	for pid in "${started[@]}"; do
		kill -KILL "$pid" 2>/dev/null && wait "$pid" 2>/dev/null
	done
	"$URXE" fabric down 2>/dev/null
	# The guardian of programs that were killed may still be at work there.
	rm -rf "$XDG_RUNTIME_DIR" 2>/dev/null || {
		sleep 2
		rm -rf "$XDG_RUNTIME_DIR"
	}
}

on() {
	"$URXE" run --host "$1" -- "${@:2}"
}

up() {
	"$URXE" fabric up "$@"
}

# await COMMAND…: until it succeeds, for half a minute.
await() {
	local tries=600
	until "$@" >/dev/null 2>&1; do
		[ $((tries--)) -gt 0 ] || {
			echo "waited in vain: $*"
			tail -n 20 "$XDG_RUNTIME_DIR"/*.log
			return 1
		}
		sleep 0.05
	done
}

# opensm_at HOST OPTION…: in the background; its log is HOST.log.
opensm_at() {
	"$URXE" run --host "$1" -- opensm -F "$XDG_RUNTIME_DIR/opensm.conf" -f "$XDG_RUNTIME_DIR/$1.log" "${@:2}" \
		</dev/null >/dev/null 2>&1 3>&- &
	started+=($!)
}

log_says() {
	grep -q "$2" "$XDG_RUNTIME_DIR/$1.log"
}

managed() {
	opensm_at "$@"
	await log_says "$1" 'SUBNET UP'
}

lid_of() {
	on "$1" ibstat | sed -n 's/.*Base lid: //p' | head -n 1
}

records() {
	on "$1" saquery NR | grep -c 'NodeRecord dump'
}

# generated KIND PARAMETER…: a fabric of that kind is up.
generated() {
	"$URXE" fabric generate "$@" >"$XDG_RUNTIME_DIR/generated.topo"
	up "$XDG_RUNTIME_DIR/generated.topo"
}

# crowd PROCESSES HOSTS: verbs_crowd, with shared memory that is no disk's. Whoever comes last cleans up.
crowd() {
	export URXE_RUNTIME_DIR
	URXE_RUNTIME_DIR=$(mktemp -d /dev/shm/fabXXXXXX)
	on h1 timeout 300 "$URXE_BIN/verbs_crowd" "$@"
	alone_there() { [ "$(find "$URXE_RUNTIME_DIR" -type f -o -type s | wc -l)" = 1 ]; }
	await alone_there
	rm -r "$URXE_RUNTIME_DIR"
}

stop_opensm() {
	kill -KILL "$1"
	wait "$1" 2>/dev/null || true
}

# routes ENGINE: what fabric-routes says of the tables that OpenSM at h0 has made with it.
routes() {
	log_says h0 "$1 tables configured on all switches" || return 1
	on h1 dump_fts >"$XDG_RUNTIME_DIR/tables"
	on h1 ibnetdiscover >"$XDG_RUNTIME_DIR/net"
	on h1 saquery -t 60000 PR >"$XDG_RUNTIME_DIR/paths"
	"$BATS_TEST_DIRNAME/fabric-routes" "$XDG_RUNTIME_DIR"/{tables,net,paths}
}
