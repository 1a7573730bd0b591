# SPDX-License-Identifier: GPL-2.0-only
"""`make fuzz FOR=10m`: each target of tests/fuzz for that long, as many at once as there are cores.

Inputs that reach new code stay in build/fuzz/grown/TARGET; the next run starts from them.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
from concurrent.futures import ThreadPoolExecutor

from tests.duration import duration_s
from tests.fuzz import targets

GROWN = targets.BUILD / "grown"


def names(text: str) -> list[str]:
    for name in text.split(","):
        if name not in targets.NAMES:
            raise argparse.ArgumentTypeError(f"there is no target {name!r}: give {', '.join(targets.NAMES)}")
    return text.split(",")


def fuzz(name: str, seconds: float, seed: int) -> bool:
    (GROWN / name).mkdir(parents=True, exist_ok=True)
    before = len(list((GROWN / name).iterdir()))
    found = targets.run(name, seconds, seed, GROWN / name)
    more = len(list((GROWN / name).iterdir())) - before
    print(found or f"{name}: nothing found; {more} inputs reached new code", flush=True)
    return bool(found)


def main() -> int:
    parser = argparse.ArgumentParser(prog="make fuzz", description=__doc__)
    parser.add_argument("--for", dest="seconds", type=duration_s, default=600.0, help="of each target: 10m, 90s, 24h")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1, 1 << 32))
    parser.add_argument("--target", type=names, default=targets.NAMES, help=", ".join(targets.NAMES))
    options = parser.parse_args()
    print(f"{len(options.target)} targets, {options.seconds:.0f} s each; SEED={options.seed} repeats the draws", flush=True)
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        found = list(pool.map(lambda name: fuzz(name, options.seconds, options.seed), options.target))
    return 1 if any(found) else 0


if __name__ == "__main__":
    sys.exit(main())
