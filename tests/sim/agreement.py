# SPDX-License-Identifier: GPL-2.0-only
"""The simulator beside the lab: the same runs in both, figure by figure. `make sim-agreement` writes AGREEMENT.md.

The lab's figures are those of build/lab/<kernel>/<row>/result.json, whatever rows and set were run there; the simulator
makes DRAWS draws of the same runs. A run that is not there keeps the lab's figure that the page has; the simulator's draws of
it are made anew as well, in the quick set.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tests.lab.engine.experiment import quantile
from tests.lab.report import place
from tests.lab.rows import figures, rows
from tests.lab.rows.builder import FULL, QUICK
from tests.lab.rows.row import Row, RunKey

from .session import HIGH, LOW, Work, choose, make_all, plan
from .translate import Unfit

KERNEL = "6.12"
DRAWS = 64
NEAR = 0.05  # of the simulator's median
FIGURES = ("goodput_foreground_mbit", "goodput_background_mbit")
PAGE = Path(__file__).parent / "AGREEMENT.md"


@dataclass(frozen=True)
class Compared:
    """One figure of one run."""

    row: str
    run: str
    figure: str
    lab: float  # the median of its draws
    lab_draws: int
    draws: list[float]

    @property
    def inside(self) -> bool:
        return min(self.draws) <= self.lab <= max(self.draws)

    @property
    def near(self) -> bool:
        return self.inside or self.distance <= NEAR

    @property
    def distance(self) -> float:
        """The distance of the lab's figure from the simulator's median, ÷ the median."""
        middle = statistics.median(self.draws)
        return abs(self.lab - middle) / middle if middle else 0.0


Lab = Mapping[tuple[str, str], tuple[float, int]]  # (words of a run, a figure) → the lab's median, and the number of its draws


def compare(work: Work, lab: Lab) -> Iterator[Compared]:
    for key in work.row.cells:
        for name in FIGURES:
            draws = [value for draw in work.row.repetitions(key) if (value := once(work, draw, name)) is not None]
            if draws and (words(key), name) in lab:
                yield Compared(work.row.id, words(key), name, *lab[words(key), name], draws)


def once(work: Work, key: RunKey, name: str) -> float | None:
    return figures.once(work.row, key, work.results).get(name)


def words(key: RunKey) -> str:
    return " · ".join(part for part in (key.foreground, key.background, key.point) if part)


def made(row: Row, row_set: str, jobs: int, say: Callable[[str], None]) -> Work | None:
    """The runs of a row in the simulator, if it fits and all of them can be made."""
    try:
        work = plan(row, 1, row_set)
    except Unfit:
        return None
    if make_all([work], jobs, say):
        return None
    say(f"{row.id}: {len(work.runs)} runs")
    return work


def said_of(row: Row, said: dict[str, Any]) -> Lab:
    """What a result.json of the lab says of a row's runs."""
    every = {**said["measured"], **said["peers"]}
    own = {words(key): every.get(key.background, {}).get(key.place or "all", {}) for key in row.cells}
    return {(run, name): (had[name], int(said["repeat"])) for run, had in own.items() for name in FIGURES if name in had}


def compared(words_: str, jobs: int, say: Callable[[str], None]) -> Iterator[Compared]:
    for row in choose(words_, FULL, 1) if words_ else rows.load_all():
        path = place.of_row(KERNEL, row.id) / "result.json"
        if not path.exists():
            continue
        said = json.loads(path.read_text())
        again = next(iter(rows.choose(row.id, set_=said["set"], repeat=DRAWS)), None)
        if again and (work := made(again, said["set"], jobs, say)):
            yield from compare(work, said_of(again, said))


@dataclass(frozen=True)
class Line:
    """One figure as the page has it: the words of its cells, or what they say."""

    cells: tuple[str, ...]

    @property
    def of(self) -> tuple[str, ...]:
        return self.cells[:3]  # row, run, whose

    @property
    def row(self) -> str:
        return self.cells[0]

    @property
    def lab(self) -> tuple[float, int]:
        median, _, draws = self.cells[3].partition(" ")
        return float(median), int(draws.strip("()").split()[0]) if draws else 1

    @property
    def inside(self) -> bool:
        return self.cells[-1] == ""

    @property
    def near(self) -> bool:
        return self.cells[-1] != FAR


OUTSIDE, FAR = "outside", "outside, far"
HEAD = ("row", "run", "", "lab", "simulator: median", "5 to 95 %", "least to most", "")


def whose(figure: str) -> str:
    return "foreground" if figure == FIGURES[0] else "background"


def line(one: Compared) -> Line:
    return Line((
        one.row, one.run, whose(one.figure), f"{one.lab:.2f}{f' ({one.lab_draws} draws)' if one.lab_draws > 1 else ''}",
        f"{statistics.median(one.draws):.2f}", f"{quantile(one.draws, LOW):.2f} … {quantile(one.draws, HIGH):.2f}",
        f"{min(one.draws):.2f} … {max(one.draws):.2f}", "" if one.inside else OUTSIDE if one.near else FAR,
    ))  # fmt: skip


def kept() -> list[Line]:
    """The lines of the page as it stands."""
    rows_of = PAGE.read_text().splitlines() if PAGE.exists() else []
    cells = [tuple(cell.strip() for cell in text.strip("|").split("|")) for text in rows_of if text.startswith("| ")]
    return [Line(own) for own in cells if len(own) == len(HEAD) and own != HEAD and own[0] != "---"]


def remade(known: list[Line], jobs: int, say: Callable[[str], None]) -> Iterator[Compared]:
    """The lines of runs that build/lab no longer has, with the simulator's draws of today."""
    figure = {whose(name): name for name in FIGURES}
    for id_ in dict.fromkeys(one.row for one in known):
        lab = {(one.cells[1], figure[one.cells[2]]): one.lab for one in known if one.row == id_}
        for row in rows.choose(id_, set_=QUICK, repeat=DRAWS):
            runs = {key: run for key, run in row.runs.items() if any(words(replace(key, number=0)) == run_ for run_, _ in lab)}
            if runs and (work := made(replace(row, runs=runs), QUICK, jobs, say)):
                yield from compare(work, lab)


def merged(found: list[Line], known: list[Line]) -> list[Line]:
    """In the order of the rows; of the same figure the one that was found now."""
    new = {one.of: one for one in found}
    order = {row.id: place for place, row in enumerate(rows.load_all())}
    every = [*(one for one in known if one.of not in new and one.row in order), *found]
    return sorted(every, key=lambda one: order[one.row])


def table(found: list[Line]) -> Iterator[str]:
    for cells in (HEAD, ("---",) * len(HEAD), *(one.cells for one in found)):
        yield f"| {' | '.join(cells)} |"


def counts(found: list[Line]) -> Iterator[str]:
    """How many figures agree, and of how many rows all figures do: in the stricter way and in the wider one."""
    rows_ = {one.row for one in found}
    wide = f"it does, or the simulator's median is within {NEAR * 100:g} % of it"
    yield f"| the simulator's draws | figures, of {len(found)} | rows of which every figure counts, of {len(rows_)} |"
    yield "| --- | --- | --- |"
    for words_, agree in (
        ("their range contains the lab's figure", [one.inside for one in found]),
        (wide, [one.near for one in found]),
    ):
        missed = {one.row for one, does in zip(found, agree, strict=True) if not does}
        yield f"| {words_} | {sum(agree)} | {len(rows_ - missed)} |"


def page(found: list[Line]) -> str:
    return "\n".join([
        "# The simulator beside the lab",
        "",
        f"Mbit/s of the same runs in both, {DRAWS} draws in the simulator:",
        "",
        *counts(found),
        "",
        f"What agrees in neither way is marked \"{FAR}\"; [README.md](README.md#where-it-is-far-from-the-lab) says why, and what else the "
        "simulator does otherwise. The lab's programs are not always the newest ones ([docs/results](../../docs/results/README.md)). "
        "Made by `make sim-agreement`; a run that is no longer in build/lab keeps the lab's figure.",
        "",
        *table(found),
        "",
    ])  # fmt: skip


def main(options: argparse.Namespace, say: Callable[[str], None]) -> int:
    jobs = max(1, options.jobs)
    new = list(compared(options.exp, jobs, say))
    known = merged([], kept())
    have = {line(one).of for one in new}
    found = [*new, *remade([one for one in known if one.of not in have], jobs, say)]
    if not found:
        say("no row was run in the lab: `make lab EXP=… SET=quick` first")
        return 2
    lines = merged([line(one) for one in found], known)
    PAGE.write_text(page(lines))
    say(f"{PAGE}: {len(new)} of {len(lines)} lab figures are new")
    return 0
