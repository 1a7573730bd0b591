# SPDX-License-Identifier: GPL-2.0-only
"""knee.h: eq. 5 on fluid queues, knees against models, hostile feedback, and the errors of single estimates on simulated
paths (chirp_path.py)."""

import math
from collections.abc import Iterable, Sequence

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.unit.cdata import Ffi, Laws, Struct
from tests.unit.chirp_path import PACKET, Floats, Path, Prober

U32 = 2**32 - 1
SF = 1.2
PILE = 7  # steps from A to the first mark: knee_pile_steps() of three packets at SF
NONE, BELOW, WITHIN, ABOVE = range(4)
BY_ECE, BY_DELAY = 1, 2
u32 = st.integers(0, U32)
bits16 = st.integers(0, 2**16 - 1)


def gap_rates(low: float, n: int = 15) -> list[float]:
    return [low * SF**i for i in range(n - 1)]


def fluid(available: float, capacity: float, low: float, n: int = 15, burst: int = 1) -> tuple[list[float], list[float]]:
    """Packets' worth in the queue that each step meets, and the delay us that it is."""
    queue = [0.0]
    for rate in gap_rates(low, n):
        queue.append(max(0, queue[-1] + burst * (1 - available / rate)))
    return queue, [q * PACKET * 8 / capacity * 1000 for q in queue]


def chirp(
    ffi: Ffi, low: int, delays: Sequence[float], marks: Iterable[int] = (), n: int | None = None, burst: int = 1, **fields: int
) -> Struct:
    n = n or len(delays)
    c = ffi.new(
        "struct knee_chirp *",
        dict(
            min_kbps=low,
            spread=1200,
            bytes=burst * PACKET,
            noise_us=10,
            sampled=2**n - 1,
            steps=n,
            burst=burst,
            ecn=1,
            ece=sum(1 << i for i in marks),
            **fields,
        ),
    )
    for i, delay in enumerate(delays):
        c.delay_us[i] = round(delay) + 30_000
    return c


def estimate(ffi: Ffi, law: Laws, c: Struct) -> Struct:
    e = ffi.new("struct knee_estimate *")
    law.knee_estimate(c, e)
    return e


# The pile-up.


@given(st.integers(1010, 2000), st.integers(1, 4), st.sampled_from([1, 2, 4, 8]))
def test_pile_steps(law: Laws, spread: int, packets: int, burst: int) -> None:
    total, m = 0.0, 0
    while total < packets and m < 15:
        m += 1
        total += burst * (1 - (spread / 1000) ** -m)
    ours = law.knee_pile_steps(spread, packets, burst)
    assert ours == min(m, 15) or abs(total - packets) < 1e-4


def test_pile_steps_of_the_paper(law: Laws) -> None:
    assert [law.knee_pile_steps(1200, 2, b) for b in (1, 2, 4, 8)] == [5, 4, 3, 2]
    assert law.knee_pile_steps(1200, 3, 1) == PILE


# Eq. 5.


@given(st.floats(1_000, 2_000_000), st.floats(0.4, 2.5), st.sampled_from([1, 2, 4, 8]))
def test_both_signals_read_a_fluid_to_half_a_step(ffi: Ffi, law: Laws, available: float, position: float, burst: int) -> None:
    """The delay's knee is at most a step too high, the marks' at most one too low; below the chirp's beginning there are no
    finer steps."""
    low = max(1000, round(available * position))
    assume(not available - 1 <= low <= available)  # at the rate itself, to a rounding, no gap is the first that adds
    queue, delays = fluid(available, available * 2, low, burst=burst)
    scale = max(1, available / 1000)  # slower, for whole us
    c = chirp(ffi, low, [d * scale for d in delays], [i for i, q in enumerate(queue) if q > 3.0], burst=burst)
    c.noise_us = 0
    e = estimate(ffi, law, c)
    top = law.chirp_max_kbps(low, 1200, 15)
    if low > available:
        assert e.verdict in (BELOW, WITHIN) and e.by_delay == 0
        assert e.raw_kbps <= low
    elif top > available * SF ** (PILE + 2):
        assert e.signal == BY_ECE | BY_DELAY and e.verdict == WITHIN
        assert 1 / SF**1.01 <= e.raw_kbps / available <= SF**1.01


@pytest.mark.parametrize("step", range(1, 15))
def test_the_rate_of_a_mark(ffi: Ffi, law: Laws, step: int) -> None:
    """r_(j - 1 - m); before the first gap the rates go on as they would have begun."""
    e = estimate(ffi, law, chirp(ffi, 10_000, [0] * 15, range(step, 15)))
    exact = 10_000 * SF ** (step - 1 - PILE)
    assert (e.signal, e.by_ece, e.knee) == (BY_ECE, step, step)
    assert math.isclose(e.raw_kbps, exact, rel_tol=1e-3)
    assert (e.verdict, e.kbps) == ((BELOW, 0) if step <= PILE else (WITHIN, e.raw_kbps))


@pytest.mark.parametrize("step", range(14))
def test_the_rate_of_a_delay(ffi: Ffi, law: Laws, step: int) -> None:
    """r_k: the first gap that adds to the queue."""
    e = estimate(ffi, law, chirp(ffi, 10_000, [0] * (step + 1) + [100 * i for i in range(1, 15 - step)]))
    assert (e.signal, e.by_delay, e.verdict) == (BY_DELAY, step, WITHIN)
    assert math.isclose(e.raw_kbps, 10_000 * SF**step, rel_tol=1e-3)


def test_the_mean_of_both(ffi: Ffi, law: Laws) -> None:
    e = estimate(ffi, law, chirp(ffi, 10_000, [0] * 7 + [100 * i for i in range(1, 9)], range(10, 15)))
    assert (e.by_delay, e.by_ece, e.knee) == (6, 10, 6)
    assert math.isclose(e.raw_kbps, 10_000 * (SF**6 + SF ** (10 - 1 - PILE)) / 2, rel_tol=1e-3)


def test_nothing_is_at_least_the_end(ffi: Ffi, law: Laws) -> None:
    e = estimate(ffi, law, chirp(ffi, 1000, [i % 3 * 5 for i in range(15)]))  # a rise within the noise is none
    top = law.chirp_max_kbps(1000, 1200, 15)
    assert (e.verdict, e.signal, e.kbps, e.raw_kbps, e.knee) == (ABOVE, 0, top, top, 15)


# The knees.


@given(st.lists(st.booleans(), min_size=15, max_size=15), st.lists(st.booleans(), min_size=15, max_size=15))
def test_the_run_of_marks_that_lasts(ffi: Ffi, law: Laws, marks: list[bool], sampled: list[bool]) -> None:
    c = chirp(ffi, 1000, [0] * 15, [i for i in range(15) if marks[i]])
    c.sampled = sum(1 << i for i in range(15) if sampled[i])
    seen = [i for i in range(15) if sampled[i]]
    knee = 15
    for i in reversed(seen):
        if not marks[i]:
            break
        knee = i
    assert law.knee_by_ece(c) == knee


def last_excursion(delays: list[int], noise: int) -> int:
    """Ribeiro et al., section 3: an excursion ends when it falls below 1 / F of its height."""
    n, k = len(delays), 0
    while k < n - 1:
        if delays[k + 1] <= delays[k]:
            k += 1
            continue
        height, j = 0, k + 1
        while j < n and delays[j] > delays[k] and delays[j] - delays[k] >= height / 1.5:
            height = max(height, delays[j] - delays[k])
            j += 1
        if j == n:
            return k if height > noise else n
        k = j
    return n


@given(st.lists(st.one_of(st.integers(0, 60), st.integers(0, 100_000)), min_size=15, max_size=15), st.integers(0, 40))
def test_excursions_are_pathchirps(ffi: Ffi, law: Laws, delays: list[int], noise: int) -> None:
    c, highest = chirp(ffi, 1000, delays), ffi.new("u32 *")
    c.noise_us = noise
    assert law.knee_by_delay(c, highest) == last_excursion(delays, noise)
    assert highest[0] == max(delays) - min(delays)


def test_ece_without_ecn_is_nothing(ffi: Ffi, law: Laws) -> None:
    c = chirp(ffi, 1000, [0] * 15, range(5, 15))
    c.ecn = 0
    assert (estimate(ffi, law, c).signal, law.knee_by_ece(c)) == (0, 15)


def test_a_burst_that_ends_is_cross_traffic(ffi: Ffi, law: Laws) -> None:
    """One early mark and an early hump say where nothing is; those at the end say where A is. A hump is a trace all the same:
    such a chirp is no bound."""
    early = estimate(ffi, law, chirp(ffi, 1000, [0, 900, 300, 0] + [0] * 11, [1]))
    assert (early.signal, early.knee, early.verdict) == (0, 15, WITHIN) and early.raw_kbps > 8000
    late = estimate(ffi, law, chirp(ffi, 1000, [0, 900, 300, 0] + [0] * 5 + [50, 200, 500, 900, 1400, 2000], [1, 12, 13, 14]))
    assert late.signal == BY_ECE | BY_DELAY and late.knee == 8


def test_without_its_last_step_a_chirp_says_nothing(ffi: Ffi, law: Laws) -> None:
    c = chirp(ffi, 5000, [0] * 15)
    assert estimate(ffi, law, c).verdict == ABOVE
    c.sampled = 0x3FFF
    assert estimate(ffi, law, c).verdict == NONE


@given(bits16, bits16)
def test_a_quarter_may_be_lost_but_not_the_end(ffi: Ffi, law: Laws, sampled: int, ece: int) -> None:
    c = chirp(ffi, 5000, [0] * 15)
    c.sampled, c.ece = sampled, ece
    whole = bin(sampled & 0x7FFF).count("1") >= 12 and sampled >> 14 & 1
    assert (estimate(ffi, law, c).verdict != NONE) == bool(whole)


# Hostile.

CHIRPS = st.fixed_dictionaries(
    {
        "min_kbps": u32,
        "spread": u32,
        "bytes": u32,
        "noise_us": u32,
        "sampled": bits16,
        "ece": bits16,
        "steps": st.integers(0, 255),
        "burst": st.integers(0, 255),
        "ecn": st.integers(0, 1),
    }
)
DELAYS = st.lists(st.one_of(st.just(0), st.just(U32), st.integers(0, 10**6), u32), min_size=15, max_size=15)


@given(CHIRPS, DELAYS)
def test_anything_goes(ffi: Ffi, law: Laws, fields: dict[str, int], delays: list[int]) -> None:
    c = ffi.new("struct knee_chirp *", fields | {"delay_us": delays})
    e = estimate(ffi, law, c)
    top = law.chirp_max_kbps(c.min_kbps, c.spread, c.steps)
    assert e.kbps <= e.raw_kbps <= top and e.knee <= 15 and e.verdict in (NONE, BELOW, WITHIN, ABOVE)


@pytest.mark.parametrize("delays", [[0] * 15, [U32] * 15, [0, U32] * 7 + [0], [U32 - i for i in range(15)], [7] * 15])
def test_a_receiver_that_marks_every_ack_ends_it(ffi: Ffi, law: Laws, delays: list[int]) -> None:
    """No more than what the chirp began with, whatever the delays say, is taken from ECE alone."""
    c = chirp(ffi, 5000, [0] * 15, range(15))
    c.delay_us = delays
    e = estimate(ffi, law, c)
    assert e.knee == 0 and e.signal & BY_ECE
    if not e.signal & BY_DELAY:
        assert (e.verdict, e.kbps) == (BELOW, 0) and e.raw_kbps < 5000


# The errors of single estimates: of chirps around what is available (range.h, 3.), beside others.


def raw_errors(ffi: Ffi, law: Laws, kind: str, mbit: int, load: float, count: int = 300) -> Floats:
    path = Path(mbit * 1000, load, kind)
    prober = Prober(ffi, law, path)
    available = path.available_kbps
    low = law.chirp_min_kbps(round(available), 1200, 15, 1)
    errors = []
    for _ in range(count):
        law.range_begin(prober.r, prober.par, round(available))
        prober.r.min_kbps = low
        prober.step()
        errors.append(prober.e.raw_kbps / available - 1)
    return np.array(errors)


@pytest.mark.parametrize("mbit", [10, 100])
@pytest.mark.parametrize("load", [0.25, 0.5])
def test_a_single_estimate(ffi: Ffi, law: Laws, mbit: int, load: float) -> None:
    """Off by a step beside an even load, by a quarter beside Poisson packets, by a half beside bursts of eight; and with no
    bias of more than a step."""
    bounds = {"cbr": 0.2, "poisson": 0.35, "onoff": 0.6}
    for kind, bound in bounds.items():
        errors = raw_errors(ffi, law, kind, mbit, load)
        print(f"{kind} {mbit} Mbit/s, load {load}: {np.median(np.abs(errors)):.2f} ({np.median(errors):+.2f})")
        assert np.median(np.abs(errors)) <= bound and abs(np.median(errors)) <= 0.25
