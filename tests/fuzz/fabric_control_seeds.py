#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Seeds for fuzz_fabric_control: requests to fabricd, some to a file. Usage: fabric_control_seeds.py DIRECTORY"""
import json
import os
import sys

SEEDS = {
    "show": [{"command": "show"}, {"command": "show", "node": "a"}, {"command": "show", "node": "h1"}, {"command": "status"}],
    "link": [{"command": "link", "node": "a", "port": 1, "state": "down"}, {"command": "link", "node": "a", "port": 1, "state": "up"},
             {"command": "link", "node": "a", "port": 9, "state": "up"}],
    "node": [{"command": "node", "node": "v", "state": "down"}, {"command": "node", "node": "v", "state": "up"}],
    "errors": [{"command": "errors", "node": "a", "port": 3, "loss": 0.5, "symbol": 1e-6, "delay": 20000}, {"command": "errors", "node": "a", "port": 3, "loss": 7},
               {"command": "errors", "node": "a", "port": 3, "delay": 20000000000}, {"command": "errors", "node": "a", "port": 3, "delay": "1ms"}],
    "vf": [{"command": "vf"}, {"command": "vf", "node": "h2"}, {"command": "vf", "node": "h2", "function": 1, "guid": "0x1234", "name": "guest"},
           {"command": "vf", "node": "guest", "guid": "0", "state": "down"}, {"command": "vf", "node": "h2", "function": 1, "guid": "77"},
           {"command": "vf", "node": "v", "function": 1, "guid": "77", "force": True}, {"command": "vf", "node": "0x77", "state": "up"}],
    "down": [{"command": "down"}],
}
for name, requests in SEEDS.items():
    with open(os.path.join(sys.argv[1], name), "w") as f:
        f.write("\n".join(map(json.dumps, requests)) + "\n")
