# SPDX-License-Identifier: GPL-2.0-only
"""Each command that changes something, killed with SIGKILL at 50 instants: the next command understands what was left.

The instants are system calls, spread evenly over the command's life, with a random shift from run to run. The functional
tests kill before every change (kill_at.c); here the command dies between any two system calls. It takes about three minutes.

After each kill: `list`, `status` and `check` answer as usual; the same command finishes the work, or says that nothing is
left to do; `clean --all` leaves no pin, no controller and no program at the device, and restores the sysctls.
"""

from __future__ import annotations

import json
import random
import subprocess
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from tests.functional import kernel
from tests.functional.conftest import Cli
from tests.functional.line import DEV, Line

INSTANTS = 50
KILLED = 137
PLAIN = kernel.ROOT / "build/ccbpf"  # LeakSanitizer cannot run under ptrace(2)
CGROUPS = next(Path(line.split()[4]) for line in Path("/proc/self/mountinfo").read_text().splitlines() if " - cgroup2 " in line)
SYSCTLS = ("net.ipv4.tcp_congestion_control", "net.ipv4.tcp_ecn")
DONE, NOTHING_TO_DO = 0, 5

CHANGED = ("enable tcp_lp_ecn --default --ecn", "enable tcp_lp")
ATTACHED = (f"aqm attach {DEV}",)
COMMANDS = {  # and what was done before it
    "enable tcp_lp_ecn --default --ecn": (),
    "disable --all": CHANGED,
    "set tcp_lp delta=200": ("enable tcp_lp",),
    "reload tcp_lp --set delta=200": ("enable tcp_lp",),
    "clean --all": CHANGED + ATTACHED,
    "assign tcp_lp --remote 192.0.2.0/24": (),
    "assign remove 1": ("assign tcp_lp --remote 192.0.2.0/24",),
    "run -q tcp_lp true": (),
    f"aqm attach {DEV} --nf-min 7": (),
    f"aqm set {DEV} --nf-min 7": ATTACHED,
    f"aqm detach {DEV}": ATTACHED,
}


@dataclass(frozen=True)
class Host:
    """A network namespace with a device, and the command in it."""

    line: Line
    cli: Cli
    kill_after: Path

    def __call__(self, words: str, codes: tuple[int, ...] = (DONE,)) -> str:
        result = self.cli.run(*words.split(), prefix=("ip", "netns", "exec", self.line.near.name))
        assert result.code in codes, (words, result)
        return result.out

    def killed(self, words: str, at: int) -> subprocess.CompletedProcess[str]:
        """Runs the command and kills it before this system call; 0: not at all, and returns how many calls there are."""
        command = [*("ip", "netns", "exec", self.line.near.name), str(self.kill_after), str(at), str(PLAIN), *words.split()]
        return subprocess.run(command, check=False, capture_output=True, text=True, timeout=60, env=self.cli.env())

    def calls(self, words: str) -> int:
        done = self.killed(words, 0)
        assert done.returncode == DONE, done
        return int(done.stderr.splitlines()[-1])

    def sysctls(self) -> str:
        return self.line.near.run("sysctl", *SYSCTLS).stdout

    def assert_understood(self, instant: str) -> None:
        """Commands that only read work with what was left."""
        for words in ("-j list", "-j status", "-j check", "-j aqm show"):
            assert json.loads(self(words)), (instant, words)

    def assert_clean(self, before: str, instant: str) -> None:
        assert not self.cli.root.exists(), (instant, self.cli.names())
        assert not self.line.tcx(), instant
        assert self.sysctls() == before, instant
        assert not any(CGROUPS.rglob("ccbpf-run-*")), instant
        kernel.eventually(lambda: not {"tcp_lp", "tcp_lp_ecn"} & kernel.available(), 10, f"{instant}: no controller is left")


@pytest.fixture
def host(line: Line, kill_after: Path) -> Host:
    line.tbf()
    return Host(line, replace(line.ccbpf, command=PLAIN), kill_after)


def instants(calls: int, dice: random.Random) -> list[int]:
    """INSTANTS of the command's system calls, spread evenly, each shifted within its share; if it has fewer, some more than once."""
    return [min(calls, 1 + int((i + dice.random()) * calls / INSTANTS)) for i in range(INSTANTS)]


@pytest.mark.parametrize("words", COMMANDS)
def test_killed_at_fifty_instants(words: str, host: Host, dice: random.Random) -> None:
    before = host.sysctls()
    for earlier in COMMANDS[words]:
        host(earlier)
    calls = host.calls(words)
    host("clean --all")
    killed = 0
    for number, at in enumerate(instants(calls, dice)):
        instant = f"{words}, killed before system call {at} of {calls}"
        for earlier in COMMANDS[words]:
            host(earlier)
        ended = host.killed(words, at)
        assert ended.returncode in (DONE, KILLED), (instant, ended)
        killed += ended.returncode == KILLED
        host.assert_understood(instant)
        if number % 2:
            host(words, (DONE, NOTHING_TO_DO))
        host("clean --all")
        host.assert_clean(before, instant)
    assert killed >= 0.9 * INSTANTS, f"only {killed} of {INSTANTS} were killed"


APPLIED = """
[controller.tcp_lp]
set.delta = 100
default = true
[controller.tcpw_lp]
[[rule]]
remote = "192.0.2.0/24"
[[rule]]
controller = "tcpw_lp"
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
remote = "2001:db8::/32"
"""


def rules_of(host: Host) -> list[tuple[object, ...]]:
    """The rules without their ids, which grow, and without their counters."""
    keys = ("controller", "remote", "local-port", "file")
    return [tuple(rule[key] for key in keys) for rule in json.loads(host("-j assign list"))["rules"]]


def state_of(host: Host) -> tuple[object, list[tuple[object, ...]], str]:
    controllers = {c["name"]: c["params"] for c in json.loads(host("-j status"))["controllers"]}
    return controllers, rules_of(host), host.sysctls()


def test_apply_killed_at_fifty_instants(host: Host, dice: random.Random, tmp_path: Path) -> None:
    """The rules are the old ones or the new ones, the one made by hand among them; the next apply, of either file, finishes."""
    before = host.sysctls()
    old, new = (tmp_path / name for name in ("old.toml", "new.toml"))
    for file, text in ((old, APPLIED), (new, TO_APPLY)):
        file.write_text(text)
        file.chmod(0o644)
    host(f"apply {old}")
    host("assign --not --remote 192.0.2.7")
    at_old = state_of(host)
    calls = host.calls(f"apply {new}")
    at_new = state_of(host)
    host(f"apply {old}")
    assert state_of(host) == at_old != at_new
    killed, seen = 0, []
    for number, at in enumerate(instants(calls, dice)):
        instant = f"killed before system call {at} of {calls}"
        ended = host.killed(f"apply {new}", at)
        assert ended.returncode in (DONE, KILLED), (instant, ended)
        killed += ended.returncode == KILLED
        host.assert_understood(instant)
        found = state_of(host)
        assert rules_of(host) in (at_old[1], at_new[1]), instant
        seen += [found] if found not in seen else []
        if number % 2:
            host(f"apply {new}")
            assert state_of(host) == at_new, instant
            assert not json.loads(host(f"-j apply {new}"))["changes"], instant
        host(f"apply {old}")
        assert state_of(host) == at_old, instant
    assert killed >= 0.9 * INSTANTS and len(seen) >= 4, (killed, seen)
    host("clean --all")
    host.assert_clean(before, "at the end")


def test_renice_killed_at_fifty_instants(host: Host, dice: random.Random) -> None:
    """It pins nothing: what is enabled stays as it was, no program is left, and the connection works with either controller."""
    near = host.line.near
    with near.socket() as server, near.socket() as sock:
        server.bind(("127.0.0.1", 0))
        server.listen()
        sock.connect(server.getsockname())
        connection, _ = server.accept()
        words = f"renice tcp_lp --dst 127.0.0.1 --port {server.getsockname()[1]}"
        host("enable tcp_lp")
        pins, found = host.cli.names(), set()
        for at in instants(host.calls(words), dice):
            for end in (sock, connection):
                kernel.choose(end, "reno")
            assert host.killed(words, at).returncode in (DONE, KILLED)
            found |= {kernel.chosen(sock), kernel.chosen(connection)}
            assert host.cli.names() == pins, at
            sock.sendall(b"x")
            assert connection.recv(1) == b"x"
            host("-j status")
        connection.close()
        assert found == {"reno", "tcp_lp"}
        kernel.eventually(lambda: "name renice " not in kernel.run("bpftool", "prog", "list").stdout, 10, "no program is left")
    host("clean --all")
