# SPDX-License-Identifier: GPL-2.0-only
"""2 000 random command lines, two at a time, by the command under ASan and UBSan. It takes a minute."""

from __future__ import annotations

import random
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.functional.conftest import CCBPF
from tests.functional.line import Line
from tests.hard import fuzz

COMMANDS = 2000
AT_ONCE = 2
TIDY_EVERY = 500


def test_random_command_lines(line: Line, dice: random.Random, tmp_path: Path) -> None:
    line.tbf()
    place = fuzz.room(tmp_path)
    cli, namespace = line.ccbpf, line.near.name
    codes: Counter[int] = Counter()
    with ThreadPoolExecutor(AT_ONCE) as pool:
        for _ in range(COMMANDS // TIDY_EVERY):
            lines = [fuzz.command_line(dice) for _ in range(TIDY_EVERY)]
            codes.update(pool.map(lambda words: fuzz.run(cli, words, namespace, place), lines))
            fuzz.assert_tidy(cli, namespace, place)
    assert all(codes[code] > COMMANDS / 100 for code in (0, 2, 5)), f"the lines were too much alike: {codes}"


def test_a_sanitizer_is_there() -> None:
    """Without it these tests would find nothing."""
    symbols = CCBPF.read_bytes()
    assert b"AddressSanitizer" in symbols and b"runtime error" in symbols, f"{CCBPF} was built without SANITIZE=1"
