#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Writes seeds for fuzz_frame into a directory: frames of all headers that rules can name, each with
a rule. Usage: frame_seeds.py DIRECTORY"""
import os
import struct
import sys

MACS = bytes.fromhex('020000000002020000000001')
TAG = bytes.fromhex('81006005')
L4 = {
    'tcp': (6, struct.pack('>HHIIHHHH', 80, 4000, 0, 0, 0x5000, 0, 0, 0)),
    'udp': (17, struct.pack('>HHHH', 80, 4000, 16, 0)),
    'esp': (50, struct.pack('>II', 7, 1)),
}
# enum ibv_flow_spec_type, and bytes of a filter
SPECS = {'eth': (0x20, 16), 'ipv4': (0x30, 8), 'ipv6': (0x31, 40), 'ipv4_ext': (0x32, 12), 'esp': (0x34, 8),
         'tcp': (0x40, 4), 'udp': (0x41, 4), 'vxlan': (0x50, 4), 'gre': (0x51, 8), 'mpls': (0x60, 4)}
INNER = 0x100


def ipv4(protocol, payload):
    return struct.pack('>BBHHHBBH', 0x45, 0, 20 + len(payload), 0, 0, 64, protocol, 0) + \
        bytes([10, 0, 0, 1, 10, 0, 0, 2]) + payload


def ipv6(protocol, payload):
    return struct.pack('>IHBB', 0x60012345, len(payload), protocol, 64) + bytes(15) + b'\1' + \
        bytes(15) + b'\2' + payload


def eth(kind, payload, tag=b''):
    return MACS + tag + struct.pack('>H', kind) + payload


def frames():
    for protocol, header in L4.values():
        for tag in (b'', TAG, TAG + TAG):
            yield eth(0x0800, ipv4(protocol, header), tag)
            yield eth(0x86dd, ipv6(protocol, header), tag)
    options = bytes([6, 0]) + bytes(6)
    yield eth(0x86dd, ipv6(0, options + L4['tcp'][1]))
    inner = eth(0x0800, ipv4(*L4['tcp']))
    yield eth(0x0800, ipv4(17, struct.pack('>HHHHII', 1, 4789, 0, 0, 0x08000000, 0x123400) + inner))
    yield eth(0x0800, ipv4(47, struct.pack('>HHII', 0x3000, 0x6558, 7, 1) + inner))
    yield eth(0x0800, ipv4(47, struct.pack('>HH', 0, 0x86dd) + ipv6(*L4['udp'])))
    yield eth(0x8847, struct.pack('>II', 0x1000, 0x2140) + ipv4(*L4['udp']))
    yield eth(0x88b5, b'x' * 46)
    yield MACS[:9]


def spec(name, inner=0):
    kind, filter_len = SPECS[name]
    return struct.pack('<IHxx', kind | inner, 8 + 2 * filter_len) + bytes(filter_len) + b'\xff' * filter_len


def main(directory):
    os.makedirs(directory, exist_ok=True)
    rules = [[]] + [[spec(name)] for name in SPECS] + [[spec('eth'), spec('ipv4'), spec('tcp')]]
    rules += [[spec('vxlan'), spec('ipv4', INNER), spec('tcp', INNER)]]
    rules += [[struct.pack('<IHxxI', 0x1000, 12, 9)], [struct.pack('<IHxx', 0x1001, 8)]]
    for f, frame in enumerate(frames()):
        for r, rule in enumerate(rules):
            body = b''.join(rule)
            body += bytes(-len(body) % 4)
            head = bytes([len(rule), 0, len(body) // 4, 0x53 if f % 2 else 0x0f, r % 2, 128])
            with open(os.path.join(directory, f'{f:02}-{r:02}'), 'wb') as seed:
                seed.write(head + body + frame)


if __name__ == '__main__':
    main(sys.argv[1])
