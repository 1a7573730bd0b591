# SPDX-License-Identifier: GPL-2.0-only
"""One row as a user runs it, from its data to the report: the first of the TCP-LP paper, short."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from .. import session
from ..report import place, programs, report
from ..rows import rows
from ..rows.rows import ALONE, IDEAL

KERNEL = "6.12"
SHORT = 'quick = { seconds = 12, from_s = 5, ours = ["tcp_lp"], peers = [] }'


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the row was run: the row as its file has it, shorter."""
    directory = tmp_path_factory.mktemp("lab")
    row = "lp-table1-forward"
    (directory / "short.toml").write_text(f'include = ["{rows.DIRECTORY}/tcp-lp.toml:{row}"]\n[row.{row}]\n{SHORT}\n')
    return directory


def test_lp_table1_forward_short(lab: Path, monkeypatch: pytest.MonkeyPatch, measured: list[str]) -> None:
    monkeypatch.setattr(place, "ROOT", lab)
    chosen = rows.load(lab / "short.toml", KERNEL, "quick")
    code = session.run(session.plan(chosen, KERNEL, 1, "quick"), os.cpu_count() or 1)
    result = json.loads((lab / KERNEL / "lp-table1-forward/result.json").read_text())
    keeps, full = (bound["measured"] for bound in result["bounds"])
    measured.append(f"virtual lab: lp-table1-forward short: TCP keeps {keeps:.1%}, the link is {full:.1%} full")
    assert result["holds"], result["bounds"]
    assert code == 0
    assert result["peers"].keys() == {ALONE, IDEAL}
    assert result["measured"]["tcp_lp"]["reno"]["distance_to_ideal"] < 0.03
    assert result["programs"]["tcp_lp"] == {"tcp_lp": programs.digests()["tcp_lp"]} and not result["programs"][IDEAL]
    page = report.write(chosen, KERNEL).read_text()
    assert "✓ holds" in page and "data:image/png;base64" in page
    assert (lab / KERNEL / "lp-table1-forward/rates-reno.png").exists()
