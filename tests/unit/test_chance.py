# SPDX-License-Identifier: GPL-2.0-only
"""Is a loss chance? Waits and trials (include/law/chance.h), against a model of the header's description and on three kinds of
path."""

import random
from collections.abc import Callable
from types import SimpleNamespace
from typing import TypeAlias

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.cdata import Ffi, Laws

u32 = st.one_of(st.integers(0, 2**32 - 1), st.integers(0, 3000))
windows = st.one_of(st.integers(0, 20), st.integers(0, 2**32 - 1))


class Judge:
    def __init__(self, ffi: Ffi, law: Laws, delivered: int = 0, most: int = 16) -> None:
        self.law, self.state, self.most = law, ffi.new("struct chance *"), most
        self.delivered = delivered
        law.chance_init(self.state, delivered)

    def lose(self, interval: int = 100, window: int = 50) -> bool:
        self.delivered = (self.delivered + interval) % 2**32
        return self.law.chance_lost(self.state, self.delivered, window, self.most)

    def see(self, queue_milli: int = 5000, others: int = 0) -> None:
        self.law.chance_seen(self.state, queue_milli, others)

    @property
    def waits(self) -> bool:
        return self.state.wait > 0

    @property
    def slow(self) -> bool:
        return self.law.chance_slow(self.state)


MakeJudge: TypeAlias = Callable[..., Judge]  # takes the parameters of Judge


@pytest.fixture(scope="module")
def judge(ffi: Ffi, law: Laws) -> MakeJudge:
    return lambda *args, **named: Judge(ffi, law, *args, **named)


class Model:
    """The header's description as a program."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.begin(4)

    def begin(self, losses: int) -> None:
        self.wait, self.next = losses, min(losses * 4, 252)
        self.low = self.high = self.peak = self.tried = self.misses = 0

    def lose(self, interval: int, window: int) -> bool:
        interval = min(interval, 2**24)
        if window < 8 or self.wait:
            self.misses += 1
        if window < 8:
            return False
        if self.wait:
            self.low = ewma(self.low, interval, 4) if self.low else interval
            self.high = self.low
            self.wait -= 1
            self.misses = self.misses if self.wait else 0
            return False
        self.high = ewma(self.high, interval, 8)
        self.tried += 1
        self.misses = 0 if window > self.peak else self.misses + 1
        self.peak = max(self.peak, window)
        if self.high >= self.low // 2 and not 0 < self.most <= self.misses:
            return True
        self.begin(4 if self.tried >= 64 else self.next)
        return False


def ewma(v: int, sample: int, n: int) -> int:
    return v + (sample - v) // n if sample >= v else v - (v - sample) // n


@given(u32, st.integers(0, 255), st.lists(st.tuples(u32, windows, st.one_of(st.none(), u32), st.integers(0, 9)), max_size=300))
def test_the_headers_words(judge: MakeJudge, start: int, most: int, losses: list[tuple[int, int, int | None, int]]) -> None:
    """For any number of packets delivered, and after any number of wraps of that count."""
    ours, model = judge(start, most=most), Model(most)
    for interval, window, seen, others in losses:
        if seen is not None:
            ours.see(seen, others)
            model.misses = 0 if seen >= 2000 or others >= 8 else model.misses
        assert ours.lose(interval, window) == model.lose(interval, window)
        s = ours.state
        assert (s.wait, s.next, s.low, s.high, s.peak) == (model.wait, model.next, model.low, model.high, model.peak)
        assert (s.tried, s.misses) == (min(model.tried, 64), min(model.misses, 255))
        assert ours.slow == (model.wait > 0 and model.misses >= 2)


def life(ours: Judge, losses: int, interval: Callable[[bool], int]) -> int:
    """Returns how many losses are forgiven; interval(forgiven) packets lie between two."""
    chance, count = False, 0
    for _ in range(losses):
        chance = ours.lose(interval(chance))
        count += chance
    return count


def test_the_first_losses_are_congestion(judge: MakeJudge) -> None:
    ours = judge()
    assert [ours.lose() for _ in range(6)] == [False] * 4 + [True] * 2


def test_random_losses_are_forgiven(judge: MakeJudge) -> None:
    """1 % at random: the window does not matter, so trials go on. Early reductions show that nothing holds the window."""
    rng, ours = random.Random(4), judge()
    forgiven = 0
    for _ in range(3000):
        ours.see()
        forgiven += ours.lose(1 + int(rng.expovariate(0.01)))
    assert forgiven > 0.9 * 3000


def test_a_policer_is_not(judge: MakeJudge) -> None:
    """Where losses are forgiven they come three times as often. A trial lasts some 8 losses, and there are ever fewer."""
    ours = judge(most=0)
    forgiven = life(ours, 1000, lambda chance: 30 if chance else 100)
    assert forgiven < 0.08 * 1000
    assert ours.state.next == 252


def test_trials_become_rarer_and_never_end(judge: MakeJudge) -> None:
    ours = judge(most=0)
    begins, waited = [], True
    for i in range(1500):
        ours.lose(100 if ours.waits else 10)
        if waited and not ours.waits:
            begins.append(i)
        waited = ours.waits
    gaps = [b - a for a, b in zip(begins, begins[1:])]
    assert [16 < gaps[0] < 30, 64 < gaps[1] < 80] == [True, True]
    assert all(252 < gap < 270 for gap in gaps[2:]) and len(gaps) > 5


def test_after_a_long_trial_the_next_wait_is_short(judge: MakeJudge) -> None:
    ours = judge(most=0)
    for _ in range(4):
        ours.lose(100)
    for _ in range(63):
        assert ours.lose(100)
    while not ours.waits:
        ours.lose(1)
    assert ours.state.wait == 4


def test_a_window_that_is_held_ends_a_trial(judge: MakeJudge) -> None:
    """This many losses in a row at no larger window: they are chance, or a full buffer of a few packets."""
    for most in (1, 16, 255):
        ours = judge(most=most)
        for _ in range(4):
            ours.lose()
        assert [ours.lose(window=50) for _ in range(most + 1)] == [True] * most + [False]


def test_an_early_reduction_says_that_it_is_not_held(judge: MakeJudge) -> None:
    for queue, forgiven in ((1999, False), (2000, True)):
        ours = judge(most=4)
        for _ in range(4 + 4):
            ours.lose()
        ours.see(queue)
        assert ours.lose() == forgiven


def test_growth_is_slow_after_losses_without_a_queue(judge: MakeJudge) -> None:
    """Two losses in a row during a wait, at any window; packets in a buffer of eight packets are a queue."""
    for window in (2, 50):
        ours = judge()
        assert not ours.slow, "nothing was lost yet"
        ours.lose(window=window)
        assert not ours.slow
        ours.lose(window=window)
        assert ours.slow
        ours.see(1999, 7)
        assert ours.slow
        ours.see(0, 8)
        assert not ours.slow


def test_a_loss_that_was_none_does_not_slow_it(judge: MakeJudge) -> None:
    j = judge()
    j.law.chance_undone(j.state)
    j.lose()
    j.law.chance_undone(j.state)
    j.lose()
    assert not j.slow
    j.lose()
    assert j.slow


def test_a_trial_is_not_slow(judge: MakeJudge) -> None:
    ours = judge()
    for _ in range(4):
        ours.lose()
    assert not ours.waits and not ours.slow and ours.state.misses == 0


def test_with_0_it_never_ends_by_that(judge: MakeJudge) -> None:
    ours = judge(most=0)
    assert life(ours, 1004, lambda chance: 100) == 1000
    assert ours.state.misses == 255, "it does not go round"


def test_small_windows_are_not_asked(judge: MakeJudge, c: SimpleNamespace) -> None:
    ours = judge()
    for _ in range(50):
        assert not ours.lose(window=c.CHANCE_WINDOW - 1)
    assert ours.state.wait == 4
    for _ in range(4):
        ours.lose(window=c.CHANCE_WINDOW)
    assert ours.lose(window=c.CHANCE_WINDOW)
