# SPDX-License-Identifier: GPL-2.0-only
"""`ccbpf run`: after a kill, or a change by somebody else, the next command repairs, and touches only what is ours."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from pathlib import Path
from typing import Any

from tests.cgroups import MOUNT, cgroups_of_runs, populated
from tests.functional import kernel
from tests.functional.conftest import CCBPF, Cli
from tests.functional.rules.background import BACKGROUND, ENDS_S, account


def runs(run: Cli) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = run("-j", "status").json["runs"]
    return found


def waiting(run: Cli) -> tuple[subprocess.Popen[str], dict[str, Any]]:
    """A command under way, and what status says of it."""
    process = run.popen("-j", "run", "sleep", "60", stderr=subprocess.PIPE, stdout=subprocess.DEVNULL)
    (found,) = kernel.eventually(lambda: [r for r in runs(run) if r["processes"]], ENDS_S, "the run")
    assert (found["state"], found["command"], found["controller"]) == ("running", "sleep", BACKGROUND)
    return process, found


def test_clean_leaves_what_runs_unless_all(run: Cli) -> None:
    process, found = waiting(run)
    run("clean")
    assert runs(run)[0]["id"] == found["id"]
    assert str(run.root / "runs" / str(found["id"])) in run("-j", "clean", "--all").json["removed"]
    assert not cgroups_of_runs() and not run.root.exists()
    assert process.poll() is None
    process.terminate()
    _, err = process.communicate(timeout=ENDS_S)
    assert process.returncode == -signal.SIGTERM and account(err)["state"] == "ended"


def test_killed_while_the_command_runs(run: Cli) -> None:
    """The command goes on in the background; after its end the next ccbpf removes what is left."""
    process, found = waiting(run)
    (sleep,) = (int(pid) for pid in (MOUNT / found["cgroup"][1:] / "cgroup.procs").read_text().split())
    process.kill()
    process.wait()  # the command has the pipe still
    assert runs(run)[0]["state"] == "left behind"
    run("run", "-q", "true")
    assert len(runs(run)) == 1
    os.kill(sleep, signal.SIGKILL)
    kernel.eventually(lambda: not runs(run)[0]["processes"], ENDS_S, "its end")
    assert runs(run)[0]["state"] == "ended"
    run("clean")
    assert not runs(run) and not cgroups_of_runs()


def test_killed_at_every_step(run: Cli, kill_at: Path) -> None:
    seen, code = set(), 1
    for at in range(1, 100):
        environment = run.env() | {"LD_PRELOAD": str(kill_at), "KILL_AT": str(at)}
        words = [str(CCBPF), "run", "-q", "env", "-u", "LD_PRELOAD", "true"]
        code = subprocess.run(words, env=environment, capture_output=True, timeout=60).returncode
        assert code in (0, -signal.SIGKILL)
        kernel.eventually(lambda: not any(r["processes"] for r in runs(run)), ENDS_S, "the command of a killed ccbpf ends")
        seen.add((*(r["state"] for r in runs(run)), len(cgroups_of_runs())))
        run("run", "-q", "true")
        assert not runs(run) and not cgroups_of_runs(), at
        assert run.status()[BACKGROUND]["state"] == "enabled"
        if code == 0:
            break
    assert code == 0 and at > 8 and len(seen) >= 3, (at, seen)


def test_pins_that_are_not_ours(run: Cli) -> None:
    """Foreign files in the directory of runs stay; no path is read from a map of another shape."""
    victim = MOUNT / f"ccbpf-run-victim-{os.getpid()}"
    victim.mkdir()
    process, _ = waiting(run)
    process.terminate()
    process.communicate()
    directory = run.root / "runs"
    try:
        for name in ("5", "6", "7", "x"):
            (directory / name).mkdir(parents=True)
        for pin in ("5/run", "7/other"):
            kernel.run(
                "bpftool", "map", "create", directory / pin, "type", "array", "key", 4, "value", 8, "entries", 1, "name", "x"
            )
        assert {str(directory / "x"), str(directory / "7" / "other")} <= set(run("-j", "status").json["foreign"])
        run.run("clean")
        assert {path.name for path in directory.iterdir()} == {"7", "x"}
        assert victim.exists()
    finally:
        shutil.rmtree(directory)
        victim.rmdir()


def test_a_path_in_a_forged_map(run: Cli) -> None:
    """A pinned map of the right shape names a cgroup that does not belong to a run: the cgroup stays."""
    process, found = waiting(run)
    victim = MOUNT / f"ccbpf-test-victim-{os.getpid()}"
    victim.mkdir()
    try:
        pin = run.root / "runs" / str(found["id"]) / "run"
        kernel.replace_map(
            pin,
            lambda value: value.replace(found["cgroup"].encode(), f"/{victim.name}".encode().ljust(len(found["cgroup"]), b"\0")),
        )
        process.kill()
        process.wait()
        run("clean", "--all")
        assert victim.exists()
    finally:
        victim.rmdir()
        for cgroup in cgroups_of_runs():
            for pid in (cgroup / "cgroup.procs").read_text().split():
                os.kill(int(pid), signal.SIGKILL)
            kernel.eventually(lambda: not populated(cgroups_of_runs()), ENDS_S, "their end")
            cgroup.rmdir()
