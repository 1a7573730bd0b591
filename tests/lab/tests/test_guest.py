# SPDX-License-Identifier: GPL-2.0-only
"""The guests' making: the archive's format, pins and their falling forward, the kernel inside a vmlinuz."""

from __future__ import annotations

import re
import struct
import subprocess
from pathlib import Path

import pytest

from ..guest import archive as debian
from ..guest import image, lock, proxy
from ..guest.archive import deb_name
from ..guest.cpio import Tree
from ..guest.errors import LabError
from ..guest.lock import Pin, Resolver

META = {"Version": "7.2.14-1", "Depends": "linux-image-7.2.14+deb14-cloud-amd64 (= 7.2.14-1)"}
PARTS = "linux-binary-7.2.14+deb14-cloud-amd64 (= 7.2.14-1), linux-modules-7.2.14+deb14-cloud-amd64 (= 7.2.14-1)"


class Archive:
    """A suite that has only what `index` says."""

    def __init__(self, index: dict[str, dict[str, str]]) -> None:
        self.index = index
        self.downloads: list[tuple[str, str]] = []

    def fields(self, package: str, version: str | None = None) -> dict[str, str]:
        found = self.index.get(package, {})
        return found if version in (None, found.get("Version")) else {}

    def download(self, packages: list[tuple[str, str]], into: Path) -> None:
        for package, version in packages:
            if not self.fields(package, version):
                raise LabError(f"{package}={version}: no such version")
            (into / deb_name(package, version)).write_bytes(b"")
            self.downloads.append((package, version))


@pytest.fixture
def archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Archive:
    """An archive whose kernel went on from 7.2.13, and whose dash did not."""
    (tmp_path / "packages").mkdir()
    monkeypatch.setattr(lock, "CACHE", tmp_path)
    kernel = {"Version": "7.2.14-1", "Depends": f"kmod, {PARTS}"}
    index = {name.split(" ")[0]: {"Version": "7.2.14-1"} for name in PARTS.split(", ")}
    index |= {lock.META: META, "linux-image-7.2.14+deb14-cloud-amd64": kernel, "dash": {"Version": "0.5.12-12"}}
    return Archive(index)


@pytest.fixture
def resolver(archive: Archive, monkeypatch: pytest.MonkeyPatch) -> Resolver:
    made = Resolver()
    monkeypatch.setattr(made, "suite", lambda name: archive)
    return made


def test_where_debian_is_said_by_the_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    listed = b"Ubuntu|of-ubuntu\nDebian-Security|of-security\n"
    monkeypatch.delenv("CCBPF_DEBIAN_ARCHIVE", raising=False)
    monkeypatch.setattr(debian, "TEMPLATE", tmp_path / "Debian.info")
    monkeypatch.setattr(debian, "command", lambda words: listed)
    with pytest.raises(LabError, match="set CCBPF_DEBIAN_ARCHIVE"):
        debian.address()
    debian.TEMPLATE.write_text("Suite: {series}\nBaseURI: by-template\n\nBaseURI: of-security\n")
    assert debian.address() == "by-template"
    monkeypatch.setattr(debian, "command", lambda words: listed + b"Debian|by-apt\n")
    assert debian.address() == "by-apt"
    monkeypatch.setenv("CCBPF_DEBIAN_ARCHIVE", "given")
    assert debian.address() == "given"


def test_pinned_version_is_taken_once(resolver: Resolver, archive: Archive) -> None:
    pin = Pin("tools", "trixie", "dash", "0.5.12-12")
    for _ in range(2):
        (package,) = resolver.packages([pin])
        assert not package.fell_forward
    assert archive.downloads == [("dash", "0.5.12-12")]


def test_removed_kernel_falls_forward_with_its_parts(resolver: Resolver, archive: Archive) -> None:
    pin = Pin("7.x", "sid", "linux-image-7.2.13+deb14-cloud-amd64", "7.2.13-1")
    (package,) = resolver.packages([pin])
    assert package.fell_forward
    assert (package.package, package.version) == ("linux-image-7.2.14+deb14-cloud-amd64", "7.2.14-1")
    assert [name.split("-")[1] for name, _ in archive.downloads] == ["image", "binary", "modules"]
    note = image._note("7.2.14", [package])
    assert note["fell_forward"] == [
        "linux-image-7.2.13+deb14-cloud-amd64: 7.2.13-1 is not to be had, taken was linux-image-7.2.14+deb14-cloud-amd64 7.2.14-1"
    ]


def test_unknown_package_is_named(resolver: Resolver) -> None:
    with pytest.raises(LabError, match="nosuch: trixie has none; mend kernels.lock"):
        resolver.packages([Pin("tools", "trixie", "nosuch", "1")])


def test_lock_names_three_kernels_and_the_tools() -> None:
    assert lock.kernels() == ["6.1", "6.12", "7.x"]
    assert {pin.suite for pin in lock.read()} == {"bookworm", "trixie", "sid"}
    assert [pin.role for pin in lock.pins_of("6.12")][:2] == ["6.12", "tools"]


def test_the_proxy_has_its_libraries_and_a_relay_each() -> None:
    packages = [pin.package for pin in lock.read(proxy.LOCK)]
    assert "nginx" in packages and len(packages) == len(set(packages))
    text = proxy.configuration({"10.3.0.2:5201": "10.0.3.2:5201", "10.3.0.2:5202": "10.0.3.2:5202"})
    assert re.findall(r"server { listen (\S+); proxy_pass (\S+); }", text) == [
        ("10.3.0.2:5201", "10.0.3.2:5201"), ("10.3.0.2:5202", "10.0.3.2:5202")
    ]  # fmt: skip


def test_archive_has_the_same_bytes_in_any_order() -> None:
    one, two = Tree(), Tree()
    one.file("a/b", b"x")
    one.link("c", "a/b")
    two.link("c", "a/b")
    two.file("a/b", b"x")
    assert one.pack() == two.pack()


def test_archive_is_what_bsd_and_gnu_cpio_would_read() -> None:
    tree = Tree()
    tree.file("a/b", b"hello", 0o755)
    data = tree.pack()
    assert len(data) % 4 == 0
    assert data.count(b"070701") == 3  # a, a/b, the trailer
    assert b"a/b\0" in data and b"TRAILER!!!" in data


def bzimage(payload: bytes) -> bytes:
    """A vmlinuz by the boot protocol: one sector of setup after the first, the payload 0x100 bytes behind it."""
    header = bytearray(1024)
    header[0x1F1] = 1
    struct.pack_into("<II", header, 0x248, 0x100, len(payload))
    return bytes(header) + bytes(0x100) + payload + bytes(64)


@pytest.mark.parametrize("tool", [["zstd", "-c"], ["lz4", "-lc"], ["gzip", "-nc"], ["xz", "-c"]])
def test_vmlinux_comes_out_of_every_compression(tool: list[str]) -> None:
    elf = b"\x7fELF" + bytes(range(256)) * 64
    packed = subprocess.run(tool, input=elf, capture_output=True, check=True).stdout
    assert image.vmlinux_of(bzimage(packed + struct.pack("<I", len(elf)))) == elf


def test_unknown_compression_is_named() -> None:
    with pytest.raises(LabError, match="starts with 42424242"):
        image.vmlinux_of(bzimage(b"BBBBxxxx"))
