# SPDX-License-Identifier: GPL-2.0-only
"""What the rows of a file are, as a table: what they try, on which path, what the paper printed, and where they differ from it."""

from __future__ import annotations

import functools
from collections.abc import Iterable

from ..engine.scenario import VirtualLink
from ..rows import rows
from ..rows.builder import QUICK
from ..rows.row import Row
from . import store
from .markdown import number, table


@functools.cache
def full() -> dict[str, Row]:
    return {row.id: row for row in store.known()}


@functools.cache
def quick() -> dict[str, Row]:
    return {row.id: row for row in rows.load_all(set_=QUICK)}


def span(values: Iterable[float], unit: str) -> str:
    """The least and the most."""
    shown = list(dict.fromkeys(f"{value:.3g}" if value < 1000 else number(value) for value in sorted(set(values))))
    return f"{shown[0]} {unit}" if len(shown) == 1 else f"{shown[0]} to {shown[-1]} {unit}"


def path_of(row: Row) -> str:
    """Rate, round trip and buffer of all runs of the row."""
    links = [run.link for run in row.runs.values() if isinstance(run.link, VirtualLink)]
    bdp = [8e-3 * link.packets * link.packet_bytes / (link.rate_mbit * link.rtt_ms) for link in links if not link.policer_packets]
    hops = max(link.hops for link in links)
    parts = [
        span((link.rate_mbit for link in links), "Mbit/s"),
        span((link.rtt_ms for link in links), "ms"),
        span(bdp, "BDP") if bdp else "a policer",
        *([f"{hops} bottlenecks"] if hops > 1 else []),
    ]
    return ", ".join(parts)


def points_of(row: Row, quick: Row | None) -> str:
    """What is swept, and which of its points SET=quick runs."""
    if len(row.points) < 2:
        return ""
    ran = [point.name for point in quick.points] if quick else []
    return f"{row.swept}: {'; '.join(ran) or 'none'} ({len(ran)} of {len(row.points)})"


def note_of(id_: str) -> str:
    """The row's note in one line; none of a row that is no more."""
    row = full().get(id_)
    return " ".join(row.note.split()) if row else ""


def described(ids: Iterable[str]) -> str:
    """A line for each of these rows. Those that are no more have none."""
    body = [
        [
            f"`{row.id}`",
            row.what,
            path_of(row),
            points_of(row, quick().get(row.id)),
            "; ".join(f"{name}: {value}" for name, value in row.paper.items()),
            row.scale if row.paper else "",
        ]
        for row in (full()[id_] for id_ in ids if id_ in full())
    ]
    return table(["row", "what", "path", "points of SET=quick", "the paper", "how SET=full differs"], body)
