# SPDX-License-Identifier: GPL-2.0-only
"""The store of results in git, docs/results/store/<file of rows>.json: what the lab has judged. build/lab does not outlive a
machine; this does, and the documents take their figures from it (pages.py, readme.py).

    {"title": …, "rows": {<id>: {"what": …, "made": [<made>, …], "remarks": [{"of": …, "text": …}, …]}}}

A <made> is what `make lab` said of a row, on one kernel and with one set; a later one takes its place:

    guest, set
    of         controller → its origin: commit, kernel, seed, draws, run_s, and the digest of each of our programs in its
               runs (programs.py). Also of the peers, the ideal, and "": the whole row. run_s is null where nobody knows
    bounds     the row's verdicts, as in result.json, of the draws only their number
    peers      the same of the controllers that decide nothing
    figures    controller → place → figure: its value, or with several draws the median, the least and the most

    earlier    controller → origin (of), figures: its distances to the ideal, where the result above has none

A controller of the row that a later result does not have keeps what it had, with its own origin, and so does a distance to the
ideal: a quick set has fewer peers, and may have no ideal.
Remarks are written by hand, are of what no set measures (another scale, another draw), and stay. No date is in it, so the
same results give the same bytes.
"""

from __future__ import annotations

import functools
import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ..guest.errors import LabError
from ..guest.image import REPOSITORY
from ..rows import rows
from ..rows.row import ALONE, IDEAL
from . import place, programs

Made = dict[str, Any]
Store = dict[str, Any]
DIRECTORY = REPOSITORY / "docs/results/store"
DISTANCE = "distance_to_ideal"
FIGURES = ("transparency", "utilisation", DISTANCE, "response_to_alone", "queue_p95_ms")
COLUMNS = 130
NEEDED = {"id", "file", "programs", "git", "bounds", "peers_bounds", "measured", "peers", "ranges", "kernel", "set"}


# --- one result --------------------------------------------------------------------------------------------------------


def made_of(result: Mapping[str, Any], guest: str) -> Made:
    """The part of a result.json that is stored."""
    origin = {
        "commit": result["git"],
        "kernel": result["kernel"],
        "seed": result["seed"],
        "draws": result["repeat"],
        "run_s": result["run_s"],
    }
    return {
        "guest": guest,
        "set": result["set"],
        "of": {controller: {**origin, "programs": own} for controller, own in result["programs"].items()},
        "bounds": [brief(bound) for bound in result["bounds"]],
        "peers": [brief(bound) for bound in result["peers_bounds"]],
        "figures": dict(figures_of(result)),
        "earlier": {},
    }


def brief(bound: Mapping[str, Any]) -> dict[str, Any]:
    return {key: len(value) if key == "draws" else value for key, value in bound.items()}


def figures_of(result: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for controller, places in {**result["measured"], **result["peers"]}.items():
        spans = result["ranges"].get(controller, {})
        own = {
            place: {
                name: [figures[name], *spans[place][name]] if name in spans.get(place, {}) else figures[name]
                for name in FIGURES if name in figures
            }
            for place, figures in places.items()
        }  # fmt: skip
        yield controller, {place: figures for place, figures in own.items() if figures}


def is_older(origin: Mapping[str, Any]) -> bool:
    """Whether this origin has older programs than those of today."""
    today = programs.digests()
    return any(digest != today.get(program) for program, digest in origin["programs"].items())


def older(made: Made) -> list[str]:
    """The controllers whose verdicts are of older programs."""
    return [name for name, origin in made["of"].items() if is_older(origin)]


def distance(made: Made, controller: str) -> tuple[float, dict[str, Any]] | None:
    """The distance to strict priority, as the mean of the row's places; and its origin."""
    for origin, places in sources(made, controller):
        own = [figures[DISTANCE] for figures in places.values() if DISTANCE in figures]
        values = [value[0] if isinstance(value, list) else value for value in own]
        if values:
            return sum(values) / len(values), origin
    return None


def sources(made: Made, controller: str) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Origin and figures by place, the newest first."""
    if controller in made["figures"]:
        yield made["of"][controller], made["figures"][controller]
    if controller in made["earlier"]:
        yield made["earlier"][controller]["of"], made["earlier"][controller]["figures"]


# --- the files -----------------------------------------------------------------------------------------------------------


@functools.cache
def known() -> list[rows.Row]:
    return rows.load_all()


def names() -> list[str]:
    """The files of rows of which something is stored: the papers' first, as rows.load_all() has them."""
    order = list(dict.fromkeys(row.file.stem for row in known()))
    return sorted((path.stem for path in DIRECTORY.glob("*.json")), key=order.index)


def read(name: str) -> Store:
    path = DIRECTORY / f"{name}.json"
    try:
        store: Store = json.loads(path.read_text())
    except FileNotFoundError:
        return {"title": "", "rows": {}}
    except ValueError as error:
        raise LabError(f"{path}: cannot be read: {error}; `git checkout` brings it back") from error
    return store


def text_of(value: Any, depth: int = 0) -> str:
    """The JSON text; a value that fits into a line is in one line."""
    line = json.dumps(value, ensure_ascii=False, allow_nan=False)
    if not isinstance(value, dict | list) or not value or depth + len(line) <= COLUMNS:
        return line
    indent = " " * (depth + 1)
    if isinstance(value, dict):
        items = [f"{json.dumps(key, ensure_ascii=False)}: {text_of(item, depth + 1)}" for key, item in value.items()]
    else:
        items = [text_of(item, depth + 1) for item in value]
    brackets = "{}" if isinstance(value, dict) else "[]"
    return brackets[0] + "\n" + ",\n".join(indent + item for item in items) + "\n" + " " * depth + brackets[1]


def write(name: str, store: Store) -> None:
    DIRECTORY.mkdir(parents=True, exist_ok=True)
    (DIRECTORY / f"{name}.json").write_text(text_of(store) + "\n")


# --- taking over what the lab has made -----------------------------------------------------------------------------------


@functools.cache
def is_behind(commit: str, other: str) -> bool:
    """Whether a commit comes before the other one. Of a commit that git does not have, nobody can say that."""
    commit, other = commit.removesuffix("-dirty"), other.removesuffix("-dirty")
    asked = ["git", "merge-base", "--is-ancestor", commit, other]
    return commit != other and not subprocess.run(asked, cwd=REPOSITORY, capture_output=True).returncode


def is_left_behind(made: Made, stored: Made) -> bool:
    """Whether the new result is of older programs than the stored one. Where neither has those of today, its commit says so."""
    both = made["of"].keys() & stored["of"].keys()
    behind = any(is_behind(made["of"][name]["commit"], stored["of"][name]["commit"]) for name in both)
    return bool(set(older(made)) - set(older(stored))) or (behind and bool(older(made)))


def put(own: dict[str, Any], row: rows.Row, made: Made) -> bool:
    """Replaces the result of the same kernel and set, unless the new one is of older programs."""
    same = [old for old in own["made"] if (old["guest"], old["set"]) == (made["guest"], made["set"])]
    if same and is_left_behind(made, same[0]):
        return False
    others = [old for old in own["made"] if old not in same]
    own["made"] = sorted([*others, kept_of(same[0], row, made) if same else made], key=order)
    return True


def kept_of(old: Made, row: rows.Row, made: Made) -> Made:
    """The new result, with those parts of the old one that the new one lacks and the row still has."""
    kept = ({*old["of"]} - {*made["of"]}) & {*row.controllers, IDEAL, ALONE}
    asked = {(bound["what"], bound["op"], bound["bound"]) for part in ("bounds", "peers") for bound in made[part]}
    asked |= {(bound.what, bound.op, bound.bound) for bound in row.bounds}  # of others, where only some controllers ran
    verdicts = {
        part: [
            bound for bound in old[part] if bound["controller"] in kept and (bound["what"], bound["op"], bound["bound"]) in asked
        ]
        for part in ("bounds", "peers")
    }
    joined = {
        **made,
        "of": made["of"] | {name: origin for name, origin in old["of"].items() if name in kept},
        "bounds": made["bounds"] + verdicts["bounds"],
        "peers": made["peers"] + verdicts["peers"],
        "figures": made["figures"] | {name: figures for name, figures in old["figures"].items() if name in kept},
        "earlier": made["earlier"] | {name: earlier for name, earlier in old["earlier"].items() if name in kept},
    }
    for name in made["of"]:
        if not distance(joined, name) and (far := distance(old, name)):
            joined["earlier"][name] = {"of": far[1], "figures": distances_of(old, name)}
    return joined


def distances_of(made: Made, controller: str) -> dict[str, dict[str, Any]]:
    places = {place: figures for _, own in sources(made, controller) for place, figures in own.items() if DISTANCE in figures}
    return {place: {DISTANCE: figures[DISTANCE]} for place, figures in places.items()}


def order(made: Made) -> tuple[bool, str]:
    return made["set"] != rows.SETS[0], made["guest"]


def update() -> None:
    """From every result.json in build/lab; those of rows that are not the project's are not for the store."""
    files: dict[str, dict[str, rows.Row]] = {}
    for row in known():
        files.setdefault(row.file.stem, {})[row.id] = row
    found = [(path.parents[1].name, path) for path in sorted(place.ROOT.glob("*/*/result.json"))]
    for name, own in files.items():
        store = read(name)
        for guest, path in found:
            if path.parent.name in own:
                take(store, own[path.parent.name], guest, path)
        if store["rows"]:
            store["title"] = next(iter(own.values())).title
            store["rows"] = {id_: store["rows"][id_] for id_ in own if id_ in store["rows"]}
            write(name, store)


def take(store: Store, row: rows.Row, guest: str, path: Path) -> None:
    try:
        result = json.loads(path.read_text())
    except ValueError:
        result = {}
    if not isinstance(result, dict) or not NEEDED <= result.keys() or result["file"] != row.file.name:
        print(f"results: {path}: left out: of another version of the lab, or of a row that is not the project's; run the row again",
              file=sys.stderr)  # fmt: skip
        return
    own = store["rows"].setdefault(row.id, {"what": row.what, "made": [], "remarks": []})
    own["what"] = row.what
    if not put(own, row, made_of(result, guest)):
        print(f"results: {path}: left out: it is of older programs than what is stored", file=sys.stderr)
