# SPDX-License-Identifier: GPL-2.0-only
"""LEDBAT++, a peer of the labs: its law against a model in floating point, written from the draft's section 4; and Apple's."""

import math
import random
from collections import deque
from collections.abc import Iterator
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.cdata import Ffi, Laws

MOST = 2**31 - 1  # ssthresh of a new connection
START, AVOID, SLOW, RAMP = range(4)
EPSILON = 1e-4  # packets: the law's unit is 1/720720, and each decrease rounds by one


class Law:
    def __init__(self, ffi: Ffi, law: Laws, apple: bool = False, window: int = 2, now: int = 0) -> None:
        self.law, self.state = law, ffi.new("struct ledbatpp *")
        law.ledbatpp_begin(self.state, apple, now)
        self.state.window, self.state.ssthresh = window, MOST

    @property
    def window(self) -> float:
        return self.state.window + self.state.fraction / 720720

    @property
    def queue(self) -> int:
        return self.law.ledbatpp_queue_us(self.state)

    def sample(self, rtt: int, now: int = 0) -> None:
        self.law.ledbatpp_sample(self.state, rtt, now)

    def ack(self, acked: int, rtt: int, now: int, grows: bool = True) -> None:
        self.sample(rtt, now)
        self.law.ledbatpp_ack(self.state, acked, grows, rtt, now)

    def loss(self) -> None:
        """And what recovery makes of it."""
        self.state.window = self.law.ledbatpp_loss(self.state)

    def timeout(self) -> None:
        self.law.ledbatpp_loss(self.state)
        self.law.ledbatpp_timeout(self.state)
        self.state.window = 1


class Draft:
    """Section 4, with the filters of RFC 6817. Times in s."""

    TARGET = 0.060

    def __init__(self) -> None:
        self.w, self.ssthresh, self.last = 2.0, math.inf, deque[float](maxlen=4)
        self.minutes, self.minute = deque([math.inf], maxlen=10), 0.0
        self.initial, self.acked, self.frozen_until, self.entered, self.next = True, 0, -1.0, math.nan, math.inf

    @property
    def base(self) -> float:
        return min(self.minutes)

    @property
    def delay(self) -> float:
        return min(self.last) - self.base

    @property
    def gain(self) -> float:
        return 1 / min(16, math.ceil(round(2 * self.TARGET / self.base, 9)))

    def sample(self, rtt: float, now: float) -> None:
        self.last.append(rtt)
        if now - self.minute >= 60 - 1e-9:
            self.minute = now
            self.minutes.append(math.inf)
        self.minutes[-1] = min(self.minutes[-1], rtt)

    def above(self, target: float) -> bool:
        return self.delay > target + 1e-9

    def slow_start_is_over(self) -> bool:
        """4.1: only the first one by the delay."""
        return self.w >= self.ssthresh - EPSILON or (self.initial and self.above(self.TARGET * 3 / 4))

    def per_round(self, now: float) -> None:
        """4.3"""
        if not self.above(self.TARGET):
            self.w += self.gain
        else:
            self.w = max(2.0, self.w + max(self.gain - self.w * (self.delay / self.TARGET - 1), -self.w / 2))
            self.ssthresh = min(self.ssthresh, math.floor(self.w + EPSILON))

    def left(self, rtt: float, now: float) -> None:
        """Slow start was; 4.4"""
        self.next = now + 2 * rtt if self.initial else now + 9 * (now - self.entered)
        self.initial = False

    def ack(self, acked: int, rtt: float, now: float) -> None:
        self.sample(rtt, now)
        self.step(acked, rtt, now)

    def step(self, acked: int, rtt: float, now: float) -> None:
        if now >= self.next - 1e-9:
            self.ssthresh, self.next = math.floor(self.w + EPSILON), math.inf
            self.entered, self.frozen_until, self.w, self.acked = now, now + 2 * rtt, 2.0, 0
        if now < self.frozen_until - 1e-9:
            return
        if not self.slow_start_is_over():
            self.w = min(self.w + acked * self.gain, self.ssthresh)
            return
        if self.next == math.inf:
            self.left(rtt, now)
            self.acked, self.ssthresh = 0, min(self.ssthresh, math.floor(self.w + EPSILON))
        self.acked += acked
        if self.acked >= math.floor(self.w + EPSILON):
            self.acked %= math.floor(self.w + EPSILON)
            self.per_round(now)


class Apple(Draft):
    """What tcp_ledbat.c does otherwise."""

    TARGET = 0.040

    def slow_start_is_over(self) -> bool:
        return super().slow_start_is_over() or self.above(self.TARGET)

    def per_round(self, now: float) -> None:
        if not self.above(self.TARGET):
            self.w += 1
        else:
            self.w = max(2.0, self.w - min(self.delay / self.TARGET - 1, 0.5) * self.w)
            self.ssthresh, self.next = min(self.ssthresh, math.floor(self.w + EPSILON)), now + 30

    def left(self, rtt: float, now: float) -> None:
        short, initial = self.w < self.ssthresh, self.initial
        super().left(rtt, now)
        if short and not initial:
            self.next = now + 18 * (now - self.entered)


def path(seed: int, base: int) -> Iterator[tuple[int, int]]:
    """RTTs in us, whole ms, and ms between ACKs: a queue that comes and goes, over some minutes."""
    rng, queue, goal = random.Random(seed), 0.0, 0.0
    for number in range(1500):
        if number % 40 == 0:
            goal = rng.choice([0, 20_000, 38_000, 46_000, 62_000, 75_000, 140_000])
        queue += (goal - queue) / 8
        yield (base + round(queue / 1000) + rng.randrange(2)) * 1000, rng.choice([1, 10, 100, 400])


@pytest.mark.parametrize(("apple", "model"), [(False, Draft), (True, Apple)])
@settings(max_examples=50)
@given(st.integers(0, 2**32), st.integers(3, 300))
def test_every_ack_as_the_model(ffi: Ffi, law: Laws, apple: bool, model: type[Draft], seed: int, base: int) -> None:
    ours, draft, rng, now = Law(ffi, law, apple), model(), random.Random(seed), 0
    for rtt, gap in path(seed, base):
        now, acked = now + gap, rng.randrange(1, 4)
        ours.ack(acked, rtt, now)
        draft.ack(acked, rtt / 1e6, now / 1e3)
        assert ours.window == pytest.approx(draft.w, abs=EPSILON)


# --- delays ----------------------------------------------------------------------------------------------------------


@given(st.integers(1, 2_000_000), st.booleans())
def test_the_gain(ffi: Ffi, law: Laws, base: int, apple: bool) -> None:
    """1/F, F = min(16, ceil(2 T / base)); Apple's with its own T."""
    ours = Law(ffi, law, apple)
    ours.sample(base)
    assert law.ledbatpp_divisor(ours.state) == min(16, -(-2 * (40_000 if apple else 60_000) // base))


def test_without_a_sample_the_gain_is_the_least(ffi: Ffi, law: Laws) -> None:
    ours = Law(ffi, law)
    assert (law.ledbatpp_divisor(ours.state), ours.queue) == (16, 0)


@given(st.lists(st.tuples(st.integers(1, 10**6), st.integers(0, 50_000)), min_size=1, max_size=60), st.integers(0, 2**32 - 1))
def test_base_and_current_are_minima(ffi: Ffi, law: Laws, samples: list[tuple[int, int]], begin: int) -> None:
    """Of ten minutes' minima, and of the last four, wherever the clock stands."""
    ours, now, minutes, rolled = Law(ffi, law, now=begin), 0, deque[list[int]]([[]], maxlen=10), 0
    for rtt, gap in samples:
        now += gap
        if now - rolled >= 60_000:
            rolled = now
            minutes.append([])
        minutes[-1].append(rtt)
        ours.sample(rtt, (begin + now) % 2**32)
    base = min(min(minute) for minute in minutes if minute)
    current = min(rtt for rtt, _ in samples[-4:])
    assert law.ledbatpp_base_us(ours.state) == base
    assert ours.queue == max(0, current - base)


def test_a_base_is_kept_for_ten_minutes(ffi: Ffi, law: Laws) -> None:
    ours = Law(ffi, law)
    ours.sample(20_000, 59_000)
    for second in range(60, 1200):
        ours.sample(50_000, second * 1000)
        assert law.ledbatpp_base_us(ours.state) == (20_000 if second < 600 else 50_000)


# --- slow start and slowdowns ----------------------------------------------------------------------------------------


def rounds(ours: Law, now: int, rtt: int, count: int = 1) -> int:
    """So many round trips, an ACK for each packet of their windows, evenly; the time."""
    for _ in range(count):
        window = ours.state.window
        for number in range(window):
            ours.ack(1, rtt * 1000, now + rtt * number // window)
        now += rtt
    return now


def started(ours: Law, base: int = 60) -> int:
    """Out of the first slow start by the delay; the time."""
    now = rounds(ours, 0, base, 8)
    assert ours.state.phase == START
    while ours.state.phase == START:
        ours.ack(1, (base + (31 if ours.state.apple else 46)) * 1000, now)
    return now


@pytest.mark.parametrize(("apple", "limit"), [(False, 45), (True, 30)])
def test_the_first_slow_start_ends_above_three_quarters_of_the_target(ffi: Ffi, law: Laws, apple: bool, limit: int) -> None:
    ours = Law(ffi, law, apple)
    now = rounds(ours, 0, 60, 4)
    for _ in range(9):
        ours.ack(1, (60 + limit) * 1000, now)
    assert ours.state.phase == START
    for _ in range(4):
        ours.ack(1, (61 + limit) * 1000, now)
    assert (ours.state.phase, ours.state.ssthresh) == (AVOID, ours.state.window)


def test_a_slowdown(ffi: Ffi, law: Laws) -> None:
    """Two RTT after slow start; 2 packets for two RTT; slow start, whatever the delay is; the next one nine times as long
    after that as it has taken."""
    ours = Law(ffi, law)
    left = started(ours)
    window, rtt = ours.state.window, 106
    ours.ack(1, 60_000, left + 2 * rtt - 1)
    assert ours.state.phase == AVOID and ours.state.window == window
    began = left + 2 * rtt
    ours.ack(1, 80_000, began)
    assert (ours.state.phase, ours.state.window, ours.state.ssthresh) == (SLOW, 2, window)
    ours.ack(1, 80_000, began + 2 * 80 - 1)
    assert (ours.state.phase, ours.state.window) == (SLOW, 2)
    now = began + 2 * 80
    ours.ack(1, 130_000, now)
    assert ours.state.phase == RAMP
    while ours.state.phase == RAMP:
        now += 50
        ours.ack(2, 130_000, now)
    assert ours.state.window >= window - 1 and ours.state.due_ms == now + 9 * (now - began)
    before = ours.state.window
    ours.ack(1, 60_000, ours.state.due_ms - 1)
    assert ours.state.phase == AVOID
    ours.ack(1, 60_000, ours.state.due_ms)
    assert ours.state.phase == SLOW and ours.state.ssthresh in (before, before + 1)


def test_a_slowdown_of_apples_gives_way_to_the_delay(ffi: Ffi, law: Laws) -> None:
    """Below ssthresh the next is eighteen times as long after; and thirty seconds after any decrease."""
    ours = Law(ffi, law, True)
    now = began = started(ours) + 2 * 91
    ours.ack(1, 60_000, now)
    assert ours.state.phase == SLOW
    now += 2 * 60
    for _ in range(3):
        ours.ack(1, 60_000, now)
    assert ours.state.phase == RAMP
    for _ in range(4):
        now += 10
        ours.ack(1, 101_000, now)
    assert ours.state.phase == AVOID and ours.state.due_ms == now + 18 * (now - began)
    for _ in range(ours.state.window):
        ours.ack(1, 101_000, now)
    assert ours.state.due_ms == now + 30_000


def test_what_does_not_limit_the_flow_does_not_grow(ffi: Ffi, law: Laws) -> None:
    """It still falls."""
    for window, queue, grows in ((2, 0, False), (50, 0, False), (50, 70, True)):
        ours = Law(ffi, law, window=window)
        if window > 2:
            ours.state.ssthresh = window
        ours.sample(60_000)
        for _ in range(4 + 3 * window):
            ours.ack(1, (60 + queue) * 1000, 0, grows=False)
        assert (ours.window < window) == grows and ours.window <= window


# --- loss ------------------------------------------------------------------------------------------------------------


@given(st.integers(0, 2**24), st.booleans())
def test_a_loss_takes_half(ffi: Ffi, law: Laws, window: int, apple: bool) -> None:
    ours = Law(ffi, law, apple, window)
    assert law.ledbatpp_loss(ours.state) == max(2, window // 2)


@pytest.mark.parametrize(("apple", "left"), [(False, 40), (True, 2)])
def test_a_loss_in_a_slowdown(ffi: Ffi, law: Laws, apple: bool, left: int) -> None:
    ours = Law(ffi, law, apple, window=80)
    ours.state.ssthresh = 80
    ours.ack(1, 60_000, 0)
    ours.ack(1, 60_000, 120)
    assert (ours.state.phase, ours.state.window) == (SLOW, 2)
    assert law.ledbatpp_loss(ours.state) == left


def test_a_loss_ends_the_first_slow_start(ffi: Ffi, law: Laws) -> None:
    ours = Law(ffi, law, window=80)
    rounds(ours, 0, 60)
    ours.loss()
    ours.ack(1, 60_000, 1000)
    assert ours.state.phase == AVOID and ours.state.due_ms == 1000 + 120


@pytest.mark.parametrize("apple", [False, True])
def test_a_timeout(ffi: Ffi, law: Laws, apple: bool) -> None:
    """Slow start to half; for Apple's it is the first one again, which a delay ends."""
    ours = Law(ffi, law, apple, window=80)
    ours.state.ssthresh = 80
    ours.ack(1, 60_000, 0)
    ours.timeout()
    assert ours.state.ssthresh == 40
    now = rounds(ours, 0, 60, 1)
    assert ours.state.phase == (START if apple else AVOID) and ours.state.window == 2
    for _ in range(8):
        ours.ack(1, 95_000, now)
    assert ours.state.phase == AVOID and (ours.state.window > 4) == (not apple)


@given(st.lists(st.tuples(st.integers(0, 4000), st.integers(0, 2**32 - 1), st.integers(0, 2**32 - 1), st.integers(0, 9)), max_size=80),
       st.integers(0, 2**31 - 1), st.booleans())  # fmt: skip
def test_anything(ffi: Ffi, law: Laws, acks: list[tuple[int, int, int, int]], window: int, apple: bool) -> None:
    """At least two packets, and never more than slow start's growth."""
    ours = Law(ffi, law, apple, window)
    for acked, rtt, now, event in acks:
        before = ours.state.window
        if event == 0:
            ours.loss()
        elif event == 1:
            ours.timeout()
        else:
            ours.ack(acked, rtt, now)
            assert 2 <= ours.state.window <= max(before + acked + 1, 2)


def test_the_constants(c: SimpleNamespace) -> None:
    assert (c.LEDBATPP_TARGET_US, c.LEDBATPP_APPLE_TARGET_US, c.LEDBATPP_GAIN_MOST) == (60_000, 40_000, 16)
    assert (c.LEDBATPP_MINUTES, c.LEDBATPP_SAMPLES, c.LEDBATPP_WAIT_RTTS, c.LEDBATPP_SLOW_RTTS, c.LEDBATPP_APART) == (
        10,
        4,
        2,
        2,
        9,
    )
    assert all(c.LEDBATPP_ONE % divisor == 0 for divisor in range(1, 17))
