# SPDX-License-Identifier: GPL-2.0-only
"""A peer that lies: no lie stops a flow, or makes it more aggressive than the same lie makes the kernel's reno."""

from __future__ import annotations

import itertools
import random
import time
from collections.abc import Callable
from typing import Any

import pytest

from tests.functional.kernel import LP_FAMILY, OPEN, SIGNAL, Controller, eventually
from tests.functional.peer import Behaviour, Flow, Peer, Segment

pytestmark = pytest.mark.rerun(
    "a lie is told at a time by the peer's clock, and reno beside it is compared in the same round trips"
)

RTT_S = 0.02
STALL_S = 2.5  # the longest gap of a small window, 2 s, and some RTT
RENO_MARGIN = 3  # packets: what timing makes of two runs of reno
SECONDS = 5.0

# What the peer's clock says, of: the honest value, the one when the lie began, the ACK's number since then.
CLOCKS: dict[str, Callable[[int, int, int], int]] = {
    "stands still": lambda now, begun, n: begun,
    "half as fast": lambda now, begun, n: begun + (now - begun) // 2,
    "a thousand times as fast": lambda now, begun, n: begun + (now - begun) * 1000,
    "jumps ahead by 6 days": lambda now, begun, n: begun + n * (1 << 29),
    "random": lambda now, begun, n: random.Random(n).getrandbits(32),
    "far ahead, once": lambda now, begun, n: begun + (1 << 30),
}
REFUSED_CLOCKS: dict[str, Callable[[int, int, int], int]] = {  # by the kernel: such ACKs are old (PAWS)
    "backwards": lambda now, begun, n: begun - (now - begun) - 1,
    "an hour behind": lambda now, begun, n: now - 3_600_000,
}
ECHOES: dict[str, Callable[[int, int], int]] = {
    "echo of nothing": lambda echo, n: 0,
    "echo of the future": lambda echo, n: echo + 10_000,
    "echo of the past": lambda echo, n: echo - 5_000,
    "random echo": lambda echo, n: random.Random(n).getrandbits(32),
}
# With these the peer steers the kernel's own timeout and undo: what they do to reno differs by a factor of two from one
# connection to the next, and so the comparison is with twice what reno reaches under the truth.
STEERED = ["echo of the past", "random echo"]


class Liar(Behaviour):
    """Honest until `lying`."""

    def __init__(self, lie: str, lying: bool = False, **path: Any) -> None:
        super().__init__(rtt_s=RTT_S, **path)
        self.lie = lie
        self.clock = {**CLOCKS, **REFUSED_CLOCKS}.get(lie)
        self.echo = ECHOES.get(lie)
        self.ecn = True
        self.echoes_congestion = lie == "congestion on every ACK"
        self.reneges = lie == "SACK reneging"
        self.sack = lie != "no SACK"
        self.timestamps = lie != "no timestamps"
        self.lying = lying
        self._begun: tuple[int, float] | None = None
        self._number = 0
        self._echoes = 0

    def tsval(self, now_s: float, echo: int) -> int:
        honest = super().tsval(now_s, echo)
        if self.lying and self.lie == SENDERS:
            return echo
        if not self.lying or not self.clock:
            return honest
        if not self._begun:
            self._begun = (honest, now_s)
        self._number += 1
        return self.clock(honest, self._begun[0], self._number)

    def tsecr(self, echo: int) -> int:
        self._echoes += 1
        return self.echo(echo, self._echoes) if self.lying and self.echo else echo

    def ece(self, latched: bool) -> bool:
        return latched or self.lying and self.echoes_congestion


SENDERS = "the sender's own"  # clock: each packet seems to have come at once
LIES = ["no timestamps", "no SACK", "SACK reneging", "congestion on every ACK", SENDERS, *CLOCKS, *ECHOES]


def set_lying(flow: Flow, lying: bool) -> None:
    behaviour = flow.end.behaviour
    assert isinstance(behaviour, Liar)
    behaviour.lying = lying


def progress(flow: Flow) -> tuple[float, int]:
    """The longest silence of the sender in s, and how many segments left."""
    times = [segment.at_s for segment in flow.end.segments] + [time.monotonic()]
    return max(b - a for a, b in zip(times, times[1:])), len(times) - 1


def largest(flow: Flow, since_s: float = 0) -> int:
    return max((s.info.cwnd for s in flow.end.samples if s.at_s >= since_s), default=0)


def test_no_lie_pays(controllers: dict[str, Controller], peer: Peer) -> None:
    """Every lie from the first ACK on, to reno and to ours, over paths of 1.2 Mbit/s with 200 ms of buffer, where the
    truth would be queueing delay, and losses. A peak of slow start is a matter of luck, reno's too: what pays, pays
    again."""
    before = {name: controllers[name].stats() for name in OPEN}
    paid = lies_that_pay(["the truth", *LIES], controllers, peer)
    assert not [name for name in OPEN if controllers[name].stats().indications <= before[name].indications]
    for _ in range(2):
        if paid:
            again = lies_that_pay(["the truth", *sorted({lie for lie, _ in paid} - {"the truth"})], controllers, peer)
            paid = {key: f"{what}; again: {again[key]}" for key, what in paid.items() if key in again}
    assert not paid, "\n".join(paid.values())


def lies_that_pay(lies: list[str], controllers: dict[str, Controller], peer: Peer) -> dict[tuple[str, str], str]:
    """Lie and controller, for each flow that had a larger window or a longer silence than reno: what it had."""
    paid: dict[tuple[str, str], str] = {}
    names = ["reno", *(c.name for c in controllers.values())]
    flows = {}
    for lie in lies:
        for name in names:
            behaviour = Liar(lie, lying=True, rate_bps=1.2e6, buffer_bytes=30_000)
            flows[lie, name] = peer.connect(name, behaviour)
    begun_s = time.monotonic()
    for flow in flows.values():
        flow.pump()
    time.sleep(SECONDS)
    middle_s = begun_s + SECONDS / 2
    found = {}
    for (lie, name), flow in flows.items():
        silence, segments = progress(flow)
        found[lie, name] = (largest(flow), largest(flow, middle_s), segments, silence)
    for (lie, name), flow in flows.items():
        what = f"{lie}, {name}: {found[lie, name]}, reno {found[lie, 'reno']}"
        assert not flow.end.wrong, f"{what}: {flow.end.wrong}"
        assert min(s.info.cwnd for s in flow.end.samples) >= 1, what
        if name == "reno":
            continue
        most, most_later, segments, silence = found[lie, name]
        reno_most, reno_later, _, reno_silence = found[lie, "reno"]
        if lie in STEERED:
            reno_most = reno_later = 2 * found["the truth", "reno"][0]
            reno_silence = SECONDS
        assert segments >= 10, what
        if (
            most > reno_most * 1.2 + RENO_MARGIN
            or most_later > (reno_later or reno_most) + RENO_MARGIN
            or silence > max(STALL_S, reno_silence + 0.5)
        ):
            paid[lie, name] = what
    records = [f for controller in controllers.values() for f in controller.flows()]  # newer than `found`: flows go on
    for (lie, _), flow in flows.items():
        set_lying(flow, lie in [*CLOCKS, SENDERS])  # a clock that went back would be refused, see below
        flow.stop()

    def behind() -> list[str]:
        left = {key for key, flow in flows.items() if flow.received < flow.sent}
        return [f"{name}, {lie}" for lie, name in left if name != "reno" and (lie, "reno") not in left]

    eventually(lambda: not behind(), 15, f"all that was sent arrives where reno's does: {behind()}", 0.1)
    assert not [flow.end.wrong for flow in flows.values() if flow.end.wrong]
    most = max(largest(flow) for flow in flows.values())  # with each record's ACK, whose sample is taken after it
    ports = {flow.sock.getsockname()[1]: key for key, flow in flows.items()}  # flows of before may still be closing
    shown = [
        (ports[f.local_port], f.cwnd, f.ssthresh, f.phase, f.losses, f.marks, f.undos)
        for f in records
        if f.local_port in ports and not 1 <= f.cwnd <= most
    ]
    assert not shown, (most, shown)
    return paid


def test_undone_losses_do_not_add_up(controllers: dict[str, Controller], peer: Peer) -> None:
    """Echoes that make each loss look needless, to many flows: how far they take one is a matter of luck. They also feign
    an RTT of 5 s, by which ours are paced: so they lose less than reno does, whom losses stop."""
    names = [*LP_FAMILY, "nf_tcp"]
    path = {"rate_bps": 1.2e6, "buffer_bytes": 30_000}
    before = sum(controllers[name].stats().undos for name in names)
    reno = peer.connect("reno", Liar("the truth", lying=True, **path))
    liars = [(name, peer.connect(name, Liar("echo of the past", lying=True, **path))) for name in names * 8]
    for flow in [reno, *(flow for _, flow in liars)]:
        flow.pump()
    time.sleep(SECONDS)
    bound = 2 * largest(reno) * 1.2 + RENO_MARGIN  # as test_no_lie_pays has it: one doubling is what an undo may bring
    assert not [(name, largest(flow)) for name, flow in liars if largest(flow) > bound], bound
    assert sum(controllers[name].stats().undos for name in names) >= before + len(liars)
    assert not [flow.end.wrong for _, flow in liars if flow.end.wrong]


def honest(controllers: dict[str, Controller], peer: Peer) -> dict[tuple[str, str], Flow]:
    """Flows of the family, by controller and by the lie that the peer will tell: the tick of its clock was learned."""
    flows = {}
    for name, lie in itertools.product(LP_FAMILY, [*CLOCKS, *REFUSED_CLOCKS, *ECHOES]):
        behaviour = Liar(lie, window_bytes=2 * 1448)  # never a queue
        behaviour.ecn = False
        flows[name, lie] = peer.connect(controllers[name].name, behaviour)
        flows[name, lie].pump()
    for (name, lie), flow in flows.items():
        eventually(lambda: (f := controllers[name].flow(flow.sock)) and f.delay_source == SIGNAL.OWD, 8, f"honest: {lie}, {name}")
    return flows


def test_lying_clock_is_dropped(controllers: dict[str, Controller], peer: Peer) -> None:
    """The tick was learned while the peer was honest. It is dropped after a window of 128 times this host's own delays, then the
    RTT is used again, and events and counters say so."""
    flows = honest(controllers, peer)
    before = {name: controllers[name].stats().fallbacks for name in LP_FAMILY}
    for flow in flows.values():
        set_lying(flow, True)
    for name, lie in itertools.product(LP_FAMILY, CLOCKS):
        eventually(
            lambda: (
                (f := controllers[name].flow(flows[name, lie].sock)) and f.delay_source == SIGNAL.RTT and f.lp.peer_tick_ns == 0
            ),
            20,
            f"the clock {lie}: {controllers[name].flow(flows[name, lie].sock)}",
        )
    for name in LP_FAMILY:
        assert controllers[name].stats().fallbacks >= before[name] + len(CLOCKS), name
    at = {key: flow.received for key, flow in flows.items()}
    for (name, lie), flow in flows.items():
        if lie not in REFUSED_CLOCKS:
            eventually(lambda: flow.received > at[name, lie] + 5 * 1448, STALL_S, f"data goes on: {lie}, {name}")
        if lie in REFUSED_CLOCKS:
            set_lying(flow, False)
    for (name, lie), flow in flows.items():
        assert min(s.info.cwnd for s in flow.end.samples) >= 1
        if lie in REFUSED_CLOCKS:  # honest again: the flow comes back with the kernel's next retransmission
            eventually(lambda: flow.received > at[name, lie] + 5 * 1448, 10, f"data goes on: {lie}, {name}")
        assert not flow.end.wrong


class Instant(Behaviour):
    """Acknowledges each packet at once, and loses some."""

    ack_every = 1

    def __init__(self) -> None:
        super().__init__(rtt_s=0, window_bytes=16 * 1448)

    def lost(self, segment: Segment) -> bool:
        return segment.number % 97 == 96


def test_no_round_trip_at_all(controllers: dict[str, Controller], peer: Peer) -> None:
    """ACKs come in the same instant, and packets are lost: no division by an RTT of zero, no stall."""
    reached = {}
    for name in ["reno", *(c.name for c in controllers.values())]:
        flow = peer.connect(name, Instant())
        flow.pump(1_000_000)
        flow.deliver(10)
        reached[name] = largest(flow)
        assert min(s.info.cwnd for s in flow.end.samples) >= 1
        flow.close()
    assert max(reached.values()) <= reached["reno"] + RENO_MARGIN, reached
