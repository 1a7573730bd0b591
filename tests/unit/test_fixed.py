# SPDX-License-Identifier: GPL-2.0-only
"""Fixed-point helpers and the aged extreme, against unbounded integers and a list of everything that was put in."""

from fractions import Fraction
from types import SimpleNamespace

from hypothesis import given
from hypothesis import strategies as st

from tests.unit.cdata import Ffi, Laws

u32 = st.integers(0, 2**32 - 1)
s32 = st.integers(-(2**31), 2**31 - 1)


@given(u32, u32, st.integers(1, 2**32 - 1))
def test_ewma_stays_between_and_rounds_towards_the_old_value(law: Laws, v: int, sample: int, n: int) -> None:
    got = law.law_ewma(v, sample, n)
    assert min(v, sample) <= got <= max(v, sample)
    exact = v + Fraction(sample - v, n)
    assert abs(got - exact) < 1
    assert abs(got - v) <= abs(exact - v)


@given(st.lists(u32, min_size=1, max_size=100), st.integers(1, 64))
def test_ewma_error_does_not_add_up(law: Laws, samples: list[int], n: int) -> None:
    """Below n units of the fixed point, however long the sequence."""
    held, real = samples[0], float(samples[0])
    for sample in samples:
        held = law.law_ewma(held, sample, n)
        real = (1 - 1 / n) * real + sample / n
        assert abs(held - real) < n + 1e-3


@given(u32, st.integers(-(2**31) + 1, 2**31 - 1))
def test_after_on_the_circle(law: Laws, a: int, ahead: int) -> None:
    b = (a - ahead) % 2**32
    assert law.law_after(a, b) == (ahead > 0)


@given(u32, u32, u32)
def test_min_max_clamp(law: Laws, a: int, b: int, v: int) -> None:
    assert law.law_min(a, b) == min(a, b)
    assert law.law_max(a, b) == max(a, b)
    low, high = min(a, b), max(a, b)
    assert law.law_clamp(v, low, high) == min(max(v, low), high)


@given(st.lists(st.one_of(s32, st.just("turn")), max_size=40))
def test_aged(ffi: Ffi, law: Laws, c: SimpleNamespace, steps: list[int | str]) -> None:
    least, most = ffi.new("struct aged *"), ffi.new("struct aged *")
    law.aged_reset(least, c.AGED_NO_MIN)
    law.aged_reset(most, c.AGED_NO_MAX)
    halves: list[list[int]] = [[], []]
    for step in steps:
        if isinstance(step, str):
            law.aged_turn(least, c.AGED_NO_MIN)
            law.aged_turn(most, c.AGED_NO_MAX)
            halves = [halves[1], []]
        else:
            law.aged_put_min(least, step)
            law.aged_put_max(most, step)
            halves[1].append(step)
        assert law.aged_min(least) == min(halves[0] + halves[1], default=c.AGED_NO_MIN)
        assert law.aged_max(most) == max(halves[0] + halves[1], default=c.AGED_NO_MAX)


def test_the_slow_clock(c: SimpleNamespace) -> None:
    """A second of memory is a second: within 0.05 %."""
    assert abs(c.KIUS_PER_S * 2**c.KIUS_SHIFT / 1e6 - 1) < 5e-4
