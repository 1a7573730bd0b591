# SPDX-License-Identifier: GPL-2.0-only
"""The native lab itself: its delay, rate and buffer are what was asked for, and nothing stays behind."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import cast

import pytest

from ..engine import native
from ..engine.experiment import Experiment, Flow, FlowResult, Link, Result, Sample, quantile

pytestmark = [pytest.mark.quiet, pytest.mark.usefixtures("nothing_left")]

DISTURBED = 0.01  # part of late packets: p95 of a round trip, two ways, cannot be within 1 ms
STOPPED = 0.2  # a machine whose cores others took was late for 28 % once; the delay line would be late each time
HEADERS_BYTES = {4: 52, 6: 72}  # IP, TCP, timestamps: what goodput does not count of 1500
HOLD_A_PATH = """
import signal, time
from tests.lab.engine import native
signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored, where the tests run in a shell's background
from tests.lab.engine.experiment import Link
with native.Path(Link(20, 40)) as path:
    path.start(path.receiver, "iperf3", "-s")
    print(path.sender, path.router, path.receiver, flush=True)
    time.sleep(60)
"""


def best_mbit(link: Link, family: int = 4) -> float:
    return link.rate_mbit * (1500 - HEADERS_BYTES[family]) / 1500


# --- what the path does ----------------------------------------------------------------------------------------------


RTTS_MS = [10, 40, 80]  # from 100 ms on ping prints whole milliseconds


def as_asked(rtt_ms: int, results: list[Result]) -> bool:
    """For 19 of 20 packets of the last attempt; and one attempt was without so many late packets that the delay line would be
    the cause."""
    late = min((result.late_part for result in results), default=1.0)
    return bool(results) and quantile(results[-1].rtts_ms(from_s=0.5), 0.95) <= rtt_ms + 1 and late <= STOPPED


@pytest.fixture(scope="module")
def idle(measured: list[str]) -> dict[int, list[Result]]:
    """Attempts without any traffic but ping, of all paths at once: at the most five, until one is as asked."""
    found: dict[int, list[Result]] = {rtt_ms: [] for rtt_ms in RTTS_MS}
    for _ in range(5):
        again = [rtt_ms for rtt_ms in RTTS_MS if not as_asked(rtt_ms, found[rtt_ms])]
        experiments = [Experiment("idle", Link(20, rtt_ms), seconds=4, ping_every_s=0.02) for rtt_ms in again]
        for rtt_ms, result in zip(again, native.run_all(experiments, len(RTTS_MS)), strict=True):
            found[rtt_ms].append(result)
            p25, p50, p95 = (quantile(result.rtts_ms(from_s=0.5), part) for part in (0.25, 0.5, 0.95))
            measured.append(
                f"idle, RTT {rtt_ms} ms asked: ping p25 {p25:.2f}, p50 {p50:.2f}, p95 {p95:.2f} ms, "
                f"{result.late_part:.1%} of the packets later than 1 ms"
            )
    return found


@pytest.mark.parametrize("rtt_ms", RTTS_MS)
def test_idle_round_trip_is_what_was_asked(rtt_ms: int, idle: dict[int, list[Result]]) -> None:
    """Never shorter, the median no longer; and for 19 of 20 packets in one of five attempts (one of 175 pings would be chance).
    What a machine that makes the wire itself late for more than that may lengthen is the longer half; one attempt at the least
    is without so many late packets that the delay line would be the cause."""
    for result in idle[rtt_ms]:
        rtts = result.rtts_ms(from_s=0.5)
        low, p25, p50, p95 = (quantile(rtts, part) for part in (0, 0.25, 0.5, 0.95))
        assert len(rtts) > 100 and not result.pings_lost
        assert rtt_ms <= low and p25 <= rtt_ms + 1
        assert p50 <= rtt_ms + 1 or result.late_part >= DISTURBED
    if as_asked(rtt_ms, idle[rtt_ms]):
        return
    assert min(result.late_part for result in idle[rtt_ms]) <= STOPPED
    quiet = any(result.late_part < DISTURBED for result in idle[rtt_ms])
    assert not quiet, f"p95 of the idle round trip: {p95:.2f} ms, {rtt_ms} asked"


RATES = [(5, 4), (20, 4), (20, 6), (100, 4)]  # Mbit/s, by IP of this version


@pytest.fixture(scope="module")
def goodputs(measured: list[str]) -> dict[tuple[int, int], float]:
    """Of a flow that is alone on its path, as part of what is possible there; all paths at once. One of three attempts counts: a machine
    that stands still takes from it, and nothing adds to it."""
    found = dict.fromkeys(RATES, 0.0)
    for _ in range(3):
        again = [case for case in RATES if found[case] < 0.95]
        links = [Link(rate, 40) for rate, _ in again]
        flows = [(Flow("one", "cubic", 7, family=family),) for _, family in again]
        results = native.run_all([Experiment("rate", *each) for each in zip(links, flows, strict=True)], len(RATES))
        for case, link, result in zip(again, links, results, strict=True):
            goodput, best = result.flows["one"].goodput_mbit(3, 7), best_mbit(link, case[1])
            measured.append(
                f"cubic alone, {case[0]} Mbit/s, IPv{case[1]}: {goodput:.2f} Mbit/s of {best:.2f} possible, "
                f"{result.late_part:.1%} of the packets later than 1 ms"
            )
            found[case] = max(found[case], goodput / best)
    return found


@pytest.mark.parametrize("case", RATES, ids="{0[0]}-{0[1]}".format)
def test_goodput_is_the_rate(case: tuple[int, int], goodputs: dict[tuple[int, int], float]) -> None:
    assert goodputs[case] == pytest.approx(1, rel=0.05)


def flooded(path: native.Path, mbit: float) -> tuple[list[float], list[int]]:
    """Round trips of a few seconds in which the queue is always full, ms; and the backlogs then, bytes."""
    server = path.start(path.receiver, *"iperf3 -s -1 --forceflush".split())
    server.drain(5, until=lambda: any("listening" in line for line in server.lines))
    flood = path.start(path.sender, *f"iperf3 -u -c {native.RECEIVER[4]} -b {mbit}M -l 1472 -t 8".split())
    ping = path.start(path.sender, *f"ping -n -i 0.02 -c 200 -w 10 {native.RECEIVER[4]}".split())
    ping.drain(1)  # the queue fills
    first, backlogs = len(ping.lines), [path.queue()[0] for _ in range(50)]
    ping.drain(10)
    assert flood.process.poll() is None, "the flood ended before the pings"
    echoes = filter(None, map(native.ECHO.search, ping.lines[first:]))
    return [float(echo[2]) for echo in echoes], backlogs


BUFFERS_BDP = [0.5, 1, 3]
Full = tuple[list[float], list[int], int]  # round trips, ms; backlogs, bytes; packets dropped


def filled(link: Link) -> Full:
    with native.Path(link) as path:
        rtts, backlogs = flooded(path, 1.3 * link.rate_mbit)
        return rtts, backlogs, path.queue()[1]


@pytest.fixture(scope="module")
def full() -> dict[float, Full]:
    """By buffer, in bandwidth-delay products; all paths at once."""
    with ThreadPoolExecutor(len(BUFFERS_BDP)) as pool:
        links = [Link(20, 40, buffer_bdp) for buffer_bdp in BUFFERS_BDP]
        return dict(zip(BUFFERS_BDP, pool.map(filled, links), strict=True))


@pytest.mark.parametrize("buffer_bdp", BUFFERS_BDP)
def test_buffer_is_what_was_asked(buffer_bdp: float, full: dict[float, Full], measured: list[str]) -> None:
    """A queue that is kept full delays by the buffer, in the median: a machine that stands still makes single packets
    late."""
    link, (rtts, backlogs, drops) = Link(20, 40, buffer_bdp), full[buffer_bdp]
    queue_ms = quantile(rtts, 0.5) - link.rtt_ms
    measured.append(
        f"flooded, buffer {link.buffer_bytes} bytes = {link.buffer_ms:g} ms: queueing delay {queue_ms:.1f} ms, "
        f"largest backlog seen {max(backlogs)} bytes"
    )
    assert queue_ms == pytest.approx(link.buffer_ms, rel=0.15)
    assert 0.85 * link.buffer_bytes <= max(backlogs) <= link.buffer_bytes
    assert drops > 0


def test_two_equal_flows_are_heard_apart() -> None:
    """When each begins, and what they have together, in one of three attempts."""
    flows = (Flow("early", "cubic", 6), Flow("late", "reno", 4, start_s=3, family=6))
    for _ in range(3):
        result = native.run(Experiment("two", Link(20, 20), flows))
        assert [flow.controller for flow in result.flows.values()] == ["cubic", "reno"]
        early, late = result.flows["early"], result.flows["late"]
        assert late.goodput_mbit(0, 3) == 0
        both = early.goodput_mbit(4, 6) + late.goodput_mbit(4, 6)
        if early.first_s < 0.5 and late.first_s < 3.5 and both == pytest.approx(19.2, rel=0.05):
            break
    assert 0 < early.first_s < 0.5
    assert 3 < late.first_s < 3.5
    assert both == pytest.approx(19.2, rel=0.05)


def test_paths_do_not_disturb_each_other() -> None:
    """In one of three attempts."""
    experiments = [Experiment(f"rate {rate}", Link(rate, 20), (Flow("one", "cubic", 5),)) for rate in (10, 20)]
    for _ in range(3):
        results = native.run_all(experiments, at_once=2)
        shares = [result.flows["one"].goodput_mbit(2, 5) / best_mbit(result.experiment.link) for result in results]
        if shares == pytest.approx([1, 1], rel=0.05):
            break
    assert shares == pytest.approx([1, 1], rel=0.05)


# --- what fails, and says so -----------------------------------------------------------------------------------------


def test_unknown_controller_is_named() -> None:
    with pytest.raises(native.LabError, match="flow one .nosuchcc."):
        native.run(Experiment("unknown", Link(20, 10), (Flow("one", "nosuchcc", 2),)))


def test_missing_tool_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native, "DELAYLINE", Path("/nonexistent/delayline"))
    with pytest.raises(native.LabError, match="/nonexistent/delayline: not built; `make all`"):
        native.run(Experiment("none", Link(20, 10)))


def test_half_made_path_is_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: native.Path) -> None:
        raise native.LabError("refused by the test")

    monkeypatch.setattr(native.Path, "_set_bottleneck", refuse)
    with pytest.raises(native.LabError, match="refused"), native.Path(Link(20, 10)):
        pass


def test_path_ends_its_processes_upon_an_exception() -> None:
    with pytest.raises(ZeroDivisionError), native.Path(Link(20, 10)) as path:
        path.start(path.receiver, "iperf3", "-s")
        raise ZeroDivisionError


# --- what is left of a run that was ended ----------------------------------------------------------------------------


def held_path() -> tuple[subprocess.Popen[str], list[str]]:
    holder = subprocess.Popen([sys.executable, "-c", HOLD_A_PATH], stdout=subprocess.PIPE, text=True, cwd=native.REPOSITORY)
    assert holder.stdout
    names = holder.stdout.readline().split()
    assert len(names) == len(native.ROLES), "the path was not made"
    return holder, names


def end(holder: subprocess.Popen[str], number: int) -> None:
    holder.send_signal(number)
    holder.wait(10)
    assert holder.stdout
    holder.stdout.close()


def test_ctrl_c_removes_the_path() -> None:
    holder, names = held_path()
    assert set(names) <= set(native.namespaces())
    end(holder, signal.SIGINT)
    assert not set(names) & set(native.namespaces())


def test_leftovers_of_a_killed_run_are_removed_by_the_next() -> None:
    holder, names = held_path()
    end(holder, signal.SIGKILL)
    assert set(names) <= set(native.namespaces())
    assert sorted(native.remove_leftovers()) == sorted(names)
    assert not set(names) & set(native.namespaces())


def test_a_living_run_is_not_a_leftover() -> None:
    holder, names = held_path()
    try:
        assert not native.remove_leftovers()
        assert set(names) <= set(native.namespaces())
    finally:
        end(holder, signal.SIGINT)


def test_foreign_namespaces_are_left_alone() -> None:
    name = f"{native.NAME}-not-ours.{os.getpid()}"
    native.command("ip", "netns", "add", name)
    try:
        assert name not in native.remove_leftovers()
    finally:
        native.command("ip", "netns", "del", name)


# --- the delay line --------------------------------------------------------------------------------------------------


def delayline(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([native.DELAYLINE, *arguments], capture_output=True, text=True, timeout=10, stdin=subprocess.DEVNULL)


@pytest.mark.parametrize("arguments", [[], ["/run/netns/a", "x", "/run/netns/b", "y"], ["a", "x", "b", "y", "-1"],
                                       ["a", "x", "b", "y", "5ms"], ["a", "x", "b", "y", "1", "0"],
                                       ["a", "x", "b", "y", "1", "9", "1"], ["a", "x", "b", "y", "1", "9", "1", "1", "10001"]])  # fmt: skip
def test_delayline_refuses_what_it_cannot_read(arguments: list[str]) -> None:
    done = delayline(*arguments)
    assert done.returncode == 2 and done.stderr and not done.stdout


def test_delayline_names_the_missing_namespace() -> None:
    done = delayline("/run/netns/nosuch", "x", "/run/netns/nosuch", "y", "1000")
    assert done.returncode == 1
    assert "/run/netns/nosuch: No such file or directory" in done.stderr


def test_delayline_ends_with_its_stdin() -> None:
    with native.Path(Link(20, 10)) as path:
        ends = [f"/run/netns/{path.sender}", "t0", f"/run/netns/{path.receiver}", "t1"]
        done = delayline(*ends, "1000")
    ready, statistics = map(json.loads, done.stdout.splitlines())
    assert done.returncode == 0 and ready == {"ready": True}
    assert statistics["delay_us"] == 1000 and statistics["from_left"]["packets"] == 0


def test_delayline_drops_what_has_no_slot() -> None:
    """One slot, 100 ms away: of a burst one packet arrives, the others are counted."""
    with native.Path(Link(20, 10)) as path:
        ends = [f"/run/netns/{path.sender}", "t0", f"/run/netns/{path.receiver}", "t1"]
        with subprocess.Popen(
            [native.DELAYLINE, *ends, "100000", "1"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as line:
            assert line.stdin and line.stdout
            assert "ready" in line.stdout.readline()
            path.command(path.sender, "ip", "addr", "add", "10.9.0.1/24", "dev", "t0")
            path.command(path.sender, "sysctl", "-qw", "net.ipv6.conf.t0.disable_ipv6=1")
            path.command(path.receiver, "sysctl", "-qw", "net.ipv6.conf.t1.disable_ipv6=1")
            for name, device in ((path.sender, "t0"), (path.receiver, "t1")):
                path.command(name, "ip", "link", "set", device, "up")
            subprocess.run(
                ["ip", "netns", "exec", path.sender, "ping", "-q", "-c", "10", "-i", "0.002", "-w", "1", "10.9.0.2"],
                stdout=subprocess.DEVNULL,
                timeout=10,
            )
            line.stdin.close()
            statistics = json.loads(line.stdout.readline())
    assert statistics["from_left"]["dropped"] > 0
    assert statistics["from_left"]["packets"] > 0


@pytest.mark.parametrize("fault", ["lost", "twice", "early"])
def test_delayline_faults(fault: str) -> None:
    """Half of the packets to the receiver meet it, and the answers do not. A round trip is 40 ms, or 20 where the packet was early."""
    with native.Path(Link(20, 40), native.Faults(**{fault: 0.5})) as path:
        sent = ("ip", "netns", "exec", path.router, "ping", "-c", "200", "-i", "0.005", "-W", "1", native.RECEIVER[4])
        out = subprocess.run(sent, stdout=subprocess.PIPE, text=True, timeout=10).stdout
    met = cast(dict[str, dict[str, int]], path.wire)["from_left"]
    assert 60 < met[fault] < 140 and met["lost"] + met["twice"] + met["early"] == met[fault]
    times = [float(ms) for ms in re.findall(r"time=([\d.]+) ms$", out, re.M)]
    early = sum(ms < 35 for ms in times)
    found = {"lost": 200 + out.count("DUP!") - len(times), "twice": out.count("DUP!"), "early": early}
    assert found[fault] == pytest.approx(met[fault], abs=5), "a few are the kernel's own, for IPv6"


# --- the arithmetic of the results -----------------------------------------------------------------------------------


def flow_of(*megabits: float) -> FlowResult:
    samples = [Sample(i / 10, (i + 1) / 10, value) for i, value in enumerate(megabits)]
    return FlowResult(Flow("x", "cubic", 1), samples)


def test_goodput_counts_samples_by_the_part_inside() -> None:
    flow = flow_of(1, 2, 3)
    assert flow.goodput_mbit(0, 0.3) == pytest.approx(20)
    assert flow.goodput_mbit(0.05, 0.15) == pytest.approx(15)
    assert flow.goodput_mbit(5, 6) == 0


def test_reaches_finds_the_first_window() -> None:
    flow = flow_of(*[0] * 10, *[1] * 30)
    assert flow.reaches(8, 0, 1) == pytest.approx(0.8, abs=0.11)
    assert flow.reaches(8, 2, 1) == 0
    assert flow.reaches(11, 0, 1) is None


def test_quantile() -> None:
    values = [4, 1, 3, 2]
    assert [quantile(values, part) for part in (0, 0.25, 0.5, 0.75, 0.76, 1)] == [1, 1, 2, 3, 4, 4]
    assert quantile([], 0.5) != quantile([], 0.5)
