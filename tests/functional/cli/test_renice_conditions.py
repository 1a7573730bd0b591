# SPDX-License-Identifier: GPL-2.0-only
"""renice: which transfers a condition selects, by address, port, process, cgroup and unit."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.functional import kernel
from tests.functional.cli.transfer import ADDRESSES, Pair, Transfer, ends, found, holding
from tests.functional.conftest import Cli
from tests.functional.kernel import chosen


def test_by_destination(enabled: Cli, transfers: dict[str, Transfer]) -> None:
    four, six, mapped = (ends(transfers[kind])[0] for kind in ADDRESSES)
    back = {ends(transfers[kind])[1] for kind in ("IPv4", "v4-mapped")}
    assert found(enabled, "--dst", "10.77.0.2") == {four, mapped}
    assert found(enabled, "--dst", "10.77.0.0/24") == {four, mapped} | back
    assert found(enabled, "--dst", "10.77.0.2/31") == {four, mapped}
    assert found(enabled, "--dst", "::ffff:10.77.0.2/127") == {four, mapped}
    assert found(enabled, "--dst", "10.77.0.4/30") == set()
    assert found(enabled, "--dst", "fd77::2") == {six}
    assert found(enabled, "--dst", "fd77::/64") == set(ends(transfers["IPv6"]))
    every_v6 = found(enabled, "--dst", "::/0")
    assert six in every_v6
    assert not {four, mapped} & every_v6
    every_v4 = found(enabled, "--dst", "0.0.0.0/0")
    assert {four, mapped} < every_v4
    assert six not in every_v4


def test_by_port_on_either_side(enabled: Cli, transfers: dict[str, Transfer]) -> None:
    for transfer in transfers.values():
        assert found(enabled, "--port", transfer.port) == set(ends(transfer))
        assert found(enabled, "--port", transfer.sender.getsockname()[1]) == set(ends(transfer))


def test_several_conditions_must_all_hold(enabled: Cli, transfers: dict[str, Transfer]) -> None:
    four, mapped = transfers["IPv4"], transfers["v4-mapped"]
    kernel.choose(four.sender, "reno")
    assert found(enabled, "--dst", "10.77.0.2", "--from", "reno") == {ends(four)[0]}
    assert found(enabled, "--dst", "10.77.0.2", "--from", "cubic") == {ends(mapped)[0]}
    assert found(enabled, "--dst", "10.77.0.2", "--port", four.port) == {ends(four)[0]}
    assert found(enabled, "--dst", "fd77::2", "--port", four.port) == set()
    assert found(enabled, "--pid", os.getpid(), "--dst", "10.77.0.2") == {ends(four)[0], ends(mapped)[0]}


def test_what_had_the_controller_is_not_counted_by_from(enabled: Cli, transfers: dict[str, Transfer]) -> None:
    kernel.choose(transfers["IPv6"].sender, "tcp_lp")
    answer = enabled("-j", "renice", "tcp_lp", "--dst", "fd77::/64", "--from", "cubic").json
    assert (answer["moved"], answer["has_it"], answer["closed"]) == (1, 0, 0)
    assert chosen(transfers["IPv6"].receiver) == "tcp_lp"


def test_by_process(enabled: Cli, server: socket.socket) -> None:
    port = server.getsockname()[1]
    with holding(server) as (first, a, _), holding(server) as (second, b, _):
        assert found(enabled, "--pid", first.pid) == {(a, port)}
        assert found(enabled, "--pid", first.pid, "--pid", second.pid) == {(a, port), (b, port)}
        assert found(enabled, "--pid", os.getpid(), "--port", port) == {(port, a), (port, b)}
        assert "no running transfer matches" in enabled("renice", "tcp_lp", "--pid", 1, "--port", port, code=5).err


@pytest.fixture
def cgroups() -> Iterator[tuple[Path, str]]:
    """A cgroup v2 of our own and its name below the hierarchy's root: outer, with two below it."""
    mounts = [line.split() for line in Path("/proc/self/mounts").read_text().splitlines()]
    root = next(Path(fields[1]) for fields in mounts if fields[2] == "cgroup2")
    outer = root / f"ccbpf-test-{os.getpid()}"
    inside = [outer / "a.slice/backup@1.service", outer / "b.slice/backup@1.service", outer / "a.slice/deep"]
    for path in inside:
        path.mkdir(parents=True)
    yield outer, outer.name
    for path in sorted((p for p in outer.rglob("*") if p.is_dir()), key=lambda p: -len(p.parts)):
        path.rmdir()
    outer.rmdir()


def test_by_cgroup_with_those_below(enabled: Cli, server: socket.socket, cgroups: tuple[Path, str]) -> None:
    outer, name = cgroups
    port = server.getsockname()[1]
    with holding(server, outer / "a.slice/deep") as (_, a, _), holding(server, outer / "b.slice/backup@1.service") as (_, b, _):
        deep, other = (a, port), (b, port)
        assert found(enabled, "--cgroup", outer) == {deep, other}
        assert found(enabled, "--cgroup", f"/{name}") == {deep, other}
        assert found(enabled, "--cgroup", f"{name}/a.slice") == {deep}
        assert found(enabled, "--cgroup", f"{name}/a.slice/deep") == {deep}
        assert found(enabled, "--cgroup", outer / "b.slice") == {other}
        assert found(enabled, "--cgroup", outer / "a.slice/backup@1.service") == set()
        assert found(enabled, "--cgroup", outer.parent, "--port", port) >= {deep, other}
        enabled("renice", "tcp_lp", "--cgroup", f"{name}/a.slice")
        assert found(enabled, "--cgroup", outer) == {other}


def test_by_cgroup_where_ip_hides_the_hierarchy(
    enabled: Cli, server: socket.socket, cgroups: tuple[Path, str], netns_pair: Pair
) -> None:
    """`ip netns exec` mounts a /sys of its own; the namespace of this process is found as well."""
    outer, name = cgroups
    port = server.getsockname()[1]
    with holding(server, outer / "a.slice/deep") as (_, a, _):
        for cgroup in (outer, f"/{name}", f"{name}/a.slice"):
            words = ("-j", "renice", "tcp_lp", "-n", "--cgroup", cgroup)
            seen = enabled(*words, prefix=("ip", "netns", "exec", netns_pair[0].name)).json["transfers"]
            assert [(t["local_port"], t["remote_port"]) for t in seen] == [(a, port)]


def test_by_unit(enabled: Cli, server: socket.socket, cgroups: tuple[Path, str]) -> None:
    outer, name = cgroups
    port = server.getsockname()[1]
    (outer / "a.slice/only.service").mkdir()
    with holding(server, outer / "a.slice/only.service") as (_, a, _):
        assert found(enabled, "--cgroup", "unit:only.service") == {(a, port)}
        assert found(enabled, "--cgroup", "unit:only") == {(a, port)}
    said = enabled("renice", "tcp_lp", "--cgroup", "unit:backup@1", code=2).err
    assert f"/{name}/a.slice/backup@1.service" in said
    assert f"/{name}/b.slice/backup@1.service" in said


POD = f"{os.getpid():08x}-1234-5678-9abc-0123456789ab"
CONTAINER = f"{os.getpid():012d}{'abcdef0123456789' * 4}"[:64]


@pytest.mark.parametrize(
    ("path", "word"),
    [
        ("only.slice/x.service", "slice:only"),
        ("only.slice/x.service", "slice:only.slice"),
        (f"docker-{CONTAINER}.scope", f"container:{CONTAINER[:12]}"),
        (f"kubepods-pod{POD.replace('-', '_')}.slice/cri-containerd-{CONTAINER}.scope", f"pod:{POD}"),
        (f"pod{POD}/{CONTAINER}", f"pod:{POD}"),
    ],
    ids=["slice", "whole slice", "container", "pod of systemd", "pod of cgroupfs"],  # the same in each worker
)
def test_by_the_other_words_of_assign(
    enabled: Cli, server: socket.socket, cgroups: tuple[Path, str], path: str, word: str
) -> None:
    outer, port = cgroups[0], server.getsockname()[1]
    (outer / path).mkdir(parents=True)
    with holding(server, outer / path) as (_, a, _), holding(server, outer / "a.slice"):
        assert found(enabled, "--cgroup", word) == {(a, port)}
