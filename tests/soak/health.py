# SPDX-License-Identifier: GPL-2.0-only
"""What must not accumulate: our BPF objects, memory of the kernel, warnings in its log.

Objects of ours are those whose type and name are like one that `enable` and `aqm attach` made when the soak began. Memory
is what the kernel cannot give back on demand: slabs, per-CPU and vmalloc areas, stacks and page tables. The whole machine
shares it, so it is judged by medians: the last third of the samples against the first.
"""

from __future__ import annotations

import json
import os
import re
import statistics
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.functional import kernel

KINDS = {"prog": "programs", "map": "maps", "link": "links"}  # of bpftool: and what we call them
MEMORY = ("SUnreclaim", "Percpu", "VmallocUsed", "KernelStack", "PageTables")
FLAT_MB = 16.0  # twice the difference between the medians of an idle machine
WARNING = re.compile(r"WARNING:|BUG:|Oops|general protection|divide error|blocked for more than|rcu.*stall")
Object = tuple[str, str, str]  # kind, type, name


@dataclass(frozen=True)
class Look:
    """A sample of the kernel's state, while nothing of ours is enabled."""

    left: dict[str, int]  # objects of ours, by kind
    kernel_mb: float
    available_mb: float


def listed(kind: str) -> str:
    """bpftool's list; it gives up if an object goes away under it."""
    for _ in range(5):
        done = kernel.run("bpftool", "-j", kind, "show", check=False)
        if not done.returncode:
            return done.stdout or "[]"
    raise OSError(f"`bpftool {kind} show`: {done.stderr or done.stdout}")


def objects() -> Counter[Object]:
    """All BPF objects of this kernel."""
    found: Counter[Object] = Counter()
    for kind in KINDS:
        for row in json.loads(listed(kind)):
            found[kind, str(row.get("type")), str(row.get("name", ""))] += 1
    return found


def meminfo() -> dict[str, float]:
    """/proc/meminfo, in MB."""
    rows = re.findall(r"^(\w+):\s+(\d+) kB", Path("/proc/meminfo").read_text(), re.MULTILINE)
    return {name: int(kb) / 1024 for name, kb in rows}


def growth_mb(looks: Sequence[float]) -> float:
    """By how much the last third lies above the first; with fewer than three samples, the last above the first."""
    third = max(1, len(looks) // 3)
    return statistics.median(looks[-third:]) - statistics.median(looks[:third]) if looks else 0.0


class Health:
    """To be created while nothing of ours is enabled; learn() is called while everything is."""

    def __init__(self) -> None:
        self._before = objects()
        self._ours: set[Object] = set()
        self._log = os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        os.lseek(self._log, 0, os.SEEK_END)
        self.looks: list[Look] = []

    def learn(self) -> None:
        self._ours = set(objects() - self._before)
        assert {kind for kind, _, _ in self._ours} == set(KINDS), f"some enabled objects were not found: {self._ours}"

    def left(self) -> dict[str, int]:
        """How many objects of ours there are more than before."""
        more = objects() - self._before
        return {words: sum(n for key, n in more.items() if key in self._ours and key[0] == kind)
                for kind, words in KINDS.items()}  # fmt: skip

    def look(self) -> Look:
        memory = meminfo()
        found = Look(self.left(), sum(memory.get(name, 0) for name in MEMORY), memory["MemAvailable"])
        self.looks.append(found)
        return found

    def warnings(self) -> list[str]:
        """What the kernel warned of since the last call."""
        found: list[str] = []
        while True:
            try:
                line = os.read(self._log, 8192).decode(errors="replace")
            except BlockingIOError:
                return found
            except BrokenPipeError:  # the ring buffer of the log has overwritten some lines
                continue
            if WARNING.search(line):
                found.append(line.partition(";")[2].partition("\n")[0])

    def growth_mb(self) -> float:
        return growth_mb([look.kernel_mb for look in self.looks])
