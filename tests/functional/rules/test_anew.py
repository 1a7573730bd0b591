# SPDX-License-Identifier: GPL-2.0-only
"""A socket that its program disconnects (connect() with AF_UNSPEC) and connects anew. The kernel still knows that somebody had chosen a
controller for it: that a rule, a run or a unit has done so for the connection before is no choice of the program."""

from __future__ import annotations

import ctypes
import socket
import struct
import subprocess
from collections.abc import Iterator

import pytest

from tests.functional import kernel
from tests.functional.conftest import Cli
from tests.functional.rules.background import ANEW_BYTES, BACKGROUND, ENDS_S, account, anew, answer
from tests.functional.rules.downloads import Server, counts, serving
from tests.functional.rules.test_origins import origin_of

ENABLED = BACKGROUND, "tcp_lp"
LIBC = ctypes.CDLL(None, use_errno=True)
AF_UNSPEC = struct.pack("=H14x", 0)


@pytest.fixture
def other() -> Iterator[Server]:
    with serving("127.0.0.1") as server:
        yield server


def connected(near: socket.socket, server: Server) -> tuple[str, socket.socket]:
    """The controller of a new connection of this socket, and its other end."""
    near.connect(server.listener.getsockname())
    return kernel.chosen(near), server.listener.accept()[0]


def disconnect(near: socket.socket) -> None:
    assert LIBC.connect(near.fileno(), AF_UNSPEC, len(AF_UNSPEC)) == 0


def test_by_rules(run: Cli, server: Server, other: Server) -> None:
    """Each connection is of its own rule, and each rule counts its own."""
    for at, name in ((server, "tcp_lp"), (other, BACKGROUND)):
        run("assign", name, "--dscp", "le", "--remote-port", at.port)
    with socket.socket() as near:
        for at, rule, name in ((server, 1, "tcp_lp"), (other, 2, BACKGROUND), (other, 2, BACKGROUND), (server, 1, "tcp_lp")):
            chosen, far = connected(near, at)
            with far:
                assert chosen == name
                assert origin_of(run, near.getsockname()[1])["id"] == rule
                disconnect(near)
    for rule in (1, 2):
        assert (counts(run, rule)["set"], counts(run, rule)["kept"]) == (2, 0)


def test_what_its_program_chooses_is_kept(run: Cli, server: Server) -> None:
    """Before its first connection, and between two."""
    run("assign", "tcp_lp", "--remote-port", server.port)
    for first in ("", "reno"):
        with socket.socket() as near:
            if first:
                kernel.choose(near, first)
            for wanted in (first or "tcp_lp", "cubic", "cubic"):
                chosen, far = connected(near, server)
                with far:
                    assert chosen == wanted
                    disconnect(near)
                if wanted != "cubic":
                    kernel.choose(near, "cubic")
    assert (counts(run)["set"], counts(run)["kept"]) == (1, 5)


def test_after_renice(run: Cli, server: Server) -> None:
    """What somebody else has given since is not the rule's."""
    run("assign", "tcp_lp", "--remote-port", server.port)
    with socket.socket() as near:
        _, far = connected(near, server)
        with far:
            run("renice", BACKGROUND, "--port", near.getsockname()[1])
            disconnect(near)
        chosen, far = connected(near, server)
        with far:
            assert chosen == BACKGROUND
    assert (counts(run)["set"], counts(run)["kept"]) == (1, 1)


def test_in_a_run(run: Cli, server: Server) -> None:
    """Both are in its account, each with its own bytes."""
    child = run.popen("-j", "run", "tcp_lp", "--", *anew(server.port), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    answer(server.listener)
    out, err = child.communicate(timeout=ENDS_S)
    assert out.split() == ["tcp_lp", "tcp_lp"]
    found = account(err)["counts"]
    assert (found["set"], found["kept"], found["opened"], found["closed"], found["bytes"]) == (2, 0, 2, 2, 2 * ANEW_BYTES)
