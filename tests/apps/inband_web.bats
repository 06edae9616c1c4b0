#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# inbandd by HTTP, and its page in a headless Chromium.

load inband

setup() {
	prepare
	(umask 077 && printf 'operator 0123456789abcdef ada\n' >"$dir/tokens")
}

# serve SETTING…: an inbandd, and where it is as $url, as soon as it has discovered what there is.
serve() {
	start_inbandd "http_listen 127.0.0.1" "http_tokens $dir/tokens" "$@"
	url=$(grep -o 'http://.*' "$dir/log")
}

# ask STATUS PATH OPTION…: what curl gets is in $output.
ask() {
	local expected=$1 path=$2
	shift 2
	run curl -sS --noproxy '*' --max-time 30 -w '\n%{http_code}' "$@" "$url$path"
	echo "$output"
	[ "${lines[-1]}" = "$expected" ]
}

@test "the page and what it reads come by HTTP, and changes are an operator's" {
	local operator='Authorization: Bearer 0123456789abcdef'
	machine --machine tree:2,3,2,4
	serve 'plan tree:2,3,2,4'
	ask 200 /
	[[ $output == *'<title>inbandd'* ]]
	ask 200 /main.js
	ask 404 /main.c
	ask 404 /../tokens --path-as-is
	ask 200 '/api/show?chip=S.leaf.1.0'
	[[ $output == *'"name":"S.leaf.1.0"'* ]]
	ask 200 '/api/status'
	[[ $output == *'"switches":20'* ]]
	ask 422 '/api/show?chip=S.leaf.9.9'
	[[ $output == *'has not been found'* ]]
	ask 400 '/api/check?plan=/etc/passwd'
	ask 405 /api/discover
	ask 403 /api/discover -d '{}'
	ask 403 /api/discover -d '{}' -H 'Authorization: Bearer 0123456789abcdeX'
	ask 200 /api/discover -d '{}' -H "$operator"
	ask 400 /api/write -d '{' -H "$operator"
	ask 200 /api/write -d '{"chip":"S.leaf.1.0","address":4,"value":7}' -H "$operator"
	ask 200 '/api/read?chip=S.leaf.1.0&address=4'
	[[ $output == *0x0000000000000007* ]]
	ask 413 /api/write -H "$operator" --data-binary "@$INBANDD"
	ask 404 /api/watch
	ask 421 / -H 'Host: elsewhere.example'
	ask 405 / -X PUT
}

@test "with a token for viewers nobody reads without one" {
	printf 'viewer fedcba9876543210\n' >>"$dir/tokens"
	machine --machine tree:2,3,2,4
	serve
	ask 401 /api/status
	ask 401 /model
	ask 401 /events
	ask 200 /api/status -H 'Cookie: inbandd=fedcba9876543210'
	ask 403 /api/discover -d '{}' -H 'Cookie: inbandd=fedcba9876543210'
	ask 200 /session
	[[ $output == *'"role":"nobody"'* ]]
	ask 403 /session -d '{"token":"wrongwrongwrongwrong"}'
	ask 200 /session -d '{"token":"0123456789abcdef"}' -i
	[[ $output == *'Set-Cookie: inbandd=0123456789abcdef; HttpOnly; SameSite=Strict'* ]]
}

@test "nobody else is let in, and no file that others can read, without being told" {
	machine --machine tree:2,3,2,4
	run "$INBANDD" -c /dev/null -o "control_socket " -o "http_listen 0.0.0.0:8470"
	[ "$status" -eq 1 ]
	[[ $output == *http_remote* ]]
	chmod 644 "$dir/tokens"
	run "$INBANDD" -c /dev/null -o "control_socket " -o "http_listen 127.0.0.1" -o "http_tokens $dir/tokens"
	[ "$status" -eq 1 ] && [[ $output == *'chmod 600'* ]]
}

@test "events come as they happen, and again to whom was away" {
	machine --machine tree:2,3,2,4
	serve 'plan tree:2,3,2,4'
	curl -sSN --noproxy '*' "$url/events" >"$dir/events" 2>&1 3>&- &
	local client=$!
	pids+=("$client")
	says "$dir/events" retry "$client"
	"$THSIM" --tell "cut S.leaf.1.0:1"
	says "$dir/events" '"event":"raised"' "$client"
	grep -q '^data: .*"kind":"link".*"at":"S\.[a-z.0-9]*:[0-9]*"' "$dir/events"
	curl -sSN --noproxy '*' "$url/events?after=0" >"$dir/again" 2>&1 3>&- &
	pids+=("$!")
	says "$dir/again" '"event":"raised"' "$!"
	curl -sSN --noproxy '*' -H 'Last-Event-ID: 1000000' "$url/events" >"$dir/missed" 2>&1 3>&- &
	pids+=("$!")
	says "$dir/missed" '"event":"missed"' "$!"
	kill "$daemon"
	wait "$daemon"
}

@test "a browser shows Tianhe-2's cabinets, and a fault as it happens" {
	command -v chromedriver >/dev/null || skip "chromium-driver is not installed"
	machine --routes
	serve 'plan th2' 'hold_down 50'
	cd "$dir"
	python3 "$BATS_TEST_DIRNAME/inband_web.py" "$url" cabinets clicks views rights
}

@test "names, places and cables of the plan are edited, and kept" {
	command -v chromedriver >/dev/null || skip "chromium-driver is not installed"
	machine --machine tree:2,3,2,4
	serve 'plan tree:2,3,2,4' "plan_file $dir/plan"
	ask 403 /api/edit -d '{"chip":"S.leaf.1.0","name":"x"}'
	local operator='Authorization: Bearer 0123456789abcdef'
	ask 422 /api/edit -H "$operator" -d '{"chip":"S.leaf.1.0","name":"S.leaf.1.1"}'
	[[ $output == *'another chip'* ]]
	ask 422 /api/edit -H "$operator" -d '{"chip":"S.leaf.1.0","port":1,"to":"nobody:1"}'
	[ ! -e "$dir/plan" ]
	cd "$dir"
	python3 "$BATS_TEST_DIRNAME/inband_web.py" "$url" plan
	kill "$daemon"
	wait "$daemon"
	serve 'plan tree:2,3,2,4' "plan_file $dir/plan"
	ask 200 '/api/show?chip=leaf-one'
	[[ $output == *'"name":"leaf-one"'* ]]
}
