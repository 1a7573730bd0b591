# SPDX-License-Identifier: GPL-2.0-only
"""A path for the delay estimator: two clocks, a queue in each direction, a receiver that delays its ACKs.

Everything is in ns of true time, and every ACK carries the truth beside what the law may see.
"""

import random
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

MS = 1_000_000
S = 1_000_000_000
DELAYED_ACK_NS = 40 * MS  # Linux: TCP_DELACK_MIN


@dataclass
class Clock:
    tick_ns: float  # nominal
    offset: int = 0  # ticks at true time 0
    drift_ppm: float = 0.0
    phase: float = 0.0  # of a tick

    def ticks(self, ns: int) -> int:
        """since true time 0, without offset and wrap"""
        return int(ns * (1 + self.drift_ppm * 1e-6) / self.tick_ns + self.phase)

    def stamp(self, ns: int) -> int:
        return (self.offset + self.ticks(ns)) & 0xFFFFFFFF


@dataclass
class Ack:
    now_us: int
    rtt_us: int
    tsval: int
    peer_ticks: int  # tsval without offset and wrap
    sent_us: int  # our clock: the newest packet left
    ahead_ns: int  # truth: what the newest packet waited in the forward queue
    one_way_ns: int  # truth: from the sending of the newest packet to the ACK's, less the base
    at_ns: int


@dataclass
class Path:
    peer: Clock
    forward: Callable[[int], int] = lambda ns: 0  # queueing delay of what enters at that time
    reverse: Callable[[int], int] = lambda ns: 0
    forward_ns: int = 10 * MS  # base delays
    reverse_ns: int = 10 * MS
    packets_per_ack: int = 2
    started_us: int = field(default=10**9)  # our clock at true time 0

    def acks(self, sends_ns: Iterable[int]) -> Iterator[Ack]:
        """The ACKs for packets that are sent at these (ascending) times."""
        arrived, acked, held, due = 0, 0, 0, 0
        sends = list(sends_ns)
        for i, sent in enumerate(sends):
            arrived = max(arrived, sent + self.forward_ns + self.forward(sent))
            due = due if held else arrived + DELAYED_ACK_NS  # of the oldest packet that it acknowledges
            held += 1
            leaves = arrived
            if held < self.packets_per_ack:
                following = sends[i + 1] if i + 1 < len(sends) else None
                if following is not None and max(arrived, following + self.forward_ns + self.forward(following)) < due:
                    continue
                leaves = max(arrived, due)
            acked = max(acked, leaves + self.reverse_ns + self.reverse(leaves))
            yield Ack(
                now_us=self.started_us + acked // 1000,
                rtt_us=self.started_us + acked // 1000 - (self.started_us + sent // 1000),
                tsval=self.peer.stamp(leaves),
                peer_ticks=self.peer.ticks(leaves),
                sent_us=self.started_us + sent // 1000,
                ahead_ns=arrived - sent - self.forward_ns,
                one_way_ns=leaves - sent - self.forward_ns,
                at_ns=acked,
            )
            held = 0


def sawtooth(rng: random.Random, top_ns: int, low_s: float = 0.5, high_s: float = 3.0, idle: float = 0.2) -> Callable[[int], int]:
    """A queue as loss-based foreground makes it: it fills to a random height, falls to nothing, stays empty a while."""
    ends, heights = [0], [0.0]

    def queue(ns: int) -> int:
        while ends[-1] <= ns:
            ends.append(ends[-1] + int(rng.uniform(low_s, high_s) * S))
            heights.append(rng.uniform(0, top_ns))
        i = len(ends) - 1
        while ends[i - 1] > ns:
            i -= 1
        done = (ns - ends[i - 1]) / (ends[i] - ends[i - 1])
        return int(heights[i] * max(0.0, done - idle) / (1 - idle))

    return queue


def paced(rng: random.Random, end_ns: int, gap_ns: int, burst: int = 1) -> Iterator[int]:
    """Send times: bursts of packets, exponentially apart, gap_ns per packet on average."""
    at = 0
    while at < end_ns:
        for _ in range(burst):
            yield at
            at += 10_000  # back to back
        at += int(rng.expovariate(1.0) * gap_ns * burst)
