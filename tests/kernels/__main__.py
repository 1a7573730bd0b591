# SPDX-License-Identifier: GPL-2.0-only
"""make kernels: every controller, the queue nf_red, `run`, `assign`, `renice` and downloads, on every guest kernel. Does
it load, and at what cost to the verifier? Does it carry traffic and publish its state, and does its mechanism work (path.py,
ways.py)?

    python -m tests.kernels [KERNEL...]     a table; exit code 1 if one of these fails, 2 if the lab failed
    python -m tests.kernels --update        the same, and the measured costs become the baseline

A cost that is more than a fifth above baseline.json is reported. If a program is refused, the verifier's message is shown.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

from tests.kernels import path, ways
from tests.lab.engine import virtual
from tests.lab.guest.errors import LabError
from tests.lab.guest.image import BUILD
from tests.lab.guest.lock import kernels

BASELINE = Path(__file__).parent / "baseline.json"
GROWTH = 1.20
GUEST_S = 900.0  # of processor time; 6.1 looks at 2.4 million instructions, for 100 s of its own time and three times that here
LEAST_MBIT = 15.0  # of the path's 25
LEAST_PACKETS = 1000  # of the low class that nf_red must have seen
REFUSAL_LINES = 12  # of the verifier's words


@dataclass
class Row:
    """One controller, the queue, or one way to give a controller, on one kernel."""

    kernel: str
    name: str
    loaded: bool = False
    refusal: str = ""
    cost: dict[str, tuple[int, int]] = field(default_factory=dict)  # program: instructions processed, states
    mbit: float = 0.0
    faults: list[str] = field(default_factory=list)  # what did not work, although it was loaded

    @property
    def holds(self) -> bool:
        return self.loaded and not self.faults

    @property
    def insns(self) -> int:
        return sum(insns for insns, _ in self.cost.values())

    @property
    def states(self) -> int:
        return sum(states for _, states in self.cost.values())


def controllers() -> list[str]:
    """By our own command, on this machine."""
    try:
        done = subprocess.run([BUILD / "ccbpf", "-j", "list"], capture_output=True, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise LabError(f"build/ccbpf list: {error}; `make all` builds it") from error
    return [entry["name"] for entry in json.loads(done.stdout)]


def read_cost(text: str) -> dict[str, tuple[int, int]]:
    """From the verifier's log: what it processed for each program."""
    cost: dict[str, tuple[int, int]] = {}
    program = ""
    for line in text.splitlines():
        if match := re.match(r"libbpf: prog '(\w+)': -- BEGIN PROG LOAD LOG", line):
            program = match[1]
        elif match := re.match(r"processed (\d+) insns .* total_states (\d+)", line):
            cost[program] = (int(match[1]), int(match[2]))
    return cost


def read_row(kernel: str, name: str, directory: Path) -> Row:
    row = Row(kernel, name, loaded=(directory / "enabled").read_text().strip() == "0")
    if not row.loaded:
        log = (directory / "log").read_text(errors="replace").splitlines()
        row.refusal = "\n".join(log[-REFUSAL_LINES:])
        return row
    row.cost = read_cost((directory / "cost").read_text())
    if name in ways.NAMES:
        faults = [ways.fault(name, directory)]
    else:
        faults = queue_faults(row, directory) if name == path.QUEUE else controller_faults(row, directory)
    if (directory / "disabled").read_text().strip() != "0":
        faults.append(f"not removed: {(directory / 'disable.txt').read_text().strip()}")
    row.faults = [words for words in faults if words]
    return row


def controller_faults(row: Row, directory: Path) -> list[str]:
    seen = path.records(directory / path.FLOWS, row.name)
    report = json.loads((directory / "iperf3.json").read_text())
    if report.get("end", {}).get("sender_tcp_congestion") != row.name:
        return [f"no transfer with it: {report.get('error', 'another controller was used')}"]
    row.mbit = report["end"]["sum_received"]["bits_per_second"] / 1e6
    slow = f"{row.mbit:.1f} Mbit/s, expected at least {LEAST_MBIT:g}" if row.mbit < LEAST_MBIT else ""
    return [slow, path.publishing(seen), path.mechanism(row.name, seen), accecn_fault(row.name, directory)]


def accecn_fault(name: str, directory: Path) -> str:
    """Where the kernel knows AccECN."""
    again = directory.parent / f"{name}-{path.ACCECN}" / path.FLOWS
    return path.accecn(name, path.records(again, name)) if again.exists() else ""


def queue_faults(row: Row, directory: Path) -> list[str]:
    (queue,) = json.loads((directory / "show.json").read_text())["queues"]
    low = queue["classes"]["nf"]
    if low["packets"] < LEAST_PACKETS:
        return [f"{low['packets']} packets of the low class, expected at least {LEAST_PACKETS}"]
    row.mbit = low["bytes"] * 8 / 1e6 / (path.SECONDS * len(path.MARKED))
    return ["no packet was marked"] if not low["marked"] else []


def measure(kernel: str, names: list[str]) -> list[Row]:
    outcome = virtual.run(kernel, path.script(names), BUILD / "kernels" / kernel, timeout_s=GUEST_S)
    return [read_row(kernel, name, outcome.directory / name) for name in (*names, *ways.NAMES, path.QUEUE)]


def grown(row: Row, baseline: dict[str, dict[str, dict[str, list[int]]]]) -> list[str]:
    """Which programs cost the verifier more than a fifth above the baseline."""
    words = []
    for program, (insns, states) in row.cost.items():
        known = baseline.get(row.kernel, {}).get(row.name, {}).get(program)
        for now, before, what in zip((insns, states), known or (), ("instructions", "states"), strict=False):
            if now > GROWTH * before:
                words.append(f"{row.kernel} {program}: {what} {before} -> {now} (+{now / before - 1:.0%})")
    return words


def table(rows: list[Row]) -> str:
    lines = [f"{'KERNEL':8}{'PROGRAM':14}{'LOADED':8}{'PROGRAMS':>9}{'INSNS':>8}{'STATES':>8}{'MBIT/S':>8}  WORKS"]
    for row in rows:
        works = "yes" if row.holds else "-" if not row.loaded else "NO"
        loaded = "yes" if row.loaded else "REFUSED"
        lines.append(f"{row.kernel:8}{row.name:14}{loaded:8}{len(row.cost):9}{row.insns:8}{row.states:8}{row.mbit:8.1f}  {works}")
    return "\n".join(lines)


def update(rows: list[Row], baseline: dict[str, dict[str, dict[str, list[int]]]]) -> None:
    for row in rows:
        baseline.setdefault(row.kernel, {})[row.name] = {name: list(cost) for name, cost in sorted(row.cost.items())}
    text = json.dumps(baseline, indent=1, sort_keys=True)
    BASELINE.write_text(re.sub(r"\[\s+(\d+),\s+(\d+)\s+\]", r"[\1, \2]", text) + "\n")


def main() -> int:
    parser = argparse.ArgumentParser(prog="make kernels", description="Every controller on every guest kernel.")
    parser.add_argument("kernel", nargs="*", help=f"of {', '.join(kernels())}; default: all")
    parser.add_argument("--update", action="store_true", help="what was measured becomes the baseline")
    options = parser.parse_args()
    rows: list[Row] = []
    try:
        names = controllers()
        for kernel in options.kernel or kernels():
            print(f"{kernel}: {', '.join(names)}", file=sys.stderr, flush=True)
            rows += measure(kernel, names)
    except LabError as error:
        print(f"kernels: the lab failed: {error}", file=sys.stderr)
        return 2
    print(table(rows))
    baseline = json.loads(BASELINE.read_text()) if BASELINE.exists() else {}
    for row in rows:
        for words in grown(row, baseline):
            print(f"more for the verifier: {words}")
        for words in row.faults:
            print(f"{row.kernel} {row.name}: {words}")
        if row.refusal:
            print(f"{row.kernel} refuses {row.name}:\n{row.refusal}")
    if options.update:
        update(rows, baseline)
    return 0 if all(row.holds for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
