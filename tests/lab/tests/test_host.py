# SPDX-License-Identifier: GPL-2.0-only
"""What guests do to the machine that they run on: one core each, and the kernel still frees what it frees late."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from .. import demo
from ..engine import cores, virtual
from ..engine.emulator import processor_s
from ..guest.errors import LabError

pytestmark = pytest.mark.xdist_group("registry")  # both: in two workers the guests would be started twice, and take both cores

KERNEL = "6.12"
BOTH = sorted(os.sched_getaffinity(0))[:2]
BUSY = "while :; do :; done"  # never idle, and a timer of the guest every 4 ms
BOOTED_S = 4.0  # processor seconds after which a guest is in that loop
START_S = 120.0  # on a busy machine
ROUNDS = 20
FREED_S = 5.0  # an RCU-tasks grace period takes less than a second on a healthy machine


def guests() -> list[int]:
    """The processes of QEMU that this one has started."""
    found = []
    for directory in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            name, _, rest = (directory / "stat").read_text().partition("(")[2].rpartition(")")
            if name.startswith("qemu") and int(rest.split()[1]) == os.getpid():
                found.append(int(directory.name))
    return sorted(found)


@pytest.fixture(scope="module")
def two_busy_guests(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[int]]:
    """Their processes, once both compute; killed at the end."""
    places = [tmp_path_factory.mktemp("guest") for _ in BOTH]
    with pytest.MonkeyPatch.context() as patch, ThreadPoolExecutor() as pool:
        patch.setenv(cores.VARIABLE, ",".join(map(str, BOTH)))
        runs = [pool.submit(virtual.run, KERNEL, BUSY, place, timeout_s=600, limit_s=3600, product=False) for place in places]
        try:
            end = time.monotonic() + START_S
            while len(found := guests()) < len(BOTH) or min(processor_s(str(process)) for process in found) < BOOTED_S:
                assert time.monotonic() < end and not any(run.done() for run in runs)
                time.sleep(0.1)
            yield found
        finally:
            for process in guests():
                os.kill(process, signal.SIGKILL)
    for run in runs:
        with pytest.raises(LabError, match="QEMU ended with -9"):
            run.result()


def programs(name: str) -> set[int]:
    """The ids of those whose name begins so."""
    shown = subprocess.run(["bpftool", "-j", "prog", "show"], capture_output=True, check=True).stdout
    return {program["id"] for program in json.loads(shown or "[]") if program.get("name", "").startswith(name)}


def test_freed_programs_go_while_two_guests_compute(two_busy_guests: list[int], pin_root: Path, measured: list[str]) -> None:
    """Programs of a controller are freed after an RCU-tasks grace period, which a thread that never runs holds up. Those that were
    there before are not counted: a socket of another test may use them for as long as it tries to send its last data."""
    slowest_s, before = 0.0, programs(demo.CONTROLLERS[0])
    for _ in range(ROUNDS):
        begin = time.monotonic()
        for verb in ("enable", "disable"):
            done = demo.ccbpf(verb, demo.CONTROLLERS[0])
            assert done.returncode == 0, demo.words(done)
        slowest_s = max(slowest_s, time.monotonic() - begin)
    left = len(programs(demo.CONTROLLERS[0]) - before)
    end = time.monotonic() + FREED_S
    while (late := len(programs(demo.CONTROLLERS[0]) - before)) and time.monotonic() < end:
        time.sleep(0.1)
    measured.append(
        f"host beside two computing guests: {ROUNDS} times enabled and disabled, {left} programs left, {late} after "
        f"{FREED_S:.0f} s, the slowest pair of commands {slowest_s:.2f} s"
    )
    assert guests() == two_busy_guests and late == 0


def test_each_guest_has_a_core_and_its_processor_is_an_ordinary_thread(two_busy_guests: list[int]) -> None:
    used = set()
    for process in two_busy_guests:
        entries = sorted((f"{process}/task/{name}" for name in os.listdir(f"/proc/{process}/task")), key=processor_s)
        *others, busiest = threads = [int(entry.rpartition("/")[2]) for entry in entries]
        assert os.sched_getscheduler(busiest) == os.SCHED_OTHER
        assert others and {os.sched_getscheduler(thread) for thread in others} == {os.SCHED_FIFO}
        affinities = {frozenset(os.sched_getaffinity(thread)) for thread in threads}
        assert len(affinities) == 1
        used |= affinities
    assert used == {frozenset({cpu}) for cpu in BOTH}
