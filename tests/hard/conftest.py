# SPDX-License-Identifier: GPL-2.0-only
"""`make test-hard`: the tests that need half an hour. `make test` leaves this directory out.

The command's functional tests run first, with the command built under ASan and UBSan (Makefile); then the tests here:

    test_kill.py        `run`, `assign`, `apply` and `renice`, killed at 200 random instants; the other changing commands at 50
    test_fuzz_*.py      random command lines, hostile maps, lying peers of the laws, the targets of tests/fuzz
    test_packages.py    the packages, in a minimal system
    test_kubernetes.py  the manifest by the schemas of Kubernetes, the image, built and used; kills of `apply --pods`
    test_prometheus.py  what `ccbpf metrics` serves, read by Prometheus, what it writes, by node_exporter, and the queries of the
                        dashboard, asked there;
                        `python -m tests.hard.dashboard FILE.png` draws it (dashboard.py)
    test_boot.py        the same system, booted by systemd: what is there after a reboot
    programs/           rsync, restic, curl, nginx, HAProxy, Go and containers of podman, as they are, in the background; downloads of
                        curl, aria2, apt, skopeo
    test_start.py, …    what a congestion controller must do in the situations of RFC 5681, 6675, 8985, 5682, 3168

What is random is drawn from one seed, which the header of the run shows; SEED=n repeats a run.
"""

from __future__ import annotations

import fcntl
import os
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.functional import kernel
from tests.functional.conftest import (
    bpffs,
    ccbpf,
    controllers,
    hooks,
    kill_at,
    line,
    peer,
    pin_root,
)
from tests.functional.peer import Peer
from tests.functional.rules.conftest import sinks
from tests.hard.congestion import Connect, calm
from tests.hard.machine import Machine, build, packages_in

SEED = int(os.environ.get("CCBPF_SEED") or random.SystemRandom().randrange(1 << 32))


def pytest_report_header() -> str:
    return f"hard tests: `make test-hard SEED={SEED}` repeats this run's random draws"


@pytest.fixture
def dice(request: pytest.FixtureRequest) -> random.Random:
    """A generator of its own for each test."""
    return random.Random(f"{SEED} {request.node.name}")


@pytest.fixture
def connect(controllers: dict[str, kernel.Controller], peer: Peer) -> Iterator[Connect]:
    """A flow of a controller, or of the kernel's reno, to a receiver at the end of this path."""
    with calm(controllers):
        yield lambda name, path: peer.connect(controllers[name].name if name in controllers else name, path)


@pytest.fixture(scope="session")
def kill_after(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """kill_after.c, built."""
    program = tmp_path_factory.mktemp("kill") / "kill_after"
    kernel.run("gcc", "-Wall", "-Wextra", "-Werror", "-D_GNU_SOURCE", "-o", program, Path(__file__).with_name("kill_after.c"))
    return program


def built_once(tmp_path_factory: pytest.TempPathFactory, worker_id: str, sort: str) -> dict[str, Path]:
    """By the worker that first asks; the others wait for it."""
    room = tmp_path_factory.getbasetemp()
    directory = (room if worker_id == "master" else room.parent) / sort
    with directory.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        return packages_in(directory, sort) if directory.exists() else build(directory, sort)


@pytest.fixture(scope="session")
def packages(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> dict[str, Path]:
    """The packages of this working tree, by name."""
    return built_once(tmp_path_factory, worker_id, "deb")


@pytest.fixture(scope="session")
def rpms(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> dict[str, Path]:
    """The same as RPMs."""
    return built_once(tmp_path_factory, worker_id, "rpm")


@pytest.fixture
def machine(tmp_path: Path, pin_root: Path) -> Machine:
    return Machine.unpack(tmp_path / "root", pin_root)
