# SPDX-License-Identifier: GPL-2.0-only
"""A path that stands still is silent (include/law/silence.h)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.cdata import Ffi, Laws, Struct

u32 = st.one_of(st.integers(0, 2**32 - 1), st.integers(0, 400_000))
packets = st.integers(0, 0xFFFF)  # us: what law/spacing.h can say
delays = st.one_of(st.integers(0, 400_000), st.integers(0, 2**23))


@pytest.fixture
def silence(ffi: Ffi, law: Laws) -> Struct:
    state = ffi.new("struct silence *")
    law.silence_init(state)
    return state


@given(u32, packets)
def test_eight_milliseconds_and_three_packets(law: Laws, since: int, packet: int) -> None:
    assert law.silence_was(since, packet) == (since >= 8_000 and since >= 3 * packet)


@given(u32, packets)
def test_a_delayed_ack_is_a_silence_on_a_slow_path_as_well(law: Laws, since: int, packet: int) -> None:
    """Three packets of 13 ms are 40 ms, the shortest of delayed ACKs: it may be one, though others may have left."""
    assert law.silence_delays(since, packet) == (since >= 8_000 and since >= 3 * min(packet, 10_000))
    assert law.silence_delays(40_000, packet)
    assert not law.silence_was(since, packet) or law.silence_delays(since, packet)


@given(st.lists(st.tuples(st.sampled_from(["take", "take", "turn"]), u32, delays, delays, st.booleans()), max_size=40))
def test_the_longest_of_this_round_and_the_one_before(ffi: Ffi, law: Laws, steps: list[tuple[str, int, int, int, bool]]) -> None:
    """As much of a silence as the delay has risen by, in units of 16 us; by three quarters at least, or of pairs apart."""
    state = ffi.new("struct silence *")
    law.silence_init(state)
    now = before = 0
    for what, since, delay, was, apart in steps:
        if what == "turn":
            law.silence_turn(state)
            now, before = 0, now
        else:
            law.silence_take(state, since, delay, was, apart)
            rise = max(0, delay - was)
            if apart or rise >= since - since // 4:
                now = max(now, min(min(since, rise) >> 4, 0xFFFF))
        assert law.silence_stood_us(state) == max(now, before) << 4


def test_a_stall_is_heard(law: Laws, silence: Struct) -> None:
    """200 ms, and the delay rises from 10 to 210 ms."""
    law.silence_take(silence, 201_000, 210_000, 10_000, False)
    assert 199_000 < law.silence_stood_us(silence) <= 200_000
    law.silence_turn(silence)
    assert law.silence_stood_us(silence), "packets of the round before are on the way yet"
    law.silence_turn(silence)
    assert law.silence_stood_us(silence) == 0


def test_a_pause_of_our_own_is_none(law: Laws, silence: Struct) -> None:
    """A burst for each round trip: 30 ms without an ACK, and others have put 17 ms into the queue meanwhile."""
    law.silence_take(silence, 30_000, 24_000, 7_000, False)
    assert law.silence_stood_us(silence) == 0
    law.silence_take(silence, 30_000, 24_000, 7_000, True)
    assert law.silence_stood_us(silence) // 16 == 17_000 // 16, "of pairs apart nobody can tell"


def test_a_sender_that_was_idle_is_no_stall(law: Laws, silence: Struct) -> None:
    law.silence_take(silence, 2_000_000, 10_000, 10_000, True)
    law.silence_take(silence, 2_000_000, 0, 10_000, True)
    assert law.silence_stood_us(silence) == 0
