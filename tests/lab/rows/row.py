# SPDX-License-Identifier: GPL-2.0-only
"""What a row is: an experiment with all its runs, and the bounds that judge it. rows.py loads them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ..engine.scenario import VirtualExperiment
from .schema import RowError, Table, placeholder

ALONE, IDEAL, AS_GIVEN = "alone", "ideal", "as given"
MEDIAN = "the median"


@dataclass(frozen=True)
class Bound:
    """A measure, and what it must be. `of`: the measure of that run (alone, ideal, a controller) divides it."""

    what: str
    measure: str
    op: str
    bound: float
    options: Table = field(default_factory=dict)  # of the measure; may hold "@point.key"
    of: str = ""
    points: tuple[str, ...] = ()  # names; empty: all
    of_point: str = ""  # the same at this point divides it
    for_: tuple[str, ...] = ()  # controllers; empty: ours
    foregrounds: tuple[str, ...] = ()  # empty: all
    part: float = 0.5  # of a run's draws, which must hold: 0.5 is the median, 1 every one
    mean: bool = False  # instead: the mean of the draws must hold
    table: bool = False  # the simulator's report has the figure of every run, the peers' too

    @property
    def upper(self) -> bool:
        """More is worse."""
        return self.op.startswith("<")

    @property
    def draws(self) -> str:
        """Which of several draws is judged, in words."""
        if self.mean:
            return "the mean"
        if self.part == 0.5:
            return MEDIAN
        return "every draw" if self.part == 1 else f"{self.part:g} of the draws"


@dataclass(frozen=True)
class Point:
    """One value of the quantity that is swept."""

    name: str
    value: Any = None  # a number, a word, or a table of them

    def _said(self, key: str) -> Any:
        return self.value.get(key) if isinstance(self.value, dict) else None

    def kernels(self, otherwise: str) -> list[str]:
        """The kernels that it is for; a table may name them."""
        return list(self._said("kernels") or [otherwise])

    @property
    def controllers(self) -> list[str]:
        """The controllers of @background that run in this row alone; a table may name them."""
        return list(self._said("for") or [])

    def has(self, controller: str) -> bool:
        return controller in (self.controllers or [controller])

    @property
    def only(self) -> str:
        """The only set that it is for."""
        return self._said("only") or ""


@dataclass(frozen=True, order=True)
class RunKey:
    """Which run of a row."""

    foreground: str
    point: str
    background: str  # alone, ideal, a controller, or "as given"
    number: int = 0  # of a draw

    @property
    def words(self) -> str:
        parts = (self.foreground, self.background, self.point, f"#{self.number + 1}" if self.number else "")
        return " · ".join(part for part in parts if part and part != AS_GIVEN) or "the run"

    @property
    def place(self) -> str:
        """The place, without the background."""
        return " · ".join(part for part in (self.foreground, self.point) if part)

    @property
    def slug(self) -> str:
        """A name for a directory."""
        parts = [part for part in (self.foreground, self.background, self.point) if part]
        parts += [str(self.number + 1)] if self.number else []
        return "_".join(map(slug, parts))


def slug(words: str) -> str:
    """The text as a part of a file's name."""
    return "".join(c if c.isalnum() or c in ".-" else "-" for c in words)


@dataclass(frozen=True)
class Row:
    """One experiment with all its runs."""

    id: str
    what: str
    file: Path
    title: str  # of the file
    paper: Table
    scale: str
    foregrounds: tuple[str, ...]
    ours: tuple[str, ...]
    peers: tuple[str, ...]
    points: tuple[Point, ...]
    swept: str  # what the points are, with its unit
    bounds: tuple[Bound, ...]
    plots: tuple[str, ...]
    runs: Mapping[RunKey, VirtualExperiment]
    from_s: float
    to_s: float
    memory_mb: int
    note: str = ""
    repeat: int = 1  # draws of each run
    plot_points: tuple[str, ...] = ()  # whose runs are drawn over time; empty: all
    for_sim: bool = False  # it has a table `sim`

    @property
    def cells(self) -> list[RunKey]:
        """The runs, one for all draws of each."""
        return [key for key in self.runs if not key.number]

    def repetitions(self, key: RunKey) -> list[RunKey]:
        return [replace(key, number=number) for number in range(self.repeat)]

    @property
    def controllers(self) -> tuple[str, ...]:
        """The controllers that have a verdict: ours, then the peers."""
        return (*self.ours, *self.peers) or (AS_GIVEN,)

    @property
    def judged(self) -> tuple[str, ...]:
        """The controllers whose bounds decide whether the row holds."""
        return self.ours or (AS_GIVEN,)

    @property
    def drawn_points(self) -> list[str]:
        """The points whose runs are drawn over time."""
        names = [point.name for point in self.points]
        return [name for name in names if not self.plot_points or name in self.plot_points]

    def point(self, name: str) -> Point:
        return next(point for point in self.points if point.name == name)

    def only(self, names: Collection[str]) -> Row | None:
        """The same row with these of its controllers, and the runs that they are compared with; None: it has none of them."""
        ours, peers = (tuple(name for name in group if name in names) for group in (self.ours, self.peers))
        if not ours and not peers:
            return None
        kept = {ALONE, IDEAL, *ours, *peers, *(bound.of for bound in self.bounds)}
        runs = {key: run for key, run in self.runs.items() if key.background in kept}
        return replace(self, ours=ours, peers=peers, runs=runs)

    def about(self, bound: Bound, controller: str) -> list[RunKey]:
        """The runs that this bound is about, one for all draws of each."""
        return [
            key
            for key in self.cells
            if key.background == controller
            and (not bound.points or key.point in bound.points)
            and (not bound.foregrounds or key.foreground in bound.foregrounds)
        ]

    def options(self, bound: Bound, key: RunKey) -> dict[str, Any]:
        """The options of the bound's measure in that run, with all placeholders filled."""
        filling = Filling(key.foreground, key.background, self.point(key.point))
        return dict(filling.of(f"row {self.id}: options", dict(bound.options)))


# --- placeholders ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Filling:
    """The values of the placeholders in one run."""

    foreground: str
    background: str
    point: Point

    def of(self, where: str, value: Any) -> Any:
        """The value with every placeholder in it filled."""
        if isinstance(value, dict):
            return {key: self.of(f"{where}.{key}", item) for key, item in value.items()}
        if isinstance(value, list):
            return [self.of(where, item) for item in value]
        if not placeholder(value):
            return value
        if value == "@foreground":
            return self.foreground
        if value == "@background":
            return self.background
        name, _, key = value.partition(".")
        if name != "@point" or (key and not isinstance(self.point.value, dict)):
            raise RowError(f"{where}: {value}: there are @foreground, @background, @point, @point.KEY of a table")
        if key and key not in self.point.value:
            raise RowError(f"{where}: {value}: point {self.point.name} has only {', '.join(self.point.value)}")
        return self.point.value[key] if key else self.point.value


def mentioned(value: Any) -> Iterator[str]:
    """All placeholders in a value."""
    if isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from mentioned(item)
    elif placeholder(value):
        yield value
