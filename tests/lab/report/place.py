# SPDX-License-Identifier: GPL-2.0-only
"""Where the lab keeps its results.

    ROOT/<kernel>/runs/<digest>/    one run
    ROOT/<kernel>/<id>/             one row: result.json, plots, a link to each of its runs
    ROOT/<kernel>/report.html       the page of all rows

ROOT is build/lab, or CCBPF_LAB_ROOT. Read it as place.ROOT: tests put another directory there.
"""

from __future__ import annotations

import os
from pathlib import Path

from ..guest import image

ROOT = Path(os.environ.get("CCBPF_LAB_ROOT") or image.BUILD / "lab").resolve()


def of_row(kernel: str, row_id: str) -> Path:
    return ROOT / kernel / row_id
