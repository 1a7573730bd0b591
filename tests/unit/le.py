# SPDX-License-Identifier: GPL-2.0-only
"""A flow under the law of le, for the tests: its state, its path, and the steps that they share."""

from hypothesis import strategies as st

from tests.unit.cdata import Ffi, Laws, Struct

FREE, CUT, JUDGE, SMALL = range(4)
GO_ON, DRAIN, GROW, YIELD, WAIT, BACK = range(6)
UNIT_US, ONE = 16, 256
PATH = {"base_us": 50_000, "threshold_us": 4000, "threshold_min_us": 1000, "noise_us": 0, "noisy_us": 2500, "packet_us": 0, "base_seen": True,
        "gap_max": 16, "gap_share": 150, "quiet_rounds": 8}  # fmt: skip

delays = st.one_of(st.integers(0, 30_000), st.integers(0, 2**23))
windows = st.one_of(st.integers(1, 200), st.integers(1, 2**32 - 1))


class Flow:
    """The law of one flow, and its path."""

    def __init__(self, ffi: Ffi, law: Laws, **path: int) -> None:
        self.law, self.ffi = law, ffi
        self.l: Struct = ffi.new("struct le *")
        self.path: Struct = ffi.new("struct le_path *", {**PATH, **path})
        law.le_begin(self.l)

    def ack(self, queue_us: int, acked: int = 2, window: int = 40, flying: int = 8, hole: bool = False) -> bool:
        ack = self.ffi.new("struct le_ack *", (queue_us, acked, flying, hole))
        return bool(self.law.le_sample(self.l, ack, window, self.path))

    def block(self, queue_us: int, window: int = 40, flying: int = 8) -> None:
        """ACKs of this delay until a block ends."""
        for _ in range(100_000):
            if self.ack(queue_us, window=window, flying=flying):
                return
        raise AssertionError("no block ends")

    def decide(self, window: int = 40) -> int:
        return int(self.law.le_decide(self.l, window * ONE, self.path))

    def round(self, window: int = 40, grows: bool = True) -> None:
        self.law.le_round(self.l, window * ONE, grows, self.path)

    def judged(self, cut_us: int = 5000, window: int = 40) -> None:
        """A flow that has drained, not for the first time, and judges."""
        self.l.back_q8 = 1
        self.block(cut_us, window)
        assert self.decide(window) == DRAIN
        self.law.le_cut(self.l, self.law.le_drained(self.l, window * ONE, cut_us, 0, self.path), self.path)
        assert self.l.stage == CUT
        self.round(window)
        assert self.l.stage == JUDGE

    def small(self, window: int = 40) -> None:
        """A flow beside others that keep a queue."""
        self.judged(window=window)
        self.block(11_000, window)
        assert self.decide(window) == YIELD and self.l.stage == SMALL

    def pair(self, queue_us: int) -> int:
        self.ack(queue_us, 1, 4, 1)
        assert self.ack(queue_us, 1, 4, 0)
        return self.decide(4)
