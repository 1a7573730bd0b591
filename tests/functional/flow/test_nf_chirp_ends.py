# SPDX-License-Identifier: GPL-2.0-only
"""Whatever ends an NF-TCP chirp, and at whichever of its packets: afterwards the flow has the window that its law gives, and its
pacing."""

from __future__ import annotations

import socket
import statistics
import time
from collections.abc import Iterable
from types import SimpleNamespace

import pytest

from tests.functional.flow.test_nf_chirps import DATA, LOSS, MARK, OFF, SHORT, STALE, Path, events_of, start
from tests.functional.kernel import PHASE, Controller, TcpInfo, choose, chosen, eventually, tcp_info
from tests.functional.peer import CWR, Flow, Peer, Segment

pytestmark = pytest.mark.rerun("the chirp is ended at one of its packets by the peer's clock: a late timer ends it before")

PACKETS = 15  # of a chirp: its steps
LAST = -1  # what leaves last before the silence in which a chirp begins: it asks by CWR for an ACK at once
FLYING = -2  # what left a few packets before that one, and has not arrived when it leaves
FEW = 4
WINDOWS = range(18, 23)  # packets: room for a whole chirp
TRIES = 12  # a busy machine's chirps are late, and what is to be struck has left
MISSED = 20  # RTT
GROWN = 2  # packets that may have come with the ACK at which the chirp began, and with those of the chirp itself
MSS = 1448
AT_ONCE = 1.0  # windows per RTT that a flow is paced by: from a chirp's end to the next ACK (kern/chirp.bpf.h)
EVENLY = 1.05  # ... in avoidance (kern/pace.bpf.h)
KERNELS = 1.2  # ... tcp_pacing_ca_ratio
EXACT = 0.01  # TCP_INFO has srtt in us, and the rate is of 1/8 us
TIMEOUT_S = 0.45  # the longest silence
STATE_OPEN, STATE_CWR, STATE_LOSS = 0, 2, 4  # include/uapi/linux/tcp.h, enum tcp_ca_state


class Struck(Path):
    """Something happens at a packet: the next one that has the index `at`.

    A chirp lasts for two round trips, so that what comes of its first packets ends it while it leaves, and of the last ones
    when it has left. At twice its rate the kernel would hold a step back for an ACK that is due (tcp_tso_should_defer():
    from two packets per ms on), and those chirps are late."""

    packets: Iterable[int] = range(PACKETS)
    why: set[int] = set()  # enum ccbpf_chirp_end; none: it is not discarded
    counted = 0, 0  # losses and marks
    paced = EVENLY
    rtt = 0.016
    limit_bps = 22e6  # SO_MAX_PACING_RATE, and so the rate that a chirp ends at
    params = {"min_rate": 2050}
    flow: Flow

    def __init__(self, controller: Controller) -> None:
        super().__init__(rtt_s=self.rtt)
        self.controller = controller
        self.at: int | None = None
        self.struck: Segment | None = None
        self.number = -1  # of the segment to which it happens
        self.halve = False

    def lost(self, segment: Segment) -> bool:
        was = self.index
        lost = super().lost(segment)
        index = self.index if self.index >= 0 else LAST if was < 0 and segment.flags & CWR else None
        wanted = LAST if self.at == FLYING else self.at
        if index is not None and index == wanted and not segment.again:
            self.number = segment.number - FEW * (self.at == FLYING)
            self.at, self.struck = None, segment
            self.strike()
        elif self.halve and self.index < 0:
            self.halve, lost = False, True
        return lost

    def strike(self) -> None:
        """The packet has left; in the peer's thread."""

    def over(self, events: list[SimpleNamespace], info: TcpInfo) -> bool:
        """The chirp has ended, and so has what the kernel did about it."""
        return bool(events) and info.ca_state == STATE_OPEN

    def kept(self, window: int) -> int:
        """packets: what the law leaves of a window"""
        return window

    def again(self) -> None:
        """For the next one."""


class Lost(Struck):
    packets = [FLYING, *range(PACKETS)]
    why = {LOSS}
    counted = 1, 0

    def lost_later(self, segment: Segment) -> bool:
        return segment.number == self.number

    def over(self, events: list[SimpleNamespace], info: TcpInfo) -> bool:
        return any(event.word == "loss" for event in events) and info.ca_state == STATE_OPEN and info.cwnd >= info.ssthresh

    def kept(self, window: int) -> int:
        return window // 2


class LastLost(Lost):
    """No later packet shows this loss: the kernel's timer does, and by then the chirp's patience is over."""

    packets = [LAST]
    why = {STALE}


class Silent(Lost):
    """Nothing arrives from then on, until the kernel's timeout. The chirp is shorter than a round trip: all of it leaves."""

    packets = [0, 1, 7, 13, 14]
    rtt, limit_bps, params = 0.022, 40e6, {"min_rate": 3700}
    silent = False

    def strike(self) -> None:
        self.silent = True

    def again(self) -> None:
        self.silent = False

    def lost_later(self, segment: Segment) -> bool:
        return self.silent and segment.number >= self.number

    def over(self, events: list[SimpleNamespace], info: TcpInfo) -> bool:
        if self.silent and info.ca_state == STATE_LOSS:
            after = tcp_info(self.flow.sock)  # TCP_INFO reads its window before it locks the socket
            assert after.cwnd <= 3, "the kernel's window after a timeout"
            self.again()
        return not self.silent and super().over(events, info)


class Held(Struck):
    """ACKs wait until the chirp's patience is over, but that of the kernel's timer is not."""

    packets = [LAST, 0, 1, 7, 13, 14]
    why = {STALE}
    rtt, limit_bps, params = 0.022, 40e6, {"min_rate": 3700}
    until_s = 0.0

    def strike(self) -> None:
        leaving_s = self.rtt * (1 - max(self.index, 0) / PACKETS)
        self.until_s = time.monotonic() + leaving_s + 4 * self.rtt + 0.11  # CHIRP_PATIENCE_US, and a little

    def ack_held_s(self, number: int) -> float:
        return max(0.0, self.until_s - time.monotonic())

    def over(self, events: list[SimpleNamespace], info: TcpInfo) -> bool:
        return time.monotonic() > self.until_s + self.rtt and info.ca_state == STATE_OPEN


class Marked(Struck):
    """Such a mark is an answer to the chirp: the window stays."""

    def marked(self, segment: Segment) -> bool:
        return segment.number == self.number

    def over(self, events: list[SimpleNamespace], info: TcpInfo) -> bool:
        since_s = self.struck.at_s if self.struck else 0
        told = [sample.info.ca_state for sample in list(self.flow.end.samples) if sample.at_s > since_s]
        return info.ca_state == STATE_OPEN and STATE_CWR in told


class Short(Marked):
    """The first gap is longer than the round trip: the mark is told before two steps have left."""

    packets = [0]
    params = {"spread": 2000, "packets": 8, "min_rate": 300}
    why = {SHORT}


class DataMarked(Marked):
    """Such a mark is congestion: eq. 2."""

    packets = [FLYING, LAST]
    why = {MARK}
    counted = 0, 1

    def kept(self, window: int) -> int:
        return window * 875 // 1000


class Closed(Struck):
    """The receiver's window has no room for the rest, and an ACK says so before that has left."""

    packets = range(4)
    why = {DATA}

    def strike(self) -> None:
        self.window_bytes = 2 * MSS

    def over(self, events: list[SimpleNamespace], info: TcpInfo) -> bool:
        if events:
            self.window_bytes = 1 << 20
        return super().over(events, info)

    def again(self) -> None:
        self.window_bytes = 1 << 20


class Off(Struck):
    """The parameter `probe`."""

    packets = range(LAST, PACKETS)
    why = {OFF}

    def strike(self) -> None:
        self.off = self.controller.set(probe=0)
        self.off.__enter__()

    def again(self) -> None:
        self.off.__exit__(None, None, None)


class Left(Struck):
    """The socket changes to another controller."""

    packets = range(LAST, PACKETS)
    paced = KERNELS

    def strike(self) -> None:
        choose(self.flow.sock, "reno")

    def over(self, events: list[SimpleNamespace], info: TcpInfo) -> bool:
        return chosen(self.flow.sock) == "reno"

    def again(self) -> None:
        self.flow.sock.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, 0)  # else a chirp's stays: kern/dscp.bpf.h
        choose(self.flow.sock, self.controller.name)


def paced(info: TcpInfo, behaviour: Struck, windows: float) -> float:
    """The rate by which the socket is paced, over so many windows per RTT; there is a limit to it."""
    rate = windows * MSS * max(info.cwnd, info.unacked) * 1e6 / info.rtt_us
    return info.pacing_rate / min(rate, behaviour.limit_bps / 8)


def ready(controller: Controller, behaviour: Struck) -> bool:
    """There is no repair under way, the RTT is the path's, and the window, which only the record shows during a chirp, is one of
    WINDOWS."""
    record, info = controller.flow(behaviour.flow.sock), tcp_info(behaviour.flow.sock)
    if not record or record.phase != PHASE.AVOIDANCE or info.ca_state != STATE_OPEN:
        return False
    behaviour.halve = record.cwnd >= WINDOWS.stop
    return record.cwnd in WINDOWS and info.rtt_us < behaviour.rtt * 1.2e6


class Attempt:
    """The event happens to one packet; collects what can be seen of its effect."""

    def __init__(self, controller: Controller, behaviour: Struck, at: int) -> None:
        self.controller, self.behaviour, self.flow = controller, behaviour, behaviour.flow
        self.events: list[SimpleNamespace] = []
        self.meanwhile: list[TcpInfo] = []
        self.after: list[TcpInfo] = []
        self.over = False
        flow, rtt = behaviour.flow, behaviour.rtt
        eventually(lambda: ready(controller, behaviour), 10, "a window")
        with controller.set(alpha=10):  # eq. 7 then adds one packet per RTT, as eq. 8
            time.sleep(3 * rtt)
            self.before, info = eventually(self.between_chirps, 5, "data")
            self.ssthresh, ready_s = info.ssthresh, time.monotonic()
            controller.listen(60)
            controller.ring.read()
            behaviour.struck, behaviour.at = None, at
            self.struck: Segment = eventually(lambda: behaviour.struck, 15, f"a chirp with a packet {at}", 0.0005)
            received = flow.received
            eventually(self.ends, 3, f"the end of a chirp that was struck at {at}", 0.0005)
            with controller.set(probe=0):
                until = flow.received + FEW * MSS
                eventually(lambda: flow.received > until, 1, "data goes on, a gap later: at most 7/8 of the smoothed RTT")
                time.sleep(rtt)
                for _ in range(20):
                    time.sleep(rtt / 10)
                    self.after.append(tcp_info(flow.sock))
                self.record = controller.flow(flow.sock)
            behaviour.again()
        begun_s = flow.end.segments[self.struck.number - max(at, 0)].at_s
        told = [sample.info.cwnd for sample in list(flow.end.samples) if ready_s < sample.at_s < begun_s]
        self.window = max(info.cwnd, *told, 0)  # it grows; in a chirp the kernel's is smaller
        self.acked = (flow.received - received) // MSS
        self.why = {event.a for event in self.events if event.word == "chirp-discarded" and (at >= 0 or event.b == 0)}

    def between_chirps(self) -> tuple[SimpleNamespace, TcpInfo] | None:
        record, info = self.controller.flow(self.flow.sock), tcp_info(self.flow.sock)
        return (record, info) if record and info.cwnd >= record.cwnd else None

    def ends(self) -> bool:
        """In this order: the kernel's state is read after the events. Or nothing more happens."""
        found = events_of(self.controller, "chirp", "chirp-discarded", "loss", "mark")
        self.events += [event for event in found if event.time_ns >= self.struck.at_s * 1e9]
        info = tcp_info(self.flow.sock)
        self.meanwhile.append(info)
        self.over = self.behaviour.over(self.events, info)
        return self.over or info.ca_state == STATE_OPEN and time.monotonic() - self.struck.at_s > MISSED * self.behaviour.rtt

    def check(self) -> None:
        """Checks the window against the law by TCP_INFO, and the record, and the pacing."""
        behaviour, after = self.behaviour, self.after
        least, most = behaviour.kept(self.window), behaviour.kept(self.window + GROWN)
        assert {info.ca_state for info in after} == {STATE_OPEN}, after
        ssthresh = range(least, most + 1) if any(behaviour.counted) else [self.ssthresh]
        assert all(info.ssthresh in ssthresh for info in after), (self.window, self.ssthresh, after)
        assert all(least <= info.cwnd <= most + self.acked / least + 1 for info in after), (self.window, self.acked, after)
        if self.record:
            counts = self.record.losses - self.before.losses, self.record.marks - self.before.marks
            assert counts == behaviour.counted
        rates = [paced(info, behaviour, behaviour.paced) for info in after]
        assert statistics.median(rates) == pytest.approx(1, rel=EXACT), (rates, after)

    def at_once(self) -> float:
        """The pacing at the moment when the flow had its window back."""
        first = next(info for info in self.meanwhile + self.after if info.cwnd >= self.window)
        return paced(first, self.behaviour, AT_ONCE)


def ended(controller: Controller, behaviour: Struck, at: int) -> Attempt:
    """A chirp to which this happened at that packet, and which ended because of it."""
    for _ in range(TRIES):
        attempt = Attempt(controller, behaviour, at)
        if attempt.over and attempt.why == behaviour.why:
            attempt.check()
            return attempt
    raise AssertionError(f"{TRIES} chirps were struck at {at}, and ended otherwise, the last by {attempt.why}")


@pytest.mark.parametrize("way", [Lost, LastLost, Silent, Held, Marked, Short, DataMarked, Closed, Off, Left])
def test_window_and_pacing_come_back(way: type[Struck], nf_tcp: Controller, peer: Peer) -> None:
    """At each of its packets; at some of them where only a timer shows it."""
    behaviour = way(nf_tcp)
    with nf_tcp.set(probe_cost=1000, **way.params):
        flow = behaviour.flow = start(nf_tcp, peer, behaviour, rate_bps=way.limit_bps)
        eventually(lambda: (f := nf_tcp.flow(flow.sock)) and f.losses, 10, "the end of slow start")
        attempts = [ended(nf_tcp, behaviour, at) for at in way.packets]
    nf_tcp.listen(0)
    if way in (Off, Left):  # no ACK did it, with which the kernel sets its own pace
        assert statistics.median(attempt.at_once() for attempt in attempts) == pytest.approx(1, rel=EXACT)
    flow.stop()
    flow.deliver(5)
    silences = [b.at_s - a.at_s for a, b in zip(flow.end.segments, flow.end.segments[1:])]
    assert max(silences) < TIMEOUT_S
