# SPDX-License-Identifier: GPL-2.0-only
"""What a receiver's yields tell of the noise of its path (point 15 of law/rx_window.h)."""

from __future__ import annotations

import pytest

from tests.unit.cdata import Ffi, Laws, Struct
from tests.unit.test_rx import BASE_US, FREE, JUDGE, MSS, SMALL

THRESHOLD_US = 4000
MOST_US = 6000  # RX_NOISE_MOST_US
UNIT_US = 64


@pytest.fixture
def ack(ffi: Ffi) -> Struct:
    return ffi.new("struct rx_ack *", {"mss": MSS, "unit": 1, "rtt_us": BASE_US, "fresh": True})


@pytest.fixture
def x(ffi: Ffi, law: Laws, ack: Struct) -> Struct:
    """A download whose window has a few packets: what it learned of the noise does not count."""
    x = ffi.new("struct rx *")
    law.rx_init(x, ack)
    x.avoiding, x.packets, x.law.back_q8 = True, 5, 5 << 8
    return x


def judge(law: Laws, x: Struct, ack: Struct, queue_us: int) -> None:
    """Ends a judgement with two blocks that have this queue."""
    x.law.stage, x.law.count, x.law.cut_q, x.passed = JUDGE, 1, 0xFFFF, True
    x.law.q = queue_us // 16
    law.rx_act(x, ack, law.rx_decide(x, ack), 0)
    assert x.law.stage == SMALL and x.packets == 1


def counts_us(law: Laws, x: Struct) -> int:
    """The noise that counts, by the threshold of a flight."""
    stage, x.law.stage = x.law.stage, FREE
    threshold_us = int(law.rx_threshold(x))
    x.law.stage = stage
    return threshold_us * 2 // 3 if threshold_us > THRESHOLD_US else 0


@pytest.mark.parametrize(("queue_us", "noise_us"), [(4800, 4800), (5600, 5600), (6400, MOST_US), (15_000, MOST_US), (20_000, MOST_US)])
def test_the_queue_of_a_yield_counts_as_noise(law: Laws, x: Struct, ack: Struct, queue_us: int, noise_us: int) -> None:
    judge(law, x, ack, queue_us)
    assert noise_us - UNIT_US <= counts_us(law, x) <= noise_us
    assert law.rx_threshold(x) == (x.told * UNIT_US)  # SMALL


def test_a_yield_tells_no_less_than_the_one_before(law: Laws, x: Struct, ack: Struct) -> None:
    judge(law, x, ack, MOST_US)
    told = x.told
    x.packets, x.law.small_buffer, x.law.most = 5, True, 12_000 // 16  # of which a quarter is noise at the most
    judge(law, x, ack, 4800)
    assert x.told == told == MOST_US // UNIT_US


@pytest.mark.parametrize(("queue_us", "stays"), [(16_000, True), (16_016, False)])
def test_a_block_with_a_long_delay_is_a_queue(law: Laws, x: Struct, ack: Struct, queue_us: int, stays: bool) -> None:
    judge(law, x, ack, 6400)
    x.law.stage, x.law.count, x.law.q = FREE, 0, queue_us // 16
    law.rx_decide(x, ack)
    assert bool(x.told) == stays


@pytest.mark.parametrize(("delay_us", "stage", "stays"), [(16_500, SMALL, True), (16_501, SMALL, False), (16_501, FREE, True)])
def test_a_long_delay_among_pairs_is_a_queue(law: Laws, x: Struct, ack: Struct, delay_us: int, stage: int, stays: bool) -> None:
    """One packet suffices, also one that is not judged; half a tick is not counted. In a flight it may be the flow's own burst."""
    for sent_ms in range(0, 3000, 50):
        ack.now_us = ack.long_us = 1_000_000 + sent_ms * 1000 + BASE_US // 2
        ack.tsval = 7000 + sent_ms
        law.rx_measure(x, ack, 1, False)
    assert x.clock.tick_ns == 1_000_000 and x.queue_us == 0
    judge(law, x, ack, 6400)
    x.law.stage, x.muted = stage, True
    ack.now_us, ack.long_us, ack.tsval = ack.now_us + 50_000 + delay_us, ack.long_us + 50_000 + delay_us, ack.tsval + 50
    law.rx_measure(x, ack, 1, False)
    assert x.queue_us == delay_us and bool(x.told) == stays


@pytest.mark.parametrize(("stage", "packets", "fades"), [(FREE, 10, True), (FREE, 9, False), (SMALL, 10, False), (JUDGE, 10, False)])
def test_it_fades_where_the_window_shows_the_noise(law: Laws, x: Struct, ack: Struct, stage: int, packets: int, fades: bool) -> None:
    x.told, x.law.stage, x.packets = 93, stage, packets
    law.rx_law_round(x, ack)
    assert x.told == (92 if fades else 93)
