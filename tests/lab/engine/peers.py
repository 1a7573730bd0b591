# SPDX-License-Identifier: GPL-2.0-only
"""Peers that no kernel has and that are not part of the product: controllers, and laws of a receiver, in tests/lab/peers/*.bpf.c.

The guest loads their objects with bpftool. The simulator has the controllers as build/sim/NAME.so, and the laws in itself."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from ..guest.image import BUILD

PEERS = {"ledbatpp": "ledbatpp", "ledbatpp_apple": "ledbatpp"}  # controller → its object

PINS, CGROUPS = "/sys/fs/bpf", "/sys/fs/cgroup"


def objects(controllers: Iterable[str]) -> dict[str, Path]:
    """File's name in the guest → the object, of those among the controllers."""
    names = sorted({PEERS[name] for name in controllers if name in PEERS})
    return {f"{name}.bpf.o": BUILD / f"tests/{name}.bpf.o" for name in names}


def receivers(laws: Iterable[str]) -> dict[str, Path]:
    """The same of the laws of receivers."""
    return {f"{law}.bpf.o": BUILD / f"tests/{law}.bpf.o" for law in sorted(set(laws) - {""})}


def receiver_commands(laws: Iterable[str]) -> list[str]:
    """A cgroup for each law, whose connections receive under it."""
    lines = []
    for law in sorted(set(laws) - {""}):
        lines += [
            f"bpftool prog load /lab/{law}.bpf.o {PINS}/{law}",
            f"mkdir {CGROUPS}/{law}",
            f"bpftool cgroup attach {CGROUPS}/{law} sock_ops pinned {PINS}/{law}",
        ]
    return lines


def in_cgroup(law: str) -> str:
    """The prefix of a command whose connections receive under this law."""
    return f"sh -c 'echo $$ >{CGROUPS}/{law}/cgroup.procs && exec \"$@\"' - "
