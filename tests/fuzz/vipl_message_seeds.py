#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Messages of each kind, and an address, for fuzz_vipl_message."""
import os
import struct
import sys

fixed = struct.pack('>IQ', 1 << 20, 12345)
seeds = {
	'client': b'VI\1\1' + bytes([2, 3, 5, 6]) + fixed + b'calledcaller',
	'peer': b'VI\1\2' + bytes([4, 1, 16, 16]) + fixed + bytes(32) + bytes(4),
	'accept': b'VI\1\3' + bytes([1, 0, 0, 0]) + fixed,
	'refusal': b'VI\1\4' + bytes([4, 7, 0, 0]),
	'address': struct.pack('<HH', 16, 5) + bytes(10) + b'\xff\xff\x7f\0\0\1hello',
}
for name, content in seeds.items():
	with open(os.path.join(sys.argv[1], name), 'wb') as f:
		f.write(content)
