# SPDX-License-Identifier: GPL-2.0-only
"""TCPW-LP's virtual queue and its threshold against the paper's equations (4.2, 4.3) in floating point."""

import math
from collections.abc import Callable
from typing import Any, TypeAlias

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.cdata import Ffi, Laws

RTT_MAX = 2**23
EQUAL = 1e-9

us = st.one_of(st.integers(1, RTT_MAX), st.integers(50_000, 60_000))
any_us = st.one_of(us, st.integers(0, 2**32 - 1), st.sampled_from([0, 1, RTT_MAX, RTT_MAX + 1, 2**32 - 1]))
windows = st.one_of(st.integers(1, 100), st.integers(0, 2**26), st.integers(0, 2**32 - 1))
sequences = st.one_of(st.integers(0, 2**32 - 1), st.integers(2**32 - 100_000, 2**32 - 1))
mosts = st.integers(100, 64_000)
leasts = st.integers(0, 3_000)
gains = st.integers(1, 64)
floors = st.integers(0, 100_000)
times = st.integers(0, 2**63)
blocks = st.one_of(st.integers(1, 15), st.integers(1, 2000), st.integers(0, 2**32 - 1))  # windows, of their blocks


class Flow:
    """The law with its state, one ACK after the other."""

    def __init__(
        self,
        ffi: Ffi,
        law: Laws,
        most: int = 3000,
        least: int = 0,
        averaging: int = 4,
        memory_s: int = 180,
        floor_us: int = 0,
        noise_us: int = 0,
        own_us: int = 0,
    ) -> None:
        self.law = law
        self.state = ffi.new("struct backlog *")
        self.params = ffi.new(
            "struct backlog_params *",
            {
                "most": most,
                "least": least,
                "averaging": averaging,
                "memory_s": memory_s,
                "floor_us": floor_us,
                "noise_us": noise_us,
                "own_us": own_us,
            },
        )
        self.now, self.snd_nxt = 10**6, 0
        law.backlog_init(self.state)

    def ack(self, rtt: int, alone: bool = False, sparse: bool = False, after_us: int = 10_000, window: int = 1) -> bool:
        self.now += after_us
        return self.law.backlog_sample(self.state, self.now % 2**64, rtt, window, alone, sparse, self.params)

    def settle(self, rtt: int) -> None:
        """Two in a row: so this RTT counts."""
        self.ack(rtt)
        self.ack(rtt)

    def reduce(self) -> None:
        self.law.backlog_reduced(self.state, self.snd_nxt, self.params)

    def lose(self, rtt: int | None = None, chance: bool = False) -> None:
        self.law.backlog_lost(self.state, self.state.rtt_us if rtt is None else rtt, chance, self.params)

    def exceeds(self, window: int) -> bool:
        return self.law.backlog_exceeds(self.state, window, self.params)

    @property
    def base(self) -> int:
        return self.law.backlog_base(self.state)

    @property
    def threshold(self) -> int:
        return self.law.backlog_threshold(self.state, self.params)

    def delay(self, rtt: int) -> int:
        return self.law.backlog_delay(self.state, rtt)


MakeFlow: TypeAlias = Callable[..., Flow]  # takes the parameters of Flow


@pytest.fixture(scope="module")
def flow(ffi: Ffi, law: Laws) -> MakeFlow:
    return lambda **params: Flow(ffi, law, **params)


def clamp(value: float) -> float:
    return min(1.0, max(0.0, value))


def q_th(m: float, d: float, d_loss: float | None, d_min: float, d_max: float | None, noise: float = 0) -> float:
    """Equation of 4.3, in packets; None: not known yet. Each factor in [0, 1]."""
    congestion = clamp(1 - d / d_loss) if d_loss and not (d_loss <= noise < (d_max or 0)) else 1.0
    foreground = 1.0 if not d_max else clamp(1 - d_min / d_max)
    return m * congestion * foreground


class Model:
    """The paper in floating point: RTTs of ACKs, reductions, losses."""

    def __init__(self, averaging: int) -> None:
        self.gain = 1 / averaging
        self.base = math.inf
        self.rtt: int | None = None
        self.block: list[int] = []
        self.before: list[int] = []
        self.count = 0
        self.cycle: list[int] = []
        self.rtts: dict[str, float] = {}  # "min", "max", "loss": averages as RTTs

    def average(self, name: str, value: float) -> None:
        before = self.rtts.get(name)
        self.rtts[name] = value if before is None else before + self.gain * (value - before)

    def ack(self, rtt: int, alone: bool, sparse: bool, window: int) -> None:
        rtt = min(rtt, RTT_MAX)
        if not rtt:
            return
        self.base = min(self.base, rtt)
        if alone and (self.rtt is None or rtt >= self.rtt):
            return
        if alone or sparse:
            self.block, self.before, self.count = [rtt], [rtt], 0
        elif self.block_of(rtt, window):
            return
        self.rtt = min(self.block + self.before)
        self.cycle.append(self.rtt)

    def block_of(self, rtt: int, window: int) -> bool:
        """A block is of a quarter of the window, and an ACK of two packets; true: there was none before."""
        first, size = not self.block, min(63, max(1, window // 8))
        if first or self.count >= size:
            self.before, self.block, self.count = self.block or [rtt], [], 0
        self.block.append(rtt)
        self.count += 1
        return first

    def reduce(self) -> None:
        if self.cycle:
            self.average("min", min(self.cycle))
            self.average("max", max(self.cycle))
        self.cycle = []

    def lose(self, rtt: int, chance: bool, most: int, loss: int) -> None:
        """A loss at less delay than every reduction saw is chance; the law's averages decide, which are rounded."""
        if rtt and rtt >= most and (not chance or rtt > loss):
            slower = 4 if rtt < loss else 1
            before = self.rtts.get("loss")
            self.rtts["loss"] = rtt if before is None else before + self.gain / slower * (rtt - before)

    def d(self, name: str) -> float | None:
        return max(0.0, self.rtts[name] - self.base) if name in self.rtts else None

    @property
    def delay(self) -> float:
        return self.rtt - self.base if self.rtt is not None else 0

    def queue(self, window: int) -> float:
        return window * self.delay / self.rtt if self.rtt else 0.0

    def threshold(self, m: float) -> float:
        return q_th(m, self.delay, self.d("loss"), self.d("min") or 0.0, self.d("max"))


steps = st.lists(
    st.one_of(
        st.tuples(st.just("ack"), us, st.booleans(), st.booleans(), blocks),
        st.tuples(st.just("ack"), st.integers(74_000, 150_000), st.just(False), st.just(False), blocks),
        st.tuples(st.just("lose"), st.one_of(st.just(0), us, st.integers(74_000, 150_000)), st.booleans()),
        st.tuples(st.just("reduce")),
    ),
    max_size=80,
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
    """Alone, an emptied queue: M. Only foreground, or at the delay of losses: 0, or the least value."""
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


noises = st.one_of(st.just(0), st.integers(0, 20_000), st.integers(0, 0xFFFF << 2))  # what law/noise.h can say
owns = st.one_of(st.just(0), st.integers(0, 20_000), st.integers(0, 0xFFFF))


def no_queue(loss: int, floor: int, noise: int, own: int) -> tuple[int, int]:
    """us: (a D up to this is none, so much of a larger one is none), in the header's words."""
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


@given(st.lists(st.integers(50_000, 90_000), min_size=3, max_size=120), st.integers(0, 1500))
def test_the_rtt_that_counts_is_the_smallest_of_two_blocks(flow: MakeFlow, rtts: list[int], window: int) -> None:
    """Of the last quarter to half of a window: bursts of one's own and late ACKs are never the smallest."""
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


@given(us, us, st.one_of(st.integers(1, 1000), st.integers(0, 2**40 - 1)))
def test_the_pipe_is_ere_times_rtt_min(flow: MakeFlow, base: int, rtt: int, window: int) -> None:
    base, rtt = sorted((base, rtt))
    ours = flow()
    assert ours.law.backlog_pipe(ours.state, window, ours.params) == window, "nothing known"
    ours.settle(base)
    ours.settle(rtt)
    pipe = ours.law.backlog_pipe(ours.state, window, ours.params)
    assert pipe == window * base // rtt <= window


@given(st.integers(50_000, 90_000), noises, windows)
def test_the_pipe_holds_the_noise(flow: MakeFlow, rtt: int, noise: int, window: int) -> None:
    """It is no queue: a reduction leaves what the path carries at its usual delay."""
    ours = flow(noise_us=noise)
    ours.settle(50_000)
    ours.settle(rtt)
    usual = 50_000 + noise * 3 // 4
    pipe = ours.law.backlog_pipe(ours.state, window, ours.params)
    assert pipe == (window if usual >= rtt else window * usual // rtt)


def test_noise_is_no_foreground(flow: MakeFlow) -> None:
    """A path of 6 ms of noise, alone: D_min 4 and D_max 8 ms are no flow that stays."""
    for noise, ratio in ((0, 128), (4_000, 256 * 1 // 5), (8_000, 0)):
        ours = flow(noise_us=noise)
        ours.settle(50_000)
        for rtt in (58_000, 54_000):
            ours.settle(rtt)
        ours.state.low_us, ours.state.high_us = 54_000, 58_000
        ours.reduce()
        assert ours.state.foreground == ratio


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
    """What no honest peer makes: all stays in its range."""
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
