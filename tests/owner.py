# SPDX-License-Identifier: GPL-2.0-only
"""Whose something is: a name with a process's id and its start in it can be removed once that process is gone."""

from __future__ import annotations

from pathlib import Path


def start_time(pid: int) -> str | None:
    """When the process started, in ticks since boot: with it a pid is unique. None: no such process."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    return stat.rpartition(")")[2].split()[19]


def lives(pid: int, start: str) -> bool:
    """Whether the process with this id is still the one that started then."""
    return start_time(pid) == start
