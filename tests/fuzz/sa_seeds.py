#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Seeds for fuzz_sa (which documents the commands): answers, busy ones, tables in segments, hosts files,
neighbours, subscriptions and reports, what opensm sends, and random mixtures. Usage: sa_seeds.py DIRECTORY"""
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


def report(trap, tid, gid=1, sa=True):
    return bytes([8, sa, trap, tid, 16, 0xfe, 31, gid, 7, 5, 64, 0xfe])


def confirm(n, status=0, trap=64, subscribe=1, count=10):
    return bytes([9, n, status, 1, 7, count if n > 3 else 0, subscribe, trap])


def mad(method, records, offset=8, flags=0, kind=0, segment=0, paylen=0):
    head = bytes([1, 3, 2, method]) + bytes(12) + bytes([0, 0x35]) + bytes(6)
    head += struct.pack(">BBBBIIQHHQ", 1, kind, flags, 0, segment, paylen, 0, offset, 0, 0)
    return bytes([11]) + head + bytes(range(64)) * records


def neighbour(last, size=20):
    attributes = struct.pack("=HH4B", 8, 1, 10, 0, 0, last)
    attributes += struct.pack("=HH", 4 + size, 2) + bytes(range(size))
    message = struct.pack("=BBHiHBB", socket.AF_INET, 0, 0, 2, 2, 0, 1) + attributes
    return struct.pack("=IHHII", 16 + len(message), 28, 2, 0, 0) + message


SUBSCRIBED = [wait(63), confirm(0, trap=64), confirm(1, trap=65), confirm(2, trap=128),
              confirm(3, trap=144), confirm(4)]
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

# Lengths are even or odd by whether notices are wanted.
NOTICES = [
    b"".join(SUBSCRIBED),
    b"".join(SUBSCRIBED) + report(65, 1) + report(64, 2) + report(128, 3) + report(144, 4),
    b"".join(SUBSCRIBED) + report(65, 1) * 2 + report(65, 1, sa=False),
    b"".join(SUBSCRIBED) + wait(255) * 2 + confirm(4, count=1) + wait(255),
    b"".join(SUBSCRIBED) + bytes([10, 1]) + confirm(4, status=3),
    b"".join(SUBSCRIBED) + bytes([10, 2]) + wait(1) + confirm(0, subscribe=0),
    wait(63) + confirm(0, status=2) + confirm(1, status=7),
]
SEEDS += [seed + bytes([3] * (len(seed) % 2)) for seed in NOTICES]
SEEDS += [
    mad(0x81, 1),
    mad(0x92, 5),
    mad(0x92, 3, offset=9, flags=3, kind=1, segment=1),
    mad(0x92, 3, flags=5, kind=1, segment=7, paylen=84),
]

random.seed(1)
for _ in range(20):
    SEEDS.append(b"".join(random.choice(SEEDS[:14] + NOTICES) for _ in range(10)))
for index, seed in enumerate(SEEDS):
    with open(os.path.join(sys.argv[1], f"seed-{index:02}"), "wb") as out:
        out.write(seed)
