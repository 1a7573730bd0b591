# SPDX-License-Identifier: GPL-2.0-only
"""What ends in the middle of a download: the window opens at once, and nothing of ours is left. A kill of `ccbpf run`, `reload` and
`disable` do not end it: its command stays in the background."""

from __future__ import annotations

import re
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.cgroups import cgroups_of_runs
from tests.functional import kernel
from tests.functional.conftest import Cli
from tests.functional.rules.background import BACKGROUND, ENDS_S, account
from tests.functional.rules.downloads import RATE_MBIT, Got, Reading, cgroup, received, records
from tests.lab.engine import native

pytestmark = [pytest.mark.quiet, pytest.mark.rerun("a host that stands still is a queue, and a pause of the reader")]

MSS = 1448
RTT_S = 0.07  # with a full queue, as the foreground keeps it
FULL = RATE_MBIT * 1e6 / 8 * 0.02  # bytes: a window that fills the path without a queue
SIZE = 4_000_000
UNDER_WAY = 1_000_000  # bytes


def sender_sees(path: native.Path, port: int) -> int:
    """Bytes: the window that the sender has of the connection from this port."""
    shown = path.command(path.sender, "ss", "-tinH", f"dport = :{port}")
    return int(re.findall(r"snd_wnd:(\d+)", shown)[0])


@contextmanager
def yielding(ccbpf: Cli, path: native.Path) -> Iterator[int]:
    """A foreground, beside which the only download has a window of one segment: its local port."""
    kernel.eventually(lambda: received(ccbpf) > UNDER_WAY, ENDS_S, "the download")
    with subprocess.Popen(Reading(12_000_000, seconds=10).at(path), stdout=subprocess.PIPE) as foreground:

        def port() -> int | None:
            (record,) = records(ccbpf)
            found: int = record["local_port"]
            return found if record["phase"] == "small" and sender_sees(path, found) < 2 * MSS else None

        yield kernel.eventually(port, ENDS_S, "it yields")
        assert foreground.poll() is None, "the foreground was there all the time"
        foreground.kill()
        foreground.communicate(timeout=ENDS_S)


def windows_after(ccbpf: Cli, path: native.Path, port: int, *command: object) -> list[tuple[float, int]]:
    """The windows that the sender sees, by the time in s from the end of this command, until the path is full."""
    ended: list[float] = []
    seen: list[tuple[float, int]] = []

    def end() -> None:
        ccbpf(*command)
        ended.append(time.monotonic())

    thread = threading.Thread(target=end)
    thread.start()
    while not ended or (seen[-1][1] < FULL and time.monotonic() < ended[0] + 20 * RTT_S):
        seen.append((time.monotonic(), sender_sees(path, port)))
    thread.join()
    return [(at - ended[0], window) for at, window in seen]


def kill(ccbpf: Cli, run: subprocess.Popen[str]) -> None:
    """Kills `ccbpf run` in the middle. Its command is left behind, in the background."""
    kernel.eventually(lambda: received(ccbpf) > UNDER_WAY, ENDS_S, "the download")
    run.send_signal(signal.SIGKILL)
    assert run.wait(ENDS_S) == -signal.SIGKILL
    (left,) = ccbpf("-j", "status").json["runs"]
    assert (left["state"], left["processes"]) == ("left behind", 1)


@pytest.mark.parametrize("by", ["clean --all", "clean --all after a kill", "assign remove"])
def test_the_window_opens_at_once(ccbpf: Cli, path: native.Path, by: str) -> None:
    """In two round trips it is eight times as large. The kernel lets a window that may grow grow to about three times in a round trip,
    so from one segment it fills the path in four."""
    words, command = Reading(SIZE).at(path), by.split()[:2]
    with cgroup() as (name, within):
        if by == "assign remove":
            ccbpf("assign", "--download", "--cgroup", name)
            download = subprocess.Popen([*within, *words], stdout=subprocess.PIPE, text=True)
            command.append("1")
        else:
            download = ccbpf.popen("run", "-q", "-d", "--", *words, stdout=subprocess.PIPE)
        if by == "clean --all after a kill":
            kill(ccbpf, download)
        with yielding(ccbpf, path) as port:
            seen = windows_after(ccbpf, path, port, *command)
        out, _ = download.communicate(timeout=40)
    assert max((window for at, window in seen if at < 2 * RTT_S), default=0) >= 8 * MSS, seen
    assert max((window for at, window in seen if at < 5 * RTT_S), default=0) >= FULL, seen
    assert Got.of(out).is_all(SIZE)
    assert not ccbpf.root.exists() and not cgroups_of_runs()


def test_after_a_kill_the_command_ends_in_the_background(ccbpf: Cli, path: native.Path) -> None:
    """Until it ends, or until `clean --all` (above). The next command removes what is left then."""
    run = ccbpf.popen("run", "-q", "-d", "--", *Reading(SIZE).at(path), stdout=subprocess.PIPE)
    kill(ccbpf, run)
    ccbpf("clean")
    (record,) = records(ccbpf)
    assert record["origin"]["by"] == "run" and record["bytes_acked"] < SIZE
    out, _ = run.communicate(timeout=40)
    assert Got.of(out).is_all(SIZE)
    kernel.eventually(lambda: not ccbpf.run("clean").code and not ccbpf.root.exists(), ENDS_S, "nothing is left")
    assert not cgroups_of_runs()


def test_reload_and_disable_do_not_end_it(ccbpf: Cli, path: native.Path) -> None:
    """The controller of what is sent is another matter."""
    run = ccbpf.popen("-j", "run", "--", *Reading(SIZE).at(path), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    kernel.eventually(lambda: received(ccbpf) > UNDER_WAY, ENDS_S, "the download")
    (before,) = records(ccbpf)
    ccbpf("reload", BACKGROUND)
    ccbpf("disable", BACKGROUND)
    (after,) = records(ccbpf)
    assert after["key"] == before["key"] and after["bytes_acked"] > before["bytes_acked"]
    out, err = run.communicate(timeout=40)
    assert Got.of(out).is_all(SIZE)
    counts = account(err)["counts"]
    assert (counts["receivers"], counts["received"]) == (1, SIZE)
    ccbpf("clean")
    assert not ccbpf.root.exists() and not cgroups_of_runs()
