# SPDX-License-Identifier: GPL-2.0-only
"""ccbpf is killed before each of its changes, or at any time, or each system call is refused: the next command understands what
is left."""

from __future__ import annotations

import json
import signal
import statistics
import struct
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.functional import kernel
from tests.functional.cli.pins import ECN, OWN, SHARED, SYSCTL
from tests.functional.conftest import Cli

KILLS = 40


@pytest.mark.usefixtures("own_network")
@pytest.mark.parametrize(
    "words",
    [["enable", "tcp_lp", "--default"], ["enable", "tcp_lp", "tcp_lp_ecn"], ["reload", "tcp_lp"], ["disable", "tcp_lp"]],
    ids=" ".join,
)
def test_a_failure_at_any_system_call_is_undone(ccbpf: Cli, words: list[str]) -> None:
    """Fault injection by a limit of open files: each of them makes another call the first to fail."""
    before, codes = SYSCTL.read_text(), set()
    if words[0] != "enable":
        ccbpf("enable", "tcp_lp")
    for limit in range(4, 64):
        held = ccbpf.names()
        result = ccbpf.run(*words, prefix=("prlimit", f"--nofile={limit}"))
        codes.add(result.code)
        if result.code == 0:
            break
        if result.code == 127:  # not even its libraries
            continue
        assert result.err.startswith("ccbpf: "), (limit, result)
        assert ccbpf.names() == held, (limit, result)
        assert SYSCTL.read_text() == before
    assert codes >= {0, 1}, codes
    ccbpf("clean", "--all")
    assert SYSCTL.read_text() == before
    assert not ccbpf.root.exists()


@pytest.fixture(params=["links", "no links"])
def either(ccbpf: Cli, request: pytest.FixtureRequest) -> Cli:
    return Cli(ccbpf.root, {} if request.param == "links" else {"CCBPF_NO_LINKS": "1"})


def test_killed_at_every_step_of_enable(either: Cli, kill_at: Path) -> None:
    seen = set()
    for _ in either.killed_at_every_step(kill_at, "enable", "tcp_lp", "tcp_lp_ecn", "--set", "delta=100"):
        status = either.status()
        states = {name: c["state"] for name, c in status.items()}
        seen.add(str(sorted(states.items())))
        for c in status.values():  # what is enabled is whole
            assert c["state"] == "stale" or (c["params"]["delta"], bool(c["instance"])) == (100, True)
        for name in ("tcp_lp", "tcp_lp_ecn"):
            either("enable", name, code=5 if states.get(name) == "enabled" else 0)
        assert {c["state"] for c in either.status().values()} == {"enabled"}
        either("disable", "--all")
        assert not either.root.exists()
    assert len(seen) >= 4, seen  # nothing, one stale, one enabled, both


def test_clean_after_every_step_of_enable(either: Cli, kill_at: Path) -> None:
    for _ in either.killed_at_every_step(kill_at, "enable", "tcp_lp"):
        either("clean")
        assert either.names() in (set(), SHARED | OWN, SHARED | OWN - {"tcp_lp/link"} | {"tcp_lp/ops"})
        assert (either.names() != set()) == ("tcp_lp" in kernel.available())
        either("clean", "--all")
        assert not either.root.exists()


@pytest.mark.usefixtures("own_network")
@pytest.mark.parametrize("words", [["enable", "tcp_lp_ecn", "--default", "--ecn"], ["clean", "--all"]], ids=" ".join)
def test_killed_at_every_step_with_sysctls_changed(ccbpf: Cli, kill_at: Path, words: list[str]) -> None:
    """After the next `clean --all` the default and ECN are as before."""
    before = {path: path.read_text() for path in (SYSCTL, ECN)}
    try:
        ECN.write_text("2")
        for _ in changed_and_killed(ccbpf, kill_at, words):
            ccbpf("clean", "--all")
            assert (SYSCTL.read_text(), ECN.read_text()) == (before[SYSCTL], "2\n")
            assert not ccbpf.root.exists()
    finally:
        for path, value in before.items():
            path.write_text(value)


def changed_and_killed(ccbpf: Cli, kill_at: Path, words: list[str]) -> Iterator[int]:
    """The same. Commands other than `enable` find everything changed each time."""

    def enable() -> None:
        if words[0] != "enable":
            ccbpf("enable", "tcp_lp_ecn", "--default", "--ecn")

    enable()
    for at in ccbpf.killed_at_every_step(kill_at, *words):
        yield at
        enable()


@pytest.mark.usefixtures("own_network")
def test_killed_at_every_step_of_disable(either: Cli, kill_at: Path) -> None:
    before = SYSCTL.read_text().strip()

    def run() -> Iterator[int]:
        either("enable", "tcp_lp", "--default")
        for at in either.killed_at_every_step(kill_at, "disable", "tcp_lp"):
            yield at
            either("enable", "tcp_lp", "--default")

    try:
        for _ in run():
            if either.run("disable", "tcp_lp").code == 5:
                either("clean")
            assert not either.root.exists()
            assert "tcp_lp" not in kernel.available()
            assert SYSCTL.read_text().strip() == before
    finally:
        SYSCTL.write_text(before)


def running_instance(ops_id: int) -> int:
    """The instance of the programs behind a struct_ops map, from the identity that they themselves read."""
    program = next(iter(kernel.struct_ops()[ops_id].programs))
    shown = json.loads(kernel.run("bpftool", "-j", "prog", "show", "id", program).stdout)
    for map_id in shown["map_ids"]:
        found = kernel.Map.by_id(map_id)
        if found.name == ".rodata.identity"[:15]:
            return int(struct.unpack_from("=IIQ", found.lookup(bytes(4)) or b"")[2])
    raise AssertionError(f"program {program} has no identity")


def test_killed_at_every_step_of_reload(ccbpf: Cli, kill_at: Path) -> None:
    ccbpf("enable", "tcp_lp", "--set", "delta=100")
    instances = {ccbpf.status()["tcp_lp"]["instance"]}
    for _ in ccbpf.killed_at_every_step(kill_at, "reload", "tcp_lp", "--set", "smoothing=4"):
        status = ccbpf.status()["tcp_lp"]
        assert status["state"] == "enabled"
        assert status["changed"]["delta"] == 100
        instances.add(status["instance"])
        ccbpf("clean")
        assert ccbpf.names() == SHARED | OWN
        assert ccbpf.status()["tcp_lp"]["instance"] == status["instance"]
        assert running_instance(status["map_id"]) == status["instance"]
    assert len(instances) >= 3
    assert ccbpf.status()["tcp_lp"]["changed"] == {"delta": 100, "smoothing": 4}


def test_killed_at_any_time(ccbpf: Cli) -> None:
    """Killed by the clock, at times spread over the whole run."""
    took = []
    for _ in range(3):
        start = time.monotonic()
        ccbpf("enable", "tcp_lp")
        took.append(time.monotonic() - start)
        ccbpf("disable", "tcp_lp")
    usual, killed = statistics.median(took), 0  # one alone may have met a busy moment, and most kills would come too late
    for i in range(KILLS):
        process = ccbpf.popen("enable", "tcp_lp", stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        time.sleep(usual * 1.1 * i / KILLS)
        process.kill()
        process.communicate()
        killed += process.returncode == -signal.SIGKILL
        ccbpf("enable", "tcp_lp", code=5 if "tcp_lp/link" in ccbpf.names() else 0)
        ccbpf("disable", "tcp_lp")
        assert not ccbpf.root.exists()
    assert killed > KILLS / 4, (killed, took)
