# SPDX-License-Identifier: GPL-2.0-only
"""TCPW-LP's virtual queue and its threshold against the paper's equations (4.2, 4.3) in floating point."""
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

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


class Flow:
    """The law with its state, one ACK after the other."""

    def __init__(self, ffi, law, most=3000, least=0, averaging=4, memory_s=180, floor_us=0):
        self.law = law
        self.state = ffi.new("struct backlog *")
        self.params = ffi.new("struct backlog_params *", dict(
            most=most, least=least, averaging=averaging, memory_s=memory_s, floor_us=floor_us))
        self.now, self.snd_nxt = 10**6, 0
        law.backlog_init(self.state)

    def ack(self, rtt, alone=False, sparse=False, after_us=10_000):
        self.now += after_us
        return self.law.backlog_sample(self.state, self.now % 2**64, rtt, alone, sparse, self.params)

    def settle(self, rtt):
        """Two in a row: so this RTT counts."""
        self.ack(rtt)
        self.ack(rtt)

    def reduce(self):
        self.law.backlog_reduced(self.state, self.snd_nxt, self.params)

    def lose(self):
        self.law.backlog_lost(self.state, self.snd_nxt, self.params)

    def exceeds(self, window):
        return self.law.backlog_exceeds(self.state, window, self.params)

    @property
    def base(self):
        return self.law.backlog_base(self.state)

    @property
    def threshold(self):
        return self.law.backlog_threshold(self.state, self.params)

    def delay(self, rtt):
        return self.law.backlog_delay(self.state, rtt)


@pytest.fixture(scope="module")
def flow(ffi, law):
    return lambda **params: Flow(ffi, law, **params)


def clamp(value):
    return min(1.0, max(0.0, value))


def q_th(m, d, d_loss, d_min, d_max, noise=0):
    """Equation of 4.3, in packets; None: not known yet. Each factor in [0, 1]."""
    known = d_loss and not (d_loss <= noise < (d_max or 0))
    congestion = clamp(1 - d / d_loss) if known else 1.0
    foreground = 1.0 if not d_max else clamp(1 - d_min / d_max)
    return m * congestion * foreground


class Model:
    """The paper in floating point: RTTs of ACKs, reductions, losses."""

    def __init__(self, averaging):
        self.gain = 1 / averaging
        self.base = math.inf
        self.last = self.rtt = None
        self.cycle = []
        self.rtts = {}  # "min", "max", "loss": averages as RTTs

    def average(self, name, value):
        before = self.rtts.get(name)
        self.rtts[name] = value if before is None else before + self.gain * (value - before)

    def ack(self, rtt, alone, sparse):
        rtt = min(rtt, RTT_MAX)
        if not rtt:
            return
        self.base = min(self.base, rtt)
        if alone:
            if self.rtt is not None and rtt < self.rtt:
                self.last = self.rtt = rtt
                self.cycle.append(rtt)
            return
        before, self.last = self.last, rtt
        if before is None and not sparse:
            return
        self.rtt = rtt if sparse else min(rtt, before)
        self.cycle.append(self.rtt)

    def reduce(self):
        if self.cycle:
            self.average("min", min(self.cycle))
            self.average("max", max(self.cycle))
        self.cycle = []

    def lose(self):
        """A loss at less delay than every reduction saw is chance."""
        if self.rtt is not None and self.rtt >= round(self.rtts.get("max", 0)):
            self.average("loss", self.rtt)

    def d(self, name):
        return max(0.0, self.rtts[name] - self.base) if name in self.rtts else None

    @property
    def delay(self):
        return self.rtt - self.base if self.rtt is not None else 0

    def queue(self, window):
        return window * self.delay / self.rtt if self.rtt else 0.0

    def threshold(self, m):
        return q_th(m, self.delay, self.d("loss"), self.d("min") or 0.0, self.d("max"))


steps = st.lists(st.one_of(
    st.tuples(st.just("ack"), us, st.booleans(), st.booleans()),
    st.tuples(st.just("ack"), st.integers(74_000, 150_000), st.just(False), st.just(False)),
    st.tuples(st.sampled_from(["reduce", "lose"]))), max_size=80)


@given(steps, mosts, leasts, gains, windows)
def test_equations(flow, steps, most, least, averaging, window):
    """Queue and threshold after any life of ACKs, reductions and losses. Averages are rounded by less than 1 us a step,
    so by `averaging` us at the most; ratios to 1/256."""
    ours, model = flow(most=most, least=least, averaging=averaging), Model(averaging)
    for what, *rest in steps:
        if what == "ack":
            ours.ack(rest[0], alone=rest[1], sparse=rest[2])
            model.ack(*rest)
        else:
            getattr(ours, what)()
            getattr(model, what)()
    assert ours.base == (0 if math.isinf(model.base) else model.base)
    if model.rtt is None:
        assert ours.law.backlog_queue(ours.state, window) == 0 and not ours.exceeds(window)
        return
    capped = min(window, 2**26)
    assert ours.law.backlog_queue(ours.state, window) == min(capped * int(model.delay) * 1000 // model.rtt, 2**32 - 1)
    for name, field in (("min", "least_us"), ("max", "most_us"), ("loss", "loss_us")):
        got = getattr(ours.state, field)
        assert (got == 0) == (name not in model.rtts)
        assert name not in model.rtts or abs(got - model.rtts[name]) <= averaging
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
def test_exceeds_is_exact_and_the_queue_is_for_people(flow, base, rtt, window, most, least):
    """The same comparison in whole numbers, without a rounded quotient in between."""
    base, rtt = sorted((base, rtt))
    ours = flow(most=most, least=least)
    ours.settle(base)
    ours.settle(rtt)
    assert ours.exceeds(window) == (min(window, 2**26) * (rtt - base) * 1000 > max(ours.threshold, least) * rtt)


def test_at_its_threshold_a_queue_does_not_exceed_it(flow):
    ours = flow(most=1000)
    ours.settle(50_000)
    ours.settle(100_000)
    assert (ours.law.backlog_queue(ours.state, 2), ours.threshold) == (1000, 1000)
    assert not ours.exceeds(2) and ours.exceeds(3)


def test_the_threshold_at_the_papers_ends(flow):
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


def test_the_papers_example_beside_reno(flow):
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
def test_no_division_by_a_delay_of_nothing(flow, d_loss):
    ours = flow()
    ours.settle(50_000)
    ours.settle(50_000 + d_loss)
    ours.lose()
    ours.settle(50_000)
    assert ours.threshold == 3000 and not ours.exceeds(10**6)
    ours.settle(50_002)
    assert ours.threshold == (0 if d_loss else 3000), "a loss at an empty queue says nothing"


def test_a_loss_below_d_max_teaches_nothing(flow):
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


def test_losses_in_the_noise_were_chance_where_more_passes(flow):
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


def test_d_max_of_nothing(flow):
    ours = flow()
    ours.settle(50_000)
    ours.reduce()
    assert ours.state.foreground == 0 and ours.threshold == 3000


def test_a_reduction_without_a_sample_teaches_nothing(flow):
    ours = flow()
    ours.reduce()
    ours.lose()
    assert (ours.state.least_us, ours.state.most_us, ours.state.loss_us) == (0, 0, 0)
    assert ours.state.muted


@given(us, st.integers(1, 100_000), floors, windows)
def test_noise_is_no_queue(flow, base, more, floor, window):
    ours = flow(floor_us=floor)
    ours.settle(base)
    ours.settle(min(base + more, RTT_MAX))
    if ours.delay(ours.state.rtt_us) <= floor:
        assert not ours.exceeds(window)


@given(st.integers(1, 100_000), floors)
def test_noise_is_at_most_half_of_the_delay_of_losses(flow, d_loss, floor):
    ours = flow(floor_us=floor)
    assert ours.law.backlog_noise(ours.state, ours.params) == floor
    ours.settle(50_000)
    ours.settle(50_000 + d_loss)
    ours.lose()
    assert ours.law.backlog_noise(ours.state, ours.params) == min(floor, d_loss // 2)


def test_one_late_ack_is_no_queue(flow):
    ours = flow()
    ours.settle(50_000)
    assert ours.ack(90_000) and ours.state.rtt_us == 50_000
    assert ours.ack(50_100) and ours.state.rtt_us == 50_100
    assert ours.ack(50_200) and ours.state.rtt_us == 50_100
    assert ours.ack(91_000) and ours.ack(90_000) and ours.state.rtt_us == 90_000


def test_sparse_acks_count_each(flow):
    ours = flow()
    ours.settle(50_000)
    assert ours.ack(90_000, sparse=True) and ours.state.rtt_us == 90_000
    assert ours.ack(60_000, sparse=True) and ours.state.rtt_us == 60_000
    fresh = flow()
    assert fresh.ack(50_000, sparse=True) and fresh.state.rtt_us == 50_000


def test_a_packet_that_was_alone_counts_only_where_it_is_smaller(flow):
    ours = flow()
    assert not ours.ack(52_000, alone=True) and ours.state.rtt_us == 0
    ours.settle(60_000)
    assert not ours.ack(95_000, alone=True)
    assert ours.state.rtt_us == 60_000 and ours.state.high_us == 60_000
    assert ours.ack(55_000, alone=True)
    assert ours.state.rtt_us == 55_000
    assert ours.ack(50_000, alone=True) and ours.base == 50_000


@given(us, us, st.integers(0, RTT_MAX))
def test_a_full_buffer_is_what_losses_told(flow, base, lost_at, delay):
    base, lost_at = sorted((base, lost_at))
    ours = flow()
    assert ours.law.backlog_full(ours.state, delay, ours.params) == (2**32 - 1 if delay else 0), "no loss yet"
    ours.settle(base)
    ours.settle(lost_at)
    ours.lose()
    full = lost_at - base
    assert ours.law.backlog_full(ours.state, delay, ours.params) == (full if delay <= full + full // 8 else 2**32 - 1)
    assert ours.law.backlog_full(ours.state, full + full // 8, ours.params) == full


def test_after_idle_two_samples_again(flow):
    ours = flow()
    ours.settle(50_000)
    ours.law.backlog_restart(ours.state)
    assert not ours.ack(90_000) and ours.state.rtt_us == 50_000
    assert ours.ack(91_000) and ours.state.rtt_us == 90_000


def test_no_sample_is_nothing(flow):
    ours = flow()
    ours.settle(50_000)
    assert not ours.ack(0)
    assert (ours.base, ours.state.rtt_us, ours.state.last_us) == (50_000, 50_000, 50_000)


@given(st.integers(10, 3600))
def test_the_base_is_forgotten_in_two_halves(flow, memory):
    half_us = (memory * 977 // 2) * 1024
    ours = flow(memory_s=memory)
    ours.ack(50_000)
    ours.ack(80_000, after_us=half_us + 1024)
    assert ours.base == 50_000, "the half before"
    ours.ack(80_000, after_us=half_us - 2048)
    assert ours.base == 50_000
    ours.ack(81_000, after_us=4096)
    assert ours.base == 80_000


def test_the_ratio_follows_the_base(flow):
    ours = flow()
    ours.settle(60_000)
    ours.settle(70_000)
    ours.settle(80_000)
    ours.state.low_us = 70_000
    ours.reduce()
    assert ours.state.foreground == 128
    ours.ack(50_000)
    assert ours.state.foreground == 256 * 20 // 30
    assert ours.law.backlog_rebase(ours.state, 70_000) == 20_000
    assert ours.base == 70_000 and ours.state.foreground == 0


@given(us, us)
def test_rebase(flow, base, new):
    ours = flow()
    assert ours.law.backlog_rebase(ours.state, new) == 0, "nothing was measured"
    ours.settle(base)
    rise = ours.law.backlog_rebase(ours.state, new)
    assert rise == max(0, new - base)
    assert ours.base == max(base, new)
    ours.settle(max(base, new))
    assert not ours.exceeds(2**32 - 1)


@given(us, us, st.one_of(st.integers(1, 1000), st.integers(0, 2**40 - 1)))
def test_the_pipe_is_ere_times_rtt_min(flow, base, rtt, window):
    base, rtt = sorted((base, rtt))
    ours = flow()
    assert ours.law.backlog_pipe(ours.state, window) == window, "nothing known"
    ours.settle(base)
    ours.settle(rtt)
    pipe = ours.law.backlog_pipe(ours.state, window)
    assert pipe == window * base // rtt <= window


def test_the_pipe_empties_the_virtual_queue(flow):
    """4.2: 66 packets, 3 of them in the queue."""
    ours = flow()
    ours.settle(74_000)
    ours.settle(77_524)
    assert ours.law.backlog_queue(ours.state, 66) in range(2990, 3010)
    assert ours.law.backlog_pipe(ours.state, 66 << 8) in range((63 << 8) - 4, (63 << 8) + 4)


@given(us, us, windows, mosts)
def test_the_limit_is_where_the_queue_meets_the_threshold(flow, base, rtt, window, most):
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
def test_one_reaction_per_round_trip(flow, una, in_flight, acked):
    ours = flow()
    assert not ours.state.muted
    ours.law.backlog_mute(ours.state, (una + in_flight) % 2**32)
    assert ours.state.muted
    ours.law.backlog_unmute(ours.state, (una + acked) % 2**32)
    assert bool(ours.state.muted) == (acked <= in_flight)


def test_reductions_and_losses_mute(flow):
    for react in ("reduce", "lose"):
        ours = flow()
        ours.settle(50_000)
        ours.snd_nxt = 7000
        getattr(ours, react)()
        assert (ours.state.muted, ours.state.muted_until) == (1, 7000)


@given(st.lists(st.tuples(times, any_us, st.booleans(), st.booleans(), st.integers(0, 3)), max_size=60), windows,
       mosts, leasts, gains, st.integers(10, 3600), floors)
def test_anything(flow, acks, window, most, least, averaging, memory, floor):
    """What no honest peer makes: all stays in its range."""
    ours = flow(most=most, least=least, averaging=averaging, memory_s=memory, floor_us=floor)
    for now, rtt, alone, sparse, what in acks:
        ours.now = now
        ours.ack(rtt, alone, sparse, after_us=0)
        if what == 1:
            ours.reduce()
        if what == 2:
            ours.lose()
        if what == 3:
            ours.law.backlog_rebase(ours.state, rtt)
        assert 0 <= ours.base <= RTT_MAX and ours.state.foreground <= 256
        assert ours.state.rtt_us <= RTT_MAX and ours.state.last_us <= RTT_MAX
        assert ours.state.low_us <= ours.state.high_us <= RTT_MAX
        assert least <= ours.threshold <= max(most, least)
        assert ours.law.backlog_pipe(ours.state, window) <= window
        ours.exceeds(window)
        ours.law.backlog_limit_us(ours.state, window, ours.params)


def test_alone_it_fills_the_link(flow):
    """A path of 63 packets per 74 ms with nobody else, every window exactly served: the law keeps it full, with M
    packets of queue at most."""
    service_us, base_us = 74_000 / 63, 74_000
    ours = flow(least=200, floor_us=500)
    window, delivered, queues = 63.0, 0.0, []
    for i in range(400):
        queue = max(0.0, window - 63)
        delivered += min(window, 63)
        queues.append(queue)
        rtt = int(base_us + queue * service_us)
        ours.settle(rtt)
        ours.snd_nxt += 1000
        ours.law.backlog_unmute(ours.state, ours.snd_nxt)
        if ours.exceeds(int(window)):
            window = ours.law.backlog_pipe(ours.state, int(window * 256)) / 256
            ours.reduce()
        else:
            window += 1
    assert delivered / (400 * 63) > 0.99
    assert max(queues) <= 5
