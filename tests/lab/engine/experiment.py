# SPDX-License-Identifier: GPL-2.0-only
"""The experiment language: what a lab runs, and what it measured. Data only: this module knows no lab.

Units are in the names: `_s` seconds since the start of the run, `_ms` milliseconds, `_mbit` Mbit/s (10^6), `_bytes`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field

MTU_BYTES = 1500


@dataclass(frozen=True)
class Link:
    """A bottleneck with a drop-tail buffer: rate of IP packets, round trip without a queue."""

    rate_mbit: float
    rtt_ms: float
    buffer_bdp: float = 1.0

    @property
    def bdp_bytes(self) -> int:
        return round(self.rate_mbit * 1e6 / 8 * self.rtt_ms / 1e3)

    @property
    def buffer_bytes(self) -> int:
        return max(2 * MTU_BYTES, round(self.buffer_bdp * self.bdp_bytes))

    @property
    def buffer_ms(self) -> float:
        """Delay of a full buffer."""
        return self.buffer_bytes * 8 / (self.rate_mbit * 1e3)


@dataclass(frozen=True)
class Flow:
    """A bulk TCP transfer from the sender to the receiver."""

    name: str
    controller: str
    seconds: float
    start_s: float = 0.0
    family: int = 4  # 4 or 6
    netnice: bool = False  # its program chooses no controller, and is started by `netnice`; in the native lab only

    @property
    def end_s(self) -> float:
        return self.start_s + self.seconds

    @property
    def client_s(self) -> int:
        """For how long its client is asked to send: iperf3 knows whole seconds only, and takes 39.95 for 39. What it sends after the
        end of the run is not measured."""
        return math.ceil(self.seconds)


@dataclass(frozen=True)
class Experiment:
    """Flows over a link. It lasts until its last flow has ended, and at least `seconds`."""

    name: str
    link: Link
    flows: tuple[Flow, ...] = ()
    seconds: float = 0.0
    ping_every_s: float = 0.1

    @property
    def end_s(self) -> float:
        return max([self.seconds, *(flow.end_s for flow in self.flows)])


@dataclass(frozen=True)
class Sample:
    """The data that a receiver got from start_s to end_s."""

    start_s: float
    end_s: float
    megabits: float


@dataclass
class FlowResult:
    """One flow as its receiver saw it; `controller` is what its socket really used, as the sender reported."""

    flow: Flow
    samples: list[Sample] = field(default_factory=list)
    controller: str = ""
    retransmits: int = 0

    @property
    def first_s(self) -> float:
        """When the first data arrived."""
        return next((s.start_s for s in self.samples if s.megabits > 0), float("inf"))

    def goodput_mbit(self, from_s: float, to_s: float) -> float:
        """Mean goodput in [from_s, to_s]; a sample that lies partly inside counts by that part."""
        total = 0.0
        for s in self.samples:
            inside = min(s.end_s, to_s) - max(s.start_s, from_s)
            if inside > 0:
                total += s.megabits * inside / (s.end_s - s.start_s)
        return total / (to_s - from_s)

    def reaches(self, level_mbit: float, after_s: float, window_s: float) -> float | None:
        """Seconds from after_s to the beginning of the first window of window_s with a mean goodput of level_mbit; None: never."""
        end = max((s.end_s for s in self.samples), default=0.0)
        start = after_s
        while start + window_s <= end + 0.05:
            if self.goodput_mbit(start, start + window_s) >= level_mbit:
                return start - after_s
            start += 0.1
        return None


@dataclass
class Result:
    """All that was measured in one run."""

    experiment: Experiment
    flows: dict[str, FlowResult] = field(default_factory=dict)
    pings: list[tuple[float, float]] = field(default_factory=list)  # (s, RTT in ms)
    pings_lost: int = 0
    backlog: list[tuple[float, int]] = field(default_factory=list)  # (s, bytes in the bottleneck's queue)
    queue_drops: int = 0  # packets
    wire: dict[str, object] = field(default_factory=dict)  # the delay line's own statistics

    @property
    def late_part(self) -> float:
        """The part of all packets that the lab delivered more than 1 ms late: the noise of a busy machine."""
        ways = [way for way in self.wire.values() if isinstance(way, dict)]
        return float(sum(way["late"] for way in ways) / max(1, sum(way["packets"] for way in ways)))

    def rtts_ms(self, from_s: float = 0.0, to_s: float = float("inf")) -> list[float]:
        return [rtt for at, rtt in self.pings if from_s <= at <= to_s]


def quantile(values: Iterable[float], part: float) -> float:
    """The smallest value that at least this part of all values does not exceed; nan if there are no values."""
    ordered = sorted(values)
    if not ordered:
        return float("nan")
    return ordered[min(len(ordered) - 1, max(0, -(-int(part * 1e6 * len(ordered)) // 10**6) - 1))]
