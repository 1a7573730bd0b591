# SPDX-License-Identifier: GPL-2.0-only
"""The README's tables of figures: what stands between <!-- NAME --> and <!-- /NAME -->, from the store.

Which rows and which controllers a table has, and its words, are written by hand in the README and stay.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from ..guest.errors import LabError
from ..guest.image import REPOSITORY
from . import store
from .markdown import number, table
from .pages import EARLIER, OLDER, by_origin, distance_cell, mark
from .store import Made

README = REPOSITORY / "README.md"
OWN, QUOTED = "own", ("6.12", "quick")
BLOCK = re.compile(r"(<!-- ([a-z]+) -->\n)(.*?)(<!-- /\2 -->)", re.S)


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def quoted(ids: Sequence[str]) -> dict[str, Made]:
    """The results of these rows."""
    found = by_origin(store.read(OWN)["rows"]).get(QUOTED, {})
    if missing := [id_ for id_ in ids if id_ not in found]:
        kernel, set_ = QUOTED
        raise LabError(
            f"{README}: {', '.join(missing)}: not in {store.DIRECTORY / OWN}.json; "
            f"`make lab KERNEL={kernel} SET={set_} EXP={','.join(missing)}` and `make results`"
        )
    return {id_: found[id_] for id_ in ids}


def listed(commits: Sequence[str]) -> str:
    """A, B and C."""
    *most, last = commits
    return f"{', '.join(most)} and {last}" if most else last


def origins_told(origins: Iterable[tuple[str, Mapping[str, Any]]]) -> str:
    """The lines below a table: at which commits its figures were measured, by their marks."""
    commits: dict[str, list[str]] = {}
    for sign, origin in origins:
        if sign or origin["programs"]:
            commits.setdefault(sign, []).append(origin["commit"])
    words = {
        "": "Measured with the programs of {}, which have not changed since",
        OLDER: f"{OLDER} with older programs, at {{}}",
        EARLIER: f"{EARLIER} the kernel's own controllers in an earlier run, at {{}}",
    }
    said = [words[sign].format(listed([*dict.fromkeys(commits[sign])])) for sign in words if sign in commits]
    return ";\n".join(said) + ".\n[The commit of each row](docs/results/own.md#programs).\n"


def distance_block(old: str) -> str:
    """The rows and columns stay as they are."""
    text = [line for line in old.splitlines() if line.startswith("|")]
    names = [name.strip("`") for name in cells(text[0])[1:]]
    found = quoted([cells(line)[0].strip("`") for line in text[2:]])
    body = [[f"`{id_}`", *(distance_cell(made, name) for name in names)] for id_, made in found.items()]
    origins = [(mark(made, far[1]), far[1]) for made in found.values() for name in names if (far := store.distance(made, name))]
    return f"{table(cells(text[0]), body)}\n\n{origins_told(origins)}"


COMPARED = ("yield-rtts", "alone", "time-to-reclaim")  # the last columns of the table of controllers


def controllers_block(old: str) -> str:
    """The first two columns are written by hand."""
    text = [line for line in old.splitlines() if line.startswith("|")]
    body, origins = [], []
    for name, when, *_ in (cells(line) for line in text[2:]):
        line = [name, when]
        for made in quoted(COMPARED).values():
            own = [bound for bound in made["bounds"] if bound["controller"] == name.strip("`") and bound["measured"] is not None]
            sign = OLDER if own and store.is_older(made["of"][own[0]["controller"]]) else ""
            line.append(f"{number(own[0]['measured'])}{sign}" if own else "–")
            origins += [(sign, made["of"][bound["controller"]]) for bound in own]
        body.append(line)
    return f"{table(cells(text[0]), body)}\n\n{origins_told(origins)}"


BLOCKS: dict[str, Callable[[str], str]] = {"controllers": controllers_block, "distance": distance_block}


def text() -> str:
    return BLOCK.sub(lambda found: found[1] + BLOCKS[found[2]](found[3]) + found[4], README.read_text())
