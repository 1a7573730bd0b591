# SPDX-License-Identifier: GPL-2.0-only
"""The start of a flow, and its restart after it was idle (RFC 5681, 3.1 and 4.1; RFC 6928; RFC 3465)."""

from __future__ import annotations

import time

import pytest

from tests.functional.flow.test_losses import LOSS, infos
from tests.hard.congestion import ALL, FIRST, INITIAL_WINDOW, MSS, RTT_S, TIMED, Connect, Path_, again, at_once, burst, finish

pytestmark = TIMED

GROWS = {name: 0.5 if name == "le" else 1 for name in ALL}  # packets for one that is acknowledged
IDLE_S = 1.5  # several retransmission timeouts


@at_once(*ALL)
def test_initial_window(name: str, connect: Connect) -> None:
    flow = connect(name, Path_())
    flow.pump(4 * INITIAL_WINDOW * MSS)
    flow.deliver(5)
    assert len(burst(flow)) == FIRST[name]
    finish(flow)


@at_once(*ALL)
def test_slow_start_by_an_ack_per_packet(name: str, connect: Connect) -> None:
    """Each acknowledged packet opens the window by one; that of le by a half."""
    path = Path_()
    path.ack_every = 1
    flow = connect(name, path)
    flow.pump(6 * INITIAL_WINDOW * MSS)
    flow.deliver(5)
    first, each = FIRST[name], GROWS[name]
    windows = [info.cwnd for info in infos(flow)][:first]
    assert windows == [first + int(each * (1 + i)) for i in range(first)]
    assert len(burst(flow, first)) == (1 + each) * first
    finish(flow)


@at_once(*ALL)
def test_slow_start_by_a_stretched_ack(name: str, connect: Connect) -> None:
    """One ACK for a whole window counts as its packets, not as one."""
    path = Path_()
    path.ack_every = FIRST[name]
    flow = connect(name, path)
    flow.pump(3 * INITIAL_WINDOW * MSS)
    flow.deliver(5)
    assert infos(flow)[0].cwnd == (1 + GROWS[name]) * FIRST[name]
    finish(flow)


@at_once(*ALL)
def test_slow_start_after_idle(name: str, connect: Connect) -> None:
    """A window that was not used for some timeouts does not describe the path any more."""
    flow = connect(name, Path_())
    flow.pump(8 * INITIAL_WINDOW * MSS)
    flow.deliver(5)
    assert infos(flow)[-1].cwnd >= 3 * INITIAL_WINDOW
    time.sleep(IDLE_S)
    since = len(flow.end.segments)
    flow.pump(8 * INITIAL_WINDOW * MSS)
    flow.deliver(5)
    assert 1 <= len(burst(flow, since)) <= INITIAL_WINDOW
    assert not again(flow)
    finish(flow)


@at_once(*ALL)
def test_an_application_that_sends_little(name: str, connect: Connect) -> None:
    """A window that is not filled does not grow (RFC 7661)."""
    flow = connect(name, Path_())
    for _ in range(20):
        flow.pump(2 * MSS)
        flow.deliver(5)
        time.sleep(RTT_S / 4)
    assert max(info.cwnd for info in infos(flow)) <= INITIAL_WINDOW
    assert all(info.ca_state != LOSS for info in infos(flow))
    finish(flow)
