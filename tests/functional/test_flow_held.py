# SPDX-License-Identifier: GPL-2.0-only
"""A flow that nothing is ever lost of: the receiver's window or the queue of its own host holds it, and it still yields."""
from __future__ import annotations

import socket
import threading
import time

import pytest

from tests.functional.kernel import LP_FAMILY, PHASE, Controller, Namespace, eventually
from tests.functional.peer import Behaviour, Peer

RTT_S = 0.01
EXTRA_S = 0.03
WINDOW = 40  # packets of the receiver
RATE_MBIT = 20
BULK = bytes(1 << 16)


class Held(Behaviour):
    """A receiver's window that the path has room for, and then a queue of somebody else's."""

    def __init__(self) -> None:
        super().__init__(rtt_s=RTT_S, window_bytes=WINDOW * 1448)
        self.extra_s = 0.0

    def ack_held_s(self, number: int) -> float:
        return self.extra_s


@pytest.fixture(params=[*LP_FAMILY, "tcpw_lp"])
def controller(request: pytest.FixtureRequest, controllers: dict[str, Controller]) -> Controller:
    return controllers[request.param]


def test_behind_the_receivers_window(controller: Controller, peer: Peer) -> None:
    """Where the window is no limit any more slow start goes on while there is no queue, as hosts may be the limit; then it
    ends without a loss, and from there on a queue is an indication."""
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


def test_who_has_little_to_send_stays_in_slow_start(controller: Controller, peer: Peer) -> None:
    """The window is no limit there either, but no data waits: its slow start is still to come."""
    flow = peer.connect(controller.name, Held())
    for _ in range(100):
        flow.sock.send(bytes(1448))
        time.sleep(RTT_S / 2)
    record = controller.flow(flow.sock)
    assert record and record.phase == PHASE.SLOW_START and record.cwnd < 2 * WINDOW
    flow.pump()
    eventually(lambda: (f := controller.flow(flow.sock)) and f.cwnd >= 2 * (WINDOW - 1), 5, "the slow start")


class Transfer:
    """As much as goes, from a namespace to another."""

    def __init__(self, ours: Namespace, theirs: Namespace, port: int, controller: str) -> None:
        self.received, self._ends = 0, threading.Event()
        listener = theirs.socket()
        listener.bind(("10.77.0.2", port))
        listener.listen()
        self._out = ours.socket()
        self._out.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, controller.encode())
        self._out.settimeout(0.2)
        self._out.connect(("10.77.0.2", port))
        self._in, _ = listener.accept()
        self._in.settimeout(0.2)
        listener.close()
        self._threads = [threading.Thread(target=self._until_end, args=(step,)) for step in (self._send, self._receive)]
        for thread in self._threads:
            thread.start()

    def _send(self) -> None:
        self._out.send(BULK)

    def _receive(self) -> None:
        self.received += len(self._in.recv(len(BULK)))

    def _until_end(self, step) -> None:
        while not self._ends.is_set():
            try:
                step()
            except TimeoutError:
                pass

    def close(self) -> None:
        self._ends.set()
        for thread in self._threads:
            thread.join()
        self._out.close()
        self._in.close()


@pytest.mark.parametrize("name", ["tcp_lp", "tcpw_lp"])
def test_behind_the_queue_of_its_own_host(
    name: str, controllers: dict[str, Controller], netns_pair: tuple[Namespace, Namespace]
) -> None:
    """The kernel lets a flow have so little in the host's own queue that this never drops: reno has its part of it all the
    same, beside a flow that was there before."""
    a, b = netns_pair
    a.run("tc", "qdisc", "add", "dev", "veth0", "root", "tbf", "rate", f"{RATE_MBIT}mbit", "burst", "32k", "limit", "1m")
    background = Transfer(a, b, 5001, controllers[name].name)
    try:
        time.sleep(2)
        foreground = Transfer(a, b, 5002, "reno")
        try:
            time.sleep(2)
            before, since_s = foreground.received, time.monotonic()
            time.sleep(3)
            mbit = (foreground.received - before) * 8 / (time.monotonic() - since_s) / 1e6
        finally:
            foreground.close()
    finally:
        background.close()
    assert "dropped 0," in a.run("tc", "-s", "qdisc", "show", "dev", "veth0").stdout
    assert mbit > 0.85 * RATE_MBIT
