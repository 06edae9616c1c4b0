#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Seeds for fuzz_ring (which documents the input): records of every kind, sound ones and others, alone and
with changes to what has been read just before. Usage: ring_seeds.py DIRECTORY"""
import random
import struct
import sys

PACKET, REFS, FLOW, PAIR = 1, 2, 3, 4
FLOW_BODY = bytes(10) + b'\xff\xff\x7f\0\0\1' + bytes(10) + b'\xff\xff\x7f\0\0\1' + struct.pack('<BBBBBB', 0, 0, 1, 0, 0, 64) + bytes(10)


def record(kind, body, span=1, length=None, offset=0, flow=0):
    length = len(body) if length is None else length
    return struct.pack('<BBBHHB', kind, flow, span, length, offset, min(255, len(body))) + body[:255]


def bth(opcode=4, qpn=0x102, pad=0):
    return struct.pack('>BBHII', opcode, pad << 4, 0xffff, qpn, 1)


def refs(n, header, claimed=None, size=20000):
    total = n * size if claimed is None else claimed
    return struct.pack('<IIHHI', 0, total, n, len(header), 0) + struct.pack('<QQ', 4096, size) * n + header


def change(loads, where, value):
    return struct.pack('<BHI', loads, where, value)


def main():
    rng = random.Random(1)
    flow = record(FLOW, FLOW_BODY)
    mad = bth(0x64, 1) + struct.pack('>II', 0x80010000, 1) + bytes(256)
    bodies = [record(PACKET, bth() + bytes(8)), record(PACKET, bth() + bytes(200)), record(PACKET, mad),
              record(PACKET, bth(), length=1500), record(PACKET, bth(0x11) + bytes(4)),
              record(REFS, refs(1, bth())), record(REFS, refs(3, bth(10) + bytes(16)), span=20),
              record(REFS, refs(34, bth(), size=100)), record(REFS, refs(35, bth(), size=100)),
              record(REFS, refs(1, bth(), claimed=5)), record(PAIR, bth() + bytes(8) + bth(0x11) + bytes(4), span=20),
              record(PAIR, bth(), span=12), record(PAIR, bth() * 2, span=7), record(PAIR, bth() * 4, span=44),
              record(0, b'x'), record(7, b'x')]
    seeds = []
    for faulty in (0, 1):
        for body in bodies:
            seeds.append(bytes([0, faulty]) + flow + body)
            for _ in range(40):
                n = rng.randrange(1, 8)
                changes = [change(rng.randrange(1, 60) if i else rng.randrange(60, 200),
                                  rng.choice([64 + rng.randrange(16), 64 + 16 + rng.randrange(48), 512 + rng.randrange(64)]),
                                  rng.choice([0, 1, 64, 255, 60000, 0xffffffff, rng.getrandbits(32)])) for i in range(n)]
                seeds.append(bytes([n]) + b''.join(changes) + bytes([faulty]) + flow + body + rng.choice(bodies))
    for number, seed in enumerate(seeds):
        with open(f"{sys.argv[1]}/{number:04}", "wb") as out:
            out.write(seed)


main()
