# SPDX-License-Identifier: GPL-2.0-only
"""Containers of podman, as docs/usage.md has it: by a rule for a container or for its network namespace, in both directions, and by
`renice`. What they run is a static program; no image and no registry is needed."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from shutil import copy
from tempfile import TemporaryDirectory

import pytest

from tests.cgroups import MOUNT, cgroup
from tests.functional import kernel
from tests.functional.conftest import Cli
from tests.functional.rules.background import BACKGROUND, ENDS_S
from tests.hard.programs.conftest import SIZE, Hosts
from tests.hard.programs.watch import connections

PORT = 8083
STARTS_S = 60.0
LIMITS = (
    "--ulimit",
    "nofile=1024",
    "--ulimit",
    "nproc=1024",
    "--pids-limit",
    "0",
)  # what podman would take by itself may be more than ours
# On a hybrid host podman takes the first version of cgroups; here it sees what other hosts have.
UNIFIED = 'mount --bind "$0" /sys/fs/cgroup 2>/dev/null; exec podman "$@"'


@dataclass
class Podman:
    room: Path
    state: Path  # of at most 50 characters
    parent: str  # cgroup of its containers
    hosts: Hosts

    def __call__(self, *words: object) -> str:
        """Its output. Its storage is in the room of the test, and its containers are in the network namespace of `near`."""
        own = ("--root", self.room / "storage", "--runroot", self.state, "--storage-driver", "vfs")
        options = (*own, "--cgroup-manager", "cgroupfs", "--events-backend", "none", "--runtime", "runc")
        command = ["unshare", "--mount", "sh", "-c", UNIFIED, MOUNT, *options, *words]
        done = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=STARTS_S)
        assert done.returncode == 0, f"{words}: {done}"
        return done.stdout.strip()

    def start(self, *words: object) -> str:
        """A container that runs transfer.go with these words: its id."""
        network = f"ns:/run/netns/{self.hosts.near.name}"
        options = (*LIMITS, "--cgroup-parent", f"/{self.parent}", "--network", network)
        return self("run", "--detach", *options, "--rootfs", self.room / "system", "/transfer", *words)

    def pid(self, container: str) -> str:
        return self("inspect", "-f", "{{.State.Pid}}", container)


def make_system(root: Path, *files: Path) -> None:
    """What a container sees at /."""
    for name in ("proc", "sys", "dev", "etc", "tmp", "run"):
        (root / name).mkdir(parents=True)
    for file in files:
        copy(file, root)


@pytest.fixture
def podman(hosts: Hosts, transfer: Path, source: Path, tmp_path: Path) -> Iterator[Podman]:
    with cgroup(f"ccbpf-test-{os.getpid()}") as parent, TemporaryDirectory(prefix="ccbpf-", dir="/run") as state:
        command = Podman(tmp_path, Path(state), parent.name, hosts)
        make_system(tmp_path / "system", transfer, source / "file")
        yield command
        command("rm", "--all", "--force", "--time", 0)


def near(hosts: Hosts) -> set[str]:
    """The controllers of its connections with PORT."""
    here = connections("ip", "netns", "exec", hosts.near.name)
    return {name for local, remote, name in here if PORT in (local, remote)}


CONDITIONS: dict[str, Callable[[Podman, str], tuple[str, str]]] = {
    "by its id": lambda podman, container: ("--cgroup", f"container:{container[:12]}"),
    "by the namespace of its process": lambda podman, container: ("--netns", podman.pid(container)),
}


@pytest.mark.parametrize("condition", CONDITIONS)
def test_what_a_container_sends(run: Cli, podman: Podman, hosts: Hosts, condition: str) -> None:
    container = podman.start("listen", f":{PORT}", "/file")
    hosts.listens(PORT, hosts.near)
    run("assign", *CONDITIONS[condition](podman, container))
    with hosts.far.socket() as sock:
        sock.settimeout(ENDS_S)
        sock.connect(("10.77.0.1", PORT))
        got, seen = len(sock.recv(1)), near(hosts)
        while data := sock.recv(1 << 16):
            got += len(data)
    assert got == SIZE and seen == {BACKGROUND}
    (rule,) = run("-j", "assign", "list").json["rules"]
    assert rule["counts"]["set"] == 1
    podman("rm", "--force", "--time", 0, container)
    (rule,) = run("-j", "assign", "list").json["rules"]
    assert rule["gone"] == (condition == "by its id"), "the namespace is that of the test"


def test_what_a_container_receives(run: Cli, podman: Podman, hosts: Hosts) -> None:
    container = podman.start("listen", f":{PORT}", "-")
    hosts.listens(PORT, hosts.near)
    run("assign", "--download", "--cgroup", f"container:{container}")
    with hosts.far.socket() as sock:
        sock.connect(("10.77.0.1", PORT))
        sock.sendall(bytes(SIZE))
        (flow,) = run("-j", "flows").json["flows"]
        assert (flow["controller"], flow["origin"]["by"]) == ("rx_le", "rule")
        assert flow["origin"]["cgroup"].endswith(f"libpod-{container}")
        assert [process["name"] for process in flow["origin"]["processes"]] == ["transfer"]


def test_what_a_container_has_running(run: Cli, podman: Podman, hosts: Hosts) -> None:
    """And back."""
    with hosts.far.socket() as listener:
        listener.bind((hosts.address, PORT))
        listener.listen()
        listener.settimeout(ENDS_S)
        container = podman.start("dial", f"{hosts.address}:{PORT}", "/file")
        with listener.accept()[0]:  # which reads nothing
            (before,) = near(hosts)
            selected = ("--cgroup", f"container:{container}")
            assert BACKGROUND != before
            assert "moved 1 transfer" in run("renice", BACKGROUND, *selected).out
            assert near(hosts) == {BACKGROUND}
            run("renice", before, *selected)
            assert near(hosts) == {before}
