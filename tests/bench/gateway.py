# SPDX-License-Identifier: GPL-2.0-only
"""What a gateway costs: nanoseconds of its two tc programs for each packet, over an empty one in the same places.

The receiver of the bench is its own router: without `--host` a gateway holds also the downloads of the host that it is on.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.bench.downloads import Receiver
from tests.bench.shell import CCBPF, sh

DEVICE = "veth0"  # of the receiver, towards the sender
PROGRAMS = {"ingress": "gateway_in", "egress": "gateway_out"}  # the data, and its ACKs

Calls = dict[str, tuple[int, int]]  # program: nanoseconds and calls so far


@contextmanager
def attached(namespace: str, empty: Path) -> Iterator[None]:
    """A gateway, and behind it an empty program in each direction."""

    def inside(*arguments: str) -> str:
        return sh("ip", "netns", "exec", namespace, *arguments)

    try:
        inside(str(CCBPF), "gateway", "attach", DEVICE)
        inside("tc", "qdisc", "add", "dev", DEVICE, "clsact")
        for way in PROGRAMS:
            inside("tc", "filter", "add", "dev", DEVICE, way, "bpf", "da", "obj", str(empty), "sec", "tc")
        yield
    finally:
        within = ("ip", "netns", "exec", namespace)
        subprocess.run([*within, "tc", "qdisc", "del", "dev", DEVICE, "clsact"], capture_output=True)
        subprocess.run([*within, str(CCBPF), "gateway", "detach", DEVICE], capture_output=True)


def filters(namespace: str) -> dict[int, str]:
    """The id of the empty program in each direction: the way."""
    found: dict[int, str] = {}
    for way in PROGRAMS:
        shown = json.loads(sh("ip", "netns", "exec", namespace, "tc", "-j", "filter", "show", "dev", DEVICE, way))
        found |= {one["options"]["prog"]["id"]: way for one in shown if "prog" in one.get("options", {})}
    return found


def so_far(empty: dict[int, str]) -> Calls:
    ways = {name: way for way, name in PROGRAMS.items()}
    calls: Calls = {}
    for program in json.loads(sh("bpftool", "-j", "prog", "show")):
        spent = program.get("run_time_ns", 0), program.get("run_cnt", 0)
        if program.get("name") in ways:
            calls[ways[program["name"]]] = spent
        elif program["id"] in empty:
            calls[f"empty {empty[program['id']]}"] = spent
    return calls


def measure(receiver: Receiver, empty: Path, rounds: int, say: Callable[[int], None]) -> list[dict[str, float]]:
    """For each round: nanoseconds per packet of the gateway and of the empty program, by direction."""
    found = []
    with attached(receiver.namespace, empty):
        empties = filters(receiver.namespace)
        for number in range(rounds):
            say(number)
            before = so_far(empties)
            receiver.transfer()
            after = so_far(empties)
            found.append({name: (ns - before[name][0]) / (calls - before[name][1]) for name, (ns, calls) in after.items()})
    return found
