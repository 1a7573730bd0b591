# SPDX-License-Identifier: GPL-2.0-only
"""CONSTANTS.md here: what the rows say of half and of twice each constant of `le` and of downloads. `make sim-constants`.

The constants are read from their headers. Each value is compiled into a copy of its program, by a changed copy of its header.
"""

from __future__ import annotations

import argparse
import re
import statistics
import subprocess
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tests.lab.engine.experiment import quantile
from tests.lab.rows import rows
from tests.lab.rows.builder import QUICK, SIM
from tests.lab.rows.rows import RowError

from . import session
from .simulator import BUILD
from .translate import REPOSITORY

PAGE = Path(__file__).parent / "CONSTANTS.md"
MADE = BUILD / "constants"
INCLUDE = REPOSITORY / "include"
DRAWS = 16
LEAST_MOVE = {">": 0.01, "<": 0.1}  # of today's median: of shares; of times and delays, which differ more between builds
HEAD = """# What other constants would do

Constants of `le` and of the receiver's law with half and with twice their value, or their neighbours; constants that are not
listed have not been run. The simulator runs the rows below, 16 draws of each run. A change is listed where the median of the
draws leaves the range of today's (5 to 95 % of them) and moves by 1 % at least (times and delays: 10 %): today's median → that
with the other value. Bold: the bound holds today, and not with the other value. In parentheses: it holds with the other value
only. A line with – in both columns: these rows do not need the constant; another row may.

Written by `make sim-constants` (`ONLY=LE_FELL,quiet_rounds` for some). A constant that was not run keeps its lines.
"""


@dataclass(frozen=True)
class Law:
    """A law, and the rows that judge its constants."""

    title: str
    controllers: str
    program: str  # what is built: build/sim/PROGRAM
    headers: tuple[str, ...]  # below include
    prefix: str
    fixed: frozenset[str]  # units, ranges, widths of fields: no choices
    tried: dict[str, tuple[int, ...]]  # where half and twice are none
    rows: tuple[tuple[str, str], ...]  # set, rows


LAWS = (
    Law(
        title="le",
        controllers="le",
        program="le.so",
        headers=("law/le_state.h", "ccbpf/params.h"),
        prefix="LE",
        fixed=frozenset(
            "LE_SHIFT LE_MOST LE_NONE_YET LE_ONE LE_Q8_SHIFT LE_WINDOW_MOST LE_LEAST LE_FRESH LE_LOST_MOST LE_FLAT_MOST".split()
        ),
        tried={
            "LE_BLOCK_SHIFT": (1, 3),
            "LE_SAMPLES_NOISY": (5, 12),
            "LE_CHANCE_ROUNDS": (1, 3),
            "LE_GROWTH_MOST": (8, 25),
            "LE_SLOW": (2, 4),
            "LE_BEYOND": (4, 8),
        },
        rows=(
            (QUICK, "alone,early-loss,settled,yield-many,jitter,stall,handover"),
            (SIM, "time-to-yield,fast-reclaim,policer,tiny-buffer,route-change,crowd,peers-beside"),
        ),
    ),
    Law(
        title="downloads",
        controllers="rx_le<cubic",
        program="sim",
        headers=("law/rx_state.h",),
        prefix="RX",
        fixed=frozenset("RX_MOST RX_LEAST RX_OWN_MOST RX_TICK_US RX_JUMP_US RX_IDLE_US RX_START_WINDOW".split()),
        tried={"RX_OWN": (6, 8), "RX_DRIFT_SHIFT": (9, 11)},
        rows=((QUICK, "rx-alone"), (SIM, "rx-yield,rx-many,rx-late,rx-jitter,rx-loss,rx-both-ways")),
    ),
)


@dataclass(frozen=True)
class Constant:
    law: Law
    name: str
    header: str
    value: int
    span: tuple[int, int]  # of its value in the header

    @property
    def tried(self) -> tuple[int, ...]:
        return self.law.tried.get(self.name, (self.value // 2, self.value * 2))


def constants_of(law: Law) -> Iterator[Constant]:
    """The choices of a law: its macros, and where ccbpf/params.h is among its headers the parameters of its own."""
    for header in law.headers:
        text = (INCLUDE / header).read_text()
        found: Iterator[re.Match[str]] = re.finditer(
            rf"^#define ({law.prefix}_\w+)(?:\s|\\)+(\d+)\b(?!u? <<)", text, re.MULTILINE
        )
        if header.endswith("params.h"):
            begin = text.index(f"#define {law.prefix}_PARAMS(X)")
            end = text.index("\n\n", begin)
            found = re.compile(r'X\((\w+), "[^"]*", \d+, \d+, (\d+), "ours"').finditer(text, begin, end)
        for match in found:
            if match[1] not in law.fixed:
                yield Constant(law, match[1], header, int(match[2]), match.span(2))


def build(constant: Constant, value: int) -> Path:
    """The law's program with this value. Returns what stands for build/sim."""
    overlay = MADE / f"{constant.name}-{value}"
    text, header = (INCLUDE / constant.header).read_text(), overlay / "include" / constant.header
    header.parent.mkdir(parents=True, exist_ok=True)
    header.write_text(text[: constant.span[0]] + str(value) + text[constant.span[1] :])
    made = overlay / "sim" / constant.law.program
    made.unlink(missing_ok=True)
    done = subprocess.run(
        ["make", "-s", f"BUILD={overlay}", f"OVERLAY={overlay}/include", made],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode or not made.exists():
        raise RowError(f"{constant.name} = {value}: not built: {done.stderr.strip()}")
    for other in (*BUILD.glob("*.so"), BUILD / "sim"):
        if other.name != made.name:
            (made.parent / other.name).unlink(missing_ok=True)
            (made.parent / other.name).symlink_to(other)
    return made.parent


def judged(law: Law, built: Path, jobs: int, say: Callable[[str], None]) -> dict[tuple[str, str], dict[str, Any]]:
    """(row, bound) -> what session.finish() says of it, with the programs in @built"""
    bounds: dict[tuple[str, str], dict[str, Any]] = {}
    for row_set, words in law.rows:
        chosen = rows.only(rows.choose(words, set_=row_set, repeat=DRAWS), law.controllers)
        for work in session.plans(chosen, 1, row_set, say):
            work.runs = {key: replace(run, built=built) for key, run in work.runs.items()}
            errors = session.make_all([work], jobs, say)
            if errors:
                raise RowError(f"{work.row.id}: {errors[0]}")
            result = session.judged(work, 1)
            bounds |= {(work.row.id, bound["what"]): bound for bound in result["bounds"]}
    return bounds


# --- what changed ----------------------------------------------------------------------------------------------------


def middle(bound: dict[str, Any]) -> float | None:
    known = [draw for draw in bound["draws"] if draw is not None]
    return statistics.median(known) if 2 * len(known) > len(bound["draws"]) else None


def moved(today: dict[str, Any], then: dict[str, Any]) -> bool:
    before, after = middle(today), middle(then)
    if before is None or after is None:
        return before is not after
    known = [draw for draw in today["draws"] if draw is not None]
    inside = quantile(known, session.LOW) <= after <= quantile(known, session.HIGH)
    return not inside and abs(after - before) >= LEAST_MOVE[today["op"][0]] * abs(before)


def better(today: dict[str, Any], then: dict[str, Any]) -> bool:
    before, after = middle(today), middle(then)
    if before is None or after is None:
        return before is None
    return after > before if today["op"].startswith(">") else after < before


def told(id_: str, today: dict[str, Any], then: dict[str, Any]) -> str:
    text = f"`{id_}` {today['what']}: {session.figure(middle(today))} → {session.figure(middle(then))}"
    if today["holds"] and not then["holds"]:
        return f"**{text}**"
    return f"({text})" if then["holds"] and not today["holds"] else text


def line(constant: Constant, value: int, today: dict[Any, dict[str, Any]], then: dict[Any, dict[str, Any]]) -> str:
    changed = [(key[0], bound, then[key]) for key, bound in today.items() if moved(bound, then[key])]
    sides = ("; ".join(told(*one) for one in changed if better(*one[1:]) == side) or "–" for side in (False, True))
    return f"| `{constant.name}` | {constant.value} | {value} | {' | '.join(sides)} |"


# --- the page --------------------------------------------------------------------------------------------------------


def key_of(line_: str) -> tuple[str, str, str]:
    name, value, tried = (cell.strip(" `") for cell in line_.split("|")[1:4])
    return name, value, tried


def kept() -> dict[tuple[str, str, str], str]:
    """(name, value, tried) -> its line as it stands"""
    lines = PAGE.read_text().splitlines() if PAGE.exists() else []
    return {key_of(line_): line_ for line_ in lines if line_.startswith("| `")}


def page(known: dict[tuple[str, str, str], str]) -> str:
    text = [HEAD]
    for law in LAWS:
        text += [
            f"## {law.title}",
            "",
            f"Rows: {rows_of(law)}.",
            "",
            "| constant | is | tried | worse | better |",
            "| --- | --- | --- | --- | --- |",
        ]
        for constant in constants_of(law):
            keys = ((constant.name, str(constant.value), str(value)) for value in constant.tried)
            text += [known[key] for key in keys if key in known]
        text.append("")
    return "\n".join(text)


def rows_of(law: Law) -> str:
    return "; ".join(f"`SET={row_set}`: {words.replace(',', ', ')}" for row_set, words in law.rows)


def chosen_of(words: Sequence[str]) -> list[Constant]:
    """Raises RowError if a word is no constant."""
    every = [constant for law in LAWS for constant in constants_of(law)]
    names = {constant.name for constant in every}
    for word in words:
        if word not in names:
            raise RowError(f"ONLY={word}: no such constant; there are {', '.join(sorted(names))}")
    return [constant for constant in every if not words or constant.name in words]


def main(options: argparse.Namespace, say: Callable[[str], None]) -> int:
    known, today, jobs = kept(), {}, max(1, options.jobs)
    chosen = chosen_of([word for word in options.only.split(",") if word])
    for number, constant in enumerate(chosen, 1):
        law = constant.law
        if law.title not in today:
            say(f"{law.title}: as it is")
            today[law.title] = judged(law, BUILD, jobs, say)
        for value in constant.tried:
            then = judged(law, build(constant, value), jobs, say)
            new = line(constant, value, today[law.title], then)
            known[key_of(new)] = new
            PAGE.write_text(page(known))
            say(f"{number} of {len(chosen)}: {new}")
    return 0
