# SPDX-License-Identifier: GPL-2.0-only
"""Ageing (paper VI-A): a smallest or largest delay lives at least half of delay_memory, and at most the whole.

The law's clock counts 1024 us, so its half of the memory is 0.5001 s per second of memory. It turns at an ACK: a value
outlives the whole by at most the two pauses between ACKs in which the halves end.
"""
from hypothesis import given
from hypothesis import strategies as st

UNIT_US = 1024

memories = st.integers(10, 3600)
starts = st.one_of(st.integers(0, 2**50), st.just(2**42 - 5_000_000))  # the second: where 32 bits of the clock wrap


def half_us(memory_s):
    return memory_s * 1_000_000 / 2


@given(memories, starts, st.lists(st.tuples(st.floats(0, 0.3), st.integers(1000, 100_000)), min_size=1, max_size=60))
def test_lives_half_the_memory_and_not_longer_than_the_whole(estimator, memory, start, steps):
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
        assert max(fresh) - law.base <= law.queue_max <= max(alive) - law.base
        assert law.smoothed <= law.queue_max


@given(memories, st.integers(0, 2**50), st.floats(0, 1))
def test_a_minimum_dies_after_the_whole_memory(estimator, memory, start, when):
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
            assert law.queue_max == 0
            assert law.smoothed == 0


@given(memories, st.floats(0.001, 1000))
def test_idle_keeps_the_base(estimator, memory, idle):
    """However long: the first ACK after a pause still knows the base from before."""
    law = estimator(memory_s=memory)
    law.ack(10**6, 40_000)
    law.ack(10**6 + 1000, 70_000)
    now = 10**6 + int(idle * memory * 10**6)
    law.restart()
    assert law.ack(now, 55_000) == 15_000
    assert law.base == 40_000
    assert law.smoothed == 15_000
