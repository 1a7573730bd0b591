# SPDX-License-Identifier: GPL-2.0-only
"""Figure 3 of the TCP-LP paper, with sequence numbers that never wrap and times that never end, against the machine."""

from dataclasses import dataclass

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.unit.cdata import Ffi, Laws

GROW, HOLD, HALVE, TO_ONE = "GROW", "HOLD", "HALVE", "TO_ONE"
LONGEST = 2**28  # us: the header's stated range of a phase


class Figure3:
    """III-B.2 and B.3. `itti` as in the pseudo code; its lines are beside the statements."""

    def __init__(self) -> None:
        self.itti_ends: int | None = None
        self.reacted_at: int | None = None  # snd_nxt at the last reaction

    def ack(self, now: int, rtt: int, una: int, nxt: int, indicated: bool, rtts: int) -> str:
        if self.itti_ends is not None and now >= self.itti_ends:
            self.itti_ends = None
        # "ignores succeeding congestion indications if the source has reacted [...] in the last round-trip time"
        in_its_rtt = self.reacted_at is not None and una <= self.reacted_at
        if not indicated:
            return HOLD if self.itti_ends is not None else GROW  # 10, 11
        if in_its_rtt:
            return HOLD
        verdict = TO_ONE if self.itti_ends is not None else HALVE  # 3 ... 7
        self.itti_ends = now + min(rtts * rtt, LONGEST - 1)  # 8
        self.reacted_at = nxt
        return verdict

    def loss(self, nxt: int) -> None:
        self.reacted_at = nxt


class Machine:
    """The law, called in the order that its header gives, with a clock of 32 bits."""

    def __init__(self, ffi: Ffi, law: Laws) -> None:
        self.law = law
        self.state = ffi.new("struct inference *")
        self.input = ffi.new("struct inference_ack *")
        self.names = {getattr(law, "INFERENCE_" + name): name for name in (GROW, HOLD, HALVE, TO_ONE)}
        self.last = 0
        law.inference_init(self.state)

    def ack(self, now: int, rtt: int, una: int, nxt: int, indicated: bool, rtts: int) -> str:
        a = self.input
        self.law.inference_idle(self.state, min((now - self.last) >> 10, 2**32 - 1))
        self.last = now
        now %= 2**32
        a.now_us, a.rtt_us, a.snd_una, a.snd_nxt, a.rtts = now, rtt, una % 2**32, nxt % 2**32, rtts
        self.law.inference_unmute(self.state, a.snd_una)
        self.law.inference_expire(self.state, now)
        return self.names[self.law.inference_step(self.state, a, indicated)]

    def loss(self, nxt: int) -> None:
        self.law.inference_mute(self.state, nxt % 2**32)


@pytest.fixture
def machine(ffi: Ffi, law: Laws) -> Machine:
    return Machine(ffi, law)


@dataclass
class Step:
    pause_us: int
    acked: float  # part of what is in flight
    sent: int  # bytes
    rtt_us: int
    event: str


steps = st.lists(
    st.builds(
        Step,
        st.one_of(st.integers(0, 100_000), st.integers(0, 2**40)),
        st.floats(0, 1),
        st.one_of(st.integers(0, 100_000), st.integers(0, 2**29)),
        st.one_of(st.integers(1, 200_000), st.integers(0, 2**32 - 1)),
        st.sampled_from(["calm", "calm", "calm", "indicated", "indicated", "loss"]),
    ),
    min_size=1,
    max_size=80,
)
isns = st.one_of(st.integers(0, 2**32 - 1), st.integers(2**32 - 200_000, 2**32 - 1), st.just(2**31))


@given(isns, st.integers(0, 2**60), st.integers(1, 16), steps)
def test_figure_3(ffi: Ffi, law: Laws, isn: int, now: int, rtts: int, steps: list[Step]) -> None:
    machine, paper = Machine(ffi, law), Figure3()
    una, nxt = isn, isn + 1
    reactions: list[int] = []
    for step in steps:
        now += step.pause_us
        una += int((nxt - una) * step.acked)
        nxt = min(nxt + step.sent, una + 2**30)  # the largest window TCP can have
        indicated = step.event == "indicated"
        verdict = machine.ack(now, step.rtt_us, una, nxt, indicated, rtts)
        assert verdict == paper.ack(now, step.rtt_us, una, nxt, indicated, rtts)
        if verdict in (HALVE, TO_ONE):
            if reactions:
                assert una > reactions[-1], "a second reaction to one window of data"
            reactions.append(nxt)
        if step.event == "loss":
            machine.loss(nxt)
            paper.loss(nxt)
            reactions.append(nxt)


def test_the_phase_ends_after_its_rtts_without_an_indication(machine: Machine) -> None:
    assert machine.ack(1_000, 100, 0, 500, True, 3) == HALVE
    for now, una in ((1_100, 400), (1_200, 501), (1_299, 600)):
        assert machine.ack(now, 100, una, una + 500, False, 3) == HOLD
    assert machine.ack(1_300, 100, 700, 1_200, False, 3) == GROW


def test_a_second_indication_takes_the_window_to_one_and_restarts_the_timer(machine: Machine) -> None:
    assert machine.ack(1_000, 100, 0, 500, True, 3) == HALVE
    assert machine.ack(1_050, 100, 500, 900, True, 3) == HOLD, "still the data that was in flight"
    assert machine.ack(1_100, 100, 501, 900, True, 3) == TO_ONE, "paper: two RTT under persistent congestion"
    assert machine.ack(1_399, 100, 901, 1_000, False, 3) == HOLD
    assert machine.ack(1_400, 100, 1_001, 1_100, False, 3) == GROW
    assert machine.ack(1_500, 100, 1_101, 1_200, True, 3) == HALVE, "a new phase begins with a half"


def test_an_indication_that_is_forgiven_makes_the_phase_longer(machine: Machine) -> None:
    law, m = machine.law, machine.state
    assert law.inference_left_us(m, 1_000) == 0
    assert machine.ack(1_000, 100, 0, 500, True, 3) == HALVE
    assert law.inference_left_us(m, 1_100) == 200
    law.inference_forgive(m, 900, 150)
    assert (law.inference_left_us(m, 1_100), law.inference_left_us(m, 1_450)) == (350, 0)
    assert machine.ack(1_200, 100, 900, 1_000, True, 3) == HOLD, "its RTT is muted"
    assert machine.ack(1_449, 100, 901, 1_000, True, 3) == TO_ONE


def test_no_phase_is_longer_than_its_range(machine: Machine) -> None:
    assert machine.ack(0, 2**32 - 1, 0, 500, True, 16) == HALVE
    assert machine.ack(LONGEST - 2, 100, 600, 900, False, 16) == HOLD
    assert machine.ack(LONGEST - 1, 100, 600, 900, False, 16) == GROW
    assert machine.ack(LONGEST, 2**31, 901, 950, True, 2) == HALVE, "the product does not fit 32 bits"
    assert machine.ack(2 * LONGEST - 2, 100, 951, 990, False, 2) == HOLD


@given(st.integers(0, 2**40), st.integers(1, 10**6), st.integers(0, 2**34))
@example(0, 1000, 2**32 - 10**6)
def test_a_phase_is_over_after_any_pause(ffi: Ffi, law: Laws, now: int, rtt: int, pause: int) -> None:
    """70 minutes later the wrapped clock is again before the end of the phase."""
    machine = Machine(ffi, law)
    machine.last = now
    machine.ack(now, rtt, 0, 500, True, 3)
    later = now + 3 * rtt + pause
    assert machine.ack(later, rtt, 600, 900, False, 3) == GROW


def test_a_loss_mutes_one_rtt(machine: Machine) -> None:
    machine.loss(1_000)
    assert machine.ack(0, 100, 999, 1_500, True, 3) == HOLD
    assert machine.ack(0, 100, 1_000, 1_500, True, 3) == HOLD
    assert machine.ack(0, 100, 1_000, 1_500, False, 3) == GROW, "a loss alone starts no inference phase"
    assert machine.ack(0, 100, 1_001, 1_500, True, 3) == HALVE


@given(isns, st.integers(1, 2**30), st.booleans())
@example(0, 2**30, True)
def test_long_transfers_do_not_get_stuck(ffi: Ffi, law: Laws, isn: int, window: int, loss: bool) -> None:
    """After one reaction, 2^34 bytes without any: the sequence space goes round four times."""
    machine = Machine(ffi, law)
    machine.ack(0, 1000, isn, isn + window, True, 3)
    if loss:
        machine.loss(isn + window)
    una = isn
    now = 0
    for _ in range(80):
        una += max(window, 2**28)
        now += 1000
        if now > 3000:
            assert machine.ack(now, 1000, una, una + window, False, 3) == GROW
        else:
            machine.ack(now, 1000, una, una + window, False, 3)
    assert machine.ack(now, 1000, una, una + window, True, 3) == HALVE


def test_a_muted_machine_that_sees_every_ack_ends_its_rtt_at_any_window(ffi: Ffi, law: Laws) -> None:
    for window in (1, 1448, 2**20, 2**30):
        machine = Machine(ffi, law)
        machine.loss(2**32 - 5 + window)
        una = 2**32 - 5
        for part in range(1, 5):
            assert machine.ack(part, 10, una + window * part // 4, una + 2 * window, True, 3) == HOLD
        assert machine.ack(9, 10, una + window + 1, una + 2 * window, True, 3) == HALVE
