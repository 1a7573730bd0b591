# SPDX-License-Identifier: GPL-2.0-only
"""Cores for guests: one is left free, and a lock of the machine keeps two labs from sharing one."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from ..engine import cores, emulator
from ..guest.errors import LabError

HOLD = """
import sys, time
sys.path.insert(0, sys.argv[1])
from pathlib import Path
from tests.lab.engine import cores
cores.PLACES = (Path(sys.argv[2]),)
with cores.core() as cpu:
    print(cpu, flush=True)
    time.sleep(600)
"""
WAIT_S = 20.0
REAL = os.sched_getaffinity(0)


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Locks that no lab of this machine uses, three cores for this process, and nothing asked for."""
    monkeypatch.setattr(cores, "PLACES", (tmp_path,))
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {0, 1, 5})
    monkeypatch.delenv(cores.VARIABLE, raising=False)
    monkeypatch.setattr(cores, "_told", threading.Event())
    return tmp_path


def test_one_core_is_left_free(places: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert cores.cpus() == [1, 5]
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {3})
    assert cores.cpus() == [3]


def test_the_cores_that_were_asked_for_are_taken(places: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(cores.VARIABLE, "5,0")
    assert cores.cpus() == [0, 5]


@pytest.mark.parametrize(
    ("asked", "words"),
    [("0,7", "CCBPF_LAB_CPUS=0,7: this process may use the cores 0,1,5"), ("one", "not a list of core numbers")],
)
def test_cores_that_there_are_not(places: Path, monkeypatch: pytest.MonkeyPatch, asked: str, words: str) -> None:
    monkeypatch.setenv(cores.VARIABLE, asked)
    with pytest.raises(LabError, match=words):
        cores.cpus()


def test_two_guests_have_two_cores_and_the_third_waits(
    places: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(cores, "QUIET_S", 0.2)
    third: list[int] = []

    def wait() -> None:
        with cores.core() as cpu:
            third.append(cpu)

    waiting = threading.Thread(target=wait)
    with cores.core() as first:
        with cores.core() as second:
            assert {first, second} == {1, 5}
            waiting.start()
            waiting.join(1.0)
            assert waiting.is_alive() and not third
        waiting.join(WAIT_S)
        assert third == [second]
    assert "waiting for core 1,5, in use by another lab; CCBPF_LAB_CPUS names other cores" in capsys.readouterr().err


def test_the_lock_is_the_machines_and_goes_with_its_process(places: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another process, as of another clone, has a core until it is killed."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: REAL)
    real = str(min(REAL))
    monkeypatch.setenv(cores.VARIABLE, real)
    words = [sys.executable, "-c", HOLD, str(Path(__file__).parents[3]), str(places)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as other:
        try:
            assert other.stdout and other.stdout.readline().strip() == real
            with cores._open(f"ccbpf-lab-core-{real}.lock") as lock:
                assert cores._first_free({int(real): lock}) is None
        finally:
            other.kill()
    with cores.core() as cpu:
        assert cpu == int(real)


def test_a_lock_file_can_be_locked_by_every_user(places: Path) -> None:
    before = os.umask(0o077)
    try:
        with cores.core():
            modes = {path.name: path.stat().st_mode & 0o777 for path in places.iterdir()}
    finally:
        os.umask(before)
    names = ("ccbpf-lab-core-1.lock", "ccbpf-lab-core-5.lock", cores._queue_name((1, 5)))
    assert modes == dict.fromkeys(names, 0o644)


def test_waiting_for_one_core_does_not_block_another(places: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One lab has core 1 and another waits for it; core 5 is free."""
    got: list[int] = []

    def ask() -> None:
        with cores.core() as cpu:
            got.append(cpu)

    monkeypatch.setenv(cores.VARIABLE, "1")
    with cores.core():
        waiting = threading.Thread(target=ask)
        waiting.start()
        waiting.join(0.5)
        assert not got
        monkeypatch.setenv(cores.VARIABLE, "1,5")
        other = threading.Thread(target=ask)
        other.start()
        other.join(WAIT_S / 2)
        assert got == [5]
    waiting.join(WAIT_S)
    other.join(WAIT_S)
    assert sorted(got) == [1, 5]


def test_a_link_in_place_of_a_lock_is_not_followed(places: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (places / "ccbpf-lab-core-1.lock").symlink_to(places / "victim")
    with pytest.raises(LabError, match="core-1.lock: no directory for the locks of cores"), cores.core():
        pass
    assert not (places / "victim").exists()
    second = places / "second"
    second.mkdir()
    monkeypatch.setattr(cores, "PLACES", (places, second))
    with cores.core() as cpu:
        assert cpu == 1 and (second / "ccbpf-lab-core-1.lock").is_file()


# --- the mode --------------------------------------------------------------------------------------------------------


def test_the_mode_is_what_is_asked_for_and_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(emulator.VARIABLE, raising=False)
    monkeypatch.setattr(emulator, "lockstep_allowed", lambda: True)
    assert emulator.choose_mode() == "lockstep"
    monkeypatch.setenv(emulator.VARIABLE, "record")
    assert emulator.choose_mode() == "record"
    monkeypatch.setenv(emulator.VARIABLE, "fifo")
    with pytest.raises(LabError, match="CCBPF_LAB_MODE=fifo: there are lockstep and record"):
        emulator.choose_mode()


def test_without_the_privilege_it_records(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(emulator.VARIABLE, raising=False)
    monkeypatch.setattr(emulator, "lockstep_allowed", lambda: False)
    assert emulator.choose_mode() == "record"
    monkeypatch.setenv(emulator.VARIABLE, "lockstep")
    with pytest.raises(LabError, match="may not use SCHED_FIFO; run as root, or take CCBPF_LAB_MODE=record"):
        emulator.choose_mode()


def test_the_question_leaves_this_thread_as_it_was() -> None:
    before = os.sched_getscheduler(0)
    assert emulator.lockstep_allowed() or os.geteuid() != 0
    assert os.sched_getscheduler(0) == before
