# SPDX-License-Identifier: GPL-2.0-only
"""What the parts of the bench share: the programs that they measure, and how they run a command and say what they do."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
BUILD = REPOSITORY / "build"
CCBPF = BUILD / "ccbpf"


def sh(*arguments: str) -> str:
    """Run, return stdout; an error says what failed."""
    done = subprocess.run(arguments, capture_output=True, text=True, timeout=120)
    if done.returncode:
        raise RuntimeError(f"{' '.join(arguments)}: {(done.stderr or done.stdout).strip()}")
    return done.stdout


def say(text: str) -> None:
    print(f"bench: {text}", file=sys.stderr, flush=True)
