# SPDX-License-Identifier: GPL-2.0-only
"""The targets of tests/fuzz with the input that libFuzzer finds, two at a time: 60 s of each parser of what an
administrator writes, 20 s of each other one. `make fuzz` does it for longer."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from tests.fuzz import targets
from tests.hard.conftest import SEED

AT_ONCE = 2
WRITTEN = ("config", "prefix", "rule")
WRITTEN_S, OTHER_S = 60.0, 20.0

pytestmark = pytest.mark.xdist_group("fuzz")  # in one worker, or a second one would run them all once more

Runs = dict[str, "Future[str]"]


@pytest.fixture(scope="module")
def runs() -> Iterator[Runs]:
    """All targets, running."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        yield {name: pool.submit(targets.run, name, WRITTEN_S if name in WRITTEN else OTHER_S, SEED) for name in targets.NAMES}


@pytest.mark.parametrize("name", targets.NAMES)
def test_nothing_is_found(runs: Runs, name: str) -> None:
    found = runs[name].result()
    assert not found, f"SEED={SEED}\n{found}"


@pytest.mark.parametrize("name", targets.NAMES)
def test_there_are_inputs_to_begin_with(name: str) -> None:
    assert len(list((targets.HERE / "corpus" / name).iterdir())) >= 4
