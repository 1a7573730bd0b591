# SPDX-License-Identifier: GPL-2.0-only
"""The traffic of the experiments: its path is what was asked for, the same each time, and what is counted is right."""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import json
import math
import os
import resource
import signal
import socket
import statistics
import struct
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

TRAFFIC = Path(__file__).resolve().parents[3] / "build/tests/traffic"
HEADERS_BYTES = 28  # IPv4 and UDP
NS_PER_S = 10**9
ANYWHERE = ("127.0.0.1", "9")
SO_RCVBUFFORCE = 33  # asm-generic/socket.h
U64 = (1 << 64) - 1
# The path of web-client --for 20 --sessions 20 --seed 5: how many objects, and its digest.
COUNT = 3930
GOLDEN = "6bede276a60c96766d8be2ce50907c2df9451046b606b0e575ac8cade04a0a75"


def punctual() -> list[str]:
    """Before a command: SCHED_FIFO as the delay line has it, where allowed. Whatever else runs here waits."""
    probe = subprocess.run(["chrt", "-f", "10", "true"], capture_output=True, check=False)
    return [] if probe.returncode else ["chrt", "-f", "10"]


PUNCTUAL = punctual()


def traffic(*arguments: str, timeout: float = 15) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*PUNCTUAL, TRAFFIC, *arguments], capture_output=True, text=True, timeout=timeout)


def result(*arguments: str) -> dict[str, Any]:
    done = traffic(*arguments)
    assert done.returncode == 0, done.stderr
    said: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return said


def free_port(kind: int, family: int = socket.AF_INET) -> str:
    with socket.socket(family, kind) as probe:
        probe.bind(("::1" if family == socket.AF_INET6 else "127.0.0.1", 0))
        return str(probe.getsockname()[1])


class Serving:
    """A udp-sink or web-server that can be reached; after the with block, what it counted."""

    def __init__(self, process: subprocess.Popen[str], port: str) -> None:
        self.process, self.port = process, port
        self.result: dict[str, Any] = {}


@contextmanager
def serving(command: str, *options: str, prefix: Sequence[str] = PUNCTUAL) -> Iterator[Serving]:
    port = free_port(socket.SOCK_DGRAM if command == "udp-sink" else socket.SOCK_STREAM)
    process = subprocess.Popen(
        [*prefix, TRAFFIC, command, port, "--for", "30", *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout and json.loads(process.stdout.readline()) == {"ready": command, "port": int(port)}
        yield (server := Serving(process, port))
        time.sleep(0.05)  # what is still on its way
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=5)
        assert process.returncode == 0 and not err, err
        server.result = json.loads(out)
    finally:
        process.kill()
        process.communicate()


def send_until(good: Callable[[], bool], tries: int = 3) -> None:
    """Real time on a machine that does other things too: one good run of three."""
    assert any(good() for _ in range(tries))


# --- random numbers: a second implementation, from the published definitions -----------------------------------------


def splitmix64(state: int) -> tuple[int, int]:
    state = (state + 0x9E3779B97F4A7C15) & U64
    z = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & U64
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & U64
    return state, z ^ (z >> 31)


def uniforms(seed: int, who: int, kind: int) -> Iterator[float]:
    """xoshiro256** filled by splitmix64, as numbers in (0, 1]."""
    state = splitmix64(seed)[1] ^ who
    state = splitmix64(state)[1] ^ kind
    s = []
    for _ in range(4):
        state, z = splitmix64(state)
        s.append(z)

    def rotate(x: int, k: int) -> int:
        return ((x << k) | (x >> (64 - k))) & U64

    while True:
        yield ((rotate(s[1] * 5 & U64, 7) * 9 & U64) >> 11) / 2**53 + 2**-53
        t = s[1] << 17 & U64
        s[2] ^= s[0]
        s[3] ^= s[1]
        s[1] ^= s[2]
        s[0] ^= s[3]
        s[2] ^= t
        s[3] = rotate(s[3], 45)


def kolmogorov(values: list[float], distribution: Callable[[float], float]) -> float:
    """sqrt(n) times the largest distance of the two distributions: 1.63 is exceeded once in a hundred."""
    n = len(values)
    return math.sqrt(n) * max(
        max(abs(distribution(x) - i / n), abs(distribution(x) - (i + 1) / n)) for i, x in enumerate(sorted(values))
    )


# --- paths -----------------------------------------------------------------------------------------------------------


def due(*options: str) -> list[float]:
    times: list[float] = result("udp-send", *ANYWHERE, "--dry-run", *options)["due"]
    return times


def path(*options: str) -> list[dict[str, Any]]:
    objects: list[dict[str, Any]] = result("web-client", *ANYWHERE, "--dry-run", *options)["objects"]
    return objects


def test_constant_path_is_exact() -> None:
    times = due("--rate", "6.6M", "--size", "1000", "--for", "20")
    assert len(times) == 6.6e6 * 20 / 8000
    assert all(abs(t - n * 8000 / 6.6e6) < 2e-9 for n, t in enumerate(times))
    assert due("--rtp", "--for", "1") == [n / 50 for n in range(50)]


@pytest.mark.parametrize(("period", "duty"), [(0.05, 0.5), (0.2, 0.5), (1, 0.25), (0.0123, 0.7)])
def test_square_wave_is_on_and_off_and_keeps_its_rate(period: float, duty: float) -> None:
    periods = 200
    options = ("--rate", "6.6M", "--size", "1000", "--for", f"{periods * period:.6f}")
    times = due(*options, "--square", str(period), "--duty", str(duty))
    assert times[0] == 0
    assert all((t % period) < duty * period + 1e-8 or period - t % period < 1e-8 for t in times)
    assert len(times) == pytest.approx(6.6e6 / 8000 * duty * period * periods, abs=1)  # though 20.6 a period at 50 ms
    each = [sum(1 for t in times if int(t / period + 1e-7) == n) for n in range(periods)]
    assert max(each) - min(each) <= 1


def test_poisson_gaps_are_exponential() -> None:
    times = due("--rate", "8M", "--size", "1000", "--for", "40", "--poisson", "--seed", "3")
    gaps = [b - a for a, b in itertools.pairwise([0, *times])]
    assert len(gaps) > 39000
    assert statistics.fmean(gaps) == pytest.approx(1e-3, rel=0.01)
    assert statistics.variance(gaps) == pytest.approx(1e-6, rel=0.03)
    assert kolmogorov(gaps, lambda x: 1 - math.exp(-x * 1000)) < 1.63
    model = uniforms(3, 0, 0)
    assert all(abs(gap + math.log(next(model)) * 1e-3) < 2e-9 for gap in gaps)


def test_sizes_are_pareto() -> None:
    sizes = [o["bytes"] for o in path("--for", "30", "--sessions", "100", "--seed", "7")]
    assert len(sizes) > 25000
    assert min(sizes) == 2000  # the mean of 12 kB, shape 1.2
    shape = 1 / statistics.fmean(math.log(size / 2000) for size in sizes)  # maximum likelihood
    assert shape == pytest.approx(1.2, rel=0.02)
    assert kolmogorov([size + 0.0 for size in sizes], lambda x: 1 - (2000 / max(x, 2000)) ** 1.2) < 1.63


def test_cut_sizes_have_the_mean_that_was_asked() -> None:
    sizes = [o["bytes"] for o in path("--for", "30", "--sessions", "200", "--mean", "9k", "--max", "200k")]
    assert len(sizes) > 50000 and max(sizes) <= 200000
    assert statistics.fmean(sizes) == pytest.approx(9000, rel=0.02)
    options = ("--min", "1k", "--max", "50k", "--shape", "1")
    sizes = [o["bytes"] for o in path("--for", "30", "--sessions", "200", *options)]
    assert min(sizes) == 1000 and max(sizes) <= 50000
    assert kolmogorov([s + 0.0 for s in sizes], lambda x: (1 - 1000 / x) / (1 - 1000 / 50000)) < 1.63


def test_pages_are_as_in_the_paper() -> None:
    objects = path("--for", "60", "--sessions", "50", "--seed", "2")
    assert [o["due"] for o in objects] == sorted(o["due"] for o in objects)
    page_gaps: list[float] = []
    object_gaps: list[float] = []
    for session in range(50):
        mine = [o for o in objects if o["session"] == session]
        assert [o["page"] for o in mine] == [n // 10 for n in range(len(mine))]
        page_gaps.append(mine[0]["due"])
        for n, (a, b) in enumerate(itertools.pairwise(mine), 1):
            (object_gaps if n % 10 else page_gaps).append(b["due"] - a["due"])
    assert len(page_gaps) > 2500
    assert statistics.fmean(page_gaps) == pytest.approx(1, rel=0.05)
    assert statistics.stdev(page_gaps) == pytest.approx(1, rel=0.07)
    assert statistics.fmean(object_gaps) == pytest.approx(1e-3, rel=0.02)
    assert kolmogorov(object_gaps, lambda x: 1 - math.exp(-x * 1000)) < 1.63


def test_path_is_that_of_a_second_implementation() -> None:
    objects = path("--for", "40", "--sessions", "5", "--seed", "11")
    for session in range(5):
        sizes, pages, gaps = (uniforms(11, session, kind) for kind in range(3))
        now = 0.0
        for n, o in enumerate(o for o in objects if o["session"] == session):
            now += -math.log(next(gaps)) * 1e-3 if n % 10 else -math.log(next(pages))
            assert o["due"] == pytest.approx(now, abs=1e-6)  # each gap is rounded to a nanosecond
            size = 2000 * next(sizes) ** (-1 / 1.2)
            assert abs(o["bytes"] - size) <= 0.5 + size * 1e-12


def test_same_seed_same_path_to_the_byte() -> None:
    options = ("web-client", *ANYWHERE, "--dry-run", "--for", "20", "--sessions", "20")
    one, two, other = (traffic(*options, "--seed", seed).stdout for seed in ("5", "5", "6"))
    assert one == two != other
    # Another compiler, machine or C library must not change it: experiments are compared by their path.
    objects = json.loads(one)["objects"]
    words = " ".join(f"{o['due']:.9f} {o['bytes']}" for o in objects)
    assert len(objects) == COUNT and hashlib.sha256(words.encode()).hexdigest() == GOLDEN
    more = path("--for", "20", "--sessions", "21", "--seed", "5")
    assert [o for o in more if o["session"] < 20] == objects  # a session more changes no other


def test_files_of_given_sizes() -> None:
    options = ("--bytes", "3k,30k,3M", "--every", "0.7", "--count", "5")
    objects = result("fetch", *ANYWHERE, *options, "--dry-run")["objects"]
    assert [o["bytes"] for o in objects] == [3000, 30000, 3000000, 3000, 30000]
    assert [o["due"] for o in objects] == pytest.approx([0, 0.7, 1.4, 2.1, 2.8])


# --- UDP over loopback -----------------------------------------------------------------------------------------------


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


# --- TCP over loopback -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("address", ["127.0.0.1", "::1"])
def test_objects_are_those_of_the_path(address: str) -> None:
    options = ("--for", "0.8", "--sessions", "20", "--seed", "4")
    with serving("web-server") as server:
        got = result("web-client", address, server.port, *options, "--drain", "5")
    summary, objects = got["summary"], got["objects"]
    keys = ("due", "bytes", "session", "page")
    assert [[o[k] for k in keys] for o in objects] == [[o[k] for k in keys] for o in path(*options)]
    assert all(o["seconds"] > 0 and o["start"] >= o["due"] for o in objects)
    assert summary["count"] == summary["finished"] == len(objects) > 100
    assert summary["bytes_received"] == server.result["bytes"] == sum(o["bytes"] for o in objects)
    assert server.result["served"] == len(objects)
    times = sorted(o["seconds"] for o in objects)
    assert summary["response_s"]["mean"] == pytest.approx(statistics.fmean(times), abs=2e-9)
    assert summary["response_s"]["p50"] == times[-(-len(times) // 2) - 1]
    assert summary["response_s"]["max"] == times[-1]
    for row in summary["bins"]:
        mine = [o["seconds"] for o in objects if row["from"] <= o["bytes"] < row["to"]]
        assert len(mine) == row["count"] and row["mean_s"] == pytest.approx(statistics.fmean(mine), abs=2e-9)
        assert row["to"] / row["from"] == pytest.approx(1.1, rel=1e-3)
    assert sum(row["count"] for row in summary["bins"]) == len(objects)


def test_thinking_changes_times_not_sizes() -> None:
    """The server stands still at first, so that a page takes longer than the gap after it."""
    options = ("--for", "1.5", "--sessions", "10", "--page-gap", "0.1", "--seed", "4")
    with serving("web-server") as server:
        server.process.send_signal(signal.SIGSTOP)
        command: list[str | Path] = [TRAFFIC, "web-client", "127.0.0.1", server.port, *options, "--drain", "5", "--think"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as client:
            time.sleep(0.7)
            server.process.send_signal(signal.SIGCONT)
            thought = json.loads(client.communicate(timeout=10)[0])["objects"]
    planned = path(*options)
    for session in range(10):
        mine, theirs = ([o for o in objects if o["session"] == session] for objects in (thought, planned))
        assert 20 < len(mine) < len(theirs)
        assert [o["bytes"] for o in mine] == [o["bytes"] for o in theirs[: len(mine)]]
        for page in range(1, mine[-1]["page"] + 1):
            complete = max(o["start"] + o["seconds"] for o in mine if o["page"] == page - 1)
            gap = theirs[10 * page]["due"] - theirs[10 * page - 1]["due"]
            assert mine[10 * page]["due"] == pytest.approx(complete + gap, abs=1e-6)


def test_a_thousand_objects_at_once() -> None:
    """The server stands still while they are asked for, then serves all."""
    with serving("web-server") as server:
        server.process.send_signal(signal.SIGSTOP)
        client = subprocess.Popen(
            [TRAFFIC, "fetch", "127.0.0.1", server.port, "--bytes", "20k", "--every", "0.0001", "--count", "1500"],
            stdout=subprocess.PIPE,
            text=True,
        )
        time.sleep(0.7)
        server.process.send_signal(signal.SIGCONT)
        summary = json.loads(client.communicate(timeout=10)[0])["summary"]
    assert summary["finished"] == 1500 and summary["bytes_received"] == 1500 * 20000
    assert summary["most_at_once"] >= 1000


def test_a_thousand_connections_wait_and_are_served() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(4096, hard), hard))
    try:
        with serving("web-server") as server:
            waiting = [socket.create_connection(("127.0.0.1", int(server.port)), timeout=5) for _ in range(1200)]
            for n, peer in enumerate(waiting):
                peer.sendall(f"GET {n}\n".encode())
            for n, peer in enumerate(waiting):
                with peer, peer.makefile("rb") as answer:
                    assert len(answer.read()) == n
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert server.result["served"] == 1200 and server.result["most_at_once"] >= 1000


def test_more_connections_than_files_wait_for_their_turn() -> None:
    """100 files, 64 of them set aside: 36 places."""
    prefix = ("setpriv", "--bounding-set=-sys_resource", "prlimit", "--nofile=100:100")
    with serving("web-server", prefix=prefix if os.geteuid() == 0 else prefix[2:]) as server:
        waiting = [socket.create_connection(("127.0.0.1", int(server.port)), timeout=5) for _ in range(50)]
        time.sleep(0.1)
        before = Path(f"/proc/{server.process.pid}/stat").read_text().rpartition(") ")[2].split()
        time.sleep(0.2)
        after = Path(f"/proc/{server.process.pid}/stat").read_text().rpartition(") ")[2].split()
        assert sum(map(int, after[11:13])) - sum(map(int, before[11:13])) <= 5  # of 20 ticks: it sleeps meanwhile
        for peer in waiting:
            peer.sendall(b"GET 1000\n")
        for peer in waiting:
            with peer, peer.makefile("rb") as answer:
                assert len(answer.read()) == 1000
    assert (server.result["served"], server.result["most_at_once"]) == (50, 36)


@pytest.mark.parametrize(
    "line", [b"\n", b"GET\n", b"GET -1\n", b"GET x\n", b"GET 5x\n", b"POST 5\n", b"GET 9999999999999\n", b"G" * 40]
)
def test_bad_requests_are_closed_and_counted(line: bytes) -> None:
    with serving("web-server") as server:
        with socket.create_connection(("127.0.0.1", int(server.port)), timeout=5) as peer:
            peer.sendall(line)
            with contextlib.suppress(ConnectionResetError):  # more was sent than is read
                assert peer.recv(1) == b""
        assert result("fetch", "127.0.0.1", server.port, "--bytes", "5")["summary"]["finished"] == 1
    assert (server.result["bad_requests"], server.result["served"]) == (1, 1)


def test_a_request_may_come_in_pieces() -> None:
    with serving("web-server") as server, socket.create_connection(("127.0.0.1", int(server.port)), timeout=5) as peer:
        for piece in (b"GE", b"T 1", b"00\r", b"\n"):
            peer.sendall(piece)
            time.sleep(0.02)
        with peer.makefile("rb") as answer:
            assert len(answer.read()) == 100


def test_server_outlives_peers_that_go() -> None:
    with serving("web-server") as server:
        for request in (b"", b"GET 100000000\n"):
            with socket.create_connection(("127.0.0.1", int(server.port)), timeout=5) as peer:
                peer.sendall(request)
                peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # a reset
                time.sleep(0.05)
        assert result("fetch", "127.0.0.1", server.port, "--bytes", "5")["summary"]["finished"] == 1
    assert (server.result["aborted"], server.result["served"], server.result["open"]) == (2, 1, 0)


def test_server_that_goes_leaves_objects_unfinished() -> None:
    """One answer in full, one half, one never: 1 finished, 1 failed, 1 unfinished at the end."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        client = subprocess.Popen(
            [
                TRAFFIC,
                "fetch",
                *map(str, listener.getsockname()),
                "--bytes",
                "10",
                "--every",
                "0.01",
                "--count",
                "3",
                "--drain",
                "0.5",
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        peers = [listener.accept()[0] for _ in range(3)]
        assert [peer.recv(20) for peer in peers] == [b"GET 10\n"] * 3
        peers[0].sendall(b"0123456789")
        peers[1].sendall(b"01234")
        peers[0].close()
        peers[1].close()
        out, err = client.communicate(timeout=5)
        peers[2].close()
    got = json.loads(out)
    assert client.returncode == 0 and "1 of 3 objects of 127.0.0.1" in err
    assert [o["seconds"] is None for o in got["objects"]] == [False, True, True]
    assert {key: got["summary"][key] for key in ("finished", "unfinished", "failed", "bytes_received")} == {
        "finished": 1,
        "unfinished": 2,
        "failed": 1,
        "bytes_received": 15,
    }


def test_no_server_at_all() -> None:
    options = ("--bytes", "10", "--every", "0.1", "--count", "2")
    done = traffic("fetch", "127.0.0.1", free_port(socket.SOCK_STREAM), *options)
    assert done.returncode == 1
    assert "2 of 2 objects of 127.0.0.1 port" in done.stderr and "is web-server running there?" in done.stderr
    assert [o["seconds"] for o in json.loads(done.stdout)["objects"]] == [None, None]


def test_server_sends_with_the_controller() -> None:
    with serving("web-server", "-C", "reno") as server:
        with socket.create_connection(("127.0.0.1", int(server.port)), timeout=5) as peer:
            peer.sendall(b"GET 100000000\n")
            peer.recv(1)
            shown = subprocess.run(
                ["ss", "-tinH", "state", "established", f"sport = :{server.port}"], capture_output=True, text=True
            ).stdout
            assert " reno " in shown


def test_sigterm_brings_the_result() -> None:
    for arguments in (
        ("udp-send", *ANYWHERE, "--rtp", "--for", "20"),
        ("web-client", "127.0.0.1", free_port(socket.SOCK_STREAM), "--for", "20", "--page-gap", "60"),
    ):
        with subprocess.Popen([TRAFFIC, *arguments], stdout=subprocess.PIPE, text=True) as process:
            time.sleep(0.2)
            process.terminate()
            json.loads(process.communicate(timeout=5)[0])
            assert process.returncode == 0


# --- what it refuses -------------------------------------------------------------------------------------------------

SEND = ("udp-send", "127.0.0.1", "9", "--rate", "1M", "--size", "500", "--for", "1")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "usage: traffic COMMAND"),
        (("nosuch",), "nosuch: no such command"),
        (("udp-sink",), "too few arguments"),
        (("udp-sink", "1", "2"), "too many arguments"),
        (("udp-sink", "0"), 'PORT: "0" is not a number from 1 to 65535'),
        (("udp-sink", "65536"), "PORT"),
        (("udp-sink", "-1"), "-1: no such option"),
        (("udp-sink", "9", "--interval", "0"), '--interval: "0" is not a number from 0.001'),
        (("udp-sink", "9", "--bind", "example.org"), "names are not looked up"),
        (("udp-sink", "9", "--bind", "fe80::1%nosuch"), 'no interface "nosuch"'),
        (("udp-sink", "9", "--bind", ""), "--bind: it is empty"),
        (("udp-send", "127.0.0.1", "9", "--size", "500", "--for", "1"), "--rate and --size are needed"),
        (SEND[:-2], "--for is needed"),
        ((*SEND, "--rate"), "--rate: its value is missing"),
        ((*SEND, "--rate", "1Q"), '"1Q" is not a number'),
        ((*SEND, "--rate", "nan"), '"nan" is not a number'),
        ((*SEND, "--rate", "0x10000"), "is not a number"),
        ((*SEND, "--rate", "1500.5"), "is not a whole number"),
        ((*SEND, "--rate", "-1M"), "is not a number"),
        ((*SEND, "--size", "51"), "our own header to 127.0.0.1 are 52 bytes"),
        ((*SEND, "--size", "65536"), "--size"),
        ((*SEND, "--for", "86401"), "--for"),
        ((*SEND, "--duty", "0"), "--duty"),
        ((*SEND, "--rtp"), "leave them out"),
        ((*SEND, "--constant", "--poisson"), "exclude each other"),
        ((*SEND, "--seed", "-1"), "--seed"),
        ((*SEND, "--nosuch"), "--nosuch: no such option"),
        (("web-client", "127.0.0.1", "9"), "--for is needed"),
        (("web-client", "127.0.0.1", "9", "--for", "1", "--shape", "1"), "has no mean"),
        (("web-client", "127.0.0.1", "9", "--for", "1", "--mean", "1k", "--min", "1k"), "exclude each other"),
        (("web-client", "127.0.0.1", "9", "--for", "1", "--min", "1k", "--max", "1k"), "not above the --min"),
        (("web-client", "127.0.0.1", "9", "--for", "1", "--max", "12k"), "not above the mean"),
        (("web-client", "127.0.0.1", "9", "--for", "1", "--sessions", "0"), "less than 1"),
        (("fetch", "127.0.0.1", "9"), "--bytes is needed"),
        (("fetch", "127.0.0.1", "9", "--bytes", "3k,,4k"), '--bytes: "" is not a number'),
        (("fetch", "127.0.0.1", "9", "--bytes", "3k", "--count", "2"), "--every is needed"),
    ],
)
def test_bad_arguments(arguments: tuple[str, ...], words: str) -> None:
    done = traffic(*arguments)
    assert done.returncode == 2 and not done.stdout
    assert words in done.stderr


@pytest.mark.parametrize("command", ["udp-sink", "udp-send", "web-server", "web-client", "fetch"])
def test_help(command: str) -> None:
    done = traffic(command, "--help")
    assert done.returncode == 0 and done.stdout.startswith(f"usage: traffic {command} ")
    assert command in traffic("--help").stdout


def test_failures_name_what_is_wrong() -> None:
    with serving("web-server") as server:
        done = traffic("web-server", server.port)
        assert done.returncode == 1
        assert f"bind to :: port {server.port}: Address already in use; take another PORT" in done.stderr
    done = traffic("web-server", server.port, "-C", "nosuch")
    assert done.returncode == 1 and "congestion control nosuch: No such file or directory; `sysctl" in done.stderr
    done = traffic("web-server", server.port, "--bind", "192.0.2.1")
    assert done.returncode == 1 and "--bind wants an address of this host" in done.stderr
    done = traffic("web-client", *ANYWHERE, "--dry-run", "--for", "86400", "--sessions", "1000")
    assert done.returncode == 1 and "the path has more than 1000000 objects" in done.stderr
    with open("/dev/full", "w") as full:
        assert subprocess.run([TRAFFIC, "--help"], stdout=full, stderr=subprocess.DEVNULL).returncode == 1


# --- handover --------------------------------------------------------------------------------------------------------


def controller_of(connection: socket.socket) -> str:
    return connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16).split(b"\0")[0].decode()


def test_a_running_connection_gets_another_controller() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as connection:
        accepted, _ = server.accept()
        with accepted:
            port = str(connection.getsockname()[1])
            before = controller_of(accepted)
            for name in ("reno", "cubic"):
                assert result("handover", port, name).keys() == {"changed_ns"}
                assert controller_of(connection) == name and controller_of(accepted) == before
            wrong = traffic("handover", port, "nothing")
            assert wrong.returncode == 1 and "congestion control nothing" in wrong.stderr
    gone = traffic("handover", port, "reno")
    assert gone.returncode == 1 and f"port {port}: no established connection has it" in gone.stderr
