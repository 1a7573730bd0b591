# SPDX-License-Identifier: GPL-2.0-only
"""The rooms of the source and the arrows between them, read from the #include lines.

A file includes only its own room and those that its room may know:

    util <- out <- sys <- cc, aqm <- cmd <- main.c      in loader/; cc and aqm do not know each other
    law <- kern <- bpf/                                  on the kernel's side
    ccbpf                                                the ABI of the maps, known to all
"""

import graphlib
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LOADER = ROOT / "loader"
INCLUDE = ROOT / "include"
LINES_MOST = 400  # of a file of the loader
FUNCTION_MOST = 50  # lines: what a screen shows

KNOWS = {
    "util": set(),
    "out": {"util"},
    "sys": {"util", "out", "ccbpf"},
    "cc": {"util", "out", "sys", "ccbpf"},
    "aqm": {"util", "out", "sys", "ccbpf"},
    "cmd": {"util", "out", "sys", "ccbpf", "cc", "aqm"},
    "main": {"util", "out", "sys", "ccbpf", "cc", "aqm", "cmd"},
    "bpf": {"kern", "law", "ccbpf"},
    "kern": {"law", "ccbpf", "vmlinux"},
    "law": {"ccbpf"},
    "ccbpf": {"vmlinux"},
}
LAW_KNOWS = {"ccbpf/types.h"}  # of the ABI: a law knows numbers, and no record of a map

SOURCES = sorted(path for room in (LOADER, ROOT / "bpf", INCLUDE) for path in room.rglob("*.[ch]"))
HEADERS = {str(path.relative_to(base)): path for base in (LOADER, INCLUDE) for path in base.rglob("*.h")}


def room_of_header(name: str) -> str:
    """Of a name between quotes. commands.h is the table of cmd/."""
    return {"commands.h": "cmd", "vmlinux.h": "vmlinux"}.get(name) or name.split("/")[0]


def room_of(path: Path) -> str:
    if path.is_relative_to(LOADER):
        name = str(path.relative_to(LOADER))
        return "main" if name == "main.c" else room_of_header(name)
    return path.relative_to(INCLUDE if path.is_relative_to(INCLUDE) else ROOT).parts[0]


def includes(path: Path) -> list[str]:
    return re.findall(r'^\s*#\s*include\s*"([^"]+)"', path.read_text(), re.M)


def wrong(path: Path) -> Iterator[str]:
    room = room_of(path)
    for name in includes(path):
        other = room_of_header(name)
        if other != "vmlinux" and name not in HEADERS:
            yield f'"{name}" is no header of a room'
        elif other != room and other not in KNOWS[room]:
            yield f'{room}/ must not know "{name}"'
        elif room == "law" and other == "ccbpf" and name not in LAW_KNOWS:
            yield f'a law must not know "{name}"'


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_file_includes_only_the_rooms_that_its_room_knows(path: Path) -> None:
    assert room_of(path) in KNOWS, "a file without a room"
    assert not list(wrong(path))


def test_the_rooms_have_no_circle() -> None:
    order = list(graphlib.TopologicalSorter(KNOWS).static_order())
    assert order.index("util") < order.index("out") < order.index("sys") < order.index("cmd")


def test_the_headers_have_no_circle() -> None:
    graph = {name: [other for other in includes(path) if other in HEADERS] for name, path in HEADERS.items()}
    assert set(graphlib.TopologicalSorter(graph).static_order()) >= set(HEADERS)  # CycleError names the circle


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_file_is_not_long(path: Path) -> None:
    assert len(path.read_text().splitlines()) <= LINES_MOST


@pytest.mark.parametrize("path", sorted(LOADER.rglob("*.c")), ids=lambda path: str(path.relative_to(LOADER)))
def test_a_function_of_the_loader_needs_no_scrolling(path: Path) -> None:
    # Kernel style: a function's braces, and only they, stand alone in column 0.
    bodies = re.findall(r"^\{\n(.*?)^\}$", path.read_text(), re.M | re.S)
    assert all(len(body.splitlines()) + 2 <= FUNCTION_MOST for body in bodies)
