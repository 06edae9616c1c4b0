# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# lidtrackd on the hosts of a virtual fabric, under unmodified OpenSM and infiniband-diags.

load helpers
load migrate.bash

setup() {
	migrate_setup
}

teardown() {
	migrate_teardown
}

@test "a guest moves, and LID, vGUID and GID move with it; OpenSM notices no more than a cable" {
	local guid lid before
	hosts 2
	agents
	guid=$(guest guest7 h1)
	lid=$(lid_of guest7)
	before=$(on guest7 smpquery -G portinfo "$guid" | grep -E '^(Lid|GidPrefix|LMC|Mkey)')
	ctl h2 plan guest7 --to h3 | grep -q "LID *$lid"
	ctl h2 move guest7 --to h3
	await is_at guest7 h3
	[ "$(lid_of guest7)" = "$lid" ]
	[ "$(on h2 smpquery -G portinfo "$guid" | grep -E '^(Lid|GidPrefix|LMC|Mkey)')" = "$before" ]
	[ "$(on guest7 cat /sys/class/infiniband/urxe0/ports/1/gids/0)" = fe80:0000:0000:0000:0255:5258:0001:0000 ]
	[ "$(functions_with "$guid")" = 1 ]
	[ "$(on guest7 ibstat | sed -n 's/.*Base lid: //p')" = "$lid" ]
	kill -0 "${pids[h0.osm]}"
	[ "$(grep -c 'Entering MASTER' "$dir/h0.osm.log")" = 1 ]
	lacks 'ERR 0D01\|ERR 0314' "$dir/h0.osm.log"
	# And back, to the function that it had.
	ctl h3 move guest7 --to h1
	await is_at guest7 h1
	[ "$(lid_of guest7)" = "$lid" ]
}

# asked_once BEFORE TOLD: the guest has asked for one table since. OpenSM tells its port once to register again, and once
# more where it had to begin a sweep anew: then it may have asked in between.
asked_once() {
	local asked=$(($(paths "$lid") - $1)) told=$(($(counted reregistered) - $2))
	echo "asked $asked times, told to register again $told times"
	[ $asked -ge 1 ] && [ $asked -le "$told" ]
}

@test "a guest that moves confirms all its paths by one question to the SA" {
	local guid guids lid before told
	guests_ask
	hosts 2
	agents "guest_command $dir/guests"
	guid=$(guest guest7 h1)
	lid=$(lid_of guest7)
	# All ports, switches included.
	guids=$(sed -n 's/^0x\([0-9a-f]*\) .*/\1/p' "$dir/guid2lid" | xargs)
	# shellcheck disable=SC2086
	tell guest7 reach $guids
	[ "$(paths "$lid")" = "$(wc -w <<<"$guids")" ]
	before=$(paths "$lid") told=$(counted reregistered)
	ctl h1 move guest7 --to h3
	await is_at guest7 h3
	[ "$(lid_of guest7)" = "$lid" ]
	# It knows that none of them is confirmed, and asks when it uses the first one.
	[ "$(tell guest7 list | grep -c ' stale -$')" = "$(wc -w <<<"$guids")" ]
	[ "$(paths "$lid")" = "$before" ]
	# shellcheck disable=SC2086
	tell guest7 reach $guids
	asked_once "$before" "$told"
	tell guest7 counters | grep -x "confirmed $(wc -w <<<"$guids")"
}

@test "a guest that moves takes the rates of its new paths, though its port looks just the same" {
	local guid guids peer lid before told
	guests_ask
	# h1's switch has a slow link to that of h3.
	"$URXE" fabric generate hypercube dimensions=2 functions=1 | sed '
		/^Switch.*"s1"/,/^$/s/\("s3" lid 0\) 4xEDR/\1 1xSDR/
		/^Switch.*"s3"/,/^$/s/\("s1" lid 0\) 4xEDR/\1 1xSDR/' >"$dir/topo"
	"$URXE" fabric up "$dir/topo"
	opensm_at h0
	await grep -q 'SUBNET UP' "$dir/h0.osm.log"
	agents "guest_command $dir/guests"
	guid=$(guest guest7 h1)
	lid=$(lid_of guest7)
	peer=$(on h3 ibstat | sed -n 's/.*Port GUID: 0x//p')
	rate() { tell guest7 list | grep -i "$(sed 's/..../:&/g' <<<"$peer") " | cut -d ' ' -f 7; }
	port() { on guest7 smpquery -G portinfo "$guid"; }
	# OpenSM writes the file now and then.
	guids=$(sed -n 's/^0x\([0-9a-f]*\) .*/\1/p' "$dir/guid2lid" | xargs)
	# shellcheck disable=SC2086
	tell guest7 reach $guids
	[ "$(rate)" = 2 ]
	port >"$dir/before"
	before=$(paths "$lid") told=$(counted reregistered)
	ctl h1 move guest7 --to h2
	await is_at guest7 h2
	# shellcheck disable=SC2086
	tell guest7 reach $guids
	asked_once "$before" "$told"
	port | diff "$dir/before" -
	[ "$(rate)" = 16 ]
	tell guest7 counters | grep -x 'changed 5'
}

@test "a guest's path has another P_Key and SL than its host's own to the same port, so the host's records do not do" {
	local guid=0x0255525800010000 peer
	guests_ask
	"$URXE" fabric generate hypercube dimensions=2 functions=1 >"$dir/topo"
	"$URXE" fabric up "$dir/topo"
	peer=$(on h3 ibstat | sed -n 's/.*Port GUID: 0x//p')
	printf '%s\n' 'Default=0x7fff : ALL=full;' "guests=0x1, sl=2 : $guid=full, 0x$peer=full;" >"$dir/partitions"
	opensm_at h0 -Q -P "$dir/partitions"
	await grep -q 'SUBNET UP' "$dir/h0.osm.log"
	agents "guest_command $dir/guests"
	guest guest7 h1
	ctl h1 move guest7 --to h2
	await is_at guest7 h2
	mkfifo "$dir/host.to" "$dir/host.from"
	"$URXE" run --host h2 -- "$URXE_BIN/sacache_follow" always 0 <>"$dir/host.to" 1<>"$dir/host.from" 2>"$dir/host.log" 3>&- &
	pids[host]=$!
	# The columns of SL, MTU, rate and P_Key.
	path() { tell "$1" reach "$peer" && tell "$1" list | cut -d ' ' -f 5-8; }
	[ "$(path guest7)" = '2 5 16 0x8001' ]
	[ "$(path host)" = '0 5 16 0xffff' ]
}

@test "what cannot go is refused before anything is touched" {
	hosts 1
	agents
	guest a h1
	guest b h2
	run ctl h1 plan a --to h2
	[ "$status" = 1 ]
	[[ $output == *"it would be refused: no function of h2 is free"* ]]
	run ctl h1 --json plan a --to h2
	[ "$status" = 1 ]
	[[ $output == *'"refused":"no function of h2 is free"'* ]]
	run ctl h3 move a --to h2
	[ "$status" = 1 ]
	[[ $output == *"a stays at h1: h2: no function of h2 is free"* ]]
	lacks detaching "$dir/h1.log"
	run ctl h1 move a --to h9
	[ "$status" = 1 ]
	[[ $output == *"h1 knows no agent of h9"* ]]
	run ctl h1 move c --to h2
	[ "$status" = 1 ]
	[[ $output == *"nobody has c"* ]]
	run ctl h1 add a
	[ "$status" = 1 ]
	[[ $output == *"there is a guest a"* ]]
	kill -KILL "${pids[h3]}" && wait "${pids[h3]}" 2>/dev/null || true
	run ctl h1 plan a --to h3
	[ "$status" = 1 ]
	[[ $output == *"h3 does not answer"* ]]
	run ctl h1 add d
	[ "$status" = 1 ]
	[[ $output == *"h3 does not answer, and could have a GUID of the pool"* ]]
	is_at a h1
}

@test "a plan has the GID of the subnet's prefix, and says what the guest does not have yet" {
	echo 'subnet_prefix 0xfe80000000001234' >>"$dir/opensm.conf"
	hosts 1
	agents
	guest guest7 h1
	ctl h2 plan guest7 --to h2 | grep 'GID *fe80::1234:255:5258:1:0$'
	kill -KILL "${pids[h0.osm]}"
	ctl h2 add guest8
	run ctl h2 plan guest8 --to h3
	[ "$status" = 1 ]
	[[ $output == *"LID     none yet"*"P_Keys  none yet"*"it is under way"* ]]
}

@test "names and GUIDs that cannot be are refused, and say what can" {
	local bad
	hosts 1
	agents
	for bad in 0x12345678901234567 -5 0x 0 1g ' 5'; do
		run ctl h1 add a --guid "$bad"
		[ "$status" = 1 ]
		[[ $output == *"guid: 1 to 16 hexadecimal digits, and not 0"* ]]
	done
	for bad in "$(printf 'a%.0s' {1..64})" 'a b' '' $'a\n'; do
		run ctl h1 add "$bad"
		[ "$status" = 1 ]
		[[ $output == *"guest: a name of up to 63 letters, digits, '.', '_' and '-'"* ]]
	done
	run ctl h1 add a --pkeys 0x10000
	[ "$status" = 1 ]
	guest "$(printf 'a%.0s' {1..63})" h1
	ctl h1 move "$(printf 'a%.0s' {1..63})" --to h2
}

@test "lidtrackctl refuses options that mean nothing, and files that are not there" {
	local words
	for words in 'add a --wait 3' 'plan a --to h2 --function 1' 'cancel a --no-wait' 'guid2lid /dev/null --to h2' \
		"guid2lid $dir/guid2lid --set x" "guid2lid $dir/guid2lid --set 0x1=0xc000" \
		"guid2lid $dir/guid2lid --set 0x10000000000000001=1" "guid2lid $dir/guid2lid --set -1=1"; do
		# shellcheck disable=SC2086
		run ctl h1 $words
		[ "$status" = 2 ]
	done
	for words in "guid2lid $dir/guid2lid" "guid2lid $dir/guid2lid --repair" "guid2lid $dir/new --from $dir/guid2lid"; do
		# shellcheck disable=SC2086
		run ctl h1 $words
		[ "$status" = 1 ]
		[[ $output == "lidtrackctl: $dir/guid2lid: No such file or directory" ]]
	done
	[ ! -e "$dir/new" ]
	run "$LIDTRACKCTL" guid2lid "$dir"
	[ "$status" = 1 ]
	[ "$output" = "lidtrackctl: $dir: Is a directory" ]
	run "$LIDTRACKCTL" plan guest7
	[ "$status" = 2 ]
	[[ $output == "lidtrackctl: plan: --to HOST is missing; "* ]]
	ctl h1 guid2lid "$dir/guid2lid" --set 0x1=5
	ctl h1 guid2lid "$dir/new" --from "$dir/guid2lid"
	[ "$(ctl h1 guid2lid "$dir/new")" = '1 entries' ]
}

@test "lidtrackd refuses a configuration that cannot be, by a line that says what can" {
	local line expected said
	mkdir "$dir/y.tracker"
	mkfifo "$dir/fifo"
	while IFS=: read -r expected line said; do
		run timeout 20 "$LIDTRACKD" -c /dev/null -o 'host x' -o 'functions file /dev/null' -o "journal $dir/y" \
			-o "listen $dir/y.sock" -o "control_socket $dir/y.ctl" -o "${line%%,*}" -o "${line##*,}" </dev/null
		echo "$line: $output"
		[ "$status" = "$expected" ]
		[ "${#lines[@]}" = 1 ]
		[[ $output == *"$said"* ]]
	done <<-END
		2:functions nosuch x:"mlx4 mlx4_0:1" or "file PATH"
		1:journal /dev/null:/dev/null: a journal is a regular file
		1:journal $dir/fifo:a journal is a regular file
		1:mode shared-port,tracker x:y.tracker: Is a directory
		2:listen agent.sock:listen agent.sock: an absolute path, or ADDRESS:PORT
		2:peer h1 agent.sock:h1 agent.sock: an absolute path, or ADDRESS:PORT
		2:mode shared-port,apply restart:apply restart: needs restart_command
	END
	# What may come later is only told.
	"$LIDTRACKD" -c /dev/null -o 'host x' -o "functions file $dir" -o "journal $dir/y" -o "listen $dir/y.sock" \
		-o "control_socket $dir/y.ctl" -o "guest_command $dir/nosuch" </dev/null >"$dir/y.log" 2>&1 3>&- &
	pids[y]=$!
	await grep "guest_command $dir/nosuch: No such file or directory" "$dir/y.log"
	grep "file $dir: functions cannot be seen: Is a directory" "$dir/y.log"
	"$LIDTRACKD" -c /dev/null -o 'host x' -o 'functions mlx4 mlx4_0' -o "journal $dir/z" -o "listen $dir/z.sock" \
		-o "control_socket $dir/z.ctl" </dev/null >"$dir/z.log" 2>&1 3>&- &
	pids[z]=$!
	await grep 'mlx4 mlx4_0: functions cannot be seen: a device and its port are wanted, "mlx4_0:1"' "$dir/z.log"
}

@test "who waits for a move is told when another order sends the guest on, or takes it away" {
	local waits
	hosts 2
	guests_hold
	agents "guest_command $dir/guests"
	guest guest7 h1
	guest guest8 h1
	for guest in guest7 guest8; do
		"$LIDTRACKCTL" --socket "$dir/h1.ctl" move $guest --to h2 >"$dir/$guest.said" 2>&1 3>&- &
		pids[$guest]=$!
		moving() { ctl h1 status $guest | grep -q 'detaching'; }
		await moving
		kill -STOP "${pids[$guest]}"
	done
	touch "$dir/go"
	await is_at guest7 h2
	await is_at guest8 h2
	ctl h2 move guest7 --to h3
	ctl h2 remove guest8
	gone() { ! ctl h2 status guest8 | grep -q guest8; }
	await gone
	kill -CONT "${pids[guest7]}" "${pids[guest8]}"
	for guest in guest7 guest8; do
		ended() { ! kill -0 "${pids[$guest]}"; }
		TRIES=200 await ended
	done
	grep -q 'guest7 is at h3: another order has been given' "$dir/guest7.said"
	grep -q 'guest8 is with nobody: another order has been given' "$dir/guest8.said"
}

@test "a source that is stopped before it has cleared holds its guest, and nobody else" {
	local guid
	hosts 2
	guests_hold slow
	agents "guest_command $dir/guests"
	guid=$(guest slow h1)
	guest quick h2
	ctl h1 move slow --to h3 --no-wait
	await grep -q 'asking -> detaching' "$dir/h1.log"
	kill -STOP "${pids[h1]}"
	# The destination keeps its promise and sets nothing; it refuses to have the GUID by another way.
	run ctl h3 add thief --guid "$guid"
	[ "$status" = 1 ]
	[[ $output == *"another guest has that GUID"* ]]
	ctl h2 --timeout 30 status >"$dir/status"
	grep -q 'slow .* h3 .* reserved' "$dir/status"
	grep -q 'h1 does not answer' "$dir/status"
	# Others move meanwhile.
	ctl h2 move quick --to h3
	[ "$("$URXE" fabric vf h1 | grep -c "$guid")" = 1 ]
	[ "$("$URXE" fabric vf h3 | grep -c "$guid")" = 0 ]
	kill -CONT "${pids[h1]}"
	touch "$dir/go"
	await is_at slow h3
	[ "$(functions_with "$guid")" = 1 ]
	lacks 'ERR 0D01' "$dir/h0.osm.log"
}

@test "a source that is killed before its destination has answered asks for the function of the order again" {
	hosts 2
	agents
	guest guest7 h1
	kill -STOP "${pids[h2]}"
	ctl h1 move guest7 --to h2 --function 2 --no-wait
	await grep -q 'here -> asking' "$dir/h1.log"
	kill -KILL "${pids[h1]}" && wait "${pids[h1]}" 2>/dev/null || true
	kill -CONT "${pids[h2]}"
	await ctl h2 status
	agent h1
	await ctl h1 status
	await is_at guest7 h2
	[ "$(ctl h1 status guest7 | awk '$1 == "guest7" { print $5 }')" = 2 ]
}

@test "a source that is killed while it waits for a function goes on waiting, whoever has passed the order on" {
	local h
	hosts 1
	agents
	guest guest7 h1
	guest other h2
	for h in h1 h3; do
		ctl $h move guest7 --to h2 --wait 600 --no-wait
		waits() { ctl h1 status guest7 | grep 'asking.* no function of .* is free'; }
		await waits
		kill -KILL "${pids[h1]}" && wait "${pids[h1]}" 2>/dev/null || true
		agent h1
		await waits
		ctl h1 cancel guest7
		await is_at guest7 h1
	done
	ctl h3 move guest7 --to h2 --wait 600 --no-wait
	await waits
	ctl h2 remove other
	await is_at guest7 h2
}

@test "agents that are killed at random moments come to the same end" {
	local guid lid round from=h1 to=h2 victim
	hosts 2
	agents
	RANDOM=${MIGRATE_SEED:-1}
	guid=$(guest guest7 h1)
	lid=$(lid_of guest7)
	for ((round = 0; round < ${MIGRATE_KILLS:-12}; round++)); do
		ctl $from move guest7 --to $to --no-wait
		sleep 0.$(printf %03d $((RANDOM % 300)))
		[ $((RANDOM % 2)) = 0 ] && victim=$from || victim=$to
		kill -KILL "${pids[$victim]}"
		wait "${pids[$victim]}" 2>/dev/null || true
		[ "$(functions_with "$guid")" -le 1 ]
		agent $victim
		await ctl $victim status
		settled() { is_at guest7 h1 || is_at guest7 h2; }
		await settled
		[ "$(functions_with "$guid")" = 1 ]
		[ "$(lid_of guest7)" = "$lid" ]
		if is_at guest7 $to; then
			victim=$from
			from=$to
			to=$victim
		fi
	done
	lacks 'does not take the GUID\|had LID' "$dir"/h?.log
	lacks 'ERR 0D01' "$dir/h0.osm.log"
}

@test "agents that are killed at any line of their journals come to the same end" {
	local guid lid line how role victim from=h1 to=h2
	echo 'sweep_interval 1' >>"$dir/opensm.conf" # traps that it ignores
	hosts 2
	agents
	guid=$(guest guest7 h1)
	lid=$(lid_of guest7)
	settled() { is_at guest7 h1 || is_at guest7 h2; }
	dead() { [ -z "$(tr -d '\0' <"/proc/${pids[$victim]}/cmdline")" ]; }
	for role in source destination; do
		for how in torn whole; do
			for ((line = 1; ; line++)); do
				[ $role = source ] && victim=$from || victim=$to
				kill -KILL "${pids[$victim]}"
				wait "${pids[$victim]}" 2>/dev/null || true
				LD_PRELOAD=$URXE_BIN/journal_kill.so JOURNAL_KILL="$line $how" agent $victim
				await ctl $victim status
				ctl $from move guest7 --to $to --no-wait || true
				over() { dead || is_at guest7 $to; }
				await over
				dead || break
				[ "$(functions_with "$guid")" -le 1 ]
				wait "${pids[$victim]}" 2>/dev/null || true
				agent $victim
				await ctl $victim status
				await settled
				[ "$(functions_with "$guid")" = 1 ]
				[ "$(lid_of guest7)" = "$lid" ]
				is_at guest7 $from || { victim=$from from=$to to=$victim; }
			done
			[ $line -gt 6 ] # all six, and none is left
			kill -KILL "${pids[$victim]}"
			wait "${pids[$victim]}" 2>/dev/null || true
			agent $victim
			await ctl $victim status
			victim=$from from=$to to=$victim
		done
	done
	lacks 'does not take the GUID\|had LID' "$dir"/h?.log
	lacks 'ERR 0D01' "$dir/h0.osm.log"
}

@test "the master SM is killed while a guest is detached, a host joins, and the LID is kept" {
	local guid lid
	hosts 2
	mkdir "$dir/standby"
	# h1's agent sees the master's file here; h3's keeps the standby's as that one.
	ONLY_h1="guid2lid $dir/guid2lid"
	# shellcheck disable=SC2034
	ONLY_h3=$(printf '%s\n' 'follow h1' 'follow_every 50' "guid2lid $dir/standby/guid2lid")
	agents
	guid=$(guest guest7 h1)
	lid=$(lid_of guest7)
	OSM_CACHE_DIR=$dir/standby opensm_at h3
	await grep -q 'Entering STANDBY' "$dir/h3.osm.log"
	follows() { grep -q "$guid" "$dir/standby/guid2lid"; }
	await follows
	# Detached: its function has no GUID, and the source waits for an SA that does not answer.
	kill -STOP "${pids[h0.osm]}"
	ctl h1 move guest7 --to h2 --no-wait
	await grep -q 'clearing -> leaving' "$dir/h1.log"
	lacks 'leaving -> handing' "$dir/h1.log"
	kill -KILL "${pids[h0.osm]}"
	"$URXE" fabric vf h3 1 --guid 0x0255525800090001 --vm newcomer
	await grep -q 'Entering MASTER' "$dir/h3.osm.log"
	await is_at guest7 h2
	[ "$(lid_of guest7)" = "$lid" ]
	newcomer() { [ "$(on newcomer ibstat | sed -n 's/.*Base lid: //p')" != 0 ]; }
	await newcomer
	[ "$(on newcomer ibstat | sed -n 's/.*Base lid: //p')" != "$lid" ]
}

@test "a standby takes over while the guest of a crowd is detached: its LID stays, and each peer asks once at most" {
	local lid asked
	guests_program
	hosts 2
	mkdir "$dir/standby"
	ONLY_h1="guid2lid $dir/guid2lid"
	# shellcheck disable=SC2034
	ONLY_h2=$(printf '%s\n' 'follow h1' 'follow_every 50' "guid2lid $dir/standby/guid2lid")
	agents "guest_command $dir/guests"
	guid=$(guest guest7 h1)
	lid=$(lid_of guest7)
	await test -S "$dir/guest7.crowd"
	OSM_CACHE_DIR=$dir/standby opensm_at h2
	await grep -q 'Entering STANDBY' "$dir/h2.osm.log"
	follows() { grep -q "$guid" "$dir/standby/guid2lid"; }
	await follows
	export -f move_with_takeover await ctl is_at
	export dir LIDTRACKCTL
	on h3 "$PEERS" --peers 200 "$dir/guest7.crowd" bash -ec "move_with_takeover guest7 h1 h2 ${pids[h0.osm]}" |
		tee "$dir/said"
	grep -q 'Entering MASTER' "$dir/h2.osm.log"
	[ "$(lid_of guest7)" = "$lid" ]
	grep -q " 200 of 200 peers' last writes are there, with their checksums\$" "$dir/said"
	asked=$(sed -n 's/.* all peers back .*, \([0-9]*\) questions to the SA$/\1/p' "$dir/said")
	[ "$asked" -le 200 ]
}

@test "many guests move at once, crossing ones included, and none loses its LID" {
	local n before
	hosts 12
	agents
	for n in 1 2 3 4 5 6; do
		ctl h1 add "a$n" >/dev/null
		ctl h2 add "b$n" >/dev/null
	done
	settled() { [ "$(ctl h1 status | grep -c ' here ')" = 12 ]; }
	await settled
	before=$(ctl h1 status | awk 'NR > 1 { print $1, $2, $4 }' | sort)
	for n in 1 2 3 4 5 6; do
		ctl h1 move "a$n" --to h2 --wait 60 --no-wait
		ctl h2 move "b$n" --to h1 --wait 60 --no-wait
	done
	there() { [ "$(ctl h3 status | awk '$1 ~ /^a/ && $3 == "h2" && $6 == "here" && $7 == "" ||
		$1 ~ /^b/ && $3 == "h1" && $6 == "here" && $7 == ""' | wc -l)" = 12 ]; }
	await there
	[ "$(ctl h1 status | awk 'NR > 1 { print $1, $2, $4 }' | sort)" = "$before" ]
	lacks 'ERR 0D01' "$dir/h0.osm.log"
}

@test "a function that the SM has missed is set anew, so that it is seen" {
	local guid
	# Nothing but a signal makes it look.
	printf '%s\n' 'sweep_on_trap FALSE' 'sweep_interval 0' >>"$dir/opensm.conf"
	hosts 1
	agents
	guid=$(ctl h1 add guest7 --guid 0x0255525800010000)
	await grep -q 'guest7 .*: verifying -> setting: the SM has not seen function 1, which is set anew' "$dir/h1.log"
	# And again, each time that it looked while the function had no GUID.
	looks() { kill -HUP "${pids[h0.osm]}" && sleep 0.2 && is_at guest7 h1; }
	await looks
	[ "$(functions_with "$guid")" = 1 ]
}

@test "moves in a row keep the LID, also those whose traps OpenSM ignores" {
	local guid lid from=1 to n
	# OpenSM takes no more than ten traps of a switch in five seconds; what it has missed it sees at its next look.
	echo 'sweep_interval 1' >>"$dir/opensm.conf"
	hosts 2
	agents
	guid=$(guest guest7 h1)
	lid=$(lid_of guest7)
	for ((n = 0; n < ${MIGRATE_MOVES:-15}; n++)); do
		to=$((from % 3 + 1))
		ctl h3 move guest7 --to h$to
		[ "$(lid_of guest7)" = "$lid" ]
		from=$to
	done
	[ "$(functions_with "$guid")" = 1 ]
	lacks 'ERR 0D01' "$dir/h0.osm.log"
}

@test "fence: a guest that was being handed to a host that died comes back, and stays when that host returns" {
	local guid lid
	kill_h2() { kill -KILL "${pids[h2]}" && wait "${pids[h2]}" 2>/dev/null || true; }
	handing kill_h2
	# h2 may have taken it: nobody sets it.
	waits() { ctl h1 status guest7 | grep -q 'handing .*h2 does not answer'; }
	await waits
	[ "$(functions_with "$guid")" = 0 ]
	[ "$(ctl h1 fence h2)" = '1 guests' ]
	at_home() { ctl h1 status guest7 | grep -q ' h1 .* here '; }
	await at_home
	[ "$(lid_of guest7)" = "$lid" ]
	agent h2
	await is_at guest7 h1
	[ "$(functions_with "$guid")" = 1 ]
	ctl h1 move guest7 --to h2
	await is_at guest7 h2
	[ "$(lid_of guest7)" = "$lid" ]
	lacks 'ERR 0D01' "$dir/h0.osm.log"
}

@test "fence: an agent that only hung, and is handed the guest when it goes on, forgets it" {
	local guid lid
	stop_h2() { kill -STOP "${pids[h2]}"; }
	handing stop_h2
	[ "$(ctl h1 fence h2)" = '1 guests' ]
	at_home() { ctl h1 --json status guest7 | grep -q '"host":"h1","state":"here"'; }
	await at_home
	# What h1 has asked it is still there for it to read.
	kill -CONT "${pids[h2]}"
	await is_at guest7 h1
	ctl h1 move guest7 --to h3
	await is_at guest7 h3
	[ "$(functions_with "$guid")" = 1 ]
	[ "$(lid_of guest7)" = "$lid" ]
	lacks 'ERR 0D01' "$dir/h0.osm.log"
}

@test "fence on each side of a partition: one of the two has the guest when it heals, and keeps it" {
	local guid lid
	handing part h2 h1 h3
	[ "$(ctl h1 fence h2)" = '1 guests' ]
	[ "$(ctl h2 fence h1)" = '1 guests' ]
	# One of them sets it; to the other the SA says that there is such a port.
	settled() { ctl h1 --json status guest7 | grep -q '"host":"h1","state":"here"' || ctl h2 --json status guest7 | grep -q '"host":"h2","state":"here"'; }
	await settled
	sleep 1
	[ "$(functions_with "$guid")" = 1 ]
	join h2 h1 h3
	await is_at guest7 h2
	confirmed() { ! ctl h1 --json status guest7 | grep -q '"fence"'; }
	await confirmed
	is_at guest7 h2
	[ "$(functions_with "$guid")" = 1 ]
	[ "$(lid_of guest7)" = "$lid" ]
	ctl h2 move guest7 --to h1
	await is_at guest7 h1
	lacks 'ERR 0D01' "$dir/h0.osm.log"
}

# owners GUEST: how many agents have it, of those that h1 can ask.
owners() {
	ctl h1 status "$1" | awk -v guest="$1" '$1 == guest' | wc -l
}

@test "a guest that is added on each side of a partition with one vGUID, is at one host when it heals" {
	local guid=0x0255525800010000 round
	hosts 1
	agents
	# The order of the two is random.
	for round in 1 2 3 4; do
		part h2 h1 h3
		ctl h1 add guest7 --guid $guid
		ctl h2 add guest7 --guid $guid
		settled() { [ "$(functions_with $guid)" = 1 ]; }
		await settled
		join h2 h1 h3
		alone() { [ "$(owners guest7)" = 1 ] && { is_at guest7 h1 || is_at guest7 h2; }; }
		await alone
		[ "$(functions_with $guid)" = 1 ]
		is_at guest7 h1 && ctl h1 remove guest7 || ctl h2 remove guest7
		gone() { [ "$(owners guest7)" = 0 ]; }
		await gone
	done
	lacks 'ERR 0D01' "$dir/h0.osm.log"
}

@test "two guests that are added at a time with one vGUID: one of them stays" {
	local guid=0x0255525800010000
	hosts 1
	agents
	# Both ask all others before either has it.
	kill -STOP "${pids[h3]}"
	ctl h1 add guest7 --guid $guid &
	pids[add1]=$!
	ctl h2 add guest8 --guid $guid &
	pids[add2]=$!
	sleep 0.5
	kill -CONT "${pids[h3]}"
	wait "${pids[add1]}" "${pids[add2]}"
	one() { [ "$(ctl h1 status | grep -c $guid)" = 1 ] && ctl h1 status | grep -q " $guid .* here " && [ "$(functions_with $guid)" = 1 ]; }
	await one
	lacks 'ERR 0D01' "$dir/h0.osm.log"
}

@test "two agents of one name do not give one vGUID to two functions" {
	local host status=0
	hosts 2
	guests_hold
	agents "guest_command $dir/guests"
	sed "/^peer/!s|$dir/h2|$dir/h0|; s|^functions .*|functions fabric h0|" "$dir/h2.conf" >"$dir/h0.conf"
	agent h0
	await ctl h0 status
	# The others do not see what h0's has, of the same pool; and of a move nothing is left but that: h3's looks at h2's,
	# which knows nothing of it.
	ctl h0 add a
	has() { ctl "$1" status a | grep -q ' here '; }
	await has h0
	ctl h0 move a --to h3 &
	pids[move]=$!
	await grep -q 'reserved -> gone' "$dir/h3.log"
	touch "$dir/go"
	wait "${pids[move]}" || status=$?
	[ "$status" = 1 ]
	await has h0
	ctl h2 add b
	waits() { ctl h2 status b | grep -q 'setting .*the SM still has a port with that GUID'; }
	await waits
	for host in h0 h2; do ctl "$host" status | grep -q ' 0x0255525800020000 '; done
	[ "$(functions_with 0x0255525800020000)" = 1 ]
	lacks 'ERR 0D01' "$dir/h0.osm.log"
	# That is mended by another name.
	ctl h0 remove a
	await is_at b h2
}

@test "who waits for a move is told when its guest neither goes nor comes back" {
	local guid status=0
	hosts 2
	guests_hold
	agents "guest_command $dir/guests"
	guid=$(guest guest7 h1)
	"$LIDTRACKCTL" --socket "$dir/h1.ctl" move guest7 --to h2 >"$dir/said" 2>&1 3>&- &
	pids[waits]=$!
	await grep -q 'asking -> detaching' "$dir/h1.log"
	kill -KILL "${pids[h2]}" && wait "${pids[h2]}" 2>/dev/null || true
	touch "$dir/go"
	await grep -q 'leaving -> handing' "$dir/h1.log"
	# Of no agent's, or of one that has another's name.
	"$URXE" fabric vf h3 1 --guid "$guid" --vm thief
	thief() { [ "$(on thief ibstat | sed -n 's/.*Base lid: //p')" != 0 ]; }
	await thief
	ctl h1 fence h2
	ended() { ! kill -0 "${pids[waits]}"; }
	await ended
	wait "${pids[waits]}" || status=$?
	[ "$status" = 1 ]
	grep 'guest7 stays at h1: setting: the SM still has a port with that GUID' "$dir/said"
	[ "$(functions_with "$guid")" = 1 ]
}

@test "a guest that cannot get its function is removed" {
	local guid
	hosts 1
	agents
	guid=$(on h2 ibstat | sed -n 's/.*Port GUID: //p')
	ctl h1 add guest7 --guid "$guid"
	waits() { ctl h1 status guest7 | grep -q 'the SM still has a port with that GUID'; }
	await waits
	ctl h1 remove guest7
	gone() { ! ctl h1 status | grep -q guest7; }
	await gone
}

@test "functions that cannot be seen are said to be so at the start, and no vGUID is taken for gone" {
	local guid
	hosts 1
	for h in h1 h2 h3; do
		printf '%s\n' - >"$dir/functions.$h"
	done
	FUNCTIONS="file $dir/functions." agents
	guid=$(ctl h1 add guest7)
	await grep -q "$guid" "$dir/functions.h1"
	mv "$dir/functions.h1" "$dir/elsewhere"
	kill -TERM "${pids[h1]}" && wait "${pids[h1]}" || true
	agent h1
	await grep -q "ready" "$dir/h1.log"
	await grep -q "file $dir/functions.h1: functions cannot be seen: No such file or directory; tried again" "$dir/h1.log"
	ctl h1 remove guest7
	unseen() { ctl h1 status guest7 | grep 'clearing.*cannot be seen: No such'; }
	await unseen
	mv "$dir/elsewhere" "$dir/functions.h1"
	gone() { [ -z "$(ctl h1 status | grep guest7)" ]; }
	await gone
	[ "$(cat "$dir/functions.h1")" = - ]
}

@test "an SA that is not there, or has another key, and a device that does not exist: status has the cure" {
	hosts 1
	ONLY_h2='sm_key 5' ONLY_h3='device nosuch' agents
	kill -KILL "${pids[h0.osm]}" && wait "${pids[h0.osm]}" 2>/dev/null || true
	says() { ctl "$1" status | grep "guest$1 .*the SA does not answer: $2"; }
	for h in h1 h2 h3; do
		ctl $h add guest$h --guid 0x02555258000${h#h}0000
	done
	await says h1 'it is not there, or "sm_key"'
	await says h3 'there is no such device or port'
	opensm_at h0
	await is_at guesth1 h1
	await says h2 'it is not there, or "sm_key" of lidtrackd(8) is not its key'
}

@test "a guest that waits for its manager, or for a P_Key that the SM does not give, is removed" {
	local guid
	printf '#!/bin/sh\n[ "$1" != attach ] || [ -e %s/go ]\n' "$dir" >"$dir/guests"
	chmod +x "$dir/guests"
	hosts 1
	agents "guest_command $dir/guests"
	waits() { ctl h1 status guest7 | grep -q "$1"; }
	gone() { ! ctl h1 status | grep -q guest7; }
	ctl h1 add guest7 --pkeys 0x8123
	await waits 'attach: status 1'
	ctl h1 remove guest7
	await gone
	touch "$dir/go"
	guid=0x0255525800010000
	ctl h1 add guest7 --guid $guid --pkeys 0x8123
	await waits 'the SM has not given it P_Key 0x8123'
	ctl h1 remove guest7
	await gone
	[ "$("$URXE" fabric vf | grep -c " $guid ")" = 0 ]
}

@test "a guest that is added anew while its host is silent is that one's when the host answers again" {
	local guid
	hosts 1
	agents
	guid=$(guest guest7 h2)
	part h2 h1 h3
	ctl h1 add guest7 --guid "$guid"
	waits() { ctl h1 status guest7 | grep -q 'the SM still has a port with that GUID'; }
	await waits
	[ "$("$URXE" fabric vf h2 | grep -c "$guid")" = 1 ]
	join h2 h1 h3
	await is_at guest7 h1
	[ "$(functions_with "$guid")" = 1 ]
	lacks 'ERR 0D01' "$dir/h0.osm.log"
}

@test "shared-port: a guest's LID replaces its host's, and two guests cross in one sweep" {
	local base lids sweeps
	# However slow the machine is, the second one is ready by then.
	shared_port 'gather 2000'
	base="$(host_lid h1) $(host_lid h2) $(host_lid h3)"
	guest a h1
	guest b h2
	# Above the eight base LIDs, and no further.
	lids="$(lid_of a) $(lid_of b)"
	[ "$lids" = '11 10' ]
	[ "$(host_lid h1) $(host_lid h2) $(host_lid h3)" = "11 10 ${base##* }" ]
	run ctl h1 add c
	[ "$status" = 1 ]
	[[ $output == *"a is here, and functions share one LID: mode own has several"* ]]
	run ctl h1 move a --to h2
	[ "$status" = 1 ]
	[[ $output == *"b is there, and its functions share one LID"* ]]
	is_at a h1
	sweeps=$(grep -c 'SUBNET UP' "$dir/h0.osm.log")
	ctl h1 move a --to h2 --wait 30 --no-wait
	ctl h2 move b --to h1 --wait 30 --no-wait
	await is_at a h2
	await is_at b h1
	[ "$(lid_of a) $(lid_of b)" = "$lids" ]
	[ "$(host_lid h1) $(host_lid h2)" = '10 11' ]
	[ "$(grep -c 'SUBNET UP' "$dir/h0.osm.log")" = $((sweeps + 1)) ]
	kill -0 "${pids[h0.osm]}"
	# The third host was left alone; a host that a guest leaves has its own LID again.
	[ "$(host_lid h3)" = "${base##* }" ]
	ctl h2 move a --to h3
	back() { [ "$(host_lid h2)" = "$(echo "$base" | cut -d ' ' -f 2)" ]; }
	await back
	[ "$(host_lid h3)" = 11 ]
}

@test "shared-port: floating LIDs from 49151 are clamped to what the smallest switch forwards" {
	# shellcheck disable=SC2034
	TOPO_EDIT='/^Switch.*"s2"/i linearcap=4096'
	shared_port 'floating_from 49151'
	guest a h1
	[ "$(lid_of a)" = 4095 ]
	[ "$(host_lid h1)" = 4095 ]
	[ "$(on h2 smpquery -D switchinfo 0,1 | sed -n 's/LinearFdbTop:\.*//p')" = 4095 ]
}

@test "shared-port: LIDs that change while OpenSM discovers the subnet are in that sweep or the next" {
	local guid n lids
	shared_port
	guid=$(sed -n '3s/ .*//p' "$dir/guid2lid")
	give() {
		printf '%s %s %s\n\n' "$guid" "$1" "$1" >"$dir/lids.new"
		mv "$dir/lids.new" "$dir/lids"
	}
	for ((n = 0; n < 20; n++)); do
		# The second comes when the first has OpenSM at work, each time a little later.
		give "$(printf '0x%04x' $((100 + n)))"
		sleep 0.00$((n % 10))
		lids=$(printf '0x%04x' $((200 + n)))
		give "$lids"
		await grep -qi "^$guid $lids " "$dir/guid2lid"
	done
}

@test "shared-port: a restart of OpenSM that failed, or was cut short by the agent's end, is ordered again" {
	cat >"$dir/restart" <<-END
		#!/bin/bash
		echo >>"$dir/tries"
		case \$(wc -l <"$dir/tries") in
		1) exit 1 ;;
		2) kill -KILL \$(cat "$dir/tracker"); exit 1 ;;
		esac
		kill \$(cat "$dir/opensm.pid")
		while grep -q '^State:.[^Z]' /proc/\$(cat "$dir/opensm.pid")/status; do sleep 0.02; done
		LD_LIBRARY_PATH=$(dirname "$URXE")/migrate/opensm "$URXE" run --host h0 -- opensm -F "$dir/opensm.conf" \\
			-f "$dir/h0.again.log" </dev/null >"$dir/out" 2>&1 3>&- &
		echo \$! >"$dir/opensm.pid"
		until grep -q 'SUBNET UP' "$dir/h0.again.log"; do sleep 0.05; done
	END
	chmod +x "$dir/restart"
	shared_port 'apply restart' "restart_command $dir/restart"
	echo "${pids[h0.osm]}" >"$dir/opensm.pid"
	echo "${pids[h1]}" >"$dir/tracker"
	ctl h2 add guest7
	tried() { [ "$(wc -l <"$dir/tries")" = 2 ]; }
	await tried
	wait "${pids[h1]}" || true
	agent h1
	await is_at guest7 h2
	[ "$(host_lid h2)" = "$(lid_of guest7)" ]
	tried() { [ "$(wc -l <"$dir/tries")" = 3 ]; }
	tried
}

@test "shared-port: a restart of OpenSM that fails again and again costs the SA no questions about guests" {
	local asked
	printf '#!/bin/sh\necho >>%s/tries\nexit 1\n' "$dir" >"$dir/restart"
	chmod +x "$dir/restart"
	shared_port 'apply restart' "restart_command $dir/restart"
	# How often it was tried, when that is at least so often, and what the SA was asked for but paths.
	tried() {
		TRIES=400 await eval "[ \$(wc -l <$dir/tries) -ge $1 ]"
		echo $(($(wc -l <"$dir/tries"))) $(($(tail -c +22 "$dir/h0.count" | head -c 20)))
	}
	ctl h2 add guest7
	asked=$(tried 1)
	asked+=" $(tried 4)"
	# Once for the switches, each time.
	echo "$asked" | tee /dev/stderr | awk '{ exit $4 - $2 > $3 - $1 + 1 }'
}

@test "the plugin sees a file of LIDs whose folder was removed and made again" {
	local guid
	mkdir "$dir/lids"
	printf '%s\n' 'event_plugin_name lidtrack' "event_plugin_options $dir/lids/file" >>"$dir/opensm.conf"
	hosts 1
	guid=$(sed -n '3s/ .*//p' "$dir/guid2lid")
	rm -r "$dir/lids"
	await grep -q 'lidtrack: the folder of .* is gone' "$dir/h0.osm.log"
	mkdir "$dir/lids"
	for lid in 0x0064 0x0065; do
		printf '%s %s %s\n\n' "$guid" $lid $lid >"$dir/lids/new"
		mv "$dir/lids/new" "$dir/lids/file"
		await grep -qi "^$guid $lid " "$dir/guid2lid"
	done
}

@test "shared-port: peers find a guest's alias GUID by the records they have, after the plugin's sweep" {
	guests_program shared
	shared_port "guest_command $dir/guests"
	guest guest7 h1
	await test -S "$dir/guest7.crowd"
	on h3 "$PEERS" --peers 200 "$dir/guest7.crowd" "$LIDTRACKCTL" --socket "$dir/h1.ctl" move guest7 --to h2 |
		tee "$dir/said"
	grep -q ' all peers back .* 0 questions to the SA$' "$dir/said"
	grep -q " 200 of 200 peers' last writes are there, with their checksums\$" "$dir/said"
}

# use_up: what h1's journal has reserved, by orders that are put down before h2 refuses.
use_up() {
	local n
	for ((n = 0; n < 500; n++)); do
		run ctl h1 move guest7 --to h2
		[[ $output == *"guest7 stays at h1: h2: no function of h2 is free"* ]] || return 0
	done
	return 1
}

@test "a full disk: status and a metric tell, and no move that cannot be journalled is begun" {
	local port=$((20000 + $$ % 2500)) said
	small_disk h1
	hosts 1
	ONLY_h1+=$'\n'"metrics_listen 127.0.0.1:$port"
	agents
	writable() { curl -s "http://127.0.0.1:$port/metrics" | grep -x "lidtrackd_journal_writable $1"; }
	guest guest7 h1
	guest guest8 h2
	writable 1
	fill
	use_up
	said=$(wc -l <"$dir/h1.log")
	ctl h1 status | grep -x 'the journal of h1 cannot be written: No space left on device; orders are refused'
	ctl h1 --json status | tail -n 1 | grep -q '"journal":"No space left on device"'
	writable 0
	run ctl h2 move guest7 --to h3
	[ "$status" = 1 ]
	[[ $output == *"the journal cannot be written: No space left on device"* ]]
	run ctl h1 plan guest7 --to h3
	[ "$status" = 1 ]
	[[ $output == *"it would be refused: the journal of h1 cannot be written: No space left on device"* ]]
	run ctl h1 remove guest7
	[ "$status" = 1 ]
	[[ $output == *"the journal cannot be written: No space left on device"* ]]
	run ctl h2 move guest8 --to h1
	[ "$status" = 1 ]
	[[ $output == *"guest8 stays at h2: h1: its journal cannot be written: No space left on device"* ]]
	lacks 'asking\|detaching\|reserved' <(tail -n +$((said + 1)) "$dir/h1.log")
	lacks detaching "$dir/h2.log"
	empty
	lacks 'the journal of h1' <(ctl h1 status)
	writable 1
	ctl h2 move guest7 --to h3
}

@test "a disk that is full in the middle of a move does not stop it" {
	local journal
	guests_hold
	small_disk h1
	hosts 1
	agents "guest_command $dir/guests"
	guest guest7 h1
	guest guest8 h2
	# To the end of a page, which a filesystem gives as a whole.
	journal="/proc/${pids[h1]}/root$dir/disk/journal"
	while (($(stat -c %s "$journal") % 4096 < 3600)); do
		run ctl h1 move guest7 --to h2
	done
	ctl h1 move guest7 --to h3 --no-wait
	await grep -q 'asking -> detaching' "$dir/h1.log"
	fill
	touch "$dir/go"
	await is_at guest7 h3
}

@test "shared-port: a tracker that is silent, or whose disk is full, refuses a move, and stops none that has begun" {
	local journal size=0 line=0 from=h2 to=h3 swap
	guests_hold
	touch "$dir/go"
	small_disk h1
	shared_port 'gather 10' "guest_command $dir/guests"
	guest a h2
	journal="/proc/${pids[h1]}/root$dir/disk/journal.tracker"
	over() { ctl $from move a --to $to "$@"; }
	turn() { swap=$from from=$to to=$swap; }
	# Until the lines of a move go beyond the page.
	while ((4096 - size % 4096 >= line)); do
		size=$(stat -c %s "$journal")
		over
		turn
		line=$(($(stat -c %s "$journal") - size))
		size=$((size + line))
	done
	rm "$dir/go"
	over --no-wait
	turn
	moving() { ctl $to status a | grep -q ' detaching '; }
	await moving
	fill
	touch "$dir/go"
	await is_at a $from
	# What is still reserved is used up.
	while run over && [ "$status" = 0 ]; do turn; done
	[[ $output == *"a stays at $from: h1: the tracker's journal cannot be written: No space left on device"* ]]
	is_at a $from
	empty
	over
	turn
	kill -KILL "${pids[h1]}" && wait "${pids[h1]}" 2>/dev/null || true
	: >"$dir/$from.log"
	run over
	[ "$status" = 1 ]
	[[ $output == *"a stays at $from: the tracker, h1, does not answer"* ]]
	lacks detaching "$dir/$from.log"
}

@test "shared-port: a guest whose host's LID cannot be written down waits, says why, and goes on when there is room" {
	local to
	shared_port 'gather 10'
	# As on a disk that is full.
	full() { ln -s /dev/full "$dir/lids.new"; }
	waits() { ctl h3 status a | grep -q " $to .* setting .*h1: $dir/lids: No space left on device"; }
	full
	to=h2
	ctl $to add a
	await waits
	rm "$dir/lids.new"
	await is_at a $to
	full
	to=h3
	ctl h2 move a --to $to --no-wait
	await waits
	rm "$dir/lids.new"
	await is_at a $to
	[ "$(host_lid $to)" = "$(lid_of a)" ]
}

# entries FILE: those that a guid2lid has, whatever their order.
entries() {
	grep . "$1" | sort
}

# starts_with FILE: OpenSM starts on h0 with that guid2lid, and stays.
starts_with() {
	: >"$dir/h0.osm.log"
	opensm_at h0
	await grep -q 'SUBNET UP' "$dir/h0.osm.log"
	kill -0 "${pids[h0.osm]}"
}

stop_opensm() {
	kill "${pids[h0.osm]}"
	wait "${pids[h0.osm]}" || true
}

@test "guid2lid: a damaged file is mended with all that is whole or in a copy, and OpenSM starts" {
	hosts 1
	stop_opensm
	entries "$dir/guid2lid" >"$dir/before"
	cp "$dir/guid2lid" "$dir/copy"
	# OpenSM wants a key where a line begins.
	sed -i '5s/.*/ \x00\x01 0x00/' "$dir/guid2lid"
	run timeout 60 "$URXE" run --host h0 -- opensm -F "$dir/opensm.conf" -f "$dir/h0.bad.log"
	[ "$status" != 124 ] # it gave up, as it does
	run "$LIDTRACKCTL" guid2lid "$dir/guid2lid"
	[ "$status" = 1 ]
	[[ $output == *"1 lines are damaged, the first is line 5: OpenSM will not start"* ]]
	"$LIDTRACKCTL" guid2lid "$dir/guid2lid" --repair --from "$dir/copy" | grep -q "$dir/guid2lid.damaged"
	"$LIDTRACKCTL" guid2lid "$dir/guid2lid"
	diff <(entries "$dir/guid2lid") "$dir/before"
	starts_with
	diff <(entries "$dir/guid2lid") "$dir/before"
}

@test "guid2lid: sacached does not believe what it has saved when OpenSM has other LIDs by then" {
	local daemons gid own lids
	daemons=$(dirname "$URXE")/daemons
	hosts 1
	sacached() {
		"$URXE" run --host h1 -- "$daemons/sacached/sacached" -c /dev/null -o "run_dir $dir/run" -o "ibacm_dir $dir" -o 'netlink no' \
			-o "control_socket $dir/sacached.ctl" -o "state_file $dir/state" -o 'policy always' \
			</dev/null >>"$dir/sacached.log" 2>&1 3>&- &
		pids[sacached]=$!
		await "$daemons/sacachectl/sacachectl" --socket "$dir/sacached.ctl" status
	}
	lid_to() {
		"$daemons/sacachectl/sacachectl" --socket "$dir/sacached.ctl" lookup "$1" | sed -n 's/^to .* LID //p'
	}
	own=$(host_lid h1)
	lids=($(host_lid h2) $(host_lid h3))
	gid=fe80::$(on h2 ibstat | sed -n 's/.*Port GUID: 0x//p' | sed 's/..../&:/g; s/:$//')
	sacached
	[ "$(lid_to "$gid")" = "${lids[0]}" ]
	kill "${pids[sacached]}"
	wait "${pids[sacached]}"
	stop_opensm
	# Two other hosts' LIDs are exchanged; those of this one and of the SM stay.
	sed -i "$(printf 's/ 0x%04x 0x%04x/ other/; s/ 0x%04x 0x%04x/ 0x%04x 0x%04x/; s/ other/ 0x%04x 0x%04x/' \
		"${lids[0]}" "${lids[0]}" "${lids[1]}" "${lids[1]}" "${lids[0]}" "${lids[0]}" "${lids[1]}" "${lids[1]}")" "$dir/guid2lid"
	starts_with
	[ "$(host_lid h1) $(host_lid h2) $(host_lid h3)" = "$own ${lids[1]} ${lids[0]}" ]
	sacached
	grep -q ' 1 records, to be confirmed by the SA; ' "$dir/sacached.log"
	[ "$(lid_to "$gid")" = "${lids[1]}" ]
}

@test "guid2lid: a standby's file has all LIDs of a port, however many" {
	local entry
	mkdir "$dir/standby"
	ONLY_h1="guid2lid $dir/master"
	# shellcheck disable=SC2034
	ONLY_h3=$(printf '%s\n' 'follow h1' 'follow_every 50' "guid2lid $dir/standby/guid2lid")
	for entry in '1 0x0001 0x0001' '2 0x0005 0x0007' '3 0x0100 0x01ff' '4 0x0301 0x0304' '5 0x1000 0xbfff'; do
		printf '0x000000000000000%s\n\n' "$entry"
	done >"$dir/master"
	hosts 1
	agents
	follows() { cmp "$dir/master" "$dir/standby/guid2lid"; }
	await follows
}

@test "shared-port: a damaged file of LIDs for the plugin is written anew" {
	shared_port
	guest a h1
	cp "$dir/lids" "$dir/before"
	echo damaged >>"$dir/lids"
	kill "${pids[h1]}"
	wait "${pids[h1]}" || true
	agent h1
	mended() { cmp "$dir/lids" "$dir/before"; }
	await mended
}

@test "guid2lid: a full disk changes nothing" {
	local n
	unshare -Urm true 2>/dev/null || skip "no namespaces"
	for n in $(seq 1 400); do
		printf '0x%016x 0x%04x 0x%04x\n\n' "$n" "$n" "$n"
	done >"$dir/large"
	unshare -Urm bash -e -c '
		mkdir "$1/disk"
		mount -t tmpfs -o size=20k disk "$1/disk"
		cp "$1/large" "$1/disk/guid2lid"
		! "$2" guid2lid "$1/disk/guid2lid" --set 0x999=0x999 2>"$1/said" || false
		cmp "$1/large" "$1/disk/guid2lid"
		[ "$(ls "$1/disk")" = guid2lid ]' bash "$dir" "$LIDTRACKCTL"
	grep -q 'No space left on device; nothing was changed' "$dir/said"
}

@test "guid2lid: OpenSM writes at the same time, and none of its entries is lost" {
	local n
	hosts 4
	(
		while [ ! -e "$dir/stop" ]; do
			"$LIDTRACKCTL" guid2lid "$dir/guid2lid" --set 0x0255525800aa0001=0x3000 >/dev/null || exit
		done
	) 3>&- &
	pids[writer]=$!
	for n in 1 2 3 4; do
		for h in h1 h2 h3; do
			"$URXE" fabric vf $h $n --guid "0x02555258000${h#h}000$n" >/dev/null
			joined() { [ "$("$URXE" fabric vf $h $n | grep -c Active)" = 1 ]; }
			await joined
		done
	done
	touch "$dir/stop"
	wait "${pids[writer]}"
	unset 'pids[writer]'
	"$LIDTRACKCTL" guid2lid "$dir/guid2lid"
	for n in 1 2 3 4; do
		for h in 1 2 3; do
			grep -q "0x02555258000${h}000$n" "$dir/guid2lid"
		done
	done
	stop_opensm
	entries "$dir/guid2lid" >"$dir/before"
	starts_with
	diff <(entries "$dir/guid2lid") "$dir/before"
}

# certificate_of HOST CA DAYS_FROM DAYS_TO: a CA that does not exist yet is made.
certificate_of() {
	local when
	when=$(printf 'activation_date = "%s"\nexpiration_date = "%s"' "$(date -u -d "$3 days" '+%F %T UTC')" \
		"$(date -u -d "$4 days" '+%F %T UTC')")
	if [ ! -e "$dir/$2.pem" ]; then
		certtool --generate-privkey --key-type ed25519 --outfile "$dir/$2.key" 2>/dev/null
		printf '%s\n' "cn = $2" ca cert_signing_key 'expiration_days = 2' >"$dir/$2.tmpl"
		certtool --generate-self-signed --load-privkey "$dir/$2.key" --template "$dir/$2.tmpl" \
			--outfile "$dir/$2.pem" 2>/dev/null
	fi
	certtool --generate-privkey --key-type ed25519 --outfile "$dir/$1.key" 2>/dev/null
	printf '%s\n' "cn = $1" "dns_name = $1" signing_key tls_www_client tls_www_server "$when" >"$dir/$1.tmpl"
	certtool --generate-certificate --load-privkey "$dir/$1.key" --load-ca-certificate "$dir/$2.pem" \
		--load-ca-privkey "$dir/$2.key" --template "$dir/$1.tmpl" --outfile "$dir/$1.pem" 2>/dev/null
}

@test "agents of two machines prove who they are by certificates, and nobody else is served" {
	local h guid
	command -v certtool >/dev/null || skip "no certtool"
	for h in h1 h2; do
		certificate_of $h ca -1 2
	done
	# h3 is an impostor: it says that it is h3 and has the certificate of h1.
	cp "$dir/h1.pem" "$dir/h3.pem"
	cp "$dir/h1.key" "$dir/h3.key"
	export MIGRATE_TLS=1
	hosts 1
	agents "tls_ca $dir/ca.pem"
	guid=$(ctl h1 add guest7 --guid 0x0255525800010000)
	await_here() { ctl h1 status guest7 | grep -q 'guest7 .* here'; }
	await await_here
	ctl h1 status | grep -q 'h3 does not answer'
	ctl h1 move guest7 --to h2
	[ "$("$URXE" fabric vf h2 | grep -c "$guid")" = 1 ]
	run ctl h2 move guest7 --to h3
	[ "$status" = 1 ]
	[[ $output == *"h3 does not answer: "* ]]
	[ "$(stat -c %a "$dir/h1.ctl")" = 600 ]
}

@test "certificates that will not do: expired, and of another CA; both ends say which" {
	command -v certtool >/dev/null || skip "no certtool"
	certificate_of h1 ca -1 2
	certificate_of h2 ca -9 -2
	certificate_of h3 other -1 2
	export MIGRATE_TLS=1
	hosts 1
	agents "tls_ca $dir/ca.pem"
	ctl h1 add guest7 --guid 0x0255525800010000
	at_home() { ctl h1 status guest7 | grep -q 'guest7 .* h1 .* here'; }
	await at_home
	run ctl h1 plan guest7 --to h2
	[ "$status" = 1 ]
	[[ $output == *"h2 does not answer: its certificate has expired"* ]]
	run ctl h1 plan guest7 --to h3
	[ "$status" = 1 ]
	[[ $output == *"h3 does not answer: its certificate is not one of tls_ca"* ]]
	at_home
	grep -q 'a request was not served: its certificate ' "$dir/h1.log"
	# What a host sees whose own certificate will not do.
	ctl h2 add guest8 --guid 0x0255525800020000
	here() { ctl h2 status guest8 | grep -q 'guest8 .* h2 .* here'; }
	await here
	run ctl h2 plan guest8 --to h1
	[ "$status" = 1 ]
	[[ $output == *"h1 does not answer: it does not accept this host's certificate, see its log"* ]]
	# A new one needs no new start; one that cannot be read changes nothing.
	certificate_of h2 ca -1 2
	kill -HUP "${pids[h2]}"
	agrees() { ! { ctl h1 status; ctl h2 status; } | grep 'h[12] does not answer'; }
	await agrees
	lacks 'takes a restart' "$dir/h2.log"
	echo damaged >"$dir/h2.pem"
	kill -HUP "${pids[h2]}"
	await grep -q "tls_certificate $dir/h2.pem" "$dir/h2.log"
	agrees
}

# ahead HOST: its agent begins anew with a clock that is an hour ahead, until the file "back" is there.
ahead() {
	kill -TERM "${pids[$1]}"
	wait "${pids[$1]}"
	LD_PRELOAD=$URXE_BIN/clock_ahead.so CLOCK_SET_BACK=$dir/back agent "$1"
	await ctl "$1" status
}

@test "hosts whose clocks differ by an hour move guests, also when one is set back in the middle of a move" {
	local guid lid h
	command -v certtool >/dev/null || skip "no certtool"
	for h in h1 h2 h3; do
		certificate_of $h ca -1 2
	done
	export MIGRATE_TLS=1
	hosts 1
	guests_hold
	agents "tls_ca $dir/ca.pem" "guest_command $dir/guests"
	guid=$(guest guest7 h1)
	lid=$(lid_of guest7)
	ahead h1
	touch "$dir/go"
	ctl h1 move guest7 --to h2
	ctl h1 move guest7 --to h1
	rm "$dir/go"
	ctl h1 move guest7 --to h2 --no-wait
	await grep -q 'asking -> detaching' "$dir/h1.log"
	touch "$dir/back" "$dir/go"
	await is_at guest7 h2
	[ "$(lid_of guest7)" = "$lid" ]
	[ "$(functions_with "$guid")" = 1 ]
}

@test "a certificate that is over by a clock that is wrong: the line says so, and all is well when it is set back" {
	local h
	command -v certtool >/dev/null || skip "no certtool"
	for h in h1 h2 h3; do
		certificate_of $h ca -1 '30 minutes 0'
	done
	export MIGRATE_TLS=1
	hosts 1
	agents "tls_ca $dir/ca.pem"
	guest guest7 h1
	ahead h1
	run ctl h1 plan guest7 --to h2
	[ "$status" = 1 ]
	[[ $output == *"h2 does not answer: its certificate has expired or is not valid yet, by this host's clock"* ]]
	touch "$dir/back"
	ctl h1 move guest7 --to h2
}

@test "an agent of another version, or one that nobody has named, is told so" {
	hosts 1
	agents
	says() {
		python3 -c '
import socket, sys
s = socket.socket(socket.AF_UNIX)
s.connect(sys.argv[1])
s.sendall(sys.argv[2].encode() + b"\n")
print(s.makefile().readline(), end="")' "$dir/h1.sock" "$1"
	}
	[ "$(says 'lidtrack2 look h2 h1 guest=a state=gone')" = \
		'later h1 cannot read the request: bring both agents to one version' ]
	[ "$(says 'lidtrack1 look h2 h1 guest=a state=gone colour=red')" = \
		'later h1 cannot read the request: bring both agents to one version' ]
	[ "$(says 'lidtrack1 look h9 h1 guest=a state=gone')" = 'later h1 has no line "peer h9" in its configuration' ]
	[ "$(says 'lidtrack1 look h2 h1 guest=a state=gone')" = ok ]
	# A line "peer" of h2 names h9 and has the address of h1: its guests would go to the wrong host.
	[ "$(says 'lidtrack1 ask h2 h9 guid=5 guest=a state=asking')" = \
		'later this is the agent of h1 and not of h9: see the lines "peer" of h2' ]
	# The number of the next change of owner would be 0, and of two hosts the wrong one would have it.
	[[ $(says 'lidtrack1 ask h2 h1 guid=5 guest=a state=asking epoch=4294967295') == 'refused its epoch, 4294967295, is'* ]]
	[[ $(says 'lidtrack1 ask h2 h1 guid=5 guest=a state=asking epoch=4294900000') == 'ok '*' state=reserved '* ]]
	run "$LIDTRACKD" -c "$dir/h1.conf" -o "peer h2 $dir/h3.sock"
	[ "$status" = 2 ]
	[[ $output == *"peer h2: there are two lines"* ]]
}

@test "an agent takes the address of none that hangs, nor a file's" {
	printf '%s\n' 'host h1' "journal $dir/journal" 'functions fabric h1' "control_socket $dir/control" \
		"listen $dir/h1.sock" >"$dir/h1.conf"
	# It accepts none, and as many wait as may.
	python3 - "$dir/h1.sock" <<-'END' 3>&- &
		import socket, sys, time
		hangs = socket.socket(socket.AF_UNIX)
		hangs.bind(sys.argv[1])
		hangs.listen(0)
		wait = []
		try:
		    while True:
		        wait.append(socket.socket(socket.AF_UNIX))
		        wait[-1].setblocking(False)
		        wait[-1].connect(sys.argv[1])
		except BlockingIOError:
		    open(sys.argv[1] + ".full", "w").close()
		time.sleep(600)
	END
	pids[hangs]=$!
	await test -e "$dir/h1.sock.full"
	run timeout 20 "$LIDTRACKD" -c "$dir/h1.conf"
	[ "$status" = 1 ]
	[[ $output == *"listen $dir/h1.sock: Address already in use"* ]]
	test -S "$dir/h1.sock"
	rm "$dir/h1.sock"
	echo data >"$dir/h1.sock"
	run timeout 20 "$LIDTRACKD" -c "$dir/h1.conf"
	[ "$status" = 1 ]
	[[ $output == *"listen $dir/h1.sock: File exists"* ]]
	[ "$(cat "$dir/h1.sock")" = data ]
}

@test "what is no request is answered by a line that says so, and the agent goes on" {
	printf '%s\n' 'host h1' "journal $dir/journal" 'functions fabric h1' "control_socket $dir/h1.ctl" \
		"listen $dir/h1.sock" >"$dir/h1.conf"
	"$LIDTRACKD" -c "$dir/h1.conf" </dev/null >"$dir/h1.log" 2>&1 3>&- &
	pids[h1]=$!
	await ctl h1 status
	python3 - "$dir/h1.ctl" <<-'END'
		import json, socket, sys
		bad = [
		    b"", b" ", b"\0", b"x", b"1", b"null", b"[]", b'"status"', b"{", b'{"command"', b'{"command":"status"}}',
		    b"{'command':'status'}", b'{"command":"status",}', b"{}", b'{"command":null}', b'{"command":1}',
		    b'{"command":"stat"}', b'{"command":"status\\u0000"}', b'{"command":"\xff"}', b"[" * 60000,
		    b'{"a":' * 10000, b'{"command":"status","guest":1}', b'{"command":"status","guest":["a"]}',
		    b'{"command":"add"}', b'{"command":"add","guest":null}', b'{"command":"add","guest":"a\\u0000b"}',
		    b'{"command":"add","guest":"\xc3\x28"}', b'{"command":"add","guest":"a","guid":1}',
		    b'{"command":"add","guest":"a","pkeys":[1]}', b'{"command":"add","guest":"a","pkeys":"1\\u0000"}',
		    b'{"command":"add","guest":"a","function":-1}', b'{"command":"add","guest":"a","function":1.5}',
		    b'{"command":"add","guest":"a","function":"1"}', b'{"command":"add","guest":"a","function":1e999}',
		    b'{"command":"add","guest":"a","function":99999999999999999999}', b'{"command":"move","guest":"a"}',
		    b'{"command":"move","guest":"a","to":"h2","wait":-1}', b'{"command":"move","guest":"a","to":"h2","wait":NaN}',
		    b'{"command":"move","guest":"a","to":"h2","wait":18446744073709551615}', b'{"command":"fence","host":{}}',
		]
		agent = socket.socket(socket.AF_UNIX)
		agent.settimeout(20)
		agent.connect(sys.argv[1])
		answers = agent.makefile("rb")
		for line in bad:
		    agent.sendall(line + b"\n")
		    answer = json.loads(answers.readline())
		    assert answer["ok"] is False and answer["error"] and "\n" not in answer["error"], (line[:80], answer)
		# A line without end, and half a line.
		for line in b"x" * 200000, b'{"command":':
		    agent = socket.socket(socket.AF_UNIX)
		    agent.connect(sys.argv[1])
		    try:
		        agent.sendall(line)
		    except OSError:
		        pass
		    agent.close()
	END
	[ "$(ctl h1 status)" = '' ]
	kill -0 "${pids[h1]}"
}

@test "a host takes no second guest of a name" {
	hosts 2
	agents
	part h2 h1 h3
	# Neither sees the other's.
	ctl h1 add guest7 --guid 0x0255525800010000
	ctl h2 add guest7 --guid 0x0255525800020000
	join h2 h1 h3
	both() { [ "$(ctl h1 status guest7 | grep -c ' here ')" = 2 ]; }
	await both
	run ctl h1 move guest7 --to h2
	[ "$status" = 1 ]
	[[ $output == *"guest7 stays at h1: h2: another guest there has that name, vGUID 0x0255525800020000"* ]]
}

# listener PATH: a socket that takes connections and says nothing.
listener() {
	python3 -c '
import socket, sys, time
s = socket.socket(socket.AF_UNIX)
s.bind(sys.argv[1])
s.listen(128)
time.sleep(600)' "$1" >/dev/null 3>&- &
	pids[listener]=$!
	await test -S "$1"
}

@test "a guest's command ends with an agent that is killed" {
	local command
	hosts 1
	printf '#!/bin/sh\n[ "$1" = detach ] || exit 0\necho $$ >%s/command\nexec sleep 100 3>&-\n' "$dir" >"$dir/guests"
	chmod +x "$dir/guests"
	agents "guest_command $dir/guests"
	guest guest7 h1
	"$LIDTRACKCTL" --socket "$dir/h1.ctl" move guest7 --to h2 >"$dir/said" 2>&1 3>&- &
	pids[said]=$!
	await test -s "$dir/command"
	command=$(cat "$dir/command")
	kill -KILL "${pids[h1]}"
	ended() { ! grep -q '^State:.[^Z]' "/proc/$command/status"; }
	await ended
}

@test "many agents that hang hold up an answer no longer than one of them" {
	local n
	listener "$dir/hangs.sock"
	hosts 1
	# shellcheck disable=SC2034
	ONLY_h1=$(for ((n = 10; n < 40; n++)); do echo "peer h$n $dir/hangs.sock"; done)
	agents
	SECONDS=0
	ctl h1 status >"$dir/status"
	[ "$(grep -c 'does not answer' "$dir/status")" = 30 ]
	[ "$SECONDS" -lt 12 ]
}

@test "a request that comes byte by byte is not waited for" {
	hosts 1
	agents
	timeout 30 python3 -c '
import socket, sys, time
s = socket.socket(socket.AF_UNIX)
s.connect(sys.argv[1])
s.settimeout(0.5)
for byte in b"l" * 40:
	s.send(bytes([byte]))
	try:
		if not s.recv(1): sys.exit(0)
	except TimeoutError: pass
	except ConnectionError: sys.exit(0)
sys.exit(1)' "$dir/h1.sock"
}

@test "an agent that hangs under TLS is said to be silent, and not to speak another language" {
	local h
	command -v certtool >/dev/null || skip "no certtool"
	for h in h1 h2 h3; do
		certificate_of $h ca -1 2
	done
	export MIGRATE_TLS=1
	hosts 1
	agents "tls_ca $dir/ca.pem"
	guest guest7 h1
	kill -STOP "${pids[h2]}"
	run ctl h1 plan guest7 --to h2
	[ "$status" = 1 ]
	[[ $output == *"h2 does not answer: Connection timed out"* ]]
}

@test "a thousand peers write by RDMA to a guest that moves: no question to the SA; else a thousand" {
	local guid before after
	guests_program
	hosts 2
	agents "guest_command $dir/guests"
	guid=$(guest guest7 h1)
	await test -S "$dir/guest7.crowd"
	addresses() { on h2 smpquery -G portinfo "$guid" | grep -E '^(Lid|GidPrefix|LMC)'; }
	after=$(addresses)
	before=$(paths)
	on h3 "$PEERS" "$dir/guest7.crowd" "$LIDTRACKCTL" --socket "$dir/h1.ctl" move guest7 --to h2 | tee "$dir/said"
	grep -q '^1000 peers connected in .* 1000 questions to the SA$' "$dir/said"
	grep -q ' all peers back .* 0 questions to the SA$' "$dir/said"
	grep -q " 1000 of 1000 peers' last writes are there, with their checksums\$" "$dir/said"
	[ "$(paths)" = $((before + 1000)) ]
	[ "$(addresses)" = "$after" ]
	await is_at guest7 h2
	kill -0 "${pids[h0.osm]}"
	[ "$(grep -c 'Entering MASTER' "$dir/h0.osm.log")" = 1 ]
	# Where nothing is preserved: another vGUID.
	export -f move_afresh ctl is_at
	export dir LIDTRACKCTL
	on h3 "$PEERS" "$dir/guest7.crowd" bash -ec 'move_afresh guest7 h2 h1' | tee "$dir/said"
	grep -q ' all peers back .* 1[0-9][0-9][0-9] questions to the SA$' "$dir/said"
	grep -q " 1000 of 1000 peers' last writes are there" "$dir/said"
	[ "$(paths)" -ge $((before + 3000)) ]
}

@test "the tour ends well" {
	timeout 120 "$BATS_TEST_DIRNAME/../../examples/migrate/tour" >"$BATS_TEST_TMPDIR/out"
	[ "$(grep -c '^Lid:\.*13$' "$BATS_TEST_TMPDIR/out")" = 2 ]
	grep -q ' all peers back .* 0 questions to the SA$' "$BATS_TEST_TMPDIR/out"
	[ "$(grep -c "1000 of 1000 peers' last writes are there" "$BATS_TEST_TMPDIR/out")" = 2 ]
}

# order PROGRAM HOST ARGUMENT…: one of those that libvirt and nova run, as on that host.
order() {
	mkdir -p "$dir/bin"
	ln -sf "$LIDTRACKCTL" "$dir/bin/lidtrackctl"
	PATH=$dir/bin:$PATH LIDTRACK_CONTROL=$dir/$2.ctl LIDTRACK_HOST=$2 \
		"$BATS_TEST_DIRNAME/../../daemons/lidtrackctl/orders/$1" "${@:3}" </dev/null
}

@test "a domain of which libvirt does not say whether it runs keeps its vGUID" {
	hosts 1
	ONLY_h1='libvirt test:///default' # which has a domain "test" that runs
	export LD_PRELOAD=$URXE_BIN/libvirt_fails.so LIBVIRT_FAILS=$dir/fails
	agents
	unset LD_PRELOAD
	grep -q 'test:///default: connected' "$dir/h1.log" || skip "lidtrackd is built without libvirt"
	guest test h1
	refused() {
		run ctl h1 move test --to h2
		[ "$status" = 1 ] && [[ $output == *"its domain runs at h1"* ]]
	}
	refused
	touch "$dir/fails"
	sleep 1 # more than twice the time between two looks
	refused
	is_at test h1
}

@test "a guest is kept while libvirtd does not say whether its domain has begun" {
	hosts 1
	ONLY_h1='libvirt test:///default' # which has a domain "test" that runs
	export LD_PRELOAD=$URXE_BIN/libvirt_fails.so LIBVIRT_EMPTY=$dir/empty LIBVIRT_SILENT=$dir/silent
	touch "$dir/empty"
	agents
	unset LD_PRELOAD
	grep -q 'test:///default: connected' "$dir/h1.log" || skip "lidtrackd is built without libvirt"
	guest test h1
	ctl h1 move test --to h2
	ctl h2 move test --to h1
	touch "$dir/silent"
	rm "$dir/empty"
	sleep 1 # more than twice the time between two looks
	run ctl h1 move test --to h2
	[ "$status" = 1 ]
	[[ $output == *'or libvirtd has not answered'* ]]
	is_at test h1
}

@test "the vGUID of a domain that runs is not removed: the domain would have it again" {
	hosts 1
	ONLY_h1='libvirt test:///default' # which has a domain "test" that runs
	export LD_PRELOAD=$URXE_BIN/libvirt_fails.so LIBVIRT_EMPTY=$dir/empty
	agents
	unset LD_PRELOAD
	grep -q 'test:///default: connected' "$dir/h1.log" || skip "lidtrackd is built without libvirt"
	guest test h1
	run ctl h1 remove test
	[ "$status" = 1 ]
	[[ $output == *'its domain runs at h1 and would have it again'* ]]
	is_at test h1
	touch "$dir/empty"
	removed() { ctl h1 remove test; }
	await removed
	gone() { ! ctl h1 status | grep -q test; }
	await gone
}

@test "what is wrong with a domain's metadata is said once, of each domain" {
	local name
	hosts 1
	{
		echo '<node>'
		for name in one other 'my guest' "$(printf 'a%.0s' {1..64})"; do
			cat <<-END
				<domain type='test'>
					<name>$name</name><memory>8192</memory><os><type>hvm</type></os>
					<metadata><lidtrack:port xmlns:lidtrack='urn:urxe:lidtrack:1' guid='none'/></metadata>
				</domain>
			END
		done
		echo "<domain type='test'><name>guest7</name><memory>8192</memory><os><type>hvm</type></os></domain>"
		echo '</node>'
	} >"$dir/node.xml"
	# shellcheck disable=SC2034
	ONLY_h1="libvirt test://$dir/node.xml"
	export LD_PRELOAD=$URXE_BIN/libvirt_fails.so LIBVIRT_KEEPS=$dir/keeps
	touch "$dir/keeps"
	agents
	unset LD_PRELOAD
	grep -q 'node.xml: connected' "$dir/h1.log" || skip "lidtrackd is built without libvirt"
	guest guest7 h1
	await grep -q "guest7: its vGUID is not in the domain's metadata" "$dir/h1.log"
	# Some looks at them later.
	sleep 2
	[ "$(grep -c 'one .*: its metadata are not what lidtrackd writes' "$dir/h1.log")" = 1 ]
	[ "$(grep -c 'other .*: its metadata are not what lidtrackd writes' "$dir/h1.log")" = 1 ]
	[ "$(grep -c 'my guest: it does not get the vGUID of its metadata: a guest has a name' "$dir/h1.log")" = 1 ]
	[ "$(grep -c 'a\{64\}: it does not get the vGUID of its metadata' "$dir/h1.log")" = 1 ]
	[ "$(grep -c "guest7: its vGUID is not in the domain's metadata" "$dir/h1.log")" = 1 ]
}

@test "an agent ends while its libvirtd says nothing, though the clock is set back meanwhile" {
	local killer status=0
	hosts 1
	python3 -c 'import socket, sys, time
s = socket.socket(socket.AF_UNIX)
s.bind(sys.argv[1])
s.listen()
s.accept()
time.sleep(60)' "$dir/silent" 3>&- &
	pids[silent]=$!
	await test -S "$dir/silent"
	ONLY_h1="libvirt qemu+unix:///system?socket=$dir/silent"
	export LD_PRELOAD=$URXE_BIN/clock_ahead.so
	agents
	unset LD_PRELOAD
	kill -TERM "${pids[h1]}"
	{
		sleep 20
		kill -KILL "${pids[h1]}"
	} 3>&- &
	killer=$!
	wait "${pids[h1]}" || status=$?
	kill "$killer" || true
	[ "$status" = 0 ]
}

@test "libvirt's hook refuses what lidtrackd would; nova's ebrctl adds, moves and removes" {
	local guid=0xfa163e0000010203 vif=vif-fa163e0000010203
	hosts 1
	agents
	guest guest7 h1
	order libvirt-hook h2 guest7 migrate begin -
	order libvirt-hook h2 stranger migrate begin -
	order libvirt-hook h2 guest7 release end -
	# A port of nova's, by its MAC.
	order ebrctl h2 add-port fa:16:3e:01:02:03 f00d physnet1 mlnx_dev 0000:04:00.2
	await is_at $vif h2
	"$URXE" fabric vf h2 | grep -q " $guid "
	order ebrctl h2 add-port fa:16:3e:01:02:03 f00d physnet1 mlnx_dev 0000:04:00.2
	run order libvirt-hook h2 guest7 migrate begin -
	[ "$status" = 1 ]
	[[ $output == *"no function of h2 is free"* ]]
	# The destination asks before the source has let go; the source's later word is no end of it.
	order ebrctl h3 add-port fa:16:3e:01:02:03 f00d physnet1 mlnx_dev 0000:04:00.1
	await is_at $vif h3
	order ebrctl h2 del-port physnet1 fa:16:3e:01:02:03
	is_at $vif h3
	order ebrctl h3 del-port physnet1 fa:16:3e:01:02:03
	gone() { ! ctl h1 status $vif | grep -q $vif; }
	await gone
	# What has just begun comes to its end, too.
	order ebrctl h3 add-port fa:16:3e:01:02:03 f00d physnet1 mlnx_dev 0000:04:00.1
	order ebrctl h3 del-port physnet1 fa:16:3e:01:02:03
	await gone
	# What no agent is there for has not been done.
	run order ebrctl nowhere del-port physnet1 fa:16:3e:01:02:03
	[ "$status" != 0 ]
	run order ebrctl h3 add-port fa:16:3e f00d physnet1 mlnx_dev 0000:04:00.1
	[ "$status" = 2 ]
	[[ $output == *"is no MAC"* ]]
}

# port_at_h2: a port of nova's, the guest $vif there, which does not let go of its function.
port_at_h2() {
	vif=vif-fa163e0000010203
	guests_hold
	hosts 1
	agents "guest_command $dir/guests"
	order ebrctl h2 add-port fa:16:3e:01:02:03 f00d physnet1 mlnx_dev 0000:04:00.2
}

@test "nova's ebrctl: a port that was to go, and is wanted at its host again, comes back" {
	port_at_h2
	await is_at $vif h2
	order ebrctl h3 add-port fa:16:3e:01:02:03 f00d physnet1 mlnx_dev 0000:04:00.1
	await grep -q 'asking -> detaching' "$dir/h2.log"
	order ebrctl h2 add-port fa:16:3e:01:02:03 f00d physnet1 mlnx_dev 0000:04:00.2
	await is_at $vif h2
}

@test "nova's ebrctl: a port has its function at once, and a destination may order it twice and take that back" {
	port_at_h2
	"$URXE" fabric vf h2 | grep -q ' 0xfa163e0000010203 '
	await is_at $vif h2
	order ebrctl h3 add-port fa:16:3e:01:02:03 f00d physnet1 mlnx_dev 0000:04:00.1
	await grep -q 'asking -> detaching' "$dir/h2.log"
	order ebrctl h3 add-port fa:16:3e:01:02:03 f00d physnet1 mlnx_dev 0000:04:00.1
	order ebrctl h3 del-port physnet1 fa:16:3e:01:02:03
	await is_at $vif h2
}

# function_of GUEST: the number of its function.
function_of() {
	ctl h1 status "$1" | awk -v guest="$1" '$1 == guest { print $5 }'
}

@test "nova's ebrctl: the function is that of nova's PCI slot, at its host and at a destination" {
	local vif=vif-fa163e0000010203 n
	export LIDTRACK_SYSFS=$dir/sys
	for n in 0 1 2; do mkdir -p "$dir/sys/bus/pci/devices/0000:04:00.$n"; done
	for n in 1 2; do
		ln -s "../0000:04:00.$n" "$dir/sys/bus/pci/devices/0000:04:00.0/virtfn$n"
		ln -s ../0000:04:00.0 "$dir/sys/bus/pci/devices/0000:04:00.$n/physfn"
	done
	guests_hold $vif
	hosts 2
	agents "guest_command $dir/guests"
	order ebrctl h2 add-port fa:16:3e:01:02:03 f00d physnet1 mlnx_dev 0000:04:00.2
	await is_at $vif h2
	[ "$(function_of $vif)" = 2 ]
	# What it waits for at h3 nobody else gets, though that is free.
	order ebrctl h3 add-port fa:16:3e:01:02:03 f00d physnet1 mlnx_dev 0000:04:00.1
	await grep -q 'asking -> detaching' "$dir/h2.log"
	run ctl h3 add b --function 1
	[ "$status" = 1 ]
	[[ $output == *"function 1 of h3 is not free"* ]]
	guest a h3
	[ "$(function_of a)" = 2 ]
	touch "$dir/go"
	await is_at $vif h3
	[ "$(function_of $vif)" = 1 ]
	# A destination that has given it away refuses.
	run ctl h1 move $vif --to h2 --function 3
	[ "$status" = 1 ]
	[[ $output == *"h2: function 3 of h2 is not free"* ]]
	is_at $vif h3
	run ctl h1 add b --function x
	[ "$status" = 2 ]
}

@test "any agent takes a move back, until it is handed over" {
	local guid lid
	guests_hold
	hosts 1
	agents "guest_command $dir/guests"
	guest guest7 h1
	run ctl h3 cancel guest7
	[ "$status" = 1 ]
	[[ $output == *'h1 has it already'* ]]
	run ctl h3 cancel guest8
	[ "$status" = 1 ]
	[[ $output == *'nobody has guest8'* ]]
	for host in h2 h3; do
		ctl h1 move guest7 --to h2 --no-wait
		moving() { ctl h1 status guest7 | grep -q detaching; }
		await moving
		ctl $host cancel guest7
		await is_at guest7 h1
	done
}
