# SPDX-License-Identifier: GPL-2.0-only
"""Fixtures of the tests with programs that people use: two hosts, a line between them, and files to send."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.functional import kernel
from tests.functional.conftest import Cli, module_ccbpf
from tests.functional.kernel import Namespace
from tests.functional.rules.conftest import run

GO_CACHE = kernel.ROOT / ".cache/go"
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

    def listens(self, port: int, at: Namespace | None = None) -> None:
        """Waits for a listener, of the far host where none is named."""
        host = at or self.far
        kernel.eventually(lambda: f":{port} " in host.run("ss", "-ltn").stdout, 10, f"a listener at port {port}")


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


@pytest.fixture(scope="session")
def transfer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """transfer.go, built without the C library."""
    room = tmp_path_factory.mktemp("go")
    environment = {**os.environ, "CGO_ENABLED": "0", "GO111MODULE": "off", "GOCACHE": str(GO_CACHE), "GOTOOLCHAIN": "local"}
    go = shutil.which("go")
    assert go, "`packaging/deps.sh .cache/venv hard` installs go"
    program = room / "transfer"
    source = Path(__file__).with_name("transfer.go")
    subprocess.run([go, "build", "-o", program, source], env=environment, check=True, timeout=300)
    assert "INTERP" not in kernel.run("readelf", "-lW", program).stdout
    return program
