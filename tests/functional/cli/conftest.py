# SPDX-License-Identifier: GPL-2.0-only
"""Libraries that are preloaded into a command and change what the system answers it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.functional.conftest import preload

HERE = Path(__file__).parent


@pytest.fixture(scope="session")
def vanish(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return preload(tmp_path_factory.mktemp("preload"), HERE / "vanish.c")


@pytest.fixture(scope="session")
def slow_setns(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return preload(tmp_path_factory.mktemp("preload"), HERE / "slow_setns.c")
