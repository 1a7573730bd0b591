# SPDX-License-Identifier: GPL-2.0-only
"""renice: thousands of transfers, and what happens in the middle of a move: ends, other choices, newcomers, a kill."""

from __future__ import annotations

import json
import os
import random
import resource
import signal
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
from tests.functional.conftest import Cli, Result
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


def moved_then(
    enabled: Cli, moved: socket.socket, slow_setns: Path, act: Callable[[], object], *conditions: object, code: int = 0
) -> dict[str, Any]:
    """The output, if this happens after the walk that moves this socket, and before the next walk that enters a namespace."""
    slow = Cli(enabled.root, {"LD_PRELOAD": str(slow_setns)}, enabled.command)
    words = ["-j", "renice", "tcp_lp", *conditions]
    process = slow.popen(*words, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    kernel.eventually(lambda: chosen(moved) == "tcp_lp", 30, "the first walk", every_s=0.005)
    process.send_signal(signal.SIGSTOP)
    os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)  # within a walk it stops at the end of it
    act()
    process.send_signal(signal.SIGCONT)
    out, err = process.communicate(timeout=30)
    result = Result(process.returncode, out, err)
    assert result.code == code, result
    answer: dict[str, Any] = result.json
    return answer | ({"error": result.error} if code else {})


def sent(transfer: Transfer) -> tuple[object, ...]:
    """Conditions that are true of what the transfer sends."""
    return ("--port", transfer.port, "--dst", "10.77.0.2")


def test_a_connection_that_is_closed_before_it_is_verified(enabled: Cli, transfer: Transfer, slow_setns: Path) -> None:
    answer = moved_then(enabled, transfer.sender, slow_setns, lambda: kernel.abort(transfer.sender), *sent(transfer))
    assert (answer["moved"], answer["closed"], answer["refused"]) == (0, 1, 0)
    assert [t["outcome"] for t in answer["transfers"]] == ["closed"]


def test_a_program_that_takes_its_controller_back_is_moved_again(enabled: Cli, transfer: Transfer, slow_setns: Path) -> None:
    answer = moved_then(enabled, transfer.sender, slow_setns, lambda: kernel.choose(transfer.sender, "cubic"), *sent(transfer))
    assert (answer["moved"], answer["closed"]) == (1, 0)
    assert chosen(transfer.sender) == "tcp_lp"


def take_away(cli: Cli) -> None:
    """Disables the controller as `ccbpf disable` cannot while `renice` holds the lock: without it."""
    (cli.root / "tcp_lp" / "link").unlink()
    kernel.eventually(lambda: "tcp_lp" not in kernel.available(), 10, "it is not registered")


def test_a_controller_that_is_disabled_meanwhile(
    enabled: Cli, transfer: Transfer, slow_setns: Path, server: socket.socket
) -> None:
    """After it was found to be there and has been given to the connection of the first namespace."""
    with socket.create_connection(server.getsockname()) as near, server.accept()[0] as far:
        answer = moved_then(enabled, near, slow_setns, lambda: take_away(enabled), "--pid", os.getpid(), code=1)
        assert chosen(near) == chosen(far) == "tcp_lp"
    assert transfer.controllers() == {"cubic"}
    assert answer["moved"] >= 2 and (answer["refused"], answer["lost"]) == (2, 0)  # this process may have other connections
    why = "the controller was disabled meanwhile"
    assert [t["why"] for t in answer["transfers"] if t["outcome"] == "refused"] == [why] * 2
    assert (answer["error"]["on"], answer["error"]["why"]) == (f"2 of {answer['moved'] + 2} transfers", why)
    transfer.goes_on()
    transfer.finish()


def test_a_program_that_takes_its_controller_back_for_good(enabled: Cli, transfer: Transfer, slow_setns: Path) -> None:
    """The kernel refuses to move it once more."""

    def take_back() -> None:
        kernel.choose(transfer.sender, "cubic")
        take_away(enabled)

    answer = moved_then(enabled, transfer.sender, slow_setns, take_back, *sent(transfer), code=1)
    assert (answer["moved"], answer["refused"], answer["lost"]) == (0, 0, 1)
    (lost,) = answer["transfers"]
    assert (lost["from"], lost["outcome"], lost["why"]) == ("cubic", "lost", "its program took it back")
    assert (answer["error"]["on"], answer["error"]["why"]) == ("1 of 1 transfer", "its program took it back")
    transfer.goes_on()
    transfer.finish()


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
