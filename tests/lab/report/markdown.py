# SPDX-License-Identifier: GPL-2.0-only
"""What was judged, as cells and lines of a table in a text. pages.py makes the pages of docs/results of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ..rows.row import MEDIAN

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


def beside(value: float, bound: Result) -> str:
    """A figure that rounds to its bound, and is on the wrong side of it, has more decimals."""
    short = number(value)
    return f"{value:.5f}" if not bound["holds"] and float(short) == bound["bound"] else short


def cell(bound: Result | None, where: bool) -> str:
    if bound is None:
        return ""
    figure = bound["why"] if bound["measured"] is None else beside(bound["measured"], bound)
    figure += f" [{number(bound['least'])} … {number(bound['most'])}]" if "least" in bound else ""
    figure += ", worst never" if "draws" in bound and bound["worst"] is None else ""
    figure += f" ({bound['at']})" if where and bound["at"] else ""
    return figure if bound["holds"] else f"**{figure}**"


def limit_of(bound: Result) -> str:
    """The limit, and which of the draws it is for if that is not the median."""
    judged = bound.get("judged", MEDIAN)
    return f"{OPERATORS[bound['op']]} {bound['bound']:g}{'' if judged == MEDIAN else f', {judged}'}"


def lines(id_: str, bounds: Sequence[Result], controllers: Sequence[str], where: bool) -> list[list[str]]:
    """One per bound, with a cell per controller; a bound of the whole row has the controller ""."""
    found: dict[tuple[str, str], dict[str, Result]] = {}
    for bound in bounds:
        found.setdefault((bound["what"], limit_of(bound)), {})[bound["controller"]] = bound
    out: list[list[str]] = []
    for (what, limit), by in found.items():
        out.append(["" if out else f"`{id_}`", what, limit, *(cell(by.get(name), where) for name in controllers)])
    return out


def table(head: Iterable[str], body: Iterable[Iterable[str]]) -> str:
    """The table; nothing if it is empty."""
    columns, every = list(head), [list(line) for line in body]
    return "\n".join("| " + " | ".join(line) + " |" for line in [columns, ["---"] * len(columns), *every]) if every else ""
