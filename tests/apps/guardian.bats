#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# A process ends in any way, and nobody is left on its host who could tell its peers: the guardian of its host
# segment does, and is gone when the last process is (provider/host/guardian.h). It takes a second at most, and on a
# busy machine longer: five are waited for.
load helpers
load scene

# listens PORT: over there. guardians: how many there are, on both hosts. guarded: each host has one. gone: none is
# left, nor any file but the segments.
guarded='
	listens() {
		for try in $(seq 100); do
			$there "$URXE" listeners | grep -q "LISTEN  *$1 " && return
			sleep 0.05
		done
		false
	}
	guardians() { cat /proc/[0-9]*/comm 2>/dev/null | grep -c urxe-guardian || true; }
	guarded() {
		for try in $(seq 500); do
			[ $(guardians) = 2 ] && return
			sleep 0.02
		done
		false
	}
	left() { ls /dev/shm | grep -vx "urxe-[0-9]*-[0-9]*"; }
	# A guardian may still be starting when the process that needed it has ended.
	gone() {
		for try in $(seq 500); do
			[ $(guardians) = 0 ] && ! left >left && return
			sleep 0.02
		done
		guardians
		cat left
		false
	}
	connect() {
		$there $run rping -s -a 10.1.1.2 -d >server 2>&1 &
		server=$!
		listens 7174
		$here $run rping -c -a 10.1.1.2 -v -d >client 2>&1 &
		client=$!
		until [ "$(grep -c "^ping" client)" -gt 2 ]; do sleep 0.02; done
	}
'

# ends WHO HOW OTHER: of the only process of one host and the only one of the other, one is killed. The other says that
# it is disconnected, in a line that its threads may have cut in two.
ends() {
	two_hosts "$guarded"'
		connect
		kill -$2 ${!1}
		within 5000 ${!3}
		grep -qE "DISCONNECTED|DISCONNECT EVENT" $3
		gone
	' "$@"
}

@test "kill -9 of the only process of a host: its client is disconnected" {
	ends server 9 client
}
@test "kill -9 of a client, the only process of its host: the server is disconnected" {
	ends client 9 server
}
@test "a program that crashes" { ends server SEGV client; }
@test "a program that ends without a word" { ends server TERM client; }

@test "a process group is killed, with all that use the device" {
	two_hosts "$guarded"'
		$there setsid sh -c "$run rping -s -P -p 9999 & exec $run rping -s -a 10.1.1.2" >server 2>&1 &
		server=$!
		listens 7174
		$here $run rping -c -a 10.1.1.2 -v -d >client 2>&1 &
		client=$!
		until [ "$(grep -c "^ping" client)" -gt 2 ]; do sleep 0.02; done
		# nsenter has become setsid, and that the leader of the group.
		kill -9 -$server
		within 5000 $client
		# One that ends a moment later may answer first for the QP of the other, with a remote operational error:
		# rping leaves in its state 11, ERROR, then, before it has read its event.
		grep -qE "DISCONNECTED|DISCONNECT EVENT|failed status 11|state 11" client
		gone
	'
}

# With 17 s until its first retry; a requester that is not acknowledged would end after two minutes.
@test "kill -9 of a process that uses no connection manager: its RC peer has a remote operational error" {
	command -v ib_send_bw >/dev/null || skip "there is no perftest"
	two_hosts "$guarded"'
		until $there $run ibv_devinfo | grep -q PORT_ACTIVE; do sleep 0.02; done
		$there $run stdbuf -o0 ib_send_bw -d urxe0 -x 0 -F -D 30 >server 2>&1 &
		server=$!
		until grep -q "Waiting for client" server; do sleep 0.02; done
		$here $run ib_send_bw -d urxe0 -x 0 -F -D 30 -u 22 10.1.1.2 >client 2>&1 &
		client=$!
		until "$URXE" counters urxe0 | grep -qE "sent_pkts +[0-9]{4}"; do sleep 0.05; done
		kill -9 $server
		within 5000 $client
		cat client
		grep -q "Failed status 11" client
		gone
	'
}

@test "timeout kills a program whose output goes into a pipe: the pipe ends, and the peer is told" {
	two_hosts "$guarded"'
		($there sh -c "echo \$\$ >timeout && exec timeout -s KILL 90 $run rping -s -a 10.1.1.2 -d" 2>&1 | cat >server) &
		pipe=$!
		listens 7174
		$here $run rping -c -a 10.1.1.2 -v -d >client 2>&1 &
		client=$!
		until [ "$(grep -c "^ping" client)" -gt 2 ]; do sleep 0.02; done
		# Its time is over by this signal.
		kill -ALRM $(cat timeout)
		within 5000 $pipe
		within 5000 $client
		grep -qE "DISCONNECTED|DISCONNECT EVENT" client
		gone
	'
}

@test "who ends in good order leaves nothing behind" {
	two_hosts "$guarded"'
		$there $run rping -s -a 10.1.1.2 -C 3 >server 2>&1 &
		server=$!
		listens 7174
		$here $run rping -c -a 10.1.1.2 -C 3 -v >client 2>&1
		within 2000 $server
		gone
	'
}

@test "a host without connections has no guardian, one with many has one" {
	two_hosts "$guarded"'
		$there $run rping -s -P -a 10.1.1.2 >server 2>&1 &
		server=$!
		listens 7174
		[ $(guardians) = 0 ]
		for i in 1 2 3; do
			$here $run rping -c -a 10.1.1.2 -v >client$i 2>&1 &
			clients="$clients $!"
			# Two requests at a time mix the server up.
			until grep -q "^ping" client$i; do sleep 0.02; done
		done
		guarded
		kill -9 $server $clients
		gone
	'
}

@test "a guardian that is killed is replaced" {
	two_hosts "$guarded"'
		connect
		guarded
		killed=$(grep -l urxe-guardian /proc/[0-9]*/comm | cut -d/ -f3)
		kill -9 $killed
		# They have their names until they are reaped.
		for pid in $killed; do within 5000 $pid; done
		guarded
		kill -9 $server
		within 5000 $client
		gone
	'
}

@test "a guardian whose segment was removed, or replaced by another version, ends with its programs" {
	two_hosts "$guarded"'
		connect
		guarded
		rm /dev/shm/urxe-*
		kill -9 $server $client
		for try in $(seq 500); do
			[ $(guardians) = 0 ] && exit
			sleep 0.02
		done
		false
	'
}

@test "process 1 of a container can be used, though nobody survives it" {
	[ "$(id -u)" = 0 ] || unshare -Urpf true 2>/dev/null || skip "no namespaces"
	two_hosts "$guarded"'
		$there unshare -pf --kill-child $run rping -s -a 10.1.1.2 -C 3 -d >server 2>&1 &
		server=$!
		listens 7174
		$here $run rping -c -a 10.1.1.2 -C 3 -V >client 2>&1
		within 2000 $server
	'
}

@test "qperf ends when its server has crashed, ten times of ten" {
	command -v qperf >/dev/null || skip "there is no qperf"
	two_hosts "$guarded"'
		for time in 1 2 3 4 5 6 7 8 9 10; do
			$there $run qperf >server 2>&1 &
			server=$!
			# It tells its port before it listens there, so that a client may be refused.
			for try in 1 2 3 4 5; do
				timeout -k 1 10 $here $run qperf -t 1 -cm 1 10.1.1.2 rc_bi_bw >client 2>&1 && break
				[ $? = 1 ]
			done
			grep "bw  =" client
			kill -9 $server 2>/dev/null || true
			wait $server || true
		done
		gone
	'
}

@test "a program does not notice its guardian: by wait(), SIGCHLD or a pipe" {
	scene '
		$run "$1/verbs_guardian"
	' "${URXE_BIN:-${URXE%/*}/tests/apps}"
}
