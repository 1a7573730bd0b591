# SPDX-License-Identifier: GPL-2.0-only
"""Pictures of results: a sparkline for the terminal and a PNG. Rates in Mbit/s, delays in ms, times in s."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..engine.experiment import FlowResult, Result, quantile

BLOCKS = "▁▂▃▄▅▆▇█"
ASCII_BLOCKS = "_.-:=+*#"

FOREGROUND, BACKGROUND = "#0072B2", "#D55E00"  # Okabe and Ito's blue and vermilion: told apart by every eye
NEUTRAL = "#666666"
BIN_S = 0.5  # rates are drawn as means over this time
SIZE_INCHES, DPI = (9, 5), 110  # 990 pixels: a page that shows it smaller, as a README, leaves the words readable
COLOURS = 64


def sparkline(values: Sequence[float], top: float, blocks: str = BLOCKS) -> str:
    """One character per value; `top` and above is the highest block."""
    last = len(blocks) - 1
    return "".join(blocks[min(last, max(0, round(value / top * last)))] for value in values)


def rates(flow: FlowResult, end_s: float, bin_s: float) -> tuple[list[float], list[float]]:
    """Times (middle of each bin) and mean goodput in it."""
    bins = [i * bin_s for i in range(int(end_s / bin_s))]
    return [t + bin_s / 2 for t in bins], [flow.goodput_mbit(t, t + bin_s) for t in bins]


def draw(path: Path, title: str, subtitle: str, runs: Sequence[tuple[str, Result]], solo_mbit: float) -> None:
    """One column per run: rates of both flows above, queueing delay beneath. Flows: "foreground", "background"."""
    os.environ.setdefault("MPLCONFIGDIR", str(Path(__file__).resolve().parents[3] / ".cache/matplotlib"))
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    style = {
        "font.size": 10,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.grid": True,
        "grid.color": "#e4e4e4",
        "axes.axisbelow": True,
    }
    with pyplot.rc_context(style):
        figure, axes = pyplot.subplots(
            2, len(runs), figsize=SIZE_INCHES, sharex="col", sharey="row", squeeze=False, height_ratios=(2, 1)
        )
        for column, (heading, result) in enumerate(runs):
            _draw_rates(axes[0][column], heading, result, solo_mbit)
            _draw_delay(axes[1][column], result)
        axes[0][0].set_ylabel("goodput, Mbit/s")
        axes[1][0].set_ylabel("queue, ms")
        for axis in axes[1]:
            axis.set_xlabel("time, s")
        figure.text(0.012, 0.955, title, fontsize=13, fontweight="bold")
        figure.text(0.012, 0.91, subtitle, fontsize=9, color=NEUTRAL)
        handles, labels = axes[0][0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="lower center", bbox_to_anchor=(0.5, -0.01), ncols=3, frameon=False)
        figure.tight_layout(rect=(0, 0.045, 1, 0.9))
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, dpi=DPI)
        pyplot.close(figure)
    _lighten(path)


def _lighten(path: Path) -> None:
    """A few lines and their soft edges need no more colours: a third of the bytes, for a document that shows it."""
    from PIL import Image

    with Image.open(path) as picture:
        few = picture.convert("RGB").quantize(COLOURS)
    few.save(path, optimize=True)


def _draw_rates(axis: Any, heading: str, result: Result, solo_mbit: float) -> None:
    end = result.experiment.end_s
    foreground, background = result.flows["foreground"], result.flows["background"]
    _shade(axis, foreground)
    axis.axhline(solo_mbit, color=NEUTRAL, linewidth=1, linestyle=(0, (4, 3)), label="foreground alone")
    for flow, color, width in ((background, BACKGROUND, 1.8), (foreground, FOREGROUND, 2.2)):
        axis.plot(*rates(flow, end, BIN_S), color=color, linewidth=width, label=flow.flow.name)
    axis.set_title(heading, loc="left", fontsize=10)
    axis.set_ylim(0, result.experiment.link.rate_mbit * 1.1)
    axis.locator_params(axis="y", nbins=5)
    axis.set_xlim(0, end)


def _draw_delay(axis: Any, result: Result) -> None:
    link = result.experiment.link
    base = quantile(result.rtts_ms(), 0.0)
    times = [at for at, _ in result.pings]
    _shade(axis, result.flows["foreground"])
    axis.fill_between(times, [rtt - base for _, rtt in result.pings], color=NEUTRAL, alpha=0.35, linewidth=0)
    axis.plot(times, [rtt - base for _, rtt in result.pings], color=NEUTRAL, linewidth=1)
    axis.axhline(link.buffer_ms, color=NEUTRAL, linewidth=0.8, linestyle=(0, (1, 2)))
    axis.annotate("buffer full", (0, link.buffer_ms), (4, 3), textcoords="offset points", fontsize=8, color=NEUTRAL)
    axis.set_ylim(0, link.buffer_ms * 1.25)


def _shade(axis: Any, foreground: FlowResult) -> None:
    """The time in which the foreground was there."""
    axis.axvspan(foreground.flow.start_s, foreground.flow.end_s, color=FOREGROUND, alpha=0.07, linewidth=0)
