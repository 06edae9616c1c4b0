#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Seeds for fuzz_fabric: descriptions of fabrics, and programs that register agents and write MADs.
Usage: fabric_seeds.py DIRECTORY"""
import os
import struct
import sys

DR, LID, SA, PERF, VENDOR = 0x81, 1, 3, 4, 0x32
GET, SET, TRAP, GET_TABLE = 1, 2, 5, 0x12


def act(kind, body):
    body = bytes([kind]) + body
    return struct.pack("<H", len(body)) + body


def register(slot, port, qpn, cls, version, rmpp, methods, oui=0):
    return act(0, struct.pack("<8BQQ", slot, port, qpn, cls, version, rmpp, 0, oui, methods, 0))


def umad(lid, qpn, mad, timeout=100, retries=1):
    header = struct.pack("<IIIII", 0, 0, timeout, retries, 0) + struct.pack(">IIHBB", qpn, 0x80010000 if qpn else 0, lid, 0, 0)
    return header.ljust(64, b"\0") + mad


def smp(method, attribute, modifier=0, path=b"", data=b"", tid=7):
    mad = struct.pack(">BBBBHBBQHHIQHH", 1, DR, 1, method, 0, 0, len(path), tid, attribute, 0, modifier, 0, 0xffff, 0xffff)
    mad = mad.ljust(64, b"\0") + data.ljust(64, b"\0") + (b"\0" + path).ljust(64, b"\0")
    return mad.ljust(256, b"\0")


def gsi(cls, version, method, attribute=0x11, rmpp=0, tid=9, body=b""):
    mad = struct.pack(">BBBBHHQHHI", 1, cls, version, method, 0, 0, tid, attribute, 0, 0)
    mad += struct.pack(">BBBBII", 1, 1, rmpp, 0, 1, 0)
    return (mad + body).ljust(256, b"\0")


def write(slot, packet, long=False):
    return act(4, bytes([slot | (0x80 if long else 0)]) + packet)


PORT = bytearray(64)
PORT[16:20] = b"\0\2\0\1"
PORT[29:32] = b"\3\3\2"
PORT[32], PORT[34], PORT[36], PORT[43] = 0x73, 0, 0x50, 0x10

seeds = {
    "text-file": b"\1vendid=0x2c9\ndevid=0xcb20\nswitchguid=0x5(5)\nSwitch\t36 \"S-0000000000000005\"\t\t# \"s\" enhanced port 0 lid 1 lmc 0\n"
                 b"[1]\t\"H-0000000000000009\"[1](a) \t\t# \"h HCA-1\" lid 3 4xFDR10\ncaguid=0x9\nCa\t2 \"H-0000000000000009\"\t\t# \"h HCA-1\"\n"
                 b"[1](a) \t\"S-0000000000000005\"[1]\t\t# lid 3 lmc 0 \"s\" lid 1 4xFDR\n",
    "text-plain": b"\1Switch 8 \"a\"\n[1] \"b\"[1]\n[2](ext 5) \"b\"[2]\nHca 2 \"b\"\nRt 1 \"r\"\n[1] \"a\"[8]\n",
    "text-function": b"\1switchguid=0x5(5)\nSwitch 4 \"v\"\n[1] \"h\"[1]\n[2] \"h-vf1\"[1]\nCa 1 \"h\"\nfunction=1\nCa 1 \"h-vf1\"\n",
    "function": b"\0" + register(0, 0, 0, DR, 1, 0, 1 << TRAP) + b"".join(act(6 | on, bytes([choice])) for on, choice in [
        (0, 0), (0, 3), (0x86, 2), (0, 1), (0x86, 1), (0, 0)]) + write(0, umad(0xffff, 0, smp(GET, 0x11, 0, b"\1\2"))) + act(3, b"\xff"),
    "discover": b"\0" + register(0, 0, 0, DR, 1, 0, 1 << TRAP)
                + b"".join(write(0, umad(0xffff, 0, smp(GET, a, m, p, tid=i)))
                           for i, (a, m, p) in enumerate([(0x11, 0, b""), (0x11, 0, b"\1"), (0x12, 0, b"\1\3"), (0x15, 1, b"\1"),
                                                          (0x16, 0, b"\1\2"), (0x17, 0x102, b"\1"), (0x18, 0x10001, b"\1"),
                                                          (0x19, 2, b"\1"), (0x1b, 0x10000001, b"\1\4"), (0x14, 0, b"\1\3\1"),
                                                          (0x20, 0, b"\1\2"), (0xff90, 1, b"\1"), (0x31, 0, b"\1")])),
    "manage": b"\0" + register(0, 0, 0, DR, 1, 0, 1 << TRAP)
              + write(0, umad(0xffff, 0, smp(SET, 0x15, 0, b"", bytes(PORT)))) + write(0, umad(0xffff, 0, smp(SET, 0x15, 1, b"\1", bytes(PORT))))
              + write(0, umad(0xffff, 0, smp(SET, 0x19, 0, b"\1", bytes(range(64))))) + act(2, b"\3") + act(3, b"\xff") + act(0x82, b"\3"),
    "rmpp": b"\0" + register(0, 0, 1, SA, 2, 1, 1 << GET) + register(1, 0, 1, SA, 2, 1, 1 << GET_TABLE)
            + write(0, umad(0, 1, gsi(SA, 2, GET_TABLE))) + write(1, umad(0, 1, gsi(SA, 2, 0x92, rmpp=1, body=b"x" * 200), 0), True) + act(3, b"\xff"),
    "vendor": b"\0" + register(0, 1, 1, VENDOR, 1, 1, 6, 5) + register(2, 1, 1, PERF, 1, 0, 0)
              + write(0, umad(0, 1, gsi(VENDOR, 1, GET))) + write(2, umad(0, 1, gsi(PERF, 1, GET, 0x12))) + act(1, b"\0"),
}
for name, seed in seeds.items():
    with open(os.path.join(sys.argv[1], name), "wb") as f:
        f.write(seed)
