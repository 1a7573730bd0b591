# SPDX-License-Identifier: GPL-2.0-only
"""gentle_start: RFC 9406's limit on RTTs in a row, growth by half, and the queue that a start leaves on a path."""

import heapq
import random
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.cdata import Ffi, Laws

MIN_RTT_THRESH, MAX_RTT_THRESH, MIN_RTT_DIVISOR = 4_000, 16_000, 8
SAMPLES = 4
PER_ACK = 2  # delayed ACKs

rtts = st.one_of(st.integers(1, 2**23), st.integers(20_000, 60_000))


class Law:
    def __init__(self, ffi: Ffi, law: Laws) -> None:
        self.law, self.state = law, ffi.new("struct gentle_start *")
        law.gentle_start_init(self.state)

    def ack(self, rtt: int) -> bool:
        return self.law.gentle_start_ack(self.state, rtt)

    def counted(self, acked: int) -> int:
        return self.law.gentle_start_counted(self.state, acked)

    def held(self, acked: int, window: int, rtt: int, waits: bool = True) -> bool:
        return self.law.gentle_start_held(self.state, acked, window, rtt, waits)


def rise(base: float) -> float:
    return max(MIN_RTT_THRESH, min(base / MIN_RTT_DIVISOR, MAX_RTT_THRESH))


@given(st.lists(rtts, max_size=60))
def test_four_in_a_row_above_the_rfcs_limit(ffi: Ffi, law: Laws, samples: list[int]) -> None:
    ours, base, high = Law(ffi, law), float("inf"), 0
    for rtt in samples:
        base = min(base, rtt)
        above = rtt - (base + rise(base))
        if -1 < above < 0:
            return  # us: the division by 8 is rounded down
        high = high + 1 if above >= 0 else 0
        left = ours.ack(rtt)
        assert left == (high >= SAMPLES)
        if left:
            return


counts = st.integers(0, 2**32 - 1)


@given(
    st.lists(
        st.tuples(counts, counts.map(lambda n: n or 1), st.sampled_from([0, 40_000, 44_999, 45_000]), st.booleans()), max_size=60
    )
)
def test_a_window_in_a_row_that_something_else_held(ffi: Ffi, law: Laws, acks: list[tuple[int, int, int, bool]]) -> None:
    ours, row = Law(ffi, law), 0
    law.gentle_start_limited(ours.state, 40_000)
    for acked, window, rtt, waits in acks:
        held = waits and rtt >= 40_000 + rise(40_000)
        row = min(row + acked, 0xFFFF) if held else 0
        assert ours.held(acked, window, rtt, waits) == (held and row >= min(window, 0xFFFF))


@pytest.mark.parametrize("between", ["nothing waits", "no delay", "the window is the limit"])
def test_one_ack_in_between(ffi: Ffi, law: Laws, between: str) -> None:
    ours = Law(ffi, law)
    law.gentle_start_limited(ours.state, 40_000)
    assert not any(ours.held(1, 10, 90_000) for _ in range(9))
    if between == "the window is the limit":
        law.gentle_start_limited(ours.state, 90_000)
    else:
        assert not ours.held(1, 10, 41_000 if between == "no delay" else 90_000, between == "no delay")
    assert [ours.held(1, 10, 90_000) for _ in range(10)] == [False] * 9 + [True]


@given(st.integers(1, 2_000_000), st.integers(0, 2**32 - 1))
def test_jitter_below_the_limit_never_ends_it(ffi: Ffi, law: Laws, base: int, seed: int) -> None:
    rng, ours = random.Random(seed), Law(ffi, law)
    assert not any(ours.ack(base + rng.randrange(MIN_RTT_THRESH)) for _ in range(500))


@given(st.integers(1, 2_000_000), st.lists(st.integers(0, SAMPLES - 1), max_size=40))
def test_a_burst_of_three_never_ends_it(ffi: Ffi, law: Laws, base: int, bursts: list[int]) -> None:
    ours = Law(ffi, law)
    assert not ours.ack(base)
    for burst in bursts:
        assert not any(ours.ack(base + 2 * MAX_RTT_THRESH) for _ in range(burst))
        assert not ours.ack(base)


@given(st.lists(st.integers(0, 2**31 - 1), max_size=40))
def test_half_of_all_packets_count(ffi: Ffi, law: Laws, acks: list[int]) -> None:
    """Exact to the packet, however many packets each ACK covers."""
    ours, counted = Law(ffi, law), 0
    for number in range(len(acks)):
        counted += ours.counted(acks[number])
        assert counted == sum(acks[: number + 1]) // 2


def start(ours: Law, bdp: int, begins: int = 4, rtt_ms: float = 50.0) -> tuple[int, float]:
    """A slow start alone on a path of bdp packets per base RTT, paced with twice its window per RTT as Linux does: the
    window with which it leaves, and the longest queue, in BDP."""
    service, window, in_flight, free, due, held, longest = rtt_ms / bdp, begins, 0, 0.0, 0.0, 0, 0.0
    smoothed, now = rtt_ms, 0.0
    flight: list[tuple[float, float]] = []
    while now < 100 * rtt_ms:
        while in_flight < window and due <= now:
            free = max(now, free) + service
            longest = max(longest, (free - now) / service - 1)
            heapq.heappush(flight, (free + rtt_ms - service, now))
            in_flight += 1
            due = max(due, now) + smoothed / (2 * window)
        if in_flight < window and due < flight[0][0]:
            now = due
            continue
        now, sent = heapq.heappop(flight)
        in_flight, held = in_flight - 1, held + 1
        if held == PER_ACK:
            held = 0
            smoothed += (now - sent - smoothed) / 8
            if ours.ack(round((now - sent) * 1000)):
                return window, longest / bdp
            window += ours.counted(PER_ACK)
    raise AssertionError("it never left")


@pytest.mark.parametrize("bdp", [20, 41, 83, 200, 1000, 4000])
def test_it_leaves_with_the_path_full_and_half_of_a_buffer_free(ffi: Ffi, law: Laws, bdp: int) -> None:
    window, longest = start(Law(ffi, law), bdp)
    assert window >= bdp and longest <= 0.5


@pytest.mark.parametrize("bdp", [20, 41, 83, 200, 1000])
def test_what_doubles_does_not(ffi: Ffi, law: Laws, bdp: int) -> None:
    """The model distinguishes the two: at the kernel's own pace the same exit comes with more in the queue."""

    class Doubling(Law):
        def counted(self, acked: int) -> int:
            return acked

    assert start(Doubling(ffi, law), bdp, begins=10)[1] > 0.6


def test_the_rise_is_the_rfcs(c: SimpleNamespace) -> None:
    assert (c.GENTLE_RISE_MIN_US, c.GENTLE_RISE_MAX_US, 2**c.GENTLE_RISE_SHIFT) == (
        MIN_RTT_THRESH,
        MAX_RTT_THRESH,
        MIN_RTT_DIVISOR,
    )
    assert (c.GENTLE_SAMPLES, c.GENTLE_WINDOW) == (SAMPLES, 4)
