# SPDX-License-Identifier: GPL-2.0-only
"""ccbpf top: flows below their processes, below their cgroups.

The sockets are real, and so is whose they are; the test writes the records of these sockets itself, which send nothing.
"""

from __future__ import annotations

import os
import re
import struct
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path

import pytest

from tests.cgroups import MOUNT, remove_cgroup
from tests.functional import kernel
from tests.functional.conftest import Cli
from tests.functional.records import flows_of
from tests.functional.rules.background import BACKGROUND, ENDS_S, PYTHON, Sinks
from tests.functional.tmux import Tmux
from tests.functional.top import NO_COOKIE, put, remove, shown

SLICE = f"cct-{os.getpid()}.slice"
BACKUP, MIRROR = f"/{SLICE}/backup.service", f"/{SLICE}/mirror.service"
UNKNOWN = 9  # the flow that no process holds

# Connects so often to a port of this host, and holds the connections until its standard input ends.
HOLD = """
import socket, sys
held = [socket.create_connection(("127.0.0.1", int(sys.argv[1]))) for _ in range(int(sys.argv[2]))]
print("connected", flush=True)
sys.stdin.read()
"""


@dataclass
class Owned:
    """Flows by number: 1, 2 of the first process and 3 of the second in BACKUP, 4 of the third in MIRROR, and UNKNOWN."""

    flows: kernel.Map
    processes: list[str] = field(default_factory=list)
    keys: dict[int, int] = field(default_factory=lambda: {UNKNOWN: NO_COOKIE})

    def put(self, number: int, **fields: object) -> None:
        key = self.keys[number]
        before = self.flows.lookup(struct.pack("=Q", key))
        cgroup = kernel.decode("ccbpf_flow", before).life.cgroup if before else 0
        put(self.flows, key, kind=kernel.KINDS[BACKGROUND], controller=BACKGROUND.encode(), started_ns=number,
            remote=f"192.0.2.{number}", remote_port=number, life={"cgroup": cgroup}, **fields)  # fmt: skip


@contextmanager
def process(cgroup: str, sinks: Sinks, connections: int) -> Iterator[str]:
    """A process in that cgroup, as top names it."""
    words = ["sh", "-c", f'echo $$ > {MOUNT}{cgroup}/cgroup.procs; exec "$@"', "sh", PYTHON, "-c", HOLD]
    words += [str(sinks.port), str(connections)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as it:
        assert it.stdin and it.stdout
        try:
            assert it.stdout.readline() == "connected\n"
            yield f"{Path(f'/proc/{it.pid}/comm').read_text().strip()} ({it.pid})"
        finally:
            it.stdin.close()
            it.wait(ENDS_S)


@contextmanager
def owned(run: Cli, sinks: Sinks) -> Iterator[Owned]:
    for cgroup in (BACKUP, MIRROR):
        (MOUNT / cgroup[1:]).mkdir(parents=True)
    run("assign", "--cgroup", f"/{SLICE}")
    try:
        with ExitStack() as stack:
            it = Owned(stack.enter_context(flows_of(run)))
            for cgroup, connections in ((BACKUP, 2), (BACKUP, 1), (MIRROR, 1)):
                it.processes.append(stack.enter_context(process(cgroup, sinks, connections)))
                new = {int(flow["key"]) for flow in run("-j", "flows").json["flows"]} - set(it.keys.values())
                assert len(new) == connections
                it.keys |= dict(enumerate(sorted(new), len(it.keys)))
            for number, cwnd in ((1, 10), (2, 30), (3, 20), (4, 40), (UNKNOWN, 99)):
                it.put(number, cwnd=cwnd, **({"phase": 2, "indications": 1} if number in (1, 3) else {}))
            yield it
    finally:
        remove_cgroup(MOUNT / SLICE)


def tree(lines: list[str]) -> list[tuple[int, str, str]]:
    """Below the titles: how far a line is indented, "-", "+" or "" of a flow, and the name or the flow's number."""
    found = []
    for line in lines[3:]:
        if head := re.match(r"( *)([-+]) (.+?): \d+ flow", line):
            found.append((len(head[1]), head[2], head[3]))
        elif flow := re.match(r"( *)(?:\S+ .*)?192\.0\.2\.(\d+):\2 ", line):
            found.append((len(flow[1]), "", flow[2]))
    return found


def of_process(name: str, *flows: int, sign: str = "-") -> list[tuple[int, str, str]]:
    return [(2, sign, name), *((4, "", str(flow)) for flow in flows)]


def expect(screen: Tmux, what: str, *parts: list[tuple[int, str, str]]) -> list[str]:
    return screen.until(lambda lines: tree(lines) == list(chain(*parts)), what)


def test_the_tree_is_what_a_person_sees_first(run: Cli, sinks: Sinks) -> None:
    """And batches go by controller, without a look at all open files."""
    with owned(run, sinks) as it:
        with Tmux([str(run.command), "top", "--watch", "0.25"], 80, 24, run.env()) as screen:
            lines = screen.until(lambda lines: len(tree(lines)) == 11, "five flows in three processes in two cgroups")
            assert lines[1].startswith("grouped by cgroup and process, sorted by rate")
            assert {name for indent, _, name in tree(lines) if indent == 2} == set(it.processes)
        assert "groups" not in run("top", "-bj", "--watch", "0.05", "--count", 1).json


@pytest.mark.parametrize(("width", "height"), [(80, 24), (200, 60)])
def test_sums_order_folds_and_the_cursor(run: Cli, sinks: Sinks, width: int, height: int) -> None:
    backup, mirror, unknown = (0, "-", BACKUP), (0, "-", MIRROR), [(0, "-", "unknown"), (4, "", str(UNKNOWN))]
    with owned(run, sinks) as it, shown(run, width, height, "--group", "tree", "--sort", "cwnd") as screen:
        one, two, three = it.processes
        of_mirror = [mirror, *of_process(three, 4)]
        # By the largest window: of the cgroups, of the processes in each, of their flows.
        whole = [*of_mirror, backup, *of_process(one, 2, 1), *of_process(two, 3), *unknown]
        lines = expect(screen, "all of it", whole)
        assert len(lines) == height and max(map(len, lines)) <= width
        assert [line.strip().partition(": ")[2] for line in lines[3:] if re.match(" *- ", line)] == [
            "1 flow, 0 bit/s, 0 yield", "1 flow, 0 bit/s, 0 yield",
            "3 flows, 0 bit/s, 2 yield (2 delay)", "2 flows, 0 bit/s, 1 yields (1 delay)", "1 flow, 0 bit/s, 1 yields (1 delay)",
            "1 flow, 0 bit/s, 0 yield",
        ]  # fmt: skip
        first = {80: ["REMOTE", "BIT/S"], 200: ["CONTROLLER", "LOCAL"]}[width]
        assert lines[2].split()[:2] == first and "FOR" in lines[2].split()

        # The cursor stays on the first process's flow 1, which goes up.
        screen.keys(*["Down"] * 6)
        it.put(1, cwnd=70, phase=2, indications=1)
        moved = [backup, *of_process(one, 1, 2), *of_process(two, 3), *of_mirror, *unknown]
        expect(screen, "another order", moved)
        screen.keys("Enter")
        screen.until(lambda lines: "to 192.0.2.1:1" in lines[0], "the detail of the flow that was chosen")
        screen.keys("Escape", "f")
        screen.until(lambda lines: "FROZEN" in lines[1], "the order is frozen")
        it.put(4, cwnd=90)
        it.put(3, cwnd=80)
        screen.until(lambda lines: any(re.search(r"192\.0\.2\.4:4 .* 90 ", line) for line in lines), "other windows")
        expect(screen, "the same order", moved)

        # "-" folds what the cursor is in, and then what that is in.
        screen.keys("-")
        folded = [(2, "+", one)]
        expect(screen, "the process is folded", [backup, *folded, *of_process(two, 3), *of_mirror, *unknown])
        screen.keys("-")
        expect(screen, "its cgroup is folded", [(0, "+", BACKUP), *of_mirror, *unknown])
        screen.keys("Right")
        expect(screen, "the cgroup is open", [backup, *folded, *of_process(two, 3), *of_mirror, *unknown])
        screen.keys("a")
        expect(screen, "all is open", moved)
        screen.keys("a")
        expect(screen, "processes are folded", [backup, *folded, (2, "+", two), mirror, (2, "+", three), *unknown])
        screen.keys("a")
        expect(screen, "cgroups are folded", [(0, "+", BACKUP), (0, "+", MIRROR), (0, "+", "unknown")])
        screen.keys("a", "f")
        of_mirror = [mirror, *of_process(three, 4)]
        expect(screen, "open, and in the order of the windows",
               [*of_mirror, backup, *of_process(two, 3), *of_process(one, 1, 2), *unknown])  # fmt: skip

        screen.resize(280 - width, 84 - height)
        lines = screen.until(lambda lines: len(lines) == 84 - height and len(tree(lines)) == 11, "another size")
        assert max(map(len, lines)) <= 280 - width
        screen.keys("/", *"MIRROR.serv", "Enter")
        lines = expect(screen, "one unit", of_mirror)
        assert lines[0] == "ccbpf top: 1 flow, 0 bit/s, 0 yield"
        screen.keys("/", "Escape")
        remove(it.flows, it.keys[4])
        screen.until(lambda lines: re.search(rf"- {MIRROR}: 0 flows.*, 1 ended", "\n".join(lines)), "its group stays for a while")
        screen.keys("q")
        assert screen.ended() == 0


def test_the_tree_in_batches(run: Cli, sinks: Sinks) -> None:
    with owned(run, sinks) as it:
        words = ("--watch", "0.05", "--count", 1, "--group", "tree", "--sort", "cwnd")
        batch = run("top", "-bj", *words).json
        one, two, three = it.processes
        owners = {flow["remote_port"]: (flow["cgroup"], flow["process"]) for flow in batch["flows"]}
        assert list(owners.items()) == [(4, (MIRROR, three)), (2, (BACKUP, one)), (1, (BACKUP, one)), (3, (BACKUP, two)),
                                        (UNKNOWN, (None, None))]  # fmt: skip
        sums = [(group["cgroup"], group["n_flows"], group["yield_to_delay"],
                 [(process["process"], process["n_flows"], process["yield_to_delay"]) for process in group["processes"]])
                for group in batch["groups"]]  # fmt: skip
        assert sums == [(MIRROR, 1, 0, [(three, 1, 0)]), (BACKUP, 3, 2, [(one, 2, 1), (two, 1, 1)]), (None, 1, 0, [])]
        figures = {"n_flows", "goodput_bps", "yield_to_delay", "yield_to_mark", "yield_to_loss"}
        assert set(batch["groups"][0]) == figures | {"cgroup", "processes"}
        assert set(batch["groups"][0]["processes"][0]) == figures | {"process"}
        assert "group" not in batch["flows"][0]

        table = run.with_columns(99)("top", "-b", *words).out.splitlines()
        assert table[0].split()[:3] == ["CGROUP", "PROCESS", "CONTROLLER"] and max(map(len, table[:6])) <= 99
        assert table[5].split()[:3] == ["-", "-", BACKGROUND]
        assert table[6:] == [
            f"{MIRROR}: 1 flow, 0 bit/s, 0 yield",
            f"  {three}: 1 flow, 0 bit/s, 0 yield",
            f"{BACKUP}: 3 flows, 0 bit/s, 2 yield (2 delay)",
            f"  {one}: 2 flows, 0 bit/s, 1 yields (1 delay)",
            f"  {two}: 1 flow, 0 bit/s, 1 yields (1 delay)",
            "unknown: 1 flow, 0 bit/s, 0 yield",
            "5 flows, 0 bit/s, 2 yield (2 delay)",
            "",
        ]  # fmt: skip
