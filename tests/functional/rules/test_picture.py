# SPDX-License-Identifier: GPL-2.0-only
"""The picture of `ccbpf top`: what it is made of, and that the scenario that it shows still runs."""

from __future__ import annotations

import os
import xml.etree.ElementTree as ET

import pytest

from tests.functional import svg
from tests.functional.conftest import Cli
from tests.functional.rules.picture import UNITS, photograph

SVG = "{http://www.w3.org/2000/svg}"


def words_of(picture: str) -> list[str]:
    return [text.text or "" for text in ET.fromstring(picture).iter(f"{SVG}text")]


def test_a_screen_is_drawn_with_its_styles() -> None:
    lines = [
        "plain \x1b[1m\x1b[36m- a & <b>\x1b[0m",
        "\x1b[7m TITLE  \x1b[0m",
        "   \x1b[31mloss",
        "still\x1b[39m\x1b[49m  not\x1b[2m dim",
    ]
    drawn = ET.fromstring(svg.picture(lines, 20, "what & why"))
    texts = {text.text: text for text in drawn.iter(f"{SVG}text")}
    assert list(texts) == ["plain", "- a & <b>", " TITLE", "loss", "still", "  not", " dim"]
    assert drawn.find(f"{SVG}title").text == "what & why"  # type: ignore[union-attr]
    colours = {text: of.get("fill") for text, of in texts.items()}
    assert colours == {"plain": None, "- a & <b>": svg.COLOURS[36], " TITLE": svg.PAPER, "loss": svg.COLOURS[31],
                       "still": svg.COLOURS[31], "  not": None, " dim": None}  # fmt: skip
    assert [text for text, of in texts.items() if of.get("font-weight") == "bold"] == ["- a & <b>"]
    assert [text for text, of in texts.items() if of.get("opacity")] == [" dim"]
    assert [float(texts[text].get("x", "")) for text in ("loss", "  not")] == [12 + 3 * svg.CELL_X, 12 + 5 * svg.CELL_X]
    background, title = drawn.findall(f"{SVG}rect")
    assert float(title.get("width", "")) == 8 * svg.CELL_X and title.get("fill") == svg.INK
    assert background.get("fill") == svg.PAPER
    for strange in ("\x1b[35mviolet", "\x1b[2Kgone", "a\x07"):
        with pytest.raises(ValueError, match="no (such style|text and no style)"):
            svg.picture([strange], 20, "")


def test_the_scenario_still_runs(ccbpf: Cli) -> None:
    slice_ = f"cct-{os.getpid()}.slice"
    words = words_of(photograph(ccbpf, slice_, alone_s=1.5, beside_s=1.0))
    for name in UNITS:  # a path loses its middle where the sums need the room
        assert any(text.startswith("- ") and f"/{name}: " in text for text in words), words
    assert sum(text.strip().startswith("- iperf3 (") for text in words) == sum(len(processes) for _, processes in UNITS.values())
