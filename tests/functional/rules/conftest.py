# SPDX-License-Identifier: GPL-2.0-only
"""Fixtures of the tests of `ccbpf run` and `ccbpf assign`."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.cgroups import cgroups_of_runs
from tests.functional.conftest import Cli
from tests.functional.rules.background import BACKGROUND, Sinks
from tests.functional.rules.downloads import Server, bottleneck, serving
from tests.lab.engine import native


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
    assert not cgroups_of_runs() and not ccbpf.root.exists()


@pytest.fixture(params=["127.0.0.1", "::1"], ids=["IPv4", "IPv6"])
def either(request: pytest.FixtureRequest) -> Iterator[Server]:
    with serving(request.param) as server:
        yield server


@pytest.fixture
def server() -> Iterator[Server]:
    with serving("127.0.0.1") as server:
        yield server


@pytest.fixture(scope="module")
def path() -> Iterator[native.Path]:
    with bottleneck() as path:
        yield path
