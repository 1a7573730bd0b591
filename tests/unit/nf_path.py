# SPDX-License-Identifier: GPL-2.0-only
"""NF-TCP's laws together: flows of nf.h and proecn.h through one FIFO behind red.h, beside Poisson UDP. Packet by
packet, all times in ms; everything random comes from one seed. What the kernel adds (delayed ACKs, timers, PRR) is not
in it, nor a full queue's drops: what is early must not get there. What bpf/nf_tcp.bpf.c decides between the laws (when a
chirp begins, what a mark voids) is; but a step is one packet at any rate, where the kernel's timer needs bursts from
286 Mbit/s on.

    run(...)                    -> Outcome: the flows, and the queueing delay every SAMPLE_MS
    Flow: send(), acked()       a packet leaves, comes back; Flow.chirp is there while one is under way
"""
import math
import random
import sys
from collections import deque
from dataclasses import dataclass, field

from tests.unit import headers

PACKET = 1000  # bytes
NEVER = math.inf
PARAMETERS = {row[0]: row[4] for row in headers.table("ccbpf/params.h", "NF_TCP_PARAMS", "wvvvvvv")}
DECREASE, ALPHA, SPREAD = PARAMETERS["decrease"], PARAMETERS["alpha"], PARAMETERS["spread"]
CHIRP_PART = PARAMETERS["probe_cost"] / 1000  # of the time
PACE = headers.macro("kern/pace.bpf.h", "PACE_EVEN_NUM") / headers.macro("kern/pace.bpf.h", "PACE_EVEN_DEN")
SLOW_START_PACE = 2.0  # net.ipv4.tcp_pacing_ss_ratio
SAMPLE_MS = 20


class Router:
    """A FIFO without an end, one BDP as its limit, NF-TCP's RED before it as `ccbpf aqm attach` sets it (loader/aqmconf.c): 1 % and 50 %, three
    packets at the least, an average over a sixteenth of the limit."""

    def __init__(self, ffi, law, rate_mbit, rtt, rng):
        self.law, self.rng = law, rng
        self.packet_ms = PACKET * 8 / rate_mbit / 1000
        limit = round(rtt / self.packet_ms)
        least = max(1000, math.ceil(3 * 100_000 / limit))
        self.curve = ffi.new("struct red_curve *", dict(limit_bytes=limit * PACKET, min=least, max=50_000))
        self.spacing = ffi.new("struct red_spacing *")
        self.shift = next(n for n in range(10) if n == 9 or 3 * limit <= 64 << n)  # as default_shift()
        self.average, self.free_at, self.last, self.waiting = 0, 0.0, 0.0, 0

    def put(self, now, probe=False, low=True):
        """(when it has left, marked)"""
        law, queue = self.law, round(max(0.0, self.free_at - now) / self.packet_ms * PACKET)
        if not queue:
            silent_ns, packet_ns = round((now - self.last) * 1e6), round(self.packet_ms * 1e6)
            idle = law.red_idle_packets(silent_ns, packet_ns, self.waiting, PACKET)
            if idle:
                self.average = law.red_average_q16(self.average, 0, self.shift, idle)
        self.average = law.red_average_q16(self.average, queue, self.shift, 1)
        self.last, self.waiting = now, queue + PACKET
        self.free_at = max(self.free_at, now) + self.packet_ms
        return self.free_at, queue > PACKET if probe else low and self.due()

    def due(self):
        if self.law.red_zone(self.average, self.curve) == self.law.RED_BELOW:
            self.spacing.count = 0
            return False
        return self.law.red_due(self.average, self.curve, self.spacing, 1, self.rng.getrandbits(32))


@dataclass
class Chirp:
    """One that is under way: it drains, sends, and then returns."""

    begun: float
    back: object  # struct proecn_chirp: what comes back of it
    left: list = field(default_factory=list)  # departures of the steps, and of the packet behind the last
    next: int = 0
    heard: float = 0.0  # when the last step came

    @property
    def drains(self):
        return not self.left

    @property
    def sends(self):
        return self.next < len(self.left)


class Flow:
    def __init__(self, ffi, law, router, rtt, rng, start, pace):
        self.ffi, self.law, self.router, self.rtt, self.rng, self.pace = ffi, law, router, rtt, rng, pace
        self.par = ffi.new("struct proecn_params *", dict(
            spread=SPREAD, steps=PARAMETERS["packets"], alpha=ALPHA, floor_kbps=PARAMETERS["min_rate"],
            ceiling_kbps=3_428_571))
        self.proecn, self.credit = ffi.new("struct proecn *"), ffi.new("u32 *")
        law.proecn_init(self.proecn, self.par)
        self.window, self.slow_start, self.srtt = 10, True, rtt
        self.in_flight, self.sent, self.clean_after, self.cwr_until = 0, 0, -1, -1
        self.acks, self.chirp, self.cost = deque(), None, 0.0
        self.start, self.next_at, self.chirp_due = start, start, start + rtt
        self.delivered, self.marks, self.estimates = [], 0, 0
        self.void()

    def void(self):
        self.credit[0], self.share_q8, self.target = 0, self.law.nf_share_q8(ALPHA, 0, 0, PACKET), 0  # eq. 8

    def sends_at(self, now):
        if self.chirp and self.chirp.sends:
            return self.chirp.left[self.chirp.next]
        stopped = self.chirp and self.chirp.drains or self.in_flight >= self.window
        return NEVER if stopped else max(self.next_at, now, self.start)

    def send(self, now):
        step = self.chirp.next if self.chirp and self.chirp.sends else None
        left, marked = self.router.put(now, probe=step is not None)
        self.acks.append((left + self.rtt, now, self.sent, step, marked))
        self.sent += 1
        self.in_flight += 1
        if step is not None:
            self.chirp.next += 1
        else:
            self.next_at = now + self.srtt / self.window / (SLOW_START_PACE if self.slow_start else self.pace)

    def has_kbps(self):
        return int((self.window / 2 if self.slow_start else self.window) * PACKET * 8 / self.srtt)

    def pause(self):
        return self.law.proecn_pause_us(round(self.rtt * 1000), self.rng.getrandbits(32)) / 1000

    def acked(self, now):
        _, sent, number, step, marked = self.acks.popleft()
        self.in_flight -= 1
        self.delivered.append(now)
        self.srtt += (now - sent - self.srtt) / 8
        if step is not None:
            self.answer(now, sent, step, marked)
        elif marked:
            self.congested(now, number)
        if number >= self.cwr_until and not (self.chirp and (self.chirp.drains or self.chirp.sends)):
            self.grow()
        if self.chirp and self.chirp.drains and not self.in_flight:
            self.schedule(now)
        if not self.chirp and number > self.clean_after and now >= self.chirp_due:
            self.begin(now)

    def grow(self):
        if self.slow_start:
            self.window += 1
        else:
            self.window = self.law.nf_grow(self.credit, self.window, 1, self.share_q8, self.target)

    def congested(self, now, number):
        self.clean_after = self.sent
        if number < self.cwr_until:
            return
        if self.chirp:
            spent = 0 if self.proecn.searching else (now - self.chirp.begun) * (1 / CHIRP_PART - 1)
            self.chirp_due, self.chirp = now + self.pause() + spent, None
        elif self.slow_start:
            self.chirp_due = 0
        self.law.proecn_congested(self.proecn, 2**32 - 1 if self.slow_start else self.has_kbps())
        self.window, self.cwr_until = self.law.nf_cut(self.window, DECREASE), self.sent
        self.slow_start, self.marks = False, self.marks + 1
        self.void()

    def begin(self, now):
        self.law.proecn_carried(self.proecn, self.par, self.has_kbps())
        steps = min(self.law.proecn_next_steps(self.proecn), self.window - 1)
        if steps >= 2:
            self.chirp = Chirp(now, self.ffi.new("struct proecn_chirp *", dict(
                min_kbps=self.law.proecn_next_min_kbps(self.proecn), spread=SPREAD, steps=steps, burst=1, ecn=1,
                bytes=PACKET, noise_us=PARAMETERS["noise_floor"])))

    def schedule(self, now):
        """Nothing is in flight: it may leave."""
        back = self.chirp.back
        at = [now + self.law.chirp_depart_ns(back.min_kbps, SPREAD, i, PACKET) / 1e6 for i in range(back.steps)]
        self.chirp.left = [*at, at[-1] + 1e-6]
        self.cost = max(0.0, at[-1] - self.chirp.begun - back.steps * self.srtt / self.window)

    def answer(self, now, sent, step, marked):
        if not self.chirp or self.chirp.drains:  # of one that was discarded
            return
        chirp, back = self.chirp, self.chirp.back
        if step < back.steps:
            back.delay_us[step], chirp.heard = round((now - sent) * 1000), now
            back.sampled |= 1 << step
            back.ece |= marked << step
            return
        back.pair_us, back.pair_bytes = round((now - chirp.heard) * 1000), PACKET
        self.estimate(now)

    def estimate(self, now):
        law, found, bytes_ = self.law, self.ffi.new("struct proecn_estimate *"), PACKET
        law.proecn_pair(self.proecn, self.chirp.back)
        law.proecn_estimate(self.chirp.back, found)
        law.proecn_result(self.proecn, self.par, self.chirp.back, found, int(now * 1000) >> 10)
        self.chirp, self.estimates = None, self.estimates + 1
        kbps, rtt_us = law.proecn_bw_kbps(self.proecn), round(self.rtt * 1000)
        self.share_q8 = law.nf_share_q8(ALPHA, kbps, rtt_us, bytes_)
        self.target = law.nf_target(0, kbps, rtt_us, bytes_)
        hungry = self.proecn.searching or self.target > self.window + self.window // 4
        self.chirp_due = now + self.pause() + (0 if hungry else self.cost * (1 / CHIRP_PART - 1))


@dataclass
class Outcome:
    flows: list
    packet_ms: float
    queue_ms: list  # (s, ms)

    def share(self, from_s, to_s, number=None):
        """Of the link: of one flow, or of all."""
        chosen = self.flows if number is None else [self.flows[number]]
        count = sum(from_s <= at / 1000 < to_s for flow in chosen for at in flow.delivered)
        return count * self.packet_ms / (to_s - from_s) / 1000

    def queue(self, part, from_s):
        waits = sorted(ms for s, ms in self.queue_ms if s >= from_s)
        return waits[int(part * len(waits))]


def run(ffi, law, *, rate_mbit, seconds, flows=1, udp=lambda s: 0.0, rtt=100.0, pace=PACE, seed=1):
    """`flows` of them, 0.1 s apart, beside UDP of this part of the link (of the time in s)."""
    rng = random.Random(seed)
    router = Router(ffi, law, rate_mbit, rtt, rng)
    all_ = [Flow(ffi, law, router, rtt, rng, 100.0 * i, pace) for i in range(flows)]
    now, udp_at, sample_at, queue = 0.0, 0.0, 0.0, []
    while now < seconds * 1000:
        at, what = udp_at, None
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


def main():
    """.cache/venv/bin/python -m tests.unit.nf_path RATE_MBIT ...: what one flow takes of what Poisson UDP of a half leaves, in 22 s;
    medians of three. nf-fig7-udp at other scales than the lab's."""
    ffi, law = headers.laws()
    for rate in map(float, sys.argv[1:]):
        runs = [run(ffi, law, rate_mbit=rate, seconds=32, udp=lambda s: 0.5, seed=seed) for seed in (1, 2, 3)]
        taken = sorted(found.share(10, 32) / 0.5 for found in runs)
        print(f"{rate:g} Mbit/s: {taken[1]:.3f} ({taken[0]:.3f} ... {taken[-1]:.3f})", flush=True)


if __name__ == "__main__":
    main()
