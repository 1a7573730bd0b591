# SPDX-License-Identifier: GPL-2.0-only
"""What standing rules cost: nanoseconds of their program for each end of a connection, and how often it is called.

The cost is that above a yardstick (sockops.bpf.c) which is attached in the place of the rules in the same round: for an exempt
connection a program that does nothing, since reading the clock for bpf_stats costs more than such a program, and it is called
for other reasons too; for one that is set, a program that sets the same controller without a look at the connection, since the
kernel's change of the controller, the old one's end and the new one's beginning, is part of both.

The connections are on loopback, where both ends are this host's. Their remote address is in one of the prefixes, which have nine
lengths (tests/functional/rules/many.c). The bench's cgroup is known from its first connection on, and what that one costs does not show
among 300. A long connection carries thousands of packets more than a short one: the same number of calls says that packets cost nothing.
"""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from tests.cgroups import MOUNT

DEFAULT = Path("/proc/sys/net/ipv4/tcp_congestion_control")
Load = tuple[str, int, int, *tuple[str, ...]]  # what the rules do; prefixes and cgroups besides the rule that matches; its --from
LOADS: dict[str, Load] = {
    "one rule, exempt": ("not", 0, 0),
    "1 201 rules, exempt": ("not", 1000, 200),
    "1 201 rules, exempt, by controller": ("not", 1000, 200, DEFAULT.read_text().strip()),
    "1 201 rules, set": ("tcp_lp", 1000, 200),
}
YARDSTICKS = {"not": "sockops_empty", "tcp_lp": "sockops_set"}  # programs of sockops.bpf.c, for what the rules give
PROGRAMS = Path("/sys/fs/bpf/ccbpf-bench")  # where these are pinned
CONNECTIONS = 300
LONG, LONG_BYTES = 3, 50_000_000
SERVER, CLIENT = "127.77.0.1", "127.77.0.2"  # in the prefix of many.c that matches

Spent = tuple[float, float]  # per end of a connection: ns, calls


def bpftool(*words: str, check: bool = True) -> dict[str, Any]:
    said = subprocess.run(["bpftool", "-j", *words], capture_output=True, text=True, check=check).stdout
    return dict(json.loads(said or "null") or {})


def spent(program: int | str) -> tuple[int, int]:
    """ns and calls of the program with this id or name, while kernel.bpf_stats_enabled was 1."""
    shown = bpftool("prog", "show", "name" if isinstance(program, str) else "id", str(program))
    return shown.get("run_time_ns", 0), shown.get("run_cnt", 0)


@contextmanager
def ruled(ccbpf: Path, many: Path, pins: Path, load: Load) -> Iterator[int]:
    """Adds its rules; yields the id of their program."""
    subprocess.run([str(many), *map(str, load)], check=True)
    try:
        link = bpftool("link", "show", "pinned", str(pins / "rules/link"), check=False)  # it fails after it has told
        yield int(link["prog_id"])
    finally:
        subprocess.run([str(ccbpf), "assign", "remove", "--all"], check=True, stdout=subprocess.DEVNULL)


@contextmanager
def pinned_programs(programs: Path) -> Iterator[Path]:
    """The programs of sockops.bpf.c; the folder of their pins."""
    subprocess.run(["bpftool", "prog", "loadall", str(programs), str(PROGRAMS)], check=True)
    try:
        yield PROGRAMS
    finally:
        shutil.rmtree(PROGRAMS)


@contextmanager
def yardstick(programs: Path, name: str) -> Iterator[int]:
    """Attaches it; yields the id of the program."""
    with pinned_programs(programs) as pins:
        pinned = ("pinned", str(pins / name))
        bpftool("cgroup", "attach", str(MOUNT), "sock_ops", *pinned, "multi")
        try:
            yield int(bpftool("prog", "show", *pinned)["id"])
        finally:
            bpftool("cgroup", "detach", str(MOUNT), "sock_ops", *pinned)


@contextmanager
def connection(server: socket.socket) -> Iterator[tuple[socket.socket, socket.socket]]:
    with (
        socket.create_connection(server.getsockname(), source_address=(CLIENT, 0)) as near,
        server.accept()[0] as far,
    ):
        yield near, far


def require(end: socket.socket, wanted: str) -> None:
    name = end.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16).split(b"\0")[0].decode()
    if name != wanted:
        raise RuntimeError(f"a connection that should have {wanted} by its rule has {name}")


def send(near: socket.socket, far: socket.socket, size: int) -> None:
    """Sends the bytes from one end to the other."""
    buffer = bytes(1 << 16)
    near.setblocking(False)
    left = size
    while size:
        with suppress(BlockingIOError):
            left -= near.send(buffer[:left]) if left else 0
        size -= len(far.recv(1 << 20))


def per_end(program: int, controller: str, connections: int, size: int) -> Spent:
    """The cost for connections that carry this many bytes."""
    wanted = DEFAULT.read_text().strip() if controller == "not" else controller
    with socket.create_server((SERVER, 0)) as server:
        ns, calls = spent(program)
        for _ in range(connections):
            with connection(server) as ends:
                for end in ends:
                    require(end, wanted)
                send(*ends, size)
        now_ns, now_calls = spent(program)
    return (now_ns - ns) / (2 * connections), (now_calls - calls) / (2 * connections)


def measure(ccbpf: Path, many: Path, programs: Path, pins: Path) -> dict[str, Spent]:
    """One round: the rules are loaded anew for each. ns are those above the yardstick."""
    found: dict[str, Spent] = {}
    bare: dict[str, float] = {}
    for controller, name in YARDSTICKS.items():
        with yardstick(programs, name) as program:
            found[name] = per_end(program, controller, CONNECTIONS, 1)
            bare[controller] = found[name][0]
    for name, load in LOADS.items():
        with ruled(ccbpf, many, pins, load) as program:
            ns, calls = per_end(program, load[0], CONNECTIONS, 1)
            found[name] = (ns - bare[load[0]], calls)
            found[f"{name}, long"] = per_end(program, load[0], LONG, LONG_BYTES)
    return found
