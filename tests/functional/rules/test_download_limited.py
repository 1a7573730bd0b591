# SPDX-License-Identifier: GPL-2.0-only
"""Downloads that something else limits: the sender, the reader, the buffer, or the window without a scale. In the background they are as
fast as without us. So is a connection without TCP timestamps, which is left alone; that is said.

The path's round trip is 60 ms, so that a window of 64 kB is less than half of what the link carries."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import pytest

from tests.functional import kernel
from tests.functional.conftest import Cli
from tests.functional.rules.background import ENDS_S, account
from tests.functional.rules.downloads import SMALL_BUFFER, Got, Reading, bottleneck, counts, setting
from tests.lab.engine import native

pytestmark = [pytest.mark.quiet, pytest.mark.rerun("a host that stands still is a queue, and a pause of the reader")]

RTT_S = 0.06
PAIRS = 2  # runs of each kind, which take turns
WORSE = 1.1  # a run differs from the next one by 3 %, on a busy host by 12 %; the better ones of two pairs by less
SIZE = 1_000_000


@dataclass(frozen=True)
class Case:
    reading: Reading
    off: str = ""  # a setting of the sender's that is 0
    unstamped: int = 0  # connections that are left alone

    def on(self, path: native.Path) -> AbstractContextManager[None]:
        return setting(path, path.sender, f"net.ipv4.{self.off}", 0) if self.off else nullcontext()


CASES = {
    "a sender of 50 kB/s": Case(Reading(50_000, rate=50_000)),
    "a reader of 1 MB/s": Case(Reading(SIZE, reads_rate=1_000_000)),
    "a buffer of 64 kB": Case(Reading(SIZE, options=(SMALL_BUFFER,))),
    "no window scale": Case(Reading(SIZE), "tcp_window_scaling"),
    "no timestamps": Case(Reading(SIZE), "tcp_timestamps", 1),
}


@pytest.fixture(scope="module")
def path() -> Iterator[native.Path]:
    with bottleneck(RTT_S * 1e3) as path:
        yield path


def pairs(ccbpf: Cli, case: Case) -> tuple[list[Got], list[Got], dict[str, Any]]:
    """On a path of its own: what came without us, what came in the background, and the counters of the last run."""
    plain, background = [], []
    with bottleneck(RTT_S * 1e3) as path, case.on(path):
        for _ in range(PAIRS):
            plain.append(Got.of(kernel.run(*case.reading.at(path)).stdout))
            done = ccbpf("-j", "run", "-d", "--", *case.reading.at(path))
            background.append(Got.of(done.out))
    return plain, background, account(done.err)["counts"]


def test_they_are_as_fast_as_without_us(ccbpf: Cli) -> None:
    """All cases at once: most of their time is that of the limit."""
    with ThreadPoolExecutor(len(CASES)) as pool:
        found = dict(zip(CASES, pool.map(lambda case: pairs(ccbpf, case), CASES.values()), strict=True))
    for name, (plain, background, counted) in found.items():
        case = CASES[name]
        assert all(got.is_all(case.reading.size) for got in (*plain, *background)), name
        assert (counted["receivers"], counted["unstamped"]) == (1 - case.unstamped, case.unstamped), name
        assert min(got.seconds for got in background) < WORSE * min(got.seconds for got in plain), (name, plain, background)


def unstamped(ccbpf: Cli) -> list[dict[str, object]]:
    found: list[dict[str, object]] = ccbpf("-j", "flows").json["unstamped"]
    return found


def test_what_is_left_alone_is_said(ccbpf: Cli, path: native.Path) -> None:
    """While it goes on by `flows`, and by the rule's counter; at the end by the line of the run. A connection of the run that the rule
    matches as well is counted by both."""
    words = "without TCP timestamps, so received as usual: "
    reading = Reading(12_000_000, seconds=1)
    with setting(path, path.sender, "net.ipv4.tcp_timestamps", 0):
        ccbpf("assign", "--download", "--remote", "10.0.1.2")
        assert not unstamped(ccbpf) and words not in ccbpf("flows").out
        kernel.run(*Reading(5000).at(path))
        assert counts(ccbpf)["unstamped"] == 1
        with ccbpf.popen("run", "-d", "--", *reading.at(path), stdout=subprocess.PIPE, stderr=subprocess.PIPE) as run:
            kernel.eventually(lambda: len(unstamped(ccbpf)) == 2, ENDS_S, "both are counted")
            assert f"0 flows\n{words}2 by rule 1, 1 by run 1\n" in ccbpf("flows", "rx_le").out
            assert words not in ccbpf("flows", "le").out and ccbpf("-j", "flows", "le").json["unstamped"] == []
            assert unstamped(ccbpf) == [{"by": "rule", "id": 1, "connections": 2}, {"by": "run", "id": 1, "connections": 1}]
            _, err = run.communicate(timeout=ENDS_S)
    assert "no TCP connection of it received in the background; 1 connection without TCP timestamps received as usual" in err
    ccbpf("assign", "remove", "--all")
