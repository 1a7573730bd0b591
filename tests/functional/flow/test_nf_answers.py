# SPDX-License-Identifier: GPL-2.0-only
"""How NF-TCP handles answers that come together: a mark and a loss, the marks of a chirp and of data; what ends slow start where
no router marks; and estimates that losses refute."""

from __future__ import annotations

import time
from types import SimpleNamespace

import pytest

from tests.functional.flow.test_nf import FIRST, INFINITE, RTT_S, Router, infos
from tests.functional.flow.test_nf_chirps import FIRST_LOSS, PROBE, Path, nf, record_of, start
from tests.functional.kernel import PHASE, Controller, TcpInfo, eventually, tcp_info
from tests.functional.peer import Behaviour, Flow, Peer, Segment

pytestmark = pytest.mark.rerun(
    "chirps leave by the host's timers, and answers that come together are the peer's: a late one is another case"
)

OPEN, CWR, RECOVERY, LOSS = 0, 2, 3, 4  # include/uapi/linux/tcp.h, enum tcp_ca_state
LATE, SPARSE = 3, 8  # enum ccbpf_chirp_end
MBIT = 30
PACKETS = MBIT * 1e6 * RTT_S / 8 / 1500  # that the path holds


# --- a mark, and a loss in the CWR that it began


class EceWithSack(Router):
    """A receiver that sets ECE on each ACK with SACK: the kernel is in CWR before it knows that it is a loss."""

    def ece(self, latched: bool) -> bool:
        return self.sacks


class MarkBeforeLoss(Router):
    """An honest mark, a few packets before a loss."""

    def marked(self, segment: Segment) -> bool:
        return segment.number == FIRST - 4


class MarkBeforeSilence(MarkBeforeLoss):
    """Nothing arrives from then on, until the kernel's timeout."""

    silent = True

    def lost(self, segment: Segment) -> bool:
        return self.silent and segment.number >= FIRST


def settled(flow: Flow, state: int) -> TcpInfo:
    """In this state, or just past it."""
    eventually(lambda: any(info.ca_state == state for info in infos(flow)), 5, f"state {state}")
    return eventually(lambda: (i := tcp_info(flow.sock)).ca_state == OPEN and i, 5, "its end")


@pytest.mark.parametrize("kind", [EceWithSack, MarkBeforeLoss])
def test_a_marks_cwr_that_becomes_recovery_is_a_loss(kind: type[Router], nf_tcp: Controller, peer: Peer) -> None:
    """It takes half of the window before the mark, not an eighth, and is counted as a loss."""
    with nf_tcp.set(probe=0):
        flow = peer.connect(nf_tcp.name, kind(FIRST, lost=True))
        flow.pump()
        settled(flow, RECOVERY)
        seen = infos(flow)
        states = [info.ca_state for info in seen]
        first = next(i for i, info in enumerate(seen) if info.ssthresh < INFINITE)
        assert states[first] == CWR and states.index(RECOVERY) > first
        window, repaired = seen[first - 1].cwnd, [info for info in seen if info.ca_state == RECOVERY]
        assert {info.ssthresh for info in repaired} == {window // 2}
        assert repaired[-1].cwnd <= window // 2 + 3, "the window follows"
        record = nf_tcp.flow(flow.sock)
        assert record and record.losses == 1 and record.marks >= 1
    flow.close()


def test_a_timeout_in_a_marks_cwr_is_a_loss(nf_tcp: Controller, peer: Peer) -> None:
    """ssthresh is half of the window before the mark, and the kernel's window after the timeout stays."""
    behaviour = MarkBeforeSilence(FIRST)
    with nf_tcp.set(probe=0):
        flow = peer.connect(nf_tcp.name, behaviour)
        flow.pump()
        eventually(lambda: tcp_info(flow.sock).ca_state == CWR, 5, "the mark", 0.001)
        window = max(info.cwnd for info in infos(flow))
        info = eventually(lambda: (i := tcp_info(flow.sock)).ca_state == LOSS and i, 5, "a timeout", 0.001)
        assert info.ssthresh == window // 2 and tcp_info(flow.sock).cwnd <= 3
        behaviour.silent = False
        eventually(lambda: tcp_info(flow.sock).ca_state == OPEN, 5, "its end")
        record = nf_tcp.flow(flow.sock)
        assert record and (record.losses, record.marks) == (1, 1)
    flow.stop()
    flow.deliver(5)


# --- a chirp's mark, and a mark on data in its CWR


class LastOfTheCwr(Path):
    """Marks a chirp's packet, and the first data packet that leaves after the kernel has seen that mark: the ACK of this data
    ends the CWR."""

    def __init__(self) -> None:
        super().__init__()
        self.begin = False
        self.known_s = 0.0
        self.data: Segment | None = None

    def marked(self, segment: Segment) -> bool:
        probe = segment.tos >> 2 == PROBE
        if self.begin and not self.known_s and probe and self.indexes[segment.number] >= 8:
            self.known_s = time.monotonic() + self.rtt_s / 2
            return True
        if self.known_s and not self.data and not probe and segment.at_s > self.known_s:
            self.data = segment
            return True
        return False


def test_a_mark_at_the_end_of_a_chirps_cwr_cuts_once(nf_tcp: Controller, peer: Peer) -> None:
    behaviour = LastOfTheCwr()
    with nf_tcp.set(probe_cost=1000):
        for _ in range(5):
            flow = start(nf_tcp, peer, behaviour, rate_bps=40e6)
            eventually(lambda: (f := nf_tcp.flow(flow.sock)) and f.cwnd >= 24 and f.losses, 10, "a window")
            behaviour.begin = True
            eventually(lambda: behaviour.data, 10, "both marks", 0.001)
            time.sleep(3 * RTT_S)
            record = nf_tcp.flow(flow.sock)
            flow.close()
            assert record
            if record.marks == 1:
                return
            assert record.marks == 0, f"{record.marks} cuts for one mark"
            behaviour = LastOfTheCwr()  # the mark was taken for the chirp's
    raise AssertionError("never a mark at the end of the CWR")


# --- slow start, where nobody marks


FLOWS_TRIED = 20  # at most; one is enough on a quiet machine


class Unmarked(Behaviour):
    """The host's own queue at 30 Mbit/s, which never drops and never marks."""

    ecn = True

    def __init__(self, ack_every: int) -> None:
        super().__init__(rtt_s=RTT_S, rate_bps=MBIT * 1e6, buffer_bytes=8 << 20, window_bytes=8 << 20)
        self.ack_every = ack_every


def begun_without_marks(
    nf_tcp: Controller, peer: Peer, ack_every: int, most: float = 6 * PACKETS
) -> tuple[SimpleNamespace, TcpInfo]:
    """A flow whose slow start has ended behind the host's own queue: its record and the connection, 20 RTT later. Each of
    them ends at most at this window, far from the 3600 packets and 675 ms that the queue would have given it, also if the
    host's timers disturbed its chirp."""
    flow = start(nf_tcp, peer, Unmarked(ack_every))
    eventually(lambda: (f := nf_tcp.flow(flow.sock)) and f.phase == PHASE.AVOIDANCE, 5, "the end of slow start")
    time.sleep(20 * RTT_S)
    record, info = nf_tcp.flow(flow.sock), tcp_info(flow.sock)
    flow.stop()
    flow.deliver(10)
    assert record and record.cwnd <= most and record.losses == 0
    return record, info


@pytest.mark.parametrize("early", [0, 1])
def test_an_estimate_ends_slow_start(early: int, nf_tcp: Controller, peer: Peer) -> None:
    """A chirp says how much there is, and what slow start has put into the queue goes. Chirps that this machine's timers
    disturbed are not what is tested: flows are tried until one has an estimate near the rate, and none discarded. On a host
    that disturbs the chirps of all of them the end of slow start is what was seen."""
    reasons = []
    for _ in range(FLOWS_TRIED):
        with nf_tcp.set(early_probe=early):
            record, info = begun_without_marks(nf_tcp, peer, ack_every=1, most=20 * PACKETS if early else 6 * PACKETS)
        if not record.nf.chirps_discarded and record.nf.estimate_kbps == pytest.approx(MBIT * 1000, rel=0.4):
            assert record.cwnd <= 2 * PACKETS and info.rtt_us <= 2 * RTT_S * 1e6
            return
        reasons.append(record.nf.chirps_why)
    assert reasons.count(LATE) > FLOWS_TRIED / 2, f"no flow has an estimate near the rate; chirps ended by {reasons}"


def test_slow_start_ends_without_an_estimate_too(nf_tcp: Controller, peer: Peer) -> None:
    """The receiver answers only every other packet: chirps give no result, and `flows` says why, as above."""
    reasons = []
    for _ in range(FLOWS_TRIED):
        record, _ = begun_without_marks(nf_tcp, peer, ack_every=2)
        if (record.nf.chirps_why, record.nf.chirps_complete) == (SPARSE, 0):
            return
        reasons.append(record.nf.chirps_why)
    assert reasons.count(LATE) > FLOWS_TRIED / 2, f"no flow says that its receiver is sparse; chirps ended by {reasons}"


class Held(Behaviour):
    """The path has room for the receiver's window; later another flow causes a queue."""

    ecn = True

    def __init__(self) -> None:
        super().__init__(rtt_s=RTT_S, window_bytes=40 * 1448)
        self.extra_s = 0.0

    def ack_held_s(self, number: int) -> float:
        return self.extra_s


def test_a_window_that_is_no_limit_ends_slow_start(nf_tcp: Controller, peer: Peer) -> None:
    """As with the other controllers: while the delay is high (law/gentle_start.h)."""
    behaviour = Held()
    flow = peer.connect(nf_tcp.name, behaviour)
    flow.pump()
    eventually(lambda: (f := nf_tcp.flow(flow.sock)) and f.cwnd >= 2 * 39, 5, "a window that is no limit")
    time.sleep(0.2)
    record = nf_tcp.flow(flow.sock)
    assert record and record.phase == PHASE.SLOW_START
    behaviour.extra_s = 1.5 * RTT_S
    eventually(lambda: record_of(nf_tcp, flow).phase == PHASE.AVOIDANCE, 5, "the end of slow start")
    flow.close()


# --- estimates that losses refute


class Refuted(Path):
    """Chirps find a path without a queue up to 214 Mbit/s; and then a packet of each 150 is lost, with a window far below that.
    It has marked once: losses where nobody ever marks have a pause of their own (kern/nf.bpf.h, nf_rest_us())."""

    refuted = False  # a loss in the first chirp would end it, and the window after some more has no room for another one

    def lost(self, segment: Segment) -> bool:
        return super().lost(segment) or (self.refuted and segment.number % 150 == 149)

    def marked(self, segment: Segment) -> bool:
        return segment.number == FIRST_LOSS // 2


def test_chirps_become_rare_while_losses_refute_them(nf_tcp: Controller, peer: Peer) -> None:
    """A receiver that forges its answers promises bandwidth that does not exist: the pause after each such loss is twice the one
    before, beginning with 16 round trips."""
    with nf_tcp.set(probe_cost=1000, min_rate=20_000):
        behaviour = Refuted()
        flow = start(nf_tcp, peer, behaviour)
        eventually(lambda: (f := nf_tcp.flow(flow.sock)) and f.nf.estimate_kbps, 10, "an estimate")
        behaviour.refuted = True
        complete, lost = nf(nf_tcp, flow).chirps_complete, record_of(nf_tcp, flow).losses
        time.sleep(100 * RTT_S)
        record = nf_tcp.flow(flow.sock)
        assert record and record.losses >= lost + 4
        assert record.nf.chirps_complete <= complete + 7, "16 + 32 + 64 round trips without any"
    flow.stop()
    flow.deliver(5)
