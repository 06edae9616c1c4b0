#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Requests, answers and journals, for fuzz_lidtrack; the first byte says which."""
import os
import sys

RECORD = ('guid=0x0002c90300a1b2c3 guest=guest7 state={} epoch=3 peer=h9 function=2 lid=513 lmc=0 '
	  'pkeys=0xffff,0x8001')


def crc32c(data):
	crc = 0xffffffff
	for byte in data:
		crc ^= byte
		for _ in range(8):
			crc = crc >> 1 ^ (0x82f63b78 if crc & 1 else 0)
	return crc ^ 0xffffffff


def line(record):
	return f'{crc32c(record.encode()):08x} {record}\n'


JOURNAL = ''.join(line(RECORD.format(state)) for state in ('here', 'asking', 'detaching'))
SEEDS = {'ask': '\0lidtrack1 ask h1 h9 ' + RECORD.format('asking'), 'look': '\0lidtrack1 look h1 h9 guest=g state=gone',
	 'ok': '\1ok ' + RECORD.format('reserved'), 'none': '\1ok', 'refused': '\1refused no function is free',
	 'later': '\1later', 'why': '\1ok ' + RECORD.format('leaving') + ' | the SA does not answer', 'journal': '\2' + JOURNAL, 'torn': '\2' + JOURNAL[:-9],
	 'metadata': "\3<port guid='0x0002c90300a1b2c3' pkeys='0xffff,0x8001'/>",
	 'prefix': "\3<lidtrack:port xmlns:lidtrack='urn:urxe:lidtrack:1' guid='0x1'/>",
	 'fenced': '\2' + line(RECORD.format('here') + ' fence=0x1f00000000000001'),
	 'gone': '\2' + JOURNAL + line(RECORD.format('gone'))}
for name, text in SEEDS.items():
	with open(os.path.join(sys.argv[1], name), 'w') as f:
		f.write(text)
