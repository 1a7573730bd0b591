# SPDX-License-Identifier: GPL-2.0-only
"""Every controller on the oldest and the newest guest kernel: it loads, carries traffic, is seen, and goes again."""

from __future__ import annotations

import json

import pytest

from tests.kernels import __main__ as matrix
from tests.lab.guest.lock import kernels

LOG = """\
libbpf: prog 'one': -- BEGIN PROG LOAD LOG --
processed 120 insns (limit 1000000) max_states_per_insn 1 total_states 7 peak_states 7 mark_read 2
-- END PROG LOAD LOG --
libbpf: prog 'two': -- BEGIN PROG LOAD LOG --
processed 30 insns (limit 1000000) max_states_per_insn 0 total_states 2 peak_states 2 mark_read 1
"""


@pytest.mark.parametrize("kernel", [kernels()[0], kernels()[-1]])
def test_every_controller_works_on(kernel: str) -> None:
    rows = matrix.measure(kernel, matrix.controllers())
    assert [f"{row.name}: {row}" for row in rows if not row.holds] == []
    assert all(row.insns > 100 for row in rows)


def test_cost_is_read_per_program() -> None:
    assert matrix.read_cost(LOG) == {"one": (120, 7), "two": (30, 2)}


def test_growth_over_a_fifth_is_told() -> None:
    row = matrix.Row("6.1", "x", cost={"one": (120, 7), "two": (30, 2), "new": (9, 9)})
    assert matrix.grown(row, {"6.1": {"x": {"one": [100, 6], "two": [30, 2]}}}) == []
    assert matrix.grown(row, {"6.1": {"x": {"one": [90, 6]}}}) == ["6.1 one: instructions 90 -> 120 (+33%)"]
    assert matrix.grown(row, {}) == []


def test_baseline_knows_every_kernel() -> None:
    assert sorted(json.loads(matrix.BASELINE.read_text())) == sorted(kernels())
