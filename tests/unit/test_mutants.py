# SPDX-License-Identifier: GPL-2.0-only
"""The list of mutants is up to date: each of them finds its place in a header."""

from __future__ import annotations

import pytest

from tests.unit import mutate


def test_each_mutant_finds_its_place() -> None:
    assert not list(mutate.lost())


@pytest.mark.parametrize("text", ["if (a+b)\n\t\treturn 1;", "if ( a + b ) return 1;"])
def test_white_space_need_not_be_the_same(text: str) -> None:
    assert "return 0;" in mutate.mutated(text, "x.h", "if (a + b)\n\treturn 1;", "if (a + b)\n\treturn 0;")


def test_a_place_that_is_not_there_is_named() -> None:
    with pytest.raises(LookupError, match="x.h has 'b = 1;' 0 times"):
        mutate.mutated("a = 1;", "x.h", "b = 1;", "b = 2;")
