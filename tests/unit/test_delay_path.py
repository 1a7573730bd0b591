# SPDX-License-Identifier: GPL-2.0-only
"""The delay estimator on a simulated path: random 32-bit clock offsets and wrap, drift, queues both ways, delayed ACKs.

What is asserted of the queueing delay q, once both directions were seen empty and the peer's tick is known:

    q <= what the RTT says
    q >  ahead - drift
    q <  one way + 2 ticks + drift

with `ahead` the time the newest packet waited, `one way` the same with what the receiver's delayed ACK adds, and drift
the ppm times the age of the smallest one-way delay, all to 2 us. One tick comes from two readings of the peer's clock,
each rounded down; the other is what the law adds.
"""

import random
from collections.abc import Callable, Iterable, Iterator
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.cdata import Laws
from tests.unit.estimator import TICKS_NS, Estimator, MakeEstimator
from tests.unit.path import MS, Clock, Path, S, paced, sawtooth

seeds = st.integers(0, 2**32 - 1)
drifts = st.one_of(st.floats(-200, 200), st.sampled_from([-200.0, 0.0, 200.0]))

each_tick = pytest.mark.parametrize("real_ns, learned_ns", TICKS_NS.items(), ids=lambda v: f"{v:.0f}")


def clock(rng: random.Random, tick_ns: float, drift_ppm: float, life_s: int = 20) -> Clock:
    """The peer's, with a random offset; every other one wraps within the life of the connection."""
    offset = rng.getrandbits(32)
    if rng.random() < 0.5:
        offset = 2**32 - rng.randrange(1, int(life_s * S / tick_ns) + 1)
    return Clock(tick_ns, offset, drift_ppm, rng.random())


def assumed(learned_ns: int) -> int:
    """The tick that may be assumed if this one is the truth: 1/1024 s looks like 1 ms until the window is long."""
    return 1_000_000 if learned_ns == 976_562 else learned_ns


@each_tick
@settings(max_examples=24)
@given(seeds, drifts)
def test_the_right_tick_is_learned_and_never_a_wrong_one(
    estimator: MakeEstimator, real_ns: float, learned_ns: int, seed: int, drift: float
) -> None:
    rng = random.Random(seed)
    top = rng.choice([0, 2, 20, 100, 300]) * MS
    path = Path(
        clock(rng, real_ns, drift),
        forward=sawtooth(rng, top),
        reverse=sawtooth(rng, top),
        packets_per_ack=rng.choice([1, 2, 2, 16]),
    )
    law = estimator()
    gap = rng.choice([3, 12, 24]) * MS
    learned_at = None
    for ack in path.acks(paced(rng, 15 * S, gap, burst=rng.choice([1, 1, 4]))):
        law.check(law.feed(ack), ack.rtt_us)
        assert law.tick_ns in (0, learned_ns, assumed(learned_ns))
        if learned_at is None and law.tick_ns:
            learned_at = ack.at_ns
        assert learned_at is None or law.tick_ns, "a tick that was learned stays"
    assert learned_at is not None
    if top == 0 and path.packets_per_ack == 1:
        assert learned_at < 1.3 * S, "VI-A: one second"


def queues_behind(rng: random.Random, real_ns: float, ms: int, ahead: Callable[[int], int] = lambda ns: 0) -> Path:
    """Empty for half a second, then so many ms, give or take ten, in the reverse path for ever."""
    behind = sawtooth(rng, 20 * MS)
    return Path(
        clock(rng, real_ns, 0.0),
        forward=lambda ns: ahead(ns) if ns > S // 2 else 0,
        reverse=lambda ns: (ms - 10) * MS + behind(ns) if ns > S // 2 else 0,
        packets_per_ack=1,
    )


@settings(max_examples=8)
@given(seeds)
def test_the_usual_tick_is_assumed_before_it_is_sure(estimator: MakeEstimator, c: SimpleNamespace, seed: int) -> None:
    """A tick would be sure after 128 × 100 ms; the reverse path's queue is none of ours after two seconds."""
    rng = random.Random(seed)
    law = estimator()
    for ack in queues_behind(rng, 1 * MS, 100).acks(paced(rng, 16 * S, 9 * MS)):
        queue = law.feed(ack)
        law.check(queue, ack.rtt_us)
        if ack.at_ns > 2 * S:
            assert law.tick_ns == c.DELAY_ASSUMED_TICK_NS
            assert queue < 10_000 < 80_000 < ack.rtt_us - law.base


@each_tick
@settings(max_examples=4)
@given(seeds)
def test_a_tick_that_was_assumed_wrongly_hides_no_queue(
    estimator: MakeEstimator, real_ns: float, learned_ns: int, seed: int
) -> None:
    """Only 1/1024 s is taken for 1 ms, and even then the queue ahead is seen."""
    rng = random.Random(seed)
    law = estimator()
    path = queues_behind(rng, real_ns, rng.choice([100, 600]), sawtooth(rng, 50 * MS))
    for ack in path.acks(paced(rng, 16 * S, 9 * MS)):
        queue = law.feed(ack)
        assert law.tick_ns in (0, learned_ns, assumed(learned_ns))
        assert queue > ack.ahead_ns / 1000 - 20


def windows(law: Estimator, path: Path, sends: Iterable[int], real_ns: float, drift: float) -> Iterator[tuple[int, float]]:
    """(length in ns, relative error of the peer's clock over it) of each window of the law's clock measurement"""
    start = None
    for ack in path.acks(sends):
        law.feed(ack)
        sent_ns = (ack.now_us - ack.rtt_us) * 1000
        if (law.state.anchor_tsval, law.state.anchor_sent_us) != (ack.tsval, sent_ns // 1000 % 2**32):
            continue  # no window ended here
        if start is not None and law.tick_ns:
            elapsed = sent_ns - start[1]
            peer = (ack.peer_ticks - start[0]) * real_ns / (1 + drift * 1e-6)
            yield elapsed, (peer - elapsed) / elapsed
        start = ack.peer_ticks, sent_ns


def check_window(c: SimpleNamespace, elapsed: int, error: float, real_ns: float) -> None:
    """Within a 128th, plus the tick and the two microseconds by which the readings are rounded."""
    assert elapsed >= c.DELAY_CLOCK_WINDOW_NS
    assert abs(error) <= 1 / 128 + (real_ns + 2_000) / elapsed


@pytest.mark.parametrize("real_ns", [1_000, 1_000_000_000 / 1024, 1_000_000], ids=lambda v: f"{v:.0f}")
@settings(max_examples=20)
@given(seeds, drifts, st.sampled_from([1, 2]), st.sampled_from([5, 20, 60]))
def test_a_window_of_the_clock_is_right_within_a_128th(
    estimator: MakeEstimator, c: SimpleNamespace, real_ns: float, seed: int, drift: float, per_ack: int, top: int
) -> None:
    """For any queues at any packet, as long as the path was empty once. Each packet has a new pair of queues, small ones more
    often, so windows end at anything that their condition allows."""
    rng = random.Random(seed)

    def queue(ns: int) -> int:
        return 0 if ns < 60 * MS else int(top * MS * rng.random() ** 8)

    path = Path(clock(rng, real_ns, drift), forward=queue, reverse=queue, packets_per_ack=per_ack)
    seen = 0
    for elapsed, error in windows(estimator(), path, paced(rng, 8 * S, 10 * MS), real_ns, drift):
        check_window(c, elapsed, error, real_ns)
        seen += 1
    assert seen


@pytest.mark.parametrize("real_ns, learned_ns", [(1_000_000_000 / 1024, 976_562), (1_000_000, 1_000_000)])
@pytest.mark.parametrize("drift", [-200.0, 200.0])
def test_the_worst_queue_does_not_change_the_tick(
    estimator: MakeEstimator, c: SimpleNamespace, real_ns: float, learned_ns: int, drift: float
) -> None:
    """An adversary who knows the law: every other window begins without a queue and ends with the largest one that
    lets it end, so the peer seems fast by all that is possible, and slow in the next. Both reach 0.77 %; it takes
    1.19 % to make 1/1000 s of 1/1024 s."""
    rng = random.Random(7)
    law = estimator()
    window = {"start": 0, "late": True}

    def forward(ns: int) -> int:
        elapsed = ns - window["start"]
        if window["late"] and elapsed >= S:
            return elapsed // c.DELAY_CLOCK_PRECISION - 20_000
        return 0

    path = Path(clock(rng, real_ns, drift), forward=forward, packets_per_ack=1)
    errors = []
    for elapsed, error in windows(law, path, range(0, 60 * S, 5 * MS), real_ns, drift):
        window["start"] += elapsed
        window["late"] = not window["late"]
        check_window(c, elapsed, error, real_ns)
        assert law.tick_ns == learned_ns
        errors.append(error)
    assert max(errors) > 0.0075 and min(errors) < -0.0075


@given(st.sampled_from(sorted(TICKS_NS.values())), st.floats(1, 2000), st.floats(-0.0098, 0.0098))
def test_snap_takes_the_tick_within_the_error_and_nothing_else(law: Laws, tick_ns: int, seconds: float, error: float) -> None:
    """0.8 % of the window, 0.02 % of drift, a tick: below half of the distance between 1/1000 and 1/1024 s."""
    elapsed = int(seconds * S)
    ticks = int(elapsed * (1 + error) / tick_ns)
    if ticks < 2**31:
        assert law.delay_snap_tick(ticks, elapsed) == tick_ns


@given(st.floats(1, 2000), st.floats(0.3, 30_000_000))
def test_snap_refuses_what_is_not_in_use(law: Laws, seconds: float, tick_ns: float) -> None:
    elapsed = int(seconds * S)
    ticks = int(elapsed / tick_ns)
    if ticks >= 2**31:
        return
    got = law.delay_snap_tick(ticks, elapsed)
    off = {known: abs(ticks * known - elapsed) for known in TICKS_NS.values()}
    nearest = min(off, key=lambda known: off[known])
    assert got in (0, nearest)
    if off[nearest] > elapsed / 64 + nearest:
        assert got == 0
    if off[nearest] < elapsed / 65:
        assert got == nearest


@each_tick
@settings(max_examples=8)
@given(seeds, drifts, st.booleans(), st.sampled_from([1, 2]))
def test_queueing_delay_against_the_truth(
    estimator: MakeEstimator, real_ns: float, learned_ns: int, seed: int, drift: float, busy: bool, per_ack: int
) -> None:
    rng = random.Random(seed)
    calm_ns = 4 * S
    ahead, behind = sawtooth(rng, 150 * MS), sawtooth(rng, 150 * MS)
    path = Path(
        clock(rng, real_ns, drift),
        forward=lambda ns: ahead(ns - calm_ns) if ns > calm_ns else 0,
        reverse=lambda ns: behind(ns - calm_ns) if busy and ns > calm_ns else 0,
        packets_per_ack=per_ack,
    )
    law = estimator()
    tick_us = real_ns / 1000
    known_ns = None
    for ack in path.acks(paced(rng, 12 * S, 4 * MS)):
        queue = law.feed(ack)
        by_rtt = ack.rtt_us - law.base
        law.check(queue, ack.rtt_us)
        if known_ns is None and law.tick_ns:
            known_ns = ack.at_ns
        if ack.at_ns < calm_ns:
            continue
        assert known_ns is not None
        # 976562 for 976562.5 ns is half a ppm more; the base is as old as the anchor of the first window
        drift_us = (abs(drift) + 0.6) * 1e-6 * ack.at_ns / 1000 + 2
        assert queue > ack.ahead_ns / 1000 - drift_us
        assert queue < ack.one_way_ns / 1000 + 2 * tick_us + drift_us
        if not busy:
            assert by_rtt - drift_us <= queue <= by_rtt


@each_tick
@settings(max_examples=8)
@given(seeds, drifts)
def test_queueing_delay_against_floats(
    estimator: MakeEstimator, real_ns: float, learned_ns: int, seed: int, drift: float
) -> None:
    """q = min(rtt - rtt_min, owd - owd_min + one tick), with timestamps that know no wrap, offset or anchor."""
    rng = random.Random(seed)
    path = Path(clock(rng, real_ns, drift), forward=sawtooth(rng, 80 * MS), reverse=sawtooth(rng, 80 * MS), packets_per_ack=2)
    law = estimator()
    owd_min_us, tick_us = None, learned_ns / 1000
    compared = 0
    seen_us: dict[tuple[int, int], float] = {}
    for ack in path.acks(paced(rng, 12 * S, 5 * MS)):
        owd_us = ack.peer_ticks * learned_ns / 1000 - ack.sent_us
        seen_us[ack.tsval, ack.sent_us % 2**32] = owd_us
        anchor, anchor_queue = (law.state.anchor_tsval, law.state.anchor_sent_us), law.state.anchor_queue_us
        queue = law.feed(ack)
        by_rtt = ack.rtt_us - law.base
        if not law.tick_ns:
            assert queue == by_rtt
            continue
        if law.tick_ns != learned_ns:
            assert law.tick_ns == assumed(learned_ns)
            owd_min_us = None
            continue
        if owd_min_us is None:  # just learned: the window's first pair, were its queue all ahead
            owd_min_us = seen_us[anchor] - anchor_queue
        owd_min_us = min(owd_us, owd_min_us)
        off = abs(queue - min(by_rtt, owd_us - owd_min_us + tick_us))
        assert off < 5  # the anchor, its queue, the tick, the minimum and the result are rounded to whole us
        compared += queue < by_rtt
    assert compared, "the one-way delay never took anything away"


@pytest.mark.parametrize("drift", [-200, 200])
def test_drift_over_a_day_makes_no_queue(estimator: MakeEstimator, drift: int) -> None:
    """A busy hour's worth of ACKs spread over a day on an empty path with 200 ppm: 17 s between the clocks."""
    rng = random.Random(drift)
    path = Path(clock(rng, 1_000_000, drift, life_s=86_400))
    law = estimator()
    for ack in path.acks(range(0, 86_400 * S, 10 * S)):
        queue = law.feed(ack)
        assert queue == ack.rtt_us - law.base == 0
    assert law.tick_ns == 1_000_000


@settings(max_examples=8)
@given(seeds)
def test_a_longer_way_is_no_queue_for_longer_than_the_memory(estimator: MakeEstimator, seed: int) -> None:
    """After 6 s the way there is 30 ms longer. With a memory of 10 s that is forgotten at 17 s, by the one-way delay
    too: a busy way back does not bring it up again."""
    rng = random.Random(seed)
    behind = sawtooth(rng, 100 * MS)
    path = Path(
        clock(rng, 1_000_000, 0.0),
        forward=lambda ns: 30 * MS if ns > 6 * S else 0,
        reverse=lambda ns: behind(ns) if ns > 19 * S else 0,
        packets_per_ack=1,
    )
    law = estimator(memory_s=10)
    for ack in path.acks(paced(rng, 22 * S, 10 * MS)):
        queue = law.feed(ack)
        if 6.2 * S < ack.at_ns < 10 * S:
            assert queue > 28_000
        if ack.at_ns > 18 * S:
            assert queue <= 3_000


@pytest.mark.parametrize(
    "real_ns, learned_ns, wrong_ns, turns",
    [
        (real, learned, wrong, turns)
        for real, learned in TICKS_NS.items()
        for wrong in TICKS_NS
        for turns in (1, 2, 3, 4)
        if 100 < real and 100 < wrong < real and turns * 2**32 / (1 - wrong / real) * wrong / real < 2**31
    ],
)
def test_a_silence_that_would_make_another_tick_fit(
    estimator: MakeEstimator, real_ns: float, learned_ns: int, wrong_ns: float, turns: int
) -> None:
    """Where 32 bits of microseconds went round, what is left of the time makes the peer's ticks look like others."""
    silence_ns = int(turns * 2**32 / (1 - wrong_ns / real_ns)) * 1000
    rng = random.Random(turns)
    path = Path(clock(rng, real_ns, 0.0), packets_per_ack=1)
    law = estimator()
    for ack in path.acks([*range(0, 3 * S, 50 * MS), *range(3 * S + silence_ns, 6 * S + silence_ns, 50 * MS)]):
        law.check(law.feed(ack), ack.rtt_us)
        assert law.tick_ns in (0, learned_ns)
    assert law.tick_ns == learned_ns


@each_tick
@settings(max_examples=25)
@given(seeds, drifts, st.one_of(st.floats(1, 4_000), st.floats(1, 4_000_000)))
def test_silence_of_any_length_gives_no_wrong_tick(
    estimator: MakeEstimator, real_ns: float, learned_ns: int, seed: int, drift: float, silence: float
) -> None:
    rng = random.Random(seed)
    path = Path(clock(rng, real_ns, drift))
    law = estimator()
    after = int((3 + silence) * S)
    sends = [*range(0, 3 * S, 50 * MS), *range(after, after + 3 * S, 50 * MS)]
    for ack in path.acks(sends):
        law.check(law.feed(ack), ack.rtt_us)
        assert law.tick_ns in (0, learned_ns)
    assert law.tick_ns == learned_ns


LIES = {
    "still": lambda rng, said, n: said,
    "backwards": lambda rng, said, n: said - 7,
    "a tenth fast": lambda rng, said, n: said + 11 + n % 2 * 11,
    "a tenth slow": lambda rng, said, n: said + 9,
    "twice": lambda rng, said, n: said + 20,
    "jumps a second each second": lambda rng, said, n: said + 10 + (1000 if n % 100 == 0 else 0),
    "jumps back a second each second": lambda rng, said, n: said + 10 - (1000 if n % 100 == 0 else 0),
    "random": lambda rng, said, n: rng.getrandbits(32),
}


@pytest.mark.parametrize("lie", LIES)
@settings(max_examples=5)
@given(seeds)
def test_a_peer_that_lies_for_a_window_loses_its_tick(estimator: MakeEstimator, lie: str, seed: int) -> None:
    """ACKs every 10 ms on an empty path: a window is 1 s. Honest for 3 s, lies for 10 s, honest again."""
    rng = random.Random(seed)
    path = Path(clock(rng, 1_000_000, 0.0), packets_per_ack=1)
    law = estimator()
    said = None
    for i, ack in enumerate(path.acks(range(0, 16 * S, 10 * MS))):
        if 300 <= i < 1300:
            said = LIES[lie](rng, said, i) % 2**32
            ack.tsval = said
        elif i < 300:
            said = ack.tsval
        queue = law.feed(ack)
        law.check(queue, ack.rtt_us)
        if 110 < i < 300:
            assert law.tick_ns == 1_000_000
        # the window that the lie began in has honest ticks as well, and the jump of one is the next one's start
        if 510 <= i < 1300:
            assert law.tick_ns == 0, "after one window that is all lies"
            assert queue == ack.rtt_us - law.base
    assert law.tick_ns == 1_000_000, "honest for three seconds: known again"


@settings(max_examples=8)
@given(seeds)
def test_a_clock_that_is_learned_in_a_standing_queue_does_not_hide_it(estimator: MakeEstimator, seed: int) -> None:
    """Empty for half a second, 20 ms for ever after: the window ends in the queue, and its base is not there."""
    rng = random.Random(seed)
    path = Path(
        clock(rng, 1 * MS, 0.0), forward=lambda ns: 20 * MS if ns > S // 2 else 0, reverse=lambda ns: 0, packets_per_ack=1
    )
    law = estimator()
    learned = 0
    for ack in path.acks(paced(rng, 8 * S, 5 * MS)):
        queue = law.feed(ack)
        if law.tick_ns and ack.at_ns > S:
            learned += 1
            assert queue >= 18_000
    assert learned > 100
