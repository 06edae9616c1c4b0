#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Seeds for fuzz_cm (which documents the commands): connections made from either side, refused, ended
and repeated, and long random mixtures. Usage: cm_seeds.py DIRECTORY"""
import os
import random
import sys

REQ, MRA, REJ, REP, RTU, DREQ, DREP, SIDR_REQ, SIDR_REP, LAP, APR = range(11)
KEEP = [0]


def message(attr, of=0, *detail):
    """A message about identifier `of`, as it should be."""
    return [of << 4 | 1, attr, *detail]


def call(what, of=0, *detail):
    return [of << 4 | what, *detail]


def wait(ticks):
    return [15, ticks]


# local ID, QPN, no bends, a listener, and the handler goes on
REQUEST = message(REQ, 0, 1, 1, 0, 0) + KEEP
REPLY = message(REP, 0, 2, 0) + KEEP
CONNECT = call(8, 0, 1, 10, 3)
PASSIVE = REQUEST + call(9, 0, 1, 3)
ESTABLISHED = PASSIVE + message(RTU, 0, 0) + KEEP
ACTIVE = CONNECT + REPLY + call(10, 0, 0, 3, 0)
GONE = message(DREQ, 0, 0) + KEEP

SEEDS = [
    REQUEST, PASSIVE, ESTABLISHED, ACTIVE,
    ESTABLISHED + GONE + call(11, 0, 0, 3, 0) + wait(255) * 4,
    ACTIVE + call(11, 0, 0, 3, 0) + message(DREP, 0, 0) + KEEP + wait(255) * 4,
    ACTIVE + message(REP, 0, 2, 0) + call(13, 0, 0, 3),
    PASSIVE + wait(255) * 40,
    CONNECT + wait(255) * 40,
    CONNECT + message(MRA, 0, 0, 0) + KEEP + wait(255) * 40,
    REQUEST + call(12, 0, 0, 3, 1, 20) + REQUEST + call(9, 0, 1, 3),
    REQUEST + call(12, 0, 0, 3, 0, 28),
    CONNECT + message(REJ, 0, 28, 0) + KEEP,
    call(14) + message(SIDR_REP, 0, 0) + KEEP,
    message(SIDR_REQ, 0, 1, 0, 0) + KEEP + call(14, 0, 0),
    REQUEST * 3 + PASSIVE, ESTABLISHED + REQUEST,
]


def mixture(generator):
    body = []
    for _ in range(generator.randrange(20, 200)):
        of = generator.randrange(4)
        if generator.randrange(2):
            body += message(generator.randrange(11), of, *generator.choices(range(8), k=3))
        else:
            body += call(generator.randrange(8, 16), of, *generator.choices(range(16), k=3))
    return body


def main(directory):
    os.makedirs(directory, exist_ok=True)
    generator = random.Random(1)
    for number, body in enumerate(SEEDS + [mixture(generator) for _ in range(60)]):
        with open(os.path.join(directory, f'seed{number}'), 'wb') as out:
            out.write(bytes(body))


if __name__ == '__main__':
    main(sys.argv[1])
