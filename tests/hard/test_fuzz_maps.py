# SPDX-License-Identifier: GPL-2.0-only
"""1 200 commands over pins that somebody changed at random, by the command under ASan and UBSan. It takes two minutes.

A round enables controllers, attaches nf_red, and changes some pins: random bytes in a map's values, a map of another kind
or shape in its place, pins that are swapped, removed, or made directories. Then it runs some commands over that.
"""

from __future__ import annotations

import ctypes
import os
import random
import shutil
import struct
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from tests.functional import kernel
from tests.functional.conftest import Cli
from tests.functional.line import DEV, Line
from tests.hard import fuzz

COMMANDS, IN_ROUND = 1200, 60
MAP_CREATE, NO_PREALLOC = 0, 1
HASH, ARRAY, PERCPU_HASH, PERCPU_ARRAY, LRU_HASH, LPM_TRIE, QUEUE, RINGBUF = 1, 2, 5, 6, 9, 11, 22, 27
SIZES = [1, 4, 8, 16, 64, 104, 512, 4096]

READING = [["list"], ["status"], ["-j", "status"], ["flows"], ["flows", "-v"], ["-j", "flows"], ["aqm", "show"], ["check"],
           ["-j", "aqm", "show"], ["trace", "--for", "0.02"], ["-j", "list"]]  # fmt: skip
CHANGING = [["set", "tcp_lp", "delta=200"], ["reload", "tcp_lp"], ["enable", "nf_tcp"], ["disable", "tcp_lp"], ["clean"],
            ["aqm", "set", DEV, "--nf-min", "3"], ["aqm", "attach", DEV], ["aqm", "detach", DEV], ["disable", "--all"],
            ["aqm", "detach", "--all"], ["enable", "tcp_lp"]]  # fmt: skip


def create(dice: random.Random, path: Path) -> None:
    """A map of a random kind and shape, pinned there."""
    kind = dice.choice([HASH, ARRAY, PERCPU_HASH, PERCPU_ARRAY, LRU_HASH, LPM_TRIE, QUEUE, RINGBUF])
    key, value = dice.choice(SIZES), dice.choice(SIZES)
    flags, entries = 0, dice.choice([1, 2, 8, 100])
    if kind in (ARRAY, PERCPU_ARRAY):
        key = 4
    elif kind == LPM_TRIE:
        key, flags = max(8, min(key, 256)), NO_PREALLOC
    elif kind == QUEUE:
        key = 0
    elif kind == RINGBUF:
        key, value, entries = 0, 0, 4096
    fd, _ = kernel.bpf(MAP_CREATE, struct.pack("=IIIII", kind, key, value, entries, flags))
    name = ctypes.create_string_buffer(os.fsencode(path))
    try:
        kernel.bpf(kernel.OBJ_PIN, struct.pack("=QII", ctypes.addressof(name), fd, 0))
    finally:
        os.close(fd)


def pins(root: Path) -> list[Path]:
    return sorted(path for path in root.rglob("*") if not path.is_dir())


def scribble(dice: random.Random, path: Path) -> None:
    """Writes random bytes, or the extreme values of an integer, into some of its values."""
    found = kernel.Map.by_pin(path)
    try:
        for _ in range(dice.choice([1, 1, 4, 40])):
            key = dice.choice([*found.keys()[:50], dice.randbytes(found.key_size)])
            value = found.lookup(key)
            size = len(value) if value else found.value_size
            changed = bytearray(value or dice.randbytes(size))
            if dice.random() < 0.5 and size:
                at = dice.randrange(size)
                changed[at : at + 8] = dice.choice([b"\xff" * 8, bytes(8), dice.randbytes(8), b"\x1b[31m%n\n"])[: size - at]
            else:
                changed[:] = dice.choice([dice.randbytes(size), b"\xff" * size])
            found.update(key, bytes(changed))
    finally:
        found.close()


def replace(dice: random.Random, path: Path) -> None:
    path.unlink()
    create(dice, path)


def swap(dice: random.Random, path: Path) -> None:
    other = dice.choice(pins(path.parent))
    if other != path:
        between = path.with_name("between")
        path.rename(between)
        other.rename(path)
        between.rename(other)


def remove(dice: random.Random, path: Path) -> None:
    path.unlink()


def make_directory(dice: random.Random, path: Path) -> None:
    path.unlink()
    path.mkdir()


def add(dice: random.Random, path: Path) -> None:
    create(dice, path.with_name(dice.choice(["link", "ops", "params", "identity", "identity_new", "default", "ecn", "mine"])))


CHANGES: dict[Callable[[random.Random, Path], None], int] = {
    scribble: 12, replace: 4, swap: 2, remove: 1, make_directory: 1, add: 2,
}  # fmt: skip


def vandalise(dice: random.Random, root: Path) -> None:
    """Makes a change that the kernel accepts; it refuses some: a frozen map, a link's pin as a map, a busy one."""
    for _ in range(10):
        found = pins(root)
        if not found:
            return
        with suppress(OSError):
            dice.choices([*CHANGES], [*CHANGES.values()])[0](dice, dice.choice(found))
            return


def tidy(cli: Cli, namespace: str, place: Path) -> None:
    """The remedy that every message names; directories in place of pins, which `clean` reports and leaves, are removed by hand."""
    assert fuzz.run(cli, ["clean", "--all"], namespace, place) in (0, 1)
    if cli.root.exists():
        shutil.rmtree(cli.root)
    kernel.eventually(lambda: not set(kernel.KINDS) & kernel.available(), 10, "no controller is left")


def test_commands_over_hostile_maps(line: Line, dice: random.Random, tmp_path: Path) -> None:
    line.tbf()
    place = fuzz.room(tmp_path)
    cli, namespace = line.ccbpf, line.near.name
    for done in range(0, COMMANDS, IN_ROUND):
        for words in (["enable", "tcp_lp", *dice.sample(["nf_tcp", "tcpw_lp"], 1)], ["aqm", "attach", DEV]):
            assert fuzz.run(cli, words, namespace, place) == 0, f"{words} after {done} commands"
        for _ in range(IN_ROUND - 3):
            for _ in range(dice.choice([1, 1, 3])):
                vandalise(dice, cli.root)
            fuzz.run(cli, dice.choice(READING if dice.random() < 0.7 else CHANGING), namespace, place)
        tidy(cli, namespace, place)
        assert not line.tcx(), "a program is left at the device"
