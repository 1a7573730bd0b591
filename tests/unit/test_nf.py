# SPDX-License-Identifier: GPL-2.0-only
"""nf.h against eq. 2, 7 and 8 of the NF-TCP paper in floating point."""

import math
from types import SimpleNamespace

from hypothesis import example, given
from hypothesis import strategies as st

from tests.unit.cdata import Ffi, Laws

U32 = 2**32 - 1
u32 = st.integers(0, U32)
windows = st.one_of(st.integers(2, 200), st.integers(2, 2**23))
alphas = st.integers(1, 1000)
rates = st.one_of(st.integers(1000, 10**6), st.integers(0, 10**7))
rtts = st.one_of(st.integers(100, 400_000), st.integers(1, 10**7))
sizes = st.integers(64, 9000)


def share(alpha: int, bw: int, rtt: int, size: int) -> float:
    """packets: alpha BW RTT / packet (eq. 7)"""
    return alpha / 1000 * bw * 1000 * rtt / 1e6 / (size * 8)


@given(windows, st.integers(0, 1000))
@example(2**23, 125)
def test_a_mark_is_eq_2(law: Laws, w: int, b: int) -> None:
    left, exact = law.nf_cut(w, b), w - b / 1000 * w
    assert 2 <= left
    if w > 2:
        assert left < w
    if exact >= 2 and w - exact >= 1:
        assert exact - 1 < left <= exact + 1e-6


@given(u32, u32)
def test_no_window_becomes_0_or_grows_by_a_mark(law: Laws, w: int, b: int) -> None:
    assert 1 <= law.nf_cut(w, b) <= max(w, 1)


def test_the_papers_b(law: Laws) -> None:
    assert [law.nf_cut(w, 125) for w in (1, 2, 3, 8, 9, 16, 800)] == [1, 2, 2, 7, 7, 14, 700]


def test_marks_in_a_row_take_more(law: Laws) -> None:
    assert [law.nf_decrease(125, 500, row) for row in range(5)] == [125, 250, 500, 500, 500]
    assert [law.nf_decrease(125, 300, row) for row in range(4)] == [125, 250, 300, 300]
    for most in (10, 125):
        assert [law.nf_decrease(125, most, row) for row in (0, 1, 9)] == [125, 125, 125]  # as the paper
    assert law.nf_decrease(500, 500, U32) == 500


@given(st.integers(10, 500), st.integers(10, 500), st.integers(0, 255))
def test_the_row_grows_while_it_takes_more(law: Laws, b: int, most: int, row: int) -> None:
    after, taken = law.nf_row(b, most, row), law.nf_decrease(b, most, row)
    assert after <= 8 and (after > row) == (taken < max(b, most))
    if row <= 8:
        assert after in (row, row + 1)


def test_the_papers_row(law: Laws) -> None:
    rows = [0]
    for _ in range(4):
        rows.append(law.nf_row(125, 500, rows[-1]))
    assert rows == [0, 1, 2, 2, 2] and law.nf_row(125, 125, 0) == 0


@given(st.integers(0, 2**23))
def test_a_loss_takes_half(law: Laws, w: int) -> None:
    assert law.nf_half(w) == max(w // 2, 2)


@given(st.integers(2, 2**23), st.integers(0, 1000))
def test_back_after_a_mark(law: Laws, ffi: Ffi, w: int, part: int) -> None:
    """In one window of ACKs eq. 7 brings 1 - 1/e of what is missing, at least eq. 8's packet, and nothing beyond."""
    back = law.nf_back(w, part)
    assert back == w * part // 1000
    left = law.nf_cut(w, 125)
    q8 = law.nf_missing_q8(left, back)
    assert q8 == max(256, min(back - left, 2**22) << 8)
    if left > 2000 or back <= left:
        return
    credit, grown = ffi.new("u32 *"), left
    for _ in range(left):
        grown = law.nf_grow(credit, grown, 1, q8, back)
    assert left + 0.5 * (back - left) <= grown <= max(back, left + 1)


@given(alphas, rates, rtts, sizes)
def test_the_share_is_eq_7(law: Laws, c: SimpleNamespace, alpha: int, bw: int, rtt: int, size: int) -> None:
    ours, exact = law.nf_share_q8(alpha, bw, rtt, size) / c.NF_SHARE_ONE, share(alpha, bw, rtt, size)
    if exact < 1:
        assert ours == 1  # eq. 8
    elif share(1000, bw, rtt, size) < 2**22:
        assert exact - 3 / 256 <= ours <= exact + 1e-9 * exact


@given(windows, rtts, sizes)
def test_the_rate_of_a_window(law: Laws, w: int, rtt: int, size: int) -> None:
    assert law.nf_kbps(w, rtt, size) == min(U32, w * size * 8 * 1000 // rtt)


@given(u32, u32, u32)
def test_no_rate_divides_by_0(law: Laws, w: int, rtt: int, size: int) -> None:
    assert law.nf_kbps(w, 0, size) == 0 <= law.nf_kbps(w, rtt, size)


@given(windows, alphas, rates, rtts, sizes, st.lists(st.integers(1, 64), min_size=1, max_size=200))
def test_growth_is_exact_to_a_packet(
    law: Laws, ffi: Ffi, c: SimpleNamespace, w: int, alpha: int, bw: int, rtt: int, size: int, acks: list[int]
) -> None:
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
def test_a_window_of_acks_adds_the_share(law: Laws, ffi: Ffi, w: int) -> None:
    credit = ffi.new("u32 *")
    grown = w = min(w, 5000)
    for _ in range(w):
        grown = law.nf_grow(credit, grown, 1, 256, 0)
    assert grown == w + 1 and credit[0] == 0  # eq. 8, exactly


def test_a_window_of_acks_adds_alpha_bw_rtt(law: Laws, ffi: Ffi) -> None:
    """100 Mbit/s free, 20 ms, 1500 bytes: 83 packets, spread over the RTT."""
    credit, w = ffi.new("u32 *"), 400
    q8 = law.nf_share_q8(500, 100_000, 20_000, 1500)
    for _ in range(400):
        w = law.nf_grow(credit, w, 1, q8, 2**24)
    assert math.isclose(w - 400, 400 * (math.sqrt(1 + 2 * 83.33 / 400) - 1), rel_tol=0.02)  # as w grows, the ACK's part falls


@given(windows, st.integers(0, 1000), u32, st.integers(0, 2**23), u32)
def test_limits(law: Laws, ffi: Ffi, w: int, acked: int, q8: int, target: int, credit: int) -> None:
    kept = ffi.new("u32 *", credit)
    grown = law.nf_grow(kept, w, acked, q8, target)
    assert w <= grown <= w + acked  # slow start
    assert grown <= max(target, w + 1)  # the target, then eq. 8
    assert kept[0] < w << 8


@given(rates, rtts, sizes)
def test_target_is_a_round_of_the_estimate(law: Laws, bw: int, rtt: int, size: int) -> None:
    ours, exact = law.nf_target(bw, rtt, size), 15 / 16 * share(1000, bw, rtt, size)
    if exact < 15 / 16 * 2**22:  # up to 2^22 packets a round
        assert exact - 1.1 <= ours <= exact * (1 + 1e-9) + 1 / 256


def test_beyond_the_target_it_is_eq_8(law: Laws, ffi: Ffi) -> None:
    """Before it, what is missing in a window of ACKs at the most: 1 - 1/e of it; behind it a packet in each."""
    credit, w, seen = ffi.new("u32 *"), 100, {}
    for acks in range(1, 1001):
        w = law.nf_grow(credit, w, 1, 256 * 50, 110)
        seen[acks] = w
    assert 105 <= seen[100] <= 107 and 109 <= seen[400] <= 111
    assert 4 <= seen[1000] - seen[400] <= 6


def test_losses_without_a_queue_slow_it(law: Laws, ffi: Ffi) -> None:
    """Packets that an RTT adds: a half, and an eighth below six packets."""
    for w, rtts in ((2, 8), (5, 8), (6, 2), (40, 2), (10**6, 2)):
        credit = ffi.new("unsigned *")
        shares = [law.nf_grow(credit, w, w, law.nf_bare_share_q8(w), 0) for _ in range(rtts)]
        assert shares == [w] * (rtts - 1) + [w + 1], w


@given(u32, u32, u32, u32, u32)
def test_anything_goes(law: Laws, ffi: Ffi, a: int, b: int, c_: int, d: int, e: int) -> None:
    kept = ffi.new("u32 *", e)
    assert 1 <= law.nf_grow(kept, a, b, c_, d) <= 2**23
    assert law.nf_share_q8(a, b, c_, d) >= 256
    assert law.nf_target(a, b, c_) <= 2**22
    assert law.nf_decrease(a, b, c_) <= max(b, 1000)
    assert law.nf_back(a, b) <= a
    assert 256 <= law.nf_missing_q8(a, b) <= 2**30
