# SPDX-License-Identifier: GPL-2.0-only
"""renice: running transfers get another controller, in every namespace, and arrive whole; what is not asked for is left alone.

A transfer has two sockets, one in each of two namespaces, and both match a condition on its port. No condition here matches a
connection of somebody else.
"""

from __future__ import annotations

import ctypes
import hashlib
import json
import os
import random
import resource
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from tests.functional import kernel
from tests.functional.cli.test_lifecycle import UNPRIVILEGED
from tests.functional.conftest import Cli
from tests.functional.kernel import Namespace, chosen

CHUNK = 1 << 14
PAUSE_S = 0.002  # between two chunks: a transfer that lasts as long as its test
MANY = 2000
MOVES = 40
MANY_S = 10.0  # a few seconds on a machine that does nothing else
HELD_S = 60.0  # a child that holds a connection ends by then
Pair = tuple[Namespace, Namespace]


class Transfer:
    """Random bytes from one namespace to another until finish(), which compares what was sent with what arrived."""

    def __init__(self, here: Namespace, there: Namespace, address: str, controller: str = "cubic") -> None:
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        with there.socket(family) as server:
            server.bind((address, 0))
            server.listen()
            self.port: int = server.getsockname()[1]
            self.sender = here.socket(family)
            kernel.choose(self.sender, controller)
            self.sender.connect((address, self.port))
            self.receiver, _ = server.accept()
        kernel.choose(self.receiver, controller)
        self.sent, self.received = hashlib.sha256(), hashlib.sha256()
        self.bytes = 0
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=run, daemon=True) for run in (self._send, self._receive)]
        for thread in self._threads:
            thread.start()

    def _send(self) -> None:
        draw = random.Random(self.port)
        with suppress(OSError):  # the test has closed it
            while not self._stop.is_set():
                data = draw.randbytes(CHUNK)
                self.sender.sendall(data)
                self.sent.update(data)
                time.sleep(PAUSE_S)
            self.sender.shutdown(socket.SHUT_WR)

    def _receive(self) -> None:
        with suppress(OSError):
            while data := self.receiver.recv(1 << 16):
                self.received.update(data)
                self.bytes += len(data)

    def controllers(self) -> set[str]:
        return {chosen(self.sender), chosen(self.receiver)}

    def goes_on(self) -> None:
        before = self.bytes
        kernel.eventually(lambda: self.bytes > before + 4 * CHUNK, 5, "more data arrives")

    def finish(self) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(5)
        assert self.bytes
        assert self.sent.digest() == self.received.digest()

    def close(self) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(5)
        for sock in (self.sender, self.receiver):
            sock.close()

    def __enter__(self) -> Transfer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


ADDRESSES = {"IPv4": "10.77.0.2", "IPv6": "fd77::2", "v4-mapped": "::ffff:10.77.0.2"}


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


# --- moved, and moved back ---


def test_running_transfers_move_and_come_back_and_arrive_whole(
    enabled: Cli, transfers: dict[str, Transfer], netns_pair: Pair
) -> None:
    for kind, transfer in transfers.items():
        transfer.goes_on()
        answer = enabled("-j", "renice", "tcp_lp", "--port", transfer.port).json
        assert (answer["to"], answer["dry_run"], answer["moved"], answer["refused"]) == ("tcp_lp", False, 2, 0)
        shown = {t["netns"]: t for t in answer["transfers"]}
        assert shown.keys() == {netns.inode for netns in netns_pair}
        sent = shown[netns_pair[0].inode]
        assert (sent["netns_name"], sent["from"], sent["outcome"], sent["why"]) == (netns_pair[0].name, "cubic", "moved", None)
        assert (sent["remote_addr"], sent["remote_port"]) == (ADDRESSES[kind], transfer.port)
        assert sent["local_port"] == transfer.sender.getsockname()[1]
        assert transfer.controllers() == {"tcp_lp"}
    for transfer in transfers.values():
        transfer.goes_on()
    ports = {flow["remote_port"] for flow in enabled("-j", "flows", "tcp_lp").json["flows"]}
    assert ports >= {transfer.port for transfer in transfers.values()}
    answer = enabled("-j", "renice", "cubic", "--from", "tcp_lp").json
    assert (answer["moved"], {t["from"] for t in answer["transfers"]}) == (2 * len(transfers), {"tcp_lp"})
    for transfer in transfers.values():
        assert transfer.controllers() == {"cubic"}
        transfer.goes_on()
        transfer.finish()
    kernel.eventually(lambda: not enabled("-j", "flows").json["flows"], 5, "their records are gone")


@pytest.mark.parametrize("name", kernel.KINDS)
def test_every_controller_takes_over_amid_a_transfer(ccbpf: Cli, transfer: Transfer, name: str) -> None:
    """ltcp as well, which only the privileged may select."""
    ccbpf("enable", name)
    with kernel.no_kernel_warning():
        transfer.goes_on()
        ccbpf("renice", name, "--port", transfer.port)
        assert transfer.controllers() == {name}
        transfer.goes_on()
        flows = ccbpf("-j", "flows", name).json["flows"]
        assert transfer.port in {flow["remote_port"] for flow in flows}
        ccbpf("renice", "cubic", "--from", name)
        transfer.goes_on()
        transfer.finish()


def test_moves_amid_losses(ccbpf: Cli, netns_pair: Pair, transfers: dict[str, Transfer]) -> None:
    """init() and release() run in every state of loss recovery; nothing is lost for the program, and the kernel does not warn."""
    ccbpf("enable", *kernel.KINDS)
    netns_pair[0].run("tc", "qdisc", "add", "dev", "veth0", "root", *"tbf rate 20mbit burst 5k limit 20k".split())
    draw = random.Random(1)
    for _ in range(MOVES):
        name = draw.choice([*kernel.KINDS, "cubic", "reno"])
        result = ccbpf.run("renice", name, "--pid", os.getpid(), "--dst", draw.choice(["10.77.0.0/24", "fd77::/64"]))
        assert result.code in (0, 5), result
        time.sleep(draw.uniform(0, 0.1))
    shown = json.loads(netns_pair[0].run("tc", "-j", "-s", "qdisc", "show", "dev", "veth0").stdout)
    assert shown[0]["drops"] > MOVES
    netns_pair[0].run("tc", "qdisc", "del", "dev", "veth0", "root")
    for transfer in transfers.values():
        transfer.goes_on()
        transfer.finish()


def test_a_dry_run_changes_nothing(enabled: Cli, transfer: Transfer) -> None:
    for flag in ("-n", "--dry-run"):
        answer = enabled("-j", "renice", "tcp_lp", "--port", transfer.port, flag).json
        assert (answer["dry_run"], answer["moved"], answer["would_move"]) == (True, 0, 2)
        assert {t["outcome"] for t in answer["transfers"]} == {"would_move"}
    assert transfer.controllers() == {"cubic"}
    everything = enabled("-j", "renice", "tcp_lp", "--all", "-n").json["transfers"]
    assert transfer.port in {t["remote_port"] for t in everything}


def test_the_table_says_what_was_moved_where(enabled: Cli, transfers: dict[str, Transfer], netns_pair: Pair) -> None:
    said = enabled("renice", "tcp_lp", "--dst", "10.77.0.2", "-v").out
    lines = said.splitlines()
    assert lines[0].split() == ["NETNS", "LOCAL", "REMOTE", "CONTROLLER", "OUTCOME"]
    (line,) = [line for line in lines if f" 10.77.0.2:{transfers['IPv4'].port} " in line]
    assert "cubic → tcp_lp" in line
    assert line.endswith("moved")
    assert f"[::ffff:10.77.0.2]:{transfers['v4-mapped'].port}" in said
    assert lines[-1] == "moved 2 transfers to tcp_lp"


# --- the conditions ---


def found(cli: Cli, *conditions: object) -> set[tuple[int, int]]:
    """(local port, remote port) of what would be moved."""
    result = cli.run("-j", "renice", "tcp_lp", "-n", *conditions)
    assert result.code in (0, 5), result
    return {(t["local_port"], t["remote_port"]) for t in result.json["transfers"]} if result.code == 0 else set()


def ends(transfer: Transfer) -> tuple[tuple[int, int], tuple[int, int]]:
    """The ports as the sender has them, and as the receiver has them."""
    port = transfer.sender.getsockname()[1]
    return (port, transfer.port), (transfer.port, port)


def test_by_destination(enabled: Cli, transfers: dict[str, Transfer]) -> None:
    four, six, mapped = (ends(transfers[kind])[0] for kind in ADDRESSES)
    back = {ends(transfers[kind])[1] for kind in ("IPv4", "v4-mapped")}
    assert found(enabled, "--dst", "10.77.0.2") == {four, mapped}
    assert found(enabled, "--dst", "10.77.0.0/24") == {four, mapped} | back
    assert found(enabled, "--dst", "10.77.0.2/31") == {four, mapped}
    assert found(enabled, "--dst", "::ffff:10.77.0.2/127") == {four, mapped}
    assert found(enabled, "--dst", "10.77.0.4/30") == set()
    assert found(enabled, "--dst", "fd77::2") == {six}
    assert found(enabled, "--dst", "fd77::/64") == set(ends(transfers["IPv6"]))
    every_v6 = found(enabled, "--dst", "::/0")
    assert six in every_v6
    assert not {four, mapped} & every_v6
    every_v4 = found(enabled, "--dst", "0.0.0.0/0")
    assert {four, mapped} < every_v4
    assert six not in every_v4


def test_by_port_on_either_side(enabled: Cli, transfers: dict[str, Transfer]) -> None:
    for transfer in transfers.values():
        assert found(enabled, "--port", transfer.port) == set(ends(transfer))
        assert found(enabled, "--port", transfer.sender.getsockname()[1]) == set(ends(transfer))


def test_several_conditions_must_all_hold(enabled: Cli, transfers: dict[str, Transfer]) -> None:
    four, mapped = transfers["IPv4"], transfers["v4-mapped"]
    kernel.choose(four.sender, "reno")
    assert found(enabled, "--dst", "10.77.0.2", "--from", "reno") == {ends(four)[0]}
    assert found(enabled, "--dst", "10.77.0.2", "--from", "cubic") == {ends(mapped)[0]}
    assert found(enabled, "--dst", "10.77.0.2", "--port", four.port) == {ends(four)[0]}
    assert found(enabled, "--dst", "fd77::2", "--port", four.port) == set()
    assert found(enabled, "--pid", os.getpid(), "--dst", "10.77.0.2") == {ends(four)[0], ends(mapped)[0]}


def test_what_had_the_controller_is_not_counted_by_from(enabled: Cli, transfers: dict[str, Transfer]) -> None:
    kernel.choose(transfers["IPv6"].sender, "tcp_lp")
    answer = enabled("-j", "renice", "tcp_lp", "--dst", "fd77::/64", "--from", "cubic").json
    assert (answer["moved"], answer["has_it"], answer["closed"]) == (1, 0, 0)
    assert chosen(transfers["IPv6"].receiver) == "tcp_lp"


# --- processes and cgroups ---

HOLD = """
import os, socket, sys, time
host, port, cgroup, seconds = sys.argv[1], int(sys.argv[2]), sys.argv[3], float(sys.argv[4])
if cgroup:
    open(f"{cgroup}/cgroup.procs", "w").write(str(os.getpid()))
sock = socket.create_connection((host, port))
print(sock.getsockname()[1], flush=True)
sys.stdin.read()
"""


@contextmanager
def holding(server: socket.socket, cgroup: object = "") -> Iterator[tuple[subprocess.Popen[str], int, socket.socket]]:
    """A process that holds a connection to the server; its port, and our end."""
    host, port = server.getsockname()[:2]
    words = [sys.executable, "-c", HOLD, host, str(port), str(cgroup), str(HELD_S)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin
        assert process.stdout
        connection, _ = server.accept()
        try:
            yield process, int(process.stdout.readline()), connection
        finally:
            connection.close()
            process.stdin.close()
            process.wait(HELD_S)


@pytest.fixture
def server() -> Iterator[socket.socket]:
    """In the namespace of this process, which is the first that renice visits."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(10)
        yield server


def test_by_process(enabled: Cli, server: socket.socket) -> None:
    port = server.getsockname()[1]
    with holding(server) as (first, a, _), holding(server) as (second, b, _):
        assert found(enabled, "--pid", first.pid) == {(a, port)}
        assert found(enabled, "--pid", first.pid, "--pid", second.pid) == {(a, port), (b, port)}
        assert found(enabled, "--pid", os.getpid(), "--port", port) == {(port, a), (port, b)}
        assert "no running transfer matches" in enabled("renice", "tcp_lp", "--pid", 1, "--port", port, code=5).err


@pytest.fixture
def cgroups() -> Iterator[tuple[Path, str]]:
    """A cgroup v2 of our own and its name below the hierarchy's root: outer, with two below it."""
    mounts = [line.split() for line in Path("/proc/self/mounts").read_text().splitlines()]
    root = next(Path(fields[1]) for fields in mounts if fields[2] == "cgroup2")
    outer = root / f"ccbpf-test-{os.getpid()}"
    inside = [outer / "a.slice/backup@1.service", outer / "b.slice/backup@1.service", outer / "a.slice/deep"]
    for path in inside:
        path.mkdir(parents=True)
    yield outer, outer.name
    for path in sorted((p for p in outer.rglob("*") if p.is_dir()), key=lambda p: -len(p.parts)):
        path.rmdir()
    outer.rmdir()


def test_by_cgroup_with_those_below(enabled: Cli, server: socket.socket, cgroups: tuple[Path, str]) -> None:
    outer, name = cgroups
    port = server.getsockname()[1]
    with holding(server, outer / "a.slice/deep") as (_, a, _), holding(server, outer / "b.slice/backup@1.service") as (_, b, _):
        deep, other = (a, port), (b, port)
        assert found(enabled, "--cgroup", outer) == {deep, other}
        assert found(enabled, "--cgroup", f"/{name}") == {deep, other}
        assert found(enabled, "--cgroup", f"{name}/a.slice") == {deep}
        assert found(enabled, "--cgroup", f"{name}/a.slice/deep") == {deep}
        assert found(enabled, "--cgroup", outer / "b.slice") == {other}
        assert found(enabled, "--cgroup", outer / "a.slice/backup@1.service") == set()
        assert found(enabled, "--cgroup", outer.parent, "--port", port) >= {deep, other}
        enabled("renice", "tcp_lp", "--cgroup", f"{name}/a.slice")
        assert found(enabled, "--cgroup", outer) == {other}


def test_by_cgroup_where_ip_hides_the_hierarchy(
    enabled: Cli, server: socket.socket, cgroups: tuple[Path, str], netns_pair: Pair
) -> None:
    """`ip netns exec` mounts a /sys of its own; the namespace of this process is found as well."""
    outer, name = cgroups
    port = server.getsockname()[1]
    with holding(server, outer / "a.slice/deep") as (_, a, _):
        for cgroup in (outer, f"/{name}", f"{name}/a.slice"):
            words = ("-j", "renice", "reno", "-n", "--cgroup", cgroup)
            seen = enabled(*words, prefix=("ip", "netns", "exec", netns_pair[0].name)).json["transfers"]
            assert [(t["local_port"], t["remote_port"]) for t in seen] == [(a, port)]


def test_by_unit(enabled: Cli, server: socket.socket, cgroups: tuple[Path, str]) -> None:
    outer, name = cgroups
    port = server.getsockname()[1]
    (outer / "a.slice/only.service").mkdir()
    with holding(server, outer / "a.slice/only.service") as (_, a, _):
        assert found(enabled, "--cgroup", "unit:only.service") == {(a, port)}
        assert found(enabled, "--cgroup", "unit:only") == {(a, port)}
    said = enabled("renice", "tcp_lp", "--cgroup", "unit:backup@1", code=2).err
    assert f"/{name}/a.slice/backup@1.service" in said
    assert f"/{name}/b.slice/backup@1.service" in said


# --- what is left alone, and what is refused ---


def test_listeners_and_handshakes_are_left_alone(enabled: Cli, netns_pair: Pair) -> None:
    here, there = netns_pair
    with there.socket() as server, here.socket() as waiting:
        server.bind(("10.77.0.2", 0))
        server.listen()
        port = server.getsockname()[1]
        said = enabled("renice", "tcp_lp", "--port", port, code=5).err
        assert "no running transfer matches" in said
        assert "(1)" in said
        waiting.setblocking(False)
        assert waiting.connect_ex(("10.77.0.99", port))  # nobody is there
        assert chosen(server) == chosen(waiting) != "tcp_lp"
        with Transfer(here, there, "10.77.0.2") as transfer:
            answer = enabled("-j", "renice", "tcp_lp", "--dst", "10.77.0.0/24").json
            assert (answer["moved"], answer["connects"], answer["listens"]) == (2, 1, 0)
            assert transfer.controllers() == {"tcp_lp"}
        assert chosen(waiting) != "tcp_lp"


def test_a_route_that_locks_the_controller_refuses(enabled: Cli, netns_pair: Pair) -> None:
    here, there = netns_pair
    here.ip("route", "add", "10.77.0.2/32", "dev", "veth0", "congctl", "lock", "reno")
    with Transfer(here, there, "10.77.0.2") as transfer:
        assert chosen(transfer.sender) == "reno"
        plain = enabled("renice", "tcp_lp", "--port", transfer.port, code=1)
        assert "its route locks the controller" in plain.err
        assert "1 of 2 transfers" in plain.err
        assert "refused" in plain.out
        assert (chosen(transfer.sender), chosen(transfer.receiver)) == ("reno", "tcp_lp")
        enabled("renice", "cubic", "--from", "tcp_lp")
        json_run = enabled("-j", "renice", "tcp_lp", "--port", transfer.port, code=1)
        answer = json.loads(json_run.out)
        assert (answer["moved"], answer["refused"], json_run.error["exit"]) == (1, 1, 1)
        (refused,) = [t for t in answer["transfers"] if t["outcome"] == "refused"]
        assert "congctl" in refused["why"]
        transfer.goes_on()
        transfer.finish()


NOT = {
    "no controller": (["--all"], 2, "no controller is named"),
    "two controllers": (["cubic", "reno", "--all"], 2, "only one controller"),
    "no condition": (["cubic"], 2, "no condition"),
    "all and another": (["cubic", "--all", "--port", "1"], 2, "no other condition"),
    "unknown": (["no_such_cc", "--all"], 2, "neither ccbpf nor this kernel"),
    "name too long": (["x" * 16, "--all"], 2, "1 to 15 bytes"),
    "not enabled": (["tcp_lp", "--all"], 5, "`ccbpf enable tcp_lp` enables it"),
    "port 0": (["cubic", "--port", "0"], 2, "1 to 65535"),
    "port too large": (["cubic", "--port", "65536"], 2, "1 to 65535"),
    "port with a tail": (["cubic", "--port", "80x"], 2, "1 to 65535"),
    "no address": (["cubic", "--dst", "example.org"], 2, "not an address or a prefix"),
    "empty address": (["cubic", "--dst", ""], 2, "not an address or a prefix"),
    "prefix too long": (["cubic", "--dst", "192.0.2.0/33"], 2, "not an address or a prefix"),
    "prefix of nothing": (["cubic", "--dst", "192.0.2.0/"], 2, "not an address or a prefix"),
    "bits behind the prefix": (["cubic", "--dst", "192.0.2.1/24"], 2, "bits set behind its prefix"),
    "long address": (["cubic", "--dst", "1" * 4000], 2, "not an address or a prefix"),
    "not a pid": (["cubic", "--pid", "self"], 2, "not the id of a process"),
    "no process": (["cubic", "--pid", "4194303"], 1, "no such process"),
    "no cgroup": (["cubic", "--cgroup", "/no-such-cgroup"], 1, "No such file"),
    "another file system": (["cubic", "--cgroup", "../../../../../../../proc"], 1, "not a cgroup"),
    "no unit": (["cubic", "--cgroup", "unit:no-such-unit"], 1, "no running unit"),
    "a path as a unit": (["cubic", "--cgroup", "unit:../x"], 1, "no running unit"),
    "nothing matches": (["cubic", "--dst", "192.0.2.1"], 5, "no running transfer matches"),
}


@pytest.mark.parametrize("arguments, code, says", NOT.values(), ids=NOT.keys())
def test_what_cannot_be_done(ccbpf: Cli, arguments: list[str], code: int, says: str) -> None:
    plain = ccbpf("renice", *arguments, code=code)
    assert plain.out == ""
    assert says in plain.err
    error = ccbpf("-j", "renice", *arguments, code=code).error
    assert (error["what"], error["exit"]) == ("renice", code)
    assert not ccbpf.root.exists()


def test_what_has_it_already_is_nothing_to_do(enabled: Cli, transfer: Transfer) -> None:
    enabled("renice", "tcp_lp", "--port", transfer.port)
    assert "2 transfers, has it already" in enabled("renice", "tcp_lp", "--port", transfer.port, code=5).err


def test_the_unprivileged_may_move_nothing(enabled: Cli, transfer: Transfer) -> None:
    words = ["renice", "tcp_lp", "--port", transfer.port]
    assert "cap_net_admin" in enabled(*words, code=4, prefix=UNPRIVILEGED).err
    assert "cap_net_admin" in enabled(*words, "-n", code=4, prefix=UNPRIVILEGED).err
    assert "cap_net_admin" in enabled(*words, code=4, prefix=("setpriv", "--bounding-set=-net_admin")).err
    assert transfer.controllers() == {"cubic"}


def test_a_namespace_that_cannot_be_entered_is_named(
    enabled: Cli, transfer: Transfer, netns_pair: Pair, server: socket.socket
) -> None:
    with socket.create_connection(server.getsockname()) as ours:
        port = server.getsockname()[1]
        said = enabled("renice", "tcp_lp", "--port", port, prefix=("setpriv", "--bounding-set=-sys_admin")).err
        for netns in netns_pair:
            assert (
                f"network namespace {netns.name} ({netns.inode}): it cannot be entered: this process lacks cap_sys_admin" in said
            )
        assert chosen(ours) == "tcp_lp"


def test_a_namespace_that_only_a_thread_is_in(enabled: Cli) -> None:
    """No file names it but that thread's."""
    ready, done = threading.Event(), threading.Event()
    seen: dict[str, object] = {}

    def run() -> None:
        assert ctypes.CDLL(None).unshare(kernel.CLONE_NEWNET) == 0
        subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
        with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as sock:
            seen["port"] = server.getsockname()[1]
            ready.set()
            done.wait(HELD_S)
            seen["chosen"] = chosen(sock)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    assert ready.wait(10)
    answer = enabled("-j", "renice", "tcp_lp", "--port", seen["port"]).json
    done.set()
    thread.join(10)
    assert seen["chosen"] == "tcp_lp"
    assert {" ".join(t["netns_name"].split()[:2]) for t in answer["transfers"]} == {f"of {os.getpid()}"}


# --- many, and in the middle of something ---


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
    """The answer, if this happens between the walk that moves the sender's socket and the one that verifies it."""
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
