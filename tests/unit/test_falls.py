# SPDX-License-Identifier: GPL-2.0-only
"""The noise of a path for `le`: how far the delays of a round fall, averaged (include/law/falls.h)."""

import random
from collections.abc import Callable, Iterable
from itertools import accumulate
from typing import TypeAlias

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.cdata import Ffi, Laws

MOST = 0xFFFF
FIRST = 16

delays = st.one_of(st.integers(0, 30_000), st.integers(0, 2**23), st.just(2**23))


class Rounds:
    def __init__(self, ffi: Ffi, law: Laws, nxt: int = 0) -> None:
        self.law, self.state = law, ffi.new("struct noise *")
        law.falls_init(self.state, nxt)

    def round(self, delays_us: Iterable[int]) -> int:
        """A round of these samples; us: the noise after it."""
        for delay in delays_us:
            self.law.falls_put(self.state, delay)
        self.law.falls_learn(self.state)
        noise_us: int = self.law.noise_us(self.state)
        return noise_us


MakeRounds: TypeAlias = Callable[..., Rounds]  # takes the parameters of Rounds


@pytest.fixture(scope="module")
def rounds(ffi: Ffi, law: Laws) -> MakeRounds:
    return lambda *args: Rounds(ffi, law, *args)


def model(noise: int, learned: int, samples: list[int]) -> int:
    """The header's words in its units: delays of 16 us, noise of 4 us. @learned: rounds before this one."""
    kept = [min(d >> 4, MOST) for d in samples]
    fall = max(most - now for most, now in zip(accumulate(kept, max), kept, strict=True))
    new = min(fall * 5, MOST)
    weight = learned + 1 if learned < FIRST else 16 if new > noise else 8
    return noise + (new - noise) // weight if new >= noise else noise - (noise - new) // weight


@given(st.lists(st.lists(delays, max_size=12), max_size=60))
def test_falls_are_averaged(rounds: MakeRounds, lives: list[list[int]]) -> None:
    ours, noise, learned = rounds(), 0, 0
    for samples in lives:
        if len(samples) >= 4:
            noise, learned = model(noise, learned, samples), learned + 1
        assert ours.round(samples) == noise << 2 <= MOST << 2


def test_a_queue_that_fills_is_no_noise(rounds: MakeRounds) -> None:
    """A foreground begins: the delay rises through each round, and is not lower in the next one."""
    ours = rounds()
    for i in range(20):
        assert ours.round(range(i * 5_000, (i + 1) * 5_000, 500)) == 0


def test_it_falls_within_a_round_only(rounds: MakeRounds) -> None:
    ours = rounds()
    ours.round([0, 20_000, 40_000, 60_000])
    assert ours.round([0, 0, 0, 0]) == 0, "the fall between two rounds is the queue's"


def test_the_first_rounds_have_the_same_weight(rounds: MakeRounds) -> None:
    ours = rounds()
    assert ours.round([8_000, 0, 0, 0]) == 10_000, "five quarters of the first fall"
    for _ in range(7):
        ours.round([0, 0, 0, 0])
    assert abs(ours.round([8_000, 0, 0, 0]) - 2 * 10_000 / 9) < 30
    for _ in range(7):
        ours.round([0, 0, 0, 0])
    before = 2 * 10_000 / 16
    assert abs(ours.round([8_000, 0, 0, 0]) - (before + (10_000 - before) / 16)) < 60, "the 17th weighs a sixteenth"


def test_a_round_of_few_samples_says_nothing_and_leaves_nothing(rounds: MakeRounds) -> None:
    ours = rounds()
    assert ours.round([200_000, 0, 0]) == 0
    assert ours.round([8_000] * 4) == 0, "the round before is forgotten"
    assert ours.round([8_000, 8_000, 8_000, 0]) == 5_000, "... and was not one of the first"


def test_jitter_is_known_after_a_few_rounds(rounds: MakeRounds) -> None:
    """+- 4 ms in each round of 6 samples: near 5.5 ms, and 3/2 of it above the mean delay from the fourth round on."""
    for seed in range(50):
        rng = random.Random(seed)
        ours = rounds()
        seen = [ours.round([rng.randrange(8_000) for _ in range(6)]) for _ in range(200)]
        assert min(seen[3:20]) > 4_000 * 2 / 3 and 5_000 < sum(seen[20:]) / 180 < 6_000


def test_a_new_flow_has_none(rounds: MakeRounds) -> None:
    ours = rounds(7)
    assert ours.state.end == 7 and ours.state.flat == 0 and ours.state.samples == 0
    assert ours.round([]) == 0
