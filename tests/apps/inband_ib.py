#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""inbandd on InfiniBand against infiniband-diags: inband_ib.py CONTROL URL STEP, commands of theirs by "$ON"."""
import json
import os
import random
import re
import socket
import struct
import subprocess
import sys
import urllib.request

NONE = 0xffffffff


def run(*words):
    return subprocess.run([*os.environ.get("ON", "").split(), *words], check=True, capture_output=True, text=True).stdout


class Control:
    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect(path)
        self.file = self.socket.makefile("rw")

    def ask(self, command, **members):
        self.file.write(json.dumps({"command": command, **members}) + "\n")
        self.file.flush()
        return json.loads(self.file.readline())


def model(url):
    """Links as the page gets them: ends are GUID and port."""
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(url + "/model") as answer:
        data = answer.read()
    length, = struct.unpack_from("<I", data)
    head = json.loads(data[4:4 + length])
    letter = {"Uint8": "B", "Uint16": "H", "Uint32": "I", "BigUint64": "Q"}
    column = {c["name"]: struct.unpack_from(f"<{c['length']}{letter[c['type']]}", data, 4 + length + c["at"])
              for c in head["columns"] if c["type"] != "text"}
    links, at = set(), 0
    for device, ports in enumerate(column["ports"]):
        for port in range(ports):
            peer = column["peer"][at]
            if peer != NONE and column["portState"][at] & 3 == 2:
                links.add(frozenset([(column["id"][device], port), (column["id"][peer], column["peerPort"][at])]))
            at += 1
    return set(column["id"]), links


def diags():
    """The same from ibnetdiscover."""
    guids, links, names, rows = set(), set(), {}, []
    for line in run("ibnetdiscover", "-o", "64").splitlines():
        if found := re.match(r"(?:switch|ca|rt)guid=0x([0-9a-f]+)", line):
            guid = int(found[1], 16)
            guids.add(guid)
        elif found := re.match(r'(?:Switch|Ca|Rt)\s+\d+ "([^"]+)"', line):
            names[found[1]] = guid
        elif found := re.match(r'\[(\d+)\](?:\([0-9a-f]+\))?\s+"([^"]+)"\[(\d+)\]', line):
            rows.append((guid, int(found[1]), found[2], int(found[3])))
    for guid, port, peer, peer_port in rows:
        links.add(frozenset([(guid, port), (names[peer], peer_port)]))
    return guids, links


def same(control, url):
    ours, theirs = model(url), diags()
    assert ours[0] == theirs[0], (len(ours[0]), len(theirs[0]), sorted(ours[0] ^ theirs[0])[:5])
    assert ours[1] == theirs[1], (len(ours[1]), len(theirs[1]), list(ours[1] ^ theirs[1])[:5])
    status = Control(control).ask("status")["model"]
    assert status["links"] == len(theirs[1]), (status, len(theirs[1]))
    print(f"{len(ours[0])} devices, {len(ours[1])} links")


def their_way(text):
    """Each hop of ibtracert: by which port a device is left, and which is next."""
    return [(int(out), int(guid, 16)) for out, guid in re.findall(r"^\[(\d+)\] -> \S+ port \{0x([0-9a-f]+)\}", text, re.M)]


def traces(control, url, pairs=200):
    rows = re.findall(r"^caguid=0x([0-9a-f]+)\nCa.*\n\[1\].*# lid (\d+) ", run("ibnetdiscover"), re.M)
    lids = {int(guid, 16): lid for guid, lid in rows}
    seed = int(os.environ.get("SEED", "7"))
    rng, control = random.Random(seed), Control(control)
    for _ in range(pairs):
        a, b = rng.sample(sorted(lids), 2)
        theirs = their_way(run("ibtracert", lids[a], lids[b]))
        answer = control.ask("trace", **{"from": f"0x{a:x}", "to": f"0x{b:x}"})
        assert answer["ok"] and answer["arrived"], (seed, answer)
        path = answer["path"]
        shown = [int(control.ask("show", chip=hop["at"])["id"]) for hop in path]
        ours = [(path[i]["out"], shown[i + 1]) for i in range(len(path) - 1)]
        # ibtracert names ports by their GUIDs, adapters' by the port's.
        assert len(ours) == len(theirs) and [h[0] for h in ours] == [h[0] for h in theirs] and \
            [h[1] for h in ours[:-1]] == [h[1] for h in theirs[:-1]], (seed, ours, theirs)
    print(f"{pairs} traces are ibtracert's")


def main():
    control, url, *steps = sys.argv[1:]
    for step in steps:
        globals()[step](control, url)


main()
