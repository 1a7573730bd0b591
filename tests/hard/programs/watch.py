# SPDX-License-Identifier: GPL-2.0-only
"""What `ss` of iproute2 shows of a namespace's connections while a program runs: no command of ours is used."""

from __future__ import annotations

import re
import threading
from collections import defaultdict

from tests.functional import kernel

EVERY_S = 0.02


def connections(*words: str) -> list[tuple[int, int, str]]:
    """Local port, remote port and controller of the established connections; `words` choose the namespace."""
    shown = kernel.run(*words, "ss", "-tinHO", "state", "established").stdout
    pattern = r"^\d+\s+\d+\s+\S+:(\d+)\s+\S+:(\d+)\s.*?(\S+) wscale:"
    return [(int(local), int(remote), name) for local, remote, name in re.findall(pattern, shown, re.M)]


class Watch:
    """Looks again and again, until the block ends."""

    def __init__(self, *namespaces: kernel.Namespace) -> None:
        self._namespaces = namespaces
        self._seen: dict[tuple[str, int, int], list[str]] = defaultdict(list)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)

    def _look(self) -> None:
        while not self._stop.wait(EVERY_S):
            for namespace in self._namespaces:
                for local, remote, name in connections("ip", "netns", "exec", namespace.name):
                    self._seen[namespace.name, local, remote].append(name)

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(kernel.COMMAND_S)

    def controllers(self, namespace: kernel.Namespace, local: int = 0, remote: int = 0) -> set[str]:
        """The last controller seen of each connection of the namespace with this local and remote port (0: any)."""
        return {
            names[-1]
            for (name, here, there), names in self._seen.items()
            if name == namespace.name and local in (0, here) and remote in (0, there)
        }
