# SPDX-License-Identifier: GPL-2.0-only
"""Multipath TCP: what each of two subflows sends is in the background, or has the choice of its program. How downloads are held is
in test_download_sockets.py."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.functional import kernel
from tests.functional.conftest import Cli
from tests.functional.rules.background import BACKGROUND, ENDS_S, PYTHON, account
from tests.functional.rules.routes import Pair

NEAR, SECOND, FAR = "10.77.0.1", "10.77.0.3", "10.77.0.2"
FIRST_BYTES = 100_000  # that a subflow has sent before a test looks

# Says its port, accepts a connection, and reads it until its end.
SINK = """
import socket
s = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_MPTCP)
s.bind(("", 0)); s.listen()
print(s.getsockname()[1], flush=True)
c = s.accept()[0]
while c.recv(1 << 20): pass
"""

# Connects, perhaps with a controller of its own choice, and sends again and again until its input ends.
SENDER = """
import select, socket, sys
s = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_MPTCP)
for name in sys.argv[3:]: s.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, name.encode())
s.connect((sys.argv[1], int(sys.argv[2])))
while not select.select([sys.stdin], [], [], 0.01)[0]: s.sendall(bytes(20_000))
"""


@dataclass(frozen=True)
class Hosts:
    """Two hosts. The first has two addresses: its connections have two subflows."""

    near: kernel.Namespace
    far: kernel.Namespace
    port: int  # of the sink on the second

    def sender(self, *chosen: str) -> list[str]:
        """The words of a sender on the first."""
        return ["ip", "netns", "exec", self.near.name, PYTHON, "-c", SENDER, FAR, str(self.port), *chosen]

    def controllers(self, host: kernel.Namespace) -> dict[str, str]:
        """Of the subflows, as a host has them, by the address of the first host."""
        lines = host.run("ss", "-tinHO", "state", "established", f"( sport = :{self.port} or dport = :{self.port} )").stdout
        ends = [line.split() for line in lines.splitlines()]  # queues, local and remote address, controller
        places = slice(2, 4)
        return {
            next(address for address in (NEAR, SECOND) if any(end.startswith(address) for end in words[places])): words[4]
            for words in ends
        }

    def two(self, host: kernel.Namespace) -> dict[str, str]:
        """The same, once there are two."""
        return kernel.eventually(lambda: len(now := self.controllers(host)) == 2 and now, ENDS_S, "two subflows")


@pytest.fixture
def hosts(netns_pair: Pair) -> Iterator[Hosts]:
    if not Path("/proc/sys/net/mptcp").exists():
        pytest.skip("this kernel has no MPTCP")
    near, far = netns_pair
    near.ip("address", "add", f"{SECOND}/24", "dev", "veth0")
    near.ip("mptcp", "endpoint", "add", SECOND, "dev", "veth0", "subflow")
    sink = kernel.start(far, PYTHON, "-c", SINK)
    yield Hosts(near, far, int(kernel.eventually(sink.output, ENDS_S, "its port")))
    sink.end()


@contextmanager
def sending(hosts: Hosts, *chosen: str) -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(hosts.sender(*chosen), stdin=subprocess.PIPE) as process:
        assert process.stdin
        try:
            yield process
        finally:
            process.stdin.close()
            process.wait(ENDS_S)


def both(name: str) -> dict[str, str]:
    """The same of each subflow."""
    return {NEAR: name, SECOND: name}


def flows(cli: Cli) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = cli("-j", "flows").json["flows"]
    return found


def counts(cli: Cli) -> tuple[int, int]:
    """What the only rule has set, and kept."""
    (rule,) = cli("-j", "assign", "list").json["rules"]
    return rule["counts"]["set"], rule["counts"]["kept"]


def test_a_run_that_uploads(run: Cli, hosts: Hosts) -> None:
    """`flows` knows whose the subflows are, but not their process (docs/limits.md)."""
    words = ["-j", "run", "-u", "--", *hosts.sender()]
    process = run.popen(*words, stdin=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        assert hosts.two(hosts.near) == both(BACKGROUND)
        kernel.eventually(lambda: sum(flow["bytes_acked"] for flow in flows(run)) > FIRST_BYTES, ENDS_S, "its data")
        assert {flow["local_addr"]: flow["controller"] for flow in flows(run)} == both(BACKGROUND)
        assert {flow["local_addr"]: flow["origin"]["by"] for flow in flows(run)} == both("run")
        assert [flow["origin"]["processes"] for flow in flows(run)] == [[], []]
        assert run("-v", "flows").out.count("process unknown") == 2
    finally:
        _, err = process.communicate("", timeout=ENDS_S)
    found = account(err)["counts"]
    assert (found["set"], found["kept"], found["opened"], found["closed"]) == (2, 0, 2, 2)
    assert found["bytes"] > FIRST_BYTES


@pytest.mark.parametrize("side", ["connects", "accepts"])
def test_a_rule(run: Cli, hosts: Hosts, side: str) -> None:
    connects = side == "connects"
    host = hosts.near if connects else hosts.far
    run("assign", "--remote-port" if connects else "--local-port", hosts.port, "--netns", host.name)
    with sending(hosts):
        assert hosts.two(host) == both(BACKGROUND)
        assert BACKGROUND not in hosts.two(hosts.far if connects else hosts.near).values()
        assert counts(run) == (2, 0)


def test_the_choice_of_the_program_is_kept(run: Cli, hosts: Hosts) -> None:
    """The kernel hands it on to the second subflow."""
    run("assign", "--remote-port", hosts.port, "--netns", hosts.near.name)
    with sending(hosts, "reno"):
        assert hosts.two(hosts.near) == both("reno")
        assert counts(run) == (0, 2)


def test_running_ones_are_moved(run: Cli, hosts: Hosts) -> None:
    """By their process as well, though it has a descriptor of the connection only."""
    with sending(hosts) as process:
        before = hosts.two(hosts.near)
        assert run("-j", "renice", BACKGROUND, "--pid", process.pid).json["moved"] == 2
        assert hosts.two(hosts.near) == both(BACKGROUND) != before
        assert run("-j", "renice", "reno", "--dst", FAR, "--port", hosts.port).json["moved"] == 2
        assert hosts.two(hosts.near) == both("reno")
