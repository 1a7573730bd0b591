# SPDX-License-Identifier: GPL-2.0-only
"""hstcp_lp above 38 packets: RFC 3649's growth and decrease, and the hybrid cuts; below, it is TCP-LP."""

from __future__ import annotations

import time
from collections.abc import Iterator
from math import log
from types import SimpleNamespace

import pytest

from tests.functional.flow.test_losses import DISORDER, INFINITE, OPEN, Plain, around, infos
from tests.functional.kernel import PHASE, Controller, eventually
from tests.functional.peer import Flow, Peer, Segment

pytestmark = pytest.mark.rerun(
    "the windows are counted by round trips of the peer: ACKs that the host delays come together, as one"
)

RTT_S = 0.1  # 300 packets in it are 3000 in a second, a third of what the peer can take
QUEUE_S = 0.05
LOW, HIGH = 38, 83_000


def decrease(w: int) -> float:
    """b(w), RFC 3649, section 5"""
    return 0.5 - 0.4 * log(w / LOW) / log(HIGH / LOW) if w > LOW else 0.5


def second(w: int) -> float:
    """c(w)"""
    low = 1 - 1 / LOW
    return low - (low - 0.1) * log(w / LOW) / log(HIGH / LOW)


class LosesOne(Plain):
    """A long path that loses one segment."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.rtt_s = RTT_S
        self.number = number

    def lost(self, segment: Segment) -> bool:
        return segment.number == self.number


@pytest.fixture
def hstcp_lp(controllers: dict[str, Controller]) -> Iterator[Controller]:
    """With a threshold above any delay that this machine itself adds."""
    with controllers["hstcp_lp"].set(delta=500, threshold_floor=15_000):
        yield controllers["hstcp_lp"]


def repaired(flow: Flow, controller: Controller) -> None:
    eventually(lambda: (f := controller.flow(flow.sock)) and f.losses and f.phase == PHASE.AVOIDANCE, 8, "the loss is repaired")


@pytest.mark.parametrize(("number", "large"), [(15, False), (250, True)])
def test_a_loss(number: int, large: bool, hstcp_lp: Controller, peer: Peer) -> None:
    """b(w) of a large window, half of a small one."""
    flow = peer.connect(hstcp_lp.name, LosesOne(number))
    flow.pump()
    intact, after = around(flow, lambda info: info.ca_state in (OPEN, DISORDER) and info.ssthresh == INFINITE)
    assert (intact.cwnd > 100) if large else (10 <= intact.cwnd <= LOW)
    left = (1 - decrease(intact.cwnd)) * intact.cwnd
    assert left - 1 <= after.ssthresh <= left + 0.1
    if not large:
        assert after.ssthresh == intact.cwnd // 2
    flow.close()


def test_growth_and_record(hstcp_lp: Controller, peer: Peer) -> None:
    """The window grows by a(w) packets per round trip, where reno grows by one; the record shows the coefficients of the window."""
    flow = peer.connect(hstcp_lp.name, LosesOne(250))
    with hstcp_lp.set(delta=900):  # nothing but growth
        flow.pump()
        repaired(flow, hstcp_lp)
        time.sleep(3 * RTT_S)
        begun, begun_s = infos(flow)[-1].cwnd, time.monotonic()
        assert 118 < begun < 330
        time.sleep(12 * RTT_S)
        record = hstcp_lp.flow(flow.sock)
    assert record and record.indications == 0
    ended, rtts = infos(flow)[-1].cwnd, (time.monotonic() - begun_s) / (record.srtt_us / 1e6)
    increase = 2 if ended < 221 else 3 if begun >= 221 else 2.5
    assert (ended - begun) / rtts == pytest.approx(increase, abs=0.6)
    own, window = record.hstcp_lp, record.lp.window
    assert own.highspeed == 1
    assert own.increase_permille == (2000 if window < 221 else 3000 if window < 347 else 4000)
    assert own.decrease_permille == pytest.approx(1000 * decrease(window), abs=1)
    assert own.second_permille == pytest.approx(1000 * second(window), abs=1)
    assert own.lp.window == window
    flow.close()


def cuts(flow: Flow, controller: Controller) -> tuple[int, SimpleNamespace, SimpleNamespace]:
    """The window before the first indication, and the events of the first two indications, under a constant delay."""
    controller.ring.read()
    controller.listen(30)
    try:
        before = infos(flow)[-1].cwnd
        behaviour = flow.end.behaviour
        assert isinstance(behaviour, LosesOne)
        behaviour.extra_ack_s = QUEUE_S
        eventually(lambda: (f := controller.flow(flow.sock)) and f.cuts_to_one, 8, "two reactions")
    finally:
        controller.listen(0)
    first, other = [e for e in controller.ring.read() if e.word in ("indication", "cut-to-one")][:2]
    assert (first.word, other.word) == ("indication", "cut-to-one")
    return before, first, other


@pytest.mark.parametrize(("first_half", "second_one"), [(0, 0), (1, 0), (0, 1)])
def test_early_cuts(first_half: int, second_one: int, hstcp_lp: Controller, peer: Peer) -> None:
    """The first indication takes b(w), or half with first_half; another one takes c(w) of the rest, or all but one packet with
    second_one."""
    flow = peer.connect(hstcp_lp.name, LosesOne(500))
    with hstcp_lp.set(delta=500, first_half=first_half, second_one=second_one):
        flow.pump()
        repaired(flow, hstcp_lp)
        time.sleep(3 * RTT_S)
        before, first, other = cuts(flow, hstcp_lp)
    part = 0.5 if first_half else decrease(before)
    assert first.cwnd == pytest.approx((1 - part) * before, abs=5)  # it grew until then
    assert first.ssthresh <= first.cwnd
    left = 1 if second_one else (1 - second(first.cwnd)) * first.cwnd
    assert left - 1.1 <= other.cwnd <= left + 0.1 or second_one  # nothing grows in between
    if second_one:  # a small window's pair
        record = eventually(lambda: (f := hstcp_lp.flow(flow.sock)) and f.phase == PHASE.SMALL and f, 5, "pairs")
        assert record.lp.window == 1
    else:
        assert other.cwnd > 1
    flow.close()


def test_tcp_lps_cuts_of_a_small_window(hstcp_lp: Controller, peer: Peer) -> None:
    """Up to 38 packets: half, then one packet, which is sent as a small window."""
    flow = peer.connect(hstcp_lp.name, LosesOne(60))
    flow.pump()
    repaired(flow, hstcp_lp)
    before, first, _ = cuts(flow, hstcp_lp)
    assert before <= LOW
    assert first.cwnd == pytest.approx(before / 2, abs=1)
    record = eventually(lambda: (f := hstcp_lp.flow(flow.sock)) and f.phase == PHASE.SMALL and f, 5, "pairs")
    assert record.lp.window == 1
    assert (record.hstcp_lp.highspeed, record.hstcp_lp.increase_permille) == (0, 1000)
    flow.close()
