# SPDX-License-Identifier: GPL-2.0-only
"""make kernels: every controller, and the queue nf_red, on every guest kernel. Loaded? At what cost to the verifier?
Does it carry traffic?

    python -m tests.kernels [KERNEL...]     a table; exit 1 if a kernel refuses a controller, 2 if the lab failed
    python -m tests.kernels --update        the same, and what was measured becomes the baseline

A cost that grew by more than a fifth over baseline.json is reported; what a verifier refuses is shown in its words.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

from tests.lab import virtual
from tests.lab.guest.errors import LabError
from tests.lab.guest.image import BUILD
from tests.lab.guest.lock import kernels

BASELINE = Path(__file__).parent / "baseline.json"
GROWTH = 1.20
QUEUE = "nf_red"
SECONDS = 2  # of traffic
GUEST_S = 900.0  # of wall time; 6.1 looks at 2.4 million instructions, for 100 s of its own time and three times that here
LEAST_MBIT = 15.0  # of the 20 that iperf3 sends
REFUSAL_LINES = 12  # of the verifier's words

SCRIPT = """\
ip link set lo mtu 1500
tc qdisc add dev lo root netem delay 5ms limit 1000
ccbpf check >check.txt 2>&1
for name in {names}; do
    mkdir $name
    ccbpf -vv enable $name >$name/enable.txt 2>$name/log
    echo $? >$name/enabled
    [ "$(cat $name/enabled)" = 0 ] || continue
    iperf3 -s -1 >/dev/null 2>&1 &
    sleep 0.2
    timeout 20 iperf3 -c 127.0.0.1 -C $name -b 20M -t {seconds} -J >$name/iperf3.json 2>&1 &
    client=$!
    sleep 1
    ccbpf -j flows >$name/flows.json
    wait $client
    ccbpf disable $name >$name/disable.txt 2>&1
    echo $? >$name/disabled
    grep -E "^(libbpf: prog '|processed )" $name/log >$name/cost
    rm $name/log
done
mkdir nf_red
tc qdisc replace dev lo root handle 1: prio
tc qdisc replace dev lo parent 1:2 tbf rate 30mbit burst 64k limit 200k
sysctl -qw net.ipv4.tcp_ecn=1
ccbpf -vv aqm attach lo --limit 200000 --average 1 --nf-min 0 --nf-max 50 >nf_red/enable.txt 2>nf_red/log
echo $? >nf_red/enabled
if [ "$(cat nf_red/enabled)" = 0 ]; then
    iperf3 -s -1 >/dev/null 2>&1 &
    sleep 0.2
    timeout 20 iperf3 -c 127.0.0.1 -S 4 -t {seconds} -J >nf_red/iperf3.json 2>&1
    ccbpf -j aqm show lo >nf_red/show.json
    tc -s qdisc show dev lo >nf_red/tc.txt
    ccbpf aqm detach lo >nf_red/disable.txt 2>&1
    echo $? >nf_red/disabled
    grep -E "^(libbpf: prog '|processed )" nf_red/log >nf_red/cost
fi
"""  # the log of an accepted program is of no use and megabytes; `continue` keeps that of a refused one


@dataclass
class Row:
    """One controller on one kernel."""

    kernel: str
    name: str
    loaded: bool = False
    refusal: str = ""
    cost: dict[str, tuple[int, int]] = field(default_factory=dict)  # program: instructions processed, states
    mbit: float = 0.0
    seen: bool = False  # in `ccbpf flows`, or counted and marked by `ccbpf aqm`
    disabled: bool = False

    @property
    def holds(self) -> bool:
        return self.loaded and self.mbit >= LEAST_MBIT and self.seen and self.disabled

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
    row.disabled = (directory / "disabled").read_text().strip() == "0"
    report = json.loads((directory / "iperf3.json").read_text())
    if name == QUEUE:
        (queue,) = json.loads((directory / "show.json").read_text())["queues"]
        nf = queue["classes"]["nf"]
        row.seen = nf["packets"] > 1000 and nf["marked"] > 0
    else:
        flows = json.loads((directory / "flows.json").read_text())["flows"]
        row.seen = any(flow["controller"] == name and flow["bytes_acked"] > 100_000 for flow in flows)
    if name == QUEUE or report.get("end", {}).get("sender_tcp_congestion") == name:
        row.mbit = report["end"]["sum_received"]["bits_per_second"] / 1e6
    return row


def measure(kernel: str, names: list[str]) -> list[Row]:
    script = SCRIPT.format(names=" ".join(names), seconds=SECONDS)
    outcome = virtual.run(kernel, script, BUILD / "kernels" / kernel, timeout_s=GUEST_S)
    return [read_row(kernel, name, outcome.directory / name) for name in (*names, QUEUE)]


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
    lines = [f"{'KERNEL':8}{'PROGRAM':14}{'LOADED':8}{'PROGRAMS':>9}{'INSNS':>8}{'STATES':>8}{'MBIT/S':>8}  TRAFFIC"]
    for row in rows:
        traffic = "passed" if row.holds else "-" if not row.loaded else "failed"
        loaded = "yes" if row.loaded else "REFUSED"
        lines.append(
            f"{row.kernel:8}{row.name:14}{loaded:8}{len(row.cost):9}{row.insns:8}{row.states:8}{row.mbit:8.1f}  {traffic}"
        )
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
        if row.refusal:
            print(f"{row.kernel} refuses {row.name}:\n{row.refusal}")
    if options.update:
        update(rows, baseline)
    return 0 if all(row.holds for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
