#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# What an operator holds in the hand: sacachectl, the state file and the metrics of sacached; before a scripted
# SA that knows fe80::N at LID N, and in a subnet of ibsim's with OpenSM.

load sacached.bash
SACACHECTL=${URXE%/*}/daemons/sacachectl/sacachectl

sacached() {
	serve "control_socket $dir/control" "state_file $dir/state/records" 'state_confirm no' "$@"
}

ctl() {
	timeout 60 "$SACACHECTL" --socket "$dir/control" "$@"
}

# says TEXT COMMAND…: that is in what it prints, and it succeeds; refuses: it fails with status 1.
says() {
	run "${@:2}"
	echo "$output"
	[ "$status" -eq 0 ] && [[ $output == *"$1"* ]]
}

refuses() {
	run "${@:2}"
	echo "$output"
	[ "$status" -eq 1 ] && [[ $output == *"$1"* ]]
}

counter() {
	ctl --json status | grep -o "\"$1\":[0-9]*" | head -n 1 | cut -d: -f2
}

# gids FROM TO: as a file has them.
gids() {
	seq "$1" "$2" | awk '{ printf "fe80::%x\n", $1 }'
}

@test "a warm start, by its own state file and by OpenSM's dump, asks OpenSM nothing" {
	unshare -Urnmpf --mount-proc true 2>/dev/null || skip "no namespaces for ibsim's sockets"
	OPENSM_PRELOAD=$URXE_BIN/../../libsacache/opensm/libsacache-opensm.so timeout 100 "$here/sacache-subnet" 2 2 1 \
		"$here/sacachectl-warm" "$SACACHED" "$SACACHECTL"
}

@test "lookup answers from the SA, then from the table, by GID, LID and GUID" {
	sacached
	says 'answered by the SA' ctl lookup fe80::7
	says 'answered by the table' ctl lookup fe80::7
	says 'answered by the table' ctl lookup 0x0000000000000007
	says 'to          fe80::7, LID 7' ctl lookup fe80::7 --cached
	says 'answered by the SA' ctl lookup 9
	refuses 'not in the table' ctl lookup 10 --cached
	refuses 'the SA knows no such path' ctl lookup fe80::ffff
	says '"from":"table"' ctl --json lookup fe80::7
	[ "$(counter query_miss)" -eq 3 ]
	ends
}

@test "list shows what is there, as asked for, and flush forgets it" {
	sacached
	ctl prefetch fe80::1 fe80::2 fe80::3
	refuses 'no such path' ctl lookup fe80::ffff
	says '10 entries' ctl list
	says '3 entries' ctl list fe80::2
	says '3 entries' ctl list 2
	says '1 entry' ctl list --failures
	[ "$(ctl --json list | wc -l)" -eq 11 ]
	says '3 entries forgotten' ctl flush fe80::1
	says '3 entries forgotten' ctl flush 2
	says '3 entries forgotten' ctl flush 0x0000000000000003
	says '1 entry forgotten' ctl flush --all
	says '0 entries' ctl list
	ends
}

@test "nonsense is refused, with what to do" {
	sacached
	refuses 'sl is a number up to 15' ctl lookup fe80::1 --sl 16
	refuses 'neither the neighbour table nor the hosts file' ctl lookup 10.99.0.1
	refuses 'no active port leads to that subnet' ctl lookup fec0::1
	refuses 'there is no such port' ctl lookup fe80::1 --port 9
	refuses 'a LID is a number from 1 to 49151' ctl lookup 49152
	run ctl lookup nobody
	[ "$status" -eq 2 ]
	[[ $output == *'"nobody" is no GID, LID, GUID or IP address'* ]]
	run ctl flush
	[ "$status" -eq 2 ]
	[[ $output == usage:* ]]
	run ctl dance
	[ "$status" -eq 2 ]
	[[ $output == *'no command "dance"'* ]]
	ends
}

@test "a daemon that is not there, or hangs, is told from one that refuses" {
	run ctl status
	[ "$status" -eq 3 ]
	[[ $output == *"does not answer at $dir/control: is it running? systemctl status sacached"* ]]
	sacached
	kill -STOP "$daemon"
	run ctl --timeout 1 status
	[ "$status" -eq 3 ]
	[[ $output == *'within 1 s'* ]]
	kill -CONT "$daemon"
	ctl status
	ends
}

@test "a list of 60,000 entries streams, and who does not read it holds up nobody" {
	sacached
	gids 1 20000 >"$dir/gids"
	ctl prefetch --file "$dir/gids"
	[ "$(counter entries)" -eq 60000 ]
	before=$(awk '/VmHWM/ { print $2 }' "/proc/$daemon/status")
	# Deaf: its socket fills, and it does not read for as long as this lasts.
	for deaf in 1 2 3; do
		python3 -c '
import array, fcntl, socket, sys, termios, time
s = socket.socket(socket.AF_UNIX)
s.connect(sys.argv[1])
s.sendall(b"{\"command\":\"list\"}\n")
waits = array.array("i", [0])
while waits[0] < 65536:
    time.sleep(0.01)
    fcntl.ioctl(s, termios.FIONREAD, waits)
open(sys.argv[2], "w")
time.sleep(1000)' "$dir/control" "$dir/deaf$deaf" 3>&- &
		pids+=($!)
	done
	until [ -e "$dir/deaf1" ] && [ -e "$dir/deaf2" ] && [ -e "$dir/deaf3" ]; do
		kill -0 "${pids[@]}"
		sleep 0.02
	done
	ctl --timeout 20 status >/dev/null
	[ "$(ctl --json list | grep -c '"state":"good"')" -eq 60000 ]
	[ $(($(awk '/VmHWM/ { print $2 }' "/proc/$daemon/status") - before)) -lt 20000 ]
	ends
}

@test "garbage on the control socket costs only who sends it his connection" {
	sacached
	timeout 20 python3 "$here/sacachectl-garbage" "$dir/control"
	says 'policy      always' ctl status
	ends
}

@test "a hosts file that takes long to read holds up nobody" {
	unshare -Urm true 2>/dev/null || skip "no user namespaces"
	mkdir "$dir/etc"
	cp /etc/ld.so.cache "$dir/etc"
	echo "10.9.9.9 before" >"$dir/etc/hosts"
	echo "10.9.9.9 after" >"$dir/next"
	mkfifo "$dir/slow"
	BEFORE=(unshare -Urm sh -c 'mount --bind "$0" /etc && exec "$@"' "$dir/etc")
	sacached
	mv "$dir/slow" "$dir/etc/hosts"
	# It is in the middle of the file for as long as this has it open.
	timeout 60 python3 -c '
import errno, os, subprocess, sys, time
while True:
    try:
        end = os.open(sys.argv[1], os.O_WRONLY | os.O_NONBLOCK)
        break
    except OSError as e:
        assert e.errno == errno.ENXIO
        time.sleep(0.02)
subprocess.run(sys.argv[3:], check=True, timeout=20)
os.rename(sys.argv[2], sys.argv[1])' "$dir/etc/hosts" "$dir/next" "$SACACHECTL" --socket "$dir/control" status
	ends
}

@test "a file that is damaged is put aside, and sacached says so and goes on empty" {
	sacached
	ctl prefetch fe80::1 fe80::2
	says '6 records in' ctl save
	ends
	printf x | dd of="$dir/state/records" bs=1 seek=100 conv=notrunc status=none
	sacached
	grep -q "state/records: it is damaged; kept as $dir/state/records.bad. Going on with an empty cache" "$dir/log"
	says 'at the start: it is damaged' ctl status
	[ ! -e "$dir/state/records" ]
	[ -e "$dir/state/records.bad" ]
	ends
}

@test "killed while it saves, sacached starts with a whole file" {
	sacached
	gids 1 9000 >"$dir/gids"
	ctl prefetch --file "$dir/gids"
	ctl save
	for ((round = 1; round <= 5; round++)); do
		for _ in 1 2 3 4 5 6 7 8; do ctl save; done >/dev/null 2>&1 3>&- &
		saves=$!
		sleep "0.0$((round * 13 % 90))"
		kill -KILL "$daemon"
		wait "$daemon" "$saves" || true
		sacached
		[ "$(counter loaded)" -eq 27000 ]
	done
	ctl save
	ends
	[ "$(ls "$dir/state")" = records ]
}

@test "a port that becomes active later than another finds its records, and they are not lost meanwhile" {
	export SACACHED_PORTS=$dir
	touch "$dir/1" "$dir/2"
	sacached
	ctl prefetch fe80::5 --port 0
	ctl prefetch fe80::6 --port 1
	says '6 records in' ctl save
	ends
	rm "$dir/2"
	# While it is not, the other's change and are saved.
	sacached
	ctl prefetch fe80::7 --port 0
	says '6 records in' ctl save
	touch "$dir/2"
	for ((tries = 90; tries > 0; tries--)); do
		[ "$(counter loaded)" -eq 6 ] && break
		sleep 0.1
	done
	says 'answered by the table' ctl lookup fe80::6 --port 1
	says 'answered by the table' ctl lookup fe80::5 --port 0
	says '9 records in' ctl save
	ends
}

@test "a full disk leaves the file that was there, and is told" {
	unshare -Urm true 2>/dev/null || skip "no namespace to mount a small disk in"
	sacached
	ctl prefetch fe80::1
	ends
	mv "$dir/state/records" "$dir"
	BEFORE=(unshare -Urm sh -c 'mount -t tmpfs -o size=64k disk "$0/state" && cp "$0/records" "$0/state" &&
		exec "$@"' "$dir")
	sacached
	gids 2 1000 >"$dir/gids"
	ctl prefetch --file "$dir/gids"
	refuses "$dir/state/records: No space left on device" ctl save
	says 'not saved the last time: No space left on device' ctl status
	cmp "$dir/records" "/proc/$daemon/root$dir/state/records"
	# There is room again.
	ctl flush --all
	ctl prefetch fe80::1 fe80::2
	says '6 records in' ctl save
	ends
}

@test "the state is saved at intervals, when something has changed" {
	sacached 'state_interval 1'
	ctl prefetch fe80::1
	for ((tries = 60; tries > 0; tries--)); do
		[ -e "$dir/state/records" ] && break
		sleep 0.05
	done
	kill -KILL "$daemon"
	wait "$daemon" || true
	sacached
	says 'answered by the table' ctl lookup fe80::1
	ends
}

@test "with prefetch the hosts file's GIDs are asked for at the start, within the rate" {
	gids 1 40 | awk '{ print "10.0.0." NR, $1 }' >"$dir/hosts"
	sacached 'prefetch yes' "hosts $dir/hosts" 'rate 50' 'response_timeout 100' 'retries 0'
	started=${EPOCHREALTIME/./}
	until says '40 paths asked for ahead' ctl status >/dev/null; do
		sleep 0.1
		[ $((${EPOCHREALTIME/./} - started)) -lt 20000000 ]
	done
	says 'answered by the table' ctl lookup fe80::28 --cached
	[ "$(counter sent)" -le 60 ]
	ends
}

@test "with prefetch a port that is not active keeps no other one waiting" {
	export SACACHED_PORTS=$dir
	touch "$dir/2"
	gids 1 40 | awk '{ print "10.0.0." NR, $1 }' >"$dir/hosts"
	sacached 'prefetch yes' "hosts $dir/hosts" 'response_timeout 100' 'retries 0'
	for ((tries = 150; tries > 0; tries--)); do
		[ "$(counter prefetched)" -eq 40 ] && break
		sleep 0.1
	done
	says 'answered by the table' ctl lookup fe80::28 --cached --port 1
	touch "$dir/1"
	for ((; tries > 0; tries--)); do
		[ "$(counter prefetched)" -eq 80 ] && break
		sleep 0.1
	done
	says 'answered by the table' ctl lookup fe80::28 --cached --port 0
	ends
}

@test "a prefetch of a file with long lines, comments, and more GIDs than are sent at once" {
	export SACACHED_PORTS=$dir
	touch "$dir/1" "$dir/2"
	sacached
	{
		printf '#%0300d\n\n' 0
		printf 'fe80::1 # %0300d\n' 0
		gids 2 10005
	} >"$dir/gids"
	says '5 of 5 paths' ctl prefetch --port 1 --file "$dir/gids"
	says 'answered by the table' ctl lookup fe80::1 --port 1 --cached
	says 'answered by the table' ctl lookup fe80::2715 --port 1 --cached
	refuses 'not in the table' ctl lookup fe80::2715 --port 0 --cached
	printf '%0300d\n' 0 >"$dir/gids"
	run ctl prefetch --file "$dir/gids"
	[ "$status" -eq 2 ]
	[[ $output == *"gids:1: \"000"*"is no GID"* ]]
	ends
}

@test "a prefetch ends with the sacachectl that asked for it, not with one that only has no more to say" {
	sacached 'rate 100'
	gids 1 5000 >"$dir/gids"
	"$SACACHECTL" --socket "$dir/control" prefetch --file "$dir/gids" 3>&- &
	asks=$!
	until [ "$(counter sent)" -gt 5 ]; do sleep 0.05; done
	refuses 'a prefetch is under way already' ctl prefetch fe80::1
	kill -KILL "$asks"
	wait "$asks" || true
	for ((tries = 50; tries > 0; tries--)); do
		says '"prefetching":false' ctl --json status >/dev/null && break
		sleep 0.1
	done
	sent=$(counter sent)
	[ "$tries" -gt 0 ]
	[ "$sent" -lt 2000 ]
	# Those that were under way are answered; no more is asked: a question that comes behind them all
	# is answered as well.
	says 'answered by the SA' ctl lookup fe80::2328
	[ $(($(counter sent) - sent)) -le 64 ]
	run python3 -c '
import json, socket, sys
s = socket.socket(socket.AF_UNIX)
s.connect(sys.argv[1])
gids = ["fe80::1:%x" % n for n in range(100)]
s.sendall(json.dumps({"command": "prefetch", "gids": gids}).encode() + b"\n")
s.shutdown(socket.SHUT_WR)
print(s.makefile().readline())' "$dir/control"
	echo "$output"
	[[ $output == *'"wanted":100'*'"ok":true'* ]]
	# Who has no more to say and then ends does not wait any more.
	python3 -c '
import json, socket, sys
s = socket.socket(socket.AF_UNIX)
s.connect(sys.argv[1])
gids = ["fe80::2:%x" % n for n in range(5000)]
s.sendall(json.dumps({"command": "prefetch", "gids": gids}).encode() + b"\n")
s.shutdown(socket.SHUT_WR)
sys.stdin.readline()' "$dir/control" < <(until says '"prefetching":true' ctl --json status; do sleep 0.1; done >/dev/null)
	for ((tries = 50; tries > 0; tries--)); do
		says '"prefetching":false' ctl --json status >/dev/null && break
		sleep 0.1
	done
	[ "$tries" -gt 0 ]
	ends
}

@test "metrics are there where they are wanted, in Prometheus' format, and tell why the SA was asked" {
	port=$((22500 + $$ % 2500))
	sacached
	! curl -s "http://127.0.0.1:$port/metrics" || false
	ends
	sacached "metrics_listen 127.0.0.1:$port"
	ctl lookup fe80::1
	ctl lookup fe80::1
	curl -sf -D "$dir/head" "http://127.0.0.1:$port/metrics" >"$dir/metrics"
	grep -q 'Content-Type: text/plain; version=0.0.4; charset=utf-8' "$dir/head"
	grep -qx 'sacache_queries_total{reason="miss"} 1' "$dir/metrics"
	grep -qx 'sacache_lookups_answered_total{result="path"} 1' "$dir/metrics"
	grep -qx 'sacached_port_active{port="scripted:1"} 1' "$dir/metrics"
	# Each family once, with HELP and TYPE before its samples; counters, and they alone, end in _total.
	awk '
		function bad(why) { print FILENAME ":" FNR ": " why ": " $0; failed = 1 }
		/^# HELP / { if ($3 in help || NF < 4) bad("HELP"); help[$3] = 1; next }
		/^# TYPE / {
			if (!($3 in help) || $3 in type) bad("TYPE")
			if (($4 == "counter") != ($3 ~ /_total$/)) bad("name")
			type[family = $3] = 1
			next
		}
		!/^[a-z_]+(\{[a-z]+="[^"]*"(,[a-z]+="[^"]*")*\})? [0-9]+$/ { bad("sample") }
		{ name = $1; sub(/\{.*/, "", name); if (name != family) bad("outside its family") }
		$1 in seen { bad("twice") } { seen[$1] = 1; samples++ }
		END { exit failed || samples < 40 }' "$dir/metrics"
	[ "$(curl -s -o /dev/null -w '%{http_code}' "http://127.0.0.1:$port/")" -eq 404 ]
	[ "$(curl -s -o /dev/null -w '%{http_code}' -d x "http://127.0.0.1:$port/metrics")" -eq 405 ]
	# Connections that say nothing fill it, and hold up nobody but those who want metrics.
	python3 -c '
import socket, sys, time
all = [socket.create_connection(("127.0.0.1", int(sys.argv[1]))) for _ in range(12)]
open(sys.argv[2], "w")
time.sleep(1000)' "$port" "$dir/silent" 3>&- &
	pids+=($!)
	until [ -e "$dir/silent" ]; do
		kill -0 "${pids[@]}"
		sleep 0.02
	done
	curl -sf -m 5 "http://127.0.0.1:$port/metrics" >/dev/null
	ctl status
	ends
}

@test "a second sacached is refused, and the control socket of a dead one replaced" {
	sacached
	run "$SACACHED" -c /dev/null -o "run_dir $dir/run2" -o "ibacm_dir $dir/run2" -o 'netlink no' \
		-o "control_socket $dir/control" -o state_file
	[ "$status" -eq 1 ]
	[[ $output == *"$dir/control: another sacached listens there"* ]]
	ctl status
	kill -KILL "$daemon"
	wait "$daemon" || true
	[ -S "$dir/control" ]
	sacached
	ctl status
	[ "$(stat -c %a "$dir/control")" = 600 ]
	ends
	[ ! -e "$dir/control" ]
}

@test "bash completes commands and their options" {
	. "$here/../../daemons/sacachectl/sacachectl.bash"
	complete_of() {
		COMP_WORDS=(sacachectl "$@") COMP_CWORD=$#
		_sacachectl
		echo "${COMPREPLY[*]}"
	}
	[ "$(complete_of fl)" = flush ]
	[ "$(complete_of --json lookup fe80::1 --c)" = --cached ]
	[ "$(complete_of --s)" = --socket ]
}

@test "before an SM that takes no part in the method, asking ahead ends after one question" {
	sacached 'policy auto'
	gids 1 100 >"$dir/gids"
	refuses 'the SM has not switched caching on' ctl prefetch --file "$dir/gids"
	[ "$(counter sent)" -eq 1 ]
	says 'caching is off' ctl status
	says '0 entries' ctl list
	ends
}
