# SPDX-License-Identifier: GPL-2.0-only
"""renice: running transfers get another controller, in every namespace, and arrive whole.

A transfer has two sockets, one in each of two namespaces, and both match a condition on its port. No condition here matches a
connection of somebody else.
"""

from __future__ import annotations

import ctypes
import json
import os
import random
import socket
import subprocess
import threading
import time

import pytest

from tests.functional import kernel
from tests.functional.cli.transfer import ADDRESSES, HELD_S, Pair, Transfer
from tests.functional.conftest import Cli
from tests.functional.kernel import chosen

MOVES = 40


def test_running_transfers_move_and_come_back_and_arrive_whole(
    enabled: Cli, transfers: dict[str, Transfer], netns_pair: Pair
) -> None:
    for kind, transfer in transfers.items():
        transfer.goes_on()
        answer = enabled("-j", "renice", "tcp_lp", "--port", transfer.port).json
        assert (answer["to"], answer["dry_run"], answer["moved"], answer["refused"]) == ("tcp_lp", False, 2, 0)
        shown = {t["netns"]: t for t in answer["transfers"]}
        assert shown.keys() == {netns.inode for netns in netns_pair}
        sent = shown[netns_pair[0].inode]
        assert (sent["netns_name"], sent["from"], sent["outcome"], sent["why"]) == (netns_pair[0].name, "cubic", "moved", None)
        assert (sent["remote_addr"], sent["remote_port"]) == (ADDRESSES[kind], transfer.port)
        assert sent["local_port"] == transfer.sender.getsockname()[1]
        assert transfer.controllers() == {"tcp_lp"}
    for transfer in transfers.values():
        transfer.goes_on()
    ports = {flow["remote_port"] for flow in enabled("-j", "flows", "tcp_lp").json["flows"]}
    assert ports >= {transfer.port for transfer in transfers.values()}
    answer = enabled("-j", "renice", "cubic", "--from", "tcp_lp").json
    assert (answer["moved"], {t["from"] for t in answer["transfers"]}) == (2 * len(transfers), {"tcp_lp"})
    for transfer in transfers.values():
        assert transfer.controllers() == {"cubic"}
        transfer.goes_on()
        transfer.finish()
    kernel.eventually(lambda: not enabled("-j", "flows").json["flows"], 5, "their records are gone")


def test_a_controller_that_is_not_enabled_is_enabled_first(ccbpf: Cli, transfer: Transfer) -> None:
    words = ("renice", "tcp_lp", "--port", transfer.port)
    shown = ccbpf("-j", *words, "-n").json
    assert (shown["dry_run"], len(shown["transfers"])) == (True, 2)
    assert not ccbpf.root.exists()
    moved = ccbpf(*words)
    assert "it was not enabled, and is now" in moved.err
    assert transfer.controllers() == {"tcp_lp"}
    assert ccbpf.status()["tcp_lp"]["state"] == "enabled"


@pytest.mark.parametrize("name", kernel.KINDS)
def test_every_controller_takes_over_amid_a_transfer(ccbpf: Cli, transfer: Transfer, name: str) -> None:
    """ltcp as well, which only the privileged may select."""
    ccbpf("enable", name)
    with kernel.no_kernel_warning():
        transfer.goes_on()
        ccbpf("renice", name, "--port", transfer.port)
        assert transfer.controllers() == {name}
        transfer.goes_on()
        flows = ccbpf("-j", "flows", name).json["flows"]
        assert transfer.port in {flow["remote_port"] for flow in flows}
        ccbpf("renice", "cubic", "--from", name)
        transfer.goes_on()
        transfer.finish()


def test_moves_amid_losses(ccbpf: Cli, netns_pair: Pair, transfers: dict[str, Transfer]) -> None:
    """init() and release() run in every state of loss recovery; the application loses no data, and the kernel does not warn."""
    ccbpf("enable", *kernel.KINDS)
    netns_pair[0].run("tc", "qdisc", "add", "dev", "veth0", "root", *"tbf rate 20mbit burst 5k limit 20k".split())
    draw = random.Random(1)
    for _ in range(MOVES):
        name = draw.choice([*kernel.KINDS, "cubic", "reno"])
        result = ccbpf.run("renice", name, "--pid", os.getpid(), "--dst", draw.choice(["10.77.0.0/24", "fd77::/64"]))
        assert result.code in (0, 5), result
        time.sleep(draw.uniform(0, 0.1))
    shown = json.loads(netns_pair[0].run("tc", "-j", "-s", "qdisc", "show", "dev", "veth0").stdout)
    assert shown[0]["drops"] > MOVES
    netns_pair[0].run("tc", "qdisc", "del", "dev", "veth0", "root")
    for transfer in transfers.values():
        transfer.goes_on()
        transfer.finish()


def test_a_dry_run_changes_nothing(enabled: Cli, transfer: Transfer) -> None:
    for flag in ("-n", "--dry-run"):
        answer = enabled("-j", "renice", "tcp_lp", "--port", transfer.port, flag).json
        assert (answer["dry_run"], answer["moved"], answer["would_move"]) == (True, 0, 2)
        assert {t["outcome"] for t in answer["transfers"]} == {"would_move"}
    assert transfer.controllers() == {"cubic"}
    everything = enabled("-j", "renice", "tcp_lp", "--all", "-n").json["transfers"]
    assert transfer.port in {t["remote_port"] for t in everything}


def test_the_table_says_what_was_moved_where(enabled: Cli, transfers: dict[str, Transfer], netns_pair: Pair) -> None:
    said = enabled("renice", "tcp_lp", "--dst", "10.77.0.2", "-v").out
    lines = said.splitlines()
    assert lines[0].split() == ["NETNS", "LOCAL", "REMOTE", "CONTROLLER", "OUTCOME"]
    (line,) = [line for line in lines if f" 10.77.0.2:{transfers['IPv4'].port} " in line]
    assert "cubic → tcp_lp" in line
    assert line.endswith("moved")
    assert f"[::ffff:10.77.0.2]:{transfers['v4-mapped'].port}" in said
    assert lines[-1] == "moved 2 transfers to tcp_lp"


def test_a_namespace_that_only_a_thread_is_in(enabled: Cli) -> None:
    """Only that thread's file in /proc names it."""
    ready, done = threading.Event(), threading.Event()
    seen: dict[str, object] = {}

    def run() -> None:
        assert ctypes.CDLL(None).unshare(kernel.CLONE_NEWNET) == 0
        subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
        with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as sock:
            seen["port"] = server.getsockname()[1]
            ready.set()
            done.wait(HELD_S)
            seen["chosen"] = chosen(sock)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    assert ready.wait(10)
    answer = enabled("-j", "renice", "tcp_lp", "--port", seen["port"]).json
    done.set()
    thread.join(10)
    assert seen["chosen"] == "tcp_lp"
    assert {" ".join(t["netns_name"].split()[:2]) for t in answer["transfers"]} == {f"of {os.getpid()}"}
