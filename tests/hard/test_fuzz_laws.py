# SPDX-License-Identifier: GPL-2.0-only
"""tests/unit/hostile.c for longer: the laws under ASan and UBSan, with input that no honest peer sends. It takes half a minute."""

from __future__ import annotations

import random
import subprocess
from concurrent.futures import ThreadPoolExecutor

from tests.unit.test_hostile import hostile

LIVES = 8
STEPS = 20_000_000  # of each; seven times those of `make test`
AT_ONCE = 2
LIFE_S = 120.0


def test_the_laws_under_lies(hostile: str, dice: random.Random) -> None:
    seeds = [dice.randrange(1, 1 << 32) for _ in range(LIVES)]

    def life(seed: int) -> str:
        words = [hostile, str(seed), str(STEPS)]
        done = subprocess.run(words, check=False, capture_output=True, text=True, timeout=LIFE_S)
        return "" if done.returncode == 0 else f"`hostile {seed} {STEPS}`: {done.stderr}"

    with ThreadPoolExecutor(AT_ONCE) as pool:
        found = [text for text in pool.map(life, seeds) if text]
    assert not found, found
