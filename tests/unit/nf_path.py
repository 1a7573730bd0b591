# SPDX-License-Identifier: GPL-2.0-only
"""NF-TCP's laws together: flows of nf.h and range.h through one FIFO behind red.h, beside Poisson UDP. Packet by
packet, all times in ms; everything random comes from one seed. What the kernel adds (delayed ACKs, timers, PRR) is not
in it. What bpf/nf_tcp.bpf.c decides between the laws (when a
chirp begins, what a mark voids) is; but a step is one packet at any rate, where the kernel's timer needs bursts from
286 Mbit/s on.

    run(...)                    -> Outcome: the flows, and the queueing delay every SAMPLE_MS
    Flow: send(), acked()       a packet leaves, comes back; Flow.chirp is there while one is under way
    Liar, Reno                  a flow whose chirps are answered by lies; additive increase, half at a loss
"""

import math
import random
import sys
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from tests.unit import headers
from tests.unit.cdata import Ffi, Laws, Struct

PACKET = 1000  # bytes
NEVER = math.inf
PARAMETERS = {row[0]: row[4] for row in headers.table("ccbpf/params.h", "NF_TCP_PARAMS", "wvvvvvv")}
ALPHA, SPREAD = PARAMETERS["alpha"], PARAMETERS["spread"]
CHIRP_PART = PARAMETERS["probe_cost"] / 1000  # of the time
PACE = headers.macro("kern/pace.bpf.h", "PACE_EVEN_NUM") / headers.macro("kern/pace.bpf.h", "PACE_EVEN_DEN")
TAIL = headers.macro("kern/chirp.bpf.h", "CHIRP_TAIL_NUM") / 2 ** headers.macro("kern/chirp.bpf.h", "CHIRP_TAIL_SHIFT")
SHARE_ONE = 2 ** headers.macro("law/nf.h", "NF_SHARE_SHIFT")  # eq. 8
SLOW_START_PACE = 2.0  # net.ipv4.tcp_pacing_ss_ratio
SAMPLE_MS = 20


class Router:
    """A FIFO, one BDP as RED's limit, NF-TCP's RED before it as `ccbpf aqm attach` sets it (loader/aqm/config.c): 1 % and 50 %, three
    packets at the least, an average over a sixteenth of the limit."""

    def __init__(
        self, ffi: Ffi, law: Laws, rate_mbit: float, rtt: float, rng: random.Random, buffer_bdp: float = NEVER, marks: bool = True
    ) -> None:
        self.law, self.rng, self.marks = law, rng, marks
        self.packet_ms = PACKET * 8 / rate_mbit / 1000
        limit = round(rtt / self.packet_ms)
        least = max(1000, math.ceil(3 * 100_000 / limit))
        self.curve = ffi.new("struct red_curve *", {"limit_bytes": limit * PACKET, "min": least, "max": 50_000})
        self.spacing = ffi.new("struct red_spacing *")
        self.shift = next(n for n in range(10) if n == 9 or 3 * limit <= 64 << n)  # as default_shift()
        self.buffer = buffer_bdp * limit * PACKET
        self.average, self.free_at, self.last, self.waiting = 0, 0.0, 0.0, 0

    def put(self, now: float, probe: bool = False, low: bool = True) -> tuple[float, bool | None]:
        """(when it has left, marked; lost: when what is before it has left, None). A probe is marked where more than one
        waits, besides the packet that is being sent."""
        law, queue = self.law, round(max(0.0, self.free_at - now) / self.packet_ms * PACKET)
        if not queue:
            silent_ns, packet_ns = round((now - self.last) * 1e6), round(self.packet_ms * 1e6)
            idle = law.red_idle_packets(silent_ns, packet_ns, self.waiting, PACKET)
            if idle:
                self.average = law.red_average_q16(self.average, 0, self.shift, idle)
        self.average = law.red_average_q16(self.average, queue, self.shift, 1)
        if queue + PACKET > self.buffer:
            return max(self.free_at, now), None
        self.last, self.waiting = now, queue + PACKET
        self.free_at = max(self.free_at, now) + self.packet_ms
        return self.free_at, self.marks and (queue > 2 * PACKET if probe else low and self.due())

    def due(self) -> bool:
        if self.law.red_zone(self.average, self.curve) == self.law.RED_BELOW:
            self.spacing.count = 0
            return False
        return self.law.red_due(self.average, self.curve, self.spacing, 1, self.rng.getrandbits(32))


@dataclass
class Chirp:
    """One that is under way: it drains, sends, and then returns."""

    begun: float
    back: Struct  # struct knee_chirp: what comes back of it
    left: list[float] = field(default_factory=list)  # departures of the steps
    next: int = 0

    @property
    def drains(self) -> bool:
        return not self.left

    @property
    def sends(self) -> bool:
        return self.next < len(self.left)


class Flow:
    unproved: bool  # the window has not reached the newest target yet

    def __init__(
        self,
        ffi: Ffi,
        law: Laws,
        router: Router,
        rtt: float,
        rng: random.Random,
        start: float,
        pace: float,
        parameters: dict[str, int],
    ) -> None:
        self.ffi, self.law, self.router, self.rtt, self.rng, self.pace = ffi, law, router, rtt, rng, pace
        self.parameters = parameters
        self.par = ffi.new(
            "struct range_params *",
            {
                "spread": SPREAD,
                "steps": parameters["packets"],
                "alpha": ALPHA,
                "floor_kbps": parameters["min_rate"],
                "ceiling_kbps": 3_428_571,
            },
        )
        self.range, self.credit = ffi.new("struct nf_range *"), ffi.new("u32 *")
        law.range_init(self.range, self.par)
        self.window, self.slow_start, self.srtt = 10, True, rtt
        self.in_flight, self.sent, self.clean_after, self.cwr_until = 0, 0, -1, -1
        self.acked_number, self.row, self.calm, self.row_until = -1, 0, False, -1
        # (it comes, the packet was sent, its number, its step of a chirp, marked; None: lost), in order
        self.acks: deque[tuple[float, float, int, int | None, bool | None]] = deque()
        self.chirp: Chirp | None = None
        self.cost = 0.0
        self.start, self.next_at, self.chirp_due = start, start, start + rtt
        self.delivered: list[float] = []
        self.marks, self.estimates = 0, 0
        self.void()

    def void(self) -> None:
        self.credit[0], self.share_q8, self.target, self.estimated = 0, SHARE_ONE, 0, False

    @property
    def clean(self) -> bool:
        return self.acked_number > self.clean_after

    def sends_at(self, now: float) -> float:
        if self.chirp and self.chirp.sends:
            return self.chirp.left[self.chirp.next]
        stopped = self.chirp and self.chirp.drains or self.in_flight >= self.window
        return NEVER if stopped else max(self.next_at, now, self.start)

    def send(self, now: float) -> None:
        chirp = self.chirp if self.chirp and self.chirp.sends else None
        step = chirp.next if chirp else None
        left, marked = self.router.put(now, probe=step is not None)
        self.acks.append((left + self.rtt, now, self.sent, step, marked))
        self.sent += 1
        self.in_flight += 1
        if chirp:
            chirp.next += 1
            if not chirp.sends:
                self.next_at = now + (now - chirp.left[0]) * TAIL
        else:
            self.next_at = now + self.srtt / self.window / (SLOW_START_PACE if self.slow_start else self.pace)

    def has_kbps(self) -> int:
        return int((self.window / 2 if self.slow_start else self.window) * PACKET * 8 / self.srtt)

    def pause(self) -> float:
        return self.law.range_pause_us(round(self.rtt * 1000), self.rng.getrandbits(32)) / 1000

    def acked(self, now: float) -> None:
        _, sent, number, step, marked = self.acks.popleft()
        self.in_flight -= 1
        self.acked_number = number
        if number > self.clean_after and number > self.row_until:  # an RTT without a mark is over
            self.row, self.row_until = max(0, self.row - 1), self.sent
            self.calm |= not self.slow_start
        if marked is None:
            self.congested(now, number, lost=True)
        else:
            self.delivered.append(now)
            self.srtt += (now - sent - self.srtt) / 8
        if step is not None:
            self.answer(now, sent, step, marked)
        elif marked:
            self.congested(now, number)
        if number >= self.cwr_until and not (self.chirp and (self.chirp.drains or self.chirp.sends)):
            self.grow()
        early = self.parameters["early_probe"]
        if not self.chirp and self.clean and now >= self.chirp_due and (early or not self.slow_start):
            self.begin(now)
        if self.chirp and self.chirp.drains and not self.in_flight:
            self.schedule(now)

    def grow(self) -> None:
        if self.slow_start:
            self.window += 1
        elif self.clean:
            self.window = self.law.nf_grow(self.credit, self.window, 1, self.share_q8, self.target)
            if self.estimated and self.unproved and self.window >= self.target:
                self.unproved = False
                self.law.range_reached(self.range)
        else:
            self.window = self.law.nf_grow(self.credit, self.window, 1, SHARE_ONE, 0)

    def congested(self, now: float, number: int, lost: bool = False) -> None:
        self.clean_after = self.sent
        if number < self.cwr_until:
            return
        law, was, below = self.law, self.window, self.target > self.window and self.estimated
        single = not self.row and not self.slow_start
        if self.chirp:
            spent = 0 if self.range.searching else (now - self.chirp.begun) * (1 / CHIRP_PART - 1)
            self.chirp_due, self.chirp = now + self.pause() + spent, None
        elif self.slow_start:
            self.chirp_due = 0
        law.range_congested(self.range, 2**32 - 1 if self.slow_start else self.has_kbps())
        self.window, self.cwr_until = law.nf_half(was) if lost else self.marked(was), self.sent
        self.void()
        if lost and below:
            law.range_doubt(self.range)
            self.chirp_due = now + law.range_doubt_us(self.range, round(self.rtt * 1000)) / 1000
        elif not lost and single:
            self.target = law.nf_back(was, self.parameters["back"])
            self.share_q8 = law.nf_missing_q8(self.window, self.target)
        self.slow_start = False

    def marked(self, window: int) -> int:
        """Eq. 2"""
        b, most = self.parameters["decrease"], self.parameters["decrease_most"]
        left = self.law.nf_cut(window, self.law.nf_decrease(b, most, self.row))
        self.row, self.marks = self.law.nf_row(b, most, self.row) if self.calm else 0, self.marks + 1
        return left

    def begin(self, now: float) -> None:
        if self.range.searching and not self.parameters["early_probe"]:
            self.law.range_begin(self.range, self.par, self.has_kbps())
        self.law.range_carried(self.range, self.par, self.has_kbps())
        steps = self.law.range_next_steps(self.range)
        self.chirp = Chirp(
            now,
            self.ffi.new(
                "struct knee_chirp *",
                {
                    "min_kbps": self.law.range_next_min_kbps(self.range),
                    "spread": SPREAD,
                    "steps": steps,
                    "burst": 1,
                    "ecn": 1,
                    "bytes": PACKET,
                    "noise_us": self.parameters["noise_floor"],
                },
            ),
        )

    def schedule(self, now: float) -> None:
        """Nothing is in flight: it may leave."""
        assert self.chirp
        back = self.chirp.back
        at = [now + self.law.chirp_depart_ns(back.min_kbps, SPREAD, i, PACKET) / 1e6 for i in range(back.steps)]
        self.chirp.left = at
        self.cost = max(0.0, at[-1] - self.chirp.begun - back.steps * self.srtt / self.window)

    def answer(self, now: float, sent: float, step: int, marked: bool | None) -> None:
        if not self.chirp or self.chirp.drains:  # of one that was discarded
            return
        back = self.chirp.back
        if marked is not None:
            back.delay_us[step] = round((now - sent) * 1000)
            back.sampled |= 1 << step
            back.ece |= marked << step
        if step == back.steps - 1:
            self.estimate(now)

    def estimate(self, now: float) -> None:
        assert self.chirp
        law, found = self.law, self.ffi.new("struct knee_estimate *")
        law.knee_estimate(self.chirp.back, found)
        law.range_result(self.range, self.par, self.chirp.back, found, int(now * 1000) >> 10)
        self.chirp, self.estimates = None, self.estimates + 1
        kbps, rtt_us = law.range_bw_kbps(self.range), round(self.rtt * 1000)
        if kbps:
            self.share_q8 = law.nf_share_q8(ALPHA, kbps, rtt_us, PACKET)
            self.target, self.estimated, self.unproved = law.nf_target(kbps, rtt_us, PACKET), True, True
        hungry = self.range.searching or self.target > self.window + self.window // 4
        self.chirp_due = now + self.pause() + (0 if hungry else self.cost * (1 / CHIRP_PART - 1))
        if self.slow_start and not self.range.searching and found.verdict != law.KNEE_ABOVE:
            self.slow_start, self.window = False, min(self.window, max(self.target, 2))


class Liar(Flow):
    """Its receiver shapes what it says of chirps: nobody else is there."""

    def answer(self, now: float, sent: float, step: int, marked: bool | None) -> None:
        super().answer(now, now - self.rtt, step, False)


class Reno(Flow):
    def begin(self, now: float) -> None:
        pass

    def marked(self, window: int) -> int:
        return window


@dataclass
class Outcome:
    flows: list[Flow]
    packet_ms: float
    queue_ms: list[tuple[float, float]]  # (s, ms)

    def share(self, from_s: float, to_s: float, number: int | None = None) -> float:
        """Of the link: of one flow, or of all."""
        chosen = self.flows if number is None else [self.flows[number]]
        count = sum(from_s <= at / 1000 < to_s for flow in chosen for at in flow.delivered)
        return count * self.packet_ms / (to_s - from_s) / 1000

    def queue(self, part: float, from_s: float) -> float:
        waits = sorted(ms for s, ms in self.queue_ms if s >= from_s)
        return waits[int(part * len(waits))]


def run(
    ffi: Ffi,
    law: Laws,
    *,
    rate_mbit: float,
    seconds: float,
    flows: int | Sequence[type[Flow]] = 1,
    udp: Callable[[float], float] = lambda s: 0.0,
    rtt: float = 100.0,
    pace: float = PACE,
    seed: int = 1,
    buffer_bdp: float = NEVER,
    marks: bool = True,
    **changed: int,
) -> Outcome:
    """`flows` of them, or flows of these classes, 0.1 s apart, beside UDP of this part of the link (of the time in s);
    with changed parameters."""
    assert not changed.keys() - PARAMETERS.keys()
    rng = random.Random(seed)
    router = Router(ffi, law, rate_mbit, rtt, rng, buffer_bdp, marks)
    kinds = [Flow] * flows if isinstance(flows, int) else flows
    all_ = [kind(ffi, law, router, rtt, rng, 100.0 * i, pace, PARAMETERS | changed) for i, kind in enumerate(kinds)]
    now, udp_at, sample_at = 0.0, 0.0, 0.0
    queue: list[tuple[float, float]] = []
    while now < seconds * 1000:
        at = udp_at
        what: Callable[[float], None] | None = None
        for flow in all_:
            if flow.acks and flow.acks[0][0] < at:
                at, what = flow.acks[0][0], flow.acked
            if (leaves := flow.sends_at(now)) < at:
                at, what = leaves, flow.send
        while sample_at < at:
            queue.append((sample_at / 1000, max(0.0, router.free_at - sample_at)))
            sample_at += SAMPLE_MS
        now = at
        if what:
            what(now)
        elif part := udp(now / 1000):
            router.put(now, low=False)
            udp_at = now + rng.expovariate(part / router.packet_ms)
        else:
            udp_at = now + 5
    return Outcome(all_, router.packet_ms, queue)


def main() -> None:
    """.cache/venv/bin/python -m tests.unit.nf_path RATE_MBIT ...: what one flow takes of what Poisson UDP of a half leaves, in 22 s;
    medians of three. nf-fig7-udp at other scales than the lab's."""
    ffi, law = headers.laws()
    for rate in map(float, sys.argv[1:]):
        runs = [run(ffi, law, rate_mbit=rate, seconds=32, udp=lambda s: 0.5, seed=seed) for seed in (1, 2, 3)]
        taken = sorted(found.share(10, 32) / 0.5 for found in runs)
        print(f"{rate:g} Mbit/s: {taken[1]:.3f} ({taken[0]:.3f} ... {taken[-1]:.3f})", flush=True)


if __name__ == "__main__":
    main()
