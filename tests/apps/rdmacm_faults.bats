#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# The connection manager when messages are lost and processes die: whoever connects succeeds or is told
# what failed (IBTA vol. 1, 12.9); the peers of a dead process are told, and what it held is free.
load helpers
load scene

URXE_BIN=${URXE_BIN:-${URXE%/*}/tests/apps}
export URXE_BIN

# Five pairs at once, each with its own seed, since what takes long is waiting. A CM message is repeated
# after 4 to 8 s, so that several lost ones in a row take their time.
lossy() {
	scene '
		for seed in 1 2 3 4 5; do
			(
				export URXE_FAULT="drop=20%,dup=5%,reorder=10%,seed=$seed"
				port=$((7000 + seed))
				$run $1 -p $port >server$seed 2>&1 &
				server=$!
				until_listening $port
				status=0
				$run $2 -p $port >client$seed 2>&1 || status=$?
				# It has connected, or says with which event it did not.
				[ $status = 0 ] ||
					grep -E "EVENT_(UNREACHABLE|CONNECT_ERROR|REJECTED)" client$seed
				[ $status = 0 ] || kill -9 $server
				[ $status != 0 ] || within 40000 $server
			) &
			pairs="$pairs $!"
		done
		for pair in $pairs; do
			wait $pair
		done
		[ $(grep -lE "EVENT_(UNREACHABLE|CONNECT_ERROR|REJECTED)" client* | wc -l) -le 1 ]
	' "$@"
}

@test "ucmatose over a wire that loses every fifth packet" {
	lossy 'ucmatose -b 127.0.0.1 -c 1' 'ucmatose -s 127.0.0.1 -c 1'
}

# killed WHO OTHER: of a server and a client of rping one is killed while a third process is alive.
killed() {
	scene '
		$run rping -s -P -p 9999 >third 2>&1 &
		third=$!
		$run rping -s -a 127.0.0.1 -d >server 2>&1 &
		server=$!
		until_listening 7174
		$run rping -c -a 127.0.0.1 -v -d >client 2>&1 &
		client=$!
		until [ "$(grep -c "^ping" client)" -gt 2 ]; do sleep 0.02; done
		kill -9 ${!1}
		within 3000 ${!2}
		kill -9 $third
		grep -q DISCONNECTED $2
	' "$@"
}

@test "kill -9 of a client: the server is disconnected at once" { killed client server; }
@test "kill -9 of a server: the client is disconnected at once" { killed server client; }

@test "kill -9 of both: the survivor of their host has nobody to tell" {
	scene '
		sent() { "$URXE" counters urxe0 | grep -w sent_pkts; }
		# pair PORT: connected, and stopped.
		pair() {
			$run rping -s -a 127.0.0.1 -p $1 -d >server$1 2>&1 &
			pair=$!
			until_listening $1
			$run rping -c -a 127.0.0.1 -p $1 -v -d >client$1 2>&1 &
			pair="$pair $!"
			until [ "$(grep -c "^ping" client$1)" -gt 2 ]; do sleep 0.02; done
			kill -STOP $pair
			for p in $pair; do
				until grep -q "^State:.T" /proc/$p/status; do sleep 0.02; done
			done
		}
		# die PAIR RECORDS: until so many files of records are left, which a dead process leaves to
		# the one that tells its peers (host/segment_records.c).
		die() {
			kill -9 $1
			wait $1 || true
			kill -CONT $third
			until [ "$(find /dev/shm -name "*.[rd][0-9]*" | wc -l)" = $2 ]; do sleep 0.02; done
		}
		$run rping -s -P -p 9999 >third 2>&1 &
		third=$!
		until_listening 9999
		pair 7001
		first=$pair
		pair 7002
		# The guardian would see the death of one while the other lives, and tell that one.
		guardian=
		until [ "$guardian" ]; do
			guardian=$(grep -l urxe-guardian /proc/[0-9]*/comm | cut -d/ -f3 || true)
		done
		kill -STOP $guardian
		before=$(sent)
		# So would the third.
		kill -STOP $third
		die "$first" 2
		# What it sent for them has left when it has taken the next ones.
		kill -STOP $third
		die "$pair" 0
		echo "$before, $(sent)"
		[ "$before" = "$(sent)" ]
	'
}

@test "kill -9 of a client: a survivor of its host tells the server" {
	two_hosts '
		$there $run rping -s -P -p 9999 >third 2>&1 &
		third=$!
		$here $run rping -s -a 10.1.1.1 -d >server 2>&1 &
		server=$!
		until_listening 7174
		$there $run rping -c -a 10.1.1.1 -v >client 2>&1 &
		client=$!
		until [ "$(wc -l <client)" -gt 2 ]; do sleep 0.02; done
		kill -9 $client
		within 3000 $server
		kill -9 $third
		grep -q DISCONNECTED server
	'
}

@test "kill -9 of a server: a survivor of its host tells the client" {
	two_hosts '
		$there $run rping -s -P -p 9999 >third 2>&1 &
		third=$!
		$there $run rping -s -a 10.1.1.2 >server 2>&1 &
		server=$!
		until $there "$URXE" listeners | grep -q "LISTEN  *7174 "; do
			kill -0 $server
			sleep 0.05
		done
		$here $run rping -c -a 10.1.1.2 -v -d >client 2>&1 &
		client=$!
		until [ "$(grep -c "^ping" client)" -gt 2 ]; do sleep 0.02; done
		kill -9 $server
		within 3000 $client
		kill -9 $third
		grep -q DISCONNECTED client
	'
}

# halfway SERVER: a client has asked it; the last process of its host is killed, and the client is told.
halfway() {
	two_hosts '
		$there $run "$URXE_BIN/rdmacm_halfway" $1 10.1.1.2 >server 2>&1 &
		server=$!
		until $there "$URXE" listeners | grep -q "LISTEN  *7190 "; do
			kill -0 $server
			sleep 0.05
		done
		$here $run "$URXE_BIN/rdmacm_halfway" asking 10.1.1.2 >client 2>&1 &
		client=$!
		until grep -q $1 server && grep -q "$2" client; do sleep 0.02; done
		kill -9 $server
		within 3000 $client
		cat client
		grep -q "REJECTED 28" client
	' "$@"
}

@test "kill -9 of a server that has not answered yet: the client is refused at once" {
	halfway asked asking
}
@test "kill -9 of a server before its reply is taken: the client is refused at once" {
	halfway replied CONNECT_RESPONSE
}

@test "kill -9 of a client that asks: its request cannot be accepted any more" {
	two_hosts '
		$there $run "$URXE_BIN/rdmacm_halfway" late 10.1.1.2 >server 2>&1 &
		server=$!
		until $there "$URXE" listeners | grep -q "LISTEN  *7190 "; do
			kill -0 $server
			sleep 0.05
		done
		$here $run "$URXE_BIN/rdmacm_halfway" asking 10.1.1.2 >client 2>&1 &
		client=$!
		until grep -q asked server; do sleep 0.02; done
		kill -9 $client
		within 3000 $server
		cat server
		grep -q "Invalid argument" server
	'
}

# rping waits 2 s for an address. A neighbour that is not known yet is found within that.
@test "an address that nobody has is an ADDR_ERROR when the time is over" {
	two_hosts '
		begin=$(date +%s%N)
		! $here $run rping -c -a 10.1.1.99 -v >client 2>&1 || false
		took=$((($(date +%s%N) - begin) / 1000000))
		echo "$took ms"
		grep -q "RDMA_CM_EVENT_ADDR_ERROR, error -110" client
		[ $took -ge 2000 ]
		[ $took -lt 30000 ]

		$there $run rping -s -a 10.1.1.2 -C 3 >server 2>&1 &
		server=$!
		for try in $(seq 100); do
			$there "$URXE" listeners | grep -q "LISTEN  *7174 " && break
			sleep 0.05
		done
		ip neigh flush all
		$here $run rping -c -a 10.1.1.2 -C 3 -V >client 2>&1
		within 3000 $server
	'
}

# As when a bond takes its other link.
@test "an id learns that the Ethernet address of its netdev has changed" {
	two_hosts '
		$here $run "$URXE_BIN/rdmacm_halfway" resolved 10.1.1.2 >client 2>&1 &
		client=$!
		until grep -q resolved client; do
			kill -0 $client
			sleep 0.02
		done
		ip link set v0 address 02:00:00:00:00:09
		within 10000 $client
		grep -q "RDMA_CM_EVENT_ADDR_CHANGE 0" client
	'
}

@test "a listener that is killed frees its port" {
	scene '
		$run rping -s -a 127.0.0.1 >server1 2>&1 &
		server=$!
		until_listening 7174
		kill -9 $server
		wait $server || true
		! "$URXE" listeners | grep -q 7174
		LD_PRELOAD=$URXE_BIN/rdmacm_channel.so $run rping -s -a 127.0.0.1 -C 3 >server2 2>&1 &
		server=$!
		until_listening 7174
		$run rping -c -a 127.0.0.1 -C 3 -V >client 2>&1
		wait $server
	'
}
