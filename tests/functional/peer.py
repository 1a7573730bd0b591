# SPDX-License-Identifier: GPL-2.0-only
"""A TCP receiver in user space, whose every ACK a test can shape.

    with Peer() as peer:
        flow = peer.connect("tcp_lp", Behaviour(rtt_s=0.02))
        flow.pump()                        # a thread sends for ever
        eventually(lambda: flow.received > 100_000, 5, "data arrives")

The kernel's sender and a TUN device live in a namespace of the peer's own; the packets that leave through the device
are read here. Between the device and the receiver lies a path of the behaviour's own: a rate with a drop-tail buffer,
half the RTT each way, losses and reordering. The receiver is a correct one (RFC 9293, 7323, 2018, 2883, 3168): it
acknowledges every `ack_every` packets, or after 40 ms, or at once where data is missing, with timestamps, SACK, DSACK
and ECE. What a test wants otherwise it overrides in a subclass of Behaviour.

    sender's socket ─ kernel ─ tun ─▶ lost() ─ rate, buffer ─ rtt/2 + held_s() ─▶ receive ─▶ tsval(), … ─ rtt/2 ─▶ kernel

An ACK is written to the device in one system call, in which the kernel processes it: so a Sample taken after it is the
connection's state right after that ACK. Each connection checks that every byte is the one that was sent there. One
thread does it all, for any number of connections, at about 10 000 packets/s.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import heapq
import itertools
import os
import select
import socket
import struct
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from .kernel import Namespace, TcpInfo, choose, eventually, inside, tcp_info

SENDER, RECEIVER = "10.7.0.1", "10.7.0.2"
MTU = 1500
TUNSETIFF, IFF_TUN, IFF_NO_PI = 0x400454CA, 1, 0x1000
FIN, SYN, RST, PSH, ACK, ECE, CWR = 1, 2, 4, 8, 16, 64, 128
DELAYED_ACK_S = 0.04
SYN_SENT = 2  # include/net/tcp_states.h
PATTERN_BYTES = 65521  # a prime: data that lands elsewhere is never the same
WINDOW_SHIFT = 7
TCP_NOTSENT_LOWAT = 25  # include/uapi/linux/tcp.h
CHUNK = 1 << 14  # of the application
U32 = 0xFFFFFFFF

_seed = bytes(i * 151 + (i * i >> 7) & 0xFF for i in range(PATTERN_BYTES))
_pattern = _seed + _seed


def pattern(offset: int, length: int) -> bytes:
    """The application's data at this offset of the stream."""
    at = offset % PATTERN_BYTES
    if length <= PATTERN_BYTES:
        return _pattern[at : at + length]
    return (_seed * (length // PATTERN_BYTES + 2))[at : at + length]


def newer(a: int, b: int) -> int:
    """a - b on the circle of 2^32."""
    return (a - b + (1 << 31) & U32) - (1 << 31)


class Segment(NamedTuple):
    """A data segment that left the sender."""

    at_s: float  # it came out of the device
    offset: int  # of its first byte in the stream
    length: int
    number: int  # of the connection's data segments, from 0
    again: bool  # some of it was sent before
    flags: int
    tsval: int
    tos: int = 0


class Sample(NamedTuple):
    """The sender right after an ACK."""

    at_s: float
    info: TcpInfo


class Behaviour:
    """An honest receiver behind an ideal path; override what should differ. Times in s, offsets from 0."""

    timestamps = True
    sack = True
    ecn = False  # agree to ECN
    ack_every = 2
    reneges = False  # out-of-order data is SACKed and thrown away
    samples = True
    sacks = False  # set before each ece(): the ACK carries SACK

    def __init__(
        self,
        rtt_s: float = 0.01,
        rate_bps: float = 0,  # 0: no bottleneck
        buffer_bytes: int = 0,
        window_bytes: int = 1 << 20,
        tick_s: float = 0.001,
    ) -> None:
        self.rtt_s = rtt_s
        self.rate_bps = rate_bps
        self.buffer_bytes = buffer_bytes
        self.window_bytes = window_bytes
        self.tick_s = tick_s
        self.clock_offset = int.from_bytes(os.urandom(4), "little")

    # the path
    def lost(self, segment: Segment) -> bool:
        return False

    def lost_later(self, segment: Segment) -> bool:
        """Called when the segment arrives, with what has left meanwhile."""
        return False

    def held_s(self, segment: Segment) -> float:
        """This segment is late by so much; others overtake it."""
        return 0

    def ack_held_s(self, number: int) -> float:
        """The connection's ACK of this number is late by so much, and those behind it wait."""
        return 0

    def marked(self, segment: Segment) -> bool:
        """A router marked it CE."""
        return False

    # the receiver
    def tsval(self, now_s: float, echo: int) -> int:
        return int(now_s / self.tick_s) + self.clock_offset

    def tsecr(self, echo: int) -> int:
        return echo

    def ece(self, latched: bool) -> bool:
        """Whether this ACK carries ECE; latched: from a marked packet until CWR."""
        return latched


class End:
    """A connection's receiving end."""

    def __init__(self, peer: Peer, behaviour: Behaviour) -> None:
        self.peer = peer
        self.behaviour = behaviour
        self.segments: list[Segment] = []  # all that left the sender, lost ones too
        self.probes_s: list[float] = []  # when a probe of a closed window came
        self.drops = 0
        self.samples: list[Sample] = []
        self.received = 0  # bytes in order
        self.wrong: str | None = None
        self.finished = False
        self.reset = False
        self.acks = 0
        self.sock: socket.socket | None = None
        self._port = 0
        self._irs = 0
        self._iss = int.from_bytes(os.urandom(4), "little")
        self._highest = 0
        self._stored: dict[int, bytes] = {}  # offset: data beyond a hole
        self._recent: list[tuple[int, int]] = []  # blocks beyond a hole, the newest first
        self._fin_at: int | None = None
        self._ts_recent = 0
        self._last_ack = 0
        self._unacked = 0
        self._ack_due = 0.0
        self._ack_sent = 0.0
        self._latched = False
        self._busy_until = 0.0
        self._timestamps = self._sack = self.ecn = False

    # --- what comes from the device

    def on_packet(self, now: float, flags: int, seq: int, port: int, options: bytes, data: bytes, tos: int) -> None:
        self._port = port
        if flags & RST:
            self.reset = True
        elif flags & SYN:
            self._on_syn(now, flags, seq, options)
        elif data or flags & FIN:
            self._on_data(now, flags, seq, options, data, tos)
        elif newer(seq, self._irs + 1 + self.received & U32) < 0:
            self.probes_s.append(now)
            self.update(now)

    def update(self, now: float) -> None:
        """An ACK of what has come, with the window as it is now (RFC 9293, 3.8.6.1 and 3.10.7.4)."""
        self._ack(now, None)

    def _on_syn(self, now: float, flags: int, seq: int, options: bytes) -> None:
        offered = dict(_options(options))
        b = self.behaviour
        self._irs = seq
        self._timestamps = b.timestamps and 8 in offered
        self._sack = b.sack and 4 in offered
        self.ecn = b.ecn and flags & (ECE | CWR) == ECE | CWR
        reply = struct.pack(">BBH", 2, 4, MTU - 40)
        if self._sack:
            reply += b"\1\1\4\2"
        if self._timestamps:
            self._ts_recent = struct.unpack(">II", offered[8])[0]
            reply += struct.pack(">BBBBII", 1, 1, 8, 10, b.tsval(now, self._ts_recent) & U32, self._ts_recent)
        reply += struct.pack(">BBBB", 1, 3, 3, WINDOW_SHIFT)
        packet = self._packet(SYN | ACK | (ECE if self.ecn else 0), self._iss, seq + 1, min(b.window_bytes, 65535), reply)
        self.peer.at(now + b.rtt_s, lambda _: self.peer.write(packet))

    def _on_data(self, now: float, flags: int, seq: int, options: bytes, data: bytes, tos: int) -> None:
        b = self.behaviour
        offset = self.received + newer(seq, self._irs + 1 + self.received & U32)
        again = offset < self._highest
        self._highest = max(self._highest, offset + len(data))
        segment = Segment(now, offset, len(data), len(self.segments), again, flags, _tsval(options), tos)
        self.segments.append(segment)
        if b.lost(segment):
            self.drops += 1
            return
        arrival = now
        if b.rate_bps:
            start = max(now, self._busy_until)
            if (start - now) * b.rate_bps / 8 > b.buffer_bytes:
                self.drops += 1
                return
            arrival = self._busy_until = start + (len(data) + 52) * 8 / b.rate_bps
        arrival += b.rtt_s / 2 + b.held_s(segment)
        if arrival <= now:
            self._receive(now, segment, data)
        else:
            self.peer.at(arrival, lambda at: self._receive(at, segment, data))

    # --- the receiver

    def _receive(self, now: float, segment: Segment, data: bytes) -> None:
        b = self.behaviour
        if b.lost_later(segment):
            self.drops += 1
            return
        offset, end = segment.offset, segment.offset + segment.length
        if data and data != pattern(offset, len(data)):
            self.wrong = f"other data than was sent at {offset}, {len(data)} bytes"
        if segment.flags & CWR:
            self._latched = False
        if b.marked(segment):
            self._latched = True
        if segment.flags & FIN:
            self._fin_at = end
        if segment.tsval and offset <= self._last_ack and newer(segment.tsval, self._ts_recent) >= 0:
            self._ts_recent = segment.tsval  # RFC 7323, 4.3
        duplicate, hole = None, bool(self._recent)
        if end <= self.received or offset in self._stored and data:
            duplicate = (offset, end)
        elif offset <= self.received:
            self._take(data[self.received - offset :])
        else:
            self._keep(offset, end, data)
        if self._fin_at == self.received and not self.finished:
            self.finished = True
        self._unacked += 1
        if duplicate or hole or self._recent or self.finished or self._latched or self._unacked >= b.ack_every:
            self._ack(now, duplicate)
        elif self._unacked == 1:
            due = self._ack_due = now + DELAYED_ACK_S
            self.peer.at(due, lambda at: self._ack(at, None) if self._unacked and self._ack_due == due else None)

    def _take(self, data: bytes) -> None:
        self.received += len(data)
        while stored := self._stored.pop(self.received, None):
            self.received += len(stored)
        self._recent = [(a, z) for a, z in self._recent if z > self.received]

    def _keep(self, offset: int, end: int, data: bytes) -> None:
        if not self.behaviour.reneges:
            self._stored[offset] = data
        for a, z in list(self._recent):
            if a <= end and z >= offset:
                offset, end = min(a, offset), max(z, end)
                self._recent.remove((a, z))
        self._recent.insert(0, (offset, end))

    def _ack(self, now: float, duplicate: tuple[int, int] | None) -> None:
        b = self.behaviour
        self._unacked = 0
        self._last_ack = self.received
        options = b""
        if self._timestamps:
            options = struct.pack(">BBBBII", 1, 1, 8, 10, b.tsval(now, self._ts_recent) & U32, b.tsecr(self._ts_recent) & U32)
        blocks = ([duplicate] if duplicate else []) + self._recent
        if self._sack and blocks:
            edges = [self._irs + 1 + edge & U32 for block in blocks[:3] for edge in block]
            options += struct.pack(f">BBBB{len(edges)}I", 1, 1, 5, 2 + 4 * len(edges), *edges)
        if b.reneges:
            self._recent.clear()
        b.sacks = bool(blocks)
        flags = ACK | (ECE if self.ecn and b.ece(self._latched) else 0)
        packet = self._packet(
            flags, self._iss + 1, self._irs + 1 + self.received + self.finished, b.window_bytes >> WINDOW_SHIFT, options
        )
        due = self._ack_sent = max(self._ack_sent, now + b.rtt_s / 2 + b.ack_held_s(self.acks))
        self.acks += 1
        if due <= now:
            self._deliver(now, packet)
        else:
            self.peer.at(due, lambda at: self._deliver(at, packet))

    def _deliver(self, now: float, packet: bytes) -> None:
        self.peer.write(packet)
        if self.behaviour.samples and self.sock:
            try:
                self.samples.append(Sample(now, tcp_info(self.sock)))
            except OSError:  # closed by the test
                self.sock = None
        if self.finished:
            self.peer.write(self._packet(FIN | ACK, self._iss + 1, self._irs + 2 + self.received, 1000, b""))

    def _packet(self, flags: int, seq: int, ack: int, window: int, options: bytes) -> bytes:
        ports = (self.peer.port_of(self), self._port)
        length = 20 + len(options)
        head = struct.pack(">HHIIBBHHH", *ports, seq & U32, ack & U32, length // 4 << 4, flags, min(window, 65535), 0, 0)
        addresses = socket.inet_aton(RECEIVER) + socket.inet_aton(SENDER)
        tcp = head + options
        total = _checksum(addresses + struct.pack(">HH", 6, length) + tcp)
        tcp = tcp[:16] + struct.pack(">H", total) + tcp[18:]
        ip = struct.pack(">BBHHHBBH", 0x45, 0, 20 + length, 0, 0x4000, 64, 6, 0) + addresses
        return ip[:10] + struct.pack(">H", _checksum(ip)) + ip[12:] + tcp


def _checksum(data: bytes) -> int:
    total: int = sum(struct.unpack(f">{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def _options(data: bytes) -> list[tuple[int, bytes]]:
    found, at = [], 0
    while at < len(data) and data[at] != 0:
        if data[at] == 1:
            at += 1
            continue
        length = data[at + 1]
        found.append((data[at], data[at + 2 : at + length]))
        at += length
    return found


def _tsval(options: bytes) -> int:
    if options[:4] == b"\1\1\x08\x0a":
        return int(struct.unpack_from(">I", options, 4)[0])
    return int(next((struct.unpack(">II", data)[0] for kind, data in _options(options) if kind == 8), 0))


@dataclass
class Flow:
    """A connection from the kernel's socket to an End."""

    sock: socket.socket
    end: End
    sent: int = 0
    _stop: bool = False
    _thread: threading.Thread | None = None

    @property
    def received(self) -> int:
        return self.end.received

    def pump(self, total: int | None = None) -> None:
        """Sends `total` bytes more, or until stop(), in a thread; little waits in the socket."""
        goal = None if total is None else self.sent + total
        self.sock.setsockopt(socket.IPPROTO_TCP, TCP_NOTSENT_LOWAT, 1 << 14)

        def send() -> None:
            try:
                while not self._stop and (goal is None or self.sent < goal):
                    length = min(CHUNK, goal - self.sent if goal is not None else CHUNK)
                    if select.select([], [self.sock], [], 0.05)[1]:
                        self.sent += self.sock.send(pattern(self.sent, length), socket.MSG_DONTWAIT)
            except (OSError, ValueError) as error:
                if not self._stop:
                    self.end.wrong = f"sending: {error}"

        self._stop = False
        self._thread = threading.Thread(target=send, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stop = True
        if self._thread:
            self._thread.join(5)

    def deliver(self, seconds: float) -> None:
        """Everything that was sent, or will be by pump(total), arrives complete within the bound."""
        if self._thread:
            self._thread.join(seconds)
        eventually(lambda: self.received >= self.sent or self.end.wrong, seconds, f"{self.sent} bytes; {self.end.received}")
        assert not self.end.wrong, self.end.wrong

    def close(self) -> None:
        """Closes with RST, whatever is left."""
        self.stop()
        self.end.sock = None
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.sock.close()


class Peer:
    """The namespace, the device and the thread; its connections end with it."""

    def __init__(self) -> None:
        self.namespace = Namespace("peer")
        self._ends: dict[int, End] = {}
        self._ports: dict[int, int] = {}
        self._next_port = itertools.count(1000)
        self._flows: list[Flow] = []
        self._heap: list[tuple[float, int, Callable[[float], object]]] = []
        self._order = itertools.count()
        self._tun = -1
        self._ended = False
        self.error: BaseException | None = None

    def __enter__(self) -> Peer:
        ns = self.namespace.__enter__()
        try:
            self._be_prompt(True)
            with inside(ns.name):
                self._tun = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
                fcntl.ioctl(self._tun, TUNSETIFF, struct.pack("16sH22x", b"peer", IFF_TUN | IFF_NO_PI))
            ns.ip("addr", "add", f"{SENDER}/24", "dev", "peer")
            ns.ip("link", "set", "peer", "up", "mtu", MTU, "txqueuelen", 5000)
            ns.sysctl("net.ipv4.tcp_ecn=1")  # ask for it; the behaviour agrees or not
            self._thread = threading.Thread(target=self._loop, daemon=True)
            self._thread.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    @staticmethod
    def _be_prompt(prompt: bool) -> None:
        """Gives this thread and those that it starts precedence over all others of the machine: delays are measured here."""
        policy, priority = (os.SCHED_FIFO, 1) if prompt else (os.SCHED_OTHER, 0)
        with contextlib.suppress(PermissionError):  # in a container: right on a machine that is not busy
            os.sched_setscheduler(0, policy, os.sched_param(priority))

    def __exit__(self, *_: object) -> None:
        self._be_prompt(False)
        for flow in self._flows:
            if flow.sock.fileno() >= 0:
                flow.close()
        self._ended = True
        if self._tun >= 0:
            self._thread.join(2)
            os.close(self._tun)
        self.namespace.__exit__()
        if self.error:
            raise self.error

    def listen(self, behaviour: Behaviour) -> tuple[int, End]:
        """A port where the next connection meets this behaviour."""
        port = next(self._next_port)
        end = End(self, behaviour)
        self._ports[id(end)] = port
        self._ends[port] = end
        return port, end

    def connect(self, controller: str, behaviour: Behaviour | None = None, early: bool = True) -> Flow:
        """The controller is chosen before the connection is begun, or (not early) before it is there."""
        port, end = self.listen(behaviour or Behaviour())
        sock = self.namespace.socket()
        if early:
            choose(sock, controller)
            sock.settimeout(5)
            sock.connect((RECEIVER, port))
        else:
            sock.setblocking(False)
            assert sock.connect_ex((RECEIVER, port)) == errno.EINPROGRESS
            choose(sock, controller)
            assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1) == bytes([SYN_SENT]), "chosen too late"
            assert select.select([], [sock], [], 5)[1], "no connection within 5 s"
            sock.settimeout(5)
        end.sock = sock
        flow = Flow(sock, end)
        self._flows.append(flow)
        return flow

    # --- for the ends

    def port_of(self, end: End) -> int:
        return self._ports[id(end)]

    def at(self, when_s: float, what: Callable[[float], object]) -> None:
        heapq.heappush(self._heap, (when_s, next(self._order), what))

    def write(self, packet: bytes) -> None:
        os.write(self._tun, packet)

    def _loop(self) -> None:
        try:
            while not self._ended:
                wait = 0.1
                if self._heap:
                    wait = min(wait, max(0.0, self._heap[0][0] - time.monotonic()))
                if select.select([self._tun], [], [], wait)[0]:
                    self._read()
                now = time.monotonic()
                while self._heap and self._heap[0][0] <= now:
                    due, _, what = heapq.heappop(self._heap)
                    what(max(due, now))
        except BaseException as error:  # told by __exit__
            self.error = error

    def _read(self) -> None:
        for _ in range(64):
            try:
                packet = os.read(self._tun, 65536)
            except BlockingIOError:
                return
            if packet[0] != 0x45 or packet[9] != 6:
                continue
            source, port, seq, _, head, flags = struct.unpack_from(">HHIIBB", packet, 20)
            end = self._ends.get(port)
            if end:
                data_at = 20 + (head >> 4) * 4
                total = struct.unpack_from(">H", packet, 2)[0]
                options, data = packet[40:data_at], packet[data_at:total]
                end.on_packet(time.monotonic(), flags, seq, source, options, data, packet[1])


def bursts(flow: Flow, since: int, apart_s: float) -> list[list[Segment]]:
    """The data segments from a number on, a burst each time that the sender was silent for so long."""
    found: list[list[Segment]] = []
    for segment in flow.end.segments[since:]:
        if not found or segment.at_s - found[-1][-1].at_s > apart_s:
            found.append([])
        found[-1].append(segment)
    return found
