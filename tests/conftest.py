# SPDX-License-Identifier: GPL-2.0-only
"""Fixtures that all tests share."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from . import registry


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """CCBPF_TEST_COUNTS=FILE gets `passed failed skipped` in one line. Errors count as failed; so does a run without tests,
    or one that was interrupted."""
    file, reporter = os.environ.get("CCBPF_TEST_COUNTS"), session.config.pluginmanager.get_plugin("terminalreporter")
    if not file or not reporter:
        return
    passed, failed, skipped = (
        sum(len(reporter.stats.get(name, [])) for name in names)
        for names in (("passed", "xpassed"), ("failed", "error"), ("skipped", "xfailed"))
    )
    if exitstatus not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
        failed += 1
    Path(file).write_text(f"{passed} {failed} {skipped}\n")


@pytest.fixture(scope="session")
def registry_lock() -> Iterator[Path]:
    """Held by a session that registers controllers."""
    with registry.held() as path:
        yield path
