# SPDX-License-Identifier: GPL-2.0-only
"""The Debian package: built twice with the same bytes, accepted by lintian (deb.sh asks it), and in a minimal system of this release
installed, used, upgraded, removed and purged. The completions in zsh and fish, and what systemd says of the unit."""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import socket
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.functional import kernel
from tests.functional.conftest import Cli
from tests.packaging import BUILD, ROOT, run

MINIMAL = ROOT / ".cache/chroot/minimal.tar"
ARCHIVES = {"Debian", "Debian Backports", "Ubuntu"}
EXPOSURE_MOST = 40  # of 100: what `systemd-analyze security` calls 4.0
STEP_S = 120.0
INSIDE = """
for d in proc sys dev; do mount --rbind /$d "$1/$d"; done
mount -t tmpfs tmpfs "$1/run"
exec chroot "$1" sh -euc "$2"
"""
SENDS = "exec 3<>/dev/tcp/127.0.0.1/{port}; echo hello >&3; read -r answer <&3; echo $answer"


def build(directory: Path, **environment: str) -> dict[str, Path]:
    """The packages, by name."""
    command = ["sh", "-c", 'umask "$2" && exec packaging/deb.sh "$1"', "sh", str(directory), environment.pop("UMASK", "022")]
    done = subprocess.run(command, cwd=ROOT, env={**os.environ, **environment}, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return {path.name: path for path in directory.glob("*.deb")}


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return build(tmp_path_factory.mktemp("deb"))


@pytest.mark.xdist_group("registry")  # where the other test is that needs them
def test_the_same_commit_gives_the_same_bytes(packages: dict[str, Path], tmp_path: Path) -> None:
    """In another directory, time zone, language and umask."""
    again = build(tmp_path / "some where/else", TZ="Asia/Tokyo", LC_ALL="C", UMASK="077")
    assert {name.split("_")[0] for name in packages} == {"ccbpf", "ccbpf-dbgsym"}
    digests = [
        {name: hashlib.sha256(path.read_bytes()).hexdigest() for name, path in built.items()} for built in (packages, again)
    ]
    assert digests[0] == digests[1]


# --- in a minimal system ---------------------------------------------------------------------------------------------


def archives() -> list[str]:
    """Those of this release that apt uses here, and that of libbpf >= 1.4."""
    listed = run(
        "apt-get", "indextargets", "--format", "$(ORIGIN)|deb $(REPO_URI) $(CODENAME) $(COMPONENT)", "Created-By: Packages"
    )
    lines = [line.split("|", 1) for line in listed.splitlines()]
    return list(dict.fromkeys(line for origin, line in lines if origin in ARCHIVES))


def make_minimal() -> None:
    """What is essential, and apt. Kept: the next time only what is new is fetched."""
    partial = MINIMAL.with_suffix(".partial.tar")
    MINIMAL.parent.mkdir(parents=True, exist_ok=True)
    run("mmdebstrap", "--quiet", "--variant=apt", platform.freedesktop_os_release()["VERSION_CODENAME"], partial, *archives())
    partial.rename(MINIMAL)


@dataclass
class System:
    root: Path
    pins: Path

    def __call__(self, script: str, code: int = 0) -> str:
        """Run a script in it, on this kernel."""
        clean = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C.UTF-8", "DEBIAN_FRONTEND": "noninteractive"}
        environment = {**os.environ, **clean, "CCBPF_PIN_ROOT": str(self.pins)}
        command = ["unshare", "--mount", "--propagation", "private", "sh", "-euc", INSIDE, "sh", str(self.root), script]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=STEP_S)
        assert done.returncode == code, f"{script}: {done}"
        return done.stdout

    def install(self, package: Path) -> None:
        shutil.copy(package, self.root / "ccbpf.deb")
        release = platform.freedesktop_os_release()
        backports = f"-t {release['VERSION_CODENAME']}-backports" if release["VERSION_ID"] == "12" else ""
        self(f"apt-get install -q -y --no-install-recommends {backports} /ccbpf.deb")
        (self.root / "ccbpf.deb").unlink()

    def traces(self) -> set[str]:
        found = self("find / -xdev -name '*ccbpf*' -o -xdev -name 'netnice*'").split()
        return {path for path in found if not path.startswith("/var/log/")}


@pytest.fixture
def system(tmp_path: Path, pin_root: Path) -> System:
    if not MINIMAL.exists():
        make_minimal()
    root = tmp_path / "root"
    root.mkdir()
    run("tar", "-C", root, "-xf", MINIMAL)
    shutil.copy("/etc/resolv.conf", root / "etc/resolv.conf")
    pin = Path("/etc/apt/preferences.d/ccbpf")  # of deps.sh, on Ubuntu 24.04
    if pin.exists():
        shutil.copy(pin, root / pin.relative_to("/"))
    system = System(root, pin_root)
    system("apt-get update -q")
    return system


@pytest.fixture
def echo() -> Iterator[int]:
    """A port of the loopback where a line comes back."""
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


def test_the_life_of_a_package(packages: dict[str, Path], system: System, echo: int, tmp_path: Path) -> None:
    package = next(path for name, path in packages.items() if name.startswith("ccbpf_"))
    assert system.traces() == set()

    system.install(package)
    assert system("dpkg --verify ccbpf") == ""
    assert {"/usr/sbin/ccbpf", "/usr/bin/netnice", "/usr/share/man/man8/netnice.8.gz"} < system.traces()
    assert not list(system.root.glob("etc/systemd/system/*/ccbpf.service")), "an installation starts nothing"
    assert not system.pins.exists()

    system("ccbpf enable tcp_lp")
    assert system(f"netnice bash -c '{SENDS.format(port=echo)}'") == "hello\n"
    assert "tcp_lp" in kernel.available() and set(Cli(system.pins).status()) == {"tcp_lp"}

    link = (system.pins / "tcp_lp/link").stat().st_ino
    system.install(newer(package, tmp_path))
    assert (system.pins / "tcp_lp/link").stat().st_ino == link, "an upgrade leaves what runs alone"

    system("apt-get remove -q -y ccbpf")
    assert "tcp_lp" not in kernel.available() and not system.pins.exists(), "nothing runs that no command could end"
    system("apt-get purge -q -y ccbpf")
    assert system.traces() == set()


# --- beside the package ----------------------------------------------------------------------------------------------


def test_systemd_accepts_the_unit(tmp_path: Path) -> None:
    run("make", "-s", "install", f"PREFIX={tmp_path}", f"DESTDIR={tmp_path / 'root'}")
    unit = tmp_path / "root" / tmp_path.relative_to("/") / "lib/systemd/system/ccbpf.service"
    (tmp_path / "sbin").symlink_to(tmp_path / "root" / tmp_path.relative_to("/") / "sbin")
    verified = subprocess.run(["systemd-analyze", "verify", "--man=no", unit], capture_output=True, text=True)
    assert (verified.returncode, verified.stderr) == (0, "")
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
    """Typed in a terminal, with a tab behind it, `line` goes on so."""
    run("zsh", "-n", BUILD / "completions/_ccbpf")
    run("timeout", "20", "zsh", "-f", "-c", ZSH, "zsh", BUILD / "completions", line, then)
