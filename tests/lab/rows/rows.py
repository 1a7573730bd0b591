# SPDX-License-Identifier: GPL-2.0-only
"""Rows: experiments as data. A file of rows (TOML) → the runs that a row needs, and the bounds that judge it.

experiments/README.md is the reference of the format. A row is a template: "@foreground", "@background" and "@point"
("@point.key" where points are tables) stand for what differs from run to run. Its runs are all combinations of

    foreground (the row's list) × point (of its sweep) × alone | ideal | each of ours | each of the peers × draw

A wrong key or value raises RowError, which names the file, the row, the key, and what is allowed. It is raised here, by
load(), and not by a lab that has begun to run: schema.py has the keys, builder.py makes the runs, bounds.py the bounds.

A simulator of the controllers asks for set_="sim": a row's table `sim` (seconds, repeat, points, …) then stands in the
place of `quick`, and points that are `only = "sim"` are there.
"""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .builder import FULL, QUICK, SIM, Asked, RowBuilder, check_special
from .row import ALONE, AS_GIVEN, IDEAL, Bound, Point, Row, RunKey
from .schema import FILE, ROW, RowError, check, one_of

__all__ = [
    "ALONE", "AS_GIVEN", "IDEAL", "SETS", "SIM", "Bound", "Point", "Row", "RowError", "RunKey", "choose", "load", "load_all",
    "only",
]  # fmt: skip

DIRECTORY = Path(__file__).resolve().parents[1] / "experiments"
SETS = (QUICK, FULL)
EVERY = "*"  # in `include`: all rows of a file


# --- files -----------------------------------------------------------------------------------------------------------


def read(path: Path, including: tuple[Path, ...] = ()) -> dict[str, Any]:
    """A file's tables, those of the files that it includes below them."""
    if path.resolve() in including:
        raise RowError(f"{including[-1]}: include: {path} includes it")
    try:
        own = tomllib.loads(path.read_text())
    except (OSError, UnicodeDecodeError) as error:
        by = f" (include of {including[-1]})" if including else ""
        raise RowError(f"{path}: cannot be read: {error}{by}") from error
    except tomllib.TOMLDecodeError as error:
        raise RowError(f"{path}: not TOML: {error}") from error
    check(str(path), own, FILE)
    check(f"{path}: defaults", own.get("defaults", {}), ROW)
    merged: dict[str, Any] = {"defaults": {}, "controller": {}, "row": {}}
    for word in own.get("include", []):
        add_included(path, word, merged, (*including, path.resolve()))
    for key in ("defaults", "controller"):
        merged[key] |= own.get(key, {})
    for name, table in own.get("row", {}).items():
        if not isinstance(table, dict):
            raise RowError(f"{path}: row.{name}: {table!r} is not a table")
        merged["row"][name] = {**merged["row"].get(name, {}), **table}
    return {"title": path.stem, **own, **merged}


def add_included(path: Path, word: str, merged: dict[str, Any], including: tuple[Path, ...]) -> None:
    """FILE: its defaults and controllers. FILE:ROW: that row too, FILE:* all of them."""
    file, _, wanted = word.partition(":")
    other = read(path.parent / file, including)
    for key in ("defaults", "controller"):
        merged[key] |= other[key]
    if wanted and wanted != EVERY:
        one_of(f"{path}: include: {word}", wanted, other["row"])
    merged["row"] |= {name: table for name, table in other["row"].items() if wanted in (name, EVERY)}


def load(path: Path, kernel: str = "6.12", set_: str = FULL, repeat: int = 0) -> list[Row]:
    """The rows of one file. repeat: so many draws of each run, 0: as many as the row says."""
    one_of("SET", set_, (*SETS, SIM))
    file = read(path)
    if not file["row"]:
        raise RowError(f"{path}: row is missing: there is no [row.ID]")
    special = check_special(path.name, file["controller"])
    asked = Asked(kernel, set_, repeat)
    made = (
        RowBuilder(path, file["title"], name, {**file["defaults"], **table}, special, asked).row()
        for name, table in file["row"].items()
    )
    return [row for row in made if row]


def load_all(kernel: str = "6.12", set_: str = FULL, repeat: int = 0) -> list[Row]:
    """All rows of the project: the papers', then our own."""
    own = ("own", "real-paths", "long-lives", "peers")
    paths = sorted(DIRECTORY.glob("*.toml"), key=lambda path: (path.stem in own, path.name))
    return distinct([row for path in paths for row in load(path, kernel, set_, repeat)])


def distinct(rows: list[Row]) -> list[Row]:
    """A row's id is the directory of its results."""
    files: dict[str, Path] = {}
    for row in rows:
        if row.id in files:
            raise RowError(f"{row.file}: row {row.id}: there is one of this id in {files[row.id]} too")
        files[row.id] = row.file
    return rows


def only(chosen: Sequence[Row], words: str) -> list[Row]:
    """ONLY=: these controllers of the rows, comma-separated; nothing: all. Rows without any of them are left out."""
    names = set(filter(None, words.split(",")))
    known = {name for row in chosen for name in row.controllers}
    if unknown := sorted(names - known):
        raise RowError(f"ONLY={','.join(unknown)}: none of {', '.join(sorted(known))}, which the chosen rows have")
    return [own for row in chosen if (own := row.only(names))] if names else list(chosen)


def choose(words: str, kernel: str = "6.12", set_: str = FULL, repeat: int = 0) -> list[Row]:
    """EXP=: ids, files, and rows of a file (mine.toml:id), comma-separated; nothing: all."""
    known = {row.id: row for row in load_all(kernel, set_, repeat)}
    if not words:
        return list(known.values())
    chosen: list[Row] = []
    for word in filter(None, words.split(",")):
        file, _, id_ = word.partition(":")
        if file.endswith(".toml"):
            rows = load(Path(file), kernel, set_, repeat)
            chosen += [row for row in rows if row.id == one_of(f"EXP={word}", id_ or row.id, [row.id for row in rows])]
        elif word in known:
            chosen.append(known[word])
        else:
            raise RowError(f"EXP={word}: no such row on {kernel}; `make lab-list` lists them, a file ends in .toml")
    return distinct(list({(row.file.resolve(), row.id): row for row in chosen}.values()))
