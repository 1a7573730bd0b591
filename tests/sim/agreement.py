# SPDX-License-Identifier: GPL-2.0-only
"""The simulator beside the lab: the same runs in both, figure by figure. `make sim-agreement` writes AGREEMENT.md.

The lab's figures are those of build/lab/<kernel>/<row>/result.json, whatever rows and set were run there; the simulator
makes DRAWS draws of the same runs.
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


def table(found: list[Compared]) -> Iterator[str]:
    yield "| row | run | | lab | simulator: median | 5 to 95 % | least to most | |"
    yield "| --- | --- | --- | --- | --- | --- | --- | --- |"
    for one in found:
        who = "foreground" if one.figure == FIGURES[0] else "background"
        mark = "" if one.inside else "outside"
        yield (
            f"| {one.row} | {one.run} | {who} | {one.lab:.2f}{f' ({one.lab_draws} draws)' if one.lab_draws > 1 else ''} "
            f"| {statistics.median(one.draws):.2f} | {quantile(one.draws, LOW):.2f} … {quantile(one.draws, HIGH):.2f} "
            f"| {min(one.draws):.2f} … {max(one.draws):.2f} | {mark} |"
        )


def page(found: list[Compared]) -> str:
    ids = {one.row for one in found}
    inside = [one for one in found if one.inside]
    near = [one for one in found if one.near]
    whole = [id_ for id_ in ids if all(one.near for one in found if one.row == id_)]
    return "\n".join([
        "# The simulator beside the lab",
        "",
        f"Mbit/s of the same runs in both: {len(ids)} rows, {DRAWS} draws in the simulator. The draws' range contains the "
        f"lab's figure in {len(inside)} of {len(found)} cases, and it contains it or its median is within {NEAR * 100:g} % of it in "
        f"{len(near)}; so it is with every figure of {len(whole)} of the rows. The programs are the same in both, not always the "
        "newest. What the simulator does otherwise is in [README.md](README.md). Made by `make sim-agreement`.",
        "",
        *table(found),
        "",
    ])  # fmt: skip


def main(options: argparse.Namespace, say: Callable[[str], None]) -> int:
    found = list(compared(options.exp, max(1, options.jobs), say))
    if not found:
        say("no row was run in the lab: `make lab EXP=… SET=quick` first")
        return 2
    PAGE.write_text(page(found))
    say(f"{PAGE}: {len(found)} figures of {len({one.row for one in found})} rows")
    return 0
