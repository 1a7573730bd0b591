# SPDX-License-Identifier: GPL-2.0-only
"""What is known of the buffer, and the threshold that follows from it (include/law/delay_buffer.h).

not known	 clamp(base / 4, 4 ms, 20 ms), the floor or the noise, whichever is most
overflowed	 known by the loss that ends slow start, three losses in a row at the largest queue, or one above the threshold
shown	 a queue of 3/2 of the threshold of an unknown buffer
stale	 the path became longer: not known until a loss tells it, or the path is back
"""

from collections.abc import Callable
from typing import TypeAlias

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.cdata import Ffi, Laws
from tests.unit.estimator import MakeEstimator

MAX = 2**23
us = st.integers(1, MAX)
queues = st.one_of(st.integers(1, 400_000), st.integers(1, MAX))
bases = st.one_of(st.integers(1, 300_000), st.integers(1, MAX - 1))
SECOND = 10**6


class Life:
    """An estimator on a path of this base, one ACK each 10 ms."""

    def __init__(self, estimator: MakeEstimator, base: int = 50_000, **params: int) -> None:
        self.law, self.path, self.now = estimator(**params), base, SECOND
        self.wait(0)

    def wait(self, queue: int, stood_us: int = 0, late: bool = False) -> int:
        """An ACK with this queueing delay."""
        self.now += 10_000
        return self.law.ack(self.now, self.path + queue, stood_us=stood_us, late=late)

    def lose(self, queue: int, slow_start: bool = False) -> None:
        self.law.lose(queue, slow_start)

    @property
    def overflowed(self) -> int:
        return self.law.state.overflowed


MakeLife: TypeAlias = Callable[..., Life]  # takes the parameters of Life


@pytest.fixture(scope="module")
def life(estimator: MakeEstimator) -> MakeLife:
    return lambda base=50_000, **params: Life(estimator, base, **params)


@given(st.one_of(bases, st.sampled_from([1, 16_000, 80_000, 80_004, MAX])))
def test_the_threshold_of_an_unknown_buffer(estimator: MakeEstimator, base: int) -> None:
    law = estimator()
    assert law.provisional == 4_000, "without a base as well"
    law.ack(0, base)
    assert law.provisional == min(20_000, max(4_000, base // 4)) == law.threshold
    assert not law.known


@given(bases, st.integers(0, 100_000), st.integers(0, 0xFFFF << 2))
def test_it_is_never_below_the_floor_or_the_noise(estimator: MakeEstimator, base: int, floor: int, noise: int) -> None:
    law = estimator(floor_us=floor, noise_us=noise)
    law.ack(0, base)
    assert law.threshold == max(law.provisional, floor, noise)


@given(st.integers(1, 300_000), queues, st.integers(1, 999), st.integers(0, 100_000), st.integers(0, 0xFFFF << 2))
def test_of_a_known_one_the_floor_is_half_and_the_noise_a_quarter(
    estimator: MakeEstimator, base: int, queue: int, delta: int, floor: int, noise: int
) -> None:
    law = estimator(delta=delta, floor_us=floor, noise_us=noise)
    law.ack(0, base)
    law.overflow(queue)
    assert law.known and law.queue_max == queue
    assert law.threshold == max(queue * delta // 1000, min(floor, queue // 2), min(noise, queue // 4))


@given(st.integers(1, 300_000), st.integers(0, 60_000))
def test_a_queue_far_above_the_threshold_is_the_buffer(life: MakeLife, base: int, queue: int) -> None:
    flow = life(base)
    flow.wait(queue)
    assert flow.law.known == (2 * queue >= 3 * flow.law.provisional)
    assert not flow.overflowed
    assert flow.law.threshold == (max(queue * 150 // 1000, min(500, queue // 2)) if flow.law.known else flow.law.provisional)


def test_below_that_it_is_a_part_of_it(life: MakeLife) -> None:
    """A flow that came to a busy path, and one that left slow start early: 15 % of the largest delay seen would become smaller
    each time."""
    flow = life(50_000)
    for queue in (0, 9_000, 0, 18_749):
        flow.wait(queue)
        assert flow.law.threshold == 12_500
    flow.wait(18_750)
    assert flow.law.threshold == 18_750 * 15 // 100


# --- losses tell --------------------------------------------------------------


@given(queues, queues, st.booleans())
def test_the_loss_that_ends_slow_start_tells(life: MakeLife, seen: int, lost_in: int, slow_start: bool) -> None:
    flow = life()
    flow.wait(seen)
    seen = flow.law.queue_max
    before = flow.law.threshold
    flow.lose(lost_in, slow_start)
    counts = lost_in >= seen - seen // 4 and (slow_start or lost_in > before)
    assert flow.overflowed == counts
    assert flow.law.queue_max == (max(seen, lost_in) if counts else seen)


def test_one_loss_is_chance_and_three_in_the_largest_queue_are_not(life: MakeLife) -> None:
    """A path of 2 ms of buffer: its queue is below any threshold."""
    flow = life()
    for queue in (0, 2_000, 1_900):
        flow.wait(queue)
    for overflowed in (0, 0, 1):
        flow.lose(1_900)
        assert flow.overflowed == overflowed
    assert flow.law.known and flow.law.threshold == 500


@pytest.mark.parametrize("between", [1_874, 1_500, 0])
def test_in_a_row(life: MakeLife, between: int) -> None:
    flow = life()
    flow.wait(2_000)
    for queue in (2_000, 2_000, between, 2_000, 2_000):
        flow.lose(queue)
        assert not flow.overflowed
    flow.lose(2_000)
    assert flow.overflowed


def test_a_loss_in_less_than_three_quarters_of_the_largest_queue_tells_nothing(life: MakeLife) -> None:
    flow = life()
    flow.wait(100_000)
    for _ in range(10):
        flow.lose(74_999, slow_start=True)
    assert not flow.overflowed and flow.law.state.full == 0
    flow.lose(75_000)
    assert flow.overflowed and flow.law.queue_max == 100_000


def test_a_loss_without_a_queue_tells_nothing(life: MakeLife) -> None:
    flow = life()
    for _ in range(5):
        flow.lose(0, slow_start=True)
    assert not flow.overflowed and flow.law.queue_max == 0


# --- a time for which the path stood still --------------------------------------


@given(st.integers(0, MAX), st.integers(0, 2**20))
def test_what_must_be_a_queue(law: Laws, queue: int, stood: int) -> None:
    """Less than half of it may as well be a burst of others, which is a queue."""
    assert law.delay_certain(queue, stood) == (queue if stood <= queue // 2 else max(0, queue - stood))


@given(st.integers(0, 25_000), st.integers(100_000, 900_000))
def test_one_ack_after_a_stall_is_not_the_largest_queue(life: MakeLife, queue: int, stall: int) -> None:
    """A buffer of 25 ms on a link that stood still: 15 % of the stall would be a threshold above the buffer."""
    flow = life()
    flow.wait(25_000)
    flow.lose(25_000, slow_start=True)
    flow.wait(stall + queue, stood_us=stall)
    assert flow.law.queue_max == 25_000 and flow.law.threshold == 3_750
    flow.wait(stall + queue)
    assert flow.law.queue_max == stall + queue, "the same without a silence is a queue"


@given(st.integers(0, 400_000), st.integers(0, 400_000), st.integers(0, 400_000), st.integers(0, 500_000))
def test_the_queue_that_a_loss_was_in(estimator: MakeEstimator, base: int, now: int, before: int, stood: int) -> None:
    """Its ACK's, or the one before it, whichever is larger."""
    law = estimator()
    assert law.law.delay_at_loss(law.state, law.read(SECOND, 1 + base + now), before, 0) == before, "no base yet"
    law.ack(0, 1 + base)
    got = law.law.delay_at_loss(law.state, law.read(SECOND, 1 + base + now), before, stood)
    assert got == law.law.delay_certain(max(now, before), stood)


def test_the_reverse_path_is_not_in_it(ffi: Ffi, estimator: MakeEstimator) -> None:
    law = estimator()
    for i in range(400):
        law.ack(SECOND + i * 10_000, 50_000, tsval=i * 10)
    assert law.tick_ns == 1_000_000
    at = SECOND + 400 * 10_000
    state = bytes(ffi.buffer(law.state))
    ack = law.read(at, 130_000, tsval=4000 - 80)  # sent 80 ms sooner, and as far in the one-way delay
    assert law.law.delay_at_loss(law.state, ack, 0, 0) <= 2_000
    assert law.law.delay_at_loss(law.state, law.read(at, 130_000), 0, 0) == 80_000, "without a timestamp"
    law.law.delay_at_loss(law.state, law.read(at, 130_000, tsval=2**31), 0, 0)
    assert bytes(ffi.buffer(law.state)) == state, "a loss changes nothing that was learned of the clock"


@given(st.integers(1_000, 200_000), st.integers(1, 250_000), st.booleans(), st.integers(1, 5))
def test_a_first_ack_that_was_delayed_is_no_queue(
    estimator: MakeEstimator, base: int, late_us: int, late: bool, count: int
) -> None:
    """A request of one packet, whose ACK the peer delays by 40 to 200 ms, and then the real path: the first base was too high by
    a delay that was never a queue, and which would stay the largest for ever."""
    law = estimator()
    for i in range(count):
        law.ack(SECOND + i * 300_000, base + late_us, late=late)
    for i in range(10):
        law.ack(3 * SECOND + i * 1_000, base + 10 * (i % 2))
    assert law.base == base and law.queue_max == 10
    assert not law.known and law.threshold == max(law.provisional, 500)


# --- another path ----------------------------------------------------------------


@given(st.integers(1_000, 200_000), st.integers(1, 200_000), queues)
def test_a_longer_path_has_another_buffer(life: MakeLife, base: int, rise: int, queue: int) -> None:
    """The new buffer is not known, but not zero: the rest of q_max would give a threshold below the noise."""
    flow = life(base)
    flow.wait(queue)
    flow.lose(queue, slow_start=True)
    seen = flow.law.queue_max
    assert flow.law.law.delay_rebase(flow.law.state, base + rise) == rise
    assert flow.law.state.stale and not flow.law.known
    assert flow.law.threshold == max(flow.law.provisional, 500) >= 4_000
    flow.path = base + rise
    flow.wait(min(seen * 2, 400_000))
    assert flow.law.queue_max == seen, "what is seen here is not put to what was there"


def test_a_loss_tells_the_new_one(life: MakeLife) -> None:
    flow = life(20_000)
    flow.wait(100_000)
    flow.lose(100_000, slow_start=True)
    flow.law.law.delay_rebase(flow.law.state, 60_000)
    flow.path = 60_000
    flow.wait(5_000)
    flow.lose(16_000)
    assert flow.law.known and flow.law.queue_max == 16_000
    assert flow.law.threshold == 2_400


@given(st.integers(1_000, 200_000), st.integers(20_000, 200_000), st.integers(-3_000, 30_000))
def test_the_path_is_back(life: MakeLife, base: int, rise: int, short: int) -> None:
    """If the path is as short as before, up to a millisecond and an eighth, its buffer is the same. If it stays longer, it is
    not."""
    flow = life(base)
    flow.wait(100_000)
    flow.lose(100_000, slow_start=True)
    flow.law.law.delay_rebase(flow.law.state, base + rise)
    flow.path = min(base + rise, max(1, base + short))
    flow.wait(0)
    back = base + rise - flow.path
    left = max(0, rise - back)
    assert flow.law.known == (left <= 1_000 + min(back, rise) // 8)
    assert flow.law.state.rise_us == left
    if flow.law.known:
        assert flow.law.queue_max == 100_000 + max(0, back - rise)


@given(st.lists(st.tuples(st.sampled_from(["ack", "rebase", "half", "lose"]), us), max_size=60))
def test_a_rise_is_never_more_than_the_base(estimator: MakeEstimator, steps: list[tuple[str, int]]) -> None:
    law, now = estimator(memory_s=10), SECOND
    for what, value in steps:
        now += 6 * SECOND if what == "half" else 1_000
        if what == "rebase":
            law.law.delay_rebase(law.state, value)
        elif what == "lose":
            law.lose(value)
        else:
            law.check(law.ack(now, value), value)
        if law.base != law.c.AGED_NO_MIN:
            assert law.state.rise_us <= law.base
