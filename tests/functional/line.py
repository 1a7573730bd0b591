# SPDX-License-Identifier: GPL-2.0-only
"""A link of two namespaces for the tests of nf_red: frames made by hand, a queue that can be stopped, and a capture.

with Line(ccbpf) as line:
    line.tbf()                    a queue that lets nothing out
    line.aqm("attach", "v0")      ccbpf aqm … at its device
    line.send([Frame(dscp=1)])    as they are, by AF_PACKET
    line.release()                lets the queue out
    line.received(1)              what came, in order
"""

from __future__ import annotations

import json
import select
import socket
import struct
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from tests.functional import kernel

if TYPE_CHECKING:  # which makes fixtures of what is here
    from tests.functional.conftest import Cli, Result

DEV = "v0"
NEIGHBOUR = kernel.ROOT / "build/tests/neighbour.bpf.o"
STOPPED, OPEN = ("8kbit", "1514"), ("1gbit", "1mb")  # of tbf: rate and burst
ETH_P_ALL = 3
SO_SNDBUFFORCE = 32
MAC = bytes.fromhex("020000000001"), bytes.fromhex("020000000002")
NOT_ECT, ECT1, ECT0, CE = range(4)


def checksum(data: bytes) -> int:
    total: int = sum(struct.unpack(f">{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


@dataclass(frozen=True)
class Frame:
    """A packet on Ethernet, UDP but for what its IP header says; `tags` are VLAN tags in the packet, outermost first.
    `ident` makes it unique."""

    dscp: int = 0
    ecn: int = ECT0
    version: int = 4
    size: int = 1000  # of the frame, without tags
    ident: int = 0
    protocol: int = socket.IPPROTO_UDP
    tags: tuple[int, ...] = ()

    def ip(self) -> bytes:
        tos = self.dscp << 2 | self.ecn
        data = struct.pack(">I", self.ident).ljust(self.size - 14 - (28 if self.version == 4 else 48), b"\xa5")
        udp = struct.pack(">HHHH", 1000, 2000, 8 + len(data), 0) + data
        if self.version == 6:
            addresses = socket.inet_pton(socket.AF_INET6, "fd00::1") + socket.inet_pton(socket.AF_INET6, "fd00::2")
            return struct.pack(">IHBB", 6 << 28 | tos << 20 | 0xABCDE, len(udp), self.protocol, 64) + addresses + udp
        head = struct.pack(">BBHHHBBH", 0x45, tos, 20 + len(udp), self.ident & 0xFFFF, 0x4000, 64, self.protocol, 0)
        head += socket.inet_aton("10.0.0.1") + socket.inet_aton("10.0.0.2")
        return head[:10] + struct.pack(">H", checksum(head)) + head[12:] + udp

    @property
    def with_ce(self) -> bytes:
        return replace(self, ecn=CE).ip()

    def bytes(self) -> bytes:
        types = [0x88A8, 0x8100][-len(self.tags) :] if self.tags else []
        head = b"".join(struct.pack(">HH", t, tag) for t, tag in zip(types, self.tags, strict=True))
        return MAC[1] + MAC[0] + head + struct.pack(">H", 0x0800 if self.version == 4 else 0x86DD) + self.ip()


def ip_of(frame: bytes) -> bytes:
    """What is behind the tags that are still in it."""
    at = 12
    while struct.unpack_from(">H", frame, at)[0] in (0x8100, 0x88A8):
        at += 4
    return frame[at + 2 :]


def ident_of(ip: bytes) -> int:
    return int(struct.unpack_from(">I", ip, 28 if ip[0] >> 4 == 4 else 48)[0])


class Line:
    """v0 in the first namespace is joined to v0 in the second; nobody but the test sends there."""

    def __init__(self, ccbpf: Cli, queues: int = 1) -> None:
        self.ccbpf = ccbpf
        self.queues = queues
        self.near, self.far = kernel.Namespace("near"), kernel.Namespace("far")

    def __enter__(self) -> Line:
        self.near.__enter__()
        self.far.__enter__()
        for namespace in (self.near, self.far):
            namespace.sysctl("net.ipv6.conf.all.disable_ipv6=1", "net.ipv6.conf.default.disable_ipv6=1")
        self.near.ip("link", "add", DEV, "numtxqueues", self.queues, "type", "veth", "peer", "name", DEV, "netns",
                     self.far.name)  # fmt: skip
        for namespace, mac in ((self.near, MAC[0]), (self.far, MAC[1])):
            namespace.ip("link", "set", DEV, "address", mac.hex(":"), "arp", "off", "up")
        with kernel.inside(self.near.name):
            self.out = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
            self.out.setsockopt(socket.SOL_SOCKET, SO_SNDBUFFORCE, 1 << 26)  # what waits is the sender's: never block
            self.out.bind((DEV, 0))
        with kernel.inside(self.far.name):
            self.capture = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
            self.capture.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 23)
            self.capture.bind((DEV, ETH_P_ALL))
        return self

    def __exit__(self, *_: object) -> None:
        self.out.close()
        self.capture.close()
        self.near.__exit__()
        self.far.__exit__()

    def tc(self, *arguments: object, check: bool = True) -> str:
        return self.near.run("tc", *arguments, check=check).stdout

    def tbf(self, limit: int = 100_000, how: tuple[str, str] = STOPPED, verb: str = "replace") -> None:
        self.tc("qdisc", verb, "dev", DEV, "root", "handle", "1:", "tbf", "rate", how[0], "burst", how[1], "limit", limit)

    def htb(self, rate: str = STOPPED[0], verb: str = "replace", minors: Iterable[str] = ("10", "20")) -> None:
        """Classes with the pfifo that they have by default; the first is where packets go by default."""
        minors = [*minors]
        if verb == "replace":
            self.tc("qdisc", "del", "dev", DEV, "root", check=False)
            self.tc("qdisc", "add", "dev", DEV, "root", "handle", "1:", "htb", "default", minors[0])
        for minor in minors:
            self.tc("class", verb, "dev", DEV, "parent", "1:", "classid", f"1:{minor}", "htb", "rate", rate, "burst", STOPPED[1],
                    "cburst", STOPPED[1], "quantum", STOPPED[1])  # fmt: skip

    def release(self, limit: int = 100_000) -> None:
        self.tbf(limit, OPEN, "change")

    def aqm(self, *arguments: object, code: int = 0, json: bool = False, **options: Any) -> Result:
        prefix = ("ip", "netns", "exec", self.near.name, *options.pop("prefix", ()))
        words = ["-j", "aqm", *arguments] if json else ["aqm", *arguments]
        return self.ccbpf(*words, code=code, prefix=prefix, **options)

    def without_tcx(self) -> Line:
        """From now on behaves as kernels before 6.6: a filter at clsact instead of a TCX link."""
        self.ccbpf = replace(self.ccbpf, environment={"CCBPF_NO_TCX": "1"})
        return self

    def attach(self, *options: object) -> dict[str, Any]:
        queue: dict[str, Any]
        (queue,) = self.aqm("attach", DEV, *options, json=True).json["queues"]
        return queue

    def shown(self) -> dict[str, Any]:
        queue: dict[str, Any]
        (queue,) = self.aqm("show", DEV, json=True).json["queues"]
        return queue

    def classes(self) -> dict[str, Any]:
        found: dict[str, Any] = self.shown()["classes"]
        return found

    def send(self, frames: list[Frame]) -> None:
        for frame in frames:
            with suppress(OSError):  # ENOBUFS: dropped at once
                self.out.send(frame.bytes())

    def fill(self, packets: int, **what: Any) -> None:
        """That many packets wait, and one more went out at once (the token bucket was full)."""
        self.send([Frame(ident=1_000_000 + i, **what) for i in range(packets + 1)])

    def received(self, count: int, seconds: float = 5.0) -> list[bytes]:
        """The IP packets that came, in order: `count`, and none after them."""
        found: list[bytes] = []
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if not select.select([self.capture], [], [], 0.05)[0]:
                if len(found) >= count:
                    break
                continue
            data, address = self.capture.recvfrom(65536)
            if address[2] != socket.PACKET_OUTGOING:
                found.append(ip_of(data))
        assert len(found) == count, f"{len(found)} of {count} packets came"
        return found

    def statistics(self, handle: str = "1:") -> dict[str, int]:
        """What tc says of a qdisc: bytes, packets, drops, backlog, qlen."""
        rows = json.loads(self.tc("-s", "-j", "qdisc", "show", "dev", DEV))
        return next(row for row in rows if row["handle"] == handle)

    def tcx(self) -> list[dict[str, Any]]:
        """The programs at the device, as bpftool tells."""
        (shown,) = json.loads(self.near.run("bpftool", "-j", "net", "show", "dev", DEV).stdout)
        return [row for row in shown["tc"] if row["kind"].startswith("tcx") or row["kind"].startswith("clsact")]

    @contextmanager
    def neighbour(self, program: str) -> Iterator[None]:
        """Somebody else's program at clsact, before a filter of ours (and behind a TCX link of ours)."""
        self.tc("qdisc", "replace", "dev", DEV, "clsact")
        self.tc("filter", "add", "dev", DEV, "egress", "prio", 1, "bpf", "da", "obj", NEIGHBOUR, "sec", f"tc/{program}")
        yield
        self.tc("filter", "del", "dev", DEV, "egress", "prio", 1)
