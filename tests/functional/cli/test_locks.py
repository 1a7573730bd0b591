# SPDX-License-Identifier: GPL-2.0-only
"""Many ccbpf at once: they wait for each other, and leave complete state."""

from __future__ import annotations

import fcntl
import os
import random
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager

from tests import registry
from tests.functional.cli.pins import assert_works
from tests.functional.conftest import Cli


@contextmanager
def held(ccbpf: Cli, mode: int) -> Iterator[None]:
    ccbpf.root.mkdir(exist_ok=True)
    fd = os.open(ccbpf.root, os.O_RDONLY | os.O_DIRECTORY)
    fcntl.flock(fd, mode)
    yield
    os.close(fd)


def test_a_held_lock_is_waited_for(ccbpf: Cli) -> None:
    with held(ccbpf, fcntl.LOCK_EX):
        waiting = [ccbpf.popen(*words, stdout=subprocess.PIPE) for words in (["enable", "tcp_lp"], ["status"])]
        time.sleep(0.3)  # long enough for both to reach the lock
        assert [process.poll() for process in waiting] == [None, None]
    assert [process.wait(20) for process in waiting] == [0, 0]


def test_readers_read_together(ccbpf: Cli) -> None:
    ccbpf("enable", "tcp_lp")
    with held(ccbpf, fcntl.LOCK_SH):
        assert ccbpf.status()["tcp_lp"]["state"] == "enabled"


def test_a_lock_held_for_long_names_its_holder(hooks: Cli) -> None:
    """A lock that passes from process to process is waited for: the holder after ten seconds is not the earlier one."""
    turns = Cli(registry.hook_pins("turns"))
    turns.root.mkdir()
    hands = [subprocess.Popen(["flock", turns.root, "sleep", "6"]) for _ in range(2)]
    waiting = turns.popen("set", "tcp_lp", "delta=100", stderr=subprocess.PIPE)
    with held(hooks, fcntl.LOCK_EX):
        start = time.monotonic()
        result = hooks("enable", "tcp_lp", code=1)
        assert 9 < time.monotonic() - start < 15
    assert f"process {os.getpid()}, holds its lock (waited 10 s)" in result.err
    assert f"if it hangs, `kill {os.getpid()}`" in result.err
    _, err = waiting.communicate(timeout=20)
    assert (waiting.returncode, "it is not enabled" in err) == (5, True), err
    assert [hand.wait() for hand in hands] == [0, 0]


def test_many_at_once_end_consistently(ccbpf: Cli) -> None:
    words = [
        ["enable", "tcp_lp"],
        ["disable", "tcp_lp"],
        ["reload", "tcp_lp"],
        ["status"],
        ["clean"],
        ["set", "tcp_lp", "delta=100"],
        ["enable", "tcp_lp", "tcp_lp_ecn"],
        ["disable", "--all"],
        ["flows"],
    ]
    chooser = random.Random(1)
    for _ in range(4):
        running = [
            (w, ccbpf.popen(*w, stdout=subprocess.PIPE, stderr=subprocess.PIPE))
            for w in (chooser.choice(words) for _ in range(25))
        ]
        for w, process in running:
            out, err = process.communicate(timeout=60)
            assert process.returncode in (0, 5), (w, out, err)
    for name in ccbpf.status():
        assert ccbpf.status()[name]["state"] == "enabled"
    ccbpf.run("disable", "--all")
    assert_works(ccbpf)
    assert not ccbpf.root.exists()


def test_of_many_enables_one_wins(ccbpf: Cli) -> None:
    running = [ccbpf.popen("enable", "tcp_lp", stdout=subprocess.PIPE, stderr=subprocess.PIPE) for _ in range(10)]
    codes = sorted(process.wait(60) for process in running)
    for process in running:
        process.communicate()
    assert codes == [0] + [5] * 9
