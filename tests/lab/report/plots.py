# SPDX-License-Identifier: GPL-2.0-only
"""A row's pictures, as PNG: rates, queue and windows over time, a curve over the points, response times by size.

Small multiples: one column per controller, ours first, then the peers and the ideal, all on the same axes, so that the
eye compares. Colours mean the same everywhere: blue foreground, vermilion background.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .. import measures
from ..engine.experiment import Result
from ..rows.figures import Results
from ..rows.judge import value_of
from ..rows.row import ALONE, IDEAL, Bound, Row, RunKey, slug
from .chart import BACKGROUND, FOREGROUND, NEUTRAL

BIN_S = 0.5  # rates are means over this time
COLUMNS_MAX = 7
LINES = ("#D55E00", "#0072B2", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#8C6D31", "#444444")  # Okabe and Ito's

STYLE = {
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#e6e6e6",
    "axes.axisbelow": True,
    "lines.linewidth": 1.4,
    "savefig.dpi": 110,
}


@contextmanager
def drawing() -> Iterator[Any]:
    """matplotlib's pyplot without a screen, in our style."""
    os.environ.setdefault("MPLCONFIGDIR", str(Path(__file__).resolve().parents[3] / ".cache/matplotlib"))
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    with pyplot.rc_context(STYLE):
        yield pyplot
        pyplot.close("all")


def draw(row: Row, results: Results, directory: Path) -> list[str]:
    """All that the row asks for; returns the files' names."""
    made: list[str] = []
    with drawing() as pyplot:
        if "rates" in row.plots or "queue" in row.plots:
            made += over_time(pyplot, row, results, directory)
        if "windows" in row.plots:
            made += windows(pyplot, row, results, directory)
        if "estimates" in row.plots:
            made += estimates(pyplot, row, results, directory)
        if "curve" in row.plots and len(row.points) > 1:
            made += curves(pyplot, row, results, directory)
        if "responses" in row.plots:
            made += responses(pyplot, row, results, directory)
    return made


def name_of(controller: str) -> str:
    return {IDEAL: "strict priority", ALONE: "foreground alone"}.get(controller, controller)


def columns(row: Row, foreground: str, point: str) -> list[RunKey]:
    """The runs that are shown side by side."""
    order = [*row.controllers, IDEAL]
    keys = [RunKey(foreground, point, name) for name in order]
    return [key for key in keys if key in row.runs][:COLUMNS_MAX]


@dataclass(frozen=True)
class Panels:
    """The runs of one picture over time: one foreground at one point, a column per controller."""

    foreground: str
    point: str
    keys: list[RunKey]

    def file(self, kind: str) -> str:
        return "-".join(part for part in (kind, slug(self.foreground), slug(self.point)) if part) + ".png"

    @property
    def words(self) -> str:
        return " · ".join(part for part in (f"foreground {self.foreground}" if self.foreground else "", self.point) if part)


def panels(row: Row, judged: bool = False) -> list[Panels]:
    """Every picture over time of a row, or of those that are judged alone."""
    found = []
    for foreground in row.foregrounds:
        for point in row.drawn_points:
            keys = [key for key in columns(row, foreground, point) if not judged or key.background in row.judged]
            found += [Panels(foreground, point, keys)] if keys else []
    return found


def grid(pyplot: Any, rows: int, count: int, height: float, ratios: list[float] | None = None) -> tuple[Any, Any]:
    width = max(4.2, min(12.5, 2.1 * count + 0.9))
    figure, axes = pyplot.subplots(
        rows, count, figsize=(width, height), sharex="col", sharey="row", squeeze=False,
        height_ratios=ratios or [1.0] * rows,
    )  # fmt: skip
    return figure, axes


def save(pyplot: Any, figure: Any, path: Path, top: float = 1.0) -> str:
    figure.tight_layout(rect=(0, 0, 1, top))
    figure.savefig(path)
    pyplot.close(figure)
    return path.name


def legend(figure: Any, axis: Any) -> None:
    handles, labels = axis.get_legend_handles_labels()
    figure.legend(handles, labels, loc="upper right", ncols=max(1, len(labels)), frameon=False, fontsize=8.5)


# --- over time -------------------------------------------------------------------------------------------------------


def rate_line(result: Result, flows: str) -> tuple[list[float], list[float]]:
    """Middle of each bin, goodput in it."""
    members = measures.group(result, flows)
    count = int(result.experiment.end_s / BIN_S)
    times = [i * BIN_S for i in range(count)]
    return [t + BIN_S / 2 for t in times], [measures.received_mbit(members, t, t + BIN_S) for t in times]


def over_time(pyplot: Any, row: Row, results: Results, directory: Path) -> list[str]:
    """rates-<foreground>-<point>.png: goodput above, true queueing delay beneath."""
    made = []
    for panel in panels(row):
        figure, axes = grid(pyplot, 2, len(panel.keys), 3.6, [2, 1])
        for column, key in enumerate(panel.keys):
            result = results(key)
            _rates(axes[0][column], key, result)
            _queue(axes[1][column], result)
        axes[0][0].set_ylabel("goodput, Mbit/s")
        axes[1][0].set_ylabel("queue, ms")
        axes[0][0].set_ylim(0, results(panel.keys[0]).experiment.link.rate_mbit * 1.05)
        axes[1][0].set_ylim(bottom=0)
        figure.text(0.01, 0.965, panel.words, fontsize=9.5, color=NEUTRAL)
        legend(figure, axes[0][0])
        made.append(save(pyplot, figure, directory / panel.file("rates"), 0.95))
    return made


def _rates(axis: Any, key: RunKey, result: Result) -> None:
    for flows, colour in (("background", BACKGROUND), ("foreground", FOREGROUND)):
        if measures.group(result, flows):
            axis.plot(*rate_line(result, flows), color=colour, label=flows)
    axis.set_title(name_of(key.background), loc="left", fontsize=9.5, fontweight="bold")
    axis.set_xlim(0, result.experiment.end_s)


def _queue(axis: Any, result: Result) -> None:
    rate = result.experiment.link.rate_mbit * 1e3
    times, delays = [at for at, _ in result.backlog], [size * 8 / rate for _, size in result.backlog]
    axis.fill_between(times, delays, color=NEUTRAL, alpha=0.45, linewidth=0)
    axis.set_xlabel("s")


def windows(pyplot: Any, row: Row, results: Results, directory: Path) -> list[str]:
    """windows-<foreground>-<point>.png: both classes' windows; of our controllers also at each event."""
    made = []
    for panel in panels(row):
        figure, axes = grid(pyplot, 1, len(panel.keys), 2.6)
        for column, key in enumerate(panel.keys):
            _windows(axes[0][column], key, results(key))
        axes[0][0].set_ylabel("window, packets")
        figure.text(0.01, 0.95, panel.words, fontsize=9.5, color=NEUTRAL)
        legend(figure, axes[0][0])
        made.append(save(pyplot, figure, directory / panel.file("windows"), 0.93))
    return made


def _windows(axis: Any, key: RunKey, result: Result) -> None:
    for flows, colour in (("background", BACKGROUND), ("foreground", FOREGROUND)):
        samples = sorted(measures.joined(result, flows).items())
        axis.plot([at for at, _ in samples], [cwnd for _, cwnd in samples], color=colour, label=flows, linewidth=1)
    events = [event for event in getattr(result, "events", []) if event.get("family") == 2]
    axis.plot([e["at_s"] for e in events], [e["cwnd"] for e in events], ".", color=BACKGROUND, markersize=2.5)
    axis.set_title(name_of(key.background), loc="left", fontsize=9.5, fontweight="bold")
    axis.set_xlim(0, result.experiment.end_s)
    axis.set_ylim(bottom=0)
    axis.set_xlabel("s")


def estimates(pyplot: Any, row: Row, results: Results, directory: Path) -> list[str]:
    """estimates-<foreground>-<point>.png: what our probes told, and what the others left."""
    made = []
    for panel in panels(row, judged=True):
        figure, axes = grid(pyplot, 1, len(panel.keys), 2.8)
        figure.set_size_inches(max(8.0, 4.6 * len(panel.keys)), 3.0)
        for column, key in enumerate(panel.keys):
            _estimates(axes[0][column], key, results(key))
        axes[0][0].set_ylabel("Mbit/s")
        legend(figure, axes[0][0])
        made.append(save(pyplot, figure, directory / panel.file("estimates"), 0.93))
    return made


def _estimates(axis: Any, key: RunKey, result: Result) -> None:
    rate, end = result.experiment.link.rate_mbit, result.experiment.end_s
    times = [n * BIN_S for n in range(1, int(end / BIN_S))]
    left = [max(0.0, rate - measures.others_mbit(result, "background", t - BIN_S, t + BIN_S)) for t in times]
    axis.plot(times, left, color=NEUTRAL, label="left by all others")
    told = measures.estimates(result)
    axis.plot([at for at, _, _ in told], [own for _, own, _ in told], ".", color=BACKGROUND, markersize=3, label="estimate")
    axis.set_title(name_of(key.background), loc="left", fontsize=9.5, fontweight="bold")
    axis.set_xlim(0, end)
    axis.set_ylim(0, rate * 1.3)
    axis.set_xlabel("s")


# --- over the points -------------------------------------------------------------------------------------------------


def curve_bounds(row: Row) -> list[Bound]:
    """One per measure: the first bound that uses it."""
    seen: dict[tuple[str, str], Bound] = {}
    for bound in row.bounds:
        seen.setdefault((bound.measure, bound.of), bound)
    if not row.bounds and any(key.background == ALONE for key in row.runs):
        return [Bound("the foreground keeps of its goodput alone", "transparency", ">=", math.nan)]
    if not row.bounds:
        return [Bound("foreground ÷ background", "goodput_ratio", ">=", math.nan)]
    return list(seen.values())[:3]


def curves(pyplot: Any, row: Row, results: Results, directory: Path) -> list[str]:
    """curve.png: a measure over the points, a panel per measure and foreground, a line per controller."""
    bounds = curve_bounds(row)
    if not bounds:
        return []
    figure, axes = grid(pyplot, len(bounds), len(row.foregrounds), 2.9 * len(bounds))
    figure.set_size_inches(max(6.0, 4.6 * len(row.foregrounds) + 1.6), 2.9 * len(bounds))
    for line, bound in enumerate(bounds):
        for column, foreground in enumerate(row.foregrounds):
            axis = axes[line][column]
            _curve(axis, row, bound, foreground, results)
            axis.set_title(f"foreground {foreground}" if foreground else "", loc="left", fontsize=9.5)
            axis.set_xlabel(row.swept)
        axes[line][0].set_ylabel(f"{bound.measure.replace('_', ' ')}{f' ÷ {bound.of}' if bound.of else ''}")
        axes[line][0].set_ylim(bottom=0)
    axes[0][-1].legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False, fontsize=8.5)
    return [save(pyplot, figure, directory / "curve.png")]


def _curve(axis: Any, row: Row, bound: Bound, foreground: str, results: Results) -> None:
    names = [point.name for point in row.points]
    for number, controller in enumerate(row.controllers):
        keys = [RunKey(foreground, name, controller) for name in names]
        there = [(place, value_of(bound, row, key, results)) for place, key in enumerate(keys) if key in row.runs]
        ours = controller in row.judged
        axis.plot(
            [place for place, _ in there], [value for _, value in there], marker="o", markersize=4 if ours else 3,
            color=LINES[number % len(LINES)], linewidth=2 if ours else 1, linestyle="-" if ours else (0, (4, 2)),
            label=name_of(controller),
        )  # fmt: skip
    for other in row.bounds:
        if (other.measure, other.of) == (bound.measure, bound.of):
            places = [n for n, name in enumerate(names) if not other.points or name in other.points]
            if places:
                ends = (places[0] - 0.2, places[-1] + 0.2)
                axis.plot(ends, (other.bound, other.bound), color=NEUTRAL, linewidth=1, linestyle=(0, (2, 2)))
    long = max(map(len, names)) > 8
    axis.set_xticks(range(len(names)), names, rotation=30 if long else 0, ha="right" if long else "center", fontsize=8)


def responses(pyplot: Any, row: Row, results: Results, directory: Path) -> list[str]:
    """responses-<foreground>-<point>.png: mean response time over the object's size, in bins that grow by a tenth."""
    made = []
    for panel in panels(row):
        keys = [RunKey(panel.foreground, panel.point, name) for name in (*row.controllers, ALONE)]
        bins = {key: measures.binned(objects_of(results(key))) for key in keys if key in row.runs}
        if not any(bins.values()):
            continue
        figure, axes = grid(pyplot, 1, 1, 3.4)
        figure.set_size_inches(7.5, 3.6)
        axis = axes[0][0]
        for number, (key, own) in enumerate(bins.items()):
            colour = "#000000" if key.background == ALONE else LINES[number % len(LINES)]
            style = {"marker": "o", "markersize": 3.5, "linestyle": "-" if len(own) > 2 else ""}
            axis.plot([b[0] / 1e3 for b in own], [b[1] for b in own], color=colour, label=name_of(key.background), **style)
        axis.set_xscale("log")
        axis.set_yscale("log")
        axis.set_xlabel("object, kB")
        axis.set_ylabel("mean response time, s")
        axis.set_title(panel.words, loc="left", fontsize=9.5)
        axis.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False, fontsize=8.5)
        made.append(save(pyplot, figure, directory / panel.file("responses")))
    return made


def objects_of(result: Result) -> list[tuple[float, float, float]]:
    return [item for own in getattr(result, "traffic", {}).values() for item in own.objects]
