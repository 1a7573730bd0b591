# SPDX-License-Identifier: GPL-2.0-only
"""The targets of tests/fuzz compile, so that `make test` tells of a name that they still use and the command no longer has."""

import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_they_compile() -> None:
    command = ["make", "-s", "--no-print-directory", "fuzzers-compile", "FUZZ=1"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
