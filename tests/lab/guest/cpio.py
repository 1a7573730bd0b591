# SPDX-License-Identifier: GPL-2.0-only
"""The kernel's initramfs format (cpio, "newc"), written so that the same files give the same bytes."""

from __future__ import annotations

import stat
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

ALIGN = 4


@dataclass(frozen=True)
class Entry:
    """One inode: its mode with the type bits, and its content (a link's target)."""

    mode: int
    data: bytes = b""
    device: tuple[int, int] = (0, 0)  # major, minor of a node


class Tree:
    """What goes into an archive, by path. Directories on the way are made; the newest entry of a path wins."""

    def __init__(self) -> None:
        self.entries: dict[str, Entry] = {}

    def _put(self, path: str, entry: Entry) -> None:
        name = path.strip("/")
        for parent in PurePosixPath(name).parents:
            if str(parent) != ".":
                self.entries.setdefault(str(parent), Entry(stat.S_IFDIR | 0o755))
        self.entries[name] = entry

    def directory(self, path: str) -> None:
        self._put(path, Entry(stat.S_IFDIR | 0o755))

    def file(self, path: str, data: bytes, mode: int = 0o644) -> None:
        self._put(path, Entry(stat.S_IFREG | mode, data))

    def program(self, path: str, source: Path) -> None:
        self.file(path, source.read_bytes(), 0o755)

    def link(self, path: str, target: str) -> None:
        self._put(path, Entry(stat.S_IFLNK | 0o777, target.encode()))

    def character_device(self, path: str, major: int, minor: int) -> None:
        self._put(path, Entry(stat.S_IFCHR | 0o600, device=(major, minor)))

    def pack(self) -> bytes:
        """The archive. Owners are root, times 0, inodes count from 1 in the order of the paths."""
        parts = [_record(number, name, entry) for number, (name, entry) in enumerate(sorted(self.entries.items()), 1)]
        return b"".join([*parts, _record(0, "TRAILER!!!", Entry(0))])


def _padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % ALIGN)


def _record(inode: int, name: str, entry: Entry) -> bytes:
    links = 2 if stat.S_ISDIR(entry.mode) else 1
    path = name.encode() + b"\0"
    # ino, mode, uid, gid, nlink, mtime, filesize, devmajor, devminor, rdevmajor, rdevminor, namesize, check
    fields = [inode, entry.mode, 0, 0, links, 0, len(entry.data), 0, 0, *entry.device, len(path), 0]
    header = b"070701" + b"".join(b"%08X" % value for value in fields)
    return _padded(header + path) + _padded(entry.data)
