# SPDX-License-Identifier: GPL-2.0-only
"""`ccbpf assign`: which connections a standing rule reaches, which of several rules wins, and how rules come and go."""

from __future__ import annotations

import errno
import os
import re
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.cgroups import MOUNT, cgroups_of_runs
from tests.functional import kernel
from tests.functional.conftest import CCBPF, Cli
from tests.functional.rules.background import BACKGROUND, PYTHON, SYSTEM_PYTHON, Sinks, default
from tests.functional.rules.others import attach, calls, counter
from tests.functional.rules.routes import Pair, tos_of_syn

ENABLED = BACKGROUND, "tcp_lp", "tcpw_lp"


@pytest.fixture
def assign(run: Cli) -> Cli:
    return run


def rules(cli: Cli) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = cli("-j", "assign", "list").json["rules"]
    return found


def got(sinks: Sinks, family: str = "4", *chosen: str, prefix: tuple[str, ...] = ()) -> str:
    """The controller of a new connection."""
    return kernel.run(*prefix, *sinks.client(family, 10, *chosen)).stdout.split()[0]


@contextmanager
def cgroup(*names: str) -> Iterator[Path]:
    """A cgroup with these levels; all of them are removed at the end."""
    path = MOUNT.joinpath(*names)
    path.mkdir(parents=True, exist_ok=True)
    try:
        yield path
    finally:
        while path != MOUNT and path.exists() and not any(p.is_dir() for p in path.iterdir()):
            path.rmdir()
            path = path.parent


def within(path: Path) -> tuple[str, ...]:
    return ("sh", "-c", f'echo $$ > {path}/cgroup.procs; exec "$@"', "sh")


MANY = CCBPF.with_name("many-rules")  # many.c
UNIQUE = f"ccbpf-test-{os.getpid()}"


@pytest.mark.parametrize(
    ("family", "prefix", "matches"),
    [
        ("4", "127.0.0.0/8", True),
        ("4", "127.0.0.1", True),
        ("4", "0.0.0.0/0", True),
        ("4", "127.0.0.2/32", False),
        ("4", "::/0", False),
        ("4", "::1", False),
        ("6", "::1", True),
        ("6", "::/0", True),
        ("6", "::/127", True),
        ("6", "::2/127", False),
        ("6", "0.0.0.0/0", False),
        ("mapped", "127.0.0.1/32", True),
        ("mapped", "::ffff:127.0.0.0/104", True),
        ("mapped", "::/0", False),
    ],
)
def test_by_prefix(assign: Cli, sinks: Sinks, family: str, prefix: str, matches: bool) -> None:
    assign("assign", "tcp_lp", "--remote", prefix, "--remote-port", sinks.port)
    assert got(sinks, family) == ("tcp_lp" if matches else default())
    assert rules(assign)[0]["counts"]["set"] == matches


def test_the_longest_prefix_wins_and_not_exempts(assign: Cli, sinks: Sinks) -> None:
    port = ("--remote-port", sinks.port)
    assign("assign", "tcpw_lp", "--remote", "127.0.0.0/8", *port)
    assign("assign", "tcp_lp", "--remote", "127.0.0.0/30", *port)
    assert got(sinks) == "tcp_lp"
    assign("assign", "--not", "--remote", "127.0.0.1", *port)
    assert got(sinks) == default()
    assert [rule["remote"] for rule in rules(assign)] == ["127.0.0.1/32", "127.0.0.0/30", "127.0.0.0/8"]
    assign("assign", "remove", "2")
    assign("assign", "remove", "3")
    assert got(sinks) == "tcpw_lp"
    assign("assign", "--not", *port)
    assert got(sinks) == default()  # --not without --remote wins over all
    assert rules(assign)[0]["counts"]["exempt"] == 1


def test_ports(assign: Cli, sinks: Sinks) -> None:
    assign("assign", "tcp_lp", "--remote-port", f"{sinks.port}-{sinks.port}")
    assert got(sinks) == "tcp_lp"
    assert rules(assign)[0]["counts"]["set"] == 1  # not the accepted one: its remote port is the client's
    assign("assign", "remove", "--all")
    assign("assign", "tcp_lp", "--local-port", f"{sinks.port}-{sinks.port + 1}", "--remote", "127.0.0.0/8")
    assert got(sinks) == default()
    assert rules(assign)[0]["counts"]["set"] == 1  # the accepted one
    assign("assign", "remove", "1")
    assign("assign", "tcp_lp", "--remote-port", f"{sinks.port - 9}-{sinks.port - 1}", "--remote", "127.0.0.1")
    assert got(sinks) == default()


LE = 4  # the DSCP of lower effort as a TOS byte, RFC 8622
AT_AND_TO = [("127.0.0.1", "127.0.0.1"), ("::1", "::1"), ("::", "127.0.0.1")]  # where a server listens, and how a client finds it
AT_AND_TO_IDS = ["IPv4", "IPv6", "IPv4 at a socket of IPv6"]


@contextmanager
def listening(at: str, chosen: str = "", sock: socket.socket | None = None) -> Iterator[socket.socket]:
    """A listener, whose program chose this controller before it listened; at "::" for IPv4 as well."""
    with sock or socket.socket(socket.AF_INET6 if ":" in at else socket.AF_INET) as server:
        if at == "::":
            server.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        if chosen:
            kernel.choose(server, chosen)
        server.bind((at, 0))
        server.listen()
        yield server


@pytest.mark.parametrize(("at", "to"), AT_AND_TO, ids=AT_AND_TO_IDS)
def test_a_server_by_its_port(assign: Cli, at: str, to: str) -> None:
    """Of what its listener accepts, the DSCP is set as well."""
    field = (socket.IPPROTO_IPV6, socket.IPV6_TCLASS) if ":" in to else (socket.IPPROTO_IP, socket.IP_TOS)
    with listening(at) as server:
        port = server.getsockname()[1]
        assign("assign", "tcp_lp", "--dscp", "le", "--local-port", port)
        with socket.create_connection((to, port)) as near, server.accept()[0] as far:
            assert (kernel.chosen(near), kernel.chosen(far)) == (default(), "tcp_lp")
            assert (near.getsockopt(*field), far.getsockopt(*field)) == (0, LE)


@pytest.mark.parametrize(
    ("family", "prefix", "matches"),
    [
        ("4", "10.77.0.1", True),
        ("4", "10.77.0.0/24", True),
        ("4", "10.77.0.2", False),  # its own address
        ("4", "::/0", False),
        ("6", "fd77::1", True),
        ("6", "fd77::/64", True),
        ("6", "fd77::2", False),
        ("6", "0.0.0.0/0", False),
        ("mapped", "10.77.0.1", True),
        ("mapped", "::ffff:10.77.0.0/120", True),
        ("mapped", "10.77.0.2", False),
        ("mapped", "::/0", False),
    ],
)
def test_an_accepted_connection_by_prefix(assign: Cli, netns_pair: Pair, family: str, prefix: str, matches: bool) -> None:
    """Its remote address is that of the client."""
    here, there = netns_pair
    version = socket.AF_INET if family == "4" else socket.AF_INET6
    to = "fd77::2" if family == "6" else "10.77.0.2"
    with listening("::" if family == "mapped" else to, sock=there.socket(version)) as server:
        port = server.getsockname()[1]
        assign("assign", "tcp_lp", "--remote", prefix, "--local-port", port)
        with here.socket(socket.AF_INET6 if family == "6" else socket.AF_INET) as near:
            near.connect((to, port))
            with server.accept()[0] as far:
                assert kernel.chosen(far) == ("tcp_lp" if matches else default())
    assert rules(assign)[0]["counts"]["set"] == matches


def test_by_cgroup_and_all_below(assign: Cli, sinks: Sinks) -> None:
    with cgroup(UNIQUE, "a", "b") as below:
        assign("assign", "tcp_lp", "--cgroup", f"/{UNIQUE}/a")
        assert got(sinks, prefix=within(below)) == "tcp_lp"
        assert got(sinks, prefix=within(below.parent)) == "tcp_lp"
        assert got(sinks, prefix=within(below.parent.parent)) == default()
        assert got(sinks) == default()
        assign("assign", "tcpw_lp", "--cgroup", f"/{UNIQUE}/a", "--remote-port", sinks.port)
        assert got(sinks, prefix=within(below)) == "tcpw_lp"  # more conditions


def test_several_conditions_are_and(assign: Cli, sinks: Sinks) -> None:
    with cgroup(UNIQUE) as here:
        assign("assign", "tcp_lp", "--cgroup", f"/{UNIQUE}", "--remote", "::1", "--remote-port", sinks.port)
        assert got(sinks, "6", prefix=within(here)) == "tcp_lp"
        assert got(sinks, "4", prefix=within(here)) == default()
        assert got(sinks, "6") == default()


def test_a_unit_also_after_its_restart(assign: Cli, sinks: Sinks) -> None:
    unit = f"{UNIQUE}.service"
    assign("assign", "tcp_lp", "--cgroup", f"unit:{UNIQUE}")
    for _ in range(2):
        with cgroup(f"{UNIQUE}x.slice", unit, "inner") as below:
            assert got(sinks, prefix=within(below)) == "tcp_lp"
            assert got(sinks, prefix=within(below.parent)) == "tcp_lp"
            assert got(sinks, prefix=within(below.parent.parent)) == default()
    assert (rules(assign)[0]["cgroup"], rules(assign)[0]["gone"]) == (f"unit:{unit}", False)


def test_a_unit_that_a_user_made_is_not_the_systems(assign: Cli, sinks: Sinks) -> None:
    assign("assign", "tcp_lp", "--cgroup", f"unit:{UNIQUE}.service")
    with cgroup("user.slice", f"user@{os.getpid()}.service", f"{UNIQUE}.service") as below:
        assert got(sinks, prefix=within(below)) == default()


def test_a_slice(assign: Cli, sinks: Sinks) -> None:
    assign("assign", "tcp_lp", "--cgroup", f"slice:{UNIQUE}")
    with cgroup(f"{UNIQUE}.slice", f"{UNIQUE}-x.slice", "any.service") as below:
        assert got(sinks, prefix=within(below)) == "tcp_lp"
    assert "slice:" in assign("assign", "list").out


@pytest.mark.parametrize("kind", ["container", "pod"])
def test_containers_and_pods(assign: Cli, sinks: Sinks, kind: str) -> None:
    identity = f"{os.getpid():012d}abcdef"
    assert "no cgroup has this id" in assign("assign", "--cgroup", f"{kind}:{identity}", code=1).err
    with cgroup(f"{UNIQUE}.slice", f"docker-{identity}.scope", "inner") as below:
        assign("assign", "tcp_lp", "--cgroup", f"{kind}:{identity}")
        assert got(sinks, prefix=within(below)) == "tcp_lp"
        with cgroup(UNIQUE, identity):
            assert "several cgroups" in assign("assign", "--cgroup", f"{kind}:{identity}", code=1).err


@pytest.mark.parametrize("digits", [12, 64])
@pytest.mark.parametrize(
    ("container", "others"),
    [
        ("docker-{}.scope", []),
        ("docker/{}", []),
        ("libpod-{}.scope", ["libpod-conmon-{}.scope", "{}-1a2b3c4d.service"]),  # of conmon, of a health check
        ("crio-{}.scope", ["crio-conmon-{}.scope"]),
        ("cri-containerd-{}.scope", ["cri-containerd-0{}.scope"]),
    ],
)
def test_a_container_of_each_runtime(assign: Cli, sinks: Sinks, container: str, others: list[str], digits: int) -> None:
    """Its monitor, and other cgroups that have the id in their names, are not it."""
    identity = f"{os.getpid():012d}{'abcdef0123456789' * 4}"[:64]
    with ExitStack() as stack:
        beside = [stack.enter_context(cgroup(f"{UNIQUE}.slice", name.format(identity))) for name in others]
        here = stack.enter_context(cgroup(f"{UNIQUE}.slice", *container.format(identity).split("/")))
        assign("assign", "tcp_lp", "--cgroup", f"container:{identity[:digits]}")
        assert got(sinks, prefix=within(here)) == "tcp_lp"
        assert {got(sinks, prefix=within(other)) for other in beside} <= {default()}


def test_a_cgroup_that_is_removed_under_its_rule(assign: Cli, sinks: Sinks) -> None:
    """`list` says so, and the rule has no effect, not even on a new cgroup of the same path."""
    with cgroup(UNIQUE):
        assign("assign", "tcp_lp", "--cgroup", f"/{UNIQUE}")
        assert not rules(assign)[0]["gone"]
    assert rules(assign)[0]["gone"]
    assert "its cgroup is gone" in assign("assign", "list").out
    with cgroup(UNIQUE) as again:
        assert got(sinks, prefix=within(again)) == default()
        assert rules(assign)[0]["gone"]


def test_by_network_namespace_that_goes(assign: Cli) -> None:
    code = (
        "import socket; s = socket.create_server(('127.0.0.1', 0)); c = socket.create_connection(s.getsockname())\n"
        "print(c.getsockopt(6, 13, 16).split(bytes(1))[0].decode())"
    )
    with kernel.Namespace("x") as there, kernel.Namespace("y") as other:
        assign("assign", "tcp_lp", "--netns", there.name)
        assert there.run(PYTHON, "-c", code).stdout == "tcp_lp\n"
        assert other.run(PYTHON, "-c", code).stdout != "tcp_lp\n"
        assert (rules(assign)[0]["netns"], rules(assign)[0]["gone"]) == (there.name, False)
    assert rules(assign)[0]["gone"]
    with kernel.Namespace("z") as new:  # perhaps with the same inode
        assert new.run(PYTHON, "-c", code).stdout != "tcp_lp\n"
        assert rules(assign)[0]["gone"]
    for command in (("assign", "list"), ("status",)):
        assert "its network namespace is gone: `ccbpf assign remove 1`" in assign(*command).out
    assert assign("-j", "status").json["rules"][0]["gone"]
    assert "it is no network namespace" in assign("assign", "--netns", there.name, code=1).err


def test_a_network_namespace_without_a_name(assign: Cli) -> None:
    """A process in it keeps it. Another one that gets its name is another one."""
    with kernel.Namespace("x") as there, subprocess.Popen(["ip", "netns", "exec", there.name, "sleep", "60"]) as process:
        kernel.eventually(lambda: os.stat(f"/proc/{process.pid}/ns/net").st_ino == there.inode, 5, "it is in the namespace")
        assign("assign", "tcp_lp", "--netns", there.name)
        kernel.run("ip", "netns", "del", there.name)
        kernel.run("ip", "netns", "add", there.name)
        assert not rules(assign)[0]["gone"] and "is gone" not in assign("assign", "list").out
        process.kill()
        process.wait(5)
        assert rules(assign)[0]["gone"]


def test_the_choice_of_the_program_is_kept_unless_forced(assign: Cli, sinks: Sinks) -> None:
    assign("assign", "tcp_lp", "--remote-port", sinks.port)
    assert got(sinks, "4", "reno") == "reno"
    assert rules(assign)[0]["counts"]["kept"] == 1
    assign("assign", "tcpw_lp", "--force", "--remote-port", sinks.port, "--remote", "127.0.0.1")
    assert got(sinks, "4", "reno") == "tcpw_lp"


def ends(server: socket.socket, to: str) -> tuple[str, str]:
    """The controllers of a new connection: of the client, and of what the listener has accepted."""
    with socket.create_connection((to, server.getsockname()[1])) as near, server.accept()[0] as far:
        return kernel.chosen(near), kernel.chosen(far)


@pytest.mark.parametrize(("at", "to"), AT_AND_TO, ids=AT_AND_TO_IDS)
def test_the_choice_of_a_listener_is_kept_unless_forced(assign: Cli, at: str, to: str) -> None:
    """What it accepts has its choice."""
    with listening(at, "reno") as server:
        port = server.getsockname()[1]
        assign("assign", "tcp_lp", "--local-port", port)
        assert ends(server, to) == (default(), "reno")
        (kept,) = rules(assign)
        assert (kept["counts"]["kept"], kept["counts"]["set"]) == (1, 0)
        assign("assign", "remove", "1")
        assign("assign", "tcp_lp", "--force", "--local-port", port)
        assert ends(server, to) == (default(), "tcp_lp")
        (forced,) = rules(assign)
        assert (forced["counts"]["kept"], forced["counts"]["set"]) == (0, 1)


def test_a_run_wins_over_a_rule(assign: Cli, sinks: Sinks) -> None:
    assign("assign", "tcp_lp", "--remote-port", sinks.port)
    assert assign("run", "-q", "tcpw_lp", *sinks.client()).out.split()[0] == "tcpw_lp"


@pytest.mark.parametrize("family", ["4", "6", "mapped"])
def test_dscp(assign: Cli, sinks: Sinks, family: str) -> None:
    assign("assign", "tcp_lp", "--dscp", "le", "--remote-port", sinks.port)
    assert kernel.run(*sinks.client(family)).stdout.split() == ["tcp_lp", "4", "0"]
    assert rules(assign)[0]["dscp"] == 1


def test_the_syn_has_the_dscp_as_well(assign: Cli, netns_pair: Pair) -> None:
    assign("assign", "tcp_lp", "--dscp", "le", "--remote", "10.77.0.2", "--remote-port", 9)
    assert tos_of_syn(netns_pair, lambda client: kernel.run(*client)) == 4


def test_ltcp_is_for_root(assign: Cli, sinks: Sinks) -> None:
    assign("enable", "ltcp")
    assign("assign", "ltcp", "--remote-port", sinks.port)
    assert got(sinks) == "ltcp"
    words = sinks.client("4", 10, python=SYSTEM_PYTHON)
    assert kernel.run("setpriv", "--reuid=65534", "--clear-groups", *words).stdout.split()[0] == default()
    assert rules(assign)[0]["counts"]["refused"] == 1


# Makes a listener as the first of two users, connects to it as the second, and says the controllers of both ends.
PAIR = """
import os, socket, sys
os.seteuid(int(sys.argv[1]))
server = socket.create_server(("127.0.0.1", 0))
os.seteuid(0)
os.seteuid(int(sys.argv[2]))
near = socket.create_connection(server.getsockname())
far = server.accept()[0]
print(*(end.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16).split(b"\\0")[0].decode() for end in (far, near)))
"""


def test_ltcp_is_for_listeners_of_root(assign: Cli) -> None:
    """What is accepted belongs to the user whose listener it was."""
    assign("enable", "ltcp")
    root, nobody = 0, 65534
    with cgroup(UNIQUE) as here:
        assign("assign", "ltcp", "--cgroup", f"/{UNIQUE}")
        for users, refused in (((root, root), 0), ((nobody, root), 1), ((root, nobody), 2), ((nobody, nobody), 4)):
            said = kernel.run(*within(here), SYSTEM_PYTHON, "-c", PAIR, *users).stdout.split()
            assert said == ["ltcp" if user == root else default() for user in users], users
            assert rules(assign)[0]["counts"]["refused"] == refused


def test_a_controller_that_is_gone_breaks_nothing(assign: Cli, sinks: Sinks) -> None:
    assign("assign", "tcp_lp", "--remote-port", sinks.port)
    assert assign("disable", "tcpw_lp").err == ""
    said = "ccbpf: tcp_lp: 1 rule gives it: until it is enabled again, new connections get the default in its place; "
    assert assign("disable", "tcp_lp").err.startswith(said)
    assert got(sinks) == default()
    assert rules(assign)[0]["counts"]["refused"] == 1
    assert "tcp_lp is not enabled: `ccbpf enable tcp_lp`" in assign("assign", "list").out
    assign("enable", "tcp_lp")
    assert got(sinks) == "tcp_lp"


def test_the_controller_is_enabled(ccbpf: Cli) -> None:
    done = ccbpf("assign", "--remote", "192.0.2.0/24")
    assert done.out == f"rule 1: {BACKGROUND} for new connections with --remote 192.0.2.0/24\n"
    assert f"{BACKGROUND}: it was not enabled, and is now" in done.err
    assert ccbpf.status()[BACKGROUND]["state"] == "enabled"
    assert "192.0.2.0/24" in ccbpf("status").out
    assert ccbpf("-j", "status").json["rules"] == rules(ccbpf)


@pytest.mark.parametrize("words", [("assign", "--remote", "192.0.2.0/24"), ("run", "true")])
def test_a_controller_that_was_enabled_in_vain_is_given_back(ccbpf: Cli, refuse: Path, words: tuple[str, ...]) -> None:
    """The first link is the controller's, the second that of the program at the cgroup."""
    refused = {"LD_PRELOAD": str(refuse), "REFUSE": "28", "REFUSE_AT": "2", "REFUSE_WITH": str(errno.ENOMEM)}  # BPF_LINK_CREATE
    done = Cli(ccbpf.root, refused).run(*words)
    assert done.code == (125 if words[0] == "run" else 1) and "Cannot allocate memory" in done.err
    assert "is now" not in done.err
    assert not ccbpf.root.exists() and not cgroups_of_runs() and BACKGROUND not in kernel.available()


def test_counters_go_on(assign: Cli, sinks: Sinks) -> None:
    """Adding a rule loads a new program; the counts and the other rules stay."""
    assign("assign", "tcp_lp", "--remote-port", sinks.port)
    got(sinks)
    assign("assign", "tcp_lp", "--remote", "192.0.2.0/24")
    got(sinks)
    assert {rule["id"]: rule["counts"]["set"] for rule in rules(assign)} == {1: 2, 2: 0}
    assert assign("assign", "remove", "1", "2").out == "2 rules removed, 0 left\n"
    assert not (assign.root / "rules").exists() and got(sinks) == default()


def test_an_id_is_not_given_twice(assign: Cli, sinks: Sinks) -> None:
    """A connection remembers the id of its rule; a rule that comes later is another one, also where the last one went."""
    assign("assign", "tcp_lp", "--remote", "192.0.2.0/24")
    assign("assign", "tcp_lp", "--remote-port", sinks.port)
    assign("assign", "remove", "2")
    assign("assign", "tcpw_lp", "--remote-port", sinks.port)
    assert sorted(rule["id"] for rule in rules(assign)) == [1, 3]
    assign("assign", "remove", "3", "1")
    assign("assign", "tcp_lp", "--remote-port", sinks.port)
    assert [rule["id"] for rule in rules(assign)] == [1], "with the last rule all that remembered one has gone"
    assign("assign", "remove", "1")


LEAST_CALLS = 2  # of a connection to somebody else's program at the top: both ends are in the cgroup


@contextmanager
def others(program: Path, when: str) -> Iterator[list[kernel.Map]]:
    """Two programs at the cgroup at the top, one by multi attach, one by link; yields their counters."""
    with ExitStack() as stack:
        counters = []
        for how in ("multi", "link"):
            pin = Path("/sys/fs/bpf") / f"{UNIQUE}-{when}-{how}"
            attach(stack, program, pin, MOUNT, how)
            counters.append(counter(pin))
            stack.callback(counters[-1].close)
        yield counters


def test_programs_of_others_go_on(assign: Cli, sinks: Sinks, other_program: Path) -> None:
    """They are at the same cgroup as ours, two attached before ours and two after. Each connection calls all of them: while our
    rules come, change and go, and in a run."""
    port = ("--remote-port", sinks.port)

    def connect(counters: list[kernel.Map], wanted: str, *prefix: object) -> None:
        before = [*map(calls, counters)]
        assert got(sinks, prefix=tuple(map(str, prefix))) == wanted
        more = [now - was for now, was in zip(map(calls, counters), before)]
        assert all(n >= LEAST_CALLS for n in more), more

    with others(other_program, "before") as before:
        connect(before, default())
        assign("assign", "tcp_lp", *port)
        connect(before, "tcp_lp")
        with others(other_program, "after") as after:
            connect(before + after, "tcp_lp")
            assign("assign", "tcpw_lp", "--download", "--upload", "--remote", "127.0.0.1", *port)  # another program of ours
            connect(before + after, "tcpw_lp")
            connect(before + after, BACKGROUND, "env", f"CCBPF_PIN_ROOT={assign.root}", CCBPF, "run", "-q")
            assign("assign", "remove", "--all")
            connect(before + after, default())
        connect(before, default())


def test_killed_at_every_step(assign: Cli, kill_at: Path, sinks: Sinks) -> None:
    """The old rules or the new ones are in force."""
    port = ("--remote-port", str(sinks.port))
    assign("assign", "tcpw_lp", "--remote", "127.0.0.0/8", *port)
    seen, code, at = set(), 1, 0
    while code:
        at += 1
        environment = assign.env() | {"LD_PRELOAD": str(kill_at), "KILL_AT": str(at)}
        words = [str(CCBPF), "assign", "tcp_lp", "--remote", "127.0.0.1", *port]
        code = subprocess.run(words, env=environment, capture_output=True, timeout=60).returncode
        assert code in (0, -signal.SIGKILL) and at < 100
        there = rules(assign)
        now = [rule["controller"] for rule in there]
        assert got(sinks) == now[0]
        seen.add(tuple(now))
        if len(now) > 1:
            assign("assign", "remove", there[0]["id"])
    assert seen == {("tcpw_lp",), ("tcp_lp", "tcpw_lp")} and at > 3


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "no condition is given"),
        (["tcp_lp"], "no condition is given"),
        (["no_such", "--remote", "::1"], "no_such"),
        (["--remote", "127.0.0.1/33"], "give /0 to /32"),
        (["--remote", "::1/129"], "give /0 to /128"),
        (["--remote", "::1/-1"], "give /0 to /128"),
        (["--remote", "host.example"], "it is not an address or a prefix"),
        (["--remote", "1" * 300], "it is not an address or a prefix"),
        (["--remote", ""], "it is not an address or a prefix"),
        (["--remote", "10.0.0.0/"], "give /0 to /32"),
        (["--remote-port", "0"], "from 1 to 65535"),
        (["--remote-port", "65536"], "from 1 to 65535"),
        (["--local-port", "20-10"], "from 1 to 65535"),
        (["--local-port", "10-"], "from 1 to 65535"),
        (["--local-port", "99999999999999999999"], "from 1 to 65535"),
        (["--cgroup", "relative"], "it is not a cgroup"),
        (["--cgroup", "/a/../b"], "it is not a cgroup"),
        (["--cgroup", "unit:"], "a unit's name"),
        (["--cgroup", "unit:a/b"], "a unit's name"),
        (["--cgroup", "unit:" + "x" * 200], "a unit's name"),
        (["--cgroup", "container:abc"], "at least 12"),
        (["--cgroup", "pod:../../../../etc"], "hexadecimal"),
        (["--dscp", "ef", "--remote", "::1"], "--dscp ef"),
        (["--not", "tcp_lp", "--remote", "::1"], "get no controller"),
        (["--not", "--force", "--remote", "::1"], "no controller, force or dscp"),
        (["remove"], "no id is given"),
        (["lst"], "did you mean list?"),
        (["remov", "1"], "did you mean remove?"),
        (["tcp_pl", "--remote", "::1"], "did you mean tcp_lp?"),
        (["remove", "x"], "it is no rule's id"),
        (["remove", "--all", "1"], "--all takes no ids"),
        (["list", "x"], "nothing is expected"),
    ],
)
def test_what_is_wrong(assign: Cli, words: list[str], said: str) -> None:
    assert said in assign("assign", *words, code=2).err
    assert not rules(assign)


def test_what_is_not_there(assign: Cli) -> None:
    assert "no such cgroup" in assign("assign", "--cgroup", "/no/such", code=1).err
    assert "there is no such rule" in assign("assign", "remove", "7", code=5).err
    assert "there are no rules" in assign("assign", "remove", "--all", code=5).err
    assert assign("assign", "list").out == "there are no rules\n"
    assign("assign", "tcp_lp", "--remote", "198.51.100.3/24")
    again = assign("assign", "tcpw_lp", "--remote", "198.51.100.0/24", code=5).err
    assert re.search(r"rule 1 has these conditions already; `ccbpf assign remove 1` first", again)


def test_a_pin_that_is_none_of_ours(assign: Cli) -> None:
    assign("assign", "tcp_lp", "--remote", "198.51.100.0/24")
    link = assign.root / "rules" / "link"
    link.unlink()
    kernel.run("bpftool", "map", "create", link, "type", "array", "key", 4, "value", 8, "entries", 1, "name", "x")
    assert "`ccbpf clean --all`" in assign("assign", "list", code=1).err
    assert "`ccbpf clean --all`" in assign("assign", "tcp_lp", "--remote", "::1", code=1).err
    assign("clean", "--all")
    assert not assign.root.exists()


def test_a_link_that_somebody_detached(assign: Cli, sinks: Sinks) -> None:
    assign("assign", "tcp_lp", "--remote-port", sinks.port)
    kernel.run("bpftool", "link", "detach", "pinned", assign.root / "rules" / "link")
    assert "somebody detached the program" in assign("assign", "list").out
    assert got(sinks) == default()
    assign("assign", "tcp_lp", "--remote", "192.0.2.1")
    assert got(sinks) == "tcp_lp"


def test_many_rules(assign: Cli) -> None:
    """Among 1000 prefixes and 200 cgroups, the one that matches is found. What it costs is in make bench."""
    kernel.run(MANY, "tcp_lp", 1000, 200, env=assign.env())
    assert len(rules(assign)) == 1201
    for near, wanted in (("127.77.0.2", "tcp_lp"), ("127.78.0.2", default())):
        with (
            socket.create_server((near, 0)) as server,
            socket.create_connection(server.getsockname(), source_address=(near, 0)) as client,
            server.accept()[0] as accepted,
        ):
            assert kernel.chosen(client) == kernel.chosen(accepted) == wanted
