# SPDX-License-Identifier: GPL-2.0-only
"""ACKs that come in clumps do not make bursts of a paced flow."""

from __future__ import annotations

import socket
import statistics
import time
from contextlib import ExitStack

import pytest

from tests.functional.kernel import OPEN, Controller, eventually
from tests.functional.peer import Behaviour, Flow, Peer

pytestmark = pytest.mark.rerun("departures are timed: a host that stands still makes the burst that the test looks for")

RTT_S = 0.03
WINDOW = 20  # packets, the receiver's
BATCHES = [OPEN[::2], OPEN[1::2]]  # one thread is the receiver of all: more flows at once would be late by its own work
NEVER_US = 10_000_000
SO_MAX_PACING_RATE = 47
ALLOWED = 200_000  # bytes/s, of the application; the window alone is five times that
PACED = 0.25  # of a round trip; in slow start the kernel paces at 200 %
PATIENT = {"tcp_lp": {"delta": 900}, "tcp_lp_ecn": {"delta": 900}, "hstcp_lp": {"delta": 900}, "tcpw_lp": {"backlog_max": 64000},
           "le": {"threshold": 100_000}}  # fmt: skip


class Clumps(Behaviour):
    """The ACKs of a round trip arrive together, at this part of it."""

    def __init__(self, part: float) -> None:
        super().__init__(rtt_s=RTT_S, window_bytes=WINDOW * 1448)
        self.part = part

    def ack_held_s(self, number: int) -> float:
        return (self.part * RTT_S - time.monotonic()) % RTT_S


def spread(flow: Flow, at: int) -> float:
    """How long the segments between two pauses take to leave, as a part of the round trip: the median, from this segment on."""
    times = [segment.at_s for segment in flow.end.segments[at:]]
    bursts: list[list[float]] = []
    for at_s in times:
        if not bursts or at_s - bursts[-1][-1] > RTT_S / 4:
            bursts.append([])
        bursts[-1].append(at_s)
    whole = [burst for burst in bursts if len(burst) >= WINDOW // 2]
    assert whole, (flow.end.samples[-1].info, times)
    return statistics.median((burst[-1] - burst[0]) / RTT_S for burst in whole)


def spreads(flows: dict[str, Flow], seconds: float) -> dict[str, float]:
    """Of all of them, in the same time."""
    at = {name: len(flow.end.segments) for name, flow in flows.items()}
    time.sleep(seconds)
    return {name: spread(flow, at[name]) for name, flow in flows.items()}


def opened(controllers: dict[str, Controller], names: list[str], peer: Peer) -> dict[str, Flow]:
    """A flow of each controller, whose window is the receiver's; their clumps take turns."""
    flows = {name: peer.connect(controllers[name].name, Clumps(i / len(names))) for i, name in enumerate(names)}
    for flow in flows.values():
        flow.pump()
    for name, flow in flows.items():
        eventually(lambda: flow.received > 8 * WINDOW * 1448, 10, f"the window of {name} is open")
    return flows


@pytest.mark.parametrize("names", BATCHES, ids="-".join)
def test_clumps_of_acks_make_no_burst(names: list[str], controllers: dict[str, Controller], peer: Peer) -> None:
    """The wait for a clump is a delay, which would end slow start here: the test makes sure that it is no indication."""
    with ExitStack() as patient, ExitStack() as never:
        for name in names:
            patient.enter_context(controllers[name].set(**PATIENT.get(name, {})))
        flows = opened(controllers, names, peer)
        paced = spreads(flows, 1)
        assert min(paced.values()) > PACED, paced
        for name in names:
            never.enter_context(controllers[name].set(pace_rtt=NEVER_US))
        time.sleep(5 * RTT_S)
        bursts = spreads(flows, 1)
        assert max(bursts.values()) < PACED / 2, bursts
        never.close()
        time.sleep(5 * RTT_S)
        again = spreads(flows, 1)
        assert min(again.values()) > PACED, f"the parameter is live: {again}"


def test_what_the_application_allows_stays(controllers: dict[str, Controller], peer: Peer) -> None:
    """The application's rate limit needs the pacing that we had switched on."""
    flows = opened(controllers, OPEN, peer)
    for flow in flows.values():
        flow.sock.setsockopt(socket.SOL_SOCKET, SO_MAX_PACING_RATE, ALLOWED)
    with ExitStack() as stack:
        for name in OPEN:
            stack.enter_context(controllers[name].set(pace_rtt=NEVER_US))
        time.sleep(15 * RTT_S)
        at = {name: flow.received for name, flow in flows.items()}
        time.sleep(1)
        rates = {name: flow.received - at[name] for name, flow in flows.items()}
    assert max(rates.values()) <= 1.5 * ALLOWED, rates
