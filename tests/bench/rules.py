# SPDX-License-Identifier: GPL-2.0-only
"""What standing rules cost: nanoseconds of their program for each end of a connection, and how often it is called.

An exempt connection pays for the search alone. One that is set also pays for the kernel's change to the controller, within the
program: the old one's end and the new one's begin. The connections are on loopback, where both ends are this host's. Their remote address is in one of the prefixes, which all
candidates share, and the rule that matches is found in the same way however many rules there are. A long connection carries
thousands of packets more than a short one: the same number of calls says that packets cost nothing.
"""

from __future__ import annotations

import json
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

Load = tuple[str, int, int]  # what the rules give, prefixes and cgroups besides the rule that matches
LOADS: dict[str, Load] = {
    "one rule, exempt": ("not", 0, 0),
    "1 201 rules, exempt": ("not", 1000, 200),
    "1 201 rules, set": ("tcp_lp", 1000, 200),
}
CONNECTIONS = 300
LONG, LONG_BYTES = 3, 50_000_000
SERVER, CLIENT = "127.77.0.1", "127.77.0.2"  # in the prefix of many.c that matches
DEFAULT = Path("/proc/sys/net/ipv4/tcp_congestion_control")

Spent = tuple[float, float]  # per end of a connection: ns, calls


def spent(link: Path) -> tuple[int, int]:
    """ns and calls of the program of a link, while kernel.bpf_stats_enabled was 1."""
    said = subprocess.run(["bpftool", "-j", "link", "show", "pinned", str(link)], capture_output=True, text=True).stdout
    shown = subprocess.run(
        ["bpftool", "-j", "prog", "show", "id", str(json.loads(said)["prog_id"])], capture_output=True, text=True, check=True
    ).stdout
    program = json.loads(shown)
    return program.get("run_time_ns", 0), program.get("run_cnt", 0)


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
    """From one end to the other."""
    buffer = bytes(1 << 16)
    near.setblocking(False)
    left = size
    while size:
        with suppress(BlockingIOError):
            left -= near.send(buffer[:left]) if left else 0
        size -= len(far.recv(1 << 20))


def per_end(link: Path, controller: str, connections: int, size: int) -> Spent:
    """Of connections that carry so many bytes."""
    wanted = DEFAULT.read_text().strip() if controller == "not" else controller
    with socket.create_server((SERVER, 0)) as server:
        ns, calls = spent(link)
        for _ in range(connections):
            with connection(server) as ends:
                for end in ends:
                    require(end, wanted)
                send(*ends, size)
        now_ns, now_calls = spent(link)
    return (now_ns - ns) / (2 * connections), (now_calls - calls) / (2 * connections)


def measure(ccbpf: Path, many: Path, pins: Path) -> dict[str, Spent]:
    """One round: the rules are loaded anew for each."""
    found: dict[str, Spent] = {}
    link = pins / "rules/link"
    for name, (controller, prefixes, cgroups) in LOADS.items():
        subprocess.run([str(many), controller, str(prefixes), str(cgroups)], check=True)
        try:
            found[name] = per_end(link, controller, CONNECTIONS, 1)
            found[f"{name}, long"] = per_end(link, controller, LONG, LONG_BYTES)
        finally:
            subprocess.run([str(ccbpf), "assign", "remove", "--all"], check=True, stdout=subprocess.DEVNULL)
    return found
