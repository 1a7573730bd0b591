# SPDX-License-Identifier: GPL-2.0-only
"""ACKs that come in clumps do not make bursts of a paced flow."""

from __future__ import annotations

import socket
import statistics
import time

import pytest

from tests.functional.kernel import OPEN, Controller, eventually
from tests.functional.peer import Behaviour, Flow, Peer

pytestmark = pytest.mark.rerun("departures are timed: a host that stands still makes the burst that the test looks for")

RTT_S = 0.03
WINDOW = 20  # packets, the receiver's
NEVER_US = 10_000_000
SO_MAX_PACING_RATE = 47
ALLOWED = 200_000  # bytes/s, of the application; the window alone is five times that
PACED = 0.25  # of a round trip; in slow start the kernel paces at 200 %
PATIENT = {"tcp_lp": {"delta": 900}, "tcp_lp_ecn": {"delta": 900}, "hstcp_lp": {"delta": 900}, "tcpw_lp": {"backlog_max": 64000},
           "le": {"threshold": 100_000}}  # fmt: skip


class Clumps(Behaviour):
    """The ACKs of a round trip arrive together."""

    def __init__(self) -> None:
        super().__init__(rtt_s=RTT_S, window_bytes=WINDOW * 1448)

    def ack_held_s(self, number: int) -> float:
        return -time.monotonic() % RTT_S


def spread(flow: Flow, seconds: float) -> float:
    """How long the segments between two pauses take to leave, as a part of the round trip: the median."""
    at = len(flow.end.segments)
    time.sleep(seconds)
    times = [segment.at_s for segment in flow.end.segments[at:]]
    bursts: list[list[float]] = []
    for at_s in times:
        if not bursts or at_s - bursts[-1][-1] > RTT_S / 4:
            bursts.append([])
        bursts[-1].append(at_s)
    whole = [burst for burst in bursts if len(burst) >= WINDOW // 2]
    assert whole, times
    return statistics.median((burst[-1] - burst[0]) / RTT_S for burst in whole)


def opened(controller: Controller, peer: Peer) -> Flow:
    """A flow whose window is the receiver's."""
    flow = peer.connect(controller.name, Clumps())
    flow.pump()
    eventually(lambda: flow.received > 8 * WINDOW * 1448, 10, "the window is open")
    return flow


@pytest.mark.parametrize("name", OPEN)
def test_clumps_of_acks_make_no_burst(name: str, controllers: dict[str, Controller], peer: Peer) -> None:
    """The wait for a clump is a delay, which would end slow start here: the test makes sure that it is no indication."""
    controller = controllers[name]
    with controller.set(**PATIENT.get(name, {})):
        flow = opened(controller, peer)
        assert spread(flow, 1) > PACED
        with controller.set(pace_rtt=NEVER_US):
            time.sleep(5 * RTT_S)
            assert spread(flow, 1) < PACED / 2
        time.sleep(5 * RTT_S)
        assert spread(flow, 1) > PACED, "the parameter is live"
        flow.close()


@pytest.mark.parametrize("name", OPEN)
def test_what_the_application_allows_stays(name: str, controllers: dict[str, Controller], peer: Peer) -> None:
    """The application's rate limit needs the pacing that we had switched on."""
    controller = controllers[name]
    flow = opened(controller, peer)
    flow.sock.setsockopt(socket.SOL_SOCKET, SO_MAX_PACING_RATE, ALLOWED)
    with controller.set(pace_rtt=NEVER_US):
        time.sleep(15 * RTT_S)
        at = flow.received
        time.sleep(1)
        assert flow.received - at <= 1.5 * ALLOWED
    flow.close()
