# SPDX-License-Identifier: GPL-2.0-only
"""The loader shows a flow record by the tables of include/ccbpf/flow.h alone: its JSON and words of every controller, and of
one that is added to the headers here, without a line in loader/."""

from __future__ import annotations

import json
import re
import shutil
import struct
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import cffi
import pytest

from tests.unit import headers
from tests.unit.test_tables import CONTROLLERS, FLOW, FLOW_LIFE, FLOW_OWN, FLOW_PARTS, FLOW_WORDS

ROOT = headers.ROOT
KINDS = {name: number for number, name, *_ in CONTROLLERS}
SIZES = {"u16": 2, "u32": 4, "s32": 4, "u64": 8}

# A controller whose part has a field of each form that a part may have, and one without a part.
NEW_KIND, BARE_KIND, UNKNOWN_KIND = 14, 15, 99
ROWS = f'X({NEW_KIND}, my_cc, OPEN, "title", "source") X({BARE_KIND}, bare_cc, OPEN, "title", "source")'
FIELDS = """
#define CCBPF_FLOW_MY(X, of) \\
    X(of, bytes, u64, "bytes", "text") X(of, balance, s32, "us", "text") X(of, rounds, u32, "rounds", "text") \\
    X(of, spare, u16, "times", "text") X(of, why, chirp_end, "word", "text") X(of, stage, phase, "word", "text")
struct ccbpf_flow_my { CCBPF_FLOW_MY(CCBPF_FLOW_FIELD, ccbpf_flow_my) };
"""
PART = 'X(my, my, CCBPF_FLOW_MY, "text")'
OWN = "X(my_cc, my)"

WRAPPER = """
#include "cc/flowjson.h"
#include "cc/flowtext.h"

static const struct controller known;

const struct controller *controller_of_kind(uint32_t kind)
{
    switch (kind) {
#define X(number, name, access, title, source) case number:
    CCBPF_CONTROLLERS(X)
        return &known;
    }
    return NULL;
}

const char *json(const struct ccbpf_flow *record)
{
    struct flow flow = { .key = 77, .record = *record };

    return json_object_to_json_string(flow_json(&flow));
}

const char *words(const struct ccbpf_flow *record)
{
    return flow_own_words(record);
}
"""


def insert(path: Path, pattern: str, text: str) -> None:
    """Puts the text behind the only match."""
    changed, found = re.subn(pattern, lambda match: str(match[0]) + text, path.read_text())
    assert found == 1, f"{path.name}: {pattern}"
    path.write_text(changed)


def with_a_new_controller(tree: Path) -> Path:
    """A copy of include/ that has two controllers more."""
    include = tree / "include"
    shutil.copytree(ROOT / "include", include)
    flow = include / "ccbpf/flow.h"
    insert(include / "ccbpf/controllers.h", r"#define CCBPF_CONTROLLERS\(X\) *", ROWS)
    insert(flow, r"#define CCBPF_FLOW_FIELD\(.*\n", FIELDS)
    insert(flow, r"#define CCBPF_FLOW_PARTS\(X\) *", PART)
    insert(flow, r"#define CCBPF_FLOW_OWN\(X\) *", OWN)
    return include


@pytest.fixture(scope="module")
def loader(tmp_path_factory: pytest.TempPathFactory) -> SimpleNamespace:
    """json(record) and words(record) of the loader, built for the headers with the new controller."""
    tree = tmp_path_factory.mktemp("loader")
    (tree / "wrapper.c").write_text(WRAPPER)
    sources = [*(ROOT / "loader/cc").glob("flow[jtfk]*.c"), ROOT / "loader/cc/events.c",
               *(ROOT / "loader/out").glob("*.c"), *(ROOT / "loader/util").glob("*.c"), tree / "wrapper.c"]  # fmt: skip
    libraries = subprocess.run(
        ["pkg-config", "--cflags", "--libs", "json-c", "libcap"], capture_output=True, text=True, check=True
    )
    headers.cc(["-std=gnu11", "-D_GNU_SOURCE", "-fPIC", "-shared", "-I", str(with_a_new_controller(tree)), "-iquote", "loader",
                "-o", str(tree / "loader.so"), *map(str, sources), *libraries.stdout.split()])  # fmt: skip
    ffi = cffi.FFI()
    ffi.cdef("const char *json(const void *record); const char *words(const void *record);")
    library = ffi.dlopen(str(tree / "loader.so"))

    def asked(function: Any) -> Any:
        return lambda record: ffi.string(function(ffi.from_buffer(record))).decode()

    return SimpleNamespace(json=lambda record: json.loads(asked(library.json)(record)), words=asked(library.words))


def filled(ffi: Any, kind: int, own: bytes | None = None) -> Any:
    """A record whose bytes all differ; the words' numbers are known ones."""
    record = ffi.new("struct ccbpf_flow *")
    data = bytearray((7 * i + 129) % 256 for i in range(ffi.sizeof("struct ccbpf_flow")))
    if own is not None:
        at = ffi.offsetof("struct ccbpf_flow", "own")
        data[at : at + 64] = own.ljust(64, b"\0")
    ffi.memmove(record, data, len(data))
    record.kind, record.family, record.phase, record.delay_source = kind, 2, 3, 1
    record.controller, record.delay_base_us = b"my_cc", -5
    return record


def expected(value: Any, form: str) -> object:
    """The JSON of a field that is not an address or a name."""
    if form in SIZES:
        return int(value)
    return {number: word for number, _, word, _ in FLOW_WORDS[form]}.get(int(value))


def test_every_common_field(ffi: Any, loader: SimpleNamespace) -> None:
    record = filled(ffi, UNKNOWN_KIND)
    shown = loader.json(ffi.buffer(record))
    assert list(shown) == ["key", *(name for name, *_ in FLOW + FLOW_LIFE)]
    assert {name: shown[name] for name, *_ in FLOW_LIFE} == {name: getattr(record.life, name) for name, *_ in FLOW_LIFE}
    numbers = {name: expected(getattr(record, name), form) for name, form, *_ in FLOW if form not in ("name", "address")}
    assert {name: shown[name] for name in numbers} == numbers
    assert (shown["key"], shown["controller"], shown["phase"], shown["delay_source"]) == (77, "my_cc", "recovery", "owd")
    assert shown["local_addr"] == ".".join(str(byte) for byte in record.local_addr[0:4])


@pytest.mark.parametrize("name", KINDS)
def test_every_own_field(ffi: Any, loader: SimpleNamespace, name: str) -> None:
    record = filled(ffi, KINDS[name])
    if name == "nf_tcp":
        record.nf.chirps_wait, record.nf.chirps_why = 6, 5
    shown = loader.json(ffi.buffer(record))
    parts = [part for controller, part in FLOW_OWN if controller == name]
    assert list(shown)[1 + len(FLOW) + len(FLOW_LIFE) :] == parts
    for part in parts:
        tag, rows, _ = FLOW_PARTS[part]
        own = getattr(record, tag.removeprefix("ccbpf_flow_"))
        assert list(shown[part].items()) == [(field, expected(getattr(own, field), form)) for field, form, *_ in rows]


def test_a_controller_without_a_line_in_the_loader(ffi: Any, loader: SimpleNamespace) -> None:
    record = filled(ffi, NEW_KIND, struct.pack("=QiIHHI", 2**64 - 1, -5, 2**32 - 1, 65535, 8, 4))
    assert loader.json(ffi.buffer(record))["my"] == {
        "bytes": 2**64 - 1, "balance": -5, "rounds": 2**32 - 1, "spare": 65535, "why": "sparse", "stage": "small"
    }  # fmt: skip
    words = loader.words(ffi.buffer(record))
    assert words == f"bytes {2**64 - 1}, balance -5, rounds {2**32 - 1}, spare 65535, why sparse, stage small"


def test_what_has_no_word(ffi: Any, loader: SimpleNamespace) -> None:
    """No reason is null; a phase of a newer program is "?"."""
    record = filled(ffi, NEW_KIND, struct.pack("=QiIHHI", 0, 0, 0, 0, 0, 77))
    shown = loader.json(ffi.buffer(record))["my"]
    assert (shown["why"], shown["stage"]) == (None, "?")
    assert loader.words(ffi.buffer(record)).endswith("why -, stage ?")


def test_a_controller_without_fields_of_its_own(ffi: Any, loader: SimpleNamespace) -> None:
    assert loader.words(ffi.buffer(filled(ffi, BARE_KIND))) == "no fields of its own"
    assert loader.words(ffi.buffer(filled(ffi, UNKNOWN_KIND))) == "unknown to this version of ccbpf"
    assert list(loader.json(ffi.buffer(filled(ffi, BARE_KIND))))[1:] == [name for name, *_ in FLOW + FLOW_LIFE]
