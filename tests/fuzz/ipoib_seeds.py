#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""ARP, neighbour discovery and three packets of one TCP connection, for fuzz_ipoib."""
import os
import struct
import sys

LINK = bytes([0, 0, 0, 7]) + bytes.fromhex('fe800000000000000255525845000501')
IPV6 = [bytes.fromhex('fd') + bytes(14) + bytes([n]) for n in (2, 3)]
IPV4 = [bytes([10, 1, 0, n]) for n in (2, 3)]


def message(kind, body):
    body = struct.pack('>HH', kind, 0) + body
    return struct.pack('>BH', 1, len(body)) + body


def arp(op):
    return message(0x806, struct.pack('>HHBBH', 32, 0x800, 20, 4, op) + LINK + IPV4[0] + bytes(20) + IPV4[1])


def nd(kind, flags, option):
    body = struct.pack('>BBHI', kind, 0, 0, flags << 24) + IPV6[0] + bytes([option, 3, 0, 0]) + LINK
    return message(0x86dd, struct.pack('>IHBB', 6 << 28, len(body), 58, 255) + IPV6[0] + IPV6[1] + body)


def tcp(ipv4, n, flags):
    payload = bytes(range(100))
    body = struct.pack('>HHIIBBHHH', 5001, 5002, 1000 + 100 * n, 7, 5 << 4, flags, 512, 0, 0) + payload
    if ipv4:
        return message(0x800, struct.pack('>BBHHHBBH', 0x45, 0, 20 + len(body), n, 0x4000, 64, 6, 0) +
                       IPV4[0] + IPV4[1] + body)
    return message(0x86dd, struct.pack('>IHBB', 6 << 28, len(body), 6, 64) + IPV6[0] + IPV6[1] + body)


seeds = {'arp': arp(1) + arp(2), 'nd': nd(135, 0, 1) + nd(136, 0x60, 2)}
for ipv4 in (True, False):
    seeds[f'tcp{4 if ipv4 else 6}'] = b''.join(tcp(ipv4, n, 0x18 if n == 2 else 0x10) for n in range(3))
for name, seed in seeds.items():
    with open(os.path.join(sys.argv[1], name), 'wb') as f:
        f.write(seed)
