# SPDX-License-Identifier: GPL-2.0-only
"""A delay that stands still: include/law/flat.h, and what delay_rebase() makes of it."""
from hypothesis import given
from hypothesis import strategies as st

us = st.integers(1, 2**23)


def flat(rtt, last, queue, largest):
    """The header's words, in floating point."""
    return last > 0 and abs(rtt - last) <= 1000 and queue <= largest - largest // 8


@given(st.integers(0, 255), st.one_of(us, st.integers(50_000, 54_000)), st.one_of(st.just(0), us, st.integers(50_000, 54_000)), us, us)
def test_counts_what_stands_still(law, count, rtt, last, queue, largest):
    expected = min(count + 1, 255) if flat(rtt, last, queue, largest) else 0
    assert law.flat_count(count, rtt, last, queue, largest) == expected


def test_a_sawtooth_is_never_flat(law):
    """A queue that reno fills, a packet of 1.2 ms per RTT, seen once in 16 RTT."""
    count, last = 0, 0
    for i in range(200):
        queue = 30_000 + i * 16 * 1_200 % 60_000
        count = law.flat_count(count, 50_000 + queue, last, queue, 125_000)
        last = 50_000 + queue
        assert count <= 1


def test_a_slow_rise_is_not_flat(law):
    """Less than the tolerance from one to the next, and so more than that from the first on."""
    first, counts, count = 80_000, [], 0
    for i in range(1, 100):
        rtt = 80_000 + 300 * i
        count = law.flat_count(count, rtt, first, rtt - 50_000, 125_000)
        first = first if count else rtt
        counts.append(count)
    assert max(counts) == 3


def test_a_buffer_that_is_kept_full_is_not_a_path(law):
    count = 0
    for _ in range(20):
        count = law.flat_count(count, 174_000, 174_000, 124_000, 125_000)
    assert count == 0


@given(st.lists(us, min_size=2, max_size=30), us)
def test_rebase_moves_all_by_the_rise(estimator, rtts, new):
    law = estimator()
    for i, rtt in enumerate(rtts):
        law.ack(10_000 * i, rtt)
    base, largest, smoothed = law.base, law.queue_max, law.smoothed
    rise = law.law.delay_rebase(law.state, new)
    assert rise == max(0, new - base)
    assert law.base == base + rise
    assert law.queue_max == max(0, largest - rise)
    assert law.smoothed == min(max(0, smoothed - rise), law.queue_max)
    queue = law.ack(10_000 * len(rtts), new)
    assert queue == new - law.base
    law.check(queue, new)


def test_rebase_before_anything_was_measured(estimator):
    law = estimator()
    assert law.law.delay_rebase(law.state, 50_000) == 0
