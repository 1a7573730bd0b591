# SPDX-License-Identifier: GPL-2.0-only
"""Rules where the route of a connection names a controller (`congctl`). With `lock` the kernel refuses every other one."""

from __future__ import annotations

import pytest

from tests.functional import kernel
from tests.functional.conftest import Cli
from tests.functional.rules.downloads import counts
from tests.functional.rules.routes import ROUTE_IDS, ROUTES, Pair, routed


@pytest.mark.parametrize(("lock", "expected"), ROUTES, ids=ROUTE_IDS)
def test_a_rule(run: Cli, netns_pair: Pair, lock: tuple[str, ...], expected: str) -> None:
    run("assign", "--remote", "10.77.0.2")
    with routed(netns_pair, lock) as client:
        assert kernel.run(*client).stdout.split()[0] == expected
    assert (counts(run)["set"], counts(run)["refused"], counts(run)["kept"]) == (1 - len(lock), len(lock), 0)


@pytest.mark.parametrize(("lock", "expected"), ROUTES, ids=ROUTE_IDS)
def test_a_rule_with_force(run: Cli, netns_pair: Pair, lock: tuple[str, ...], expected: str) -> None:
    run("assign", "--force", "--remote", "10.77.0.2")
    with routed(netns_pair, lock) as client:
        assert kernel.run(*client).stdout.split()[0] == expected
    assert (counts(run)["set"], counts(run)["refused"]) == (1 - len(lock), len(lock))
