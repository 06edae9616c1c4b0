#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# What urxe puts on the wire, seen by others: tshark decodes every packet as RoCEv2 and calls none
# malformed, and an ICRC computed by other means (capture-check) is the one in the packet.
load helpers
export URXE_WIRE=udp

traffic=${URXE%/*}/tests/traffic/traffic

# captured COMMAND…: runs it while all of port 4791 on lo is written to $capture. gso_max_segs has the
# kernel cut batches into packets before they reach the capture. dumpcap throws away what it has not read
# when it is told to end, so it is told once a datagram to port 9, sent behind all others, is in the file.
captured() {
	isolated bash -c '
		file=$1
		shift
		ip link set dev lo gso_max_segs 1 || exit
		dumpcap -q -P -B 64 -i lo -f "udp port 4791 or udp port 9" -w "$file" 2>"$file.log" &
		dumpcap=$!
		# It captures once it has written the head of its file.
		for _ in $(seq 200); do
			[ -s "$file" ] && break
			sleep 0.05
		done
		timeout 100 "$@"
		status=$?
		for _ in $(seq 400); do
			echo "the last datagram" >/dev/udp/127.0.0.1/9
			grep -qa "the last datagram" "$file" && break
			sleep 0.05
		done 2>/dev/null
		kill -INT $dumpcap
		wait $dumpcap
		cat "$file.log"
		exit $status' bash "$capture" "$@"
}

# tshark guesses at what a payload may be, and takes a random one of a few bytes for a protocol above
# that ends too early: whatever guesses at InfiniBand's payload is off.
above() {
	tshark -G heuristic-decodes 2>/dev/null |
		awk '$1 == "infiniband.payload" && $2 != "ethertype" { print "--disable-protocol " $2 }'
	echo --disable-heuristic eth_over_ib
}

# decoded FILTER: the packets of the capture which that filter shows, a line each.
decoded() {
	# shellcheck disable=SC2046
	tshark -r "$capture" -d udp.port==4791,infiniband $(above) -Y "$1" 2>/dev/null
}

# judged LEAST [migrating]: tshark and capture-check on the capture, which must hold at least so many packets.
# The datagram to port 9 is not judged: tshark names it after its source port, any one of the kernel's choice.
judged() {
	local all roce malformed
	all=$(decoded 'udp.port == 4791' | wc -l)
	roce=$(decoded infiniband.bth | wc -l)
	malformed=$(decoded 'udp.port == 4791 && _ws.malformed')
	echo "$all packets, $roce decoded as RoCEv2; malformed: ${malformed:-none}"
	[ "$all" -ge "$1" ]
	[ "$roce" -eq "$all" ]
	[ -z "$malformed" ]
	"$BATS_TEST_DIRNAME/capture-check" "$capture" "${@:2}"
}

setup() {
	[ -x "$URXE" ]
	command -v tshark >/dev/null || skip "tshark is not installed"
	capture=$BATS_TEST_TMPDIR/capture.pcap
	dumpcap -v >/dev/null || skip "dumpcap may not be run by this user"
}

traffic() {
	captured "$URXE" run -- "$traffic" --procs 1 --dev urxe0 --time-limit 60 "$@"
}

@test "RC over IPv4: no malformed packet, every ICRC right" {
	traffic --gid-index 0 --ops 100 --max-size 20000
	judged 1000
}

@test "RC over IPv6: no malformed packet, every ICRC right" {
	traffic --gid-index 1 --ops 100 --max-size 20000
	judged 1000
}

@test "RC with path MTU 256: no malformed packet, every ICRC right" {
	traffic --gid-index 0 --ops 50 --max-size 20000 --mtu 256
	judged 1000
}

@test "UC: no malformed packet, every ICRC right" {
	traffic --gid-index 0 --ops 100 --max-size 20000 --qp-type uc
	judged 1000
}

@test "UD over IPv4: no malformed packet, every ICRC right" {
	traffic --gid-index 0 --ops 200 --qp-type ud
	judged 300
}

@test "UD over IPv6: no malformed packet, every ICRC right" {
	traffic --gid-index 1 --ops 200 --qp-type ud
	judged 300
}

# tshark 4.0 names XRC's opcodes, and does not know the header behind the BTH (XRCETH).
@test "XRC: no malformed packet, every ICRC right" {
	captured "$URXE" run -- "${URXE_BIN:-${URXE%/*}/tests/apps}/verbs_xrc" messages in_turn
	judged 1000
	[ "$(decoded 'infiniband.bth.opcode >= 0xa0 && infiniband.bth.opcode <= 0xb4' | wc -l)" -ge 500 ]
}

# tshark 4.0 does not know the opcode of annex A19 (0x1d): it shows the BTH, and nothing behind it.
@test "atomic writes: no malformed packet, every ICRC right" {
	captured "$URXE" run -- "${URXE_BIN:-${URXE%/*}/tests/apps}/verbs_status" atomic_writes
	judged 500
	[ "$(decoded 'infiniband.bth.opcode == 0x1d' | wc -l)" -ge 100 ]
}

# Each end by itself: MigReq is 0 from the moment it rearms until it leaves by the other path (17.2.8).
@test "path migration: MigReq follows the state, by each path" {
	captured "$URXE" run -- "${URXE_BIN:-${URXE%/*}/tests/apps}/verbs_path_migration" cycle 2
	judged 50 migrating
	# shellcheck disable=SC2046
	tshark -r "$capture" -d udp.port==4791,infiniband $(above) -Y infiniband.bth -T fields -e infiniband.bth.destqp -e ip.version \
		-e infiniband.bth.m 2>/dev/null |
		awk -F '\t' '{ now = $2 ":" $3 }
			last[$1] != now { said[$1] = said[$1] " " now; last[$1] = now }
			END { for (qp in said) print said[qp] }' >"$BATS_TEST_TMPDIR/said"
	cat "$BATS_TEST_TMPDIR/said"
	[ "$(sort -u "$BATS_TEST_TMPDIR/said")" = " 4:1 4:0 6:1 6:0 4:1" ]
	[ "$(wc -l <"$BATS_TEST_TMPDIR/said")" = 2 ]
}
