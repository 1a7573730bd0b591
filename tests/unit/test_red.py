# SPDX-License-Identifier: GPL-2.0-only
"""RED of a queue in bytes: include/law/red.h against Floyd and Jacobson's equations in floating point."""

import math
import random
import statistics
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit import headers
from tests.unit.cdata import Ffi, Laws, Struct

WHOLE = 100_000  # 1/1000 %
Q16 = 1 << 16
CLASSES = headers.table("ccbpf/aqm.h", "CCBPF_AQM_CLASSES", "wv")

sizes = st.one_of(st.integers(0, 2**32 - 1), st.integers(0, 10_000_000))
limits = st.one_of(st.integers(1, 2**32 - 1), st.integers(1514, 15_000_000))
shifts = st.integers(0, 15)
parts = st.integers(0, WHOLE)
trains = st.one_of(st.integers(1, 64), st.integers(1, 2**16))
randoms = st.integers(0, 2**32 - 1)
averages = sizes.flatmap(lambda whole: st.integers(0, Q16 - 1).map(lambda part: whole * Q16 + part))


def average_model(average: float, queue: int, shift: int, n: int) -> float:
    """n steps of avg <- (1-w) avg + w q, in bytes."""
    return queue + (average - queue) * (1 - 2.0**-shift) ** n


def power_error(shift: int, n: int) -> float:
    """Of red_keep_q32(), as its comment has it."""
    return (3 * 22 + 1 + n * (1 - 2.0**-shift) ** n) / 2**32


def probability(average: float, limit: int, least: int, most: int) -> float:
    """p_b of figure 1 of the NF-TCP paper; least and most in 1/1000 % of the limit."""
    low, high = limit * least / WHOLE, limit * most / WHOLE
    if average > high:
        return 1.0
    return max(0.0, (average - low) / (high - low)) if high > low else 0.0


# --- the average ---


@given(averages, sizes, shifts, trains)
def test_the_average_is_the_equations(law: Laws, average: int, queue: int, shift: int, n: int) -> None:
    expected = average_model(average / Q16, queue, shift, n)
    tolerance = 2 / Q16 + abs(average / Q16 - queue) * power_error(shift, n)
    assert law.red_average_q16(average, queue, shift, n) / Q16 == pytest.approx(expected, abs=tolerance, rel=1e-12)


@given(averages, sizes, shifts, st.integers(1, 64))
def test_n_at_once_are_n_one_by_one(law: Laws, average: int, queue: int, shift: int, n: int) -> None:
    stepped = average
    for _ in range(n):
        stepped = law.red_average_q16(stepped, queue, shift, 1)
    at_once = law.red_average_q16(average, queue, shift, n)
    assert abs(at_once - stepped) <= n + 2 + abs(average - queue * Q16) * power_error(shift, n)


@given(averages, sizes, shifts, trains)
def test_the_average_never_overshoots(law: Laws, average: int, queue: int, shift: int, n: int) -> None:
    after = law.red_average_q16(average, queue, shift, n)
    assert min(average, queue * Q16) <= after <= max(average, queue * Q16)


@given(averages, sizes, shifts)
def test_the_average_gets_there(law: Laws, average: int, queue: int, shift: int) -> None:
    assert law.red_average_q16(average, queue, shift, 64 << shift) == queue * Q16
    for _ in range(20):  # and without the short cut for so many steps
        average = law.red_average_q16(average, queue, shift, (64 << shift) - 1) if shift else queue * Q16
    assert average == queue * Q16


@pytest.mark.parametrize("away", [-100, 100])
@pytest.mark.parametrize("shift", [1, 9, 15])
def test_single_steps_get_there(law: Laws, away: int, shift: int) -> None:
    average = 5000 * Q16 + away
    for _ in range(100):
        average = law.red_average_q16(average, 5000, shift, 1)
    assert average == 5000 * Q16


def test_an_average_of_one_packet_is_the_queue(law: Laws) -> None:
    assert law.red_average_q16(12345 * Q16, 678, 0, 1) == 678 * Q16


def test_any_shift_is_taken(law: Laws) -> None:
    for shift in (16, 31, 32, 2**32 - 1):
        assert law.red_average_q16(Q16, 100, shift, 7) == law.red_average_q16(Q16, 100, 15, 7)


@given(st.integers(1, 15), st.integers(1, 2**21))
def test_the_power(law: Laws, shift: int, n: int) -> None:
    exact = (1 - 2.0**-shift) ** n * 2**32
    assert exact - power_error(shift, n) * 2**32 <= law.red_keep_q32(shift, n) <= exact


def test_reds_own_weight(law: Laws) -> None:
    """0.002, for which Floyd and Jacobson (section 6) count 500 packets to 63 % of a new queue."""
    average = 0
    for _ in range(512):
        average = law.red_average_q16(average, 100_000, 9, 1)
    assert average / Q16 == pytest.approx(100_000 * (1 - math.exp(-1)), rel=2e-3)


# --- idle ---


@given(st.integers(0, 2**63), st.integers(0, 2**32 - 1), sizes, st.integers(0, 65_535))
def test_idle_packets(law: Laws, elapsed: int, packet_ns: int, waiting: int, packet: int) -> None:
    found = law.red_idle_packets(elapsed, packet_ns, waiting, packet)
    if not packet_ns or not packet:
        assert found == 0
    else:
        assert found == min(max(0, elapsed // packet_ns - -(-waiting // packet)), 2**21)


def test_idle_time_is_counted_from_when_the_queue_was_empty(law: Laws) -> None:
    """Ten packets of 1 ms waited, 25 ms ago: the link was idle for 15."""
    assert law.red_idle_packets(25_000_000, 1_000_000, 15_140, 1514) == 15
    assert law.red_idle_packets(10_000_000, 1_000_000, 15_140, 1514) == 0


@given(averages, st.integers(1, 15))
def test_a_long_idle_time_forgets_all(law: Laws, average: int, shift: int) -> None:
    assert law.red_average_q16(average, 0, shift, 1 + law.red_idle_packets(2**50, 12_000, 1514, 1514)) == 0


# --- the probability ---


@given(averages, limits, parts, parts)
def test_zones(ffi: Ffi, law: Laws, average: int, limit: int, a: int, b: int) -> None:
    least, most = sorted((a, b))
    curve = ffi.new("struct red_curve *", {"limit_bytes": limit, "min": least, "max": most})
    place = (average >> 8) * WHOLE
    expected = law.RED_BELOW if place <= limit * least << 8 else law.RED_BETWEEN
    expected = law.RED_ABOVE if place > limit * most << 8 else expected
    assert law.red_zone(average, curve) == expected


def marked(ffi: Ffi, law: Laws, average_bytes: float, curve: Struct, packets: int, train: int = 1, seed: int = 1) -> list[int]:
    """Of so many packets in trains of the same length: the numbers (of packets) between marks."""
    chooser = random.Random(seed)
    spacing = ffi.new("struct red_spacing *")
    gaps, since = [], 0
    for _ in range(packets // train):
        since += train
        zone = law.red_zone(round(average_bytes * Q16), curve)
        due = zone == law.RED_ABOVE
        if zone == law.RED_BETWEEN:
            due = law.red_due(round(average_bytes * Q16), curve, spacing, train, chooser.getrandbits(32))
        if due:
            gaps.append(since)
            since = 0
    return gaps


@pytest.mark.parametrize("average", [75.5, 150, 600, 1912.5, 3000, 3700])
def test_figure_1_and_table_1(ffi: Ffi, law: Laws, average: float) -> None:
    """7500 packets, 75 to 3750: the gap between two marks is uniform in 1 … 1/p_b, so its mean is half of that."""
    limit = 7500 * 1000
    curve = ffi.new("struct red_curve *", {"limit_bytes": limit, "min": 1000, "max": 50_000})
    p = probability(average * 1000, limit, 1000, 50_000)
    gaps = marked(ffi, law, average * 1000, curve, round(min(3_000_000, 2000 / p)))
    assert statistics.mean(gaps) == pytest.approx((1 / p + 1) / 2, rel=0.08)
    assert max(gaps) <= math.ceil(1 / p)


def test_marks_are_spread(ffi: Ffi, law: Laws) -> None:
    """Uniform in 1 … 1/p_b: a coin for each packet would give gaps with a deviation as large as their mean."""
    curve = ffi.new("struct red_curve *", {"limit_bytes": 1_000_000, "min": 0, "max": 100_000})
    gaps = marked(ffi, law, 10_000, curve, 400_000)
    assert statistics.stdev(gaps) == pytest.approx(100 / math.sqrt(12), rel=0.05)
    assert statistics.mean(gaps) == pytest.approx(50.5, rel=0.03)


@pytest.mark.parametrize("average, train", [(10_000, 3), (10_000, 44), (200_000, 2)])
def test_a_train_counts_its_packets(ffi: Ffi, law: Laws, average: int, train: int) -> None:
    """As many trains are marked as would be by asking for each packet: at most one mark each."""
    curve = ffi.new("struct red_curve *", {"limit_bytes": 1_000_000, "min": 0, "max": 100_000})
    p = average / 1_000_000
    alone = marked(ffi, law, average, curve, 300_000)
    together = marked(ffi, law, average, curve, 300_000, train=train)
    expected = statistics.mean(math.ceil(gap / train) * train for gap in alone)
    assert statistics.mean(together) == pytest.approx(expected, rel=0.05)
    assert all(gap <= math.ceil(1 / p / train) * train for gap in together)


def test_min_equal_to_max_is_a_step(ffi: Ffi, law: Laws) -> None:
    curve = ffi.new("struct red_curve *", {"limit_bytes": 100_000, "min": 5000, "max": 5000})
    assert law.red_zone(5000 * Q16, curve) == law.RED_BELOW
    assert law.red_zone(5001 * Q16, curve) == law.RED_ABOVE


@given(averages, limits, parts, parts, st.integers(0, 2**32 - 1), st.integers(0, 2**32 - 1), trains, randoms)
def test_hostile_state_ends_well(
    ffi: Ffi, law: Laws, average: int, limit: int, a: int, b: int, count: int, old: int, n: int, new: int
) -> None:
    least, most = sorted((a, b))
    curve = ffi.new("struct red_curve *", {"limit_bytes": limit, "min": least, "max": most})
    spacing = ffi.new("struct red_spacing *", {"count": count, "random_q16": old})
    if law.red_zone(average, curve) != law.RED_BETWEEN:
        return
    due = law.red_due(average, curve, spacing, n, new)
    assert spacing.count < 2**22
    if count + n >= 2**32:
        return  # the sum goes round, to a smaller count: a later mark
    assert (spacing.count == 0) == due
    if law.red_place(average) == law.red_threshold(curve, most):
        assert due, "p_b is 1 at max"


def test_a_mark_comes_at_last(ffi: Ffi, law: Laws) -> None:
    """However small p_b is: not later than RED_COUNT_MAX packets."""
    curve = ffi.new("struct red_curve *", {"limit_bytes": 2**32 - 1, "min": 0, "max": 100_000})
    spacing = ffi.new("struct red_spacing *")
    assert not law.red_due(Q16, curve, spacing, 1, 2**32 - 1)
    assert any(law.red_due(Q16, curve, spacing, 2**16, 2**32 - 1) for _ in range(64))


# --- the histogram, the maps ---


@given(sizes)
def test_buckets(law: Laws, c: SimpleNamespace, v: int) -> None:
    assert law.red_bucket(v) == v.bit_length() < c.RED_BUCKETS == c.CCBPF_AQM_BUCKETS


@pytest.mark.parametrize("record", ["config", "state", "count", "counts", "identity", "spacing"])
def test_no_hole_in_what_crosses_to_user_space(ffi: Ffi, record: str) -> None:
    covered: set[int] = set()
    for _, field in ffi.typeof(f"struct ccbpf_aqm_{record}").fields:
        covered.update(range(field.offset, field.offset + ffi.sizeof(field.type)))
    assert covered == set(range(ffi.sizeof(f"struct ccbpf_aqm_{record}")))


def test_the_counts_are_all_of_64_bits(ffi: Ffi) -> None:
    """The loader adds them up as such."""
    size = ffi.sizeof("struct ccbpf_aqm_counts")
    assert size == 8 * (len(CLASSES) * 4 + 1 + 33)
    assert {ffi.sizeof(f.type) for _, f in ffi.typeof("struct ccbpf_aqm_count").fields} == {8}


def test_classes(law: Laws) -> None:
    assert [getattr(law, f"CCBPF_AQM_{name}") for name, _ in CLASSES] == list(range(law.CCBPF_AQM_CLASS_COUNT))
    assert CLASSES[0][0] == "standard", "what a DSCP is that nobody named"


def test_the_laws_spacing_is_the_abis(ffi: Ffi) -> None:
    ours, theirs = ffi.typeof("struct ccbpf_aqm_spacing").fields, ffi.typeof("struct red_spacing").fields
    assert [(name, f.offset) for name, f in ours] == [(name, f.offset) for name, f in theirs]
