# SPDX-License-Identifier: GPL-2.0-only
"""Which round trips TCPW-LP's virtual queue counts, how long its base lives, and how often it lets a flow react."""

from hypothesis import given
from hypothesis import strategies as st

from tests.unit.backlog import MakeFlow, sequences, us


@given(st.lists(st.integers(50_000, 90_000), min_size=3, max_size=120), st.integers(0, 1500))
def test_the_rtt_that_counts_is_the_smallest_of_two_blocks(flow: MakeFlow, rtts: list[int], window: int) -> None:
    """The smallest RTT of the last quarter to half of a window: the flow's own bursts and late ACKs are never the smallest."""
    ours, size = flow(), min(63, max(1, window // 8))
    for i, rtt in enumerate(rtts):
        assert ours.ack(rtt, window=window) == (i > 0)
        began = i // size * size
        assert not i or ours.state.rtt_us == min(rtts[max(0, began - size) : i + 1])


def test_one_late_ack_is_no_queue(flow: MakeFlow) -> None:
    ours = flow()
    ours.settle(50_000)
    assert ours.ack(90_000) and ours.state.rtt_us == 50_000
    assert ours.ack(50_100) and ours.state.rtt_us == 50_100
    assert ours.ack(50_200) and ours.state.rtt_us == 50_100
    assert ours.ack(91_000) and ours.ack(90_000) and ours.state.rtt_us == 90_000


def test_sparse_acks_count_each(flow: MakeFlow) -> None:
    ours = flow()
    ours.settle(50_000)
    assert ours.ack(90_000, sparse=True) and ours.state.rtt_us == 90_000
    assert ours.ack(60_000, sparse=True) and ours.state.rtt_us == 60_000
    fresh = flow()
    assert fresh.ack(50_000, sparse=True) and fresh.state.rtt_us == 50_000


def test_a_packet_that_was_alone_counts_only_where_it_is_smaller(flow: MakeFlow) -> None:
    ours = flow()
    assert not ours.ack(52_000, alone=True) and ours.state.rtt_us == 0
    ours.settle(60_000)
    assert not ours.ack(95_000, alone=True)
    assert ours.state.rtt_us == 60_000 and ours.state.high_us == 60_000
    assert ours.ack(55_000, alone=True)
    assert ours.state.rtt_us == 55_000
    assert ours.ack(50_000, alone=True) and ours.base == 50_000


def test_after_idle_two_samples_again(flow: MakeFlow) -> None:
    ours = flow()
    ours.settle(50_000)
    ours.law.backlog_restart(ours.state)
    assert not ours.ack(90_000) and ours.state.rtt_us == 50_000
    assert ours.ack(91_000) and ours.state.rtt_us == 90_000


def test_no_sample_is_nothing(flow: MakeFlow) -> None:
    ours = flow()
    ours.settle(50_000)
    assert not ours.ack(0)
    assert (ours.base, ours.state.rtt_us, ours.state.block_us) == (50_000, 50_000, 50_000)


@given(st.integers(10, 3600))
def test_the_base_is_forgotten_in_two_halves(flow: MakeFlow, memory: int) -> None:
    """To the tick of a clock of 65.5 ms."""
    half_us = (memory * 977 // 2 >> 6) << 16
    ours = flow(memory_s=memory)
    ours.ack(50_000, after_us=2**20 - ours.now)
    ours.ack(80_000, after_us=half_us)
    assert ours.base == 50_000, "the half before"
    ours.ack(80_000, after_us=half_us - 1)
    assert ours.base == 50_000
    ours.ack(81_000, after_us=1)
    assert ours.base == 80_000


def test_the_ratio_follows_the_base(flow: MakeFlow) -> None:
    ours = flow()
    ours.settle(60_000)
    ours.settle(70_000)
    ours.settle(80_000)
    ours.state.low_us = 70_000
    ours.reduce()
    assert ours.state.foreground == 128
    ours.ack(50_000)
    assert ours.state.foreground == 256 * 20 // 30
    assert ours.law.backlog_rebase(ours.state, 70_000, ours.params) == 20_000
    assert ours.base == 70_000 and ours.state.foreground == 0


@given(us, us)
def test_rebase(flow: MakeFlow, base: int, new: int) -> None:
    ours = flow()
    assert ours.law.backlog_rebase(ours.state, new, ours.params) == 0, "nothing was measured"
    ours.settle(base)
    rise = ours.law.backlog_rebase(ours.state, new, ours.params)
    assert rise == max(0, new - base)
    assert ours.base == max(base, new)
    ours.settle(max(base, new))
    assert not ours.exceeds(2**32 - 1)


@given(sequences, st.integers(0, 2**30), st.integers(0, 2**30))
def test_one_reaction_per_round_trip(flow: MakeFlow, una: int, in_flight: int, acked: int) -> None:
    ours = flow()
    assert not ours.state.muted
    ours.law.backlog_mute(ours.state, (una + in_flight) % 2**32)
    assert ours.state.muted
    ours.law.backlog_unmute(ours.state, (una + acked) % 2**32)
    assert bool(ours.state.muted) == (acked <= in_flight)


def test_reductions_mute(flow: MakeFlow) -> None:
    ours = flow()
    ours.settle(50_000)
    ours.snd_nxt = 7000
    ours.reduce()
    assert (ours.state.muted, ours.state.muted_until) == (1, 7000)
