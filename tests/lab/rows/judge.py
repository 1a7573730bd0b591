# SPDX-License-Identifier: GPL-2.0-only
"""Judges a row: its runs' results against its bounds, and the result.json that says so (the lab's promise).

A run may have several draws. A bound holds in a run if enough of its draws hold: at least the part that the bound names,
and more than half. What is shown as measured is the draw on which that turns: with `part = 0.5`, which is the default,
the median, with `every` the worst one. A bound may ask for the mean instead.
"""

from __future__ import annotations

import json
import math
import operator
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from .. import measures
from ..measures import MEASURES
from . import figures
from .figures import Results, Spread, ratio
from .row import ALONE, AS_GIVEN, IDEAL, Bound, Row, RunKey

COMPARE: dict[str, Callable[[float, float], bool]] = {
    "<=": operator.le,
    "<": operator.lt,
    ">=": operator.ge,
    ">": operator.gt,
}
DECIMALS = 5


@dataclass(frozen=True)
class Verdict:
    """A bound and one controller: the value farthest on the wrong side, and the run where it was."""

    bound: Bound
    controller: str
    measured: float
    at: RunKey
    holds: bool
    draws: tuple[float, ...] = ()  # of that run


# --- one value -------------------------------------------------------------------------------------------------------


def values_of(bound: Bound, row: Row, key: RunKey, results: Results) -> tuple[float, ...]:
    """The values of the draws of a run."""
    return tuple(value_once(bound, row, draw, results) for draw in row.repetitions(key))


def value_of(bound: Bound, row: Row, key: RunKey, results: Results) -> float:
    """The value of the draws that is judged."""
    return decisive(bound, values_of(bound, row, key, results))


def needed(part: float, draws: int) -> int:
    """How many draws must hold: at least this part of them, and more than half."""
    return max(math.ceil(part * draws - 1e-9), draws // 2 + 1)


def badness(bound: Bound, value: float) -> float:
    """How far a value is on the wrong side; a value that could not be measured is the worst."""
    if math.isnan(value):
        return math.inf
    return value if bound.upper else -value


def decisive(bound: Bound, draws: tuple[float, ...]) -> float:
    """The value that holds if and only if enough of the draws hold."""
    if bound.mean:
        return measures.mean(draws)
    return sorted(draws, key=lambda value: badness(bound, value))[needed(bound.part, len(draws)) - 1]


def value_once(bound: Bound, row: Row, key: RunKey, results: Results) -> float:
    """The bound's measure in one run, divided by that of the run which `of` names; nan if there is no such run."""
    own = _measured(bound, row, key, results)
    if bound.of:
        own = ratio(own, _measured(bound, row, replace(key, background=bound.of), results, divides=True))
    if bound.of_point:
        own = ratio(own, _measured(bound, row, replace(key, point=bound.of_point), results, divides=True))
    return own


def _measured(bound: Bound, row: Row, key: RunKey, results: Results, divides: bool = False) -> float:
    """A run that is the divisor counts with its least value, so that an infinite one makes no ratio look small."""
    measure = MEASURES[bound.measure]
    reference = replace(key, background=measure.reference)
    if key not in row.runs or (measure.reference and reference not in row.runs):
        return math.nan
    window = {name: value for name, value in (("from_s", row.from_s), ("to_s", row.to_s)) if value}
    options = {name: value for name, value in window.items() if name in measure.options} | row.options(bound, key)
    if divides and "at_least" in measure.options:
        options["at_least"] = True
    runs = [results(key)]
    if measure.reference:
        runs.append(results(reference))
    return measure.function(*runs, **options)


# --- one row ---------------------------------------------------------------------------------------------------------


def judge_bound(row: Row, bound: Bound, controller: str, results: Results) -> Verdict | None:
    """The worst verdict of all its runs; None: this set has none of them."""
    compare, verdicts = COMPARE[bound.op], []
    for key in row.about(bound, controller):
        draws = values_of(bound, row, key, results)
        value = decisive(bound, draws)
        verdicts.append(Verdict(bound, controller, value, key, compare(value, bound.bound), draws))
    return max(verdicts, key=lambda verdict: badness(bound, verdict.measured), default=None)


def judge(row: Row, results: Results) -> list[Verdict]:
    """Every bound for every controller: ours, and the peers and the ideal, which decide nothing."""
    verdicts = []
    for bound in row.bounds:
        for controller in (*row.controllers, IDEAL):
            if verdict := judge_bound(row, bound, controller, results):
                verdicts.append(verdict)
    return verdicts


def decides(row: Row, verdict: Verdict) -> bool:
    return verdict.controller in (verdict.bound.for_ or row.judged)


def tables_of(row: Row, results: Results) -> list[dict[str, Any]]:
    """For each bound that asks for a table, the figure of every run: place → controller → the draw that decides, and the worst."""
    tables = []
    for bound in row.bounds:
        cells: dict[str, dict[str, str]] = {}
        for key in (key for controller in row.controllers for key in row.about(bound, controller)) if bound.table else ():
            draws = values_of(bound, row, key, results)
            cells.setdefault(key.place, {})[key.background] = _cell(bound, draws)
        if cells:
            tables.append({"what": bound.what, "cells": cells})
    return tables


def _cell(bound: Bound, draws: tuple[float, ...]) -> str:
    """The draw that decides, and the worst one where it is another."""
    decides, worst = (_shown(value) for value in (decisive(bound, draws), max(draws, key=lambda value: badness(bound, value))))
    return decides if decides == worst else f"{decides}, worst {worst}"


def _shown(value: float) -> str:
    return f"{value:.3g}" if math.isfinite(value) else "–" if math.isnan(value) else "never"


# --- the file --------------------------------------------------------------------------------------------------------


def git_of(directory: Path) -> str:
    """The commit that is checked out, with -dirty if files differ from it."""
    done = subprocess.run(["git", "describe", "--always", "--dirty"], cwd=directory, capture_output=True, text=True)
    return done.stdout.strip() or "unknown"


def result_of(row: Row, results: Results, *, kernel: str, seed: int, set_: str, virtual_s: float, wall_s: float,
              git: str) -> dict[str, Any]:  # fmt: skip
    """result.json, as LAB.md promises it."""
    verdicts = judge(row, results)
    deciding = [verdict for verdict in verdicts if decides(row, verdict)]
    ours = figures.measured(row, results, row.judged)
    peers = figures.measured(row, results, (ALONE, IDEAL, *row.peers))
    return {
        "id": row.id,
        "holds": all(verdict.holds for verdict in deciding),
        "bounds": [_bound(verdict) for verdict in deciding],
        "measured": _medians(ours),
        "paper": dict(row.paper),
        "peers": _medians(peers),
        "peers_bounds": [_bound(verdict) for verdict in verdicts if not decides(row, verdict)],
        "tables": tables_of(row, results),
        "ranges": _ranges({**ours, **peers}) if row.repeat > 1 else {},
        "kernel": kernel,
        "seed": seed,
        "repeat": row.repeat,
        "runs": len(row.runs),
        "run_s": max(run.end_s for run in row.runs.values()),
        "scale": row.scale,
        "virtual_s": round(virtual_s, 1),
        "wall_s": round(wall_s, 1),
        "git": git,
        "set": set_,
        "what": row.what,
        "title": row.title,
        "note": row.note,
        "file": row.file.name,
    }


Table = Mapping[str, Mapping[str, Mapping[str, Spread]]]


def _medians(table: Table) -> dict[str, dict[str, dict[str, float]]]:
    return {
        controller: {
            place: {name: round(spread.median, DECIMALS) for name, spread in own.items()} for place, own in places.items()
        }
        for controller, places in table.items()
    }


def _ranges(table: Table) -> dict[str, dict[str, dict[str, list[float]]]]:
    """The smallest and the largest value of the draws, where they differ."""
    return {
        controller: {
            place: {
                name: [round(spread.least, DECIMALS), round(spread.most, DECIMALS)]
                for name, spread in own.items()
                if spread.least != spread.most
            }
            for place, own in places.items()
        }
        for controller, places in table.items()
    }


def _bound(verdict: Verdict) -> dict[str, object]:
    """A value that is not finite becomes null, with a word beside it (JSON has neither)."""
    bound, draws = verdict.bound, verdict.draws
    entry: dict[str, object] = {
        "what": bound.what,
        "measured": _number(verdict.measured),
        "op": bound.op,
        "bound": bound.bound,
        "holds": verdict.holds,
        "controller": "" if verdict.controller == AS_GIVEN else verdict.controller,
        "at": verdict.at.place,
    }
    if entry["measured"] is None:
        entry["why"] = "not measurable" if math.isnan(verdict.measured) else "never"
    if len(draws) > 1:
        worst = max(draws, key=lambda value: badness(bound, value))
        held = sum(COMPARE[bound.op](value, bound.bound) for value in draws)
        entry |= {"judged": bound.draws, "held": held, "draws": [_number(value) for value in draws], "worst": _number(worst)}
        if known := [value for value in draws if math.isfinite(value)]:
            entry |= {"least": round(min(known), DECIMALS), "most": round(max(known), DECIMALS)}
    return entry


def _number(value: float) -> float | None:
    return round(value, DECIMALS) if math.isfinite(value) else None


def write(path: Path, result: Mapping[str, object]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(result, indent=1, ensure_ascii=False, allow_nan=False) + "\n")
