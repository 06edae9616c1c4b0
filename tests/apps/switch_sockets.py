#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""
switch_sockets.py FOLDER SCENE: hosts at the unix sockets of an urxe-switch that is started with
FOLDER/switch.conf.

slow	b sends more than a's socket takes while a does not read: the switch waits without turning in
	circles, and goes on when a reads. What is longer than a frame is dropped.
macs	c sends from more addresses than the switch can know. What is for b still goes to b alone, as
	long as b sends now and then.
"""
import os
import socket
import subprocess
import sys
import time

folder = sys.argv[1]
switch = os.environ['URXE'].rsplit('/', 1)[0] + '/daemons/urxe-switch/urxe-switch'


def host(name):
	s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
	s.bind(f'{folder}/host-{name}')
	s.settimeout(10)
	return s


def frame(to, source):
	return to + source + b'\x88\xb6' + bytes(1000)


def address(n):
	return b'\x02\0' + n.to_bytes(4, 'big')


def ticks(pid):
	with open(f'/proc/{pid}/stat') as f:
		return sum(int(x) for x in f.read().rsplit(')', 1)[1].split()[11:13])


def slow(daemon):
	sent = frame(b'\xff' * 6, address(2))
	b.sendto(bytes(60000), f'{folder}/b')
	for _ in range(600):
		b.sendto(sent, f'{folder}/b')
	time.sleep(0.5)
	before = ticks(daemon.pid)
	time.sleep(1)
	spent = ticks(daemon.pid) - before
	print(f'{spent} ticks of the CPU in a second while a does not read')
	assert spent < os.sysconf('SC_CLK_TCK') // 3
	got = [a.recv(65536) for _ in range(600)]
	assert all(g == sent for g in got), {len(g) for g in got}
	print('600 frames arrived, and nothing that was cut off')


def macs(daemon):
	c = host('c')
	for turn in range(40):
		# The one to a stands for the end of what c sent in the turn before.
		b.sendto(frame(address(1) if turn else b'\xff' * 6, address(2)), f'{folder}/b')
		got = a.recv(65536)
		assert got[6:12] == address(2), f'turn {turn}: a got what {got[6:12].hex()} sent to {got[:6].hex()}'
		if not turn:
			c.recv(65536)
			a.sendto(frame(address(2), address(1)), f'{folder}/a')
			b.recv(65536)
		for n in range(200):
			c.sendto(frame(address(2), address(1000 + turn * 200 + n)), f'{folder}/c')
		for n in range(200):
			b.recv(65536)
		a.sendto(frame(address(2), address(1)), f'{folder}/a')
		b.recv(65536)
	print('8,000 addresses later a has got nothing that was for b')


a, b = host('a'), host('b')
daemon = subprocess.Popen([switch, f'{folder}/switch.conf', '-o', f'control_socket {folder}/control'])
try:
	deadline = time.monotonic() + 20
	while not os.path.exists(f'{folder}/control') and time.monotonic() < deadline:
		time.sleep(0.02)
	{'slow': slow, 'macs': macs}[sys.argv[2]](daemon)
finally:
	daemon.terminate()
	daemon.wait()
