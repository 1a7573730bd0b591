# SPDX-License-Identifier: GPL-2.0-only
"""Fixtures that all tests share."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="session")
def registry_lock() -> Iterator[Path]:
    """Held by a session that registers controllers: their names are one space per kernel, so only one may at a time."""
    path = REPOSITORY / "build/registry.lock"
    path.parent.mkdir(exist_ok=True)
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield path
