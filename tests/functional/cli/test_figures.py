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
from typing import Any

import pytest

from tests.functional import kernel
from tests.functional.conftest import Cli
from tests.functional.records import ss

pytestmark = [
    pytest.mark.quiet,
    pytest.mark.rerun("means over a second or less: a host that stands still is in both, at other times"),
]

RATE_BPS = 20_000_000
LIMIT = 60_000  # bytes: 24 ms
BURST = 5_000  # bytes that leave at once
TICK_US = 1_000  # of the peer's clock: by so much the delay shown may be above the queue (law/delay.h)
PORT = 5201
PERIOD_S = 0.05
ALONE_S, BESIDE_S = 2.0, 0.6  # later the controller would take a queue that never ends for a longer path
SETTLED_S = 0.5  # after that the flow fills the link

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


def queues(near: kernel.Namespace, device: str, until: Callable[[], bool]) -> list[float]:
    """For how many us a packet would wait, each few ms: the backlog that tc has, over the rate."""
    found = []
    while not until():
        (row,) = json.loads(near.run("tc", "-s", "-j", "qdisc", "show", "dev", device).stdout)
        found.append(int(row["backlog"]) * 8e6 / RATE_BPS)
        time.sleep(0.005)
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
        time.sleep(SETTLED_S)
        alone = queues(near, device, lambda: time.monotonic_ns() > began_ns + int(ALONE_S * 1e9))
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
    settled_ns = began_ns + int(SETTLED_S * 1e9)
    rates = shown("goodput_bps", settled_ns, busy_ns)
    assert len(rates) > 10 and len(written) > 10
    assert statistics.mean(rates) == pytest.approx(statistics.mean(written), rel=0.05)
    assert statistics.mean(rates) < RATE_BPS
    delay_us, queue_us = statistics.mean(shown("delay_smoothed_us", settled_ns, busy_ns)), statistics.mean(alone)
    # The controller does not count the wait of a packet for the other one of its pair, a third to two thirds of this queue
    assert queue_us / 5 < delay_us < queue_us + TICK_US, (delay_us, queue_us)
    # Beside reno the flow sends few packets, so its average follows the queue late. It is at most the buffer.
    assert max(shown("delay_smoothed_us", busy_ns, ended_ns)) < LIMIT * 8e6 / RATE_BPS + TICK_US
    assert max(waited) > 8_000
    lost = seen[shown("local_port", 0, ended_ns)[-1]]["retransmits"]
    assert (shown("losses", 0, ended_ns)[-1] > 0) == (shown("retransmits", 0, ended_ns)[-1] > 0) == (lost > 0)
    assert "delay" in shown("yields_to", busy_ns, ended_ns)
