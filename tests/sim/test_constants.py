# SPDX-License-Identifier: GPL-2.0-only
"""The sweep of the constants: what is tried, how it is built, and what is said of it."""

from __future__ import annotations

import argparse
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.lab.rows.builder import QUICK

from . import constants, simulator
from .constants import LAWS, Constant, constants_of, line, moved
from .simulator import hash_of
from .translate import REPOSITORY

LE, DOWNLOADS = LAWS


def bound(*draws: float | None, holds: bool = True, op: str = ">=") -> dict[str, Any]:
    return {"what": "the foreground keeps", "draws": list(draws), "holds": holds, "op": op}


def constant(name: str) -> Constant:
    return next(one for law in LAWS for one in constants_of(law) if one.name == name)


def test_the_constants_are_those_of_the_headers() -> None:
    assert (constant("LE_FELL").value, constant("LE_FELL").tried) == (8, (4, 16))
    assert (constant("LE_BEYOND").value, constant("RX_DEEP_FIRST").value) == (5, 8), "on the next line"
    assert (constant("quiet_rounds").value, constant("quiet_rounds").header) == (8, "ccbpf/params.h")
    names = [one.name for law in LAWS for one in constants_of(law)]
    assert len(names) == len(set(names))
    for law in LAWS:
        text = "".join((constants.INCLUDE / header).read_text() for header in law.headers)
        assert all(f"#define {name} " in text for name in law.fixed), "a name that is no more"
        assert set(law.tried) <= set(names)


def test_what_is_tried_is_another_value() -> None:
    for law in LAWS:
        for one in constants_of(law):
            assert len({one.value, *one.tried}) == 3 and min(one.tried) >= 1, one.name


def test_a_value_is_built_and_the_header_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constants, "MADE", tmp_path)
    one = constant("LE_FELL")
    before = (constants.INCLUDE / one.header).read_text()
    built = constants.build(one, 16)
    assert hash_of(built / "le.so") != hash_of(simulator.BUILD / "le.so")
    assert hash_of(built / "sim") == hash_of(simulator.BUILD / "sim"), "the rest is as it is"
    assert (constants.INCLUDE / one.header).read_text() == before
    changed = (tmp_path / "LE_FELL-16/include/law/le_state.h").read_text()
    assert changed == before.replace("#define LE_FELL 8", "#define LE_FELL 16") != before


@pytest.mark.parametrize(
    ("today", "then", "says"),
    [
        ((0.9, 0.92), (0.91, 0.91), False),  # within the draws of today
        ((0.9, 0.92), (0.98, 0.98), True),
        ((0.91, 0.91), (0.911, 0.911), False),  # by less than 1 %
        ((0.4, 0.4), (None, None), True),  # never
        ((None, None), (None, None), False),
        ((None, None), (0.4, 0.4), True),
    ],
)
def test_what_counts_as_a_change(today: tuple[float | None, ...], then: tuple[float | None, ...], says: bool) -> None:
    assert moved(bound(*today), bound(*then)) == says


def test_a_time_moves_by_more() -> None:
    assert moved(bound(7.8, op="<="), bound(8.8, op="<=")) and not moved(bound(7.8, op="<="), bound(8.4, op="<="))


def test_a_line_has_what_is_worse_and_what_is_better() -> None:
    today = {("a", "x"): bound(0.9), ("b", "x"): bound(1.0, op="<="), ("c", "x"): bound(0.5, holds=False), ("d", "x"): bound(0.7)}
    then = {("a", "x"): bound(0.8, holds=False), ("b", "x"): bound(None, op="<="), ("c", "x"): bound(0.9), ("d", "x"): bound(0.7)}
    assert line(constant("LE_FELL"), 16, today, then) == (
        "| `LE_FELL` | 8 | 16 | **`a` the foreground keeps: 0.9 → 0.8**; `b` the foreground keeps: 1 → never "
        "| (`c` the foreground keeps: 0.5 → 0.9) |"
    )


def test_a_constant_that_was_not_run_keeps_its_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    law = replace(LE, rows=((QUICK, "tiny-buffer"),))
    monkeypatch.setattr(constants, "LAWS", (law,))
    monkeypatch.setattr(constants, "DRAWS", 2)
    monkeypatch.setattr(constants, "PAGE", tmp_path / "CONSTANTS.md")
    monkeypatch.setattr(constants, "MADE", tmp_path)
    monkeypatch.setattr(simulator, "RUNS", tmp_path / "runs")
    kept, gone = "| `quiet_rounds` | 8 | 4 | as it was | – |", "| `quiet_rounds` | 7 | 3 | of another value | – |"
    constants.PAGE.write_text(f"{kept}\n{gone}\n")
    said: list[str] = []
    assert constants.main(argparse.Namespace(only="threshold", jobs=2), said.append) == 0
    text = constants.PAGE.read_text()
    assert kept in text and gone not in text
    assert "| `threshold` | 4000 | 2000 |" in text and "| `threshold` | 4000 | 8000 |" in text
    assert text.index("`threshold`") < text.index("`quiet_rounds`")
    assert said[0] == "le: as it is" and said[-1].startswith("1 of 1: | `threshold` | 4000 | 8000 |")


def test_the_command_names_a_constant_that_is_not_there() -> None:
    asked = [sys.executable, "-m", "tests.sim", "constants", "--only", "LE_NOTHING"]
    done = subprocess.run(asked, capture_output=True, text=True, cwd=REPOSITORY, check=False, timeout=60)
    assert done.returncode == 2
    assert "LE_NOTHING: no such constant; there are LE_AGAIN, " in done.stderr
