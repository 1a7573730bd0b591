# SPDX-License-Identifier: GPL-2.0-only
"""The one error of the virtual lab's own machinery, and short commands that raise it."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path


class LabError(Exception):
    """The lab itself failed: never a result of an experiment."""


def environment() -> dict[str, str]:
    """The environment of this process, with /sbin in PATH: depmod is in a directory that only root's PATH has."""
    return {**os.environ, "PATH": f"{os.environ.get('PATH', '/usr/bin:/bin')}:/usr/sbin:/sbin"}


def command(
    arguments: Sequence[str | Path],
    remedy: str = "`make deps` installs what the lab needs",
    data: bytes | None = None,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    timeout_s: float = 600.0,
) -> bytes:
    """Runs a command and returns its stdout."""
    words = [str(word) for word in arguments]
    name = " ".join(words if len(words) < 6 else [words[0], "…", *words[-3:]])
    try:
        done = subprocess.run(words, input=data, capture_output=True, cwd=cwd, env=env or environment(), timeout=timeout_s)
    except FileNotFoundError as error:
        raise LabError(f"{arguments[0]}: not installed; {remedy}") from error
    except subprocess.TimeoutExpired as error:
        raise LabError(f"{name}: no end after {timeout_s:g} s; {remedy}") from error
    if done.returncode:
        last = done.stderr.decode(errors="replace").strip().splitlines()[-3:]
        raise LabError(f"{name}: exit code {done.returncode}: {' / '.join(last) or 'no message'}; {remedy}")
    return done.stdout
