# SPDX-License-Identifier: GPL-2.0-only
"""Somebody else's program at a cgroup that allows no other one there: what is in the way is said, and nothing is left behind."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.cgroups import MOUNT, cgroups_of_runs
from tests.functional import kernel
from tests.functional.conftest import Cli
from tests.functional.rules.background import BACKGROUND
from tests.functional.rules.others import ALONE, attach

ASSIGN, RUN = ("assign", "--remote", "192.0.2.0/24"), ("run", "true")
FAILED, RUN_FAILED = 1, 125  # exit codes


@contextmanager
def attached(program: Path, how: str) -> Iterator[int]:
    """To the cgroup at the top; yields the id of the program."""
    pin = Path("/sys/fs/bpf") / f"ccbpf-test-{os.getpid()}-in-the-way"
    with ExitStack() as stack:
        attach(stack, program, pin, MOUNT, how)
        yield json.loads(kernel.run("bpftool", "-j", "prog", "show", "pinned", pin).stdout)["id"]


@pytest.mark.parametrize(
    ("how", "words", "code"),
    [
        (ALONE, ASSIGN, FAILED),
        ("override", ASSIGN, FAILED),
        (ALONE, RUN, RUN_FAILED),
        (ALONE, ("run", "-d", "true"), RUN_FAILED),
        (ALONE, ("assign", "-d", "--remote", "192.0.2.0/24"), FAILED),
    ],
)
def test_what_is_in_the_way(ccbpf: Cli, other_program: Path, how: str, words: tuple[str, ...], code: int) -> None:
    with attached(other_program, how) as program:
        error = ccbpf("-j", *words, code=code).error
        assert error["what"] == words[0]
        assert error["on"].startswith("the root cgroup" if words[0] == "assign" else "the cgroup /")
        assert f"program {program} (other)" in error["why"] and "multi" in error["remedy"]
        assert "bpftool cgroup tree" in error["remedy"]
        assert not ccbpf.root.exists() and not cgroups_of_runs() and BACKGROUND not in kernel.available()


def test_a_run_below_one_that_may_be_overridden(ccbpf: Cli, other_program: Path) -> None:
    with attached(other_program, "override"):
        ccbpf(*RUN)
    assert not cgroups_of_runs()
