# SPDX-License-Identifier: GPL-2.0-only
"""Sockets that are set to something, and receive in the background: every byte comes, and no connection pauses for a second that its
reader or sender has not caused. TLS of the kernel is in tests/kernels/test_ktls.py, because not every kernel has it."""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from tests.functional.conftest import Cli
from tests.functional.rules.background import account
from tests.functional.rules.downloads import BYTES, SMALL_BUFFER, Got, Reading, bottleneck, counted, records, setting, yields
from tests.lab.engine import native

pytestmark = [pytest.mark.quiet, pytest.mark.rerun("a host that stands still is a queue, and a pause of the reader")]

STALL_S = 1.0
SIZE = 2_000_000
IDLE_S = 3.5
KEEP_ALIVE = (
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 1),
    (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 1),
)
LOWAT = 400_000  # bytes: several windows of the path
RARE = 20  # times as often as LOWAT says; a reader without it reads each packet: 2 700 times


def download(ccbpf: Cli, path: native.Path, reading: Reading) -> tuple[Got, dict[str, Any]]:
    """By `run --download`: what came, which is all, and the run's counters."""
    done = ccbpf("-j", "run", "-d", "--", *reading.at(path))
    got = Got.of(done.out)
    assert got.is_all(reading.size)
    return got, account(done.err)["counts"]


CASES = {
    "plain": Reading(SIZE),
    "SO_RCVBUF": Reading(SIZE, options=(SMALL_BUFFER,)),
    "a reader that pauses": Reading(SIZE, pauses=1.5),
}


@pytest.mark.parametrize("case", CASES)
def test_it_never_stalls(ccbpf: Cli, path: native.Path, case: str) -> None:
    got, counts = download(ccbpf, path, CASES[case])
    assert got.waits[0] < STALL_S
    assert counts["receivers"] == 1
    assert not records(ccbpf)


def test_where_the_kernel_takes_a_window_back_ours_is_not(ccbpf: Cli, path: native.Path) -> None:
    """Data that was in flight beyond the window would be dropped, and counted."""
    before = counted(path, path.receiver, "TcpExtBeyondWindow")
    with setting(path, path.receiver, "net.ipv4.tcp_shrink_window", 1):
        got, counts = download(ccbpf, path, Reading(BYTES))
    assert got.waits[0] < STALL_S
    assert counts["receiving_held_ns"] > 0, "it yielded, to its own queue"
    assert counted(path, path.receiver, "TcpExtBeyondWindow") == before


def test_a_window_of_zero(ccbpf: Cli, path: native.Path) -> None:
    """The reader stops until its buffer is full, and longer than the sender waits before it probes the window."""
    counters = ((path.receiver, "TcpExtTCPToZeroWindowAdv"), (path.sender, "TcpExtTCPWinProbe"))
    before = [counted(path, *counter) for counter in counters]
    got, counts = download(ccbpf, path, Reading(SIZE, options=(SMALL_BUFFER,), pauses=2.5))
    zeros, probes = (counted(path, *counter) - was for counter, was in zip(counters, before))
    assert zeros >= 1 and probes >= 2, (zeros, probes)
    assert got.waits[0] < STALL_S
    assert counts["receivers"] == 1


def test_keep_alive(ccbpf: Cli, path: native.Path) -> None:
    """Both ends probe a connection that is idle; after that the data goes on."""
    before = [counted(path, end, "TcpExtTCPKeepAlive") for end in (path.receiver, path.sender)]
    got, counts = download(ccbpf, path, Reading(SIZE, options=KEEP_ALIVE, server_pauses=IDLE_S))
    probes = [counted(path, end, "TcpExtTCPKeepAlive") - was for end, was in zip((path.receiver, path.sender), before)]
    assert min(probes) >= 2, probes
    assert IDLE_S - STALL_S < got.waits[0] < IDLE_S + STALL_S and got.waits[1] < STALL_S
    assert counts["receivers"] == 1


def test_so_rcvlowat(ccbpf: Cli, path: native.Path) -> None:
    """A reader that is woken when several windows are there. Beside a foreground the window is one segment: data comes all the same, and
    the reader is woken rarely (docs/limits.md)."""
    reading = Reading(4_000_000, options=((socket.SOL_SOCKET, socket.SO_RCVLOWAT, LOWAT),), polls=True)
    background = ccbpf.popen("-j", "run", "-d", "--", *reading.at(path), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    yields(ccbpf, path)
    (record,) = records(ccbpf)
    assert 0 < record["receive"]["window_bytes"] < LOWAT
    out, _ = background.communicate(timeout=40)
    got = Got.of(out)
    assert got.is_all(reading.size) and got.waits[0] < STALL_S, got
    assert got.reads < reading.size / LOWAT * RARE, "woken as SO_RCVLOWAT says"


# --- a link that loses, repeats or reorders packets --------------------------------------

FAULTS = {
    "1 % lost": native.Faults(lost=0.01),
    "2 % twice": native.Faults(twice=0.02),
    "2 % before all that are on their way": native.Faults(early=0.02),
    "all three": native.Faults(0.01, 0.02, 0.02),
}


def over_such_a_link(ccbpf: Cli, name: str) -> tuple[Got, dict[str, Any], dict[str, Any]]:
    """What came, the run's counters, and what the link counted."""
    with bottleneck(faults=FAULTS[name]) as path:
        got, counts = download(ccbpf, path, Reading(SIZE))
    assert isinstance(path.wire["from_left"], dict)
    return got, counts, path.wire["from_left"]


def test_over_a_link_with_faults(ccbpf: Cli) -> None:
    """All at once, each on a path of its own. How fast it is there the lab measures (rx-loss)."""
    with ThreadPoolExecutor(len(FAULTS)) as pool:
        found = dict(zip(FAULTS, pool.map(lambda name: over_such_a_link(ccbpf, name), FAULTS), strict=True))
    for name, (got, counts, link) in found.items():
        assert got.waits[0] < STALL_S, (name, got)
        assert counts["receivers"] == 1, name
        for fault, share in asdict(FAULTS[name]).items():
            assert (link[fault] > 0) == (share > 0), (name, link)


# --- Multipath TCP ---------------------------------------------------------------------


@pytest.fixture
def second(path: native.Path) -> Iterator[None]:
    """A second address of the receiver, of which MPTCP makes a second subflow."""
    if not Path("/proc/sys/net/mptcp").exists():
        pytest.skip("this kernel has no MPTCP")
    address = "10.0.2.3"
    path.command(path.receiver, "ip", "address", "add", f"{address}/24", "dev", "wire")
    path.command(path.receiver, "ip", "mptcp", "endpoint", "add", address, "dev", "wire", "subflow")
    try:
        yield
    finally:
        path.command(path.receiver, "ip", "mptcp", "endpoint", "flush")
        path.command(path.receiver, "ip", "address", "del", f"{address}/24", "dev", "wire")


def test_mptcp(ccbpf: Cli, path: native.Path, second: None) -> None:
    """Each subflow is held, and yields. Alone it is slower than without us (docs/limits.md)."""
    counters = [(path.receiver, f"MPTcpExt{name}") for name in ("MPCapableSYNACKRX", "MPJoinSynAckRx")]
    before = [counted(path, *counter) for counter in counters]
    reading = Reading(3_000_000, mptcp=True)
    background = ccbpf.popen("-j", "run", "-d", "--", *reading.at(path), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    yields(ccbpf, path)
    out, err = background.communicate(timeout=40)
    got = Got.of(out)
    assert [counted(path, *counter) - was for counter, was in zip(counters, before)] == [1, 1], "two subflows"
    assert account(err)["counts"]["receivers"] == 2
    assert got.is_all(reading.size) and got.waits[0] < STALL_S, got
