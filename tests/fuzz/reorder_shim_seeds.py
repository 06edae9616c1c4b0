#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Seeds for fuzz_reorder_shim: RoCE frames by IPv4 and IPv6, with and without a shim, and rows of shims.
Usage: reorder_shim_seeds.py DIRECTORY"""
import os
import random
import struct
import sys

MACS = bytes.fromhex('020000000002020000000001')


def roce(qpn=17):
	bth = struct.pack('>BBHII', 10, 0x40, 0xffff, qpn, 1) + bytes(20)
	return struct.pack('>HHHH', 50000, 4791, 8 + len(bth), 0) + bth


def ipv4(tos=2):
	body = roce()
	return struct.pack('>BBHHHBBH4s4s', 0x45, tos, 20 + len(body), 7, 0x4000, 64, 17, 0, bytes(4), bytes(4)) + body


def ipv6():
	body = roce()
	return struct.pack('>IHBB', 0x60200000, len(body), 17, 64) + bytes(32) + body


def shim(flags, path, epoch, sequence, t_tx, back=0, ago=0):
	out = struct.pack('>BBBBHBBI', 0x10 | flags, path, 0, epoch, sequence, 0, 0, t_tx)
	return out + (struct.pack('>HH', back, ago) if flags & 1 else b'')


def seeds():
	yield 'ipv4', MACS + b'\x08\x00' + ipv4()
	yield 'ipv6', MACS + b'\x86\xdd' + ipv6()
	yield 'shim', MACS + b'\x88\xb5' + shim(0, 1, 0, 5, 1000) + ipv4()
	yield 'rerouted', MACS + b'\x88\xb5' + shim(1, 1, 1, 5, 1000, 2, 3) + ipv6()
	random.seed(1)
	row = b''
	for n in range(60):
		moved = n > 20
		row += bytes([random.randrange(256)]) + shim(moved, 1 + moved, moved, n, 900000 + n * 10, n - 20, 2).ljust(16, b'\0')
	yield 'row', row


for name, data in seeds():
	with open(os.path.join(sys.argv[1], name), 'wb') as out:
		out.write(data)
