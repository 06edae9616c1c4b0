# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# A virtual InfiniBand fabric under programs that know nothing of it: OpenSM and infiniband-diags.

load helpers
load fabric

# The spine by which h1 reaches h3.
spine() {
	on h1 ibtracert "$(lid_of h1)" "$(lid_of h3)" | sed -n 's/.*"\(spine[12]\)"$/\1/p' | head -n 1
}

goes_by() {
	[ "$(spine)" = "$1" ]
}

@test "OpenSM brings 702 nodes up, and each host gets all their records" {
	"$URXE" fabric generate fat-tree levels=2 ports=36 >"$XDG_RUNTIME_DIR/702.topo"
	up "$XDG_RUNTIME_DIR/702.topo"
	managed h5
	[ "$(records h0)" = 702 ]
	[ "$(records h300)" = 702 ]
	[ "$(records h647)" = 702 ]
	[ "$(on h17 ibnetdiscover | grep -cE '^(Switch|Ca)')" = 702 ]
}

@test "ibnetdiscover prints what the fabric was made of: speeds, two ports, adapters of one host" {
	up "$BATS_TEST_DIRNAME/fabric-mixed.topo"
	managed node-2 -o
	on node-1 ibnetdiscover >"$XDG_RUNTIME_DIR/found"
	diff <("$BATS_TEST_DIRNAME/fabric-normal" "$BATS_TEST_DIRNAME/fabric-mixed.topo") \
		<("$BATS_TEST_DIRNAME/fabric-normal" "$XDG_RUNTIME_DIR/found")
	[ "$(on node-1 ibstat -l | tr '\n' ' ')" = "urxe0 urxe1 " ]
	[ "$(on 0x2c90300b00000 ibstat -l)" = urxe0 ]
}

# Files of real clusters say at some cables 4x at one end and 1x at the other.
@test "the two ends of a link report what the file says of each, and the same once it has trained" {
	up "$BATS_TEST_DIRNAME/fabric-mixed.topo"
	active() { "$URXE" fabric show | sed -nE '/rack [12]\[(3|4|23|24)\]/s/.* ([14]x[A-Z]*) .*/\1/p' | tr '\n' ' '; }
	[ "$(active)" = "4xDDR 4xSDR 1xSDR 4xQDR " ]
	"$URXE" fabric link down "SwitchIB rack 1" 4
	"$URXE" fabric link up "SwitchIB rack 1" 4
	[ "$(active)" = "4xDDR 1xSDR 1xSDR 4xQDR " ]
	on 0x2c90300b00000 ibportstate -D 0,1 3 reset
	[ "$(active)" = "4xDDR 1xSDR 1xSDR 4xDDR " ]
}

@test "the fabric of the examples comes up, and ibnetdiscover prints it" {
	local topo=$BATS_TEST_DIRNAME/../../examples/fat-tree-4x8.topo
	up "$topo"
	managed h1
	on h2 ibnetdiscover >"$XDG_RUNTIME_DIR/found"
	diff <("$BATS_TEST_DIRNAME/fabric-normal" "$topo") <("$BATS_TEST_DIRNAME/fabric-normal" "$XDG_RUNTIME_DIR/found")
	"$URXE" fabric link down L0 19
	"$URXE" fabric node down h7
	[ "$("$URXE" fabric show | grep -cE ' (Down|off) ')" = 4 ]
	"$URXE" fabric link up L0 19
	"$URXE" fabric node up h7
	[ "$("$URXE" fabric show | grep -cE ' (Down|off) ')" = 0 ]
}

@test "a fabric may come by standard input" {
	"$URXE" fabric generate hypercube dimensions=2 | up -
	[ "$("$URXE" fabric show | grep -c '^[sh]')" = 8 ]
}

@test "FDR10 is disabled and enabled with ibportstate, and the link trained by it" {
	up "$BATS_TEST_DIRNAME/fabric-mixed.topo"
	fdr10() { on 0x2c90300b00000 smpquery -D mepi 0,1 35 | sed -n 's/^LinkSpeed.*:\.*//p' | tr '\n' ' '; }
	speed() { "$URXE" fabric show | grep '^ *35 ' | grep -q " $1 "; }
	# Supported, enabled, active.
	[ "$(fdr10)" = "0x01 0x01 0x01 " ]
	speed 4xFDR10
	on 0x2c90300b00000 ibportstate -D 0,1 35 fdr10 0
	[ "$(fdr10)" = "0x01 0x00 0x01 " ]
	on 0x2c90300b00000 ibportstate -D 0,1 35 reset
	[ "$(fdr10)" = "0x01 0x00 0x00 " ]
	speed 4xQDR
	on 0x2c90300b00000 ibportstate -D 0,1 35 fdr10 1
	on 0x2c90300b00000 ibportstate -D 0,1 35 reset
	[ "$(fdr10)" = "0x01 0x01 0x01 " ]
	speed 4xFDR10
	# Its port has another speed.
	run on 0x2c90300b00000 ibportstate -D 0,1 34 fdr10 1
	[ "$status" != 0 ]
}

@test "a link that goes down is routed around, and counted" {
	local by port
	up "$BATS_TEST_DIRNAME/fabric-ring.topo"
	managed h1
	by=$(spine)
	[ "$by" = spine1 ] && port=8 || port=7
	"$URXE" fabric link leaf1 $port down
	await goes_by "spine$((3 - ${by#spine}))"
	on h1 smpquery -D nodeinfo 0,1
	on h2 perfquery -G 0x0255525845000000 "$port" | grep -q 'LinkDownedCounter:\.*1$'
	"$URXE" fabric link leaf1 $port up
	await goes_by "$by"
}

@test "a host that is switched off leaves the subnet and comes back" {
	up "$BATS_TEST_DIRNAME/fabric-ring.topo"
	managed h1
	[ "$(records h2)" = 8 ]
	"$URXE" fabric node h4 down
	left() { [ "$(records h2)" = "$1" ]; }
	await left 7
	"$URXE" fabric node h4 up
	await left 8
}

@test "a switch that was switched off and on is set up again by the subnet manager" {
	local by
	up "$BATS_TEST_DIRNAME/fabric-ring.topo"
	managed h1
	by=$(spine)
	"$URXE" fabric node "$by" down
	await goes_by "spine$((3 - ${by#spine}))"
	"$URXE" fabric node "$by" up
	await goes_by "$by"
	# Before the subnet manager knows that it was off.
	"$URXE" fabric node leaf2 down
	"$URXE" fabric node leaf2 up
	answers() { on h1 smpquery nodedesc "$(lid_of h3)" 2>&1 | grep -q h3; }
	await answers
}

@test "the standby becomes master when the master is killed" {
	up "$BATS_TEST_DIRNAME/fabric-ring.topo"
	managed h1
	opensm_at h3
	await log_says h3 'Entering STANDBY'
	kill -KILL "${started[0]}"
	await log_says h3 'Entering MASTER'
	on h2 sminfo | grep -q 'SMINFO_MASTER'
	# The port of the one that was killed is no subnet manager's any more.
	[ $(($(on h1 ibstat | sed -n 's/.*Capability mask: //p') & 2)) = 0 ]
	[ $(($(on h3 ibstat | sed -n 's/.*Capability mask: //p') & 2)) = 2 ]
}

@test "OpenSM survives the death of the fabric and manages its next life" {
	local lines
	up "$BATS_TEST_DIRNAME/fabric-ring.topo"
	managed h1
	"$URXE" fabric down
	run on h2 ibstat
	lines=$(wc -l <"$XDG_RUNTIME_DIR/h1.log")
	up "$BATS_TEST_DIRNAME/fabric-ring.topo"
	is_up() { [ "$(on h2 ibstat | grep -c 'State: Active')" = 1 ]; }
	await is_up
	# It neither ended nor wrote about an error again and again.
	kill -0 "${started[0]}"
	[ $(($(wc -l <"$XDG_RUNTIME_DIR/h1.log") - lines)) -lt 100 ]
}

@test "ibping answers from host to host, both ways" {
	up "$BATS_TEST_DIRNAME/fabric-ring.topo"
	managed h1
	"$URXE" run --host h3 -- ibping -S 3>&- &
	started+=($!)
	"$URXE" run --host h1 -- ibping -S 3>&- &
	started+=($!)
	pings() { on "$1" ibping -c 1 "$(lid_of "$2")" | grep -q ' 0% packet loss'; }
	await pings h1 h3
	await pings h3 h1
}

# caching COMMAND…: a folder of its own for what the Perl programs keep in root's /var/cache/infiniband-diags.
caching() {
	local as=(unshare -m)
	"${as[@]}" true 2>/dev/null || as=(unshare -Urm)
	export URXE
	"${as[@]}" bash -c "$(declare -f on)"' && mount -t tmpfs none /var/cache && "$@"' bash "$@"
}

@test "each program of infiniband-diags does its work" {
	local lid guid
	up "$BATS_TEST_DIRNAME/fabric-ring.topo"
	managed h1
	lid=$(lid_of h3)
	on h2 ibstat | grep -q 'Link layer: InfiniBand'
	on h2 iblinkinfo | grep -q '4X *25.78125 Gbps Active/ *LinkUp'
	[ "$(on h2 ibswitches | wc -l)" = 4 ]
	[ "$(on h2 ibhosts | wc -l)" = 4 ]
	[ "$(on h2 ibnodes | wc -l)" = 8 ]
	on h2 ibaddr | grep -q GID
	on h2 sminfo | grep -q MASTER
	on h2 smpquery nodedesc "$lid" | grep -q 'h3$'
	on h2 smpquery portinfo "$lid" 1 | grep -q 'LinkState:\.*Active'
	on h2 smpquery -D switchinfo 0,1 | grep -q 'LinearFdbCap:\.*49152'
	on h2 smpquery pkeys "$lid" | grep -q 0xffff
	on h2 smpquery sl2vl "$lid" | grep -q 'SL:'
	on h2 smpquery vlarb "$lid" | grep -q 'Low priority'
	on h2 smpquery guidinfo "$lid" | grep -q '0x0255525845000601'
	on h2 smpdump -D 0,1 0x11 | grep -q '0101 0208'
	on h2 ibroute 2 | grep -q "h3"
	on h2 ibportstate "$lid" 1 query | grep -q 'LinkState:\.*Active'
	on h2 perfquery -x "$lid" 1 | grep -q 'PortXmitData'
	on h2 perfquery -a 2 | grep -q 'PortSelect:\.*255'
	on h2 perfquery -c "$lid" 1 | grep -q 'Tick:\.*0xff'
	on h2 perfquery -c 2 0 | grep -q 'SampleStatus:\.*0'
	on h2 ibqueryerrors | grep -q '0 nodes.*had errors\|nodes checked, 0 bad'
	on h2 saquery PR | grep -q PathRecord
	on h2 saquery --switch-map 2>&1 || true
	caching on h2 ibidsverify
	guid=$(on h2 ibswitches | sed -n 's/.*: \(0x[0-9a-f]*\) .*"leaf1".*/\1/p')
	caching on h2 ibfindnodesusing -R "$guid" 8 | grep -q '==>> .*spine1'
	on h2 ibcacheedit --help >/dev/null 2>&1 || true
	on h2 ibtracert "$(lid_of h2)" "$lid" | grep -q '"h3"$'
}

@test "what cannot be done is said, with the cure" {
	run "$URXE" fabric show
	[ "$status" = 1 ]
	[[ $output == *"urxe fabric up FILE"* ]]
	run "$URXE" run --host h1 -- true
	[ "$status" = 2 ]
	[[ $output == *"urxe fabric up FILE"* ]]
	run up /nowhere.topo
	[ "$status" = 1 ]
	[[ $output == *"/nowhere.topo: No such file"* ]]
	run up "$XDG_RUNTIME_DIR"
	[ "$status" = 1 ]
	[[ $output == *"$XDG_RUNTIME_DIR: Is a directory"* ]]
	# Of a file without end, not all is read.
	run timeout 60 "$URXE" fabric up /dev/zero
	[ "$status" = 1 ]
	[[ $output == *"/dev/zero: File too large"* ]]
	run "$URXE" fabric show --name other
	[[ $output == *"urxe fabric up --name other FILE"* ]]
	echo 'Switch 8 "a"' >"$XDG_RUNTIME_DIR/bad.topo"
	echo '[9] "b"[1]' >>"$XDG_RUNTIME_DIR/bad.topo"
	run up "$XDG_RUNTIME_DIR/bad.topo"
	[ "$status" = 1 ]
	[[ $output == *'line 2: "a" has no port 9'* ]]
	up "$BATS_TEST_DIRNAME/fabric-ring.topo"
	run up "$BATS_TEST_DIRNAME/fabric-ring.topo"
	[ "$status" = 1 ]
	[[ $output == *"is up already; urxe fabric down"* ]]
	run on h77 ibstat
	[[ $output == *'no host is called "h77"'* ]]
	run "$URXE" fabric link leaf1 4 down
	[ "$status" = 1 ]
	[[ $output == *"no cable"* ]]
	run "$URXE" fabric link leaf1 7x down
	[ "$status" = 1 ]
	[[ $output == *"port: a number from 1 to 8"* ]]
	run "$URXE" fabric link nobody 4 down
	[ "$status" = 1 ] && [[ $output == *'no node is called "nobody"'* ]]
}

@test "a fabric of more ports than a subnet has LIDs is up, with a line that says so" {
	# Pairs of a switch and an adapter with 254 cables between them: each needs 255 LIDs.
	pairs() {
		awk -v n="$1" 'BEGIN { for (i = 1; i <= n; i++) {
			print "Ca 254 \"h" i "\"\nSwitch 254 \"s" i "\""
			for (p = 1; p <= 254; p++) print "[" p "] \"h" i "\"[" p "]"
		} }'
	}
	run up - < <(pairs 192)
	echo "$output"
	[ "$status" = 0 ]
	[ -z "$output" ]
	"$URXE" fabric down
	run up - < <(pairs 193)
	echo "$output"
	[ "$status" = 0 ]
	[[ $output == *"needs 49215 LIDs, and a subnet has 49151: a subnet manager leaves ports without one"* ]]
}

@test "a fabric that was killed is said to have been, and comes back" {
	"${URXE%/*}/daemons/fabricd/fabricd" "$BATS_TEST_DIRNAME/fabric-ring.topo" 3>&- &
	started+=($!)
	await "$URXE" fabric show
	kill -KILL "${started[0]}"
	wait "${started[0]}" || true
	run "$URXE" fabric show
	echo "$output"
	[ "$status" = 1 ]
	[ "$output" = 'urxe: the fabric "fabric" was killed; bring it back with: urxe fabric up FILE' ]
	run on h1 true
	[ "$status" = 2 ]
	[[ $output == *'was killed; bring it back with: urxe fabric up FILE'* ]]
	up "$BATS_TEST_DIRNAME/fabric-ring.topo"
	on h1 true
}

@test "urxe fabric up that is interrupted leaves no fabric" {
	mkfifo "$XDG_RUNTIME_DIR/topo"
	# It is in the middle of its work for as long as this has the file open.
	exec 8<>"$XDG_RUNTIME_DIR/topo"
	"$URXE" fabric up "$XDG_RUNTIME_DIR/topo" 8>&- &
	starter=$!
	started+=("$starter")
	await test -S "$XDG_RUNTIME_DIR"/urxe-fabric/fabric
	# The shell lets what runs in the background ignore SIGINT.
	kill -TERM "$starter"
	wait "$starter" || true
	cat "$BATS_TEST_DIRNAME/fabric-ring.topo" >&8
	exec 8>&-
	is_gone() { [ ! -e "$XDG_RUNTIME_DIR/urxe-fabric/fabric" ]; }
	await is_gone
	run "$URXE" fabric show
	echo "$output"
	[[ $output == *"is not up"* ]]
	[ "$(ls "$XDG_RUNTIME_DIR/urxe-fabric")" = fabric.log ]
	grep -q "ended before this fabric was up" "$XDG_RUNTIME_DIR/urxe-fabric/fabric.log"
}

@test "faults of a cable lose and corrupt packets, counted at its ends" {
	local lid guid
	up "$BATS_TEST_DIRNAME/fabric-ring.topo"
	managed h1 -o
	lid=$(lid_of h3)
	"$URXE" fabric errors leaf2 1 --symbol 100%
	run on h1 smpquery -t 100 nodedesc "$lid"
	[ "$status" != 0 ]
	"$URXE" fabric errors leaf2 1 --symbol 0
	on h1 perfquery "$lid" 1 | grep -q 'SymbolErrorCounter:\.*[1-9]'
	"$URXE" fabric errors leaf2 1 --loss 50%
	for _ in 1 2 3 4 5 6 7 8; do
		on h1 smpquery -t 50 nodedesc "$lid" || true
	done
	"$URXE" fabric errors leaf2 1 --loss 0
	on h3 perfquery 3 1 | grep -q 'PortXmitDiscards:\.*[1-9]'
	run "$URXE" fabric errors leaf2 1 --loss much
	[ "$status" = 2 ] && [[ $output == *'"much" is no share'* ]]
}

@test "MADs take the delay of each cable on their way, one way and the other" {
	local lid before after
	up "$BATS_TEST_DIRNAME/fabric-ring.topo"
	managed h1 -o
	lid=$(lid_of h3)
	"$URXE" fabric errors leaf2 1 --delay 60ms
	"$URXE" fabric errors h3 1 --delay 40ms
	before=$(date +%s%N)
	on h1 smpquery nodedesc "$lid" | grep -q h3
	after=$(date +%s%N)
	[ $((after - before)) -ge 100000000 ]
	before=$(date +%s%N)
	on h1 smpquery -D nodedesc 0,1
	on h1 perfquery "$lid" 1 | grep -q 'PortRcvPkts:\.*[1-9]'
	after=$(date +%s%N)
	[ $((after - before)) -ge 100000000 ]
	# What takes longer than its sender waits is no answer.
	"$URXE" fabric errors leaf2 1 --delay 2s
	run on h1 smpquery -t 100 nodedesc "$lid"
	[ "$status" != 0 ]
	"$URXE" fabric errors leaf2 1 --delay 0
	"$URXE" fabric errors h3 1
	on h1 smpquery -t 1000 nodedesc "$lid"
	run "$URXE" fabric errors leaf2 1 --delay 20
	[ "$status" = 2 ]
	[[ $output == *'"20" is no delay'* ]]
	run "$URXE" fabric errors leaf2 1 --delay 11s
	[ "$status" = 2 ]
}

@test "the picture of a fabric has each node and each cable once" {
	up "$BATS_TEST_DIRNAME/fabric-ring.topo"
	"$URXE" fabric show --dot >"$XDG_RUNTIME_DIR/dot"
	[ "$(grep -c 'label="' "$XDG_RUNTIME_DIR/dot")" = 8 ]
	[ "$(grep -c ' -- ' "$XDG_RUNTIME_DIR/dot")" = 8 ]
}

@test "the drawing of a fabric has each node and each cable once, and shows which are down" {
	local kind
	for kind in "fat-tree ports=8" "torus x=3 y=3 hosts=2" "dragonfly a=2 h=1 p=1" "hypercube dimensions=3 functions=1"; do
		# shellcheck disable=SC2086
		generated $kind
		"$URXE" fabric link 0x0255525845000000 1 down
		"$URXE" fabric show --svg >"$XDG_RUNTIME_DIR/svg"
		python3 - "$XDG_RUNTIME_DIR/svg" "$XDG_RUNTIME_DIR/generated.topo" <<-'END'
			import sys, re, xml.etree.ElementTree as tree
			picture = tree.parse(sys.argv[1]).getroot()
			tag = lambda name: picture.iter("{http://www.w3.org/2000/svg}" + name)
			made = open(sys.argv[2]).read()
			assert len(list(tag("g"))) == len(re.findall(r"^(Switch|Ca)", made, re.M))
			assert 2 * len(list(tag("line"))) == len(re.findall(r"^\[", made, re.M))
			assert sum(line.get("class") == "down" for line in tag("line")) >= 1
			places = [(x.get("cx"), x.get("cy")) for x in tag("circle")]
			assert len(set(places)) == len(places)
		END
		"$URXE" fabric down
	done
}

@test "the tour shows what it promises" {
	TOUR_PICTURE=$XDG_RUNTIME_DIR/picture.svg timeout 120 "$BATS_TEST_DIRNAME/../../examples/fabric/tour" >"$XDG_RUNTIME_DIR/out"
	cat "$XDG_RUNTIME_DIR/out"
	grep -q 'saquery knows on h9: 76$' "$XDG_RUNTIME_DIR/out"
	grep -q 'SymbolErrorCounter == [1-9]' "$XDG_RUNTIME_DIR/out"
	[ "$(grep -c 'SMINFO_MASTER' "$XDG_RUNTIME_DIR/out")" = 2 ]
	[ "$(sed -n 's/^h[0-9]*-vswitch .* 0x1234000000000001  lid \([0-9]*\) *Active *guest$/\1/p' "$XDG_RUNTIME_DIR/out" | sort | uniq -c | sed 's/ [0-9]*$//')" -eq 2 ]
	grep -q '</svg>' "$XDG_RUNTIME_DIR/picture.svg"
}

@test "a umad file does what the kernel's does" {
	up "$BATS_TEST_DIRNAME/fabric-ring.topo"
	managed h1 -o
	on h1 "$URXE_BIN/umad_probe" >"$XDG_RUNTIME_DIR/probe"
	diff "$BATS_TEST_DIRNAME/umad_probe.kernel" "$XDG_RUNTIME_DIR/probe"
}

@test "a thread that reads a umad file may be cancelled anywhere" {
	up "$BATS_TEST_DIRNAME/fabric-ring.topo"
	on h1 timeout 60 "$URXE_BIN/umad_cancel" 3000
}

@test "a umad file without the P_Key index needs no room for one" {
	up "$BATS_TEST_DIRNAME/fabric-ring.topo"
	managed h1 -o
	on h1 "$URXE_BIN/umad_probe" 0 old >"$XDG_RUNTIME_DIR/probe"
	diff "$BATS_TEST_DIRNAME/umad_probe.old" "$XDG_RUNTIME_DIR/probe"
}

@test "a request that could not be written can be written again" {
	up "$BATS_TEST_DIRNAME/fabric-ring.topo"
	managed h1 -o
	on h1 "$URXE_BIN/umad_probe" 0 failing >"$XDG_RUNTIME_DIR/probe"
	diff - "$XDG_RUNTIME_DIR/probe" <<-END
		errno 24
		1064
	END
}

@test "a fabricd that finds no memory to begin says so" {
	local n word failed=0 ready
	for n in $(seq 60); do
		exec {ready}< <(LD_PRELOAD=$URXE_BIN/malloc_fails.so MALLOC_FAILS=$n exec "${URXE%/*}/daemons/fabricd/fabricd" \
			-r 1 "$BATS_TEST_DIRNAME/fabric-ring.topo" 2>"$XDG_RUNTIME_DIR/said")
		word=
		read -r -u "$ready" word || true
		kill $! 2>/dev/null || true
		wait $! || true
		exec {ready}<&-
		[ "$word" = up ] && continue
		echo "allocation $n"
		grep '^fabricd: ' "$XDG_RUNTIME_DIR/said"
		failed=$((failed + 1))
	done
	# The last ones came when it was up.
	[ "$word" = up ]
	[ $failed -gt 10 ]
}

@test "fabricd keeps no descriptors that it was not meant to get" {
	up "$BATS_TEST_DIRNAME/fabric-ring.topo"
	python3 - "$(find "$XDG_RUNTIME_DIR" -type s ! -name '*.control')" <<-'END'
		import array, os, socket, struct, sys

		def connect():
		    s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
		    s.connect(sys.argv[1])
		    return s

		def open_files():
		    return len(os.listdir(f"/proc/{fabricd}/fd"))

		def pass_two():
		    with connect() as s:
		        s.sendmsg([b"no hello"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [0, 1]))])
		        assert s.recv(1) == b""

		with connect() as s:
		    fabricd = struct.unpack("3i", s.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[0]
		pass_two()
		before = open_files()
		for _ in range(20):
		    pass_two()
		assert open_files() <= before + 1, f"{before} files were open, now {open_files()}"
	END
}

@test "a fabric that has no descriptors left says so to the next program, and the operator is served" {
	local i
	(ulimit -n 64 && up "$BATS_TEST_DIRNAME/fabric-ring.topo")
	refused() { on h1 timeout 10 ibv_devinfo 2>&1 | grep 'urxe: the fabric has no descriptors left .*ulimit -Hn'; }
	for i in $(seq 40); do
		# At the first time a program that has just ended may still have its descriptors.
		refused && refused && break
		"$URXE" run --host h1 -- ibv_asyncwatch >/dev/null 2>&1 3>&- &
		started+=($!)
	done
	[ "$i" -lt 40 ]
	timeout 10 "$URXE" fabric show | grep -q h1
	# When some have ended, the next one attaches.
	kill "${started[@]}" || true
	wait "${started[@]}" || true
	started=()
	attaches() { on h1 ibv_devinfo | grep -q 'link_layer:.*InfiniBand'; }
	await attaches
}

@test "an umad file of a port that is none costs fabricd nothing, and the next program attaches" {
	up "$BATS_TEST_DIRNAME/fabric-ring.topo"
	python3 - "$(find "$XDG_RUNTIME_DIR" -type s ! -name '*.control')" "$BATS_TEST_DIRNAME/../../fabric/protocol.h" <<-'END'
		import errno, re, socket, struct, sys

		header = open(sys.argv[2]).read()
		magic, version = (int(re.search(rf"#define {name}\s+(\w+?)u?\n", header)[1], 0)
		                  for name in ("FABRIC_HELLO_MAGIC", "FABRIC_PROTOCOL"))
		UMAD = 2

		with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as s:
		    s.connect(sys.argv[1])
		    s.send(struct.pack("4I64s", magic, version, UMAD, 0xffffff, b""))
		    assert struct.unpack_from("i", s.recv(4096))[0] == errno.ENODEV
	END
	on h1 ibv_devinfo
}

# counter HOST NAME: of its port 1, in sysfs.
counter() {
	on "$1" cat "/sys/class/infiniband/urxe0/ports/1/counters/$2"
}

@test "counters in sysfs are those that performance management reads" {
	local lid before asked after file field
	up "$BATS_TEST_DIRNAME/fabric-ring.topo"
	managed h1 -o
	"$URXE" fabric link h2 1 down
	"$URXE" fabric link h2 1 up
	managed h3 -o
	wait "${started[@]}"
	lid=$(lid_of h2)
	# Each question is a packet too; who reads sysfs sends none.
	before=$(counter h2 port_rcv_packets)
	asked=$(on h1 perfquery -x "$lid" 1)
	after=$(counter h2 port_rcv_packets)
	asked=$(sed -n 's/^PortRcvPkts:\.*//p' <<<"$asked")
	[ "$before" -lt "$asked" ]
	[ "$asked" -le "$after" ]
	[ "$(counter h2 port_rcv_packets)" = "$after" ]
	[ "$(counter h2 unicast_rcv_packets)" = "$after" ]
	asked=$(on h1 perfquery "$lid" 1)
	while read -r file field; do
		[ "$(counter h2 "$file")" = "$(sed -n "s/^$field:\.*//p" <<<"$asked")" ]
	done <<-END
		link_downed LinkDownedCounter
		symbol_error SymbolErrorCounter
		port_rcv_errors PortRcvErrors
		port_xmit_discards PortXmitDiscards
		local_link_integrity_errors LocalLinkIntegrityErrors
		excessive_buffer_overrun_errors ExcessiveBufferOverrunErrors
		VL15_dropped VL15Dropped
		port_xmit_wait PortXmitWait
	END
	[ "$(counter h2 link_downed)" = 1 ]
	[ "$(on h2 ls /sys/class/infiniband/urxe0/ports/1/counters | wc -l)" = 21 ]
}

@test "answers that a program has not read wait for it in their order" {
	"${URXE%/*}/daemons/fabricd/fabricd" "$BATS_TEST_DIRNAME/fabric-ring.topo" 3>&- &
	started+=($!)
	await "$URXE" fabric show
	[ "$(on h1 "$BATS_TEST_DIRNAME/fabric-umad-flood" 300 $! | tr '\n' ' ')" = "300 300 300 " ]
}

@test "a host has its own adapter and no RoCE device" {
	up "$BATS_TEST_DIRNAME/fabric-ring.topo"
	[ "$(on h4 ls /sys/class/infiniband)" = urxe0 ]
	[ "$(on h4 cat /sys/class/infiniband/urxe0/node_desc)" = h4 ]
	[ "$(on h4 ls /sys/class/infiniband/urxe0/ports | tr '\n' ' ')" = "1 2 " ]
	[ "$(on h4 cat /sys/class/infiniband/urxe0/ports/1/state)" = "2: INIT" ]
	[ "$(on h4 cat /sys/class/infiniband/urxe0/ports/2/phys_state)" = "2: Polling" ]
	[ "$(on h4 cat /sys/class/infiniband/urxe0/ports/1/link_layer)" = InfiniBand ]
	on h4 test -c /dev/infiniband/umad1
	on h4 test -c /dev/infiniband/uverbs0
	on h4 test ! -e /dev/infiniband/uverbs1
}

# state_of HOST NUMBER: of a virtual function.
state_of() {
	"$URXE" fabric vf "$1" "$2"
}

@test "a virtual function has its own LID, which goes with its GUID to another host" {
	local lid guid
	"$URXE" fabric generate hypercube dimensions=2 functions=2 guids=1 >"$XDG_RUNTIME_DIR/vf.topo"
	up "$XDG_RUNTIME_DIR/vf.topo"
	managed h0
	# Four switches, and on each a host: its virtual switch, its adapter and one function of two.
	[ "$(records h1)" = 16 ]
	[ "$("$URXE" fabric vf h1 | wc -l)" = 2 ]
	[ "$("$URXE" fabric vf | grep -c ' Active ')" = 4 ]
	"$URXE" fabric vf h1 2 --guid 0x1234000000000001 --vm guest
	active() { state_of "$1" "$2" | grep -q ' Active .* guest$'; }
	await active h1 2
	lid=$(lid_of guest)
	on h0-vf1 smpquery -G nodedesc 0x1234000000000001 | grep -q "\.guest$"
	# No two ports have one GUID, unless that is what somebody wants to see.
	run "$URXE" fabric vf h3 2 --guid 0x1234000000000001
	[ "$status" = 1 ]
	[[ $output == *"a port of guest has that GUID; clear it there first"* ]]
	"$URXE" fabric vf h1 2 --guid none
	"$URXE" fabric vf h3 2 --guid 0x1234000000000001 --vm guest
	await active h3 2
	[ "$(lid_of guest)" = "$lid" ]
	state_of h1 2 | grep -q ' - .* Down .* h1-vf2$'
	"$URXE" fabric vf h3 2 down | grep -q ' off .* guest$'
	gone() { [ "$(records h1)" = 16 ]; }
	await gone
	run "$URXE" fabric vf h3 9 up
	[ "$status" = 1 ]
	[[ $output == *"no virtual function of that number"* ]]
	run "$URXE" fabric vf h3 2 --guid what
	[ "$status" = 1 ] && [[ $output == *"64 bits in hexadecimal"* ]]
}
