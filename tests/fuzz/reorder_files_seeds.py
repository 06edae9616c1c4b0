#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Seeds for fuzz_reorder_files: s sizes, f flows. Usage: reorder_files_seeds.py DIRECTORY"""
import os
import sys

SEEDS = {
	'sizes': 's0 0\n4000 22.93\n8000 69.21\n2000000 100\n',
	'comment': 's# size percent\n0 0\n1e3 50\n5000 100',
	'flows': 'f2 \n0 5 3 20000 2.000001000\n4 9 3 1 2.000002000\n',
	'none': 'f0\n',
}
for name, text in SEEDS.items():
	with open(os.path.join(sys.argv[1], name), 'w') as out:
		out.write(text)
