# SPDX-License-Identifier: GPL-2.0-only
"""Makes a guest: vmlinux unpacked, and an initramfs of the tools and of those modules that experiments need.

The tools come from one suite for all kernels, so that what differs between guests is the kernel; and not from this
machine, so that the same lock gives the same bytes anywhere. Our own command and programs are another archive behind
this one (product): they change often, this one hardly ever.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import lzma
import os
import re
import shutil
import struct
import tempfile
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from .cpio import Tree
from .errors import LabError, command
from .lock import CACHE, TOOLS, Package, Resolver, exclusively, pins_of

HERE = Path(__file__).parent
REPOSITORY = HERE.parents[2]
BUILD = REPOSITORY / "build"

PROGRAMS = """dash ip tc ss nstat bridge iperf3 ethtool tcpdump bpftool ping busybox""".split()
DLOPENED = ["libgcc_s.so.1"]  # by pthread_cancel, without which iperf3 never ends
APPLETS = """[ awk basename cat chmod chrt cmp cp cttyhack cut date dd df diff dirname dmesg du echo env expr false find
    free grep gunzip gzip head hexdump hostname id kill killall less ln logger ls lsmod md5sum mkdir mkfifo mknod
    modprobe mount mv nice nohup od paste pidof printf ps pwd readlink rm rmdir rmmod sed seq setsid sha256sum sleep
    sort stat sync sysctl tail tar tee test time timeout top touch tr true truncate tty umount uname uniq uptime
    usleep vi wc which xargs yes zcat""".split()
MODULES = """veth dummy ifb tun sch_netem sch_htb sch_tbf sch_red sch_gred sch_fq sch_fq_codel sch_codel sch_pie sch_fq_pie
    sch_cake sch_prio sch_sfq sch_etf sch_ingress sch_plug sch_drr sch_hfsc sch_multiq
    cls_bpf cls_u32 cls_flower cls_fw cls_basic cls_matchall cls_cgroup em_u32 em_meta
    act_bpf act_gact act_mirred act_police act_skbedit act_pedit act_csum
    tcp_lp tcp_westwood tcp_highspeed tcp_bic tcp_htcp tcp_vegas tcp_illinois tcp_dctcp tcp_bbr tcp_veno tcp_yeah
    tcp_hybla tcp_scalable tcp_nv tcp_cdg tcp_diag udp_diag inet_diag unix_diag raw_diag
    af_packet xfrm_user ipv6""".split()
UNUSED_S = 86400.0  # a guest of an older recipe that nobody booted for so long goes
CONFIGURATION = {
    "etc/passwd": "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n",
    "etc/group": "root:x:0:\nnogroup:x:65534:\n",
    "etc/hosts": "127.0.0.1 localhost\n::1 localhost\n",
    "etc/hostname": "lab\n",
    "etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\n",
}


@dataclass(frozen=True)
class Guest:
    """A kernel and its tools, ready to boot."""

    kernel: str  # its name in the lock
    release: str  # uname -r
    directory: Path
    packages: dict[str, str]  # name: version
    fell_forward: tuple[str, ...]  # "package: pinned version, not to be had: version"

    @property
    def vmlinux(self) -> Path:
        return self.directory / "vmlinux"

    @property
    def base(self) -> Path:
        return self.directory / "base.cpio"


# --- the parts of a package ------------------------------------------------------------------------------------------


def unpack(package: Path, into: Path) -> None:
    command(["dpkg-deb", "-x", package, into], f"remove {package} and try again")


def vmlinux_of(bzimage: bytes) -> bytes:
    """The ELF inside a vmlinuz: its place by the boot protocol (2.08), its compression by its first bytes."""
    sectors = bzimage[0x1F1] or 4
    offset, length = struct.unpack_from("<II", bzimage, 0x248)
    start = (sectors + 1) * 512 + offset
    payload = bzimage[start : start + length]
    (size,) = struct.unpack("<I", payload[-4:])  # the kernel's build appends it
    body = payload[:-4]
    if body.startswith(b"\x02\x21\x4c\x18"):
        elf = command(["lz4", "-dc"], data=body)
    elif body.startswith(b"\x28\xb5\x2f\xfd"):
        elf = command(["zstd", "-dc"], data=body)
    elif body.startswith(b"\x1f\x8b"):
        elf = gzip.decompress(body)
    elif body.startswith(b"\xfd7zXZ"):
        elf = lzma.decompress(body)
    else:
        raise LabError(f"vmlinuz: a compression that starts with {body[:4].hex()}; teach image.py this one")
    if len(elf) != size or not elf.startswith(b"\x7fELF"):
        raise LabError(f"vmlinuz: {len(elf)} bytes came out of it, not an ELF of {size}")
    return elf


def find_vmlinuz(root: Path) -> Path:
    for pattern in ("boot/vmlinuz-*", "usr/lib/modules/*/vmlinuz", "lib/modules/*/vmlinuz"):
        for path in root.glob(pattern):
            return path
    raise LabError(f"no vmlinuz in the kernel's packages ({', '.join(p.name for p in root.iterdir())})")


def modules_directory(root: Path) -> Path:
    for pattern in ("usr/lib/modules/*", "lib/modules/*"):
        for path in root.glob(pattern):
            if (path / "kernel").is_dir():
                return path
    raise LabError("no modules in the kernel's packages")


# --- modules ---------------------------------------------------------------------------------------------------------


def module_name(path: str) -> str:
    return Path(path).name.split(".ko")[0].replace("-", "_")


def decompress_module(path: Path) -> bytes:
    data = path.read_bytes()
    if path.suffix == ".xz":
        return lzma.decompress(data)
    if path.suffix == ".zst":
        return command(["zstd", "-dc"], data=data)
    return data


def add_modules(tree: Tree, root: Path) -> str:
    """The wanted modules, with what they depend on, and depmod's tables; returns the kernel's release."""
    source = modules_directory(root)
    release = source.name
    staging = root / "staging"
    target = staging / "lib/modules" / release
    command(["depmod", "-b", modules_root(root, source), release])
    needs = {module_name(line.split(":")[0]): line.replace(":", "").split() for line in
             (source / "modules.dep").read_text().splitlines()}  # fmt: skip
    for name in MODULES:
        for relative in needs.get(name, []):  # a name that is missing is built in, or not in this kernel
            path = target / "kernel" / (module_name(relative) + ".ko")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(decompress_module(source / relative))
    for table in ("modules.builtin", "modules.builtin.modinfo", "modules.order"):
        if (source / table).exists():
            shutil.copy(source / table, target / table)
    command(["depmod", "-b", staging, release])
    for path in sorted(target.rglob("*")):
        if path.is_file():
            tree.file(f"usr/lib/modules/{release}/{path.relative_to(target)}", path.read_bytes())
    return release


def modules_root(root: Path, source: Path) -> Path:
    """What `depmod -b` takes: the directory above lib/modules, whether the package has merged /usr or not."""
    if not (root / "lib").exists():
        (root / "lib").symlink_to(source.parents[1].relative_to(root))
    return root


# --- programs and libraries ------------------------------------------------------------------------------------------


def needed(program: Path) -> list[str]:
    """The libraries that an ELF names."""
    text = command(["readelf", "-dW", program], "`make deps` installs binutils with gcc").decode()
    return re.findall(r"\(NEEDED\).*\[(.*)\]", text)


def find(root: Path, name: str, directories: Iterable[str]) -> Path | None:
    for directory in directories:
        path = root / directory / name
        if path.exists():
            return path
    return None


def add_tools(tree: Tree, root: Path) -> None:
    """The programs and all libraries that they need, from an unpacked suite."""
    binaries = ("usr/bin", "usr/sbin", "bin", "sbin")
    libraries = ("usr/lib/x86_64-linux-gnu", "lib/x86_64-linux-gnu", "usr/lib64", "lib64")
    waiting = list(DLOPENED)
    for name in PROGRAMS:
        path = find(root, name, binaries)
        if not path:
            raise LabError(f"{name}: in none of the tools' packages; mend kernels.lock")
        tree.program(f"usr/bin/{name}", path)
        waiting += needed(path)
    seen: set[str] = set()
    while waiting:
        name = waiting.pop()
        if name in seen:
            continue
        seen.add(name)
        path = find(root, name, libraries)
        if not path:
            raise LabError(f"{name}: in none of the tools' packages; `python -m tests.lab.guest lock` finds which")
        place = "usr/lib64" if name.startswith("ld-linux") else "usr/lib/x86_64-linux-gnu"
        tree.program(f"{place}/{name}", path)
        waiting += needed(path)
    for table in sorted((root / "usr/lib/tc").glob("*.dist")):
        tree.file(f"usr/lib/tc/{table.name}", table.read_bytes())


def add_system(tree: Tree) -> None:
    """What makes it a system: links, applets, /init, configuration, the first device nodes."""
    for name in ("proc", "sys", "dev", "run", "tmp", "root", "lab", "var"):
        tree.directory(name)
    for name in ("bin", "sbin", "lib", "lib64"):
        tree.link(name, f"usr/{name}")
    for applet in APPLETS:
        tree.link(f"usr/bin/{applet}", "busybox")
    tree.link("usr/bin/sh", "dash")
    tree.link("usr/sbin/modprobe", "../bin/busybox")  # where the kernel calls it
    tree.link("var/run", "/run")
    for path, text in CONFIGURATION.items():
        tree.file(path, text.encode())
    tree.character_device("dev/console", 5, 1)
    tree.program("init", HERE / "init")


def add_own(tree: Tree, scratch: Path) -> None:
    """Our own programs in there, static."""
    for source in sorted(HERE.glob("*.c")):
        output = scratch / source.stem
        command(["gcc", "-std=gnu11", "-Wall", "-Wextra", "-Werror", "-Os", "-s", "-static", "-o", output, source])
        tree.program(f"usr/bin/{source.stem}", output)


# --- a guest ---------------------------------------------------------------------------------------------------------


def key_of(kernel: str) -> str:
    """Changes with anything that a guest is made from."""
    digest = hashlib.sha256(repr(pins_of(kernel)).encode())
    for path in (HERE / "image.py", HERE / "cpio.py", HERE / "init", *sorted(HERE.glob("*.c"))):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:12]


def build(kernel: str) -> Guest:
    """The guest of that name, from the cache if nothing changed since it was made."""
    directory = CACHE / "guests" / f"{kernel}-{key_of(kernel)}"
    note = directory / "guest.json"
    if not note.exists():
        with exclusively():
            if not note.exists():
                _make(kernel, directory)
    known = json.loads(note.read_text())
    os.utime(directory)  # used now
    return Guest(kernel, known["release"], directory, known["packages"], tuple(known["fell_forward"]))


def _make(kernel: str, directory: Path) -> None:
    packages = Resolver().packages(pins_of(kernel))
    for old in directory.parent.glob(f"{kernel}-*"):
        if time.time() - old.stat().st_mtime > UNUSED_S:  # another work tree may boot from a fresher one just now
            shutil.rmtree(old)
    tree = Tree()
    with tempfile.TemporaryDirectory(prefix="ccbpf-guest.") as name:
        scratch = Path(name)
        for package in packages:
            for path in package.paths:
                unpack(path, scratch / ("tools" if package.pin.role == TOOLS else "kernel"))
        release = add_modules(tree, scratch / "kernel")
        add_tools(tree, scratch / "tools")
        add_system(tree)
        add_own(tree, scratch)
        vmlinux = vmlinux_of(find_vmlinuz(scratch / "kernel").read_bytes())
    directory.mkdir(parents=True)
    (directory / "vmlinux").write_bytes(vmlinux)
    (directory / "base.cpio").write_bytes(tree.pack())
    (directory / "guest.json").write_text(json.dumps(_note(release, packages), indent=1) + "\n")  # last: all is there


def _note(release: str, packages: list[Package]) -> dict[str, object]:
    forward = [f"{p.pin.package}: {p.pin.version} is not to be had, taken was {p.package} {p.version}" for p in packages
               if p.fell_forward]  # fmt: skip
    return {
        "release": release,
        "packages": {p.package: p.version for p in packages},
        "fell_forward": forward,
    }


# --- what is tested --------------------------------------------------------------------------------------------------


def product() -> Tree:
    """Our command with the very libraries that it was linked with, and the objects: /opt/ccbpf, /usr/bin/ccbpf."""
    binary = BUILD / "ccbpf"
    if not binary.exists():
        raise LabError(f"{binary}: not built; `make all` builds it")
    tree = Tree()
    tree.program("opt/ccbpf/ccbpf", binary)
    for name, path in libraries_here(binary).items():
        tree.program(f"opt/ccbpf/lib/{name}", path)
    start = "exec /opt/ccbpf/lib/ld-linux-x86-64.so.2 --argv0 ccbpf --library-path /opt/ccbpf/lib /opt/ccbpf/ccbpf"
    tree.file("usr/bin/ccbpf", f'#!/bin/sh\n{start} "$@"\n'.encode(), 0o755)
    for path in sorted((BUILD / "bpf").glob("*.bpf.o")):
        tree.file(f"opt/ccbpf/bpf/{path.name}", path.read_bytes())
    return tree


def libraries_here(binary: Path) -> dict[str, Path]:
    """The libraries of a program of this machine, and its ld.so."""
    found: dict[str, Path] = {}
    for line in command(["ldd", binary]).decode().splitlines():
        if match := re.match(r"\s*(?:\S+ => )?(/\S+) \(0x", line):
            path = Path(match[1])
            found[path.name] = path
        elif "not found" in line:
            raise LabError(f"{binary}: {line.strip()}; `make deps` installs it")
    return found
