# SPDX-License-Identifier: GPL-2.0-only
"""Fixtures of the command's tests: libraries that change the system's answers to it, an enabled controller, transfers."""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests import registry
from tests.functional import kernel
from tests.functional.cli.exporter import Exporter, serving
from tests.functional.cli.transfer import ADDRESSES, Pair, Transfer
from tests.functional.conftest import Cli, preload
from tests.functional.line import DEV, Line
from tests.functional.records import flows_of, settle

HERE = Path(__file__).parent


@pytest.fixture(scope="session")
def vanish(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return preload(tmp_path_factory.mktemp("preload"), HERE / "vanish.c")


@pytest.fixture(scope="session")
def slow_setns(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return preload(tmp_path_factory.mktemp("preload"), HERE / "slow_setns.c")


@pytest.fixture(scope="session")
def slow_walk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return preload(tmp_path_factory.mktemp("preload"), HERE / "slow_walk.c")


@pytest.fixture(scope="module")
def watching(bpffs: Path) -> Iterator[Cli]:
    """A gateway has a map of flows too, in which a test may write records of any controller: none needs to be registered."""
    cli = Cli(registry.hook_pins("watching"))
    with kernel.joined() as (namespace, _):
        with kernel.inside(namespace.name):
            cli("gateway", "attach", "veth0", "--host", "192.0.2.0/24")
        yield cli
        cli("clean", "--all")


@pytest.fixture
def flows(watching: Cli) -> Iterator[kernel.Map]:
    """Empty when a test starts."""
    with flows_of(watching) as flows:
        yield flows


@pytest.fixture
def exporter(hooks: Cli) -> Iterator[Exporter]:
    """In a network namespace of its own: crowds of clients have ports that no other test selects, and are in nobody's rules."""
    with kernel.Namespace("exporter") as namespace:
        prefix = ("nsenter", f"--net=/run/netns/{namespace.name}")
        with serving(hooks.without_quarantine(), prefix=prefix, namespace=namespace.name) as exporter:
            yield exporter


@pytest.fixture
def own_network() -> Iterator[None]:
    """The test, and what it starts, are in a network namespace of their own, whose default controller and ECN they may change. On
    the host the connections that another worker begins meanwhile would be flows of that controller, and keep its maps."""
    with kernel.Namespace("own") as namespace, kernel.inside(namespace.name):
        yield


@pytest.fixture
def enabled(ccbpf: Cli) -> Cli:
    ccbpf("enable", "tcp_lp")
    return ccbpf


@pytest.fixture
def transfers(netns_pair: Pair) -> Iterator[dict[str, Transfer]]:
    """One of each kind of address, at the same time."""
    with kernel.no_kernel_warning(), ExitStack() as stack:
        yield {kind: stack.enter_context(Transfer(*netns_pair, address)) for kind, address in ADDRESSES.items()}


@pytest.fixture
def transfer(netns_pair: Pair) -> Iterator[Transfer]:
    with Transfer(*netns_pair, ADDRESSES["IPv4"]) as transfer:
        yield transfer


@pytest.fixture
def everything(line: Line) -> Iterator[Cli]:
    """Something of all that has metrics, none of which does anything: a queue, controllers, a rule with a connection, a unit (that of
    this process), a command of `ccbpf run`."""
    cli = line.ccbpf
    line.tbf()
    line.aqm("attach", DEV)
    cli("enable", "tcp_lp")
    with kernel.Sink(line.near, "127.0.0.1") as sink, line.near.socket() as sock:
        cli("assign", "tcp_lp", "--remote-port", sink.address[1], "--netns", line.near.name)
        sock.connect(sink.address)
        sock.sendall(bytes(1000))
        kernel.eventually(lambda: sink.received == 1000, 5, "it is received")
        settle(cli, sock)
        with cli.popen("run", "-q", "--", "sh", "-c", "echo; cat", stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
            assert process.stdin and process.stdout and process.stdout.readline()
            yield cli
            process.stdin.close()


@pytest.fixture
def server() -> Iterator[socket.socket]:
    """In the namespace of this process, which is the first that renice visits."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(10)
        yield server
