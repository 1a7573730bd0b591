# SPDX-License-Identifier: GPL-2.0-only
"""NF-TCP's policy, without chirps: the reduction by a mark, once per round trip; losses; no ECN; forged marks."""

from __future__ import annotations

import time

import pytest

from tests.functional.kernel import PHASE, SIGNAL, Controller, TcpInfo, eventually
from tests.functional.peer import CWR, Behaviour, Flow, Peer, Segment, bursts

pytestmark = pytest.mark.rerun(
    "a mark counts once in a round trip of the peer: a host that stands still makes one of two round trips"
)

RTT_S = 0.02
FIRST = 60  # this segment of slow start is marked, or lost
INFINITE = 0x7FFFFFFF
CWR_STATE = 2  # TCP_CA_CWR, include/uapi/linux/tcp.h


class Router(Behaviour):
    """Marks, or loses, the segments whose numbers it is given."""

    ecn = True

    def __init__(self, *numbers: int, lost: bool = False, everything: bool = False, forged: bool = False) -> None:
        super().__init__(rtt_s=RTT_S)
        self.numbers = set(numbers)
        self.loses = lost
        self.everything = everything
        self.forged = forged

    def marked(self, segment: Segment) -> bool:
        return self.everything or not self.loses and segment.number in self.numbers

    def lost(self, segment: Segment) -> bool:
        return self.loses and segment.number in self.numbers

    def ece(self, latched: bool) -> bool:
        return latched or self.forged


def infos(flow: Flow) -> list[TcpInfo]:
    return [sample.info for sample in flow.end.samples]


def kept(flow: Flow) -> tuple[int, int]:
    """The window before the first reduction, and ssthresh after it."""
    seen = infos(flow)
    first = next(i for i, info in enumerate(seen) if info.ssthresh < INFINITE)
    return seen[first - 1].cwnd, seen[first].ssthresh


def reduced(flow: Flow) -> None:
    eventually(lambda: any(info.ssthresh < INFINITE for info in infos(flow)), 5, "a reduction")
    eventually(lambda: infos(flow)[-1].ca_state == 0, 5, "its end")


@pytest.mark.parametrize("permille", [125, 300])
def test_a_mark_takes_its_part(permille: int, nf_tcp: Controller, peer: Peer) -> None:
    """12.5 %, in slow start too; ssthresh is lowered as well, so no slow start follows."""
    before = nf_tcp.stats()
    with nf_tcp.set(probe=0, decrease=permille):
        flow = peer.connect(nf_tcp.name, Router(FIRST))
        flow.pump()
        reduced(flow)
        cwnd, ssthresh = kept(flow)
        assert ssthresh == cwnd * (1000 - permille) // 1000 >= 10
        time.sleep(3 * RTT_S)
    record = nf_tcp.flow(flow.sock)
    assert record and (record.ecn, record.delay_source, record.phase) == (1, SIGNAL.ECN, PHASE.AVOIDANCE)
    assert (record.marks, record.indications, record.losses) == (1, 1, 0)
    assert infos(flow)[-1].retrans == 0
    assert [segment for segment in flow.end.segments if segment.flags & CWR]
    after = nf_tcp.stats()
    assert (after.marks - before.marks, after.indications - before.indications) == (1, 1)
    flow.close()


def test_once_in_a_round_trip(nf_tcp: Controller, peer: Peer) -> None:
    """A dozen marked packets of one window: one reduction."""
    with nf_tcp.set(probe=0):
        flow = peer.connect(nf_tcp.name, Router(*range(FIRST, FIRST + 12)))
        flow.pump()
        reduced(flow)
        time.sleep(3 * RTT_S)
        record = nf_tcp.flow(flow.sock)
        assert record and record.marks == 1
    flow.close()


def test_a_cut_is_there_at_once(nf_tcp: Controller, peer: Peer) -> None:
    """No packet leaves until the data in flight fits the new window; with PRR alone most of an RTT's packets would leave."""
    with nf_tcp.set(probe=0, decrease=300):
        flow = peer.connect(nf_tcp.name, Router(FIRST))
        flow.pump()
        reduced(flow)
        answering = [info for info in infos(flow) if info.ca_state == CWR_STATE]
        above = [info for info in answering if info.unacked > info.ssthresh + 2]
        assert answering and len(above) <= len(answering) / 2, f"{len(above)} of {len(answering)} ACKs"
    flow.close()


def test_in_avoidance_a_window_leaves_evenly(nf_tcp: Controller, peer: Peer) -> None:
    """105 % of it per RTT; at the kernel's 120 % a sixth of each RTT would be silent, for ever."""
    with nf_tcp.set(probe=0):
        flow = peer.connect(nf_tcp.name, Router(FIRST))
        flow.pump()
        reduced(flow)
        time.sleep(5 * RTT_S)
        at = len(infos(flow))
        eventually(lambda: len(infos(flow)) >= at + 50, 5, "fifty ACKs")
        shares = sorted(info.pacing_rate * info.rtt_us / 1e6 / (1448 * info.cwnd) for info in infos(flow)[at:])
        assert 1.0 <= shares[len(shares) // 2] <= 1.1, shares
    flow.close()


@pytest.mark.parametrize("probe", [0, 1])
@pytest.mark.parametrize("lie", ["everything", "forged"])
def test_ece_on_every_ack(lie: str, probe: int, nf_tcp: Controller, peer: Peer) -> None:
    """The window shrinks by an eighth at a time, then pairs of packets leave eight round trips apart; no chirp; all returns to
    normal when the marks end."""
    behaviour = Router(**{lie: True})
    before = nf_tcp.stats()
    with nf_tcp.set(probe=probe):
        flow = peer.connect(nf_tcp.name, behaviour)
        flow.pump()
        eventually(lambda: (f := nf_tcp.flow(flow.sock)) and f.phase == PHASE.SMALL and f, 5, "a small window")
        at = len(flow.end.segments)
        eventually(lambda: len(bursts(flow, at, 3 * RTT_S)) >= 7, 10, "and it goes on")
        record = nf_tcp.flow(flow.sock)
        assert record and (record.phase, record.cwnd, record.nf.chirps_sent) == (PHASE.SMALL, 1, 0)

        def indications() -> int:
            record = nf_tcp.flow(flow.sock)
            assert record
            return int(record.indications)

        eventually(lambda: nf_tcp.stats().indications - before.indications == indications() >= 12,
                   2, "each of them is counted, also while more come")  # fmt: skip
        pairs = bursts(flow, at, 3 * RTT_S)[1:-1]
        assert [len(pair) for pair in pairs] == [2] * len(pairs)
        gaps = [b[0].at_s - a[0].at_s for a, b in zip(pairs, pairs[1:])]
        assert sum(gaps) / len(gaps) >= 7.8 * RTT_S, "the lateness of a pair is taken off the next gap"
        assert min(gaps) <= 10 * RTT_S
        assert max(info.cwnd for info in infos(flow)) <= 11
        behaviour.everything = behaviour.forged = False
        eventually(lambda: (f := nf_tcp.flow(flow.sock)) and f.cwnd >= 6, 5, "growth")
        record = nf_tcp.flow(flow.sock)
        assert record and record.phase != PHASE.SMALL
    flow.stop()
    flow.deliver(5)


def test_a_loss_between_pairs(nf_tcp: Controller, peer: Peer) -> None:
    """Half of a pair is lost, and the retransmission is never marked: this must not end the pairs."""
    behaviour = Router(everything=True)
    with nf_tcp.set(probe=0):
        flow = peer.connect(nf_tcp.name, behaviour)
        flow.pump()
        eventually(lambda: (f := nf_tcp.flow(flow.sock)) and f.phase == PHASE.SMALL, 5, "a small window")
        behaviour.numbers, behaviour.loses = {flow.end.segments[-1].number + 2}, True
        eventually(lambda: any(segment.again for segment in flow.end.segments), 5, "sent again")
        at = flow.received
        eventually(lambda: flow.received - at >= 8 * 1448, 10, "and it goes on")
        record = nf_tcp.flow(flow.sock)
        assert record and record.phase == PHASE.SMALL and min(info.cwnd for info in infos(flow)) >= 1
    flow.stop()
    flow.deliver(5)


def test_bleached_marks(nf_tcp: Controller, peer: Peer) -> None:
    """The hosts agree on ECN and the path clears the marks: the flow is limited by losses, as reno."""
    with nf_tcp.set(probe=0):
        flow = peer.connect(nf_tcp.name, Router(FIRST, lost=True))
        flow.pump()
        reduced(flow)
        cwnd, ssthresh = kept(flow)
        assert ssthresh == pytest.approx(cwnd / 2, abs=1)
        eventually(lambda: infos(flow)[-1].cwnd <= ssthresh + 2, 2, "the window follows")
        begun_s, window = time.monotonic(), infos(flow)[-1].cwnd
        time.sleep(20 * RTT_S)
        grown, rounds = infos(flow)[-1].cwnd - window, (time.monotonic() - begun_s) / RTT_S
        assert rounds * 0.4 <= grown <= rounds * 1.1 + 1, "a packet per round trip"
        record = nf_tcp.flow(flow.sock)
        assert record and (record.losses, record.marks) == (1, 0)
    flow.close()


def test_without_ecn(nf_tcp: Controller, peer: Peer) -> None:
    """The record and a counter say so; a loss takes half, and there is never a chirp."""
    before = nf_tcp.stats()
    behaviour = Router(FIRST, lost=True)
    behaviour.ecn = False
    flow = peer.connect(nf_tcp.name, behaviour)
    record = nf_tcp.flow(flow.sock)
    assert record and (record.ecn, record.delay_source) == (0, SIGNAL.RTT)
    assert nf_tcp.stats().fallbacks == before.fallbacks + 1
    flow.pump()
    reduced(flow)
    cwnd, ssthresh = kept(flow)
    assert ssthresh == pytest.approx(cwnd / 2, abs=1)
    time.sleep(10 * RTT_S)
    record = nf_tcp.flow(flow.sock)
    assert record and record.nf.chirps_sent == 0 and record.nf.share_milli == 1000
    flow.close()


class Late(Router):
    """A segment arrives so late that it is taken for lost. After a needless repair RACK waits for half an RTT, and a tick of its
    timer."""

    def __init__(self, by_rtt: float = 0.7) -> None:
        super().__init__()
        self.by_rtt = by_rtt
        self.late = {FIRST}

    def held_s(self, segment: Segment) -> float:
        return self.by_rtt * RTT_S if segment.number in self.late else 0


def test_needless_loss_is_given_back(nf_tcp: Controller, peer: Peer) -> None:
    before = nf_tcp.stats()
    with nf_tcp.set(probe=0):
        flow = peer.connect(nf_tcp.name, Late())
        flow.pump()
        eventually(lambda: nf_tcp.stats().undos > before.undos, 5, "the undo")
        time.sleep(2 * RTT_S)
    seen = infos(flow)
    first = next(i for i, info in enumerate(seen) if info.ca_state >= 3)
    assert next(info for info in seen[first:] if info.ca_state == 0).cwnd >= seen[first - 1].cwnd
    flow.close()


def test_slow_start_comes_back_once(nf_tcp: Controller, peer: Peer) -> None:
    """Needless losses in the first slow start: the second one's window comes back, and the slow start does not."""
    behaviour = Late(1.2)
    behaviour.window_bytes = 128 * 1448
    with nf_tcp.set(probe=0):
        flow = peer.connect(nf_tcp.name, behaviour)
        flow.pump()
        nf_tcp.undone(flow.sock, 1, RTT_S)
        intact = infos(flow)[-1]
        assert intact.ssthresh == INFINITE
        behaviour.late = {len(flow.end.segments) + 20}
        nf_tcp.undone(flow.sock, 2, RTT_S)
        after = infos(flow)[-1]
    record = nf_tcp.flow(flow.sock)
    assert record and (record.losses, record.undos, record.marks) == (2, 2, 0)
    assert after.ssthresh <= after.cwnd
    assert after.cwnd >= intact.cwnd
    flow.close()
