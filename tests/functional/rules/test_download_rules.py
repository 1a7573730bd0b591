# SPDX-License-Identifier: GPL-2.0-only
"""`--download` of `ccbpf assign`, of a rule in a file, and of `ccbpf systemd`: which connections receive in the background, and that
all others are left alone.

A connection of the loopback shows that at once. On the path of the native lab a download yields, and takes the link back."""

from __future__ import annotations

import re
import socket
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.functional import kernel
from tests.functional.conftest import CCBPF, Cli
from tests.functional.kernel import Namespace
from tests.functional.rules.background import BACKGROUND, ENDS_S, PYTHON, account, default
from tests.functional.rules.downloads import (
    BYTES,
    HOLD,
    LEAST,
    OPEN,
    TCP_WINDOW_CLAMP,
    Ends,
    Reading,
    Server,
    cgroup,
    counts,
    has_all,
    held,
    received,
    records,
    rules,
    sending,
    serving,
    untouched,
    yields,
)
from tests.lab.engine import native


@pytest.fixture
def other() -> Iterator[Server]:
    with serving("127.0.0.1") as server:
        yield server


# --- a window that somebody else bounds ------------------------------------------------

CLAMP = 50_000


@contextmanager
def bounded(hosts: tuple[Namespace, Namespace], by: str) -> Iterator[Ends]:
    """A connection between two namespaces that has received; the window of `near` is bounded by its program, by its listener or by its
    route."""
    near, far = hosts
    if by == "route":
        near.ip("route", "change", "10.77.0.0/24", "dev", "veth0", "window", CLAMP)
    with far.socket() as listener, near.socket() as client:
        listener.bind(("10.77.0.2", 0))
        if by != "route":
            bounds = listener if by == "listener" else client
            bounds.setsockopt(socket.IPPROTO_TCP, TCP_WINDOW_CLAMP, CLAMP)
        listener.listen()
        client.connect(listener.getsockname())
        with listener.accept()[0] as accepted:
            ends = Ends(accepted, client) if by == "listener" else Ends(client, accepted)
            ends.receive()
            yield ends


@pytest.mark.parametrize("by", ["program", "listener", "route"])
def test_a_smaller_window_stays(ccbpf: Cli, netns_pair: tuple[Namespace, Namespace], by: str) -> None:
    """Also while it grows, and where we let go."""
    ccbpf("assign", "--download", "--remote", "10.77.0.0/24")
    with bounded(netns_pair, by) as ends:
        for _ in range(20):
            assert ends.clamp <= CLAMP
            ends.receive(200_000)
        assert ends.origin(ccbpf) == ("rule", 1)
        ccbpf("assign", "remove", "--all")
        assert CLAMP / 2 < ends.clamp <= CLAMP


# --- which connections, and what is done to them ---------------------------------------


def test_by_remote_port(ccbpf: Cli, either: Server) -> None:
    """No controller is needed, and none is enabled."""
    before = untouched(either)
    done = ccbpf("assign", "--download", "--remote-port", either.port)
    assert done.out == f"rule 1: --download for new connections with --remote-port {either.port}\n" and not done.err
    with either.connection() as ends:
        record = ends.record(ccbpf)
        assert record and ends.origin(ccbpf) == ("rule", 1)
        assert record["origin"]["of"] == f"--remote-port {either.port}"
        assert ends.clamp not in (before, OPEN) and record["receive"]["window_bytes"]
        assert kernel.chosen(ends.near) == kernel.chosen(ends.far) == default()
        assert not ccbpf.status()
        (rule,) = rules(ccbpf)
        assert (rule["controller"], rule["upload"], rule["download"]) == (None, False, True)
        assert (rule["counts"]["receivers"], rule["counts"]["set"]) == (1, 0)
    assert not records(ccbpf)
    assert counts(ccbpf)["unstamped"] == 0


def test_what_no_rule_matches_is_untouched(ccbpf: Cli, either: Server, other: Server) -> None:
    before = untouched(either)
    ccbpf("assign", "--download", "--remote-port", other.port)
    with either.connection() as ends, other.connection() as held:
        assert ends.clamp == before and held.clamp != before
        assert [flow["local_port"] for flow in records(ccbpf)] == [held.port]
        assert ends.far.getsockopt(socket.IPPROTO_TCP, TCP_WINDOW_CLAMP) and not Ends(ends.far, ends.near).record(ccbpf)


def test_what_is_accepted(ccbpf: Cli, server: Server) -> None:
    ccbpf("assign", "-d", "--local-port", server.port)
    with server.connection() as ends:
        accepted = Ends(ends.far, ends.near)
        accepted.receive()
        assert accepted.origin(ccbpf) == ("rule", 1) and not ends.record(ccbpf)


def test_what_receives_less_than_two_segments_is_no_download(ccbpf: Cli, server: Server) -> None:
    ccbpf("assign", "--download", "--remote-port", server.port)
    with server.connection(2999):
        assert not records(ccbpf) and counts(ccbpf)["receivers"] == 0


def test_not_exempts(ccbpf: Cli, either: Server) -> None:
    before = untouched(either)
    ccbpf("assign", "--download", "--remote-port", either.port)
    ccbpf(
        "assign", "--not", "--remote", either.address, "--remote-port", either.port
    )  # connections of other tests have that address
    with either.connection() as ends:
        assert ends.clamp == before and not ends.record(ccbpf)
    assert (counts(ccbpf, 2)["exempt"], counts(ccbpf)["receivers"]) == (1, 0)


def test_both_directions(ccbpf: Cli, server: Server) -> None:
    done = ccbpf("assign", "--upload", "--download", "--remote-port", server.port)
    assert done.out.startswith(f"rule 1: {BACKGROUND} --upload --download for new connections")
    with server.connection() as ends:
        assert (kernel.chosen(ends.near), ends.origin(ccbpf)) == (BACKGROUND, ("rule", 1))
        origins = {f["controller"]: f["origin"]["id"] for f in ccbpf("-j", "flows").json["flows"]}
        assert origins == {BACKGROUND: 1, "rx_le": 1}
    assert (counts(ccbpf)["set"], counts(ccbpf)["receivers"]) == (1, 1)


def test_the_first_match_decides_both_directions(ccbpf: Cli, server: Server) -> None:
    """One rule wins: a download rule after another rule in the order has no effect, and the other way round."""
    port = ("--remote-port", server.port)
    ccbpf("assign", "--download", *port)
    ccbpf("assign", "tcp_lp", "--remote", "127.0.0.0/8", *port)
    with server.connection() as ends:
        assert kernel.chosen(ends.near) == "tcp_lp" and not ends.record(ccbpf)
    ccbpf("assign", "--download", "--remote", "127.0.0.1", *port)
    with server.connection() as ends:
        assert kernel.chosen(ends.near) == default() and ends.origin(ccbpf) == ("rule", 3)


def test_a_choice_of_the_program_does_not_keep_its_window(ccbpf: Cli, server: Server) -> None:
    """The program's controller stays, as with any rule; that choice is about what it sends."""
    ccbpf("assign", "--upload", "--download", "--remote-port", server.port)
    with socket.socket() as near:
        kernel.choose(near, "reno")
        near.connect((server.address, server.port))
        with server.listener.accept()[0] as far:
            ends = Ends(near, far)
            ends.receive()
            assert kernel.chosen(near) == "reno" and ends.origin(ccbpf) == ("rule", 1)
    assert (counts(ccbpf)["kept"], counts(ccbpf)["receivers"]) == (1, 1)


def test_the_inner_program_wins(ccbpf: Cli, server: Server) -> None:
    """A command of `run --download` that a rule matches as well has one window, and the run's account."""
    ccbpf("assign", "--download", "--remote-port", server.port)
    with held(server, str(CCBPF), "run", "-q", "-d", env=ccbpf.env()) as port:
        (record,) = records(ccbpf)
        assert record["local_port"] == port and record["origin"]["by"] == "run"
        (run,) = ccbpf("-j", "status").json["runs"]
        assert run["counts"]["receivers"] == 1
    assert counts(ccbpf)["receivers"] == 0


def test_a_run_that_is_let_go_counts_what_came_until_then(ccbpf: Cli, server: Server) -> None:
    """`opening` of the account is what `clean --all` sets."""
    words = ("-j", "run", "-d", "--", PYTHON, "-c", HOLD, server.address, str(server.port), str(LEAST))
    process = ccbpf.popen(*words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout
    with server.listener.accept()[0] as far:
        far.sendall(bytes(LEAST))
        process.stdout.readline()
        far.recv(1)
        counts = kernel.Map.by_pin(ccbpf.root / "runs" / "1" / "counts")
        value = counts.lookup(bytes(4))
        assert value
        counts.update(bytes(4), value[:-8] + (1).to_bytes(8, "little"))
        counts.close()
        far.sendall(bytes(5000))
        kernel.eventually(lambda: not records(ccbpf), ENDS_S, "it is let go")
        _, err = process.communicate("", timeout=ENDS_S)
    found = account(err)["counts"]
    assert (found["receivers"], found["received"]) == (1, LEAST + 5000)


def test_by_cgroup(ccbpf: Cli, server: Server) -> None:
    with cgroup() as (path, within):
        ccbpf("assign", "--download", "--cgroup", path)
        with held(server, *within) as port, server.connection() as ends:
            (record,) = records(ccbpf)
            assert record["local_port"] == port and record["origin"]["cgroup"] == path
            assert not ends.record(ccbpf)


# --- what is shown ---------------------------------------------------------------------


def test_what_is_shown(ccbpf: Cli, server: Server) -> None:
    ccbpf("assign", "--not", "--remote", "192.0.2.1")
    assert "DOWNLOADS" not in ccbpf("assign", "list").out
    ccbpf("assign", "--download", "--remote-port", server.port)
    with server.connection() as ends:
        listed = ccbpf("assign", "list").out.splitlines()
        assert listed[0].split()[-1] == "DOWNLOADS"
        assert re.search(rf"--download\s+--remote-port {server.port}\s+0\s+0\s+0\s+1$", listed[2])
        assert "DOWNLOADS" in ccbpf("status").out
        labels = f'rule="2",controller="",conditions="--remote-port {server.port}"'
        assert f"ccbpf_rule_connections_receivers_total{{{labels}}} 1\n" in ccbpf("metrics").out
        shown = ccbpf("-v", "flows", "rx_le").out
        assert f"127.0.0.1:{ends.port} " in shown and f"by rule 2 (--remote-port {server.port})" in shown


# --- how rules come and go -------------------------------------------------------------


def test_other_rules_do_not_forget_it(ccbpf: Cli, server: Server) -> None:
    """Another set of rules is another program, which goes on with the same window."""
    ccbpf("assign", "--download", "--remote-port", server.port)
    with server.connection() as ends:
        first = ends.record(ccbpf)
        ccbpf("assign", "--download", "--remote", "192.0.2.0/24")
        ccbpf("assign", "remove", "2")  # only its own connections open: test_download_release.py
        ends.receive(10 * LEAST)
        time.sleep(0.02)  # longer than the record's period
        ends.receive()
        assert received(ccbpf) > 10 * LEAST
        record = ends.record(ccbpf)
        assert record and first and record["started_ns"] == first["started_ns"]
        assert record["origin"]["id"] == 1
        assert ends.clamp < OPEN


@pytest.mark.parametrize("others", [True, False], ids=["other rules stay", "the last rule"])
def test_when_the_last_one_goes_windows_open(ccbpf: Cli, server: Server, others: bool) -> None:
    """Also of connections that receive all the time."""
    if others:
        ccbpf("assign", "tcp_lp", "--remote", "192.0.2.0/24")
    ccbpf("assign", "--download", "--remote-port", server.port)
    with server.connection() as ends, sending(ends):
        kernel.eventually(lambda: ends.record(ccbpf), ENDS_S, "the download")
        assert ends.clamp < OPEN
        ccbpf("assign", "remove", "2" if others else "1")
        kernel.eventually(lambda: ends.clamp == OPEN, ENDS_S, "the window opens")
        assert not records(ccbpf)
    if others:
        assert (rules(ccbpf)[0]["controller"], len(rules(ccbpf))) == ("tcp_lp", 1)
    else:
        assert not ccbpf.root.exists()


def test_clean_all(ccbpf: Cli, server: Server) -> None:
    ccbpf("assign", "--download", "--remote-port", server.port)
    with server.connection() as ends, sending(ends):
        kernel.eventually(lambda: ends.record(ccbpf), ENDS_S, "the download")
        assert ends.clamp < OPEN
        assert str(ccbpf.root / "rules" / "link") in ccbpf("-j", "clean", "--all").json["removed"]
        assert ends.clamp == OPEN and not ccbpf.root.exists()


def test_the_records_stay_with_the_rule(ccbpf: Cli, server: Server) -> None:
    """Their map exists as long as any rule is for downloads, whatever else is removed."""
    ccbpf("assign", "--download", "--remote-port", server.port)
    ccbpf("clean")
    ccbpf("enable", "tcp_lp")
    ccbpf("disable", "tcp_lp")
    ccbpf("run", "-q", "-d", "true")
    with server.connection() as ends:
        assert ends.origin(ccbpf) == ("rule", 1)
        ccbpf("clean")
        assert ends.origin(ccbpf) == ("rule", 1)
    ccbpf("assign", "remove", "--all")
    assert not ccbpf.root.exists()


def test_killed_at_every_step_of_adding(ccbpf: Cli, kill_at: Path, server: Server) -> None:
    """The old rules or the new ones are in force, and the map of the records is there with the new ones."""
    seen = set()
    for _ in ccbpf.killed_at_every_step(kill_at, "assign", "--download", "--remote-port", server.port):
        now = len(rules(ccbpf)) if ccbpf.root.exists() else 0
        with server.connection() as ends:
            assert bool(ends.record(ccbpf)) == bool(now)
        seen.add(now)
        if now:
            ccbpf("assign", "remove", "--all")
        else:
            ccbpf("clean")
        assert not ccbpf.root.exists()
    assert seen == {0, 1}


def test_killed_at_every_step_of_removing(ccbpf: Cli, kill_at: Path, server: Server) -> None:
    seen, code, at = set(), 1, 0
    while code:
        ccbpf("assign", "--download", "--remote-port", server.port)
        at += 1
        killer = Cli(ccbpf.root, {"LD_PRELOAD": str(kill_at), "KILL_AT": str(at)}, ccbpf.command)
        code = killer.run("assign", "remove", "--all").code
        assert code in (0, -9) and at < 100
        now = len(rules(ccbpf)) if ccbpf.root.exists() else 0
        with server.connection() as ends:
            assert bool(ends.record(ccbpf)) == bool(now), at
        seen.add((now, ccbpf.root.exists()))
        ccbpf("clean", "--all" if now else "-v")
        assert not ccbpf.root.exists(), at
    assert seen >= {(1, True), (0, True), (0, False)}, seen


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["tcp_lp", "--download"], "cannot assign tcp_lp: that is for what is sent"),
        (["--download", "--dscp", "le"], "cannot assign --dscp: that is for what is sent"),
        (["--download", "--force"], "add --upload"),
        (["--not", "--download"], "no direction"),
        (["--not", "--upload"], "no direction"),
    ],
)
def test_what_is_wrong(ccbpf: Cli, words: list[str], said: str) -> None:
    assert said in ccbpf("assign", *words, "--remote", "::1", code=2).err
    assert not ccbpf.root.exists()


# --- of a file -------------------------------------------------------------------------


@dataclass
class File:
    cli: Cli
    path: Path

    def apply(self, text: str, *words: str) -> list[tuple[str | None, str | None]]:
        """What changed of the rules: before, after."""
        self.path.write_text(text)
        self.path.chmod(0o644)
        changes = self.cli("-j", "apply", *words, self.path).json["changes"]
        return [(change["before"], change["after"]) for change in changes if change["kind"] == "rule"]


@pytest.fixture
def file(ccbpf: Cli, tmp_path: Path) -> Iterator[File]:
    yield File(ccbpf, tmp_path / "ccbpf.toml")
    ccbpf("clean", "--all")


def test_a_file(file: File, server: Server) -> None:
    """The file is in force after each apply; rules that it drops go, and their windows open."""
    text = f"[[rule]]\nremote-port = {server.port}\n"
    only = f"--download --remote-port {server.port}"
    assert file.apply(text + "download = true\n", "-n") == [(None, only)]
    assert file.apply(text + "download = true\n") == [(None, only)]
    assert not file.cli.status()
    assert file.apply(text + "download = true\n") == file.apply(text + "download = true\nupload = false\n") == []
    with server.connection() as ends:
        assert ends.origin(file.cli) == ("rule", 1) and kernel.chosen(ends.near) == default()
    both = f"{BACKGROUND} --upload --download --remote-port {server.port}"
    assert file.apply(text + "download = true\nupload = true\n") == [(only, None), (None, both)]
    with server.connection() as ends:
        assert ends.record(file.cli) and kernel.chosen(ends.near) == BACKGROUND
    assert file.apply(text) == [(both, None), (None, f"{BACKGROUND} --remote-port {server.port}")]
    with server.connection() as ends:
        assert not ends.record(file.cli) and kernel.chosen(ends.near) == BACKGROUND
    assert file.apply("")[0][1] is None
    assert not file.cli.root.exists()


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ("download = 1", "must be true or false"),
        ("upload = false", "nothing of it is in the background"),
        ("download = true\ncontroller = 'tcp_lp'", "write upload = true as well"),
        ("download = true\nforce = true", "for what is sent"),
        ("download = true\ndscp = 'le'", "for what is sent"),
        ("download = true\nnot = true", "no direction"),
    ],
)
def test_what_is_wrong_in_a_file(ccbpf: Cli, tmp_path: Path, keys: str, said: str) -> None:
    path = tmp_path / "ccbpf.toml"
    path.write_text(f"[[rule]]\nremote = '::1'\n{keys}\n")
    path.chmod(0o644)
    error = ccbpf("-j", "apply", path, code=2).error
    assert said in f"{error['why']}; {error['remedy']}" and error["file"] == str(path), error


# --- on a path with a queue ------------------------------------------------------------


@pytest.mark.quiet
@pytest.mark.rerun("a host that stands still is a queue, and a pause of the reader")
def test_a_download_yields(ccbpf: Cli, paths: dict[str, native.Path]) -> None:
    """A download in a cgroup yields to one outside of it, and takes the link back. By IPv4 and by IPv6 at once, each on a path of
    its own."""

    def yields_and_ends(path: native.Path, sender: str, address: str, within: tuple[str, ...]) -> None:
        words = [*within, *Reading(BYTES, sender, address).at(path)]
        with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as background:
            yields(ccbpf, path, address)
            out, _ = background.communicate(timeout=40)
        assert has_all(out)

    with cgroup() as (name, within):
        ccbpf("assign", "--download", "--cgroup", name)
        with ThreadPoolExecutor() as pool:
            ends = [pool.submit(yields_and_ends, path, sender, address, within)
                    for sender, (address, path) in zip(("bbr", "cubic"), paths.items(), strict=True)]  # fmt: skip
    for end in ends:
        end.result()
    assert counts(ccbpf)["receivers"] == 2
