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

from ..engine import emulator, virtual, virtual_experiment
from ..engine.experiment import Experiment
from ..engine.scenario import VirtualFlow, VirtualLink
from ..guest import image
from ..guest.errors import LabError

KERNEL = "6.12"
BUSY = "while True: pass"
OFTEN_AWAKE = "import time\nwhile True: time.sleep(0.0007)"
WAIT_S = 300.0  # for a core, and then beside whatever else the machine does
LINK = VirtualLink(rate_mbit=10, rtt_ms=50, buffer_packets=104)
TWO_FLOWS = Experiment("two flows", LINK, (VirtualFlow("one", "cubic", 10), VirtualFlow("two", "reno", 10)))


@contextmanager
def busy(*programs: str) -> Iterator[None]:
    """Programs that take the processors."""
    processes = [subprocess.Popen([sys.executable, "-c", program]) for program in programs]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


def bytes_of(directory: Path) -> dict[str, bytes]:
    return {str(path.relative_to(directory)): path.read_bytes() for path in directory.rglob("*") if path.is_file()}


# --- determinism -----------------------------------------------------------------------------------------------------


def test_same_input_gives_same_bytes(tmp_path: Path, measured: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """On a quiet machine, beside programs that want every core, and in the other mode."""
    quiet = virtual_experiment.run(TWO_FLOWS, tmp_path / "quiet", KERNEL)
    with busy(BUSY, BUSY, OFTEN_AWAKE):
        beside = virtual_experiment.run(TWO_FLOWS, tmp_path / "beside", KERNEL)
    monkeypatch.setenv(emulator.VARIABLE, emulator.RECORD)
    recorded = virtual_experiment.run(TWO_FLOWS, tmp_path / "recorded", KERNEL)
    assert quiet.outcome and beside.outcome and recorded.outcome
    goodput = {name: flow.goodput_mbit(0, 10) for name, flow in quiet.flows.items()}
    measured.append(
        f"virtual lab: two flows, 10 Mbit/s, 50 ms: {quiet.outcome.virtual_s:.1f} virtual s in "
        f"{quiet.outcome.wall_s:.1f} s, {beside.outcome.wall_s:.1f} s beside three busy programs ({quiet.outcome.mode}), "
        f"{recorded.outcome.wall_s:.1f} s ({recorded.outcome.mode}); goodput {goodput}"
    )
    first = bytes_of(tmp_path / "quiet")
    assert {"client-0.json", "server-1.txt", "ss.txt", "backlog.txt", "ping.txt", "console.log"} <= first.keys()
    for other in ("beside", "recorded"):
        second = bytes_of(tmp_path / other)
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
    with pytest.raises(LabError, match="no end after 4 s of processor time"):
        virtual.run(KERNEL, "while :; do :; done", tmp_path / "out", timeout_s=4, product=False)
    assert time.monotonic() - start < WAIT_S


def test_limit_of_virtual_time_ends_and_leaves_what_there_is(tmp_path: Path) -> None:
    with pytest.raises(LabError, match="within 3 virtual s"):
        virtual.run(KERNEL, "echo begun; sleep 1000", tmp_path / "out", limit_s=3, product=False)
    assert (tmp_path / "out/stdout").read_text() == "begun\n"


def test_unknown_kernel_is_named() -> None:
    with pytest.raises(LabError, match="kernel 5.4: not in kernels.lock; there are 6.1, 6.12"):
        image.build("5.4")


@pytest.mark.parametrize(
    ("release", "model"),
    [
        ("6.12.107+deb13-cloud-amd64", "max,cx16=off"),
        ("6.18.4", "max,cx16=off"),
        ("6.19-rc1-amd64", "max"),
        ("7.2.13+deb14-cloud-amd64", "max"),
    ],
)
def test_processor_has_cmpxchg16b_where_linux_needs_it(release: str, model: str) -> None:
    assert virtual.processor(release) == model


def test_failed_flow_is_named(tmp_path: Path) -> None:
    experiment = Experiment("unknown", LINK, (VirtualFlow("one", "nosuchcc", 2),))
    with pytest.raises(LabError, match="flow one .nosuchcc.*ongestion"):
        virtual_experiment.run(experiment, tmp_path / "out", KERNEL)
