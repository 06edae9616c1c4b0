#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""
switch_sockets.py FOLDER: two hosts at the unix sockets a and b of an urxe-switch that is started
with FOLDER/switch.conf. b sends more than a's socket takes while a does not read: the switch waits
without turning in circles, and goes on when a reads. What is longer than a frame is dropped.
"""
import os
import socket
import subprocess
import sys
import time

folder = sys.argv[1]
switch = os.environ['URXE'].rsplit('/', 1)[0] + '/daemons/urxe-switch/urxe-switch'
frame = b'\xff' * 6 + b'\x02\0\0\0\0\2' + b'\x88\xb6' + bytes(1000)


def host(name):
	s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
	s.bind(f'{folder}/host-{name}')
	s.settimeout(10)
	return s


def ticks(pid):
	with open(f'/proc/{pid}/stat') as f:
		return sum(int(x) for x in f.read().rsplit(')', 1)[1].split()[11:13])


a, b = host('a'), host('b')
daemon = subprocess.Popen([switch, f'{folder}/switch.conf', '-o', f'control_socket {folder}/control'])
try:
	deadline = time.monotonic() + 20
	while not os.path.exists(f'{folder}/control') and time.monotonic() < deadline:
		time.sleep(0.02)
	b.sendto(bytes(60000), f'{folder}/b')
	for _ in range(600):
		b.sendto(frame, f'{folder}/b')
	time.sleep(0.5)
	before = ticks(daemon.pid)
	time.sleep(1)
	spent = ticks(daemon.pid) - before
	print(f'{spent} ticks of the CPU in a second while a does not read')
	assert spent < os.sysconf('SC_CLK_TCK') // 3
	got = [a.recv(65536) for _ in range(600)]
	assert all(g == frame for g in got), {len(g) for g in got}
	print('600 frames arrived, and nothing that was cut off')
finally:
	daemon.terminate()
	daemon.wait()
