# SPDX-License-Identifier: GPL-2.0-only
"""Events: each change once, in order, while somebody listens; nothing is written otherwise."""

from __future__ import annotations

import socket
import time
from types import SimpleNamespace

import pytest

from tests.functional.kernel import LP_FAMILY, Controller, eventually
from tests.functional.peer import RECEIVER, SENDER, Behaviour, Flow, Peer, Segment

RTT_S = 0.01
LOST = 60


class Busy(Behaviour):
    """A loss, then a queue that comes and goes."""

    def __init__(self) -> None:
        super().__init__(rtt_s=RTT_S)
        self.extra_s = 0.0

    def lost(self, segment: Segment) -> bool:
        return segment.number == LOST

    def ack_held_s(self, number: int) -> float:
        return self.extra_s


def busy(controller: Controller, peer: Peer) -> Flow:
    """A flow that went through a loss and an indication, and closed."""
    behaviour = Busy()
    flow = peer.connect(controller.name, behaviour)
    flow.pump()
    eventually(lambda: (f := controller.flow(flow.sock)) and f.losses, 5, "a loss")
    time.sleep(5 * RTT_S)
    behaviour.extra_s = 0.05
    eventually(lambda: (f := controller.flow(flow.sock)) and f.indications and f.delay_us > 30_000, 5, "an indication")
    behaviour.extra_s = 0
    flow.stop()
    return flow


@pytest.mark.parametrize("name", LP_FAMILY)
def test_events_of_a_flow(name: str, controllers: dict[str, Controller], peer: Peer) -> None:
    controller = controllers[name]
    controller.ring.read()
    before = controller.stats()
    controller.listen(30)
    try:
        begun_ns = time.monotonic_ns()
        flow = busy(controller, peer)
        local, remote = flow.sock.getsockname()[1], flow.sock.getpeername()[1]
        record = controller.flow(flow.sock)
        assert record
        flow.close()
        found: list[SimpleNamespace] = []
        events = eventually(lambda: events_until_closed(controller, found), 5, "the last event")
    finally:
        controller.listen(0)
    words = [event.word for event in events]
    assert words[0] == "opened" and words[-1] == "closed"
    assert words.count("opened") == words.count("closed") == 1
    after = controller.stats()
    assert words.count("loss") == after.losses - before.losses >= 1
    assert words.count("indication") + words.count("cut-to-one") == after.indications - before.indications >= 1
    assert words.count("cut-to-one") == after.cuts_to_one - before.cuts_to_one
    assert words.index("loss") < min(i for i, word in enumerate(words) if word in ("indication", "cut-to-one"))
    times = [event.time_ns for event in events]
    assert begun_ns < times[0] and times == sorted(times) and times[-1] < time.monotonic_ns()
    for event in events:
        assert event.flow == record.key
        assert (event.kind, event.instance, event.family) == (controller.kind, record.instance, socket.AF_INET)
        assert (event.local_port, event.remote_port) == (local, remote)
        assert event.local_addr[:4] == socket.inet_aton(SENDER)
        assert event.remote_addr[:4] == socket.inet_aton(RECEIVER)
        assert event.cwnd >= 1
    opened, closed = events[0], events[-1]
    assert (opened.a, opened.b) == (0, 1)  # no ECN, timestamps
    assert (closed.a, closed.b) == (after.indications - before.indications, after.losses - before.losses)
    cut = next(event for event in events if event.word in ("indication", "cut-to-one"))
    assert cut.a >= cut.b > 0  # smoothed delay and threshold: eq. 2
    loss = next(event for event in events if event.word == "loss")
    assert loss.b < loss.a  # ssthresh after and before
    small = [event for event in events if event.word == "small-enter"]
    assert all(0 < event.a <= 2_000_000 for event in small)
    assert after.events_dropped == before.events_dropped


def events_until_closed(controller: Controller, found: list[SimpleNamespace]) -> list[SimpleNamespace] | None:
    found += controller.ring.read()
    if found and found[-1].word == "closed":
        return found
    return None


def test_nothing_is_written_without_a_listener(tcp_lp: Controller, peer: Peer) -> None:
    """Neither before a listener came, nor after the time until which it would listen."""
    tcp_lp.listen(0.05)
    time.sleep(0.06)
    written = tcp_lp.ring.written
    busy(tcp_lp, peer).close()
    eventually(lambda: not tcp_lp.flows(), 5, "the flow is gone")
    assert tcp_lp.ring.written == written
    tcp_lp.ring.read()
    tcp_lp.listen(10)
    flow = peer.connect(tcp_lp.name)
    tcp_lp.listen(0)
    (event,) = tcp_lp.ring.read()
    assert (event.word, event.local_port) == ("opened", flow.sock.getsockname()[1])
    flow.close()
    eventually(lambda: not tcp_lp.flows(), 5, "the flow is gone")
    assert tcp_lp.ring.read() == []


def test_a_slow_listener_loses_events_not_flows(tcp_lp: Controller, peer: Peer) -> None:
    """A ring buffer that nobody reads is full after 8 000 events: the rest are counted."""
    before = tcp_lp.stats()
    sock = peer.connect("reno").sock
    tcp_lp.listen(30)
    try:
        for _ in range(6000):  # opened, closed
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, tcp_lp.name.encode())
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, b"reno")
    finally:
        tcp_lp.listen(0)
    after = tcp_lp.stats()
    events = tcp_lp.ring.read()
    assert after.flows_opened - before.flows_opened == after.flows_closed - before.flows_closed == 6000
    assert len(events) > 5000
    assert len(events) + after.events_dropped - before.events_dropped == 12_000
    flow = peer.connect(tcp_lp.name)
    flow.pump(100_000)
    flow.deliver(5)
