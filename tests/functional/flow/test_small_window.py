# SPDX-License-Identifier: GPL-2.0-only
"""Less than a packet per RTT (III-B.4): pairs of packets with gaps between them, never a stall, and back to full speed."""

from __future__ import annotations

import time

import pytest

from tests.functional.kernel import LP_FAMILY, PHASE, Controller, eventually, tcp_info
from tests.functional.peer import Behaviour, Flow, Peer, Segment, bursts

pytestmark = pytest.mark.rerun("pairs are timed: a host that stands still delays a pair to the next gap")

RTT_S = 0.01
EXTRA_S = 0.03
LONGEST_S = 2.5  # the pair's longest gap and an RTT
FIRST_LOSS = 40
FAMILIES = [*LP_FAMILY, "tcpw_lp"]
OPEN, LOSS = 0, 4  # include/uapi/linux/tcp.h, enum tcp_ca_state


class Queue(Behaviour):
    """A loss ends slow start; then there is a standing queue, or none."""

    def __init__(self, rtt_s: float = RTT_S) -> None:
        super().__init__(rtt_s=rtt_s)
        self.extra_s = 0.0
        self.losing = range(0)

    def lost(self, segment: Segment) -> bool:
        return segment.number == FIRST_LOSS or segment.number in self.losing

    def ack_held_s(self, number: int) -> float:
        return self.extra_s


@pytest.mark.parametrize("name", LP_FAMILY)
def test_pairs_under_a_standing_queue(name: str, controllers: dict[str, Controller], peer: Peer) -> None:
    """The delay stays: after two indications the flow sends pairs, with the gaps that its record shows."""
    controller = controllers[name]
    before = controller.stats()
    behaviour = Queue()
    flow = peer.connect(controller.name, behaviour)
    flow.pump()
    eventually(lambda: (f := controller.flow(flow.sock)) and f.losses == 1, 5, "the first loss")
    time.sleep(5 * RTT_S)
    behaviour.extra_s = EXTRA_S
    eventually(lambda: (f := controller.flow(flow.sock)) and f.cuts_to_one and f.delay_us > 20_000, 5, "a small window")
    at = len(flow.end.segments)
    record = eventually(lambda: (f := controller.flow(flow.sock)) and len(bursts(flow, at, EXTRA_S)) >= 6 and f, 10, "pairs")
    assert record.phase == PHASE.SMALL
    assert record.lp.window == 1
    assert record.cwnd in (1, 4)  # the pair is in flight, or the next one may leave as a whole
    assert record.ssthresh <= 3
    assert record.indications >= 2 and record.cuts_to_one >= 1
    pairs = bursts(flow, at, EXTRA_S)[1:-1]
    assert [len(pair) for pair in pairs] == [2] * len(pairs)
    gaps = [b[0].at_s - a[0].at_s for a, b in zip(pairs, pairs[1:])]
    gap_s = record.lp.pair_gap_us / 1e6
    assert 16 * RTT_S <= gap_s < 16 * (RTT_S + EXTRA_S / 4)  # of the base round trip, not of what the queue makes of it
    assert gaps[-1] == pytest.approx(gap_s, rel=0.25)
    assert min(gaps) >= 16 * RTT_S
    after = controller.stats()
    assert after.cuts_to_one - before.cuts_to_one == record.cuts_to_one
    assert after.indications - before.indications == record.indications

    # the queue is gone: back within a gap and some RTT, at full rate
    behaviour.extra_s = 0
    at = len(flow.end.segments)
    with controller.set(delta=900):
        eventually(
            lambda: (f := controller.flow(flow.sock)) and f.phase not in (PHASE.SMALL, PHASE.INFERENCE),
            LONGEST_S,
            f"the phase is left: {controller.flow(flow.sock)}",
        )
        eventually(lambda: tcp_info(flow.sock).cwnd >= 15, 3, "growth")
        since_s, begun = time.monotonic(), flow.received
        time.sleep(0.3)
        packets = (flow.received - begun) / 1448 / (time.monotonic() - since_s) * RTT_S
    assert packets > 10  # per RTT
    last = controller.flow(flow.sock)
    assert last and last.lp.pair_gap_us == 0
    silences = [b.at_s - a.at_s for a, b in zip(flow.end.segments, flow.end.segments[1:])]
    assert max(silences) < LONGEST_S
    flow.stop()
    flow.deliver(5)


def small(controller: Controller, peer: Peer, behaviour: Queue) -> Flow:
    """A flow that has just begun to send pairs."""
    flow = peer.connect(controller.name, behaviour)
    flow.pump()
    eventually(lambda: (f := controller.flow(flow.sock)) and f.losses == 1 and tcp_info(flow.sock).cwnd >= 24, 5, "a window")
    behaviour.extra_s = EXTRA_S
    eventually(lambda: (f := controller.flow(flow.sock)) and f.phase == PHASE.SMALL, 5, "a small window")
    return flow


@pytest.mark.parametrize("name", LP_FAMILY)
def test_what_is_left_of_the_old_window_counts_and_is_not_replaced(
    name: str, controllers: dict[str, Controller], peer: Peer
) -> None:
    """At a loss the kernel sends in proportion to the window before it: a window of 1 would let the whole of the old one go on."""
    flow = small(controllers[name], peer, Queue())
    eventually(lambda: tcp_info(flow.sock).unacked <= 4, 5, "nothing is left of it", 0.001)
    after = [sample.info for sample in flow.end.samples if sample.info.ssthresh <= 3]
    left = [(info.cwnd, info.unacked) for info in after if info.unacked > 4 and info.ca_state == OPEN]
    assert left and all(abs(cwnd - unacked) <= 1 for cwnd, unacked in left), left  # 1: a tail loss probe
    flow.close()


@pytest.mark.parametrize("name", FAMILIES)
def test_a_timeout_between_pairs_is_repaired_without_gaps(name: str, controllers: dict[str, Controller], peer: Peer) -> None:
    behaviour, controller = Queue(), controllers[name]
    flow = small(controller, peer, behaviour)
    eventually(lambda: (f := controller.flow(flow.sock)) and f.cwnd <= 4, 5, "only pairs are in flight")
    behaviour.losing = range(flow.end.segments[-1].number + 1, 10**6)
    eventually(lambda: tcp_info(flow.sock).ca_state == LOSS, 5, "a timeout", 0.001)
    behaviour.losing = range(0)
    at = len(flow.end.segments)
    eventually(lambda: tcp_info(flow.sock).ca_state == OPEN, 5, "its end", 0.001)
    again = [segment.at_s for segment in flow.end.segments[at:] if segment.again]
    gap_s = 16 * RTT_S
    assert len(again) >= 3 and again[-1] - again[0] < 1.5 * gap_s, again  # the ACK of the first one is a delayed one
    flow.close()


def test_longest_gap(tcp_lp: Controller, peer: Peer) -> None:
    """A base of 150 ms: 16 RTT would be 2.4 s, and the bound is 2 s. New data waits no longer than that."""
    behaviour = Queue(0.15)
    flow = peer.connect(tcp_lp.name, behaviour)
    flow.pump()
    eventually(lambda: (f := tcp_lp.flow(flow.sock)) and f.losses == 1, 5, "the first loss")
    time.sleep(0.5)
    behaviour.extra_s = 0.2
    eventually(lambda: (f := tcp_lp.flow(flow.sock)) and f.lp.pair_gap_us == 2_000_000, 15, "the longest gap")
    at = len(flow.end.segments)
    eventually(lambda: len(bursts(flow, at, 0.5)) >= 3, 7, "pairs")
    record = tcp_lp.flow(flow.sock)
    assert record and record.lp.pair_gap_us <= 2_000_000
    starts = [burst[0].at_s for burst in bursts(flow, at, 0.5)]
    assert max(b - a for a, b in zip(starts, starts[1:])) < LONGEST_S
    flow.close()


def test_last_data_of_a_small_window_arrives(tcp_lp: Controller, peer: Peer) -> None:
    """The application stops in the middle of a pair, or closes: no data is left behind, FIN follows."""
    behaviour = Queue()
    flow = peer.connect(tcp_lp.name, behaviour)
    flow.pump()
    eventually(lambda: (f := tcp_lp.flow(flow.sock)) and f.losses == 1, 5, "the first loss")
    behaviour.extra_s = EXTRA_S
    eventually(lambda: (f := tcp_lp.flow(flow.sock)) and f.phase == PHASE.SMALL, 5, "a small window")
    flow.stop()
    behaviour.extra_s = 0
    flow.deliver(10)
    flow.pump(1)
    flow.deliver(LONGEST_S)
    flow.pump(3 * 1448)
    flow.deliver(LONGEST_S)
    assert flow.received == flow.sent
    flow.sock.close()
    eventually(lambda: flow.end.finished, LONGEST_S, "FIN")
    eventually(lambda: not tcp_lp.flows(), 5, "no record is left")
