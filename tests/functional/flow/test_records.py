# SPDX-License-Identifier: GPL-2.0-only
"""The map `flows`: what it shows of a live connection, how recent it is, and that nothing stays in it."""

from __future__ import annotations

import itertools
import json
import socket
import struct
import time
from collections.abc import Callable, Iterator

import pytest

from tests.functional import kernel
from tests.functional.kernel import LP_FAMILY, Controller, Namespace, Sink, abort, choose, eventually, ffi, tcp_info
from tests.functional.peer import MTU, RECEIVER, SENDER, Behaviour, Peer, Segment

ADDRESSES = {4: ("10.77.0.1", "10.77.0.2"), 6: ("fd77::1", "fd77::2")}
LATE_S = 0.005  # the machine's own lateness


def packed(address: str) -> bytes:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    return socket.inet_pton(family, address).ljust(16, b"\0")


Connect = Callable[[Namespace, Sink, Controller], socket.socket]


@pytest.fixture
def connected() -> Iterator[Connect]:
    """Makes connections, and ends those that a failed test left."""
    made = []

    def connect(a: Namespace, sink: Sink, controller: Controller) -> socket.socket:
        sock = a.socket(socket.AF_INET6 if ":" in sink.address[0] else socket.AF_INET)
        made.append(sock)
        choose(sock, controller.name)
        sock.settimeout(5)
        sock.connect(sink.address)
        return sock

    yield connect
    for sock in made:
        if sock.fileno() >= 0:
            abort(sock)


@pytest.mark.parametrize("family", [4, 6])
def test_record_of_a_socket(family: int, tcp_lp: Controller, netns_pair: tuple[Namespace, Namespace], connected: Connect) -> None:
    (a, b), (local, remote) = netns_pair, ADDRESSES[family]
    with Sink(b, remote) as sink:
        before_ns = time.monotonic_ns()
        sock = connected(a, sink, tcp_lp)
        sock.sendall(bytes(3_000_000))
        eventually(lambda: sink.received == 3_000_000, 5, "all data arrives")
        time.sleep(0.01)
        sock.sendall(bytes(1000))  # its ACK writes the record once more
        eventually(lambda: sink.received == 3_001_000, 5, "the last data arrives")
        record = eventually(
            lambda: (f := tcp_lp.flow(sock)) and f.bytes_acked == 3_001_001 and f, 2, "the record of the last ACK"
        )
        info = tcp_info(sock)
        assert record.controller == "tcp_lp"
        assert record.kind == tcp_lp.kind
        assert record.family == {4: socket.AF_INET, 6: socket.AF_INET6}[family]
        assert (record.local_addr, record.remote_addr) == (packed(local), packed(remote))
        assert (record.local_port, record.remote_port) == (sock.getsockname()[1], sink.address[1])
        assert record.netns == a.inode
        assert record.mss == MTU - {4: 20, 6: 40}[family] - 20 - 12
        assert (record.cwnd, record.ssthresh) == (info.cwnd, info.ssthresh)
        assert record.cwnd > 0
        assert 0 < record.rtt_min_us <= record.srtt_us < 1_000_000
        assert before_ns < record.started_ns < record.updated_ns < time.monotonic_ns()
        assert record.phase == kernel.PHASE.SLOW_START
        assert record.rate_bps == pytest.approx(8 * info.delivery_rate, abs=8) and info.delivery_rate > 1e5
        sock.close()
        eventually(lambda: not tcp_lp.flows(), 5, "the record is gone")


def test_records_with_names_in_bpftool(tcp_lp: Controller, peer: Peer) -> None:
    """Plain `bpftool map dump` shows every field by its BTF name, and enums by theirs."""
    flow = peer.connect(tcp_lp.name)
    flow.pump(200_000)
    flow.deliver(5)
    arguments = ["bpftool", "-j", "map", "dump", "id", tcp_lp.maps["flows"].id]
    (dumped,) = [
        row["formatted"]["value"]
        for row in json.loads(kernel.run(*arguments).stdout)
        if row["formatted"]["value"]["remote_port"] == flow.sock.getpeername()[1]
    ]
    own = dumped.pop("")  # the union of the controllers' own parts has no name
    assert set(dumped) == {name for name, _ in ffi.typeof("struct ccbpf_flow").fields if name} - kernel.OWN_PARTS
    assert set(dumped["life"]) == set(kernel.LIFE)
    assert set(own["lp"]) == {name for name, _ in ffi.typeof("struct ccbpf_flow_lp").fields}
    assert (dumped["controller"], dumped["phase"]) == ("tcp_lp", "CCBPF_PHASE_SLOW_START")
    assert 0 < dumped["cwnd"] <= tcp_info(flow.sock).cwnd
    flow.close()


def test_record_of_iperf3(controllers: dict[str, Controller], netns_pair: tuple[Namespace, Namespace]) -> None:
    """Each controller and family, all at once; the record goes with the connection."""
    a, b = netns_pair
    flows = {5201 + i: case for i, case in enumerate(itertools.product(controllers.values(), (4, 6)))}
    closed = {name: controller.stats().flows_closed for name, controller in controllers.items()}
    servers = {port: kernel.start(b, "iperf3", "-s", "-1", "-p", port, "--forceflush") for port in flows}
    for server in servers.values():
        eventually(lambda: "listening" in server.output(), 5, "iperf3 listens")
    clients = {}
    for port, (controller, family) in flows.items():
        to = ("-c", ADDRESSES[family][1], "-p", port, "-C", controller.name)
        clients[port] = kernel.start(a, "iperf3", *to, "-b", "5M", "-t", "2")
    for port, (controller, family) in flows.items():
        local, remote = ADDRESSES[family]
        (record,) = eventually(
            lambda: [f for f in controller.flows() if f.remote_port == port and f.bytes_acked > 100_000],
            5,
            "iperf3's data connection shows",
        )
        assert (record.controller, record.cwnd > 0) == (controller.title, True)
        assert (record.local_addr, record.remote_addr) == (packed(local), packed(remote))
    for port in flows:
        for process in (clients[port], servers[port]):
            assert process.wait(10) == 0, process.output()
    for name, controller in controllers.items():
        eventually(lambda: not controller.flows(), 5, "no record is left")
        assert controller.stats().flows_closed >= closed[name] + 2


@pytest.mark.parametrize(("rtt_s", "window_packets"), [(0.004, 4), (0.06, 8)])
def test_record_is_fresh(rtt_s: float, window_packets: int, tcp_lp: Controller, peer: Peer) -> None:
    """Never older than max(1 RTT, 10 ms) while ACKs arrive."""
    flow = peer.connect(tcp_lp.name, Behaviour(rtt_s=rtt_s, window_bytes=window_packets * 1448))
    flow.pump()
    eventually(lambda: flow.received > 40_000, 5, "data flows")
    ages, end = [], time.monotonic() + 1
    while time.monotonic() < end:
        record = tcp_lp.flow(flow.sock)
        assert record
        ages.append((time.monotonic_ns() - record.updated_ns) / 1e9)
        time.sleep(0.003)
    ages.sort()
    assert len(ages) > 100
    assert ages[len(ages) * 9 // 10] <= max(rtt_s, 0.01) + LATE_S
    flow.close()


class AlwaysMarked(Behaviour):
    """With ECE on every ACK the kernel never calls cong_avoid()."""

    ecn = True

    def marked(self, segment: Segment) -> bool:
        return True


@pytest.mark.parametrize("name", LP_FAMILY)
def test_record_is_fresh_under_marks(name: str, controllers: dict[str, Controller], peer: Peer) -> None:
    rtt_s = 0.02
    flow = peer.connect(controllers[name].name, AlwaysMarked(rtt_s=rtt_s))
    flow.pump()
    eventually(lambda: len(flow.end.samples) > 20, 5, "data flows")
    ages, end = [], time.monotonic() + 1
    while time.monotonic() < end:
        record = controllers[name].flow(flow.sock)
        assert record and record.marks > 0
        acknowledged_s = flow.end.samples[-1].at_s
        ages.append(acknowledged_s - record.updated_ns / 1e9)  # a small window's ACKs come one by one
        time.sleep(0.003)
    ages.sort()
    assert ages[len(ages) * 9 // 10] <= 1.5 * rtt_s + LATE_S
    assert record and record.cwnd <= 2
    flow.close()


def test_record_in_a_repair(tcp_lp: Controller, peer: Peer) -> None:
    """The record shows the beginning of the repair: the phase, and the new ssthresh."""

    class Holes(Behaviour):
        sack = False  # one hole repaired in each RTT

        def lost(self, segment: Segment) -> bool:
            return 100 <= segment.number < 140 and segment.number % 2 == 0 and not segment.again

    flow = peer.connect(tcp_lp.name, Holes(rtt_s=0.03))
    flow.pump()
    record = eventually(lambda: (f := tcp_lp.flow(flow.sock)) and f.phase == kernel.PHASE.RECOVERY and f, 5, "the repair", 0.002)
    info = tcp_info(flow.sock)
    assert info.ca_state == 3
    assert (record.ssthresh, record.losses) == (info.ssthresh, 1)
    eventually(lambda: (f := tcp_lp.flow(flow.sock)) and f.phase != kernel.PHASE.RECOVERY, 5, "its end")
    flow.close()


@pytest.mark.parametrize("how", ["close", "reset", "reset by the peer", "other controller"])
def test_record_ends_with_the_flow(
    how: str, tcp_lp: Controller, netns_pair: tuple[Namespace, Namespace], connected: Connect
) -> None:
    a, b = netns_pair
    with Sink(b, "10.77.0.2") as sink:
        before = tcp_lp.stats()
        sock = connected(a, sink, tcp_lp)
        sock.sendall(bytes(10_000))
        assert tcp_lp.flow(sock)
        assert tcp_lp.stats().flows_opened == before.flows_opened + 1
        if how == "close":
            sock.close()
        elif how == "reset":
            abort(sock)
        elif how == "reset by the peer":
            eventually(lambda: sink.received == 10_000, 5, "data arrives")
            sink.abort()
            with pytest.raises(ConnectionResetError):
                sock.recv(1)
            sock.close()  # the kernel keeps a dead connection, and its controller, until then
        else:
            choose(sock, "reno")
        eventually(lambda: not tcp_lp.flows(), 5, "no record is left")
        after = tcp_lp.stats()
        assert after.flows_closed == before.flows_closed + 1
        assert after.flows_opened == before.flows_opened + 1
        sock.close()


def test_taken_over_in_mid_flow(controllers: dict[str, Controller], peer: Peer) -> None:
    """setsockopt on a live connection: the record goes over to the new controller, and every byte arrives."""
    lp, ecn = controllers["tcp_lp"], controllers["tcp_lp_ecn"]
    flow = peer.connect("reno")
    flow.pump()
    for controller, other in ((lp, ecn), (ecn, lp), (lp, ecn)):
        at = flow.received
        choose(flow.sock, controller.name)
        record = controller.flow(flow.sock)
        assert record and record.controller == controller.title
        assert not other.flow(flow.sock)
        eventually(lambda: flow.received > at + 100_000 or flow.end.wrong, 5, "data goes on")
    choose(flow.sock, "reno")
    assert not lp.flow(flow.sock) and not ecn.flow(flow.sock)
    flow.stop()
    flow.deliver(5)


def test_full_map_costs_visibility_only(tcp_lp: Controller, peer: Peer) -> None:
    flows = tcp_lp.maps["flows"]
    keys = [struct.pack("=Q", i) for i in range(1, flows.max_entries + 1)]
    before = tcp_lp.stats()
    try:
        assert flows.batch(kernel.UPDATE_BATCH, keys, bytes(flows.value_size * len(keys))) == len(keys)
        flow = peer.connect(tcp_lp.name, Behaviour(rtt_s=0.004))
        flow.pump(1_000_000)
        flow.deliver(10)
        assert flows.lookup(struct.pack("=Q", 1))
        assert tcp_lp.stats().flows_untracked == before.flows_untracked + 1
        assert not tcp_lp.flows()
        flow.close()
    finally:
        flows.batch(kernel.DELETE_BATCH, keys)
    assert tcp_lp.stats().flows_closed == before.flows_closed + 1
    flow = peer.connect(tcp_lp.name)
    assert tcp_lp.flow(flow.sock)  # room again
    assert (SENDER, RECEIVER) == (flow.sock.getsockname()[0], flow.sock.getpeername()[0])
