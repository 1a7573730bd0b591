# SPDX-License-Identifier: GPL-2.0-only
"""The yardsticks of every run of a row, whether or not a bound asks for them; of several draws the median and the range."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from .. import measures
from ..engine.experiment import Result
from .row import ALONE, IDEAL, Row, RunKey

Results = Callable[[RunKey], Result]
Figures = dict[str, float]

WORDS = {
    "goodput_foreground_mbit": "foreground, Mbit/s", "goodput_background_mbit": "background, Mbit/s",
    "transparency": "transparency", "efficiency": "efficiency", "distance_to_ideal": "distance to the ideal",
    "utilisation": "utilisation", "queue_mean_ms": "queue mean, ms",
    "queue_p95_ms": "p95, ms", "queue_p99_ms": "p99, ms",
    "loss_rate": "loss", "mark_rate": "marks", "jain_background": "Jain", "response_mean_s": "response mean, s",
    "response_10kb_s": "of 10 kB, s",
    "response_p95_s": "response p95, s", "response_to_alone": "response ÷ alone",
    "low_marked": "low class, marks", "probes_marked": "probes, marks", "standard_marked": "standard, marks",
    "probe_load_mbit": "probes, Mbit/s",
}  # fmt: skip


def ratio(one: float, other: float) -> float:
    return one / other if other else math.nan


@dataclass(frozen=True)
class Spread:
    """A figure over the draws of a run."""

    median: float
    least: float
    most: float


def spreads(row: Row, key: RunKey, results: Results) -> dict[str, Spread]:
    """Figures that a draw does not have are left out."""
    each = [once(row, draw, results) for draw in row.repetitions(key)]
    found: dict[str, Spread] = {}
    for name in each[0]:
        values = [one[name] for one in each if name in one]
        if len(values) == len(each):
            found[name] = Spread(statistics.median(values), min(values), max(values))
    return found


def once(row: Row, key: RunKey, results: Results) -> Figures:
    result = results(key)
    window = {"from_s": row.from_s, "to_s": row.to_s}
    found: Figures = {
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
    found |= against(row, key, results, window)
    return {name: value for name, value in found.items() if math.isfinite(value)}


def against(row: Row, key: RunKey, results: Results, window: Mapping[str, float]) -> Figures:
    """The figures that compare the run with "alone" and "ideal"."""
    found: Figures = {}
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


def measured(row: Row, results: Results, controllers: tuple[str, ...]) -> dict[str, dict[str, dict[str, Spread]]]:
    """controller → "foreground · point" → figure."""
    table: dict[str, dict[str, dict[str, Spread]]] = {}
    for key in row.cells:
        if key.background in controllers:
            table.setdefault(key.background, {})[key.place or "all"] = spreads(row, key, results)
    return table
