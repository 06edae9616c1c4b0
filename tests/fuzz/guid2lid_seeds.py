#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Files guid2lid, whole and damaged, for fuzz_guid2lid."""
import os
import sys

WHOLE = ''.join(f'0x{guid:016x} 0x{lid:04x} 0x{lid + 3:04x}\n\n' for guid, lid in ((9, 4), (2, 8), (0x2c90300a1b2c3, 12)))
SEEDS = {'whole': WHOLE, 'twice': WHOLE + WHOLE, 'joined': WHOLE.replace('\n\n', '\n'), 'cut': WHOLE[:-1],
	 'blank': '\n \n' + WHOLE, 'far': '0x1 0xc000 0xc000\n\n0x1 2 3\n\n'}
for name, text in SEEDS.items():
	with open(os.path.join(sys.argv[1], name), 'w') as f:
		f.write(text)
