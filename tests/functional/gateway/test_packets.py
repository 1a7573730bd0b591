# SPDX-License-Identifier: GPL-2.0-only
"""`ccbpf gateway` and packets made by hand: the one field that it writes, and all that it passes on untouched."""

from __future__ import annotations

import json
import random
import socket
import struct
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import pytest

from tests.functional import kernel
from tests.functional.line import DEV, MAC, Line, checksum
from tests.functional.rules.downloads import received, records

FIN, SYN, RST, ACK = 1, 2, 4, 16
HOST, REMOTE = {4: "10.0.0.1", 6: "fd00::1"}, {4: "10.0.0.2", 6: "fd00::2"}
PORTS = 40000, 443
SCALE = 7
SMALL, LARGE = 512, 60_000  # window fields: 64 KiB, and what the law does not want yet
HOP_BY_HOP = bytes((socket.IPPROTO_TCP, 0, 1, 4, 0, 0, 0, 0))


def stamps(tsval: int, tsecr: int) -> bytes:
    return struct.pack(">BBBBII", 1, 1, 8, 10, tsval, tsecr)


@dataclass(frozen=True)
class Segment:
    """From the host, or to it. What is not None is in the place of the right value."""

    flags: int = ACK
    seq: int = 1001
    ack: int = 2001
    window: int = LARGE
    options: bytes = stamps(5, 105)
    payload: bytes = b""
    version: int = 4
    to_host: bool = False
    ports: tuple[int, int] = PORTS
    doff: int | None = None
    length: int | None = None  # of IPv4's total, or IPv6's payload
    fragment: int = 0x4000
    ip_options: bytes = b""
    first: int | None = None  # byte of the IP header
    protocol: int = socket.IPPROTO_TCP
    cut: int = 0  # bytes at the end
    tag: bytes = b""

    def ends(self) -> bytes:
        family = socket.AF_INET if self.version == 4 else socket.AF_INET6
        ends = [socket.inet_pton(family, end[self.version]) for end in (HOST, REMOTE)]
        return b"".join(reversed(ends) if self.to_host else ends)

    def tcp(self) -> bytes:
        source, destination = reversed(self.ports) if self.to_host else self.ports
        doff = 5 + len(self.options) // 4 if self.doff is None else self.doff
        head = struct.pack(">HHIIBBHHH", source, destination, self.seq, self.ack, doff << 4, self.flags, self.window, 0, 0)
        whole = head + self.options + self.payload
        return whole[:16] + struct.pack(">H", tcp_checksum(self.ends(), whole)) + whole[18:]

    def ip(self) -> bytes:
        tcp = self.tcp()
        if self.version == 6:
            rest = self.ip_options + tcp
            length = len(rest) if self.length is None else self.length
            protocol = 0 if self.ip_options else self.protocol
            whole = struct.pack(">BBHHBB", self.first or 0x60, 0, 0, length, protocol, 64) + self.ends() + rest
        else:
            first = self.first or 0x45 + len(self.ip_options) // 4
            length = 20 + len(self.ip_options) + len(tcp) if self.length is None else self.length
            head = struct.pack(">BBHHHBBH", first, 0, length, 7, self.fragment, 64, self.protocol, 0) + self.ends()
            whole = head[:10] + struct.pack(">H", checksum(head + self.ip_options)) + head[12:] + self.ip_options + tcp
        return whole[: len(whole) - self.cut]

    def frame(self) -> bytes:
        type_ = struct.pack(">H", 0x0800 if self.version == 4 else 0x86DD)
        return (MAC[0] + MAC[1] if self.to_host else MAC[1] + MAC[0]) + self.tag + type_ + self.ip()


def tcp_checksum(ends: bytes, tcp: bytes) -> int:
    whole = ends + struct.pack(">II", len(tcp), socket.IPPROTO_TCP) + tcp
    return checksum(whole + b"\0" * (len(whole) % 2))


@dataclass
class Wire:
    """The host's side of the line with a gateway, and a connection on it that has become a download."""

    line: Line
    version: int
    next: int = 2001  # of the remote

    def counts(self) -> dict[str, int]:
        counts: dict[str, int] = self.line.ccbpf("-j", "gateway", "show").json["gateways"][0]["counts"]
        return counts

    def send(self, *segments: Segment) -> list[bytes]:
        """From the host; what arrives at the other end."""
        for segment in segments:
            self.line.out.send(segment.frame())
        return self.line.received(len(segments))

    def come(self, *segments: Segment) -> None:
        """From the remote."""
        for segment in segments:
            self.line.capture.send(segment.frame())

    def begin(self) -> None:
        self.next, before = 2001, self.counts()["downloads"]
        options = struct.pack(">BBBB", 1, 3, 3, SCALE)
        self.send(self.segment(flags=SYN, seq=1000, ack=0, options=options + stamps(1, 0)))
        self.come(self.segment(flags=SYN | ACK, seq=2000, ack=1001, options=options + stamps(100, 1), to_host=True))
        self.send(self.segment(window=SMALL))
        for _ in range(4):
            self.data()
            self.send(self.segment(ack=self.next, window=SMALL))
        assert self.counts()["downloads"] == before + 1

    def data(self) -> None:
        self.come(self.segment(seq=self.next, ack=1001, options=stamps(self.next, 5), payload=bytes(1000), to_host=True))
        self.next += 1000

    def segment(self, **what: object) -> Segment:
        return replace(Segment(version=self.version), **what)  # type: ignore[arg-type]

    def is_rewritten(self) -> bool:
        """A good ACK: only its window field and its checksum become others, and the checksum is right."""
        sent = self.segment(ack=self.next)
        (seen,) = self.send(sent)
        at = (20 if self.version == 4 else 40) + 14
        (window,) = struct.unpack_from(">H", seen, at)
        if seen == sent.ip():
            return False
        assert seen[:at] + seen[at + 4 :] == sent.ip()[:at] + sent.ip()[at + 4 :]
        assert tcp_checksum(sent.ends(), seen[at - 14 :]) == 0
        assert window <= SMALL + 1
        return True


@pytest.fixture(params=[(4, "TCX"), (6, "clsact")], ids=["IPv4 TCX", "IPv6 clsact"])
def wire(request: pytest.FixtureRequest, line: Line) -> Iterator[Wire]:
    version, hook = request.param
    if hook == "clsact":
        line = line.without_tcx()
    prefix = ("ip", "netns", "exec", line.near.name)
    line.ccbpf("gateway", "attach", DEV, prefix=prefix)
    wire = Wire(line, version)
    wire.begin()
    yield wire
    assert line.ccbpf("-j", "gateway", "show").json["gateways"][0]["held_by"] == ("program" if hook == "clsact" else "link")
    line.ccbpf("gateway", "detach", DEV, prefix=prefix)
    assert not line.tcx() and "clsact" not in line.tc("qdisc", "show", "dev", DEV)
    assert not line.ccbpf.root.exists()


def strange(wire: Wire) -> list[Segment]:
    """What would be rewritten if it were well formed, or what has no window for us."""
    good = wire.segment(ack=wire.next)
    changes: list[dict[str, object]] = [
        {"cut": 1}, {"cut": 20}, {"cut": len(good.tcp())}, {"length": 30}, {"length": 0}, {"length": 65535},
        {"doff": 0}, {"doff": 4}, {"doff": 15}, {"first": 0x55}, {"first": 0x4F if wire.version == 4 else 0x45},
        {"protocol": socket.IPPROTO_UDP}, {"ports": (40001, 443)}, {"window": 0}, {"flags": 0},
        {"options": bytes((8, 0, 1, 1)) + stamps(5, 5)}, {"options": bytes((1, 1, 1, 254))}, {"options": bytes((1, 1, 8, 10))},
        {"ip_options": bytes((1, 1, 1, 0)) if wire.version == 4 else HOP_BY_HOP},
        {"tag": bytes.fromhex("8100000a")}, {"tag": bytes.fromhex("88a8000a")},
    ]  # fmt: skip
    if wire.version == 4:
        changes += [{"fragment": 0x2000}, {"fragment": 0x0001}]
    return [replace(good, **change) for change in changes]  # type: ignore[arg-type]


def test_what_it_rewrites_and_what_passes_untouched(wire: Wire) -> None:
    assert wire.is_rewritten()
    before = wire.counts()["rewritten"]
    for segment in strange(wire):
        assert wire.send(segment) == [segment.ip()], segment
    wire.come(*(replace(segment, to_host=True, payload=bytes(100)) for segment in strange(wire)))
    assert wire.counts()["rewritten"] == before
    wire.data()
    assert wire.is_rewritten(), "none of it has changed what is known of the connection"


def test_random_bytes_pass(wire: Wire) -> None:
    dice = random.Random(1)
    good = wire.segment(ack=wire.next).frame()
    for _ in range(300):
        frame = bytearray(good)
        for _ in range(dice.randint(1, 8)):
            frame[dice.randrange(14, 34)] = dice.randrange(256)
        frame = frame[: dice.randint(34, len(frame))]
        wire.line.out.send(frame)
        wire.line.capture.send(MAC[0] + MAC[1] + bytes(frame[12:]))
    assert len(wire.line.received(300)) == 300
    assert wire.is_rewritten()


def test_the_end_of_a_connection_is_seen(wire: Wire) -> None:
    """A reset by either end, the ends of both, and a SYN of the host, which begins another one."""

    def known() -> int:
        found: int = wire.line.ccbpf("-j", "gateway", "show").json["gateways"][0]["connections"]
        return found

    def rewritten_until(*ends: Segment) -> None:
        for end in ends:
            assert wire.is_rewritten()
            if end.to_host:
                wire.come(end)
            else:
                assert wire.send(end)
        assert not wire.is_rewritten()

    for ends in (
        [wire.segment(flags=RST | ACK)],
        [wire.segment(flags=RST, seq=wire.next, to_host=True)],
        [wire.segment(flags=FIN | ACK, seq=9000, to_host=True), wire.segment(flags=FIN | ACK)],
    ):
        rewritten_until(*ends)
        assert known() == 0
        wire.begin()
    rewritten_until(wire.segment(flags=SYN, seq=5, ack=0))
    assert known() == 1


def test_what_a_host_would_not_accept_ends_nothing(wire: Wire) -> None:
    """Anybody can write a reset or a SYN with the two addresses: the host answers by an ACK (RFC 5961)."""
    options = struct.pack(">BBBB", 1, 3, 3, SCALE) + stamps(1, 0)
    for forged in (
        wire.segment(flags=RST, seq=wire.next - 5000, to_host=True),
        wire.segment(flags=RST, seq=wire.next - 1, to_host=True),
        wire.segment(flags=RST, seq=wire.next + 1, to_host=True),
        wire.segment(flags=RST, seq=wire.next + 0x40000000, to_host=True),
        wire.segment(flags=SYN, seq=77, ack=0, options=options, to_host=True),
        wire.segment(flags=SYN | ACK, seq=77, ack=1001, options=options, to_host=True),
    ):
        wire.come(forged)
        assert wire.is_rewritten(), forged


def test_a_syn_that_the_host_agrees_to_begins_another_connection(wire: Wire) -> None:
    options = struct.pack(">BBBB", 1, 3, 3, SCALE)
    before = wire.counts()["connections"]
    wire.come(wire.segment(flags=SYN, seq=2000, ack=0, options=options + stamps(1, 0), to_host=True))
    wire.send(wire.segment(flags=SYN | ACK, seq=1000, ack=2001, options=options + stamps(100, 1)))
    wire.next = 2001
    wire.send(wire.segment(ack=wire.next, window=SMALL))
    for _ in range(4):
        wire.data()
        wire.send(wire.segment(ack=wire.next, window=SMALL))
    wire.data()
    assert wire.is_rewritten() and wire.counts()["connections"] == before + 1


def bpftool(*words: object) -> Any:
    return json.loads(kernel.run("bpftool", "-j", *words).stdout)


def heard_at(wire: Wire, ns: int) -> None:
    """As if the last segment of the only connection were of then, and no sweep had been: both are in maps."""
    (directory,) = (wire.line.ccbpf.root / "gateway").glob("*_out")
    pinned = ("pinned", directory / "connections")
    (entry,) = bpftool("map", "dump", *pinned)
    value = bytes(int(byte, 16) for byte in entry["value"])
    heard = struct.pack("<Q", entry["formatted"]["value"]["of"]["heard_ns"])
    assert value.count(heard) == 1
    value = value.replace(heard, struct.pack("<Q", ns))
    kernel.run("bpftool", "map", "update", *pinned, "key", "hex", *(f"{int(byte, 16):02x}" for byte in entry["key"]),
               "value", "hex", *(f"{byte:02x}" for byte in value))  # fmt: skip
    id_ = bpftool("map", "show", *pinned)["id"]
    maps = next(program["map_ids"] for program in bpftool("prog", "show") if id_ in program.get("map_ids", []))
    (bss,) = [found for found in (bpftool("map", "show", "id", each) for each in maps) if found.get("name") == "gateway.bss"]
    kernel.run("bpftool", "map", "update", "id", bss["id"], "key", *"0000", "value", *"0" * bss["bytes_value"])


def test_a_silent_connection_is_forgotten_when_another_one_begins(wire: Wire) -> None:
    """With its record in `flows`: a host that vanishes sends no FIN."""
    another = wire.segment(flags=SYN, seq=5, ack=0, ports=(40001, 443))
    assert len(records(wire.line.ccbpf)) == 1
    heard_at(wire, 1)
    assert wire.send(another) == [another.ip()]
    assert not wire.is_rewritten() and not records(wire.line.ccbpf)
    assert wire.counts()["silent"] == 1


def test_a_connection_that_another_cpu_has_just_heard_of_is_not_silent(wire: Wire) -> None:
    """Its segment came after the sweep had looked at the clock."""
    heard_at(wire, time.monotonic_ns() + 10_000_000_000)
    assert wire.send(wire.segment(flags=SYN, seq=5, ack=0, ports=(40001, 443)))
    assert wire.is_rewritten() and wire.counts()["silent"] == 0


def test_an_ack_of_what_was_never_sent_changes_nothing(wire: Wire) -> None:
    """The sender drops it. Anybody in the host's network could write one, and end the holding so. Where data came that could
    not be read, it is no forgery: its window is lowered as any other."""
    forged = wire.segment(ack=wire.next + 0x30000000)
    (seen,) = wire.send(forged)
    at = (20 if wire.version == 4 else 40) + 14
    assert struct.unpack_from(">H", seen, at)[0] <= SMALL + 1 < forged.window
    assert wire.is_rewritten()
    wire.data()
    assert wire.is_rewritten() and received(wire.line.ccbpf) < 1_000_000
