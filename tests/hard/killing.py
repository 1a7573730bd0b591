# SPDX-License-Identifier: GPL-2.0-only
"""Commands that are killed by kill_after.c, in a network namespace and with a pin directory of their own, and what must hold after it."""

from __future__ import annotations

import json
import random
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests import registry
from tests.functional import kernel
from tests.functional.conftest import Cli
from tests.functional.line import Line

KILLED = 137
DONE, NOTHING_TO_DO = 0, 5
WHOLE_EVERY = 10  # instants: then all commands that read are tried, and `clean --all` right after the kill
LEAST_KILLED = 0.9  # of the instants; the life of a command is not always as long
PLAIN = kernel.ROOT / "build/ccbpf"  # LeakSanitizer cannot run under ptrace(2)
SYSCTLS = [Path("/proc/sys/net/ipv4") / name for name in ("tcp_congestion_control", "tcp_ecn")]
RULE = ("controller", "upload", "download", "remote", "local-port", "file")  # without ids, which grow, and counters
QUEUE = ("device", "attached", "limit_bytes", "classes")


@dataclass(frozen=True)
class State:
    """What the commands can change. A controller that is gone but for the kernel's grace period is gone."""

    controllers: dict[str, Any]
    rules: list[tuple[Any, ...]]
    runs: list[str]
    receives: int  # connections, by `renice --download`
    gateways: list[str]  # their devices
    queues: list[tuple[Any, ...]]
    sysctls: list[str]


@dataclass(frozen=True)
class Host:
    """A network namespace with a device, and the command in it, which enables no controllers but these. `queue`: it may attach
    a program to the device as well."""

    line: Line
    cli: Cli
    kill_after: Path
    controllers: frozenset[str]
    queue: bool = False

    def __call__(self, words: str, codes: tuple[int, ...] = (DONE,)) -> str:
        with kernel.inside(self.line.near.name):
            result = self.cli.run(*words.split())
        assert result.code in codes, (words, result)
        return result.out

    def all(self, lines: tuple[str, ...]) -> None:
        for words in lines:
            self(words)

    def killed(self, words: str, at: int) -> subprocess.CompletedProcess[str]:
        """Runs the command and kills it before this system call; 0: not at all, and returns how many calls there are."""
        command = [str(self.kill_after), str(at), str(PLAIN), *words.split()]
        with kernel.inside(self.line.near.name):
            done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=60, env=self.cli.env())
        assert done.returncode in (DONE, KILLED), (words, at, done)
        return done

    def calls(self, words: str) -> int:
        done = self.killed(words, 0)
        assert done.returncode == DONE, done
        return int(done.stderr.splitlines()[-1])

    def sysctls(self) -> list[str]:
        with kernel.inside(self.line.near.name):
            return [path.read_text() for path in SYSCTLS]

    def state(self) -> State:
        shown = json.loads(self("-j status"))
        queues = json.loads(self("-j aqm show"))["queues"] if self.queue else []
        return State(
            {c["name"]: (c["state"], c["params"]) for c in shown["controllers"] if c["state"] != "draining"},
            [tuple(rule[key] for key in RULE) for rule in shown["rules"]],
            [run["state"] for run in shown["runs"]],
            shown["renice_receives"],
            shown["gateways"],
            [tuple(queue[key] for key in QUEUE) for queue in queues],
            self.sysctls(),
        )

    def assert_understood(self, instant: str) -> None:
        """Commands that only read work with what was left."""
        for words in ("-j list", "-j status", "-j check", "-j aqm show", "-j gateway show"):
            assert json.loads(self(words)), (instant, words)

    def clean(self, before: list[str], instant: str) -> None:
        """`clean --all` leaves nothing."""
        self("clean --all")
        assert not self.cli.root.exists(), (instant, self.cli.names())
        assert not self.queue or not self.line.tcx(), instant
        assert self.sysctls() == before, instant
        kernel.eventually(lambda: not self.controllers & kernel.available(), 10, f"{instant}: no controller is left")


@contextmanager
def own_host(kill_after: Path, *controllers: str) -> Iterator[Host]:
    """Beside others that enable other controllers."""
    cli = Cli(registry.session_pins("kill-" + "-".join(controllers)), command=PLAIN)
    try:
        with Line(cli) as line:
            line.tbf()
            yield Host(line, cli, kill_after, frozenset(controllers))
    finally:
        cli.run("clean", "--all")


def instants(calls: int, count: int, dice: random.Random) -> list[int]:
    """So many of the command's system calls, at random: none once more before all were drawn."""
    rounds, rest = divmod(count, calls)
    drawn = [*range(1, calls + 1)] * rounds + dice.sample(range(1, calls + 1), rest)
    dice.shuffle(drawn)
    return drawn


def each_repaired(host: Host, words: str, earlier: tuple[str, ...], count: int, dice: random.Random) -> Iterator[str]:
    """Kills the command at so many instants, and has the same command finish; then `clean --all`. Yields after each kill."""
    before = host.sysctls()
    host.all(earlier)
    calls = host.calls(words)
    wanted = host.state()
    host.clean(before, "never killed")
    killed = 0
    for number, at in enumerate(instants(calls, count, dice)):
        whole = number % WHOLE_EVERY == 0
        instant = f"{words}, killed before system call {at} of {calls}"
        if whole:
            host.all(earlier)
            host.killed(words, at)
            yield instant
            host.clean(before, instant)
        host.all(earlier)
        killed += host.killed(words, at).returncode == KILLED
        yield instant
        if whole:
            host.assert_understood(instant)
        host(words, (DONE, NOTHING_TO_DO))
        assert host.state() == wanted, instant
        host.clean(before, instant)
    assert killed >= LEAST_KILLED * count, f"only {killed} of {count} were killed"
