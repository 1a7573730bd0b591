# SPDX-License-Identifier: GPL-2.0-only
"""Input that no honest peer sends: the laws must stay in their own ranges, and in those of C.

hostile.c does it a few million times under the sanitizers; hypothesis does it fewer times, but shrinks what it finds.
"""

import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from tests.unit import headers
from tests.unit.estimator import MakeEstimator

ends = st.sampled_from([0, 1, 2, 2**31 - 1, 2**31, 2**31 + 1, 2**32 - 1, 2**23 - 1, 2**23, 2**23 + 1])
u32 = st.one_of(ends, st.integers(0, 2**32 - 1), st.integers(0, 10**6))
times = st.one_of(st.integers(0, 2**64 - 1), st.sampled_from([0, 2**32, 2**42, 2**42 - 1, 2**63, 2**64 - 1]))
day_us = 86_400 * 10**6


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> str:
    program = str(tmp_path_factory.mktemp("hostile") / "hostile")
    headers.cc(
        [
            "-std=gnu11",
            "-Wall",
            "-Wextra",
            "-Werror",
            "-g",
            "-O1",
            "-fsanitize=address,undefined,signed-integer-overflow,float-cast-overflow",
            "-fno-sanitize-recover=all",
            "-Iinclude",
            "-o",
            program,
            "tests/unit/hostile.c",
        ]
    )
    return program


@pytest.mark.parametrize("seed", range(1, 9))
def test_the_sanitizers_find_nothing(hostile: str, seed: int) -> None:
    run = subprocess.run([hostile, str(seed), "3000000"], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr


@given(
    st.lists(
        st.tuples(times, u32, st.one_of(st.none(), u32), st.integers(0, 2**20), st.integers(0, 2**20), st.booleans()), max_size=40
    ),
    st.integers(1, 999),
    st.integers(1, 64),
    st.integers(1, 3600),
    st.integers(0, 2**23),
    st.integers(0, 2**18 - 4),
)
def test_anything(
    estimator: MakeEstimator,
    acks: list[tuple[int, int, int | None, int, int, bool]],
    delta: int,
    smoothing: int,
    memory: int,
    floor: int,
    noise: int,
) -> None:
    law = estimator(delta=delta, smoothing=smoothing, memory_s=memory, floor_us=floor, noise_us=noise)
    for now, rtt, tsval, own, stood, late in acks:
        law.check(law.ack(now, rtt, tsval, own, stood, late), rtt)


class HostileFlow(RuleBasedStateMachine):
    """Rules that mix honest progress with every kind of lie, so that lies also meet a law that has learned something."""

    estimator: MakeEstimator  # of the test
    checked = 0  # delays

    @initialize(
        peer_tick=st.sampled_from([1_000, 976_562, 1_000_000]),
        now=st.integers(0, 2**62),
        tsval=u32,
        smoothing=st.integers(1, 64),
    )
    def start(self, peer_tick: int, now: int, tsval: int, smoothing: int) -> None:
        self.law = self.estimator(smoothing=smoothing)
        self.peer_tick = peer_tick
        self.now, self.tsval = now, tsval
        self.seen: tuple[int, int] | None = None

    def ack(self, rtt: int, late: bool = False, stood: int = 0) -> None:
        queue = self.law.ack(self.now % 2**64, rtt, self.tsval % 2**32, stood_us=stood, late=late)
        self.seen = queue, rtt

    def honest(self, us: int) -> None:
        self.now += us
        self.tsval += us * 1000 // self.peer_tick

    @rule(seconds=st.integers(1, 10), base=st.integers(10, 10**6), top=st.integers(0, 10**5))
    def goes_well(self, seconds: int, base: int, top: int) -> None:
        for i in range(seconds * 4):
            self.honest(250_000)
            self.ack(base + (i % 4) * top // 4)

    @rule(value=u32, rtt=u32)
    def tsval_is_anything(self, value: int, rtt: int) -> None:
        self.tsval = value
        self.ack(rtt)

    @rule(back=st.integers(1, 2**31), rtt=st.integers(1, 10**5))
    def tsval_runs_backwards(self, back: int, rtt: int) -> None:
        for _i in range(5):
            self.honest(300_000)
            self.tsval -= back
            self.ack(rtt)

    @rule(us=st.integers(0, 100 * day_us), rtt=u32)
    def days_pass(self, us: int, rtt: int) -> None:
        self.honest(us)
        self.ack(rtt)

    @rule(us=st.integers(-100 * day_us, 100 * day_us), rtt=u32)
    def our_clock_jumps(self, us: int, rtt: int) -> None:
        self.now = max(0, self.now + us)
        self.ack(rtt)

    @rule(rtt=u32)
    def is_late(self, rtt: int) -> None:
        self.ack(rtt, late=True)

    @rule(rtt=u32, stood=st.integers(0, 2**20))
    def stands_still(self, rtt: int, stood: int) -> None:
        self.ack(rtt, stood=stood)

    @rule(queue=st.integers(0, 2**23), slow_start=st.booleans())
    def loses(self, queue: int, slow_start: bool) -> None:
        self.law.lose(queue, slow_start)

    @rule(rtt=st.integers(1, 2**31))
    def becomes_longer(self, rtt: int) -> None:
        self.law.law.delay_rebase(self.law.state, rtt)
        self.seen = None  # against another base

    @rule()
    def restarts(self) -> None:
        self.law.restart()

    @invariant()
    def holds(self) -> None:
        if seen := getattr(self, "seen", None):
            type(self).checked += 1
            self.law.check(*seen)


def test_an_honest_flow_with_hostile_moments(estimator: MakeEstimator) -> None:
    class Flow(HostileFlow):
        pass

    Flow.estimator = staticmethod(estimator)
    run_state_machine_as_test(Flow)  # type: ignore[no-untyped-call]  # hypothesis does not annotate it
    assert Flow.checked, "no flow came to a delay"
