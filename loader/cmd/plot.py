# SPDX-License-Identifier: GPL-2.0-only
"""The picture of `ccbpf plot` and `ccbpf trace --plot`: rate, window and queueing delay of each flow over time, with what it met.

    python3 plot.py PICTURE FILE...

Each FILE has lines of JSON: the documents of `ccbpf flows --record`, which make the curves, and the events of `ccbpf -j trace`.
Without events the marks come from the counters of the flows, and are as exact as the samples. The form of PICTURE is that of its
name: .svg, .png or .pdf. Without a FILE it is only looked whether PICTURE could be drawn. Needs matplotlib. It ends with 1 after a
sentence on stderr, or with 3 where matplotlib is missing.
"""

from __future__ import annotations

import bisect
import errno
import json
import os
import sys
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

MOST = 8  # flows with curves: those that carried the most
MARKS = {"losses": ("v", "loss"), "marks": ("^", "mark"), "indications": ("x", "early indication")}
EVENTS = {"loss": "losses", "mark": "marks", "indication": "indications"}


def fail(why: str) -> NoReturn:
    print(why, file=sys.stderr)
    raise SystemExit(1)


@dataclass
class Flow:
    """The samples of a flow: seconds and the record; and what it met: seconds, a key of MARKS."""

    name: str
    samples: list[tuple[float, dict[str, Any]]] = field(default_factory=list)
    met: list[tuple[float, str]] = field(default_factory=list)

    @property
    def started_ns(self) -> int:
        return int(self.samples[0][1]["started_ns"])

    @property
    def carried(self) -> int:
        return int(self.samples[-1][1]["bytes_acked"] - self.samples[0][1]["bytes_acked"])

    def rates(self) -> tuple[list[float], list[float]]:
        """Mbit/s that were acknowledged, from each sample to the next."""
        pairs = [(a, b) for a, b in zip(self.samples, self.samples[1:], strict=False) if b[0] > a[0]]
        return [b[0] for _, b in pairs], [(b[1]["bytes_acked"] - a[1]["bytes_acked"]) * 8e-6 / (b[0] - a[0]) for a, b in pairs]

    def curve(self, key: str, scale: float = 1) -> tuple[list[float], list[float]]:
        return [at for at, _ in self.samples], [record[key] * scale for _, record in self.samples]

    def count(self) -> None:
        """What the counters say that it met."""
        for (_, before), (at, now) in zip(self.samples, self.samples[1:], strict=False):
            self.met += [(at, kind) for kind in MARKS if now.get(kind, 0) > before.get(kind, 0)]


def documents(path: Path) -> list[dict[str, Any]]:
    """The lines of a file. The last one may be half: the recording was killed."""
    found: list[dict[str, Any]] = []
    try:
        lines = path.read_text().splitlines(keepends=True)
    except (OSError, UnicodeDecodeError) as error:
        fail(f"{path}: {getattr(error, 'strerror', None) or 'it is no text'}")
    for number, line in enumerate(lines, 1):
        try:
            doc = json.loads(line)
        except ValueError:
            if number == len(lines) and not line.endswith("\n"):
                break
            fail(f"{path}:{number}: this is not JSON (record with `ccbpf flows --record FILE`)")
        if not isinstance(doc, dict) or not isinstance(doc.get("time_ns"), int):
            fail(f"{path}:{number}: this is neither a sample of flows nor an event (no `time_ns`)")
        found.append(doc)
    return found


def connection(key: int, doc: dict[str, Any]) -> tuple[Any, ...]:
    """Of a record or an event. In two network namespaces two may have the same addresses and ports."""
    return key, *(doc[name] for name in ("local_addr", "local_port", "remote_addr", "remote_port"))


def name(record: dict[str, Any]) -> str:
    address = record["remote_addr"]
    return f"{record['controller']} to {f'[{address}]' if ':' in address else address}:{record['remote_port']}"


def identity(record: dict[str, Any]) -> tuple[Any, ...]:
    """The key alone is the address of a socket, which the kernel may use again after the flow has ended."""
    return record["key"], record["started_ns"], record["controller"]


def give_events(flows: list[Flow], events: list[tuple[float, dict[str, Any]]]) -> None:
    """Each to the flow of its connection: of several, one after the other, to the last that had started by then."""
    of: dict[tuple[Any, ...], list[Flow]] = defaultdict(list)
    for flow in sorted(flows, key=lambda flow: flow.started_ns):
        of[connection(flow.samples[0][1]["key"], flow.samples[0][1])].append(flow)
    for at, event in events:
        started = [flow for flow in of[connection(event["flow"], event)] if flow.started_ns <= event["time_ns"]]
        for flow in started[-1:]:
            flow.met.append((at, EVENTS[event["type"]]))


def gather(docs: list[dict[str, Any]]) -> list[Flow]:
    """The flows of all documents, those that carried the most first."""
    begin_ns = min(doc["time_ns"] for doc in docs)
    flows: dict[tuple[Any, ...], Flow] = {}
    events: list[tuple[float, dict[str, Any]]] = []
    for doc in sorted(docs, key=lambda doc: int(doc["time_ns"])):
        at = (doc["time_ns"] - begin_ns) / 1e9
        for record in doc.get("flows", []):
            flows.setdefault(identity(record), Flow(name(record))).samples.append((at, record))
        if doc.get("type") in EVENTS:
            events.append((at, doc))
    if events:
        give_events(list(flows.values()), events)
    else:
        for flow in flows.values():
            flow.count()
    return sorted(flows.values(), key=lambda flow: -flow.carried)


def height(flow: Flow, at: float) -> float:
    """The window at this time."""
    i = bisect.bisect_right(flow.samples, at, key=lambda sample: sample[0])
    return float(flow.samples[max(i - 1, 0)][1]["cwnd"])


def draw(flows: list[Flow], picture: Path) -> None:
    import matplotlib
    from matplotlib.figure import Figure

    matplotlib.rcdefaults()  # and not what a matplotlibrc of the working directory says
    figure = Figure(figsize=(10, 8), layout="constrained")
    rate, window, delay = figure.subplots(3, 1, sharex=True)
    named: set[str] = set()
    for n, flow in enumerate(flows[:MOST]):
        colour = f"C{n}"
        rate.plot(*flow.rates(), color=colour, linewidth=1, label=flow.name)
        window.step(*flow.curve("cwnd"), color=colour, linewidth=1, where="post")
        delay.plot(*flow.curve("delay_us", 1e-3), color=colour, linewidth=1)
        delay.plot(*flow.curve("delay_threshold_us", 1e-3), color=colour, linewidth=1, linestyle="--")
        for kind, (marker, text) in MARKS.items():
            at = [at for at, what in flow.met if what == kind]
            label = text if at and text not in named else None
            named |= {text} if at else set()
            window.plot(at, [height(flow, t) for t in at], marker, color=colour, markersize=5, label=label)
    for axis, text in ((rate, "Mbit/s"), (window, "window, packets"), (delay, "queueing delay, ms\n(dashed: its threshold)")):
        axis.set_ylabel(text)
        axis.set_ylim(bottom=0)
        axis.grid(alpha=0.3)
        if axis.get_legend_handles_labels()[0]:
            axis.legend(loc="upper left", bbox_to_anchor=(1, 1), fontsize="small")
    delay.set_xlabel("seconds")
    if len(flows) > MOST:
        figure.suptitle(f"the {MOST} of {len(flows)} flows that carried the most", fontsize="medium")
    figure.savefig(picture)


def try_to_draw(picture: Path) -> None:
    """Fails where draw() would: nothing is written."""
    from matplotlib.figure import Figure

    if picture.suffix[1:] not in Figure().canvas.get_supported_filetypes():
        raise ValueError(f"no picture has the form `{picture.suffix}`: name it .svg, .png or .pdf")
    if picture.is_dir():
        raise OSError(errno.EISDIR, os.strerror(errno.EISDIR))
    where = picture if picture.exists() else picture.parent
    if not where.exists():
        raise OSError(errno.ENOENT, os.strerror(errno.ENOENT))
    if not os.access(where, os.W_OK):
        raise OSError(errno.EACCES, os.strerror(errno.EACCES))


def flows_in(files: list[Path]) -> list[Flow]:
    docs = [doc for path in files for doc in documents(path)]
    try:
        flows = gather(docs) if docs else []
    except (KeyError, TypeError, AttributeError):
        fail("a sample lacks a field of a flow (was it written by another version of ccbpf?)")
    if not flows:
        fail(f"{', '.join(map(str, files))}: no flow was there while it was recorded")
    return flows


def main() -> int:
    picture, *files = map(Path, sys.argv[1:])
    flows = flows_in(files) if files else []
    try:
        try_to_draw(picture)
        if files:
            draw(flows, picture)
    except ModuleNotFoundError as error:
        if error.name != "matplotlib":
            raise
        return 3
    except (OSError, ValueError) as error:
        fail(f"{picture}: {getattr(error, 'strerror', None) or error}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
