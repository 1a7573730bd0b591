# SPDX-License-Identifier: GPL-2.0-only
"""A constant delay: include/law/flat.h, and what delay_rebase() does then."""

from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.cdata import Laws
from tests.unit.estimator import MakeEstimator

us = st.integers(1, 2**23)
near = st.one_of(us, st.integers(50_000, 54_000))
noises = st.one_of(st.just(0), st.integers(0, 8_000), st.integers(0, 2**18))


@given(st.integers(0, 255), near, st.one_of(st.just(0), near), noises)
def test_counts_what_stands_still(law: Laws, count: int, rtt: int, first: int, noise: int) -> None:
    still = first > 0 and abs(rtt - first) <= max(1000, noise)
    assert law.flat_count(count, rtt, first, noise) == (min(count + 1, 255) if still else 0)


@given(st.integers(1, 255), us, st.one_of(st.just(0), us))
def test_a_full_buffer_takes_four_times_as_many(law: Laws, pairs: int, queue: int, full: int) -> None:
    there = full and full - full // 8 < queue <= full + full // 8
    assert law.flat_enough(pairs, queue, full) == (min(4 * pairs, 255) if there else pairs)


def count_all(law: Laws, rtts: list[int], noise: int = 0) -> list[int]:
    """The count after each of these RTTs, as a controller keeps it."""
    count, first, counts = 0, 0, []
    for rtt in rtts:
        count = law.flat_count(count, rtt, first, noise)
        first = first if count else rtt
        counts.append(count)
    return counts


def test_a_sawtooth_is_never_flat(law: Laws) -> None:
    """A queue that reno fills, a packet of 1.2 ms per RTT, seen once in 16 RTT."""
    assert max(count_all(law, [80_000 + i * 16 * 1_200 % 60_000 for i in range(200)])) <= 1


def test_a_slow_rise_is_not_flat(law: Laws) -> None:
    """Less than the tolerance from one to the next, and so more than that from the first on."""
    assert max(count_all(law, [80_000 + 300 * i for i in range(100)])) == 3


@given(st.integers(0, 255), near, st.one_of(st.just(0), near), noises, st.integers(0, 0xFFFF))
def test_counts_pairs(law: Laws, count: int, rtt: int, first: int, noise: int, packet: int) -> None:
    """As any samples, and within twelve packets where the time of one is known."""
    others = packet > 0 and abs(rtt - first) > 12 * packet
    assert law.flat_pairs(count, rtt, first, noise, packet) == (0 if others else law.flat_count(count, rtt, first, noise))


def test_reno_on_a_gigabit_is_not_flat(law: Laws, c: SimpleNamespace) -> None:
    """A pair each 16 RTT, in which its window grows by 16 packets of 12 us."""
    first, count, most = 0, 0, 0
    for rtt in range(120_000, 140_000, 16 * 12):
        count = law.flat_pairs(count, rtt, first, 0, 12)
        first = first if count else rtt
        most = max(most, count)
    assert most == 0


def test_within_the_noise_is_flat(law: Laws) -> None:
    jitter = [80_000 + (-1) ** i * 1_500 for i in range(20)]
    assert max(count_all(law, jitter)) == 0
    assert max(count_all(law, jitter, noise=3_000)) == 19
    assert max(count_all(law, jitter, noise=2_999)) == 0


@given(st.integers(0, 255), near, st.one_of(st.just(0), near), noises, st.integers(0, 0xFFFF))
def test_counts_rounds(law: Laws, count: int, low: int, first: int, noise: int, packet: int) -> None:
    """The smallest delays of rounds: within a packet and a half, or a quarter of the noise, and within three packets; there must
    be something to explain."""
    apart = min(max(1000, noise // 4, packet + packet // 2), 3 * packet)
    still = low > max(1000, noise) and first > 0 and abs(low - first) <= apart
    assert law.flat_rounds(count, low, first, noise, packet) == (min(count + 1, 255) if still else 0)


def test_the_smallest_of_a_round_is_steadier_than_a_sample(law: Laws) -> None:
    assert law.flat_rounds(3, 60_000, 58_000, 8_000, 1_200) == 4
    assert law.flat_rounds(3, 60_000, 57_999, 8_000, 1_200) == 0
    assert law.flat_count(3, 60_000, 52_000, 8_000) == 4


def test_counts_do_not_go_round(law: Laws) -> None:
    assert law.flat_count(255, 60_000, 60_000, 0) == 255
    assert law.flat_rounds(255, 60_000, 60_000, 0, 0) == 255


def rounds(law: Laws, lows: list[int], noise: int = 0, packet: int = 0) -> int:
    count, first, most = 0, 0, 0
    for low in lows:
        count = law.flat_rounds(count, low, first, noise, packet)
        first = first if count else low
        most = max(most, count)
    return most


def test_a_window_that_grows_makes_its_own_queue_and_it_is_not_flat(law: Laws, c: SimpleNamespace) -> None:
    """A packet of 1.2 ms each round: within a packet and a half for two rounds only."""
    assert rounds(law, [20_000 + 1_200 * i for i in range(200)], packet=1_200) < c.FLAT_ROUNDS // 4
    assert rounds(law, [30_000 + 200 * (i % 3) for i in range(200)], packet=1_200) >= c.FLAT_ROUNDS


@pytest.mark.parametrize("packet", [12, 48, 120, 1_200])
@pytest.mark.parametrize("growth", [1, 0.5, 0.25])
@pytest.mark.parametrize("noise", [0, 4_000])
def test_nor_is_it_on_a_fast_link(law: Laws, c: SimpleNamespace, packet: int, growth: float, noise: int) -> None:
    """Sixteen packets of a gigabit are .2 ms, which no tolerance tells from a delay that stands still. Where only 1 ms counted,
    `tcp_lp` took its own queue, and that of a reno beside it, for a longer path."""
    assert rounds(law, [20_000 + round(packet * growth * i) for i in range(200)], noise, packet) < c.FLAT_ROUNDS
    assert rounds(law, [20_000] * 200, noise, packet) >= c.FLAT_ROUNDS


def test_nor_where_the_time_of_a_packet_is_not_known(law: Laws, c: SimpleNamespace) -> None:
    assert rounds(law, [20_000 + i % 2 for i in range(200)]) < c.FLAT_ROUNDS


@given(st.lists(us, min_size=2, max_size=30), us)
def test_rebase_moves_all_by_the_rise(estimator: MakeEstimator, rtts: list[int], new: int) -> None:
    law = estimator()
    for i, rtt in enumerate(rtts):
        law.ack(10_000 * i, rtt)
    base, largest, smoothed = law.base, law.queue_max, law.smoothed
    rise = law.law.delay_rebase(law.state, new)
    assert rise == max(0, new - base)
    assert law.base == base + rise
    assert law.queue_max == largest, "of the path as it was"
    assert law.smoothed == max(0, smoothed - rise)
    queue = law.ack(10_000 * len(rtts), new)
    assert queue == new - law.base
    law.check(queue, new)


def test_rebase_before_anything_was_measured(estimator: MakeEstimator) -> None:
    law = estimator()
    assert law.law.delay_rebase(law.state, 50_000) == 0
