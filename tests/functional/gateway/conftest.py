# SPDX-License-Identifier: GPL-2.0-only
"""A gateway registers no controller: its tests are for themselves, unless they ask for `registry_lock`."""

from __future__ import annotations

import pytest

from tests.functional.conftest import Cli


@pytest.fixture
def ccbpf(hooks: Cli) -> Cli:
    return hooks
