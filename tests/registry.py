# SPDX-License-Identifier: GPL-2.0-only
"""The names of controllers are one space per kernel, so one session of tests or bench at a time may register any.

    with held():     waits for the session before, removes what a killed one left, and fails if somebody else has a name

The lock is a file outside the clone: two clones share the kernel. While a session holds it, the file
names that session. If the name is still there after the lock was taken, that session was killed, and the registrations are its
leftovers.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

from . import owner
from .cgroups import cgroups_of_runs

REPOSITORY = Path(__file__).resolve().parents[1]
COMMAND = REPOSITORY / "build/ccbpf"
LOCK = Path("/run/ccbpf-tests.lock")
BPFFS = Path("/sys/fs/bpf")
SESSION = "ccbpf-test-"
DEMO = "ccbpf-demo-"  # and its process: what a killed demo pinned can be told from what an operator enabled
HOOKS = "ccbpf-hooks-"  # and its process: of tests that register no controller, beside those that do
AVAILABLE = Path("/proc/sys/net/ipv4/tcp_available_congestion_control")
OURS = {path.name.partition(".")[0] for path in (REPOSITORY / "bpf").glob("*.bpf.c")}
OURS |= {"cc_empty"}  # the bench's
WAIT_S = 1800.0
CLEAN_S = 60.0
RELEASE_S = 60.0  # the kernel takes a name away after its last pin: at once, or much later under load


def registered() -> set[str]:
    """The names of ours that this kernel knows now, whoever registered them."""
    return OURS & set(AVAILABLE.read_text().split())


def lock(file: TextIO) -> None:
    """Takes the lock, and says what it waits for."""
    for second in range(int(WAIT_S)):
        with contextlib.suppress(BlockingIOError):
            return fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if second == 0:
            print(f"waiting for another session of tests: {LOCK.read_text().strip()}", file=sys.__stderr__, flush=True)
        time.sleep(1)
    raise RuntimeError(f"{LOCK} is held for {WAIT_S:.0f} s by another session: {LOCK.read_text().strip()}; end that first")


def sweep(killed: bool) -> None:
    """Removes the pins, cgroups and namespaces of sessions that are no more, and what a killed one registered without pins."""
    sweep_owned()
    for directory in BPFFS.glob(f"{SESSION}*"):
        remove_pins(directory)
    remove_cgroups()
    remove_namespaces()
    for name in registered() if killed else ():
        subprocess.run(["bpftool", "struct_ops", "unregister", "name", name], capture_output=True)


def remove_pins(directory: Path) -> None:
    """By `clean --all`, because only the pins of a run say which cgroup is its own; whatever that leaves is removed as well."""
    with contextlib.suppress(OSError, subprocess.TimeoutExpired):
        environment = {**os.environ, "CCBPF_PIN_ROOT": str(directory)}
        subprocess.run([COMMAND, "clean", "--all"], env=environment, capture_output=True, timeout=CLEAN_S)
    shutil.rmtree(directory, ignore_errors=True)


def remove_cgroups() -> None:
    """Those of runs whose pins and whose `ccbpf` are gone. Of one that has a process, or is prepared for a user, nothing."""
    for cgroup in cgroups_of_runs():
        pid = cgroup.name.rpartition("-")[2]
        if pid.isdigit() and not Path("/proc", pid).exists():
            with contextlib.suppress(OSError):
                cgroup.rmdir()


def remove_namespaces() -> None:
    """Those of processes that are gone: another worker of this session may have made some already."""
    for namespace in Path("/run/netns").glob("ccbpf-flow.*"):
        if not Path("/proc", namespace.name.split(".")[1]).exists():
            subprocess.run(["ip", "netns", "delete", namespace.name], capture_output=True)


def session_pins(name: object) -> Path:
    """Where a session that holds the lock pins: the next one removes what it left. No dot: bpffs takes no name with one."""
    return BPFFS / f"{SESSION}{os.getpid()}-{name}"


def demo_pins() -> Path:
    """Where the demo that is this process pins."""
    return BPFFS / f"{DEMO}{os.getpid()}-{owner.start_time(os.getpid())}"


def hook_pins(name: object) -> Path:
    """Where a test pins that registers no controller, and so needs no lock."""
    return BPFFS / f"{HOOKS}{os.getpid()}-{owner.start_time(os.getpid())}-{name}"


def sweep_owned() -> None:
    """Removes the pins of demos and of tests without the lock that were killed, and with them what a demo had registered."""
    for directory in (*BPFFS.glob(f"{DEMO}*"), *BPFFS.glob(f"{HOOKS}*")):
        _, _, pid, start, *_ = (*directory.name.split("-"), "", "")
        if not (pid.isdigit() and owner.lives(int(pid), start)):
            remove_pins(directory)


def require_free() -> None:
    """Fails while a name of ours is registered: what was built could not be tested beside it."""
    end = time.monotonic() + RELEASE_S
    while names := sorted(registered()):
        if time.monotonic() > end:
            raise RuntimeError(
                f"{', '.join(names)}: registered on this kernel already, so what was built cannot be tested; "
                f"`build/ccbpf disable --all` first, or for one of bpftool's `bpftool struct_ops unregister name NAME`"
            )
        time.sleep(0.05)


@contextlib.contextmanager
def held() -> Iterator[Path]:
    """Nobody else registers a controller meanwhile, if it asks here."""
    with LOCK.open("a+") as file:
        lock(file)
        file.seek(0)
        sweep(killed=bool(file.read()))
        require_free()
        file.truncate(0)
        file.write(f"process {os.getpid()} in {REPOSITORY}\n")
        file.flush()
        yield LOCK
        file.truncate(0)
