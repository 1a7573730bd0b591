# SPDX-License-Identifier: GPL-2.0-only
"""Fixtures of the lab's tests."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import registry

from .. import demo
from ..engine import native
from ..rows import rows
from .row_fixture import Load

PIN_ROOT = registry.session_pins("lab")


@pytest.fixture(scope="session", autouse=True)
def sigterm_is_ctrl_c() -> Iterator[None]:
    """So that a terminated test session removes its namespaces."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    yield
    signal.signal(signal.SIGTERM, before)


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


@pytest.fixture
def load(tmp_path: Path) -> Load:
    """Loads the rows of a text."""

    def of(text: str, set_: str = "full", kernel: str = "6.12") -> list[rows.Row]:
        path = tmp_path / "mine.toml"
        path.write_text(text)
        return rows.load(path, kernel, set_)

    return of


@pytest.fixture
def pin_root(registry_lock: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A pin directory of its own for ccbpf and whoever starts it; tcp_lp is not registered, before and afterwards."""
    registry.require_free()
    monkeypatch.setenv("CCBPF_PIN_ROOT", str(PIN_ROOT))
    yield PIN_ROOT
    shutil.rmtree(PIN_ROOT, ignore_errors=True)


@pytest.fixture(scope="module")
def tcp_lp(registry_lock: Path) -> Iterator[str]:
    """tcp_lp as it was built, enabled for the module under a pin directory of its own; its name."""
    registry.require_free()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CCBPF_PIN_ROOT", str(PIN_ROOT))
        done = demo.ccbpf("enable", "tcp_lp")
        assert done.returncode == 0, demo.words(done)
        yield "tcp_lp"
        done = demo.ccbpf("disable", "tcp_lp")
        assert done.returncode == 0, demo.words(done)
