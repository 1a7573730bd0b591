# SPDX-License-Identifier: GPL-2.0-only
"""RESULTS.md here, from what `make sim` left in build/sim/rows. `make sim-report`. A row that was not run keeps its section."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tests.lab.rows.rows import load_all

from .session import spread
from .simulator import BUILD

PAGE = Path(__file__).parent / "RESULTS.md"
HEAD = """# The rows in the simulator

For each bound and controller, the run that is farthest on the wrong side: the median of its draws [5 to 95 % of them], the
worst draw, and how many of the draws hold. Bold: the bound does not hold. Written by `make sim` and `make sim-report` from
the rows in `tests/lab/experiments`; [README.md](README.md) describes the simulator.
"""


def results() -> dict[str, dict[str, Any]]:
    """Row → what was made of it."""
    paths = {row.id: BUILD / "rows" / row.id / "result.json" for row in load_all()}
    return {id_: json.loads(path.read_text()) for id_, path in paths.items() if path.exists()}


def kept() -> dict[str, str]:
    """Row → its section as it stands."""
    sections = PAGE.read_text().split("\n## ")[1:] if PAGE.exists() else []
    return {section.split(":", 1)[0]: f"\n## {section}".rstrip() for section in sections}


def lines(result: dict[str, Any]) -> Iterator[str]:
    draws = f", {result['repeat']} draws of each run" if result["repeat"] > 1 else ""
    yield f"\n## {result['id']}: {result['what']}\n"
    yield f"Runs of {length(result['run_s'])}{draws}.\n"
    yield "| bound | controller | where | measured | wanted |"
    yield "| --- | --- | --- | --- | --- |"
    for bound in result["bounds"]:
        measured = spread(bound)
        yield (
            f"| {bound['what']} | `{bound['controller']}` | {bound['at']} "
            f"| {measured if bound['holds'] else f'**{measured}**'} | {bound['op']} {bound['bound']:g} |"
        )
    for table in result.get("tables", ()):
        yield from every_run(table)


def every_run(table: dict[str, Any]) -> Iterator[str]:
    """Places × controllers, the peers too."""
    controllers = list(dict.fromkeys(name for cells in table["cells"].values() for name in cells))
    yield f"\nEvery run: {table['what']} (the draw that decides, and the worst one where it differs).\n"
    yield f"| where | {' | '.join(f'`{name}`' for name in controllers)} |"
    yield f"| --- |{' --- |' * len(controllers)}"
    for place, cells in table["cells"].items():
        yield f"| {place} | {' | '.join(cells.get(name, '–') for name in controllers)} |"


def length(seconds: float) -> str:
    for unit, size in (("h", 3600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds:.3g} s"


def write(say: Callable[[str], None]) -> int:
    found = results()
    if not found:
        say("no row was run: `make sim` first")
        return 2
    sections = kept() | {id_: "\n".join(lines(result)) for id_, result in found.items()}
    ordered = [sections[row.id] for row in load_all() if row.id in sections]
    PAGE.write_text("\n".join([HEAD, *ordered, ""]))
    say(f"{PAGE}: {len(found)} rows new, {len(ordered) - len(found)} as they were")
    return 0
