# SPDX-License-Identifier: GPL-2.0-only
"""The cgroup file system, for tests that make cgroups of their own."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from pathlib import Path

from tests.functional import kernel

MOUNT = Path(next(line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines() if " - cgroup2 " in line))


def remove_cgroup(top: Path) -> None:
    """With those below it, as soon as no process is in them."""

    def removed(path: Path) -> bool:
        with suppress(OSError):
            path.rmdir()
        return not path.exists()

    below = sorted((path for path in top.rglob("*") if path.is_dir()), key=lambda path: -len(path.parts))
    for path in (*below, top):
        kernel.eventually(partial(removed, path), 5, f"{path} is empty")


def cgroups() -> set[Path]:
    """Those of runs."""
    return set(MOUNT.rglob("ccbpf-run-*"))
