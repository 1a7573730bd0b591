# SPDX-License-Identifier: GPL-2.0-only
"""ccbpf metrics --listen: the page is that of `ccbpf metrics`, in the format that was asked for, and whatever clients send, the
process goes on, keeps nobody out, and has no more privilege than it says."""

from __future__ import annotations

import fcntl
import http.client
import json
import os
import random
import re
import resource
import select
import shutil
import signal
import socket
import struct
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from prometheus_client import parser
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics

from tests.functional import kernel
from tests.functional.conftest import BPFFS, MEMORY_NOISE, Cli, own_memory

CACHE_S, SILENCE_S = 1.0, 10.0
PROMETHEUS = "text/plain; version=0.0.4; charset=utf-8"
OPENMETRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"
SCRAPE = "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.3,*/*;q=0.2"  # what Prometheus sends
OPEN_MOST = 32
CROWD = 1000  # connections
CROWD_MEMORY = OPEN_MOST * (64 << 10)  # bytes: each connection has 16 KiB for its request
RANDOM, AT_ONCE = 480, 16  # requests; fewer at once than the connections that it keeps
SEED = int(os.environ.get("CCBPF_SEED", "1"))
LEAK_MOST = 64 << 10  # bytes, of a thousand connections: 64 of each
CAP_DAC_OVERRIDE, CAP_SYS_PTRACE, CAP_SYS_ADMIN, CAP_BPF = 1, 19, 21, 39
NOBODY = 65534
READING = 1 << CAP_BPF | 1 << CAP_SYS_ADMIN


class Exporter:
    """A `ccbpf metrics --listen` that listens."""

    def __init__(self, process: subprocess.Popen[str], host: str = "127.0.0.1", namespace: str = "") -> None:
        self.process = process
        self.namespace = namespace
        assert process.stderr
        self.said = process.stderr.readline()
        found = re.fullmatch(r"listening on (http://\S+/metrics)\n", self.said)
        assert found, self.said + process.stderr.read()
        self.url = found[1]
        url = urlsplit(self.url)
        assert url.hostname == host and url.port
        self.host, self.port = host, url.port

    def connect(self) -> socket.socket:
        family = socket.AF_INET6 if ":" in self.host else socket.AF_INET
        if self.namespace:
            with kernel.inside(self.namespace):
                sock = socket.socket(family)
        else:
            sock = socket.socket(family)
        sock.settimeout(2 * SILENCE_S)
        sock.connect((self.host, self.port))
        return sock

    def ask(self, path: str = "/metrics", method: str = "GET", **headers: str) -> tuple[http.client.HTTPResponse, str]:
        """In a connection of its own."""
        connection = http.client.HTTPConnection(self.host, self.port)
        connection.sock = self.connect()
        connection.request(method, path, headers=headers)
        response = connection.getresponse()
        body = response.read().decode()
        connection.close()
        return response, body

    def page(self, **headers: str) -> str:
        response, body = self.ask(**headers)
        assert response.status == 200, body
        return body

    def raw(self, request: bytes) -> bytes:
        """All that comes back; b"" also where the connection is reset."""
        answer = b""
        with self.connect() as sock:
            try:
                sock.sendall(request)
                sock.shutdown(socket.SHUT_WR)
                while part := sock.recv(1 << 16):
                    answer += part
            except OSError:  # reset, or no longer connected
                pass
        return answer

    @property
    def reader(self) -> int:
        """The process that gathers the pages."""
        pid = self.process.pid
        return int(Path(f"/proc/{pid}/task/{pid}/children").read_text())

    def status(self, key: str, pid: int = 0) -> int:
        """Of the process that listens, or of another one."""
        (value,) = re.findall(rf"^{key}:\s+(\w+)", Path(f"/proc/{pid or self.process.pid}/status").read_text(), re.M)
        return int(value, 16)

    def descriptors(self) -> int:
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))


@contextmanager
def serving(
    cli: Cli, *words: object, at: object = 0, prefix: tuple[str, ...] = (), says: str = "", **options: Any
) -> Iterator[Exporter]:
    """SIGTERM ends it with exit code 0. `says`: the rest of its stderr after the first line."""
    process = subprocess.Popen(
        [*prefix, str(cli.command), "metrics", "--listen", str(at), *map(str, words)],
        env=cli.env(), stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        yield Exporter(process, **options)
        process.terminate()
        _, err = process.communicate(timeout=SILENCE_S)
        assert (process.returncode, re.sub(says, "", err) if says else err) == (0, "")
    finally:
        process.kill()
        process.communicate()


@pytest.fixture
def exporter(ccbpf: Cli) -> Iterator[Exporter]:
    with serving(ccbpf.without_quarantine()) as exporter:
        yield exporter


def families(page: str, type_: str) -> list[Any]:
    """The metric families, read by the parser of that format."""
    parse = parse_openmetrics if type_ == OPENMETRICS else parser.text_string_to_metric_families
    return list(parse(page))


# --- what it answers -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("units", [(), ("--units",)], ids=["", "units"])
def test_the_page_is_what_the_command_prints(everything: Cli, units: tuple[str, ...]) -> None:
    """Although the process has given up what names a cgroup by its id."""
    with serving(everything, *units) as exporter:
        assert_may(exporter, READING)
        plain, open_ = everything("metrics", *units).out, everything("metrics", "--format", "openmetrics", *units).out
        assert exporter.page() == plain
        assert exporter.page(Accept=SCRAPE) == open_
        names = ["controller_enabled", "live_flows{", "rule_connections_set_total{", "rule_live_flows{", "run_connections",
                 "queue_packets"]  # fmt: skip
        for name in [*names, *(("unit_flows_total{", "unit_live_flows{") if units else ())]:
            assert f"ccbpf_{name}" in plain, name
        assert units or "ccbpf_unit" not in plain
        for page, type_ in ((plain, PROMETHEUS), (open_, OPENMETRICS)):
            assert len(families(page, type_)) > 20


def test_it_is_gathered_once_a_second(ccbpf: Cli) -> None:
    """A change of a counter shows after a second, and not before."""
    ccbpf("enable", "tcp_lp")
    lp = kernel.pinned(ccbpf.root, "tcp_lp")
    counts = struct.pack("=Q", 7).ljust(kernel.ffi.sizeof("struct ccbpf_stats"), b"\0") * kernel.POSSIBLE_CPUS
    with serving(ccbpf) as exporter:
        before = exporter.page()
        lp.maps["stats"].update(struct.pack("=I", lp.kind), counts)
        assert exporter.page() == before
        kernel.eventually(lambda: exporter.page() != before, 5 * CACHE_S, "it is gathered anew")
        assert exporter.page() == ccbpf("metrics").out


@pytest.mark.parametrize(
    "words, accept, type_",
    [
        ((), None, PROMETHEUS),
        ((), "*/*", PROMETHEUS),
        ((), "text/plain", PROMETHEUS),
        ((), SCRAPE, OPENMETRICS),
        ((), "Application/OpenMetrics-Text", OPENMETRICS),
        (("--format", "openmetrics"), None, OPENMETRICS),
        (("--format", "openmetrics"), "text/plain", OPENMETRICS),
        (("--format", "prometheus"), SCRAPE, PROMETHEUS),
    ],
)
def test_the_format_that_is_asked_for(ccbpf: Cli, words: tuple[str, ...], accept: str | None, type_: str) -> None:
    with serving(ccbpf, *words) as exporter:
        response, page = exporter.ask(**{"Accept": accept} if accept else {})
        assert (response.status, response.getheader("Content-Type"), response.getheader("Vary")) == (200, type_, "Accept")
        assert families(page, type_)
        head, nothing = exporter.ask(method="HEAD", **{"Accept": accept} if accept else {})
        names = ("Content-Type", "Content-Length", "Vary")
        assert (head.status, nothing) == (200, "")
        assert [head.getheader(name) for name in names] == [response.getheader(name) for name in names]
        assert int(response.getheader("Content-Length", "0")) == len(page.encode())


def test_other_paths_methods_and_bodies(exporter: Exporter) -> None:
    response, body = exporter.ask("/")
    assert (response.status, body) == (200, "ccbpf: the metrics are at /metrics\n")
    assert exporter.ask("/", "HEAD")[0].status == 200
    assert exporter.ask("/metrics?name=x")[0].status == 200
    for path in ("/metrics/", "/Metrics", "//metrics", "/favicon.ico", "/../etc/passwd", "/%2e%2e/etc/passwd", "/" + "x" * 5000):
        assert exporter.ask(path)[0].status == 404, path
    for method in ("POST", "PUT", "DELETE", "OPTIONS", "TRACE", "PATCH", "X"):
        response, _ = exporter.ask("/metrics", method)
        assert (response.status, response.getheader("Allow")) == (405, "GET, HEAD"), method
    for body_headers in ({"Content-Length": "3"}, {"Transfer-Encoding": "chunked"}):
        response, _ = exporter.ask("/metrics", **body_headers)
        assert (response.status, response.getheader("Connection")) == (413, "close")


def test_a_connection_serves_several_requests(exporter: Exporter) -> None:
    connection = http.client.HTTPConnection(exporter.host, exporter.port, timeout=SILENCE_S)
    ports = set()
    for _ in range(5):
        connection.request("GET", "/metrics")
        assert connection.getresponse().read()
        ports.add(connection.sock.getsockname()[1])
    connection.close()
    assert len(ports) == 1


def test_what_cannot_be_read_is_said_and_not_the_end(ccbpf: Cli) -> None:
    ccbpf("enable", "tcp_lp")
    flows, away = ccbpf.root / "flows", ccbpf.root / "away"
    wrong = f"{flows}: the pin there is not one of this ccbpf"
    with serving(ccbpf, says=rf"(ccbpf: cannot print metrics {wrong}.*\n){{1,2}}") as exporter:
        page = exporter.page()
        flows.rename(away)
        flows.mkdir()
        try:
            time.sleep(CACHE_S)
            response, said = exporter.ask(Accept=SCRAPE)
            assert (response.status, response.getheader("Content-Type")) == (503, "text/plain; charset=utf-8")
            assert wrong in said and "clean --all" in said and said.count("\n") == 1
            assert exporter.ask(Accept=SCRAPE)[1] == said, "said once a second at most"
        finally:
            flows.rmdir()
            away.rename(flows)
        kernel.eventually(lambda: exporter.ask(Accept=SCRAPE)[0].status == 200, 5 * CACHE_S, "it can be read again")
        assert exporter.page() == page


def test_it_waits_for_a_command_that_changes_something(ccbpf: Cli) -> None:
    """That command holds the lock of the pin directory."""
    ccbpf("enable", "tcp_lp")
    answers: list[str] = []
    with serving(ccbpf) as exporter:
        reader = threading.Thread(target=lambda: answers.append(exporter.page()))
        root = os.open(ccbpf.root, os.O_RDONLY | os.O_DIRECTORY)
        fcntl.flock(root, fcntl.LOCK_EX)
        try:
            reader.start()
            reader.join(0.5)
            assert not answers
        finally:
            os.close(root)
        reader.join(5)
        assert answers == [ccbpf("metrics").out]


# --- where it listens ------------------------------------------------------------------------------------------------


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


@pytest.mark.parametrize(
    "form, host",
    [
        ("{}", "127.0.0.1"),
        (":{}", "127.0.0.1"),
        ("127.0.0.1:{}", "127.0.0.1"),
        ("0.0.0.0:{}", "0.0.0.0"),
        ("[::1]:{}", "::1"),
        ("[::]:{}", "::"),
    ],
)
def test_where_it_is_told_to(ccbpf: Cli, form: str, host: str) -> None:
    port = free_port()
    with serving(ccbpf, at=form.format(port), host=host) as exporter:
        assert exporter.port == port
        assert exporter.page()
        shown = kernel.run("ss", "-Hltn", f"sport = :{port}").stdout.split()
        assert shown[3] == {"::1": f"[::1]:{port}", "::": f"*:{port}"}.get(host, f"{host}:{port}"), "there and nowhere else"
    with pytest.raises(ConnectionRefusedError):
        exporter.connect()


@pytest.mark.parametrize("at, address, host", [("0", "127.0.0.1", "127.0.0.1"), ("[::1]:0", "::1", "[::1]")])
def test_json_says_where(ccbpf: Cli, at: str, address: str, host: str) -> None:
    process = ccbpf.popen("-j", "metrics", "--listen", at, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        assert process.stdout
        said = json.loads(process.stdout.readline())
        assert said == {"url": f"http://{host}:{said['port']}/metrics", "address": address, "port": said["port"]}
        connection = http.client.HTTPConnection(address, said["port"], timeout=SILENCE_S)
        connection.request("GET", "/metrics")
        assert connection.getresponse().status == 200
        process.terminate()
        assert process.communicate(timeout=SILENCE_S) == ("", "") and process.returncode == 0
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize(
    "given",
    ["", ":", "x", "-1", "65536", "99999999999999999999", "9464x", " 9464", "127.0.0.1", "127.0.0.1:", "localhost:9464", "127.1:9464",
     "0x7f.0.0.1:1", "256.0.0.1:1", "::1:9464x", "[::1]", "[::1]9464", "[]:9464", "[127.0.0.1]:9464", "[::1:9464", "[fe80::1%nodev]:9464",
     "x" * 5000 + ":1"],
    ids=lambda given: given[:20],
)  # fmt: skip
def test_what_is_no_address(ccbpf: Cli, given: str) -> None:
    done = ccbpf("metrics", "--listen", given, code=2)
    assert "cannot listen at" in done.err and "give PORT (0 to 65535), ADDRESS:PORT" in done.err and not done.out


def test_where_it_cannot(ccbpf: Cli) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        said = ccbpf("metrics", "--listen", port, code=1).err
        assert f"127.0.0.1:{port}: another process listens there; `ss -ltnp sport = :{port}` names it" in said
    assert "no such address; `ip address`" in ccbpf("metrics", "--listen", "192.0.2.1:0", code=1).err
    with kernel.Namespace("m") as namespace:  # whose ports below 1024 are reserved, whatever this host's settings are
        lacks = ("ip", "netns", "exec", namespace.name, "setpriv", "--bounding-set=-net_bind_service")
        assert "cap_net_bind_service" in ccbpf("metrics", "--listen", "127.0.0.1:9", code=4, prefix=lacks).err
    assert "cap_bpf" in ccbpf("metrics", "--listen", 0, code=4, prefix=("setpriv", "--bounding-set=-bpf")).err


def test_a_file_or_a_socket(ccbpf: Cli, tmp_path: Path) -> None:
    said = ccbpf("metrics", "--listen", 0, "--output", tmp_path / "file", code=2).err
    assert said == "ccbpf: cannot print metrics: --output and --listen exclude each other; give one of them\n"
    assert not list(tmp_path.iterdir())
    assert "prometheus or openmetrics" in ccbpf("metrics", "--listen", 0, "--format", "xml", code=2).err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_it(ccbpf: Cli, number: signal.Signals) -> None:
    """Also in the middle of a request, and the port is free at once."""
    with serving(ccbpf) as exporter, exporter.connect() as sock:
        sock.sendall(b"GET /metrics HTTP/1.1\r\n")
        exporter.page()
        exporter.process.send_signal(number)
        assert exporter.process.wait(SILENCE_S) == 0
        assert sock.recv(1) == b""
        with serving(ccbpf, at=exporter.port) as again:
            assert again.page()


# --- what clients do -------------------------------------------------------------------------------------------------

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

    def growth() -> int:
        before = own_memory(exporter.process)
        for _ in range(3):
            all_of_them()
        return own_memory(exporter.process) - before

    all_of_them()
    descriptors = exporter.descriptors()
    # A leak grows each time. The allocator takes up to 20 kB once, sooner or later.
    assert min(growth() for _ in range(3)) <= MEMORY_NOISE
    kernel.eventually(lambda: exporter.descriptors() <= descriptors, 5, "connections are closed")


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
        crowd = [stack.enter_context(socket.socket()) for _ in range(CROWD)]
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

    def growth() -> int:
        before = own_memory(exporter.process)
        for _ in range(4):
            all_of_them()
        return own_memory(exporter.process) - before

    all_of_them()
    descriptors = exporter.descriptors()
    assert min(growth() for _ in range(2)) <= MEMORY_NOISE
    kernel.eventually(lambda: exporter.descriptors() <= descriptors, 5, "connections are closed")
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


# --- what it may -----------------------------------------------------------------------------------------------------


def assert_may(exporter: Exporter, capabilities: int, user: int = NOBODY) -> None:
    """What listens may do nothing, as another user than root; what reads has these capabilities."""
    for pid, allowed in ((exporter.process.pid, 0), (exporter.reader, capabilities)):
        for key in ("CapPrm", "CapEff"):
            assert exporter.status(key, pid) == allowed, key
        assert exporter.status("CapInh", pid) == exporter.status("CapAmb", pid) == 0
        assert exporter.status("NoNewPrivs", pid) == 1
        assert exporter.status("Threads", pid) == 1
    ids = Path(f"/proc/{exporter.process.pid}/status").read_text()
    for key in ("Uid", "Gid"):
        assert re.search(rf"^{key}:(\s+{user}){{4}}$", ids, re.M), ids
    assert user != NOBODY or re.search(r"^Groups:\s*$", ids, re.M), ids


def test_root_keeps_what_reading_needs(ccbpf: Cli) -> None:
    """And that is enough for all parts of a page: see the first test."""
    ccbpf("enable", "tcp_lp")
    ccbpf("assign", "tcp_lp", "--remote", "192.0.2.0/24")
    with serving(ccbpf) as exporter:
        assert_may(exporter, READING)
        assert exporter.page() == ccbpf("metrics").out


def test_the_sandbox_of_its_unit_is_enough(everything: Cli) -> None:
    """Capabilities and mounts as in packaging/systemd/ccbpf-exporter.service.in."""
    read_only = f"mount --bind {BPFFS} {BPFFS} && mount -o remount,bind,ro {BPFFS}"
    script = f'{read_only} && exec setpriv --bounding-set=-all,+bpf,+sys_admin,+setuid,+setgid --no-new-privs "$@"'
    with serving(everything, "--units", prefix=("unshare", "-m", "sh", "-euc", script, "sh")) as exporter:
        assert_may(exporter, READING)
        assert exporter.page() == everything("metrics", "--units").out


def test_another_user_keeps_what_root_need_not_have(ccbpf: Cli) -> None:
    ccbpf("enable", "tcp_lp")
    ccbpf("assign", "tcp_lp", "--remote", "192.0.2.0/24")
    names = ",".join(f"+{name}" for name in ("bpf", "sys_admin", "dac_override", "net_admin", "perfmon"))
    user = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", f"--inh-caps={names}", f"--ambient-caps={names}")
    with serving(ccbpf, prefix=user) as exporter:
        assert_may(exporter, READING | 1 << CAP_DAC_OVERRIDE)
        assert exporter.page() == ccbpf("metrics").out


def test_without_cap_sys_admin_all_but_rules(ccbpf: Cli) -> None:
    """Without this capability the kernel does not open the maps of a rule by their ids."""
    ccbpf("enable", "tcp_lp")
    with serving(ccbpf, prefix=("setpriv", "--bounding-set=-sys_admin"), says=r"ccbpf: cannot .*rules.*\n") as exporter:
        assert_may(exporter, 1 << CAP_BPF)
        assert exporter.page() == ccbpf("metrics").out
        ccbpf("assign", "tcp_lp", "--remote", "192.0.2.0/24")
        time.sleep(CACHE_S)
        assert exporter.ask()[0].status == 503


def test_in_another_network_namespace(ccbpf: Cli) -> None:
    """`ip netns exec` hides bpffs: the pins are found through a process outside, for which the kernel wants cap_sys_ptrace."""
    ccbpf("enable", "tcp_lp")
    with kernel.Namespace("m") as namespace:
        within = ("ip", "netns", "exec", namespace.name)
        with serving(ccbpf, prefix=within, namespace=namespace.name) as exporter:
            assert_may(exporter, READING | 1 << CAP_SYS_PTRACE)
            assert exporter.page() == ccbpf("metrics").out


def test_each_of_the_two_processes_ends_with_the_other(ccbpf: Cli) -> None:
    with ccbpf.popen("metrics", "--listen", 0, stderr=subprocess.PIPE) as process:
        exporter = Exporter(process)
        os.kill(exporter.reader, signal.SIGKILL)
        response, body = exporter.ask()
        assert (response.status, body) == (503, "no page\n")
        assert process.wait(SILENCE_S) == 1
        assert process.stderr and "the process that reads" in process.stderr.read()
    with ccbpf.popen("metrics", "--listen", 0, stderr=subprocess.PIPE) as process:
        reader = Path(f"/proc/{Exporter(process).reader}")
        process.kill()
        kernel.eventually(lambda: not reader.exists(), SILENCE_S, "the reader reads an end")


def test_a_pin_directory_that_comes_and_goes(ccbpf: Cli) -> None:
    """It neither creates the directory nor keeps it in existence."""
    with serving(ccbpf) as exporter:
        assert exporter.page() and not ccbpf.root.exists()
        ccbpf("enable", "tcp_lp")
        time.sleep(CACHE_S)
        assert "ccbpf_live_flows" in exporter.page()
        ccbpf("disable", "tcp_lp")
        ccbpf("clean", "--all")
        assert not ccbpf.root.exists()
        time.sleep(CACHE_S)
        assert "ccbpf_live_flows" not in exporter.page()
        if ccbpf.root.exists():
            shutil.rmtree(ccbpf.root)


def test_the_library_is_loaded_for_it_alone(ccbpf: Cli, tmp_path: Path) -> None:
    """It brings GnuTLS along. Where it is missing, the error names the package and the other commands work."""
    needed = kernel.run("readelf", "-d", ccbpf.command).stdout
    assert "libbpf.so" in needed and "microhttpd" not in needed
    (tmp_path / "libmicrohttpd.so.12").touch()
    without = Cli(ccbpf.root, {"LD_LIBRARY_PATH": str(tmp_path)}, ccbpf.command)
    error = without("-j", "metrics", "--listen", "0", code=1).error
    assert error["on"] == "HTTP" and "libmicrohttpd.so.12" in error["why"] and "libmicrohttpd12" in error["remedy"]
    assert without("metrics").out.startswith("# HELP")
