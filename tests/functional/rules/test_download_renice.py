# SPDX-License-Identifier: GPL-2.0-only
"""`ccbpf renice --download`: connections that run already receive in the background, and come back.

Both ends of a connection of the loopback are this process's, so both match the conditions on its port and its process. On the path of
the native lab a download that runs yields."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.functional import kernel
from tests.functional.conftest import Cli
from tests.functional.kernel import Namespace
from tests.functional.rules.background import ENDS_S, default
from tests.functional.rules.downloads import (
    LEAST,
    OPEN,
    Ends,
    Got,
    Reading,
    Server,
    cgroup,
    counts,
    held,
    records,
    sending,
    untouched,
    yields,
)
from tests.functional.samples import of, samples
from tests.lab.engine import native

DOWNLOAD = ("renice", "--download")


def is_held(cli: Cli, ends: Ends) -> bool:
    """The next segments say it: the window is small, and there is a record that names renice."""
    ends.receive()
    origin = ends.origin(cli)
    assert origin in (None, ("renice", None))
    return origin is not None


# --- there and back --------------------------------------------------------------------


def test_there_and_back(ccbpf: Cli, either: Server) -> None:
    before = untouched(either)
    with either.connection() as ends, either.connection() as other:
        near = ends.selected
        looked = ccbpf("-j", *DOWNLOAD, *near, "-n").json
        assert (looked["would_move"], looked["moved"], looked["download"], looked["to"]) == (2, 0, True, None)
        assert ends.clamp == before and not ccbpf.root.exists()
        answer = ccbpf("-j", *DOWNLOAD, *near).json
        assert (answer["moved"], answer["refused"], answer["off"]) == (2, 0, False)
        assert is_held(ccbpf, ends) and ends.clamp not in (before, OPEN)
        assert not is_held(ccbpf, other) and other.clamp == before
        assert kernel.chosen(ends.near) == default()
        assert ccbpf("-j", "status").json["renice_receives"] == 2
        assert "renice: 2 connections receive in the background" in ccbpf("status").out
        assert "by renice (--download)" in ccbpf("-v", "flows", "rx_le").out
        assert "has it already" in ccbpf(*DOWNLOAD, *near, code=5).err
        ends.receive(50 * LEAST)
        answer = ccbpf("-j", *DOWNLOAD, "--off", *near).json
        assert (answer["moved"], answer["off"]) == (2, True)
        assert ends.clamp == OPEN and not is_held(ccbpf, ends) and ends.clamp == OPEN
        assert not ccbpf.root.exists()
        assert "`renice` holds no download" in ccbpf(*DOWNLOAD, "--off", *near, code=5).err
        assert ccbpf("-j", *DOWNLOAD, *near).json["moved"] == 2, "and there again"
        assert is_held(ccbpf, ends) and ends.clamp < OPEN
        ccbpf(*DOWNLOAD, "--off", "--all")


def test_only_what_comes_while_it_is_held_counts(ccbpf: Cli, server: Server) -> None:
    """A controller is enabled, so the sums stay."""
    ccbpf("enable", "ltcp")
    with server.connection() as ends:
        for total in (10, 20):
            ends.receive(100 * LEAST)
            ccbpf(*DOWNLOAD, *ends.selected)
            ends.receive(10 * LEAST)
            ccbpf(*DOWNLOAD, "--off", *ends.selected)
            found = of(samples(ccbpf), "bytes_acked_total", controller="rx_le")
            assert 0 < found <= total * LEAST + 2 * total, "and what is sent back"


def test_the_table(ccbpf: Cli, server: Server) -> None:
    with server.connection() as ends:
        lines = ccbpf(*DOWNLOAD, *ends.selected).out.splitlines()
        assert lines[0].split() == ["NETNS", "LOCAL", "REMOTE", "RECEIVES", "OUTCOME"]
        assert lines[1].endswith(" in the background  moved") and lines[-1] == "moved 2 transfers to the background"
        assert ccbpf(*DOWNLOAD, "--off", "--all").out.endswith("moved 2 transfers to the foreground\n")


def test_which_ones(ccbpf: Cli, server: Server) -> None:
    """By process, by cgroup, by address, and what is sent in the background stays so."""
    with cgroup() as (path, within), held(server, *within) as port, server.connection() as ends:
        for words in (["--cgroup", path], ["--dst", "127.0.0.1", "--port", port, "--cgroup", path]):
            (moved,) = ccbpf("-j", *DOWNLOAD, *words).json["transfers"]
            assert moved["local_port"] == port
            assert not is_held(ccbpf, ends)
            assert ccbpf("-j", *DOWNLOAD, "--off", *words).json["moved"] == 1
        ccbpf("enable", "tcp_lp")
        ccbpf("renice", "tcp_lp", *ends.selected)
        assert ccbpf("-j", *DOWNLOAD, "--from", "tcp_lp", *ends.selected).json["moved"] == 2
        assert is_held(ccbpf, ends) and kernel.chosen(ends.near) == "tcp_lp"
        assert ccbpf("-j", *DOWNLOAD, "--off", "--from", "tcp_lp").json["moved"] == 2


def test_in_another_namespace(ccbpf: Cli, netns_pair: tuple[Namespace, Namespace]) -> None:
    here, there = netns_pair
    with there.socket() as listener, here.socket() as near:
        listener.bind(("10.77.0.2", 0))
        listener.listen()
        near.connect(listener.getsockname())
        with listener.accept()[0] as far:
            ends = Ends(near, far)
            ends.receive()
            places = {t["netns"] for t in ccbpf("-j", *DOWNLOAD, *ends.selected).json["transfers"]}
            assert places == {here.inode, there.inode}
            assert is_held(ccbpf, ends)
            ccbpf("clean", "--all")
            assert ends.clamp == OPEN and not ccbpf.root.exists()


def test_new_connections_are_not_its_business(ccbpf: Cli, server: Server) -> None:
    with server.connection() as ends:
        ccbpf(*DOWNLOAD, "--port", server.port)
        with server.connection() as new:
            assert not is_held(ccbpf, new) and is_held(ccbpf, ends)


# --- beside others ---------------------------------------------------------------------


def test_what_a_rule_holds_is_left_to_it(ccbpf: Cli, server: Server) -> None:
    ccbpf("assign", "--download", "--remote-port", server.port)
    with server.connection() as ends:
        answer = ccbpf("-j", *DOWNLOAD, *ends.selected).json
        assert (answer["moved"], answer["elsewhere"]) == (1, 1), "the far end has no rule"
        assert ends.origin(ccbpf) == ("rule", 1)
        assert (
            "left to a run, a rule"
            in ccbpf(*DOWNLOAD, "--pid", os.getpid(), "--dst", "127.0.0.1", "--port", ends.port, code=5).err
        )
        ccbpf(*DOWNLOAD, "--off", "--all")
        ends.receive()
        assert ends.origin(ccbpf) == ("rule", 1) and ends.clamp < OPEN


def test_a_rule_leaves_it_alone(ccbpf: Cli, server: Server) -> None:
    """Rules come and go beside it; a controller of the program goes on as well."""
    with server.connection() as ends:
        ccbpf(*DOWNLOAD, *ends.selected)
        ccbpf("assign", "--download", "--remote-port", server.port)
        assert is_held(ccbpf, ends) and counts(ccbpf)["receivers"] == 0
        ccbpf("assign", "remove", "--all")
        ccbpf("clean")
        assert is_held(ccbpf, ends) and ends.clamp < OPEN


def test_without_timestamps(ccbpf: Cli, netns_pair: tuple[Namespace, Namespace]) -> None:
    here, there = netns_pair
    here.run("sysctl", "-qw", "net.ipv4.tcp_timestamps=0")
    with there.socket() as listener, here.socket() as near:
        listener.bind(("10.77.0.2", 0))
        listener.listen()
        near.connect(listener.getsockname())
        with listener.accept()[0]:
            said = ccbpf(*DOWNLOAD, "--port", listener.getsockname()[1], code=5).err
    assert "what matches is left alone: 2 transfers without TCP timestamps" in said
    assert not ccbpf.root.exists()


# --- how it ends -----------------------------------------------------------------------


def test_it_goes_with_its_last_connection(ccbpf: Cli, server: Server) -> None:
    with server.connection() as ends:
        ccbpf(*DOWNLOAD, *ends.selected)
        assert is_held(ccbpf, ends)
        ccbpf("clean")
        assert is_held(ccbpf, ends)
    assert not records(ccbpf)
    ccbpf("clean")
    assert not ccbpf.root.exists()


def test_clean_all(ccbpf: Cli, server: Server) -> None:
    with server.connection() as ends, sending(ends):
        ccbpf(*DOWNLOAD, *ends.selected)
        kernel.eventually(lambda: ends.record(ccbpf), ENDS_S, "the download")
        assert ends.clamp < OPEN
        assert str(ccbpf.root / "renice" / "link") in ccbpf("-j", "clean", "--all").json["removed"]
        assert ends.clamp == OPEN and not ccbpf.root.exists()


def test_clean_all_where_the_namespace_is_not_found_any_more(ccbpf: Cli) -> None:
    """Only its sockets keep it alive: the program opens their windows, with their next segments."""
    with kernel.Namespace("gone") as place:
        listener, near = place.socket(), place.socket()
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        near.connect(listener.getsockname())
        ends = Ends(near, listener.accept()[0])
        ccbpf(*DOWNLOAD, "--port", listener.getsockname()[1])
        assert is_held(ccbpf, ends)
    with listener, near, ends.far, sending(ends):
        ccbpf("clean", "--all")
        assert ends.clamp == OPEN and not ccbpf.root.exists()


KILLED = {"there": (1, ()), "back": (2, DOWNLOAD), "clean": (2, DOWNLOAD)}  # at every step, or every second one; what was before


@pytest.mark.parametrize("which", KILLED)
def test_killed_at_every_step(ccbpf: Cli, kill_at: Path, server: Server, which: str) -> None:
    """A window is held by a program, or it is open, as OPEN or as autotuning has it then; `clean --all` finishes the work."""
    seen, before = set(), untouched(server)
    with server.connection() as ends:
        near = ends.selected
        words = {"there": (*DOWNLOAD, *near), "back": (*DOWNLOAD, "--off", *near), "clean": ("clean", "--all")}[which]
        stride, before_it = KILLED[which]
        code, at = 1, 0
        while code:
            at += stride
            if before_it:
                ccbpf(*before_it, *near)
            killer = Cli(ccbpf.root, {"LD_PRELOAD": str(kill_at), "KILL_AT": str(at)}, ccbpf.command)
            code = killer.run(*words).code
            assert code in (0, -9) and at < 100
            ends.receive()
            now = ends.clamp < before
            assert (ccbpf.root / "renice" / "link").exists() or not now, at
            seen.add(now)
            ccbpf("clean", "--all")
            assert ends.clamp >= before and not ccbpf.root.exists(), at
    assert seen == {True, False}


# --- what is wrong ---------------------------------------------------------------------


def test_a_kernel_that_cannot(ccbpf: Cli, server: Server) -> None:
    old = Cli(ccbpf.root, {"CCBPF_NO_CALLBACKS": "1"}, ccbpf.command)
    with server.connection() as ends:
        said = old(*DOWNLOAD, *ends.selected, code=3).err
    assert "needs Linux 6.12" in said and "`ccbpf assign --download`" in said and len(said.splitlines()) == 1
    assert not ccbpf.root.exists()
    (row,) = [row for row in old("-j", "check").json["rows"] if row["name"] == "renice --download"]
    assert row["verdict"] == "note"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["renice", "le", "--download", "--all"], "--download takes no controller"),
        (["renice", "--off", "--all"], "it is for --download"),
        (["renice", "--download"], "no condition says which transfers"),
    ],
)
def test_what_is_wrong(ccbpf: Cli, words: list[str], said: str) -> None:
    assert said in ccbpf(*words, code=2).err
    assert not ccbpf.root.exists()


# --- on a path with a queue ------------------------------------------------------------


@pytest.mark.quiet
@pytest.mark.rerun("a host that stands still is a queue, and a pause of the reader")
def test_a_running_download_yields(ccbpf: Cli, path: native.Path) -> None:
    reading = Reading(10_000_000)  # it is not held from its beginning, and goes on until `--off`
    words = reading.at(path)
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as background:

        def there() -> bool:
            return "10.0.1.2:7" in path.command(path.receiver, "ss", "-tnH", "state", "established")

        kernel.eventually(there, ENDS_S, "the connection")
        ccbpf(*DOWNLOAD, "--dst", "10.0.1.2")
        yields(ccbpf, path)
        ccbpf(*DOWNLOAD, "--off", "--dst", "10.0.1.2")
        out, _ = background.communicate(timeout=40)
    assert Got.of(out).is_all(reading.size)
