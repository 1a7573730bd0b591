# SPDX-License-Identifier: GPL-2.0-only
"""A path for chirps: one FIFO with cross traffic and a marking router, and a sender that follows the laws of chirp.h and
range.h. Packet by packet, all times in seconds; everything random comes from one seed.

    Path.chirp(departures, ...)     what the chirp's packets meet: delay in us, and whether they were marked
    Prober.step()                   one chirp through the laws
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from tests.unit.cdata import Ffi, Laws

PACKET = 1500  # bytes on the line, the probes' and the large ones' of the cross traffic
MIX = np.array([64, 576, 1500]), np.array([0.4, 0.2, 0.4])  # Poisson: sizes and their parts
SMALL = 300  # bytes, CBR
BURST = 8  # packets, mean length of a burst of on/off
WARM = 400  # packet times before a chirp: the queue is as the load makes it
LINE = 10e9  # bit/s, the sender's

Floats: TypeAlias = npt.NDArray[np.floating[Any]]


def _renewal(gaps_of: Callable[[], Floats], start: float, end: float) -> Floats:
    """Times of arrivals with these gaps, until the end."""
    times = np.empty(0)
    at = start
    while at < end:
        more = at + np.cumsum(gaps_of())
        times, at = np.concatenate([times, more]), more[-1]
    return times[times < end]


@dataclass
class Path:
    kbps: float  # capacity
    load: float  # part of it that the cross traffic takes
    kind: str  # cbr, poisson, onoff
    seed: int = 0
    noise_us: float = 3.0  # mean of an exponential one, on each delay
    mark_packets: int = 2  # marked when more bytes than these have are there, with the packet that is being sent
    rng: np.random.Generator = field(init=False)

    def __post_init__(self) -> None:
        self.rng = np.random.default_rng([self.seed, int(self.kbps), int(self.load * 100), len(self.kind)])

    @property
    def available_kbps(self) -> float:
        return self.kbps * (1 - self.load)

    def cross(self, start: float, end: float) -> tuple[Floats, npt.NDArray[Any]]:
        """(arrival, bytes) of the cross traffic"""
        rng, rate = self.rng, self.load * self.kbps * 1000 / 8  # bytes/s
        if not rate:
            return np.empty(0), np.empty(0)
        if self.kind == "cbr":
            times = np.arange(start + rng.random() * SMALL / rate, end, SMALL / rate)
            return times, np.full(len(times), SMALL)
        if self.kind == "poisson":
            sizes, parts = MIX
            mean = (sizes * parts).sum() / rate
            times = _renewal(lambda: rng.exponential(mean, 64 + int((end - start) / mean)), start, end)
            return times, rng.choice(sizes, len(times), p=parts)
        assert self.kind == "onoff"  # bursts at the line's rate, geometric length, exponential silence
        packet = PACKET * 8 / (self.kbps * 1000)
        silence = BURST * packet * (1 / self.load - 1)
        count = 16 + int((end - start) / (BURST * packet / self.load))
        begins = start + np.cumsum(rng.exponential(silence, count * 2) + BURST * packet)
        lengths = rng.geometric(1 / BURST, len(begins))
        shift = np.concatenate([[0], np.cumsum((lengths - BURST) * packet)[:-1]])
        inside = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        times = np.repeat(begins + shift, lengths) + inside * packet
        assert times[-1] >= end
        times = times[times < end]
        return times, np.full(len(times), PACKET)

    def chirp(self, departures: Floats, burst: int = 1) -> tuple[Floats, npt.NDArray[np.bool_]]:
        """Packets of `burst` back to back at each of these times. (delay_us of each burst's first packet, marked)"""
        offsets = np.arange(burst) * PACKET * 8 / LINE
        sent = np.concatenate([d + offsets for d in departures])
        times, sizes = self.cross(-WARM * PACKET * 8 / (self.kbps * 1000), sent[-1] + 1e-6)
        at = np.concatenate([times, sent])
        order = np.argsort(at, kind="stable")
        at, ours = at[order], np.argsort(order)[len(times) :]
        service = np.concatenate([sizes, np.full(len(sent), PACKET)])[order] * 8 / (self.kbps * 1000)
        worked = np.cumsum(service)
        leaves = worked + np.maximum.accumulate(at - (worked - service))
        found = (leaves - at - service)[ours] * self.kbps * 1000 / 8  # bytes
        delay = np.round((leaves - at)[ours] * 1e6 + self.rng.exponential(self.noise_us, len(ours)))
        first = np.arange(len(departures)) * burst
        return delay[first], found[first] > self.mark_packets * PACKET


class Prober:
    """knee.h and range.h on a path, with everything that the sender has to do."""

    TIMER_NS = 28_000

    def __init__(self, ffi: Ffi, law: Laws, path: Path, ecn: bool = True, noise_us: int = 15, delays: bool = True) -> None:
        self.law, self.path, self.ecn, self.noise_us, self.delays = law, path, ecn, noise_us, delays
        self.par = ffi.new(
            "struct range_params *",
            {
                "spread": 1200,
                "steps": 15,
                "alpha": 500,
                "floor_kbps": 1000,
                "ceiling_kbps": law.chirp_ceiling_kbps(PACKET, self.TIMER_NS),
            },
        )
        self.r = ffi.new("struct nf_range *")
        self.c = ffi.new("struct knee_chirp *")
        self.e = ffi.new("struct knee_estimate *")
        law.range_init(self.r, self.par)

    def step(self) -> int:
        """One chirp; BW_est."""
        law, r, c, e = self.law, self.r, self.c, self.e
        n, spread, low = law.range_next_steps(r), self.par.spread, law.range_next_min_kbps(r)
        burst = law.chirp_burst(law.chirp_max_kbps(low, spread, n), PACKET, self.TIMER_NS)
        departures = np.array([law.chirp_depart_ns(low, spread, i, burst * PACKET) for i in range(n)]) * 1e-9
        delay_us, marked = self.path.chirp(departures, burst)
        if not self.delays:
            delay_us[:] = 1000
        c.min_kbps, c.spread, c.bytes, c.noise_us, c.steps, c.burst, c.ecn = (
            low,
            spread,
            burst * PACKET,
            self.noise_us,
            n,
            burst,
            self.ecn,
        )
        c.sampled = (1 << n) - 1
        c.ece = sum(1 << i for i in range(n) if marked[i]) if self.ecn else 0
        for i in range(n):
            c.delay_us[i] = int(delay_us[i]) + 20_000
        law.knee_estimate(c, e)
        law.range_result(r, self.par, c, e, 0)
        return law.range_bw_kbps(r)
