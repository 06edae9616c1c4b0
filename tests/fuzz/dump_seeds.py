#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Dumps of networks, for fuzz_dump: one that is right, and parts of it."""
import os
import sys

GOOD = '''inband-dump 1
# two switches
device nic 9 1
port 0 nrc 0 2
device nrc 0 24
port 2 nic 9 0
port 3 lost nrc 1 4
port 4 nameless
port 5 light
device nrc 1 24
silent
port 4 lost nrc 0 3
end
'''
for i, text in enumerate([GOOD, GOOD[:-4], GOOD.replace('nrc 1 24', 'nrc 0 24'), 'inband-dump 2\n']):
	with open(os.path.join(sys.argv[1], f'dump{i}'), 'w') as f:
		f.write(text)
