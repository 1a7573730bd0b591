# SPDX-License-Identifier: GPL-2.0-only
"""le on this kernel: it drains its own queue and goes on, sends pairs while other flows keep a queue, and returns afterwards."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.functional.kernel import PHASE, Controller, TcpInfo, eventually, tcp_info
from tests.functional.peer import Behaviour, Flow, Peer, Segment, bursts

pytestmark = pytest.mark.rerun("delays are the peer's, and what the host adds to them counts as well")

RTT_S = 0.02
EXTRA_S = 0.03
WINDOW = 40  # packets, the receiver's
OPEN, CWR, RECOVERY, LOSS = 0, 2, 3, 4  # include/uapi/linux/tcp.h, enum tcp_ca_state
INFINITE = 0x7FFFFFFF
BESIDE = {"threshold": 10_000}  # us: above what a busy machine adds


class Path_(Behaviour):
    """ACKs can be late, as if a queue stood; segments can be lost."""

    def __init__(self) -> None:
        super().__init__(rtt_s=RTT_S, window_bytes=WINDOW * 1448)
        self.extra_s = 0.0
        self.losing: set[int] = set()

    def ack_held_s(self, number: int) -> float:
        return self.extra_s

    def lost(self, segment: Segment) -> bool:
        return segment.number in self.losing


@pytest.fixture
def le(controllers: dict[str, Controller]) -> Iterator[Controller]:
    with controllers["le"].set(**BESIDE):
        yield controllers["le"]


def flow_of(le: Controller, flow: Flow) -> Any:
    record = le.flow(flow.sock)
    assert record
    return record


def grown(le: Controller, peer: Peer, behaviour: Path_) -> Flow:
    """A flow whose window has grown to the receiver's."""
    flow = peer.connect(le.name, behaviour)
    flow.pump()
    eventually(lambda: (f := le.flow(flow.sock)) and f.cwnd >= WINDOW - 4 and f.rtt_min_us, 5, "a window")
    return flow


def test_a_start_is_gentle(le: Controller, peer: Peer) -> None:
    """Four packets, and half as many more each round trip."""
    flow = peer.connect(le.name, Path_())
    flow.pump()
    eventually(lambda: len(flow.end.segments) > 60, 5, "some round trips")
    sizes = [len(burst) for burst in bursts(flow, 0, RTT_S / 2)]
    assert sizes[0] == 4 and sizes[1] <= 6 and sizes[2] <= 10, sizes
    flow.close()


def test_pairs_while_others_keep_a_queue_and_back_when_it_is_gone(le: Controller, peer: Peer) -> None:
    behaviour, before = Path_(), le.stats()
    le.ring.read()
    le.listen(30)
    try:
        flow = grown(le, peer, behaviour)
        behaviour.extra_s = EXTRA_S
        record = eventually(lambda: (f := le.flow(flow.sock)) and f.phase == PHASE.SMALL and f.cwnd <= 4 and f, 3, "pairs")
        at = len(flow.end.segments)
        eventually(lambda: len(bursts(flow, at, EXTRA_S)) >= 4, 5, "some pairs")
        small = le.flow(flow.sock)
        behaviour.extra_s = 0.0
        begun = time.monotonic()
        eventually(lambda: (f := le.flow(flow.sock)) and f.cwnd >= WINDOW // 2, 5, "the window it had")
        took_s = time.monotonic() - begun
    finally:
        le.listen(0)
    after = le.stats()
    assert record.indications >= 2 and record.cuts_to_one == 1 and record.cwnd <= 4 and record.ssthresh <= 4
    assert record.le.back > WINDOW // 2 and record.le.block_delay_us > BESIDE["threshold"]
    assert small and 0 < small.le.pair_gap_us <= 16 * 1.3 * RTT_S * 1e6
    pairs = bursts(flow, at, EXTRA_S)[1:4]
    assert [len(pair) for pair in pairs] == [2] * len(pairs)
    assert took_s < 16 * RTT_S + 20 * RTT_S
    assert after.cuts_to_one - before.cuts_to_one == 1
    words = [event.word for event in le.ring.read()]
    for word in ("opened", "indication", "cut-to-one", "small-leave"):
        assert word in words, words
    assert words.index("indication") < words.index("cut-to-one") < words.index("small-leave")
    flow.close()


def yielding(le: Controller, peer: Peer) -> tuple[Path_, Flow]:
    """A flow that sends pairs, because others keep a queue."""
    behaviour = Path_()
    flow = grown(le, peer, behaviour)
    behaviour.extra_s = EXTRA_S
    eventually(lambda: (f := le.flow(flow.sock)) and f.phase == PHASE.SMALL and f.cwnd <= 4, 3, "pairs")
    return behaviour, flow


def test_what_is_left_of_the_old_window_counts_and_is_not_replaced(le: Controller, peer: Peer) -> None:
    """At a loss the kernel sends in proportion to the window before it: a window of 1 would let the whole of the old one go on."""
    _, flow = yielding(le, peer)
    after = [sample.info for sample in flow.end.samples if sample.info.ssthresh <= 4]
    left = [(info.cwnd, info.unacked) for info in after if info.unacked > 4 and info.ca_state == OPEN]
    assert left and all(abs(cwnd - unacked) <= 1 for cwnd, unacked in left), left  # 1: a tail loss probe
    assert all(later <= before + 1 for (_, before), (_, later) in zip(left, left[1:])), left
    flow.close()


def test_a_timeout_between_pairs_is_repaired_by_a_few_packets_at_once(le: Controller, peer: Peer) -> None:
    behaviour, flow = yielding(le, peer)
    behaviour.losing = set(range(flow.end.segments[-1].number + 1, 10**6))
    eventually(lambda: tcp_info(flow.sock).ca_state == LOSS, 5, "a timeout", 0.001)
    behaviour.losing = set()
    behaviour.extra_s = 0.0
    eventually(lambda: tcp_info(flow.sock).ca_state == OPEN, 5, "its end")
    assert 4 in {sample.info.cwnd for sample in flow.end.samples if sample.info.ca_state == LOSS}
    flow.close()


def test_another_controller_begins_with_the_window_that_the_path_carried(le: Controller, peer: Peer) -> None:
    """It need not grow from a pair by a packet per round trip."""
    _, flow = yielding(le, peer)
    back = flow_of(le, flow).le.back
    flow.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, b"reno")
    assert tcp_info(flow.sock).ssthresh == back > WINDOW // 2
    flow.close()


def test_a_queue_that_its_own_cut_ends_is_its_own(le: Controller, peer: Peer) -> None:
    """It drains, finds no queue, and goes on growing from there: it sends no pairs."""
    behaviour = Path_()
    flow = grown(le, peer, behaviour)
    behaviour.extra_s = EXTRA_S / 2
    cut = eventually(lambda: (f := le.flow(flow.sock)) and f.indications and f, 3, "an indication")
    behaviour.extra_s = 0.0
    record = eventually(lambda: (f := le.flow(flow.sock)) and f.phase == PHASE.AVOIDANCE and f, 3, "growth")
    assert cut.cwnd >= 4
    assert record.cuts_to_one == 0 and WINDOW // 3 < record.cwnd <= WINDOW
    flow.close()


def loses(le: Controller, flow: Flow, behaviour: Path_, *after: int) -> list[int]:
    """Loses the segments so many behind the newest one. Packets before each reduction, and after it, in one list."""
    le.ring.read()
    le.listen(10)
    before = flow_of(le, flow).losses
    try:
        newest = flow.end.segments[-1].number
        behaviour.losing = {newest + number for number in after}
        eventually(lambda: flow_of(le, flow).losses > before, 5, "a loss")
        eventually(lambda: tcp_info(flow.sock).ca_state == OPEN and flow.end.segments[-1].number > newest + 60, 5, "its repair")
    finally:
        le.listen(0)
    return [size for event in le.ring.read() if event.word == "loss" for size in (event.cwnd, event.b)]


def test_a_first_loss_without_a_queue_is_chance_and_the_second_takes_half(le: Controller, peer: Peer) -> None:
    """No queue was ever seen on the path: a policer may have caused the second one."""
    behaviour = Path_()
    flow = grown(le, peer, behaviour)
    before, left = loses(le, flow, behaviour, 10)
    assert before - 2 <= left <= before
    before, left = loses(le, flow, behaviour, 10)
    assert 2 <= left <= before // 2
    flow.close()


def test_a_first_burst_of_losses_takes_half(le: Controller, peer: Peer) -> None:
    """Also where the kernel has found only its first packets when it asks for ssthresh."""
    behaviour = Path_()
    flow = grown(le, peer, behaviour)
    sizes = loses(le, flow, behaviour, *range(10, 34, 4))
    assert 2 <= sizes[-1] <= sizes[0] // 2, sizes
    assert flow_of(le, flow).losses == 1
    flow.close()


class LateInStart(Path_):
    """A segment of the start is overtaken by so many that the kernel takes it for lost, and takes that back."""

    late = 20

    def held_s(self, segment: Segment) -> float:
        return 0.7 * RTT_S if segment.number == self.late else 0


def test_a_late_packet_in_the_start_is_forgotten(le: Controller, peer: Peer) -> None:
    """Slow start goes on: no pairs, and growth by half a packet per round trip neither."""
    before = le.stats()
    flow = peer.connect(le.name, LateInStart())
    flow.pump()
    eventually(lambda: le.stats().undos > before.undos, 5, "the undo")
    record = eventually(lambda: (f := le.flow(flow.sock)) and f.cwnd >= WINDOW - 4 and f, 2, "a window")
    seen = [sample.info for sample in flow.end.samples]
    first = next(n for n, info in enumerate(seen) if info.ca_state >= RECOVERY)
    after = next(info for info in seen[first:] if info.ca_state == OPEN)
    assert after.cwnd >= seen[first - 1].cwnd and after.ssthresh == INFINITE
    assert record.losses == record.undos == 1 and record.cuts_to_one == 0
    flow.close()


class Marks(Path_):
    """A router marks a segment; from another one on, segments are lost."""

    ecn = True
    mark, loss, last = 60, 64, 64
    with_sack = False

    def marked(self, segment: Segment) -> bool:
        return not self.with_sack and segment.number == self.mark

    def ece(self, latched: bool) -> bool:
        return self.sacks if self.with_sack else latched

    def lost(self, segment: Segment) -> bool:
        return self.loss <= segment.number <= self.last


class MarksWithSack(Marks):
    """A receiver that sets ECE on each ACK with SACK: the kernel is in CWR before it knows that it is a loss."""

    with_sack = True


@pytest.mark.parametrize("kind", [Marks, MarksWithSack])
def test_a_loss_after_a_mark_takes_half_of_the_window_before_the_mark(kind: type[Marks], le: Controller, peer: Peer) -> None:
    """The kernel does not ask for a second reduction in the mark's round trip; the mark alone takes an eighth."""
    flow = peer.connect(le.name, kind())
    flow.pump()
    eventually(lambda: any(sample.info.ca_state == RECOVERY for sample in flow.end.samples), 5, "the repair")
    eventually(lambda: tcp_info(flow.sock).ca_state == OPEN, 5, "its end")
    seen = [sample.info for sample in flow.end.samples]
    states = [info.ca_state for info in seen]
    first = states.index(CWR)
    assert states.index(RECOVERY) > first
    window, repaired = seen[first - 1].cwnd, [info for info in seen if info.ca_state == RECOVERY]
    assert all(2 <= info.ssthresh <= window // 2 for info in repaired)
    assert repaired[-1].cwnd <= window // 2 + 3, "the window follows"
    record = le.flow(flow.sock)
    assert record and record.losses == 1 and record.marks >= 1
    flow.close()


def in_loss(flow: Flow) -> TcpInfo:
    return eventually(lambda: (i := tcp_info(flow.sock)).ca_state == LOSS and i, 5, "a timeout", 0.001)


def test_a_timeout_after_a_mark_takes_half_of_the_window_before_the_mark(le: Controller, peer: Peer) -> None:
    behaviour = Marks()
    behaviour.last = 10**9
    flow = peer.connect(le.name, behaviour)
    flow.pump()
    eventually(lambda: tcp_info(flow.sock).ca_state == CWR, 5, "the mark", 0.001)
    window = max(sample.info.cwnd for sample in flow.end.samples)
    info = in_loss(flow)
    assert 2 <= info.ssthresh <= window // 2 and info.cwnd <= 3
    behaviour.last = 0
    eventually(lambda: tcp_info(flow.sock).ca_state == OPEN, 5, "its end")
    flow.stop()
    flow.deliver(5)


def test_a_timeout_is_no_chance(le: Controller, peer: Peer) -> None:
    """The path has carried a queue, there is none now, and only a packet is lost; but no ACK tells of it."""
    behaviour = Path_()
    flow = grown(le, peer, behaviour)

    def indicated() -> bool:
        behaviour.extra_s += RTT_S / 20  # a queue that grows: a jump would be a path that stood still
        return bool((f := le.flow(flow.sock)) and f.indications)

    eventually(indicated, 5, "an indication", RTT_S)
    behaviour.extra_s = 0.0
    eventually(lambda: (f := le.flow(flow.sock)) and f.phase == PHASE.AVOIDANCE, 3, "growth")
    flow.stop()
    for _ in range(12):  # no pause, and at most two packets in flight
        flow.pump(1)
        time.sleep(RTT_S * 0.7)
    window = tcp_info(flow.sock).cwnd
    behaviour.losing = set(range(flow.end.segments[-1].number + 1, 10**6))
    flow.pump(1)
    assert in_loss(flow).ssthresh <= max(window // 2, 2)
    behaviour.losing = set()
    eventually(lambda: tcp_info(flow.sock).ca_state == OPEN, 5, "its end")
    flow.close()
