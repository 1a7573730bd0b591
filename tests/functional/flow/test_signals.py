# SPDX-License-Identifier: GPL-2.0-only
"""Where the delay comes from: the peer's clock is learned, at every tick in use; without timestamps the RTT serves."""

from __future__ import annotations

import socket
import struct
import threading
import time
from types import SimpleNamespace

import pytest

from tests.functional.kernel import LP_FAMILY, SIGNAL, Controller, Namespace, Sink, choose, eventually, inside, tcp_info
from tests.functional.peer import Behaviour, Flow, Peer, Segment

pytestmark = pytest.mark.rerun("the delay is the peer's: what the host adds to it counts as well")

TICKS_S = [0.001, 0.000001, 0.01, 0.004, 1 / 512, 1 / 1024]
ROUND_TRIPS_S = [0.003, 0.04]
LONG_S = 0.06
FIRST_LOSS = 60
INFINITE = 0x7FFFFFFF
LEARNED_S = 6.0  # one window of a second; longer where the machine was late by milliseconds
FLOWS_TRIED = 10

RTM_NEWROUTE, NLM_F_REQUEST, NLM_F_ACK, NLM_F_REPLACE, NLM_F_CREATE = 24, 1, 4, 0x100, 0x400
RTA_DST, RTA_OIF, RTA_METRICS, RTAX_FEATURES, RTAX_FEATURE_TCP_USEC_TS = 1, 4, 8, 12, 0x10


def use_microseconds(namespace: Namespace, destination: str, device: str) -> None:
    """`ip route replace … features tcp_usec_ts`, for which iproute2 before 6.7 has no word."""

    def attribute(kind: int, data: bytes) -> bytes:
        return struct.pack("=HH", 4 + len(data), kind) + data.ljust(-(-len(data) // 4) * 4, b"\0")

    with inside(namespace.name), socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0) as netlink:
        message = struct.pack("=BBBBBBBBI", socket.AF_INET, 32, 0, 0, 254, 2, 253, 1, 0)  # main, kernel, link, unicast
        message += attribute(RTA_DST, socket.inet_aton(destination))
        message += attribute(RTA_OIF, struct.pack("=I", socket.if_nametoindex(device)))
        message += attribute(RTA_METRICS, attribute(RTAX_FEATURES, struct.pack("=I", RTAX_FEATURE_TCP_USEC_TS)))
        flags = NLM_F_REQUEST | NLM_F_ACK | NLM_F_REPLACE | NLM_F_CREATE
        netlink.send(struct.pack("=IHHII", 16 + len(message), RTM_NEWROUTE, flags, 1, 0) + message)
        (error,) = struct.unpack_from("=i", netlink.recv(4096), 16)
        assert error == 0, f"RTM_NEWROUTE: {error}"


def test_every_tick_is_learned(tcp_lp: Controller, peer: Peer) -> None:
    """From random offsets, at two round trips; the delay is then the one-way delay."""
    flows = {
        (tick_s, rtt_s): peer.connect(tcp_lp.name, Behaviour(rtt_s=rtt_s, tick_s=tick_s, window_bytes=2 * 1448))
        for tick_s in TICKS_S
        for rtt_s in ROUND_TRIPS_S
    }
    for flow in flows.values():
        flow.pump()
    time.sleep(0.5)
    for flow in flows.values():  # a second is what it takes
        record = tcp_lp.flow(flow.sock)
        assert record and (record.delay_source, record.lp.peer_tick_ns) == (SIGNAL.RTT, 0)
    for (tick_s, rtt_s), flow in flows.items():
        record = eventually(
            lambda: (f := tcp_lp.flow(flow.sock)) and f.delay_source == SIGNAL.OWD and f,
            LEARNED_S,
            f"OWD, tick {tick_s:g} s, RTT {rtt_s:g} s: {tcp_lp.flow(flow.sock)}",
        )
        assert record.lp.peer_tick_ns == int(tick_s * 1e9)
        assert rtt_s * 1e6 <= record.rtt_min_us < rtt_s * 1e6 + 3000
        flow.close()


@pytest.mark.parametrize("microseconds", [False, True])
def test_linux_peer(microseconds: bool, tcp_lp: Controller, netns_pair: tuple[Namespace, Namespace]) -> None:
    """1 ms between two Linux hosts, 1 us where both routes have the feature tcp_usec_ts."""
    a, b = netns_pair
    if microseconds:
        use_microseconds(a, "10.77.0.2", "veth0")
        use_microseconds(b, "10.77.0.1", "veth0")
    with Sink(b, "10.77.0.2") as sink, trickle(a, sink, tcp_lp) as sock:
        record = eventually(lambda: (f := tcp_lp.flow(sock)) and f.delay_source == SIGNAL.OWD and f, LEARNED_S, "OWD")
        assert record.lp.peer_tick_ns == (1_000 if microseconds else 1_000_000)


def test_linux_peer_without_timestamps(tcp_lp: Controller, netns_pair: tuple[Namespace, Namespace]) -> None:
    a, b = netns_pair
    b.sysctl("net.ipv4.tcp_timestamps=0")
    with Sink(b, "10.77.0.2") as sink, trickle(a, sink, tcp_lp) as sock:
        time.sleep(2.2)  # twice what learning a clock takes
        record = tcp_lp.flow(sock)
        assert record
        assert (record.delay_source, record.lp.peer_tick_ns) == (SIGNAL.RTT, 0)
        assert record.rtt_min_us > 0
        sock.sendall(bytes(5_000_000))
        eventually(lambda: sink.received > 5_000_000, 5, "traffic flows")
        assert (record := tcp_lp.flow(sock)) and record.delay_max_us > 0


def test_queue_is_seen_by_either_signal(tcp_lp: Controller, peer: Peer) -> None:
    """A drop-tail buffer of 30 ms: with and without timestamps the largest delay is the buffer's, and the flow yields
    before it is full again."""
    flows = []
    for timestamps in (True, False):
        behaviour = Behaviour(rtt_s=0.02, rate_bps=8e6, buffer_bytes=30_000)
        behaviour.timestamps = timestamps
        flow = peer.connect(tcp_lp.name, behaviour)
        flow.pump()
        flows.append(flow)
    for flow in flows:
        eventually(lambda: (f := tcp_lp.flow(flow.sock)) and f.losses and f.indications >= 5, 8, "indications")
        record = tcp_lp.flow(flow.sock)
        assert record
        assert 24_000 < record.delay_max_us < 60_000  # the buffer's, and this machine's lateness
        assert record.losses <= 2  # slow start's; from there on the delay is the signal
        assert record.delay_threshold_us == record.delay_max_us * 150 // 1000
        flow.close()


class Handover(Behaviour):
    """A path of 60 ms that loses one segment, and then has a queue of a given length on the way of the ACKs, which the RTT alone
    cannot tell from one on the way there."""

    timestamps = False

    def __init__(self) -> None:
        super().__init__(rtt_s=LONG_S)
        self.extra_s = 0.0

    def lost(self, segment: Segment) -> bool:
        return segment.number == FIRST_LOSS

    def ack_held_s(self, number: int) -> float:
        return self.extra_s


def handed_over(controller: Controller, peer: Peer) -> tuple[Flow, Handover, SimpleNamespace]:
    """A flow that has seen a delay of an eighth of the base for a second, and its record. The host also delays single ACKs, so
    flows are tried until one has seen no more than a quarter."""
    late_us = []
    for _ in range(FLOWS_TRIED):
        behaviour = Handover()
        flow = peer.connect("reno", behaviour)
        flow.pump()
        eventually(lambda: tcp_info(flow.sock).ssthresh < INFINITE and tcp_info(flow.sock).ca_state == 0, 5, "the loss")
        choose(flow.sock, controller.name)
        eventually(lambda: (f := controller.flow(flow.sock)) and f.rtt_min_us, 5, "a base")
        behaviour.extra_s = 0.12 * LONG_S
        time.sleep(1)
        record = controller.flow(flow.sock)
        assert record
        if record.delay_max_us < 0.25 * LONG_S * 1e6:
            return flow, behaviour, record
        late_us.append(record.delay_max_us)
        flow.stop()
        flow.close()
    raise AssertionError(f"this machine was late in each flow, by {late_us} us")


@pytest.mark.parametrize("name", LP_FAMILY)
def test_an_unknown_buffer_is_not_that_of_the_first_samples(name: str, controllers: dict[str, Controller], peer: Peer) -> None:
    """It is chosen in mid-flow, after another controller's slow start. The threshold is a quarter of the base, not 15 % of the
    small delays seen so far, nor of a first ACK that was delayed. Smaller delays are no indication, and larger ones are."""
    controller = controllers[name]
    flow, behaviour, record = handed_over(controller, peer)
    assert record.delay_threshold_us == record.rtt_min_us // 4
    assert record.indications == 0
    behaviour.extra_s = 0.5 * LONG_S
    eventually(lambda: (f := controller.flow(flow.sock)) and f.indications, 5, "an indication")
    flow.close()


class trickle:
    """A flow of small writes, a few thousand in a second, on a path of microseconds."""

    def __init__(self, namespace: Namespace, sink: Sink, controller: Controller) -> None:
        self._sock = namespace.socket()
        choose(self._sock, controller.name)
        self._sock.settimeout(5)
        self._sock.connect(sink.address)
        self._stop = False
        self._thread = threading.Thread(target=self._send, daemon=True)

    def _send(self) -> None:
        while not self._stop:
            self._sock.sendall(bytes(3000))
            time.sleep(0.001)

    def __enter__(self) -> socket.socket:
        self._thread.start()
        return self._sock

    def __exit__(self, *_: object) -> None:
        self._stop = True
        self._thread.join(5)
        self._sock.close()
