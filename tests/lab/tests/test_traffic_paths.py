# SPDX-License-Identifier: GPL-2.0-only
"""The path of a flow is what was asked for, and the same each time: sizes and gaps, by a second implementation."""

from __future__ import annotations

import hashlib
import itertools
import json
import math
import statistics
from collections.abc import Callable, Iterator

import pytest

from .traffic import ANYWHERE, due, path, result, traffic

U64 = (1 << 64) - 1
# The path of web-client --for 20 --sessions 20 --seed 5: how many objects, and its digest.
COUNT = 3930
GOLDEN = "6bede276a60c96766d8be2ce50907c2df9451046b606b0e575ac8cade04a0a75"


# --- random numbers: a second implementation, from the published definitions -----------------------------------------


def splitmix64(state: int) -> tuple[int, int]:
    state = (state + 0x9E3779B97F4A7C15) & U64
    z = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & U64
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & U64
    return state, z ^ (z >> 31)


def uniforms(seed: int, who: int, kind: int) -> Iterator[float]:
    """xoshiro256** filled by splitmix64, as numbers in (0, 1]."""
    state = splitmix64(seed)[1] ^ who
    state = splitmix64(state)[1] ^ kind
    s = []
    for _ in range(4):
        state, z = splitmix64(state)
        s.append(z)

    def rotate(x: int, k: int) -> int:
        return ((x << k) | (x >> (64 - k))) & U64

    while True:
        yield ((rotate(s[1] * 5 & U64, 7) * 9 & U64) >> 11) / 2**53 + 2**-53
        t = s[1] << 17 & U64
        s[2] ^= s[0]
        s[3] ^= s[1]
        s[1] ^= s[2]
        s[0] ^= s[3]
        s[2] ^= t
        s[3] = rotate(s[3], 45)


def kolmogorov(values: list[float], distribution: Callable[[float], float]) -> float:
    """sqrt(n) times the largest distance of the two distributions: 1.63 is exceeded once in a hundred."""
    n = len(values)
    return math.sqrt(n) * max(
        max(abs(distribution(x) - i / n), abs(distribution(x) - (i + 1) / n)) for i, x in enumerate(sorted(values))
    )


def test_constant_path_is_exact() -> None:
    times = due("--rate", "6.6M", "--size", "1000", "--for", "20")
    assert len(times) == 6.6e6 * 20 / 8000
    assert all(abs(t - n * 8000 / 6.6e6) < 2e-9 for n, t in enumerate(times))
    assert due("--rtp", "--for", "1") == [n / 50 for n in range(50)]


@pytest.mark.parametrize(("period", "duty"), [(0.05, 0.5), (0.2, 0.5), (1, 0.25), (0.0123, 0.7)])
def test_square_wave_is_on_and_off_and_keeps_its_rate(period: float, duty: float) -> None:
    periods = 200
    options = ("--rate", "6.6M", "--size", "1000", "--for", f"{periods * period:.6f}")
    times = due(*options, "--square", str(period), "--duty", str(duty))
    assert times[0] == 0
    assert all((t % period) < duty * period + 1e-8 or period - t % period < 1e-8 for t in times)
    assert len(times) == pytest.approx(6.6e6 / 8000 * duty * period * periods, abs=1)  # though 20.6 a period at 50 ms
    each = [sum(1 for t in times if int(t / period + 1e-7) == n) for n in range(periods)]
    assert max(each) - min(each) <= 1


def test_poisson_gaps_are_exponential() -> None:
    times = due("--rate", "8M", "--size", "1000", "--for", "40", "--poisson", "--seed", "3")
    gaps = [b - a for a, b in itertools.pairwise([0, *times])]
    assert len(gaps) > 39000
    assert statistics.fmean(gaps) == pytest.approx(1e-3, rel=0.01)
    assert statistics.variance(gaps) == pytest.approx(1e-6, rel=0.03)
    assert kolmogorov(gaps, lambda x: 1 - math.exp(-x * 1000)) < 1.63
    model = uniforms(3, 0, 0)
    assert all(abs(gap + math.log(next(model)) * 1e-3) < 2e-9 for gap in gaps)


def test_sizes_are_pareto() -> None:
    sizes = [o["bytes"] for o in path("--for", "30", "--sessions", "100", "--seed", "7")]
    assert len(sizes) > 25000
    assert min(sizes) == 2000  # the mean of 12 kB, shape 1.2
    shape = 1 / statistics.fmean(math.log(size / 2000) for size in sizes)  # maximum likelihood
    assert shape == pytest.approx(1.2, rel=0.02)
    assert kolmogorov([size + 0.0 for size in sizes], lambda x: 1 - (2000 / max(x, 2000)) ** 1.2) < 1.63


def test_cut_sizes_have_the_mean_that_was_asked() -> None:
    sizes = [o["bytes"] for o in path("--for", "30", "--sessions", "200", "--mean", "9k", "--max", "200k")]
    assert len(sizes) > 50000 and max(sizes) <= 200000
    assert statistics.fmean(sizes) == pytest.approx(9000, rel=0.02)
    options = ("--min", "1k", "--max", "50k", "--shape", "1")
    sizes = [o["bytes"] for o in path("--for", "30", "--sessions", "200", *options)]
    assert min(sizes) == 1000 and max(sizes) <= 50000
    assert kolmogorov([s + 0.0 for s in sizes], lambda x: (1 - 1000 / x) / (1 - 1000 / 50000)) < 1.63


def test_pages_are_as_in_the_paper() -> None:
    objects = path("--for", "60", "--sessions", "50", "--seed", "2")
    assert [o["due"] for o in objects] == sorted(o["due"] for o in objects)
    page_gaps: list[float] = []
    object_gaps: list[float] = []
    for session in range(50):
        mine = [o for o in objects if o["session"] == session]
        assert [o["page"] for o in mine] == [n // 10 for n in range(len(mine))]
        page_gaps.append(mine[0]["due"])
        for n, (a, b) in enumerate(itertools.pairwise(mine), 1):
            (object_gaps if n % 10 else page_gaps).append(b["due"] - a["due"])
    assert len(page_gaps) > 2500
    assert statistics.fmean(page_gaps) == pytest.approx(1, rel=0.05)
    assert statistics.stdev(page_gaps) == pytest.approx(1, rel=0.07)
    assert statistics.fmean(object_gaps) == pytest.approx(1e-3, rel=0.02)
    assert kolmogorov(object_gaps, lambda x: 1 - math.exp(-x * 1000)) < 1.63


def test_path_is_that_of_a_second_implementation() -> None:
    objects = path("--for", "40", "--sessions", "5", "--seed", "11")
    for session in range(5):
        sizes, pages, gaps = (uniforms(11, session, kind) for kind in range(3))
        now = 0.0
        for n, o in enumerate(o for o in objects if o["session"] == session):
            now += -math.log(next(gaps)) * 1e-3 if n % 10 else -math.log(next(pages))
            assert o["due"] == pytest.approx(now, abs=1e-6)  # each gap is rounded to a nanosecond
            size = 2000 * next(sizes) ** (-1 / 1.2)
            assert abs(o["bytes"] - size) <= 0.5 + size * 1e-12


def test_same_seed_same_path_to_the_byte() -> None:
    options = ("web-client", *ANYWHERE, "--dry-run", "--for", "20", "--sessions", "20")
    one, two, other = (traffic(*options, "--seed", seed).stdout for seed in ("5", "5", "6"))
    assert one == two != other
    # Another compiler, machine or C library must not change it: experiments are compared by their path.
    objects = json.loads(one)["objects"]
    words = " ".join(f"{o['due']:.9f} {o['bytes']}" for o in objects)
    assert len(objects) == COUNT and hashlib.sha256(words.encode()).hexdigest() == GOLDEN
    more = path("--for", "20", "--sessions", "21", "--seed", "5")
    assert [o for o in more if o["session"] < 20] == objects  # a session more changes no other


def test_files_of_given_sizes() -> None:
    options = ("--bytes", "3k,30k,3M", "--every", "0.7", "--count", "5")
    objects = result("fetch", *ANYWHERE, *options, "--dry-run")["objects"]
    assert [o["bytes"] for o in objects] == [3000, 30000, 3000000, 3000, 30000]
    assert [o["due"] for o in objects] == pytest.approx([0, 0.7, 1.4, 2.1, 2.8])
