#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Seeds for fuzz_sa (which documents the commands): answers, busy ones, tables in segments, hosts files,
neighbours, and random mixtures. Usage: sa_seeds.py DIRECTORY"""
import os
import random
import socket
import struct
import sys


def ask(n, table=False):
    return bytes([2, n | table << 7])


def wait(n):
    return bytes([3, n])


def answer(slot, n, method=0x81, status=0):
    return bytes([5, slot, method, status, n])


def segment(slot, flags, number, length=0, offset=8):
    return bytes([6, slot, flags, number, length, offset])


def neighbour(last, size=20):
    attributes = struct.pack("=HH4B", 8, 1, 10, 0, 0, last)
    attributes += struct.pack("=HH", 4 + size, 2) + bytes(range(size))
    message = struct.pack("=BBHiHBB", socket.AF_INET, 0, 0, 2, 2, 0, 1) + attributes
    return struct.pack("=IHHII", 16 + len(message), 28, 2, 0, 0) + message


TABLE = [ask(1, True), segment(0, 3, 1), segment(0, 1, 2), segment(0, 5, 3, 132)]
SEEDS = [
    ask(1) + answer(0, 1),
    ask(1) + answer(0, 2),
    ask(1) + answer(0, 1, 0x81, 3),
    ask(1) + answer(0, 1, 0x81, 1) + wait(255) * 3 + answer(0, 1),
    b"".join(ask(n) for n in range(16)) + b"".join(answer(n % 8, n) for n in range(16)),
    ask(1) + wait(255) * 30,
    b"".join(TABLE),
    b"".join(TABLE[:3] + [wait(255)] + TABLE[3:]),
    b"".join(TABLE[:2] + TABLE[1:]),
    ask(1, True) + segment(0, 0x43, 0),
    ask(1, True) + segment(0, 7, 1, 84),
    ask(1, True) + segment(0, 7, 1, 84, 9),
    ask(1, True) + segment(0, 3, 1) + b"".join(segment(0, 1, n) for n in range(2, 9)),
    ask(1) + ask(2, True) + bytes([7]),
    bytes([0]) + b"# hosts\n10.0.0.0 fe80::1\n10.0.0.1 fe80::2 # two\nfd00::1 fe80::3\n",
    bytes([0]) + b"10.0.0.1 nowhere\n",
    bytes([1]) + neighbour(1) + neighbour(2, 6),
    bytes([4]) + bytes([1, 3, 2, 0x81]) + bytes(12) + bytes([0, 0x35]) + bytes(46),
]

random.seed(1)
for _ in range(20):
    SEEDS.append(b"".join(random.choice(SEEDS[:14]) for _ in range(10)))
for index, seed in enumerate(SEEDS):
    with open(os.path.join(sys.argv[1], f"seed-{index:02}"), "wb") as out:
        out.write(seed)
