# SPDX-License-Identifier: GPL-2.0-only
"""Commands of a soak: ten at once, and one that is killed. Units lie in a directory of the soak, and files of `apply`."""

from __future__ import annotations

import random
import signal
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path

from tests.functional import kernel
from tests.functional.conftest import Cli

AT_ONCE = 10
LONGEST_S = 120.0
LONGEST_LIFE_S = 0.2  # of a command that is killed, drawn evenly
FINE = (0, 5)  # done; nothing was done: another command was faster
DEVICE = "veth0"
TO = "10.77.0.2"  # the soak's connections, from its own namespace
FILES = {
    "a.toml": '[controller.tcpw_lp]\n[[rule]]\ncontroller = "tcpw_lp"\nremote = "198.51.100.0/24"\n',
    "b.toml": '[controller.nf_tcp]\nset.alpha = 300\n[[rule]]\ndownload = true\nremote = "198.51.100.0/24"\n',
}
HIDE = ("unshare", "--mount", "sh", "-euc", 'mount --bind "$0" /etc/systemd/system; exec "$@"')

READING = ["list", "status", "-j status", "flows", "-j flows", "check", "trace --for 0.2", f"aqm show {DEVICE}", "help set",
           f"renice tcp_lp --dry-run --dst {TO}", "apply --dry-run a.toml", "systemd soak --print"]  # fmt: skip
CHANGING = [
    "enable tcp_lp", "enable tcp_lp tcp_lp_ecn nf_tcp", "enable hstcp_lp tcpw_lp ltcp", "enable tcp_lp_ecn --default --ecn",
    "disable tcp_lp", "disable --all", "reload tcp_lp", "reload nf_tcp", "set tcp_lp delta=300", "set nf_tcp alpha=400", "clean",
    "run -q true", "run -q nf_tcp true", "assign --remote 192.0.2.0/24", "assign nf_tcp --remote 192.0.2.1", "assign remove --all",
    f"renice tcp_lp --dst {TO}", f"renice reno --dst {TO}", f"renice --download --dst {TO}", f"renice --download --off --dst {TO}",
    "apply a.toml", "apply b.toml", "systemd soak nf_tcp", "systemd soak -d", "systemd soak --remove", "systemd --all",
    f"gateway attach {DEVICE}", f"gateway detach {DEVICE}",
    f"aqm attach {DEVICE}", f"aqm attach {DEVICE} --nf-min 2", f"aqm set {DEVICE} --nf-min 3", f"aqm detach {DEVICE}",
]  # fmt: skip
EVERYTHING = f"enable {' '.join(kernel.KINDS)}", f"aqm attach {DEVICE}"


@dataclass
class Commands:
    """Runs them in one namespace, with a separate pin directory, in a directory that they may write; notes failures."""

    cli: Cli
    namespace: str
    dice: random.Random
    directory: Path
    failures: list[str] = field(default_factory=list)
    done: int = 0
    killed: int = 0

    def __post_init__(self) -> None:
        (self.directory / "units").mkdir()
        for name, text in FILES.items():
            (self.directory / name).write_text(text)
            (self.directory / name).chmod(0o644)

    def _start(self, words: str) -> subprocess.Popen[str]:
        prefix = (*HIDE, str(self.directory / "units")) if words.startswith("systemd") else ()
        with kernel.inside(self.namespace):
            return self.cli.popen(*words.split(), prefix=prefix, cwd=self.directory, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                  stdin=subprocess.DEVNULL)  # fmt: skip

    def _end(self, words: str, process: subprocess.Popen[str], codes: tuple[int, ...]) -> str:
        self.done += 1
        try:
            out, err = process.communicate(timeout=LONGEST_S)
        except subprocess.TimeoutExpired:
            process.kill()
            out, err = process.communicate()
            err = f"did not end within {LONGEST_S:.0f} s. {err}"
        if process.returncode not in codes:
            self.failures.append(f"`ccbpf {words}` ended with {process.returncode}: {err.strip() or out.strip()}")
        return out

    def run(self, words: str, codes: tuple[int, ...] = (0,)) -> str:
        return self._end(words, self._start(words), codes)

    def many_at_once(self) -> None:
        """Three of ten change something, so that controllers are enabled most of the time. The others all differ, because only one
        `trace` at a time gets the events."""
        lines = self.dice.choices(CHANGING, k=3) + self.dice.sample(READING, AT_ONCE - 3)
        self.dice.shuffle(lines)
        for words, process in [(words, self._start(words)) for words in lines]:
            self._end(words, process, FINE)

    def kill_one(self) -> None:
        words = self.dice.choice(CHANGING)
        process = self._start(words)
        time.sleep(self.dice.uniform(0, LONGEST_LIFE_S))
        process.kill()
        self._end(words, process, (*FINE, -signal.SIGKILL))
        self.killed += process.returncode == -signal.SIGKILL

    def everything(self) -> None:
        """Enables everything, whatever the commands before have left."""
        for words in EVERYTHING:
            self.run(words, FINE)

    def nothing(self) -> None:
        self.run("clean --all")
