# SPDX-License-Identifier: GPL-2.0-only
"""make report: one HTML page of all rows that were run, with nothing outside of it; the PNGs are also files.

It draws what the result.json files say, never anything newer: a row that was not run is shown as not run.
"""

from __future__ import annotations

import base64
import html
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ..rows.figures import WORDS
from ..rows.row import ALONE, IDEAL, Row
from . import place
from .markdown import duration

Result = Mapping[str, Any]
NEEDED = {"id", "holds", "bounds", "measured", "peers", "paper", "scale", "seed", "set", "runs", "run_s", "virtual_s",
          "wall_s", "kernel", "git", "command"}  # fmt: skip
HOLDS, SHORT, PRINTED, MISSING = "holds", "falls short", "printed", "not run"
OPERATORS = {"<=": "≤", ">=": "≥", "<": "&lt;", ">": "&gt;"}
SIGNS = {HOLDS: "✓", SHORT: "✗", PRINTED: "·", MISSING: "–"}

STYLE = """
:root { --ink: #1b1e23; --soft: #5d6570; --line: #dfe3e8; --good: #e4f3e8; --good-ink: #14683a; --bad: #fbe6e1;
  --bad-ink: #a5320f; --none: #f3f4f6; }
body { font: 15px/1.5 system-ui, -apple-system, "Segoe UI", "DejaVu Sans", sans-serif; color: var(--ink);
  margin: 0 auto; max-width: 76rem; padding: 1.5rem 1.5rem 5rem; background: #fff; }
h1 { font-size: 1.7rem; margin: 0 0 .2rem; } h2 { font-size: 1.25rem; margin: 2.6rem 0 .6rem; }
h3 { font-size: 1.05rem; margin: 2.2rem 0 .1rem; border-top: 1px solid var(--line); padding-top: 1.1rem; }
p { margin: .3rem 0; } .soft { color: var(--soft); } small, .small { font-size: .84rem; }
table { border-collapse: collapse; margin: .6rem 0; font-size: .88rem; font-variant-numeric: tabular-nums; }
th, td { padding: .22rem .6rem; border-bottom: 1px solid var(--line); text-align: right; vertical-align: top; }
th { font-weight: 600; color: var(--soft); } th:first-child, td:first-child, .left { text-align: left; }
td.good { background: var(--good); color: var(--good-ink); } td.bad { background: var(--bad); color: var(--bad-ink); }
td.none { background: var(--none); color: var(--soft); }
td.good, td.bad, td.none { white-space: nowrap; } .scroll { overflow-x: auto; }
td.left:first-child { white-space: nowrap; }
.holds { color: var(--good-ink); font-weight: 600; } .short { color: var(--bad-ink); font-weight: 600; }
code { font: .86rem ui-monospace, "DejaVu Sans Mono", monospace; background: var(--none); padding: .1rem .3rem; }
img { max-width: 100%; margin: .5rem 0; display: block; } a { color: inherit; }
details summary { cursor: pointer; color: var(--soft); font-size: .88rem; }
"""


def text(value: object) -> str:
    return html.escape(str(value))


def number(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:.4g}" if abs(value) >= 1e-4 or value == 0 else f"{value:.1e}"


# --- what there is ---------------------------------------------------------------------------------------------------


def read(row: Row, kernel: str) -> Result | None:
    """The result; None: the row was not run, or by an older version, which wrote less."""
    try:
        result = json.loads((place.of_row(kernel, row.id) / "result.json").read_text())
    except (OSError, ValueError):
        return None
    return result if isinstance(result, dict) and NEEDED <= result.keys() else None


def verdict(result: Result | None, controller: str) -> str:
    """The verdict on one controller in one row."""
    if result is None:
        return MISSING
    own = [bound for bound in result["bounds"] if bound["controller"] in (controller, "")]
    if not own:
        return MISSING if result["bounds"] or controller not in result["measured"] else PRINTED
    return HOLDS if all(bound["holds"] for bound in own) else SHORT


# --- the page --------------------------------------------------------------------------------------------------------


def table(head: Iterable[str], lines: Iterable[Iterable[str]]) -> str:
    """Cells are HTML; one that begins with <td stands as it is."""
    first = "".join(f"<th>{cell}</th>" for cell in head)
    rest = "".join(
        "<tr>" + "".join(cell if cell.startswith("<td") else f"<td>{cell}</td>" for cell in line) + "</tr>" for line in lines
    )
    return f'<div class="scroll"><table><tr>{first}</tr>{rest}</table></div>'


def overview(rows: Sequence[Row], results: Mapping[str, Result | None]) -> str:
    """Controller × row: the verdict, and the mean distance to the ideal; the peers' distance beside it."""
    ours = list(dict.fromkeys(name for row in rows for name in row.ours))
    peers = list(dict.fromkeys(name for row in rows for name in row.peers))
    lines = []
    for row in rows:
        result = results[row.id]
        line = [f'<td class="left"><a href="#{text(row.id)}">{text(row.id)}</a></td>']
        if row.ours:
            line += [verdict_cell(result, name) if name in row.ours else "<td></td>" for name in ours]
        else:
            line += [verdict_cell(result, ""), *["<td></td>"] * (len(ours) - 1)]
        line += [distance_cell(result, name) for name in peers]
        line.append(f'<td class="left soft">{text(row.what)}</td>')
        lines.append(line)
    beside = [f"{text(name)} <small>peer</small>" for name in peers]
    return table(["row", *map(text, ours), *beside, ""], lines)


def verdict_cell(result: Result | None, controller: str) -> str:
    word = verdict(result, controller)
    kind = {HOLDS: "good", SHORT: "bad"}.get(word, "none")
    far = distance(result, controller) if result and controller else None
    words = "" if far is None else f" {far:.1%}"
    return f'<td class="{kind}">{SIGNS[word]} {word}{words}</td>'


def distance(result: Result, controller: str) -> float | None:
    """The distance to strict priority (0: the same goodput for both classes); the mean of the row's places."""
    places = {**result["measured"], **result["peers"]}.get(controller, {})
    far = [figures["distance_to_ideal"] for figures in places.values() if "distance_to_ideal" in figures]
    return sum(far) / len(far) if far else None


def distance_cell(result: Result | None, controller: str) -> str:
    far = distance(result, controller) if result else None
    return '<td class="soft">–</td>' if far is None else f"<td>{far:.1%}</td>"


def bounds_table(result: Result) -> str:
    """One line per bound and controller; the peers' values of the same bound behind."""
    by_bound: dict[str, list[Result]] = {}
    for bound in result["bounds"]:
        by_bound.setdefault(bound["what"], []).append(bound)
    peers: dict[tuple[str, str], Result] = {(b["what"], b["controller"]): b for b in result.get("peers_bounds", [])}
    names = list(dict.fromkeys(name for _, name in peers))
    lines = []
    for what, bounds in by_bound.items():
        for bound in bounds:
            kind = "good" if bound["holds"] else "bad"
            sign = f'<td class="{kind}">{SIGNS[HOLDS] if bound["holds"] else SIGNS[SHORT]} {measured_of(bound)}</td>'
            others = [measured_of(peers[what, name]) if (what, name) in peers else "–" for name in names]
            at = text(bound["at"])
            lines.append([text(what), text(bound["controller"]) or "–", sign, judged_of(bound), at, *others])
    return table(["bound", "controller", "measured", "must be", "worst at", *(text(shown(name)) for name in names)], lines)


def measured_of(bound: Result) -> str:
    figure = number(bound["measured"]) if bound["measured"] is not None else text(bound.get("why", ""))
    if "draws" not in bound:
        return figure
    span = f" ({number(bound['least'])} … {number(bound['most'])})" if "least" in bound else ""
    worst = number(bound["worst"]) or "never"
    return f"{figure}{span}<br><small>{bound['held']} of {len(bound['draws'])} draws hold, worst {worst}</small>"


def judged_of(bound: Result) -> str:
    """What must hold: the limit, and for how many draws."""
    limit = f"{OPERATORS[bound['op']]} {bound['bound']:g}"
    return f"{limit}<br><small>{text(bound['judged'])}</small>" if "draws" in bound else limit


def paper_table(result: Result) -> str:
    if not result["paper"]:
        return ""
    return table(["the paper printed", ""], [[text(name), text(value)] for name, value in result["paper"].items()])


def figures_table(result: Result) -> str:
    """Every run with every figure."""
    everything = {**result["measured"], **result["peers"]}
    known = {name for places in everything.values() for figures in places.values() for name in figures}
    names = [name for name in WORDS if name in known]
    order = [*result["measured"], *(n for n in result["peers"] if n not in (ALONE, IDEAL)), IDEAL, ALONE]
    lines = [
        [
            text(shown(controller)),
            f'<td class="left">{text(place)}</td>',
            *(figure_cell(figures.get(name), result, controller, place, name) for name in names),
        ]
        for controller in order
        for place, figures in everything.get(controller, {}).items()
    ]
    return table(["background", "at", *(text(WORDS[name]) for name in names)], lines)


def figure_cell(value: Any, result: Result, controller: str, place: str, name: str) -> str:
    """The median, and the range of the draws."""
    span = result.get("ranges", {}).get(controller, {}).get(place, {}).get(name)
    return f"{number(value)}<br><small>{number(span[0])} … {number(span[1])}</small>" if span else number(value)


def shown(controller: str) -> str:
    return {IDEAL: "ideal: strict priority", ALONE: "none: foreground alone"}.get(controller, controller)


def image(path: Path) -> str:
    data = base64.b64encode(path.read_bytes()).decode()
    return f'<img alt="{text(path.stem)}" src="data:image/png;base64,{data}">'


def section(row: Row, result: Result | None, directory: Path) -> str:
    head = f'<h3 id="{text(row.id)}">{text(row.id)}</h3><p>{text(row.what)}</p>'
    if result is None:
        return f'{head}<p class="soft">Not run on this kernel: <code>make lab EXP={text(row.id)}</code></p>'
    kind, said = ("holds", HOLDS) if result["holds"] else ("short", SHORT)
    word = f'<span class="{kind}">{SIGNS[said]} {said}</span>'
    if not result["bounds"]:
        word = '<span class="soft">printed, not judged</span>'
    many = len(figures_lines(result)) > 16
    draws = f", {result['repeat']} draws of each," if result.get("repeat", 1) > 1 else ""
    facts = (
        f"Linux {result['kernel']}, seed {result['seed']}, scale: {result['scale']}; "
        f"set {result['set']}: {result['runs']} runs{draws} of {result['run_s']:g} s, "
        f"{duration(result['virtual_s'])} of virtual time in {duration(result['wall_s'])}; git {result['git']}"
    )
    every = figures_table(result)
    every = f"<details><summary>all figures of all runs</summary>{every}</details>" if many else every
    pictures = "".join(image(directory / name) for name in result.get("plots", []) if (directory / name).exists())
    note = f'<p class="soft">{text(result["note"])}</p>' if result.get("note") else ""
    bounds = bounds_table(result) if result["bounds"] else ""
    return (
        f"{head}{note}<p>{word}</p>{paper_table(result)}{bounds}{pictures}{every}"
        f'<p class="small soft">{text(facts)}<br>again: <code>{text(result["command"])}</code></p>'
    )


def figures_lines(result: Result) -> list[str]:
    return [place for part in ("measured", "peers") for places in result[part].values() for place in places]


def summary(rows: Sequence[Row], results: Mapping[str, Result | None]) -> str:
    """How many hold, said first."""
    run = [result for result in results.values() if result]
    judged = [result for result in run if result["bounds"]]
    held = sum(1 for result in judged if result["holds"])
    ran = f"{len(run)} of {len(rows)} rows were run"
    words = f"{ran}; of {len(judged)} that are judged, {held} hold and {len(judged) - held} fall short."
    return f"<p><strong>{words}</strong></p>"


LEGEND = """<p class="small soft">A row holds if all of its bounds hold in all of its runs. Where a run has several draws
(another seed, the background flows 50 ms later), the median of the draws is judged unless the bound says otherwise, and the
range and the worst draw are beside it. The percentage is the mean
distance to the ideal, strict priority at the bottleneck: 0 % is the same goodput for both classes, 50 % is half of the
link in the wrong hands. The peers are the kernel's own controllers in the place of the background flow, for comparison
only. Queues are the bottleneck's true backlog; under strict priority that includes what waits in the background's own
band.</p>"""


def page(rows: Sequence[Row], results: Mapping[str, Result | None], kernel: str) -> str:
    releases = sorted({result["kernel"] for result in results.values() if result})
    groups: dict[str, list[Row]] = {}
    for row in rows:
        groups.setdefault(row.title, []).append(row)
    parts = [
        '<!doctype html><html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width">',
        f"<title>ccbpf: the experiments</title><style>{STYLE}</style></head><body>",
        "<h1>ccbpf: the experiments</h1>",
        f'<p class="soft">Stock Debian kernels in a machine whose clock counts instructions; guest {text(kernel)} '
        f"({text(', '.join(releases) or 'not run')}). The same command gives the same bytes.</p>",
        summary(rows, results),
        overview(rows, results),
        LEGEND,
    ]
    for title, members in groups.items():
        parts.append(f"<h2>{text(title)}</h2>")
        parts += [section(row, results[row.id], place.of_row(kernel, row.id)) for row in members]
    return "\n".join([*parts, "</body></html>\n"])


def write(rows: Sequence[Row], kernel: str) -> Path:
    """build/lab/<kernel>/report.html."""
    results = {row.id: read(row, kernel) for row in rows}
    path = place.ROOT / kernel / "report.html"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(page(rows, results, kernel))
    return path
