# SPDX-License-Identifier: GPL-2.0-only
"""What a receiver learns of the jitter of its path from single packets (point 15 of law/rx_window.h)."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from tests.unit.cdata import Ffi, Laws, Struct
from tests.unit.test_rx import BASE_US, CUT, FREE, JUDGE, MSS, SMALL

MOST_US = 6000  # RX_NOISE_MOST_US
FIRST_US = 1_000_000


@pytest.fixture
def ack(ffi: Ffi) -> Struct:
    return ffi.new("struct rx_ack *", {"mss": MSS, "unit": 1, "rtt_us": BASE_US, "fresh": True})


@pytest.fixture
def x(ffi: Ffi, law: Laws, ack: Struct) -> Struct:
    """A download in SMALL, which knows the sender's clock and the empty path."""
    x = ffi.new("struct rx *")
    law.rx_init(x, ack)
    x.avoiding, x.packets, x.law.back_q8 = True, 1, 5 << 8
    ack.now_us = ack.long_us = FIRST_US
    come(law, x, ack, [0] * 60)
    assert x.clock.tick_ns == 1_000_000 and x.queue_us == 0
    x.law.stage, x.single_us, x.jitter_us = SMALL, 0xFFFFFFFF, 0
    return x


def come(law: Laws, x: Struct, ack: Struct, delays_us: Iterable[int]) -> None:
    """A packet each 50 ms; they are not judged."""
    for delay_us in delays_us:
        ack.tsval += 50
        ack.now_us = ack.long_us = FIRST_US + ack.tsval * 1000 + BASE_US // 2 + delay_us
        law.rx_measure(x, ack, 1, False)


def test_it_is_the_mean_difference_of_a_packet_from_the_one_before(law: Laws, x: Struct, ack: Struct) -> None:
    come(law, x, ack, [1000])
    assert x.jitter_us == 0  # nothing to compare it with
    come(law, x, ack, [3000])
    assert x.jitter_us == 2000 // 8
    come(law, x, ack, [3000 - 2000 * (number % 2 == 0) for number in range(200)])
    assert 1900 <= x.jitter_us <= 2000


@pytest.mark.parametrize("queue_us", [2000, 8000, 50_000])
def test_a_queue_that_stays_is_no_jitter(law: Laws, x: Struct, ack: Struct, queue_us: int) -> None:
    come(law, x, ack, [queue_us] * 100)
    assert x.jitter_us == 0


@pytest.mark.parametrize(
    ("stage", "muted", "next_us"), [(SMALL, True, 0), (FREE, False, 9000), (JUDGE, False, 9000), (CUT, False, 9000)]
)
def test_only_packets_that_come_alone_are_compared(
    law: Laws, x: Struct, ack: Struct, stage: int, muted: bool, next_us: int
) -> None:
    """Others wait for the flow's own: in its flights, and in those that a yield still awaits."""
    come(law, x, ack, [0])
    x.law.stage, x.muted = stage, muted
    come(law, x, ack, [40_000, 0, 20_000])
    assert x.jitter_us == 0
    x.law.stage, x.muted = SMALL, False
    come(law, x, ack, [next_us])
    assert x.jitter_us == 0


@pytest.mark.parametrize(
    ("jitter_us", "stage", "threshold_us"),
    [
        (1000, FREE, 4000),
        (2000, FREE, 6000),  # 1.5 times twice the jitter
        (MOST_US // 2, FREE, 9000),
        (1 << 22, FREE, 9000),
        (2000, JUDGE, 6000),
        (2000, SMALL, 4000),  # pairs find out whether others keep a queue
    ],
)
def test_what_it_makes_of_the_threshold(law: Laws, x: Struct, jitter_us: int, stage: int, threshold_us: int) -> None:
    """Also where the window has too few packets for the noise of its rounds."""
    x.jitter_us, x.law.stage, x.packets = jitter_us, stage, 5
    assert law.rx_threshold(x) == threshold_us


def test_the_larger_of_both_noises_counts(law: Laws, x: Struct) -> None:
    x.law.stage, x.packets, x.jitter_us = FREE, 20, 1500
    for noise_us, threshold_us in ((2800, 4500), (4000, 6000)):
        x.noise.noise = noise_us // 4
        assert law.rx_threshold(x) == threshold_us


@pytest.mark.parametrize(
    ("stage", "packets", "fades"), [(FREE, 10, True), (FREE, 9, False), (SMALL, 10, False), (JUDGE, 10, False)]
)
def test_it_fades_where_the_window_shows_the_noise(
    law: Laws, x: Struct, ack: Struct, stage: int, packets: int, fades: bool
) -> None:
    x.jitter_us, x.law.stage, x.packets = 6400, stage, packets
    law.rx_law_round(x, ack)
    assert x.jitter_us == (6300 if fades else 6400)
