# SPDX-License-Identifier: GPL-2.0-only
"""Ageing (paper VI-A): a smallest delay lives at least half of delay_memory, and at most the whole. The largest one
lives as long as the connection (III-A.1).

The law's clock counts 65.5 ms, so its half of the memory is up to one of them shorter than memory * 977 / 2 units of
1024 us, and it turns at an ACK: a value outlives the whole by at most the two pauses between ACKs in which the halves
end.
"""

from types import SimpleNamespace

from hypothesis import given
from hypothesis import strategies as st

from tests.unit.cdata import Laws
from tests.unit.estimator import MakeEstimator

UNIT_US = 1 << 16

memories = st.integers(10, 3600)
starts = st.one_of(st.integers(0, 2**50), st.just(2**32 - 5_000_000))  # the second: where 16 bits of the clock wrap


def half_us(memory_s: int) -> float:
    return memory_s * 1_000_000 / 2


@given(memories, starts, st.lists(st.tuples(st.floats(0, 0.3), st.integers(1000, 100_000)), min_size=1, max_size=60))
def test_lives_half_the_memory_and_not_longer_than_the_whole(
    estimator: MakeEstimator, memory: int, start: int, steps: list[tuple[float, int]]
) -> None:
    law = estimator(memory_s=memory)
    half = half_us(memory)
    longest = max(gap for gap, _ in steps) * 2 * half
    seen = []
    now = start
    for gap, rtt in steps:
        now += int(gap * 2 * half)
        law.ack(now, rtt)
        seen.append((now, rtt))
        fresh = [r for t, r in seen if t > now - half + 2 * UNIT_US]
        alive = [r for t, r in seen if t >= now - 2 * half * 1.0005 - 2 * longest - 4 * UNIT_US]
        assert min(alive) <= law.base <= min(fresh)


@given(memories, st.integers(0, 2**50), st.floats(0, 1))
def test_a_minimum_dies_after_the_whole_memory(estimator: MakeEstimator, memory: int, start: int, when: float) -> None:
    """One low and one high delay amid constant ones, ACKs 100 times per memory."""
    law = estimator(memory_s=memory)
    half = half_us(memory)
    pause = int(half / 50)
    odd = int(when * 100)
    for i in range(330):
        at = start + i * pause
        law.ack(at, 10_000 if i == odd else 90_000 if i == odd + 1 else 50_000)
        age = i - odd
        if 1 <= age <= 48:
            assert law.base == 10_000 and law.queue_max == 80_000
        if age > 105:
            assert law.base == 50_000
            assert law.queue_max == 40_000, "the largest stays, and moves with the base"
            assert law.smoothed is not None and law.smoothed <= 8 / 256, "the rest that 1/256 us cannot tell"


@given(memories, st.floats(0.001, 1000))
def test_idle_keeps_the_base(estimator: MakeEstimator, memory: int, idle: float) -> None:
    """However long: the first ACK after a pause still knows the base from before."""
    law = estimator(memory_s=memory)
    law.ack(10**6, 40_000)
    law.ack(10**6 + 1000, 70_000)
    now = 10**6 + int(idle * memory * 10**6)
    law.restart()
    assert law.ack(now, 55_000) == 15_000
    assert law.base == 40_000
    assert law.smoothed == 15_000


@given(st.integers(10, 180), st.integers(2_000, 120_000), st.integers(0, 2**50))
def test_the_largest_delay_never_ages(estimator: MakeEstimator, memory: int, small: int, start: int) -> None:
    """Alone: one loss at 124 ms, and six hours of what its own cuts leave of that. Learned anew, the buffer would be a
    smaller one each time."""
    law = estimator(memory_s=memory)
    law.ack(start, 50_000)
    law.ack(start + 100_000, 174_000)
    law.overflow(124_000)
    for i in range(1, 721):
        law.ack(start + i * 30 * 10**6, 50_000 + (small if i % 2 else 0))
    assert law.queue_max == 124_000 and law.known
    assert law.threshold == 18_600


@given(memories)
def test_the_clock_of_the_halves_has_room(law: Laws, c: SimpleNamespace, memory: int) -> None:
    """16 bits of 65.5 ms: half of the longest memory fits; half of the range is 2^31 us, the range of s32."""
    half = (memory * c.KIUS_PER_S // 2) >> (c.AGED_CLOCK_SHIFT - c.KIUS_SHIFT)
    assert law.aged_over(half, memory) and (not half or not law.aged_over(half - 1, memory))
    assert half < c.DELAY_ANCHOR_HALF < 2**16
    assert c.DELAY_ANCHOR_HALF << c.AGED_CLOCK_SHIFT == 2**31
    assert abs((half << c.AGED_CLOCK_SHIFT) - half_us(memory)) <= UNIT_US + half_us(memory) * 0.0005
    assert law.aged_clock(2**32 + 5 * UNIT_US) == 5


@given(memories, st.integers(0, 2**50), st.floats(1.0, 20))
def test_a_silence_turns_the_halves_but_where_the_clock_went_round(
    estimator: MakeEstimator, c: SimpleNamespace, memory: int, start: int, halves: float
) -> None:
    law = estimator(memory_s=memory)
    law.ack(start, 40_000)
    silence = int(halves * half_us(memory)) + UNIT_US
    law.ack(start + silence, 50_000)
    since = ((start + silence >> c.AGED_CLOCK_SHIFT) - (start >> c.AGED_CLOCK_SHIFT)) % 2**16
    turned = law.law.aged_over(since, memory)
    assert law.state.rtt.before == (40_000 if turned else c.AGED_NO_MIN)
    assert law.base == 40_000, "a half before, or as if no time had passed"
