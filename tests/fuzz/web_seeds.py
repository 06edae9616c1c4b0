#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""What comes to inbandd by HTTP, for fuzz_web: headers, tokens, arguments, bodies."""
import os
import sys

SEEDS = ["hBearer 0123456789abcdef", "ha=b; inbandd=0123456789abcdef; c=d", "hlocalhost:8470", "h[::1]:8470",
         "toperator 0123456789abcdef ada\n# all others\nviewer fedcba9876543210\n", "achip=S.leaf.3.7", "afrom=17",
         "aall", '{"port": "S.leaf.3.7:4", "ms": 1000}', '{"a": [{"b": {"c": 1e3}}], "d": "\\u00e9"}']
for i, text in enumerate(SEEDS):
    with open(os.path.join(sys.argv[1], f"web{i}"), "w") as f:
        f.write(text)
