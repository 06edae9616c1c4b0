#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Seeds for fuzz_state (which documents the first byte): state files, whole, cut and changed, and dumps of
paths. Usage: state_seeds.py DIRECTORY"""
import os
import random
import struct
import sys

DUMP = b"""Switch 0x0002c9000100d050, base LID 202, "leaf # 1", port 0
# LID  : SL : MTU : RATE
0x00CA : 0  : 5   : 7
0x00CB : 0  : 4   : 6

Channel Adapter 0x0002c90300000001, base LID 203, "a, 0x9 HCA-1", port 1
# LID  : SL : MTU : RATE
0x00CA : 0  : 4   : 6
0x00F7 : 3  : 4   : 18
0x00F8 : UNREACHABLE
"""


def crc(data):
    value = 0xFFFFFFFF
    for byte in data:
        value ^= byte
        for _ in range(8):
            value = value >> 1 ^ (0x82F63B78 if value & 1 else 0)
    return value ^ 0xFFFFFFFF


def gid(n):
    return bytes([0xFE, 0x80] + 13 * [0] + [n])


def port(n, lid=3):
    return gid(n) + struct.pack(">HHB", lid, 1, 1) + bytes(11)


def entry(n, mask=1, of=0, failures=0):
    record = bytes(8) + gid(n) + gid(0) + struct.pack(">HHIBBHHBBBB", n, 3, 0, 0, 0x81, 0xFFFF, 0, 0x84, 0x83, 0x92, 0)
    record += bytes(64 - len(record))
    return record + struct.pack(">QIHHBBBBI", 0, mask, 0x7FFF if mask & 16 else 0, 0, 0, 0, of, failures, 0)


def state(ports, entries, version=1):
    behind = b"".join(ports + entries)
    header = b"sacache\n" + struct.pack(">IIQqI", version, len(ports), len(entries), 1795294146, crc(behind))
    return header + struct.pack(">I", crc(header)) + behind


STATES = [
    state([port(7)], []),
    state([port(7)], [entry(n) for n in range(1, 5)]),
    state([port(7), port(8)], [entry(1), entry(2, 3, 1), entry(3, 0x1D, 0, 3)]),
    state([port(7)], [entry(n) for n in range(100)]),
    state([port(7)], [entry(1), entry(1)]),
    state([port(7)], [entry(1)], 2),
    state([], []),
]
SEEDS = []
for whole in STATES:
    for kind in (0, 1):
        SEEDS += [bytes([kind]) + whole, bytes([kind]) + whole[:-1], bytes([kind]) + whole + b"\0"]
SEEDS += [b"\2" + DUMP, b"\2" + DUMP[:-1], b"\2" + DUMP + DUMP, b"\2" + DUMP.replace(b"0x00", b"0xFF"), b"\2\n"]
random.seed(1)
for _ in range(20):
    changed = bytearray(random.choice(SEEDS))
    for _ in range(3):
        changed[random.randrange(len(changed))] = random.randrange(256)
    SEEDS.append(bytes(changed))
for index, seed in enumerate(SEEDS):
    with open(os.path.join(sys.argv[1], f"seed-{index:02}"), "wb") as out:
        out.write(seed)
