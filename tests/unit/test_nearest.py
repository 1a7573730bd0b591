# SPDX-License-Identifier: GPL-2.0-only
"""loader/util/nearest.c: which name a misspelt word was meant to be, and when it was none of them."""

from __future__ import annotations

from collections.abc import Callable

import cffi
import pytest

from tests.unit import headers

NAMES = ["enable", "list", "le", "top", "tcp_lp", "tcp_lp_ecn", "tcpw_lp", "remote-port", "x" * 40]
Nearest = Callable[[str], "str | None"]


@pytest.fixture(scope="module")
def nearest(tmp_path_factory: pytest.TempPathFactory) -> Nearest:
    library = tmp_path_factory.mktemp("nearest") / "nearest.so"
    headers.cc(["-fPIC", "-shared", "-iquote", "loader", "-o", str(library), "loader/util/nearest.c"])
    ffi = cffi.FFI()
    ffi.cdef("const char *nearest(const char *word, const void *names, unsigned int n, size_t stride);")
    loaded = ffi.dlopen(str(library))
    words = [ffi.new("char[]", name.encode()) for name in NAMES]
    names = ffi.new("char *[]", words)  # does not keep them alive: of() does

    def of(word: str) -> str | None:
        found = loaded.nearest(word.encode(), names, len(words), ffi.sizeof("char *"))
        return ffi.string(found).decode() if found else None

    return of


@pytest.mark.parametrize(
    ("word", "meant"),
    [
        ("enabel", "enable"),  # two letters swapped are one edit
        ("neable", "enable"),
        ("anabla", "enable"),
        ("enablu", "enable"),
        ("lst", "list"),
        ("ilst", "list"),
        ("tcp_pl", "tcp_lp"),
        ("tcp_lp_enc", "tcp_lp_ecn"),
        ("tcpw_l", "tcpw_lp"),
        ("remote-prot", "remote-port"),
        ("rmoteprot", "remote-port"),
    ],
)
def test_a_typo(nearest: Nearest, word: str, meant: str) -> None:
    assert nearest(word) == meant


@pytest.mark.parametrize("word", ["foo", "lo", "", "tip_toe", "anobla", "status", "y" * 60])
def test_another_word(nearest: Nearest, word: str) -> None:
    assert nearest(word) is None
