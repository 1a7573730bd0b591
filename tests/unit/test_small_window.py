# SPDX-License-Identifier: GPL-2.0-only
"""Small windows (paper III-B.4): 64-byte segments there, time between pairs of full ones here, the same bytes per RTT.

The gap is a whole number of RTT, rounded down, so the rate is at or above the paper's: by 7 % at the most in the
defaults (w < 5, spread 8), by 50 % at the most anywhere (a gap of 2.9 RTT that becomes 2).
"""

from fractions import Fraction
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.cdata import Laws

SEGMENT = 64  # bytes, III-B.4

windows = st.one_of(st.integers(0, 40), st.integers(0, 2**31))
sizes = st.integers(0, 65535)
spreads = st.integers(1, 16)
rtts = st.one_of(st.integers(0, 2**32 - 1), st.integers(1, 500_000))


def bytes_per_rtt(mss: int, gap_rtts: int) -> Fraction:
    return Fraction(2 * mss, gap_rtts)


@given(st.integers(1, 40), st.integers(64, 65535), spreads)
def test_byte_rate(law: Laws, w: int, mss: int, spread: int) -> None:
    gap = law.small_gap_rtts(w, mss, spread)
    k = min(Fraction(mss, SEGMENT), Fraction(spread))
    asked = w * mss / k  # what 64-byte segments, or the bound on the reaction time, make of w packets
    if 2 * k / w >= 2:
        assert asked <= bytes_per_rtt(mss, gap) < asked * Fraction(3, 2) * k / int(k)
    else:
        assert gap == 2, "a pair every other RTT is the most"
        assert bytes_per_rtt(mss, gap) <= asked


@pytest.mark.parametrize("w", [1, 2, 4])
@pytest.mark.parametrize("mss", [512, 1024])
def test_exactly_the_papers_rate(law: Laws, w: int, mss: int) -> None:
    """Where MSS/64 is whole and within the spread: w packets of 64 bytes in each RTT."""
    assert bytes_per_rtt(mss, law.small_gap_rtts(w, mss, 16)) == w * SEGMENT


@pytest.mark.parametrize("w, gap", [(1, 16), (2, 8), (3, 5), (4, 4)])
def test_the_defaults(law: Laws, w: int, gap: int) -> None:
    """1448 bytes, spread 8: an eighth of the window's rate, 7 % more for w = 3."""
    assert law.small_gap_rtts(w, 1448, 8) == gap
    assert w * 1448 / 8 <= bytes_per_rtt(1448, gap) <= 1.07 * w * 1448 / 8


def test_the_papers_example(law: Laws) -> None:
    """A hundred flows of one packet, 1500 bytes, 100 ms: 12 % of 100 Mbit/s; the paper's 0.5 % is 1/23 of that, and a
    spread of 8 gives 1/8."""
    gap_us = law.small_gap_us(law.small_gap_rtts(1, 1500, 8), 100_000)
    share = 100 * 2 * 1500 * 8 / (gap_us * 1e-6) / 100e6
    assert share == pytest.approx(0.12 / 8)


@given(windows, sizes, spreads, rtts)
def test_bounds(law: Laws, c: SimpleNamespace, w: int, mss: int, spread: int, rtt: int) -> None:
    gap_rtts = law.small_gap_rtts(w, mss, spread)
    assert 2 <= gap_rtts <= 2 * spread, "the reaction time"
    gap = law.small_gap_us(gap_rtts, rtt)
    assert 1 <= gap <= 2_000_000 == c.SMALL_GAP_MAX_US
    assert gap == min(max(gap_rtts * rtt, 1), 2_000_000)


@given(sizes, st.integers(1, 2**32 - 1))
def test_rate_is_never_zero_and_covers_a_pair(law: Laws, mss: int, gap: int) -> None:
    rate = law.small_rate(mss, gap)
    assert rate >= 1
    assert rate * gap >= 2 * max(mss, 1) * 10**6 > (rate - 1) * gap


@given(st.integers(200, 65535), st.integers(1, 2_000_000))
def test_the_kernel_waits_what_was_asked(law: Laws, mss: int, gap: int) -> None:
    """tcp_update_skb_after_send: len * NSEC_PER_SEC / sk_pacing_rate after the pair. Within 1 % from 200 bytes of MSS
    on, within 0.2 % from 536, and never later than asked."""
    rate = law.small_rate(mss, gap)
    waits_us = 2 * mss * 10**9 // rate / 1000
    assert waits_us <= gap
    assert waits_us >= gap * (1 - (0.002 if mss >= 536 else 0.01)) - 0.001


@given(sizes, spreads, rtts)
def test_a_larger_window_does_not_wait_longer(law: Laws, mss: int, spread: int, rtt: int) -> None:
    gaps = [law.small_gap_us(law.small_gap_rtts(w, mss, spread), rtt) for w in range(1, 33)]
    assert gaps == sorted(gaps, reverse=True)
