# SPDX-License-Identifier: GPL-2.0-only
"""Which delays TCPW-LP's virtual queue counts as a queue, and which as the noise of the path."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.backlog import RTT_MAX, MakeFlow, any_us, floors, leasts, noises, owns, us, windows


def test_losses_in_the_noise_were_chance_where_more_passes(flow: MakeFlow) -> None:
    ours = flow(floor_us=500)
    ours.settle(50_000)
    ours.settle(50_400)
    ours.lose()
    ours.settle(50_500)
    ours.reduce()
    assert ours.law.backlog_loss_delay(ours.state, ours.params) == 400, "a buffer as small as the noise"
    assert ours.law.backlog_noise(ours.state, ours.params) == 200
    assert ours.threshold == 0
    ours.state.most_us = 50_501
    assert ours.law.backlog_loss_delay(ours.state, ours.params) == 0
    assert ours.threshold > 0 and ours.law.backlog_noise(ours.state, ours.params) == 500


def no_queue(loss: int, floor: int, noise: int, own: int) -> tuple[int, int]:
    """us: (a D up to this is no queue, this part of a larger D is none), as the header says."""
    steady = min(noise * 3 // 4, loss // 8) if loss else noise * 3 // 4
    least = max(floor, own)
    return max(min(least, loss // 2) if loss else least, steady), steady


@given(us, st.integers(1, 100_000), floors, noises, owns, st.one_of(st.just(0), st.integers(1, 200_000)), windows, leasts)
def test_noise_is_no_queue(
    flow: MakeFlow, base: int, more: int, floor: int, noise: int, own: int, d_loss: int, window: int, least: int
) -> None:
    ours = flow(floor_us=floor, noise_us=noise, own_us=own, least=least)
    ours.settle(base)
    if d_loss:
        ours.lose(min(base + d_loss, RTT_MAX))
    ours.settle(min(base + more, RTT_MAX))
    delay = ours.delay(ours.state.rtt_us)
    least_us, steady = no_queue(ours.law.backlog_loss_delay(ours.state, ours.params), floor, noise, own)
    assert ours.law.backlog_noise(ours.state, ours.params) == least_us
    counts = 0 if delay <= least_us else max(0, delay - max(0, steady - own))
    assert ours.law.backlog_queueing(ours.state, ours.params) == counts
    queue = min(window, 2**26) * counts * 1000
    assert ours.exceeds(window) == (queue > ours.threshold * ours.state.rtt_us)


@given(st.integers(1, 100_000), floors, noises)
def test_noise_is_at_most_half_of_the_delay_of_losses(flow: MakeFlow, d_loss: int, floor: int, noise: int) -> None:
    ours = flow(floor_us=floor, noise_us=noise)
    assert ours.law.backlog_noise(ours.state, ours.params) == max(floor, noise * 3 // 4)
    ours.settle(50_000)
    ours.settle(50_000 + d_loss)
    ours.lose()
    assert ours.law.backlog_noise(ours.state, ours.params) == max(min(floor, d_loss // 2), min(noise * 3 // 4, d_loss // 8))


@given(us, any_us, windows, noises, owns)
def test_what_is_visible_of_a_queue(flow: MakeFlow, base: int, rtt: int, window: int, noise: int, own: int) -> None:
    """Without all of the noise, and the time of a packet: 2^26 packets of 2^23 us fit 64 bits as 1/1000 packets."""
    ours = flow(noise_us=noise, own_us=own)
    assert ours.law.backlog_visible(ours.state, 0, window, ours.params) == 0
    ours.settle(base)
    counts = max(0, min(rtt, RTT_MAX) - base - max(noise, own))
    exact = min(window, 2**26) * counts * 1000 // rtt if counts else 0
    assert ours.law.backlog_visible(ours.state, rtt, window, ours.params) == min(exact, 2**32 - 1)


@pytest.mark.parametrize(
    "rtt, window, full",
    [
        (50_000, 100, False),  # no queue
        (100_000, 1, True),  # half a packet
        (99_000, 1, False),
        (60_000, 100, True),
        (54_999, 1000, False),  # less than half of D_loss
        (55_000, 1000, True),
        (0, 1000, False),
    ],
)
def test_a_buffer_that_loses_packets(flow: MakeFlow, rtt: int, window: int, full: bool) -> None:
    """At least half a packet of ours waits, and half of the delay of losses."""
    ours = flow()
    ours.settle(50_000)
    ours.lose(60_000)
    assert ours.law.backlog_overflows(ours.state, rtt, window, ours.params) == full


def test_losses_that_were_taken_for_chance_never_make_d_loss_smaller(flow: MakeFlow) -> None:
    ours = flow()
    ours.settle(50_000)
    ours.lose(100_000)
    ours.lose(60_000, chance=True)
    assert ours.state.loss_us == 100_000
    ours.lose(60_000)
    assert ours.state.loss_us == 100_000 - 40_000 // 16, "four times slower than it rises"
    ours.lose(137_500, chance=True)
    assert ours.state.loss_us == 97_500 + 10_000
    ours.lose(2**32 - 1)
    assert ours.state.loss_us <= RTT_MAX


@given(st.integers(50_000, 90_000), noises, windows)
def test_the_pipe_holds_the_noise(flow: MakeFlow, rtt: int, noise: int, window: int) -> None:
    """Noise is no queue: a reduction leaves what the path carries at its usual delay."""
    ours = flow(noise_us=noise)
    ours.settle(50_000)
    ours.settle(rtt)
    usual = 50_000 + noise * 3 // 4
    pipe = ours.law.backlog_pipe(ours.state, window, ours.params)
    assert pipe == (window if usual >= rtt else window * usual // rtt)


def test_noise_is_no_foreground(flow: MakeFlow) -> None:
    """Alone on a path with 6 ms of noise: D_min = 4 and D_max = 8 ms do not mean a foreground flow."""
    for noise, ratio in ((0, 128), (4_000, 256 * 1 // 5), (8_000, 0)):
        ours = flow(noise_us=noise)
        ours.settle(50_000)
        for rtt in (58_000, 54_000):
            ours.settle(rtt)
        ours.state.low_us, ours.state.high_us = 54_000, 58_000
        ours.reduce()
        assert ours.state.foreground == ratio
