# SPDX-License-Identifier: GPL-2.0-only
"""gentle_start against RFC 9406, section 4.2, with rounds counted in sequence numbers that never wrap."""
import random

from hypothesis import given
from hypothesis import strategies as st

MIN_RTT_THRESH, MAX_RTT_THRESH, MIN_RTT_DIVISOR, N_RTT_SAMPLE = 4_000, 16_000, 8, 8
INFINITY = float("inf")

isns = st.one_of(st.integers(0, 2**32 - 1), st.integers(2**32 - 100_000, 2**32 - 1))


class Rfc9406:
    """A round ends with the first ACK for something that was sent after its beginning."""

    def __init__(self):
        self.window_end = None
        self.last_min = self.current_min = INFINITY
        self.samples = 0

    def ack(self, rtt, una, nxt):
        """How far above the limit of section 4.2 the round's RTT is; None while the RFC does not ask."""
        if self.window_end is None or una > self.window_end:
            self.window_end = nxt
            self.last_min, self.current_min, self.samples = self.current_min, INFINITY, 0
        self.current_min = min(self.current_min, rtt)
        self.samples += 1
        if self.samples < N_RTT_SAMPLE or self.last_min == INFINITY:
            return None
        thresh = max(MIN_RTT_THRESH, min(self.last_min / MIN_RTT_DIVISOR, MAX_RTT_THRESH))
        return self.current_min - (self.last_min + thresh)


class Law:
    def __init__(self, ffi, law):
        self.law, self.state = law, ffi.new("struct gentle_start *")
        law.gentle_start_init(self.state)

    def ack(self, rtt, una, nxt):
        return self.law.gentle_start_ack(self.state, rtt, una % 2**32, nxt % 2**32)


def slow_start(isn, rtts_of_round, per_round, mss=1448):
    """(round, rtt, una, nxt) of each ACK while the window doubles: every ACK covers one packet and releases two."""
    una, nxt, packets = isn, isn + per_round * mss, per_round
    for i, rtt_of in enumerate(rtts_of_round):
        for _ in range(packets):
            una += mss
            nxt += 2 * mss
            yield i, rtt_of(), una, nxt
        packets = min(packets * 2, 64) if i else packets * 2
        nxt = min(nxt, una + packets * mss)


@given(isns, st.lists(st.tuples(st.one_of(st.integers(1, 2**23), st.integers(20_000, 60_000)), st.integers(0, 5),
                                st.integers(0, 10)), max_size=120))
def test_rfc(ffi, law, isn, acks):
    model, ours = Rfc9406(), Law(ffi, law)
    una, nxt = isn, isn + 10_000
    for rtt, acked, sent in acks:
        una = min(una + acked * 1000, nxt)
        nxt += sent * 1000
        above = model.ack(rtt, una, nxt)
        left = ours.ack(rtt, una, nxt)
        if above is None:
            assert not left
        elif above >= 0:
            assert left
        elif above <= -1:  # us: the division by 8 is rounded down
            assert not left


@given(isns, st.integers(1, 2_000_000), st.integers(1, 64), st.integers(0, 2**32 - 1))
def test_jitter_below_the_threshold_never_ends_it(ffi, law, isn, base, window, seed):
    rng = random.Random(seed)
    ours = Law(ffi, law)
    for _, rtt, una, nxt in slow_start(isn, [lambda: base + rng.randrange(MIN_RTT_THRESH)] * 12, window):
        assert not ours.ack(rtt, una, nxt)


@given(isns, st.integers(1_000, 2_000_000), st.integers(8, 64), st.integers(1, 6), st.integers(0, 100_000))
def test_a_rise_above_the_limit_ends_it_within_two_rounds(ffi, law, isn, base, window, rises_in, more):
    rise = max(MIN_RTT_THRESH, min(base // 8, MAX_RTT_THRESH)) + more
    ours = Law(ffi, law)
    rounds = [lambda: base] * rises_in + [lambda: base + rise] * 3
    ends = []  # of the round in which the delay rises, and of the next
    for i, rtt, una, nxt in slow_start(isn, rounds, window):
        if i >= rises_in and (not ends or una > ends[-1] and len(ends) < 2):
            ends.append(nxt)
        if ours.ack(rtt, una, nxt):
            break
    else:
        raise AssertionError("never left")
    assert i >= rises_in and una <= ends[-1]


def test_fewer_than_eight_samples_say_nothing(ffi, law):
    ours = Law(ffi, law)
    una = 0
    for i in range(20):
        for _ in range(7):
            una += 1
            assert not ours.ack(10_000 + 50_000 * i, una, (i + 1) * 7)


def test_the_first_round_says_nothing(ffi, law):
    ours = Law(ffi, law)
    for i in range(1000):
        assert not ours.ack(1 + i * 1000, i, 10**6)


def test_constants_are_the_rfcs(c):
    assert (c.GENTLE_RISE_MIN_US, c.GENTLE_RISE_MAX_US, 2**c.GENTLE_RISE_SHIFT, c.GENTLE_SAMPLES) == \
        (MIN_RTT_THRESH, MAX_RTT_THRESH, MIN_RTT_DIVISOR, N_RTT_SAMPLE)
