# SPDX-License-Identifier: GPL-2.0-only
"""How many instructions the verifier of this kernel examines for each program. It refuses more than a million, another compiler
or kernel can need three times as many for the same source, and each command that loads the program waits for the verifier."""

from __future__ import annotations

import re

import pytest

from tests.functional.conftest import Cli

from .test_usage import CONTROLLERS

MOST = 250_000  # instructions of one program: a quarter of what the kernel allows


def processed(log: str) -> list[int]:
    return [int(count) for count in re.findall(r"^processed (\d+) insns", log, re.MULTILINE)]


@pytest.mark.parametrize("name", CONTROLLERS)
def test_a_controller_is_looked_at_soon(ccbpf: Cli, name: str) -> None:
    counts = processed(ccbpf("-vv", "enable", name).err)
    assert len(counts) >= 4 and max(counts) <= MOST


def test_a_download_is_looked_at_soon(ccbpf: Cli) -> None:
    counts = processed(ccbpf("-vv", "run", "-q", "--download", "--", "true").err)
    assert counts and max(counts) <= MOST


def test_rules_are_looked_at_soon(ccbpf: Cli) -> None:
    counts = processed(ccbpf("-vv", "assign", "--download", "--remote", "198.51.100.0/24").err)
    assert counts and max(counts) <= MOST


def test_running_downloads_are_looked_at_soon(ccbpf: Cli) -> None:
    """The program that holds them, and the iterator. No connection is of this prefix."""
    counts = processed(ccbpf("-vv", "renice", "--download", "--dst", "198.51.100.0/24", code=5).err)
    assert len(counts) >= 2 and max(counts) <= MOST
