# SPDX-License-Identifier: GPL-2.0-only
"""What a download in the background costs: nanoseconds of its program for each segment that the receiver sends, and goodput.

The yardstick is sockops_segments of sockops.bpf.c, which the kernel calls for the same segments, and which does nothing:
reading the clock for bpf_stats is part of both. The receiver is an iperf3 client, by `-R`, in a namespace of the bench.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from tests.bench.rules import bpftool, pinned_programs, spent
from tests.bench.shell import sh
from tests.cgroups import MOUNT

YARDSTICK = "sockops_segments"  # a program of sockops.bpf.c
HOLDER = "ccbpf_rx_le"  # the program of `ccbpf run --download`


class Receiver(NamedTuple):
    """Where the bytes arrive."""

    namespace: str
    server: str  # iperf3's address
    port: int
    seconds: int

    def words(self, *more: str) -> tuple[str, ...]:
        """iperf3 that receives, and waits with its end until it can read a line: the program lives as long as its run."""
        iperf3 = f"iperf3 -c {self.server} -p {self.port} -t {self.seconds} -R -J {' '.join(more)}"
        return ("ip", "netns", "exec", self.namespace, "sh", "-c", f"{iperf3} && read line")

    def transfer(self) -> None:
        """One transfer, from its beginning to its end."""
        iperf3 = ("iperf3", "-c", self.server, "-p", str(self.port), "-t", str(self.seconds), "-R")
        sh("ip", "netns", "exec", self.namespace, *iperf3)

    def segments(self) -> tuple[int, int]:
        """Segments that its namespace received and sent so far."""
        table = subprocess.run(
            ("ip", "netns", "exec", self.namespace, "cat", "/proc/net/snmp"), capture_output=True, text=True, check=True
        ).stdout.splitlines()
        names, values = (line.split() for line in table if line.startswith("Tcp:"))
        counters = dict(zip(names, values, strict=True))
        return int(counters["InSegs"]), int(counters["OutSegs"])


class Cost(NamedTuple):
    """One transfer."""

    ns_per_sent: float  # of the program
    ns_per_received: float
    calls_per_sent: float


def report_of(transfer: subprocess.Popen[str]) -> Any:
    """iperf3's report, which ends with a line of one brace; the transfer then waits."""
    assert transfer.stdout
    lines = []
    for line in transfer.stdout:
        lines.append(line)
        if line.rstrip() == "}":
            return json.loads("".join(lines))
    raise RuntimeError(f"{transfer.args!r}: it ended without a report: {''.join(lines)[:500]}")


@contextmanager
def transferred(words: Sequence[str]) -> Iterator[Any]:
    """The report of a transfer that has carried all, and has not ended."""
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as transfer:
        try:
            yield report_of(transfer)
        finally:
            assert transfer.stdin
            transfer.stdin.close()
            transfer.wait(20)


@contextmanager
def yardstick_at(programs: Path, cgroup: Path) -> Iterator[int]:
    """Attached to a new cgroup; the program's id."""
    with pinned_programs(programs) as pins:
        pinned = ("pinned", str(pins / YARDSTICK))
        cgroup.mkdir()
        try:
            bpftool("cgroup", "attach", str(cgroup), "sock_ops", *pinned, "multi")
            yield int(bpftool("prog", "show", *pinned)["id"])
        finally:
            remove(cgroup)


def remove(cgroup: Path) -> None:
    """Also its program's attachment. Its last process may need a moment to leave."""
    for _ in range(100):
        try:
            return cgroup.rmdir()
        except OSError:
            time.sleep(0.05)
    cgroup.rmdir()


def per_segment(receiver: Receiver, program: int | str, words: Sequence[str]) -> Cost:
    """The cost of the program (an id, or the name of one that the command loads) for the segments of one transfer."""
    ns, calls = (0, 0) if isinstance(program, str) else spent(program)
    received, sent = receiver.segments()
    with transferred(words):
        now_ns, now_calls = spent(program)
        now_received, now_sent = receiver.segments()
    spent_ns, packets, acks = now_ns - ns, now_received - received, now_sent - sent
    return Cost(spent_ns / acks, spent_ns / packets, (now_calls - calls) / acks)


def measure(ccbpf: Path, programs: Path, receiver: Receiver) -> tuple[Cost, Cost]:
    """One round: the yardstick, and a download."""
    cgroup = MOUNT / f"ccbpf-bench.{os.getpid()}"
    words = receiver.words()
    with yardstick_at(programs, cgroup) as program:
        empty = per_segment(receiver, program, ("sh", "-c", 'echo 0 > "$0"/cgroup.procs; exec "$@"', str(cgroup), *words))
    return empty, per_segment(receiver, HOLDER, (str(ccbpf), "run", "-q", "--download", "--", *words))


def gbit(receiver: Receiver, ccbpf: Path | None, *more: str) -> float:
    """Goodput of a transfer, held if a command is given."""
    held = (str(ccbpf), "run", "-q", "--download", "--") if ccbpf else ()
    with transferred((*held, *receiver.words(*more))) as report:
        return float(report["end"]["sum_received"]["bits_per_second"]) / 1e9
