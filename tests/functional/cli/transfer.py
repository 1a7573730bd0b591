# SPDX-License-Identifier: GPL-2.0-only
"""Transfers that run while a test gives them another controller, and processes that hold a connection."""

from __future__ import annotations

import hashlib
import random
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from tests.functional import kernel
from tests.functional.conftest import Cli
from tests.functional.kernel import Namespace, chosen

CHUNK = 1 << 14
PAUSE_S = 0.002  # between two chunks: a transfer that lasts as long as its test
HELD_S = 60.0  # a child that holds a connection ends by then
Pair = tuple[Namespace, Namespace]


class Transfer:
    """Random bytes from one namespace to another until finish(), which compares what was sent with what arrived."""

    def __init__(self, here: Namespace, there: Namespace, address: str, controller: str = "cubic") -> None:
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        with there.socket(family) as server:
            server.bind((address, 0))
            server.listen()
            self.port: int = server.getsockname()[1]
            self.sender = here.socket(family)
            kernel.choose(self.sender, controller)
            self.sender.connect((address, self.port))
            self.receiver, _ = server.accept()
        kernel.choose(self.receiver, controller)
        self.sent, self.received = hashlib.sha256(), hashlib.sha256()
        self.bytes = 0
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=run, daemon=True) for run in (self._send, self._receive)]
        for thread in self._threads:
            thread.start()

    def _send(self) -> None:
        draw = random.Random(self.port)
        with suppress(OSError):  # the test has closed it
            while not self._stop.is_set():
                data = draw.randbytes(CHUNK)
                self.sender.sendall(data)
                self.sent.update(data)
                time.sleep(PAUSE_S)
            self.sender.shutdown(socket.SHUT_WR)

    def _receive(self) -> None:
        with suppress(OSError):
            while data := self.receiver.recv(1 << 16):
                self.received.update(data)
                self.bytes += len(data)

    def controllers(self) -> set[str]:
        return {chosen(self.sender), chosen(self.receiver)}

    def goes_on(self) -> None:
        before = self.bytes
        kernel.eventually(lambda: self.bytes > before + 4 * CHUNK, 5, "more data arrives")

    def finish(self) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(5)
        assert self.bytes
        assert self.sent.digest() == self.received.digest()

    def close(self) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(5)
        for sock in (self.sender, self.receiver):
            sock.close()

    def __enter__(self) -> Transfer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


ADDRESSES = {"IPv4": "10.77.0.2", "IPv6": "fd77::2", "v4-mapped": "::ffff:10.77.0.2"}


# --- the conditions ---


def found(cli: Cli, *conditions: object) -> set[tuple[int, int]]:
    """(local port, remote port) of what would be moved."""
    result = cli.run("-j", "renice", "tcp_lp", "-n", *conditions)
    assert result.code in (0, 5), result
    return {(t["local_port"], t["remote_port"]) for t in result.json["transfers"]} if result.code == 0 else set()


def ends(transfer: Transfer) -> tuple[tuple[int, int], tuple[int, int]]:
    """The ports as the sender has them, and as the receiver has them."""
    port = transfer.sender.getsockname()[1]
    return (port, transfer.port), (transfer.port, port)


# --- processes and cgroups ---

HOLD = """
import os, socket, sys, time
host, port, cgroup, seconds = sys.argv[1], int(sys.argv[2]), sys.argv[3], float(sys.argv[4])
if cgroup:
    open(f"{cgroup}/cgroup.procs", "w").write(str(os.getpid()))
sock = socket.create_connection((host, port))
print(sock.getsockname()[1], flush=True)
sys.stdin.read()
"""


@contextmanager
def holding(server: socket.socket, cgroup: object = "") -> Iterator[tuple[subprocess.Popen[str], int, socket.socket]]:
    """A process that holds a connection to the server; its port, and our end."""
    host, port = server.getsockname()[:2]
    words = [sys.executable, "-c", HOLD, host, str(port), str(cgroup), str(HELD_S)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin
        assert process.stdout
        connection, _ = server.accept()
        try:
            yield process, int(process.stdout.readline()), connection
        finally:
            connection.close()
            process.stdin.close()
            process.wait(HELD_S)
