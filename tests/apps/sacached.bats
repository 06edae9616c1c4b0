#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# sacached in ibacm's place: with Debian's clients in a subnet of ibsim's and OpenSM, and with clients of all
# manners and in large numbers before a scripted SA.

load sacached.bash
SACACHECTL=${URXE%/*}/daemons/sacachectl/sacachectl

sacached() {
	serve control_socket state_file "$@"
}

clients() {
	timeout 60 "$URXE_BIN/sacached_clients" "$dir/ibacm.sock" "$@"
}

@test "ib_acme and rdma_getaddrinfo resolve through sacached, and OpenSM is asked once for each destination" {
	unshare -Urnmpf --mount-proc true 2>/dev/null || skip "no namespaces for ibsim's sockets"
	timeout 100 "$here/sacache-subnet" 2 2 1 "$here/sacached-ibacm" "$SACACHED" "$URXE_BIN"
}

@test "10,000 clients at once get their answers" {
	[ "$(ulimit -Hn)" -ge 10500 ] || skip "no more than $(ulimit -Hn) descriptors"
	sacached
	clients many 10000
	# Idle clients cost little.
	[ "$(awk '/VmHWM/ { print $2 }' "/proc/$daemon/status")" -lt 100000 ]
	ends
}

@test "garbage costs who sends it his connection, and nobody else anything" {
	sacached
	clients garbage 4711 400
	clients garbage 42 400
	ends
}

@test "a client that does not read stops none but itself, and its answers are not lost" {
	sacached
	clients deaf
	[ "$(awk '/VmHWM/ { print $2 }' "/proc/$daemon/status")" -lt 50000 ]
	ends
}

@test "an answer comes at the deadline if the SA is silent" {
	export SACACHED_SA=silent
	sacached 'deadline 300'
	clients late 300
	ends
}

@test "too many clients are not let in, and none of those inside is disconnected" {
	sacached 'max_clients 40'
	clients full 40
	grep -q 'no more are let in' "$dir/log"
	ends
}

@test "few descriptors are enough for few clients" {
	descriptors=400
	sacached
	clients full 16
	ends
}

@test "too few descriptors to start are reported with the cure" {
	descriptors=6
	! sacached || return 1
	grep -q "Too many open files" "$dir/log"
	grep -q "6 descriptors may be open, which may be too few: raise the limit (ulimit -n" "$dir/log"
}

@test "who waits when sacached ends gets an answer first" {
	export SACACHED_SA=silent
	sacached "control_socket $dir/control" 'deadline 50000'
	echo 7 | clients stay >"$dir/answer" &
	client=$!
	until timeout 20 "$SACACHECTL" --socket "$dir/control" --json status | grep -q '"resolve":1,'; do
		kill -0 "$client"
		sleep 0.02
	done
	ends
	wait "$client"
	grep -q '7: status 5' "$dir/answer"
}

@test "who waits when sacached is killed gets an answer by the next, which systemd starts" {
	SACACHED_SA=silent LD_PRELOAD=$URXE_BIN/sacached_sa.so timeout 30 "$here/sacached-restart" "$SACACHED" "$dir"
}

@test "what a killed sacached leaves behind is replaced" {
	sacached
	kill -KILL "$daemon"
	wait "$daemon" 2>/dev/null || true
	[ -S "$dir/run/acm.sock" ]
	sacached
	clients many 3
	ends
	[ -z "$(find "$dir" -type s -o -type l)" ]
}

@test "a second sacached and a living ibacm are refused, and keep their sockets" {
	sacached
	run "$SACACHED" -c /dev/null -o "ibacm_dir $dir" -o "run_dir $dir/run" -o control_socket -o state_file
	[ "$status" -eq 1 ]
	[[ $output == *'another sacached runs'* ]]
	run "$SACACHED" -c /dev/null -o "ibacm_dir $dir" -o "run_dir $dir/run2" -o control_socket -o state_file
	[ "$status" -eq 1 ]
	[[ $output == *"somebody answers at $dir/ibacm-unix.sock: stop ibacm first"* ]]
	clients many 3
	ends
}

@test "by TCP only when it is configured, with ibacm's port files, and stale ones are removed" {
	echo 1 >"$dir/ibacm-tcp.port"
	ln -s ibacm-tcp.port "$dir/ibacm.port"
	sacached
	[ ! -e "$dir/ibacm.port" ]
	[ ! -e "$dir/ibacm-tcp.port" ]
	ends
	port=$((25000 + $$ % 2500))
	sacached 'tcp loopback' "tcp_port $port"
	[ "$(cat "$dir/ibacm.port")" -eq "$port" ]
	exec 5<>"/dev/tcp/127.0.0.1/$port"
	printf '\1\2\0\0\0\0\0\20\0\0\0\0\0\0\0\0' >&5
	[ "$(head -c 8 <&5 | od -An -tx1 | xargs)" = '01 82 00 07 00 00 00 48' ]
	exec 5>&-
	ends
	[ ! -e "$dir/ibacm.port" ] && [ ! -L "$dir/ibacm.port" ]
}

@test "a configuration that is wrong is refused with its place" {
	printf 'policy auto\nwindow 1000\n' >"$dir/conf"
	run "$SACACHED" -c "$dir/conf"
	[ "$status" -eq 2 ]
	[[ $output == *"$dir/conf:2: window is a number from 1 to 256"* ]]
}
