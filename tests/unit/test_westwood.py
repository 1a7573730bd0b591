# SPDX-License-Identifier: GPL-2.0-only
"""Westwood's answer to a loss (paper 4.1), and the delivered packets that check it."""
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

UNKNOWN = 2**32 - 1

windows = st.one_of(st.integers(0, 200), st.integers(0, 2**32 - 1))
stamps = st.one_of(st.integers(0, 2**32 - 1), st.integers(2**32 - 10**6, 2**32 - 1))


class Rate:
    def __init__(self, ffi, law, delivered=0, now=0):
        self.law, self.state = law, ffi.new("struct westwood *")
        self.delivered, self.now = delivered, now
        law.westwood_restart(self.state, delivered, now)

    def ack(self, packets, after_us, rtt):
        self.delivered = (self.delivered + packets) % 2**32
        self.now = (self.now + after_us) % 2**32
        self.law.westwood_ack(self.state, self.delivered, self.now, rtt)

    def pipe(self, base, rtt):
        return self.law.westwood_delivered(self.state, self.delivered, self.now, base, rtt)


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


@given(stamps, stamps, st.integers(1_000, 1_000_000), st.integers(1, 500), st.integers(2, 50), st.integers(1, 8),
       st.integers(0, 1_000_000))
def test_a_steady_rate_is_measured(ffi, law, delivered, now, rtt, window, acks, rounds, less):
    """`window` packets per RTT, in `acks` ACKs each: what is delivered per RTT_min, to what an ACK covers."""
    base = max(1, rtt - less)
    rate = Rate(ffi, law, delivered, now)
    step = max(1, rtt // acks)
    for i in range((rounds + 2) * acks):
        rate.ack(window, step, rtt)
    got = rate.pipe(base, rtt)
    exact = Fraction(window * base, step)
    assert got != UNKNOWN
    assert abs(got - exact) <= 1
    age = (rate.now - rate.state.from_us) % 2**32
    assert rtt <= age <= 2 * rtt + 2 * step, "one to two round trips"


@given(st.integers(1, 1_000_000), st.integers(0, 1_000_000), st.integers(0, 1_000_000))
def test_less_than_a_round_trip_says_nothing(ffi, law, rtt, elapsed, base):
    rate = Rate(ffi, law)
    rate.delivered, rate.now = 100, elapsed
    got = rate.pipe(base, rtt)
    if elapsed < rtt or not base:
        assert got == UNKNOWN
    else:
        assert got == 100 * base // elapsed


def test_idle_begins_anew(ffi, law):
    rate = Rate(ffi, law)
    for _ in range(10):
        rate.ack(10, 10_000, 50_000)
    law.westwood_restart(rate.state, rate.delivered, rate.now)
    assert rate.pipe(50_000, 50_000) == UNKNOWN


@given(st.lists(st.tuples(windows, stamps, stamps), max_size=30), stamps, stamps)
def test_anything(ffi, law, acks, base, rtt):
    rate = Rate(ffi, law)
    for packets, after, each in acks:
        rate.ack(packets, after, each)
        assert 0 <= rate.pipe(base, rtt) <= UNKNOWN


@pytest.mark.parametrize("delivered, packets", [(2**32 - 3, 10), (0, 10)])
def test_the_count_wraps(ffi, law, delivered, packets):
    rate = Rate(ffi, law, delivered, 2**32 - 20_000)
    rate.delivered, rate.now = (delivered + packets) % 2**32, 30_000
    assert rate.pipe(50_000, 50_000) == packets
