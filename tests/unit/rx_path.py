# SPDX-License-Identifier: GPL-2.0-only
"""Several TCP flows through one drop-tail bottleneck, each with cubic, reno or no control of its own, some received under the receiver's
law (rx_window.h). The sender repairs losses as with SACK. Time in us, rates in bytes per us."""

import heapq
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

from tests.unit.cdata import Ffi, Laws, Struct

MSS = 1448
FRAME = 1514
WRAP = 1 << 32
FIRST_CWND = 10.0


@dataclass
class Link:
    rate_mbit: float = 10.0
    rtt_ms: float = 50.0
    bdp: float = 2.5  # of its buffer
    loss: float = 0.0
    seed: int = 1
    reorder: float = 0.0
    reverse_us: Callable[[float], float] = lambda t: 0.0  # the queue of the way back

    @property
    def rate(self) -> float:
        return self.rate_mbit / 8

    @property
    def buffer_us(self) -> float:
        return max(self.bdp * self.rtt_ms * 1000, 8 * FRAME / self.rate)


@dataclass
class Flow:
    """A transfer. `sender`: cubic, reno or unlimited. `held`: the receiver's law."""

    held: bool = True
    sender: str = "cubic"
    start_s: float = 0.0
    stop_s: float = math.inf
    limit: float = math.inf  # bytes/us that the application has
    scale: int = 7
    rtt_ms: float = 0.0  # 0: the link's
    got: list[tuple[float, int]] = field(default_factory=list)
    windows: list[tuple[float, int]] = field(default_factory=list)
    verdicts: list[tuple[float, int, int, int]] = field(default_factory=list)  # at, verdict, window, queue_us

    def begin(self, link: Link, ffi: Ffi, law: Laws) -> None:
        self.law, self.ack, self.x = law, ffi.new("struct rx_ack *"), ffi.new("struct rx *")
        self.half_us = (self.rtt_ms or link.rtt_ms) * 500
        self.cwnd, self.ssthresh, self.w_max, self.epoch = FIRST_CWND, math.inf, 0.0, -1.0
        self.una = self.next = self.recover = self.sacked = 0  # packets
        self.lost: set[int] = set()
        self.resent: dict[int, float] = {}
        self.edge = 65535
        self.nxt, self.ahead, self.right, self.highest = 0, set[int](), 65535, 0  # of the receiver
        self.echo = 0
        self.heard_us = self.start_s * 1e6
        self.srtt = 0.0

    # --- the sender

    def acked(self, now: float, una: int, highest: int, ahead: set[int], edge: int, sent_us: float) -> None:
        self.srtt = now - sent_us if not self.srtt else self.srtt * 7 / 8 + (now - sent_us) / 8
        new, self.una, self.edge = max(una - self.una, 0), max(una, self.una), max(edge, self.edge)
        self.heard_us, self.sacked = now, len(ahead)
        for packet in [p for p in self.lost if p < una or p in ahead]:
            self.lost.discard(packet)
        missing = [p for p in range(self.una, max(highest - 3, self.una)) if p not in ahead and p not in self.lost
                   and now - self.resent.get(p, -math.inf) > self.srtt * 1.1]
        if missing:
            self.lost.update(missing)
            if self.una >= self.recover:
                self.recover = self.next
                self.cut(now)
        elif self.una >= self.recover:
            self.grow(now, new)

    def cut(self, now: float) -> None:
        if self.sender == "unlimited":
            return
        self.w_max = self.cwnd
        self.cwnd = self.ssthresh = max(self.cwnd * (0.7 if self.sender == "cubic" else 0.5), 2)
        self.epoch = -1.0

    def grow(self, now: float, new: int) -> None:
        if self.next - self.una + new < self.cwnd / 2:
            return  # not the limit
        if self.sender == "unlimited":
            self.cwnd = 20_000.0
        elif self.cwnd < self.ssthresh:
            self.cwnd += new
        elif self.sender == "reno":
            self.cwnd += new / self.cwnd
        else:
            if self.epoch < 0:
                self.epoch, self.k = now, (max(self.w_max - self.cwnd, 0) / 0.4) ** (1 / 3)
                self.reno = self.cwnd
            t = (now - self.epoch + self.srtt) / 1e6
            self.reno += 0.53 * new / self.cwnd
            target = max(0.4 * (t - self.k) ** 3 + max(self.w_max, self.cwnd if self.k == 0 else 0), self.reno)
            if target > self.cwnd:
                self.cwnd += min((target - self.cwnd) / self.cwnd, 0.5) * new

    def flight(self) -> int:
        return self.next - self.una - len(self.lost) - self.sacked


class Net:
    def __init__(self, link: Link, flows: list[Flow], ffi: Ffi, law: Laws) -> None:
        self.link, self.flows, self.random = link, flows, Random(link.seed)
        self.events: list[tuple[float, int, Callable[[float], None]]] = []
        self.number, self.free, self.drops = 0, 0.0, 0
        self.queue: list[tuple[float, float]] = []  # us
        for flow in flows:
            flow.begin(link, ffi, law)

    def at(self, when: float, what: Callable[[float], None]) -> None:
        self.number += 1
        heapq.heappush(self.events, (when, self.number, what))

    def run(self, seconds: float) -> "Net":
        for flow in self.flows:
            self.at(flow.start_s * 1e6, lambda now, flow=flow: (self.pump(flow, now), self.timer(flow, now)))  # type: ignore
        while self.events and self.events[0][0] <= seconds * 1e6:
            now, _, what = heapq.heappop(self.events)
            what(now)
        return self

    def timer(self, flow: Flow, now: float) -> None:
        """The retransmission timer."""
        if now - flow.heard_us > max(4 * flow.srtt, 300_000) and flow.next > flow.una:
            flow.lost = {p for p in range(flow.una, flow.next) if p not in flow.ahead}
            flow.resent.clear()
            flow.cut(now)
            flow.cwnd = min(flow.cwnd, 2.0)
            flow.recover = flow.next
            flow.heard_us = now
            self.pump(flow, now)
        self.at(now + 100_000, lambda later: self.timer(flow, later))

    def pump(self, flow: Flow, now: float) -> None:
        while flow.flight() < flow.cwnd:
            again = bool(flow.lost)
            packet = min(flow.lost) if again else flow.next
            if not again and ((packet + 1) * MSS > flow.edge or now > flow.stop_s * 1e6
                              or packet * MSS > flow.limit * (now - flow.start_s * 1e6) + FIRST_CWND * MSS):
                break
            if again:
                flow.lost.discard(packet)
                flow.resent[packet] = now
            else:
                flow.next += 1
            self.send(flow, packet, now)

    def send(self, flow: Flow, packet: int, now: float) -> None:
        waits = max(self.free - now, 0.0)
        if waits > self.link.buffer_us:
            self.drops += 1
            return
        self.free = now + waits + FRAME / self.link.rate
        self.queue.append((now, waits))
        if self.link.loss and self.random.random() < self.link.loss:
            return
        late = 3 * FRAME / self.link.rate if self.link.reorder and self.random.random() < self.link.reorder else 0.0
        echo = flow.echo
        self.at(self.free + flow.half_us + late, lambda then: self.arrive(flow, packet, now, echo, then))

    # --- the receiver

    def arrive(self, flow: Flow, packet: int, sent: float, echo: int, now: float) -> None:
        flow.highest = max(flow.highest, packet + 1)
        was = flow.nxt
        if packet >= flow.nxt:
            flow.ahead.add(packet)
        while flow.nxt in flow.ahead:
            flow.ahead.discard(flow.nxt)
            flow.nxt += 1
        if flow.nxt > was:
            flow.got.append((now, flow.nxt * MSS))
        if not flow.ahead and flow.nxt == was + 1 and flow.nxt % 2 and flow.right - flow.nxt * MSS >= MSS and flow.nxt > 20:
            return
        flow.right = max(flow.right, self.advertise(flow, int(sent / 1000), echo, now))
        ahead, nxt, edge, highest = set(flow.ahead), flow.nxt, flow.right, flow.highest
        ts = int(now / 1000)

        def back(then: float) -> None:
            flow.echo = max(flow.echo, ts)
            flow.acked(then, nxt, highest, ahead, edge, sent)
            self.pump(flow, then)

        self.at(now + flow.half_us + self.link.reverse_us(now), back)

    def advertise(self, flow: Flow, tsval: int, echo: int, now: float) -> int:
        ack, x, nxt = flow.ack, flow.x, flow.nxt * MSS
        if not flow.held:
            return nxt + (8 << 20)
        ack.now_us, ack.long_us, ack.our_ts = int(now) % WRAP, int(now), int(now / 1000) % WRAP
        ack.tsval, ack.tsecr, ack.rcv_nxt = tsval % WRAP, echo, nxt % WRAP
        ack.left, ack.mss, ack.unit, ack.rtt_us = max(flow.right - nxt, 0), MSS, 1 << flow.scale, int(flow.half_us * 2)
        ack.fresh, ack.hole = True, bool(flow.ahead)
        if not x.started:
            flow.law.rx_init(x, ack)
        verdict = flow.law.rx_step(x, ack)
        window = flow.law.rx_window(x, ack)
        if verdict > 1:
            flow.verdicts.append((now / 1e6, verdict, window, x.queue_us))
        flow.windows.append((now / 1e6, window))
        unit = 1 << flow.scale
        return -(-(nxt + window) // unit) * unit


def build(ffi: Ffi, law: Laws, link: Link, flows: list[Flow]) -> Net:
    return Net(link, flows, ffi, law)
