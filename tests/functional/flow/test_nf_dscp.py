# SPDX-License-Identifier: GPL-2.0-only
"""The DSCP by which a router knows the packets of nf_tcp: LE on data, a local one on chirps."""

from __future__ import annotations

import itertools
import socket
import time
from collections import Counter
from types import SimpleNamespace

import pytest

from tests.functional.kernel import Controller, Namespace, Sink, abort, choose, eventually, tcp_info
from tests.functional.peer import Behaviour, Peer
from tests.functional.wire import LE, Packet, Wire

ADDRESSES = {4: "10.77.0.2", 6: "fd77::2"}
ECT_0 = 2
PROBE = 7  # probe_dscp
CHIRPS = 4
SO_MAX_PACING_RATE = 47
OPTION = {4: (socket.IPPROTO_IP, socket.IP_TOS), 6: (socket.IPPROTO_IPV6, socket.IPV6_TCLASS)}


@pytest.mark.parametrize("name", ["nf_tcp", "tcp_lp_ecn"])
@pytest.mark.parametrize("family", [4, 6])
def test_low_effort(name: str, family: int, controllers: dict[str, Controller], netns_pair: tuple[Namespace, Namespace]) -> None:
    """Data leaves with LE and ECT; with another DSCP where the application has set one, and without LE if the parameter is 0."""
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
    """The DSCP is set where the kernel allows it; the record shows the DSCP that the packets have."""
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
    """IP_TOS sets the priority as well, by which qdiscs choose the band and class of the flow's packets."""
    nf_tcp = controllers["nf_tcp"]
    behaviour = Behaviour(rtt_s=0.02)
    behaviour.ecn, behaviour.ack_every = True, 1
    with nf_tcp.set(probe_cost=1000, early_probe=1):
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


@pytest.mark.parametrize("family", [4, 6])
def test_chirps(family: int, controllers: dict[str, Controller], netns_pair: tuple[Namespace, Namespace]) -> None:
    """A flow that fills a queue: LE on its data and the probes' on its chirps, in turns, and nothing else on any packet with
    data; ECT, but for what is sent again. What the record says to have left in chirps has the probes'."""
    a, b = netns_pair
    a.sysctl("net.ipv4.tcp_ecn=1")
    a.run("tc", "qdisc", "add", "dev", "veth0", "root", "tbf", "rate", "20mbit", "burst", "5kb", "limit", "50kb")
    nf_tcp, version = controllers["nf_tcp"], socket.AF_INET6 if family == 6 else socket.AF_INET
    with Sink(b, ADDRESSES[family]) as sink, nf_tcp.set(probe_cost=1000), Wire(a, "veth0") as wire:
        sock = a.socket(version)
        choose(sock, nf_tcp.name)
        sock.setsockopt(socket.SOL_SOCKET, SO_MAX_PACING_RATE, 40_000_000 // 8)  # a step is a packet: the queue holds a chirp
        sock.connect(sink.address)
        sock.settimeout(5)
        data: list[Packet] = []

        def complete() -> SimpleNamespace | None:
            """The record, once it and the capture have enough chirps."""
            record = nf_tcp.flow(sock)
            data.extend(packet for packet in wire.packets() if packet.length and packet.port == sink.address[1])
            turns = [dscp for dscp, _ in itertools.groupby(packet.dscp for packet in data)]
            return record if record and record.nf.chirps_complete >= CHIRPS and turns.count(PROBE) >= CHIRPS else None

        end = time.monotonic() + 10
        while not (record := complete()) and time.monotonic() < end:
            sock.send(bytes(1 << 14))
        again = tcp_info(sock).retrans
        abort(sock)
    dscps = Counter(packet.dscp for packet in data)
    assert data[0].dscp == LE and set(dscps) == {LE, PROBE}, dscps
    assert record and record.family == version and record.ecn, (record, dscps)
    assert sum(packet.length for packet in data if packet.dscp == PROBE) >= record.nf.probe_bytes > 0
    assert {packet.ecn for packet in data} <= {0, ECT_0}
    assert sum(packet.ecn == 0 for packet in data) <= again, "what is sent again"
