#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# Debian's programs of librdmacm, and perftest's with -R: server and client connect over urxe0, on
# 127.0.0.1 and ::1.
load helpers

export LIMIT=120
channel=${URXE%/*}/tests/apps/rdmacm_channel.so

# both [-k] SERVER… :: CLIENT…: each under urxe. With -k the server is one that never ends.
both() {
	local words=() keep=
	[ "$1" = -k ] && keep=-k && shift
	while [ "$1" != :: ]; do words+=("$1") && shift; done
	isolated "$top/tests/guest/bin/pair" -q $keep -t "$LIMIT" \
		"$URXE" run -- "${words[@]}" :: "$URXE" run -- "${@:2}"
}

# same PROGRAM ARGS…: the program with itself, the client with -s 127.0.0.1.
same() {
	both "$@" :: "$1" -s 127.0.0.1 "${@:2}"
}

# stream PROGRAM ARGS…: one that transfers 50 messages of 5000 bytes there and back, thrice.
stream() {
	same "$@" -I 3 -C 50 -S 5000
}

# perf_cm PROGRAM ARGS…: one of perftest's programs with -R.
perf_cm() { again_if_refused perf "$1" -n 200 "${@:2}" -R; }

@test "rping" { LD_PRELOAD=$channel both rping -s -a 127.0.0.1 -C 10 -V :: rping -c -a 127.0.0.1 -C 10 -V; }
@test "rping over IPv6" { LD_PRELOAD=$channel both rping -s -a ::1 -C 10 -V :: rping -c -a ::1 -C 10 -V; }
@test "rping to any address, from one that it names" {
	LD_PRELOAD=$channel both rping -s -C 10 -V :: rping -c -I 127.0.0.1 -a 127.0.0.1 -C 10 -V
}
@test "rping -q (a QP that the program makes and modifies itself)" {
	LD_PRELOAD=$channel both rping -s -q -a 127.0.0.1 -C 10 -V :: rping -c -q -a 127.0.0.1 -C 10 -V
}
@test "rping -P: two clients, one after the other" {
	both -k rping -s -P -a 127.0.0.1 -V :: \
		sh -c 'rping -c -a 127.0.0.1 -C 10 -V && rping -c -a 127.0.0.1 -C 10 -V'
}
# Of two requests that come before the server's thread has looked, rping forgets the first.
@test "rping -P: two clients at once" {
	both -k rping -s -P -a 127.0.0.1 -V :: env first="$BATS_TEST_TMPDIR/first" sh -c '
		rping -c -a 127.0.0.1 -C 2000 -V -v >"$first" &
		until grep -q "^ping data" "$first"; do
			kill -0 $! || exit
			sleep 0.02
		done
		rping -c -a 127.0.0.1 -C 50 -V && kill -0 $! && wait $!'
}

@test "ucmatose" { same ucmatose; }
@test "ucmatose -c 20 -C 20" { same ucmatose -c 20 -C 20; }
@test "ucmatose -t (type of service)" { same ucmatose -t 8; }
@test "ucmatose -m (ids move to another channel)" { same ucmatose -c 20 -m; }
@test "ucmatose -a (timeout of acknowledgements)" { same ucmatose -a 15; }
@test "ucmatose -P ib" { both ucmatose -P ib -b 127.0.0.1 :: ucmatose -P ib -s 127.0.0.1; }
@test "ucmatose over IPv6" { both ucmatose -b ::1 -f ip6 :: ucmatose -s ::1 -f ip6; }

@test "the child of a fork makes a connection of its own, and leaves its parent's alone" {
	isolated timeout -k 5 60 "$URXE" run -- "${URXE_BIN:-${URXE%/*}/tests/apps}/rdmacm_fork" 127.0.0.1
}

limits() {
	isolated timeout -k 5 60 "$URXE" run -- "${URXE_BIN:-${URXE%/*}/tests/apps}/rdmacm_limits" "$1" 127.0.0.1
}
@test "private data as long as its message has room for, and no longer" { limits data; }
@test "a request that finds the backlog full comes again" { limits backlog; }

@test "udaddy" { same udaddy -c 10; }
@test "udaddy -p 2 (port space IPOIB)" { same udaddy -p 2; }
@test "udaddy over IPv6" { both udaddy -b ::1 :: udaddy -s ::1; }

# Nobody sees from outside when the receiver has joined: the sender sends until it has got its ten.
mckey() {
	isolated timeout -k 2 $LIMIT sh -c '
		urxe=$1
		shift
		"$urxe" run -- mckey "$@" >"$BATS_TEST_TMPDIR/receiver" 2>&1 &
		while kill -0 $! 2>/dev/null; do
			"$urxe" run -- mckey -s "$@" || exit
		done
		wait $!
	' sh "$URXE" "$@" || { cat "$BATS_TEST_TMPDIR/receiver" && false; }
}

@test "mckey" { mckey -m 239.7.7.7 -b 127.0.0.1; }
@test "mckey -p 2 (port space IPOIB)" { mckey -m 239.7.7.7 -b 127.0.0.1 -p 2; }

@test "cmtime -c 500" { both -k cmtime -b 127.0.0.1 -c 500 :: cmtime -s 127.0.0.1 -c 500; }
@test "rdma_server and rdma_client" { both rdma_server :: rdma_client -s 127.0.0.1; }
@test "rdma_xserver and rdma_xclient" { both rdma_xserver :: rdma_xclient -s 127.0.0.1; }
@test "rdma_xserver and rdma_xclient over XRC" { both rdma_xserver -c x :: rdma_xclient -s 127.0.0.1 -c x; }

@test "rstream" { stream rstream; }
@test "rstream -T v (bytes verified)" { stream rstream -T v; }
@test "rstream -T n (nonblocking)" { stream rstream -T n; }
@test "rstream -T b (blocking)" { stream rstream -T b; }
@test "rstream -T f (the server forks)" { stream rstream -T f; }
@test "rstream -T r (addresses resolved by rdma_getaddrinfo)" { stream rstream -T r; }
@test "rstream -B (small buffers), -i (no inline data)" { stream rstream -T v -B 4096 -i 0; }
@test "rstream over IPv6" {
	both rstream -b ::1 -f ipv6 -I 3 -C 50 :: rstream -f ipv6 -s ::1 -I 3 -C 50
}
# A client that polls takes POLLHUP for an error although its last bytes are there, where the server
# shuts down as soon as it has sent them: so only the server polls here.
@test "rstream -T a (poll)" {
	both rstream -T a -T v -I 3 -C 50 -S 5000 :: rstream -s 127.0.0.1 -T v -I 3 -C 50 -S 5000
}
@test "rstream -S all" { same rstream -S all -I 1 -C 1; }

@test "riostream" { stream riostream; }
@test "riostream -T v (bytes verified)" { stream riostream -T v; }
@test "riostream -T n (nonblocking)" { stream riostream -T n; }
@test "riostream -T b (blocking)" { stream riostream -T b; }
@test "riostream -T a (poll)" { stream riostream -T a; }

# udpong ARGS…: the server serves for ever; its client ends when the server has told how many it got.
udpong() {
	LD_PRELOAD=${URXE%/*}/tests/apps/rdmacm_rpoll.so both -k udpong -b 127.0.0.1 "$@" :: \
		udpong -s 127.0.0.1 -S 1000 "$@"
}

@test "udpong" { udpong; }
@test "udpong -T e (echo)" { udpong -T e -C 200; }
@test "udpong -T a (poll)" { udpong -T a -C 200; }
@test "udpong -T b (blocking)" { udpong -T b -C 200; }

@test "rcopy: 10 MB arrive unchanged" {
	cd "$BATS_TEST_TMPDIR"
	head -c 10000000 /dev/urandom >from
	both -k rcopy :: rcopy "$PWD/from" "127.0.0.1:$PWD/to"
	cmp from to
}

# A TCP client and server under librspreload. (Not iperf3: librspreload's select() of rdma-core 44
# reports accepted connections as other descriptors.)
@test "librspreload: curl fetches files of an HTTP server" {
	local preload=/usr/lib/*/rsocket/librspreload.so
	cd "$BATS_TEST_TMPDIR"
	head -c 10000000 /dev/urandom >file
	local run=(env LD_PRELOAD="$(echo $preload)" "$URXE" run --)
	isolated "$top/tests/guest/bin/pair" -q -t "$LIMIT" \
		"${run[@]}" "${URXE%/*}/tests/apps/rdmacm_http" file 2 :: \
		"${run[@]}" curl -sS -o first http://127.0.0.1:8080/ --next -sS -o second http://127.0.0.1:8080/
	cmp file first
	cmp file second
}

@test "ib_send_bw -R" { perf_cm ib_send_bw; }
@test "ib_send_bw -R -q 4" { perf_cm ib_send_bw -q 4; }
@test "ib_send_bw -R -c UD" { perf_cm ib_send_bw -c UD; }
@test "ib_send_lat -R" { perf_cm ib_send_lat; }
@test "ib_send_lat -R -c UD" { perf_cm ib_send_lat -c UD; }
@test "ib_write_bw -R" { perf_cm ib_write_bw; }
@test "ib_write_lat -R" { perf_cm ib_write_lat; }
@test "ib_read_bw -R" { perf_cm ib_read_bw; }
@test "ib_read_lat -R" { perf_cm ib_read_lat; }
@test "ib_atomic_bw -R" { perf_cm ib_atomic_bw; }
