# SPDX-License-Identifier: GPL-2.0-only
"""A terminal's screen as SVG: the lines that `tmux capture-pane -e` prints, with their colours, as text."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

CELL_X, CELL_Y, FONT, MARGIN = 8.4, 18, 14, 12  # px
INK, PAPER = "#d8dee9", "#1b1f27"
COLOURS = {31: "#ff6b6b", 32: "#8fd460", 36: "#5fd7e8"}  # those that top has
SGR = re.compile(r"\x1b\[([\d;]*)m")
OTHER = re.compile(r"\x1b(?!\[[\d;]*m)|[\x00-\x08\x0b-\x1a\x1c-\x1f]")


@dataclass(frozen=True)
class Style:
    colour: int = 39  # the SGR number; 39: the terminal's own
    bold: bool = False
    dim: bool = False
    reverse: bool = False

    def after(self, codes: str) -> Style:
        """As an SGR sequence leaves it."""
        style = self
        for code in map(int, (codes or "0").split(";")):
            if code in (1, 2):
                style = replace(style, bold=code == 1, dim=code == 2)
            elif code == 22:
                style = replace(style, bold=False, dim=False)
            elif code in (7, 27):
                style = replace(style, reverse=code == 7)
            elif code == 39 or code in COLOURS:
                style = replace(style, colour=code)
            elif code == 0:
                style = Style()
            elif code != 49:  # the terminal's own background
                raise ValueError(f"SGR {code}: this picture has no such style")
        return style


def runs(lines: Sequence[str]) -> Iterator[tuple[int, int, str, Style]]:
    """Line, column, text and style of each stretch of one style. A style lasts until another one, also over lines."""
    style = Style()
    for row, line in enumerate(lines):
        if found := OTHER.search(line):
            raise ValueError(f"line {row}: {found[0]!r} is no text and no style")
        column = 0
        for i, part in enumerate(SGR.split(line)):
            if i % 2:
                style = style.after(part)
            elif part:
                yield row, column, part, style
                column += len(part)


def drawn(row: int, column: int, text: str, style: Style) -> str:
    x, y, width = MARGIN + column * CELL_X, MARGIN + row * CELL_Y, len(text) * CELL_X
    ink, back = COLOURS.get(style.colour, INK), ""
    if style.reverse:
        back = f'<rect x="{x:g}" y="{y}" width="{width:g}" height="{CELL_Y}" fill="{ink}"/>'
        ink = PAPER
    words = text.rstrip()
    if not words:
        return back
    look = f' fill="{ink}"' * (ink != INK) + ' font-weight="bold"' * style.bold + ' opacity="0.6"' * style.dim
    return (
        f'{back}<text x="{x:g}" y="{y + 13}" textLength="{len(words) * CELL_X:g}"{look}>{html.escape(words, quote=False)}</text>'
    )


def picture(lines: Sequence[str], columns: int, title: str) -> str:
    width, height = 2 * MARGIN + columns * CELL_X, 2 * MARGIN + len(lines) * CELL_Y
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:g}" height="{height}" viewBox="0 0 {width:g} {height}" '
        f'xml:space="preserve" font-family="ui-monospace,SFMono-Regular,Menlo,Consolas,\'DejaVu Sans Mono\',monospace" '
        f'font-size="{FONT}" fill="{INK}">',
        f"<title>{html.escape(title, quote=False)}</title>",
        f'<rect width="100%" height="100%" rx="6" fill="{PAPER}"/>',
        *filter(None, (drawn(*run) for run in runs(lines))),
        "</svg>",
    ]) + "\n"  # fmt: skip
