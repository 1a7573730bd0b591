# SPDX-License-Identifier: GPL-2.0-only
"""Fixtures of the tests of `ccbpf run` and `ccbpf assign`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cgroups import cgroups_of_runs
from tests.functional.conftest import Cli
from tests.functional.rules.background import BACKGROUND, Sinks
from tests.functional.rules.downloads import Server, bottleneck, serving
from tests.functional.rules.others import compiled
from tests.lab.engine import native


@pytest.fixture(scope="module")
def sinks() -> Iterator[Sinks]:
    sinks = Sinks()
    yield sinks
    sinks.close()


@pytest.fixture(autouse=True)
def nothing_enabled(request: pytest.FixtureRequest, module_ccbpf: Cli) -> None:
    """A test without `run` begins so: what is enabled for the others of its module would be in its way."""
    if "run" not in request.fixturenames and module_ccbpf.root.exists():
        module_ccbpf("clean", "--all")


@pytest.fixture
def run(request: pytest.FixtureRequest, module_ccbpf: Cli) -> Iterator[Cli]:
    """With the default background controller enabled, or those of the module's ENABLED, once for all tests that leave
    nothing else: the verifier takes a second for `le`. At the end no cgroup of ours may be left, and no pin of another thing."""
    cli, names = module_ccbpf, getattr(request.module, "ENABLED", (BACKGROUND,))
    if {name for name, shown in cli.status().items() if shown["state"] == "enabled"} != set(names):
        cli("clean", "--all")
        cli("enable", *names)
    before = cli.names()
    yield cli
    cli.run("assign", "remove", "--all")
    if cli.names() != before:
        cli("clean", "--all")
        assert not cli.root.exists()
    assert not cgroups_of_runs()


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


@pytest.fixture(scope="module")
def paths(path: native.Path) -> Iterator[dict[str, native.Path]]:
    """One for IPv4, one for IPv6, so that two downloads do not meet: by the address of the sender."""
    with bottleneck() as second:
        yield {"10.0.1.2": path, "fd00:1::2": second}


@pytest.fixture(scope="module")
def other_program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A program of somebody else: others.py."""
    return compiled(tmp_path_factory.mktemp("other"))
