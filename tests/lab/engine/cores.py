# SPDX-License-Identifier: GPL-2.0-only
"""The cores that guests of the virtual-time lab run on: one guest per core, also when several clones or users run labs.

    with core() as cpu:      waits for a core that no other lab on this machine uses

The locks belong to the machine and not to the clone, so they are files in /run/lock, or in /tmp where that directory
cannot be written. A file is only opened for reading and is never removed: any user can then lock a file that another
user made.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat
import sys
import threading
import time
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from ..guest.errors import LabError

VARIABLE = "CCBPF_LAB_CPUS"
PLACES = (Path("/run/lock"), Path("/tmp"))  # the same for all users, in this order
POLL_S = 0.2  # how often a waiting lab asks for a core
QUIET_S = 1.0  # a shorter wait is not worth a message

_told = threading.Event()  # one message per process: all guests of a session wait for the same cores


def cpus() -> list[int]:
    """The cores that guests may use: those of CCBPF_LAB_CPUS, else all but one, which stays free for everything else."""
    allowed = os.sched_getaffinity(0)
    given = os.environ.get(VARIABLE)
    if not given:
        return sorted(allowed)[1:] or sorted(allowed)
    try:
        wanted = {int(word) for word in given.split(",")}
    except ValueError:
        raise LabError(f"{VARIABLE}={given}: not a list of core numbers such as 0,1") from None
    if not wanted <= allowed:
        raise LabError(f"{VARIABLE}={given}: this process may use the cores {','.join(map(str, sorted(allowed)))}")
    return sorted(wanted)


@contextmanager
def core() -> Iterator[int]:
    """The number of a core that no other guest has. Labs that wait for the same cores get them in the order
    in which they came."""
    with contextlib.ExitStack() as opened:
        locks = {cpu: opened.enter_context(_open(f"ccbpf-lab-core-{cpu}.lock")) for cpu in cpus()}
        with _open(_queue_name(locks)) as queue, _message_after(QUIET_S):
            fcntl.flock(queue, fcntl.LOCK_EX)
            while (taken := _first_free(locks)) is None:
                time.sleep(POLL_S)
        yield taken


def _queue_name(wanted: Iterable[int]) -> str:
    """A queue for each set of cores: a lab that waits for core 1 must not keep others from core 0."""
    words = ",".join(map(str, sorted(wanted)))
    return f"ccbpf-lab-queue-{zlib.crc32(words.encode()):08x}.lock"  # a list of all cores may be too long for a name


def _first_free(locks: dict[int, BinaryIO]) -> int | None:
    """Locks the first core that is free, until its file is closed; None: all are in use."""
    for cpu, lock in locks.items():
        with contextlib.suppress(BlockingIOError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return cpu
    return None


@contextmanager
def _message_after(seconds: float) -> Iterator[None]:
    timer = threading.Timer(seconds, _tell_once)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _tell_once() -> None:
    if not _told.is_set():
        _told.set()
        names = ",".join(map(str, cpus()))
        words = f"virtual lab: waiting for core {names}, in use by another lab; {VARIABLE} names other cores"
        print(words, file=sys.stderr, flush=True)


def _open(name: str) -> BinaryIO:
    """A lock file of the machine; it is created if it is missing."""
    errors = []
    for place in PLACES:
        try:
            return _open_regular(place / name)
        except OSError as error:
            errors.append(f"{place}: {error.strerror}")
    raise LabError(f"{name}: no directory for the locks of cores ({'; '.join(errors)}); make one of them writable")


def _open_regular(path: Path) -> BinaryIO:
    """Never through a link, and never created over another user's file: others may write in these directories."""
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        descriptor = os.open(path, flags)
    except FileNotFoundError:
        with contextlib.suppress(FileExistsError):
            made = os.open(path, flags | os.O_CREAT | os.O_EXCL, 0o644)
            os.fchmod(made, 0o644)  # whatever the umask: others must be able to open it
            os.close(made)
        descriptor = os.open(path, flags)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(0, f"{path.name} is not a regular file")
    return os.fdopen(descriptor, "rb")
