# SPDX-License-Identifier: GPL-2.0-only
"""What all tests share: the workers that they run in, what is counted and printed at the end, the registry's lock."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from . import registry

if TYPE_CHECKING:
    from xdist.workermanage import WorkerController

# A shell starts what it runs in the background with these ignored, nohup the last one, and every child would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGQUIT, signal.SIG_DFL)
signal.signal(signal.SIGHUP, signal.SIG_DFL)

MEASURED = pytest.StashKey[list[str]]()

GUESTS = Path(__file__).parent / "kernels", Path(__file__).parent / "lab"


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """With `-n`: one worker has the tests that register controllers, another one those of the lab, whose guests take turns at
    one core, and of the kernels."""
    for item in items:
        if item.get_closest_marker("xdist_group"):
            continue
        if "registry_lock" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.xdist_group("registry"))
        elif any(item.path.is_relative_to(room) for room in GUESTS):
            item.add_marker(pytest.mark.xdist_group("guests"))


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Failures(config))
        config.pluginmanager.register(CubicForAll())


class CubicForAll:
    """The kernel lets a network namespace take as its default only what is in this list. cubic is not, where the host's default is
    another one. It is added for the time of the tests."""

    ALLOWED = Path("/proc/sys/net/ipv4/tcp_allowed_congestion_control")

    def __init__(self) -> None:
        self._added = False

    def pytest_sessionstart(self) -> None:
        with suppress(OSError):  # without privilege no test needs it
            if "cubic" not in self._names():
                self.ALLOWED.write_text(" ".join([*self._names(), "cubic"]))
                self._added = True

    def pytest_sessionfinish(self) -> None:
        if self._added:
            self.ALLOWED.write_text(" ".join(name for name in self._names() if name != "cubic"))

    def _names(self) -> list[str]:
        return self.ALLOWED.read_text().split()


class Failures:
    """A test that failed is named at once: the summary may be half an hour away."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        reporter = self._config.pluginmanager.get_plugin("terminalreporter")
        if report.failed and reporter:
            crash = getattr(report.longrepr, "reprcrash", None)
            words = str(crash.message if crash else report.longrepr).splitlines()
            reporter.write_line(f"\nFAILED {report.nodeid}, {report.when}: {words[0] if words else ''}")


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """CCBPF_TEST_COUNTS=FILE gets `passed failed skipped` in one line, with what a session before has left there. Errors
    count as failed; so does a run without tests, or one that was interrupted."""
    file, reporter = os.environ.get("CCBPF_TEST_COUNTS"), session.config.pluginmanager.get_plugin("terminalreporter")
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["measured"] = session.config.stash.get(MEASURED, [])
    elif file and reporter:
        add_counts(Path(file), reporter, exitstatus)


def add_counts(file: Path, reporter: pytest.TerminalReporter, exitstatus: int) -> None:
    counts = [
        sum(len(reporter.stats.get(name, [])) for name in names)
        for names in (("passed", "xpassed"), ("failed", "error"), ("skipped", "xfailed"))
    ]
    counts[1] += exitstatus not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED)
    before = [int(count) for count in file.read_text().split()] if file.exists() else [0, 0, 0]
    file.write_text(" ".join(str(a + b) for a, b in zip(before, counts, strict=True)) + "\n")


@pytest.fixture(scope="session")
def measured(pytestconfig: pytest.Config) -> list[str]:
    """Lines put here are printed at the end of the session, whether the tests passed or not."""
    return pytestconfig.stash.setdefault(MEASURED, [])


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: WorkerController) -> None:
    """What a worker has measured is printed by the session that started it."""
    lines = getattr(node, "workeroutput", {}).get("measured", [])
    node.config.stash.setdefault(MEASURED, []).extend(lines)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if lines := config.stash.get(MEASURED, []):
        terminalreporter.section("measured by the lab")
        for line in lines:
            terminalreporter.write_line(line)


@pytest.fixture(scope="session")
def registry_lock() -> Iterator[Path]:
    """Held by a session that registers controllers."""
    with registry.held() as path:
        yield path
