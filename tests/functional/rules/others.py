# SPDX-License-Identifier: GPL-2.0-only
"""Programs of others at the cgroups at which ccbpf attaches its own."""

from __future__ import annotations

import json
import os
import struct
import sys
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
# It asks for the changes of state of each connection that is established, and counts these.
WATCHER = """
#define SEC(name) __attribute__((section(name), used))
struct context { unsigned op, arguments[4], others[16], callbacks; }; /* struct bpf_sock_ops */
enum { ACTIVE_ESTABLISHED_CB = 4, PASSIVE_ESTABLISHED_CB, STATE_CB = 10, STATE_CB_FLAG = 4 };
static long (*cb_flags_set)(struct context *, int) = (void *)59;
int calls SEC(".bss");
SEC("sockops") int watcher(struct context *context)
{
	if (context->op == STATE_CB)
		__sync_fetch_and_add(&calls, 1);
	else if (context->op == ACTIVE_ESTABLISHED_CB || context->op == PASSIVE_ESTABLISHED_CB)
		cb_flags_set(context, context->callbacks | STATE_CB_FLAG);
	return 1;
}
char its_license[] SEC("license") = "GPL";
"""
ALONE = "alone"  # the kernel allows no other program there, and none below


def compiled(at: Path, text: str = OTHER) -> Path:
    source = at / "other.c"
    source.write_text(text)
    program = source.with_suffix(".o")
    kernel.run(headers.CLANG, "-target", "bpf", "-g", "-O2", "-c", source, "-o", program)
    return program


def counter(pin: Path) -> kernel.Map:
    """Where the pinned program counts."""
    (found,) = json.loads(kernel.run("bpftool", "-j", "prog", "show", "pinned", pin).stdout)["map_ids"]
    return kernel.Map.by_id(found)


def calls(of: kernel.Map) -> int:
    return int.from_bytes(of.lookup(bytes(4)) or b"", sys.byteorder)


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
