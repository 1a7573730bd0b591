# SPDX-License-Identifier: GPL-2.0-only
"""TCPW-LP's virtual queue and its threshold against the paper's equations (4.2, 4.3) in floating point."""

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.backlog import (
    RTT_MAX,
    MakeFlow,
    Model,
    any_us,
    floors,
    gains,
    leasts,
    mosts,
    noises,
    owns,
    q_th,
    steps,
    times,
    us,
    windows,
)


@given(steps, mosts, leasts, gains, windows)
def test_equations(flow: MakeFlow, steps: list[tuple[Any, ...]], most: int, least: int, averaging: int, window: int) -> None:
    """Queue and threshold after any life of ACKs, reductions and losses. Averages are rounded by less than 1 us a step,
    so by `averaging` us at the most (D_loss, which falls four times slower, by four times as much); ratios to 1/256."""
    ours, model = flow(most=most, least=least, averaging=averaging), Model(averaging)
    for what, *rest in steps:
        if what == "ack":
            ours.ack(rest[0], alone=rest[1], sparse=rest[2], window=rest[3])
            model.ack(*rest)
        elif what == "lose":
            before = ours.state.most_us, ours.state.loss_us
            rtt, chance = rest
            ours.lose(rtt, chance)
            model.lose(rtt, chance, *before)
        else:
            ours.reduce()
            model.reduce()
    assert ours.base == (0 if math.isinf(model.base) else model.base)
    if model.rtt is None:
        assert ours.law.backlog_queue(ours.state, window) == 0 and not ours.exceeds(window)
        return
    capped = min(window, 2**26)
    assert ours.law.backlog_queue(ours.state, window) == min(capped * int(model.delay) * 1000 // model.rtt, 2**32 - 1)
    for name, field, error in (("min", "least_us", 1), ("max", "most_us", 1), ("loss", "loss_us", 4)):
        got = getattr(ours.state, field)
        assert (got == 0) == (name not in model.rtts)
        assert name not in model.rtts or abs(got - model.rtts[name]) <= error * averaging
    d = [ours.delay(getattr(ours.state, name)) for name in ("least_us", "most_us", "loss_us")]
    assert d[0] <= d[1]
    loss = d[2] if ours.state.loss_us else None
    exact = max(q_th(most, model.delay, loss, d[0], d[1]), least)
    assert abs(ours.threshold - exact) <= 2 * most / 256 + 1
    sure = 1000 * model.queue(capped)
    if sure > exact + 2 * most / 256 + 1:
        assert ours.exceeds(window)
    if sure < exact - 2 * most / 256 - 1:
        assert not ours.exceeds(window)


@given(us, us, windows, mosts, leasts)
def test_exceeds_is_exact_and_the_queue_is_for_people(
    flow: MakeFlow, base: int, rtt: int, window: int, most: int, least: int
) -> None:
    """The same comparison in whole numbers, without a rounded quotient in between."""
    base, rtt = sorted((base, rtt))
    ours = flow(most=most, least=least)
    ours.settle(base)
    ours.settle(rtt)
    assert ours.exceeds(window) == (min(window, 2**26) * (rtt - base) * 1000 > max(ours.threshold, least) * rtt)


def test_at_its_threshold_a_queue_does_not_exceed_it(flow: MakeFlow) -> None:
    ours = flow(most=1000)
    ours.settle(50_000)
    ours.settle(100_000)
    assert (ours.law.backlog_queue(ours.state, 2), ours.threshold) == (1000, 1000)
    assert not ours.exceeds(2) and ours.exceeds(3)


def test_the_threshold_at_the_papers_ends(flow: MakeFlow) -> None:
    """Alone, with an empty queue: M. With foreground only, or at the delay of losses: 0, or the least value."""
    alone = flow()
    alone.settle(74_000)
    assert alone.threshold == 3000
    alone.settle(78_000)
    alone.settle(74_000)
    alone.reduce()
    assert alone.threshold == 3000, "D_min = 0"
    held = flow(least=200)
    held.settle(74_000)
    held.settle(100_000)
    held.reduce()
    for _ in range(30):
        held.settle(120_000)
        held.reduce()
    assert held.state.foreground >= 254 and held.threshold == 200
    full = flow()
    full.settle(74_000)
    full.settle(148_000)
    full.lose()
    assert full.threshold == 0
    full.settle(111_000)
    assert full.threshold == 1500, "half way"
    full.settle(74_000)
    assert full.threshold == 3000


def test_the_papers_example_beside_reno(flow: MakeFlow) -> None:
    """Figure 6: about 0.3 packets while Reno fills the queue."""
    ours = flow()
    ours.settle(74_000)
    ours.settle(148_000)
    ours.lose()
    ours.ack(92_000)
    ours.state.low_us = ours.state.high_us = 0  # what slow start saw
    for low, high in ((92_000, 100_000), (95_000, 105_000), (98_000, 110_000), (100_000, 112_000)):
        ours.settle(low)
        ours.settle(high)
        ours.reduce()
    ours.settle(104_000)
    assert 200 <= ours.threshold <= 800


@pytest.mark.parametrize("d_loss", [0, 1])
def test_no_division_by_a_delay_of_nothing(flow: MakeFlow, d_loss: int) -> None:
    ours = flow()
    ours.settle(50_000)
    ours.settle(50_000 + d_loss)
    ours.lose()
    ours.settle(50_000)
    assert ours.threshold == 3000 and not ours.exceeds(10**6)
    ours.settle(50_002)
    assert ours.threshold == (0 if d_loss else 3000), "a loss at an empty queue says nothing"


def test_a_loss_below_d_max_teaches_nothing(flow: MakeFlow) -> None:
    ours = flow()
    ours.settle(50_000)
    ours.settle(60_000)
    ours.reduce()
    ours.settle(59_999)
    ours.lose()
    assert ours.state.loss_us == 0
    ours.settle(60_000)
    ours.lose()
    assert ours.state.loss_us == 60_000


def test_d_max_of_nothing(flow: MakeFlow) -> None:
    ours = flow()
    ours.settle(50_000)
    ours.reduce()
    assert ours.state.foreground == 0 and ours.threshold == 3000


def test_a_reduction_without_a_sample_teaches_nothing(flow: MakeFlow) -> None:
    ours = flow()
    ours.reduce()
    ours.lose()
    assert (ours.state.least_us, ours.state.most_us, ours.state.loss_us) == (0, 0, 0)
    assert ours.state.muted


@given(us, us, st.one_of(st.integers(1, 1000), st.integers(0, 2**40 - 1)))
def test_the_pipe_is_ere_times_rtt_min(flow: MakeFlow, base: int, rtt: int, window: int) -> None:
    base, rtt = sorted((base, rtt))
    ours = flow()
    assert ours.law.backlog_pipe(ours.state, window, ours.params) == window, "nothing known"
    ours.settle(base)
    ours.settle(rtt)
    pipe = ours.law.backlog_pipe(ours.state, window, ours.params)
    assert pipe == window * base // rtt <= window


def test_the_pipe_empties_the_virtual_queue(flow: MakeFlow) -> None:
    """4.2: 66 packets, 3 of them in the queue."""
    ours = flow()
    ours.settle(74_000)
    ours.settle(77_524)
    assert ours.law.backlog_queue(ours.state, 66) in range(2990, 3010)
    assert ours.law.backlog_pipe(ours.state, 66 << 8, ours.params) in range((63 << 8) - 4, (63 << 8) + 4)


@given(us, us, windows, mosts)
def test_the_limit_is_where_the_queue_meets_the_threshold(flow: MakeFlow, base: int, rtt: int, window: int, most: int) -> None:
    base, rtt = sorted((base, rtt))
    ours = flow(most=most)
    ours.settle(base)
    ours.settle(rtt)
    limit = ours.law.backlog_limit_us(ours.state, window, ours.params)
    all_ = min(window, 2**26) * 1000
    if all_ <= ours.threshold:
        assert limit == 2**32 - 1
    else:
        assert limit == min(ours.threshold * base // (all_ - ours.threshold), 2**32 - 1)


@given(
    st.lists(st.tuples(times, any_us, st.booleans(), st.booleans(), st.integers(0, 3)), max_size=60),
    windows,
    mosts,
    leasts,
    gains,
    st.integers(10, 3600),
    floors,
    noises,
    owns,
)
def test_anything(
    flow: MakeFlow,
    acks: list[tuple[int, int, bool, bool, int]],
    window: int,
    most: int,
    least: int,
    averaging: int,
    memory: int,
    floor: int,
    noise: int,
    own: int,
) -> None:
    """Input that no honest peer sends: all values stay in range."""
    ours = flow(most=most, least=least, averaging=averaging, memory_s=memory, floor_us=floor, noise_us=noise, own_us=own)
    for now, rtt, alone, sparse, what in acks:
        ours.now = now
        ours.ack(rtt, alone, sparse, after_us=0, window=window)
        if what == 1:
            ours.reduce()
        if what == 2:
            ours.lose(rtt, chance=sparse)
        if what == 3:
            ours.law.backlog_rebase(ours.state, rtt, ours.params)
        assert 0 <= ours.base <= RTT_MAX and ours.state.foreground < 256
        assert ours.state.rtt_us <= RTT_MAX and ours.state.block_us <= RTT_MAX
        assert ours.state.loss_us <= RTT_MAX and ours.law.backlog_queueing(ours.state, ours.params) <= RTT_MAX
        assert ours.state.low_us <= ours.state.high_us <= RTT_MAX
        assert least <= ours.threshold <= max(most, least)
        assert ours.law.backlog_pipe(ours.state, window, ours.params) <= window
        ours.exceeds(window)
        ours.law.backlog_limit_us(ours.state, window, ours.params)


def test_alone_it_fills_the_link(flow: MakeFlow) -> None:
    """A path of 63 packets per 74 ms with nobody else, every window exactly served: the law keeps it full, with M
    packets of queue at most."""
    service_us, base_us = 74_000 / 63, 74_000
    ours = flow(least=200, floor_us=500)
    window, delivered, queues = 63.0, 0.0, []
    for _i in range(400):
        queue = max(0.0, window - 63)
        delivered += min(window, 63)
        queues.append(queue)
        rtt = int(base_us + queue * service_us)
        ours.settle(rtt)
        ours.snd_nxt += 1000
        ours.law.backlog_unmute(ours.state, ours.snd_nxt)
        if ours.exceeds(int(window)):
            window = ours.law.backlog_pipe(ours.state, int(window * 256), ours.params) / 256
            ours.reduce()
        else:
            window += 1
    assert delivered / (400 * 63) > 0.99
    assert max(queues) <= 5
