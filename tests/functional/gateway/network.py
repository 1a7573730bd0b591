# SPDX-License-Identifier: GPL-2.0-only
"""For the tests of `ccbpf gateway`: a host behind the receiver of the path, which forwards what it receives.

server ──veth── bottleneck ──wire── router ──lan── host
10.0.1.2                   10.0.2.2        10.0.3.2
fd00:1::2                  fd00:2::2       fd00:3::2
"""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from tests.functional import kernel
from tests.functional.conftest import Cli, Result
from tests.functional.rules.downloads import bottleneck
from tests.lab.engine import native

DEV = "wire"
HOSTS = "10.0.3.0/24,fd00:3::/64"
HEAD = 128  # bytes of a frame that are kept
ETH_P_ALL = 3


@dataclass
class Network:
    path: native.Path
    host: str  # its network namespace
    ccbpf: Cli

    def gateway(self, *words: object, code: int = 0, **options: Any) -> Result:
        return self.ccbpf("gateway", *words, code=code, prefix=("ip", "netns", "exec", self.path.receiver), **options)

    def attach(self, *options: object) -> None:
        self.gateway("attach", DEV, *(options or ("--host", HOSTS)))

    def shown(self) -> dict[str, Any]:
        gateway: dict[str, Any]
        (gateway,) = self.ccbpf("-j", "gateway", "show").json["gateways"]
        return gateway

    def counts(self) -> dict[str, int]:
        counts: dict[str, int] = self.shown()["counts"]
        return counts

    def programs(self) -> str:
        """What is attached to the device, on both sides."""
        return self.path.command(self.path.receiver, "bpftool", "net", "show", "dev", DEV)


@contextmanager
def network(ccbpf: Cli) -> Iterator[Network]:
    with bottleneck() as path:
        host = f"{path.receiver}h"
        native.command("ip", "netns", "add", host)
        try:
            commands = {
                path.receiver: f"link add lan type veth peer name lan netns {host}\naddr add 10.0.3.1/24 dev lan\n"
                "addr add fd00:3::1/64 dev lan nodad\nlink set lan up",
                host: "addr add 10.0.3.2/24 dev lan\naddr add fd00:3::2/64 dev lan nodad\nlink set lan up\n"
                "route add default via 10.0.3.1\nroute add default via fd00:3::1",
                path.router: "route add 10.0.3.0/24 via 10.0.2.2\nroute add fd00:3::/64 via fd00:2::2",
            }
            for namespace, lines in commands.items():
                native.command("ip", "-n", namespace, "-batch", "-", stdin=f"{lines}\n")
            yield Network(path, host, ccbpf)
        finally:
            ccbpf("clean", "--all")
            native.command("ip", "netns", "del", host)


@dataclass(frozen=True)
class Ack:
    """A segment of the host, as it was captured: IPv4."""

    ident: int
    flags: int
    ack: int
    window: int  # the field

    @staticmethod
    def of(frame: bytes) -> Ack | None:
        if len(frame) < 54 or frame[12:14] != b"\x08\x00" or frame[23] != socket.IPPROTO_TCP:
            return None
        if frame[26:30] != socket.inet_aton("10.0.3.2"):
            return None
        ack, window = struct.unpack_from(">I2xH", frame, 42)
        return Ack(struct.unpack_from(">H", frame, 18)[0], frame[47], ack, window)


class Capture:
    """What the host's segments say, at a device; `at` its time of capture does not matter."""

    def __init__(self, namespace: str, device: str) -> None:
        with kernel.inside(namespace):
            self._socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
        self._socket.setsockopt(socket.SOL_SOCKET, 33, 1 << 26)  # SO_RCVBUFFORCE
        self._socket.bind((device, ETH_P_ALL))
        self._socket.settimeout(0.2)
        self._frames: list[bytes] = []
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._read)
        self._thread.start()

    def _read(self) -> None:
        while not self._ends.is_set():
            try:
                self._frames.append(self._socket.recv(HEAD))
            except TimeoutError:
                continue

    def end(self) -> list[Ack]:
        self._ends.set()
        self._thread.join()
        self._socket.close()
        return [ack for frame in self._frames if (ack := Ack.of(frame))]
