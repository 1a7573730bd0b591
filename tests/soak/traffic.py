# SPDX-License-Identifier: GPL-2.0-only
"""Traffic of a soak, under all controllers: short connections that end in every way, and many that stay open.

If the controller of a connection was just disabled, the connection uses the namespace's default. Everything runs in
two namespaces; a link of 200 Mbit/s with a small buffer between them gives delays, losses and, under nf_red, marks.
"""

from __future__ import annotations

import itertools
import random
import select
import socket
import threading
from contextlib import suppress

from tests.functional import kernel
from tests.functional.kernel import Namespace, abort, choose

WORKERS = 4
STAYING = 120  # connections that stay open from one check to the next
CONNECT_S = 10.0
PAUSE_S = 0.002  # between two connections of a worker: commands need the processor as well
SEND_BUFFER = 1 << 18  # bytes: so few that sending never waits for a controller that yields
ALL = [*kernel.KINDS, "reno", "cubic"]


class Drain:
    """A server that reads everything, in one thread."""

    def __init__(self, namespace: Namespace) -> None:
        self.listener = namespace.socket(socket.AF_INET6)
        self.listener.bind(("::", 0))
        self.listener.listen(1024)
        self.listener.setblocking(False)
        self.port = self.listener.getsockname()[1]
        self._ended = False
        self._open: dict[int, socket.socket] = {}
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        poll = select.epoll()
        poll.register(self.listener, select.EPOLLIN)
        while not self._ended:
            for fd, _ in poll.poll(0.2):
                if fd == self.listener.fileno():
                    self._accept(poll)
                else:
                    self._read(fd)

    def _accept(self, poll: select.epoll) -> None:
        with suppress(OSError):
            sock, _ = self.listener.accept()
            sock.setblocking(False)
            self._open[sock.fileno()] = sock
            poll.register(sock, select.EPOLLIN)

    def _read(self, fd: int) -> None:
        sock = self._open[fd]
        try:
            if sock.recv(1 << 17):
                return
        except BlockingIOError:
            return
        except OSError:  # reset
            pass
        del self._open[fd]
        sock.close()

    def close(self) -> None:
        self._ended = True
        self._thread.join(5)
        for sock in (*self._open.values(), self.listener):
            sock.close()


class Traffic:
    """Runs between start() and rest(), any number of times."""

    def __init__(self, near: Namespace, far: Namespace, seed: int) -> None:
        self.near, self.drain = near, Drain(far)
        self.connections = 0
        self.errors: list[str] = []
        self._seeds = itertools.count(seed)
        self._running = threading.Event()
        self._threads: list[threading.Thread] = []
        self._lock = threading.Lock()

    def start(self) -> None:
        self._running.set()
        works = [self._churn] * WORKERS + [self._stay]
        dice = (random.Random(next(self._seeds)) for _ in works)
        self._threads = [threading.Thread(target=work, args=(d,), daemon=True) for work, d in zip(works, dice, strict=False)]
        for thread in self._threads:
            thread.start()

    def rest(self) -> None:
        """No connection is left when it returns."""
        self._running.clear()
        for thread in self._threads:
            thread.join(2 * CONNECT_S)
            assert not thread.is_alive(), "a connection does not end"

    def close(self) -> None:
        self.rest()
        self.drain.close()

    def _connect(self, dice: random.Random) -> socket.socket:
        six = dice.random() < 0.3
        sock = socket.socket(socket.AF_INET6 if six else socket.AF_INET)
        sock.settimeout(CONNECT_S)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER)
        with suppress(FileNotFoundError):  # it is disabled just now
            choose(sock, dice.choice(ALL))
        try:
            sock.connect(("fd77::2" if six else "10.77.0.2", self.drain.port))
        except OSError:
            sock.close()
            raise
        with self._lock:
            self.connections += 1
        return sock

    def _churn(self, dice: random.Random) -> None:
        ends = [socket.socket.close, abort, self._switch, self._half_close]
        with kernel.inside(self.near.name):
            while self._running.is_set():
                try:
                    with self._connect(dice) as sock:
                        sock.sendall(bytes(dice.choice([1, 1000, 10_000, 100_000])))
                        dice.choice(ends)(sock)
                except OSError as error:
                    self.errors.append(f"a short connection: {error!r}")
                    self._running.wait(0.1)
                threading.Event().wait(PAUSE_S)

    def _switch(self, sock: socket.socket) -> None:
        """Another controller in the middle, twice."""
        for name in random.sample(ALL, 2):
            with suppress(FileNotFoundError):
                choose(sock, name)
            sock.sendall(bytes(20_000))

    def _half_close(self, sock: socket.socket) -> None:
        sock.shutdown(socket.SHUT_WR)
        with suppress(TimeoutError):  # one that yields may take long
            sock.recv(1)

    def _stay(self, dice: random.Random) -> None:
        """Many connections that send a little now and then, and stay; enable and disable go on under them."""
        socks: list[socket.socket] = []
        data = bytes(15_000)
        with kernel.inside(self.near.name):
            try:
                while len(socks) < STAYING and self._running.is_set():
                    socks.append(self._connect(dice))
                    socks[-1].setblocking(False)
                while self._running.is_set():
                    for sock in dice.sample(socks, 10):
                        with suppress(BlockingIOError):
                            sock.send(data)
                    threading.Event().wait(0.05)
            except OSError as error:
                self.errors.append(f"a connection that stays: {error!r}")
            finally:
                for sock in socks:
                    sock.close()
