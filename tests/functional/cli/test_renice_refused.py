# SPDX-License-Identifier: GPL-2.0-only
"""renice: sockets that are left alone, moves that the kernel refuses, and requests that cannot be met. Each has its message."""

from __future__ import annotations

import json
import socket

import pytest

from tests.functional.cli.test_lifecycle import UNPRIVILEGED
from tests.functional.cli.transfer import Pair, Transfer
from tests.functional.conftest import Cli
from tests.functional.kernel import chosen


def test_listeners_and_handshakes_are_left_alone(enabled: Cli, netns_pair: Pair) -> None:
    here, there = netns_pair
    with there.socket() as server, here.socket() as waiting:
        server.bind(("10.77.0.2", 0))
        server.listen()
        port = server.getsockname()[1]
        said = enabled("renice", "tcp_lp", "--port", port, code=5).err
        assert "no running transfer matches" in said
        assert "(1)" in said
        waiting.setblocking(False)
        assert waiting.connect_ex(("10.77.0.99", port))  # nobody is there
        assert chosen(server) == chosen(waiting) != "tcp_lp"
        with Transfer(here, there, "10.77.0.2") as transfer:
            answer = enabled("-j", "renice", "tcp_lp", "--dst", "10.77.0.0/24").json
            assert (answer["moved"], answer["connects"], answer["listens"]) == (2, 1, 0)
            assert transfer.controllers() == {"tcp_lp"}
        assert chosen(waiting) != "tcp_lp"


def test_a_route_that_locks_the_controller_refuses(enabled: Cli, netns_pair: Pair) -> None:
    here, there = netns_pair
    here.ip("route", "add", "10.77.0.2/32", "dev", "veth0", "congctl", "lock", "reno")
    with Transfer(here, there, "10.77.0.2") as transfer:
        assert chosen(transfer.sender) == "reno"
        plain = enabled("renice", "tcp_lp", "--port", transfer.port, code=1)
        assert "its route locks the controller" in plain.err
        assert "1 of 2 transfers" in plain.err
        assert "refused" in plain.out
        assert (chosen(transfer.sender), chosen(transfer.receiver)) == ("reno", "tcp_lp")
        enabled("renice", "cubic", "--from", "tcp_lp")
        json_run = enabled("-j", "renice", "tcp_lp", "--port", transfer.port, code=1)
        answer = json.loads(json_run.out)
        assert (answer["moved"], answer["refused"], json_run.error["exit"]) == (1, 1, 1)
        (refused,) = [t for t in answer["transfers"] if t["outcome"] == "refused"]
        assert "congctl" in refused["why"]
        transfer.goes_on()
        transfer.finish()


NOT = {
    "no controller": (["--all"], 2, "no controller is named"),
    "two controllers": (["cubic", "reno", "--all"], 2, "only one controller"),
    "no condition": (["cubic"], 2, "no condition"),
    "all and another": (["cubic", "--all", "--port", "1"], 2, "no other condition"),
    "unknown": (["no_such_cc", "--all"], 2, "neither ccbpf nor this kernel"),
    "name too long": (["x" * 16, "--all"], 2, "1 to 15 bytes"),
    "not enabled, and nothing matches": (["tcp_lp", "--dst", "192.0.2.1"], 5, "no running transfer matches"),
    "port 0": (["cubic", "--port", "0"], 2, "1 to 65535"),
    "port too large": (["cubic", "--port", "65536"], 2, "1 to 65535"),
    "port with a tail": (["cubic", "--port", "80x"], 2, "1 to 65535"),
    "no address": (["cubic", "--dst", "example.org"], 2, "not an address or a prefix"),
    "empty address": (["cubic", "--dst", ""], 2, "not an address or a prefix"),
    "prefix too long": (["cubic", "--dst", "192.0.2.0/33"], 2, "not an address or a prefix"),
    "prefix of nothing": (["cubic", "--dst", "192.0.2.0/"], 2, "not an address or a prefix"),
    "bits behind the prefix": (["cubic", "--dst", "192.0.2.1/24"], 2, "bits set behind its prefix"),
    "long address": (["cubic", "--dst", "1" * 4000], 2, "not an address or a prefix"),
    "not a pid": (["cubic", "--pid", "self"], 2, "not the id of a process"),
    "no process": (["cubic", "--pid", "4194303"], 1, "no such process"),
    "no cgroup": (["cubic", "--cgroup", "/no-such-cgroup"], 1, "No such file"),
    "another file system": (["cubic", "--cgroup", "../../../../../../../proc"], 1, "not a cgroup"),
    "no unit": (["cubic", "--cgroup", "unit:no-such-unit"], 1, "no running unit"),
    "a path as a unit": (["cubic", "--cgroup", "unit:../x"], 2, "a unit's name"),
    "no container": (["cubic", "--cgroup", "container:0123456789abcdef"], 1, "no cgroup has this id"),
    "not a container's id": (["cubic", "--cgroup", "container:web"], 2, "at least 12 hexadecimal digits"),
    "nothing matches": (["cubic", "--dst", "192.0.2.1"], 5, "no running transfer matches"),
}


@pytest.mark.parametrize("arguments, code, says", NOT.values(), ids=NOT.keys())
def test_what_cannot_be_done(ccbpf: Cli, arguments: list[str], code: int, says: str) -> None:
    plain = ccbpf("renice", *arguments, code=code)
    assert plain.out == ""
    assert says in plain.err
    error = ccbpf("-j", "renice", *arguments, code=code).error
    assert (error["what"], error["exit"]) == ("renice", code)
    assert not ccbpf.root.exists()


def test_what_has_it_already_is_nothing_to_do(enabled: Cli, transfer: Transfer) -> None:
    enabled("renice", "tcp_lp", "--port", transfer.port)
    assert "2 transfers, has it already" in enabled("renice", "tcp_lp", "--port", transfer.port, code=5).err


def test_the_unprivileged_may_move_nothing(enabled: Cli, transfer: Transfer) -> None:
    words = ["renice", "tcp_lp", "--port", transfer.port]
    assert "cap_net_admin" in enabled(*words, code=4, prefix=UNPRIVILEGED).err
    assert "cap_net_admin" in enabled(*words, "-n", code=4, prefix=UNPRIVILEGED).err
    assert "cap_net_admin" in enabled(*words, code=4, prefix=("setpriv", "--bounding-set=-net_admin")).err
    assert transfer.controllers() == {"cubic"}


def test_a_namespace_that_cannot_be_entered_is_named(
    enabled: Cli, transfer: Transfer, netns_pair: Pair, server: socket.socket
) -> None:
    with socket.create_connection(server.getsockname()) as ours:
        port = server.getsockname()[1]
        said = enabled("renice", "tcp_lp", "--port", port, prefix=("setpriv", "--bounding-set=-sys_admin")).err
        for netns in netns_pair:
            assert (
                f"network namespace {netns.name} ({netns.inode}): it cannot be entered: this process lacks cap_sys_admin" in said
            )
        assert chosen(ours) == "tcp_lp"
