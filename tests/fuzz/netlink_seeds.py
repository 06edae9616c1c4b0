#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Seeds for fuzz_netlink: the kernel's questions, its acknowledgements, and several in one datagram.
Usage: netlink_seeds.py DIRECTORY"""
import os
import struct
import sys

RESOLVE, SET_TIMEOUT, IP_RESOLVE = 4 << 10, (4 << 10) + 1, (4 << 10) + 2
REQUEST, ERROR, MANDATORY = 1, 2, 1 << 13
SERVICE_ID, DGID, SGID, TCLASS, PKEY, QOS_CLASS, IPV4, IPV6 = range(3, 11)
GID = bytes([0xfe, 0x80]) + bytes(13) + b"\1"


def attribute(kind, data, flags=MANDATORY):
    return struct.pack("=HH", 4 + len(data), kind | flags) + data + bytes(-len(data) % 4)


def message(kind, flags, body):
    return struct.pack("=IHHII", 16 + len(body), kind, flags, 7, 0) + body


def resolve(use, *attributes):
    header = struct.pack("=64sBBxx", b"mlx5_0", 1, use)
    return message(RESOLVE, REQUEST, header + b"".join(attributes))


GIDS = attribute(DGID, GID) + attribute(SGID, GID)
QUESTIONS = [
    resolve(0, attribute(SERVICE_ID, bytes(8)), GIDS, attribute(PKEY, b"\xff\xff"), attribute(QOS_CLASS, b"\1\0")),
    resolve(2, GIDS, attribute(TCLASS, b"\1"), attribute(PKEY, b"\xff\xff")),
    resolve(1, attribute(DGID, GID)),
    resolve(0, attribute(SGID, GID)),
    resolve(0, GIDS, attribute(60, b"new", 0)),
    message(IP_RESOLVE, REQUEST, bytes(4) + attribute(IPV4, bytes([10, 0, 0, 1]))),
    message(IP_RESOLVE, REQUEST, bytes(4) + attribute(IPV6, GID)),
    message(SET_TIMEOUT, REQUEST, b""),
    message(ERROR, 0, struct.pack("=iIHHII", -1, 16, RESOLVE, 0, 7, 0)),
]

SEEDS = QUESTIONS + [b"".join(QUESTIONS), QUESTIONS[0][:100]]
for index, seed in enumerate(SEEDS):
    with open(os.path.join(sys.argv[1], f"seed-{index:02}"), "wb") as out:
        out.write(seed)
