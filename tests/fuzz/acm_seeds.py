#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Seeds for fuzz_acm: messages as librdmacm and ib_acme write them, alone and one after another.
Usage: acm_seeds.py DIRECTORY"""
import os
import random
import socket
import struct
import sys

RESOLVE, PERF, EP = 1, 2, 3
NAME, IP, IP6, GID, LID, PATH = 1, 2, 3, 4, 5, 16
SOURCE, DEST, NODELAY, QUERY_SA = 1, 2, 1 << 30, 1 << 31


def message(op, *entries, data=bytes(3), extra=0):
    body = b"".join(entries)
    order = "=" if op == RESOLVE else ">"
    return bytes([1, op, 0]) + data + struct.pack(order + "H", 16 + len(body) + extra) + bytes(8) + body


def entry(flags, kind, value):
    return struct.pack("=IHH", flags, kind, 0) + value.ljust(64, b"\0")


def ip(flags, text):
    return entry(flags, IP, socket.inet_aton(text))


def path(flags, dlid=0, dgid=bytes(16), mtu=0x84):
    record = struct.pack(">Q16s16sHHIBBHHBBBB6s", 1 << 60, dgid, bytes(16), dlid, 0, 0x1234500, 7, 0x81,
                         0xffff, 0x0123, mtu, 0x83, 0x92, 0, bytes(6))
    return entry(flags, PATH, record)


GID2 = socket.inet_pton(socket.AF_INET6, "fe80::2")
SEEDS = [
    message(RESOLVE, ip(DEST, "10.0.0.2")),
    message(RESOLVE, ip(SOURCE, "10.0.0.1"), ip(DEST | NODELAY, "10.0.0.2")),
    message(RESOLVE, entry(SOURCE, IP6, GID2), entry(DEST, IP6, GID2)),
    message(RESOLVE, entry(SOURCE, NAME, b"here"), entry(DEST, NAME, b"x" * 64)),
    message(RESOLVE, entry(SOURCE, GID, GID2), entry(DEST | QUERY_SA, LID, b"\0\7")),
    message(RESOLVE, ip(SOURCE, "10.0.0.1"), ip(DEST, "10.0.0.2"), path(0)),
    message(RESOLVE, path(0, dlid=7)),
    message(RESOLVE, path(QUERY_SA, dgid=GID2, mtu=4)),
    message(RESOLVE, path(NODELAY, dgid=GID2, mtu=0x45)),
    message(RESOLVE, path(0)),
    message(RESOLVE, ip(SOURCE | DEST, "10.0.0.2")),
    message(RESOLVE),
    message(RESOLVE, extra=9),
    message(PERF),
    message(PERF, data=b"\0\3\0"),
    message(PERF, ip(SOURCE, "10.0.0.1")),
    message(EP, data=b"\1\1\0"),
    b"GET / HTTP/1.1\r\nHost: a\r\n\r\n",
]

random.seed(1)
for _ in range(20):
    SEEDS.append(b"".join(random.choice(SEEDS[:17]) for _ in range(8)))
for index, seed in enumerate(SEEDS):
    with open(os.path.join(sys.argv[1], f"seed-{index:02}"), "wb") as out:
        out.write(seed)
