#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Seeds for fuzz_ipc (which documents the commands): requests that are lent and come back, those of others that are
carried out, handles of other processes, changed bytes, and long random mixtures. Usage: ipc_seeds.py DIRECTORY"""
import random
import sys

SEND_FIRST, SEND_MIDDLE, SEND_LAST, SEND_ONLY = 0xa0, 0xa1, 0xa2, 0xa4
WRITE_FIRST, WRITE_LAST, WRITE_ONLY, WRITE_IMM, READ, SWAP, ADD = 0xa6, 0xa8, 0xaa, 0xab, 0xac, 0xb3, 0xb4
OPCODES = [SEND_FIRST, SEND_MIDDLE, SEND_LAST, SEND_ONLY, WRITE_FIRST, WRITE_LAST, WRITE_ONLY, WRITE_IMM, READ, SWAP, ADD]
OURS, THEIRS, ACK = 0, 1, 0x40
ALL, READ_ONLY, SECRET = range(3)
AS_IT_IS = [0]
FULL, RENEWED, LOOK = 0x80, 2, 0x40
RESET, INIT, RTR, ERR = 0, 1, 2, 6


def packet(opcode=SEND_ONLY, srq=OURS, psn=0, length=64, region=ALL, addressed=None):
    """Behind its headers at most 32 bytes are given; with an address 12 of them are filled in."""
    if addressed is None:
        addressed = opcode in (WRITE_FIRST, WRITE_ONLY, WRITE_IMM, READ, SWAP, ADD)
    body = [0] * 12 + [0, 0, 0, max(0, length - 16)] + [7] * 16
    return [srq | ACK, opcode, region | (8 if addressed else 0), length, psn & 255] + body[:min(32, length // 4 * 4)]


def request(*args, **how):
    return [7] + packet(*args, **how)


def state(psn=0, last=SEND_ONLY, ack=True, failed=False, busy=None, left=None, region=ALL):
    how = next(h for h in range(128) if h % 3 == region and bool(h & 4) == (left is not None)
               and bool(h & 8) == (busy is not None) and bool(h & 16) == ack and ((h & 0x60) == 0x60) == failed)
    return ([how] + ([left & 255, left >> 8] if how & 4 else []) + [psn & 255, 1, (psn - 1) & 255, last]
            + ([busy] if how & 8 else []) + [(psn - 1) & 255, 0x1f, 3])


def lend(packets, slot=0, qpn=2, of=None, change=AS_IT_IS):
    return [1, slot, qpn << 4 | len(packets)] + (of or state()) + sum(packets, []) + change


def returned(of=None, turn=0, slot=1, change=AS_IT_IS):
    return [3, slot, turn & 255] + (of or state(1)) + change


def come_back(slot=0, change=AS_IT_IS):
    return [6, slot] + change


def call(verb, slot=0, mask=0, attributes=(0, 0, 0, 0, 0), change=AS_IT_IS):
    return [5, slot, verb, *mask.to_bytes(4, 'little'), *attributes] + change


def changes(*bytes_at, cut=None, others=False):
    out = [len(bytes_at) | (0x40 if cut is not None else 0) | (0x80 if others else 0)]
    for at, value in bytes_at:
        out += [at & 255, at >> 8, value]
    return out + ([cut & 255, cut >> 8] if cut is not None else [])


def packets(opcode, target=0, hops=0, many=0, change=AS_IT_IS, **how):
    return [0, target ^ 1, hops, many] + packet(opcode, **how) + change


RECV, POLL = [8, ALL, 60], [9]
OPEN, CLOSE, QUERY, MODIFY = range(4)
FORMER = 0x80
STATE = 1


def time(how):
    return [10, how]


def others(how):
    return [11, how]


def bring_to(to):
    return [12, to]


def open_theirs(*answers):
    return [13, 2] + sum(answers or ([0] + AS_IT_IS, [0] + AS_IT_IS), [])


def scenarios():
    for opcode in OPCODES:
        for length in (0, 16, 28, 64, 252):
            one = request(opcode, THEIRS, length=length)
            yield one + come_back() + come_back()
            yield one + returned() + request(opcode, THEIRS, length=length) + returned(state(2))
            yield RECV * 2 + lend([packet(opcode, length=length)]) + time(4) + POLL + come_back()
            yield RECV * 2 + request(opcode, length=length) + one + returned() + POLL
        for region in (READ_ONLY, SECRET):
            yield RECV + lend([packet(opcode, length=24, region=region)]) + time(4) + POLL
        for target in (0, 1):
            for many in range(4):
                yield RECV + packets(opcode, target, 0, many) + packets(opcode, target, 3, many)
    parts = [packet(SEND_FIRST, length=252), packet(SEND_MIDDLE, psn=1, length=252), packet(SEND_LAST, psn=2)]
    yield RECV + lend(parts) + time(4) + POLL
    yield RECV + lend(parts[:1]) + lend(parts[1:], of=state(1, SEND_FIRST, busy=0)) + time(4) + POLL + [4, 0, 2]
    yield RECV + lend(parts[:1]) + [14, 1] + lend(parts[1:], of=state(1, SEND_FIRST, busy=0))
    yield RECV + lend([packet(READ, length=16)] * 3) + time(4) * 4 + come_back()
    yield request(SEND_ONLY, THEIRS) * 4 + returned() + returned(state(2)) + come_back()
    yield request(SEND_FIRST, THEIRS, length=252) + returned(state(1, SEND_FIRST, busy=1)) + request(SEND_LAST, THEIRS, 1)
    yield request(SEND_FIRST, THEIRS, length=252) + returned(state(1, SEND_FIRST, busy=1)) + RECV + request(SEND_ONLY, OURS, 1)
    yield request(SEND_ONLY, THEIRS) + request(SEND_ONLY, OURS, 1) + request(SEND_ONLY, THEIRS | 2, 2) + returned()
    yield request(SEND_ONLY, THEIRS) + returned(state(1, failed=True)) + bring_to(RESET) + bring_to(INIT) + bring_to(RTR)
    yield request(SEND_ONLY, THEIRS) + time(23) * 140 + request(SEND_ONLY, THEIRS, 1) + returned()
    for how in (0, RENEWED, LOOK, RENEWED | LOOK, RENEWED | LOOK | 1):
        yield request(SEND_ONLY, THEIRS) + others(how) + time(20) + request(SEND_ONLY, THEIRS, 1) + returned()
        yield RECV + lend([packet(SEND_FIRST, length=252)]) + others(how) + lend([packet(SEND_LAST, psn=1)])
        yield call(OPEN) + others(how) + [14, 0] + call(QUERY)
    for to in (RESET, INIT, ERR):
        yield request(SEND_ONLY, THEIRS) + bring_to(to) + returned() + bring_to(INIT) + bring_to(RTR) + request(SEND_ONLY, THEIRS)
        for verb in (QUERY, CLOSE, 4):
            yield call(OPEN) * 2 + bring_to(to) + call(verb) * 3
        yield call(OPEN) + call(MODIFY, mask=STATE, attributes=(to, 0, 0, 1, 3)) + call(QUERY) + come_back()
    for bit in range(26):
        yield call(OPEN) + call(MODIFY, mask=1 << bit, attributes=(3, 2, 1, 1, 3))
        yield call(OPEN) + call(MODIFY, mask=1 << bit | STATE, attributes=(6, 2, 9, 255, 255))
    yield call(OPEN) + [14, 0] + call(CLOSE) + call(OPEN, 1) + call(CLOSE) + call(CLOSE, 1)
    yield call(OPEN) * 2 + [14, 0] + call(FORMER | QUERY) + call(FORMER | CLOSE) * 3
    yield call(OPEN) + request(SEND_ONLY, THEIRS) + [14, 0] + call(FORMER | MODIFY, mask=STATE) + call(FORMER | CLOSE)
    yield others(FULL | 1) + request(SEND_ONLY, THEIRS) + call(OPEN) + time(9) + others(1) + time(9) + returned()
    yield others(FULL | 1) + call(OPEN) * 3 + time(23) * 250
    yield open_theirs() + open_theirs([22] + AS_IT_IS) + others(FULL | 1) + open_theirs()
    yield [15, 0] + [15, 9]
    for at in range(0, 64 + 160, 3):
        for value in (0, 1, 255):
            change = changes((at, value))
            yield RECV + lend([packet()], change=change) + time(4)
            yield request(SEND_ONLY, THEIRS) + come_back(0, change) + come_back(0, change)
            yield call(OPEN, change=change) + call(OPEN) + call(QUERY) + come_back(0, change)
            yield open_theirs([0] + change, [0] + AS_IT_IS)
            yield RECV + packets(SEND_ONLY, 0, 1, 2, change)
    for cut in range(0, 300, 7):
        yield RECV + lend([packet()] * 2, change=changes(cut=cut)) + time(4)
        yield packets(SEND_ONLY, change=changes(cut=cut)) + call(OPEN, change=changes(cut=cut))
    yield lend([packet()], change=changes(others=True))


def random_one(rng):
    def change():
        if rng.random() < .8:
            return AS_IT_IS
        return changes(*[(rng.randrange(600), rng.choice([0, 1, 3, 0x7f, 0x80, 0xff, rng.randrange(256)]))
                         for _ in range(rng.randrange(4))], cut=rng.choice([None, None, rng.randrange(600)]))

    def any_packet():
        return packet(rng.choice(OPCODES), rng.choice([OURS, OURS, THEIRS, THEIRS | 2]), rng.choice([0, 0, 0, 1, -1]),
                      rng.choice([0, 16, 28, 64, 252]), rng.choice([ALL, ALL, READ_ONLY, SECRET]))

    def any_state():
        return state(rng.randrange(-2, 6), rng.choice(OPCODES), rng.random() < .5, rng.random() < .1,
                     rng.choice([None, None, 0, 1]), rng.choice([None, 64]))

    out = []
    for _ in range(rng.randrange(20, 100)):
        out += rng.choices([
            [7] + any_packet(),
            lend([any_packet() for _ in range(rng.randrange(5))], rng.randrange(2), rng.randrange(4), any_state(), change()),
            returned(any_state(), rng.choice([0, 0, 0, -1]), 1, change()), come_back(rng.randrange(2), change()),
            call(rng.randrange(5) | rng.choice([0, 0, FORMER]), rng.randrange(2), rng.choice([0, 1, 1 << rng.randrange(26)]),
                 [rng.randrange(8) for _ in range(5)], change()),
            packets(rng.choice(OPCODES), rng.randrange(2), rng.randrange(4), rng.randrange(4), change()),
            RECV, POLL, time(rng.randrange(24)), others(rng.choice([1, 1, rng.randrange(256)])),
            bring_to(rng.choice([RESET, INIT, RTR, ERR])), open_theirs(), [14, rng.randrange(2)], [4, rng.randrange(2), 2],
        ], [8, 5, 5, 4, 3, 2, 5, 1, 3, 1, 1, .3, .3, .5])[0]
    return out


def main():
    rng = random.Random(1)
    for number, seed in enumerate(list(scenarios()) + [random_one(rng) for _ in range(300)]):
        with open(f"{sys.argv[1]}/{number:04}", "wb") as out:
            out.write(bytes(seed))


main()
