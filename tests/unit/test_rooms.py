# SPDX-License-Identifier: GPL-2.0-only
"""The rooms of the source and the arrows between them, read from the #include lines and the tests' imports.

A file includes only its own room and those that its room may know:

    util <- out <- sys <- cc, aqm, gateway, rules <- cmd <- main.c   in loader/; they do not know each other, but rules gateway
    cc <- top <- cmd;  cc, rules <- renice <- cmd;  cc, aqm, rules <- metrics <- cmd;  cc, rules <- config <- cmd
    law <- kern <- bpf/                                         on the kernel's side
    ccbpf                                                       the ABI of the maps, known to all

So does a module below tests/ import:

    functional/kernel <- functional <- functional/{cli,flow,aqm,gateway,rules}   which do not know each other,
                                                       but gateway rules
    guest <- engine <- measures <- rows <- report <- lab <- lab/tests   in lab/; `lab`: the modules of tests/lab itself
    tests                                                               the modules of tests/ itself, known to all
"""

import ast
import graphlib
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LOADER = ROOT / "loader"
INCLUDE = ROOT / "include"
LINES_MOST = 400  # of a file
FUNCTION_MOST = {"loader": 50, "bpf": 60, "include": 60}  # lines: what a screen shows

KNOWS = {
    "util": set(),
    "out": {"util"},
    "sys": {"util", "out", "ccbpf"},
    "cc": {"util", "out", "sys", "ccbpf"},
    "aqm": {"util", "out", "sys", "ccbpf"},
    "gateway": {"util", "out", "sys", "ccbpf"},
    "rules": {"util", "out", "sys", "ccbpf", "gateway"},
    "renice": {"util", "out", "sys", "ccbpf", "cc", "rules"},
    "config": {"util", "out", "sys", "ccbpf", "cc", "rules"},
    "metrics": {"util", "out", "sys", "ccbpf", "cc", "aqm", "rules"},
    "top": {"util", "out", "sys", "ccbpf", "cc"},
    "cmd": {"util", "out", "sys", "ccbpf", "cc", "aqm", "gateway", "rules", "renice", "config", "metrics", "top"},
    "main": {"util", "out", "sys", "ccbpf", "cc", "aqm", "gateway", "rules", "renice", "config", "metrics", "top", "cmd"},
    "bpf": {"kern", "law", "ccbpf"},
    "kern": {"law", "ccbpf", "vmlinux"},
    "law": {"ccbpf"},
    "ccbpf": {"vmlinux"},
}
LAW_KNOWS = {"ccbpf/types.h"}  # of the ABI: a law knows numbers, and no record of a map

LAB = {"lab.guest", "lab.engine", "lab.measures", "lab.rows", "lab.report", "lab"}
FUNCTIONAL = {"functional.kernel", "functional", "unit"}
IMPORTS = {
    "tests": set(),
    "unit": set(),
    "functional.kernel": {"unit"},
    "functional": {"functional.kernel", "unit"},
    "functional.cli": FUNCTIONAL,
    "functional.flow": FUNCTIONAL,
    "functional.aqm": FUNCTIONAL,
    "functional.gateway": {*FUNCTIONAL, "functional.rules", "lab.engine"},
    "functional.rules": {*FUNCTIONAL, "lab.engine"},  # whose path has a delay
    "packaging": set(),
    "fuzz": set(),
    "hard": {*FUNCTIONAL, "functional.flow", "functional.rules", "packaging", "fuzz"},
    "hard.programs": {*FUNCTIONAL, "functional.rules"},
    "soak": {*FUNCTIONAL, "hard"},
    "cluster": {*FUNCTIONAL, "functional.rules", "hard"},
    "lab.guest": set(),
    "lab.engine": {"lab.guest"},
    "lab.measures": {"lab.engine"},
    "lab.rows": {"lab.guest", "lab.engine", "lab.measures", "unit"},
    "lab.report": {"lab.guest", "lab.engine", "lab.measures", "lab.rows"},
    "lab": LAB,
    "lab.tests": LAB,
    "sim": LAB,
    "kernels": LAB,
    "bench": LAB,
}

TESTS = ROOT / "tests"
MODULES = {".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path for path in TESTS.rglob("*.py")}
SOURCES = sorted(path for room in (LOADER, ROOT / "bpf", INCLUDE) for path in [*room.rglob("*.[ch]"), *room.rglob("*.cc")])
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


def room_of_module(name: str) -> str:
    """tests.lab.rows.judge: lab.rows; tests.lab.demo: lab; tests.registry: tests."""
    package = name if MODULES[name].name == "__init__.py" else name.rpartition(".")[0]
    return package.removeprefix("tests.")


def imports(name: str) -> Iterator[str]:
    """The modules below tests/ that this one imports, wherever in it; the package if it imports something else of one."""
    path = MODULES[name]
    package = (name if path.name == "__init__.py" else name.rpartition(".")[0]).split(".")
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names = [(alias.name, alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = [*package[: len(package) + 1 - node.level], *([node.module] if node.module else [])]
            module = ".".join(base) if node.level else str(node.module)
            names = [(f"{module}.{alias.name}", module) for alias in node.names]
        else:
            continue
        for whole, module in names:
            found = whole if whole in MODULES else module
            if found in MODULES:
                yield found


@pytest.mark.parametrize("name", sorted(MODULES))
def test_a_module_imports_only_the_rooms_that_its_room_knows(name: str) -> None:
    room = room_of_module(name)
    assert room in IMPORTS, "a module without a room"
    assert not [other for other in imports(name) if room_of_module(other) not in {room, "tests", *IMPORTS[room]}]


@pytest.mark.parametrize("knows", [KNOWS, IMPORTS], ids=["includes", "imports"])
def test_the_rooms_have_no_circle(knows: dict[str, set[str]]) -> None:
    graph = {room: others - {room} for room, others in knows.items()}
    order = list(graphlib.TopologicalSorter(graph).static_order())  # CycleError names the circle
    assert set(order) - {"vmlinux"} == set(knows)


def test_the_headers_have_no_circle() -> None:
    graph = {name: [other for other in includes(path) if other in HEADERS] for name, path in HEADERS.items()}
    assert set(graphlib.TopologicalSorter(graph).static_order()) >= set(HEADERS)  # CycleError names the circle


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_file_is_not_long(path: Path) -> None:
    assert len(path.read_text().splitlines()) <= LINES_MOST


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_function_needs_no_scrolling(path: Path) -> None:
    # Kernel style: a function's braces, and only they, stand alone in column 0.
    bodies = re.findall(r"^\{\n(.*?)^\}$", path.read_text(), re.M | re.S)
    most = FUNCTION_MOST[path.relative_to(ROOT).parts[0]]
    assert all(len(body.splitlines()) + 2 <= most for body in bodies)
