# SPDX-License-Identifier: GPL-2.0-only
"""Fixtures of the tests with programs that people use: two hosts, a line between them, and files to send."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.functional import kernel
from tests.functional.conftest import Cli, module_ccbpf
from tests.functional.kernel import Namespace
from tests.functional.rules.conftest import run

SIZE = 4_000_000  # bytes: a third of a second at the line's rate, in which `ss` looks several times
RATE = "100mbit"


@dataclass(frozen=True)
class Hosts:
    near: Namespace
    far: Namespace

    address: str = "10.77.0.2"  # of the far one

    def on_near(self, *words: object) -> list[str]:
        return ["ip", "netns", "exec", self.near.name, *map(str, words)]

    def on_far(self, *words: object) -> list[str]:
        return ["ip", "netns", "exec", self.far.name, *map(str, words)]

    def listens(self, port: int) -> None:
        kernel.eventually(lambda: f":{port} " in self.far.run("ss", "-ltn").stdout, 10, f"a listener at port {port}")


@pytest.fixture
def hosts() -> Iterator[Hosts]:
    with kernel.no_kernel_warning(), kernel.joined() as pair:
        for namespace in pair:
            namespace.run("tc", "qdisc", "add", "dev", "veth0", "root", *f"tbf rate {RATE} burst 20k limit 300k".split())
        yield Hosts(*pair)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A directory with one file, which no compression makes smaller."""
    (tmp_path / "from").mkdir()
    (tmp_path / "from" / "file").write_bytes(os.urandom(SIZE))
    return tmp_path / "from"
