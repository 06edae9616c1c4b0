#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Seeds for fuzz_responder (which documents the commands): every operation carried through, with
loss, duplicates and errors, and long random mixtures. Usage: responder_seeds.py DIRECTORY"""
import random
import sys

RC_A, RC_B, RC_SRQ, RC_RTR, RC_INIT, RC_ERR, RC_SQD, UC_A, UC_B, UD_A, UD_B, XRC_A, XRC_B = range(13)
ALL, WRITE, READ, LOCAL, CONSTANT, SECRET = range(6)
DELIVER, LOSE, TWICE, POLL = [6], [7], [8], [13]


def send(qp, op, key=ALL, local=ALL, length=64, offset=0, flags=2):
    return [9, qp, op, key, flags, local, length, offset & 255]


def recv(qp, local=ALL, length=250):
    srq = 1 if qp in (RC_SRQ, UD_B) else 3 if qp == XRC_B else 0
    return [10, (srq or qp << 1) | 0x40, local, length]


def inject(qp, opcode, key=ALL, length=64, flags=8, psn=0, offset=0, rest=(), way=0):
    body = [opcode, way] + [0] * 38
    for place, value in enumerate(rest):
        body[24 + place] = value
    return [0, qp, flags, psn & 255, key, offset & 255, length] + body[:min(40, 12 + length // 4 * 4)]


def state(qp, to):
    return [11, qp, to]


def time(how):
    return [12, how]


def neighbours(how):
    return [15, how]


CLEAR, OTHER = 0x40, 0x20  # ways of a packet: MigReq = 0, by the second GID
MIGRATED, REARM = 0, 1


def migration(qp, state, load=False, other=True):
    return [5, qp, 8 | state | (4 if load else 0) | (16 if other else 0)]


def window(qp, how, addr=0, length=8):
    return [14, qp, how, addr, length] if how & 1 else [14, qp, how]


def scenarios():
    pairs = {RC_A: RC_B, RC_SRQ: RC_SRQ, UC_A: UC_B, UD_A: UD_B, XRC_A: XRC_B}
    for a, b in pairs.items():
        for op in range(9):
            for length in (0, 8, 64, 220, 235, 250):
                yield recv(b) + send(a, op, length=length) + DELIVER * 20 + POLL
    for op in range(9):
        for key in range(8):
            yield recv(RC_B) + send(RC_A, op, key=key, length=8) + DELIVER * 6 + POLL
            yield recv(RC_B) + send(RC_A, op, local=key, length=235) + DELIVER * 6 + POLL
    for op in range(7):
        lossy = recv(RC_B) * 4 + send(RC_A, op, length=250) * 3
        yield lossy + (LOSE + DELIVER * 3) * 6 + time(17) + DELIVER * 60 + POLL
        yield lossy + (TWICE + DELIVER) * 30 + time(17) + DELIVER * 60 + POLL
        yield lossy + (LOSE + time(17)) * 12 + POLL
        yield send(RC_A, op, length=250) + DELIVER * 4 + state(RC_A, 4) + DELIVER * 20 + state(RC_A, 3)
        yield send(RC_A, op, length=250) + DELIVER * 4 + state(RC_B, 6) + DELIVER * 20 + POLL
        yield (send(RC_A, op, length=8) + time(14) + DELIVER * 3) * 5 + POLL  # no receive WR
    for opcode in range(32):
        for length in (0, 4, 12, 16, 28, 230, 231):
            for qp in range(11):
                yield recv(qp) + inject(qp, opcode, length=length, rest=[0, 0, 0, max(0, length - 16)]) * 2
        yield recv(RC_B) + inject(RC_B, opcode, flags=12, psn=-1, length=16, rest=[0, 0, 0, 16])
        for key in range(8):
            yield inject(RC_B, opcode, key=key, length=28, rest=[0, 0, 0, 12])
            yield inject(UC_B, opcode, key=key, length=28, rest=[0, 0, 0, 12])
        yield send(RC_A, opcode % 9, length=235) + inject(RC_A, opcode, flags=12, psn=1, length=220)
    for a, b in ((RC_A, RC_B), (UC_A, UC_B), (XRC_A, XRC_B), (RC_SRQ, RC_SRQ)):
        rearm = migration(a, REARM, True) + migration(b, REARM, True)
        message = recv(b) + send(a, 2, length=64) + DELIVER * 4 + POLL
        for end in (a, b):
            for op in range(9):
                armed = rearm + message + recv(b) * 3 + send(a, op, length=235) + DELIVER * 2
                yield armed + migration(end, MIGRATED) + DELIVER * 30 + time(17) + DELIVER * 30 + POLL
                yield armed + (LOSE + time(17)) * 5 + DELIVER * 30 + (LOSE + time(17)) * 5 + POLL
            back = migration(a, REARM, True, False) + migration(b, REARM, True, False)
            yield rearm + message + migration(end, MIGRATED) + message + back + message + migration(end, MIGRATED) + message
            for near in (1, 9):
                yield neighbours(near) + rearm + message * 2 + migration(end, MIGRATED) + message * 3
        for way in (0, CLEAR, OTHER, CLEAR | OTHER):
            for opcode in (0, 4, 10, 12, 17, 18, 20):
                one = inject(b, opcode, length=28, rest=[0, 0, 0, 12], way=way)
                yield rearm + recv(b) * 2 + one + one
                yield rearm + message + recv(b) * 2 + one + inject(b, opcode, length=28, rest=[0, 0, 0, 12], way=way ^ OTHER)
    yield window(RC_B, 7) + send(RC_A, 0, key=7, length=8) + DELIVER * 4 + window(RC_B, 0) + POLL
    yield (window(RC_B, 7) + recv(RC_B) + send(RC_A, 0, key=7, length=8, flags=66)) + DELIVER * 8 + POLL
    for how in (1, 3, 7):  # runs of packets; references; those to memory that has gone
        for op in range(9):
            for length in (8, 220, 249, 250, 255):
                for a, b in ((RC_A, RC_B), (UC_A, UC_B)):
                    began = neighbours(how) + recv(b, ALL, 255) * 2 + send(a, op, ALL, READ, length) * 2
                    yield began + DELIVER * 20 + POLL
                    yield began + (LOSE + TWICE + DELIVER * 2) * 4 + time(17) + DELIVER * 20 + POLL
                    yield began + DELIVER + neighbours(0) + time(17) + DELIVER * 40 + POLL
        for opcode in range(12):
            for flags in (72, 136, 200):
                yield recv(RC_B) + inject(RC_B, opcode, flags=flags, length=231, rest=[0, 0, 1, 0])


def random_one(rng):
    out = []
    for _ in range(rng.randrange(20, 150)):
        qp, peer = rng.choice([(RC_A, RC_B), (RC_B, RC_A), (RC_SRQ, RC_SRQ), (UC_A, UC_B),
                               (UD_A, UD_B), (rng.randrange(11), rng.randrange(11))])
        key = ALL if rng.random() < .8 else rng.randrange(8)
        out += rng.choices([
            send(qp, rng.randrange(9), key, rng.choice([ALL, ALL, LOCAL, READ]),
                 rng.randrange(256), rng.choice([0, 0, 1, 255]), rng.choice([0, 1, 2, 4, 34, 66])),
            recv(peer, rng.choice([ALL, LOCAL]), rng.randrange(256)),
            DELIVER * rng.randrange(8), LOSE, TWICE, time(rng.randrange(20)), POLL,
            neighbours(rng.randrange(8)), state(qp, rng.randrange(7)), window(qp, rng.randrange(256), 3, 9),
            inject(qp, rng.randrange(32), key, rng.randrange(256), rng.randrange(256),
                   rng.randrange(256), rng.randrange(256), way=rng.randrange(256)),
            migration(qp, rng.randrange(4), rng.random() < .7, rng.random() < .5),
        ], [6, 6, 12, 1, 1, 2, 1, 1, .3, 1, 1, .5])[0]
    return out


def short_messages(rng):
    """Small messages between neighbours, one at a time and several: what has a short way, and what nearly has."""
    out = neighbours(rng.choice([1, 9])) + recv(RC_B, ALL, 64) * 2 + recv(RC_A, ALL, 64) * 2
    for _ in range(rng.randrange(20, 150)):
        qp = rng.choice([RC_A, RC_B, RC_A, RC_B, RC_SRQ])
        peer = {RC_A: RC_B, RC_B: RC_A, RC_SRQ: RC_SRQ}[qp]
        out += rng.choices([
            send(qp, rng.choice([2, 2, 2, 3]), ALL, rng.choice([ALL, ALL, LOCAL, READ]),
                 rng.choice([0, 1, 8, 16, 31, 64, 220]), 0, rng.choice([0, 2, 4, 6, 34, 35, 1])),
            send(qp, rng.randrange(9), ALL, rng.choice([ALL, READ]), 8, 0, 2),
            recv(peer, rng.choice([ALL, ALL, LOCAL, READ]), rng.choice([8, 64, 220])),
            DELIVER, LOSE, TWICE, time(rng.randrange(24)), POLL, neighbours(rng.choice([0, 1, 8, 9])),
            state(qp, rng.randrange(7)),
        ], [6, 1, 6, 9, .3, .5, 1, 1, .5, .2])[0]
    return out


def main():
    rng = random.Random(1)
    seeds = list(scenarios()) + [random_one(rng) for _ in range(400)]
    seeds += [short_messages(rng) for _ in range(400)]
    for number, seed in enumerate(seeds):
        with open(f"{sys.argv[1]}/{number:04}", "wb") as out:
            out.write(bytes(seed))


main()
