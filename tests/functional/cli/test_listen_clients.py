# SPDX-License-Identifier: GPL-2.0-only
"""What clients do to `ccbpf metrics --listen`: whatever they send, or do not read, the process goes on, keeps nobody out, and keeps
nothing of them."""

from __future__ import annotations

import http.client
import os
import random
import resource
import select
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress

import pytest

from tests.functional import kernel
from tests.functional.cli.exporter import CACHE_S, SCRAPE, SILENCE_S, Exporter, serving
from tests.functional.conftest import MEMORY_NOISE, Cli, own_memory

OPEN_MOST = 32
CROWD = 1000  # connections
CROWD_MEMORY = OPEN_MOST * (64 << 10)  # bytes: each connection has 16 KiB for its request
RANDOM, AT_ONCE = 480, 16  # requests; fewer at once than the connections that it keeps
SEED = int(os.environ.get("CCBPF_SEED", "1"))
LEAK_MOST = 64 << 10  # bytes, of a thousand connections: 64 of each


def assert_keeps_nothing(exporter: Exporter, requests: Callable[[], None], each: int, measures: int) -> None:
    """A leak grows with each measure, of so many times the requests. The allocator takes up to 20 kB once, sooner or later."""

    def growth() -> int:
        before = own_memory(exporter.process)
        for _ in range(each):
            requests()
        return own_memory(exporter.process) - before

    requests()
    descriptors = exporter.descriptors()
    assert min(growth() for _ in range(measures)) <= MEMORY_NOISE
    kernel.eventually(lambda: exporter.descriptors() <= descriptors, 5, "connections are closed")


BAD = {
    "nothing": b"",
    "garbage": bytes(range(256)) * 40,
    "zeros": bytes(100_000),
    "newlines": b"\r\n" * 50_000,
    "a long line": b"GET /" + b"x" * 100_000 + b" HTTP/1.1\r\n\r\n",
    "a long header": b"GET /metrics HTTP/1.1\r\nHost: x\r\nX: " + b"y" * 100_000 + b"\r\n\r\n",
    "many headers": b"GET /metrics HTTP/1.1\r\n" + b"".join(b"X%d: y\r\n" % i for i in range(10_000)) + b"\r\n",
    "HTTP/0.9": b"GET /metrics\r\n",
    "HTTP/9.9": b"GET /metrics HTTP/9.9\r\n\r\n",
    "TLS": bytes.fromhex("16030100c8010000c40303") + bytes(190) + b"\n",  # without one: until the time-out
    "HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "a body": b"POST /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 10000000\r\n\r\n" + bytes(10_000_000),
    "a body to GET": b"GET /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 10000000\r\n\r\n" + bytes(10_000_000),
    "a body that does not come": b"GET /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 18446744073709551616\r\n\r\n",
    "bad chunks": b"POST /metrics HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n",
    "two lengths": b"GET /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\nContent-Length: 5\r\n\r\nhello",
    "a request in a request": b"GET /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\nGET / HTTP/1.1\r\n\r\n",
    "bytes in a path": b"GET /\xff\x00\x1b[2J HTTP/1.1\r\nHost: x\r\n\r\n",
    "a thousand at once": b"GET /x HTTP/1.1\r\nHost: x\r\n\r\n" * 1000,
}  # fmt: skip


def test_bad_requests(exporter: Exporter) -> None:
    """Each is refused or dropped; the process goes on, prints nothing, and keeps neither memory nor descriptors."""

    def all_of_them() -> None:
        for name, request in BAD.items():
            answer = exporter.raw(request)
            assert b"ccbpf_build_info" not in answer or name == "HTTP/0.9", (name, answer[:200])
            assert not answer or answer.startswith(b"HTTP/1.") or name == "HTTP/0.9", (name, answer[:200])
            assert exporter.page(), name

    assert_keeps_nothing(exporter, all_of_them, each=3, measures=3)


@pytest.fixture
def many_files() -> Iterator[None]:
    """This process may open that many."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, 3 * CROWD)), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def answered_within(exporter: Exporter, seconds: float) -> float:
    """How long until a scrape was answered. One that a crowd pushed out comes again, as Prometheus does."""
    before = time.monotonic()

    def answered() -> bool:
        with suppress(OSError, http.client.HTTPException):
            return bool(exporter.page())
        return False

    kernel.eventually(answered, seconds, "a scrape is answered")
    return time.monotonic() - before


def test_half_requests_keep_nobody_out(exporter: Exporter, many_files: None) -> None:
    """A thousand are held open: a scrape is answered at once, even while they send a byte now and then; the silent ones are closed."""
    exporter.page()
    memory = own_memory(exporter.process)
    with ExitStack() as stack:
        half = [stack.enter_context(exporter.connect()) for _ in range(CROWD)]
        for sock in half:
            with suppress(OSError):  # those before it are closed to make room
                sock.sendall(b"GET /metrics HTTP/1.1\r\nX: ")
        before = time.monotonic()
        for _ in range(3):
            assert exporter.page()
            for sock in half:
                with suppress(OSError):
                    sock.send(b"y")
        assert time.monotonic() - before < SILENCE_S / 2
        assert exporter.descriptors() < OPEN_MOST + 12
        assert own_memory(exporter.process) - memory < CROWD_MEMORY

        def closed(sock: socket.socket) -> bool:
            try:
                return sock.recv(1 << 16) == b""
            except ConnectionResetError:
                return True

        before = time.monotonic()
        for sock in half:
            assert closed(sock)
        assert time.monotonic() - before < 2 * SILENCE_S
        assert exporter.page()


def test_a_thousand_connections_at_once(exporter: Exporter, many_files: None) -> None:
    """Beside a thousand that hold half a request open a thousand come in one moment, each with a request. Scrapes are answered
    meanwhile and afterwards; nothing stays."""
    exporter.page()
    memory, descriptors = own_memory(exporter.process), exporter.descriptors()
    with ExitStack() as stack:
        for _ in range(CROWD):
            half = stack.enter_context(exporter.connect())
            half.sendall(b"GET /metrics HTTP/1.1\r\nX: ")
        crowd = [stack.enter_context(exporter.unconnected()) for _ in range(CROWD)]
        poll = select.poll()
        for sock in crowd:
            sock.setblocking(False)
            sock.connect_ex((exporter.host, exporter.port))
            poll.register(sock, select.POLLOUT)
        waited = [answered_within(exporter, SILENCE_S)]
        by_number, asked = {sock.fileno(): sock for sock in crowd}, 0
        end = time.monotonic() + SILENCE_S
        while by_number and time.monotonic() < end:
            for number, event in poll.poll(100):
                poll.unregister(number)
                sock = by_number.pop(number)
                if not event & (select.POLLERR | select.POLLHUP):
                    with suppress(OSError):
                        asked += bool(sock.send(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"))
        waited.append(answered_within(exporter, SILENCE_S))
        assert max(waited) < SILENCE_S / 2 and asked > 0
        assert exporter.descriptors() < OPEN_MOST + 12
        assert own_memory(exporter.process) - memory < CROWD_MEMORY
    kernel.eventually(lambda: exporter.descriptors() <= descriptors, 5, "connections are closed")
    assert exporter.page()


GOOD = b"GET /metrics HTTP/1.1\r\nHost: x\r\nAccept: */*\r\nConnection: keep-alive\r\n\r\n"
PIECES = [b"GET", b"HEAD", b"POST", b"/metrics", b"/", b"*", b" HTTP/1.1", b"HTTP/1.0", b"\r\n", b"\n", b"\r", b"\0", b" ", b":", b"\t",
          b"Host: ", b"Content-Length: ", b"Transfer-Encoding: chunked\r\n", b"Expect: 100-continue\r\n", b"Connection: close\r\n",
          b"Upgrade: h2c\r\n", b"Cookie: a=b; c\r\n", b"?a=%00&b", b"%2e%2e/", b"ffffffffffffffff\r\n", b"-1", b"0\r\n\r\n", b"\xff\xfe",
          b"Accept: application/openmetrics-text\r\n", b"x" * 5000]  # fmt: skip


def mutated(dice: random.Random) -> bytes:
    """A good request with some changes, up to three in a row; or only pieces."""
    if not dice.randrange(5):
        return b"".join(dice.choices(PIECES, k=dice.randrange(1, 40)))
    request = bytearray(GOOD * dice.randrange(1, 4))
    for _ in range(dice.randrange(1, 8)):
        at, until = sorted((dice.randrange(len(request) + 1), dice.randrange(len(request) + 1)))
        match dice.randrange(6):
            case 0:
                request[at:at] = dice.choice(PIECES)
            case 1:
                del request[at : min(until, at + 20)]
            case 2:
                request[at:at] = request[at:until]
            case 3:
                request[at:at] = dice.randbytes(dice.randrange(1, 30))
            case 4:
                del request[until:]
            case 5 if at < len(request):
                request[at] ^= 1 << dice.randrange(8)
    return bytes(request)


def test_random_requests(exporter: Exporter) -> None:
    """Several hundred: the process goes on, answers the next good request, prints nothing, and keeps no memory."""
    dice = random.Random(SEED)
    requests = [mutated(dice) for _ in range(RANDOM)]
    answers: list[bytes] = []

    def send(some: list[bytes]) -> None:
        """At once: one that waits for more is not waited for."""
        with ExitStack() as stack:
            socks = [stack.enter_context(exporter.connect()) for _ in some]
            for sock, request in zip(socks, some, strict=True):
                with suppress(OSError):
                    sock.sendall(request)
                    sock.shutdown(socket.SHUT_WR)
            for sock in select.select(socks, [], [], 0.05)[0]:
                with suppress(OSError):
                    answers.append(sock.recv(1 << 16))
            for sock in socks:
                kernel.abort(sock)

    def all_of_them() -> None:
        for i in range(0, RANDOM, AT_ONCE):
            send(requests[i : i + AT_ONCE])
            assert exporter.page(), (SEED, requests[i : i + AT_ONCE])

    assert_keeps_nothing(exporter, all_of_them, each=4, measures=2)
    codes = {answer[9:12] for answer in answers if answer.startswith(b"HTTP/1.")}
    assert {b"200", b"400", b"404", b"405"} <= codes, (SEED, codes)


def test_a_slow_reader_keeps_nobody_out(exporter: Exporter) -> None:
    """Endless requests whose answers nobody reads: the oldest of these connections is closed to make room."""
    with ExitStack() as stack:
        slow = [stack.enter_context(exporter.connect()) for _ in range(40)]
        for sock in slow:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            sock.setblocking(False)
            for _ in range(100):
                try:
                    sock.send(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n" * 50)
                except OSError:
                    break
        before = time.monotonic()
        assert exporter.page()
        assert time.monotonic() - before < SILENCE_S / 2


def test_many_connections_leave_nothing(exporter: Exporter) -> None:
    for _ in range(100):
        exporter.page()
    memory, descriptors = own_memory(exporter.process), exporter.descriptors()
    for i in range(1000):
        assert exporter.page(**{"Accept": SCRAPE} if i % 2 else {})
    assert own_memory(exporter.process) - memory <= LEAK_MOST
    kernel.eventually(lambda: exporter.descriptors() <= descriptors, 5, "connections are closed")


def test_many_pages_leave_nothing(ccbpf: Cli) -> None:
    """Each is gathered anew, in both formats."""
    ccbpf("enable", "tcp_lp")
    ccbpf("assign", "tcp_lp", "--remote", "192.0.2.0/24")
    with serving(ccbpf.without_quarantine()) as exporter:
        both = (exporter.process.pid, exporter.reader)

        def growth() -> int:
            """Of that process which grows more."""
            memory = [own_memory(pid) for pid in both]
            for _ in range(6):
                assert exporter.page() and exporter.page(Accept=SCRAPE)
                time.sleep(CACHE_S)
            return max(own_memory(pid) - before for pid, before in zip(both, memory))

        growth()  # the allocator needs four
        descriptors = exporter.descriptors()
        # A leak grows each time. The allocator takes up to 20 kB once, sooner or later.
        assert any(growth() <= MEMORY_NOISE for _ in range(3))
        assert exporter.descriptors() == descriptors


def test_at_once(exporter: Exporter) -> None:
    """Some readers in parallel: with what they have just closed, fewer than it keeps."""
    failed: list[object] = []

    def read() -> None:
        try:
            for _ in range(20):
                assert exporter.page()
        except Exception as error:
            failed.append(error)

    readers = [threading.Thread(target=read) for _ in range(6)]
    for reader in readers:
        reader.start()
    for reader in readers:
        reader.join(30)
    assert not failed
