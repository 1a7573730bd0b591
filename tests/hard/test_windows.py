# SPDX-License-Identifier: GPL-2.0-only
"""The receiver's window, closed or small, and a sender's window under everything at once (RFC 9293, 3.8.6; RFC 1122)."""

from __future__ import annotations

import time

import pytest

from tests.functional.flow.test_losses import LOSS, OPEN, infos
from tests.functional.kernel import eventually, tcp_info
from tests.functional.peer import Flow, Segment
from tests.hard.congestion import ALL, MSS, RTT_S, TIMED, Connect, Path_, again, at_once, finish

pytestmark = TIMED

ROOM = 20 * MSS  # of the receiver, until its application reads


class Filling(Path_):
    """A receiver whose application does not read: the window's right edge stands still."""

    def __init__(self) -> None:
        self.flow: Flow | None = None
        self.edge = ROOM
        super().__init__()

    @property
    def window_bytes(self) -> int:
        return max(0, self.edge - (self.flow.received if self.flow else 0))

    @window_bytes.setter
    def window_bytes(self, value: int) -> None:
        pass


@at_once(*ALL)
def test_zero_window_probes(name: str, connect: Connect) -> None:
    """Only probes are sent into a closed window, at growing intervals; then the flow goes on as before."""
    path = Filling()
    path.flow = flow = connect(name, path)
    flow.pump()
    eventually(lambda: len(flow.end.probes_s) >= 3, 10, "three probes")
    assert max(segment.offset + segment.length for segment in flow.end.segments) <= ROOM
    gaps = [b - a for a, b in zip(flow.end.probes_s, flow.end.probes_s[1:])]
    assert gaps[0] >= 0.2 and gaps[1] == pytest.approx(2 * gaps[0], rel=0.2), gaps
    held = tcp_info(flow.sock)
    assert (held.ca_state, held.cwnd >= 1) == (OPEN, True), held
    path.edge += 100 * MSS
    flow.end.peer.at(time.monotonic(), flow.end.update)
    eventually(lambda: flow.received >= ROOM + 80 * MSS, 5, "the flow goes on")
    assert not again(flow) and LOSS not in {info.ca_state for info in infos(flow)}
    path.edge += 1 << 20
    flow.end.peer.at(time.monotonic(), flow.end.update)
    finish(flow)


class Small(Path_):
    """Records how far the sender is ahead of what has arrived."""

    flow: Flow | None = None
    ahead = 0

    def held_s(self, segment: Segment) -> float:
        if self.flow:
            self.ahead = max(self.ahead, segment.offset + segment.length - self.flow.received)
        return 0


@at_once(*ALL)
def test_receive_window(name: str, connect: Connect) -> None:
    """The receiver's window holds, and a window that it limits does not grow without end."""
    packets = 8
    path = Small(window_bytes=packets * MSS)
    path.flow = flow = connect(name, path)
    flow.pump(30 * packets * MSS)
    flow.deliver(10)
    assert packets * MSS / 2 <= path.ahead <= packets * MSS
    assert max(info.cwnd for info in infos(flow)) <= 2 * packets + 2
    assert not again(flow)
    finish(flow)


class Dreadful(Path_):
    """A third of the packets is lost, and every ACK carries ECE and is late now and then."""

    ecn = True

    def lost(self, segment: Segment) -> bool:
        return segment.number > 20 and segment.number % 3 == 0

    def ack_held_s(self, number: int) -> float:
        return 2 * RTT_S if number % 7 == 0 else 0

    def ece(self, latched: bool) -> bool:
        return True


@at_once(*ALL)
def test_the_window_is_never_zero(name: str, connect: Connect) -> None:
    """Even then the flow goes on sending, and its data arrives."""
    flow = connect(name, Dreadful())
    flow.pump()
    least, end_s = 1 << 20, time.monotonic() + 2
    while time.monotonic() < end_s:
        least = min(least, tcp_info(flow.sock).cwnd)
        time.sleep(0.002)
    assert least >= 1
    at = flow.received
    eventually(lambda: flow.received > at, 5, "data still arrives")
    flow.stop()
    assert all(info.cwnd >= 1 for info in infos(flow))
    flow.close()
