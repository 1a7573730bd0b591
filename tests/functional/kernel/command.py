# SPDX-License-Identifier: GPL-2.0-only
"""A short command, a condition that must hold within a bound, and what is done meanwhile."""

from __future__ import annotations

import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, TypeVar

ROOT = Path(__file__).resolve().parents[3]
COMMAND_S = 20.0
T = TypeVar("T")


def run(*arguments: object, check: bool = True, **options: Any) -> subprocess.CompletedProcess[str]:
    """Runs a short command; if it fails, the error shows its output."""
    words = [str(a) for a in arguments]
    done = subprocess.run(words, capture_output=True, text=True, timeout=COMMAND_S, **options)
    assert not check or done.returncode == 0, f"{' '.join(words)}: {done.returncode}: {done.stderr or done.stdout}"
    return done


def eventually(condition: Callable[[], T | Literal[False] | None], seconds: float, what: str, every_s: float = 0.01) -> T:
    """Polls until the condition is true and returns its value; fails after `seconds` with its last value."""
    end = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        assert time.monotonic() < end, f"not within {seconds:g} s: {what} (last: {value!r})"
        time.sleep(every_s)


@contextmanager
def repeated(action: Callable[[], object], every_s: float) -> Iterator[None]:
    """Does it all the time meanwhile, with so many seconds between."""
    stop = threading.Event()

    def loop() -> None:
        while not stop.wait(every_s):
            action()

    thread = threading.Thread(target=loop)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
