# SPDX-License-Identifier: GPL-2.0-only
"""Flow records as a test writes them into the map, and the same flows as `ss` has them."""

from __future__ import annotations

import ipaddress
import re

from tests.functional import kernel


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
