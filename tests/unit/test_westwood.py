# SPDX-License-Identifier: GPL-2.0-only
"""Westwood's answer to a loss (paper 4.1), and the packets that the last round of slow start has delivered."""

from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from tests.unit.cdata import Ffi, Laws

UNKNOWN = 2**32 - 1

windows = st.one_of(st.integers(0, 200), st.integers(0, 2**32 - 1))
stamps = st.one_of(st.integers(0, 2**32 - 1), st.integers(2**32 - 10**6, 2**32 - 1))


class Rate:
    """A flow whose every ACK covers packets of 1000 bytes, with `window` of them in flight."""

    def __init__(self, ffi: Ffi, law: Laws, delivered: int = 0, now: int = 0, una: int = 0, window: int = 10) -> None:
        self.law, self.state = law, ffi.new("struct westwood *")
        self.delivered, self.now, self.una, self.window = delivered, now, una, window
        self.rounds = ffi.new("struct noise *")
        law.noise_init(self.rounds, self.nxt)
        law.westwood_restart(self.state, delivered, now)

    @property
    def nxt(self) -> int:
        return (self.una + 1000 * self.window) % 2**32

    def ack(self, packets: int, after_us: int, delivered: int | None = None) -> None:
        self.delivered = (self.delivered + (packets if delivered is None else delivered)) % 2**32
        self.now = (self.now + after_us) % 2**32
        self.una = (self.una + 1000 * packets) % 2**32
        if self.law.noise_turn(self.rounds, self.una, self.nxt):
            self.law.westwood_turn(self.state, self.delivered, self.now)

    def pipe(self, base: int) -> int:
        return self.law.westwood_delivered(self.state, base)


@given(windows, windows, windows, st.booleans())
def test_bounds(law: Laws, cwnd: int, pipe: int, delivered: int, chance: bool) -> None:
    """Never above the window before (2 at the least), and half of it at the most where it was no chance."""
    to = law.westwood_ssthresh(cwnd, pipe, delivered, chance)
    assert 2 <= to <= max(cwnd, 2)
    assert to == max(2, min(cwnd if chance else cwnd // 2, pipe, delivered))


def test_a_random_loss_takes_nothing(law: Laws) -> None:
    assert law.westwood_ssthresh(63, 63, UNKNOWN, True) == 63
    assert law.westwood_ssthresh(63, 62, UNKNOWN, True) == 62


def test_a_full_buffer_takes_half(law: Laws) -> None:
    """RTT = 2 RTT_min, as reno."""
    assert law.westwood_ssthresh(126, 63, UNKNOWN, True) == 63
    assert law.westwood_ssthresh(126, 63, UNKNOWN, False) == 63


def test_a_loss_that_is_not_chance_takes_at_least_half(law: Laws) -> None:
    """A policer, a mark: no queue tells of them."""
    assert law.westwood_ssthresh(63, 63, UNKNOWN, False) == 31
    assert law.westwood_ssthresh(63, 20, UNKNOWN, False) == 20


def test_out_of_slow_start_the_path_decides(law: Laws) -> None:
    """252 were sent in the last RTT, 63 per RTT_min arrive."""
    assert law.westwood_ssthresh(252, 126, 63, True) == 63
    assert law.westwood_ssthresh(252, 126, 0, True) == 2


@given(
    stamps,
    stamps,
    stamps,
    st.integers(1_000, 1_000_000),
    st.integers(2, 200),
    st.integers(0, 100),
    st.integers(1, 5),
    st.integers(0, 1_000_000),
)
def test_a_steady_window_is_measured(
    ffi: Ffi, law: Laws, delivered: int, now: int, una: int, rtt: int, window: int, idle: int, rounds: int, less: int
) -> None:
    """A window per round trip, its packets close together and then nothing (idle %): the window, and no less."""
    base = max(1, rtt - less)
    rate = Rate(ffi, law, delivered, now, una, window)
    gap = rtt * (100 - idle) // 100 // window
    for _ in range((rounds + 2) * window):
        first = rate.delivered == delivered or (rate.delivered - delivered) % window == 0
        rate.ack(1, rtt - gap * (window - 1) if first else gap)
    got = rate.pipe(base)
    exact = Fraction(window * base, rtt) + 2
    assert exact - 1 <= got <= exact * (1 + Fraction(2, window)) + 1


def test_what_is_lost_is_not_delivered(ffi: Ffi, law: Laws) -> None:
    """30 of 90 packets arrive in each round trip."""
    rate = Rate(ffi, law, window=90)
    for _ in range(300):
        rate.ack(3, 3_000, delivered=1)
    assert 30 <= rate.pipe(90_000) <= 34


def test_a_round_in_which_a_loss_is_repaired_is_longer(ffi: Ffi, law: Laws) -> None:
    rate = Rate(ffi, law, window=20)
    rate.ack(20, 50_000)
    rate.ack(1, 1_000)
    rate.ack(21, 99_000, delivered=40)
    assert rate.pipe(50_000) in range(20, 24)


def test_no_round_says_nothing(ffi: Ffi, law: Laws) -> None:
    rate = Rate(ffi, law)
    assert rate.pipe(50_000) == UNKNOWN
    rate.ack(10, 50_000)
    assert rate.pipe(50_000) == UNKNOWN, "all of it was sent before the beginning"
    rate.ack(1, 5_000)
    assert rate.pipe(50_000) == 11 * 50 // 55 + 2
    assert rate.pipe(0) == UNKNOWN


def test_idle_begins_anew(ffi: Ffi, law: Laws) -> None:
    rate = Rate(ffi, law)
    for _ in range(30):
        rate.ack(1, 5_000)
    assert rate.pipe(50_000) != UNKNOWN
    law.westwood_restart(rate.state, rate.delivered, rate.now)
    assert rate.pipe(50_000) == UNKNOWN


@given(st.lists(st.tuples(windows, stamps, stamps), max_size=30), stamps)
def test_anything(ffi: Ffi, law: Laws, acks: list[tuple[int, int, int]], base: int) -> None:
    rate = Rate(ffi, law)
    for packets, after, delivered in acks:
        rate.ack(packets, after, delivered)
        assert 0 <= rate.pipe(base) <= UNKNOWN
