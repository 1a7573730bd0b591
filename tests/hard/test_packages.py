# SPDX-License-Identifier: GPL-2.0-only
"""The RPM has the same files as the Debian package, and can be installed, used, upgraded and erased. The Debian package: built twice with the same bytes, accepted by lintian (deb.sh asks it), and in a minimal system of this release
installed, used, upgraded, removed and purged. The completions in zsh and fish, and what systemd says of the units."""

from __future__ import annotations

import hashlib
import re
import socket
import subprocess
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from tests.functional import kernel
from tests.functional.conftest import Cli
from tests.functional.rules.background import BACKGROUND
from tests.hard.machine import Machine, build, of_command, of_tools
from tests.packaging import BUILD, run

EXPOSURE_MOST = 40  # of 100: what `systemd-analyze security` calls 4.0
SENDS = "exec 3<>/dev/tcp/127.0.0.1/{port}; echo hello >&3; read -r answer <&3; echo $answer"


@pytest.mark.xdist_group("registry")  # where the other test is that needs them
def test_the_same_commit_gives_the_same_bytes(packages: dict[str, Path], tmp_path: Path) -> None:
    """In another directory, time zone, language and umask."""
    again = build(tmp_path / "some where/else", umask="077", TZ="Asia/Tokyo", LC_ALL="C")
    assert {name.split("_")[0] for name in packages} == {"ccbpf", "ccbpf-dbgsym", "ccbpf-tools"}
    digests = [
        {name: hashlib.sha256(path.read_bytes()).hexdigest() for name, path in built.items()} for built in (packages, again)
    ]
    assert digests[0] == digests[1]


# --- in a minimal system ---------------------------------------------------------------------------------------------


@pytest.fixture
def echo() -> Iterator[int]:
    """A port of the loopback that sends each line back."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            peer, _ = server.accept()
            with peer:
                peer.sendall(peer.recv(100))

        thread = threading.Thread(target=answer, daemon=True)
        thread.start()
        yield server.getsockname()[1]
        thread.join(5)


def newer(package: Path, directory: Path) -> Path:
    """The same package as a later version."""
    run("dpkg-deb", "--raw-extract", package, directory / "tree")
    control = directory / "tree/DEBIAN/control"
    version = next(line for line in control.read_text().splitlines() if line.startswith("Version: "))
    control.write_text(control.read_text().replace(version, f"{version}+later"))
    run("dpkg-deb", "--build", directory / "tree", directory / "later.deb")
    return directory / "later.deb"


def test_the_life_of_a_package(packages: dict[str, Path], machine: Machine, echo: int, tmp_path: Path) -> None:
    package = of_command(packages)
    assert machine.traces() == set()

    machine.install(package)
    assert machine("dpkg --verify ccbpf") == ""
    assert {"/usr/sbin/ccbpf", "/usr/bin/netnice", "/usr/share/man/man8/netnice.8.gz"} < machine.traces()
    assert not list(machine.root.glob("etc/systemd/system/*/ccbpf.service")), "an installation starts nothing"
    assert not machine.pins.exists()

    machine(f"ccbpf enable {BACKGROUND}")
    assert machine(f"netnice bash -c '{SENDS.format(port=echo)}'") == "hello\n"
    assert BACKGROUND in kernel.available() and set(Cli(machine.pins).status()) == {BACKGROUND}

    link = (machine.pins / BACKGROUND / "link").stat().st_ino
    machine.install(newer(package, tmp_path))
    assert (machine.pins / BACKGROUND / "link").stat().st_ino == link, "an upgrade leaves what runs alone"

    said = machine("ccbpf plot /etc/hostname 2>&1 || echo $?")
    assert said.endswith("install the package ccbpf-tools (from the source: `make install`)\n1\n"), said
    assert not (machine.root / "usr/bin/python3").exists(), "the command is tried without Python"
    machine.unpack_only(of_tools(packages))  # what it needs for its pictures is some 200 MB
    assert (machine.root / "usr/share/ccbpf/plot.py").exists()
    assert "there is no python3" in machine("ccbpf plot /etc/hostname 2>&1 || echo $?")
    machine("dpkg --purge ccbpf-tools")
    assert not (machine.root / "usr/share/ccbpf/plot.py").exists()

    machine("apt-get remove -q -y ccbpf")
    assert BACKGROUND not in kernel.available() and not machine.pins.exists(), "nothing runs that no command could end"
    machine("apt-get purge -q -y ccbpf")
    assert machine.traces() == set()


def files(paths: Iterable[str]) -> set[str]:
    """The files of a package without its documents, under the names that are common to both kinds."""
    aside = re.compile(r"/usr/share/(doc|licenses|lintian)/|/usr/lib/\.build-id")
    same = {path.removesuffix(".gz").replace("vendor-completions", "site-functions") for path in paths if not aside.match(path)}
    return {re.sub("^/lib/", "/usr/lib/", path) for path in same}


def test_the_life_of_an_rpm(packages: dict[str, Path], machine: Machine, tmp_path: Path) -> None:
    """The same files as in the Debian package; installed where that has left its libraries, used, and erased."""
    tools, package = sorted(build(tmp_path / "rpm", "rpm").values(), key=lambda path: "tools" not in path.name)
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

    machine.install(of_command(packages))
    machine("apt-get purge -q -y ccbpf")
    rpm = ("rpm", "--root", machine.root, "--force-debian", "--nodeps")
    machine.beside(*rpm, "--install", package)
    assert not list(machine.root.glob("etc/systemd/system/*/ccbpf.service")) and not machine.pins.exists()
    machine("systemctl --quiet enable ccbpf.service; ccbpf enable tcp_lp")
    machine.beside(*rpm, "--upgrade", "--force", package)
    assert set(Cli(machine.pins).status()) == {"tcp_lp"}, "an upgrade leaves what runs alone"
    machine.beside(*rpm, "--erase", "ccbpf")
    assert "tcp_lp" not in kernel.available() and not machine.pins.exists(), "nothing runs that no command could end"
    assert machine.traces() == set()


# --- beside the package ----------------------------------------------------------------------------------------------


def test_systemd_accepts_the_units(tmp_path: Path) -> None:
    run("make", "-s", "install", f"PREFIX={tmp_path}", f"DESTDIR={tmp_path / 'root'}")
    installed = tmp_path / "root" / tmp_path.relative_to("/")
    (tmp_path / "sbin").symlink_to(installed / "sbin")
    units = list((installed / "lib/systemd/system").iterdir())
    verified = subprocess.run(["systemd-analyze", "verify", "--man=no", *units], capture_output=True, text=True)
    assert (verified.returncode, verified.stderr) == (0, "")
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
