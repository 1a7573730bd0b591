# SPDX-License-Identifier: GPL-2.0-only
"""The controllers stay enabled from one module to the next: the verifier takes two seconds for all of them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.functional import kernel
from tests.functional.conftest import Cli, enabled


class Registered:
    """All controllers under one pin directory: from the first test that asks for them, until a test registers some itself."""

    def __init__(self, request: pytest.FixtureRequest) -> None:
        self._request = request
        self._stack = ExitStack()
        self._found: dict[str, kernel.Controller] = {}

    def all(self) -> dict[str, kernel.Controller]:
        if not self._found:
            self._found = self._stack.enter_context(enabled(self._request, kernel.KINDS))
        return self._found

    def release(self) -> None:
        self._found = {}
        self._stack.close()


@pytest.fixture(scope="package")
def registered_ones(request: pytest.FixtureRequest, bpffs: Path, registry_lock: Path) -> Iterator[Registered]:
    found = Registered(request)
    yield found
    found.release()


@pytest.fixture
def none_registered(registered_ones: Registered) -> None:
    """For a test that registers controllers itself."""
    registered_ones.release()


@pytest.fixture
def ccbpf(none_registered: None, pin_root: Path) -> Cli:
    return Cli(pin_root)


@pytest.fixture
def controllers(registered_ones: Registered) -> dict[str, kernel.Controller]:
    return registered_ones.all()


@pytest.fixture
def tcp_lp(controllers: dict[str, kernel.Controller]) -> kernel.Controller:
    return controllers["tcp_lp"]


@pytest.fixture
def tcp_lp_ecn(controllers: dict[str, kernel.Controller]) -> kernel.Controller:
    return controllers["tcp_lp_ecn"]


@pytest.fixture
def tcpw_lp(controllers: dict[str, kernel.Controller]) -> kernel.Controller:
    return controllers["tcpw_lp"]


@pytest.fixture
def ltcp(controllers: dict[str, kernel.Controller]) -> kernel.Controller:
    return controllers["ltcp"]


@pytest.fixture
def nf_tcp(controllers: dict[str, kernel.Controller]) -> kernel.Controller:
    return controllers["nf_tcp"]
