# SPDX-License-Identifier: GPL-2.0-only
"""renice: thousands of transfers, and what happens in the middle of a move: ends, other choices, newcomers, a kill."""

from __future__ import annotations

import json
import os
import random
import resource
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.functional import kernel
from tests.functional.cli.transfer import Pair, Transfer
from tests.functional.conftest import Cli
from tests.functional.kernel import chosen

MANY = 2000
MANY_S = 10.0  # a few seconds on a machine that does nothing else


@pytest.fixture
def many(netns_pair: Pair) -> Iterator[list[socket.socket]]:
    """MANY connections in the first namespace; the sockets that connected, and then those that accepted."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(2 * MANY + 500, before[0]), max(2 * MANY + 500, before[1])))
    sockets: list[socket.socket] = []
    with netns_pair[0].socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen(1024)
        for _ in range(MANY):
            sock = netns_pair[0].socket()
            sock.connect(server.getsockname())
            sockets += [sock, server.accept()[0]]
        yield sockets
    for sock in sockets:
        sock.close()
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_thousands_move_within_seconds(enabled: Cli, many: list[socket.socket]) -> None:
    port = many[0].getpeername()[1]
    start = time.monotonic()
    answer = enabled("-j", "renice", "tcp_lp", "--port", port).json
    assert time.monotonic() - start < MANY_S
    assert (answer["moved"], answer["closed"], answer["refused"]) == (2 * MANY, 0, 0)
    assert {chosen(sock) for sock in many} == {"tcp_lp"}
    said = enabled("renice", "cubic", "--from", "tcp_lp", "--port", port).out.splitlines()
    assert len(said) == 23
    assert said[-2:] == [f"... and {2 * MANY - 20} more: -v shows all", f"moved {2 * MANY} transfers to cubic"]


def moved_then(enabled: Cli, transfer: Transfer, slow_setns: Path, act: Callable[[], None]) -> dict[str, Any]:
    """The output, if this happens between the walk that moves the sender's socket and the walk that verifies it."""
    slow = Cli(enabled.root, {"LD_PRELOAD": str(slow_setns)}, enabled.command)
    words = ["-j", "renice", "tcp_lp", "--port", transfer.port, "--dst", "10.77.0.2"]
    process = slow.popen(*words, stdout=subprocess.PIPE)
    kernel.eventually(lambda: chosen(transfer.sender) == "tcp_lp", 30, "the first walk", every_s=0.005)
    act()
    out, _ = process.communicate(timeout=30)
    assert process.returncode == 0
    answer: dict[str, Any] = json.loads(out)
    return answer


def test_a_connection_that_is_closed_before_it_is_verified(enabled: Cli, transfer: Transfer, slow_setns: Path) -> None:
    answer = moved_then(enabled, transfer, slow_setns, lambda: kernel.abort(transfer.sender))
    assert (answer["moved"], answer["closed"], answer["refused"]) == (0, 1, 0)
    assert [t["outcome"] for t in answer["transfers"]] == ["closed"]


def test_a_program_that_takes_its_controller_back_is_moved_again(enabled: Cli, transfer: Transfer, slow_setns: Path) -> None:
    answer = moved_then(enabled, transfer, slow_setns, lambda: kernel.choose(transfer.sender, "cubic"))
    assert (answer["moved"], answer["closed"]) == (1, 0)
    assert chosen(transfer.sender) == "tcp_lp"


def test_connections_that_come_and_go_meanwhile(enabled: Cli, netns_pair: Pair, transfer: Transfer) -> None:
    stop = threading.Event()
    with netns_pair[0].socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen(1024)

        def churn() -> None:
            while not stop.is_set():
                with netns_pair[0].socket() as sock:
                    sock.connect(server.getsockname())
                    server.accept()[0].close()

        thread = threading.Thread(target=churn, daemon=True)
        with kernel.no_kernel_warning():
            thread.start()
            for name in ("tcp_lp", "cubic") * 5:
                answer = enabled("-j", "renice", name, "--pid", os.getpid(), "--dst", "10.77.0.2").json
                assert (answer["moved"], answer["refused"], answer["lost"]) == (1, 0, 0)
                result = enabled.run("-j", "renice", name, "--port", server.getsockname()[1])
                assert result.code in (0, 5), result
            stop.set()
            thread.join(10)
    transfer.goes_on()
    transfer.finish()


def test_a_kill_leaves_nothing(enabled: Cli, many: list[socket.socket]) -> None:
    port, draw = many[0].getpeername()[1], random.Random(1)
    pins = enabled.names()
    for name in ("tcp_lp", "cubic") * 5:
        process = enabled.popen("renice", name, "--port", port, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(draw.uniform(0, 0.15))
        process.kill()
        process.wait(10)

    def left() -> list[object]:
        programs = json.loads(kernel.run("bpftool", "-j", "prog", "list").stdout)
        return [program for program in programs if program.get("name") == "renice"]

    kernel.eventually(lambda: not left(), 5, "its program is gone")
    assert enabled.names() == pins
    enabled("renice", "reno", "--port", port)
    assert {chosen(sock) for sock in many} == {"reno"}
