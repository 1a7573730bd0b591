# SPDX-License-Identifier: GPL-2.0-only
"""What a command costs: its time and its largest memory, as the kernel has them."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping

MOST_S = 120.0

# Runs a command and prints its milliseconds and its largest kB. A child starts with the kB of its parent, so the parent is small.
COST = """
import os, sys, time
start = time.monotonic()
child = os.posix_spawn(sys.argv[1], sys.argv[1:], os.environ, file_actions=[(os.POSIX_SPAWN_OPEN, 1, "/dev/null", os.O_WRONLY, 0)])
_, status, used = os.wait4(child, 0)
print(status, (time.monotonic() - start) * 1e3, used.ru_maxrss)
"""


def cost_of(*words: str, env: Mapping[str, str] | None = None) -> tuple[float, float]:
    """Milliseconds of wall clock, and the largest memory in MB."""
    parent = [sys.executable, "-I", "-S", "-c", COST, *words]
    said = subprocess.run(parent, env=env, check=True, capture_output=True, text=True, timeout=MOST_S)
    status, took_ms, kb = map(float, said.stdout.split())
    if status:
        raise RuntimeError(f"{' '.join(words)}: it failed: {said.stderr}")
    return took_ms, kb / 1024
