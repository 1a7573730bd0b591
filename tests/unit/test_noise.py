# SPDX-License-Identifier: GPL-2.0-only
"""The noise of a path: the spread of the delays of a round, averaged (include/law/noise.h)."""

import random
from collections.abc import Callable, Iterable
from typing import TypeAlias

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.cdata import Ffi, Laws

UNKNOWN = 2**32 - 1
MOST_US = 0xFFFF << 2

delays = st.one_of(st.integers(0, 30_000), st.integers(0, 2**23), st.just(2**23))
sequences = st.one_of(st.integers(0, 2**32 - 1), st.integers(2**32 - 100_000, 2**32 - 1))


class Rounds:
    def __init__(self, ffi: Ffi, law: Laws, nxt: int = 0) -> None:
        self.law, self.state = law, ffi.new("struct noise *")
        law.noise_init(self.state, nxt)

    def round(self, delays_us: Iterable[int]) -> int:
        """A round of these samples; us: its smallest delay."""
        for delay in delays_us:
            self.law.noise_put(self.state, delay)
        return self.law.noise_learn(self.state)

    @property
    def us(self) -> int:
        return self.law.noise_us(self.state)


MakeRounds: TypeAlias = Callable[..., Rounds]  # takes the parameters of Rounds


@pytest.fixture(scope="module")
def rounds(ffi: Ffi, law: Laws) -> MakeRounds:
    return lambda *args: Rounds(ffi, law, *args)


def model(noise: int, samples: list[int]) -> int:
    """The header's words in its units: delays of 16 us, noise of 4 us."""
    kept = [min(d >> 4, 0xFFFF) for d in samples]
    spread = min((max(kept) - min(kept)) * 4, 0xFFFF)
    if spread > noise:
        return noise + (spread - noise) // 16
    return noise - (noise - spread) // 8


@given(st.lists(st.lists(delays, max_size=12), max_size=60))
def test_spreads_are_averaged(rounds: MakeRounds, lives: list[list[int]]) -> None:
    ours, noise = rounds(), 0
    for samples in lives:
        low = ours.round(samples)
        if len(samples) < 4:
            assert low == UNKNOWN
        else:
            noise = model(noise, samples)
            assert low == min(min(d >> 4, 0xFFFF) for d in samples) << 4
        assert ours.us == noise << 2 <= MOST_US


def test_a_round_of_few_samples_says_nothing_and_leaves_nothing(rounds: MakeRounds) -> None:
    ours = rounds()
    assert ours.round([0, 200_000, 0]) == UNKNOWN and ours.us == 0
    assert ours.round([8_000] * 4) == 8_000 and ours.us == 0, "the round before is forgotten"


def settled(ours: Rounds, spread_of: Callable[[int], list[int]], count: int = 400) -> float:
    seen = []
    for i in range(count):
        ours.round(spread_of(i))
        seen.append(ours.us)
    return sum(seen[count // 2 :]) / (count - count // 2)


def test_steady_jitter_is_the_noise(rounds: MakeRounds) -> None:
    """+- 4 ms in each round of 20 samples: 6 ms."""
    rng = random.Random(1)
    noise = settled(rounds(), lambda i: [rng.randrange(8_000) for _ in range(20)])
    assert 5_500 < noise < 7_500


def test_a_third_of_the_spreads_is_below_it(rounds: MakeRounds) -> None:
    """Spreads of 0 to 12 ms alike: it rises by 1/16 of what is above it, and falls by 1/8 of what is below."""
    rng = random.Random(2)
    noise = settled(rounds(), lambda i: [0, 0, 0, int(rng.uniform(0, 12_000))], 4000)
    assert 0.36 * 12_000 < noise < 0.46 * 12_000


def test_a_queue_that_comes_and_goes_is_little_noise(rounds: MakeRounds) -> None:
    """One round in twenty, in which a foreground fills a buffer of 100 ms."""
    noise = settled(rounds(), lambda i: [0, 30_000, 60_000, 100_000] if i % 20 == 0 else [0, 100, 200, 100])
    assert noise < 6_000


def test_it_is_forgotten_in_some_rounds(rounds: MakeRounds) -> None:
    ours = rounds()
    for _ in range(100):
        ours.round([0, 0, 0, 10_000])
    assert ours.us > 9_000
    for _ in range(20):
        ours.round([0, 0, 0, 0])
    assert ours.us < 1_000


@given(sequences, st.integers(1, 2**30), st.lists(st.floats(0, 1), min_size=1, max_size=40))
def test_a_round_ends_with_what_was_sent_after_its_beginning(
    ffi: Ffi, law: Laws, isn: int, window: int, parts: list[float]
) -> None:
    ours = Rounds(ffi, law, (isn + window) % 2**32)
    una, nxt, end = isn, isn + window, isn + window
    for part in parts:
        una += int((nxt - una) * part)
        nxt = una + window
        turned = law.noise_turn(ours.state, una % 2**32, nxt % 2**32)
        assert turned == (una > end)
        end = nxt if turned else end
        assert ours.state.end == end % 2**32


def test_a_new_flow_has_none(rounds: MakeRounds) -> None:
    ours = rounds(7)
    assert ours.us == 0 and ours.state.end == 7 and ours.state.flat == 0
    assert ours.round([]) == UNKNOWN
