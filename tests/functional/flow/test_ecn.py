# SPDX-License-Identifier: GPL-2.0-only
"""TCP-LP/ECN: marks are its signal, packet by packet. Until the first mark, and without ECN, it is tcp_lp."""

from __future__ import annotations

import time

import pytest

from tests.functional.kernel import PHASE, SIGNAL, Controller, TcpInfo, eventually
from tests.functional.peer import CWR, Behaviour, Flow, Peer, Segment

pytestmark = pytest.mark.rerun(
    "marks lie between data and ACKs by the peer's clock: an ACK that the host delays moves a mark to another round trip"
)

RTT_S = 0.02
FIRST = 60  # this segment of slow start is marked
INFINITE = 0x7FFFFFFF
RECOVERY = 3  # include/uapi/linux/tcp.h, enum tcp_ca_state


class Router(Behaviour):
    """Marks the segments whose numbers it is given."""

    ecn = True

    def __init__(self, *numbers: int, everything: bool = False) -> None:
        super().__init__(rtt_s=RTT_S)
        self.numbers = set(numbers)
        self.everything = everything

    def marked(self, segment: Segment) -> bool:
        return self.everything or segment.number in self.numbers


class Draining(Router):
    """Packets that left before the reaction to a mark still meet the queue that it reported."""

    def __init__(self, *numbers: int, behind: range) -> None:
        super().__init__(*numbers)
        self.behind = behind
        self.answer: int | None = None

    def marked(self, segment: Segment) -> bool:
        if self.answer is None and segment.flags & CWR:
            self.answer = segment.number
        late = self.answer is not None and segment.number - self.answer in self.behind
        return late or super().marked(segment)


def infos(flow: Flow) -> list[TcpInfo]:
    return [sample.info for sample in flow.end.samples]


def settled(flow: Flow, marks: int, controller: Controller) -> None:
    """The mark was taken and the window has come down."""
    eventually(
        lambda: (f := controller.flow(flow.sock)) and f.marks == marks and infos(flow)[-1].ca_state == 0,
        5,
        f"{marks} marks: {controller.flow(flow.sock)}",
        every_s=0.002,
    )


def test_a_mark_halves(tcp_lp_ecn: Controller, peer: Peer) -> None:
    """In slow start too. reno, which gets the same mark, does the same."""
    before = tcp_lp_ecn.stats()
    halves = {}
    for name in ("reno", tcp_lp_ecn.name):
        flow = peer.connect(name, Router(FIRST))
        assert flow.end.ecn
        flow.pump()
        eventually(lambda: any(info.ssthresh < INFINITE for info in infos(flow)), 5, "the mark is seen")
        if name != "reno":
            settled(flow, 1, tcp_lp_ecn)
            record = tcp_lp_ecn.flow(flow.sock)
            assert record and (record.ecn, record.delay_source) == (1, SIGNAL.ECN)
            assert (record.marks, record.indications, record.cuts_to_one, record.losses) == (1, 1, 0, 0)
        time.sleep(2 * RTT_S)
        seen = infos(flow)
        first = next(i for i, info in enumerate(seen) if info.ssthresh < INFINITE)
        intact, after = seen[first - 1], seen[-1]
        assert seen[first].ssthresh == intact.cwnd // 2 >= 10
        # a pump on a busy machine may have fewer packets in flight than that: then PRR goes lower on the way
        assert min(info.cwnd for info in seen[first:]) <= intact.cwnd // 2 + 1
        assert abs(next(info for info in seen[first:] if info.ca_state == 0).cwnd - intact.cwnd // 2) <= 1
        assert after.retrans == 0
        assert [segment for segment in flow.end.segments if segment.flags & CWR]
        halves[name] = seen[first].ssthresh / intact.cwnd
        flow.stop()
        flow.deliver(5)
    assert halves["reno"] == pytest.approx(halves[tcp_lp_ecn.name], abs=0.03)
    after_all = tcp_lp_ecn.stats()
    assert (after_all.marks - before.marks, after_all.indications - before.indications) == (1, 1)
    assert after_all.fallbacks == before.fallbacks + 1, "from the delay to marks"


def test_inference_after_a_mark(tcp_lp_ecn: Controller, peer: Peer) -> None:
    """Figure 3: no growth for 3 RTT; then one packet per RTT. Without another mark there is no other reduction."""
    with tcp_lp_ecn.set(inference_rtts=8):
        flow = peer.connect(tcp_lp_ecn.name, Router(FIRST))
        flow.pump()
        settled(flow, 1, tcp_lp_ecn)
        at = len(flow.end.samples)
        record = eventually(
            lambda: (f := tcp_lp_ecn.flow(flow.sock)) and f.phase == PHASE.INFERENCE and f, 1, "the inference", 0.002
        )
        assert 2 * RTT_S * 1e6 < record.lp.inference_left_us <= 8 * (RTT_S + 0.01) * 1e6
        eventually(lambda: (f := tcp_lp_ecn.flow(flow.sock)) and f.phase == PHASE.AVOIDANCE, 2, "the inference ends", 0.002)
        inference = infos(flow)[at:-3]
        assert len({info.cwnd for info in inference}) == 1
        begun_s, cwnd = time.monotonic(), infos(flow)[-1].cwnd
        time.sleep(0.4)
        grown = infos(flow)[-1].cwnd - cwnd
        round_trips = (time.monotonic() - begun_s) / RTT_S
        assert round_trips * 0.5 <= grown <= round_trips * 1.1 + 1
    flow.stop()
    flow.deliver(5)


def test_second_mark_in_the_inference(tcp_lp_ecn: Controller, peer: Peer) -> None:
    """The window is one packet, sent as pairs with gaps; it grows again when the marks end."""
    before = tcp_lp_ecn.stats()
    behaviour = Router(FIRST)
    with tcp_lp_ecn.set(inference_rtts=16):
        flow = peer.connect(tcp_lp_ecn.name, behaviour)
        flow.pump()
        settled(flow, 1, tcp_lp_ecn)
        time.sleep(2 * RTT_S)
        behaviour.numbers.add(len(flow.end.segments) + 5)
        settled(flow, 2, tcp_lp_ecn)
        record = eventually(lambda: (f := tcp_lp_ecn.flow(flow.sock)) and f.phase == PHASE.SMALL and f, 2, "a small window")
        assert (record.marks, record.indications, record.cuts_to_one) == (2, 2, 1)
        assert record.lp.window == 1
        assert 15 * RTT_S < record.lp.pair_gap_us / 1e6 < 16 * (RTT_S + 0.02)
    eventually(lambda: (f := tcp_lp_ecn.flow(flow.sock)) and f.lp.window > 5, 3, "growth")
    after = tcp_lp_ecn.stats()
    assert (after.marks - before.marks, after.cuts_to_one - before.cuts_to_one) == (2, 1)
    flow.stop()
    flow.deliver(5)


def test_at_most_one_reaction_in_a_round_trip(tcp_lp_ecn: Controller, peer: Peer) -> None:
    """A dozen marked packets of one window count as one mark, which halves the window."""
    flow = peer.connect(tcp_lp_ecn.name, Router(*range(FIRST, FIRST + 12)))
    flow.pump()
    settled(flow, 1, tcp_lp_ecn)
    time.sleep(3 * RTT_S)
    record = tcp_lp_ecn.flow(flow.sock)
    assert record and (record.marks, record.indications, record.cuts_to_one) == (1, 1, 0)
    flow.stop()
    flow.deliver(5)


@pytest.mark.parametrize("behind", [range(1, 6), range(4, 6)])
def test_the_queue_that_is_on_its_way_out_is_no_second_indication(behind: range, tcp_lp_ecn: Controller, peer: Peer) -> None:
    """The echo of its marks lasts until the RTT after the cut is over, or comes a little later: it does not count, and ends."""
    flow = peer.connect(tcp_lp_ecn.name, Draining(FIRST, behind=behind))
    flow.pump()
    settled(flow, 1, tcp_lp_ecn)
    time.sleep(6 * RTT_S)
    record = tcp_lp_ecn.flow(flow.sock)
    assert record and (record.marks, record.indications, record.cuts_to_one) == (1, 1, 0)
    assert len([segment for segment in flow.end.segments if segment.flags & CWR]) >= 2, "the late echo was answered"
    flow.stop()
    flow.deliver(5)


class LosesWhileForgiven(Draining):
    """A packet is lost in the round trip whose echo does not count."""

    def lost(self, segment: Segment) -> bool:
        return self.answer is not None and segment.number == self.answer + 10


def test_a_loss_while_an_echo_is_forgiven_takes_half(tcp_lp_ecn: Controller, peer: Peer) -> None:
    """The kernel asks for no second reduction in CWR."""
    flow = peer.connect(tcp_lp_ecn.name, LosesWhileForgiven(FIRST, behind=range(1, 6)))
    flow.pump()
    record = eventually(lambda: (f := tcp_lp_ecn.flow(flow.sock)) and f.losses and f, 2, "the loss counts", 0.002)
    seen = infos(flow)
    first = next(i for i, info in enumerate(seen) if info.ca_state == RECOVERY)
    before = next(info for info in reversed(seen[:first]) if info.ca_state == 0)
    assert 2 <= seen[first].ssthresh <= before.cwnd // 2 + 1
    assert (record.marks, record.losses) == (1, 1)
    flow.close()


class Rising(Router):
    """From one packet on all packets are marked, and wait behind a queue of other flows."""

    def marked(self, segment: Segment) -> bool:
        return segment.number >= FIRST

    def held_s(self, segment: Segment) -> float:
        return min(max(segment.number - FIRST, 0) * 0.001, 0.6 * RTT_S)


def test_marks_that_go_on_are_the_second_indication(tcp_lp_ecn: Controller, peer: Peer) -> None:
    """One of them is not counted; the next one reduces the window to one packet, although the round trips have become longer."""
    flow = peer.connect(tcp_lp_ecn.name, Rising())
    flow.pump()
    record = eventually(lambda: (f := tcp_lp_ecn.flow(flow.sock)) and f.cuts_to_one and f, 5, "one packet", 0.002)
    assert (record.indications, record.cuts_to_one) == (2, 1)
    flow.close()


def test_everything_marked(tcp_lp_ecn: Controller, peer: Peer) -> None:
    """The queue never falls below the marking threshold: the flow sends at its smallest rate and never stalls; then it grows
    again."""
    behaviour = Router(everything=True)
    flow = peer.connect(tcp_lp_ecn.name, behaviour)
    flow.pump()
    eventually(lambda: (f := tcp_lp_ecn.flow(flow.sock)) and f.cuts_to_one and f.lp.window == 1, 5, "one packet")
    at, begun_s = len(flow.end.segments), time.monotonic()
    time.sleep(1.5)
    packets = (len(flow.end.segments) - at) / (time.monotonic() - begun_s)
    assert 2 <= packets <= 2.5 * 2 / (16 * RTT_S)
    behaviour.everything = False
    eventually(lambda: (f := tcp_lp_ecn.flow(flow.sock)) and f.cwnd > 6, 4, "growth")
    flow.stop()
    flow.deliver(5)


@pytest.mark.parametrize("agreed", [False, True], ids=["not agreed", "agreed, and nobody marks"])
def test_without_marks_it_is_tcp_lp(agreed: bool, controllers: dict[str, Controller], peer: Peer) -> None:
    """The delay is the signal; the flow yields as tcp_lp does. Most routers drop from the tail, even where the hosts have agreed
    on ECN."""
    ecn, lp = controllers["tcp_lp_ecn"], controllers["tcp_lp"]
    flows = {}
    for controller in (ecn, lp):
        behaviour = Behaviour(rtt_s=RTT_S, rate_bps=8e6, buffer_bytes=30_000)
        behaviour.ecn = agreed
        flows[controller] = peer.connect(controller.name, behaviour)
    record = ecn.flow(flows[ecn].sock)
    assert record and (record.ecn, record.delay_source) == (agreed, SIGNAL.RTT)
    for flow in flows.values():
        flow.pump()
    for controller, flow in flows.items():
        eventually(lambda: (f := controller.flow(flow.sock)) and f.indications >= 5, 8, f"{controller.name} yields")
        record = controller.flow(flow.sock)
        assert record and record.losses <= 2 and record.marks == 0  # slow start's
        flow.close()


@pytest.mark.parametrize("agrees", [True, False])
def test_chosen_while_the_connection_is_made(agrees: bool, tcp_lp_ecn: Controller, peer: Peer) -> None:
    """It is chosen before the peer has said whether it agrees to ECN; until then the kernel assumes that it does."""
    before = tcp_lp_ecn.stats()
    behaviour = Router(FIRST)
    behaviour.ecn = agrees
    flow = peer.connect(tcp_lp_ecn.name, behaviour, early=False)
    assert flow.end.ecn == agrees
    flow.pump()
    eventually(lambda: flow.received > 2 * FIRST * 1448, 5, "data arrives")
    record = eventually(
        lambda: (f := tcp_lp_ecn.flow(flow.sock)) and f.marks == (f.delay_source == SIGNAL.ECN) == agrees and f,
        5,
        "the mark is seen, and the signal from there on",
    )
    assert (record.indications, record.losses) == (agrees, 0)
    assert tcp_lp_ecn.stats().fallbacks - before.fallbacks == agrees
    flow.close()


class Standing(Router):
    """One mark in slow start, and a standing queue of a given length, which only the RTT shows."""

    timestamps = False
    extra_s = 0.0

    def ack_held_s(self, number: int) -> float:
        return self.extra_s


def test_a_router_that_marks_is_forgotten(tcp_lp_ecn: Controller, peer: Peer) -> None:
    """While it is known, the delay does not count. After delay_memory (10 s, of which the halves leave at least 5) the delay is
    the signal again, and an event says so."""
    behaviour = Standing(FIRST)
    tcp_lp_ecn.ring.read()
    tcp_lp_ecn.listen(30)
    try:
        with tcp_lp_ecn.set(delay_memory=10, delta=500, rebase_pairs=0):
            flow = peer.connect(tcp_lp_ecn.name, behaviour)
            flow.pump()
            settled(flow, 1, tcp_lp_ecn)
            marked_s = time.monotonic()
            behaviour.extra_s = 2 * RTT_S
            time.sleep(2.0)
            record = tcp_lp_ecn.flow(flow.sock)
            assert record and (record.delay_source, record.indications) == (SIGNAL.ECN, 1)
            record = eventually(
                lambda: (f := tcp_lp_ecn.flow(flow.sock)) and f.delay_source != SIGNAL.ECN and f, 12, "another signal", 0.05
            )
            assert 4.5 < time.monotonic() - marked_s < 10.5
            behaviour.extra_s += 2 * RTT_S  # the base before the queue may have been forgotten at the same moment
            eventually(lambda: (f := tcp_lp_ecn.flow(flow.sock)) and f.indications > 1, 5, "the delay is an indication")
    finally:
        tcp_lp_ecn.listen(0)
    flow.close()
    changes = [(event.a, event.b) for event in tcp_lp_ecn.ring.read() if event.word == "fallback"]
    assert changes[0][1] == SIGNAL.ECN and changes[1][0] == SIGNAL.ECN and changes[1][1] in (SIGNAL.RTT, SIGNAL.OWD)
