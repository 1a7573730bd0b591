# SPDX-License-Identifier: GPL-2.0-only
"""Programs of others at the cgroups at which ccbpf attaches its own."""

from __future__ import annotations

import os
import struct
from contextlib import ExitStack
from pathlib import Path

from tests.functional import kernel
from tests.unit import headers

# It counts its calls.
OTHER = """
#define SEC(name) __attribute__((section(name), used))
int calls SEC(".bss");
SEC("sockops") int other(void *context) { __sync_fetch_and_add(&calls, 1); return 1; }
char its_license[] SEC("license") = "GPL";
"""
SOCK_OPS = 3  # enum bpf_attach_type
ALONE = "alone"  # the kernel allows no other program there, and none below


def compiled(at: Path) -> Path:
    source = at / "other.c"
    source.write_text(OTHER)
    program = source.with_suffix(".o")
    kernel.run(headers.CLANG, "-target", "bpf", "-g", "-O2", "-c", source, "-o", program)
    return program


def attach(stack: ExitStack, program: Path, pin: Path, cgroup: Path, how: str) -> None:
    """The program, which is pinned, to a cgroup until the end of the stack: by "link", or with bpftool's flag "multi" or
    "override", or ALONE."""
    kernel.run("bpftool", "prog", "load", program, pin)
    stack.callback(pin.unlink)
    if how != "link":
        words = (cgroup, "sock_ops", "pinned", pin)
        kernel.run("bpftool", "cgroup", "attach", *words, *([] if how == ALONE else [how]))
        stack.callback(kernel.run, "bpftool", "cgroup", "detach", *words)
        return
    fds = [kernel.open_pin(pin), os.open(cgroup, os.O_RDONLY)]
    fds += kernel.bpf(kernel.LINK_CREATE, struct.pack("=IIII", *fds, SOCK_OPS, 0))[:1]
    for fd in fds:
        stack.callback(os.close, fd)
