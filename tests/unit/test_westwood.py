# SPDX-License-Identifier: GPL-2.0-only
"""Westwood's answer to a loss (paper 4.1), and the delivered packets that check it."""
from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

UNKNOWN = 2**32 - 1

windows = st.one_of(st.integers(0, 200), st.integers(0, 2**32 - 1))
stamps = st.one_of(st.integers(0, 2**32 - 1), st.integers(2**32 - 10**6, 2**32 - 1))


class Rate:
    """A flow whose every ACK covers packets of 1000 bytes, with `window` of them in flight."""

    def __init__(self, ffi, law, delivered=0, now=0, una=0, window=10):
        self.law, self.state = law, ffi.new("struct westwood *")
        self.delivered, self.now, self.una, self.window = delivered, now, una, window
        law.westwood_restart(self.state, self.nxt, delivered, now)

    @property
    def nxt(self):
        return (self.una + 1000 * self.window) % 2**32

    def ack(self, packets, after_us, delivered=None):
        self.delivered = (self.delivered + (packets if delivered is None else delivered)) % 2**32
        self.now = (self.now + after_us) % 2**32
        self.una = (self.una + 1000 * packets) % 2**32
        self.law.westwood_ack(self.state, self.una, self.nxt, self.delivered, self.now)

    def pipe(self, base):
        return self.law.westwood_delivered(self.state, base)


@given(windows, windows, windows, st.booleans(), st.booleans())
def test_bounds(law, cwnd, pipe, delivered, slow_start, marked):
    """Never above the window before (2 at the least), never below reno's half but where the path says so."""
    to = law.westwood_ssthresh(cwnd, pipe, delivered, slow_start, marked)
    assert 2 <= to <= max(cwnd, 2)
    assert to <= max(pipe, 2)
    if marked:
        assert to <= max(cwnd // 2, 2)
    if pipe >= cwnd // 2 and not slow_start:
        assert to >= cwnd // 2
    if not slow_start and not marked:
        assert to == max(2, min(cwnd, pipe, max(delivered, min(cwnd // 2, pipe))))


def test_a_random_loss_takes_nothing(law):
    assert law.westwood_ssthresh(63, 63, UNKNOWN, False, False) == 63
    assert law.westwood_ssthresh(63, 62, 62, False, False) == 62


def test_a_full_buffer_takes_half(law):
    """RTT = 2 RTT_min, as reno."""
    assert law.westwood_ssthresh(126, 63, UNKNOWN, False, False) == 63


def test_a_policer_is_no_random_loss(law):
    """No queue, but a third of what was sent arrives: half, then half again, as reno."""
    assert law.westwood_ssthresh(90, 90, 30, False, False) == 45
    assert law.westwood_ssthresh(45, 45, 30, False, False) == 30
    assert law.westwood_ssthresh(30, 30, 30, False, False) == 30


def test_out_of_slow_start_the_path_decides(law):
    """252 were sent in the last RTT, 63 per RTT_min arrive."""
    assert law.westwood_ssthresh(252, 126, 63, True, False) == 63
    assert law.westwood_ssthresh(252, 126, 0, True, False) == 2


def test_a_mark_is_no_chance(law):
    assert law.westwood_ssthresh(63, 63, UNKNOWN, False, True) == 31
    assert law.westwood_ssthresh(63, 20, UNKNOWN, False, True) == 20


@given(stamps, stamps, stamps, st.integers(1_000, 1_000_000), st.integers(2, 200), st.integers(0, 100), st.integers(1, 5),
       st.integers(0, 1_000_000))
def test_a_steady_window_is_measured(ffi, law, delivered, now, una, rtt, window, idle, rounds, less):
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


def test_what_is_lost_is_not_delivered(ffi, law):
    """30 of 90 packets arrive in each round trip."""
    rate = Rate(ffi, law, window=90)
    for _ in range(300):
        rate.ack(3, 3_000, delivered=1)
    assert 30 <= rate.pipe(90_000) <= 34


def test_a_round_in_which_a_loss_is_repaired_is_longer(ffi, law):
    rate = Rate(ffi, law, window=20)
    rate.ack(20, 50_000)
    rate.ack(1, 1_000)
    rate.ack(21, 99_000, delivered=40)
    assert rate.pipe(50_000) in range(20, 24)


def test_no_round_says_nothing(ffi, law):
    rate = Rate(ffi, law)
    assert rate.pipe(50_000) == UNKNOWN
    rate.ack(10, 50_000)
    assert rate.pipe(50_000) == UNKNOWN, "all of it was sent before the beginning"
    rate.ack(1, 5_000)
    assert rate.pipe(50_000) == 11 * 50 // 55 + 2
    assert rate.pipe(0) == UNKNOWN


def test_idle_begins_anew(ffi, law):
    rate = Rate(ffi, law)
    for _ in range(30):
        rate.ack(1, 5_000)
    assert rate.pipe(50_000) != UNKNOWN
    law.westwood_restart(rate.state, rate.nxt, rate.delivered, rate.now)
    assert rate.pipe(50_000) == UNKNOWN


@given(st.lists(st.tuples(windows, stamps, stamps), max_size=30), stamps)
def test_anything(ffi, law, acks, base):
    rate = Rate(ffi, law)
    for packets, after, delivered in acks:
        rate.ack(packets, after, delivered)
        assert 0 <= rate.pipe(base) <= UNKNOWN
