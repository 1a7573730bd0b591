# SPDX-License-Identifier: GPL-2.0-only
"""A `ccbpf metrics --listen` of a test, and what it is asked."""

from __future__ import annotations

import http.client
import os
import re
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tests.functional import kernel
from tests.functional.conftest import Cli

CACHE_S, SILENCE_S = 1.0, 10.0
SCRAPE = "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.3,*/*;q=0.2"  # what Prometheus sends


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

    def unconnected(self) -> socket.socket:
        family = socket.AF_INET6 if ":" in self.host else socket.AF_INET
        with kernel.inside(self.namespace) if self.namespace else nullcontext():
            return socket.socket(family)

    def connect(self) -> socket.socket:
        sock = self.unconnected()
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
