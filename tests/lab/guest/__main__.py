# SPDX-License-Identifier: GPL-2.0-only
"""python -m tests.lab.guest [KERNEL...]: make the guests (default: all). `lock`: pin the newest of each suite."""

from __future__ import annotations

import sys
import time

from .errors import LabError
from .image import build
from .lock import kernels
from .relock import relock


def make(names: list[str]) -> None:
    for name in names or kernels():
        start = time.monotonic()
        guest = build(name)
        size = (guest.vmlinux.stat().st_size + guest.base.stat().st_size) / 1e6
        print(f"guest {name}: Linux {guest.release}, {size:.0f} MB, {time.monotonic() - start:.1f} s")
        for words in guest.fell_forward:
            print(f"  not as pinned: {words}")


def main() -> int:
    try:
        if sys.argv[1:] == ["lock"]:
            relock()
        else:
            make(sys.argv[1:])
    except LabError as error:
        print(f"guest: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
