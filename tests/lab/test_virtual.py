# SPDX-License-Identifier: GPL-2.0-only
"""The virtual-time lab itself: the same input gives the same bytes, and a failure of the lab is never a result."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from . import virtual, virtual_experiment
from .experiment import Experiment
from .guest import image
from .guest.errors import LabError
from .virtual_experiment import VirtualFlow, VirtualLink

KERNEL = "6.12"
BUSY = "while True: pass"
LINK = VirtualLink(rate_mbit=10, rtt_ms=50, buffer_packets=104)
TWO_FLOWS = Experiment("two flows", LINK, (VirtualFlow("one", "cubic", 10), VirtualFlow("two", "reno", 10)))


@contextmanager
def busy_loops(count: int) -> Iterator[None]:
    """Takes the processors from everybody whose priority is not above."""
    loops = [subprocess.Popen([sys.executable, "-c", BUSY]) for _ in range(count)]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


def bytes_of(directory: Path) -> dict[str, bytes]:
    return {str(path.relative_to(directory)): path.read_bytes() for path in directory.rglob("*") if path.is_file()}


# --- determinism -----------------------------------------------------------------------------------------------------


def test_same_input_gives_same_bytes(tmp_path: Path, measured: list[str]) -> None:
    quiet = virtual_experiment.run(TWO_FLOWS, tmp_path / "quiet", KERNEL)
    with busy_loops(2):
        busy = virtual_experiment.run(TWO_FLOWS, tmp_path / "busy", KERNEL)
    assert quiet.outcome and busy.outcome
    goodput = {name: flow.goodput_mbit(0, 10) for name, flow in quiet.flows.items()}
    measured.append(
        f"virtual lab: two flows, 10 Mbit/s, 50 ms: {quiet.outcome.virtual_s:.1f} virtual s in "
        f"{quiet.outcome.wall_s:.1f} s, {busy.outcome.wall_s:.1f} s beside two busy loops ({quiet.outcome.mode}); "
        f"goodput {goodput}"
    )
    first, second = bytes_of(tmp_path / "quiet"), bytes_of(tmp_path / "busy")
    assert {"client-0.json", "server-1.txt", "ss.txt", "backlog.txt", "ping.txt", "console.log"} <= first.keys()
    assert first.keys() == second.keys()
    assert [name for name in first if first[name] != second[name]] == []
    assert 8.5 < sum(goodput.values()) < 9.6
    assert max(size for _, size in quiet.packets) > 90


# --- what a run is, and what it is not -------------------------------------------------------------------------------


def test_exit_code_of_the_script_is_a_result(tmp_path: Path) -> None:
    outcome = virtual.run(KERNEL, "cat /lab/word; echo trouble >&2; sleep 5; exit 3", tmp_path / "out", {"word": "hello"})
    assert outcome.exit_code == 3
    assert outcome.text("stdout") == "hello"
    assert outcome.text("stderr") == "trouble\n"
    assert outcome.virtual_s == pytest.approx(5, abs=0.1)


# sleep 10: QEMU 10 ends a moment after the port was written
@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("echo c >/proc/sysrq-trigger", "Kernel panic"),
        ("port 0x501 7; sleep 10", "ended with 15 instead of 85"),
        ("reboot -f || kill -9 1; echo b >/proc/sysrq-trigger; sleep 10", "ended with 0 instead of 85"),
        ("port 0x501 42; sleep 10", "no result"),
        ("port 0xe9 </lab/run; port 0x501 42; sleep 10", "no result"),
    ],
)
def test_every_other_end_is_a_failure_of_the_lab(tmp_path: Path, script: str, words: str) -> None:
    with pytest.raises(LabError, match=words):
        virtual.run(KERNEL, script, tmp_path / "out", timeout_s=60, product=False)
    assert (tmp_path / "out/console.log").exists()


def test_time_out_ends(tmp_path: Path) -> None:
    start = time.monotonic()
    with pytest.raises(LabError, match="no end after 4 s of wall time"):
        virtual.run(KERNEL, "while :; do :; done", tmp_path / "out", timeout_s=4, product=False)
    assert time.monotonic() - start < 30  # it may have waited for a core


def test_limit_of_virtual_time_ends_and_leaves_what_there_is(tmp_path: Path) -> None:
    with pytest.raises(LabError, match="within 3 virtual s"):
        virtual.run(KERNEL, "echo begun; sleep 1000", tmp_path / "out", limit_s=3, product=False)
    assert (tmp_path / "out/stdout").read_text() == "begun\n"


def test_unknown_kernel_is_named() -> None:
    with pytest.raises(LabError, match="kernel 5.4: not in kernels.lock; there are 6.1, 6.12"):
        image.build("5.4")


def test_failed_flow_is_named(tmp_path: Path) -> None:
    experiment = Experiment("unknown", LINK, (VirtualFlow("one", "nosuchcc", 2),))
    with pytest.raises(LabError, match="flow one .nosuchcc.*ongestion"):
        virtual_experiment.run(experiment, tmp_path / "out", KERNEL)
