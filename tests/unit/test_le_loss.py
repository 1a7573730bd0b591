# SPDX-License-Identifier: GPL-2.0-only
"""What losses and marks leave of the window of le, and what they say of the path, against the header's description
(include/law/le_loss.h)."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.le import BACK, CUT, FREE, GO_ON, JUDGE, ONE, SMALL, UNIT_US, Flow, delays, windows


def fits(flow: Flow) -> None:
    """A queue of T has passed without a loss."""
    flow.block(4100)
    flow.block(0)


def test_a_single_loss_without_a_queue_is_chance(new_le: Any) -> None:
    flow = new_le()
    fits(flow)
    assert flow.law.le_chance(flow.l, False, flow.path)
    assert flow.law.le_loss(flow.l, 40, True, flow.path) == 40 and flow.l.stage == FREE
    assert not flow.law.le_chance(flow.l, False, flow.path), "a second one soon after"
    flow.round()
    assert not flow.law.le_chance(flow.l, False, flow.path)
    flow.round()
    assert flow.law.le_chance(flow.l, False, flow.path)


def test_the_first_loss_of_a_start_is_chance(new_le: Any) -> None:
    """Once, and not at a queue."""
    flow = new_le()
    flow.ack(3900)
    assert flow.law.le_chance(flow.l, True, flow.path)
    flow.path.base_us = 0
    assert not flow.law.le_chance(flow.l, True, flow.path), "no delay is known"
    flow.path.base_us = 50_000
    flow.ack(4000)
    flow.ack(4000)
    assert not flow.law.le_chance(flow.l, True, flow.path), "a queue"
    flow.ack(0)
    assert flow.law.le_loss(flow.l, 80, True, flow.path) == 80 and not flow.l.bare
    assert not flow.law.le_chance(flow.l, True, flow.path), "a second one soon after"
    flow.l.rounds = 3
    assert not flow.law.le_chance(flow.l, False, flow.path), "the start is over"
    flow.law.le_loss(flow.l, 80, False, flow.path)
    flow.l.rounds = 3
    assert not flow.law.le_chance(flow.l, True, flow.path), "a return is no start"


@pytest.mark.parametrize(("queue_us", "small"), [(2016, 0), (2064, 1)])
def test_a_chance_loss_far_below_the_largest_queue_forgets_a_small_buffer(new_le: Any, queue_us: int, small: int) -> None:
    flow = new_le()
    fits(flow)
    assert flow.l.most == 4096 // UNIT_US
    flow.l.small_buffer = 1
    flow.ack(queue_us)
    flow.ack(queue_us)
    flow.l.q = queue_us // UNIT_US
    flow.law.le_loss(flow.l, 40, True, flow.path)
    assert flow.l.small_buffer == small


@pytest.mark.parametrize("before", [0, 0xFFFE, 0x1FFFF])
def test_a_burst_that_began_as_chance_is_none(new_le: Any, before: int) -> None:
    """It is found packet by packet: of three and more that were sent again the first one was not alone."""
    flow = new_le()
    fits(flow)
    flow.law.le_loss(flow.l, 40, True, flow.path)
    flow.law.le_seems_alone(flow.l, before)
    assert not flow.law.le_was_many(flow.l, before + 2) and flow.law.le_was_many(flow.l, before + 3)
    for stage in (FREE, CUT, JUDGE):
        flow.l.stage = stage
        assert flow.law.le_was_many(flow.l, before + 3)
    flow.l.stage = SMALL
    assert not flow.law.le_was_many(flow.l, before + 3), "it is reduced"
    flow.l.stage, flow.l.of_loss = FREE, 0
    assert not flow.law.le_was_many(flow.l, before + 3), "there was no loss"


def test_a_loss_that_takes_more_than_it_seemed_to_is_still_one(new_le: Any) -> None:
    """It halves, and what a needless one brings back is what was known before it was met first."""
    flow = new_le()
    fits(flow)
    flow.l.small_buffer = flow.l.bare = 1
    flow.law.le_loss(flow.l, 40, True, flow.path)
    assert not flow.l.small_buffer, "it was far below the largest queue"
    assert flow.law.le_loss_again(flow.l, 40, flow.path) == 20
    assert flow.l.stage == CUT and flow.l.back_q8
    flow.law.le_needless(flow.l)
    assert flow.l.small_buffer and flow.l.bare and not flow.l.back_q8


def test_chance_needs_a_path_that_has_carried_a_queue(new_le: Any) -> None:
    flow = new_le()
    flow.block(0)
    assert not flow.law.le_chance(flow.l, False, flow.path)
    fits(flow)
    flow.l.back_q8 = ONE
    assert flow.law.le_chance(flow.l, False, flow.path) and not flow.law.le_chance(flow.l, True, flow.path)
    flow.ack(4100)
    assert not flow.law.le_chance(flow.l, False, flow.path), "a queue"


@pytest.mark.parametrize(("acks", "queue_us", "known"), [(3, 4000, 1), (3, 3999, 0), (2, 4000, 0)])
def test_the_block_that_a_loss_ends_shows_the_buffer(new_le: Any, acks: int, queue_us: int, known: int) -> None:
    """A start may meet its first queue and its first loss in the same block."""
    flow = new_le()
    for _ in range(acks):
        flow.ack(queue_us, window=400)
    flow.law.le_loss(flow.l, 400, False, flow.path)
    assert flow.l.fits == known and flow.l.bare != known


@pytest.mark.parametrize(("stood_us", "known"), [(200_000, 0), (90_000, 1)])
def test_a_path_that_stood_still_has_shown_no_buffer(new_le: Any, stood_us: int, known: int) -> None:
    """Not by a block, nor by the one that a loss ends; a standstill below half of the delay may have been a burst."""
    flow = new_le(stood_us=stood_us)
    flow.block(190_000)
    assert flow.l.q == 190_000 // 16, "a delay it is all the same"
    assert flow.l.fits == known and flow.l.most == known * (190_000 // 16)
    for _ in range(3):
        flow.ack(190_000, window=400)
    flow.law.le_loss(flow.l, 400, False, flow.path)
    assert flow.l.fits == known
    flow.path.stood_us = 0
    fits(flow)
    assert flow.l.fits and flow.l.most


@given(windows, delays, st.booleans(), st.booleans())
def test_a_loss_leaves_at_most_half(new_le: Any, window: int, queue_us: int, queued: bool, judging: bool) -> None:
    flow = new_le()
    if queued:
        fits(flow)
    flow.ack(queue_us)
    flow.l.stage = JUDGE if judging else FREE
    to = flow.law.le_loss(flow.l, window, False, flow.path)
    assert 2 <= to <= max(window // 2, 2)
    assert flow.l.stage == (JUDGE if judging else SMALL if window < 24 else CUT) and flow.l.of_loss
    assert flow.l.bare == (not flow.l.fits)


def test_a_loss_between_pairs_leaves_a_pair(new_le: Any) -> None:
    flow = new_le()
    flow.small()
    assert flow.law.le_loss(flow.l, 4, False, flow.path) == 2 and flow.l.stage == SMALL


def test_a_loss_in_the_largest_queue_tells_of_a_small_buffer(new_le: Any) -> None:
    for queue_us, small in ((3200, 1), (1200, 0)):
        flow = new_le()
        for _ in range(4):
            flow.ack(3200)
        flow.l.small_buffer = not small
        flow.law.le_learn_buffer(flow.l, queue_us // UNIT_US, False, flow.path)
        assert flow.l.small_buffer == small
        assert flow.law.le_threshold(flow.l, flow.path) == (1600 if small else 4000)


def test_one_loss_in_a_queue_that_the_flow_itself_keeps_may_be_chance(new_le: Any) -> None:
    """Its cuts keep the largest queue just above T. The second one in a row, without one far below it between them, is of a small
    buffer."""

    def learns(*queues_us: int, certain: bool = False, **state: int) -> tuple[int, int]:
        flow = new_le()
        flow.l.fits, flow.l.most, flow.l.back_q8 = 1, 4496 // UNIT_US, 40 * ONE
        for name, value in state.items():
            setattr(flow.l, name, value)
        for queue_us in queues_us:
            flow.law.le_learn_buffer(flow.l, queue_us // UNIT_US, certain, flow.path)
        return flow.l.small_buffer, flow.l.bare

    assert learns(4400) == (0, 1), "it grows by half a packet from then on"
    assert learns(4400, 4400) == (1, 0)
    assert learns(4400, 1000) == (0, 0) and learns(4400, 1000, 4400) == (0, 1)
    assert learns(4400, most=4992 // UNIT_US) == (0, 1)
    assert learns(4400, most=5008 // UNIT_US) == (1, 0), "others filled it"
    assert learns(4400, back_q8=0) == (1, 0), "it has cut nothing yet"
    assert learns(4400, fits=0) == (1, 1), "no queue of T has passed"
    assert learns(4400, certain=True) == (1, 0), "a mark"


def test_a_chance_loss_in_a_start_is_no_loss_before_any_queue(new_le: Any) -> None:
    flow = new_le()
    flow.l.most = 4496 // UNIT_US
    flow.law.le_loss(flow.l, 80, True, flow.path)
    assert not flow.l.bare


@given(st.integers(3, 100_000), delays)
def test_a_mark_takes_at_least_an_eighth_and_a_packet_once(new_le: Any, window: int, queue_us: int) -> None:
    flow = new_le()
    flow.ack(queue_us)
    to = flow.law.le_mark(flow.l, window, flow.path)
    assert 2 <= to <= max(window - max(window // 8, 1), 2) and flow.l.stage == CUT
    assert flow.law.le_mark(flow.l, to, flow.path) == to, "of the queue before"
    flow.round()
    assert flow.l.stage == JUDGE
    assert flow.law.le_mark(flow.l, to, flow.path) == 2 and flow.l.stage == SMALL


def test_a_mark_of_a_pair_is_a_queue(new_le: Any) -> None:
    """Behind an AQM there is no delay that a pair could find."""
    flow = new_le(gap_max=16, gap_share=10_000)
    flow.small()
    gaps = []
    for _ in range(3):
        assert flow.law.le_mark(flow.l, 2, flow.path) == 1 and flow.l.stage == SMALL
        gaps.append(flow.law.le_gap(flow.l))
    assert gaps == [8, 16, 16], "the first pair leaves at once"


@pytest.mark.parametrize(("marks", "verdict"), [(1, BACK), (2, GO_ON)])
def test_one_mark_after_an_empty_look_may_be_of_the_pair_itself(new_le: Any, marks: int, verdict: int) -> None:
    """Its second packet waits for the first one: where a router marks for that, a flow alone would be small for ever."""
    flow = new_le(gap_max=16, gap_share=10_000)
    flow.small()
    flow.law.le_mark(flow.l, 2, flow.path)
    assert flow.pair(0) == GO_ON and flow.law.le_gap(flow.l) == 1
    for _ in range(marks):
        assert flow.law.le_mark(flow.l, 2, flow.path) == 1 and flow.law.le_gap(flow.l) == 16
    assert flow.pair(0) == verdict


@pytest.mark.parametrize(
    ("queue_us", "most_us", "threshold_us", "left"),
    [(3200, 3200, 1600, 50), (4800, 6400, 3200, 50), (3200, 40_000, 4000, 50), (4000, 40_000, 4000, 88)],
)
def test_a_mark_in_a_short_queue(new_le: Any, queue_us: int, most_us: int, threshold_us: int, left: int) -> None:
    """A router that marks below `threshold` keeps the queue there: half is taken. If no queue was larger T comes down. Above it an
    eighth is taken, as by a router that marks only the background."""
    flow = new_le(base_us=1_000_000)
    flow.l.most, flow.l.last = most_us // UNIT_US, queue_us // UNIT_US
    flow.l.q = flow.l.last
    assert flow.law.le_mark(flow.l, 100, flow.path) == left
    assert flow.law.le_threshold(flow.l, flow.path) == threshold_us


def test_where_a_router_marks_growth_is_not_accelerated(new_le: Any) -> None:
    flow = new_le()
    for marks in (True, False):
        if marks:
            flow.law.le_mark(flow.l, 100, flow.path)
        else:
            flow.law.le_moved(flow.l)
        flow.l.stage, flow.l.q, flow.l.growth, flow.l.count, flow.l.fits = FREE, 0, 3, 0, 1
        flow.l.bare = 0
        for _ in range(20):
            flow.round()
        assert (flow.l.growth > 3) != marks


@pytest.mark.parametrize(("stage", "count", "growth"), [(FREE, 0, 3), (SMALL, 9, 17)])
def test_a_rest_ends_what_was_known_of_the_queue(new_le: Any, stage: int, count: int, growth: int) -> None:
    flow = new_le()
    flow.ack(3000)
    flow.l.stage, flow.l.count, flow.l.growth = stage, 9, 17
    flow.law.le_rested(flow.l)
    assert (flow.l.last, flow.l.samples, flow.l.count, flow.l.growth) == (0, 0, count, growth)
