# SPDX-License-Identifier: GPL-2.0-only
"""What the command costs: `ccbpf enable`; with many flows `flows`, `metrics` and `top`, in batches and on a screen."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import resource
import socket
import subprocess
import termios
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.bench.shell import CCBPF, say, sh
from tests.cost import cost_of

FLOWS = 10_000


def timed(*arguments: str) -> float:
    """Milliseconds of wall clock."""
    start = time.monotonic()
    sh(*arguments)
    return (time.monotonic() - start) * 1e3


def enable_ms() -> list[float]:
    say("enable, 10 times")
    times = []
    for _ in range(10):
        times.append(timed(str(CCBPF), "enable", "tcp_lp"))
        sh(str(CCBPF), "disable", "tcp_lp")
    return times


@contextlib.contextmanager
def many_flows(count: int) -> Iterator[None]:
    """count sockets under tcp_lp by a rule: both ends of count / 2 connections on a network of the loopback."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (2 * count, 2 * count))
    near, far, prefix = "127.88.0.1", "127.88.0.2", "127.88.0.0/16"
    rule = json.loads(sh(str(CCBPF), "-j", "assign", "tcp_lp", "--remote", prefix))["rule"]
    with contextlib.ExitStack() as stack:
        stack.callback(sh, str(CCBPF), "assign", "remove", str(rule["id"]))
        listener = stack.enter_context(socket.create_server((far, 0), backlog=512))
        for _ in range(count // 2):
            stack.enter_context(socket.create_connection(listener.getsockname(), source_address=(near, 0)))
            stack.enter_context(listener.accept()[0])
        yield


PERIOD_S = 0.25  # of top: the map is sampled twice, before and after it


def command_cost(*arguments: str, waits_s: float = 0) -> tuple[float, float]:
    """Milliseconds of wall clock without the waiting time, and the largest memory in MB."""
    took_ms, mb = cost_of(str(CCBPF), *arguments)
    return took_ms - waits_s * 1e3, mb


def screen_percent(seconds: float = 10) -> float:
    """Percent of a core that the screen of `ccbpf top` takes, once it is there."""
    terminal, screen = pty.openpty()
    termios.tcsetwinsize(screen, (24, 80))
    words = [str(CCBPF), "top", "--for", str(seconds + 2)]
    with subprocess.Popen(words, stdin=screen, stdout=screen, env={**os.environ, "TERM": "xterm"}) as top:
        os.close(screen)
        threading.Thread(target=drain, args=(terminal,)).start()
        time.sleep(1)
        began, spent = time.monotonic(), cpu_s(top.pid)
        time.sleep(seconds)
        spent, took = cpu_s(top.pid) - spent, time.monotonic() - began
    if top.returncode:
        raise RuntimeError("ccbpf top: the screen failed")
    return 100 * spent / took


def drain(terminal: int) -> None:
    """Reads it until nobody writes to it any more."""
    with contextlib.suppress(OSError):
        while os.read(terminal, 1 << 16):
            pass
    os.close(terminal)


def cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def with_many_flows() -> dict[str, Any]:
    """Each command in turn, ten times, and the screen."""
    say(f"flows, metrics and top, with {FLOWS} flows")
    batch = ("top", "-b", "--count", "1", "--watch", str(PERIOD_S))
    commands = {
        "flows": (("-j", "flows"), 0.0),
        "metrics": (("metrics",), 0.0),
        **{f"top -b --group {by}": ((*batch, "--group", by), PERIOD_S) for by in ("controller", "cgroup", "process", "tree")},
    }
    with many_flows(FLOWS):
        flows = json.loads(sh(str(CCBPF), "-j", "top", "-b", "--count", "1", "--group", "process"))["flows"]
        known = sum(flow["group"] is not None for flow in flows)
        if known < FLOWS:
            raise RuntimeError(f"ccbpf top shows {len(flows)} of {FLOWS} flows, {known} with their process")
        rounds = [{name: command_cost(*words, waits_s=waits) for name, (words, waits) in commands.items()} for _ in range(10)]
        screen = [screen_percent() for _ in range(3)]
    return {"commands": {name: [of[name] for of in rounds] for name in commands}, "screen_percent": screen}
