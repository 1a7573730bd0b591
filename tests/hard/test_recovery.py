# SPDX-License-Identifier: GPL-2.0-only
"""Losses, and events that only look like losses (RFC 3042, 5681, 5682, 6582, 6675, 6937, 8985)."""

from __future__ import annotations

import time
from collections.abc import Iterable

import pytest

from tests.functional.flow.test_losses import DISORDER, INFINITE, LOSS, OPEN, RECOVERY, around, infos
from tests.functional.kernel import TcpInfo, eventually, tcp_info
from tests.functional.peer import Flow, Segment
from tests.hard.congestion import (
    ALL,
    FIRST,
    INITIAL_WINDOW,
    KEPT,
    KEPT_OF_ONE,
    MSS,
    RTT_S,
    TIMED,
    Connect,
    Path_,
    again,
    at_once,
    finish,
    timed_out,
    untouched,
)

pytestmark = TIMED

AT = 40  # this segment of slow start: the window is between 20 and 38 packets by then
LEAST_RTO_S = 0.2  # TCP_RTO_MIN


def goes_on(flow: Flow, packets: int = 40) -> None:
    at = flow.received
    eventually(lambda: flow.received > at + packets * MSS or flow.end.wrong, 10, "data goes on")


def offsets(segments: Iterable[Segment]) -> list[int]:
    return sorted(segment.offset for segment in segments)


def assert_reduced(before: TcpInfo, after: TcpInfo, kept: float) -> None:
    assert 2 <= after.ssthresh <= max(2, int(before.cwnd * kept)), (before, after)
    assert after.cwnd <= after.ssthresh + 1, (before, after)


@at_once(*ALL)
def test_fast_recovery(name: str, connect: Connect) -> None:
    """One segment is lost: it is sent again once, without a timeout, and the window is what the controller's law leaves."""
    flow = connect(name, Path_([AT]))
    flow.pump()
    before, after = around(flow, untouched)
    assert_reduced(before, after, KEPT_OF_ONE[name])
    goes_on(flow, 10)
    assert offsets(again(flow)) == offsets([flow.end.segments[AT]])
    assert {info.ca_state for info in infos(flow)} >= {DISORDER, RECOVERY} and LOSS not in {i.ca_state for i in infos(flow)}
    finish(flow)


@at_once(*ALL)
def test_several_losses_in_a_window(name: str, connect: Connect) -> None:
    """They are one reduction, and each is sent again once."""
    losing = [AT, AT + 3, AT + 4, AT + 9]
    flow = connect(name, Path_(losing))
    flow.pump()
    before, after = around(flow, untouched)
    assert_reduced(before, after, KEPT[name])
    goes_on(flow, 10)
    assert offsets(again(flow)) == offsets(flow.end.segments[number] for number in losing)
    assert LOSS not in {info.ca_state for info in infos(flow)}
    finish(flow)


@at_once(*ALL)
def test_fast_recovery_without_sack(name: str, connect: Connect) -> None:
    path = Path_([AT])
    path.sack = False
    flow = connect(name, path)
    flow.pump()
    before, after = around(flow, untouched)
    assert_reduced(before, after, KEPT_OF_ONE[name])
    goes_on(flow, 10)
    assert len(again(flow)) == 1 and LOSS not in {info.ca_state for info in infos(flow)}
    finish(flow)


@at_once(*ALL)
def test_limited_transmit(name: str, connect: Connect) -> None:
    """The first segment of a window is lost: the first duplicate ACKs let new ones out, the third repairs. The kernel may wait
    for the third with the second new one, to send two at once."""
    flow = connect(name, Path_([0]))
    flow.pump(3 * INITIAL_WINDOW * MSS)
    flow.deliver(5)
    repair = again(flow)[0]
    assert repair.offset == 0
    assert FIRST[name] < repair.number <= FIRST[name] + 2
    finish(flow)


class Swapped(Path_):
    """Every twentieth segment is overtaken by the next two."""

    def held_s(self, segment: Segment) -> float:
        return RTT_S / 10 if segment.number % 20 == 19 else 0


@at_once(*ALL)
def test_mild_reordering_is_no_loss(name: str, connect: Connect) -> None:
    """RACK waits a quarter of the round trip once it has seen some: at most one needless repair."""
    flow = connect(name, Swapped(window_bytes=16 * MSS))
    flow.pump(600 * MSS)
    flow.deliver(20)
    assert len(again(flow)) <= 2, again(flow)
    assert LOSS not in {info.ca_state for info in infos(flow)}
    finish(flow)


@at_once(*ALL)
def test_tail_loss_probe(name: str, connect: Connect) -> None:
    """The last two segments are lost: a probe after two round trips, and no timeout."""
    path = Path_([28, 29])
    path.ack_every = 1  # the timer begins with the last ACK: none may be delayed
    flow = connect(name, path)
    flow.pump(30 * MSS)
    flow.deliver(5)
    probe, last = again(flow)[0], flow.end.segments[29]
    assert 1.5 * RTT_S < probe.at_s - last.at_s < 4 * RTT_S < LEAST_RTO_S
    assert LOSS not in {info.ca_state for info in infos(flow)}
    finish(flow)


@at_once(*ALL)
def test_timeout(name: str, connect: Connect) -> None:
    """The path is dead: a window of one, one segment at each timeout, whose length doubles; then slow start to the threshold."""
    path = Path_(window_bytes=18 * MSS)
    flow = connect(name, path)
    flow.pump()
    eventually(lambda: len(flow.end.segments) > 4 * AT, 5, "a window")
    path.dead = True
    fallen = timed_out(flow)
    before = infos(flow)[-1]
    assert fallen.cwnd == 1
    assert 2 <= fallen.ssthresh <= max(2, int(before.cwnd * KEPT[name])), (before, fallen)
    fallen_at = time.monotonic()
    eventually(lambda: len([s for s in again(flow) if s.at_s > fallen_at]) >= 2, 5, "two timeouts more")
    path.dead = False
    sent = [segment.at_s for segment in again(flow)][-3:]
    first, second = sent[1] - sent[0], sent[2] - sent[1]
    assert first >= LEAST_RTO_S and second == pytest.approx(2 * first, rel=0.2)
    goes_on(flow)
    states = [info for info in infos(flow) if info.ca_state == LOSS]
    assert all(info.cwnd <= info.ssthresh + 1 for info in states), states
    finish(flow)


class Late(Path_):
    """One segment is late, overtaken by so many that the sender takes it for lost."""

    def held_s(self, segment: Segment) -> float:
        return 0.7 * RTT_S if segment.number == AT else 0


@pytest.mark.parametrize("timestamps", [True, False], ids=["by timestamps", "by DSACK"])
@at_once(*ALL)
def test_undo(name: str, timestamps: bool, connect: Connect) -> None:
    """A segment was late, not lost: window and threshold come back."""
    path = Late()
    path.timestamps = timestamps
    flow = connect(name, path)
    flow.pump()
    eventually(lambda: any(info.ca_state == RECOVERY for info in infos(flow)), 5, "the needless recovery")
    at = next(i for i, info in enumerate(infos(flow)) if info.ca_state == RECOVERY)
    before = infos(flow)[at - 1]
    assert before.ssthresh == INFINITE
    restored = eventually(
        lambda: [info for info in infos(flow)[at:] if (info.ca_state, info.ssthresh) == (OPEN, INFINITE)], 5, "the undo"
    )
    assert restored[0].cwnd >= before.cwnd, (before, restored[0])
    goes_on(flow)
    assert len(again(flow)) <= 2
    finish(flow)


@pytest.mark.parametrize("timestamps", [True, False], ids=["by timestamps", "by F-RTO"])
@at_once(*(name for name in ALL if name != "le"))  # to le a delay of three timeouts is a queue
def test_spurious_timeout(name: str, timestamps: bool, connect: Connect) -> None:
    """All ACKs wait for longer than the timeout: it is recognised, little is sent again, and the window comes back."""
    path = Path_(window_bytes=30 * MSS)
    path.timestamps = timestamps
    flow = connect(name, path)
    flow.pump()
    eventually(lambda: len(flow.end.segments) > 4 * AT, 5, "a window")
    before = infos(flow)[-1]
    path.acks_wait_until_s = time.monotonic() + 3 * LEAST_RTO_S
    fallen = timed_out(flow)
    assert fallen.cwnd == 1
    eventually(lambda: (i := tcp_info(flow.sock)).ca_state == OPEN and i.cwnd >= before.cwnd, 5, f"the undo: {before}")
    goes_on(flow)
    assert len(again(flow)) <= 4, again(flow)
    finish(flow)
