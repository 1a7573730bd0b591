# SPDX-License-Identifier: GPL-2.0-only
"""Both packages are built twice with the same bytes. The RPM has the same files as the Debian package, and can be installed, used,
upgraded and erased. The Debian package is accepted by lintian (deb.sh asks it), and in a minimal system of this release installed,
used, upgraded with connections that go on, also from another layout of the pins, removed and purged. The completions in zsh and
fish, and what systemd says of the units and of the examples."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import socket
import subprocess
import threading
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.functional import kernel
from tests.functional.conftest import Cli
from tests.functional.rules.background import BACKGROUND
from tests.hard.machine import Machine, build, of_command, of_tools
from tests.packaging import BUILD, ROOT, run

EXPOSURE_MOST = 40  # of 100: what `systemd-analyze security` calls 4.0
SENDS = "exec 3<>/dev/tcp/127.0.0.1/{port}; echo hello >&3; read -r answer <&3; echo $answer"
KEEPS_SENDING = "exec 3<>/dev/tcp/127.0.0.1/{port}; while echo hello >&3 && read -r answer <&3; do sleep 0.01; done"
SENT_MORE = 100  # bytes: seventeen of its lines
ANSWERS_S = 20.0


OF_RPM = "[%{FILENAMES} %{FILEDIGESTS} %{FILEMODES:octal} %{FILEMTIMES} %{FILELINKTOS}\\n]payload %{PAYLOADDIGESTALT}\\n"


def contents(package: Path) -> set[str]:
    """Its files, a line each."""
    command = ["rpm", "-qp", "--qf", OF_RPM] if package.suffix == ".rpm" else ["dpkg-deb", "--fsys-tarfile"]
    said = subprocess.run([*command, package], capture_output=True, check=True).stdout
    if package.suffix != ".rpm":
        said = subprocess.run(["tar", "-tv", "--full-time", "-f", "-"], input=said, capture_output=True, check=True).stdout
    return set(said.decode().splitlines())


@pytest.mark.xdist_group("bytes")  # one after the other: each build takes both cores
@pytest.mark.parametrize("sort", ["deb", "rpm"])
def test_the_same_commit_gives_the_same_bytes(sort: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    """In another directory, time zone, language and umask."""
    packages: dict[str, Path] = request.getfixturevalue("packages" if sort == "deb" else "rpms")
    again = build(
        tmp_path / ("somewhere/else" if sort == "rpm" else "some where/else"), sort, umask="077", TZ="Asia/Tokyo", LC_ALL="C"
    )
    of_sort = {"deb": {"ccbpf", "ccbpf-dbgsym", "ccbpf-tools"}, "rpm": {"ccbpf", "ccbpf-tools"}}
    assert {re.split(r"[-_]\d", name)[0] for name in packages} == of_sort[sort]
    digests = [
        {name: hashlib.sha256(path.read_bytes()).hexdigest() for name, path in built.items()} for built in (packages, again)
    ]
    unlike = [contents(packages[name]) ^ contents(again[name]) for name in packages if digests[0][name] != digests[1].get(name)]
    assert digests[0] == digests[1], unlike


# --- in a minimal system ---------------------------------------------------------------------------------------------


class Echo:
    """A port of the loopback that sends back whatever it gets, until it is closed."""

    def __init__(self) -> None:
        self._server = socket.create_server(("127.0.0.1", 0))
        self._peers: list[socket.socket] = []
        self.port: int = self._server.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                peer, _ = self._server.accept()
                self._peers.append(peer)
                threading.Thread(target=self._answer, args=(peer,), daemon=True).start()

    def _answer(self, peer: socket.socket) -> None:
        with suppress(OSError), peer:
            while data := peer.recv(1000):
                peer.sendall(data)

    def close(self) -> None:
        """Whoever is connected reads an end."""
        for one in (self._server, *self._peers):
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
        self._server.close()


@pytest.fixture
def echo() -> Iterator[Echo]:
    server = Echo()
    yield server
    server.close()


class Stream:
    """The one connection of this host to a port, as `ss` has it."""

    def __init__(self, port: int) -> None:
        self.port = port
        kernel.eventually(lambda: bool(self._shown()), ANSWERS_S, f"a connection to port {port}")
        self.own_port = self._own_port()

    def _shown(self) -> list[str]:
        return run("ss", "-Htin", "state", "established", "dport", "=", f":{self.port}").splitlines()

    def _own_port(self) -> str:
        return self._shown()[0].split()[2].rpartition(":")[2]

    def controller(self) -> str:
        return self._shown()[1].split()[0]

    def acknowledged(self) -> int:
        """Bytes."""
        (found,) = re.findall(r"\bbytes_acked:(\d+)", self._shown()[1])
        return int(found)

    def goes_on(self) -> bool:
        """It is still the same connection, under the controller, and more bytes arrive."""
        before = self.acknowledged()
        kernel.eventually(lambda: self.acknowledged() > before + SENT_MORE, ANSWERS_S, "more bytes are acknowledged")
        return (self._own_port(), self.controller()) == (self.own_port, BACKGROUND)

    def listed(self, machine: Machine) -> bool:
        """Whether the machine's command has its record."""
        flows = json.loads(machine("ccbpf -j flows"))["flows"]
        return [flow["controller"] for flow in flows if str(flow["local_port"]) == self.own_port] == [BACKGROUND]


def repacked(package: Path, directory: Path, version: str, command: Path | None = None) -> Path:
    """The same package under another version, `+later` or `~earlier`, and perhaps with another command in it."""
    run("dpkg-deb", "--raw-extract", package, directory / "tree")
    control = directory / "tree/DEBIAN/control"
    line = next(line for line in control.read_text().splitlines() if line.startswith("Version: "))
    control.write_text(control.read_text().replace(line, line + version))
    if command:
        shutil.copy(command, directory / "tree/usr/sbin/ccbpf")
    run("dpkg-deb", "--build", directory / "tree", directory / "repacked.deb")
    return directory / "repacked.deb"


def command_of_another_layout(directory: Path) -> Path:
    """ccbpf, built from this tree with another CCBPF_ABI and eight bytes more in each record of a flow."""
    tracked = run("git", "ls-files", "Makefile", "bpf", "include", "loader", "packaging", "vmlinux.h").split()
    for name in tracked:
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, directory / name)
    for name, pattern, instead in (
        ("identity.h", r"(#define CCBPF_ABI) (\d+)", r"\1 9\2"),
        ("flow.h", r"(\tX\(of, started_ns, .*)", '\\1\n\tX(of, another, u64, "number", "none") \\\\'),
    ):
        header = directory / "include/ccbpf" / name
        text, changed = re.subn(pattern, instead, header.read_text())
        assert changed == 1, header
        header.write_text(text)
    run("make", "-s", "-C", directory, "-j2", "build/ccbpf")
    return directory / "build/ccbpf"


def test_the_life_of_a_package(packages: dict[str, Path], machine: Machine, echo: Echo, tmp_path: Path) -> None:
    package = of_command(packages)
    assert machine.traces() == set()

    machine.install(package)
    assert machine("dpkg --verify ccbpf") == ""
    assert {"/usr/sbin/ccbpf", "/usr/bin/netnice", "/usr/share/man/man8/netnice.8.gz"} < machine.traces()
    assert not list(machine.root.glob("etc/systemd/system/*/ccbpf.service")), "an installation starts nothing"
    assert not machine.pins.exists()

    machine(f"ccbpf enable {BACKGROUND}")
    assert machine(f"netnice bash -c '{SENDS.format(port=echo.port)}'") == "hello\n"
    assert BACKGROUND in kernel.available() and set(Cli(machine.pins).status()) == {BACKGROUND}

    said = machine("ccbpf plot /etc/hostname 2>&1 || echo $?")
    assert said.endswith("install the package ccbpf-tools (from the source: `make install`)\n1\n"), said
    assert not (machine.root / "usr/bin/python3").exists(), "the command is tried without Python"
    said = machine.install(of_tools(packages), "--simulate")  # what it needs for its pictures is some 200 MB
    assert {"python3", "python3-matplotlib", "ccbpf-tools"} <= set(re.findall(r"^Inst (\S+)", said, re.M)), said
    machine.unpack_only(of_tools(packages))
    assert (machine.root / "usr/share/ccbpf/plot.py").exists()
    assert "there is no python3" in machine("ccbpf plot /etc/hostname 2>&1 || echo $?")
    machine("dpkg --purge ccbpf-tools")
    assert not (machine.root / "usr/share/ccbpf/plot.py").exists()

    machine("apt-get remove -q -y ccbpf")
    assert BACKGROUND not in kernel.available() and not machine.pins.exists(), "nothing runs that no command could end"
    machine("apt-get purge -q -y ccbpf")
    assert machine.traces() == set()


# Instead of the one that would ask systemd: what it is told, and what is enabled at that time.
INVOKE = """#!/bin/sh
{ echo "$*"; ls "$CCBPF_PIN_ROOT"; } >>/told
"""


def test_a_removal_first_stops_what_systemd_runs(packages: dict[str, Path], machine: Machine) -> None:
    """The exporter and the timer would outlive the command. They end before `clean`, so that no page is gathered meanwhile."""
    machine.install(of_command(packages))
    machine(f"ccbpf enable {BACKGROUND}")
    machine.write("stub/deb-systemd-invoke", INVOKE)
    machine("chmod +x /stub/deb-systemd-invoke")
    machine("mkdir -p /run/systemd/system; PATH=/stub:$PATH dpkg --remove ccbpf; touch /told")
    told = (machine.root / "told").read_text().splitlines()
    assert told[:1] == ["stop ccbpf-exporter.service ccbpf-metrics.timer"]
    assert BACKGROUND in told[1:], "before it is cleaned"
    assert BACKGROUND not in kernel.available() and not machine.pins.exists()


def test_an_upgrade_leaves_connections_alone(packages: dict[str, Path], machine: Machine, echo: Echo, tmp_path: Path) -> None:
    """They go on under the programs that they began with: through the upgrade, a reload by the new command, and a removal."""
    package = of_command(packages)
    machine.install(package)
    machine(f"ccbpf enable {BACKGROUND}")
    with machine.running(f"netnice --upload bash -c '{KEEPS_SENDING.format(port=echo.port)}'"):
        stream = Stream(echo.port)
        assert stream.goes_on()
        link = (machine.pins / BACKGROUND / "link").stat().st_ino
        machine.install(repacked(package, tmp_path, "+later"))
        assert (machine.pins / BACKGROUND / "link").stat().st_ino == link, "what is enabled is not touched"
        assert stream.goes_on()
        assert stream.listed(machine)
        machine(f"ccbpf reload {BACKGROUND}")
        assert stream.goes_on()
        machine("apt-get remove -q -y ccbpf")
        assert BACKGROUND not in kernel.available() and not machine.pins.exists()
        assert stream.goes_on()
        echo.close()


def test_an_upgrade_from_another_layout(packages: dict[str, Path], machine: Machine, echo: Echo, tmp_path: Path) -> None:
    """The new command leaves pins alone that it cannot read, says what to do, and what it says works."""
    machine.install(repacked(of_command(packages), tmp_path, "~earlier", command_of_another_layout(tmp_path / "source")))
    machine(f"ccbpf enable {BACKGROUND}")
    with machine.running(f"netnice --upload bash -c '{KEEPS_SENDING.format(port=echo.port)}'"):
        stream = Stream(echo.port)
        assert stream.listed(machine)
        before = machine("ccbpf version")
        machine.install(of_command(packages))
        assert machine("ccbpf version") != before
        for command in ("flows", "status", f"reload {BACKGROUND}", "enable tcp_lp"):
            said = machine(f"ccbpf {command} 2>&1 && exit 9 || true")
            assert f"{machine.pins}/" in said and "`ccbpf clean --all`" in said, f"{command}: {said}"
        assert stream.goes_on()
        machine("ccbpf clean --all")
        assert BACKGROUND not in kernel.available() and not machine.pins.exists()
        assert stream.goes_on(), "under the old program"
        assert machine(f"netnice bash -c '{SENDS.format(port=echo.port)}'") == "hello\n"
        assert set(Cli(machine.pins).status()) == {BACKGROUND}
        echo.close()


def files(paths: Iterable[str]) -> set[str]:
    """The files of a package without its documents, under the names that are common to both kinds."""
    aside = re.compile(r"/usr/share/(doc|licenses|lintian)/|/usr/lib/\.build-id")
    same = {path.removesuffix(".gz").replace("vendor-completions", "site-functions") for path in paths if not aside.match(path)}
    return {re.sub("^/lib/", "/usr/lib/", path) for path in same}


def test_the_files_of_an_rpm(packages: dict[str, Path], rpms: dict[str, Path], tmp_path: Path) -> None:
    """Those of the Debian package."""
    tools, package = sorted(rpms.values(), key=lambda path: "tools" not in path.name)
    query = ("rpm", "--query", "--package", package)
    listed = [line.split() for line in run(*query, "--queryformat", r"[%{FILEMODES:perms} %{FILENAMES}\n]").splitlines()]
    tree = tmp_path / "tree"
    run("dpkg-deb", "--extract", of_command(packages), tree)
    of_deb = {f"/{path.relative_to(tree)}" for path in tree.rglob("*") if path.is_symlink() or not path.is_dir()}
    assert files(path for mode, path in listed if mode[0] != "d") == files(of_deb)
    assert files(run("rpm", "--query", "--package", "--list", tools).splitlines()) == {"/usr/share/ccbpf/plot.py"}
    needed = set(run("rpm", "--query", "--package", "--requires", tools).split())
    assert needed >= {"ccbpf", "python3", "python3-matplotlib"} and "python3" not in run(*query, "--requires")
    assert run(*query, "--configfiles") == "/etc/ccbpf.toml\n"


def test_the_life_of_an_rpm(packages: dict[str, Path], rpms: dict[str, Path], machine: Machine, echo: Echo) -> None:
    """Installed where the Debian package has left its libraries, used, upgraded and erased: a connection goes on."""
    package = next(path for name, path in rpms.items() if "tools" not in name)
    machine.install(of_command(packages))
    machine("apt-get purge -q -y ccbpf")
    rpm = ("rpm", "--root", machine.root, "--force-debian", "--nodeps")
    machine.beside(*rpm, "--install", package)
    assert not list(machine.root.glob("etc/systemd/system/*/ccbpf.service")) and not machine.pins.exists()
    machine(f"systemctl --quiet enable ccbpf.service; ccbpf enable {BACKGROUND}")
    with machine.running(f"netnice --upload bash -c '{KEEPS_SENDING.format(port=echo.port)}'"):
        stream = Stream(echo.port)
        machine.beside(*rpm, "--upgrade", "--force", package)
        assert set(Cli(machine.pins).status()) == {BACKGROUND}, "an upgrade leaves what runs alone"
        assert stream.goes_on() and stream.listed(machine)
        machine.beside(*rpm, "--erase", "ccbpf")
        assert BACKGROUND not in kernel.available() and not machine.pins.exists(), "nothing runs that no command could end"
        assert stream.goes_on()
        echo.close()
    assert machine.traces() == set()


# --- beside the package ----------------------------------------------------------------------------------------------


def check_examples(installed: Path, units: list[Path], directory: Path) -> None:
    """systemd reads each example without a word, as part of a unit that runs something."""
    shutil.copytree(installed / "share/doc/ccbpf/examples", directory)
    for unit in units:
        shutil.copy(unit, directory)
    (directory / "backup.service").write_text("[Service]\nExecStart=/bin/true\n")
    shown = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", directory / "backup.service", directory / "background.slice"],
        env={**os.environ, "SYSTEMD_UNIT_PATH": f"{directory}:"}, capture_output=True, text=True,
    )  # fmt: skip
    assert (shown.returncode, shown.stderr) == (0, "")


def test_systemd_accepts_the_units(tmp_path: Path) -> None:
    run("make", "-s", "install", f"PREFIX={tmp_path}", f"DESTDIR={tmp_path / 'root'}")
    installed = tmp_path / "root" / tmp_path.relative_to("/")
    (tmp_path / "sbin").symlink_to(installed / "sbin")
    units = list((installed / "lib/systemd/system").iterdir())
    verified = subprocess.run(["systemd-analyze", "verify", "--man=no", *units], capture_output=True, text=True)
    assert (verified.returncode, verified.stderr) == (0, "")
    check_examples(installed, units, tmp_path / "examples")
    services = [unit for unit in units if unit.suffix == ".service"]
    assert {unit.stem for unit in services} == {"ccbpf", "ccbpf-units", "ccbpf-metrics", "ccbpf-exporter"}
    for unit in services:
        run("systemd-analyze", "security", "--offline=yes", f"--threshold={EXPOSURE_MOST}", unit)


FISH = {
    "ccbpf ass": {"assign"},
    "ccbpf enable hs": {"hstcp_lp"},
    "ccbpf run --dscp ": {"le"},
    "ccbpf aqm set lo --std ": {"off"},
    "ccbpf set tcp_lp delt": {"delta="},
    "ccbpf renice --from=hs": {"--from=hstcp_lp"},
    "netnice tcpd": {"tcpdump"},
    "netnice nf_": {"nf_tcp"},
}


@pytest.mark.parametrize("line, offered", FISH.items(), ids=FISH.keys())
def test_fish(line: str, offered: set[str]) -> None:
    script = BUILD / "completions/ccbpf.fish"
    shown = run("fish", "--no-config", "-c", "source $argv[1]; complete -C $argv[2]", script, line)
    assert {row.split("\t")[0] for row in shown.splitlines()} == offered


ZSH = r"""
zmodload zsh/zpty
zpty shell zsh -f -i
zpty -w shell "fpath=($1 \$fpath); autoload -Uz compinit; compinit -u -D; echo READY-\$((40 + 2))"
zpty -r shell line '*READY-42*'
zpty -n -w shell "$2"$'\t'
zpty -r shell line "*$3*"
print -r -- "$line"
"""


TYPED = {
    "ccbpf ass": "assign",
    "ccbpf enable hs": "hstcp_lp",
    "ccbpf aqm attach l": "attach lo",
    "ccbpf run nf_": "nf_tcp",
    "netnice --dsc": "--dscp",
    "netnice --dscp=": "--dscp=le",
    "netnice tcp_lp cat Makef": "Makefile",
}


@pytest.mark.parametrize("line, then", TYPED.items(), ids=TYPED.keys())
def test_zsh(line: str, then: str) -> None:
    """`line` is typed in a terminal, and a tab behind it completes it to this."""
    run("zsh", "-n", BUILD / "completions/_ccbpf")
    shown = run("timeout", "20", "zsh", "-f", "-c", ZSH, "zsh", BUILD / "completions", line, then)
    assert then in shown
