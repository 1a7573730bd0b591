# SPDX-License-Identifier: GPL-2.0-only
"""bpf(2): pins, maps and the ring buffer of events."""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
import platform
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

from .command import run
from .structs import EVENT_WORDS, decode

libc = ctypes.CDLL(None, use_errno=True)
_NR_BPF = {"x86_64": 321, "aarch64": 280}[platform.machine()]
LOOKUP, UPDATE, DELETE, NEXT_KEY, OBJ_PIN, OBJ_GET, FD_BY_ID, INFO_BY_FD, LINK_CREATE = 1, 2, 3, 4, 6, 7, 14, 15, 28
TCX_EGRESS = 47
LOOKUP_BATCH, UPDATE_BATCH, DELETE_BATCH = 24, 26, 27
POSSIBLE_CPUS = int(Path("/sys/devices/system/cpu/possible").read_text().strip().rpartition("-")[2]) + 1


def bpf(command: int, attributes: bytes) -> tuple[int, bytes]:
    """The system call; returns its result and the attributes as the kernel left them. OSError on failure."""
    buffer = ctypes.create_string_buffer(attributes.ljust(128, b"\0"), 128)
    result = libc.syscall(_NR_BPF, command, buffer, 128)
    if result < 0:
        raise OSError(ctypes.get_errno(), f"bpf({command}): {os.strerror(ctypes.get_errno())}")
    return result, buffer.raw


def open_pin(path: str | Path) -> int:
    """A descriptor of the pinned object."""
    name = ctypes.create_string_buffer(os.fsencode(path))
    return bpf(OBJ_GET, struct.pack("=QII", ctypes.addressof(name), 0, 0))[0]


def pin_tcx_link(program: Path, ifindex: int, path: Path) -> None:
    """Attaches a pinned program at the device's egress, and pins the link."""
    fd = open_pin(program)
    link, _ = bpf(LINK_CREATE, struct.pack("=IIII", fd, ifindex, TCX_EGRESS, 0))
    name = ctypes.create_string_buffer(os.fsencode(path))
    bpf(OBJ_PIN, struct.pack("=QII", ctypes.addressof(name), link, 0))
    os.close(link)
    os.close(fd)


class Map:
    """A BPF map by its file descriptor."""

    def __init__(self, fd: int) -> None:
        self.fd = fd
        info = ctypes.create_string_buffer(128)
        bpf(INFO_BY_FD, struct.pack("=IIQ", fd, 128, ctypes.addressof(info)))
        self.type, self.id, self.key_size, self.value_size, self.max_entries = struct.unpack_from("=IIIII", info.raw)
        self.name = info.raw[24:40].partition(b"\0")[0].decode()
        per_cpu = self.type in (5, 6)
        self._out_size = -(-self.value_size // 8) * 8 * POSSIBLE_CPUS if per_cpu else self.value_size

    @classmethod
    def by_id(cls, map_id: int) -> Map:
        return cls(bpf(FD_BY_ID, struct.pack("=III", map_id, 0, 0))[0])

    @classmethod
    def by_pin(cls, path: str | Path) -> Map:
        return cls(open_pin(path))

    def close(self) -> None:
        os.close(self.fd)

    def _element(self, command: int, key: bytes | None, value: ctypes.Array[ctypes.c_char] | None, flags: int = 0) -> None:
        k = ctypes.create_string_buffer(key, len(key)) if key is not None else None
        bpf(
            command,
            struct.pack("=IIQQQ", self.fd, 0, ctypes.addressof(k) if k else 0, ctypes.addressof(value) if value else 0, flags),
        )

    def lookup(self, key: bytes) -> bytes | None:
        value = ctypes.create_string_buffer(self._out_size)
        try:
            self._element(LOOKUP, key, value)
        except OSError as error:
            if error.errno == errno.ENOENT:
                return None
            raise
        return value.raw

    def update(self, key: bytes, value: bytes) -> None:
        self._element(UPDATE, key, ctypes.create_string_buffer(value, len(value)))

    def delete(self, key: bytes) -> None:
        self._element(DELETE, key, None)

    def __iter__(self) -> Iterator[bytes]:
        return iter(self.keys())

    def keys(self) -> list[bytes]:
        found: list[bytes] = []
        key = None
        while True:
            following = ctypes.create_string_buffer(self.key_size)
            try:
                self._element(NEXT_KEY, key, following)
            except OSError as error:
                if error.errno == errno.ENOENT:
                    return found
                raise
            key = following.raw
            found.append(key)
            assert len(found) <= 2 * self.max_entries, "the walk does not end"

    def batch(self, command: int, keys: list[bytes], values: bytes = b"") -> int:
        """Updates or deletes many; returns how many were done, an OSError's worth of fewer at the first refusal."""
        k = ctypes.create_string_buffer(b"".join(keys))
        v = ctypes.create_string_buffer(values) if values else None
        attributes = struct.pack(
            "=QQQQIIQQ", 0, 0, ctypes.addressof(k), ctypes.addressof(v) if v else 0, len(keys), self.fd, 0, 0
        )
        buffer = ctypes.create_string_buffer(attributes.ljust(128, b"\0"), 128)
        libc.syscall(_NR_BPF, command, buffer, 128)
        return int(struct.unpack_from("=I", buffer.raw, 32)[0])


class Ring:
    """A BPF ring buffer, read by its own positions: what was ever written is there to be counted."""

    def __init__(self, map_: Map) -> None:
        page, self._size = mmap.PAGESIZE, map_.max_entries
        self._consumer = mmap.mmap(map_.fd, page)
        self._producer = mmap.mmap(map_.fd, page + 2 * self._size, prot=mmap.PROT_READ, offset=page)
        self._page = page

    @property
    def written(self) -> int:
        """All bytes that were ever written to it."""
        return int(struct.unpack_from("=Q", self._producer, 0)[0])

    def read(self) -> list[SimpleNamespace]:
        """The events since the last reading by anybody."""
        (at,) = struct.unpack_from("=Q", self._consumer, 0)
        events = []
        while at < self.written:
            offset = self._page + (at & (self._size - 1))
            (header,) = struct.unpack_from("=I", self._producer, offset)
            if header & 1 << 31:  # being written
                break
            length = header & (1 << 30) - 1
            if not header & 1 << 30:
                event = decode("ccbpf_event", self._producer[offset + 8 : offset + 8 + length])
                event.word = EVENT_WORDS[event.type]
                events.append(event)
            at += -(-(length + 8) // 8) * 8
            struct.pack_into("=Q", self._consumer, 0, at)
        return events


def replace_map(pin: Path, change: Callable[[bytes], bytes]) -> None:
    """Another array with a changed value in the place of a pinned one, which may be frozen."""
    old = Map.by_pin(pin)
    value = old.lookup(bytes(4))
    assert value is not None
    pin.unlink()
    run("bpftool", "map", "create", pin, "type", "array", "key", 4, "value", old.value_size, "entries", 1, "name", "other")
    new = Map.by_pin(pin)
    new.update(bytes(4), change(value))
    old.close()
    new.close()
