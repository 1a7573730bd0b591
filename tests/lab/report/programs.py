# SPDX-License-Identifier: GPL-2.0-only
"""A digest of each of our programs, so that a result can say without git whether it is of the programs of today.

It is of what the compiler reads: the source with its own headers, preprocessed, as a sorted list of declarations. So
neither comments nor white space count, nor in which file and in which order declarations stand, nor the compiler's version.
Nor do functions that a program does not call, nor types and constants that it does not use: a new controller leaves the
digests of the others as they are. Nor does what kern/totals.bpf.h, kern/download_totals.bpf.h and kern/life.bpf.h add up for `ccbpf metrics` and `top`, which decides
nothing about a flow, nor the number of a layout: see decisive().
The system's headers and vmlinux.h are left out. A name that changes counts, as everything else does that is not known
to leave the instructions as they were.
"""

from __future__ import annotations

import functools
import hashlib
import re
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from ..guest.errors import LabError
from ..guest.image import REPOSITORY

OBJECT = ".bpf.c"
DIGITS = 12  # of a digest: enough to tell apart what ever was there
TOKEN = re.compile(r'"(?:\\.|[^"\\])*"|\w+|\S')
INCLUDED = re.compile(r'^\s*#\s*include\s*[<"]([\w./]+)[>"]', re.M)
CONSTANTS = re.compile(r"enum \w+ \{ (.*) \}$")
STRUCT = re.compile(r"(?:struct|union) (\w+) \{.*\}$")
UNION = re.compile(r"\bunion \{[^{}]*\}")
MEMBER = re.compile(r"struct \w+ (\w+) ; ")
SELECTED = re.compile(r"(?:- >|\.) (\w+)")
NUMBER = re.compile(r"(?:0x[0-9a-f]+|\d+)$", re.I)
FUNCTION = re.compile(r"static [\w* ]*?(\w+) \(.*\}$")
TOTALS = re.compile(
    r"(?<=[;{}] )(?:totals|life)_\w+ \([^;]*\) ; |(?:struct ccbpf_flow_life|u64) life\w* ; "
)  # a whole statement; a member
NO_TOTALS = "static const struct ccbpf_totals "  # a new element of a map
TOTALS_MAP = re.compile(r"(?:(?:unit_|rule_)?totals|ruled) SEC\b")
LAYOUT = re.compile(r"(?<=\. abi = )\d+")
OPTIONS = ("-E", "-P", "-undef", "-nostdinc", "-D__bpf__", "-xc")  # -undef: no macro of this compiler or machine


def declarations(text: str) -> Iterator[str]:
    """The declarations of preprocessed C: each function, type or variable, its tokens with one space between them."""
    depth, own = 0, []
    for token in TOKEN.findall(text):
        own.append(token)
        depth += (token in "{(") - (token in "})")
        if depth == 0 and token in "};":
            yield " ".join(own)
            own = []
    if own:
        yield " ".join(own)


def used(units: list[str]) -> list[str]:
    """The declarations without the static functions and types that nothing here uses: a header has more than one program needs,
    and a new controller adds a type and some constants to the tables that all share."""
    spare: dict[str, str] = {}
    kept = []
    for unit in units:
        if (found := FUNCTION.match(unit)) and found[1] != "__attribute__":
            spare[found[1]] = unit
        elif found := CONSTANTS.match(unit):
            spare |= constants(found[1])
        elif found := STRUCT.match(unit):
            spare[found[1]] = unit
        elif unit != ";":  # what ends a type
            kept.append(unit)
    code = " ".join([*kept, *(unit for unit in spare.values() if FUNCTION.match(unit))])
    members = set(SELECTED.findall(code))
    for unit in kept:  # which grows
        for name in set(TOKEN.findall(unit)) & spare.keys():
            kept.append(without_members(spare.pop(name), members))
    return kept


def decisive(units: list[str]) -> list[str]:
    """The declarations without what counts the totals of a controller and of a flow: the maps, the members `life…` of a record, and
    the statements `totals_…(…);` and `life_…(…);`, whose functions then are unused. They only add to these, which a test asserts,
    so a flow does the same without them. A call within an expression, or as the only statement of a condition, stays and counts.
    """
    kept: list[str] = []
    for unit in units:
        if TOTALS_MAP.match(unit):
            kept.pop()  # its anonymous struct
        elif not unit.startswith(NO_TOTALS):
            kept.append(LAYOUT.sub("", TOTALS.sub("", unit)))
    return kept


def constants(text: str) -> dict[str, str]:
    """Each constant of an enum and its value. An expression stands for itself."""
    made, base, above = {}, "0", 0
    for part in filter(None, (part.strip() for part in text.split(" , "))):
        name, _, value = part.rstrip(" ,").partition(" = ")
        base, above = (value, 0) if value else (base, above)
        made[name] = f"{name} = {int(base, 0) + above if NUMBER.match(base) else f'{base} + {above}'}"
        above += 1
    return made


def without_members(unit: str, members: set[str]) -> str:
    """A type without the structs in its unions that no code selects: those of other controllers."""
    return UNION.sub(lambda union: MEMBER.sub(lambda member: member[0] if member[1] in members else "", union[0]), unit)


def foreign(root: Path) -> set[str]:
    """Included headers that are not ours."""
    files = [*(root / "bpf").glob(f"*{OBJECT}"), *(root / "include").rglob("*.h")]
    named = {name for file in files for name in INCLUDED.findall(file.read_text())}
    return {name for name in named if not (root / "include" / name).exists()}


def output(command: list[str]) -> str:
    try:
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout
    except FileNotFoundError as error:
        raise LabError(f"{command[0]}: not installed; `make deps` installs it") from error
    except subprocess.CalledProcessError as error:
        raise LabError(f"{' '.join(command)}: {error.stderr.strip()}") from error


def digests_of(root: Path) -> dict[str, str]:
    """Name of a program → its digest."""
    found = {}
    with tempfile.TemporaryDirectory() as directory:
        for name in foreign(root):
            empty = Path(directory, name)
            empty.parent.mkdir(parents=True, exist_ok=True)
            empty.touch()
        for source in sorted((root / "bpf").glob(f"*{OBJECT}")):
            command = ["gcc", *OPTIONS, "-I", str(root / "include"), "-idirafter", directory, str(source)]
            lines = "\n".join(sorted(used(decisive(list(declarations(output(command)))))))
            found[source.name.removesuffix(OBJECT)] = hashlib.sha256(lines.encode()).hexdigest()[:DIGITS]
    return found


@functools.cache
def digests() -> dict[str, str]:
    """The digests of the programs of today."""
    return digests_of(REPOSITORY)
