# SPDX-License-Identifier: GPL-2.0-only
"""`ccbpf run`, `netnice`: which connections of which programs get the controller, and what the report at the end says."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cgroups import MOUNT, cgroups_of_runs
from tests.functional import kernel
from tests.functional.conftest import CCBPF, Cli
from tests.functional.rules.background import (
    BACKGROUND,
    CLIENT,
    ENDS_S,
    PYTHON,
    SYSTEM_PYTHON,
    Sinks,
    account,
    default,
)
from tests.functional.rules.routes import ROUTE_IDS, ROUTES, Pair, routed, tos_of_syn

FAMILIES = ["4", "6", "mapped"]


@pytest.mark.parametrize("family", FAMILIES)
def test_a_connection_gets_the_controller(run: Cli, sinks: Sinks, family: str) -> None:
    done = run("-j", "run", "--", *sinks.client(family))
    assert done.out.split() == [BACKGROUND, "0", "0"]
    found = account(done.err)
    assert (found["controller"], found["state"], found["dscp"]) == (BACKGROUND, "ended", None)
    counts = found["counts"]
    assert (counts["set"], counts["opened"], counts["closed"], counts["bytes"]) == (1, 1, 1, 100_000)
    assert not (run.root / "runs").exists()


def test_what_is_not_run_is_left_alone(run: Cli, sinks: Sinks) -> None:
    inside = run.popen("run", "-q", "--", "sleep", "60")
    try:
        kernel.eventually(lambda: run("-j", "status").json["runs"], ENDS_S, "the run")
        assert kernel.run(*sinks.client()).stdout.split()[0] == default()
    finally:
        inside.terminate()
        assert inside.wait(ENDS_S) == -signal.SIGTERM


@pytest.mark.parametrize(
    ("at", "to"), [("127.0.0.1", "127.0.0.1"), ("::1", "::1"), ("::", "127.0.0.1"), ("::", "::ffff:127.0.0.1")], ids=str
)
def test_an_accepted_connection_gets_it_too(run: Cli, at: str, to: str) -> None:
    """In each family, and where the listener's address is mapped."""
    code = (
        "import socket, sys\n"
        "at, to = sys.argv[1:]\n"
        "s = socket.create_server((at, 0), family=socket.AF_INET6 if ':' in at else socket.AF_INET, dualstack_ipv6=at == '::')\n"
        "c = socket.create_connection((to, s.getsockname()[1])); a = s.accept()[0]\n"
        "print(*(x.getsockopt(6, 13, 16).split(bytes(1))[0].decode() for x in (c, a)))\n"
    )
    done = run("-j", "run", PYTHON, "-c", code, at, to)
    assert done.out.split() == [BACKGROUND, BACKGROUND]
    assert account(done.err)["counts"]["set"] == 2


def test_a_named_controller_is_enabled_and_stays(run: Cli, sinks: Sinks) -> None:
    done = run("run", "tcpw_lp", *sinks.client())
    assert done.out.split()[0] == "tcpw_lp"
    assert "tcpw_lp: it was not enabled, and is now; `ccbpf disable tcpw_lp` disables it" in done.err
    assert run.status()["tcpw_lp"]["state"] == "enabled"


def test_a_misspelt_controller_before_the_command(ccbpf: Cli) -> None:
    """Nothing is enabled for it. A command may have `--` as its own first argument."""
    said = ccbpf("run", "tcpw_pl", "--", "true", code=125).err
    assert said == "ccbpf: cannot run tcpw_pl: no controller has this name; did you mean tcpw_lp?\n"
    assert ccbpf("-j", "run", "nosuch", "--", "true", code=125).error["why"] == "no controller has this name"
    assert not ccbpf.root.exists()
    for words in (["nosuch", "true"], ["--", "nosuch", "--"], ["le", "nosuch", "--"]):
        assert "see whether it is installed" in ccbpf("run", *words, code=127).err, words
    assert ccbpf("run", "-q", "echo", "--", "x").out == "-- x\n"
    assert ccbpf("run", "-q", "le", "--", "echo", "--").out == "--\n"
    ccbpf("clean", "--all")


def test_the_line_at_the_end(run: Cli, sinks: Sinks) -> None:
    err = run("run", *sinks.client(size=12_300_000)).err
    pattern = (
        rf"ccbpf: python\S*: sent 12\.3 MB in the background \({BACKGROUND}\) over 1 connection; "
        r"the window was held back for \d+\.\d s of \d+\.\d s\n"
    )
    assert re.fullmatch(pattern, err), err
    assert run("run", "true").err == "ccbpf: true: no TCP connection of it was in the background\n"
    assert run("run", "-q", *sinks.client()).err == ""


def test_status_says_the_same_as_the_line_at_the_end(run: Cli, sinks: Sinks) -> None:
    """Of a command under way, a line for each part: also what was kept, which the columns do not have."""
    script = '"$@" "$0" && "$@" && read end'
    words = ["run", "--", "sh", "-c", script, "reno", *sinks.client(size=1_230_000)]
    process = run.popen(*words, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)

    def closed() -> bool:
        return any(r["counts"]["kept"] and r["counts"]["closed"] for r in run("-j", "status").json["runs"])

    kernel.eventually(closed, ENDS_S, "both connections")
    shown = run("status").out
    _, err = process.communicate("\n", timeout=ENDS_S)
    parts = err.removeprefix("ccbpf: sh: ").rstrip("\n").split("; ")
    assert len(parts) == 3 and parts[0] == f"sent 1.23 MB in the background ({BACKGROUND}) over 1 connection", err
    lines = shown.splitlines()
    (at,) = [i for i, line in enumerate(lines) if re.match(r" +1  sh +running +", line)]
    assert lines[at + 1 : at + 4] == [f"  {part}" for part in parts], shown
    assert all(len(line) <= 79 for line in lines[at - 1 : at + 4])
    assert re.fullmatch(rf"  in /\S*ccbpf-run-1-{process.pid}: sh \(\d+\)", lines[at + 4]), shown


def test_status_has_the_bytes_of_open_connections(run: Cli, sinks: Sinks) -> None:
    """Which the account has when they end."""
    code = (
        "import select, socket, sys\n"
        "s = socket.create_connection(('127.0.0.1', int(sys.argv[1])))\n"
        "while not select.select([sys.stdin], [], [], 0.01)[0]: s.sendall(bytes(100_000))\n"
    )
    process = run.popen("run", "-u", "--", PYTHON, "-c", code, sinks.port, stdin=subprocess.PIPE, stderr=subprocess.PIPE)

    def found() -> dict[str, Any]:
        kernel.eventually(lambda: run("-j", "status").json["runs"], ENDS_S, "the run")
        (shown,) = run("-j", "status").json["runs"]
        return {"open": shown["open_bytes"], **shown["counts"]}

    counts = kernel.eventually(lambda: (now := found())["open"] > 1_000_000 and now, ENDS_S, "its record")
    assert counts["bytes"] == counts["closed"] == 0
    shown = run("status").out
    assert re.search(rf"^  sent \d+(\.\d+)? MB so far \({BACKGROUND}\) over 1 connection not closed yet$", shown, re.M), shown
    assert " in the background " not in shown and "not counted in full" not in shown
    _, err = process.communicate(timeout=ENDS_S)
    assert re.search(rf": sent \d+(\.\d+)? MB in the background \({BACKGROUND}\) over 1 connection; ", err), err


def test_the_time_for_which_it_was_held_back(run: Cli, netns_pair: Pair) -> None:
    """A bottleneck with a queue: the controller yields to its own queue, and the account has it."""
    near, far = netns_pair
    near.run("tc", "qdisc", "add", "dev", "veth0", "root", "tbf", "rate", "20mbit", "burst", "5kb", "limit", "200kb")
    code = "import socket; s = socket.create_server(('', 7)); c = s.accept()[0]\nwhile c.recv(1 << 20): pass"
    server = kernel.start(far, PYTHON, "-c", code)
    kernel.eventually(lambda: ":7 " in far.run("ss", "-ltn").stdout, 5, "the listener")
    client = CLIENT.replace("127.0.0.1", "10.77.0.2")
    done = run("-j", "run", "--", "ip", "netns", "exec", near.name, PYTHON, "-c", client, "4", "7", "6000000")
    server.wait(5)
    counts = account(done.err)["counts"]
    assert counts["bytes"] == 6_000_000
    assert 0 < counts["held_ns"] < counts["sending_ns"], counts
    assert 2e9 < counts["sending_ns"] < 20e9, counts  # 2.4 s at the full rate


def test_the_choice_of_the_program_is_kept(run: Cli, sinks: Sinks) -> None:
    done = run("-j", "run", "--dscp", "le", "--", *sinks.client("4", 10, "reno"))
    assert done.out.split()[:2] == ["reno", "0"]
    counts = account(done.err)["counts"]
    assert (counts["kept"], counts["set"], counts["opened"]) == (1, 0, 0)
    assert "1 connection kept the controller chosen by the program" in run("run", *sinks.client("4", 10, "reno")).err


@pytest.mark.parametrize("family", FAMILIES)
def test_dscp_le_without_a_change_of_priority(run: Cli, sinks: Sinks, family: str) -> None:
    done = run("-j", "run", "--dscp", "le", *sinks.client(family))
    assert done.out.split() == [BACKGROUND, "4", "0"]
    assert (account(done.err)["dscp"], account(done.err)["counts"]["unmarked"]) == (1, 0)


def test_the_syn_is_le_as_well(run: Cli, netns_pair: Pair) -> None:
    assert tos_of_syn(netns_pair, lambda client: run("run", "-q", "--dscp", "le", "--", *client)) == 4


def test_a_controller_that_is_gone_breaks_no_connection(run: Cli, sinks: Sinks) -> None:
    words = ["sh", "-c", '"$0" disable ' + BACKGROUND + ' >&2; exec "$@"', str(CCBPF), *sinks.client()]
    done = run("-j", "run", *words)
    assert done.out.split()[0] == default()
    assert (account(done.err)["counts"]["refused"], account(done.err)["counts"]["set"]) == (1, 0)


@pytest.mark.parametrize(("lock", "expected"), ROUTES, ids=ROUTE_IDS)
def test_the_controller_of_a_route(run: Cli, netns_pair: Pair, lock: tuple[str, ...], expected: str) -> None:
    with routed(netns_pair, lock) as client:
        done = run("-j", "run", "--", *client)
    assert done.out.split()[0] == expected
    assert account(done.err)["counts"]["refused"] == len(lock)


def test_ltcp_is_for_root(ccbpf: Cli, sinks: Sinks) -> None:
    ccbpf("enable", "ltcp")
    assert "only a process with cap_net_admin may select it" in ccbpf("run", "--uid", "nobody", "ltcp", "true", code=125).err
    assert ccbpf("run", "ltcp", *sinks.client()).out.split()[0] == "ltcp"
    dropped = ["setpriv", "--reuid=65534", "--clear-groups", *sinks.client(python=SYSTEM_PYTHON)]
    done = ccbpf("-j", "run", "ltcp", "--", *dropped)
    assert done.out.split()[0] == default()
    assert account(done.err)["counts"]["refused"] == 1


# --- processes of all kinds ---


def test_children_and_grandchildren(run: Cli, sinks: Sinks) -> None:
    words = ["sh", "-c", '"$@" & (("$@") & wait); wait; "$@"', "sh", *sinks.client()]
    done = run("-j", "run", *words)
    assert done.out.split()[::3] == [BACKGROUND] * 3
    assert account(done.err)["counts"]["bytes"] == 300_000


def test_a_daemon_stays_in_the_background(run: Cli, sinks: Sinks, tmp_path: Path) -> None:
    """A daemon, by a double fork with a session of its own, connects after the command has ended."""
    go, said = tmp_path / "go", tmp_path / "said"
    script = 'while [ ! -e "$0" ]; do sleep 0.05; done; "$@"'
    words = [str(CCBPF), "run", "setsid", "-f", "sh", "-c", script, str(go), *sinks.client()]
    with said.open("w") as out, (tmp_path / "err").open("w") as err:
        subprocess.run(words, stdout=out, stderr=err, env=run.env(), timeout=ENDS_S, check=True)
    assert re.search(r"of its processes stays? in the background, in the cgroup /", (tmp_path / "err").read_text())
    (left,) = run("-j", "status").json["runs"]
    assert left["state"] == "left behind" and left["processes"] >= 1
    assert "left behind" in run("status").out
    run("run", "-q", "true")  # removes nothing of it
    go.touch()
    kernel.eventually(lambda: len(said.read_text().split()) == 3, ENDS_S, "its connection")
    assert said.read_text().split()[0] == BACKGROUND
    kernel.eventually(lambda: not run("-j", "status").json["runs"][0]["processes"], ENDS_S, "its end")
    run("run", "-q", "true")
    assert not run("-j", "status").json["runs"] and not cgroups_of_runs()


def test_a_socket_that_is_older_than_its_program(run: Cli, sinks: Sinks, tmp_path: Path) -> None:
    """Made in the run, inherited over exec, then connected."""
    after = tmp_path / "after.py"
    after.write_text(
        "import socket, sys\n"
        "s = socket.socket(fileno=int(sys.argv[1])); s.connect(('127.0.0.1', int(sys.argv[2])))\n"
        "print(s.getsockopt(6, 13, 16).split(bytes(1))[0].decode())\n"
    )
    code = (
        "import os, socket, sys\n"
        "s = socket.socket(); os.set_inheritable(s.fileno(), True)\n"
        "os.execv(sys.executable, [sys.executable, sys.argv[1], str(s.fileno()), sys.argv[2]])\n"
    )
    assert run("run", "-q", PYTHON, "-c", code, after, sinks.port).out == f"{BACKGROUND}\n"


def test_a_socket_passed_over_a_unix_socket(run: Cli, sinks: Sinks) -> None:
    """A connection belongs to the cgroup where its socket was made, whoever connects it."""
    ours, theirs = socket.socketpair()
    ours.settimeout(ENDS_S)
    code = (
        "import socket, sys\n"
        "u = socket.socket(fileno=int(sys.argv[1]))\n"
        "mine = socket.socket(); socket.send_fds(u, [b'x'], [mine.fileno()])\n"
        "s = socket.socket(fileno=socket.recv_fds(u, 1, 1)[1][0]); s.connect(('127.0.0.1', int(sys.argv[2])))\n"
        "print(s.getsockopt(6, 13, 16).split(bytes(1))[0].decode())\n"
    )
    words = [str(CCBPF), "run", "-q", PYTHON, "-c", code, str(theirs.fileno()), str(sinks.port)]
    process = subprocess.Popen(words, env=run.env(), pass_fds=[theirs.fileno()], stdout=subprocess.PIPE, text=True)
    (fd,) = socket.recv_fds(ours, 1, 1)[1]
    with socket.socket(fileno=fd) as made_inside, socket.socket() as made_outside:
        made_inside.connect(("127.0.0.1", sinks.port))
        assert kernel.chosen(made_inside) == BACKGROUND
        socket.send_fds(ours, [b"x"], [made_outside.fileno()])
        out, _ = process.communicate(timeout=ENDS_S)
    assert out == f"{default()}\n"


def test_a_run_within_a_run(run: Cli, sinks: Sinks) -> None:
    """The inner one wins."""
    done = run("-j", "run", CCBPF, "run", "-q", "tcpw_lp", *sinks.client())
    assert done.out.split()[0] == "tcpw_lp"
    assert account(done.err)["counts"]["set"] == 0


def test_many_at_once(run: Cli, sinks: Sinks) -> None:
    running = [run.popen("-j", "run", *sinks.client(), stdout=subprocess.PIPE, stderr=subprocess.PIPE) for _ in range(6)]
    for process in running:
        out, err = process.communicate(timeout=60)
        assert out.split()[0] == BACKGROUND and account(err)["counts"]["bytes"] == 100_000
    assert not run("-j", "status").json["runs"]


def test_a_static_program(run: Cli, sinks: Sinks, tmp_path: Path) -> None:
    """Where LD_PRELOAD does nothing."""
    source = tmp_path / "client.c"
    source.write_text(
        "#include <arpa/inet.h>\n#include <netinet/tcp.h>\n#include <stdio.h>\n#include <stdlib.h>\n"
        "int main(int n, char **v) { struct sockaddr_in a = { .sin_family = AF_INET, .sin_port = htons(atoi(v[n - 1])),\n"
        ".sin_addr.s_addr = htonl(INADDR_LOOPBACK) }; char name[16]; socklen_t len = sizeof(name);\n"
        "int s = socket(AF_INET, SOCK_STREAM, 0); if (connect(s, (struct sockaddr *)&a, sizeof(a))) return 1;\n"
        "getsockopt(s, IPPROTO_TCP, TCP_CONGESTION, name, &len); puts(name); return 0; }\n"
    )
    kernel.run("gcc", "-static", "-o", tmp_path / "client", source)
    assert run("run", "-q", tmp_path / "client", sinks.port).out == f"{BACKGROUND}\n"


# --- real programs ---


def test_curl_uploads(run: Cli, tmp_path: Path) -> None:
    server = (
        "import http.server\n"
        "class H(http.server.BaseHTTPRequestHandler):\n"
        "    def do_PUT(self):\n"
        "        self.rfile.read(int(self.headers['Content-Length'])); self.send_response(201); self.end_headers()\n"
        "    def log_message(self, *a): pass\n"
        "s = http.server.HTTPServer(('127.0.0.1', 0), H); print(s.server_port, flush=True); s.handle_request()\n"
    )
    (tmp_path / "file").write_bytes(bytes(3_000_000))
    words = ["setpriv", "--pdeathsig", "KILL", PYTHON, "-c", server]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as http:
        assert http.stdout
        port = http.stdout.readline().strip()
        done = run("-j", "run", "curl", "-sf", "-H", "Expect:", "-T", tmp_path / "file", f"http://127.0.0.1:{port}/x")
    counts = account(done.err)["counts"]
    assert counts["set"] == 1 and 3_000_000 < counts["bytes"] < 3_001_000, counts


def test_iperf3(run: Cli) -> None:
    words = ["setpriv", "--pdeathsig", "KILL", "iperf3", "-s", "-1", "-p", "5222", "--forceflush"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout and any("listening" in line for line in server.stdout)
        done = run("-j", "run", "iperf3", "-J", "-c", "127.0.0.1", "-p", "5222", "-n", "40M", "-P", "2")
        server.stdout.read()
    result = json.loads(done.out)
    assert result["end"]["sender_tcp_congestion"] == BACKGROUND
    counts = account(done.err)["counts"]
    assert counts["set"] == 3 and counts["bytes"] >= result["end"]["sum_received"]["bytes"]  # two, and one for control
    assert counts["bytes"] > 0


def test_rsync(run: Cli, tmp_path: Path) -> None:
    """To its own daemon."""
    for name in ("from", "to"):
        (tmp_path / name).mkdir()
    (tmp_path / "from" / "file").write_bytes(os.urandom(2_000_000))
    (tmp_path / "conf").write_text(
        f"use chroot = no\nuid = root\ngid = root\npid file = {tmp_path}/pid\n[x]\npath = {tmp_path}/to\nread only = no\n"
    )
    words = ["setpriv", "--pdeathsig", "KILL", "rsync", "--daemon", "--no-detach", "--port=8731", f"--config={tmp_path}/conf"]
    with subprocess.Popen(words) as daemon:
        kernel.eventually(lambda: ":8731 " in kernel.run("ss", "-ltn").stdout, 5, "the daemon")
        done = run("-j", "run", "rsync", "-a", f"{tmp_path}/from/", "rsync://127.0.0.1:8731/x/")
        daemon.terminate()
    assert (tmp_path / "to" / "file").read_bytes() == (tmp_path / "from" / "file").read_bytes()
    counts = account(done.err)["counts"]
    assert counts["set"] == 1 and 2_000_000 < counts["bytes"] < 2_100_000, counts


@pytest.fixture
def named(run: Cli, tmp_path: Path) -> Callable[..., str]:
    """What a run says of a command line. The commands of these names do nothing."""

    def said(line: str, *options: str) -> str:
        words = line.split()
        for word in words:
            if word.isalpha() or "-" in word[1:]:
                shutil.copy("/bin/true", tmp_path / word)
        cli = Cli(run.root, {"PATH": f"{tmp_path}:{os.environ['PATH']}"}, run.command)
        return cli("run", *(options or ("-u",)), "--", *words).err

    return said


def test_work_of_a_daemon(named: Callable[..., str]) -> None:
    for options, what in (((), "-du"), (("-u",), "NAME"), (("-d",), "-d"), (("-d", "-u"), "-du")):
        said = named("docker pull", "-v", *options)
        assert "docker: a daemon does its work (docker.service), and `run` does not reach that; " in said
        assert f"`ccbpf assign {what} --cgroup unit:docker.service` does" in said
    assert named("docker pull", "-q") == ""


WORKERS = {  # a command line: the unit that does the work; None: none of this host does
    "systemctl start backup": "backup.service",
    "systemctl --no-block restart backup.timer": "UNIT",  # it starts another one
    "systemctl -H there start backup.service": None,
    "systemctl --machine=there start backup.service": None,
    "systemctl status backup": None,
    "systemctl daemon-reload": None,
    "service backup start": "backup.service",
    "service --status-all": None,
    "systemd-run rsync": "UNIT",
    "systemd-run --unit=backup -p Nice=5 rsync": "backup.service",
    "systemd-run --scope -u backup rsync": "backup.scope",
    "systemd-run -pMemoryMax=1G -ubackup rsync": "UNIT",  # a name behind -u without a blank is not read
    "systemd-run -Mthere rsync": None,
    "systemd-run rsync -u nobody": "UNIT",  # the option is rsync's
    "sudo docker pull": "docker.service",
    "sudo -E -u bob A=b docker pull": "docker.service",
    "sudo -ubob docker pull": "docker.service",
    "env -i A=b docker pull": "docker.service",
    "nice -n 5 ionice -c 3 docker pull": "docker.service",
    "timeout -k5s 5 docker pull": "docker.service",
    "taskset 1 nohup docker pull": "docker.service",
    "sudo systemctl start backup": "backup.service",
    "nice rsync docker": None,
    "sudo -l": None,
    "env A=b": None,
}


@pytest.mark.parametrize("line", WORKERS)
def test_which_unit_does_the_work(named: Callable[..., str], line: str) -> None:
    said, unit = named(line), WORKERS[line]
    assert (f"`ccbpf assign NAME --cgroup unit:{unit}` does" in said) == ("does not reach that" in said) == (unit is not None), (
        said
    )


def test_a_unit_of_the_users_own_manager(named: Callable[..., str]) -> None:
    said = named("systemctl --user start backup")
    assert "`ccbpf assign NAME --cgroup PATH` does: `systemctl --user show -P ControlGroup backup.service` says the path" in said
    assert "unit:UNIT" in named("systemd-run rsync --user somebody"), "the option is rsync's"


PODMAN = {  # a command line, the environment: does its service do the work?
    ("pull x", ""): False,
    ("--log-level error pull x", ""): False,
    ("--remote=false pull x", ""): False,
    ("run x --remote", ""): False,  # the option is the container's
    ("pull x", "CONTAINER_HOST"): True,
    ("-r pull x", ""): True,
    ("--url unix:///x pull x", ""): True,
    ("--url=unix:///x pull x", ""): True,
    ("--log-level error --remote pull x", ""): True,
    ("-c x pull x", ""): True,
}


def test_podman_is_a_child_or_a_client(run: Cli, tmp_path: Path) -> None:
    """As podman 4.3 connects to a registry itself, or lets its service do that."""
    shutil.copy("/bin/true", tmp_path / "podman")
    for (words, variable), far in PODMAN.items():
        cli = Cli(run.root, run.env() | ({variable: "unix:///x"} if variable else {}))
        done = cli("run", "-d", "--", str(tmp_path / "podman"), *words.split())
        assert ("a daemon does its work (podman.service)" in done.err) == far, (words, variable, done.err)


def test_a_host_that_cannot_hold_downloads(run: Cli) -> None:
    """The reason is told, but not if only one direction was asked for or with -q; and the same for ltcp."""
    said = "true: what it receives is not in the background: "
    with kernel.Namespace("memory") as netns:

        def in_netns(*words: str) -> str:
            return run("run", *words, "true", prefix=("ip", "netns", "exec", netns.name)).err

        assert said not in in_netns()
        netns.sysctl("net.core.optmem_max=600")
        storage = f"{said}this kernel gives sockets no storage (Cannot allocate memory); `ccbpf check` says what is missing\n"
        assert storage in in_netns() and storage in in_netns("-d")
        assert said not in in_netns("-u") and said not in in_netns("-q")
    ltcp = f"{said}ltcp is not a background controller; `-du` holds it back all the same\n"
    assert ltcp in run("run", "ltcp", "true").err
    assert said not in run("run", "-u", "ltcp", "true").err + run("run", "-du", "ltcp", "true").err


TABLE = (kernel.ROOT / "loader/rules/daemons.c").read_text()
ROW = re.compile(r'^\t\{ "([^"]+)", +(?:\.unit = "([^"]+)"|\.names = \w+)(.*) \},$', re.M)
DAEMONS = {command: (unit, rest) for command, unit, rest in ROW.findall(TABLE)}  # unit "": the command names it


STARTING: dict[str, tuple[str, ...]] = {
    "systemctl": ("start", "x.timer"),
    "service": ("é", "start"),
}  # a unit that has no name to give


def test_each_command_that_has_a_daemon(run: Cli, tmp_path: Path) -> None:
    """All of the table. What is not in it has none, also if its name begins alike."""
    assert len(DAEMONS) == len(re.findall(r'^\t\{ "[^"]+", +\.', TABLE, re.M))
    assert {"docker", "podman", "rpm-ostree", "systemctl", "snap", "flatpak"} <= DAEMONS.keys()
    for command, (unit, rest) in {**DAEMONS, "snapper": ("", "none")}.items():
        shutil.copy("/bin/true", tmp_path / command)
        options = ("--remote",) if ".only" in rest else STARTING.get(command, ())
        said = run("run", "-u", "ltcp", "--", tmp_path / command, *options).err
        does = "may do" if ".depends" in rest else "does"
        whose = f"a daemon {does} its work ({unit})" if unit else "the unit that it starts does the work"
        expected = f"{whose}, and `run` does not reach that; `ccbpf assign NAME --cgroup unit:{unit or 'UNIT'}` does"
        assert (expected in said) == (rest != "none"), (command, said)


# --- places ---


def test_in_a_namespace_of_ip(run: Cli, netns_pair: Pair) -> None:
    """`ip netns exec` hides the cgroups and the pins."""
    code = CLIENT.replace("s.connect", "l = socket.create_server(('127.0.0.1', port)); s.connect").replace("s.recv(1)", "")
    words = ["ip", "netns", "exec", netns_pair[0].name, CCBPF, "run", "-q", PYTHON, "-c", code, "4", "7777", "5"]
    root, own = Path("/sys/fs/bpf/ccbpf-here"), Cli(Path("/sys/fs/bpf/ccbpf-here"))
    try:
        run("disable", BACKGROUND)
        assert kernel.run(*words, env=own.env()).stdout.split()[0] == BACKGROUND
        assert own.status()[BACKGROUND]["state"] == "enabled"
    finally:
        own("clean", "--all")
        assert not root.exists()


def test_below_the_own_cgroup_so_that_its_limits_hold(run: Cli) -> None:
    outer = MOUNT / f"ccbpf-test-{os.getpid()}"
    outer.mkdir()
    try:
        script = f'echo $$ > {outer}/cgroup.procs; exec "$@"'
        words = ["sh", "-c", script, "sh", CCBPF, "run", "-q", "cat", "/proc/self/cgroup"]
        assert f"0::/{outer.name}/ccbpf-run-" in kernel.run(*words, env=run.env()).stdout
    finally:
        outer.rmdir()
