# SPDX-License-Identifier: GPL-2.0-only
"""`ccbpf systemd`: the drop-in of a unit, the program that it names, and a systemd that reads both."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.cgroups import MOUNT, remove_cgroup, this_process_in
from tests.functional import kernel
from tests.functional.conftest import CCBPF, Cli, Result
from tests.functional.rules.background import BACKGROUND, ENDS_S, PYTHON, SYSTEM_PYTHON, Sinks, anew, answer, default
from tests.functional.rules.downloads import OPEN, Server, held, records, serving
from tests.functional.rules.routes import ROUTE_IDS, ROUTES, Pair, routed

UNITS = "/etc/systemd/system"
NAME = "50-ccbpf.conf"
BOOT_S = 20.0
UNIQUE = f"ccbpf-test-{os.getpid()}"


@dataclass
class Host:
    """The command, where the units of the system lie in a directory of the test."""

    cli: Cli
    units: Path

    @property
    def _hide(self) -> tuple[str, ...]:
        return ("unshare", "-m", "sh", "-c", f'mount --bind {self.units} {UNITS} && LD_PRELOAD=$P exec "$@"', "sh")

    def __call__(self, *words: object, **options: Any) -> Result:
        return self.cli(*words, prefix=self._hide, **options)

    def killed(self, library: Path, at: int, *words: object) -> int:
        """Just before its change number `at`: the code with which it ends."""
        killer = Cli(self.cli.root, {"P": str(library), "KILL_AT": str(at)})
        return killer.run(*words, prefix=self._hide).code

    def dropin(self, unit: str) -> Path:
        return self.units / f"{unit}.d" / NAME

    @property
    def pins(self) -> set[str]:
        return {name for name in self.cli.names() if name.startswith("units")}


@pytest.fixture
def host(ccbpf: Cli, tmp_path: Path) -> Iterator[Host]:
    units = tmp_path / "units"
    units.mkdir()
    yield Host(ccbpf, units)
    ccbpf("clean", "--all")
    assert not ccbpf.root.exists()


def words(root: Path, unit: str, section: str, given: str = BACKGROUND, programs: tuple[str, ...] = ()) -> str:
    """The words of the command that makes such a drop-in, and the programs that it names: by default the given one."""
    return (
        f"# Written by `ccbpf systemd {unit} {given}`; `ccbpf systemd {unit} --remove` removes it.\n"
        f"[Unit]\nAfter=ccbpf-units.service\nWants=ccbpf-units.service\n\n"
        f"[{section}]\n" + "".join(f"BPFProgram=sock_ops:{root}/units/{program}\n" for program in programs or (given,))
    )


def test_a_dropin_comes_and_goes(host: Host) -> None:
    done = host("systemd", "backup")
    assert done.out.startswith(f"backup.service: {BACKGROUND} for all its connections, by {UNITS}/backup.service.d/{NAME}\n")
    assert f"{BACKGROUND}: it was not enabled, and is now" in done.err
    assert host.dropin("backup.service").read_text() == words(host.cli.root, "backup.service", "Service")
    assert (host.dropin("backup.service").stat().st_mode & 0o777, host.pins) == (0o644, {"units", f"units/{BACKGROUND}"})
    assert f"names {BACKGROUND} already" in host("systemd", "backup.service", BACKGROUND, code=5).err
    host("systemd", "backup.service", "ltcp")
    assert host.dropin("backup.service").read_text() == words(host.cli.root, "backup.service", "Service", "ltcp")
    assert host.pins == {"units", "units/ltcp"}, "no drop-in names the other one any more"
    host("systemd", "bulk.slice", "ltcp")
    host("systemd", "other", BACKGROUND)
    host("systemd", "other", "ltcp")
    assert host.pins == {"units", "units/ltcp"}
    host("systemd", "other", "--remove")
    host("systemd", "backup", "--remove")
    assert not host.dropin("backup.service").parent.exists() and host.pins == {"units", "units/ltcp"}
    host("systemd", "bulk.slice", "--remove")
    assert not list(host.units.iterdir()) and not host.pins
    assert "there is no such file" in host("systemd", "bulk.slice", "--remove", code=5).err


def test_a_dropin_for_downloads(host: Host) -> None:
    """It needs no controller. For both directions it has two lines."""
    done = host("systemd", "backup", "--download")
    assert done.out.startswith("backup.service: rx_le for all its connections, by ") and "is now" not in done.err
    written = host.dropin("backup.service")
    assert written.read_text() == words(host.cli.root, "backup.service", "Service", "--download", ("rx_le",))
    assert host.pins == {"units", "units/rx_le"} and not host.cli.status()
    assert "names rx_le already" in host("systemd", "backup", "-d", code=5).err
    done = host("-j", "systemd", "backup", "ltcp", "-d", "-u")
    assert (done.json["controller"], done.json["upload"], done.json["download"]) == ("ltcp", True, True)
    both = words(host.cli.root, "backup.service", "Service", "ltcp --upload --download", ("ltcp", "rx_le"))
    assert written.read_text() == both and host.pins == {"units", "units/ltcp", "units/rx_le"}
    assert host("systemd", "backup", "ltcp", "-du", "--print").out == both
    host("clean", "--all")
    assert host("-j", "systemd", "--all").json == {"controllers": ["rx_le", "ltcp"]}
    assert host.pins == {"units", "units/ltcp", "units/rx_le"}
    host("systemd", "backup", "ltcp")
    assert host.pins == {"units", "units/ltcp"}
    host("disable", "ltcp")
    host("systemd", "backup", "--download")
    host("systemd", "backup", "--remove")
    assert not host.pins and not list(host.units.iterdir()) and not host.cli.root.exists()


def test_at_boot_what_the_dropins_name_is_pinned(host: Host) -> None:
    host("systemd", "a", "tcp_lp")
    host("systemd", "b@", "ltcp")
    host("clean", "--all")
    assert host.dropin("b@.service").exists() and not host.cli.root.exists()
    assert host("-j", "systemd", "--all").json == {"controllers": ["tcp_lp", "ltcp"]}
    assert host.pins == {"units", "units/tcp_lp", "units/ltcp"} and host.cli.status().keys() == {"tcp_lp", "ltcp"}
    host("systemd", "--all")  # again
    host("systemd", "a", "--remove")
    host("systemd", "b@", "--remove")
    assert "no unit has a drop-in" in host("systemd", "--all", code=5).err


@pytest.mark.parametrize("section", ["Service", "Slice", "Socket", "Scope"])
def test_print_does_nothing_else(host: Host, section: str) -> None:
    unit = f"a@b.{section.lower()}"
    assert host("systemd", unit, "--print").out == words(host.cli.root, unit, section)
    shown = host("-j", "systemd", unit, "--print").json
    assert "\n".join(shown["lines"]) + "\n" == words(host.cli.root, unit, section)
    assert not list(host.units.iterdir()) and not host.cli.root.exists()


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ([], "no unit is named"),
        (["a", "--all"], "do not belong together"),
        (["a", "--print", "--remove"], "do not belong together"),
        (["a", "tcp_lp", "--remove"], "do not belong together"),
        (["a", "tcp_lp", "b"], "only one unit and one controller"),
        (["a", "tcp_lp", "--download"], "that is for what is sent"),
        (["a", "--download", "--remove"], "do not belong together"),
        (["--all", "--download"], "no unit is named"),
        (["a", "tcp_lq"], "did you mean tcp_lp"),
        ([""], "not a unit's name"),
        (["../../tmp/x"], "not a unit's name"),
        (["a/b.service"], "not a unit's name"),
        (["a\nb"], "not a unit's name"),
        (["a%n"], "not a unit's name"),
        ([".service"], "not a unit's name"),
        (["@.service"], "not a unit's name"),
        (["x" * 248], "not a unit's name"),
        (["a.timer"], "no connections of their own"),
        (["a.mount"], "no connections of their own"),
        (["system.slice"], "pins the program at boot"),
        (["--", "-.slice"], "pins the program at boot"),
        (["ccbpf-units"], "pins the program at boot"),
    ],
)
def test_what_is_wrong(host: Host, given: list[str], said: str) -> None:
    assert said in host("systemd", *given, code=2).err
    assert not list(host.units.iterdir()) and not host.cli.root.exists()


def test_a_file_of_somebody_else_stays(host: Host) -> None:
    path = host.dropin("a.service")
    path.parent.mkdir()
    path.write_text("[Service]\nNice=5\n")
    for given in (("a",), ("a", "--remove")):
        assert "ccbpf has not written this file" in host("systemd", *given, code=1).err
        assert not host.cli.root.exists()  # what was enabled and pinned in vain is given back
    path.unlink()
    path.symlink_to(host.units / "elsewhere")
    assert "symbolic links" in host("systemd", "a", code=1).err and not (host.units / "elsewhere").exists()


def test_a_pin_of_somebody_else_stays(host: Host) -> None:
    host("enable", BACKGROUND)
    pin = host.cli.root / "units" / BACKGROUND
    pin.parent.mkdir()
    kernel.run("bpftool", "map", "create", pin, "type", "array", "key", 4, "value", 8, "entries", 1, "name", "x")
    assert "another program made it" in host("systemd", "a", code=1).err and not list(host.units.iterdir())
    host("clean", "--all")
    assert host.pins == {"units", f"units/{BACKGROUND}"}
    pin.unlink()
    pin.parent.rmdir()
    host.cli.root.rmdir()


def test_killed_at_every_step(host: Host, kill_at: Path) -> None:
    """The file is complete or absent, and never there before its pin; the next command completes what is missing."""
    host("enable", "ltcp")
    code, at, seen = 1, 0, set()
    while code:
        at += 1
        code = host.killed(kill_at, at, "systemd", "a", "ltcp")
        assert code in (0, -signal.SIGKILL) and at < 20
        written = host.dropin("a.service").exists()
        seen.add((bool(host.pins), written))
        if written:
            assert host.dropin("a.service").read_text() == words(host.cli.root, "a.service", "Service", "ltcp")
            assert host.pins == {"units", "units/ltcp"}
        else:
            host("systemd", "a", "ltcp")
        host("systemd", "a", "--remove")
        assert not host.pins and not list(host.units.iterdir())
    assert seen >= {(False, False), (True, False), (True, True)}


@contextmanager
def attached(host: Host, controller: str = BACKGROUND) -> Iterator[tuple[str, ...]]:
    """A cgroup with the program of a controller, attached as systemd does it: a prefix for commands in it."""
    path = MOUNT / f"{UNIQUE}.slice" / "a.service" / "inner"
    path.mkdir(parents=True)
    try:
        kernel.run(
            "bpftool", "cgroup", "attach", path.parent.parent, "sock_ops", "pinned", host.cli.root / "units" / controller, "multi"
        )
        yield ("sh", "-c", f'echo $$ > {path}/cgroup.procs; exec "$@"', "sh")
    finally:
        for below in (path, path.parent, path.parent.parent):
            below.rmdir()


def got(sinks: Sinks, prefix: tuple[str, ...], family: str = "4", *chosen: str, python: str = PYTHON) -> str:
    return kernel.run(*prefix, *sinks.client(family, 10, *chosen, python=python)).stdout.split()[0]


def test_connections_of_its_cgroup_get_the_controller(host: Host, sinks: Sinks) -> None:
    host("systemd", "a")
    with attached(host) as within:
        assert [got(sinks, within, family) for family in ("4", "6", "mapped")] == [BACKGROUND] * 3
        assert got(sinks, ()) == default()
        assert got(sinks, within, "4", "reno") == "reno"
        with sinks.held(*within) as (pid, port):
            flow = next(flow for flow in host("-j", "flows").json["flows"] if flow["local_port"] == port)
            origin = flow["origin"]
            assert (origin["by"], origin["id"], origin["of"]) == ("systemd", None, "a.service")
            assert origin["cgroup"] == f"/{UNIQUE}.slice/a.service/inner" and origin["processes"][0]["pid"] == pid
            assert "by systemd (a.service); cgroup" in host("-v", "flows").out
            assert host.cli.status()[BACKGROUND]["origins"] == [{"by": "systemd", "id": None, "flows": 1}]
        host("disable", BACKGROUND)  # nothing breaks, and what is attached works again afterwards
        assert got(sinks, within) == default()
        host("enable", BACKGROUND)
        assert got(sinks, within) == BACKGROUND
        (shown,) = host("-j", "status").json["units"]
        assert shown["controller"] == BACKGROUND
        assert {name: n for name, n in shown["counts"].items() if n} == {"set": 5, "kept": 1, "refused": 1}
        assert f"units with {BACKGROUND}: 5 connections, 1 kept another, 1 refused" in host("status").out
        host("clean", "--all")
        assert got(sinks, within) == default()


def test_a_socket_that_connects_anew(host: Host, server: Server) -> None:
    """The kernel still knows that a controller was chosen for it. But that was us."""
    host("systemd", "a")
    with attached(host) as within:
        child = subprocess.Popen([*within, *anew(server.port)], stdout=subprocess.PIPE, text=True)
        answer(server.listener)
        out, _ = child.communicate(timeout=ENDS_S)
        assert out.split() == [BACKGROUND] * 2
        (shown,) = host("-j", "status").json["units"]
        assert {name: n for name, n in shown["counts"].items() if n} == {"set": 2}


@pytest.mark.parametrize(("lock", "expected"), ROUTES, ids=ROUTE_IDS)
def test_the_controller_of_a_route(host: Host, netns_pair: Pair, lock: tuple[str, ...], expected: str) -> None:
    host("systemd", "a")
    with attached(host) as within, routed(netns_pair, lock) as client:
        assert kernel.run(*within, *client).stdout.split()[0] == expected
    (shown,) = host("-j", "status").json["units"]
    assert {name: n for name, n in shown["counts"].items() if n} == {"refused" if lock else "set": 1}


def test_ltcp_is_for_root(host: Host, sinks: Sinks) -> None:
    host("systemd", "a", "ltcp")
    with attached(host, "ltcp") as within:
        assert got(sinks, within, python=SYSTEM_PYTHON) == "ltcp"
        nobody = (*within, "setpriv", "--reuid=65534", "--clear-groups")
        assert got(sinks, nobody, python=SYSTEM_PYTHON) == default()


# --- a real systemd ---

# As PID 1 of namespaces of its own, on a host with cgroup v2 alone.
BOOT = """
mount -t proc proc /proc
umount -R /sys/fs/cgroup
mount -t cgroup2 cgroup2 /sys/fs/cgroup
mount -t tmpfs tmpfs /run
mount --bind {units} {system}
ip link set lo up
exec env -i container=test PATH="$PATH" {systemd} --system --unit=test.target --log-target=null --show-status=no
"""

# Writes the controllers of both ends of a connection.
BOTH = """
import socket, sys
with socket.create_server(("127.0.0.1", 0)) as s, socket.create_connection(s.getsockname()) as near, s.accept()[0] as far:
    found = [end.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16).split(b"\\0")[0].decode() for end in (near, far)]
open(sys.argv[1], "w").write(" ".join(found))
"""


def service(command: str, unit: str = "", more: str = "") -> str:
    return f"[Unit]\nDefaultDependencies=no\n{unit}\n[Service]\nType=oneshot\nExecStart={command}\n{more}\n"


def boot(host: Host, tmp_path: Path) -> None:
    """Start test.target, whose end.service ends it."""
    systemd = next(path for path in ("/usr/lib/systemd/systemd", "/lib/systemd/systemd") if os.path.exists(path))
    script = tmp_path / "boot.sh"
    script.write_text(BOOT.format(units=host.units, system=UNITS, systemd=systemd))
    outer = MOUNT / f"{UNIQUE}-boot"
    outer.mkdir()
    try:
        enter = ("sh", "-c", f'echo $$ > {outer}/cgroup.procs; exec "$@"', "sh")
        spaces = ("unshare", "--mount", "--pid", "--fork", "--cgroup", "--net", "--uts", "--ipc", "--kill-child")
        kernel.run("timeout", "-k", "1", BOOT_S, *enter, *spaces, "sh", "-e", script)
    finally:
        remove_cgroup(outer)


def test_connections_of_its_cgroup_receive_in_the_background(host: Host) -> None:
    """The program does not depend on its pin: a unit keeps its program when the pin is removed."""
    host("systemd", "a", "--download")
    with serving("127.0.0.1") as server, attached(host, "rx_le") as within:
        with held(server, *within) as port, server.connection() as outside:
            (flow,) = records(host.cli)
            assert (flow["local_port"], flow["origin"]["by"], flow["origin"]["of"]) == (port, "systemd", "a.service")
            assert outside.record(host.cli) is None
            host("clean")
            assert len(records(host.cli)) == 1
            (shown,) = host("-j", "status").json["units"]
            assert (shown["controller"], shown["counts"]["receivers"], shown["counts"]["set"]) == ("rx_le", 1, 0)
            assert "systemd's units with rx_le: 1 downloads" in host("status").out
        kernel.eventually(lambda: not records(host.cli), 5, "the record of a closed connection goes")
        host("assign", "--download", "--remote-port", server.port)
        with held(server, *within) as port:  # the inner program wins
            (flow,) = records(host.cli)
            assert flow["origin"]["by"] == "systemd"
        host("systemd", "a", "--remove")


def test_clean_opens_what_a_unit_holds(host: Host) -> None:
    """The unit keeps its program until it stops; the program leaves that connection alone."""
    host("systemd", "a", "--download")
    with serving("127.0.0.1") as server, attached(host, "rx_le"), ExitStack() as stack:
        with this_process_in(MOUNT / f"{UNIQUE}.slice/a.service/inner"):
            ends = stack.enter_context(server.connection())
        assert ends.clamp < OPEN
        host("clean", "--all")
        assert ends.clamp == OPEN
        ends.receive()
        assert ends.clamp == OPEN


def test_systemd_itself_attaches_it(host: Host, tmp_path: Path) -> None:
    """After a boot: ccbpf-units.service pins what the drop-ins name, before the units start. A pin that is missing stops no unit."""
    both = tmp_path / "both.py"
    both.write_text(BOTH)
    names = ("bg", "sliced", "plain", "missing", "both")
    for name in names:
        slice_ = "Slice=bulk.slice" if name == "sliced" else ""
        (host.units / f"{name}.service").write_text(service(f"{SYSTEM_PYTHON} {both} {tmp_path}/{name}", more=slice_))
    host("systemd", "bg")
    host("systemd", "bulk.slice")
    host("systemd", "missing")
    host("systemd", "both", "-d", "-u")
    lost = host.dropin("missing.service")
    lost.write_text(lost.read_text().replace(f"units/{BACKGROUND}", "units/none"))
    host("clean", "--all")
    environment = f"Environment=CCBPF_PIN_ROOT={host.cli.root}"
    (host.units / "ccbpf-units.service").write_text(service(f"{CCBPF.resolve()} systemd --all", more=environment))
    units = " ".join(f"{name}.service" for name in names)
    (host.units / "test.target").write_text(f"[Unit]\nDefaultDependencies=no\nWants={units} end.service\n")
    ending = f"After={units}\nSuccessAction=exit-force\nFailureAction=exit-force"
    (host.units / "end.service").write_text(service("/bin/true", ending))
    boot(host, tmp_path)
    found = {name: (tmp_path / name).read_text().split() for name in names}
    in_background = {name: [BACKGROUND] * 2 for name in ("bg", "sliced", "both")}
    assert found == in_background | {name: [default()] * 2 for name in ("plain", "missing")}
