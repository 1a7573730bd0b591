# SPDX-License-Identifier: GPL-2.0-only
"""TCPW-LP's virtual queue with a Python face, its model in floating point, and what its tests draw."""

import math
from collections.abc import Callable
from typing import TypeAlias

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
        """Gives this RTT twice in a row, so that it counts."""
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
        """A loss at a delay below that of every reduction counts as chance; the law's averages, which are rounded, decide."""
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
noises = st.one_of(st.just(0), st.integers(0, 20_000), st.integers(0, 0xFFFF << 2))  # what law/noise.h can say
owns = st.one_of(st.just(0), st.integers(0, 20_000), st.integers(0, 0xFFFF))
