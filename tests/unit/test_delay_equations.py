# SPDX-License-Identifier: GPL-2.0-only
"""Equations 1 and 2 of the TCP-LP paper in floating point, against the fixed point of include/law/delay.h.

The right side of eq. 2 is the paper's where the buffer is known, and the header's elsewhere (test_delay_buffer.py).

Error of the fixed point, asserted here: each step of eq. 1 loses less than 1/256 us, and a step keeps 1 - gamma of
what was lost before, so the smoothed delay is within (1/gamma)/256 us of the real one: 0.03 us at gamma = 1/8, 0.25 us
at 1/64. d_min and d_max are exact, and so is eq. 2 on the smoothed delay as it is held.
"""

from fractions import Fraction

from hypothesis import example, given
from hypothesis import strategies as st

from tests.unit.estimator import Estimator, MakeEstimator

DELAY_MAX = 2**23  # us: the header's stated range

deltas = st.integers(1, 999)
noises = st.one_of(st.just(0), st.integers(0, 0xFFFF << 2))  # us: what law/noise.h can say
smoothings = st.integers(1, 64)
floors = st.one_of(st.just(0), st.integers(0, 100_000))
rtts = st.one_of(st.integers(1, 2**32 - 1), st.integers(1, 300_000), st.integers(20_000, 21_000))


class Paper:
    """III-A with absolute delays d, as it is printed."""

    def __init__(self, gamma: float, delta: float) -> None:
        self.gamma, self.delta, self.count = gamma, delta, 0
        self.d_min = self.d_max = 0  # of no sample
        self.sd = 0.0

    def sample(self, d: int) -> None:
        first = not self.count
        if not first and d < self.d_min == self.d_max:
            self.d_max = d  # ours: no queue was seen above that base
        self.d_min = d if first else min(self.d_min, d)
        self.d_max = d if first else max(self.d_max, d)
        self.count += 1
        if self.count <= 4:  # ours: it begins with the smallest of four
            self.sd = float(d) if first else min(self.sd, d)
        else:
            self.sd = (1 - self.gamma) * self.sd + self.gamma * d

    @property
    def limit(self) -> float:
        return self.d_min + (self.d_max - self.d_min) * self.delta


def limit(law: Estimator, part: float) -> float:
    """The header's threshold, given eq. 2's own right side (above d_min), in exact numbers."""
    p, most = law.params, law.queue_max
    if not law.known:
        return max(law.provisional, p.floor_us, p.noise_us)
    return max(part, min(p.floor_us, most // 2), min(p.noise_us, most // 4))


@given(deltas, smoothings, floors, noises, st.booleans(), st.lists(rtts, min_size=1, max_size=150))
@example(150, 64, 0, 0, True, [1] + [2**32 - 1] * 200 + [1] * 200)
@example(999, 1, 100_000, 0, True, [2**23, 1, 2**23])
def test_equations_1_and_2(
    estimator: MakeEstimator, delta: int, smoothing: int, floor: int, noise: int, overflowed: bool, samples: list[int]
) -> None:
    law = estimator(delta=delta, smoothing=smoothing, floor_us=floor, noise_us=noise)
    paper = Paper(1 / smoothing, delta / 1000)
    error = smoothing / 256
    for i, rtt in enumerate(samples):
        queue = law.ack(1_000_000 + 10_000 * i, rtt)
        if overflowed:
            law.overflow(law.queue_max)
        d = min(rtt, DELAY_MAX)
        paper.sample(d)
        assert law.base == paper.d_min
        assert law.queue_max == paper.d_max - paper.d_min
        assert queue == d - paper.d_min
        assert law.smoothed is not None and abs(law.smoothed - (paper.sd - paper.d_min)) <= error
        if overflowed and law.queue_max:
            assert law.known
        right = paper.d_min + limit(law, paper.limit - paper.d_min)
        if abs(paper.sd - right) > error + 1:
            assert law.indicates == (paper.sd > right)


@given(deltas, smoothings, floors, noises, st.booleans(), st.lists(rtts, min_size=1, max_size=60))
def test_equation_2_is_exact_on_the_smoothed_delay(
    estimator: MakeEstimator, delta: int, smoothing: int, floor: int, noise: int, overflowed: bool, samples: list[int]
) -> None:
    law = estimator(delta=delta, smoothing=smoothing, floor_us=floor, noise_us=noise)
    for i, rtt in enumerate(samples):
        law.ack(10_000 * i, rtt)
        if overflowed:
            law.overflow(law.queue_max)
        assert law.threshold == limit(law, law.queue_max * delta // 1000)
        assert law.smoothed is not None and law.indicates == (Fraction(law.smoothed) > law.threshold)


@given(deltas, st.integers(1, 8_000))
def test_equation_2_asks_for_more_than_the_threshold(estimator: MakeEstimator, delta: int, unit: int) -> None:
    """At a queueing delay of exactly delta (q_max = 1000 units): no indication; one microsecond more: one."""
    law = estimator(delta=delta, smoothing=1, floor_us=0)
    for _ in range(4):  # the average begins with the smallest of four
        law.ack(0, 1)
    law.ack(1, 1 + 1000 * unit)
    law.overflow(1000 * unit)
    law.ack(2, 1 + delta * unit)
    assert law.smoothed == law.threshold == delta * unit
    assert not law.indicates
    law.ack(3, 1 + delta * unit + 1)
    assert law.indicates


@given(st.lists(st.integers(1000, 100_000), min_size=2, max_size=40), st.integers(1, 200_000))
def test_a_lower_base_moves_largest_and_smoothed_alike(estimator: MakeEstimator, samples: list[int], fall: int) -> None:
    base = max(samples) + 100_000
    law = estimator(smoothing=8)
    for i, above in enumerate(samples):
        law.ack(10_000 * i, base + above)
    largest, smoothed, was = law.queue_max, law.smoothed, law.base
    assert smoothed is not None
    new = max(1, was - fall)
    law.measure(10_000 * len(samples), new)  # learns the base, and is not taken
    assert law.base == new
    assert law.queue_max - largest == (was - new if largest else 0)
    assert law.smoothed is not None and law.smoothed - smoothed == was - new


@given(st.lists(st.integers(0, 100_000), min_size=1, max_size=40), st.integers(1, 90_000), smoothings)
def test_a_higher_base_moves_largest_and_smoothed_alike(
    estimator: MakeEstimator, samples: list[int], rise: int, smoothing: int
) -> None:
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
    assert smoothed is not None
    lowest = min(samples) + rise  # ... is what the base rises by
    law.measure(now + half_us, 50_000 + rise + 100_000)
    assert law.base == 50_000 + lowest
    assert law.queue_max == largest - lowest
    assert law.smoothed == max(0, smoothed - lowest)


@given(smoothings, st.integers(1, 4), st.lists(rtts, min_size=1, max_size=80), st.integers(0, 79))
@example(8, 2, [20_000] + [60_000] * 10, 1)
def test_an_indication_needs_its_samples(
    estimator: MakeEstimator, smoothing: int, least: int, samples: list[int], restart_at: int
) -> None:
    """However large the delay is: no indication before `least` samples since the restart, and from then on as with one."""
    law, eager = estimator(smoothing=smoothing, least=least), estimator(smoothing=smoothing)
    seen = 0
    for i, rtt in enumerate(samples):
        if i == restart_at:
            law.restart()
            eager.restart()
            seen = 0
        law.ack(10_000 * i, rtt), eager.ack(10_000 * i, rtt)
        seen += 1
        assert law.smoothed == eager.smoothed
        assert law.indicates == (eager.indicates and seen >= least)


@given(st.lists(rtts, min_size=1, max_size=20), rtts)
def test_restart_forgets_the_smoothed_delay_only(estimator: MakeEstimator, samples: list[int], after: int) -> None:
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


@given(st.lists(rtts, max_size=40), rtts)
def test_a_late_ack_counts_only_below_the_average(estimator: MakeEstimator, samples: list[int], late: int) -> None:
    """It may be delayed, 40 ms late: if it is below the average, the queue is at most that."""
    law, other = estimator(), estimator()
    for i, rtt in enumerate(samples):
        law.ack(10_000 * i, rtt), other.ack(10_000 * i, rtt)
    queue = other.measure(10_000 * len(samples), late)  # the base it teaches all the same
    before = other.smoothed, other.queue_max
    assert law.ack(10_000 * len(samples), late, late=True) == queue
    if before[0] is None or queue >= before[0]:
        assert (law.smoothed, law.queue_max) == before
    else:
        assert law.smoothed is not None and law.smoothed < before[0]
        assert law.queue_max == before[1]


@given(rtts, rtts, st.one_of(st.integers(0, 10_000), st.integers(0, 2**32 - 1)))
def test_the_second_packet_of_a_pair_has_waited_for_the_first(estimator: MakeEstimator, base: int, rtt: int, own: int) -> None:
    """That is no queue of others; RTT and base are as they are."""
    law = estimator()
    law.ack(0, base)
    queue = law.ack(10_000, rtt, own_us=own)
    d = min(rtt, DELAY_MAX)
    assert law.base == min(d, min(base, DELAY_MAX))
    assert queue == max(0, d - law.base - own)
