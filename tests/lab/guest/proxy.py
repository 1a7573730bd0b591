# SPDX-License-Identifier: GPL-2.0-only
"""nginx (its stream module) for experiments with a relay: an unmodified proxy from the guests' suite, pinned by
proxy.lock. HAProxy needs cmpxchg16b, which the lab's processor does not have because QEMU's is not reliable.

It is not part of the guests: a program that one experiment needs must not change the bytes that all others boot.
"""

from __future__ import annotations

import hashlib
import shutil
import tempfile
from pathlib import Path

from .image import find, needed, unpack
from .lock import CACHE, HERE, Package, Resolver, exclusively, read

LOCK = HERE / "proxy.lock"
PROGRAM, MODULE = "nginx", "ngx_stream_module.so"
IN_GUEST = {"libc.so.6", "libm.so.6", "libdl.so.2", "libpthread.so.0", "librt.so.1", "ld-linux-x86-64.so.2", "libgcc_s.so.1",
            "libz.so.1"}  # fmt: skip
BINARIES = ("usr/sbin", "usr/bin")
LIBRARIES = ("usr/lib/x86_64-linux-gnu", "lib/x86_64-linux-gnu")
MODULES = ("usr/lib/nginx/modules",)


def files() -> dict[str, Path]:
    """The program and its libraries, by name; made once."""
    key = hashlib.sha256(LOCK.read_bytes() + Path(__file__).read_bytes()).hexdigest()[:12]
    directory = CACHE / "guests" / f"proxy-{key}"
    if not directory.exists():
        with exclusively():
            if not directory.exists():
                _make(directory)
    return {path.name: path for path in sorted(directory.iterdir())}


def _make(directory: Path) -> None:
    packages = Resolver().packages(read(LOCK))
    with tempfile.TemporaryDirectory(prefix="ccbpf-proxy.", dir=CACHE) as name:
        root, made = Path(name) / "root", Path(name) / "made"
        made.mkdir()
        _collect(packages, root, made)
        made.rename(directory)  # whole, or not there


def _collect(packages: list[Package], root: Path, made: Path) -> None:
    for package in packages:
        for path in package.paths:
            unpack(path, root)
    waiting: list[str] = []
    for name, directories in ((PROGRAM, BINARIES), (MODULE, MODULES)):
        program = find(root, name, directories)
        assert program, f"{name}: not in the packages of {LOCK.name}"
        shutil.copy(program, made / name)
        waiting += needed(program)
    while waiting:
        library = waiting.pop()
        found = find(root, library, LIBRARIES)
        if (made / library).exists() or library in IN_GUEST:
            continue
        assert found, f"{library}: not in the packages of {LOCK.name}"
        shutil.copy(found, made / library)
        waiting += needed(found)


def configuration(listens: dict[str, str], directory: str = "/lab") -> str:
    """One relay each: from `address:port` to `address:port`. One process, no temporary files."""
    lines = [f"load_module {directory}/{MODULE};", "daemon off;", "master_process off;", "pid /tmp/nginx.pid;",
             "error_log stderr;", "events { worker_connections 1024; }", "stream {", "    proxy_timeout 1h;"]  # fmt: skip
    lines += [f"    server {{ listen {here}; proxy_pass {there}; }}" for here, there in listens.items()]
    return "\n".join([*lines, "}"]) + "\n"
