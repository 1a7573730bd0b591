# SPDX-License-Identifier: GPL-2.0-only
"""The tests of nf_red are for themselves: they register no controller, unless they ask for `registry_lock`."""

from __future__ import annotations

import pytest

from tests.functional.conftest import Cli


@pytest.fixture
def ccbpf(hooks: Cli) -> Cli:
    return hooks
