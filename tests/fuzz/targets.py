# SPDX-License-Identifier: GPL-2.0-only
"""The targets of tests/fuzz, which `make fuzzers FUZZ=1` builds, and one run of each by libFuzzer."""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
REPOSITORY = HERE.parents[1]
BUILD = REPOSITORY / "build/fuzz"
FINDINGS = BUILD / "findings"
INPUT_S = 10  # one that takes longer is a finding
MEMORY_MB = 1024
START_S = 60.0  # to begin and to end, on a busy machine
LONGEST = 4096  # bytes of an input
TOLD = re.compile(r"does not hold|^said: |ERROR: |runtime error:|SUMMARY|Test unit written to|^Base64", re.M)

NAMES = sorted(path.stem for path in HERE.iterdir() if path.suffix in (".c", ".cc"))


def run(name: str, seconds: float, seed: int, grows: Path | None = None) -> str:
    """The findings, in some lines; "": none. Inputs that reach new code are put into `grows`."""
    FINDINGS.mkdir(parents=True, exist_ok=True)
    words = HERE / f"{name}.dict"
    with tempfile.TemporaryDirectory() as directory:
        command = [
            str(BUILD / name),
            f"-max_total_time={seconds:.0f}",
            f"-seed={seed % (1 << 32) or 1}",  # 0 is a random one
            f"-timeout={INPUT_S}",
            f"-rss_limit_mb={MEMORY_MB}",
            f"-max_len={LONGEST}",
            f"-artifact_prefix={FINDINGS}/{name}-",
            *([f"-dict={words}"] if words.exists() else []),
            str(grows or directory),
            str(HERE / "corpus" / name),
        ]
        done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, timeout=seconds + START_S, check=False)
    said = done.stderr.decode(errors="replace")
    if done.returncode == 0:
        runs = re.search(r"^Done (\d+) runs", said, re.M)
        return "" if runs and int(runs[1]) > 0 else f"{name}: no input was tried: {said[-1000:]}"
    lines = [line for line in said.splitlines() if TOLD.search(line)]
    return "\n".join([f"{name}: `{os.path.relpath(BUILD / name)} FILE` repeats it", *(lines or [said[-1000:]])])
