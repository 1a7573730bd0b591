# SPDX-License-Identifier: GPL-2.0-only
"""nf.h against eq. 2, 7 and 8 of the NF-TCP paper in floating point."""
import math

from hypothesis import example, given
from hypothesis import strategies as st

U32 = 2**32 - 1
u32 = st.integers(0, U32)
windows = st.one_of(st.integers(2, 200), st.integers(2, 2**23))
alphas = st.integers(1, 1000)
rates = st.one_of(st.integers(1000, 10**6), st.integers(0, 10**7))
rtts = st.one_of(st.integers(100, 400_000), st.integers(1, 10**7))
sizes = st.integers(64, 9000)


def share(alpha, bw, rtt, size):
    """packets: alpha BW RTT / packet (eq. 7)"""
    return alpha / 1000 * bw * 1000 * rtt / 1e6 / (size * 8)


@given(windows, st.integers(0, 1000))
@example(2**23, 125)
def test_a_mark_is_eq_2(law, w, b):
    left, exact = law.nf_cut(w, b), w - b / 1000 * w
    assert 2 <= left
    if w > 2:
        assert left < w
    if exact >= 2 and w - exact >= 1:
        assert exact - 1 < left <= exact + 1e-6


@given(u32, u32)
def test_no_window_becomes_0_or_grows_by_a_mark(law, w, b):
    assert 1 <= law.nf_cut(w, b) <= max(w, 1)


def test_the_papers_b(law):
    assert [law.nf_cut(w, 125) for w in (1, 2, 3, 8, 9, 16, 800)] == [1, 2, 2, 7, 7, 14, 700]


@given(alphas, rates, rtts, sizes)
def test_the_share_is_eq_7(law, c, alpha, bw, rtt, size):
    ours, exact = law.nf_share_q8(alpha, bw, rtt, size) / c.NF_SHARE_ONE, share(alpha, bw, rtt, size)
    if exact < 1:
        assert ours == 1  # eq. 8
    elif share(1000, bw, rtt, size) < 2**22:
        assert exact - 3 / 256 <= ours <= exact + 1e-9 * exact


@given(windows, rtts, sizes)
def test_the_rate_of_a_window(law, w, rtt, size):
    assert law.nf_kbps(w, rtt, size) == min(U32, w * size * 8 * 1000 // rtt)


@given(u32, u32, u32)
def test_no_rate_divides_by_0(law, w, rtt, size):
    assert law.nf_kbps(w, 0, size) == 0 <= law.nf_kbps(w, rtt, size)


@given(windows, alphas, rates, rtts, sizes, st.lists(st.integers(1, 64), min_size=1, max_size=200))
def test_growth_is_exact_to_a_packet(law, ffi, c, w, alpha, bw, rtt, size, acks):
    """Against w += min(acked, acked share / w) in floating point, for as long as no limit is met."""
    credit, q8 = ffi.new("u32 *"), law.nf_share_q8(alpha, bw, rtt, size)
    if q8 > w << 8:
        return  # slow start's bound, tested below
    ours, model = w, float(w)
    for acked in acks:
        model += acked * q8 / 256 / int(model)
        ours = law.nf_grow(credit, ours, acked, q8, 2**24)
        assert abs(ours + credit[0] / (ours * 256) - model) <= 1 + 0.02 * (model - w)


@given(windows)
def test_a_window_of_acks_adds_the_share(law, ffi, w):
    credit = ffi.new("u32 *")
    grown = w = min(w, 5000)
    for _ in range(w):
        grown = law.nf_grow(credit, grown, 1, 256, 0)
    assert grown == w + 1 and credit[0] == 0  # eq. 8, exactly


def test_a_window_of_acks_adds_alpha_bw_rtt(law, ffi):
    """100 Mbit/s free, 20 ms, 1500 bytes: 83 packets, spread over the RTT."""
    credit, w = ffi.new("u32 *"), 400
    q8 = law.nf_share_q8(500, 100_000, 20_000, 1500)
    for _ in range(400):
        w = law.nf_grow(credit, w, 1, q8, 2**24)
    assert math.isclose(w - 400, 400 * (math.sqrt(1 + 2 * 83.33 / 400) - 1), rel_tol=0.02)  # as w grows, the ACK's part falls


@given(windows, st.integers(0, 1000), u32, st.integers(0, 2**23), u32)
def test_limits(law, ffi, w, acked, q8, target, credit):
    kept = ffi.new("u32 *", credit)
    grown = law.nf_grow(kept, w, acked, q8, target)
    assert w <= grown <= w + acked  # slow start
    assert grown <= max(target, w + 1)  # the target, then eq. 8
    assert kept[0] < w << 8


@given(windows, rates, rtts, sizes)
def test_target_is_a_round_of_the_estimate(law, was, bw, rtt, size):
    ours, exact = law.nf_target(was, bw, rtt, size), was + 15 / 16 * share(1000, bw, rtt, size)
    if exact < 2**22:
        assert exact - 1.1 <= ours <= exact + 1e-9 * exact


def test_beyond_the_target_it_is_eq_8(law, ffi):
    """Before it, what is missing in a window of ACKs at the most: 1 - 1/e of it; behind it a packet in each."""
    credit, w, seen = ffi.new("u32 *"), 100, {}
    for acks in range(1, 1001):
        w = law.nf_grow(credit, w, 1, 256 * 50, 110)
        seen[acks] = w
    assert 105 <= seen[100] <= 107 and 109 <= seen[400] <= 111
    assert 4 <= seen[1000] - seen[400] <= 6


@given(u32, u32, u32, u32, u32)
def test_anything_goes(law, ffi, a, b, c_, d, e):
    kept = ffi.new("u32 *", e)
    assert 1 <= law.nf_grow(kept, a, b, c_, d) <= 2**23
    assert law.nf_share_q8(a, b, c_, d) >= 256
    assert law.nf_target(a, b, c_, d) <= 2**23 + 2**22
