# SPDX-License-Identifier: GPL-2.0-only
"""What is installed beside the command, and the tables of the command that it is made from."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "build"


def run(*words: object) -> str:
    return subprocess.run([str(word) for word in words], cwd=ROOT, check=True, capture_output=True, text=True).stdout


def ask(*words: str) -> Any:
    """ccbpf, under -j."""
    return json.loads(run(BUILD / "ccbpf", "-j", *words))
