# SPDX-License-Identifier: GPL-2.0-only
"""A loss reduces the window as it reduces reno's; a needless reduction is undone; an early reduction is not."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import dropwhile

import pytest

from tests.functional.kernel import LP_FAMILY, PHASE, Controller, TcpInfo, eventually
from tests.functional.kernel import OPEN as OPEN_TO_ALL
from tests.functional.peer import Behaviour, Flow, Peer, Segment

pytestmark = pytest.mark.rerun("a window is read between two ACKs of the peer: a host that stands still lets both arrive at once")

OPEN, DISORDER, CWR, RECOVERY, LOSS = range(5)
RTT_S = 0.02
THRESHOLD_US = 15_000  # as long as nothing has told the buffer: what this machine adds is below
QUEUE_S = 0.019  # more than that; what those behind still wait when it is gone, half a round trip less, is not
DURING = 120  # this segment of slow start is lost or late: the window is about 60 by then
INFINITE = 0x7FFFFFFF
BOTH = ["tcp_lp", "tcp_lp_ecn"]


class Plain(Behaviour):
    """A path with a round trip, and ACKs that are late by a given time."""

    def __init__(self) -> None:
        super().__init__(rtt_s=RTT_S)
        self.extra_ack_s = 0.0

    def ack_held_s(self, number: int) -> float:
        return self.extra_ack_s


class LosesOne(Plain):
    """The path loses one segment, once."""

    def lost(self, segment: Segment) -> bool:
        return segment.number == DURING


class Blackout(Plain):
    """The path loses everything for a while."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self.seconds = seconds
        self._until = 0.0

    def lost(self, segment: Segment) -> bool:
        if segment.number == DURING:
            self._until = segment.at_s + self.seconds
        return segment.at_s < self._until


class Late(Plain):
    """Segments arrive late, overtaken by so many others that the sender takes them for lost."""

    def __init__(self, *late: int) -> None:
        super().__init__()
        self.late = set(late)
        self.late_s = 0.7 * RTT_S

    def held_s(self, segment: Segment) -> float:
        return self.late_s if segment.number in self.late else 0


@pytest.fixture(autouse=True)
def high_threshold(controllers: dict[str, Controller]) -> Iterator[None]:
    """15 ms; a quarter of the round trip would be 5."""
    with ExitStack() as stack:
        for name in LP_FAMILY:
            stack.enter_context(controllers[name].set(threshold_floor=THRESHOLD_US))
        yield


def infos(flow: Flow) -> list[TcpInfo]:
    return [sample.info for sample in flow.end.samples]


def around(flow: Flow, before: Callable[[TcpInfo], bool]) -> tuple[TcpInfo, TcpInfo]:
    """The last state before the first one that is not `before`, and the first Open one after it."""

    def find() -> tuple[TcpInfo, TcpInfo] | None:
        seen = infos(flow)
        first = next((i for i, info in enumerate(seen) if not before(info)), 0)
        after = next((info for info in seen[first:] if info.ca_state == OPEN), None)
        return (seen[first - 1], after) if first and after else None

    return eventually(find, 5, "a reduction and its end")


def steady(flow: Flow, controller: Controller, losses: int) -> None:
    eventually(lambda: (f := controller.flow(flow.sock)) and f.losses >= losses and f.phase != PHASE.RECOVERY, 5, "the repair")
    at = flow.received
    eventually(lambda: flow.received > at + 100_000 or flow.end.wrong, 5, "data goes on")


@pytest.mark.parametrize("name", BOTH)
def test_loss_halves_as_reno(name: str, controllers: dict[str, Controller], peer: Peer) -> None:
    controller = controllers[name]
    before = controller.stats()
    halves = {}
    for algorithm in ("reno", controller.name):
        flow = peer.connect(algorithm, LosesOne())
        flow.pump()
        intact, repaired = around(flow, lambda info: info.ca_state in (OPEN, DISORDER) and info.ssthresh == INFINITE)
        assert intact.cwnd >= 20
        assert repaired.ssthresh == intact.cwnd // 2
        assert repaired.ssthresh - 1 <= repaired.cwnd <= repaired.ssthresh + 1
        halves[algorithm] = repaired.ssthresh / intact.cwnd
        if algorithm == controller.name:
            steady(flow, controller, 1)
            record = controller.flow(flow.sock)
            assert record and (record.losses, record.undos, record.indications) == (1, 0, 0)
            assert record.retransmits == tcp_retransmits(flow) >= 1
        flow.stop()
        flow.deliver(5)
    after = controller.stats()
    assert (after.losses, after.undos) == (before.losses + 1, before.undos)
    assert halves["reno"] == pytest.approx(halves[controller.name], abs=0.02)


def tcp_retransmits(flow: Flow) -> int:
    return infos(flow)[-1].retrans


@pytest.mark.parametrize("name", BOTH)
def test_blackout(name: str, controllers: dict[str, Controller], peer: Peer) -> None:
    """Retransmission timeouts: the flow comes back within the doubled timeout, by slow start to the half."""
    controller = controllers[name]
    flow = peer.connect(controller.name, Blackout(0.5))
    flow.pump()
    intact, repaired = around(flow, lambda info: info.ca_state != LOSS)
    gap = max(b.at_s - a.at_s for a, b in zip(flow.end.samples, flow.end.samples[1:]))
    assert 0.5 < gap < 2
    assert repaired.ssthresh == max(2, intact.cwnd // 2)
    assert min(info.cwnd for info in infos(flow)) >= 1
    steady(flow, controller, 1)
    assert infos(flow)[-1].cwnd >= repaired.ssthresh
    flow.stop()
    flow.deliver(5)


@pytest.mark.parametrize("timestamps", [True, False], ids=["by timestamps", "by DSACK"])
@pytest.mark.parametrize("name", LP_FAMILY)
def test_needless_loss_is_given_back(name: str, timestamps: bool, controllers: dict[str, Controller], peer: Peer) -> None:
    controller = controllers[name]
    behaviour = Late(DURING)
    behaviour.timestamps = timestamps
    before = controller.stats()
    flow = peer.connect(controller.name, behaviour)
    flow.pump()
    intact, _ = around(flow, lambda info: info.ca_state < RECOVERY)
    eventually(lambda: controller.stats().undos > before.undos, 5, "the undo")
    time.sleep(2 * RTT_S)
    since = dropwhile(lambda info: info.ca_state < RECOVERY, infos(flow))
    given_back = next(info for info in since if (info.ca_state, info.ssthresh) == (OPEN, INFINITE))
    assert given_back.cwnd >= intact.cwnd
    steady(flow, controller, 1)
    record = controller.flow(flow.sock)
    assert record and (record.losses, record.undos) == (1, 1)
    assert controller.stats().undos == before.undos + 1
    flow.stop()
    flow.deliver(5)


@pytest.mark.parametrize("name", LP_FAMILY)
def test_slow_start_comes_back_once(name: str, controllers: dict[str, Controller], peer: Peer) -> None:
    """Needless losses in the first slow start: the second one's window comes back, and the slow start does not."""
    controller = controllers[name]
    behaviour = Late(DURING)
    behaviour.window_bytes = 128 * 1448
    with controller.set(threshold_floor=100_000):  # no indications
        flow = peer.connect(controller.name, behaviour)
        flow.pump()
        controller.undone(flow.sock, 1, RTT_S)
        intact = infos(flow)[-1]
        assert intact.ssthresh == INFINITE
        behaviour.late, behaviour.late_s = {len(flow.end.segments) + 20}, RTT_S  # the kernel has learned to wait longer
        controller.undone(flow.sock, 2, RTT_S)
        after = infos(flow)[-1]
    record = controller.flow(flow.sock)
    assert record and (record.losses, record.undos, record.indications) == (2, 2, 0)
    assert after.ssthresh <= after.cwnd
    assert after.cwnd >= intact.cwnd
    flow.stop()
    flow.deliver(5)


def indicate(flow: Flow, behaviour: Plain, controller: Controller) -> None:
    """The ACKs are late until the flow has reacted once, and its reaction's round trip is over."""
    behaviour.extra_ack_s = QUEUE_S
    eventually(lambda: (f := controller.flow(flow.sock)) and f.indications, 5, "an indication", every_s=0.001)
    behaviour.extra_ack_s = 0
    time.sleep(2 * RTT_S + QUEUE_S)


class LosesOneThenLate(Late, LosesOne):
    pass


def test_loss_after_an_early_cut(tcp_lp: Controller, peer: Peer) -> None:
    """An indication takes half of the window, then a needless loss takes half of the rest. Only the second half comes back."""
    behaviour = LosesOneThenLate()
    flow = peer.connect(tcp_lp.name, behaviour)
    with tcp_lp.set(threshold_floor=THRESHOLD_US, inference_rtts=16):  # no growth for a third of a second after the cut
        flow.pump()
        steady(flow, tcp_lp, 1)
        indicate(flow, behaviour, tcp_lp)
        cut = infos(flow)[-1]
        behaviour.late = {len(flow.end.segments) + 20}
        eventually(lambda: (f := tcp_lp.flow(flow.sock)) and f.undos, 5, "the undo")
        time.sleep(RTT_S)
        after = infos(flow)[-1]
    record = tcp_lp.flow(flow.sock)
    assert record and (record.losses, record.indications, record.cuts_to_one) == (2, 1, 0)
    assert cut.cwnd <= after.cwnd <= cut.cwnd + 1
    assert after.ssthresh <= after.cwnd  # or slow start would take back what the indication took
    flow.stop()
    flow.deliver(5)


def test_early_cut_after_a_loss(tcp_lp: Controller, peer: Peer) -> None:
    """The loss turns out to be needless after an indication has followed it: nothing comes back, not even slow start."""
    behaviour = LosesOneThenLate()
    behaviour.late_s = 0.4
    flow = peer.connect(tcp_lp.name, behaviour)
    with tcp_lp.set(threshold_floor=THRESHOLD_US, inference_rtts=16):
        flow.pump()
        steady(flow, tcp_lp, 1)
        behaviour.late = {len(flow.end.segments) + 20}
        eventually(lambda: (f := tcp_lp.flow(flow.sock)) and f.losses == 2, 5, "the needless loss", every_s=0.001)
        intact = max(info.cwnd for info in infos(flow)[-10:])
        time.sleep(2 * RTT_S)
        indicate(flow, behaviour, tcp_lp)
        cut = infos(flow)[-1]
        assert cut.cwnd < intact
        eventually(lambda: (f := tcp_lp.flow(flow.sock)) and f.undos, 5, "the undo", every_s=0.001)
        time.sleep(RTT_S)
        after = infos(flow)[-1]
    record = tcp_lp.flow(flow.sock)
    assert record and (record.losses, record.indications, record.undos) == (2, 1, 1)
    assert after.cwnd <= cut.cwnd + 2
    assert after.ssthresh <= after.cwnd
    flow.stop()
    flow.deliver(5)


def test_one_reaction_in_a_round_trip(tcp_lp: Controller, peer: Peer) -> None:
    """However long the delay lasts and however many ACKs show it: at least an RTT between two reactions."""
    behaviour = LosesOne()
    flow = peer.connect(tcp_lp.name, behaviour)
    with tcp_lp.set(threshold_floor=THRESHOLD_US, inference_rtts=8):  # the round trip grows by more than three of the ones before
        flow.pump()
        steady(flow, tcp_lp, 1)
        tcp_lp.ring.read()
        tcp_lp.listen(30)
        behaviour.extra_ack_s = QUEUE_S
        eventually(lambda: (f := tcp_lp.flow(flow.sock)) and f.cuts_to_one >= 2, 5, "three reactions")
        tcp_lp.listen(0)
    flow.close()
    reactions = [e for e in tcp_lp.ring.read() if e.word in ("indication", "cut-to-one")]
    assert [e.word for e in reactions[:2]] == ["indication", "cut-to-one"]
    times = [e.time_ns / 1e9 for e in reactions]
    assert min(b - a for a, b in zip(times, times[1:])) > RTT_S


class Tail(Plain):
    """The last segment of a burst is lost, once."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number

    def lost(self, segment: Segment) -> bool:
        return segment.number == self.number and not segment.again


@pytest.mark.parametrize("name", OPEN_TO_ALL)
def test_a_tail_that_a_probe_repairs_is_a_loss(name: str, controllers: dict[str, Controller], peer: Peer) -> None:
    """Without ECN there are no marks (RFC 8985, 7: the kernel reports such a loss with no packet lost)."""
    controller = controllers[name]
    flow = peer.connect(controller.name, Tail(19))
    for packets in (20, 2):  # the second ones' ACK says that the probe's was no duplicate
        flow.pump(packets * 1448)
        flow.deliver(5)
    record = eventually(lambda: (f := controller.flow(flow.sock)) and f.losses + f.marks and f, 5, "it was told")
    assert (record.losses, record.marks) == (1, 0)
    flow.close()
