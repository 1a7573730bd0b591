# SPDX-License-Identifier: GPL-2.0-only
"""What a row may name: our controllers and their parameters (from the product's own tables), the kernel's, the tests' own
peers, the kernel's qdiscs."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

from tests.unit import headers

from ..engine.peers import PEERS
from ..engine.scenario import BFIFO, MARKING, NF_RED, PFIFO, PRIORITY
from ..guest.image import MODULES

BUILT_IN = ("reno", "cubic")  # of every kernel of Debian; the others are modules
NO_CONTROLLERS = ("tcp_diag",)
# Queues that may stand at a bottleneck alone; what else the guests have are schedulers and delay lines.
QDISCS = ("red", "gred", "codel", "fq_codel", "fq", "fq_pie", "pie", "cake", "sfq", "tbf")
QUEUES = (PFIFO, BFIFO, PRIORITY, MARKING, NF_RED, *QDISCS)


@dataclass(frozen=True)
class Parameter:
    """A parameter that `ccbpf enable --set` accepts."""

    unit: str
    low: int
    high: int


def table(header: str, macro: str, columns: str) -> list[tuple[Any, ...]]:
    return headers.table(header, macro, columns)


@functools.cache
def ours() -> tuple[str, ...]:
    return tuple(row[1] for row in table("ccbpf/controllers.h", "CCBPF_CONTROLLERS", "vwwvv"))


@functools.cache
def kernels_own() -> tuple[str, ...]:
    modules = (name.removeprefix("tcp_") for name in MODULES if name.startswith("tcp_") and name not in NO_CONTROLLERS)
    return (*BUILT_IN, *modules)


@functools.cache
def parameters(controller: str) -> dict[str, Parameter]:
    """The parameters of one of our controllers."""
    rows = table("ccbpf/params.h", f"{controller.upper()}_PARAMS", "wvvvvvv")
    return {name: Parameter(unit, low, high) for name, unit, low, high, *_ in rows}


def controllers() -> tuple[str, ...]:
    return (*ours(), *kernels_own(), *PEERS)
