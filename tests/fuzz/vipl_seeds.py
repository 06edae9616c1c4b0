#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""For fuzz_vipl: descriptors of one segment and of many, with and without immediate data, that complete and are taken."""
import os
import sys


def post(recv, slot, control, segments):
	"""A descriptor of so many segments of 16 bytes each."""
	out = bytes([recv, slot, segments, control])
	for i in range(segments):
		out += bytes([8 + i % 8, i * 16 % 256, 1, 16])
	return out + bytes([0, 0]) + bytes([1] * 4)


for flags in range(8):
	for segments in (0, 1, 2, 5, 40):
		steps = bytes([flags])
		for slot, control in enumerate((0, 4, 1, 5, 2, 8)):
			steps += post(0, slot, control, segments) + post(1, slot + 6, 0, segments)
		steps += bytes([14, 1]) + bytes([6, 7, 1, 2, 3, 4] + [0] * 20) * 8 + bytes([12, 13] * 6)
		with open(os.path.join(sys.argv[1], f'{flags}-{segments}'), 'wb') as f:
			f.write(steps)
