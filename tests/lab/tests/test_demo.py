# SPDX-License-Identifier: GPL-2.0-only
"""`make demo`: what it prints and draws; that it leaves nothing, however it ends; what it says when it cannot run."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests import registry
from tests.cgroups import cgroups_of_runs

from .. import demo, demo_virtual
from ..engine import native
from ..guest.image import Guest
from ..report import chart

pytestmark = pytest.mark.usefixtures("nothing_left")  # with `pin_root` they are in the group `registry`, else in `guests`

QUICK_S = 60.0  # a quick demo takes 24 s
KEPT = {"tcp_lp": 0.9, "le": 0.85}  # of three seconds: le returns once while cubic's queue is empty
END_S = 20.0  # and ends this soon after a signal, also on a machine that does other work; it takes 1 s
START_S = 20.0  # python and its modules, on a busy machine
PNG = b"\x89PNG\r\n\x1a\n"
started: list[subprocess.Popen[str]] = []


@pytest.fixture(autouse=True)
def no_demo_outlives_its_test() -> Iterator[None]:
    """Or a test that failed would leave tcp_lp registered, and the tests after it could not run."""
    yield
    for process in started:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            native.remove_leftovers()
    started.clear()


def start(plot: Path, *options: str, prefix: tuple[str, ...] = ()) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [*prefix, sys.executable, "-m", "tests.lab.demo", "--quick", "--plot", str(plot), *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=native.REPOSITORY,
        start_new_session=True,
    )
    started.append(process)
    end = time.monotonic() + START_S
    while not prefix and process.poll() is None and not catches(process.pid, signal.SIGTERM) and time.monotonic() < end:
        time.sleep(0.02)
    return process


def catches(pid: int, number: signal.Signals) -> bool:
    """Whether this process has a handler for it: a demo that has only begun to import does not."""
    status = Path(f"/proc/{pid}/status").read_text()
    caught = next(int(line.split()[1], 16) for line in status.splitlines() if line.startswith("SigCgt"))
    return bool(caught >> (number - 1) & 1)


def registered(root: Path) -> tuple[set[str], list[str]]:
    """Which of its controllers are there, and the pins; that no run of `netnice` has left its cgroup."""
    assert not cgroups_of_runs()
    return set(demo.CONTROLLERS) & set(demo.available()), sorted(str(path) for path in root.rglob("*"))


def test_result_as_json(pin_root: Path, tmp_path: Path) -> None:
    before = registered(pin_root)
    process = start(tmp_path / "demo.png", "--json")
    out, err = process.communicate(timeout=QUICK_S)
    assert process.returncode == 0, err
    outcome = json.loads(out)
    assert outcome["link"] == {"rate_mbit": 20, "rtt_ms": 40, "buffer_bytes": 100000}
    assert list(outcome["runs"]) == ["alone", f"beside {outcome['default']}", "beside tcp_lp", "beside le"]
    for name in demo.CONTROLLERS:
        ours = outcome["runs"][f"beside {name}"]
        assert ours["background"] == name and 0 < ours["foreground_mbit"] < 20 and 40 <= ours["ping_p50_ms"] < 90
    assert (tmp_path / "demo.png").read_bytes().startswith(PNG)
    assert "beside tcp_lp:" in err and "beside le:" in err and "Mbit/s" in err  # progress
    assert registered(pin_root) == before


def test_table_and_sparklines_without_utf8(pin_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONIOENCODING", "ascii")
    process = start(tmp_path / "demo.png")
    out, err = process.communicate(timeout=QUICK_S)
    assert process.returncode == 0, err
    rows = [line for line in out.splitlines() if line.startswith(("alone", "beside"))]
    assert len(rows) == 7  # four of the table, three above the sparklines
    assert out.isascii() and max(map(len, out.splitlines())) < 100
    netnice = os.path.relpath(native.NETNICE)  # it ran so, and iperf3 said which controller its socket used
    last = f"The last background was `{netnice} iperf3 ...`. Try it yourself: sudo {netnice} rsync ..."
    assert out.splitlines()[-1] == last
    sparks = [line.split()[1] for line in out.splitlines() if line.startswith(("  foreground ", "  background "))]
    assert [len(spark) for spark in sparks] == [demo.SPARK_COLUMNS] * 6


@pytest.mark.parametrize(
    ("after_s", "number"),
    [
        (0.05, signal.SIGINT),  # Python starts
        (0.6, signal.SIGTERM),  # a controller is being enabled, or the first path made
        (2.0, signal.SIGINT),  # the foreground alone
        (3.9, signal.SIGHUP),  # one path goes, the next is made
        (6.0, signal.SIGTERM),  # beside the default
        (12.0, signal.SIGINT),  # beside tcp_lp, both flows there
        (23.0, signal.SIGTERM),  # the last path goes, or the plot is drawn
    ],
)
def test_interrupted_it_leaves_nothing(pin_root: Path, tmp_path: Path, after_s: float, number: signal.Signals) -> None:
    before = registered(pin_root)
    process = start(tmp_path / "demo.png")
    time.sleep(after_s)
    os.killpg(process.pid, number)  # as a terminal does it: the whole group
    signalled = time.monotonic()
    _, err = process.communicate(timeout=END_S)
    assert time.monotonic() - signalled < END_S
    if process.returncode != 0:  # it was not yet, or no longer, listening: then the signal itself ended it
        assert process.returncode in (128 + number, -number), err
    assert "Traceback" not in err or process.returncode == -number
    assert registered(pin_root) == before


def test_interrupted_until_it_ends_it_still_cleans_up(pin_root: Path, tmp_path: Path) -> None:
    """At any instruction: also while Python ends, when handlers are gone."""
    before = registered(pin_root)
    process = start(tmp_path / "demo.png")
    time.sleep(3)
    end = time.monotonic() + END_S
    while process.poll() is None and time.monotonic() < end:
        os.killpg(process.pid, signal.SIGINT)
        time.sleep(0.002)
    _, err = process.communicate(timeout=END_S)
    assert process.returncode == 130 and "ended by SIGINT; everything that was made is removed" in err, err
    assert registered(pin_root) == before, err


def test_what_a_killed_demo_left_goes_before_the_next_one(
    pin_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CCBPF_PIN_ROOT")  # a demo of its own has a root of its own
    process = start(tmp_path / "demo.png")
    end = time.monotonic() + QUICK_S
    while not cgroups_of_runs() and time.monotonic() < end:
        time.sleep(0.05)
    assert cgroups_of_runs(), "its netnice runs"
    registry.sweep_owned()
    assert set(demo.CONTROLLERS) <= set(demo.available())  # it runs: nobody touches its own
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    native.remove_leftovers()
    registry.sweep_owned()
    registry.require_free()
    assert not list(registry.BPFFS.glob(f"{registry.DEMO}{process.pid}-*"))
    assert not cgroups_of_runs()


@pytest.mark.parametrize("name", demo.CONTROLLERS)
def test_a_controller_that_the_user_enabled_is_used_and_left(pin_root: Path, tmp_path: Path, name: str) -> None:
    assert demo.ccbpf("enable", name).returncode == 0
    try:
        before = registered(pin_root)
        process = start(tmp_path / "demo.png")
        time.sleep(3)
        os.killpg(process.pid, signal.SIGTERM)
        _, err = process.communicate(timeout=END_S)
        assert process.returncode == 143 and f"{name} is enabled already" in err
        assert registered(pin_root) == before
    finally:
        assert demo.ccbpf("disable", name).returncode == 0


# --- where it cannot run ---------------------------------------------------------------------------------------------


REPORT = """{"ok": false, "rows": [{"name": "kernel", "verdict": "ok", "found": "Linux 6.1", "remedy": null},
{"name": "struct_ops links", "verdict": "missing", "found": "no", "remedy": "needs Linux 6.4"}]}"""


@pytest.fixture
def checker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """A ccbpf whose check ends with this code."""

    def make(code: int) -> None:
        path = tmp_path / "ccbpf"
        path.write_text(f"#!/bin/sh\ncat <<'END'\n{REPORT}\nEND\nexit {code}\n")
        path.chmod(0o755)
        monkeypatch.setattr(demo, "CCBPF", path)
        monkeypatch.setattr(sys, "argv", ["demo"])

    return make


def test_a_check_that_fails_is_an_error(checker: Callable[[int], None], capsys: pytest.CaptureFixture[str]) -> None:
    checker(1)
    assert demo.main() == 1
    captured = capsys.readouterr()
    assert "struct_ops links" in captured.err and not captured.out


@pytest.mark.parametrize("code", [3, 4])
def test_it_says_why_it_is_virtual_and_why_that_failed(
    code: int, checker: Callable[[int], None], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def no_qemu(_: object) -> None:
        raise demo_virtual.LabError("no QEMU here")

    checker(code)
    monkeypatch.setattr(demo_virtual, "install", no_qemu)
    assert demo.main() == code
    captured = capsys.readouterr()
    why = "`ccbpf check` says: struct_ops links: no (needs Linux 6.4); so the demo runs in the virtual-time lab"
    assert why in captured.err and "the virtual-time lab failed: no QEMU here" in captured.err and not captured.out


def test_without_capabilities_check_names_them(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    bare = tmp_path / "ccbpf"
    bare.write_text(f'#!/bin/sh\nexec setpriv --bounding-set -all --inh-caps -all {shlex.quote(str(demo.CCBPF))} "$@"\n')
    bare.chmod(0o755)
    monkeypatch.setattr(demo, "CCBPF", bare)
    lack = demo.lack()
    assert lack and lack.code == 4 and "capabilities: lacks cap_bpf" in lack.words


def test_a_missing_build_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(demo, "CCBPF", tmp_path / "ccbpf")
    monkeypatch.setattr(sys, "argv", ["demo"])
    assert demo.main() == 1
    assert "not built; `make all` builds it" in capsys.readouterr().err


# --- in the virtual-time lab -----------------------------------------------------------------------------------------


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the demo makes its temporary files: beside those of nobody else's demo."""
    room = tmp_path / "temporary"
    room.mkdir()
    monkeypatch.setenv("TMPDIR", str(room))
    return room


def test_virtual_it_finds_the_same(tmp_path: Path, temporary: Path) -> None:
    process = start(tmp_path / "demo.png", "--virtual", "--json")
    out, err = process.communicate(timeout=3 * QUICK_S)
    assert process.returncode == 0, err
    outcome = json.loads(out)
    assert outcome["virtual"] and outcome["kernel"].startswith("6.12")
    assert list(outcome["runs"]) == ["alone", f"beside {outcome['default']}", "beside tcp_lp", "beside le"]
    theirs = outcome["runs"][f"beside {outcome['default']}"]
    for name in demo.CONTROLLERS:
        ours = outcome["runs"][f"beside {name}"]
        assert ours["background"] == name and ours["foreground_kept"] > max(KEPT[name], theirs["foreground_kept"])
    assert (tmp_path / "demo.png").read_bytes().startswith(PNG)
    assert "As asked, the demo runs in the virtual-time lab" in err and "virtual s" in err
    assert not list(temporary.iterdir())


@pytest.mark.parametrize("after_s", [1.5, 5.0])  # before the first guest, in one
def test_virtual_and_interrupted_it_leaves_nothing(after_s: float, tmp_path: Path, temporary: Path) -> None:
    process = start(tmp_path / "demo.png", "--virtual")
    time.sleep(after_s)
    os.kill(process.pid, signal.SIGTERM)
    _, err = process.communicate(timeout=END_S)
    assert process.returncode == 143 and "ended by SIGTERM; everything that was made is removed" in err
    assert not list(temporary.iterdir())


def test_only_controllers_of_the_guest_run_there(tmp_path: Path) -> None:
    (tmp_path / "base.cpio").write_bytes(b"usr/lib/modules/6.12/kernel/tcp_bbr.ko\0")
    guest = Guest("6.12", "6.12", tmp_path, {}, ())
    there = [name for name in ("cubic", "reno", "bbr", "brutal") if demo_virtual.controller_in(guest, name)]
    assert there == ["cubic", "reno", "bbr"]


# --- small parts -----------------------------------------------------------------------------------------------------


def test_sparkline_stays_within_its_blocks() -> None:
    assert chart.sparkline([0, 10, 20, 25, -1], 20) == "▁▅██▁"
    assert chart.sparkline([0, 10, 20, 25, -1], 20, chart.ASCII_BLOCKS) == "_=##_"
    assert chart.sparkline([], 20) == ""


@pytest.mark.parametrize(("sysctl", "shown"), [("bbr", "bbr"), ("cubic", "cubic"), ("tcp_lp", "cubic"), ("le", "cubic")])
def test_default_controller(sysctl: str, shown: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "tcp_congestion_control").write_text(f"{sysctl}\n")
    monkeypatch.setattr(demo, "SYSCTL", tmp_path)
    assert demo.default_controller() == shown
