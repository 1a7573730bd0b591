# SPDX-License-Identifier: GPL-2.0-only
"""Fixtures that all tests share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from . import registry


@pytest.fixture(scope="session")
def registry_lock() -> Iterator[Path]:
    """Held by a session that registers controllers."""
    with registry.held() as path:
        yield path
