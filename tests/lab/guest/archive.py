# SPDX-License-Identifier: GPL-2.0-only
"""Packages of Debian suites that this machine does not run, fetched by apt and verified by its signatures.

Each suite has an apt root of its own under the cache; nothing of the machine's apt is changed. The archive's address
is CCBPF_DEBIAN_ARCHIVE, or the one that the machine's apt uses for Debian, or (on Ubuntu) the one that python-apt lists for Debian.
"""

from __future__ import annotations

import os
from pathlib import Path

from .errors import LabError, command

KEYRINGS = [Path(f"/usr/share/keyrings/debian-archive-keyring.{ending}") for ending in ("gpg", "pgp")]
TEMPLATE = Path("/usr/share/python-apt/templates/Debian.info")  # of python-apt-common
ARCHITECTURE = "amd64"
NETWORK = "is the archive reachable? It is needed the first time only"


def address() -> str:
    """The address of Debian's archive, from the configuration of this machine."""
    if given := os.environ.get("CCBPF_DEBIAN_ARCHIVE"):
        return given
    targets = command(["apt-get", "indextargets", "--format", "$(LABEL)|$(REPO_URI)", "Created-By: Packages"])
    for line in targets.decode().splitlines():
        label, _, uri = line.partition("|")
        if label == "Debian":  # not Debian-Security, which lies elsewhere
            return uri
    for line in TEMPLATE.read_text().splitlines() if TEMPLATE.exists() else ():
        key, _, uri = line.partition(":")
        if key == "BaseURI":  # the first is the newest suite's main archive
            return uri.strip()
    raise LabError(
        "guest kernels: apt on this machine lists no archive of Debian; "
        "set CCBPF_DEBIAN_ARCHIVE to the address of one (its signatures are verified)"
    )


class Suite:
    """One suite of the archive: bookworm, trixie, sid."""

    def __init__(self, name: str, cache: Path) -> None:
        self.name = name
        self.root = cache / "apt" / name
        self._fresh = False

    def _options(self) -> list[str]:
        settings = {
            "Dir::State": self.root,
            "Dir::State::status": self.root / "status",
            "Dir::Cache": self.root,
            "Dir::Etc::sourcelist": self.root / "sources.list",
            "Dir::Etc::sourceparts": "-",
            "Dir::Etc::preferences": "-",
            "Dir::Etc::preferencesparts": "-",
            "APT::Architecture": ARCHITECTURE,
            "APT::Architectures": ARCHITECTURE,
            "APT::Default-Release": "",
            "APT::Sandbox::User": "root",
            "Acquire::Languages": "none",
            "Acquire::IndexTargets::deb::DEP-11::DefaultEnabled": "false",
            "Acquire::IndexTargets::deb::Contents-deb::DefaultEnabled": "false",
            "Acquire::Retries": "3",
            # a mirror may be behind: an old index is accepted, because versions are pinned and signatures are verified
            "Acquire::Check-Valid-Until": "false",
        }
        return [word for key, value in settings.items() for word in ("-o", f"{key}={value}")]

    def _apt(self, tool: str, *arguments: str, cwd: Path | None = None) -> str:
        return command([tool, "-q", *self._options(), *arguments], NETWORK, cwd=cwd).decode()

    def refresh(self) -> None:
        """The suite's index, once per process."""
        if self._fresh:
            return
        keyring = next((path for path in KEYRINGS if path.exists()), None)
        if not keyring:
            raise LabError(f"{KEYRINGS[0]}: not there to verify {self.name} with; `make lab-guest` installs it")
        for directory in ("lists/partial", "archives/partial"):
            (self.root / directory).mkdir(parents=True, exist_ok=True)
        (self.root / "status").touch()
        source = f"deb [arch={ARCHITECTURE} signed-by={keyring}] {address()} {self.name} main\n"
        (self.root / "sources.list").write_text(source)
        self._apt("apt-get", "update", "--error-on=any")
        self._fresh = True

    def fields(self, package: str, version: str | None = None) -> dict[str, str]:
        """A package's control fields, of the newest version if none is given; empty: the suite does not have it."""
        self.refresh()
        wanted = f"{package}={version}" if version else package
        try:
            text = self._apt("apt-cache", "show", "--no-all-versions", wanted)
        except LabError:
            return {}
        lines = [line for line in text.split("\n\n")[0].splitlines() if ": " in line and line[0] != " "]
        return dict(line.split(": ", 1) for line in lines)

    def closure(self, packages: list[str]) -> dict[str, str]:
        """The packages and all that they depend on, with versions, as apt would install them on an empty machine."""
        self.refresh()
        plan = self._apt("apt-get", "-s", "--no-install-recommends", "install", *packages)
        rows = [line.split() for line in plan.splitlines() if line.startswith("Inst ")]
        return {row[1]: row[2].lstrip("(") for row in rows}

    def download(self, packages: list[tuple[str, str]], into: Path) -> None:
        """Fetches packages, each with its version, verified by apt; their files are named as deb_name says."""
        self.refresh()
        into.mkdir(parents=True, exist_ok=True)
        self._apt("apt-get", "download", *(f"{package}={version}" for package, version in packages), cwd=into)


def deb_name(package: str, version: str) -> str:
    """How apt names the file that it downloads."""
    return f"{package}_{version.replace(':', '%3a')}_{ARCHITECTURE}.deb"
