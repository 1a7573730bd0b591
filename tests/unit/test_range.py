# SPDX-License-Identifier: GPL-2.0-only
"""range.h: the search, the average, what raises and lowers it, doubt, and the errors of what is published over many chirps
on simulated paths (chirp_path.py)."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.cdata import Ffi, Laws, Struct
from tests.unit.chirp_path import Path, Prober
from tests.unit.test_knee import ABOVE, BELOW, BY_DELAY, CHIRPS, DELAYS, NONE, U32, WITHIN, chirp, u32

TERABIT = 2**31 - 1  # kbit/s: no rate is above that


def par(ffi: Ffi, **fields: int) -> Struct:
    return ffi.new(
        "struct range_params *",
        {"spread": 1200, "steps": 15, "alpha": 500, "floor_kbps": 1000, "ceiling_kbps": 3_428_571} | fields,
    )


def result(
    ffi: Ffi, law: Laws, r: Struct, parameters: Struct, verdict: int, raw: int, signal: int = BY_DELAY, now: int = 0
) -> None:
    """The chirp that is next comes back, and says this."""
    c = chirp(ffi, law.range_next_min_kbps(r), [0] * law.range_next_steps(r))
    e = ffi.new("struct knee_estimate *", {"verdict": verdict, "raw_kbps": raw, "signal": signal})
    law.range_result(r, parameters, c, e, now)


def begun(ffi: Ffi, law: Laws, **fields: int) -> tuple[Struct, Struct]:
    r, parameters = ffi.new("struct nf_range *"), par(ffi, **fields)
    law.range_init(r, parameters)
    return r, parameters


def settled(ffi: Ffi, law: Laws, count: int, kbps: int) -> tuple[Struct, Struct]:
    """The search is over, and so many estimates said the same."""
    r, parameters = begun(ffi, law)
    r.searching = 0
    for _ in range(count):
        result(ffi, law, r, parameters, WITHIN, kbps)
    return r, parameters


# The search.


def test_probing_slow_start(ffi: Ffi, law: Laws) -> None:
    """2, 4, 8, 15 steps, each from the end of the last; left when A is within."""
    r, parameters = begun(ffi, law)
    seen = []
    assert law.range_bw_kbps(r) == 0
    for _ in range(6):
        n, low = law.range_next_steps(r), law.range_next_min_kbps(r)
        seen.append((n, low))
        top = law.chirp_max_kbps(low, 1200, n)
        if top > 50_000:
            break
        result(ffi, law, r, parameters, ABOVE, top, 0)
        assert law.range_bw_kbps(r) == top and law.range_next_min_kbps(r) == top
    assert [n for n, _ in seen] == [2, 4, 8, 15, 15]
    result(ffi, law, r, parameters, WITHIN, 42_000, now=77)
    assert law.range_bw_kbps(r) == 42_000 and not r.searching and law.range_age_kius(r, 80) == 3
    assert law.range_next_min_kbps(r) == law.chirp_min_kbps(42_000, 1200, 15, 1000)  # eq. 6, r_avg = 2 alpha BW_est
    assert law.range_next_steps(r) == 15


def test_when_the_search_goes_on(ffi: Ffi, law: Laws) -> None:
    """Noise that looks like a queue at the chirp's end does not end it. The ceiling does."""
    for raw, ceiling, on in [(745, 10**6, 1), (510, 10**6, 1), (490, 10**6, 0), (745, 100_000, 0)]:
        r, parameters = begun(ffi, law, ceiling_kbps=ceiling)
        r.min_kbps, r.steps = 9347, 15  # up to 100 Mbit/s
        result(ffi, law, r, parameters, WITHIN, raw * 100)
        assert r.searching == on
        assert 99_000 < law.range_bw_kbps(r) < 101_000 if on else law.range_bw_kbps(r) == raw * 100


def test_without_a_search_the_first_chirp_is_around_what_was_carried(ffi: Ffi, law: Laws) -> None:
    r, parameters = begun(ffi, law)
    law.range_begin(r, parameters, 20_000)
    assert (r.searching, law.range_next_steps(r), law.range_bw_kbps(r)) == (0, 15, 0)
    assert law.range_next_min_kbps(r) == law.chirp_min_kbps(20_000, 1200, 15, 1000)
    result(ffi, law, r, parameters, WITHIN, 24_000)
    assert law.range_bw_kbps(r) == 22_000  # as after a mark: both weigh the same


# The average.


def test_the_average(ffi: Ffi, law: Laws) -> None:
    """Four estimates equally, then a quarter each."""
    r, parameters = settled(ffi, law, 0, 0)
    model = 0.0
    for i, raw in enumerate([40_000, 50_000, 30_000] + [20_000, 45_000] * 20):
        model += (raw - model) / min(i + 1, 4)
        result(ffi, law, r, parameters, WITHIN, raw)
        assert abs(r.avg_kbps - model) <= 4


def test_a_chirp_without_a_queue_raises_the_average(ffi: Ffi, law: Laws) -> None:
    r, parameters = settled(ffi, law, 30, 5000)
    top = law.chirp_max_kbps(law.range_next_min_kbps(r), 1200, 15)
    result(ffi, law, r, parameters, ABOVE, top, 0)
    assert law.range_bw_kbps(r) == top > 4 * 5000
    result(ffi, law, r, parameters, WITHIN, 2 * top)  # a queue was there: averaged as any other
    assert law.range_bw_kbps(r) == pytest.approx(1.25 * top, rel=0.01)


def test_one_that_ends_below_the_average_is_a_bound_until_the_next(ffi: Ffi, law: Laws) -> None:
    """Its end is all that a short chirp knows: taken at once, and out of the average of what follows."""
    r, parameters = settled(ffi, law, 5, 19_000)
    result(ffi, law, r, parameters, ABOVE, 4000, 0)
    assert law.range_bw_kbps(r) == 4000
    result(ffi, law, r, parameters, WITHIN, 18_000)
    assert law.range_bw_kbps(r) == 18_000
    result(ffi, law, r, parameters, WITHIN, 20_000)
    assert law.range_bw_kbps(r) == 19_000


def test_no_single_estimate_raises_the_average_by_more_than_a_half(ffi: Ffi, law: Laws) -> None:
    r, parameters = settled(ffi, law, 1, 10_000)
    result(ffi, law, r, parameters, WITHIN, 60_000)
    assert law.range_bw_kbps(r) == 15_000
    r, parameters = settled(ffi, law, 0, 0)
    result(ffi, law, r, parameters, WITHIN, 60_000)
    assert r.avg_kbps == 60_000  # the first is all that is known


def test_below_the_floor_it_is_0_and_the_chirp_stays_at_it(ffi: Ffi, law: Laws) -> None:
    r, parameters = begun(ffi, law)
    for _ in range(40):
        result(ffi, law, r, parameters, BELOW, 400)
        assert law.range_bw_kbps(r) == 0 and law.range_next_min_kbps(r) == 1000
    for _ in range(20):
        result(ffi, law, r, parameters, WITHIN, 5000)
    assert law.range_bw_kbps(r) > 2000


def test_room_for_noise_at_the_floor(law: Laws) -> None:
    assert [law.range_worth(kbps, 1000) for kbps in (0, 749, 750, 999, 1000)] == [0, 0, 750, 999, 1000]


# Marks, losses, and what was carried.


def test_congestion_takes_the_estimate_until_the_next(ffi: Ffi, law: Laws) -> None:
    r, parameters = settled(ffi, law, 20, 50_000)
    law.range_congested(r, 60_000)
    assert law.range_bw_kbps(r) == 0
    result(ffi, law, r, parameters, NONE, 99_999, now=9)
    assert law.range_bw_kbps(r) == 0 and r.at_kius == 0  # a discarded chirp says nothing
    result(ffi, law, r, parameters, WITHIN, 10_000)
    assert law.range_bw_kbps(r) == 30_000  # a half, not a quarter


def test_congestion_refutes_what_is_above_what_the_flow_had(ffi: Ffi, law: Laws) -> None:
    r, _ = settled(ffi, law, 20, 50_000)
    law.range_congested(r, 60_000)
    assert r.avg_kbps == 50_000
    law.range_congested(r, 20_000)
    assert r.avg_kbps == 20_000
    r.searching = 1  # nothing is known yet, and its range is not of this time
    law.range_congested(r, 5_000)
    assert r.avg_kbps == 20_000


def test_what_was_carried_refutes_an_average_below_it(ffi: Ffi, law: Laws) -> None:
    r, parameters = begun(ffi, law)
    law.range_carried(r, parameters, 400)
    assert law.range_next_min_kbps(r) == 1000  # the floor
    law.range_carried(r, parameters, 5_000)
    assert law.range_next_min_kbps(r) == 5_000 and law.range_next_steps(r) == 2  # the search begins there
    law.range_carried(r, parameters, 2_000)
    assert law.range_next_min_kbps(r) == 5_000
    r, parameters = settled(ffi, law, 20, 8_000)
    low = law.range_next_min_kbps(r)
    law.range_carried(r, parameters, 8_000)
    assert (law.range_bw_kbps(r), law.range_next_min_kbps(r)) == (8_000, low)  # nothing new
    law.range_carried(r, parameters, 20_000)
    assert law.range_bw_kbps(r) == 8_000  # no estimate by itself
    assert abs(law.range_next_min_kbps(r) / low - 20 / 8) < 0.01
    result(ffi, law, r, parameters, WITHIN, 24_000)
    assert law.range_bw_kbps(r) == 22_000  # as after a mark


def test_anything_may_be_carried(ffi: Ffi, law: Laws) -> None:
    r, parameters = settled(ffi, law, 9, 1000)
    law.range_carried(r, parameters, U32)
    assert r.avg_kbps == TERABIT
    top = law.chirp_max_kbps(law.range_next_min_kbps(r), 1200, law.range_next_steps(r))
    assert top <= parameters.ceiling_kbps


def test_the_range_stays_between_floor_and_ceiling(ffi: Ffi, law: Laws) -> None:
    for ceiling in (428_000, 3_428_571, 2000):
        r, parameters = begun(ffi, law, ceiling_kbps=ceiling)
        for _ in range(40):
            n, low = law.range_next_steps(r), law.range_next_min_kbps(r)
            top = law.chirp_max_kbps(low, 1200, n)
            assert low >= 1000 and (top <= ceiling or low == 1000)
            result(ffi, law, r, parameters, ABOVE, top, 0)
        assert abs(top - ceiling) < ceiling * 0.01 or low == 1000


# Pauses.


@given(u32, u32)
def test_pause(law: Laws, base: int, random: int) -> None:
    pause = law.range_pause_us(base, random)
    assert abs(pause - min(base, 2**31 - 1) * 2 * random / 2**32) < 1


def test_doubt(ffi: Ffi, law: Laws) -> None:
    """16, 32 ... 2048 round trips after losses below the target; each target that is reached takes one doubling back."""
    r, _ = begun(ffi, law)
    assert law.range_doubt_us(r, 1000) == 0
    seen = []
    for _ in range(12):
        law.range_doubt(r)
        seen.append(law.range_doubt_us(r, 1000) // 1000)
    assert seen == [16, 32, 64, 128, 256, 512, 1024, 2048, 2048, 2048, 2048, 2048]
    for left in (1024, 512):
        law.range_reached(r)
        assert law.range_doubt_us(r, 1000) == left * 1000
    for _ in range(20):
        law.range_reached(r)
    assert law.range_doubt_us(r, 1000) == 0
    r.doubt = 255
    assert law.range_doubt_us(r, U32) == U32 << 11


# Hostile.


@given(st.lists(st.tuples(CHIRPS, DELAYS, st.booleans()), min_size=1, max_size=20), u32, u32, u32, u32)
def test_anything_goes(
    ffi: Ffi, law: Laws, chirps: list[tuple[dict[str, int], list[int], bool]], alpha: int, steps: int, floor: int, ceiling: int
) -> None:
    r, parameters = begun(ffi, law, alpha=alpha, steps=steps, floor_kbps=floor, ceiling_kbps=ceiling)
    e = ffi.new("struct knee_estimate *")
    for fields, delays, own in chirps:
        c = ffi.new("struct knee_chirp *", fields | {"delay_us": delays})
        if own:
            c.min_kbps, c.steps, c.spread = law.range_next_min_kbps(r), law.range_next_steps(r), 1200
        law.knee_estimate(c, e)
        before = r.avg_kbps
        law.range_result(r, parameters, c, e, 0)
        assert law.range_next_min_kbps(r) >= max(1, floor) and 2 <= law.range_next_steps(r) <= 15
        assert law.range_bw_kbps(r) <= r.avg_kbps <= TERABIT and r.have <= 4
        if e.verdict == NONE:
            assert r.avg_kbps == before


# What is published over many chirps: its median against C (1 - load).

LOADS = 0.1, 0.3, 0.5, 0.7, 0.8
KINDS = "cbr", "poisson", "onoff"
SKIP = 20  # the search, and the first estimates
FLOOR_MBIT = 1  # par(): MinRate at first; no chirp begins slower


def errors(ffi: Ffi, law: Laws, kind: str, mbit: int, **sender: bool) -> dict[float, float]:
    """load: the median's relative error, as long as there is as much as the floor: below it a chirp begins too fast, and
    eq. 5 says 0."""
    found = {}
    for load in LOADS:
        if (1 - load) * mbit < FLOOR_MBIT * 0.999:
            break
        path = Path(mbit * 1000, load, kind)
        prober = Prober(ffi, law, path, **sender)
        published = [prober.step() for _ in range(SKIP + 400)][SKIP:]
        found[load] = float(np.median(published)) / path.available_kbps - 1
    print(f"{kind:8}{mbit:>5} {sender}" + "".join(f"{error:+6.0%}" for error in found.values()))
    return found


@pytest.mark.parametrize("mbit", [2, 10, 100, 500])
@pytest.mark.parametrize("kind", KINDS)
def test_error_of_the_median(ffi: Ffi, law: Laws, kind: str, mbit: int) -> None:
    for error in errors(ffi, law, kind, mbit).values():
        assert -0.25 <= error <= 0.25


@pytest.mark.parametrize("kind", KINDS)
def test_half_of_the_floor_is_nothing(ffi: Ffi, law: Laws, kind: str) -> None:
    """Eq. 5; between that and the floor itself 3/4 of the floor is the border (range.h, 4.)."""
    prober = Prober(ffi, law, Path(2000, 0.75, kind))
    assert np.median([prober.step() for _ in range(SKIP + 200)][SKIP:]) == 0


@pytest.mark.parametrize("kind", KINDS)
def test_delay_alone(ffi: Ffi, law: Laws, kind: str) -> None:
    """Too high, the more the fuller it is: bursts that end within a chirp look as if there were room."""
    for load, error in errors(ffi, law, kind, 50, ecn=False).items():
        assert -0.15 <= error <= 0.2 + (0 if kind == "cbr" else 2.5 * load**2)


@pytest.mark.parametrize("kind", KINDS)
def test_ece_alone(ffi: Ffi, law: Laws, kind: str) -> None:
    """Without a usable delay: a step and a half."""
    for error in errors(ffi, law, kind, 50, delays=False).values():
        assert -0.35 <= error <= 0.35


def test_chirps_of_a_fast_path_come_in_bursts_and_say_the_same(ffi: Ffi, law: Laws) -> None:
    path = Path(2_000_000, 0.5, "cbr", noise_us=1)
    prober = Prober(ffi, law, path, noise_us=3)
    published = [prober.step() for _ in range(80)][40:]
    assert prober.c.burst == 8
    assert abs(np.median(published) / path.available_kbps - 1) < 0.3


def test_the_search_takes_few_chirps(ffi: Ffi, law: Laws) -> None:
    """From 1 to 450 Mbit/s in nine chirps: each ends where the next begins."""
    ratios = []
    for seed in range(20):
        path = Path(500_000, 0.1, "cbr", seed)
        prober = Prober(ffi, law, path)
        ratios.append([prober.step() for _ in range(9)][-1] / path.available_kbps)
    assert 0.6 < min(ratios) and max(ratios) < 1.4 and abs(np.median(ratios) - 1) < 0.25


def test_a_change_is_followed(ffi: Ffi, law: Laws) -> None:
    path = Path(100_000, 0.1, "poisson")
    prober = Prober(ffi, law, path)
    for _ in range(40):
        prober.step()
    path.load = 0.8
    assert np.median([prober.step() for _ in range(20)][-10:]) < 40_000
    path.load = 0.1
    assert np.median([prober.step() for _ in range(20)][-10:]) > 60_000
