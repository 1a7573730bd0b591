# SPDX-License-Identifier: GPL-2.0-only
"""Peers that no kernel has and that are not part of the product: controllers in tests/lab/peers/*.bpf.c. The guest registers their objects with bpftool; the simulator has them as build/sim/NAME.so."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from ..guest.image import BUILD

PEERS = {"ledbatpp": "ledbatpp", "ledbatpp_apple": "ledbatpp"}  # controller → its object


def objects(controllers: Iterable[str]) -> dict[str, Path]:
    """File's name in the guest → the object, of those among the controllers."""
    names = sorted({PEERS[name] for name in controllers if name in PEERS})
    return {f"{name}.bpf.o": BUILD / f"tests/{name}.bpf.o" for name in names}
