# SPDX-License-Identifier: GPL-2.0-only
"""Sweeps: the jobs of the workflow engine are the runs of `make lab`, to the byte. `make sweep` installs the engine."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from .. import session, sweep
from ..guest.errors import LabError
from ..rows import rows

KERNEL = "6.12"
END_S = 200.0
ROWS = """
[row.mine]
what = "short"
ours = ["tcp_lp"]
foreground = ["cubic"]
seconds = 4
link = { rate_mbit = 5, rtt_ms = 20 }
flow = [
    { name = "foreground", controller = "@foreground", start_s = 1 },
    { name = "background", controller = "@background", background = true },
]
bounds = [{ what = "never", measure = "transparency", op = ">=", bound = 9, options = { from_s = 2 } }]
plots = []

[row.other]
what = "not asked for"
link = { rate_mbit = 5, rtt_ms = 20 }
flow = [{ name = "foreground", controller = "reno" }]
"""


@pytest.fixture
def mine(tmp_path: Path) -> str:
    """A row of its own, as EXP."""
    (tmp_path / "mine.toml").write_text(ROWS)
    return f"{tmp_path / 'mine.toml'}:mine"


def run(root: Path, exp: str, *words: str) -> subprocess.CompletedProcess[str]:
    asked = {"EXP": exp, "KERNEL": KERNEL, "SET": "full", "CCBPF_LAB_ROOT": str(root)}
    environment = {**os.environ, **asked, "CCBPF_LAB_MODE": "record"}  # the same bytes, also where FIFO is taken away
    return subprocess.run(
        [sys.executable, "-m", *words], env=environment, capture_output=True, text=True, timeout=END_S,
        cwd=session.REPOSITORY, check=False,
    )  # fmt: skip


def raw(root: Path) -> dict[str, bytes]:
    """What the guests wrote; run.json also says how long it took."""
    runs = root / KERNEL / "runs"
    return {str(path.relative_to(runs)): path.read_bytes() for path in runs.rglob("*")
            if path.is_file() and path.name != session.MADE}  # fmt: skip


def test_snakemake_makes_the_runs_of_make_lab(mine: str, tmp_path: Path) -> None:
    pytest.importorskip("snakemake", reason="`make sweep` installs it")
    by_lab, by_sweep = tmp_path / "lab", tmp_path / "sweep"
    lab = run(by_lab, mine, "tests.lab")
    assert lab.returncode == 1, lab.stderr  # the bound cannot hold
    swept = run(by_sweep, mine, "tests.lab.sweep")
    assert swept.returncode == 1, swept.stderr
    assert "1 of 1 rows fall short: mine (6.12)" in swept.stdout
    assert len({name.split("/")[0] for name in raw(by_lab)}) == 2
    assert raw(by_sweep) == raw(by_lab)
    keys = ("bounds", "measured", "peers", "holds")
    results = [json.loads((root / KERNEL / "mine/result.json").read_text()) for root in (by_lab, by_sweep)]
    assert [results[0][key] for key in keys] == [results[1][key] for key in keys]
    assert "short" in (by_sweep / KERNEL / "report.html").read_text()
    again = run(by_sweep, mine, "tests.lab.sweep")
    assert again.returncode == 1 and "mine: cubic" not in again.stderr, again.stderr  # nothing is made twice


def test_jobs_say_what_they_need_and_name_what_they_leave(mine: str) -> None:
    asked = sweep.Sweep.of(mine, f"{KERNEL},6.1", "quick")
    assert asked.kernels == [KERNEL, "6.1"] and len(asked.works) == 2
    work = asked.work("6.1", "mine")
    jobs = list(work.jobs.values())
    assert all(asked.job(job.digest) == (work, job) for job in jobs)
    assert sweep.made(jobs[0]) == f"6.1/runs/{jobs[0].digest}/run.json"
    assert sweep.memory_mb(jobs[0]) > jobs[0].memory_mb and sweep.minutes(jobs[0]) >= 5
    assert sweep.run_command(work, jobs[0]).endswith(f"--kernel 6.1 --set quick --seed 1 --run {jobs[0].digest}")


def test_each_draw_is_a_job_with_a_seed_of_its_own(mine: str) -> None:
    (work,) = sweep.Sweep.of(mine, KERNEL, "quick", "3").works
    drawn = {number: [job for key, job in work.jobs.items() if key.number == number] for number in range(3)}
    assert len(drawn[0]) == len(drawn[1]) == len(drawn[2]) == len(work.jobs) / 3
    assert {number: {job.seed for job in jobs} for number, jobs in drawn.items()} == {0: {1}, 1: {2}, 2: {3}}
    (once,) = sweep.Sweep.of(mine, KERNEL, "quick").works
    assert {job.digest for job in drawn[0]} == {job.digest for job in once.jobs.values()}
    assert len({job.digest for job in work.jobs.values()}) == len(work.jobs)
    assert sweep.run_command(work, drawn[2][0]).endswith(f"--seed 1 --repeat 3 --run {drawn[2][0].digest}")
    with pytest.raises(rows.RowError, match="REPEAT=many: a number of draws"):
        sweep.Sweep.of(mine, KERNEL, "quick", "many")


def test_a_machine_that_would_make_another_run_says_so(mine: str) -> None:
    works = sweep.Sweep.of(mine, KERNEL, "full").works
    with pytest.raises(LabError, match="run 0123456789abcdef is none of mine here: the guest, QEMU or our programs"):
        sweep.run_one(works, "0123456789abcdef")


@pytest.mark.parametrize(
    ("exp", "kernel", "profile", "words"),
    [
        ("", "5.4", "machine", "KERNEL=5.4: there are 6.1, 6.12, 7.x"),
        ("nothing", KERNEL, "machine", "EXP=nothing: no such row on 6.12"),
        ("alone", KERNEL, "cloud", "PROFILE=cloud: there are kubernetes, machine, slurm"),
    ],
)
def test_what_is_wrong_is_named(
    exp: str, kernel: str, profile: str, words: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, value in {"EXP": exp, "KERNEL": kernel, "SET": "", "PROFILE": profile}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys, "argv", ["sweep"])
    assert sweep.main() == 2
    assert words in capsys.readouterr().err


def test_a_row_of_a_file_may_be_named(mine: str) -> None:
    file = mine.partition(":")[0]
    assert [row.id for row in rows.choose(mine)] == ["mine"]
    assert [row.id for row in rows.choose(file)] == ["mine", "other"]
    with pytest.raises(rows.RowError, match="'none' is none of mine, other"):
        rows.choose(f"{file}:none")
