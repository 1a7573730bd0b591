# SPDX-License-Identifier: GPL-2.0-only
"""What the tests of the pin directory share: what lies in it, and that everything works."""

from __future__ import annotations

from pathlib import Path

from tests.functional import kernel
from tests.functional.conftest import Cli

SHARED = {"flows", "events", "stats", "totals", "unit_totals", "rule_totals", "ruled", "listener"}
OWN = {"tcp_lp", "tcp_lp/link", "tcp_lp/params", "tcp_lp/identity"}
SYSCTL = Path("/proc/sys/net/ipv4/tcp_congestion_control")
ECN = Path("/proc/sys/net/ipv4/tcp_ecn")


def pin_a_map(path: Path, value_size: int = 4) -> None:
    """A map that is not ccbpf's, at a path."""
    kernel.run("bpftool", "map", "create", path, "type", "array", "key", 4, "value", value_size, "entries", 1, "name", "x")


def assert_works(ccbpf: Cli) -> None:
    """From this state everything works, and leaves nothing behind."""
    ccbpf("enable", "tcp_lp")
    assert ccbpf.names() >= SHARED | OWN
    assert ccbpf.status()["tcp_lp"]["state"] == "enabled"
    ccbpf("disable", "tcp_lp")
    assert "tcp_lp" not in kernel.available()
