# SPDX-License-Identifier: GPL-2.0-only
"""HighSpeed TCP's coefficients (RFC 3649) and HSTCP-LP's cuts, against the RFC's own table, its formulas in floating
point, and TCP-LP's reductions where the window is small."""

from bisect import bisect_right
from math import floor, log, log2
from types import SimpleNamespace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.unit.cdata import Laws

LOW, HIGH, TOP = 38, 83_000, 100_000  # packets: W_low, W_high (section 5), where appendix B's program ends
P_LOW, P_HIGH, B_LOW, B_HIGH = 1e-3, 1e-7, 0.5, 0.1
Q16 = 65536

# RFC 3649, appendix B, by its lines: w and b(w); a(w) is the number of the line. As printed, two digits of b.
TABLE = [
    (38, 0.50), (118, 0.44), (221, 0.41), (347, 0.38), (495, 0.37), (663, 0.35), (851, 0.34), (1058, 0.33),
    (1284, 0.32), (1529, 0.31), (1793, 0.30), (2076, 0.29), (2378, 0.28), (2699, 0.28), (3039, 0.27), (3399, 0.27),
    (3778, 0.26), (4177, 0.26), (4596, 0.25), (5036, 0.25), (5497, 0.24), (5979, 0.24), (6483, 0.23), (7009, 0.23),
    (7558, 0.22), (8130, 0.22), (8726, 0.22), (9346, 0.21), (9991, 0.21), (10661, 0.21), (11358, 0.20), (12082, 0.20),
    (12834, 0.20), (13614, 0.19), (14424, 0.19), (15265, 0.19), (16137, 0.19), (17042, 0.18), (17981, 0.18),
    (18955, 0.18), (19965, 0.17), (21013, 0.17), (22101, 0.17), (23230, 0.17), (24402, 0.16), (25618, 0.16),
    (26881, 0.16), (28193, 0.16), (29557, 0.15), (30975, 0.15), (32450, 0.15), (33986, 0.15), (35586, 0.14),
    (37253, 0.14), (38992, 0.14), (40808, 0.14), (42707, 0.13), (44694, 0.13), (46776, 0.13), (48961, 0.13),
    (51258, 0.13), (53677, 0.12), (56230, 0.12), (58932, 0.12), (61799, 0.12), (64851, 0.11), (68113, 0.11),
    (71617, 0.11), (75401, 0.10), (79517, 0.10), (84035, 0.10), (89053, 0.10),
]  # fmt: skip

windows = st.one_of(st.integers(1, 200), st.integers(1, TOP), st.integers(0, 2**32 - 2))
large = st.one_of(st.integers(LOW + 1, 300), st.integers(LOW + 1, TOP))


def level(w: int) -> float:
    """0 at W_low, 1 at W_high, straight in log w."""
    return log(w / LOW) / log(HIGH / LOW)


def b(w: int) -> float:
    """Section 5: b(w) = (High_Decrease - 0.5) (log w - log W) / (log W_1 - log W) + 0.5"""
    return (B_HIGH - B_LOW) * level(w) + B_LOW


def c(w: int) -> float:
    """Ours: straight in log w from 1 - 1/38 at 38 to b(W_high) at W_high; not below b."""
    return max(1 - 1 / LOW + (B_HIGH - (1 - 1 / LOW)) * level(w), b(w))


def a(w: int) -> float:
    """Appendix B's program: w^2 2 b / ((2 - b) w^1.2 12.8)"""
    return w**2 * 2 * b(w) / ((2 - b(w)) * w**1.2 * 12.8)


def a_by_definition(w: int) -> float:
    """Section 5: the response function through (W_low, P_low) and (W_high, P_high), and a(w) from it."""
    p = P_LOW * (w / LOW) ** (log(P_HIGH / P_LOW) / log(HIGH / LOW))
    return w**2 * p * 2 * b(w) / (2 - b(w))


def appendix_b() -> list[tuple[int, float, float]]:
    """Its program: a line wherever a(w) has grown by more than 1 since the last line."""
    lines, last = [(LOW, 1.0, B_LOW)], 1.0
    for w in range(LOW, TOP):
        if a(w) > last + 1:
            last = a(w)
            lines.append((w, last, b(w)))
    return lines


@pytest.fixture(scope="module")
def begins() -> list[int]:
    return [w for w, _, _ in appendix_b()]


class Kernel:
    """tcp_cong_avoid_ai(): net/ipv4/tcp_cong.c, from its definition: w packets acknowledged earn one; no credit is lost."""

    def __init__(self, cwnd: int) -> None:
        self.cwnd, self.count = cwnd, 0

    def avoid(self, w: int, acked: int) -> None:
        if self.count >= w:
            self.count = 0
            self.cwnd += 1
        self.count += acked
        assert self.count < 2**32
        self.cwnd += self.count // w
        self.count %= w


# --- the coefficients ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("line", range(len(TABLE)), ids=lambda i: str(TABLE[i][0]))
def test_the_rfcs_table(law: Laws, line: int) -> None:
    w, decrease = TABLE[line]
    assert law.highspeed_increase(law.highspeed_row(w)) == line + 1
    assert law.highspeed_increase(law.highspeed_row(w - 1)) == max(line, 1)
    assert abs(law.highspeed_decrease(w) / Q16 - decrease) <= 0.005 + 3 / Q16


def test_the_table_is_what_the_appendixs_program_prints(law: Laws, begins: list[int]) -> None:
    assert [(w, f"{p:.2f}") for w, _, p in appendix_b()[: len(TABLE)]] == [(w, f"{p:.2f}") for w, p in TABLE]
    assert [law.highspeed_begins(row) for row in range(len(begins))] == begins, "and one line more, up to 100 000"


def test_constants(c: SimpleNamespace, begins: list[int]) -> None:
    assert (c.HIGHSPEED_LOW, c.HIGHSPEED_HIGH, c.HIGHSPEED_TOP) == (LOW, HIGH, TOP)
    assert c.HIGHSPEED_ROWS == len(begins) == len(TABLE) + 1
    assert c.HIGHSPEED_TABLE == 128 > c.HIGHSPEED_ROWS >= 64
    assert c.HIGHSPEED_LOG_LOW == floor(log2(LOW) * Q16)
    assert c.HIGHSPEED_LOG_SPAN == round(log2(HIGH / LOW) * Q16)
    assert c.HIGHSPEED_B_HIGH_Q16 == round(B_HIGH * Q16)
    assert c.HIGHSPEED_C_LOW_Q16 == round((1 - 1 / LOW) * Q16)


def test_every_window(law: Laws, begins: list[int]) -> None:
    """The ranges that the header states, at each window from 1 to 100 000."""
    increase, decrease, second = 1, Q16 // 2, law.highspeed_second(LOW)
    for w in range(1, TOP + 1):
        row = law.highspeed_row(w)
        assert row == max(bisect_right(begins, w) - 1, 0)
        one, two, three = law.highspeed_increase(row), law.highspeed_decrease(w), law.highspeed_second(w)
        assert one >= increase and two <= decrease and three <= second, "monotone, between the lines too"
        increase, decrease, second = one, two, three
        if w <= LOW:
            assert (one, two) == (1, Q16 // 2)
            continue
        assert one <= a(w) + (0.05 if w < 45 else 0) and a(w) - one < 1.08
        assert abs(two - b(w) * Q16) <= 3
        assert abs(three - c(w) * Q16) <= 3
        assert three >= two


def test_the_formula_is_the_rfcs_definition() -> None:
    """Appendix B rounds 0.078 / w^1.2: within 3 % of what section 5 defines."""
    assert all(abs(a(w) / a_by_definition(w) - 1) < 0.03 for w in range(LOW, TOP, 7))
    assert a_by_definition(HIGH) == pytest.approx(72.5, abs=0.1), "the RFC's example: 10 Gbit/s"


@given(st.integers(1, 2**32 - 1))
@example(1)
@example(2**31 - 1)
@example(2**31)
@example(2**32 - 1)
def test_log2(law: Laws, v: int) -> None:
    assert -1.5 < law.highspeed_log2(v) - log2(v) * Q16 <= 1e-6


@given(st.integers(TOP, 2**32 - 1))
def test_the_coefficients_end_at_the_top(law: Laws, w: int) -> None:
    assert law.highspeed_increase(law.highspeed_row(w)) == len(TABLE) + 1
    assert law.highspeed_decrease(w) == law.highspeed_decrease(TOP) == pytest.approx(b(TOP) * Q16, abs=3)
    assert law.highspeed_second(w) == law.highspeed_second(TOP) == law.highspeed_decrease(TOP)


# --- the row as a hint -----------------------------------------------------------------------------------------------


@given(st.one_of(st.integers(0, 80), st.integers(0, 2**32 - 1)), windows)
@example(72, 94_716)
@example(72, 94_717)
@example(0, 0)
@example(255, 1)
@example(72, 2**32 - 2)
def test_a_hint_is_right_or_refused(law: Laws, row: int, w: int) -> None:
    assert law.highspeed_in_row(row, w) == (row == law.highspeed_row(w))


# --- growth ----------------------------------------------------------------------------------------------------------


@given(st.integers(1, TOP), st.data())
def test_a_window_of_packets_earns_a(law: Laws, w: int, data: st.DataObject) -> None:
    """However the ACKs divide it, exact to the packet: the kernel's counter keeps the fraction of a packet."""
    row = law.highspeed_row(w)
    kernel, left = Kernel(w), w
    while left:
        acked = data.draw(st.integers(1, min(left, 64))) if left < 500 else min(left, 97)
        kernel.avoid(w, law.highspeed_credit(acked, row))
        left -= acked
    assert (kernel.cwnd - w, kernel.count) == (law.highspeed_increase(row), 0)


@pytest.mark.parametrize("stretch", [1, 2, 44])
def test_from_one_packet_to_the_top(law: Laws, begins: list[int], stretch: int) -> None:
    """Every credit is in the window or in the counter, all the way; and it takes the RTTs that a(w) says."""
    kernel, row, rtts, credit, spent = Kernel(1), 0, 0, 0, 0
    model, model_rtts = 1, 0
    while model < TOP:
        model += max(bisect_right(begins, model), 1)
        model_rtts += 1
    while kernel.cwnd < TOP:
        left = kernel.cwnd
        step = left if stretch == 1 else max(left // stretch, 1)  # one ACK per RTT, or several
        while left > 0:
            before, acked = kernel.cwnd, min(step, left)
            if not law.highspeed_in_row(row, before):
                row = law.highspeed_row(before)
            earned = law.highspeed_credit(acked, row)
            assert earned == acked * bisect_right(begins, before) or before < LOW
            kernel.avoid(before, earned)
            credit += earned
            spent += (kernel.cwnd - before) * before
            assert spent + kernel.count == credit
            left -= acked
        rtts += 1
    assert rtts == pytest.approx(model_rtts, rel=0.02)


@given(st.integers(0, 2**32 - 1), st.integers(0, 72))
def test_credit_fits(law: Laws, c: SimpleNamespace, acked: int, row: int) -> None:
    credit = law.highspeed_credit(acked, row)
    assert credit == min(acked, c.HIGHSPEED_ACKED_MAX) * (row + 1)
    assert credit < 2**32


# --- the cuts --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("first_half", [False, True])
@pytest.mark.parametrize("second_one", [False, True])
def test_tcp_lp_up_to_38(law: Laws, first_half: bool, second_one: bool) -> None:
    for w in range(LOW + 1):
        for verdict in (law.INFERENCE_HALVE, law.INFERENCE_TO_ONE):
            assert law.highspeed_reduced(verdict, w, first_half, second_one) == law.inference_reduced(verdict, w)
        assert law.highspeed_credit(w, law.highspeed_row(w)) == w, "reno's growth"
        assert law.highspeed_loss(w) == max(w // 2, 2), "RFC 5681, eq. 4"


def test_tcp_lps_reductions(law: Laws) -> None:
    for w in range(200):
        assert law.inference_reduced(law.INFERENCE_HALVE, w) == max(w // 2, 1)
        assert law.inference_reduced(law.INFERENCE_TO_ONE, w) == 1


@given(large)
@example(39)
@example(83_000)
@example(100_000)
def test_the_cuts_above_38(law: Laws, w: int) -> None:
    slack = 1 + 3 * w / Q16  # rounded down, and the coefficients' error
    first = law.highspeed_reduced(law.INFERENCE_HALVE, w, False, False)
    second = law.highspeed_reduced(law.INFERENCE_TO_ONE, w, False, False)
    assert -slack < first - (1 - b(w)) * w <= 3 * w / Q16
    assert second == 1 or -slack < second - (1 - c(w)) * w <= 3 * w / Q16
    assert 1 <= second <= first < w
    assert law.highspeed_loss(w) == first >= 2


@given(large)
def test_tcp_lps_cuts_of_large_windows(law: Laws, w: int) -> None:
    """Each switch changes its own cut alone."""
    halve, to_one = law.INFERENCE_HALVE, law.INFERENCE_TO_ONE
    assert law.highspeed_reduced(halve, w, True, False) == w // 2
    assert law.highspeed_reduced(to_one, w, True, False) == law.highspeed_reduced(to_one, w, False, False)
    assert law.highspeed_reduced(to_one, w, False, True) == 1
    assert law.highspeed_reduced(halve, w, False, True) == law.highspeed_reduced(halve, w, False, False)


def test_a_larger_window_leaves_no_less(law: Laws) -> None:
    for verdict in (law.INFERENCE_HALVE, law.INFERENCE_TO_ONE):
        left = [law.highspeed_reduced(verdict, w, False, False) for w in range(1, TOP + 1)]
        assert left == sorted(left) and left[0] == 1


@given(st.integers(0, 2**32 - 1), st.booleans(), st.booleans())
def test_no_window_is_zero_or_grows(law: Laws, w: int, first_half: bool, second_one: bool) -> None:
    for verdict in (law.INFERENCE_HALVE, law.INFERENCE_TO_ONE):
        assert 1 <= law.highspeed_reduced(verdict, w, first_half, second_one) <= max(w, 1)


@pytest.mark.parametrize("w, reactions", [(38, 2), (400, 4), (5_000, 7), (83_000, 19)])
def test_how_long_a_large_window_lasts_under_persistent_congestion(law: Laws, w: int, reactions: int) -> None:
    """One indication, then others in its phase, one per RTT, until tcp_lp's one packet: what the hybrid costs."""
    left, n = law.highspeed_reduced(law.INFERENCE_HALVE, w, False, False), 1
    while left > 1:
        left, n = law.highspeed_reduced(law.INFERENCE_TO_ONE, left, False, False), n + 1
    assert n == reactions
