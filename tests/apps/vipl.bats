#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# libvipl over urxe0: programs of the VI Architecture, alone and in pairs.
load helpers
load scene

URXE_BIN=${URXE_BIN:-${URXE%/*}/tests/apps}

# alone CASE…: one process.
alone() {
	run isolated timeout -k 5 100 "$URXE" run -- "$URXE_BIN/vipl_alone" "$@"
	echo "$output"
	[ "$status" -eq 0 ]
}

# talk OPTIONS…: two processes, all cases. Where one says what went wrong, both do.
talk() {
	VIPL_PEER=127.0.0.1 isolated "$top/tests/guest/bin/pair" -q -t "${LIMIT:-100}" \
		"$URXE" run -- "$URXE_BIN/vipl_pair" "$@" :: \
		"$URXE" run -- "$URXE_BIN/vipl_pair" -c 127.0.0.1 "$@"
}

@test "the library shows 41 functions and nothing else" {
	run nm -D --defined-only "${URXE%/*}/vipl/libvipl.so.1"
	[ "${#lines[@]}" -eq 41 ]
	[ "$(grep -c ' T Vip' <<<"$output")" -eq 41 ]
}

@test "bad input to each function" {
	run isolated timeout -k 5 100 "$URXE" run -- "$URXE_BIN/vipl_bad_input"
	echo "$output"
	[ "$status" -eq 0 ]
}

@test "attributes: what a VI may be" { alone attributes; }
@test "attributes that a VI cannot be given leave it as it was" { alone kept_attributes; }
@test "an idle VI: sends are flushed, receives are kept" { alone idle; }
@test "descriptors that cannot be posted, and too many" { alone unpostable; }
@test "memory: registered, registered again, changed, read-only" { alone memory; }
@test "remote rights that are taken away and given back" { alone rights; }
@test "memory that is taken back while descriptors in it are posted" { alone vanishing_memory; }
@test "completion queues: in use, resized, with stale entries" { alone queues; }
@test "connections that do not come about" { alone connecting; }
@test "threads wait for connections of one NIC handle" { alone waiting_threads; }
@test "a VI is begun anew beside the thread that accepted with it" { alone begun_anew; }
@test "the same before that thread knows that it is connected" { alone begun_anew_early; }
@test "protection tags, and VIs without" { alone tags; }
@test "Notify: handlers of a queue and of a completion queue" { alone notices; }
@test "four threads on a VI" { alone threads; }
@test "the longest descriptor behind some that nobody has taken" { alone untaken; }
@test "connections end beside a thread that takes entries" { alone endings; }
@test "VIs come and go beside threads that use them" { alone passing_vis; }
@test "Done beside Wait; Wait ends with its descriptor" { alone wait_and_done; }
@test "a child that has been forked leaves its parent undisturbed" { alone forking; }
@test "closing a NIC with all that is left of it" { alone closing; }
@test "names" { alone names; }

@test "two processes: reliable delivery" { talk -l d; }
@test "two processes: reliable reception" { talk -l r; }
@test "two processes: unreliable" { talk -l u; }
@test "two processes: through completion queues, reliable" { talk -l d -q; }
@test "two processes: through completion queues, unreliable" { talk -l u -q; }
# -f: on a busy machine a packet may overtake one that another thread has sent, on lo too.
@test "over UDP" { URXE_WIRE=udp talk -l d -f; }
@test "over UDP, unreliable" { URXE_WIRE=udp talk -l u -q; }
# The cases that are about data; each makes a connection and ends it.
data="pingpong immediate rdma_write rdma_read segments stream"

@test "packets are lost: reliable delivery" { URXE_WIRE=udp URXE_FAULT=drop=2%,seed=4 talk -l d -f $data; }
@test "packets are lost: reliable reception, completion queues" {
	URXE_WIRE=udp URXE_FAULT=drop=2%,seed=5 talk -l r -q -f $data
}

@test "packets are lost: connections made, refused and ended" {
	URXE_WIRE=udp URXE_FAULT=drop=2%,seed=6 talk -l d -f again rejected peers
}

@test "the example" {
	local example=${URXE%/*}/examples/vipl_hello
	run isolated "$top/tests/guest/bin/pair" -t 60 \
		"$URXE" run -- "$example" urxe0 :: "$URXE" run -- "$example" lo 127.0.0.1
	echo "$output"
	[ "$status" -eq 0 ]
	[[ $output == *"answer to message 2"* ]]
}

# Each side of a connection is killed, once while data is under way and once when both only wait: the other one
# learns it, and has all of its descriptors back.
killed='
	for options in "-l d" "-l r -i" "-l u" "-l u -i"; do
		$there $run "$1" $options victim >server 2>&1 &
		$here $run "$1" $options -c "$2" survivor
		$there $run "$1" $options survivor >server 2>&1 &
		server=$!
		$here $run "$1" $options -c "$2" victim >client 2>&1 &
		wait $server
	done
'

@test "kill -9 of a process: its peer on the same host" { scene "$killed" "$URXE_BIN/vipl_killed" 127.0.0.1; }
@test "kill -9 of a process: its peer on another host" { two_hosts "$killed" "$URXE_BIN/vipl_killed" 10.1.1.2; }
