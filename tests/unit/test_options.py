# SPDX-License-Identifier: GPL-2.0-only
"""What the options of a TCP segment say: include/law/options.h, beside a reader that goes from option to option."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.cdata import Ffi, Laws

END, NOP, SCALE, SACK, STAMPS = 0, 1, 3, 5, 8
numbers = st.integers(0, 2**32 - 1)


@dataclass
class Said:
    stamps: tuple[int, int] | None = None
    scale: int | None = None
    blocks: list[tuple[int, int]] = field(default_factory=list)


def expected(options: bytes) -> Said | None:
    """None: they cannot be read."""
    said, at = Said(), 0
    while at < len(options) and options[at] != END:
        if options[at] == NOP:
            at += 1
            continue
        size = options[at + 1] if at + 1 < len(options) else 0
        if size < 2 or at + size > len(options):
            return None
        kind, data = options[at], options[at + 2 : at + size]
        if kind == STAMPS and len(data) == 8:
            said.stamps = struct.unpack(">II", data)
        elif kind == SCALE and len(data) == 1:
            said.scale = min(data[0], 14)
        elif kind == SACK and data and len(data) % 8 == 0:
            said.blocks = [struct.unpack_from(">II", data, i) for i in range(0, min(len(data), 16), 8)]
        at += size
    return said


def read(ffi: Ffi, law: Laws, options: bytes) -> Said | None:
    header = ffi.new("struct options_header *")
    ffi.buffer(header)[20 : 20 + len(options)] = options
    walk, out, usual = ffi.new("struct options_walk *"), ffi.new("struct options *"), ffi.new("struct options *")
    law.options_begin(walk)
    for _ in range(40):
        if not law.options_step(header, 20 + len(options), walk):
            break
    readable = law.options_end(header, walk, out)
    if law.options_usual(header, 20 + len(options), usual):
        assert bytes(ffi.buffer(usual)) == bytes(ffi.buffer(out)) and len(options) == 12
    if not readable:
        return None
    blocks = [(out.blocks[i].left, out.blocks[i].right) for i in range(out.n_blocks)]
    return Said((out.tsval, out.tsecr) if out.stamped else None, out.scale if out.scaled else None, blocks)


option = st.one_of(
    st.just(bytes((NOP,))),
    st.tuples(numbers, numbers).map(lambda two: struct.pack(">BBII", STAMPS, 10, *two)),
    st.integers(0, 255).map(lambda scale: bytes((SCALE, 3, scale))),
    st.lists(numbers, min_size=2, max_size=8).map(lambda n: struct.pack(f">BB{len(n) // 2 * 2}I", SACK, 2 + len(n) // 2 * 8, *n[: len(n) // 2 * 2])),
    st.binary(min_size=0, max_size=6).map(lambda data: bytes((30, 2 + len(data))) + data),
)  # fmt: skip
padded = st.lists(option, max_size=8).map(b"".join).map(lambda whole: whole[:40])


@given(st.one_of(padded, st.binary(max_size=40)))
def test_reads_what_another_reader_does(ffi: Ffi, law: Laws, options: bytes) -> None:
    assert read(ffi, law, options) == expected(options)


@pytest.mark.parametrize(
    ("blocks", "hole", "again"),
    [
        ([], False, False),
        ([(200, 300)], True, False),  # behind a hole
        ([(40, 100)], False, True),  # all before the ACK
        ([(220, 240), (200, 300)], True, True),  # inside what has come behind a hole
        ([(400, 500), (200, 300)], True, False),
        ([(40, 100), (200, 300)], True, True),
    ],
)
@given(numbers)
def test_holes_and_duplicates(ffi: Ffi, law: Laws, blocks: list[tuple[int, int]], hole: bool, again: bool, begin: int) -> None:
    """At any place of the sequence numbers; the ACK is 100 behind `begin`."""
    out = ffi.new("struct options *", {"n_blocks": len(blocks)})
    for i, block in enumerate(blocks):
        out.blocks[i].left, out.blocks[i].right = ((begin + edge) % 2**32 for edge in block)
    ack = (begin + 100) % 2**32
    assert (law.options_hole(out, ack), law.options_again(out, ack)) == (hole, again)


@given(numbers, numbers)
def test_what_nearly_every_segment_has(ffi: Ffi, law: Laws, tsval: int, tsecr: int) -> None:
    options = struct.pack(">BBBBII", NOP, NOP, STAMPS, 10, tsval, tsecr)
    assert read(ffi, law, options) == Said((tsval, tsecr))
    header, out = ffi.new("struct options_header *"), ffi.new("struct options *")
    ffi.buffer(header)[20:32] = options
    assert law.options_usual(header, 32, out)
    assert not law.options_usual(header, 36, out)
