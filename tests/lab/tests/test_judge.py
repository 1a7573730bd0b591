# SPDX-License-Identifier: GPL-2.0-only
"""The judge and the session, with runs that are made up: verdicts, result.json, exit codes, going on after a stop."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from .. import session
from ..engine import virtual_experiment
from ..engine.experiment import Result
from ..engine.scenario import Traffic, VirtualExperiment
from ..engine.virtual_result import TrafficResult, VirtualResult
from ..guest import image
from ..guest.errors import LabError
from ..report import place, plots, report
from ..rows import figures, judge, rows
from ..rows.rows import ALONE, IDEAL, RunKey
from .test_measures import CAPACITY, constant, flow, result

ROW = """
title = "mine"
[row.mine]
what = "a row of my own"
paper = { "TCP" = "96.8 %" }
ours = ["tcp_lp"]
peers = ["lp"]
ideal = "reno"
seconds = 20
plots = []
link = { rate_mbit = 10, rtt_ms = 50, buffer_bdp = "@point" }
sweep = { what = "buffer, BDP", values = [1, 2] }
flow = [
    { name = "foreground", controller = "@foreground" },
    { name = "background", controller = "@background", background = true },
]
bounds = [
    { what = "keeps", measure = "transparency", op = ">=", bound = 0.9 },
    { what = "takes less", measure = "goodput", options = { flows = "background" }, of = "lp", op = "<", bound = 0.5 },
    { what = "small", measure = "goodput", options = { flows = "background" }, op = "<=", bound = 1.5, points = ["2"] },
]
"""
GOODPUT = {"tcp_lp": (8.0, 1.0), "lp": (4.0, 5.0), ALONE: (9.0, 0.0), IDEAL: (9.0, 0.1)}
KEPT = {  # what LAB.md promises to other tools
    "id", "holds", "bounds", "measured", "paper", "peers", "kernel", "seed", "scale", "virtual_s", "wall_s", "git",
}  # fmt: skip


@pytest.fixture
def row(tmp_path: Path) -> rows.Row:
    path = tmp_path / "mine.toml"
    path.write_text(ROW)
    return rows.load(path)[0]


def made_up(key: RunKey) -> VirtualResult:
    foreground, background = GOODPUT[key.background]
    if key.background == "tcp_lp" and key.point == "1":
        foreground = 8.5
    return result(flow("foreground", constant(foreground)), flow("background", constant(background)))


# --- verdicts --------------------------------------------------------------------------------------------------------


def test_the_worst_point_decides(row: rows.Row) -> None:
    keeps, less, small = (v for v in judge.judge(row, made_up) if v.controller == "tcp_lp")
    assert keeps.measured == pytest.approx(8 / 9) and keeps.at.point == "2" and not keeps.holds
    assert less.measured == pytest.approx(0.2) and less.holds
    assert small.holds and small.at.point == "2"


def test_a_bound_with_a_table_shows_every_run(tmp_path: Path) -> None:
    """The peers' as well, of several draws the one that decides, and the worst one where it differs."""
    asked = drawn(tmp_path, 3, ", table = true")

    def results(key: RunKey) -> Result:
        return result(flow("foreground", constant(9 if key.background == ALONE else 9 * [0.9, 0.5, 0.8][key.number])))

    (table,) = judge.tables_of(asked, results)
    assert table["what"] == asked.bounds[0].what
    assert set(table["cells"]) == {key.place for key in asked.about(asked.bounds[0], "tcp_lp")}
    assert all(cells == dict.fromkeys(asked.controllers, "0.8, worst 0.5") for cells in table["cells"].values())
    once = judge.tables_of(drawn(tmp_path, 1, ", table = true"), results)
    assert {cell for cells in once[0]["cells"].values() for cell in cells.values()} == {"0.9"}
    assert len(asked.controllers) > len(asked.ours) and not judge.tables_of(drawn(tmp_path, 1), results)


def drawn(tmp_path: Path, repeat: int, extra: str = "") -> rows.Row:
    """The row with several draws; `extra` goes into its first bound."""
    path = tmp_path / "mine.toml"
    text = ROW.replace("seconds = 20", f"seconds = 20\nrepeat = {repeat}")
    path.write_text(text.replace("bound = 0.9 }", f"bound = 0.9{extra} }}"))
    return rows.load(path)[0]


def first_bound(row: rows.Row, kept: tuple[float, ...]) -> judge.Verdict:
    """Its verdict where the foreground keeps so much of 9 Mbit/s in each draw."""

    def results(key: RunKey) -> Result:
        rate = 9.0 if key.background == ALONE else 9 * kept[key.number]
        return result(flow("foreground", constant(rate)), flow("background", constant(1)))

    verdict = judge.judge_bound(row, row.bounds[0], "tcp_lp", results)
    assert verdict
    return verdict


def test_draws_differ_in_when_the_background_starts(tmp_path: Path) -> None:
    row = drawn(tmp_path, 3)
    starts = [row.runs[key].flows[1].start_s for key in row.repetitions(RunKey("reno", "1", "lp"))]
    assert starts == pytest.approx([0, 0.05, 0.1])
    alone = [row.runs[key] for key in row.repetitions(RunKey("reno", "1", ALONE))]
    assert {run.flows for run in alone} == {alone[0].flows}


def test_the_median_of_the_draws_is_judged(tmp_path: Path) -> None:
    """One draw of five far below does not decide, and neither does one far above: the mean would."""
    row = drawn(tmp_path, 5)
    held = first_bound(row, (0.1, 0.95, 0.91, 0.92, 0.96))
    assert held.holds and held.measured == pytest.approx(0.92) and sum(held.draws) / 5 < 0.9
    short = first_bound(row, (1.5, 0.85, 0.89, 0.95, 0.8))
    assert not short.holds and short.measured == pytest.approx(0.89) and sum(short.draws) / 5 > 0.9
    shown = judge._bound(held)
    assert (shown["least"], shown["most"], shown["worst"]) == pytest.approx((0.1, 0.96, 0.1))
    assert shown["judged"] == "the median" and shown["held"] == 4 and len(held.draws) == 5


@pytest.mark.parametrize(
    ("extra", "draws", "measured", "judged"),
    [
        (", every = true", (0.95, 0.93, 0.99, 0.89, 0.97), 0.89, "every draw"),
        (", part = 0.8", (0.95, 0.93, 0.99, 0.89, 0.97), 0.93, "0.8 of the draws"),
        (", part = 0.6", (0.95, 0.93, 0.99, 0.89, 0.97), 0.95, "0.6 of the draws"),
        ("", (0.95, 0.93, 0.99, 0.89), 0.93, "the median"),  # more than half of them
        ("", (0.95, 0.89), 0.89, "the median"),
        (", mean = true", (0.95, 0.93, 0.99, 0.89, 0.97), 0.946, "the mean"),
    ],
)
def test_a_bound_says_how_many_of_the_draws_must_hold(
    tmp_path: Path, extra: str, draws: tuple[float, ...], measured: float, judged: str
) -> None:
    row = drawn(tmp_path, len(draws), extra)
    verdict = first_bound(row, draws)
    assert verdict.measured == pytest.approx(measured) and row.bounds[0].draws == judged
    assert verdict.holds == (measured >= 0.9)


def test_a_draw_that_cannot_be_measured_is_the_worst(tmp_path: Path) -> None:
    verdict = first_bound(drawn(tmp_path, 3), (math.nan, 0.95, 0.92))
    assert verdict.holds and verdict.measured == pytest.approx(0.92)
    shown = judge._bound(verdict)
    assert shown["worst"] is None and shown["draws"] == [None, 0.95, 0.92]
    assert "3 hold" in session.draws_of(shown) and "worst never" in session.draws_of(shown)
    assert not first_bound(drawn(tmp_path, 3, ", every = true"), (math.nan, 0.95, 0.92)).holds


def test_figures_are_medians_with_their_range(tmp_path: Path) -> None:
    row = drawn(tmp_path, 3)

    def differ(key: RunKey) -> Result:
        return result(flow("foreground", constant((9, 1, 8)[key.number])), flow("background", constant(1)))

    made = figures.spreads(row, RunKey("reno", "2", "tcp_lp"), differ)["goodput_foreground_mbit"]
    assert (made.median, made.least, made.most) == pytest.approx((8, 1, 9))
    whole = judge.result_of(row, differ, kernel="6.12", seed=1, set_="full", virtual_s=9, wall_s=3, git="abc")
    median, span = (whole[key]["tcp_lp"]["reno · 2"]["goodput_foreground_mbit"] for key in ("measured", "ranges"))
    assert median == pytest.approx(8) and span == pytest.approx([1, 9])
    page = report.page([row], {row.id: {**whole, "command": "make lab"}}, "6.12")
    assert "3 draws of each" in page and "<small>1 … 9</small>" in page and "of 3 draws hold" in page
    assert "the median" in page


def test_where_nobody_else_is_the_ideal_is_the_whole_link(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    lines = [line for line in ROW.splitlines() if "@foreground" not in line and "keeps" not in line]
    path.write_text("\n".join(lines).replace('ideal = "reno"', 'ideal = ""'))
    row = rows.load(path)[0]
    key = RunKey("", "1", "tcp_lp")
    made = figures.spreads(row, key, lambda key: result(flow("background", constant(CAPACITY / 4))))
    assert made["distance_to_ideal"].median == pytest.approx(0.75)


def test_peers_are_judged_and_decide_nothing(row: rows.Row) -> None:
    verdicts = judge.judge(row, made_up)
    assert {v.controller for v in verdicts} == {"tcp_lp", "lp", IDEAL}
    assert [judge.decides(row, v) for v in verdicts if v.controller != "tcp_lp"] == [False] * 6


def test_a_run_that_never_ended_divides_by_what_it_lasted(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    text = ROW.replace('"goodput", options = { flows = "background" }, of = "lp"', '"response_mean", of = "lp"')
    path.write_text(text.replace("bounds =", 'traffic = [{ name = "web", kind = "web" }]\nbounds ='))
    row = rows.load(path)[0]

    def web(key: RunKey) -> Result:
        made = made_up(key)
        seconds = 4.0 if key.background == "tcp_lp" else math.inf
        made.traffic = {"web": TrafficResult(Traffic("web", "web", 20), [(0.0, 1e4, seconds)])}
        return made

    less = judge.judge_bound(row, row.bounds[1], "tcp_lp", web)
    assert less and less.measured == pytest.approx(4 / made_up(RunKey("reno", "1", "lp")).experiment.end_s)


def test_what_cannot_be_measured_never_holds(row: rows.Row) -> None:
    verdicts = judge.judge(row, lambda key: result(flow("background", constant(1))))
    keeps = next(v for v in verdicts if v.bound.what == "keeps")
    assert math.isnan(keeps.measured) and not keeps.holds


def test_result_is_what_was_promised(row: rows.Row, tmp_path: Path) -> None:
    made = judge.result_of(row, made_up, kernel="6.12", seed=1, set_="full", virtual_s=9, wall_s=3, git="abc")
    judge.write(tmp_path / "result.json", made)
    read = json.loads((tmp_path / "result.json").read_text())
    assert read.keys() >= KEPT
    assert read["holds"] is False
    assert read["bounds"][0].keys() >= {"what", "measured", "op", "bound", "holds"}
    assert [bound["holds"] for bound in read["bounds"]] == [False, True, True]
    assert read["measured"]["tcp_lp"]["reno · 2"]["transparency"] == pytest.approx(0.88889)
    assert read["peers"]["lp"]["reno · 1"]["distance_to_ideal"] > 0.4
    assert read["paper"] == {"TCP": "96.8 %"}


def test_report_stands_alone_and_shows_what_was_not_run(row: rows.Row) -> None:
    made = judge.result_of(row, made_up, kernel="6.12", seed=1, set_="full", virtual_s=9, wall_s=3, git="abc")
    made["command"] = "make lab EXP=mine"
    page = report.page([row], {row.id: made}, "6.12")
    assert "falls short" in page and "96.8 %" in page and "make lab EXP=mine" in page and "vegas" not in page
    assert "http" not in page and "<script" not in page
    assert "Not run" in report.page([row], {row.id: None}, "6.12")


def test_a_result_of_another_version_is_not_run(row: rows.Row, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(place, "ROOT", tmp_path)
    path = tmp_path / "6.12" / row.id / "result.json"
    path.parent.mkdir(parents=True)
    for text in ("", "[]", json.dumps({"id": row.id, "holds": True})):
        path.write_text(text)
        assert report.read(row, "6.12") is None
    whole = judge.result_of(row, made_up, kernel="6.12", seed=1, set_="full", virtual_s=9, wall_s=3, git="abc")
    path.write_text(json.dumps({**whole, "command": "make lab"}))
    assert report.read(row, "6.12")


# --- the session -----------------------------------------------------------------------------------------------------


class Lab(NamedTuple):
    """A session whose guests are made up."""

    run: Callable[..., int]
    made: list[VirtualExperiment]  # so far
    make: Callable[[session.Job, object], session.Note]  # one run


@pytest.fixture
def lab(row: rows.Row, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lab:
    made: list[VirtualExperiment] = []

    def digest(experiment: VirtualExperiment, *rest: object) -> str:
        return experiment.name.replace(" ", "_").replace("·", "").replace(":", "")

    def make(job: session.Job, watch: object = None) -> session.Note:
        made.append(job.experiment)
        note: session.Note = {
            "name": job.experiment.name,
            "virtual_s": 20.0,
            "wall_s": 1.0,
            "exit_code": 0,
            "mode": "lockstep",
        }
        job.directory.mkdir(parents=True, exist_ok=True)
        session.keep(job, note)
        return note

    def load(job: session.Job) -> Result:
        return made_up(next(key for key, run in row.runs.items() if run == job.experiment))

    class FakeGuest:
        release = "6.12"

    monkeypatch.setattr(place, "ROOT", tmp_path / "lab")
    monkeypatch.setattr(session, "digest_of", digest)
    monkeypatch.setattr(session, "load", load)
    monkeypatch.setattr(image, "build", lambda kernel: FakeGuest())

    def run(make_job: Callable[..., session.Note] = make) -> int:
        return session.run(session.plan([row], "6.12", 1, "full"), 1, make_job)

    return Lab(run, made, make)


def test_a_bound_that_fails_is_exit_code_1(lab: Lab, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run, made, _ = lab
    assert run() == 1
    assert len(made) == 8
    said = capsys.readouterr().out
    assert "1 rows, 8 runs; on Linux 6.12" in said
    assert "mine: FALLS SHORT" in said and "falls short tcp_lp     0.8889 >= 0.9: keeps (reno · 2)" in said
    assert json.loads((tmp_path / "lab/6.12/mine/result.json").read_text())["holds"] is False


def test_without_bounds_the_figures_are_printed(row: rows.Row) -> None:
    bare = dataclasses.replace(row, bounds=())
    made = judge.result_of(bare, made_up, kernel="6.12", seed=1, set_="full", virtual_s=9, wall_s=3, git="abc")
    first, *said = session.lines_of(made)
    assert first == "mine: printed, not judged"
    assert len(said) == len(bare.cells) and all("foreground, Mbit/s" in line for line in said)
    assert any(line.startswith("  tcp_lp     reno · 2: foreground, Mbit/s 8; background, Mbit/s 1; ") for line in said)
    assert len(session.lines_of(judge.result_of(row, made_up, kernel="6.12", seed=1, set_="full", virtual_s=9, wall_s=3,
                                                git="abc"))) == 4  # fmt: skip


def test_every_point_is_drawn_unless_the_row_names_some(row: rows.Row, tmp_path: Path) -> None:
    drawing = dataclasses.replace(row, plots=("rates", "windows", "responses", "estimates"))
    names = plots.draw(drawing, made_up, tmp_path)
    kinds = ("rates", "windows", "estimates")  # there are no objects with a response time
    assert names == [f"{kind}-reno-{point}.png" for kind in kinds for point in ("1", "2")]
    assert all((tmp_path / name).exists() for name in names)
    some = dataclasses.replace(drawing, plots=("rates",), plot_points=("2",))
    assert plots.draw(some, made_up, tmp_path) == ["rates-reno-2.png"]


def test_all_that_hold_is_exit_code_0(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(GOODPUT, "tcp_lp", (8.9, 1.0))
    monkeypatch.setitem(GOODPUT, ALONE, (8.9, 0.0))
    assert lab.run() == 0


def test_a_failure_of_the_lab_is_exit_code_2_and_no_result(lab: Lab, tmp_path: Path) -> None:
    run, made, make = lab

    def broken(job: session.Job, watch: object) -> session.Note:
        if "lp · 2" in job.experiment.name:
            raise LabError("the guest gave no result")
        return make(job, watch)

    assert run(broken) == 2
    assert not (tmp_path / "lab/6.12/mine/result.json").exists()
    made.clear()
    assert run() == 1
    assert {experiment.name for experiment in made} == {"mine: reno · lp · 2", "mine: reno · tcp_lp · 2"}


def test_goes_on_where_it_stopped(lab: Lab) -> None:
    run, made, make = lab

    def stops(job: session.Job, watch: object) -> session.Note:
        if len(made) == 3:
            raise KeyboardInterrupt
        return make(job, watch)

    with pytest.raises(KeyboardInterrupt):
        run(stops)
    before = list(made)
    made.clear()
    assert run() == 1
    assert not {e.name for e in before} & {e.name for e in made}
    made.clear()
    assert run() == 1 and made == []


def test_a_run_whose_note_is_half_written_was_not_made(row: rows.Row, lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    def killed(self: Path, text: str) -> int:
        with self.open("w") as file:
            file.write(text[:5])
        raise KeyboardInterrupt

    (work,) = session.plan([row], "6.12", 1, "full")
    job = next(iter(work.jobs.values()))
    job.directory.mkdir(parents=True)
    note: session.Note = {"name": "mine", "virtual_s": 20.0, "wall_s": 1.0, "exit_code": 0, "mode": "lockstep"}
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(Path, "write_text", killed)
        session.keep(job, note)
    assert not job.made
    session.keep(job, note)
    assert job.made and session.note_of(job) == note


def test_digest_is_of_all_that_decides(row: rows.Row, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class FakeGuest:
        directory = Path("guest-1")
        release = "6.12.1"

    objects = tmp_path / "bpf"
    objects.mkdir()
    (objects / "tcp_lp.bpf.o").write_text("one")
    monkeypatch.setattr(virtual_experiment, "OURS", objects)
    monkeypatch.setattr(image, "build", lambda kernel: FakeGuest())
    monkeypatch.setattr(session, "qemu_version", lambda: "7.2")
    ours, theirs = (row.runs[RunKey("reno", "1", name)] for name in ("tcp_lp", "lp"))
    first, peer = session.digest_of(ours, 256, "6.12", 1), session.digest_of(theirs, 256, "6.12", 1)
    assert session.digest_of(ours, 256, "6.12", 1) == first
    others = [session.digest_of(ours, 512, "6.12", 1), session.digest_of(ours, 256, "6.12", 2)]
    (objects / "tcp_lp.bpf.o").write_text("two")
    others.append(session.digest_of(ours, 256, "6.12", 1))
    assert session.digest_of(theirs, 256, "6.12", 1) == peer  # none of ours in it
    FakeGuest.directory = Path("guest-2")
    others.append(session.digest_of(ours, 256, "6.12", 1))
    FakeGuest.release = "7.2.13"  # another processor
    others.append(session.digest_of(ours, 256, "6.12", 1))
    assert len({first, *others}) == 6


def test_what_is_not_judged_has_a_curve_too(tmp_path: Path) -> None:
    """One per row that asks for it: of the bounds' measures, else of what the foreground keeps or has of the other's."""
    (settled,) = rows.choose("ltcp-rttref-rtt")
    assert [bound.measure for bound in plots.curve_bounds(settled)] == ["goodput_ratio"]
    for row in rows.load_all():
        assert plots.curve_bounds(row) or "curve" not in row.plots, row.id
