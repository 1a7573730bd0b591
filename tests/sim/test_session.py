# SPDX-License-Identifier: GPL-2.0-only
"""Rows in the simulator: what is planned, kept, judged and said."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, Never

import pytest

from tests.lab.engine.experiment import quantile
from tests.lab.rows import rows
from tests.lab.rows.builder import FULL, QUICK, SIM

from . import agreement, report, session, simulator
from .agreement import FAR, Compared, line, page
from .translate import REPOSITORY, Unfit


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Keeps the results of these tests apart from the user's."""
    monkeypatch.setattr(simulator, "RUNS", tmp_path / "runs")
    monkeypatch.setattr(session, "BUILD", tmp_path)
    return tmp_path


def row(name: str, repeat: int = 2, row_set: str = QUICK) -> rows.Row:
    return next(iter(rows.choose(name, set_=row_set, repeat=repeat)))


def test_peers_that_are_not_here_are_left_out_and_named() -> None:
    work = session.plan(row("jitter", row_set=SIM), 1, SIM)
    assert work.left_out == ["vegas"]
    assert work.row.peers == ("cubic",)
    assert not [key for key in work.runs if key.background == "vegas"]


def test_peers_of_the_tests_own_are_here() -> None:
    (asked,) = (row for row in rows.load(rows.DIRECTORY / "peers.toml", set_=SIM, repeat=1) if row.id == "peers-alone")
    work = session.plan(asked, 1, SIM)
    assert work.left_out == ["lp", "vegas"] and work.row.peers == ("ledbatpp", "ledbatpp_apple")
    assert any(key.background == "ledbatpp_apple" and run.path for key, run in work.runs.items())


def test_each_draw_has_its_own_seed() -> None:
    work = session.plan(row("policer", repeat=3), 7, QUICK)
    assert {(key.number, run.seed) for key, run in work.runs.items()} == {(0, 7), (1, 8), (2, 9)}


@pytest.mark.parametrize(("name", "said"), [("lp-fig14-http", "web"), ("nf-fig4-multihop", "hops"), ("yield-aqm", "queue")])
def test_a_row_that_it_cannot_do_says_why(name: str, said: str) -> None:
    with pytest.raises(Unfit, match=said):
        session.plan(row(name, row_set=FULL), 1, FULL)


def test_a_row_is_made_judged_and_kept(runs: Path) -> None:
    lines: list[str] = []
    work = session.plan(row("tiny-buffer", repeat=3), 1, QUICK)
    assert session.run([work], 2, 1, lines.append) in (0, 1)
    said = json.loads((runs / "rows/tiny-buffer/result.json").read_text())
    assert (said["repeat"], said["kernel"]) == (3, "simulator")
    assert len(said["bounds"][0]["draws"]) == 3
    assert lines[1].startswith("tiny-buffer: ")
    assert "3 draws of" in lines[1] and "worst" in lines[2]
    made = sorted((runs / "runs").iterdir())
    session.run([session.plan(row("tiny-buffer", repeat=3), 1, QUICK)], 2, 1, lines.append)
    assert sorted((runs / "runs").iterdir()) == made
    half = len(lines) // 2
    assert lines[:half] == lines[half:]


def test_a_run_that_fails_is_no_result(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> Never:
        raise simulator.SimulatorError("a program set cwnd to 0")

    monkeypatch.setattr(simulator, "simulate", broken)
    lines: list[str] = []
    assert session.run([session.plan(row("tiny-buffer"), 1, QUICK)], 1, 1, lines.append) == 2
    assert "no result" in lines[1] and "cwnd to 0" in lines[1]


def test_what_is_said_of_draws() -> None:
    bound: dict[str, Any] = {"draws": [n / 100 for n in range(1, 101)], "worst": 0.01, "held": 96, "measured": 0.5}
    assert session.spread(bound) == "0.505 [0.05 … 0.95] worst 0.01, 96/100"
    assert session.spread({"measured": None}) == "never"
    assert quantile(bound["draws"], session.LOW) == 0.05


def test_agreement_counts_what_contains_the_labs_figure() -> None:
    one = Compared("row", "run", "goodput_foreground_mbit", 5.0, 1, [4.0, 5.0, 6.0])
    other = Compared("row", "run 2", "goodput_background_mbit", 9.0, 3, [4.0, 5.0, 6.0])
    assert (one.inside, other.inside) == (True, False)
    near = Compared("row 2", "run", "goodput_background_mbit", 6.1, 1, [5.9, 6.0])
    text = page([line(one), line(other), line(near)])
    assert "figures, of 3 | rows of which every figure counts, of 2 |" in text
    assert "contains the lab's figure | 1 | 0 |" in text and "within 5 % of it | 2 | 1 |" in text
    assert "9.00 (3 draws)" in text and f"| {FAR} |" in text


def test_what_is_far_from_the_lab_is_explained() -> None:
    """The rows that have such a figure are those of the section in README.md, and no other ones."""
    section = (agreement.PAGE.parent / "README.md").read_text().split("\n## Where it is far from the lab\n")[1]
    assert {one.row for one in agreement.kept() if not one.near} == set(re.findall(r"^\| `([a-z0-9-]+)`", section, re.M))


def test_at_least_eight_rows_agree_in_every_figure() -> None:
    """The lab's figure is within the simulator's draws."""
    inside = {row: all(one.inside for one in agreement.kept() if one.row == row) for row in {one.row for one in agreement.kept()}}
    assert sum(inside.values()) >= 8


def test_a_run_that_the_lab_no_longer_has_keeps_its_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agreement, "PAGE", tmp_path / "AGREEMENT.md")
    once, again = (line(Compared("crowd", "le · 2", "goodput_background_mbit", lab, 1, [4.0, 5.0])) for lab in (4.5, 9.0))
    other = line(Compared("stall", "le", "goodput_background_mbit", 5.1, 1, [4.9, 5.0]))
    gone = line(Compared("no-row", "le", "goodput_background_mbit", 5.1, 1, [4.9, 5.0]))
    agreement.PAGE.write_text(page([once, other, gone]))
    assert agreement.kept() == [once, other, gone]
    assert agreement.merged([again], agreement.kept()) == [other, again]
    assert (again.near, other.inside, other.near) == (False, False, True)


def test_the_simulators_figure_of_a_kept_run_is_that_of_today(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once route-change of tcpw_lp had 1.36 there, of programs that were no more."""
    monkeypatch.setattr(agreement, "DRAWS", 2)
    stale = line(Compared("tiny-buffer", "reno · reno", "goodput_foreground_mbit", 3.95, 3, [0.1, 0.2]))
    (again,) = agreement.remade([stale], 1, lambda _: None)
    assert (line(again).of, again.lab, again.lab_draws) == (stale.of, 3.95, 3)
    assert len(again.draws) == 2 and min(again.draws) > 1


def test_the_command_lists_its_rows() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.sim", "list"], capture_output=True, text=True, cwd=REPOSITORY, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert {"long-alone", "rx-yield"} <= {line.split()[0] for line in done.stdout.splitlines()}


def test_the_command_names_a_row_that_is_not_there() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.sim", "--exp", "nothing"], capture_output=True, text=True, cwd=REPOSITORY, check=False,
        timeout=60,
    )  # fmt: skip
    assert done.returncode == 2
    assert "nothing: no such row" in done.stderr


def test_the_page_of_results(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report, "BUILD", runs)
    monkeypatch.setattr(report, "PAGE", runs / "RESULTS.md")
    lines: list[str] = []
    assert report.write(lines.append) == 2 and "no row was run" in lines[0]
    before = "# of before\n\n\n## crowd: as it was\n\nits lines\n\n## tiny-buffer: of before\n\n## no-row: gone\n"
    (runs / "RESULTS.md").write_text(before)
    session.run([session.plan(row("tiny-buffer", repeat=3), 1, QUICK)], 2, 1, lines.append)
    assert report.write(lines.append) == 0
    text = (runs / "RESULTS.md").read_text()
    assert "## tiny-buffer: a queue of three packets" in text and "3 draws of each run" in text
    assert "| `tcpw_lp` | reno |" in text and "worst" in text
    assert "of before" not in text and "no-row" not in text
    assert text.index("## tiny-buffer") < text.index("## crowd: as it was\n\nits lines\n")


def test_a_table_of_every_run() -> None:
    cells = {"cubic · 1": {"le": "0.99", "ledbatpp": "never"}, "reno · 1": {"le": "0.98"}}
    assert list(report.every_run({"what": "s until it yields", "cells": cells}))[1:] == [
        "| where | `le` | `ledbatpp` |",
        "| --- | --- | --- |",
        "| cubic · 1 | 0.99 | never |",
        "| reno · 1 | 0.98 | – |",
    ]
