# SPDX-License-Identifier: GPL-2.0-only
"""A row that is right, of which the tests of the loader change a word."""

from __future__ import annotations

from typing import Protocol

from ..rows import rows

GOOD = """
title = "mine"
[controller.tcp_lp_ecn]
queue = "marking"
ecn = true
[row.mine]
what = "a row of my own"
foreground = ["cubic", "reno"]
ours = ["tcp_lp", "tcp_lp_ecn"]
peers = ["lp"]
ideal = "reno"
seconds = 20
quick = { seconds = 5, points = ["1"] }
link = { rate_mbit = 10, rtt_ms = 50, buffer_bdp = "@point" }
sweep = { what = "buffer, BDP", values = [0.5, 1, 2] }
parameters = { delta = 200 }
flow = [
    { name = "foreground", controller = "@foreground" },
    { name = "background", controller = "@background", background = true, count = 2, every_s = 0.5 },
]
bounds = [{ what = "keeps", measure = "transparency", op = ">=", bound = 0.9, points = ["1", "2"] }]
"""


class Load(Protocol):
    """The rows of a file with that text."""

    def __call__(self, text: str, set_: str = "full", kernel: str = "6.12") -> list[rows.Row]: ...
