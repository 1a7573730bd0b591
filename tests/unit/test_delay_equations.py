# SPDX-License-Identifier: GPL-2.0-only
"""Equations 1 and 2 of the TCP-LP paper in floating point, against the fixed point of include/law/delay.h.

Error of the fixed point, asserted here: each step of eq. 1 loses less than 1/256 us, and a step keeps 1 - gamma of
what was lost before, so the smoothed delay is within (1/gamma)/256 us of the real one: 0.03 us at gamma = 1/8, 0.25 us
at 1/64. d_min and d_max are exact, and so is eq. 2 on the smoothed delay as it is held.
"""
from fractions import Fraction

from hypothesis import example, given
from hypothesis import strategies as st

DELAY_MAX = 2**23  # us: the header's stated range

deltas = st.integers(1, 999)
smoothings = st.integers(1, 64)
floors = st.one_of(st.just(0), st.integers(0, 100_000))
rtts = st.one_of(st.integers(1, 2**32 - 1), st.integers(1, 300_000), st.integers(20_000, 21_000))


class Paper:
    """III-A with absolute delays d, as it is printed."""

    def __init__(self, gamma, delta):
        self.gamma, self.delta, self.count = gamma, delta, 0
        self.d_min = self.d_max = self.sd = None

    def sample(self, d):
        self.d_min = d if self.d_min is None else min(self.d_min, d)
        self.d_max = d if self.d_max is None else max(self.d_max, d)
        self.count += 1
        if self.count <= 4:  # ours: it begins with the smallest of four
            self.sd = float(d) if self.sd is None else min(self.sd, d)
        else:
            self.sd = (1 - self.gamma) * self.sd + self.gamma * d

    @property
    def limit(self):
        return self.d_min + (self.d_max - self.d_min) * self.delta


@given(deltas, smoothings, floors, st.lists(rtts, min_size=1, max_size=150))
@example(150, 64, 0, [1] + [2**32 - 1] * 200 + [1] * 200)
@example(999, 1, 100_000, [2**23, 1, 2**23])
def test_equations_1_and_2(estimator, delta, smoothing, floor, samples):
    law = estimator(delta=delta, smoothing=smoothing, floor_us=floor)
    paper = Paper(1 / smoothing, delta / 1000)
    error = smoothing / 256
    for i, rtt in enumerate(samples):
        queue = law.ack(1_000_000 + 10_000 * i, rtt)
        d = min(rtt, DELAY_MAX)
        paper.sample(d)
        assert law.base == paper.d_min
        assert law.queue_max == paper.d_max - paper.d_min
        assert queue == d - paper.d_min
        assert abs(law.smoothed - (paper.sd - paper.d_min)) <= error
        # ours: the floor, at most half the largest queueing delay
        limit = max(paper.limit, paper.d_min + min(floor, (paper.d_max - paper.d_min) // 2))
        if abs(paper.sd - limit) > error:
            assert law.indicates == (paper.sd > limit)


@given(deltas, smoothings, floors, st.lists(rtts, min_size=1, max_size=60))
def test_equation_2_is_exact_on_the_smoothed_delay(estimator, delta, smoothing, floor, samples):
    law = estimator(delta=delta, smoothing=smoothing, floor_us=floor)
    for i, rtt in enumerate(samples):
        law.ack(10_000 * i, rtt)
        largest = law.queue_max
        eq2 = Fraction(delta, 1000) * largest
        lowest = min(floor, largest // 2)
        assert law.indicates == (Fraction(law.smoothed) > max(eq2, lowest))
        assert law.threshold == max(int(eq2), lowest)


@given(deltas, st.integers(1, 8_000))
def test_equation_2_asks_for_more_than_the_threshold(estimator, delta, unit):
    """At a queueing delay of exactly delta (q_max = 1000 units): no indication; one microsecond more: one."""
    law = estimator(delta=delta, smoothing=1, floor_us=0)
    for _ in range(4):  # the average begins with the smallest of four
        law.ack(0, 1)
    law.ack(1, 1 + 1000 * unit)
    law.ack(2, 1 + delta * unit)
    assert law.smoothed == law.threshold == delta * unit
    assert not law.indicates
    law.ack(3, 1 + delta * unit + 1)
    assert law.indicates


@given(st.lists(st.integers(1000, 100_000), min_size=2, max_size=40), st.integers(1, 200_000))
def test_a_lower_base_moves_largest_and_smoothed_alike(estimator, samples, fall):
    base = max(samples) + 100_000
    law = estimator(smoothing=8)
    for i, above in enumerate(samples):
        law.ack(10_000 * i, base + above)
    largest, smoothed, was = law.queue_max, law.smoothed, law.base
    new = max(1, was - fall)
    law.ack(10_000 * len(samples), new, lone=True)  # learns the base, is not smoothed itself
    assert law.base == new
    assert law.queue_max - largest == was - new
    assert law.smoothed - smoothed == was - new


@given(st.lists(st.integers(0, 100_000), min_size=1, max_size=40), st.integers(1, 90_000), smoothings)
def test_a_higher_base_moves_largest_and_smoothed_alike(estimator, samples, rise, smoothing):
    """The old base is forgotten after two halves; what was measured in the second keeps its absolute value."""
    half_us = 91 * 10**6
    law = estimator(smoothing=smoothing)
    now = 10**6
    law.ack(now, 50_000)
    now += half_us  # second half of the memory: all samples at least `rise` above the base
    for above in samples:
        now += 10_000
        law.ack(now, 50_000 + rise + above)
    largest, smoothed = law.queue_max, law.smoothed
    lowest = min(samples) + rise  # ... is what the base rises by
    law.ack(now + half_us, 50_000 + rise + 100_000, lone=True)
    assert law.base == 50_000 + lowest
    assert law.queue_max == largest - lowest
    assert law.smoothed == max(0, smoothed - lowest)


@given(smoothings, st.integers(1, 4), st.lists(rtts, min_size=1, max_size=80), st.integers(0, 79))
@example(8, 2, [20_000] + [60_000] * 10, 1)
def test_an_indication_needs_its_samples(estimator, smoothing, least, samples, restart_at):
    """However large: not before `least` of them since the restart, and from there on exactly as with one."""
    law, eager = estimator(smoothing=smoothing, least=least), estimator(smoothing=smoothing)
    seen = 0
    for i, rtt in enumerate(samples):
        if i == restart_at:
            law.restart(), eager.restart()
            seen = 0
        law.ack(10_000 * i, rtt), eager.ack(10_000 * i, rtt)
        seen += 1
        assert law.smoothed == eager.smoothed
        assert law.indicates == (eager.indicates and seen >= least)


@given(st.lists(rtts, min_size=1, max_size=20), rtts)
def test_restart_forgets_the_smoothed_delay_only(estimator, samples, after):
    law = estimator()
    for i, rtt in enumerate(samples):
        law.ack(10_000 * i, rtt)
    base, largest = law.base, law.queue_max
    law.restart()
    assert (law.base, law.queue_max) == (base, largest)
    assert law.smoothed is None and not law.indicates
    assert law.law.delay_smoothed(law.state) == 0
    queue = law.ack(10_000 * len(samples), after)
    assert law.smoothed == queue, "the first sample after a restart is the average"


@given(st.lists(st.tuples(rtts, st.booleans()), min_size=1, max_size=40))
def test_a_lone_packet_teaches_the_base_only(estimator, samples):
    law, without = estimator(), estimator()
    for i, (rtt, lone) in enumerate(samples):
        before = law.smoothed, law.queue_max, law.base
        law.ack(10_000 * i, rtt, lone=lone)
        if lone and i and law.base == before[2]:
            assert (law.smoothed, law.queue_max) == before[:2]
        if not lone:
            without.ack(10_000 * i, rtt)
    assert law.base == min(min(rtt for rtt, _ in samples), DELAY_MAX)


@given(st.lists(rtts, min_size=1, max_size=40), rtts)
def test_half_of_a_pair_tells_of_no_longer_queue_than_was_seen(estimator, samples, late):
    """A full queue dropped the other half, so the receiver has waited 40 ms: that is no queue."""
    law = estimator(smoothing=1)
    for i, rtt in enumerate(samples):
        law.ack(10_000 * i, rtt)
    base, largest = law.base, law.queue_max
    queue = law.ack(10_000 * len(samples), late, half=True)
    assert queue == min(late, DELAY_MAX) - law.base, "what is shown is what was measured"
    fell = base - law.base
    assert law.queue_max == (largest + fell if largest + fell else queue), "where there was none it is the first"
    law.check(queue, late)


def test_half_of_a_pair_is_a_queue_as_any_other_below_the_largest(estimator):
    law = estimator(smoothing=1)
    for i, rtt in enumerate([20_000, 60_000, 20_000, 20_000, 20_000]):
        law.ack(10_000 * i, rtt)
    law.ack(100_000, 50_000, half=True)
    assert law.smoothed == 30_000 and law.indicates


def test_without_an_rtt_nothing_happens(ffi, estimator):
    law = estimator()
    for i in range(50):
        law.ack(10_000 * i, 20_000 + 100 * i, i, i, 1_000_000)
    before = bytes(ffi.buffer(law.state))
    assert law.ack(10**12, 0, 2**31, 2**31, 1_000_000) == 0
    assert bytes(ffi.buffer(law.state)) == before
