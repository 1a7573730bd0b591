# SPDX-License-Identifier: GPL-2.0-only
"""The decisions of the soak and of the fuzzers that need no kernel."""

from __future__ import annotations

import argparse
import random

import pytest

from tests.duration import duration_s
from tests.hard import fuzz
from tests.hard.killing import instants
from tests.soak.__main__ import clock
from tests.soak.health import FLAT_MB, WARNING, growth_mb


@pytest.mark.parametrize(
    ("text", "seconds"), [("30m", 1800), ("24h", 86400), ("90s", 90), ("2d", 172800), ("3", 180), ("1.5h", 5400)]
)
def test_durations(text: str, seconds: float) -> None:
    assert duration_s(text) == seconds


@pytest.mark.parametrize("text", ["", "0", "0h", "-3m", "3 m", "m", "30x", "1h30m", "inf"])
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="give 90s, 30m, 24h or 2d"):
        duration_s(text)


def test_clock() -> None:
    assert [clock(s) for s in (5, 65, 3600, 86399)] == ["0:05", "1:05", "1:00:00", "23:59:59"]


def test_growth_is_seen_through_noise() -> None:
    """A leak of 1 MB a minute in half an hour, one of 2 MB an hour in a day; a single outlier is not a leak."""
    dice = random.Random(1)
    noise = [300 + dice.uniform(-4, 4) for _ in range(1440)]
    assert abs(growth_mb(noise)) < 1
    assert growth_mb([noise[m] + m for m in range(30)]) > FLAT_MB
    assert growth_mb([noise[m] + m / 90 for m in range(1440)]) < FLAT_MB < growth_mb([noise[m] + m / 30 for m in range(1440)])
    assert growth_mb([300, 300, 900, 300, 300, 300]) == 0
    assert (growth_mb([]), growth_mb([5]), growth_mb([5, 7])) == (0, 0, 2)


@pytest.mark.parametrize("line", ["WARNING: CPU: 0 PID: 1 at kernel/bpf/x.c:1", "BUG: unable to handle page fault",
                                  "INFO: task ccbpf:1 blocked for more than 120 seconds", "rcu: INFO: rcu_tasks detected stalls"])  # fmt: skip
def test_warnings_of_the_kernel(line: str) -> None:
    assert WARNING.search(line)


def test_command_lines_are_repeatable_and_have_no_nul() -> None:
    lines = [[fuzz.command_line(random.Random(7)) for _ in range(3)] for _ in range(2)]
    assert lines[0] == lines[1]
    dice = random.Random(8)
    assert all("\0" not in word for _ in range(2000) for word in fuzz.command_line(dice))


@pytest.mark.parametrize("calls", [34, 200, 1698])
def test_instants_are_drawn_from_the_whole_life(calls: int) -> None:
    """Each call as often as any other, or once less; and not in order."""
    found = instants(calls, 200, random.Random(2))
    times = [found.count(at) for at in range(1, calls + 1)]
    assert sum(times) == len(found) == 200 and max(times) - min(times) <= 1
    assert found != sorted(found) and min(found) < calls / 20 + 1 and max(found) > calls * 0.95
