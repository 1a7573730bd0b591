# SPDX-License-Identifier: GPL-2.0-only
"""A bound of a row: it is made from its table, and refused if no run of the row can measure it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from .. import measures
from ..engine.scenario import VirtualExperiment
from ..measures import MEASURES, Measure
from .row import ALONE, IDEAL, Bound, Row, RunKey
from .schema import BOOL, BOUND, LIST, NUMBER, TEXT, Key, RowError, check, check_value, one_of, placeholder

ALL = "all"  # every flow that is not in reverse
TIMES = ("from_s", "to_s", "at_s", "after_s")
KINDS = {"str": TEXT, "bool": BOOL, "float": NUMBER, "Sequence[float]": LIST}  # by the annotation of a measure's parameter
PARTS = ("part", "level")  # options from 0 to 1


def make_bound(where: str, table: Any) -> Bound:
    check(where, table, BOUND, ("what", "measure", "op", "bound"))
    name = one_of(f"{where}: measure", table["measure"], sorted(MEASURES))
    options = table.get("options", {})
    for key, value in options.items():
        one_of(f"{where}: options", key, MEASURES[name].options)
        if not placeholder(value):
            check_value(f"{where}: options: {key}", value, option_key(MEASURES[name], key))
    ways = [key for key in ("part", "every", "mean") if table.get(key)]
    if len(ways) > 1:
        raise RowError(f"{where}: {' and '.join(ways)}: the draws are judged in one way")
    part = 1.0 if table.get("every") else float(table.get("part", 0.5))
    return Bound(
        table["what"], name, table["op"], table["bound"], options, table.get("of", ""),
        tuple(str(item) for item in table.get("points", [])), str(table.get("of_point", "")),
        tuple(table.get("for", [])), tuple(table.get("foregrounds", [])), part, bool(table.get("mean")),
        bool(table.get("table")),
    )  # fmt: skip


def option_key(measure: Measure, name: str) -> Key:
    """What values an option of a measure accepts."""
    kind = KINDS[measure.annotation(name)]
    return Key(kind, 0, 1) if name in PARTS else Key(kind)


@dataclass(frozen=True)
class Named:
    """The names in any set of the row, which a bound may use."""

    points: tuple[str, ...]
    controllers: tuple[str, ...]
    foregrounds: tuple[str, ...]


def check_bound(where: str, row: Row, bound: Bound, named: Named) -> None:
    """The names in a bound must exist, and every run of this set that it is about must be able to measure it."""
    for item in (*bound.points, *([bound.of_point] if bound.of_point else [])):
        one_of(f"{where}: points", item, named.points)
    for item in bound.for_:
        one_of(f"{where}: for", item, named.controllers)
    for item in bound.foregrounds:
        one_of(f"{where}: foregrounds", item, named.foregrounds)
    there = [*row.controllers, *(name for name in (ALONE, IDEAL) if any(key.background == name for key in row.runs))]
    needed = bound.of or MEASURES[bound.measure].reference
    if needed:
        one_of(f"{where}: of", needed, sorted(there))
    for controller in bound.for_ or row.judged:
        for key in row.about(bound, controller):
            for said in unmeasurable(row, bound, key):
                raise RowError(f"{where}: {bound.measure}: {said} (in {key.words})")


def unmeasurable(row: Row, bound: Bound, key: RunKey) -> Iterator[str]:
    """Why this run has no such figure."""
    measure, options = MEASURES[bound.measure], row.options(bound, key)
    runs = [key]
    runs += [replace(key, background=bound.of)] if bound.of else []
    runs += [replace(key, point=bound.of_point)] if bound.of_point else []
    for run in runs:
        reference = replace(run, background=measure.reference) if measure.reference else None
        for own in (run, reference):
            if own is not None and own not in row.runs:
                yield f"it needs the run {own.words!r}, which this row does not have"
            elif own is not None:
                yield from absent_flows(measure.groups(options, own is reference), row.runs[own])
                yield from absent_traffic(measure, options, row.runs[own])
                yield from too_late(row, measure, options, row.runs[own])


def absent_flows(groups: list[str], run: VirtualExperiment) -> Iterator[str]:
    names = [flow.name for flow in run.flows]
    forward = [flow.name for flow in run.flows if not getattr(flow, "reverse", False)]
    for group in groups:
        if not (forward if group == ALL else measures.members(names, group)):
            yield f"there is no flow {group!r}; there are {', '.join(names) or 'none'}"


def absent_traffic(measure: Measure, options: dict[str, Any], run: VirtualExperiment) -> Iterator[str]:
    """A bound on a UDP stream must name one; a bound on objects may mean all traffic."""
    fitting = [traffic.name for traffic in run.traffic if traffic.kind in measure.traffic]
    asked = options.get("traffic", "")
    named = asked in fitting or (not asked and fitting and measure.traffic != measures.UDP)
    if measure.traffic and not named:
        kinds = " or ".join(measure.traffic)
        yield f"options.traffic: {asked!r}: there is {', '.join(fitting) or 'nothing'} of kind {kinds}"


def too_late(row: Row, measure: Measure, options: dict[str, Any], run: VirtualExperiment) -> Iterator[str]:
    window = {name: at_s for name, at_s in (("from_s", row.from_s), ("to_s", row.to_s)) if name in measure.options}
    times = {**window, **{name: options[name] for name in TIMES if name in options}}
    for name, at_s in times.items():
        if abs(at_s) > run.end_s:  # a from_s below 0 counts from the end
            yield f"{name} = {at_s:g}, and the run ends at {run.end_s:g} s"
    begin_s, end_s = times.get("from_s", 0), times.get("to_s", 0) or run.end_s
    if (begin_s + run.end_s if begin_s < 0 else begin_s) >= end_s:
        yield f"from_s = {begin_s:g} is not before to_s = {end_s:g}"
