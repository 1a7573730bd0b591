# SPDX-License-Identifier: GPL-2.0-only
"""Fixtures of the native lab, and the table of what it measured at the end of a test session."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from . import demo, native

MEASURED = pytest.StashKey[list[str]]()


@pytest.fixture(scope="session", autouse=True)
def sigterm_is_ctrl_c() -> Iterator[None]:
    """So that a terminated test session removes its namespaces."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    yield
    signal.signal(signal.SIGTERM, before)


@pytest.fixture(scope="session", autouse=True)
def lab_possible() -> None:
    try:
        native.require()
    except native.LabError as error:
        pytest.fail(str(error))


@pytest.fixture(scope="session")
def measured(pytestconfig: pytest.Config) -> list[str]:
    """Lines put here are printed at the end of the session, whether the tests passed or not."""
    return pytestconfig.stash.setdefault(MEASURED, [])


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if lines := config.stash.get(MEASURED, []):
        terminalreporter.section("measured by the native lab")
        for line in lines:
            terminalreporter.write_line(line)


def traces(mark: bytes) -> set[str]:
    """Processes with this mark in their environment, and namespaces that belong to one of them or to nobody."""
    found, marked = set(), {0}
    for directory in Path("/proc").glob("[0-9]*"):
        try:
            if mark in (directory / "environ").read_bytes():
                marked.add(int(directory.name))
                found.add(f"process {directory.name}: {(directory / 'cmdline').read_text()}")
        except OSError:
            continue  # it ended meanwhile
    return found | {name for name in native.namespaces() if native.owner_of(name) in marked}


@pytest.fixture
def nothing_left(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Fails a test that leaves a namespace of the lab, or a process that it started, its children's included."""
    mark = f"CCBPF_LAB_TEST={os.getpid()}"
    monkeypatch.setenv(*mark.split("="))
    before = traces(mark.encode())
    yield
    assert not traces(mark.encode()) - before


@pytest.fixture(scope="session")
def tcp_lp(registry_lock: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """tcp_lp as it was built, enabled for the session under a pin root of its own; its name."""
    if demo.CONTROLLER in demo.available():
        pytest.fail(
            f"{demo.CONTROLLER} is registered on this kernel already, so the one that was built cannot be tested: "
            f"`build/ccbpf disable {demo.CONTROLLER}` first"
        )
    root = f"/sys/fs/bpf/ccbpf-lab.{os.getpid()}"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CCBPF_PIN_ROOT", root)
        done = demo.ccbpf("enable", demo.CONTROLLER)
        assert done.returncode == 0, demo.words(done)
    yield demo.CONTROLLER
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CCBPF_PIN_ROOT", root)
        done = demo.ccbpf("disable", demo.CONTROLLER)
        assert done.returncode == 0, demo.words(done)
        demo.ccbpf("clean")
