# SPDX-License-Identifier: GPL-2.0-only
"""Writes kernels.lock anew: the newest kernel of each suite, and the tools' packages that are really needed."""

from __future__ import annotations

import tempfile
from pathlib import Path

from .archive import deb_name
from .image import DLOPENED, PROGRAMS, needed, unpack
from .lock import CACHE, LOCK, TOOLS, Pin, Resolver, exclusively

KERNELS = {"6.1": "bookworm", "6.12": "trixie", "7.x": "sid"}
TOOLS_SUITE = "trixie"
ROOTS = ("busybox", "dash", "iproute2", "iperf3", "ethtool", "tcpdump", "bpftool", "iputils-ping")
HEAD = """\
# SPDX-License-Identifier: GPL-2.0-only
# What the guests of the virtual-time lab are made of. Written by `python -m tests.lab.guest lock`.
# A version that the archive no longer has falls forward to the newest of its suite; every result says so.
#
# name  suite     package                                       version
"""


def relock() -> None:
    resolver = Resolver()
    with exclusively():
        pins = [_kernel(resolver, name, suite) for name, suite in KERNELS.items()] + _tools(resolver)
    rows = [f"{pin.role:7} {pin.suite:9} {pin.package:45} {pin.version}".rstrip() + "\n" for pin in pins]
    LOCK.write_text(HEAD + "".join(rows))


def _kernel(resolver: Resolver, name: str, suite_name: str) -> Pin:
    suite = resolver.suite(suite_name)
    package = resolver.newest_kernel(suite)
    return Pin(name, suite_name, package, suite.fields(package)["Version"])


def _may_hold_a_library(package: str) -> bool:
    return package in ROOTS or (package.startswith(("lib", "zlib")) and not package.endswith("-common"))


def _tools(resolver: Resolver) -> list[Pin]:
    """The root packages, and all packages with libraries that their programs need, directly or indirectly."""
    suite = resolver.suite(TOOLS_SUITE)
    versions = {name: version for name, version in suite.closure(list(ROOTS)).items() if _may_hold_a_library(name)}
    suite.download(list(versions.items()), CACHE / "packages")
    owners: dict[str, str] = {}  # file name: package
    files: dict[str, Path] = {}
    with tempfile.TemporaryDirectory(prefix="ccbpf-relock.") as name:
        for package, version in versions.items():
            root = Path(name) / package
            unpack(CACHE / "packages" / deb_name(package, version), root)
            for path in root.rglob("*"):
                if path.is_file() and path.parent.name in ("bin", "sbin", "x86_64-linux-gnu", "lib64"):
                    owners[path.name], files[path.name] = package, path
        used, waiting = set(ROOTS), [*PROGRAMS, *DLOPENED]
        seen: set[str] = set()
        while waiting:
            item = waiting.pop()
            if item in seen or item not in files:
                continue
            seen.add(item)
            used.add(owners[item])
            waiting += needed(files[item])
    return [Pin(TOOLS, TOOLS_SUITE, package, versions[package]) for package in sorted(used)]
