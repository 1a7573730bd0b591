# SPDX-License-Identifier: GPL-2.0-only
"""The build: in a directory with an unusual name the lab's programs are the same bytes as anywhere, and a source may move."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[3]
NEEDED = ("Makefile", "bpf", "include", "loader", "tests", "vmlinux.h")
PROGRAM = "build/tests/traffic"  # static: a guest runs it, so a run is kept by its bytes
OBJECT = "build/loader/main.o"  # with all flags of the command


@pytest.mark.parametrize("name", ["with a space", "it's here", "a$b #c"])
def test_it_builds_in(tmp_path: Path, name: str) -> None:
    clone = tmp_path / name
    clone.mkdir()
    for part in NEEDED:
        (clone / part).symlink_to(REPOSITORY / part)
    done = subprocess.run(["make", "V=1", PROGRAM, OBJECT], cwd=clone, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert (clone / PROGRAM).read_bytes() == (REPOSITORY / PROGRAM).read_bytes()
    assert name.encode() not in (clone / OBJECT).read_bytes()


def test_a_source_that_has_moved(tmp_path: Path) -> None:
    """A build directory knows it by its old name: what was made of it is made anew."""
    target = f"{tmp_path}/tests/delayline"
    (tmp_path / "tests").mkdir()
    Path(f"{target}.d").write_text(f"{target}: tests/lab/old_place.c include/law/old_name.h\n")
    done = subprocess.run(
        ["make", "V=1", f"BUILD={tmp_path}", target], cwd=REPOSITORY, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert Path(target).exists() and "old_place" not in Path(f"{target}.d").read_text()
