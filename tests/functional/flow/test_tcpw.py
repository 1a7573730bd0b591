# SPDX-License-Identifier: GPL-2.0-only
"""TCPW-LP on this kernel: its record and events, early reductions, Westwood's reaction to losses, small windows."""

from __future__ import annotations

import itertools
import time
from itertools import dropwhile
from typing import Any

import pytest

from tests.functional.flow.test_small_window import LONGEST_S
from tests.functional.kernel import PHASE, SIGNAL, Controller, TcpInfo, eventually, tcp_info
from tests.functional.peer import Behaviour, Flow, Peer, Segment, bursts

pytestmark = pytest.mark.rerun("windows are computed from delays of the peer: what the host adds to them counts as well")

OPEN, DISORDER, CWR, RECOVERY, LOSS = range(5)
RTT_S = 0.02
EXTRA_S = 0.03
FIRST_LOSS = 60
MILLI = 1000


class Path_(Behaviour):
    """A loss ends slow start; ACKs can be late, as if a queue stood."""

    def __init__(self, **path: Any) -> None:
        super().__init__(rtt_s=RTT_S, **path)
        self.extra_s = 0.0
        self.losing = {FIRST_LOSS}

    def lost(self, segment: Segment) -> bool:
        return segment.number in self.losing

    def ack_held_s(self, number: int) -> float:
        return self.extra_s


def infos(flow: Flow) -> list[TcpInfo]:
    return [sample.info for sample in flow.end.samples]


def started(flow: Flow, controller: Controller) -> None:
    """Slow start is over, and its loss repaired."""
    flow.pump()
    eventually(lambda: (f := controller.flow(flow.sock)) and f.losses and f.phase != PHASE.RECOVERY, 5, "the first loss")
    time.sleep(3 * RTT_S)


def test_record_and_event_of_a_reduction(tcpw_lp: Controller, peer: Peer) -> None:
    """With a standing queue the window falls once per round trip; record, event and counters show by how much."""
    behaviour = Path_()
    before = tcpw_lp.stats()
    tcpw_lp.ring.read()
    tcpw_lp.listen(30)
    try:
        flow = peer.connect(tcpw_lp.name, behaviour)
        started(flow, tcpw_lp)
        calm = tcpw_lp.flow(flow.sock)
        behaviour.extra_s = EXTRA_S
        record = eventually(
            lambda: (f := tcpw_lp.flow(flow.sock)) and f.indications >= 2 and f.delay_us > 20_000 and f, 5, "reductions"
        )
    finally:
        tcpw_lp.listen(0)
    assert calm and calm.phase == PHASE.AVOIDANCE and calm.delay_source == SIGNAL.RTT
    assert 15_000 < calm.rtt_min_us < 30_000
    assert calm.tcpw.window == calm.cwnd and calm.tcpw.pair_gap_us == 0
    assert calm.tcpw.d_loss_us < EXTRA_S * 1e6
    assert calm.tcpw.ere_bps == pytest.approx(calm.cwnd * calm.mss * 8e6 / calm.rtt_us, rel=0.5)
    assert record.tcpw.d_min_us <= record.tcpw.d_max_us
    assert 0 <= record.tcpw.foreground_permille <= MILLI
    assert 300 <= record.tcpw.threshold_milli <= 3000
    assert record.ssthresh <= record.cwnd or record.phase == PHASE.SMALL
    flow.close()
    events = tcpw_lp.ring.read()
    cuts = [event for event in events if event.word == "ewr"]
    after = tcpw_lp.stats()
    assert len(cuts) >= 2 and after.indications - before.indications >= 2
    assert after.cuts_to_one == before.cuts_to_one
    for cut in cuts:
        assert cut.a > cut.b >= 300, "the queue exceeded its threshold"
        assert cut.cwnd >= 1 and cut.ssthresh <= max(cut.cwnd, 2)
    times = [cut.time_ns / 1e9 for cut in cuts]
    assert min(b - a for a, b in zip(times, times[1:])) > RTT_S, "once per round trip"
    windows = [cut.cwnd for cut in cuts]
    assert windows == sorted(windows, reverse=True)


def test_no_queue_no_reduction(tcpw_lp: Controller, peer: Peer) -> None:
    """A window that fits the path is never reduced: it grows by a packet per round trip."""
    flow = peer.connect(tcpw_lp.name, Path_(window_bytes=200 * 1448))
    started(flow, tcpw_lp)
    with tcpw_lp.set(noise_floor=20_000):  # what a busy machine adds
        since = tcpw_lp.flow(flow.sock)
        assert since
        begun = time.monotonic()
        now = eventually(lambda: (f := tcpw_lp.flow(flow.sock)) and f.cwnd >= min(since.cwnd + 5, 180) and f, 5, "growth")
    assert now.cwnd - since.cwnd <= (time.monotonic() - begun) / RTT_S + 2
    assert now.indications <= since.indications + 3, "what a busy machine adds before the window is set up for it"
    flow.close()


class Random(Path_):
    """After slow start one packet of a hundred is lost, and there is no queue."""

    def lost(self, segment: Segment) -> bool:
        return segment.number == FIRST_LOSS or segment.number > 500 and segment.number % 100 == 0


def test_random_loss_takes_little(tcpw_lp: Controller, peer: Peer) -> None:
    """Westwood: the window becomes what the path carried, where reno halves. `chance` is off: its limit has its own test."""
    kept = {}
    flows = {name: peer.connect(name, Random(window_bytes=64 * 1448)) for name in ("reno", tcpw_lp.name)}
    with tcpw_lp.set(noise_floor=20_000, chance=0):
        for flow in flows.values():
            flow.pump()
        for name, flow in flows.items():
            eventually(lambda: len(flow.end.segments) > 2000, 20, f"fifteen losses of {name}")
            windows = [info.cwnd for info in infos(flow)[len(infos(flow)) // 2 :] if info.ca_state == OPEN]
            kept[name] = sum(windows) / len(windows)
            assert not flow.end.wrong
            flow.close()
    assert kept[tcpw_lp.name] > 1.5 * kept["reno"], kept


def second_loss(seen: list[TcpInfo]) -> tuple[TcpInfo, TcpInfo] | None:
    """The connection before and after the ACK that reported a loss at 2 RTT_min, once that ACK was sampled."""
    late = dropwhile(lambda info: info.rtt_us < 1.5e6 * RTT_S, seen)
    return next(((a, b) for a, b in itertools.pairwise(late) if b.ca_state == RECOVERY > a.ca_state), None)


def test_a_full_buffer_takes_as_much_as_the_delay_says(tcpw_lp: Controller, peer: Peer) -> None:
    """RTT = 2 RTT_min at the loss: ssthresh is half of the window, as reno's."""
    behaviour = Path_()
    flow = peer.connect(tcpw_lp.name, behaviour)
    with tcpw_lp.set(backlog_max=64_000, backlog_min=3_000, noise_floor=100_000, small_window=0):  # no early reduction
        started(flow, tcpw_lp)
        behaviour.extra_s = RTT_S
        time.sleep(10 * RTT_S)
        behaviour.losing.add(len(flow.end.segments) + 20)
        reduced = eventually(lambda: second_loss(infos(flow)), 10, "the second loss")
    assert 0.35 * reduced[0].cwnd <= reduced[1].ssthresh <= 0.75 * reduced[0].cwnd, reduced
    flow.close()


class Policer(Path_):
    """Drops what exceeds a rate, and never queues."""

    def __init__(self, packets_per_s: float, burst: float) -> None:
        super().__init__()
        self.rate, self.burst = packets_per_s, burst
        self._tokens, self._at_s = burst, 0.0

    def lost(self, segment: Segment) -> bool:
        self._tokens = min(self.burst, self._tokens + (segment.at_s - self._at_s) * self.rate)
        self._at_s = segment.at_s
        if self._tokens < 1:
            return True
        self._tokens -= 1
        return False


def test_a_policer_is_no_random_loss(tcpw_lp: Controller, peer: Peer) -> None:
    """Where drops are the only sign, the window and the loss rate stay near reno's."""
    lost, used = {}, {}
    flows = {name: peer.connect(name, Policer(500, 10)) for name in ("reno", tcpw_lp.name)}  # each meets one of its own
    for flow in flows.values():
        flow.pump()
    time.sleep(6)
    for name, flow in flows.items():
        windows = [info.cwnd for info in infos(flow)[len(infos(flow)) // 3 :]]
        used[name] = sum(windows) / len(windows)
        lost[name] = sum(segment.again for segment in flow.end.segments) / len(flow.end.segments)
        assert not flow.end.wrong
        flow.close()
    assert used[tcpw_lp.name] <= 1.6 * used["reno"] + 2, (used, lost)
    assert lost[tcpw_lp.name] <= 2 * lost["reno"] + 0.02, (used, lost)


class Marked(Path_):
    """One packet after slow start is marked."""

    ecn = True

    def marked(self, segment: Segment) -> bool:
        return segment.number == 400


def test_a_mark_takes_half(tcpw_lp: Controller, peer: Peer) -> None:
    flow = peer.connect(tcpw_lp.name, Marked(window_bytes=100 * 1448))
    with tcpw_lp.set(noise_floor=20_000):
        flow.pump()
        record = eventually(lambda: (f := tcpw_lp.flow(flow.sock)) and f.marks and f.phase != PHASE.RECOVERY and f, 5, "the mark")
    assert (record.marks, record.losses) == (1, 1)
    before, after = next((a, b) for a, b in itertools.pairwise(infos(flow)) if b.ca_state == CWR > a.ca_state)
    assert after.ssthresh <= before.cwnd // 2 + 1
    flow.close()


def test_pairs_under_a_standing_queue_and_back(tcpw_lp: Controller, peer: Peer) -> None:
    """The window is almost 0: pairs of packets with gaps while the queue stands; soon back at full speed when it is gone."""
    behaviour = Path_()
    flow = peer.connect(tcpw_lp.name, behaviour)
    with tcpw_lp.set(rebase_pairs=0):
        started(flow, tcpw_lp)
        behaviour.extra_s = EXTRA_S
        eventually(
            lambda: (f := tcpw_lp.flow(flow.sock)) and f.phase == PHASE.SMALL and f.tcpw.foreground_permille > 900,
            15,
            "a small window, and the queue known to be others'",
        )
        at = len(flow.end.segments)
        record = eventually(lambda: (f := tcpw_lp.flow(flow.sock)) and len(bursts(flow, at, EXTRA_S)) >= 6 and f, 10, "pairs")
        assert record.phase == PHASE.SMALL and record.tcpw.window == 1 and record.cwnd in (1, 4)
        pairs = bursts(flow, at, EXTRA_S)[1:-1]
        assert [len(pair) for pair in pairs] == [2] * len(pairs)
        gaps = [b[0].at_s - a[0].at_s for a, b in zip(pairs, pairs[1:])]
        gap_s = record.tcpw.pair_gap_us / 1e6
        assert 8 * RTT_S <= gap_s < 8 * (RTT_S + EXTRA_S / 4)  # of the base round trip
        assert gaps[-1] == pytest.approx(gap_s, rel=0.25)
        behaviour.extra_s = 0
        with tcpw_lp.set(noise_floor=20_000):
            eventually(lambda: (f := tcpw_lp.flow(flow.sock)) and f.phase != PHASE.SMALL and f, LONGEST_S, "the phase is left")
            eventually(lambda: tcp_info(flow.sock).cwnd >= 12, 3, "growth")
    silences = [b.at_s - a.at_s for a, b in zip(flow.end.segments, flow.end.segments[1:])]
    assert max(silences) < LONGEST_S
    flow.stop()
    flow.deliver(5)


def test_a_longer_path_is_learned(tcpw_lp: Controller, peer: Peer) -> None:
    """A delay that is constant to the millisecond is the path: the flow grows again, and reports the new base."""
    behaviour = Path_()
    flow = peer.connect(tcpw_lp.name, behaviour)
    started(flow, tcpw_lp)
    with tcpw_lp.set(noise_floor=5_000):
        first = tcpw_lp.flow(flow.sock)
        assert first
        base = first.rtt_min_us
        behaviour.extra_s = EXTRA_S
        eventually(lambda: (f := tcpw_lp.flow(flow.sock)) and f.phase == PHASE.SMALL, 10, "a small window")
        record = eventually(lambda: (f := tcpw_lp.flow(flow.sock)) and f.rtt_min_us > base + 20_000 and f, 15, "the new base")
        eventually(lambda: tcp_info(flow.sock).cwnd >= 12, 5, "growth")
    assert record.rtt_min_us < base + 50_000
    flow.close()


class LateOnce(Path_):
    """A segment arrives so late that it is taken for lost."""

    def __init__(self) -> None:
        super().__init__()
        self.losing = set()
        self.late: set[int] = {FIRST_LOSS}

    def held_s(self, segment: Segment) -> float:
        return 0.7 * RTT_S if segment.number in self.late else 0


def test_needless_loss_is_given_back(tcpw_lp: Controller, peer: Peer) -> None:
    before = tcpw_lp.stats()
    flow = peer.connect(tcpw_lp.name, LateOnce())
    flow.pump()
    eventually(lambda: tcpw_lp.stats().undos > before.undos, 5, "the undo")
    time.sleep(2 * RTT_S)
    seen = infos(flow)
    first = next(i for i, info in enumerate(seen) if info.ca_state >= RECOVERY)
    since = next(info for info in seen[first:] if info.ca_state == OPEN)
    assert since.cwnd >= seen[first - 1].cwnd
    flow.close()


def test_an_early_reduction_is_not_given_back(tcpw_lp: Controller, peer: Peer) -> None:
    """A needless loss, an early reduction, and then the undo: nothing comes back, not even slow start."""
    behaviour = LateOnce()
    behaviour.late = set()
    behaviour.losing = {FIRST_LOSS}
    flow = peer.connect(tcpw_lp.name, behaviour)
    started(flow, tcpw_lp)
    behaviour.extra_s = EXTRA_S
    eventually(lambda: (f := tcpw_lp.flow(flow.sock)) and f.indications >= 3, 5, "reductions")
    behaviour.late = {len(flow.end.segments) + n for n in range(4, 8)}
    time.sleep(10 * RTT_S)
    cut = infos(flow)[-1]
    assert cut.ssthresh <= max(cut.cwnd, 4) + 1, cut
    flow.stop()
    flow.deliver(10)
