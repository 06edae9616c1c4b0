#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Seeds for fuzz_reorder_config: a configuration with most of the keys. Usage: reorder_config_seeds.py DIRECTORY"""
import os
import sys

SEEDS = {
	'config': '''leaf l1 l2
spine s1 s2
slower s2 300us
port l1 tap tapa
port l2 unix /run/a /run/b
rate 10G
delay 5us
queues 2
reorder no
mark_min 10
hold 20ms
''',
}
for name, text in SEEDS.items():
	with open(os.path.join(sys.argv[1], name), 'w') as out:
		out.write(text)
