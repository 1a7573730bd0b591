# SPDX-License-Identifier: GPL-2.0-only
"""A command on a terminal of tmux, of any size: keys go in, what is on the screen comes out.

with Tmux(["ccbpf", "top"], 80, 24) as screen:
    screen.until(lambda lines: "q  quit" in lines[-1], "the help")
    screen.keys("q")
    assert screen.ended() == 0
"""

from __future__ import annotations

import itertools
import os
import re
import shlex
from collections.abc import Callable
from pathlib import Path

from tests.functional import kernel

ENDS_S = 10.0
# Two pictures are taken at least this long apart.
STANDS_S = 0.03
# Of the terminal of the tests; readline sets the last two where there is none.
NOT_OURS = {"TMUX", "TMUX_PANE", "COLUMNS", "LINES"}
_counter = itertools.count()


class Tmux:
    """A server of its own, with one window."""

    def __init__(self, words: list[str], width: int, height: int, env: dict[str, str]) -> None:
        self._words, self._size, self._env = words, (width, height), env
        self._name = f"ccbpf-test-{os.getpid()}-{next(_counter)}"

    def _tmux(self, *words: object) -> str:
        env = {name: value for name, value in self._env.items() if name not in NOT_OURS}
        return kernel.run("tmux", "-u", "-f", "/dev/null", "-L", self._name, *words, env=env).stdout

    def __enter__(self) -> Tmux:
        script = f"{shlex.join(self._words)}; code=$?; stty -a; echo ended $code; exec sleep 100"
        width, height = self._size
        self._tmux("new-session", "-d", "-x", width, "-y", height, "sh", "-c", script)
        return self

    def __exit__(self, *_: object) -> None:
        self._tmux("kill-server")

    def keys(self, *keys: str) -> None:
        self._tmux("send-keys", *keys)

    def resize(self, width: int, height: int) -> None:
        self._tmux("resize-window", "-x", width, "-y", height)

    def lines(self, styles: bool = False) -> list[str]:
        return self._tmux("capture-pane", "-p", *(["-e"] if styles else [])).splitlines()

    def until(self, condition: Callable[[list[str]], object], what: str, styles: bool = False) -> list[str]:
        """The lines of the screen, with the escape sequences of their `styles`, as soon as they satisfy it and are the same twice.

        A screen that is being drawn mixes the lines of two pictures.
        """
        last: list[str] = []

        def holds() -> bool:
            before = last[:]
            last[:] = self.lines(styles)
            return bool(last and last == before and condition(last))

        try:
            kernel.eventually(holds, ENDS_S, what, STANDS_S)
        except AssertionError as error:
            raise AssertionError(f"{error}:\n" + "\n".join(last)) from None
        return last

    @property
    def pid(self) -> int:
        """The command's process."""
        shell = int(self._tmux("display-message", "-p", "#{pane_pid}"))

        def child() -> int:
            children = Path(f"/proc/{shell}/task/{shell}/children").read_text().split()
            return int(children[0]) if children else 0

        return int(kernel.eventually(child, ENDS_S, "the command runs"))

    def ended(self) -> int:
        """The command's exit code; its terminal must be as it was before."""
        self.until(lambda lines: any(re.fullmatch(r"ended \d+", line) for line in lines), "it ends")
        lines = self._tmux("capture-pane", "-p", "-S", "-").splitlines()
        modes = {mode.rstrip(";") for mode in " ".join(lines).split()}
        assert {"icanon", "echo", "isig", "icrnl", "onlcr"} <= modes, lines
        screen = self._tmux("display-message", "-p", "#{alternate_on} #{cursor_flag} #{keypad_cursor_flag}")
        assert screen.split() == ["0", "1", "0"]
        (code,) = re.findall(r"^ended (\d+)$", "\n".join(lines), re.M)
        return int(code)
