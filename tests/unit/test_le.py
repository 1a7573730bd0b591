# SPDX-License-Identifier: GPL-2.0-only
"""The window law of le against its header's description: blocks, threshold, drain, judgement, pairs, growth (include/law/le.h)."""

import random
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.cdata import Laws
from tests.unit.headers import constants
from tests.unit.le import BACK, CUT, DRAIN, FREE, GO_ON, GROW, JUDGE, ONE, SMALL, UNIT_US, WAIT, YIELD, Flow, delays, windows

NAMES = constants()


# --- blocks and threshold ----------------------------------------------------------------------------------------


@given(st.lists(st.tuples(delays, st.integers(1, 4)), max_size=200), st.integers(1, 400))
def test_a_block_ends_with_a_quarter_of_the_window_and_three_acks(new_le: Any, acks: list[tuple[int, int]], window: int) -> None:
    flow, packets, low = new_le(), 0, list[int]()
    for queue_us, acked in acks:
        ended = flow.ack(queue_us, acked, window)
        packets, low = packets + acked, [*low, min(queue_us // UNIT_US, 0xFFFE)]
        assert ended == (packets >= max(window // 4, 6) and len(low) >= 3)
        if ended:
            assert flow.l.q == min(low)
            packets, low = 0, []


def test_a_noisy_path_needs_eight_acks(new_le: Any) -> None:
    for noise_us, acks in ((2500, 3), (2501, 8)):
        flow = new_le(noise_us=noise_us)
        assert [flow.ack(0, acked=8) for _ in range(acks)] == [False] * (acks - 1) + [True]


def test_a_delayed_ack_is_no_delay_unless_it_is_smaller(new_le: Any) -> None:
    flow = new_le()
    assert not flow.ack(40_000, 1, 40, 0) and flow.l.samples == 0 and flow.l.last == 0
    flow.ack(3200)
    flow.law.le_block(flow.l)
    flow.ack(1600, 1, 40, 0)
    assert flow.l.samples == 1 and flow.l.last == 100


def test_an_ack_that_may_be_late_says_nothing_of_the_largest_queue(new_le: Any) -> None:
    """The ACK of a single packet in the middle of a block, and one before a hole, which had waited for the next packet."""
    for late in ({"acked": 1, "flying": 0}, {"hole": True}):
        flow = new_le()
        flow.ack(1600)
        for _ in range(2):
            flow.ack(8000, **late)
        assert flow.l.samples == 3 and flow.l.last == 100 and flow.l.most == 0
        flow.ack(8000)
        flow.ack(8000)
        assert flow.l.most == flow.l.last == 500


@pytest.mark.parametrize(("stage", "window", "most"), [(FREE, 4, 300), (JUDGE, 24, 300), (FREE, 3, 0), (SMALL, 4, 0)])
def test_the_buffer_holds_the_smallest_delay_of_a_block(new_le: Any, stage: int, window: int, most: int) -> None:
    """Where packets overtake each other each ACK is one before a hole: a buffer of 40 ms was taken for one of 10."""
    flow = new_le()
    flow.l.stage, flow.l.count = stage, 2
    for delay in (8000, 4800, 6400):
        flow.ack(delay, 2, window=window, flying=0, hole=True)
    assert flow.l.most == most


def test_acks_before_holes_are_a_block(new_le: Any) -> None:
    """On a path that reorders there are no others."""
    flow = new_le()
    assert [flow.ack(delay, 4, hole=True) for delay in (3200, 1600, 4800)] == [False, False, True]
    assert flow.l.q == 100


def model_threshold(most_us: int, small: bool, now_small: bool, path: dict[str, int]) -> int:
    t_us = path["threshold_us"]
    noise_us = path["noise_us"] if now_small else path["noise_us"] * NAMES["LE_NOISE"] // 8
    if small:
        t_us, noise_us = min(t_us, max(most_us // 2, path["threshold_min_us"])), min(noise_us, most_us // 4)
    return max(t_us, path["packet_us"] + path["packet_us"] // 2, noise_us)


@given(
    st.integers(0, 0xFFFF), st.booleans(), st.booleans(), st.integers(500, 100_000), st.integers(100, 500),
    st.integers(0, 262_143), st.integers(0, 0xFFFF),
)  # fmt: skip
def test_the_threshold(
    new_le: Any, most: int, small_buffer: bool, now_small: bool, t_us: int, least_us: int, noise_us: int, packet_us: int
) -> None:
    path = {"threshold_us": t_us, "threshold_min_us": least_us, "noise_us": noise_us, "packet_us": packet_us}
    flow = new_le(**path)
    flow.l.most, flow.l.small_buffer, flow.l.stage = most, small_buffer, SMALL if now_small else FREE
    assert flow.law.le_threshold(flow.l, flow.path) == model_threshold(most * UNIT_US, small_buffer, now_small, path)


# --- drain and judgement --------------------------------------------------------------------------------------------


@given(st.integers(0, 2**32 - 1), delays, st.integers(0, 2**23))
def test_pipe_is_what_the_path_carries(new_le: Any, window_q8: int, queue_us: int, base_us: int) -> None:
    flow = new_le(base_us=base_us)
    pipe = flow.law.le_pipe(window_q8, queue_us, flow.path)
    assert pipe == (window_q8 * base_us // (base_us + queue_us) if base_us else window_q8) <= window_q8


@given(st.integers(2, 4000), st.integers(4100, 2**20))
def test_a_drain_takes_its_own_part_of_the_queue(new_le: Any, window: int, queue_us: int) -> None:
    flow = new_le()
    to_q8 = flow.law.le_drained(flow.l, window * ONE, queue_us, 0, flow.path)
    assert to_q8 == max(int(window * ONE * 50_000 / (50_000 + queue_us)), 2 * ONE)
    assert flow.l.back_q8 == window * ONE * 50_000 // 54_000, "back is where the queue is T"


@pytest.mark.parametrize(
    ("noise_us", "back", "buffer_us", "left_us"),
    [
        (3000, 24, 0, 3000),  # 3/2 of it is above 4 ms
        (3000, 23, 0, 0),  # perhaps a crowd's
        (2666, 24, 0, 0),  # it does not raise T
        (9000, 24, 0, 9000),
        (9000, 24, 16_000, 4000),  # of a small buffer no more than a quarter; T is its half
        (9000, 24, 32_000, 8000),
    ],
)
def test_a_drain_leaves_what_noise_explains(new_le: Any, noise_us: int, back: int, buffer_us: int, left_us: int) -> None:
    flow = new_le(noise_us=noise_us)
    flow.l.back_q8, flow.l.small_buffer, flow.l.most = back * ONE, bool(buffer_us), buffer_us // UNIT_US
    left_us = left_us if flow.law.le_threshold(flow.l, flow.path) > 4000 else 0
    for queue_us in (16_000, 8_000):
        drained = max(queue_us - left_us, 0)
        expected = 20 * ONE * 50_000 // (50_000 + drained)
        assert flow.law.le_drained(flow.l, 20 * ONE, queue_us, flow.law.le_spared(flow.l, flow.path), flow.path) == expected


def test_on_a_short_path_a_drain_leaves_half_of_the_threshold(new_le: Any) -> None:
    for base_us, seen, left_us in ((7999, True, 2000), (7999, False, 0), (8000, True, 0)):
        flow = new_le(base_us=base_us, base_seen=seen)
        to_q8 = flow.law.le_drained(flow.l, 100 * ONE, 8000, 0, flow.path)
        assert to_q8 == 100 * ONE * base_us // (base_us + 8000 - left_us)
        flow.law.le_cut(flow.l, to_q8, flow.path)
        assert flow.l.growth == (3 if base_us < 8000 else 0)


@pytest.mark.parametrize(("base_us", "most_us", "left_us"), [(1999, 1600, 1000), (2000, 1600, 0), (5000, 5600, 2000)])
def test_the_t_of_a_small_buffer_says_what_is_short(new_le: Any, base_us: int, most_us: int, left_us: int) -> None:
    """A drain leaves half of `threshold`, but no more than T."""
    flow = new_le(base_us=base_us)
    flow.l.small_buffer, flow.l.most = 1, most_us // UNIT_US
    to_q8 = flow.law.le_drained(flow.l, 100 * ONE, 8000, 0, flow.path)
    assert to_q8 == 100 * ONE * base_us // (base_us + 8000 - left_us)


def test_a_base_is_seen_within_half_a_millisecond(law: Laws) -> None:
    none = 2**31 - 1
    assert law.le_base_seen(5500, 5000) and law.le_base_seen(4000, 5000) and law.le_base_seen(5000, none)
    assert not law.le_base_seen(5501, 5000) and not law.le_base_seen(none, 5000) and not law.le_base_seen(none, none)


def test_a_drain_is_of_the_window_that_was_measured(new_le: Any) -> None:
    flow = new_le()
    for window in (20, 30, 45):
        flow.round(window)
    assert flow.l.then_q8 == (((20 + 30) / 2) + 45) / 2 * ONE
    assert flow.law.le_drained(flow.l, 60 * ONE, 50_000, 0, flow.path) == 35 * ONE // 2
    assert flow.law.le_drained(flow.l, 20 * ONE, 50_000, 0, flow.path) == 10 * ONE, "at most of the present one"


def test_a_queue_that_falls_was_our_own(new_le: Any) -> None:
    flow = new_le()
    flow.judged()
    back, window = flow.l.back_q8, 30
    flow.block(4000 + UNIT_US)
    assert flow.decide(window) == GO_ON, "one block is not enough"
    flow.block(4000)
    assert flow.decide(window) == GROW and flow.l.stage == FREE
    assert flow.l.back_q8 == back - (back - window * ONE) // 8


def test_a_queue_that_stays_is_somebody_elses(new_le: Any) -> None:
    flow = new_le()
    flow.judged()
    flow.block(4100)
    assert flow.decide() == GO_ON
    flow.block(4100)
    assert flow.decide() == YIELD and flow.l.stage == SMALL


@pytest.mark.parametrize(("window", "most", "gaps"), [(40, 16, [8, 16]), (40, 3, [8, 3]), (9, 16, [2, 4])])
def test_the_first_gap(new_le: Any, window: int, most: int, gaps: list[int]) -> None:
    """Flows of only a few packets look again at once: they may be a crowd of le flows. For others the first pair does not count."""
    flow = new_le(gap_max=most, gap_share=10_000)
    flow.small(window)
    assert [flow.pair(5000), flow.l.count] == [WAIT, gaps[0]]
    assert [flow.pair(5000), flow.l.count] == [WAIT, gaps[1]]


def test_a_pair_that_leaves_with_the_rest_says_nothing(new_le: Any) -> None:
    flow = new_le()
    flow.small()
    assert flow.pair(0) == WAIT and flow.law.le_gap(flow.l) == 8
    assert flow.pair(0) == GO_ON and flow.law.le_gap(flow.l) == 1
    assert flow.pair(0) == BACK


def little(flow: Any, most_us: int) -> None:
    """The buffer is known, and of this size."""
    flow.l.small_buffer, flow.l.most = 1, most_us // UNIT_US


@pytest.mark.parametrize("bare", [0, 1])
@pytest.mark.parametrize(("most_us", "tight"), [(7984, True), (8000, False)])
def test_a_queue_soon_after_a_cut_is_of_others_in_a_tight_buffer(new_le: Any, bare: int, most_us: int, tight: bool) -> None:
    """For three rounds: 1/8, 1/4 and 1/2 packet."""
    for rounds, verdict in ((2 - bare, YIELD), (3 - bare, DRAIN)):
        flow = new_le()
        flow.judged()
        flow.l.stage, flow.l.growth, flow.l.bare = FREE, 0, bare
        little(flow, most_us)
        for _ in range(rounds):
            flow.round()
        flow.block(7000)
        assert flow.decide() == (verdict if tight else DRAIN)
        assert (flow.l.stage == SMALL) == (tight and verdict == YIELD)


@pytest.mark.parametrize(
    ("change", "verdict"),
    [({}, YIELD), ({"of_loss": 1}, GO_ON), ({"small_buffer": 0}, GO_ON), ({"most": 500}, GO_ON), ({"stage": JUDGE}, GO_ON)],
)
def test_a_tight_buffer_that_is_full_after_a_drain_is_of_others(new_le: Any, change: dict[str, int], verdict: int) -> None:
    """Not after one's own loss, and not in JUDGE, which looks at two blocks."""
    for queue_us, said in ((5600, verdict), (5500, GO_ON)):  # 7/8 of 6400 us
        flow = new_le(packet_us=1000)
        flow.judged()
        little(flow, 6400)
        flow.l.stage = CUT
        flow.block(queue_us)
        for name, value in change.items():
            setattr(flow.l, name, value)
        assert flow.decide() == said
        assert (flow.l.stage == SMALL) == (said == YIELD)


def test_a_buffer_of_a_few_packets_is_filled_by_oneself(new_le: Any) -> None:
    for packet_us, verdict in ((1280, YIELD), (1281, GO_ON)):
        flow = new_le(packet_us=packet_us)
        flow.judged()
        little(flow, 6400)
        flow.l.stage = CUT
        flow.block(6400)
        assert flow.decide() == verdict


def test_the_start_of_a_return_is_no_round_after_a_cut(new_le: Any) -> None:
    flow = new_le()
    little(flow, 4000)
    flow.l.growth, flow.l.back_q8 = 0, ONE
    flow.block(7000)
    assert flow.decide() == DRAIN


@pytest.mark.parametrize(("most_us", "packets"), [(15_984, 4), (16_000, 30)])
def test_a_return_into_a_little_buffer_is_no_slow_start(new_le: Any, most_us: int, packets: int) -> None:
    flow = new_le()
    flow.l.back_q8 = 30 * ONE
    assert flow.law.le_return_to(flow.l, flow.path) == 30
    little(flow, most_us)
    assert flow.law.le_return_to(flow.l, flow.path) == packets
    flow.l.back_q8 = 0
    assert flow.law.le_return_to(flow.l, flow.path) == 4


def test_flows_of_a_few_packets_look_again_at_once_but_not_in_a_little_buffer(new_le: Any) -> None:
    for most_us, gap in ((16_000, 2), (15_984, 8)):
        flow = new_le()
        flow.judged(window=9)
        little(flow, most_us)
        flow.block(11_000, 9)
        assert flow.decide(9) == YIELD
        assert flow.pair(5000 if gap == 2 else 0) == WAIT and flow.l.count == gap


@pytest.mark.parametrize(("window", "verdict"), [(23, YIELD), (24, DRAIN)])
def test_the_first_indication_is_judged_by_pairs(new_le: Any, window: int, verdict: int) -> None:
    flow = new_le()
    flow.block(5000, window)
    assert flow.decide(window) == verdict
    if verdict == YIELD:
        assert flow.l.stage == SMALL and flow.law.le_gap(flow.l) == 4
        assert flow.l.back_q8 == window * ONE * 50_000 // 54_000
        assert flow.pair(0) == GO_ON and flow.pair(0) == BACK
        flow.block(5000, window)
        assert flow.decide(window) == DRAIN, "the second one is drained"


@pytest.mark.parametrize(("window", "to", "stage"), [(23, 2, SMALL), (24, 12, CUT)])
def test_a_first_loss_is_judged_by_pairs(new_le: Any, window: int, to: int, stage: int) -> None:
    flow = new_le()
    flow.ack(0)
    assert flow.law.le_loss(flow.l, window, False, flow.path) == to and flow.l.stage == stage
    assert flow.l.back_q8 == window // 2 * ONE and flow.l.bare


def test_one_that_doubles_is_so_at_once(new_le: Any) -> None:
    for queue_us, verdict in ((9999, GO_ON), (10_000, YIELD)):  # 5000 us are 312 units
        flow = new_le()
        flow.judged(cut_us=5000)
        flow.block(queue_us)
        assert flow.decide() == verdict, queue_us


# --- pairs --------------------------------------------------------------------------------------------------------


def test_gaps_double_while_a_queue_stays(new_le: Any) -> None:
    flow = new_le()
    flow.small(window=10)
    gaps = []
    for _ in range(6):
        assert flow.pair(5000) == WAIT
        gaps.append(flow.l.count)
    assert gaps == [2, 4, 8, 16, 16, 16]
    assert flow.pair(0) == GO_ON and flow.law.le_gap(flow.l) == 1, "once more, an RTT later"
    assert flow.pair(5000) == WAIT and flow.law.le_gap(flow.l) == 16, "as before"
    assert flow.pair(0) == GO_ON
    assert flow.pair(0) == BACK and flow.l.stage == FREE


def test_an_empty_pair_after_a_short_gap_suffices(new_le: Any) -> None:
    flow = new_le()
    flow.small(window=10)
    assert flow.pair(5000) == WAIT and flow.l.count == 2
    assert flow.pair(4000) == BACK


@given(st.integers(0, 2**24 - 1), st.integers(1, 10_000), st.integers(3, 64))
def test_fast_flows_look_more_often(new_le: Any, back: int, share: int, most: int) -> None:
    flow = new_le(gap_share=share, gap_max=most)
    flow.l.back_q8 = back * ONE
    assert flow.law.le_gap_most(flow.l, flow.path) == min(max(share // max(back, 1), 3), most)


def test_what_was_in_flight_is_no_pair(new_le: Any) -> None:
    flow = new_le()
    flow.small()
    assert not any(flow.ack(0, 2, 4, flying) for flying in range(30, 1, -1))
    assert flow.l.samples == 0
    assert flow.pair(5000) == WAIT


@given(st.integers(1, 255), st.integers(1, 2_000_000))
def test_a_longer_path_takes_as_long_at_any_gap(new_le: Any, pairs: int, gap_us: int) -> None:
    enough = new_le().law.le_flat_pairs(pairs, gap_us)
    assert pairs <= enough <= 255
    if pairs < enough < 255:
        assert enough * gap_us <= pairs * 800_000 < (enough + 1) * gap_us


def test_between_pairs_no_delay_stands_still_yet(new_le: Any) -> None:
    """The first pair's is the first: not that of the cut, which has the same place."""
    flow = new_le()
    flow.judged()
    assert flow.l.cut_q
    for _ in range(2):
        flow.block(5000)
        verdict = flow.decide()
    assert verdict == YIELD and flow.l.cut_q == 0


# --- growth ---------------------------------------------------------------------------------------------------------


def test_growth_is_slow_after_a_cut_and_fast_where_nobody_is(new_le: Any) -> None:
    flow, window, every = new_le(), 1000, []
    flow.law.le_cut(flow.l, window * ONE, flow.path)
    flow.l.stage = FREE
    for _ in range(30):
        every.append(flow.law.le_every(flow.l, window, False))
        flow.round(window)
    assert every[:5] == [8000, 4000, 2000, 1000, 1000]
    assert every[8:14] == [500, 250, 125, 62, 31, 16] or every[9:15] == [500, 250, 125, 62, 31, 16], every
    assert every[-1] == 16
    flow.block(1500, window)
    flow.round(window)
    assert flow.law.le_every(flow.l, window, False) == window, "a queue: a packet per RTT"


@given(windows, st.integers(0, 17))
def test_never_more_than_a_sixteenth_and_never_nothing(new_le: Any, window: int, growth: int) -> None:
    flow = new_le()
    flow.l.growth = growth
    every = flow.law.le_every(flow.l, window, False)
    assert 16 <= every if growth > 3 else every >= min(window, 2**24)
    assert flow.law.le_every(flow.l, window, True) == 2


@pytest.mark.parametrize(("window", "growth"), [(99, 2), (101, 8)])
def test_after_a_loss_without_a_queue_growth_accelerates_beyond_the_window_of_that_loss(
    new_le: Any, window: int, growth: int
) -> None:
    """5/4 of it. Up to there by half a packet per RTT: a policer would lose again."""
    flow = new_le()
    flow.block(0, window=80)
    assert flow.law.le_loss(flow.l, 80, False, flow.path) == 40 and flow.l.back_q8 == 40 * ONE
    flow.l.stage = FREE
    for _ in range(50):
        flow.round(60)
        assert flow.l.growth <= 2 and flow.l.count == 0
    for _ in range(13):
        flow.round(window)
    assert flow.l.growth == growth


def test_a_flow_that_is_not_limited_does_not_accelerate(new_le: Any) -> None:
    flow = new_le()
    for _ in range(50):
        flow.round(grows=False)
    assert flow.l.growth == 3 and flow.l.count == 0


# --- anything -------------------------------------------------------------------------------------------------------


def calls(flow: Flow, rng: random.Random) -> Iterator[int]:
    """Calls that a kernel may make in any order; the resulting windows."""
    window = rng.choice([1, 2, 4, 40, 2**20, 2**32 - 1])
    for _ in range(400):
        kind = rng.randrange(10)
        if kind < 6 and flow.ack(rng.choice([0, 100, 5000, 2**23, 2**32 - 1]), rng.choice([0, 1, 2, 2**32 - 1]), window,
                                 rng.choice([0, 1, 2, 99])):  # fmt: skip
            verdict = flow.law.le_decide(flow.l, flow.law.le_q8(window), flow.path)
            if verdict == DRAIN:
                to_q8 = flow.law.le_drained(flow.l, flow.law.le_q8(window), rng.randrange(2**20), 0, flow.path)
                flow.law.le_cut(flow.l, to_q8, flow.path)
                yield to_q8 // ONE
        elif kind == 6:
            flow.law.le_round(flow.l, flow.law.le_q8(window), rng.random() < 0.5, flow.path)
        elif kind == 7:
            yield flow.law.le_loss(flow.l, window, rng.random() < 0.5, flow.path)
            if flow.l.of_loss and rng.random() < 0.3:
                flow.law.le_needless(flow.l)
        elif kind == 8:
            yield flow.law.le_mark(flow.l, max(window, 2), flow.path)
        else:
            window = rng.choice([1, 2, 4, 40, 2**20, 2**32 - 1])


class Reached(NamedTuple):
    stage: int
    gap: int
    growth: int


@given(st.integers(0, 2**32), st.integers(0, 2**23))
def test_whatever_comes_windows_are_at_least_a_packet_and_the_state_is_in_range(new_le: Any, seed: int, base_us: int) -> None:
    flow = new_le(base_us=base_us)
    for to in calls(flow, random.Random(seed)):
        assert to >= (1 if flow.l.stage == SMALL else 2)
        state = Reached(flow.l.stage, flow.l.count, flow.l.growth)
        assert state.growth <= (31 if state.stage == SMALL else 17)
        assert state.stage != SMALL or state.gap >= 1, "a gap of nothing"


def test_a_new_path_forgets_the_buffer(new_le: Any) -> None:
    """Also that it held a queue: at a policer behind it no loss passes for chance."""
    flow = new_le()
    flow.l.most, flow.l.small_buffer, flow.l.fits, flow.l.bare = 100, 1, 1, 1
    flow.law.le_moved(flow.l)
    assert flow.l.most == 0 and not (flow.l.small_buffer or flow.l.fits or flow.l.bare)
    assert not flow.law.le_chance(flow.l, False, flow.path)


@pytest.mark.parametrize(("queue_us", "trusted"), [(8000, True), (8001, False)])
def test_no_flow_grows_faster_than_reno_on_the_word_of_a_peer(new_le: Any, queue_us: int, trusted: bool) -> None:
    """The peer's clock says that there is no queue, and the round trip is 2 T longer than its base."""
    flow = new_le()
    flow.l.growth, flow.l.count = 9, 12
    flow.law.le_distrust(flow.l, queue_us, flow.path)
    assert (flow.l.growth, flow.l.count) == ((9, 12) if trusted else (3, 0))
    flow.l.stage, flow.l.count = SMALL, 4
    flow.law.le_distrust(flow.l, 100_000, flow.path)
    assert flow.l.count == 4, "the gap of its pairs"


@pytest.mark.parametrize(("stage", "back"), [(FREE, 40), (CUT, 40), (JUDGE, 40), (SMALL, 90)])
def test_a_loss_without_a_delay_that_is_believed_stays(new_le: Any, stage: int, back: int) -> None:
    """Of pairs a loss takes nothing."""
    flow = new_le()
    flow.l.stage, flow.l.back_q8 = stage, 90 * ONE
    flow.law.le_loss_stays(flow.l, 40)
    assert flow.l.back_q8 == back * ONE
    flow.law.le_loss_stays(flow.l, 95)
    assert flow.l.back_q8 == back * ONE
