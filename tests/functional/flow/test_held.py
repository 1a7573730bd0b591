# SPDX-License-Identifier: GPL-2.0-only
"""A flow that never loses a packet, because the receiver's window or the queue of its own host limits it, still yields."""

from __future__ import annotations

import time
from contextlib import ExitStack

import pytest

from tests.functional.kernel import LP_FAMILY, PHASE, Controller, eventually, no_kernel_warning
from tests.functional.peer import Behaviour, Peer

pytestmark = pytest.mark.rerun(
    "the delay that ends slow start is the peer's: a host that stands still for some ms is such a delay"
)

RTT_S = 0.01
LONG_S = 0.03
EXTRA_S = 0.03
WINDOW = 40  # packets of the receiver
RATE_MBIT = 20


class Held(Behaviour):
    """The path has room for the receiver's window; later another flow causes a queue."""

    def __init__(self) -> None:
        super().__init__(rtt_s=RTT_S, window_bytes=WINDOW * 1448)
        self.extra_s = 0.0

    def ack_held_s(self, number: int) -> float:
        return self.extra_s


class LongPath(Behaviour):
    """A path that has only a long round trip."""

    samples = False

    def __init__(self) -> None:
        super().__init__(rtt_s=LONG_S)


@pytest.fixture(params=[*LP_FAMILY, "tcpw_lp"])
def controller(request: pytest.FixtureRequest, controllers: dict[str, Controller]) -> Controller:
    return controllers[request.param]


def test_behind_the_receivers_window(controller: Controller, peer: Peer) -> None:
    """When the window is no longer the limit, slow start goes on while there is no queue, because the hosts may be the limit.
    Later it ends without a loss, and from then on a queue is an indication."""
    behaviour = Held()
    flow = peer.connect(controller.name, behaviour)
    flow.pump()
    eventually(lambda: (f := controller.flow(flow.sock)) and f.cwnd >= 2 * (WINDOW - 1), 5, "a window that is no limit")
    time.sleep(0.3)
    before = controller.flow(flow.sock)
    assert before and before.phase == PHASE.SLOW_START and before.cwnd < 4 * WINDOW
    behaviour.extra_s = EXTRA_S
    yielded = eventually(
        lambda: (f := controller.flow(flow.sock)) and f.indications and f.cwnd < WINDOW // 2 and f, 10, "a small window"
    )
    assert yielded.losses == 0


def test_a_flow_with_little_to_send_stays_in_slow_start(controller: Controller, peer: Peer) -> None:
    """The window is no limit there either, but no data waits: slow start is not over yet."""
    flow = peer.connect(controller.name, Held())
    for _ in range(100):
        flow.sock.send(bytes(1448))
        time.sleep(RTT_S / 2)
    record = controller.flow(flow.sock)
    assert record and record.phase == PHASE.SLOW_START and record.cwnd < 2 * WINDOW
    flow.pump()
    eventually(lambda: (f := controller.flow(flow.sock)) and f.cwnd >= 2 * (WINDOW - 1), 5, "the slow start")


def shaped(peer: Peer) -> Peer:
    """The host's own queue, before the device, which holds everything that the flows may put there."""
    shape = ("qdisc", "add", "dev", "peer", "root", "tbf", "rate", f"{RATE_MBIT}mbit", "burst", "32k", "limit", "1m")
    peer.namespace.run("tc", *shape)
    return peer


def test_behind_the_queue_of_its_own_host(controllers: dict[str, Controller]) -> None:
    """The kernel limits a flow's part of the host's own queue, so that this never drops a packet: reno gets its part of it all
    the same, beside a flow that was there before. Each controller has a host of its own; all are tried at once. They start one
    after the other: this process answers for all of them, and if it answers the first packets late that is the base delay."""
    names = ["tcpw_lp", *LP_FAMILY]  # the first is answered best; tcpw_lp needs it most
    with no_kernel_warning(), ExitStack() as stack:
        peers = {name: shaped(stack.enter_context(Peer())) for name in names}
        backgrounds = {name: peer.connect(controllers[name].name, LongPath()) for name, peer in peers.items()}
        for flow in backgrounds.values():
            flow.pump()
            time.sleep(0.5)
        time.sleep(3)
        foregrounds = {name: peer.connect("reno", LongPath()) for name, peer in peers.items()}
        for flow in foregrounds.values():
            flow.pump()
        time.sleep(3)
        before = {name: (flow.received, time.monotonic()) for name, flow in foregrounds.items()}
        time.sleep(3)
        mbit = {
            name: (flow.received - before[name][0]) * 8 / (time.monotonic() - before[name][1]) / 1e6
            for name, flow in foregrounds.items()
        }
        for name, peer in peers.items():
            assert "dropped 0," in peer.namespace.run("tc", "-s", "qdisc", "show", "dev", "peer").stdout, name
            record = controllers[name].flow(backgrounds[name].sock)
            assert record and record.losses == 0, name
    assert min(mbit.values()) > 0.85 * RATE_MBIT, mbit
