# SPDX-License-Identifier: GPL-2.0-only
"""The same results as report.html, as tables for a text: report.md, whose tables RESULTS.md has.

Each line is a bound of EXPERIMENTS; in bold what falls short of it. At the end controller × row, the distance to the
ideal (`measures.distance`), the peers beside ours. What is not judged, and the peers' values of each bound, are in the page.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..rows.row import MEDIAN, Row

Result = Mapping[str, Any]
OPERATORS = {"<=": "≤", ">=": "≥", "<": "<", ">": ">"}


def duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def number(value: float) -> str:
    """Three decimals are more than the bounds need, and none of them is noise: a run gives the same bytes again."""
    if value == 0 or abs(value) >= 100:
        return f"{value:.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.3f}" if abs(value) >= 0.01 else f"{value:.2g}"


def cell(bound: Result | None, where: bool) -> str:
    if bound is None:
        return ""
    figure = bound["why"] if bound["measured"] is None else number(bound["measured"])
    figure += f" [{number(bound['least'])} … {number(bound['most'])}]" if "least" in bound else ""
    figure += ", worst never" if "draws" in bound and bound["worst"] is None else ""
    figure += f" ({bound['at']})" if where else ""
    return figure if bound["holds"] else f"**{figure}**"


def limit_of(bound: Result) -> str:
    """And what of the draws it is for, where that is not the median."""
    judged = bound.get("judged", MEDIAN)
    return f"{OPERATORS[bound['op']]} {bound['bound']:g}{'' if judged == MEDIAN else f', {judged}'}"


def lines(row: Row, result: Result, controllers: Sequence[str]) -> list[list[str]]:
    """One per bound, with a cell per controller; a bound of the whole row stands under the first."""
    found: dict[tuple[str, str], dict[str, Result]] = {}
    for bound in result["bounds"]:
        found.setdefault((bound["what"], limit_of(bound)), {})[bound["controller"] or controllers[0]] = bound
    where = len({bound["at"] for bound in result["bounds"]}) > 1
    out: list[list[str]] = []
    for (what, limit), by in found.items():
        out.append(["" if out else f"`{row.id}`", what, limit, *(cell(by.get(name), where) for name in controllers)])
    return out


def table(rows: Sequence[Row], results: Mapping[str, Result | None]) -> str:
    """The judged rows of one paper."""
    controllers = list(dict.fromkeys(name for row in rows for name in row.judged)) or [""]
    head = ["row", "what", "must be", *(f"`{name}`" if name else "measured" for name in controllers)]
    body = [line for row in rows if (result := results[row.id]) for line in lines(row, result, controllers)]
    return "\n".join("| " + " | ".join(line) + " |" for line in [head, ["---"] * len(head), *body])


def notes(rows: Sequence[Row], results: Mapping[str, Result | None]) -> str:
    """What is to be known of the rows that fall short."""
    short = [row for row in rows if (result := results[row.id]) and not result["holds"] and row.note]
    return "\n".join(f"- `{row.id}`: {' '.join(row.note.split())}" for row in short)


def distance(result: Result, controller: str) -> float | None:
    """To strict priority (0: the same goodput for both classes); the mean of the row's places."""
    places = {**result["measured"], **result["peers"]}.get(controller, {})
    far = [figures["distance_to_ideal"] for figures in places.values() if "distance_to_ideal" in figures]
    return sum(far) / len(far) if far else None


def distances(rows: Sequence[Row], results: Mapping[str, Result | None]) -> str:
    """Controller × row."""
    found = {row.id: result for row in rows if (result := results[row.id])}
    every = dict.fromkeys([*(name for row in rows for name in row.judged), *(name for row in rows for name in row.peers)])
    far = {id_: {name: distance(result, name) for name in every} for id_, result in found.items()}
    names = [name for name in every if any(by[name] is not None for by in far.values())]
    body = [
        [f"`{id_}`", *("" if by[name] is None else f"{by[name]:.1%}" for name in names)]
        for id_, by in far.items()
        if any(value is not None for value in by.values())
    ]
    head = ["row", *(f"`{name}`" for name in names)]
    return "\n".join("| " + " | ".join(line) + " |" for line in [head, ["---"] * len(head), *body]) if body else ""


def count(rows: Sequence[Row], results: Mapping[str, Result | None]) -> str:
    judged = [result for row in rows if (result := results[row.id]) and result["bounds"]]
    held = sum(1 for result in judged if result["holds"])
    missing = [f"`{row.id}`" for row in rows if not results[row.id]]
    absent = f" Not run: {', '.join(missing)}." if missing else ""
    builds = sorted({result["git"] for row in rows if (result := results[row.id])})
    return f"{len(judged)} rows judged, {held} hold whole.{absent} Commits: {', '.join(builds)}."


def document(rows: Sequence[Row], results: Mapping[str, Result | None], kernel: str, set_: str) -> str:
    groups: dict[str, list[Row]] = {}
    for row in rows:
        groups.setdefault(row.title, []).append(row)
    parts = [
        "# What the lab measured",
        f"`make lab KERNEL={kernel} SET={set_}` and `make report` wrote this; the page beside it, report.html, has the plots, "
        "every run, and the peers on each bound. In brackets the worst place; in square ones the least and the most of "
        "several draws, whose median is judged where the bound does not say otherwise; in bold what falls short.",
        count(rows, results),
    ]
    for title, members in groups.items():
        if not any(results[row.id] for row in members):
            continue
        parts += [f"## {title}", table(members, results), notes(members, results)]
    if far := distances(rows, results):
        parts += ["## Distance to the ideal, strict priority at the bottleneck", far]
    return "\n\n".join(part for part in parts if part) + "\n"


def write(directory: Path, rows: Sequence[Row], results: Mapping[str, Result | None], kernel: str, set_: str) -> None:
    """report.md, beside the page."""
    (directory / "report.md").write_text(document(rows, results, kernel, set_))
