# SPDX-License-Identifier: GPL-2.0-only
"""struct delay with a Python face: what a controller sees of it, in us."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import TypeAlias

from tests.unit.cdata import Ffi, Laws, Struct
from tests.unit.path import Ack

TICKS_NS = {  # true length of a peer's tick: what the law shall learn
    1_000: 1_000,  # Linux with microsecond timestamps
    1_000_000_000 / 1024: 976_562,
    1_000_000: 1_000_000,  # Linux
    1_000_000_000 / 512: 1_953_125,
    4_000_000: 4_000_000,
    10_000_000: 10_000_000,
}


class Estimator:
    def __init__(
        self,
        ffi: Ffi,
        law: Laws,
        c: SimpleNamespace,
        delta: int = 150,
        smoothing: int = 8,
        memory_s: int = 180,
        floor_us: int = 500,
        least: int = 1,
        noise_us: int = 0,
    ) -> None:
        self.law, self.c = law, c
        self.state = ffi.new("struct delay *")
        self.params = ffi.new(
            "struct delay_params *",
            {
                "delta": delta,
                "smoothing": smoothing,
                "memory_s": memory_s,
                "floor_us": floor_us,
                "least": least,
                "noise_us": noise_us,
            },
        )
        self.input = ffi.new("struct delay_ack *")
        law.delay_init(self.state)

    def read(self, now_us: int, rtt_us: int, tsval: int | None = None, own_us: int = 0) -> Struct:
        a = self.input
        a.now_us, a.rtt_us, a.tsval, a.stamped, a.own_us = now_us, rtt_us, tsval or 0, tsval is not None, own_us
        return a

    def measure(self, now_us: int, rtt_us: int, tsval: int | None = None, own_us: int = 0) -> int:
        return self.law.delay_measure(self.state, self.read(now_us, rtt_us, tsval, own_us), self.params)

    def ack(
        self, now_us: int, rtt_us: int, tsval: int | None = None, own_us: int = 0, stood_us: int = 0, late: bool = False
    ) -> int:
        """One ACK; us: its queueing delay. Without an RTT a controller does not ask the law."""
        if not rtt_us:
            return 0
        queue_us = self.measure(now_us, rtt_us, tsval, own_us)
        self.law.delay_take(self.state, queue_us, stood_us, late, self.params)
        return queue_us

    def feed(self, ack: Ack) -> int:
        """One ACK of path.py's with its timestamp."""
        return self.ack(ack.now_us, ack.rtt_us, ack.tsval)

    def lose(self, queue_us: int, slow_start: bool = False) -> None:
        self.law.delay_lost(self.state, queue_us, slow_start, self.params)

    def overflow(self, queue_us: int) -> None:
        """The buffer, as the loss that ends slow start does."""
        self.lose(queue_us, slow_start=True)

    def restart(self) -> None:
        self.law.delay_restart(self.state)

    @property
    def base(self) -> int:
        return min(self.state.rtt.now, self.state.rtt.before)

    @property
    def tick_ns(self) -> int:
        return self.state.tick_ns

    @property
    def queue_max(self) -> int:
        return self.law.delay_queue_max(self.state)

    @property
    def smoothed(self) -> float | None:
        """us with its fraction, or None"""
        value = self.state.smoothed_q8
        return None if value == self.c.DELAY_NOT_SMOOTHED else value / self.c.DELAY_SMOOTHED_UNIT

    @property
    def threshold(self) -> int:
        return self.law.delay_threshold(self.state, self.params)

    @property
    def known(self) -> bool:
        return self.law.delay_known(self.state)

    @property
    def provisional(self) -> int:
        return self.law.delay_provisional_us(self.state)

    @property
    def indicates(self) -> bool:
        return self.law.delay_indicates(self.state, self.params)

    def check(self, queue_us: int, rtt_us: int) -> None:
        """What holds whatever came in."""
        d, most = self.state, self.c.DELAY_MAX_US
        assert 0 <= queue_us <= min(rtt_us, most)
        if rtt_us:
            assert queue_us <= min(rtt_us, most) - self.base, "above the RTT's queueing delay"
        assert self.queue_max <= most
        assert self.smoothed is None or self.smoothed <= most
        assert self.smoothed is not None or not self.indicates
        assert self.threshold >= self.law.delay_floor(d, self.params)
        assert not self.known or self.threshold <= max(self.queue_max, 0)
        assert self.known or self.threshold >= self.c.DELAY_PROVISIONAL_MIN_US
        assert d.rise_us <= self.base or self.base == self.c.AGED_NO_MIN
        assert self.tick_ns in (0, *TICKS_NS.values())


MakeEstimator: TypeAlias = Callable[..., Estimator]  # takes the parameters of Estimator
