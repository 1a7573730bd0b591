# SPDX-License-Identifier: GPL-2.0-only
"""UDP over loopback: packets leave at their times, and what is lost, reordered or late is counted right."""

from __future__ import annotations

import contextlib
import json
import signal
import socket
import struct
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from .traffic import (
    ANYWHERE,
    HEADERS_BYTES,
    NS_PER_S,
    PUNCTUAL,
    SO_RCVBUFFORCE,
    TRAFFIC,
    due,
    free_port,
    result,
    send_until,
    serving,
)


@pytest.mark.parametrize("shape", [("--constant",), ("--poisson",), ("--square", "0.1")])
def test_all_packets_arrive_at_the_rate(shape: tuple[str, ...]) -> None:
    options = ("--rate", "8M", "--size", "1000", "--for", "1", *shape)

    def good() -> bool:
        with serving("udp-sink") as sink:
            sent = result("udp-send", "127.0.0.1", sink.port, *options)
        counted, times = sink.result, due(*options)
        assert sent["packets"] == counted["packets"] == len(times)
        assert sent["bytes"] == counted["bytes"] == 1000 * len(times)
        assert not any(counted[key] for key in ("lost", "reordered", "duplicates", "foreign", "socket_drops"))
        assert not any(sent[key] for key in ("refused", "unreachable", "unsent"))
        assert 0 < counted["delay_min_s"] < 0.01
        took = counted["last_s"] - counted["first_s"]
        return bool(took == pytest.approx(times[-1] - times[0], rel=0.01))

    send_until(good)


def left(*options: str, stop: bool = False) -> tuple[dict[str, Any], list[float]]:
    """What udp-send says, and when its packets left, by their own stamps; if asked for it is stopped for 0.3 s."""
    with socket.socket(type=socket.SOCK_DGRAM) as sink:
        with contextlib.suppress(PermissionError):  # room for all of them, however late this process reads
            sink.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 4 << 20)
        sink.bind(("127.0.0.1", 0))
        command: list[str | Path] = [*PUNCTUAL, TRAFFIC, "udp-send", "127.0.0.1", str(sink.getsockname()[1]), *options]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as sender:
            if stop:
                time.sleep(0.3)
                sender.send_signal(signal.SIGSTOP)
                time.sleep(0.3)
                sender.send_signal(signal.SIGCONT)
            sink.settimeout(0.5)
            packets = []
            try:
                while True:
                    packets.append(sink.recv(1500))
            except TimeoutError:
                sent = json.loads(sender.communicate(timeout=5)[0])
    heads = [struct.unpack("!IIQQ", packet[:24]) for packet in packets]
    assert all(len(packet) == sent["asked"]["size"] - HEADERS_BYTES for packet in packets)
    assert [head[2] for head in heads] == list(range(sent["packets"]))
    return sent, [(head[3] - sent["zero_ns"]) / NS_PER_S for head in heads]


def test_square_wave_leaves_on_and_off() -> None:
    def good() -> bool:
        _, times = left("--rate", "4M", "--size", "500", "--for", "1", "--square", "0.2")
        assert len(times) == 500 and min(times) >= 0
        return sum(1 for t in times if t % 0.2 > 0.11) <= 10

    send_until(good)


def test_late_packets_leave_without_a_burst() -> None:
    """All of them do, at most at twice the rate (8 in 10 ms) beside those of the next wake-up."""

    def good() -> bool:
        sent, times = left("--rate", "1.6M", "--size", "500", "--for", "1.5", stop=True)
        assert sent["packets"] + sent["unsent"] == 600
        assert 0.25 < sent["latest_s"] < 1.5
        assert max(sum(1 for b in times[n : n + 50] if b < a + 0.01) for n, a in enumerate(times)) <= 12
        return sent["late"] > 100 and sent["unsent"] == 0 and times[-1] < 1.55

    send_until(good)


def test_ipv6_and_its_header() -> None:
    with serving("udp-sink") as sink:
        sent = result("udp-send", "::1", sink.port, "--rate", "1M", "--size", "500", "--for", "0.1")
    assert sent["packets"] == sink.result["packets"] == 25
    assert sink.result["bytes"] == 25 * 500


def test_start_is_waited_for() -> None:
    with serving("web-server") as server:
        for arguments in (
            ("udp-send", *ANYWHERE, "--rtp", "--for", "0.02"),
            ("web-client", "127.0.0.1", server.port, "--for", "0.02", "--page-gap", "0.005"),
            ("fetch", "127.0.0.1", server.port, "--bytes", "5"),
        ):
            before = time.monotonic_ns()
            got = result(*arguments, "--start", "0.2")
            assert 0.2 * NS_PER_S <= got["zero_ns"] - before < NS_PER_S
            assert time.monotonic_ns() >= got["zero_ns"]


def test_nobody_listens() -> None:
    sent = result("udp-send", "127.0.0.1", free_port(socket.SOCK_DGRAM), "--rtp", "--for", "0.2")
    assert sent["packets"] == 10 and sent["unreachable"] > 0


def crafted(sequence: int, delay_ms: float = 0, magic: int = 0x63634266) -> bytes:
    return struct.pack("!IIQQ", magic, 0, sequence, time.monotonic_ns() - int(delay_ms * 1e6))


def count(*packets: bytes) -> dict[str, Any]:
    with serving("udp-sink") as sink, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        for packet in packets:
            sender.sendto(packet, ("127.0.0.1", int(sink.port)))
    return sink.result


@pytest.mark.parametrize(
    ("sequence", "lost", "reordered", "duplicates"),
    [
        ([0, 1, 2, 3], 0, 0, 0),
        ([3], 3, 0, 0),  # the first three are lost too
        ([0, 2, 3, 5], 2, 0, 0),
        ([0, 2, 1, 3], 0, 1, 0),
        ([4, 3, 2, 1, 0], 0, 4, 0),
        ([0, 1, 1, 1, 2], 0, 0, 2),
        ([0, 5, 3, 3, 9, 1], 5, 2, 1),
        ([0, 1, 0, 200000, 199999], 199997, 1, 1),  # farther than what is remembered
        ([0, 131072, 0, 1], 131069, 2, 0),  # just as far: 0 is forgotten and counts as late, not as a duplicate
        ([0, 131071, 0, 1], 131069, 1, 1),
        ([0, 1, 200000, 131073], 199997, 1, 0),  # what was remembered of 1 is not taken for 131073
        ([1, 131000, 131075, 131073], 131072, 1, 0),  # nor after two jumps
    ],
)
def test_sequence(sequence: list[int], lost: int, reordered: int, duplicates: int) -> None:
    counted = count(*(crafted(n) for n in sequence))
    assert counted["packets"] == len(sequence)
    assert counted["bytes"] == len(sequence) * (24 + HEADERS_BYTES)
    assert (counted["lost"], counted["reordered"], counted["duplicates"]) == (lost, reordered, duplicates)


def test_foreign_packets_are_no_packets() -> None:
    counted = count(b"", b"x", crafted(0)[:23], crafted(0, magic=1), crafted(1 << 63), crafted(0))
    assert (counted["packets"], counted["foreign"], counted["lost"]) == (1, 5, 0)


def test_two_senders_are_two_sequences() -> None:
    with serving("udp-sink") as sink:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one, socket.socket(type=socket.SOCK_DGRAM) as two:
            for n in range(10):
                one.sendto(crafted(n), ("127.0.0.1", int(sink.port)))
                two.sendto(crafted(2 * n), ("127.0.0.1", int(sink.port)))
    assert (sink.result["sources"], sink.result["lost"], sink.result["reordered"]) == (2, 9, 0)


def test_delay_is_above_the_smallest() -> None:
    """Ages of 1.0, 1.1 … 10.9 s: a busy machine adds some hundredths."""
    with serving("udp-sink", "--interval", "30") as sink, socket.socket(type=socket.SOCK_DGRAM) as sender:
        for n in range(100):
            sender.sendto(crafted(n, delay_ms=1000 + 100 * n), ("127.0.0.1", int(sink.port)))
            time.sleep(0.001)
    variation = sink.result["variation_s"]
    assert sink.result["delay_min_s"] == pytest.approx(1, abs=0.2)
    for key, value in {"mean": 4.95, "p50": 4.9, "p95": 9.4, "p99": 9.8, "max": 9.9}.items():
        assert variation[key] == pytest.approx(value, abs=0.09 if key == "mean" else 0.2), key
    (row,) = sink.result["series"]
    assert row["packets"] == 100 and row["variation_mean"] == pytest.approx(variation["mean"], abs=1e-6)
    assert row["variation_max"] == variation["max"]
