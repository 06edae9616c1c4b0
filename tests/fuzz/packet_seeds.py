#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Writes seeds for fuzz_packet into a directory: a packet of every opcode, with and without payload
and pad, and some malformed ones. Usage: packet_seeds.py DIRECTORY"""
import os
import struct
import sys

RC = {0: 0, 1: 0, 2: 0, 3: 4, 4: 0, 5: 4, 6: 16, 7: 0, 8: 0, 9: 4, 10: 16, 11: 20, 12: 16,
      13: 4, 14: 0, 15: 4, 16: 4, 17: 4, 18: 12, 19: 28, 20: 28, 22: 4, 23: 4}
EXTRA = dict(RC)
EXTRA.update({0x20 + op: RC[op] for op in range(12)})
EXTRA.update({0x64: 8, 0x65: 12})
# XRC: requests carry an XRCETH, which comes first.
EXTRA.update({0xa0 + op: RC[op] + (0 if 13 <= op <= 18 else 4) for op in RC})
NO_PAYLOAD = {12, 17, 18, 19, 20, 0xac, 0xb1, 0xb2, 0xb3, 0xb4}


def packet(opcode, payload, flags=0x40):
    pad = -len(payload) % 4
    bth = struct.pack('>BBHII', opcode, flags | pad << 4, 0xffff, 0x1234, 0x80000007)
    return bth + bytes(range(EXTRA.get(opcode, 0))) + payload + bytes(pad)


def main(directory):
    os.makedirs(directory, exist_ok=True)
    seeds = []
    for opcode in EXTRA:
        for size in (0,) if opcode in NO_PAYLOAD else (0, 1, 8, 255):
            seeds.append(packet(opcode, b'x' * size))
    seeds += [packet(0x15, b'x' * 8), packet(0x81, b'x' * 16), packet(4, b'', 0x70),
              packet(4, b'x' * 8, 0x41), packet(10, b'')[:20], b'']
    for number, body in enumerate(seeds):
        for mode in (0, 2, 3, 6):
            with open(os.path.join(directory, f'{number:03}-{mode}'), 'wb') as seed:
                seed.write(bytes([mode]) + body + bytes(4))


if __name__ == '__main__':
    main(sys.argv[1])
