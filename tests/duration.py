# SPDX-License-Identifier: GPL-2.0-only
"""Durations on a command line."""

from __future__ import annotations

import argparse
import re

UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


def duration_s(text: str) -> float:
    """30m, 24h, 90s, 1d; a number alone is minutes."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([smhd]?)", text)
    if not found or not float(found[1]):
        raise argparse.ArgumentTypeError(f"{text!r} is no duration: give 90s, 30m, 24h or 2d")
    return float(found[1]) * UNITS[found[2] or "m"]
