#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Requests of inbandctl, for fuzz_inbandd."""
import os
import sys

REQUESTS = [
	'{"command":"status"}', '{"command":"discover"}', '{"command":"check"}',
	'{"command":"show","chip":"nrc:1"}', '{"command":"trace","from":1,"to":9}',
	'{"command":"read","chip":"nrc:1","address":4}',
	'{"command":"scan","compare":5,"loop":1,"count":2,"worst":3,"thresholds":"retries=1,errors=2"}',
	'{"command":"bist","port":"nrc:1:4","ms":5,"intensity":100}', '{"command":"bist","under":"nrc"}',
	'{"command":"eeprom","what":"verify","chip":"nrc:1","bytes":"00ff","address":3}',
	'{"command":"alarms","all":true}', '{"command":"ack","id":1}', '{"command":"watch","after":0}',
	'{"command":"events","name":"raised","count":3}', '{"command":"audit","count":3}',
	'{"command":"baseline","what":"save","name":"a"}', '{"command":"baseline","what":"diff","name":"a"}',
	'{"command":"baseline","what":"list"}', '{"command":"baseline","what":"drop","name":"a"}',
	'{"command":"suppress","what":"add","port":"nrc:1:4","why":"so"}',
	'{"command":"suppress","what":"list"}', '{"command":"suppress","what":"drop","port":"nrc:1:4"}',
	'{"command":"save"}', '{"command":"export","what":"topology"}',
	'{"command":"export","what":"slurm","prefix":"n"}', '{"command":"export","what":"drain"}', '{"command":"export","what":"routes"}',
	'{"command":"routes"}',
]
for i, text in enumerate(REQUESTS):
	with open(os.path.join(sys.argv[1], f'request{i}'), 'w') as f:
		f.write(text)
