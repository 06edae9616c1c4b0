#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# Debian's QEMU, libfabric and qperf, on one end of a veth pair: libfabric leaves loopback interfaces out.
load helpers
load scene

A=10.98.0.1
export URXE_DEVICES=urxe0=v0 LIMIT=120

# on_veth COMMAND…: isolated, in the test's folder, with a pair of interfaces.
on_veth() {
	cd "$BATS_TEST_TMPDIR"
	isolated sh -c 'ip link add v0 type veth peer name v1 && ip addr add '$A'/24 dev v0 &&
		ip link set v0 up && ip link set v1 up && exec "$@"' sh "$@"
}

# both SERVER… :: CLIENT…: each under urxe.
both() {
	local words=()
	while [ "$1" != :: ]; do words+=("$1") && shift; done
	on_veth "$top/tests/guest/bin/pair" -q -t $LIMIT \
		"$URXE" run -- "${words[@]}" :: "$URXE" run -- "${@:2}"
}

# Not everything is packaged everywhere, and the machine's own lo is no place for interfaces.
needs() {
	command -v "$1" >/dev/null || skip "there is no $1"
	unshare -Urnm true 2>/dev/null || unshare -nm true 2>/dev/null || skip "no namespaces"
}

# The memory of 64 MiB is registered as a whole, or as it is sent, in pieces of 1 MiB.
migrate() { # on|off
	needs qemu-system-x86_64
	on_veth timeout -k 5 $LIMIT "$BATS_TEST_DIRNAME/qemu-migrate" $A "$1" "$URXE" run --
}
@test "QEMU migrates a machine by RDMA" { migrate off; }
@test "QEMU migrates a machine by RDMA, all memory registered" { migrate on; }

@test "libfabric finds endpoints of verbs, and ofi_rxm and ofi_rxd over them" {
	needs fi_info
	run on_veth "$URXE" run -- fi_info -p verbs
	echo "$output"
	for type in FI_EP_MSG FI_EP_DGRAM FI_EP_RDM; do
		[[ $output == *"type: $type"* ]]
	done
	[[ $output == *"verbs;ofi_rxm"* && $output == *"verbs;ofi_rxd"* ]]
}

fabric() { # ENDPOINT PROVIDER
	needs fi_pingpong
	both fi_pingpong -c -I 10 -e "$1" -p "$2" :: fi_pingpong -c -I 10 -e "$1" -p "$2" $A
}
@test "fi_pingpong over connected endpoints" { fabric msg verbs; }
@test "fi_pingpong over reliable datagrams of ofi_rxm" { fabric rdm 'verbs;ofi_rxm'; }
@test "fi_pingpong over datagrams" { fabric dgram verbs; }

# The server tells its port before it listens there, so that a client may be refused; it ends when it is
# told to.
@test "qperf over rdma_cm" {
	needs qperf
	both qperf :: sh -c '
		for test in rc_bi_bw ver_rc_compare_swap; do
			tries=1
			until qperf -t 1 -cm 1 '$A' $test; do
				tries=$((tries + 1)) && [ $tries -le 5 ] || exit
			done
		done
		qperf '$A' quit'
}

# Two hosts as they come, each with an Ethernet interface and lo, and no word about urxe in the environment.
unconfigured() { # SCRIPT
	needs fi_pingpong
	unset "${!URXE_@}"
	URXE=${URXE:-$top/build/urxe} two_hosts "${two_hosts_plain}$1"
}
two_hosts_plain='
	unset URXE_DEVICES
	here=
	there="nsenter -t $host -n"
	$there ip link set lo up
	for side in "$here" "$there"; do
		until $side "$URXE" devices | grep -q "netdev v[01] *ACTIVE"; do sleep 0.02; done
	done
'

@test "without configuration libfabric finds connected endpoints beside lo" {
	unconfigured '
		$here $run fi_info -p verbs >info
		grep -q "type: FI_EP_MSG" info
		grep -q "type: FI_EP_RDM" info
	'
}

@test "without configuration fi_pingpong connects two hosts, with messages and with reliable datagrams" {
	unconfigured '
		for type in msg rdm; do
			$there $run fi_pingpong -p verbs -I 10 -e $type >server 2>&1 &
			server=$!
			for try in $(seq 50); do
				$here $run fi_pingpong -p verbs -I 10 -e $type 10.1.1.2 >client 2>&1 && break
				sleep 0.1
			done
			grep -q "^1m " client
			within 5000 $server
		done
	'
}

@test "without configuration UCX sends by the interface, not by lo" {
	command -v ucx_perftest >/dev/null || skip "there is no ucx_perftest"
	unconfigured '
		export UCX_TLS=rc,self
		$there $run ucx_perftest -t tag_bw -s 100000 -n 100 >server 2>&1 &
		server=$!
		for try in $(seq 50); do
			$here $run ucx_perftest -t tag_bw -s 100000 -n 100 10.1.1.2 >client 2>&1 && break
			sleep 0.1
		done
		grep -q "^Final: " client
		within 5000 $server
	'
}

@test "without configuration Open MPI's ranks of two hosts send by RDMA" {
	command -v mpirun.openmpi >/dev/null || skip "there is no Open MPI"
	export TMPDIR=$BATS_TEST_TMPDIR RANK=$BATS_TEST_DIRNAME/ucx-mpi OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
	unconfigured '
		printf "#!/bin/sh\nshift\nexec $there sh -c \"\$*\"\n" >agent
		chmod +x agent
		$here $run mpirun.openmpi -H 10.1.1.1,10.1.1.2 -n 2 --mca plm_rsh_agent "$PWD/agent" --mca pml ucx --mca osc ucx \
			--mca mpi_yield_when_idle 1 $run "$RANK" >out 2>&1
		grep "2 ranks agree" out
		sent=$($here "$URXE" counters | awk "/sent_bytes/ { print \$2 }")
		[ "$sent" -gt 3000000 ]
	'
}

@test "without configuration 127.0.0.1 is this host, whatever interface it has" {
	needs rping
	unconfigured '
		$there $run rping -s -a 127.0.0.1 -C 3 >server 2>&1 &
		server=$!
		for try in $(seq 100); do
			$there "$URXE" listeners | grep -q "LISTEN  *7174 " && break
			sleep 0.05
		done
		$there $run rping -c -a 127.0.0.1 -C 3 -V -v >client 2>&1
		grep -c "^ping" client
		within 5000 $server
	'
}
