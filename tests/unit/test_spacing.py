# SPDX-License-Identifier: GPL-2.0-only
"""The time of a packet at the bottleneck, from the time between ACKs (include/law/spacing.h)."""

import random
from collections.abc import Callable
from typing import TypeAlias

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.cdata import Ffi, Laws

u32 = st.one_of(st.integers(0, 2**32 - 1), st.integers(0, 200_000))
acks = st.lists(st.tuples(u32, st.one_of(st.integers(0, 4), st.integers(0, 2**32 - 1))), max_size=60)


class Ear:
    def __init__(self, ffi: Ffi, law: Laws, now: int = 0) -> None:
        self.law, self.state, self.now = law, ffi.new("struct spacing *"), now
        law.spacing_init(self.state, now)

    def hear(self, after_us: int, acked: int = 2) -> int:
        self.now = (self.now + after_us) % 2**32
        return self.law.spacing_heard(self.state, self.now, acked)

    @property
    def packet_us(self) -> int:
        return self.state.packet_us


MakeEar: TypeAlias = Callable[..., Ear]  # takes the parameters of Ear


@pytest.fixture(scope="module")
def ear(ffi: Ffi, law: Laws) -> MakeEar:
    return lambda now=0: Ear(ffi, law, now)


@given(u32, acks)
def test_the_smallest_of_the_larger_of_two(ear: MakeEar, start: int, steps: list[tuple[int, int]]) -> None:
    """On a clock that wraps; an ACK of less than two packets says nothing."""
    ours, spacings = ear(start), []
    for after, acked in steps:
        assert ours.hear(after, acked) == after
        if acked >= 2:
            spacings.append(min(after // acked, 0xFFFF))
        pairs = [max(a, b) for a, b in zip(spacings, spacings[1:]) if a]
        known = [p for p in pairs if p]
        assert ours.packet_us == (min(known) if known else 0)


def test_a_link_of_ten_megabits(ear: MakeEar) -> None:
    """1.2 ms a packet; now and then two ACKs come together, as they waited behind others' data on the way back."""
    rng, ours = random.Random(3), ear()
    for _ in range(200):
        if rng.random() < 0.1:
            ours.hear(4_750), ours.hear(50)
        else:
            ours.hear(2_400 + rng.randrange(0, 30))
    assert 1_200 <= ours.packet_us <= 1_215


def test_one_spacing_is_not_enough(ear: MakeEar) -> None:
    ours = ear()
    ours.hear(10)
    assert ours.packet_us == 0
    ours.hear(3_000)
    assert ours.packet_us == 1_500


@given(st.integers(0, 2**23), st.integers(0, 0xFFFF))
def test_ones_own_is_an_eighth_of_the_base_at_most(ear: MakeEar, base: int, packet: int) -> None:
    """Who has always had little of the link has seen the spacing of others' packets in between."""
    ours = ear()
    ours.state.packet_us = packet
    assert ours.law.spacing_own_us(ours.state, base) == min(packet, base // 8)


@given(st.integers(0, 2**23), st.integers(0, 0xFFFF))
def test_a_delay_in_packets(ear: MakeEar, delay: int, packet: int) -> None:
    ours = ear()
    ours.state.packet_us = packet
    assert ours.law.spacing_packets(ours.state, delay) == (delay // packet if packet else 0)
