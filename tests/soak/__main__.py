# SPDX-License-Identifier: GPL-2.0-only
"""`make soak FOR=30m`: connections, commands ten at once, and kills, until the time is over.

A round is ten commands at once and one that is killed, over traffic that never stops. Every minute it pauses: all
connections end, `clean --all` must leave nothing, and the kernel's objects and memory are checked. It prints one line. The
soak fails if a command fails, an object of ours is left, memory grows, or the kernel warns; it prints each failure at once.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from tests import registry
from tests.duration import duration_s
from tests.functional import kernel
from tests.functional.conftest import BPFFS, Cli
from tests.soak import health
from tests.soak.commands import DEVICE, Commands
from tests.soak.traffic import STAYING, Traffic

MINUTE_S = 60.0
RELEASE_S = 60.0  # the kernel frees programs after RCU grace periods, on a busy machine late
MOST_FAILURES = 20  # then it ends early
LINK = ["tbf", "rate", "200mbit", "burst", "64kb", "limit", "300000"]


def clock(seconds: float) -> str:
    minutes, s = divmod(round(seconds), 60)
    hours, m = divmod(minutes, 60)
    return f"{hours}:{m:02}:{s:02}" if hours else f"{m}:{s:02}"


class Soak:
    """The state of one run."""

    def __init__(self, traffic: Traffic, commands: Commands, seconds: float) -> None:
        self.traffic, self.commands = traffic, commands
        self.health = health.Health()
        self.begun_s = time.monotonic()
        self.end_s = self.begun_s + seconds
        self.rounds = 0
        self.failures: list[str] = []
        self.sysctls = self._sysctls()

    def _sysctls(self) -> str:
        return self.traffic.near.run("sysctl", "net.ipv4.tcp_congestion_control", "net.ipv4.tcp_ecn").stdout

    def fail(self, what: str) -> None:
        self.failures.append(what)
        print(f"{clock(time.monotonic() - self.begun_s):>8}  FAILED: {what}", flush=True)

    def guard(self, step: Callable[[], object]) -> None:
        """Notes a failed assertion as a failure; the soak goes on."""
        try:
            step()
        except (AssertionError, OSError, ValueError, subprocess.SubprocessError) as error:
            self.fail(f"{error or error!r}")

    def round(self) -> None:
        self.commands.many_at_once()
        self.commands.kill_one()
        shown = json.loads(self.commands.run("-j status"))["controllers"]
        strange = [c["name"] for c in shown if c["state"] not in ("enabled", "draining", "stale")]
        assert not strange, f"after a kill `status` shows {strange} as neither enabled, draining nor stale"
        self.rounds += 1

    def rest(self) -> None:
        """Nothing of ours is left: no pin, no name, no object, no changed sysctl."""
        self.traffic.rest()
        self.commands.nothing()
        assert not self.commands.cli.root.exists(), f"`clean --all` left {sorted(self.commands.cli.names())}"
        assert self._sysctls() == self.sysctls, f"`clean --all` left {self._sysctls().split()}, before {self.sysctls.split()}"
        kernel.eventually(lambda: not set(kernel.KINDS) & kernel.available(), RELEASE_S, "the controllers are gone")
        kernel.eventually(lambda: not any(self.health.left().values()), RELEASE_S, f"objects are freed: {self.health.left()}",
                          every_s=0.5)  # fmt: skip

    def begin(self) -> None:
        """Enables everything once, to learn what our objects look like. Memory is compared only from here on."""
        self.commands.everything()
        self.health.learn()
        self.guard(self.rest)

    def minute(self) -> None:
        self.commands.everything()
        self.traffic.start()
        until_s = min(time.monotonic() + MINUTE_S, self.end_s)
        while time.monotonic() < until_s and len(self.failures) < MOST_FAILURES:
            self.guard(self.round)
            for found in (self.commands.failures, self.traffic.errors):
                while found:
                    self.fail(found.pop(0))
        self.guard(self.rest)
        for line in self.health.warnings():
            self.fail(f"the kernel warns: {line}")
        self.line()

    def line(self) -> None:
        look, commands = self.health.look(), self.commands
        left = "/".join(str(n) for n in look.left.values())
        print(f"{clock(time.monotonic() - self.begun_s):>8} {self.rounds:>7} {self.traffic.connections:>12} {commands.done:>9}"
              f" {commands.killed:>7} {left:>9} {look.kernel_mb:>10.1f} {look.available_mb:>13.0f} {len(self.failures):>7}",
              flush=True)  # fmt: skip

    def run(self) -> None:
        print(f"{'time':>8} {'rounds':>7} {'connections':>12} {'commands':>9} {'killed':>7} {'BPF left':>9} {'kernel MB':>10}"
              f" {'available MB':>13} {'failed':>7}", flush=True)  # fmt: skip
        while time.monotonic() < self.end_s and len(self.failures) < MOST_FAILURES:
            self.minute()

    def verdict(self) -> int:
        growth = self.health.growth_mb()
        if growth > health.FLAT_MB:
            self.fail(f"the kernel's memory grew by {growth:.1f} MB, more than {health.FLAT_MB:g} MB: something piles up")
        if len(self.failures) >= MOST_FAILURES:
            print(f"soak: ended early, after {MOST_FAILURES} failures", file=sys.stderr)
        print(f"{self.rounds} rounds, {self.traffic.connections} connections, {self.commands.done} commands, "
              f"{self.commands.killed} killed, {len(self.failures)} failures; kernel memory {growth:+.1f} MB", flush=True)  # fmt: skip
        return 1 if self.failures or not self.rounds else 0


def soak(seconds: float, seed: int) -> int:
    with registry.held(), kernel.joined() as (near, far), tempfile.TemporaryDirectory(prefix="ccbpf-soak.") as directory:
        if not os.path.ismount(BPFFS):
            kernel.run("mount", "-t", "bpf", "-o", "mode=0700", "bpf", BPFFS)
        near.run("tc", "qdisc", "add", "dev", DEVICE, "root", *LINK)
        root = registry.session_pins("soak")
        commands = Commands(Cli(root), near.name, random.Random(seed), Path(directory))
        traffic = Traffic(near, far, seed)
        try:
            run = Soak(traffic, commands, seconds)
            try:
                run.begin()
                run.run()
            except KeyboardInterrupt:
                print("soak: interrupted; cleaning up", file=sys.stderr)
            return run.verdict()
        finally:
            traffic.close()
            commands.nothing()


def main() -> int:
    parser = argparse.ArgumentParser(prog="make soak", description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--for", dest="seconds", type=duration_s, default="30m", help="how long: 90s, 30m (the default), 24h, 2d")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32), help="repeats the random draws")
    arguments = parser.parse_args()
    if os.geteuid():
        print("soak: it registers controllers and makes namespaces: run it as root (`sudo make soak`)", file=sys.stderr)
        return 1
    if not Path("/dev/kmsg").exists():
        print("soak: no /dev/kmsg, so no warning of the kernel would be seen; run it outside of a container", file=sys.stderr)
        return 1
    print(f"soak for {clock(arguments.seconds)}, {STAYING} connections that stay and short ones beside them; "
          f"seed {arguments.seed} (SEED={arguments.seed} repeats it). A line each minute; Ctrl-C ends it tidily.", flush=True)  # fmt: skip
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        return soak(arguments.seconds, arguments.seed)
    except KeyboardInterrupt:
        print("soak: interrupted before it began", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
