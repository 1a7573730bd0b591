# SPDX-License-Identifier: GPL-2.0-only
"""What `top` shows of a transfer through a bottleneck is what others measured: iperf3 the rate, tc the queue, ss whether it lost."""

from __future__ import annotations

import json
import math
import socket
import statistics
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

import pytest

from tests.functional import kernel
from tests.functional.conftest import Cli
from tests.functional.records import ss

pytestmark = pytest.mark.rerun  # a mean over a second, beside what else this host does

RATE_BPS = 20_000_000
LIMIT = 60_000  # bytes: 24 ms
BURST = 5_000  # bytes that leave at once: by so much the queue that tc shows may differ from the wait of a packet
BURST_US = BURST * 8e6 / RATE_BPS
PORT = 5201
PERIOD_S = 0.05
ALONE_S, BESIDE_S = 2.0, 0.6  # later the controller would take a queue that never ends for a longer path
SETTLED_S = 0.5  # after that the flow fills the link

REACTIONS = ("indications", "losses", "marks")
MET_LEAST = 3  # looks at the queue, for a record to be compared

Batch = dict[str, Any]


@contextmanager
def standing_queue(near: kernel.Namespace, to: tuple[str, int]) -> Iterator[None]:
    """reno fills the queue of the bottleneck."""
    stop = threading.Event()

    def send(sock: socket.socket) -> None:
        while not stop.is_set():
            sock.sendall(bytes(1 << 16))

    with near.socket() as sock:
        kernel.choose(sock, "reno")
        sock.connect(to)
        sender = threading.Thread(target=send, args=(sock,))
        sender.start()
        try:
            yield
        finally:
            stop.set()
            sender.join(10)


def sending(batch: Batch) -> list[Batch]:
    """The flow of iperf3's data at its sender; that of its control is not the controller's."""
    return [flow for flow in batch["flows"] if flow["remote_port"] == PORT and flow["local_addr"] == "10.77.0.1"]


def queues(near: kernel.Namespace, device: str, until: Callable[[], bool]) -> list[tuple[int, float]]:
    """When, and for how many us a packet would wait then: the backlog that tc has, over the rate."""
    found = []
    while not until():
        (row,) = json.loads(near.run("tc", "-s", "-j", "qdisc", "show", "dev", device).stdout)
        found.append((time.monotonic_ns(), int(row["backlog"]) * 8e6 / RATE_BPS))
        time.sleep(0.005)
    return found


def smoothed_between(flows: list[Batch], waited: list[tuple[int, float]]) -> list[tuple[float, int, float]]:
    """Of each record its smoothed delay, between the shortest and the longest queue that its packets can have met.

    The smoothed delay is a mean, whose weights are positive and add up to 1, of the delays since it was last forgotten; it is
    forgotten at the first packet after a reaction (law/delay.h). So those packets left after the last record with fewer
    reactions, and each met a queue of the time since then.
    """
    found, since_ns = [], waited[0][0]
    for before, flow in pairwise(flows):
        if any(flow[reaction] != before[reaction] for reaction in REACTIONS):
            since_ns = before["updated_ns"]
        met = [us for at, us in waited if max(since_ns, waited[0][0]) <= at <= flow["updated_ns"]]
        if len(met) >= MET_LEAST and since_ns > waited[0][0]:
            found.append((min(met), flow["delay_smoothed_us"], max(met)))
    return found


def test_the_rate_of_iperf3_and_the_queue_of_tc(ccbpf: Cli, netns_pair: tuple[kernel.Namespace, kernel.Namespace]) -> None:
    near, far = netns_pair
    ccbpf("enable", "tcp_lp")
    device = near.run("sh", "-c", "ls /sys/class/net | grep -v lo").stdout.split()[0]
    near.run("tc", "qdisc", "add", "dev", device, "root", "tbf", "rate", str(RATE_BPS), "burst", str(BURST), "limit", str(LIMIT))
    inside = ("timeout", "20", "ip", "netns", "exec")  # whatever happens
    batches: list[Batch] = []
    with (
        kernel.Sink(far, "10.77.0.2") as sink,
        subprocess.Popen([*inside, far.name, "iperf3", "-s", "-1", "-p", str(PORT)], stdout=subprocess.DEVNULL) as server,
    ):
        kernel.eventually(lambda: f":{PORT} " in far.run("ss", "-ltn").stdout, 10, "iperf3 listens")
        top = ccbpf.popen("top", "-bj", "--watch", str(PERIOD_S), "--for", "20", stdout=subprocess.PIPE)
        assert top.stdout
        reader = threading.Thread(target=lambda: batches.extend(map(json.loads, top.stdout or ())))
        reader.start()
        words = [*inside, near.name, "iperf3", "-J", "-i", "0.1", "-l", "4K", "-c", "10.77.0.2", "-p", str(PORT), "-C", "tcp_lp",
                 "-t", str(math.ceil(ALONE_S + BESIDE_S))]  # fmt: skip
        client = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
        began_ns = time.monotonic_ns()
        time.sleep(ALONE_S)
        with standing_queue(near, sink.address):
            busy_ns = time.monotonic_ns()
            waited = queues(near, device, lambda: time.monotonic_ns() > busy_ns + int((BESIDE_S - 0.1) * 1e9))
            ended_ns = time.monotonic_ns()
            seen = ss(near, PORT)
        said = json.loads(client.communicate(timeout=20)[0])
        top.terminate()
        reader.join(10)
        assert top.wait(10) == 0 and server.wait(10) == 0

    def shown(key: str, from_ns: int, until_ns: int) -> list[Any]:
        rows = [(batch["time_ns"], flow) for batch in batches for flow in sending(batch)]
        return [flow[key] for at, flow in rows if from_ns < at < until_ns and flow[key] is not None]

    written = [i["sum"]["bits_per_second"] for i in said["intervals"] if SETTLED_S < i["sum"]["start"] < ALONE_S - 0.2]
    rates = shown("goodput_bps", began_ns + int(SETTLED_S * 1e9), busy_ns)
    assert len(rates) > 10 and len(written) > 10
    assert statistics.mean(rates) == pytest.approx(statistics.mean(written), rel=0.05)
    assert statistics.mean(rates) < RATE_BPS
    records = {f["updated_ns"]: f for batch in batches for f in sending(batch) if busy_ns < f["updated_ns"] < ended_ns}
    between = smoothed_between([records[at] for at in sorted(records)], waited)
    assert len(between) >= 3
    assert all(shown_us <= longest + BURST_US for _, shown_us, longest in between), between
    # The controller may take a part of a standing queue for noise or for a longer path, which only lowers what it shows
    shortest, largest_us, _ = max(between, key=lambda row: row[1])
    assert shortest - BURST_US <= largest_us, between
    assert max(us for _, us in waited) > 8_000
    lost = seen[shown("local_port", 0, ended_ns)[-1]]["retransmits"]
    assert (shown("losses", 0, ended_ns)[-1] > 0) == (shown("retransmits", 0, ended_ns)[-1] > 0) == (lost > 0)
    assert "delay" in shown("yields_to", busy_ns, ended_ns)
