# SPDX-License-Identifier: GPL-2.0-only
"""For the tests of downloads in the background: connections of the loopback, and a path of the native lab with a server on it."""

from __future__ import annotations

import hashlib
import json
import os
import random
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, dataclass
from typing import Any

from tests.cgroups import MOUNT
from tests.functional import kernel
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
SMALL_BUFFER = (socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)  # an option of a socket
OPEN = 1 << 30  # the clamp of a window that was opened: RX_MOST of law/rx_delay.h

# Sends each connection what it asks for, "BYTES CONTROLLER RATE PAUSE\n": a known sequence, at most RATE bytes in a second (0: as
# fast as it can), with a pause of so many seconds after a half.
SERVER = """
import random, socket, sys, threading, time
data = random.Random(1).randbytes(12_000_000)
def send(c, part, rate):
    step = rate // 10 or len(part)
    for at in range(0, len(part), step):
        c.sendall(part[at:at + step])
        if rate: time.sleep(.1)
def serve(c):
    size, name, rate, pause = c.recv(64).split()
    size = int(size)
    c.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, name)
    for option in (socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL): c.setsockopt(socket.IPPROTO_TCP, option, 1)
    c.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    try:
        send(c, data[:size // 2], int(rate))
        time.sleep(float(pause))
        send(c, data[size // 2:size], int(rate))
    except OSError:
        pass
    c.close()
def listen(port, protocol):
    s = socket.socket(socket.AF_INET6, socket.SOCK_STREAM, protocol)
    s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
    s.bind(("::", port)); s.listen(64)
    while True: threading.Thread(target=serve, args=(s.accept()[0],), daemon=True).start()
threading.Thread(target=listen, args=(8, socket.IPPROTO_MPTCP), daemon=True).start()
listen(7, 0)
"""

# Reads it as `Reading` says, and says what `Got` has.
READER = """
import array, fcntl, hashlib, json, select, socket, sys, termios, time
r = json.loads(sys.argv[1])
s = socket.socket(socket.AF_INET6 if ":" in r["address"] else socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_MPTCP * r["mptcp"])
for option in r["options"]: s.setsockopt(*option)
s.connect((r["address"], 7 + r["mptcp"]))
s.sendall("{size} {sender} {rate} {server_pauses}\\n".format(**r).encode())
polled = select.poll(); polled.register(s, select.POLLIN)
start = last = time.monotonic()
got = late = reads = 0; waits = [0.0, 0.0]; digest = hashlib.sha256()
def waited():
    global last, waits
    now = time.monotonic()
    waits = sorted([*waits, now - last])[1:]
    last = now
def poll():
    known, there = 0, array.array("i", [0])
    while time.monotonic() - start < r["seconds"]:
        if polled.poll(5): return True
        fcntl.ioctl(s, termios.FIONREAD, there)
        if there[0] > known: waited()
        known = there[0]
while time.monotonic() - start < r["seconds"]:
    if r["polls"] and not poll(): break
    data = s.recv(1 << 20 if r["polls"] else 1 << 16, socket.MSG_DONTWAIT * r["polls"])
    if not data: break
    waited()
    now = last
    got += len(data); reads += 1; digest.update(data)
    if now - start > r["settles"]: late += len(data)
    if r["pauses"] and got > r["size"] / 2: time.sleep(r["pauses"]); r["pauses"] = 0
    if r["reads_rate"]: time.sleep(max(start + got / r["reads_rate"] - now, 0))
    last = time.monotonic()
print(json.dumps([got, digest.hexdigest(), waits[::-1], reads, now - start, late * 8e-6 / max(last - start - r["settles"], 1e-9)]))
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


@dataclass(frozen=True)
class Reading:
    """How a reader reads so many bytes, which a sender with this controller sends."""

    size: int
    sender: str = "cubic"
    address: str = "10.0.1.2"
    seconds: float = 60  # until it ends, at the latest
    settles: float = 0  # s, which its rate leaves out
    options: tuple[tuple[int, int, int], ...] = ()  # of its socket: level, name, value
    mptcp: bool = False
    polls: bool = False  # what is there, when poll() says so; its waits are then those of the socket, by FIONREAD
    pauses: float = 0  # s, after a half
    reads_rate: int = 0  # bytes in a second; 0: as fast as it can
    rate: int = 0  # bytes in a second that the server sends; 0: as fast as it can
    server_pauses: float = 0  # s, after a half

    def at(self, path: native.Path) -> list[str]:
        """The words of the reader at the path's receiver."""
        return self.within(path.receiver)

    def within(self, namespace: str) -> list[str]:
        return ["ip", "netns", "exec", namespace, sys.executable, "-c", READER, json.dumps(asdict(self))]


@dataclass(frozen=True)
class Got:
    """What a reader has printed."""

    size: int
    digest: str
    waits: tuple[float, float]  # s: its longest waits in which no data came, without its own pauses
    reads: int
    seconds: float  # until the last byte
    mbit: float

    @staticmethod
    def of(out: str) -> Got:
        return Got(*json.loads(out))

    def is_all(self, size: int) -> bool:
        """Every byte came, and nothing else."""
        return (self.size, self.digest) == (size, digest(size))


def digest(size: int) -> str:
    return hashlib.sha256(random.Random(1).randbytes(12_000_000)[:size]).hexdigest()


@contextmanager
def bottleneck(rtt_ms: float = 20, faults: native.Faults | None = None) -> Iterator[native.Path]:
    with native.Path(Link(RATE_MBIT, rtt_ms, 2.5), faults) as path:
        path.start(path.sender, PYTHON, "-c", SERVER)
        kernel.eventually(lambda: ":7 " in path.command(path.sender, "ss", "-ltn"), ENDS_S, "the server")
        yield path


def counted(path: native.Path, namespace: str, name: str) -> int:
    """A counter of the kernel for this network namespace: TcpExtTCPWinProbe."""
    words = path.command(namespace, "nstat", "-asz", name).split()
    return int(words[words.index(name) + 1])


@contextmanager
def setting(path: native.Path, namespace: str, name: str, value: int) -> Iterator[None]:
    """A sysctl of this network namespace, in the block."""
    before = path.command(namespace, "sysctl", "-n", name).strip()
    path.command(namespace, "sysctl", "-qw", f"{name}={value}")
    try:
        yield
    finally:
        path.command(namespace, "sysctl", "-qw", f"{name}={before}")


def received(ccbpf: Cli, sender: str = "") -> int:
    """Bytes received, by the record of the only download, or of the only one from this address."""
    return sum(flow["bytes_acked"] for flow in records(ccbpf) if sender in ("", flow["remote_addr"]))


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

    @property
    def selected(self) -> tuple[object, ...]:
        """Conditions of `renice` that are true of both ends. The port alone may be that of somebody else, in any network namespace."""
        return ("--port", self.port, "--pid", os.getpid())

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
        listener.settimeout(ENDS_S)  # who connects may have been killed before
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


def yields(cli: Cli, path: native.Path, sender: str = "") -> None:
    """The only download, or the only one from this address, is under way, and leaves the link to a foreground flow of cubic."""
    kernel.eventually(lambda: received(cli, sender) > 1_500_000, ENDS_S, "the download")
    before = received(cli, sender)
    foreground = Reading(12_000_000, seconds=SETTLES_S + FOREGROUND_S, settles=SETTLES_S)
    got = Got.of(kernel.run(*foreground.at(path)).stdout)
    beside = received(cli, sender) - before
    assert got.mbit >= KEEPS * RATE_MBIT * 1448 / 1514, (got, beside)
    assert got.size > 2 * beside


def has_all(out: str) -> bool:
    """What a reader of BYTES has printed: every byte came."""
    return Got.of(out).is_all(BYTES)
