# SPDX-License-Identifier: GPL-2.0-only
"""chirp.h against eq. 3, 4 and 6 of the NF-TCP paper in floating point."""

import math
from types import SimpleNamespace

from hypothesis import example, given
from hypothesis import strategies as st

from tests.unit.cdata import Laws

U32 = 2**32 - 1
ROUNDED = 1 / 256 / 1000  # a gap is rounded down to 1/256 kbit/s: relative to the least rate
rates = st.one_of(st.integers(1000, 4_000_000_000), st.integers(1000, 1_000_000))
spreads = st.one_of(st.just(1200), st.integers(1010, 2000))
steps = st.integers(2, 15)
sizes = st.one_of(st.integers(40, 9000), st.integers(1, 2**24))
u32 = st.integers(0, U32)


def rate(low: float, spread: int, i: int) -> float:
    return min(low * (spread / 1000) ** i, U32)


def departure(low: float, spread: int, i: int, size: int) -> float:
    return sum(size * 8e6 / rate(low, spread, gap) for gap in range(i))


@given(rates, spreads, st.integers(0, 13))
@example(1000, 1200, 13)
def test_rates_are_eq_3(law: Laws, low: int, spread: int, i: int) -> None:
    ours, exact = law.chirp_rate_kbps(low, spread, i), rate(low, spread, i)
    assert exact * (1 - i * ROUNDED) - 1 <= ours <= exact * (1 + 1e-9)


@given(rates, spreads, steps)
def test_the_last_gap_is_eq_4(law: Laws, low: int, spread: int, n: int) -> None:
    ours, exact = law.chirp_max_kbps(low, spread, n), rate(low, spread, n - 2)
    assert exact * (1 - (n - 2) * ROUNDED) - 1 <= ours <= exact * (1 + 1e-9)


@given(rates, spreads, st.integers(0, 14), sizes)
def test_departures_are_the_sum_of_the_gaps(law: Laws, low: int, spread: int, i: int, size: int) -> None:
    ours, exact = law.chirp_depart_ns(low, spread, i, size), departure(low, spread, i, size)
    assert exact * (1 - 1e-9) - i <= ours <= exact * (1 + 1.01 / low + 1e-5) + i
    if i:
        gap = law.chirp_gap_ns(law.chirp_rate_kbps(low, spread, i - 1), size)
        assert ours - law.chirp_depart_ns(low, spread, i - 1, size) == gap


@given(rates, spreads, steps, st.integers(0, 10_000))
def test_min_rate_is_eq_6(law: Laws, avg: int, spread: int, n: int, floor: int) -> None:
    sf = spread / 1000
    exact = (sf ** (n - 1) - 1) / ((n - 1) * (sf - 1) * sf ** (n - 2)) * avg
    ours = law.chirp_min_kbps(avg, spread, n, floor)
    assert ours >= floor
    assert ours == floor or exact * (1 - 2e-5) - 1 <= ours <= exact * (1 + 1e-9)
    assert exact <= floor + 1 or ours >= exact * (1 - 2e-5) - 1


@given(st.integers(10_000, 100_000_000), steps, st.integers(40, 9000))
def test_a_chirp_has_the_average_rate_of_eq_6(law: Laws, avg: int, n: int, size: int) -> None:
    low = law.chirp_min_kbps(avg, 1200, n, 1000)
    if low > 1000:
        exact = (n - 1) * size * 8e6 / avg
        assert math.isclose(law.chirp_depart_ns(low, 1200, n - 1, size), exact, rel_tol=2e-3, abs_tol=n)


@given(rates, st.integers(40, 9000), st.integers(1000, 10**6))
def test_a_burst_is_the_smallest_whose_gap_the_timer_keeps(
    law: Laws, c: SimpleNamespace, kbps: int, size: int, floor: int
) -> None:
    burst = law.chirp_burst(kbps, size, floor)
    assert burst in (1, 2, 4, 8)
    if burst < c.CHIRP_BURST_MOST:
        assert burst * size * 8e6 / kbps >= floor * 0.999 - 1
    if burst > 1:
        assert burst / 2 * size * 8e6 / kbps < floor * 1.001 + 1
    assert (burst * size * 8e6 / kbps < floor * 0.999 - 1) <= (kbps > law.chirp_ceiling_kbps(size, floor))


def test_the_stated_limits(law: Laws) -> None:
    assert law.chirp_ceiling_kbps(1500, 28_000) == 3_428_571
    assert law.chirp_burst(428_000, 1500, 28_000) == 1
    assert law.chirp_burst(429_000, 1500, 28_000) == 2
    assert round(law.chirp_max_kbps(10_000, 1200, 15) / 10_000, 1) == 10.7


@given(u32, u32, u32, u32, u32)
def test_anything_goes(law: Laws, c: SimpleNamespace, a: int, b: int, i: int, size: int, floor: int) -> None:
    assert law.chirp_gap_ns(a, size) >= 1
    assert law.chirp_rate_kbps(a, b, i) >= a
    assert law.chirp_depart_ns(a, b, i, size) >= min(i, 14)
    assert law.chirp_depart_ns(a, b, 2**32 - 1, size) == law.chirp_depart_ns(a, b, 14, size) < 2**63
    assert law.chirp_min_kbps(a, b, i, floor) >= floor
    assert 1 <= law.chirp_burst(a, size, floor) <= c.CHIRP_BURST_MOST
    assert 2 <= law.chirp_steps(i) <= c.CHIRP_MOST
