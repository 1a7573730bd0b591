# SPDX-License-Identifier: GPL-2.0-only
"""LEDBAT++ at the receiver, a peer of the labs (rledbatpp.h): every ACK against a model in floating point, written from RFC 9840
and the draft of LEDBAT++; and at the end of the path of test_rx.py."""

import math
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.cdata import Ffi, Laws
from tests.unit.test_ledbatpp import AVOID, EPSILON, SLOW, Draft
from tests.unit.test_rx import BASE_US, LINK, MSS, WRAP, Path, step

START_TS = WRAP - 40_000  # ms: our clock, which wraps


@dataclass(frozen=True)
class Ack:
    """What the receiver knows when it sends one. Times in ms."""

    now: int
    rcv_nxt: int  # bytes, not wrapped
    echo: int  # our clock: the newest timestamp of ours that came back
    stamp: int = 0  # the newest packet's own timestamp
    fresh: bool = True
    hole: bool = False


class Receiver(Draft):
    """RFC 9840 around the draft's law. Times in s, windows in segments."""

    def __init__(self, first: Ack, handshake: float) -> None:
        super().__init__()
        self.minute, self.handshake = first.now / 1e3, handshake
        self.got, self.echo = first.rcv_nxt, first.echo
        self.round_from, self.round_at, self.flight = first.rcv_nxt, first.now, 0
        self.bytes, self.cut_at, self.holed = 0, math.inf, False
        self.behind: int | None = None  # the timestamp of what arrived behind a hole

    @property
    def delay(self) -> float:
        return super().delay if self.last else 0.0

    @property
    def gain(self) -> float:
        return super().gain if self.last else 1 / 16

    def rtt(self) -> float:
        return min(self.last) if self.last else self.handshake

    def arriving(self, ack: Ack) -> int:
        return max(self.flight, ack.rcv_nxt - self.round_from)

    def limits(self, ack: Ack) -> bool:
        return 2 * self.arriving(ack) + 2 * MSS >= math.floor(self.w * MSS + EPSILON)

    def was_lost(self, ack: Ack) -> bool:
        """4.3"""
        filled = self.behind is not None and ack.rcv_nxt > self.got
        lost = filled and self.behind is not None and ack.stamp > self.behind
        self.holed |= ack.hole
        if not ack.hole:
            self.behind = None
        elif self.behind is None or filled:
            self.behind = ack.stamp
        return lost

    def hears(self, ack: Ack) -> None:
        """4.2.1, and the round trip by the same timestamps."""
        if ack.fresh and ack.echo > self.echo:
            self.echo = ack.echo
            self.sample(max(1, ack.now - ack.echo) / 1e3, ack.now / 1e3)
        if ack.echo >= self.round_at and ack.rcv_nxt > self.got:
            self.flight = self.flight if self.holed else ack.rcv_nxt - self.round_from
            self.round_from, self.round_at, self.holed = ack.rcv_nxt, ack.now, ack.hole

    def halve(self, now: float) -> None:
        slow = now < self.frozen_until - 1e-9 or self.slow
        whole = self.ssthresh if slow else math.floor(self.w + EPSILON)
        self.ssthresh = max(2, whole // 2)
        self.w = min(math.floor(self.w + EPSILON), self.ssthresh)

    @property
    def slow(self) -> bool:
        return self.next == math.inf and not self.initial and self.w <= 2 and self.held

    held = False  # within a slowdown's two RTT, until the ACK that ends them

    def takes(self, ack: Ack) -> None:
        now, lost = ack.now / 1e3, self.was_lost(ack)
        self.hears(ack)
        if ack.echo > self.cut_at:
            self.cut_at = math.inf
        if lost and self.cut_at == math.inf:
            self.halve(now)
            self.cut_at = ack.now
        self.bytes = 0 if self.cut_at < math.inf else self.bytes + ack.rcv_nxt - self.got
        before, grows = self.w, self.limits(ack)
        self.step(self.bytes // MSS, self.rtt(), now)
        self.held = self.frozen_until > now + 1e-9
        self.bytes %= MSS
        if not grows:
            self.w = min(self.w, before)
        if self.w < before - EPSILON:
            self.cut_at = ack.now
        self.got = ack.rcv_nxt


class Law:
    def __init__(self, ffi: Ffi, law: Laws, first: Ack, handshake_ms: int = 50, unit: int = 1) -> None:
        self.law, self.state, self.ack = law, ffi.new("struct rledbatpp *"), ffi.new("struct rx_ack *")
        self.ack.mss, self.ack.unit, self.ack.rtt_us = MSS, unit, handshake_ms * 1000
        self.put(first)
        law.rledbatpp_begin(self.state, self.ack)

    def put(self, ack: Ack) -> None:
        a = self.ack
        a.now_us, a.long_us, a.our_ts = ack.now * 1000 % WRAP, ack.now * 1000, (START_TS + ack.now) % WRAP
        a.tsval, a.tsecr, a.rcv_nxt = (START_TS + ack.stamp) % WRAP, (START_TS + ack.echo) % WRAP, ack.rcv_nxt % WRAP
        a.fresh, a.hole = ack.fresh, ack.hole

    def takes(self, ack: Ack) -> None:
        self.put(ack)
        self.law.rledbatpp_step(self.state, self.ack)

    @property
    def window(self) -> float:
        return self.state.l.window + self.state.l.fraction / 720720

    @property
    def advertised(self) -> int:
        return int(self.law.rledbatpp_window(self.state, self.ack))


def download(seed: int, base: int) -> Iterator[Ack]:
    """ACKs of a download: a queue of some ms that comes and goes, pauses, late ACKs, and holes that a retransmission or a packet
    that was only late fills."""
    rng, queue, goal, now, got, echo, stamp, hole = random.Random(seed), 0.0, 0.0, 0, WRAP - 90_000, 0, 0, 0
    for number in range(1500):
        if number % 40 == 0:
            goal = rng.choice([0, 20, 46, 62, 75, 140])
        queue += (goal - queue) / 8
        now += rng.choice([1, 1, 10, 10, 100, 400]) if number % 200 < 190 else 20_000
        rtt = base + round(queue) + rng.randrange(2)
        echo, hole, stamp = max(echo, now - rtt), max(0, hole - 1), stamp + rng.randrange(3)
        began = rng.random() < 0.02 and not hole
        if began:
            hole = rng.randrange(1, 6)
        if hole and not began and rng.random() < 0.2:
            got += MSS  # one of two holes is filled
        if not hole:
            got += rng.choice([0, 700, MSS, 2 * MSS, 2 * MSS, 2 * MSS, 20 * MSS])
        late = rng.random() < 0.3
        yield Ack(now, got, echo, stamp - 5 * late, rng.random() < 0.9, hole > 0)


@settings(max_examples=40)
@given(st.integers(0, 2**32), st.integers(3, 300))
def test_every_ack_as_the_model(ffi: Ffi, law: Laws, seed: int, base: int) -> None:
    first = Ack(0, WRAP - 90_000, 0)
    ours, model = Law(ffi, law, first), Receiver(first, 0.050)
    for ack in download(seed, base):
        ours.takes(ack)
        model.takes(ack)
        assert ours.window == pytest.approx(model.w, abs=EPSILON)
        assert ours.advertised == pytest.approx(max(2, model.w) * MSS, abs=1)
        if any(1e-7 < -window % 1 < 2 * EPSILON for window in (ours.window, model.w)):
            return  # whole packets: which of two numbers it is, is a matter of rounding


# --- at the end of a path --------------------------------------------------------------------------------------------


class Peer(Path):
    STATE = "struct rledbatpp *"

    def answer(self, x: Any, ack: Any) -> int:
        if not x.started:
            self.law.rledbatpp_begin(x, ack)
        self.law.rledbatpp_step(x, ack)
        return int(self.law.rledbatpp_window(x, ack))


@pytest.fixture
def peer(ffi: Ffi, law: Laws) -> Callable[..., Peer]:
    return lambda **what: Peer(ffi, law, **what)


def queue_ms(at: Peer, second: float) -> float:
    """The queue that this window makes where the path is its own."""
    return (at.window_at(second) / (LINK / 8) - BASE_US) / 1000


def test_alone_it_holds_its_queue_at_the_target(peer: Callable[..., Peer]) -> None:
    """Nine times in ten; a slowdown leaves the link empty for two RTT."""
    alone = peer()
    alone.run(60)
    queues = [queue_ms(alone, second / 10) for second in range(300, 600)]
    assert 45 <= sorted(queues)[len(queues) // 2] <= 75
    assert 0.85 * LINK <= alone.mbit(20, 60) <= 0.98 * LINK
    assert min(window for _, window in alone.windows) == 2 * MSS
    slow = [at / 1e6 for at, window in alone.windows if window <= 2 * MSS and at > 5e6]
    gaps = [after - before for before, after in zip(slow, slow[1:], strict=False) if after - before > 1]
    assert gaps and all(2 <= gap <= 30 for gap in gaps)


@pytest.mark.parametrize(("queue_us", "yields"), [(30_000, False), (100_000, True)])
def test_it_yields_to_a_queue_above_its_target_only(peer: Callable[..., Peer], queue_us: float, yields: bool) -> None:
    beside = peer(others=step(20, 24, queue_us), buffer_us=400_000)
    beside.run(24)
    windows = [window for at, window in beside.windows if at > 23.5e6]
    assert (max(windows) <= 4 * MSS) == yields, max(windows) / MSS


def test_a_slow_sender_is_not_held(peer: Callable[..., Peer]) -> None:
    """Nor does its window run away."""
    slow = peer(limit=100_000)
    slow.run(40)
    assert slow.mbit(20, 40) >= 0.78
    assert max(window for at, window in slow.windows if at > 5e6) <= 6 * 100_000 * BASE_US // 1_000_000


# --- parts -----------------------------------------------------------------------------------------------------------


def going(ffi: Ffi, law: Laws, segments: int = 100, unit: int = 1) -> Law:
    """In avoidance, with one RTT of 50 ms that brought a window."""
    ours = Law(ffi, law, Ack(0, 0, 0), unit=unit)
    ours.takes(Ack(50, segments * MSS, 1))
    ours.state.l.window, ours.state.l.fraction, ours.state.l.ssthresh, ours.state.l.phase = segments, 0, segments, AVOID
    ours.state.l.due_ms, ours.state.l.acked, ours.state.flight = 10**6, 0, segments * MSS
    return ours


@pytest.mark.parametrize(("stamp", "lost"), [(9, False), (10, False), (11, True)])
def test_a_hole_that_a_later_packet_fills_was_a_loss(ffi: Ffi, law: Laws, stamp: int, lost: bool) -> None:
    """Of two packets behind the hole the first was sent at 10."""
    ours = going(ffi, law)
    ours.takes(Ack(60, 100 * MSS, 1, 10, hole=True))
    ours.takes(Ack(61, 100 * MSS, 1, 12, hole=True))
    ours.takes(Ack(62, 103 * MSS, 1, stamp))
    assert ours.state.l.window == (50 if lost else 100)


@pytest.mark.parametrize(("echo", "window"), [(60, 50), (61, 50), (62, 25)])
def test_one_decrease_in_an_rtt(ffi: Ffi, law: Laws, echo: int, window: int) -> None:
    """The first one was told at 61 ms. What answers a later ACK was sent in a later RTT, however little of it came."""
    ours = going(ffi, law)

    def lose(now: int, at: int, echo: int) -> None:
        ours.takes(Ack(now, at - MSS, echo, now, hole=True))
        ours.takes(Ack(now + 1, at, echo, now + 1))

    lose(60, 110 * MSS, 10)
    lose(110, 150 * MSS, echo)
    assert ours.state.l.window == window


def test_what_was_sent_before_a_decrease_is_no_round(ffi: Ffi, law: Laws) -> None:
    """100 segments come after the window was halved to 50; they are neither one round nor two."""
    ours = going(ffi, law)
    ours.takes(Ack(60, 100 * MSS, 1, 1, hole=True))
    ours.takes(Ack(61, 101 * MSS, 1, 2))
    for number in range(1, 101):
        ours.takes(Ack(61 + number // 2, (101 + number) * MSS, 11 + number // 2, 2 + number))
    assert (ours.window, ours.state.l.acked) == (50, 0)
    ours.takes(Ack(200, 231 * MSS, 150, 200))
    assert ours.state.l.acked == 30


@pytest.mark.parametrize(("hole", "grows"), [(False, False), (True, True)])
def test_a_round_with_a_hole_does_not_tell_the_rate(ffi: Ffi, law: Laws, hole: bool, grows: bool) -> None:
    """Half of the window came in order before it, and one segment in its round trip."""
    ours = going(ffi, law)
    ours.takes(Ack(60, 101 * MSS, 51, 1, hole=hole))
    ours.takes(Ack(120, 102 * MSS, 61, 1, hole=hole))
    ours.takes(Ack(121, 103 * MSS, 61, 1))
    ours.state.l.acked = 99
    ours.takes(Ack(122, 105 * MSS, 61, 1))
    assert (ours.window > 100) == grows


def test_an_rtt_is_of_the_first_packet_that_echoes(ffi: Ffi, law: Laws) -> None:
    """And of no packet that was acknowledged late."""
    ours = Law(ffi, law, Ack(100, 0, 90))
    for now, echo, fresh in ((150, 90, True), (170, 110, False), (181, 120, True), (199, 120, True), (240, 180, True)):
        ours.takes(Ack(now, now * MSS, echo, fresh=fresh))
    assert sorted(ours.state.l.samples_us)[:2] == [60_000, 61_000] and ours.state.l.samples_us[2] == WRAP - 1


@pytest.mark.parametrize(("now", "rtt_us"), [(100, 1000), (101, 1000), (9000, 2**23 // 1000 * 1000)])
def test_an_rtt_is_at_least_a_tick(ffi: Ffi, law: Laws, now: int, rtt_us: int) -> None:
    ours = Law(ffi, law, Ack(50, 0, 0))
    ours.takes(Ack(now, MSS, 100))
    assert ours.state.l.samples_us[0] == rtt_us


def test_before_an_rtt_that_of_the_handshake_counts(ffi: Ffi, law: Laws) -> None:
    ours = Law(ffi, law, Ack(0, 0, 0), handshake_ms=70)
    assert law.rledbatpp_rtt_us(ours.state, ours.ack) == 70_000
    for now, echo in ((40, 5), (90, 50)):
        ours.takes(Ack(now, now * MSS, echo))
    assert law.rledbatpp_rtt_us(ours.state, ours.ack) == 35_000


@given(st.integers(0, 2**24), st.integers(0, 720_719), st.integers(0, 14))
def test_what_is_advertised(ffi: Ffi, law: Laws, segments: int, fraction: int, scale: int) -> None:
    ours = Law(ffi, law, Ack(0, 0, 0), unit=1 << scale)
    ours.state.l.window, ours.state.l.fraction = segments, fraction
    bytes_ = min((segments * 720_720 + fraction) * MSS // 720_720, 2**30)
    assert ours.advertised == max(2 * MSS, bytes_ >> scale << scale)


def test_it_begins_with_two_packets_and_a_slowdown_has_two(ffi: Ffi, law: Laws) -> None:
    ours = Law(ffi, law, Ack(0, 0, 0))
    assert ours.advertised == 2 * MSS
    ours = going(ffi, law)
    ours.state.l.due_ms = 60
    ours.takes(Ack(60, 101 * MSS, 1))
    assert (ours.state.l.phase, ours.advertised) == (SLOW, 2 * MSS)


def test_a_slowdown_comes_after_71_minutes_too(ffi: Ffi, law: Laws) -> None:
    """Our clock in us has wrapped by then."""
    wrap_ms = WRAP // 1000
    ours = Law(ffi, law, Ack(wrap_ms - 10, 0, 0))
    ours.state.l.phase, ours.state.l.due_ms = AVOID, wrap_ms + 100
    ours.takes(Ack(wrap_ms + 99, MSS, 1))
    assert ours.state.l.phase == AVOID
    ours.takes(Ack(wrap_ms + 100, 2 * MSS, 1))
    assert ours.state.l.phase == SLOW


@given(st.lists(st.tuples(*[st.integers(0, WRAP - 1)] * 6, st.booleans(), st.booleans()), max_size=60), st.integers(1, 65_535))
def test_anything(ffi: Ffi, law: Laws, acks: list[tuple[Any, ...]], mss: int) -> None:
    x, a = ffi.new("struct rledbatpp *"), ffi.new("struct rx_ack *", {"mss": mss, "unit": 128, "rtt_us": 1})
    law.rledbatpp_begin(x, a)
    for a.long_us, a.our_ts, a.tsval, a.tsecr, a.rcv_nxt, a.left, a.fresh, a.hole in acks:
        law.rledbatpp_step(x, a)
        assert 2 * mss <= law.rledbatpp_window(x, a) <= 2**30


def test_the_constants(c: SimpleNamespace) -> None:
    assert (c.LEDBATPP_LEAST, c.RLEDBATPP_US_PER_MS) == (2, 1000)
