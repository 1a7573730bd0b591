# SPDX-License-Identifier: GPL-2.0-only
"""Goodput: shares, ratios, fairness."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

from ..engine.experiment import Result
from .base import ETHERNET_BYTES, NAN, capacity_mbit, data_bytes, frame_bytes, group, mean, measure, received_mbit, span

PHASE_S = 5.0  # shorter than that is a shift between flows that come together


@measure("Mbit/s")
def goodput(result: Result, flows: str = "foreground", from_s: float = 0.0, to_s: float = 0.0) -> float:
    """Mean goodput of the flows together."""
    chosen = group(result, flows)
    return received_mbit(chosen, *span(result, from_s, to_s)) if chosen else NAN


@measure("")
def share(result: Result, flows: str = "foreground", from_s: float = 0.0, to_s: float = 0.0) -> float:
    """Goodput of the flows together ÷ the TCP data that the bottleneck carries at most (1448 of each 1514 bytes)."""
    return goodput(result, flows, from_s, to_s) / capacity_mbit(result.experiment.link)


@measure("", needs=("all",))
def utilisation(result: Result, from_s: float = 0.0, to_s: float = 0.0) -> float:
    """Goodput of all flows towards the receiver ÷ the TCP data that the bottleneck carries at most."""
    return share(result, "all", from_s, to_s)


def load_mbit(result: Result, on: bool = False) -> float:
    """What the run's UDP streams send and its fetches ask for, as frames; a square wave with its mean, or what it is while
    it is on."""
    link, load = result.experiment.link, 0.0
    for stream in getattr(result.experiment, "traffic", ()):
        asked = {"pattern": "constant", "duty": 0.5, **dict(stream.options)}
        if stream.kind == "udp":
            part = asked["duty"] if asked["pattern"] == "square" and not on else 1.0
            load += asked["rate_mbit"] * part * (1 + ETHERNET_BYTES / asked["size_bytes"])
        elif stream.kind == "fetch":  # its sizes come by turns
            load += mean(asked["bytes"]) * 8 / 1e6 / asked["every_s"] * frame_bytes(link) / data_bytes(link)
    return load


def left_mbit(result: Result, load: float) -> float:
    """What a load of frames leaves of the link for TCP data."""
    link = result.experiment.link
    return capacity_mbit(link) * (1 - load / link.rate_mbit)


@measure("")
def available(result: Result, flows: str = "background", from_s: float = 0.0, to_s: float = 0.0) -> float:
    """Goodput of the flows ÷ what the UDP streams, which send all the time, and the objects that are fetched leave of the
    link for TCP data. A square wave counts with its mean, so whole periods make sense. An object counts when it is due,
    whether or not it came in time."""
    return goodput(result, flows, from_s, to_s) / left_mbit(result, load_mbit(result))


@measure("")
def part_of(
    result: Result, flows: str = "background", of_flows: str = "foreground", from_s: float = 0.0, to_s: float = 0.0
) -> float:
    """Goodput of the flows together ÷ that of other flows of the same run."""
    other = goodput(result, of_flows, from_s, to_s)
    return goodput(result, flows, from_s, to_s) / other if other else NAN


@measure("", reference="alone")
def transparency(result: Result, alone: Result, flows: str = "foreground", from_s: float = 0.0, to_s: float = 0.0) -> float:
    """Goodput of the foreground ÷ its goodput without the background."""
    return goodput(result, flows, from_s, to_s) / goodput(alone, flows, from_s, to_s)


@measure("", reference="ideal", reference_needs=("foreground",))
def efficiency(result: Result, ideal: Result, flows: str = "background", from_s: float = 0.0, to_s: float = 0.0) -> float:
    """Background's goodput ÷ what the foreground leaves of the link under strict priority. Where that is under 2 % of
    the link there is nothing to measure: nan."""
    capacity = capacity_mbit(result.experiment.link)
    left = capacity - goodput(ideal, "foreground", from_s, to_s)
    return goodput(result, flows, from_s, to_s) / left if left >= 0.02 * capacity else NAN


@measure("", reference="ideal")
def distance(result: Result, ideal: Result, from_s: float = 0.0, to_s: float = 0.0) -> float:
    """Distance to strict priority: half the sum of the differences of both classes' goodput ÷ the link's. 0: as the
    ideal; 0.5: half of the link is in the wrong hands."""
    difference = sum(
        abs(goodput(result, flows, from_s, to_s) - goodput(ideal, flows, from_s, to_s))
        for flows in ("foreground", "background")
        if group(result, flows)
    )
    return difference / 2 / capacity_mbit(result.experiment.link)


@measure("")
def jain(result: Result, flows: str = "background", from_s: float = 0.0, to_s: float = 0.0) -> float:
    """Jain's index of the flows' goodputs: 1 all alike, 1/n one has all."""
    return jain_of([flow.goodput_mbit(*span(result, from_s, to_s)) for flow in group(result, flows)])


def jain_of(rates: Sequence[float]) -> float:
    squares = sum(rate * rate for rate in rates)
    return sum(rates) ** 2 / (len(rates) * squares) if squares else NAN


@measure("")
def jain_in_phases(result: Result, flows: str = "background") -> float:
    """A phase lasts from one coming or going of one of the flows to the next. Jain's index of the flows that are there,
    over the last third of the phase; the least of all phases with two of them or more. What lasts under 5 s is none."""
    chosen = group(result, flows)
    changes = sorted({at for flow in chosen for at in (flow.flow.start_s, flow.flow.end_s)})
    found = []
    for begin, end in itertools.pairwise(changes):
        there = [flow for flow in chosen if flow.flow.start_s <= begin and flow.flow.end_s >= end]
        if end - begin >= PHASE_S and len(there) > 1:
            found.append(jain_of([flow.goodput_mbit(end - (end - begin) / 3, end) for flow in there]))
    return min(found, default=NAN)


@measure("", none_is_zero=True)
def deviation(result: Result, flows: str = "foreground", expect: float = 0.0, from_s: float = 0.0, to_s: float = 0.0) -> float:
    """Goodput of the flows less the figure expected (Mbit/s) ÷ the TCP data that the bottleneck carries at most."""
    got = received_mbit(group(result, flows), *span(result, from_s, to_s))
    return (got - expect) / capacity_mbit(result.experiment.link)


@measure("")
def goodput_ratio(
    result: Result, flows: str = "foreground", to: str = "background", expect: float = 1.0,
    from_s: float = 0.0, to_s: float = 0.0,
) -> float:  # fmt: skip
    """Goodput of the flows ÷ goodput of the other ones, ÷ the figure expected."""
    other = goodput(result, to, from_s, to_s)
    return goodput(result, flows, from_s, to_s) / other / expect if other else NAN


@measure("")
def available_in_phases(result: Result, flows: str = "background", period_s: float = 60.0, settle_s: float = 5.0) -> float:
    """Beside a square wave of UDP that sends in the first half of each period_s and not in the second: the least, over
    all whole halves, of the flows' goodput ÷ what the wave leaves of the link for TCP data, from settle_s after the
    half's beginning to its end."""
    half = period_s / 2
    parts = []
    for number in range(int(result.experiment.end_s / half + 1e-9)):
        left = left_mbit(result, 0 if number % 2 else load_mbit(result, on=True))
        begin = number * half
        parts.append(received_mbit(group(result, flows), begin + settle_s, begin + half) / left)
    return min(parts, default=NAN)


@measure("")
def newcomer_deviation(result: Result, flows: str = "background", window_s: float = 30.0) -> float:
    """Flows that come one after the other: over the window_s before the next one comes, or the first one goes, what
    the newest has less its fair share of what all have then, ÷ that share; the farthest from 0 of them all."""
    chosen = group(result, flows)
    changes = sorted({at for flow in chosen for at in (flow.flow.start_s, flow.flow.end_s)})
    worst = 0.0
    for newest in chosen:
        begin = newest.flow.start_s
        until = min((at for at in changes if at > begin), default=NAN)
        there = [flow for flow in chosen if flow.flow.start_s <= begin < flow.flow.end_s]
        if len(there) > 1:
            fair = received_mbit(there, until - window_s, until) / len(there)
            own = newest.goodput_mbit(until - window_s, until)
            worst = max(worst, (own - fair) / fair if fair else math.inf, key=abs)
    return worst if len(chosen) > 1 else NAN
