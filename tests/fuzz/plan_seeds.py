#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Files of machines, for fuzz_plan: one that is right, and parts of it."""
import os
import sys

GOOD = ('{"machine": "mine", "frame_nodes": 32, "chips": [{"type": "nrc", "id": 0, "name": "sw0", "ports": 24}, '
	'{"type": "nrc", "id": 1}, {"type": "nic", "id": 0}, {"type": "server", "id": 1}], "cables": '
	'[["sw0:0", "nic:0:0"], ["sw0:1", "nic:1:0", "optical"], ["sw0:2", "nrc:1:23"]]}')
for i, text in enumerate([GOOD, GOOD[:200], '{"machine": "none"}', '[]', GOOD.replace('nrc', 'nic')]):
	with open(os.path.join(sys.argv[1], f'plan{i}'), 'w') as f:
		f.write(text)
