# SPDX-License-Identifier: GPL-2.0-only
"""Judges a row: its runs' results against its bounds, and the result.json that says so (the lab's promise)."""

from __future__ import annotations

import json
import math
import operator
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from . import measures
from .experiment import Result
from .measures import MEASURES
from .rows import ALONE, AS_GIVEN, IDEAL, Bound, Filling, Point, Row, RunKey

COMPARE: dict[str, Callable[[float, float], bool]] = {
    "<=": operator.le,
    "<": operator.lt,
    ">=": operator.ge,
    ">": operator.gt,
}
Results = Callable[[RunKey], Result]


@dataclass(frozen=True)
class Verdict:
    """A bound and one controller: the value farthest on the wrong side, and the run where it was."""

    bound: Bound
    controller: str
    measured: float
    at: RunKey
    holds: bool
    draws: tuple[float, ...] = ()  # of which `measured` is the mean


# --- one value -------------------------------------------------------------------------------------------------------


def point_of(row: Row, key: RunKey) -> Point:
    return next(point for point in row.points if point.name == key.point)


def values_of(bound: Bound, row: Row, key: RunKey, results: Results) -> tuple[float, ...]:
    """Of the repetitions of a run."""
    return tuple(value_once(bound, row, once, results) for once in row.repetitions(key))


def value_of(bound: Bound, row: Row, key: RunKey, results: Results) -> float:
    """The mean of them."""
    return measures.mean(values_of(bound, row, key, results))


def value_once(bound: Bound, row: Row, key: RunKey, results: Results) -> float:
    """The bound's measure in one run, divided by that of the run which `of` names; nan if there is no such run."""
    own = _measured(bound, row, key, results)
    if bound.of:
        own = ratio(own, _measured(bound, row, replace(key, background=bound.of), results, divides=True))
    if bound.of_point:
        own = ratio(own, _measured(bound, row, replace(key, point=bound.of_point), results, divides=True))
    return own


def _measured(bound: Bound, row: Row, key: RunKey, results: Results, divides: bool = False) -> float:
    """A run that divides another's is taken at its least: nothing is a small part of what never ended."""
    measure = MEASURES[bound.measure]
    reference = replace(key, background=measure.reference)
    if key not in row.runs or (measure.reference and reference not in row.runs):
        return math.nan
    filled = Filling(key.foreground, key.background, point_of(row, key)).of(
        f"row {row.id}: options", dict(bound.options)
    )
    window = {name: value for name, value in (("from_s", row.from_s), ("to_s", row.to_s)) if value}
    options = {**{name: value for name, value in window.items() if name in measure.options}, **filled}
    if divides and "at_least" in measure.options:
        options["at_least"] = True
    runs = [results(key)]
    if measure.reference:
        runs.append(results(reference))
    return measure.function(*runs, **options)


def ratio(one: float, other: float) -> float:
    return one / other if other else math.nan


# --- one row ---------------------------------------------------------------------------------------------------------


def runs_of(row: Row, bound: Bound, controller: str) -> list[RunKey]:
    """The runs that this bound is about."""
    return [
        key
        for key in row.cells
        if key.background == controller
        and (not bound.points or key.point in bound.points)
        and (not bound.foregrounds or key.foreground in bound.foregrounds)
    ]


def judge_bound(row: Row, bound: Bound, controller: str, results: Results) -> Verdict | None:
    """The worst of all its runs; None: this set has none of them."""
    compare, verdicts = COMPARE[bound.op], []
    for key in runs_of(row, bound, controller):
        draws = values_of(bound, row, key, results)
        value = measures.mean(draws)
        verdicts.append(Verdict(bound, controller, value, key, compare(value, bound.bound), draws))
    if not verdicts:
        return None
    upper = bound.op.startswith("<")
    return max(verdicts, key=lambda v: math.inf if math.isnan(v.measured) else (v.measured if upper else -v.measured))


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


# --- what was measured -----------------------------------------------------------------------------------------------


def figures(row: Row, key: RunKey, results: Results) -> dict[str, float]:
    """The yardsticks of every row, means over the repetitions of a run; what it cannot say is left out."""
    each = [figures_once(row, once, results) for once in row.repetitions(key)]
    return {
        name: round(measures.mean([one[name] for one in each]), 5) for name in each[0] if all(name in e for e in each)
    }


def figures_once(row: Row, key: RunKey, results: Results) -> dict[str, float]:
    result = results(key)
    window = {"from_s": row.from_s, "to_s": row.to_s}
    found: dict[str, float] = {
        "goodput_foreground_mbit": measures.goodput(result, "foreground", **window),
        "goodput_background_mbit": measures.goodput(result, "background", **window),
        "utilisation": measures.utilisation(result, **window) if result.flows else math.nan,
        "queue_mean_ms": measures.queue_mean(result, **window),
        "queue_p95_ms": measures.queue_quantile(result, 0.95, **window),
        "queue_p99_ms": measures.queue_quantile(result, 0.99, **window),
        "loss_rate": measures.loss_rate(result),
        "mark_rate": measures.mark_rate(result),
        "response_mean_s": measures.response_mean(result),
        "response_10kb_s": measures.response_mean(result, low=9535, high=10488),  # the papers' favourite size
        "response_p95_s": measures.response_quantile(result),
        "guest_busy": getattr(result, "busy", math.nan),
        "low_marked": measures.class_count(result, "nf"),
        "probes_marked": measures.class_count(result, "probe"),
        "standard_marked": measures.class_count(result, "standard"),
        "probe_load_mbit": measures.probe_load(result, **window),
    }
    if len(measures.group(result, "background")) > 1:
        found["jain_background"] = measures.jain(result, "background", **window)
    found |= _against(row, key, results, window)
    return {name: value for name, value in found.items() if math.isfinite(value)}


def _against(row: Row, key: RunKey, results: Results, window: Mapping[str, float]) -> dict[str, float]:
    """What compares the run with the one alone and with the ideal."""
    found: dict[str, float] = {}
    result = results(key)
    alone, ideal = (replace(key, background=name) for name in (ALONE, IDEAL))
    foreground = bool(measures.group(result, "foreground"))
    if alone in row.runs and key != alone:
        if foreground:
            found["transparency"] = measures.transparency(result, results(alone), **window)
        if measures.responses(result):
            found["response_to_alone"] = ratio(measures.response_mean(result), measures.response_mean(results(alone)))
    if ideal not in row.runs and not foreground and not row.runs[key].traffic:
        found["distance_to_ideal"] = 1 - measures.utilisation(result, **window)  # nobody else is there to be served first
    if ideal in row.runs and key.background not in (ALONE, IDEAL):
        found["distance_to_ideal"] = measures.distance(result, results(ideal), **window)
        if foreground:
            found["efficiency"] = measures.efficiency(result, results(ideal), **window)
    return found


def measured(row: Row, results: Results, controllers: tuple[str, ...]) -> dict[str, dict[str, dict[str, float]]]:
    """controller → "foreground · point" → figure."""
    table: dict[str, dict[str, dict[str, float]]] = {}
    for key in row.cells:
        if key.background in controllers:
            place = " · ".join(part for part in (key.foreground, key.point) if part) or "all"
            table.setdefault(key.background, {})[place] = figures(row, key, results)
    return table


# --- the file --------------------------------------------------------------------------------------------------------


def git_of(directory: Path) -> str:
    """The commit that is checked out, with -dirty if files differ from it."""
    done = subprocess.run(["git", "describe", "--always", "--dirty"], cwd=directory, capture_output=True, text=True)
    return done.stdout.strip() or "unknown"


def result_of(row: Row, results: Results, *, kernel: str, seed: int, set_: str, virtual_s: float, wall_s: float,
              git: str) -> dict[str, object]:  # fmt: skip
    """result.json, as LAB.md promises it."""
    verdicts = judge(row, results)
    deciding = [verdict for verdict in verdicts if decides(row, verdict)]
    peers = measured(row, results, (ALONE, IDEAL, *row.peers))
    return {
        "id": row.id,
        "holds": all(verdict.holds for verdict in deciding),
        "bounds": [_bound(verdict) for verdict in deciding],
        "measured": measured(row, results, row.judged),
        "paper": dict(row.paper),
        "peers": peers,
        "peers_bounds": [_bound(verdict) for verdict in verdicts if not decides(row, verdict)],
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


def _bound(verdict: Verdict) -> dict[str, object]:
    """Not finite: null, with the word beside it (JSON has neither)."""
    known = math.isfinite(verdict.measured)
    entry: dict[str, object] = {
        "what": verdict.bound.what,
        "measured": round(verdict.measured, 5) if known else None,
        "op": verdict.bound.op,
        "bound": verdict.bound.bound,
        "holds": verdict.holds,
        "controller": "" if verdict.controller == AS_GIVEN else verdict.controller,
        "at": " · ".join(part for part in (verdict.at.foreground, verdict.at.point) if part),
    }
    if not known:
        entry["why"] = "not measurable" if math.isnan(verdict.measured) else "never"
    if known and len(verdict.draws) > 1:
        entry |= {"least": round(min(verdict.draws), 5), "most": round(max(verdict.draws), 5)}
    return entry


def write(path: Path, result: Mapping[str, object]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(result, indent=1, ensure_ascii=False, allow_nan=False) + "\n")
