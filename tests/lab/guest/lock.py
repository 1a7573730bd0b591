# SPDX-License-Identifier: GPL-2.0-only
"""kernels.lock: which packages make the guests. A pinned version that the archive no longer has falls forward."""

from __future__ import annotations

import fcntl
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from .archive import Suite, deb_name
from .errors import LabError

HERE = Path(__file__).parent
LOCK = HERE / "kernels.lock"
CACHE = HERE.parents[2] / ".cache/lab"
TOOLS = "tools"
META = "linux-image-cloud-amd64"  # depends on the suite's newest kernel of this flavour
PARTS = re.compile(r"(linux-(?:binary|modules)-\S+)")  # what a 7.x image leaves to other packages


@dataclass(frozen=True)
class Pin:
    """One line of the lock."""

    role: str  # a kernel's name, or "tools"
    suite: str
    package: str
    version: str


@dataclass(frozen=True)
class Package:
    """A package on this disk, and the pin that it stands for."""

    pin: Pin
    package: str
    version: str
    files: tuple[str, ...]  # names in the cache's packages/

    @property
    def fell_forward(self) -> bool:
        return self.version != self.pin.version

    @property
    def paths(self) -> list[Path]:
        return [CACHE / "packages" / name for name in self.files]


def read(path: Path = LOCK) -> list[Pin]:
    lines = [line.split("#")[0].split() for line in path.read_text().splitlines()]
    return [Pin(*words) for words in lines if words]


def kernels() -> list[str]:
    """The names of the guests, oldest first."""
    return [pin.role for pin in read() if pin.role != TOOLS]


def pins_of(kernel: str) -> list[Pin]:
    """What a guest is made of: its kernel first, then the tools."""
    pins = read()
    own = [pin for pin in pins if pin.role == kernel]
    if not own or kernel == TOOLS:
        raise LabError(f"kernel {kernel}: not in {LOCK.name}; there are {', '.join(kernels())}")
    return own + [pin for pin in pins if pin.role == TOOLS]


@contextmanager
def exclusively() -> Iterator[None]:
    """One process at a time changes the cache."""
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _note(pin: Pin) -> Path:
    return CACHE / "packages" / f"{pin.role}-{pin.package}-{pin.version.replace(':', '%3a')}.json"


def _remember(package: Package) -> Package:
    _note(package.pin).write_text(json.dumps(asdict(package), indent=1))
    return package


def _known(pin: Pin) -> Package | None:
    """The package that was fetched before for this pin, if it is still there."""
    note = _note(pin)
    if not note.exists():
        return None
    known = json.loads(note.read_text())
    package = Package(pin, known["package"], known["version"], tuple(known["files"]))
    return package if all(path.exists() for path in package.paths) else None


class Resolver:
    """Turns pins into packages on this disk, from the cache if they are there."""

    def __init__(self) -> None:
        self._suites: dict[str, Suite] = {}

    def suite(self, name: str) -> Suite:
        return self._suites.setdefault(name, Suite(name, CACHE))

    def packages(self, pins: list[Pin]) -> list[Package]:
        self._fetch_together([pin for pin in pins if pin.role == TOOLS and not _known(pin)])
        return [_known(pin) or self._fetch(pin) for pin in pins]

    def _fetch_together(self, pins: list[Pin]) -> None:
        """One call of apt for all packages, if the archive has all of them; else one call for each."""
        if len(pins) < 2 or len({pin.suite for pin in pins}) > 1:
            return
        try:
            self.suite(pins[0].suite).download([(pin.package, pin.version) for pin in pins], CACHE / "packages")
        except LabError:
            return
        for pin in pins:
            _remember(Package(pin, pin.package, pin.version, (deb_name(pin.package, pin.version),)))

    def _fetch(self, pin: Pin) -> Package:
        suite = self.suite(pin.suite)
        name, version = pin.package, pin.version
        fields = suite.fields(name, version)
        if not fields:
            name = self.newest_kernel(suite) if pin.role != TOOLS else name
            fields = suite.fields(name)
            if not fields:
                raise LabError(f"{name}: {pin.suite} has none; mend {LOCK.name} (python -m tests.lab.guest lock)")
            version = fields["Version"]
        wanted = [name]
        if pin.role != TOOLS:
            wanted += PARTS.findall(fields.get("Depends", ""))
        suite.download([(each, version) for each in wanted], CACHE / "packages")
        return _remember(Package(pin, name, version, tuple(deb_name(each, version) for each in wanted)))

    def newest_kernel(self, suite: Suite) -> str:
        depends = suite.fields(META).get("Depends", "")
        match = re.search(r"linux-image-[0-9]\S*-cloud-amd64", depends)
        if not match:
            raise LabError(f"{META} in {suite.name}: names no kernel ({depends or 'no such package'})")
        return match[0]
