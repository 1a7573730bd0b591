# SPDX-License-Identifier: GPL-2.0-only
"""Flow records as a test writes them into the map, and the same flows as `ss` has them."""

from __future__ import annotations

import ipaddress
import re
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from tests.functional import kernel
from tests.functional.conftest import Cli

PUBLISHED_NS = 10 * 10**6  # a record is written at most once in 9 ms


@contextmanager
def flows_of(cli: Cli) -> Iterator[kernel.Map]:
    """Its map of flows; what the test leaves in it is removed."""
    flows = kernel.Map.by_pin(cli.root / "flows")
    yield flows
    for key in flows:
        with suppress(FileNotFoundError):  # a real one, whose connection has just ended
            flows.delete(key)
    flows.close()


def settle(cli: Cli, *socks: socket.socket) -> None:
    """Waits until all is acknowledged, and until the records are so old that the next ACK is published at once."""
    flows = kernel.Map.by_pin(cli.root / "flows")

    def settled() -> bool:
        written = [kernel.decode("ccbpf_flow", value).updated_ns for key in flows if (value := flows.lookup(key))]
        return time.monotonic_ns() - max(written) > PUBLISHED_NS and all(not kernel.tcp_info(sock).unacked for sock in socks)

    kernel.eventually(settled, 5, "nothing is on its way")
    flows.close()


def record(**fields: object) -> bytes:
    """A struct ccbpf_flow."""
    flow = kernel.ffi.new("struct ccbpf_flow *")
    for name, value in ({"kind": 1, "controller": b"tcp_lp", "family": 2} | fields).items():
        if isinstance(value, (ipaddress.IPv4Address, ipaddress.IPv6Address)):
            kernel.ffi.memmove(getattr(flow, name), value.packed, len(value.packed))
        else:
            setattr(flow, name, value)
    return bytes(kernel.ffi.buffer(flow))


def ss(namespace: kernel.Namespace, port: int) -> dict[int, dict[str, int]]:
    """`ss -ti` of the connections to a port, by their local port: cwnd, bytes_acked, retransmits, rtt_us."""
    found = {}
    for line in namespace.run("ss", "-tinHO", "dport", "=", f":{port}").stdout.splitlines():
        numbers = {
            "cwnd": r"\bcwnd:(\d+)",
            "bytes_acked": r"\bbytes_acked:(\d+)",
            "retransmits": r"\bretrans:\d+/(\d+)",
        }
        row = {name: int(m[1]) if (m := re.search(pattern, line)) else 0 for name, pattern in numbers.items()}
        rtt = re.search(r"\brtt:([\d.]+)/", line)
        local = re.search(r":(\d+) +\S+:\d+ ", line)
        assert rtt and local, line
        found[int(local[1])] = row | {"srtt_us": round(float(rtt[1]) * 1000)}
    return found
