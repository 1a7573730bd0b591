# SPDX-License-Identifier: GPL-2.0-only
"""The packages, built, and a minimal system of this release in a directory: packages are installed in it, and it can be booted."""

from __future__ import annotations

import os
import platform
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.cgroups import MOUNT, remove_cgroup
from tests.packaging import ROOT, run

MINIMAL = ROOT / ".cache/chroot/systemd.tar"
INCLUDED = "systemd-sysv,iproute2"
ARCHIVES = {"Debian", "Debian Backports", "Ubuntu"}
STEP_S = 120.0
BOOT_S = 30.0
ENDS_S = 20.0
CLEAN = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C.UTF-8", "DEBIAN_FRONTEND": "noninteractive"}
BESIDE = """
for d in proc sys dev; do mount --rbind /$d "$0/$d"; done
mount -t tmpfs tmpfs "$0/run"
exec "$@"
"""

# systemd as PID 1 of namespaces of its own. As in a container, of this kernel's settings only those of its own network can be
# changed. Its bpffs is new, as that of a host after a boot.
BOOT = """
mount --make-rprivate /
mount --bind "$1" "$1"
cd "$1"
mount -t proc proc proc
mount --bind proc/sys proc/sys
mount --bind proc/sys/net proc/sys/net
mount -o remount,bind,ro proc/sys
mount -t sysfs -o ro sysfs sys
mount -t cgroup2 cgroup2 sys/fs/cgroup
mount -t bpf -o mode=0700 bpf sys/fs/bpf
mount -t tmpfs -o mode=0755 tmpfs run
mount -t tmpfs -o mode=0755 tmpfs dev
for node in null zero full random urandom tty; do touch dev/$node; mount --bind /dev/$node dev/$node; done
mkdir dev/pts dev/shm
mount -t devpts -o newinstance,ptmxmode=0666 devpts dev/pts
ln -s pts/ptmx dev/ptmx
pivot_root . .
umount -l .
exec env -i container=test PATH=/usr/sbin:/usr/bin:/sbin:/bin /lib/systemd/systemd --system --log-target=null --show-status=no
"""
LAST = """
[Unit]
DefaultDependencies=no
After=multi-user.target
SuccessAction=exit-force
FailureAction=exit-force
[Service]
Type=oneshot
StandardOutput=truncate:/said
StandardError=truncate:/said
ExecStart=/bin/bash -eu /last
"""


def archives() -> list[str]:
    """The archives of this release that apt uses here, and that of libbpf >= 1.4."""
    listed = run(
        "apt-get", "indextargets", "--format", "$(ORIGIN)|deb $(REPO_URI) $(CODENAME) $(COMPONENT)", "Created-By: Packages"
    )
    lines = [line.split("|", 1) for line in listed.splitlines()]
    return list(dict.fromkeys(line for origin, line in lines if origin in ARCHIVES))


def make_minimal() -> None:
    """What is essential, apt, and systemd. Kept: the next time only what is new is fetched."""
    partial = MINIMAL.with_suffix(".partial.tar")
    MINIMAL.parent.mkdir(parents=True, exist_ok=True)
    suite = platform.freedesktop_os_release()["VERSION_CODENAME"]
    run("mmdebstrap", "--quiet", "--variant=apt", f"--include={INCLUDED}", suite, partial, *archives())
    partial.rename(MINIMAL)


def build(directory: Path, sort: str = "deb", umask: str = "022", **environment: str) -> dict[str, Path]:
    """The packages of this working tree, by name. `sort`: deb or rpm."""
    command = ["sh", "-c", f'umask {umask} && exec packaging/{sort}.sh "$1"', "sh", str(directory)]
    done = subprocess.run(command, cwd=ROOT, env={**os.environ, **environment}, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return packages_in(directory, sort)


def packages_in(directory: Path, sort: str) -> dict[str, Path]:
    return {path.name: path for path in directory.glob(f"*.{sort}")}


def of_command(packages: dict[str, Path]) -> Path:
    return next(path for name, path in packages.items() if name.startswith("ccbpf_"))


def of_tools(packages: dict[str, Path]) -> Path:
    return next(path for name, path in packages.items() if name.startswith("ccbpf-tools_"))


@dataclass
class Machine:
    root: Path
    pins: Path

    @classmethod
    def unpack(cls, root: Path, pins: Path) -> Machine:
        if not MINIMAL.exists():
            make_minimal()
        root.mkdir()
        run("tar", "-C", root, "-xf", MINIMAL)
        shutil.copy("/etc/resolv.conf", root / "etc/resolv.conf")
        pin = Path("/etc/apt/preferences.d/ccbpf")  # of deps.sh, on Ubuntu 24.04
        if pin.exists():
            shutil.copy(pin, root / pin.relative_to("/"))
        machine = cls(root, pins)
        machine("apt-get update -q")
        return machine

    def __call__(self, script: str) -> str:
        """Run a script in it, on this kernel."""
        return self.beside("chroot", self.root, "sh", "-euc", script)

    def beside(self, *words: object) -> str:
        """Run a command of this host while it has this host's kernel file systems."""
        done = subprocess.run(self._command(*words), env=self._environment(), capture_output=True, text=True, timeout=STEP_S)
        assert done.returncode == 0, f"{words}: {done}"
        return done.stdout

    @contextmanager
    def running(self, script: str) -> Iterator[None]:
        """A script in it that runs meanwhile, and ends by itself at the end of the block."""
        words = self._command("chroot", self.root, "sh", "-euc", script)
        with subprocess.Popen(words, env=self._environment(), process_group=0) as process:
            try:
                yield
                process.wait(ENDS_S)
            finally:
                if process.poll() is None:
                    os.killpg(process.pid, signal.SIGTERM)

    def _command(self, *words: object) -> list[str]:
        return ["unshare", "--mount", "--propagation", "private", "sh", "-euc", BESIDE, str(self.root), *map(str, words)]

    def _environment(self) -> dict[str, str]:
        return {**os.environ, **CLEAN, "CCBPF_PIN_ROOT": str(self.pins)}

    def install(self, package: Path, *options: str) -> str:
        """By apt, with what it depends on. What apt says."""
        shutil.copy(package, self.root / "ccbpf.deb")
        release = platform.freedesktop_os_release()
        backports = f"-t {release['VERSION_CODENAME']}-backports" if release["VERSION_ID"] == "12" else ""
        said = self(f"apt-get install -q -y --no-install-recommends {backports} {' '.join(options)} /ccbpf.deb")
        (self.root / "ccbpf.deb").unlink()
        return said

    def unpack_only(self, package: Path) -> None:
        """Without what it depends on."""
        shutil.copy(package, self.root / "package.deb")
        self("dpkg --force-depends --install /package.deb; rm /package.deb")

    def traces(self) -> set[str]:
        found = self("find / -xdev -name '*ccbpf*' -o -xdev -name 'netnice*'").split()
        return {path for path in found if not path.startswith("/var/log/")}

    def write(self, path: str, text: str) -> None:
        target = self.root / path.removeprefix("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)

    def boot(self, last: str) -> str:
        """Boot it, run a script when all units have started, end it. What the script said. Its pins are in a bpffs of its own."""
        self.write("etc/machine-id", f"{0xCC:032x}\n")  # without one systemd would enable whatever is installed
        self.write("etc/systemd/system/last.service", LAST)
        self.write("etc/systemd/system/last.target", "[Unit]\nWants=multi-user.target last.service\n")
        self.write("last", last)
        run("systemctl", f"--root={self.root}", "--quiet", "set-default", "last.target")
        outer = MOUNT / f"ccbpf-boot-{os.getpid()}.slice"  # rules by unit want slices above the unit
        outer.mkdir()
        enter = ["sh", "-c", f'echo $$ > {outer}/cgroup.procs; exec "$@"', "sh", "unshare", "--fork", "--kill-child"]
        spaces = ["--mount", "--pid", "--cgroup", "--net", "--uts", "--ipc"]
        command = ["timeout", "-k", "1", str(BOOT_S), *enter, *spaces, "sh", "-euc", BOOT, "sh", str(self.root)]
        try:
            done = subprocess.run(command, capture_output=True, text=True)
        finally:
            remove_cgroup(outer)
        said = (self.root / "said").read_text()
        assert done.returncode == 0, f"{done}\n{said}"
        return said
