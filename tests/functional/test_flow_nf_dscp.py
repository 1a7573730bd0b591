# SPDX-License-Identifier: GPL-2.0-only
"""The DSCP of those that a router shall know: LE on data, a local one on chirps."""
from __future__ import annotations

import socket
import time

import pytest

from tests.functional.kernel import Controller, Namespace, Sink, abort, choose, eventually
from tests.functional.peer import Behaviour, Peer
from tests.functional.wire import LE, Wire

ADDRESSES = {4: "10.77.0.2", 6: "fd77::2"}
ECT_0 = 2
OPTION = {4: (socket.IPPROTO_IP, socket.IP_TOS), 6: (socket.IPPROTO_IPV6, socket.IPV6_TCLASS)}


@pytest.mark.parametrize("name", ["nf_tcp", "tcp_lp_ecn"])
@pytest.mark.parametrize("family", [4, 6])
def test_low_effort(name: str, family: int, controllers: dict[str, Controller], netns_pair: tuple[Namespace, Namespace]) -> None:
    """Data leaves as LE, and as ECT; not where the application has set another DSCP, or the parameter says 0."""
    a, b = netns_pair
    a.sysctl("net.ipv4.tcp_ecn=1")
    controller = controllers[name]
    for dscp, own, wanted in ((1, 0, LE), (0, 0, 0), (1, 10, 10), (5, 0, 5)):
        with Sink(b, ADDRESSES[family]) as sink, controller.set(dscp=dscp), Wire(a, "veth0") as wire:
            sock = a.socket(socket.AF_INET6 if family == 6 else socket.AF_INET)
            if own:
                sock.setsockopt(*OPTION[family], own << 2)
            choose(sock, controller.name)
            sock.connect(sink.address)
            sock.sendall(bytes(20_000))
            eventually(lambda: sink.received == 20_000, 5, "all data arrives")
            data = [packet for packet in wire.packets() if packet.length and packet.port == sink.address[1]]
            assert data and {(packet.dscp, packet.ecn) for packet in data} == {(wanted, ECT_0)}
            abort(sock)


def test_ipv4_on_a_socket_of_ipv6(controllers: dict[str, Controller], netns_pair: tuple[Namespace, Namespace]) -> None:
    """Where the kernel lets it be set; and the record says what there is."""
    a, b = netns_pair
    a.sysctl("net.ipv4.tcp_ecn=1")
    with Sink(b, ADDRESSES[4]) as sink, Wire(a, "veth0") as wire:
        sock = a.socket(socket.AF_INET6)
        choose(sock, "nf_tcp")
        sock.connect((f"::ffff:{sink.address[0]}", sink.address[1]))
        record = controllers["nf_tcp"].flow(sock)
        sock.sendall(bytes(20_000))
        eventually(lambda: sink.received == 20_000, 5, "all data arrives")
        data = [packet for packet in wire.packets() if packet.length and packet.port == sink.address[1]]
        assert record and record.nf.dscp in (0, LE)
        assert data and {(packet.dscp, packet.ecn) for packet in data} == {(record.nf.dscp, ECT_0)}
        abort(sock)


def test_the_applications_priority_stays(controllers: dict[str, Controller], peer: Peer) -> None:
    """IP_TOS sets it as well; band and class of the flow's packets go by it."""
    nf_tcp = controllers["nf_tcp"]
    behaviour = Behaviour(rtt_s=0.02)
    behaviour.ecn, behaviour.ack_every = True, 1
    with nf_tcp.set(probe_cost=1000):
        flow = peer.connect(nf_tcp.name, behaviour)
        flow.sock.setsockopt(socket.SOL_SOCKET, socket.SO_PRIORITY, 5)
        flow.pump()
        seen = set()
        end = time.monotonic() + 5
        while time.monotonic() < end and not ((f := nf_tcp.flow(flow.sock)) and f.nf.chirps_sent >= 3):
            seen.add(flow.sock.getsockopt(socket.SOL_SOCKET, socket.SO_PRIORITY))
            time.sleep(0.0002)  # a chirp is longer; and the peer's thread needs the interpreter
        assert f and f.nf.chirps_sent >= 3 and seen == {5}
        assert len({segment.tos >> 2 for segment in flow.end.segments}) == 2, "data and chirps"
    flow.close()
