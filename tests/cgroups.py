# SPDX-License-Identifier: GPL-2.0-only
"""The cgroup file system: where it is mounted, the cgroups of runs, and the end of cgroups that tests made."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

MOUNTS = [line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines() if " - cgroup2 " in line]
MOUNT = Path(MOUNTS[0] if MOUNTS else "/sys/fs/cgroup/unified")  # without one the demo still says what is missing
EMPTY_S = 5.0


def cgroups_of_runs() -> set[Path]:
    """Those that `ccbpf run` has made, also the prepared ones. Other cgroups may go meanwhile, at which Path.rglob() would fail."""
    return {Path(top, name) for top, names, _ in os.walk(MOUNT) for name in names if name.startswith("ccbpf-run-")}


def populated(cgroups: Iterable[Path]) -> list[Path]:
    """Those with a process. One that goes meanwhile has none."""
    found = []
    for path in cgroups:
        with suppress(OSError):
            if "populated 1" in (path / "cgroup.events").read_text():
                found.append(path)
    return found


@contextmanager
def cgroup(name: str) -> Iterator[Path]:
    """A new one, which is removed at the end."""
    path = MOUNT / name
    path.mkdir()
    try:
        yield path
    finally:
        remove_cgroup(path)


@contextmanager
def this_process_in(path: Path) -> Iterator[None]:
    """The sockets that it opens meanwhile belong to this cgroup for as long as they live."""
    (before,) = (line[4:] for line in Path("/proc/self/cgroup").read_text().splitlines() if line.startswith("0::/"))
    (path / "cgroup.procs").write_text("0")
    try:
        yield
    finally:
        (MOUNT / before / "cgroup.procs").write_text("0")


def remove_cgroup(top: Path) -> None:
    """With those below it, as soon as no process is in them."""
    below = sorted((path for path in top.rglob("*") if path.is_dir()), key=lambda path: -len(path.parts))
    end = time.monotonic() + EMPTY_S
    for path in (*below, top):
        while path.exists():
            with suppress(OSError):
                path.rmdir()
            assert not path.exists() or time.monotonic() < end, f"{path} is not empty"
            time.sleep(0.01)
