# SPDX-License-Identifier: GPL-2.0-only
"""The simulator beside the lab: the same runs in both, figure by figure. `make sim-agreement` writes AGREEMENT.md.

The lab's figures are those of build/lab/<kernel>/<row>/result.json, whatever rows and set were run there; the simulator
makes DRAWS draws of the same runs. A run that is not there keeps its lines on the page.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.lab.engine.experiment import quantile
from tests.lab.report import place
from tests.lab.rows import figures, rows
from tests.lab.rows.builder import FULL
from tests.lab.rows.row import RunKey

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


def compare(work: Work, said: dict[str, dict[str, dict[str, dict[str, float]]]], lab_draws: int) -> Iterator[Compared]:
    for key in work.row.cells:
        own = {**said["measured"], **said["peers"]}.get(key.background, {}).get(key.place or "all", {})
        for name in FIGURES:
            draws = [value for draw in work.row.repetitions(key) if (value := once(work, draw, name)) is not None]
            if name in own and draws:
                yield Compared(work.row.id, words(key), name, own[name], lab_draws, draws)


def once(work: Work, key: RunKey, name: str) -> float | None:
    return figures.once(work.row, key, work.results).get(name)


def words(key: RunKey) -> str:
    return " · ".join(part for part in (key.foreground, key.background, key.point) if part)


def compared(words_: str, jobs: int, say: Callable[[str], None]) -> Iterator[Compared]:
    for row in choose(words_, FULL, 1) if words_ else rows.load_all():
        path = place.of_row(KERNEL, row.id) / "result.json"
        if not path.exists():
            continue
        said = json.loads(path.read_text())
        again = next((one for one in rows.choose(row.id, set_=said["set"], repeat=DRAWS)), None)
        try:
            work = plan(again, 1, said["set"]) if again else None
        except Unfit:
            continue
        if not work or make_all([work], jobs, say):
            continue
        say(f"{row.id}: {len(work.runs)} runs")
        yield from compare(work, said, int(said["repeat"]))


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
    def inside(self) -> bool:
        return self.cells[-1] == ""

    @property
    def near(self) -> bool:
        return self.cells[-1] != FAR


OUTSIDE, FAR = "outside", "outside, far"
HEAD = ("row", "run", "", "lab", "simulator: median", "5 to 95 %", "least to most", "")


def line(one: Compared) -> Line:
    who = "foreground" if one.figure == FIGURES[0] else "background"
    return Line((
        one.row, one.run, who, f"{one.lab:.2f}{f' ({one.lab_draws} draws)' if one.lab_draws > 1 else ''}",
        f"{statistics.median(one.draws):.2f}", f"{quantile(one.draws, LOW):.2f} … {quantile(one.draws, HIGH):.2f}",
        f"{min(one.draws):.2f} … {max(one.draws):.2f}", "" if one.inside else OUTSIDE if one.near else FAR,
    ))  # fmt: skip


def kept() -> list[Line]:
    """The lines of the page as it stands."""
    rows_of = PAGE.read_text().splitlines() if PAGE.exists() else []
    cells = [tuple(cell.strip() for cell in text.strip("|").split("|")) for text in rows_of if text.startswith("| ")]
    return [Line(own) for own in cells if len(own) == len(HEAD) and own != HEAD and own[0] != "---"]


def merged(found: list[Line], known: list[Line]) -> list[Line]:
    """In the order of the rows; of the same figure the one that was found now."""
    new = {one.of: one for one in found}
    order = {row.id: place for place, row in enumerate(rows.load_all())}
    every = [*(one for one in known if one.of not in new and one.row in order), *found]
    return sorted(every, key=lambda one: order[one.row])


def table(found: list[Line]) -> Iterator[str]:
    for cells in (HEAD, ("---",) * len(HEAD), *(one.cells for one in found)):
        yield f"| {' | '.join(cells)} |"


def page(found: list[Line]) -> str:
    ids = {one.row for one in found}
    inside = [one for one in found if one.inside]
    near = [one for one in found if one.near]
    whole = [id_ for id_ in ids if all(one.near for one in found if one.row == id_)]
    return "\n".join([
        "# The simulator beside the lab",
        "",
        f"Mbit/s of the same runs in both: {len(ids)} rows, {DRAWS} draws in the simulator. The draws' range contains the "
        f"lab's figure in {len(inside)} of {len(found)} cases, and it contains it or its median is within {NEAR * 100:g} % of it in "
        f"{len(near)}; so it is with every figure of {len(whole)} of the rows. The others are marked \"{FAR}\". The lab's programs are "
        "not always the newest ones ([docs/results](../../docs/results/README.md)). What the simulator does otherwise is in "
        "[README.md](README.md). Made by `make sim-agreement`; a run that is no longer in build/lab keeps its line.",
        "",
        *table(found),
        "",
    ])  # fmt: skip


def main(options: argparse.Namespace, say: Callable[[str], None]) -> int:
    found = list(compared(options.exp, max(1, options.jobs), say))
    if not found:
        say("no row was run in the lab: `make lab EXP=… SET=quick` first")
        return 2
    lines = merged([line(one) for one in found], kept())
    PAGE.write_text(page(lines))
    say(f"{PAGE}: {len(found)} figures new, {len(lines) - len(found)} as they were")
    return 0
