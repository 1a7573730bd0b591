# SPDX-License-Identifier: GPL-2.0-only
"""The README's tables of figures: what stands between <!-- NAME --> and <!-- /NAME -->, from the store.

Which rows and which controllers a table has, and its words, are written by hand in the README and stay.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from ..guest.errors import LabError
from ..guest.image import REPOSITORY
from . import store
from .markdown import number, table
from .pages import by_origin, distance_cell
from .store import Made

README = REPOSITORY / "README.md"
OWN, QUOTED = "own", ("6.12", "quick")
BLOCK = re.compile(r"(<!-- ([a-z]+) -->\n)(.*?)(<!-- /\2 -->)", re.S)


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def quoted(ids: Sequence[str]) -> dict[str, Made]:
    """What was made of these rows."""
    found = by_origin(store.read(OWN)["rows"]).get(QUOTED, {})
    if missing := [id_ for id_ in ids if id_ not in found]:
        kernel, set_ = QUOTED
        raise LabError(
            f"{README}: {', '.join(missing)}: not in {store.DIRECTORY / OWN}.json; "
            f"`make lab KERNEL={kernel} SET={set_} EXP={','.join(missing)}` and `make results`"
        )
    return {id_: found[id_] for id_ in ids}


OLDER, EARLIER = "†", "‡"


def mark(made: Made, name: str) -> str:
    """Of a figure of older programs, and of one of the kernel's own that is of an earlier run than ours of the same row."""
    if name in store.older(made):
        return OLDER
    of, ours = made["of"][name], {of["commit"] for of in made["of"].values() if of["programs"]}
    return EARLIER if not of["programs"] and of["commit"] not in ours else ""


def marked(made: Made, name: str, figure: str) -> str:
    return f"{figure}{mark(made, name)}" if figure else ""


def marks_told(ids: Sequence[str], controllers: Sequence[str]) -> str:
    """The lines below a table of the README: at which commits its figures were measured, by their marks."""
    commits: dict[str, list[str]] = {}
    for made in quoted(ids).values():
        for name in (name for name in controllers if name in made["of"]):
            sign = mark(made, name)
            if sign or made["of"][name]["programs"]:
                commits.setdefault(sign, []).append(made["of"][name]["commit"])
    words = {
        "": "Measured with programs as they are today, at",
        OLDER: f"{OLDER} with older programs, at",
        EARLIER: f"{EARLIER} the kernel's own controllers in an earlier run, at",
    }
    said = [f"{word} {' or '.join(dict.fromkeys(commits[sign]))}" for sign, word in words.items() if sign in commits]
    return ";\n".join(said) + ".\n[Which row is of which](docs/results/own.md#programs).\n"


def distance_block(old: str) -> str:
    """The rows and columns stay as they are."""
    text = [line for line in old.splitlines() if line.startswith("|")]
    names = [name.strip("`") for name in cells(text[0])[1:]]
    ids = [cells(line)[0].strip("`") for line in text[2:]]
    found = quoted(ids)
    body = [[f"`{id_}`", *(marked(found[id_], name, distance_cell(found[id_], name)) for name in names)] for id_ in ids]
    return f"{table(cells(text[0]), body)}\n\n{marks_told(ids, names)}"


COMPARED = ("yield-rtts", "alone", "time-to-reclaim")  # the last columns of the table of controllers


def controllers_block(old: str) -> str:
    """The first two columns are written by hand."""
    found, text = quoted(COMPARED), [line for line in old.splitlines() if line.startswith("|")]
    measured = {
        (bound["controller"], id_): marked(found[id_], bound["controller"], number(bound["measured"]))
        for id_ in COMPARED for bound in found[id_]["bounds"] if bound["measured"] is not None
    }  # fmt: skip
    body = [[*cells(line)[:2], *(measured.get((cells(line)[0].strip("`"), id_), "–") for id_ in COMPARED)] for line in text[2:]]
    return f"{table(cells(text[0]), body)}\n\n{marks_told(COMPARED, [line[0].strip('`') for line in body])}"


BLOCKS: dict[str, Callable[[str], str]] = {"controllers": controllers_block, "distance": distance_block}


def text() -> str:
    return BLOCK.sub(lambda found: found[1] + BLOCKS[found[2]](found[3]) + found[4], README.read_text())
