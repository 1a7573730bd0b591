# SPDX-License-Identifier: GPL-2.0-only
"""Rows in the simulator: all draws of all runs, judged as the lab judges them."""

from __future__ import annotations

import functools
import json
import os
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tests.lab.engine.experiment import Result, quantile
from tests.lab.measures import MEASURES
from tests.lab.rows import judge, rows
from tests.lab.rows.row import IDEAL, Row, RunKey

from .simulator import BUILD, Run, SimulatorError
from .translate import REPOSITORY, Unfit, unfit

PARSED_KEPT = 256  # results in memory
LOW, HIGH = 0.05, 0.95
SAY_EVERY_S = 15.0
SPECIAL = ("estimate_error", "estimate_count", "probe_load", "probes_while_marked", "class_count")  # the lab's own logs


@dataclass
class Work:
    """A row with its draws."""

    row: Row
    runs: dict[RunKey, Run]
    left_out: list[str]  # controllers that the simulator does not have
    row_set: str

    @functools.cached_property
    def results(self) -> Callable[[RunKey], Result]:
        return functools.lru_cache(maxsize=PARSED_KEPT)(lambda key: self.runs[key].result())

    @property
    def directory(self) -> Path:
        return BUILD / "rows" / self.row.id


def plan(row: Row, seed: int, row_set: str) -> Work:
    """Peers and ideals that the simulator does not have are left out, and named. Raises Unfit if one of ours cannot be run."""
    missing: dict[str, str] = {}
    for key, run in row.runs.items():
        for reason in unfit(run):
            if key.background not in row.peers and key.background != IDEAL:
                raise Unfit(f"{row.id}: {reason}")
            missing[key.background] = reason
    for bound in row.bounds:
        if MEASURES[bound.measure].windows or bound.measure in SPECIAL:
            raise Unfit(f"{row.id}: measure {bound.measure}")
    runs = {key: run for key, run in row.runs.items() if key.background not in missing}
    peers = tuple(name for name in row.peers if name not in missing)
    kept = replace(row, runs=runs, peers=peers)
    return Work(kept, {key: Run(run, seed + key.number) for key, run in runs.items()}, sorted(missing), row_set)


def plans(chosen: Sequence[Row], seed: int, row_set: str, say: Callable[[str], None]) -> list[Work]:
    """The plans of the rows that it can run; for the others the reason is printed."""
    works = []
    for row in chosen:
        try:
            works.append(plan(row, seed, row_set))
        except Unfit as error:
            say(f"{error}: not in the simulator")
    return works


def choose(words: str, row_set: str, repeat: int) -> list[Row]:
    """The rows of EXP, as in the lab; without EXP those that have a table `sim`."""
    chosen = rows.choose(words, set_=row_set, repeat=repeat)
    return chosen if words else [row for row in chosen if row.for_sim]


# --- running ---------------------------------------------------------------------------------------------------------


def make_all(works: Sequence[Work], jobs: int, say: Callable[[str], None]) -> list[str]:
    """Makes the runs that are missing, the longest first. Returns the failures as texts."""
    missing = {run.path: run for work in works for run in work.runs.values() if not run.path.exists()}
    ordered = sorted(missing.values(), key=lambda run: -run.experiment.end_s * run.experiment.link.rate_mbit)
    errors: list[str] = []
    began_s = said_s = time.monotonic()

    def make(run: Run) -> None:
        try:
            run.make()
        except SimulatorError as error:
            errors.append(f"{run.experiment.name}: {error}")

    with ThreadPoolExecutor(jobs) as pool:
        for number, _ in enumerate(pool.map(make, ordered), 1):
            if time.monotonic() - said_s > SAY_EVERY_S:
                said_s = time.monotonic()
                say(f"{number} of {len(ordered)} runs, {said_s - began_s:.0f} s")
    return errors


def judged(work: Work, seed: int) -> dict[str, Any]:
    began_s = time.monotonic()
    virtual_s = sum(run.experiment.end_s for run in work.runs.values())
    result: dict[str, Any] = judge.result_of(
        work.row, work.results, kernel="simulator", seed=seed, set_=work.row_set, virtual_s=virtual_s,
        wall_s=time.monotonic() - began_s, git=judge.git_of(REPOSITORY),
    )  # fmt: skip
    return result


def finish(work: Work, seed: int) -> dict[str, Any]:
    """Judges, and writes result.json."""
    result = judged(work, seed)
    work.directory.mkdir(parents=True, exist_ok=True)
    (work.directory / "result.json").write_text(json.dumps(result, indent=1) + "\n")
    return result


# --- what is said ----------------------------------------------------------------------------------------------------


def lines_of(result: dict[str, Any], left_out: Sequence[str] = ()) -> Iterator[str]:
    """Prints the worst run of each bound: the median of its draws, 5 to 95 % of them, the worst one, how many hold."""
    word = ("holds" if result["holds"] else "FALLS SHORT") if result["bounds"] else "printed, not judged"
    without = f", without {', '.join(left_out)}" if left_out else ""
    draws = f"{result['repeat']} draws of " if result["repeat"] > 1 else ""
    yield f"{result['id']}: {word} ({draws}{result['runs'] // result['repeat']} runs of {result['run_s']:g} s{without})"
    for bound in result["bounds"]:
        yield (
            f"  {'holds      ' if bound['holds'] else 'falls short'} {bound['controller']:10} {spread(bound):34} "
            f"{bound['op']} {bound['bound']:g}: {bound['what']}{f' ({at})' if (at := bound['at']) else ''}"
        )


def spread(bound: dict[str, Any]) -> str:
    known = [value for value in bound.get("draws", ()) if value is not None]
    if len(known) < 2:
        return figure(bound["measured"])
    low, high = quantile(known, LOW), quantile(known, HIGH)
    middle = f"{statistics.median(known):.3g} [{low:.3g} … {high:.3g}]"
    return f"{middle} worst {figure(bound['worst'])}, {bound['held']}/{len(bound['draws'])}"


def figure(value: float | None) -> str:
    return "never" if value is None else f"{value:.3g}"


def run(works: Sequence[Work], jobs: int, seed: int, say: Callable[[str], None]) -> int:
    """0: all bounds hold, 1: one does not, 2: a run failed."""
    count = sum(len(work.runs) for work in works)
    hours = sum(run.experiment.end_s for work in works for run in work.runs.values()) / 3600
    say(f"{len(works)} rows, {count} runs, {hours:.0f} h of virtual time")
    worst = 0
    for work in works:
        errors = make_all([work], jobs, say)
        for error in errors[:3]:
            say(f"{work.row.id}: no result: {error}")
        if errors:
            worst = 2
            continue
        result = finish(work, seed)
        for line in lines_of(result, work.left_out):
            say(line)
        worst = max(worst, 0 if result["holds"] else 1)
    return worst


def cores() -> int:
    return len(os.sched_getaffinity(0))
