# SPDX-License-Identifier: GPL-2.0-only
"""Fixtures of the tests of `ccbpf run` and `ccbpf assign`."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.functional.conftest import Cli
from tests.functional.rules.background import BACKGROUND, Sinks, cgroups


@pytest.fixture(scope="module")
def sinks() -> Iterator[Sinks]:
    sinks = Sinks()
    yield sinks
    sinks.close()


@pytest.fixture
def run(ccbpf: Cli) -> Iterator[Cli]:
    """With the default background controller enabled; at the end no cgroup of ours may be left."""
    ccbpf("enable", BACKGROUND)
    yield ccbpf
    ccbpf("clean", "--all")
    assert not cgroups() and not ccbpf.root.exists()
