# SPDX-License-Identifier: GPL-2.0-only
"""`--from` of `ccbpf assign`, and the key `from` of a rule in a file: connections that have a controller without the rule, whatever
chose it: their program, their listener, a route, the sysctl, or `ccbpf run`."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.functional import kernel
from tests.functional.conftest import CCBPF, Cli
from tests.functional.kernel import Namespace
from tests.functional.rules.background import BACKGROUND
from tests.functional.rules.downloads import Ends, Server, counts, held, records, rules

PORT = 7
FAR = "10.77.0.2"
NO_DEFAULT = "reno"  # a controller that the kernel always has, and that no connection gets by itself here
FROM = ("assign", "--download", "--from", BACKGROUND)
TCPI_SCALES = 6  # byte of struct tcp_info: the peer's scale in the low bits, ours in the high ones


class Hosts:
    """Two namespaces; the default of both is cubic."""

    def __init__(self, near: Namespace, far: Namespace):
        self.near, self.far = near, far
        for host in (near, far):
            host.sysctl("net.ipv4.tcp_congestion_control=cubic")

    @contextmanager
    def set(self, way: str, here: Namespace, name: str) -> Iterator[None]:
        """What is set for a namespace, until the end."""
        route = ("route", "change", "10.77.0.0/24", "dev", "veth0")
        if way == "sysctl":
            here.sysctl(f"net.ipv4.tcp_congestion_control={name}")
        if way == "route":
            here.ip(*route, "congctl", name)
        yield
        if way == "sysctl":
            here.sysctl("net.ipv4.tcp_congestion_control=cubic")
        if way == "route":
            here.ip(*route)

    @contextmanager
    def connection(self, way: str = "", name: str = BACKGROUND, accepts: bool = False, port: int = PORT) -> Iterator[Ends]:
        """One from the first to the second. The end that connects, or the one that accepts, gets the controller in this way;
        it is `near` of the answer, and has received."""
        here = self.far if accepts else self.near
        with self.set(way, here, name), self.far.socket() as listener, self.near.socket() as near:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind((FAR, port))
            listener.listen()
            if way == "setsockopt":
                kernel.choose(listener if accepts else near, name)
            near.connect((FAR, port))
            with listener.accept()[0] as far:
                ends = Ends(far, near) if accepts else Ends(near, far)
                for end in (near, far):
                    end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                ends.receive()
                yield ends

    def untouched(self) -> int:
        """The window clamp that no program of ours has touched."""
        with self.connection() as ends:
            return ends.clamp


@pytest.fixture
def hosts(run: Cli, netns_pair: tuple[Namespace, Namespace]) -> Hosts:
    return Hosts(*netns_pair)


def window_scale(sock: socket.socket) -> int:
    return sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 16)[TCPI_SCALES] >> 4


def tos(sock: socket.socket) -> int:
    return sock.getsockopt(socket.IPPROTO_IP, socket.IP_TOS)


# --- what is received ------------------------------------------------------------------


@pytest.mark.parametrize("accepts", [False, True], ids=["connects", "accepts"])
def test_every_way_of_choosing(run: Cli, hosts: Hosts, accepts: bool) -> None:
    """The end that has the controller receives in the background; the other end, and other connections, are left alone."""
    before = hosts.untouched()
    done = run(*FROM)
    assert (done.out, done.err) == (f"rule 1: --download for new connections with --from {BACKGROUND}\n", "")
    with hosts.connection() as other:
        assert other.clamp == before and not records(run)
    with hosts.connection("setsockopt", NO_DEFAULT) as other:
        assert other.clamp == before and not records(run)
    for way in ("setsockopt", "sysctl", "route"):
        with hosts.connection(way, accepts=accepts) as ends:
            assert (kernel.chosen(ends.near), kernel.chosen(ends.far)) == (BACKGROUND, "cubic"), way
            assert ends.origin(run) == ("rule", 1) and ends.clamp < before, way
            (record,) = records(run)
            assert record["origin"]["of"] == f"--from {BACKGROUND}"
    assert (counts(run)["receivers"], counts(run)["set"], counts(run)["kept"]) == (3, 0, 0)


def test_what_a_run_chose(run: Cli, server: Server) -> None:
    """The program of a run is called before that of the rules."""
    run(*FROM)
    with held(server, str(CCBPF), "run", "-q", "--upload", env=run.env()) as port:
        (record,) = records(run)
        assert (record["local_port"], record["origin"]["id"]) == (port, 1) and record["origin"]["by"] == "rule"


def test_what_a_loading_before_has_left(run: Cli, hosts: Hosts) -> None:
    """A listener keeps the table of operations that it chose; one that was loaded since has the same name."""
    run(*FROM)
    with hosts.far.socket() as listener, hosts.near.socket() as near:
        listener.bind((FAR, PORT))
        listener.listen()
        kernel.choose(listener, BACKGROUND)
        run("reload", BACKGROUND)
        near.connect((FAR, PORT))
        with listener.accept()[0] as accepted:
            ends = Ends(accepted, near)
            ends.receive()
            assert ends.origin(run) == ("rule", 1)


def test_a_choice_that_comes_later(run: Cli, hosts: Hosts) -> None:
    """Rules act once, when a connection is established. `renice` moves what came later."""
    run(*FROM)
    with hosts.connection() as ends:
        kernel.choose(ends.near, BACKGROUND)
        ends.receive()
        assert not records(run)
        assert run("-j", "renice", "--download", "--from", BACKGROUND).json["moved"] == 1
        ends.receive()
        assert ends.origin(run) == ("renice", None)
        run("renice", "--download", "--off", "--all")
    with hosts.connection("setsockopt") as ends:
        kernel.choose(ends.near, NO_DEFAULT)
        ends.receive()
        assert ends.origin(run) == ("rule", 1), "it was under the controller when it was established"


def test_the_window_scale(run: Cli, hosts: Hosts) -> None:
    """It is in the SYN, which leaves before a route's controller is in force."""
    hosts.near.sysctl(f"net.ipv4.tcp_rmem=4096 131072 {1 << 28}")
    run(*FROM)
    with hosts.connection() as ends:
        assert window_scale(ends.near) == 13
    for way, scale in (("setsockopt", 9), ("sysctl", 9), ("route", 13)):
        with hosts.connection(way) as ends:
            assert window_scale(ends.near) == scale and ends.origin(run) == ("rule", 1), way


# --- what is sent ----------------------------------------------------------------------


def test_from_one_controller_to_another(run: Cli, hosts: Hosts) -> None:
    """What the program has chosen is kept, as with any rule, unless it is forced."""
    run("assign", "--from", NO_DEFAULT, "--netns", hosts.near.name)  # others may choose it as well, and would be counted
    with hosts.connection() as ends:
        assert kernel.chosen(ends.near) == "cubic"
    with hosts.connection("setsockopt", NO_DEFAULT) as ends:
        assert kernel.chosen(ends.near) == NO_DEFAULT
    with hosts.connection("sysctl", NO_DEFAULT) as ends:
        assert kernel.chosen(ends.near) == BACKGROUND and not ends.record(run)
    assert (counts(run)["kept"], counts(run)["set"]) == (1, 1)
    run("assign", "--upload", "--download", "--force", "--from", NO_DEFAULT, "--remote", FAR)
    with hosts.connection("setsockopt", NO_DEFAULT) as ends:
        assert kernel.chosen(ends.near) == BACKGROUND and ends.origin(run) == ("rule", 2)


def test_a_dscp_only_where_the_controller_is_known(run: Cli, hosts: Hosts) -> None:
    """At connect a route's controller is not in force yet. What is set then would stay."""
    run("assign", "--dscp", "le", "--from", NO_DEFAULT)
    with hosts.connection("sysctl", NO_DEFAULT) as ends:
        assert (kernel.chosen(ends.near), tos(ends.near)) == (BACKGROUND, 4)
    hosts.near.sysctl(f"net.ipv4.tcp_congestion_control={NO_DEFAULT}")
    with hosts.connection("route", "cubic") as ends:
        assert (kernel.chosen(ends.near), tos(ends.near)) == ("cubic", 0)


# --- among other conditions, and other rules -------------------------------------------


def test_several_conditions_are_and(run: Cli, hosts: Hosts) -> None:
    run(*FROM, "--remote-port", PORT)
    with hosts.connection("setsockopt") as ends:
        assert ends.origin(run) == ("rule", 1)
    with hosts.connection("setsockopt", port=PORT + 1) as ends:
        assert not records(run)


def test_which_of_two_wins(run: Cli, hosts: Hosts) -> None:
    """It is one condition more; `--not` without --remote wins over all."""
    run("assign", "--download", "--remote-port", PORT)
    run(*FROM, "--remote-port", PORT)
    with hosts.connection("setsockopt") as ends, hosts.connection(port=PORT + 1):
        assert ends.origin(run) == ("rule", 2)
    with hosts.connection() as ends:
        assert ends.origin(run) == ("rule", 1)
    run("assign", "--not", "--from", BACKGROUND)
    with hosts.connection("setsockopt") as ends:
        assert not records(run)
    with hosts.connection() as ends:
        assert ends.origin(run) == ("rule", 1)
    assert [rule["from"] for rule in rules(run)] == [BACKGROUND, BACKGROUND, None]


# --- what is shown, and what is wrong --------------------------------------------------


def test_what_is_shown(run: Cli) -> None:
    run(*FROM)
    assert run("assign", "--from", "no_such").err == "ccbpf: --from no_such: this kernel has no controller no_such now\n"
    run("assign", "--not", "--from", "tcp_lp")
    listed = run("assign", "list").out
    assert f"--from {BACKGROUND} " in listed and "this kernel has no controller no_such now" in listed
    assert "tcp_lp is not enabled: `ccbpf enable tcp_lp`" in listed
    assert f"{BACKGROUND} is not enabled" not in listed
    labels = f'rule="1",controller="",conditions="--from {BACKGROUND}"'
    assert f"ccbpf_rule_connections_receivers_total{{{labels}}} 0\n" in run("metrics").out
    assert "already" in run(*FROM, code=5).err
    assert run("-j", "status").json["rules"] == rules(run)


def test_what_is_no_name(ccbpf: Cli) -> None:
    for name in ("", "a" * 16, "a b", "le\n", "\x1b[2J", "é"):
        said = ccbpf("assign", "--download", "--from", name, code=2).err
        assert "a controller's name has 1 to 15 characters, and no spaces" in said and "\x1b" not in said, name
    assert not ccbpf.root.exists()


def test_a_file(run: Cli, hosts: Hosts, tmp_path: Path) -> None:
    file = tmp_path / "ccbpf.toml"

    def apply(text: str) -> list[str]:
        file.write_text(text)
        file.chmod(0o644)
        return [change["after"] for change in run("-j", "apply", file).json["changes"] if change["kind"] == "rule"]

    text = f'[[rule]]\nfrom = "{BACKGROUND}"\ndownload = true\n'
    assert apply(text) == [f"--download --from {BACKGROUND}"]
    assert apply(text) == []
    with hosts.connection("sysctl") as ends:
        assert ends.origin(run) == ("rule", 1)
    assert apply(text.replace(f'"{BACKGROUND}"', '"tcp_lp"')) == [None, "--download --from tcp_lp"]
    with hosts.connection() as ends:
        assert not records(run)
    file.write_text("[[rule]]\nremote = '::1'\nfrom = 'a b'\n")
    error = run("-j", "apply", file, code=2).error
    assert error["line"] == 3 and "no spaces" in error["why"]
    assert apply("") == [None]
