# SPDX-License-Identifier: GPL-2.0-only
"""Rows: experiments as data. A file of rows (TOML) → the runs that a row needs, and the bounds that judge it.

experiments/README.md is the reference of the format. A row is a template: "@foreground", "@background" and "@point"
("@point.key" where points are tables) stand for what differs from run to run. Its runs are all combinations of

    foreground (the row's list) × point (of its sweep) × alone | ideal | each of ours | each of the peers

A wrong key or value raises RowError, which names the file, the row, the key, and what is allowed.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from .experiment import Flow
from .guest.lock import kernels
from .measures import MEASURES
from .virtual_experiment import BLEACHES, Traffic, VirtualExperiment, VirtualFlow, VirtualLink

DIRECTORY = Path(__file__).parent / "experiments"
SETS = ("quick", "full")
ALONE, IDEAL, AS_GIVEN = "alone", "ideal", "as given"
OPERATORS = ("<=", "<", ">=", ">")
PLOTS = ("rates", "windows", "queue", "curve", "responses", "estimates")
REPEAT_SHIFT_S = 0.05  # each repetition starts the background flows so much later: another seed alone moves microseconds
TRAFFIC_KINDS = ("udp", "web", "fetch")

Table = Mapping[str, Any]


class RowError(Exception):
    """A file of rows that cannot be meant so."""


# --- what a row is ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Bound:
    """A measure, and what it must be. `of`: the measure of that run (alone, ideal, a controller) divides it."""

    what: str
    measure: str
    op: str
    bound: float
    options: Table = field(default_factory=dict)  # of the measure; may hold "@point.key"
    of: str = ""
    points: tuple[str, ...] = ()  # names; empty: all
    of_point: str = ""  # the same at this point divides it
    for_: tuple[str, ...] = ()  # controllers; empty: ours
    foregrounds: tuple[str, ...] = ()  # empty: all


@dataclass(frozen=True)
class Point:
    """One value of what is swept."""

    name: str
    value: Any = None  # a number, a word, or a table of them

    def kernels(self, otherwise: str) -> list[str]:
        """Those that it is for; a table may say so."""
        return self.value.get("kernels", [otherwise]) if isinstance(self.value, dict) else [otherwise]


@dataclass(frozen=True, order=True)
class RunKey:
    """Which run of a row."""

    foreground: str
    point: str
    background: str  # alone, ideal, a controller, or "as given"
    number: int = 0  # of a repetition

    @property
    def words(self) -> str:
        parts = (self.foreground, self.background, self.point, f"#{self.number + 1}" if self.number else "")
        return " · ".join(part for part in parts if part and part != AS_GIVEN) or "the run"

    @property
    def slug(self) -> str:
        """A name for a directory."""
        parts = [part for part in (self.foreground, self.background, self.point) if part]
        parts += [str(self.number + 1)] if self.number else []
        return "_".join("".join(c if c.isalnum() or c in ".-" else "-" for c in part) for part in parts)


@dataclass(frozen=True)
class Row:
    """One experiment with all its runs."""

    id: str
    what: str
    file: Path
    title: str  # of the file
    paper: Table
    scale: str
    foregrounds: tuple[str, ...]
    ours: tuple[str, ...]
    peers: tuple[str, ...]
    points: tuple[Point, ...]
    swept: str  # what the points are, with its unit
    bounds: tuple[Bound, ...]
    plots: tuple[str, ...]
    runs: Mapping[RunKey, VirtualExperiment]
    from_s: float
    to_s: float
    memory_mb: int
    note: str = ""
    repeat: int = 1

    @property
    def cells(self) -> list[RunKey]:
        """The runs without their repetitions."""
        return [key for key in self.runs if not key.number]

    def repetitions(self, key: RunKey) -> list[RunKey]:
        return [replace(key, number=number) for number in range(self.repeat)]

    @property
    def controllers(self) -> tuple[str, ...]:
        """What a verdict is about: ours, then the peers."""
        return (*self.ours, *self.peers) or (AS_GIVEN,)

    @property
    def judged(self) -> tuple[str, ...]:
        """Whose bounds decide whether the row holds."""
        return self.ours or (AS_GIVEN,)


# --- the schema ------------------------------------------------------------------------------------------------------

NUMBER, TEXT, BOOL, LIST, TABLE = "a number", "a text", "true or false", "a list", "a table"
TYPES: dict[str, tuple[type, ...]] = {
    NUMBER: (int, float),
    TEXT: (str,),
    BOOL: (bool,),
    LIST: (list,),
    TABLE: (dict,),
}
LINK = {
    "rate_mbit": NUMBER, "rtt_ms": NUMBER, "buffer_bdp": NUMBER, "buffer_packets": NUMBER, "queue": TEXT,
    "mark_at": NUMBER, "loss_percent": NUMBER, "jitter_ms": NUMBER, "reorder_percent": NUMBER,
    "duplicate_percent": NUMBER, "both_ways": BOOL, "rtt_changes": LIST, "hops": NUMBER, "gso": BOOL,
    "packet_bytes": NUMBER, "bleach": TEXT, "nf_red": TABLE,
}  # fmt: skip
NF_RED = {"nf_min": NUMBER, "nf_max": NUMBER, "std": TEXT, "nf_dscp": TEXT, "probe_dscp": NUMBER}
FLOW = {
    "name": TEXT, "controller": TEXT, "start_s": NUMBER, "stop_s": NUMBER, "count": NUMBER, "every_s": NUMBER,
    "background": BOOL, "reverse": BOOL, "ecn": BOOL, "rtt_ms": NUMBER, "hop": NUMBER,
    "relay": TEXT, "dscp": NUMBER,
}  # fmt: skip
FLOW_OPTIONS = ("reverse", "ecn", "rtt_ms", "hop", "relay", "dscp")
TRAFFIC = {
    "name": TEXT, "kind": TEXT, "start_s": NUMBER, "stop_s": NUMBER, "rate_mbit": NUMBER, "size_bytes": NUMBER,
    "pattern": TEXT, "period_s": NUMBER, "duty": NUMBER, "sessions": NUMBER, "mean_bytes": NUMBER, "max_bytes": NUMBER,
    "shape": NUMBER, "objects": NUMBER, "bytes": LIST, "every_s": NUMBER, "seed": NUMBER, "controller": TEXT,
    "hop": NUMBER, "think": BOOL,
}  # fmt: skip
BOUND = {
    "what": TEXT, "measure": TEXT, "op": TEXT, "bound": NUMBER, "of": TEXT, "points": LIST, "of_point": TEXT,
    "for": LIST, "foregrounds": LIST, "options": TABLE,
}  # fmt: skip
SWEEP = {"what": TEXT, "values": LIST}
CONTROLLER = {"is": TEXT, "queue": TEXT, "nf_red": TABLE, "ecn": BOOL, "dscp": NUMBER}
ROW = {
    "what": TEXT, "paper": TABLE, "scale": TEXT, "note": TEXT, "foreground": LIST, "ours": LIST, "peers": LIST,
    "ideal": TEXT, "alone": BOOL, "seconds": NUMBER, "from_s": NUMBER, "to_s": NUMBER, "link": TABLE, "flow": LIST,
    "traffic": LIST, "sweep": TABLE, "parameters": TABLE, "sysctls": TABLE, "bounds": LIST, "plots": LIST,
    "quick": TABLE, "memory_mb": NUMBER, "sockets_every_s": NUMBER, "kernels": LIST,
    "repeat": NUMBER,
}  # fmt: skip
QUICK = {key: ROW[key] for key in ("seconds", "from_s", "to_s", "foreground", "ours", "peers", "repeat")} | {
    "points": LIST
}
FILE = {"title": TEXT, "paper": TEXT, "defaults": TABLE, "controller": TABLE, "row": TABLE}
DEFAULTS = {
    "foreground": ["reno"], "ours": [], "peers": [], "ideal": "", "alone": True, "seconds": 30, "from_s": 0, "to_s": 0,
    "paper": {}, "scale": "full scale", "note": "", "traffic": [], "flow": [], "parameters": {}, "sysctls": {},
    "bounds": [], "plots": ["rates"], "quick": {}, "memory_mb": 256, "sockets_every_s": 1.0, "kernels": [],
    "repeat": 1,
}  # fmt: skip


def check(where: str, table: Any, schema: Table, required: Iterable[str] = ()) -> Table:
    """The table itself, if its keys and the types of its values are the schema's."""
    if not isinstance(table, dict):
        raise RowError(f"{where}: {table!r} is not a table of {', '.join(schema)}")
    for key, value in table.items():
        if key not in schema:
            raise RowError(f"{where}: {key}: no such key; there are {', '.join(sorted(schema))}")
        right = isinstance(value, TYPES[schema[key]]) and (schema[key] == BOOL or not isinstance(value, bool))
        if not right and not placeholder(value):
            raise RowError(f"{where}: {key}: {value!r} is not {schema[key]}")
    for key in required:
        if key not in table:
            raise RowError(f"{where}: {key} is missing")
    return table


def placeholder(value: Any) -> bool:
    return isinstance(value, str) and value.startswith("@")


def one_of(where: str, value: str, allowed: Iterable[str]) -> str:
    if value not in allowed:
        raise RowError(f"{where}: {value!r} is none of {', '.join(allowed)}")
    return value


def at_least(where: str, table: Table, **lows: float) -> None:
    for key, low in lows.items():
        if key in table and table[key] < low:
            raise RowError(f"{where}: {key}: {table[key]:g} is below {low:g}")


# --- from tables to runs ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Filling:
    """What the placeholders stand for in one run."""

    foreground: str
    background: str
    point: Point

    def of(self, where: str, value: Any) -> Any:
        """The value with every placeholder in it filled."""
        if isinstance(value, dict):
            return {key: self.of(f"{where}.{key}", item) for key, item in value.items()}
        if isinstance(value, list):
            return [self.of(where, item) for item in value]
        if not placeholder(value):
            return value
        if value == "@foreground":
            return self.foreground
        if value == "@background":
            return self.background
        name, _, key = value.partition(".")
        if name != "@point" or (key and not isinstance(self.point.value, dict)):
            raise RowError(f"{where}: {value}: there are @foreground, @background, @point, @point.KEY of a table")
        if key and key not in self.point.value:
            raise RowError(f"{where}: {value}: point {self.point.name} has only {', '.join(self.point.value)}")
        return self.point.value[key] if key else self.point.value


class Builder:
    """Makes the rows of one file."""

    def __init__(self, path: Path, kernel: str, set_: str, repeat: int = 0) -> None:
        self.path, self.kernel, self.set, self.repeat = path, kernel, set_, repeat
        try:
            self.file = tomllib.loads(path.read_text())
        except (OSError, UnicodeDecodeError) as error:
            raise RowError(f"{path}: cannot be read: {error}") from error
        except tomllib.TOMLDecodeError as error:
            raise RowError(f"{path}: not TOML: {error}") from error
        check(str(path), self.file, FILE, ("row",))
        check(f"{path}: defaults", self.file.get("defaults", {}), ROW)
        self.special = {
            name: check(f"{path}: controller.{name}", table, CONTROLLER)
            for name, table in self.file.get("controller", {}).items()
        }

    def rows(self) -> list[Row]:
        made = [self.row(name, table) for name, table in self.file["row"].items()]
        return [row for row in made if row]

    def row(self, name: str, table: Any) -> Row | None:
        """The row for this set; None: it is not for this kernel."""
        where = f"{self.path.name}: row {name}"
        if not name.replace("-", "").replace("_", "").isalnum():
            raise RowError(f"{where}: an id is made of letters, digits and -")
        check(where, table, ROW, ("what", "link"))
        data = {**DEFAULTS, **self.file.get("defaults", {}), **table}
        points = self.points(where, data)
        quick = check(f"{where}: quick", data["quick"], QUICK)
        chosen = [str(item) for item in quick.get("points", [points[0].name])]
        for item in chosen:
            one_of(f"{where}: quick.points", item, [point.name for point in points])
        if self.set == "quick":
            points = tuple(point for point in points if point.name in chosen)
            data |= {key: value for key, value in quick.items() if key != "points"}
        data["repeat"] = self.repeat or data["repeat"]
        for item in data["kernels"]:
            one_of(f"{where}: kernels", item, kernels())
        if data["kernels"] and self.kernel not in data["kernels"]:
            return None
        points = tuple(point for point in points if self.kernel in point.kernels(self.kernel))
        return self.finished(where, name, data, points) if points else None

    def points(self, where: str, data: Table) -> tuple[Point, ...]:
        if "sweep" not in data:
            return (Point(""),)
        sweep = check(f"{where}: sweep", data["sweep"], SWEEP, ("what", "values"))
        points = []
        for value in sweep["values"]:
            if isinstance(value, dict) and "name" not in value:
                raise RowError(f"{where}: sweep.values: {value}: a table needs a name")
            points.append(Point(str(value["name"] if isinstance(value, dict) else value), value))
        if not points or len({point.name for point in points}) < len(points):
            raise RowError(f"{where}: sweep.values: they must differ, and there must be one")
        return tuple(points)

    def finished(self, where: str, name: str, data: Table, points: tuple[Point, ...]) -> Row:
        check(f"{where}: link", data["link"], LINK, ("rate_mbit", "rtt_ms"))
        at_least(where, data, repeat=1, seconds=1, from_s=0, to_s=0)
        flows = self.tables(f"{where}: flow", data["flow"], FLOW, ("name", "controller"))
        traffic = self.tables(f"{where}: traffic", data["traffic"], TRAFFIC, ("name", "kind"))
        if not flows and not traffic:
            raise RowError(f"{where}: no flow and no traffic")
        varied = any("@background" in (flow["controller"], flow.get("relay")) for flow in flows)
        ours, peers = (tuple(data[key]) if varied else () for key in ("ours", "peers"))
        if varied and not ours and not peers:
            raise RowError(f"{where}: ours: which controllers stand for @background?")
        runs = {
            key: self.experiment(where, name, data, flows, traffic, key, point)
            for point in points
            for foreground in (tuple(data["foreground"]) if self.mentions(data, "@foreground") else ("",))
            for key in self.keys(data, foreground, point, flows, (*ours, *peers))
        }
        row = Row(
            id=name, what=data["what"], file=self.path, title=self.file.get("title", self.path.stem),
            paper=data["paper"], scale=data["scale"], foregrounds=tuple(dict.fromkeys(key.foreground for key in runs)),
            ours=ours, peers=peers, points=points, swept=data["sweep"]["what"] if "sweep" in data else "",
            bounds=tuple(self.bound(f"{where}: bound {n}", item) for n, item in enumerate(data["bounds"], 1)),
            plots=tuple(one_of(f"{where}: plots", plot, PLOTS) for plot in data["plots"]), runs=runs,
            from_s=float(data["from_s"]), to_s=float(data["to_s"]), memory_mb=data["memory_mb"], note=data["note"],
            repeat=int(data["repeat"]),
        )  # fmt: skip
        self.check_bounds(where, row, data)
        return row

    def tables(self, where: str, items: list[Any], schema: Table, required: Iterable[str]) -> list[Table]:
        return [check(f"{where} {number}", item, schema, required) for number, item in enumerate(items, 1)]

    def mentions(self, data: Table, word: str) -> bool:
        return word in repr((data["flow"], data["traffic"], data["link"]))

    def keys(
        self, data: Table, foreground: str, point: Point, flows: list[Table], controllers: tuple[str, ...]
    ) -> list[RunKey]:
        """Alone and ideal where there is something to be alone, or to have priority."""
        names = list(controllers) or [AS_GIVEN]
        filling = Filling(foreground, names[0], point)
        there = [flow for flow in flows if filling.of("count", flow.get("count", 1))]
        forward = [flow for flow in there if not flow.get("background") and not flow.get("reverse")]
        mixed = any(flow.get("background") for flow in there) and (forward or data["traffic"])
        names += [ALONE] if mixed and data["alone"] else []
        names += [IDEAL] if mixed and data["ideal"] else []
        return [RunKey(foreground, point.name, name, number) for name in names for number in range(int(data["repeat"]))]

    def experiment(
        self, where: str, name: str, data: Table, flows: list[Table], traffic: list[Table], key: RunKey, point: Point
    ) -> VirtualExperiment:
        controller = data["ideal"] if key.background == IDEAL else key.background
        special = dict(self.special.get(controller, {}))
        filling = Filling(key.foreground, special.get("is", controller), point)
        link = self.link(f"{where}: link", filling.of(f"{where}: link", data["link"]), key, special)
        made: list[Flow] = []
        for number, flow in enumerate(flows, 1):
            if not (flow.get("background") and key.background == ALONE):
                place = f"{where}: flow {number}"
                made += self.flows(
                    place, filling.of(place, flow), float(data["seconds"]), special, key.number * REPEAT_SHIFT_S
                )
        others = []
        for number, item in enumerate(traffic, 1):
            place = f"{where}: traffic {number}"
            others.append(self.traffic(place, filling.of(place, item), float(data["seconds"])))
        parameters = filling.of(f"{where}: parameters", data["parameters"])
        sysctls = filling.of(f"{where}: sysctls", data["sysctls"])
        return VirtualExperiment(
            f"{name}: {key.words}",
            link,
            tuple(made),
            seconds=float(data["seconds"]),
            parameters=tuple(sorted((key, f"{value:g}") for key, value in parameters.items())),
            sysctls=tuple(sorted((key, str(value)) for key, value in sysctls.items())),
            sockets_every_s=float(data["sockets_every_s"]),
            traffic=tuple(others),
        )

    def link(self, where: str, table: Table, key: RunKey, special: Table) -> VirtualLink:
        check(where, table, LINK)
        at_least(where, table, rate_mbit=0.01, rtt_ms=0, buffer_bdp=0, buffer_packets=2, loss_percent=0, jitter_ms=0)
        values = dict(table)
        if key.background == IDEAL:
            values["queue"] = "priority"
        elif values.get("queue", "pfifo") == "pfifo":
            values |= {name: special[name] for name in ("queue", "nf_red") if name in special}
        options = check(f"{where}.nf_red", values.get("nf_red", {}), NF_RED)
        values["nf_red"] = tuple(sorted((name, f"{value}") for name, value in options.items()))
        if "bleach" in values:
            one_of(f"{where}: bleach", values["bleach"], ("", *BLEACHES))
        values["rtt_changes"] = tuple((float(at), float(rtt)) for at, rtt in values.get("rtt_changes", ()))
        return VirtualLink(**values)

    def flows(self, where: str, table: Table, seconds: float, special: Table, shift_s: float) -> list[Flow]:
        """`count` flows of a kind, `every_s` apart."""
        check(where, table, FLOW)
        at_least(where, table, start_s=0, stop_s=0.1, count=0, every_s=0, rtt_ms=0)
        made: list[Flow] = []
        background = bool(table.get("background"))
        first = float(table.get("start_s", 0)) + (shift_s if background else 0)
        for number in range(int(table.get("count", 1))):
            start = first + number * float(table.get("every_s", 0))
            stop = float(table.get("stop_s", seconds))
            if stop <= start:
                raise RowError(f"{where}: it would stop at {stop:g} s and start at {start:g} s")
            own = {key: special[key] for key in ("ecn", "dscp") if background and key in special}
            options = {key: table[key] for key in FLOW_OPTIONS if key in table} | own
            name = table["name"] if number == 0 else f"{table['name']}-{number + 1}"
            made.append(VirtualFlow(name, table["controller"], stop - start, start, background=background, **options))
        return made

    def traffic(self, where: str, table: Table, seconds: float) -> Traffic:
        check(where, table, TRAFFIC)
        one_of(f"{where}: kind", table["kind"], TRAFFIC_KINDS)
        start = float(table.get("start_s", 0))
        own = {key: value for key, value in table.items() if key not in ("name", "kind", "start_s", "stop_s", "hop")}
        options = tuple(sorted((key, tuple(value) if isinstance(value, list) else value) for key, value in own.items()))
        length = float(table.get("stop_s", seconds)) - start
        return Traffic(table["name"], table["kind"], length, start, options, int(table.get("hop", 0)))

    def bound(self, where: str, table: Any) -> Bound:
        check(where, table, BOUND, ("what", "measure", "op", "bound"))
        name = one_of(f"{where}: measure", table["measure"], sorted(MEASURES))
        one_of(f"{where}: op", table["op"], OPERATORS)
        options = table.get("options", {})
        for key in options:
            one_of(f"{where}: options", key, MEASURES[name].options)
        return Bound(
            table["what"], name, table["op"], table["bound"], options, table.get("of", ""),
            tuple(str(item) for item in table.get("points", [])), str(table.get("of_point", "")),
            tuple(table.get("for", [])), tuple(table.get("foregrounds", [])),
        )  # fmt: skip

    def check_bounds(self, where: str, row: Row, data: Table) -> None:
        """The points, controllers and runs that bounds name must be there (the points of both sets may be named)."""
        every = [point.name for point in self.points(where, data)]
        runs = {*row.controllers, *([ALONE] if data["alone"] else []), *([IDEAL] if data["ideal"] else [])}
        for number, bound in enumerate(row.bounds, 1):
            place = f"{where}: bound {number}"
            for item in (*bound.points, *([bound.of_point] if bound.of_point else [])):
                one_of(f"{place}: points", item, every)
            for item in bound.for_:
                one_of(f"{place}: for", item, row.controllers)
            needed = bound.of or MEASURES[bound.measure].reference
            if needed:
                one_of(f"{place}: of", needed, sorted(runs))


# --- files -----------------------------------------------------------------------------------------------------------


def load(path: Path, kernel: str = "6.12", set_: str = "full", repeat: int = 0) -> list[Row]:
    """The rows of one file. repeat: so many draws of each run, 0: as many as the row says."""
    one_of("SET", set_, SETS)
    return Builder(path, kernel, set_, repeat).rows()


def load_all(kernel: str = "6.12", set_: str = "full", repeat: int = 0) -> list[Row]:
    """All rows of the project: the papers', then our own."""
    paths = sorted(DIRECTORY.glob("*.toml"), key=lambda path: (path.stem == "own", path.name))
    return [row for path in paths for row in load(path, kernel, set_, repeat)]


def choose(words: str, kernel: str = "6.12", set_: str = "full", repeat: int = 0) -> list[Row]:
    """EXP=: ids, files, and rows of a file (mine.toml:id), comma-separated; nothing: all."""
    known = {row.id: row for row in load_all(kernel, set_, repeat)}
    if not words:
        return list(known.values())
    chosen: list[Row] = []
    for word in filter(None, words.split(",")):
        file, _, id_ = word.partition(":")
        if file.endswith(".toml"):
            rows = load(Path(file), kernel, set_, repeat)
            chosen += [row for row in rows if row.id == one_of(f"EXP={word}", id_ or row.id, [row.id for row in rows])]
        elif word in known:
            chosen.append(known[word])
        else:
            raise RowError(f"EXP={word}: no such row on {kernel}; `make lab-list` lists them, a file ends in .toml")
    return chosen
