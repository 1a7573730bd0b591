# SPDX-License-Identifier: GPL-2.0-only
"""Each command that changes something, killed with SIGKILL at random instants: the next command understands what was left.

`run`, `assign`, `apply` and `renice` are killed at 200 instants each, the others at 50. An instant is a system call, drawn
from all of the command's life (SEED=n repeats the draws): the functional tests kill before every change (kill_at.c); here the
command dies between any two system calls.

After each kill the same command finishes the work, or says that nothing is left to do, and the state is that of a command
that was never killed; `clean --all` leaves no pin, no controller, no cgroup and no program at the device, and restores the
sysctls. At every tenth instant `list`, `status`, `check`, `aqm show` and `gateway show` answer before that as usual, and the command is killed there
a second time, with `clean --all` as the next command.

The four go on at once: each has a namespace, a pin directory and controllers of its own. The verifier is most of the time, so
the controllers are those that cost it least. Half of the runs also hold back what they receive; other kills of downloads are
in the functional tests.
"""

from __future__ import annotations

import itertools
import json
import random
import socket
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from tests.cgroups import cgroups_of_runs, populated
from tests.functional import kernel
from tests.functional.conftest import Cli
from tests.functional.line import DEV, Line
from tests.hard.conftest import SEED
from tests.hard.killing import (
    DONE,
    KILLED,
    LEAST_KILLED,
    NOTHING_TO_DO,
    PLAIN,
    WHOLE_EVERY,
    Host,
    each_repaired,
    instants,
    own_host,
)

INSTANTS = 200  # of `run`, `assign`, `apply` and `renice`
FEWER = 50  # of each of the others
ENDS_S = 10.0
Killing = Callable[[Path, Path, random.Random], None]


# --- run -------------------------------------------------------------------------------------------------------------

SENT = 100_000  # bytes
SENDS = f"""#!/bin/bash
set -e
echo begun >>"$0.log"
exec 3<>/dev/tcp/127.0.0.1/%d
head -c {SENT} /dev/zero >&3 &
wait $!
echo done >>"$0.log"
"""


def run(kill_after: Path, room: Path, dice: random.Random) -> None:
    """Half of them with a command that does nothing, the others with one whose child sends. It goes on after the kill. Of each,
    half are for what is sent alone, the others for both directions."""
    script = room / "sends"
    log = Path(f"{script}.log")
    log.touch()

    def ended() -> bool:
        said = log.read_text().split()
        return said.count("begun") == said.count("done") and not populated(cgroups_of_runs())

    with own_host(kill_after, "ltcp") as host, kernel.Sink(host.line.near, "127.0.0.1") as sink:
        script.write_text(SENDS % sink.address[1])
        script.chmod(0o755)
        for options, command in itertools.product(("-u", "-ud"), ("true", str(script))):
            for instant in each_repaired(host, f"run -q {options} ltcp {command}", (), INSTANTS // 4, dice):
                kernel.eventually(ended, ENDS_S, f"{instant}: the command sends all")
        said = log.read_text().split()
        assert said.count("done") >= INSTANTS // 2, "each time that it was not killed"
        kernel.eventually(lambda: sink.received == SENT * said.count("done"), ENDS_S, "all that was sent arrives")
        assert not cgroups_of_runs()


# --- assign ----------------------------------------------------------------------------------------------------------


def assign(kill_after: Path, room: Path, dice: random.Random) -> None:
    """Half of them are the first rule, which enables the controller; the others come to a rule that is there."""
    with own_host(kill_after, "ltcp") as host:
        for earlier in ((), ("assign ltcp --local-port 873",)):
            for _ in each_repaired(host, "assign ltcp --remote 192.0.2.0/24", earlier, INSTANTS // 2, dice):
                pass


# --- apply -----------------------------------------------------------------------------------------------------------

APPLIED = """
[controller.tcp_lp]
set.delta = 100
default = true
[controller.hstcp_lp]
[[rule]]
controller = "tcp_lp"
remote = "192.0.2.0/24"
[[rule]]
controller = "hstcp_lp"
local-port = 873
"""
TO_APPLY = """
[controller.tcp_lp]
set.delta = 200
[controller.tcp_lp_ecn]
default = true
ecn = true
[[rule]]
controller = "tcp_lp_ecn"
remote = "192.0.2.0/24"
[[rule]]
controller = "tcp_lp"
remote = "2001:db8::/32"
"""


def apply(kill_after: Path, room: Path, dice: random.Random) -> None:
    """The rules are the old ones or the new ones, the one made by hand among them; the next apply finishes, and another one of
    the old file goes back."""
    old, new = (room / name for name in ("old.toml", "new.toml"))
    for file, text in ((old, APPLIED), (new, TO_APPLY)):
        file.write_text(text)
        file.chmod(0o644)
    to_old = (f"apply {old}", "assign --not --remote 192.0.2.7")
    with own_host(kill_after, "tcp_lp", "hstcp_lp", "tcp_lp_ecn") as host:
        before = host.sysctls()
        host.all(to_old)
        at_old = host.state()
        calls = host.calls(f"apply {new}")
        at_new = host.state()
        host(f"apply {old}")
        assert host.state() == at_old != at_new
        killed, seen = 0, []
        for number, at in enumerate(instants(calls, INSTANTS, dice)):
            whole = number % WHOLE_EVERY == 0
            instant = f"killed before system call {at} of {calls}"
            if whole:
                host.killed(f"apply {new}", at)
                host.clean(before, instant)
                host.all(to_old)
            killed += host.killed(f"apply {new}", at).returncode == KILLED
            if whole:
                host.assert_understood(instant)
            found = host.state()
            assert found.rules in (at_old.rules, at_new.rules), instant
            seen += [found] if found not in seen else []
            host(f"apply {new}")
            assert host.state() == at_new, instant
            assert not whole or not json.loads(host(f"-j apply {new}"))["changes"], instant
            host(f"apply {old}")
            assert host.state() == at_old, instant
        assert killed >= LEAST_KILLED * INSTANTS and len(seen) >= 4, (killed, seen)
        host.clean(before, "at the end")


# --- renice ----------------------------------------------------------------------------------------------------------

PAIRS = 20


@contextmanager
def connections(host: Host) -> Iterator[tuple[int, list[tuple[socket.socket, socket.socket]]]]:
    """The port of a server, and PAIRS connections to it."""
    with ExitStack() as stack:
        server = stack.enter_context(host.line.near.socket())
        server.bind(("127.0.0.1", 0))
        server.listen(PAIRS)
        pairs = []
        for _ in range(PAIRS):
            sock = stack.enter_context(host.line.near.socket())
            sock.connect(server.getsockname())
            sock.settimeout(ENDS_S)
            pairs.append((sock, stack.enter_context(server.accept()[0])))
            pairs[-1][1].settimeout(ENDS_S)
        yield server.getsockname()[1], pairs


def work(pairs: list[tuple[socket.socket, socket.socket]]) -> bool:
    for sock, connection in pairs:
        sock.sendall(b"x")
        connection.sendall(connection.recv(1))
    return all(sock.recv(1) == b"x" for sock, _ in pairs)


def programs() -> int:
    return kernel.run("bpftool", "prog", "list").stdout.count("name renice ")


def renice(kill_after: Path, room: Path, dice: random.Random) -> None:
    """It pins nothing: what is enabled stays as it was, no program is left, and each connection works with either controller.
    The same command moves those that are left."""
    with own_host(kill_after, "tcpw_lp") as host, connections(host) as (port, pairs):
        sockets = [sock for pair in pairs for sock in pair]
        words = f"renice tcpw_lp --dst 127.0.0.1 --port {port}"
        before = host.sysctls()
        host("enable tcpw_lp")
        pins, found, killed = host.cli.names(), set(), 0
        calls = host.calls(words)
        for number, at in enumerate(instants(calls, INSTANTS, dice)):
            instant = f"killed before system call {at} of {calls}"
            for sock in sockets:
                kernel.choose(sock, "reno")
            killed += host.killed(words, at).returncode == KILLED
            found |= {kernel.chosen(sock) for sock in sockets}
            assert host.cli.names() == pins and work(pairs), instant
            if number % WHOLE_EVERY == 0:
                host.assert_understood(instant)
            host(words, (DONE, NOTHING_TO_DO))
            assert {kernel.chosen(sock) for sock in sockets} == {"tcpw_lp"}, instant
        assert killed >= LEAST_KILLED * INSTANTS and found == {"reno", "tcpw_lp"}, (killed, found)
        assert host.cli.names() == pins and work(pairs)
        kernel.eventually(lambda: not programs(), ENDS_S, "no program is left")
        host.clean(before, "at the end")


# --- all four at once ------------------------------------------------------------------------------------------------

FOUR: dict[str, Killing] = {killing.__name__: killing for killing in (run, assign, apply, renice)}
SAME = (run, assign), (apply,), (renice,)  # have the same controllers, and so follow each other


@pytest.fixture(scope="module")
def killed(
    bpffs: Path, registry_lock: Path, kill_after: Path, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Future[None]]:
    """How each of them ended."""
    ended: dict[str, Future[None]] = {name: Future() for name in FOUR}

    def follow(killings: tuple[Killing, ...]) -> None:
        for killing in killings:
            name = killing.__name__
            try:
                killing(kill_after, tmp_path_factory.mktemp(name), random.Random(f"{SEED} {name}"))
                ended[name].set_result(None)
            except BaseException as error:
                ended[name].set_exception(error)

    with ThreadPoolExecutor(len(SAME)) as pool:
        wait([pool.submit(follow, killings) for killings in SAME])
    return ended


@pytest.mark.parametrize("name", FOUR)
def test_killed_at_two_hundred_instants(killed: dict[str, Future[None]], name: str) -> None:
    killed[name].result()


# --- the others ------------------------------------------------------------------------------------------------------

CHANGED = ("enable tcp_lp_ecn --default --ecn", "enable ltcp")
ATTACHED = (f"aqm attach {DEV}",)
COMMANDS = {  # and what was done before it
    "enable tcp_lp_ecn --default --ecn": (),
    "disable --all": CHANGED,
    "set ltcp decrease=200": ("enable ltcp",),
    "reload ltcp --set decrease=200": ("enable ltcp",),
    "clean --all": CHANGED + ATTACHED,
    "assign remove 1": ("assign ltcp --remote 192.0.2.0/24",),
}
HOOKS = {  # of those that register no controller
    f"aqm attach {DEV} --nf-min 7": (),
    f"aqm set {DEV} --nf-min 7": ATTACHED,
    f"aqm detach {DEV}": ATTACHED,
    f"gateway attach {DEV}": (),
    f"gateway detach {DEV}": (f"gateway attach {DEV}",),
}


def host_of(line: Line, kill_after: Path, *controllers: str) -> Host:
    line.tbf()
    return Host(line, replace(line.ccbpf, command=PLAIN), kill_after, frozenset(controllers), queue=True)


@pytest.mark.parametrize("words", COMMANDS)
def test_killed_at_fifty_instants(words: str, line: Line, kill_after: Path, dice: random.Random) -> None:
    for _ in each_repaired(host_of(line, kill_after, "ltcp", "tcp_lp_ecn"), words, COMMANDS[words], FEWER, dice):
        pass


@pytest.mark.parametrize("words", HOOKS)
def test_a_hook_killed_at_fifty_instants(words: str, hooks: Cli, kill_after: Path, dice: random.Random) -> None:
    with Line(hooks) as line:
        for _ in each_repaired(host_of(line, kill_after), words, HOOKS[words], FEWER, dice):
            pass
