# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# Shared by .bats files whose tests are scripts of several processes, on one host or on two.

# What each script below begins with. until_listening PORT; within MILLISECONDS PID: that process
# ends by then.
common='
	set -e
	run="$URXE run --"
	until_listening() {
		for try in $(seq 100); do
			"$URXE" listeners | grep -q "LISTEN  *$1 " && return
			sleep 0.05
		done
		false
	}
	within() {
		for try in $(seq $(($1 / 20))); do
			kill -0 $2 2>/dev/null || return 0
			sleep 0.02
		done
		kill -9 $2
		echo "process $2 did not end within $1 ms"
		false
	}
'

# scene SCRIPT ARGS…: in namespaces of its own and a fresh folder; the output is shown. Whatever becomes
# of the script, its processes end with it: they are in a PID namespace, where there can be one.
scene() {
	local alone=()
	isolated unshare -pf --kill-child --mount-proc true 2>/dev/null &&
		alone=(unshare -pf --kill-child --mount-proc)
	cd "$BATS_TEST_TMPDIR"
	run env URXE="$URXE" "$BASH" -c "$(declare -f isolated); isolated \"\$@\"" scene \
		timeout -k 2 100 "${alone[@]}" "$BASH" -c "$common$1" scene "${@:2}"
	echo "$output"
	tail -n 5 server* client* 2>/dev/null || true
	[ "$status" -eq 0 ]
}

# Two hosts: this namespace with v0, and one with v1.
two_hosts='
	# Longer than scene lets a script run.
	unshare -n sleep 120 >/dev/null 2>&1 &
	host=$!
	while [ /proc/self/ns/net -ef /proc/$host/ns/net ]; do sleep 0.02; done
	ip link add v0 type veth peer name v1 netns $host
	ip addr add 10.1.1.1/24 dev v0
	ip link set v0 addrgenmode none up
	here="env URXE_DEVICES=urxe0=v0"
	there="env URXE_DEVICES=urxe0=v1 nsenter -t $host -n"
	$there ip addr add 10.1.1.2/24 dev v1
	$there ip link set v1 addrgenmode none up
'

# two_hosts SCRIPT ARGS…
two_hosts() {
	unshare -Urnm true 2>/dev/null || unshare -nm true 2>/dev/null ||
		skip "no network namespaces here"
	scene "$two_hosts$1" "${@:2}"
}
