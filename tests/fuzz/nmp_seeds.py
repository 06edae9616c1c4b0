#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Descriptors of each type, for fuzz_nmp: the marks that a descriptor needs, and two short routes."""
import os
import sys

for kind in range(12):
	bits = 1 << 33 | 1 << 37 | 1 << 41 | 0xa5 << 48 | 77 << 56 | 2 << 72 | 8 << 77 | 3 << 177 | 10 << 182
	bits |= kind << 282 | 2 << 288 | 0x100 << 290
	with open(os.path.join(sys.argv[1], f'type{kind}'), 'wb') as f:
		f.write(bits.to_bytes(64, 'little') + bytes(48))
