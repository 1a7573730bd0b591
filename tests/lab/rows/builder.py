# SPDX-License-Identifier: GPL-2.0-only
"""From the tables of a file to rows: templates filled, every run checked before any of them is made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..engine import scenario
from ..engine.scenario import NF_RED, PFIFO, PRIORITY, Traffic, VirtualExperiment, VirtualFlow, VirtualLink
from ..guest.lock import kernels
from ..measures import MEASURES
from . import catalogue
from .bounds import Named, check_bound, make_bound
from .row import ALONE, AS_GIVEN, IDEAL, Filling, Point, Row, RunKey, mentioned
from .schema import (
    ALL_TRAFFIC,
    CONTROLLER,
    DEFAULTS,
    FLOW,
    FLOW_OPTIONS,
    LINK,
    OTHERWISE,
    PLOTS,
    POINT,
    ROW,
    SWEEP,
    TRAFFIC,
    TRAFFIC_COMMON,
    TRAFFIC_NEEDS,
    RowError,
    Table,
    check,
    check_value,
    one_of,
)

QUICK, FULL, SIM = "quick", "full", "sim"
SOCKETS_S, RARE_SOCKETS_S = 1.0, 5.0
REPEAT_SHIFT_S = 0.05  # each draw starts the background flows so much later: another seed alone moves microseconds


@dataclass(frozen=True)
class Asked:
    """Which of a row's runs are wanted. repeat: the number of draws of each; 0: as many as the row says."""

    kernel: str
    set: str
    repeat: int = 0

    def __post_init__(self) -> None:
        if self.repeat < 0:
            raise RowError(f"REPEAT={self.repeat}: at least 1, or 0 for as many as the row says")


ID_MOST = 64  # letters of a row's id, which is a directory's name as well


class RowBuilder:
    """Makes one row. `special` has what each controller brings along."""

    def __init__(self, file: Path, title: str, name: str, data: Table, special: Mapping[str, Table], asked: Asked) -> None:
        self.file, self.title, self.name = file, title, name
        self.where = f"{file.name}: row {name}"
        self.asked, self.special = asked, special
        if not name.replace("-", "").replace("_", "").isalnum() or len(name) > ID_MOST:
            raise RowError(f"{self.where}: an id is made of letters, digits and -, {ID_MOST} at the most")
        check(self.where, data, ROW, ("what", "link"))
        self.data: dict[str, Any] = {**DEFAULTS, **data}
        self.every_point = self.all_points()
        self.check_names()
        self.named = Named(
            tuple(point.name for point in self.every_point), self.in_any_set("ours", "peers"), self.in_any_set("foreground")
        )

    # --- what the row says ---

    def all_points(self) -> tuple[Point, ...]:
        """The points of all sets."""
        if "sweep" not in self.data:
            return (Point(""),)
        sweep = check(f"{self.where}: sweep", self.data["sweep"], SWEEP, ("what", "values"))
        points = []
        for value in sweep["values"]:
            if isinstance(value, dict):
                if "name" not in value:
                    raise RowError(f"{self.where}: sweep.values: {value}: a table needs a name")
                own = {key: item for key, item in value.items() if key in POINT}
                check(f"{self.where}: sweep.values: {value['name']}", own, POINT)
            points.append(Point(str(value["name"] if isinstance(value, dict) else value), value))
        if not points or len({point.name for point in points}) < len(points):
            raise RowError(f"{self.where}: sweep.values: they must differ, and there must be one")
        return tuple(points)

    def in_any_set(self, *keys: str) -> tuple[str, ...]:
        tables = (self.data, self.data[QUICK], self.data[SIM])
        return tuple(dict.fromkeys(str(word) for table in tables for key in keys for word in table.get(key, [])))

    def check_names(self) -> None:
        """Checks the controllers, kernels, points and plots that a row names, in any set."""
        data, points = self.data, [point.name for point in self.every_point]
        known = (*catalogue.controllers(), *self.special)
        for place, table in (("", data), ("quick.", data["quick"]), ("sim.", data["sim"])):
            if table.get("ideal"):
                one_of(f"{self.where}: {place}ideal", table["ideal"], known)
            for key in ("foreground", "ours", "peers"):
                for word in table.get(key, []):
                    one_of(f"{self.where}: {place}{key}", word, known)
            for key in ("points", "peer_points", "plot_points"):
                for word in table.get(key, []):
                    one_of(f"{self.where}: {place}{key}", str(word), points)
        for word in data["plots"]:
            one_of(f"{self.where}: plots", word, PLOTS)
        for point in self.every_point:
            for word in point.kernels(self.asked.kernel):
                one_of(f"{self.where}: sweep.values: {point.name}: kernels", word, kernels())
            for word in point.controllers:
                one_of(f"{self.where}: sweep.values: {point.name}: for", word, known)
        for word in data["kernels"]:
            one_of(f"{self.where}: kernels", word, kernels())

    def chosen_points(self) -> tuple[Point, ...]:
        """The points of this set on this kernel. SET=quick has one, unless the row says otherwise."""
        otherwise = self.otherwise()
        names = [str(name) for name in otherwise.get("points", [])]
        if not names and self.asked.set == QUICK:
            names = [next(point.name for point in self.every_point if not point.only)]
        return tuple(
            point
            for point in self.every_point
            if (not names or point.name in names)
            and point.only in ("", self.asked.set)
            and self.asked.kernel in point.kernels(self.asked.kernel)
        )

    def otherwise(self) -> Table:
        """The values of the row that this set replaces."""
        if self.asked.set == FULL:
            return {}
        return check(f"{self.where}: {self.asked.set}", self.data[self.asked.set], OTHERWISE)

    # --- the row ---

    def row(self) -> Row | None:
        """The row; None: it is not for this kernel."""
        self.data |= {key: value for key, value in self.otherwise().items() if key != "points"}
        self.data["repeat"] = self.asked.repeat or self.data["repeat"]
        points = self.chosen_points()
        if not points or (self.data["kernels"] and self.asked.kernel not in self.data["kernels"]):
            return None
        data, where = self.data, self.where
        check(f"{where}: link", data["link"], LINK, ("rate_mbit", "rtt_ms"))
        self.flows = [check(f"{where}: flow {n}", flow, FLOW, ("name", "controller")) for n, flow in enumerate(data["flow"], 1)]
        self.traffic = [self.checked_traffic(f"{where}: traffic {n}", item) for n, item in enumerate(data["traffic"], 1)]
        if not self.flows and not self.traffic:
            raise RowError(f"{where}: no flow and no traffic")
        self.bounds = tuple(make_bound(f"{where}: bound {n}", item) for n, item in enumerate(data["bounds"], 1))
        varied = "@background" in mentioned((self.flows, self.traffic)) or self.varied()
        ours, peers = (tuple(data[key]) if varied else () for key in ("ours", "peers"))
        if varied and not ours and not peers:
            raise RowError(f"{where}: ours: which controllers stand for @background?")
        runs = {key: self.experiment(key, point) for point in points for key in self.keys(point, ours, peers)}
        self.check_parameters(ours, peers)
        row = Row(
            id=self.name, what=data["what"], file=self.file, title=self.title, paper=data["paper"], scale=data["scale"],
            foregrounds=tuple(dict.fromkeys(key.foreground for key in runs)), ours=ours, peers=peers, points=points,
            swept=data["sweep"]["what"] if "sweep" in data else "",
            bounds=self.bounds, plots=tuple(data["plots"]), runs=runs, from_s=float(data["from_s"]), to_s=float(data["to_s"]),
            memory_mb=int(data["memory_mb"]), note=data["note"], repeat=int(data["repeat"]),
            plot_points=tuple(str(name) for name in data.get("plot_points", [])), for_sim=bool(data["sim"]),
        )  # fmt: skip
        for number, bound in enumerate(row.bounds, 1):
            check_bound(f"{where}: bound {number}", row, bound, self.named)
        return row

    def varied(self) -> bool:
        return any("@background" in (flow["controller"], flow.get("relay")) for flow in self.flows)

    def checked_traffic(self, where: str, table: Any) -> Table:
        """Checks the traffic by the schema of its kind."""
        check(where, table, ALL_TRAFFIC, ("name", "kind"))
        kind = one_of(f"{where}: kind", table["kind"], TRAFFIC)
        return check(where, table, {**TRAFFIC_COMMON, **TRAFFIC[kind]}, TRAFFIC_NEEDS[kind])

    # --- which runs ---

    def keys(self, point: Point, ours: tuple[str, ...], peers: tuple[str, ...]) -> list[RunKey]:
        """Foregrounds × controllers × draws at one point."""
        everything = (self.data["flow"], self.data["traffic"], self.data["link"])
        foregrounds = self.data["foreground"] if "@foreground" in mentioned(list(everything)) else [""]
        peer_points = [str(name) for name in self.data.get("peer_points", [point.name])]
        there = (*ours, *(peers if point.name in peer_points else ()))
        names = [name for name in there if point.has(name)] if ours or peers else [AS_GIVEN]
        return [
            RunKey(foreground, point.name, name, number)
            for foreground in foregrounds
            for name in (*names, *(self.references(foreground, names[0], point) if names else ()))
            for number in range(int(self.data["repeat"]))
        ]

    def references(self, foreground: str, controller: str, point: Point) -> list[str]:
        """The runs "alone" and "ideal", if there is a foreground to be alone or to have priority."""
        filling = Filling(foreground, controller, point)
        there = [flow for flow in self.flows if filling.of("count", flow.get("count", 1))]
        forward = [flow for flow in there if not flow.get("background") and not flow.get("reverse")]
        mixed = any(flow.get("background") for flow in there) and (forward or self.traffic)
        return [name for name, asked in ((ALONE, "alone"), (IDEAL, "ideal")) if mixed and self.data[asked]]

    # --- one run ---

    def experiment(self, key: RunKey, point: Point) -> VirtualExperiment:
        data, seconds = self.data, float(self.data["seconds"])
        controller = data["ideal"] if key.background == IDEAL else key.background
        special = self.special.get(controller, {})
        filling = Filling(key.foreground, special.get("is", controller), point)
        flows: list[VirtualFlow] = []
        for number, flow in enumerate(self.flows, 1):
            if not (flow.get("background") and key.background == ALONE):
                place = f"{self.where}: flow {number}"
                flows += self.made_flows(place, filling.of(place, flow), special, key.number * REPEAT_SHIFT_S)
        others: list[Traffic] = []
        for number, item in enumerate(self.traffic, 1):
            place = f"{self.where}: traffic {number}"
            others += self.made_traffic(place, filling.of(place, item))
        made = VirtualExperiment(
            f"{self.name}: {key.words}",
            self.link(f"{self.where}: link", filling.of(f"{self.where}: link", data["link"]), key, special),
            tuple(flows),
            seconds=seconds,
            parameters=self.parameters(filling, [flow.controller for flow in flows]),
            sysctls=self.sysctls(filling),
            sockets_every_s=self.sockets_every_s(),
            traffic=tuple(others),
        )
        if said := scenario.problem(made):
            raise RowError(f"{self.where}: {said} ({key.words})")
        return made

    def link(self, where: str, table: Table, key: RunKey, special: Table) -> VirtualLink:
        """The link; where the row names no queue, it has the controller's own."""
        check(where, table, LINK)
        if {"buffer_bdp", "buffer_packets"} <= table.keys():
            raise RowError(f"{where}: buffer_bdp and buffer_packets: the buffer is given in one way")
        values = dict(table)
        if key.background == IDEAL:
            values["queue"] = PRIORITY
        elif "queue" not in values and not values.get("policer_packets"):
            values |= {name: special[name] for name in ("queue", "nf_red") if name in special}
        queue = str(values.get("queue", PFIFO)).split()
        for word in queue[1 if queue[:1] == [NF_RED] else 0 :][:1] or queue[:1]:
            one_of(f"{where}: queue", word, catalogue.QUEUES)
        values["nf_red"] = tuple(sorted((name, f"{value}") for name, value in values.get("nf_red", {}).items()))
        for name in ("rtt_changes", "stalls"):
            values[name] = tuple((float(at_s), float(other)) for at_s, other in values.get(name, ()))
        for name in ("hops", "buffer_packets", "reverse_packets", "policer_packets", "route_ssthresh"):
            if name in values:
                values[name] = int(values[name])
        return VirtualLink(**values)

    def made_flows(self, where: str, table: Table, special: Table, shift_s: float) -> list[VirtualFlow]:
        """`count` flows of a kind, `every_s` apart."""
        check(where, table, FLOW)
        for key in ("controller", "relay"):
            if table.get(key):
                one_of(f"{where}: {key}", table[key], catalogue.controllers())
        made: list[VirtualFlow] = []
        background = bool(table.get("background"))
        first = float(table.get("start_s", 0)) + (shift_s if background else 0)
        own = {key: special[key] for key in ("ecn", "dscp", "download", "receiver") if background and key in special}
        options = {key: table[key] for key in FLOW_OPTIONS if key in table} | own | self.handover(where, table)
        for number in range(int(table.get("count", 1))):
            start = first + number * float(table.get("every_s", 0))
            stop = float(table.get("stop_s", self.data["seconds"]))
            if stop <= start:
                raise RowError(f"{where}: it would stop at {stop:g} s and start at {start:g} s")
            name = table["name"] if number == 0 else f"{table['name']}-{number + 1}"
            made.append(VirtualFlow(name, table["controller"], stop - start, start, background=background, **options))
        return made

    def handover(self, where: str, table: Table) -> dict[str, Any]:
        """The handover; an empty table means none."""
        asked = table.get("handover", {})
        if not asked:
            return {}
        check(f"{where}: handover", asked, FLOW["handover"].of or {}, ("from", "at_s"))
        one_of(f"{where}: handover.from", asked["from"], catalogue.controllers())
        return {"starts_as": asked["from"], "switch_s": float(asked["at_s"])}

    def made_traffic(self, where: str, table: Table) -> list[Traffic]:
        """The traffic; none if its rate is 0."""
        self.checked_traffic(where, table)
        if table.get("rate_mbit") == 0:
            return []
        if "controller" in table:
            one_of(f"{where}: controller", table["controller"], catalogue.controllers())
        start, stop = float(table.get("start_s", 0)), float(table.get("stop_s", self.data["seconds"]))
        if stop <= start:
            raise RowError(f"{where}: it would stop at {stop:g} s and start at {start:g} s")
        own = {key: value for key, value in table.items() if key not in TRAFFIC_COMMON}
        options = tuple(sorted((key, tuple(value) if isinstance(value, list) else value) for key, value in own.items()))
        return [Traffic(table["name"], table["kind"], stop - start, start, options, int(table.get("hop", 0)))]

    def sockets_every_s(self) -> float:
        """The interval is short where windows are drawn or judged: each sample takes 12 ms of the guest's time."""
        looked_at = "windows" in self.data["plots"] or any(MEASURES[bound.measure].windows for bound in self.bounds)
        return float(self.data.get("sockets_every_s", SOCKETS_S if looked_at else RARE_SOCKETS_S))

    # --- settings ---

    def parameters(self, filling: Filling, controllers: list[str]) -> tuple[tuple[str, str], ...]:
        """The parameters, checked for each of our controllers that run; none is set if none of ours runs."""
        where = f"{self.where}: parameters"
        table = filling.of(where, self.data["parameters"])
        if not isinstance(table, dict):
            raise RowError(f"{where}: {table!r} is not a table")
        running = sorted(set(controllers) & set(catalogue.ours()))
        table = self.parameters_of(where, table, running)
        for name in running:
            known = catalogue.parameters(name)
            for key, value in table.items():
                one_of(f"{where}: {name}", key, known)
                about = known[key]
                if isinstance(value, bool) or not isinstance(value, int | float) or value != int(value):
                    raise RowError(f"{where}: {key}: {value!r} is not a whole number")
                if not about.low <= value <= about.high:
                    raise RowError(f"{where}: {key}: {value} is not from {about.low} to {about.high} ({name}, {about.unit})")
        return tuple(sorted((key, f"{value:.0f}") for key, value in table.items()))

    @staticmethod
    def parameters_of(where: str, table: dict[str, object], running: list[str]) -> dict[str, object]:
        """The parameters for all controllers, and those for the controllers that run."""
        chosen = {key: value for key, value in table.items() if not isinstance(value, dict)}
        for name, own in table.items():
            if isinstance(own, dict):
                one_of(where, name, catalogue.ours())
                chosen |= own if name in running else {}
        return chosen

    def check_parameters(self, ours: tuple[str, ...], peers: tuple[str, ...]) -> None:
        """A row with `parameters` has a controller of ours to set them for."""
        if self.data["parameters"] and not set(self.every_controller(ours, peers)) & set(catalogue.ours()):
            raise RowError(f"{self.where}: parameters: no controller of ours is in this row")

    def every_controller(self, ours: tuple[str, ...], peers: tuple[str, ...]) -> list[str]:
        names = [self.special.get(name, {}).get("is", name) for name in (*ours, *peers)]
        return [*names, *(flow["controller"] for flow in self.flows)]

    def sysctls(self, filling: Filling) -> tuple[tuple[str, str], ...]:
        where = f"{self.where}: sysctls"
        table = filling.of(where, self.data["sysctls"])
        for key, value in table.items():
            if not key.startswith("net."):
                raise RowError(f"{where}: {key}: the hosts are network namespaces; their sysctls begin with net.")
            if isinstance(value, bool) or not isinstance(value, int | float | str):
                raise RowError(f"{where}: {key}: {value!r} is neither a number nor a text")
        return tuple(sorted((key, str(value)) for key, value in table.items()))


def check_special(where: str, tables: Table) -> dict[str, Table]:
    """The tables `controller.NAME` of a file."""
    known = catalogue.controllers()
    for name, table in tables.items():
        place = f"{where}: controller.{name}"
        check(place, table, CONTROLLER)
        one_of(f"{place}: is" if "is" in table else f"{where}: controller", table.get("is", name), known)
        if "queue" in table:
            check_value(f"{place}: queue", table["queue"], LINK["queue"])
            one_of(f"{place}: queue", (table["queue"].split() or [""])[0], catalogue.QUEUES)
    return dict(tables)
