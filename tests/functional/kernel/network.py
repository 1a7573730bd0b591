# SPDX-License-Identifier: GPL-2.0-only
"""Network namespaces, sockets in them, TCP_INFO, and what the kernel has logged."""

from __future__ import annotations

import ctypes
import itertools
import os
import re
import socket
import struct
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from .command import run
from .maps import libc

NAME = "ccbpf-flow"

CLONE_NEWNET = 0x40000000
_counter = itertools.count()


def own_ports() -> tuple[int, int]:
    """The first and the last port that a namespace of this process gives out by itself. No other worker's have them, nor have
    the host and the lab, which begin at 32768: `renice --port`, and rules without `--netns`, reach sockets of all namespaces."""
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    each = (32768 - 10000) // int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    return 10000 + worker * each, 10000 + (worker + 1) * each - 1


@contextmanager
def inside(namespace: str) -> Iterator[None]:
    """Moves this thread into the namespace: what it opens there stays there."""
    with open("/proc/thread-self/ns/net") as home, open(f"/run/netns/{namespace}") as there:
        assert libc.setns(there.fileno(), CLONE_NEWNET) == 0, os.strerror(ctypes.get_errno())
        try:
            yield
        finally:
            assert libc.setns(home.fileno(), CLONE_NEWNET) == 0, os.strerror(ctypes.get_errno())


class Namespace:
    """A network namespace of a unique name."""

    def __init__(self, role: str) -> None:
        self.name = f"{NAME}.{os.getpid()}.{next(_counter)}.{role}"

    def __enter__(self) -> Namespace:
        run("ip", "netns", "add", self.name)
        self.ip("link", "set", "lo", "up")
        first, last = own_ports()
        self.sysctl(
            "net.ipv4.tcp_no_metrics_save=1",  # a flow learns nothing from the one before it
            f"net.ipv4.ip_local_port_range={first} {last}",
        )
        return self

    def __exit__(self, *_: object) -> None:
        run("ip", "netns", "del", self.name)

    @property
    def inode(self) -> int:
        return os.stat(f"/run/netns/{self.name}").st_ino

    def ip(self, *arguments: object) -> str:
        return run("ip", "-n", self.name, *arguments).stdout

    def run(self, *arguments: object, check: bool = True) -> subprocess.CompletedProcess[str]:
        return run("ip", "netns", "exec", self.name, *arguments, check=check)

    def sysctl(self, *settings: str) -> None:
        self.run("sysctl", "-qw", *settings)

    def socket(self, family: int = socket.AF_INET) -> socket.socket:
        with inside(self.name):
            return socket.socket(family, socket.SOCK_STREAM)


@contextmanager
def joined() -> Iterator[tuple[Namespace, Namespace]]:
    """Two namespaces, joined: 10.77.0.1, fd77::1 in the first, 10.77.0.2, fd77::2 in the second."""
    with Namespace("a") as a, Namespace("b") as b:
        a.ip("link", "add", "veth0", "type", "veth", "peer", "name", "veth0", "netns", b.name)
        for namespace in (a, b):
            namespace.sysctl("net.ipv6.conf.veth0.accept_dad=0")
            namespace.ip("link", "set", "veth0", "up")
        for namespace, host in ((a, 1), (b, 2)):
            namespace.ip("address", "add", f"10.77.0.{host}/24", "dev", "veth0")
            namespace.ip("address", "add", f"fd77::{host}/64", "dev", "veth0", "nodad")
        yield a, b


class Child:
    """A process in a namespace, with all its output so far; it dies with us."""

    def __init__(self, arguments: list[str]) -> None:
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 -- closed with the process
        self._process = subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", *arguments], stdin=subprocess.DEVNULL, stdout=self._log, stderr=self._log
        )

    def output(self) -> str:
        return os.pread(self._log.fileno(), 1 << 20, 0).decode(errors="replace")

    def wait(self, seconds: float) -> int:
        try:
            return self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            raise

    def end(self, seconds: float = 10.0) -> int:
        self._process.terminate()
        return self.wait(seconds)


def start(namespace: Namespace, *arguments: object) -> Child:
    return Child(["ip", "netns", "exec", namespace.name, *(str(a) for a in arguments)])


def choose(sock: socket.socket, controller: str) -> None:
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, controller.encode())


def chosen(sock: socket.socket) -> str:
    return sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16).partition(b"\0")[0].decode()


def abort(sock: socket.socket) -> None:
    """Closes with RST."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    sock.close()


@dataclass(frozen=True)
class TcpInfo:
    ca_state: int
    unacked: int
    rtt_us: int
    ssthresh: int
    cwnd: int
    retrans: int
    pacing_rate: int
    delivery_rate: int  # bytes in a second


def tcp_info(sock: socket.socket) -> TcpInfo:
    data = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 192)
    (unacked,) = struct.unpack_from("=I", data, 24)
    rtt_us, _, ssthresh, cwnd = struct.unpack_from("=IIII", data, 68)
    (retrans,) = struct.unpack_from("=I", data, 100)
    (pacing_rate,) = struct.unpack_from("=Q", data, 104)
    (delivery_rate,) = struct.unpack_from("=Q", data, 160)
    return TcpInfo(data[1], unacked, rtt_us, ssthresh, cwnd, retrans, pacing_rate, delivery_rate)


def kernel_log() -> list[str]:
    return run("dmesg").stdout.splitlines()


@contextmanager
def no_kernel_warning() -> Iterator[None]:
    """Fails if the kernel logs a warning within the block."""
    before = len(kernel_log())
    yield
    bad = [line for line in kernel_log()[before:] if re.search(r"WARNING|BUG|Oops|RIP:|Call Trace|divide error", line)]
    assert not bad, bad


class Sink:
    """A server in a namespace that reads all data, each connection in a thread; has `received` and a hash of the bytes."""

    def __init__(self, namespace: Namespace, address: str, port: int = 0, on_data: Callable[[bytes], None] | None = None):
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        self.server = namespace.socket(family)
        self.server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.server.bind((address, port))
        self.server.listen(1024)
        self.address = (address, self.server.getsockname()[1])
        self.received = 0
        self._on_data = on_data
        self._threads: list[threading.Thread] = []
        self._connections: list[socket.socket] = []
        self._accepter = threading.Thread(target=self._accept, daemon=True)
        self._accepter.start()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self.server.accept()
            except OSError:
                return
            self._connections.append(connection)
            thread = threading.Thread(target=self._read, args=(connection,), daemon=True)
            self._threads.append(thread)
            thread.start()

    def _read(self, connection: socket.socket) -> None:
        try:
            while data := connection.recv(1 << 16):
                self.received += len(data)
                if self._on_data:
                    self._on_data(data)
        except OSError:
            pass
        connection.close()

    def abort(self) -> None:
        """Resets all connections."""
        for connection in self._connections:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            connection.shutdown(socket.SHUT_RD)  # wakes the reader, which closes

    def close(self) -> None:
        self.server.shutdown(socket.SHUT_RDWR)
        self.server.close()
        self._accepter.join(5)
        for connection in self._connections:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(5)

    def __enter__(self) -> Sink:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
