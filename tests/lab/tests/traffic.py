# SPDX-License-Identifier: GPL-2.0-only
"""The program that sends and receives in an experiment, as its tests start it."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

TRAFFIC = Path(__file__).resolve().parents[3] / "build/tests/traffic"
HEADERS_BYTES = 28  # IPv4 and UDP
NS_PER_S = 10**9
ANYWHERE = ("127.0.0.1", "9")
SO_RCVBUFFORCE = 33  # asm-generic/socket.h


def punctual() -> list[str]:
    """Before a command: SCHED_FIFO as the delay line has it, where allowed. Whatever else runs here waits."""
    probe = subprocess.run(["chrt", "-f", "10", "true"], capture_output=True, check=False)
    return [] if probe.returncode else ["chrt", "-f", "10"]


PUNCTUAL = punctual()


def traffic(*arguments: str, timeout: float = 15) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*PUNCTUAL, TRAFFIC, *arguments], capture_output=True, text=True, timeout=timeout)


def result(*arguments: str) -> dict[str, Any]:
    done = traffic(*arguments)
    assert done.returncode == 0, done.stderr
    said: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return said


def free_port(kind: int, family: int = socket.AF_INET) -> str:
    with socket.socket(family, kind) as probe:
        probe.bind(("::1" if family == socket.AF_INET6 else "127.0.0.1", 0))
        return str(probe.getsockname()[1])


class Serving:
    """A udp-sink or web-server that can be reached; after the with block, what it counted."""

    def __init__(self, process: subprocess.Popen[str], port: str) -> None:
        self.process, self.port = process, port
        self.result: dict[str, Any] = {}


@contextmanager
def serving(command: str, *options: str, prefix: Sequence[str] = PUNCTUAL) -> Iterator[Serving]:
    port = free_port(socket.SOCK_DGRAM if command == "udp-sink" else socket.SOCK_STREAM)
    process = subprocess.Popen(
        [*prefix, TRAFFIC, command, port, "--for", "30", *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout and json.loads(process.stdout.readline()) == {"ready": command, "port": int(port)}
        yield (server := Serving(process, port))
        time.sleep(0.05)  # what is still on its way
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=5)
        assert process.returncode == 0 and not err, err
        server.result = json.loads(out)
    finally:
        process.kill()
        process.communicate()


def send_until(good: Callable[[], bool], tries: int = 3) -> None:
    """Real time on a machine that does other things too: one good run of three."""
    assert any(good() for _ in range(tries))


def due(*options: str) -> list[float]:
    times: list[float] = result("udp-send", *ANYWHERE, "--dry-run", *options)["due"]
    return times


def path(*options: str) -> list[dict[str, Any]]:
    objects: list[dict[str, Any]] = result("web-client", *ANYWHERE, "--dry-run", *options)["objects"]
    return objects
