# SPDX-License-Identifier: GPL-2.0-only
"""`ccbpf top` on a screen, and flows that a test makes up for it."""

from __future__ import annotations

import ipaddress
import re
import struct
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.functional import kernel
from tests.functional.conftest import Cli
from tests.functional.records import record
from tests.functional.tmux import Tmux

ENDED = re.compile(r"ended \d+ s ago")
NO_COOKIE = 1 << 40  # a key from here on is of no socket, which would give it an owner: cookies are counted from 1


def put(flows: kernel.Map, key: int, **fields: Any) -> None:
    """Writes a record with the present time."""
    address = ipaddress.ip_address(fields.pop("remote", f"192.0.2.{key % 250}"))
    fields = {"started_ns": key, "remote_addr": address, "local_addr": ipaddress.ip_address("192.0.2.251"), "local_port": 40000,
              "remote_port": key, "updated_ns": time.monotonic_ns(), "phase": 1} | fields  # fmt: skip
    flows.update(struct.pack("=Q", key), record(**fields))


def remove(flows: kernel.Map, key: int) -> None:
    flows.delete(struct.pack("=Q", key))


@contextmanager
def shown(cli: Cli, width: int = 80, height: int = 24, *words: str, **env: str) -> Iterator[Tmux]:
    """Grouped by controller if `words` do not say otherwise: nobody holds the flows that a test makes up."""
    by = () if "--group" in words else ("--group", "controller")
    with Tmux([str(cli.command), "top", "--watch", "0.25", *by, *words], width, height, cli.env() | env) as screen:
        screen.until(lambda lines: lines[0].startswith("ccbpf top: "), "the first screen")
        yield screen


def rows(lines: list[str]) -> list[str]:
    """The remote addresses of the live flows, and the names of the groups, in order."""
    live = [line for line in lines[3:] if not ENDED.search(line)]
    found = [re.findall(r"^[-+] (.+?): |(\d+\.\d+\.\d+\.\d+):\d+", line) for line in live]
    return [group or address for *_, (group, address) in filter(None, found)]
