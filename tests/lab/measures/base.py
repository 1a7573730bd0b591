# SPDX-License-Identifier: GPL-2.0-only
"""What all measures are made of: their table, groups of flows, windows, rates, delays."""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..engine.experiment import FlowResult, Link, Result

HEADERS_BYTES = 52  # IP, TCP, its timestamps: what a packet has beside data
ETHERNET_BYTES = 14  # what a frame has beside its IP packet
NAN = float("nan")

GROUP_OPTIONS = ("flows", "of_flows", "to")  # options that name flows
UDP, OBJECTS = ("udp",), ("web", "fetch")  # kinds of traffic


@dataclass(frozen=True)
class Measure:
    """One named measure: its function, unit, definition, the run that it compares with, and what it looks at."""

    function: Callable[..., float]
    unit: str
    text: str
    reference: str = ""  # "": none, "alone": without the background, "ideal": under strict priority
    needs: tuple[str, ...] = ()  # flows, beside those that options name
    reference_needs: tuple[str, ...] | None = None  # the same of the run that it compares with; None: as its own
    traffic: tuple[str, ...] = ()  # kinds of traffic, of which one must be there
    none_is_zero: bool = False  # flows that are not there have a goodput of 0
    windows: bool = False  # it looks at the senders' congestion windows

    @property
    def options(self) -> tuple[str, ...]:
        """What a bound may give to it."""
        names = list(inspect.signature(self.function).parameters)
        return tuple(names[2 if self.reference else 1 :])

    def annotation(self, option: str) -> str:
        """The type of an option, as its function declares it."""
        return str(inspect.signature(self.function).parameters[option].annotation)

    def groups(self, options: Mapping[str, Any], reference: bool = False) -> list[str]:
        """The flows without which it says nothing, in its run or in the one that it compares with."""
        if reference and self.reference_needs is not None:
            return list(self.reference_needs)
        if self.none_is_zero:
            return []
        defaults = inspect.signature(self.function).parameters
        named = [options.get(name, defaults[name].default) for name in GROUP_OPTIONS if name in defaults]
        return [*dict.fromkeys([*named, *self.needs])]


MEASURES: dict[str, Measure] = {}


def measure(unit: str, reference: str = "", **about: Any) -> Callable[[Callable[..., float]], Callable[..., float]]:
    """Puts a function into the table; its docstring is the definition, `about` the further fields of a Measure."""

    def put(function: Callable[..., float]) -> Callable[..., float]:
        text = " ".join((function.__doc__ or "").split())
        MEASURES[function.__name__] = Measure(function, unit, text, reference, **about)
        return function

    return put


# --- parts -----------------------------------------------------------------------------------------------------------


def frame_bytes(link: Link) -> int:
    """A full frame on the bottleneck."""
    return getattr(link, "frame_bytes", 1514)


def data_bytes(link: Link) -> int:
    """The TCP data in it."""
    return getattr(link, "packet_bytes", 1500) - HEADERS_BYTES


def capacity_mbit(link: Link) -> float:
    """TCP data that a link of full frames carries at most, Mbit/s."""
    return link.rate_mbit * data_bytes(link) / frame_bytes(link)


def group(result: Result, flows: str) -> list[FlowResult]:
    """The flows of that name: `name` or `name-2`, `name-3`, …; "all": every one that is not in reverse."""
    if flows == "all":
        return [flow for flow in result.flows.values() if not getattr(flow.flow, "reverse", False)]
    chosen = members(result.flows, flows)
    return [flow for name, flow in result.flows.items() if name in chosen]


def members(names: Iterable[str], group: str) -> list[str]:
    """Those of the names that are the group's: itself, and numbered."""
    return [name for name in names if re.fullmatch(rf"{re.escape(group)}(-\d+)?", name)]


def span(result: Result, from_s: float, to_s: float) -> tuple[float, float]:
    """A time window; to_s = 0 is the end of the run, and a from_s below 0 is so many seconds before that end."""
    end_s = result.experiment.end_s
    return from_s + end_s if from_s < 0 else from_s, to_s or end_s


def received_mbit(flows: Sequence[FlowResult], from_s: float, to_s: float) -> float:
    """Mean goodput of flows together in a window, Mbit/s."""
    return sum(flow.goodput_mbit(from_s, to_s) for flow in flows)


def mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else NAN


def correlation(one: Sequence[float], other: Sequence[float]) -> float:
    """Pearson's coefficient; nan if one of them does not vary."""
    a, b = mean(one), mean(other)
    products = sum((x - a) * (y - b) for x, y in zip(one, other, strict=True))
    spread = math.sqrt(sum((x - a) ** 2 for x in one) * sum((y - b) ** 2 for y in other))
    return products / spread if spread else NAN


def delays_ms(result: Result, from_s: float, to_s: float) -> list[float]:
    """Queueing delay that a packet met which came then: the true backlog over the rate, at each sample of it."""
    rate = result.experiment.link.rate_mbit * 1e3  # bits per ms
    return [size * 8 / rate for at, size in result.backlog if from_s <= at <= to_s]


CWND = re.compile(r"\S+:(\d+)\s+\S+:(\d+)\s+(\S+) .*?\bcwnd:(\d+)")


def windows(result: Result, first_port: int = 5201) -> dict[str, list[tuple[float, int]]]:
    """Congestion window over time of each flow towards the receiver, packets, from the senders' sockets (`ss -ti`)."""
    names = dict(enumerate(result.flows))
    found: dict[str, list[tuple[float, int]]] = {name: [] for name in result.flows}
    for at, text in getattr(result, "sockets", []):
        for line in text.splitlines():
            match = CWND.search(line)
            if not match:
                continue
            number = int(match[2]) - first_port
            if number in names and int(match[1]) == 40001 + number:  # the data's socket, not iperf3's control
                found[names[number]].append((at, int(match[4])))
    return found


def joined(result: Result, flows: str) -> dict[float, int]:
    """The sum of a group's windows at each sample, packets."""
    sums: dict[float, int] = {}
    members = {flow.flow.name for flow in group(result, flows)}
    for name, samples in windows(result).items():
        if name in members:
            for at, cwnd in samples:
                sums[at] = sums.get(at, 0) + cwnd
    return sums
