# SPDX-License-Identifier: GPL-2.0-only
"""For the tests of downloads in the background: connections of the loopback, and a path of the native lab with a server on it."""

from __future__ import annotations

import hashlib
import os
import random
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any

from tests.functional import kernel
from tests.functional.cgroups import MOUNT
from tests.functional.conftest import Cli
from tests.functional.rules.background import ENDS_S, PYTHON
from tests.lab.engine import native
from tests.lab.engine.experiment import Link

Bottleneck = native.Path
RATE_MBIT = 20.0
KEEPS = 0.85  # of the link, in FOREGROUND_S seconds after its slow start; without the option it keeps a half at the most
FOREGROUND_S = 2.5
SETTLES_S = 1.5
BYTES = 6_000_000
UNIQUE = f"ccbpf-test-{os.getpid()}"
LEAST = 20_000  # bytes that make a download; two segments of the loopback are less
TCP_WINDOW_CLAMP = 10  # include/uapi/linux/tcp.h
OPEN = 1 << 30  # the clamp of a window that was opened: RX_MOST of law/rx_delay.h

# Sends each connection what it asks for, "BYTES CONTROLLER\n": a known sequence.
SERVER = """
import hashlib, random, socket, threading
data = random.Random(1).randbytes(12_000_000)
def serve(c):
    size, name = c.recv(64).split()
    c.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, name)
    try:
        c.sendall(data[:int(size)])
    except OSError:
        pass
    c.close()
s = socket.create_server(("::", 7), family=socket.AF_INET6, dualstack_ipv6=True)
while True: threading.Thread(target=serve, args=(s.accept()[0],), daemon=True).start()
"""

# Reads it, and says: bytes, their hash, the longest wait of a recv() in s, Mbit/s after SETTLES_S.
READER = """
import hashlib, socket, sys, time
address, size, name, seconds, settles, buffer, pause = *sys.argv[1:4], *map(float, sys.argv[4:])
s = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET)
if buffer: s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, int(buffer))
s.connect((address, 7))
s.sendall(f"{size} {name}\\n".encode())
start = last = time.monotonic()
got = late = 0; wait = 0.0; digest = hashlib.sha256()
while time.monotonic() - start < seconds:
    data = s.recv(1 << 16)
    now = time.monotonic()
    if not data: break
    wait = max(wait, now - last)
    got += len(data); digest.update(data)
    if now - start > settles: late += len(data)
    if pause and got > int(size) / 2: time.sleep(pause); pause = 0
    last = time.monotonic()
print(got, digest.hexdigest(), wait, late * 8e-6 / max(last - start - settles, 1e-9))
"""

# Connects, says its port, receives until its input ends.
HOLD = """
import socket, sys
s = socket.create_connection((sys.argv[1], int(sys.argv[2])))
s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
left = int(sys.argv[3])
while left: left -= len(s.recv(left))
s.sendall(b"!")
print(s.getsockname()[1], flush=True)
sys.stdin.read()
"""


def digest(size: int) -> str:
    return hashlib.sha256(random.Random(1).randbytes(12_000_000)[:size]).hexdigest()


@contextmanager
def bottleneck() -> Iterator[native.Path]:
    with native.Path(Link(RATE_MBIT, 20, 2.5)) as path:
        path.start(path.sender, PYTHON, "-c", SERVER)
        kernel.eventually(lambda: ":7 " in path.command(path.sender, "ss", "-ltn"), ENDS_S, "the server")
        yield path


def reader(path: native.Path, address: str, size: int, name: str, *, seconds: float = 60, settles: float = 0, buffer: int = 0,
           pause: float = 0) -> list[str]:  # fmt: skip
    words = (address, size, name, seconds, settles, buffer, pause)
    return ["ip", "netns", "exec", path.receiver, sys.executable, "-c", READER, *map(str, words)]


def received(ccbpf: Cli) -> int:
    """Bytes received, by the record of the only download."""
    return sum(flow["bytes_acked"] for flow in records(ccbpf))


def records(ccbpf: Cli) -> list[dict[str, Any]]:
    if not (ccbpf.root / "flows").exists():
        return []
    return [flow for flow in ccbpf("-j", "flows").json["flows"] if flow["controller"] == "rx_le"]


@dataclass
class Ends:
    """A connection of this host, of this process: it receives at `near`."""

    near: socket.socket
    far: socket.socket

    def receive(self, size: int = LEAST) -> None:
        self.far.sendall(bytes(size))
        while size:
            size -= len(self.near.recv(size))
        self.near.sendall(b"!")
        assert self.far.recv(1) == b"!"

    @property
    def clamp(self) -> int:
        return self.near.getsockopt(socket.IPPROTO_TCP, TCP_WINDOW_CLAMP)

    @property
    def port(self) -> int:
        found: int = self.near.getsockname()[1]
        return found

    def record(self, cli: Cli) -> dict[str, Any] | None:
        """The record in `flows` of what `near` receives."""
        return next((flow for flow in records(cli) if flow["local_port"] == self.port), None)

    def origin(self, cli: Cli) -> tuple[str, int | None] | None:
        record = self.record(cli)
        return (record["origin"]["by"], record["origin"]["id"]) if record else None


@dataclass
class Server:
    address: str
    listener: socket.socket

    @property
    def port(self) -> int:
        found: int = self.listener.getsockname()[1]
        return found

    @contextmanager
    def connection(self, receives: int = LEAST) -> Iterator[Ends]:
        with socket.create_connection((self.address, self.port)) as near, self.listener.accept()[0] as far:
            ends = Ends(near, far)
            for end in (near, far):
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            ends.receive(receives)
            yield ends


@contextmanager
def serving(address: str) -> Iterator[Server]:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.create_server((address, 0), family=family) as listener:
        yield Server(address, listener)


def rules(cli: Cli) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = cli("-j", "assign", "list").json["rules"]
    return found


def counts(cli: Cli, rule: int = 1) -> dict[str, int]:
    return next(found["counts"] for found in rules(cli) if found["id"] == rule)


def untouched(server: Server) -> int:
    """The window clamp of a connection that no program of ours has touched, after a download."""
    with server.connection() as ends:
        return ends.clamp


@contextmanager
def held(server: Server, *prefix: str, env: dict[str, str] | None = None) -> Iterator[int]:
    """A process that has received, and holds its connection: the port."""
    words = [*prefix, PYTHON, "-c", HOLD, server.address, str(server.port), str(LEAST)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env) as process:
        assert process.stdin and process.stdout
        try:
            with server.listener.accept()[0] as far:
                far.sendall(bytes(LEAST))
                yield int(process.stdout.readline())
        finally:
            process.stdin.close()
            process.wait(ENDS_S)


@contextmanager
def cgroup() -> Iterator[tuple[str, tuple[str, ...]]]:
    """A cgroup of the test: its path, and a prefix for commands in it."""
    path = MOUNT / UNIQUE
    path.mkdir()
    try:
        yield f"/{UNIQUE}", ("sh", "-c", f'echo $$ > {path}/cgroup.procs; exec "$@"', "sh")
    finally:
        path.rmdir()


def sending(ends: Ends) -> AbstractContextManager[None]:
    """Sends small amounts of data all the time."""
    return kernel.repeated(lambda: ends.receive(2000), 0.01)


def yields(cli: Cli, path: native.Path) -> None:
    """The only download, which is under way, leaves the link to a foreground flow of cubic."""
    kernel.eventually(lambda: received(cli) > 1_500_000, ENDS_S, "the download")
    before = received(cli)
    foreground = reader(path, "10.0.1.2", 12_000_000, "cubic", seconds=SETTLES_S + FOREGROUND_S, settles=SETTLES_S)
    got, _, _, mbit = kernel.run(*foreground).stdout.split()
    beside = received(cli) - before
    assert float(mbit) >= KEEPS * RATE_MBIT * 1448 / 1514, (mbit, beside)
    assert int(got) > 2 * beside


def has_all(out: str) -> bool:
    """What a reader of BYTES has printed: every byte came."""
    size, found, _, _ = out.split()
    return (int(size), found) == (BYTES, digest(BYTES))
