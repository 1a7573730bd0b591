# SPDX-License-Identifier: GPL-2.0-only
"""From results to numbers: what a bound may name. Each measure says its unit and what exactly it is.

A measure is a pure function of one run's Result, of a reference run's where it says so, and of options that a bound may
give (`flows`, `from_s`, …). Goodput is what receivers got of TCP data, by their own samples of 0.1 s. Whatever a run
cannot say is nan: a comparison with nan never holds.
"""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from .experiment import FlowResult, Link, Result, quantile

HEADERS_BYTES = 52  # IP, TCP, its timestamps: what a packet has beside data
ETHERNET_BYTES = 14  # what a frame has beside its IP packet
PROBE, ESTIMATE = "chirp", "estimate"  # events of nf_tcp: a chirp has left; what is used from now on (b: kbit/s)
PROBE_BYTES = "probe_bytes"  # of its record: all that left in chirps
NAN = float("nan")

YIELDED = 0.10  # of its rate before: from here on a background flow has yielded
RECLAIMED = 0.90  # of its rate before: the background is back
STEADY_S = 1.0  # the mean over this time counts: longer than a round trip, shorter than a phase
FAIR_WINDOW_S = 10.0
PHASE_S = 5.0  # shorter than that is a shift between flows that come together
BEFORE_S = 1.0  # the traffic beside a probe is the mean over this time before its estimate


@dataclass(frozen=True)
class Measure:
    """One named measure: its function, unit, definition, and the run that it compares with."""

    function: Callable[..., float]
    unit: str
    text: str
    reference: str = ""  # "": none, "alone": without the background, "ideal": under strict priority

    @property
    def options(self) -> tuple[str, ...]:
        """What a bound may give to it."""
        names = list(inspect.signature(self.function).parameters)
        return tuple(names[2 if self.reference else 1 :])


MEASURES: dict[str, Measure] = {}


def measure(unit: str, reference: str = "") -> Callable[[Callable[..., float]], Callable[..., float]]:
    """Puts a function into the table; its docstring is the definition."""

    def put(function: Callable[..., float]) -> Callable[..., float]:
        text = " ".join((function.__doc__ or "").split())
        MEASURES[function.__name__] = Measure(function, unit, text, reference)
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
    return [flow for name, flow in result.flows.items() if re.fullmatch(rf"{re.escape(flows)}(-\d+)?", name)]


def span(result: Result, from_s: float, to_s: float) -> tuple[float, float]:
    """A time window; to_s = 0 is the end of the run."""
    return from_s, to_s or result.experiment.end_s


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


# --- rates -----------------------------------------------------------------------------------------------------------


@measure("Mbit/s")
def goodput(result: Result, flows: str = "foreground", from_s: float = 0.0, to_s: float = 0.0) -> float:
    """Mean goodput of the flows together."""
    chosen = group(result, flows)
    return received_mbit(chosen, *span(result, from_s, to_s)) if chosen else NAN


@measure("")
def share(result: Result, flows: str = "foreground", from_s: float = 0.0, to_s: float = 0.0) -> float:
    """Goodput of the flows together ÷ the TCP data that the bottleneck carries at most (1448 of each 1514 bytes)."""
    return goodput(result, flows, from_s, to_s) / capacity_mbit(result.experiment.link)


@measure("")
def utilisation(result: Result, from_s: float = 0.0, to_s: float = 0.0) -> float:
    """Goodput of all flows towards the receiver ÷ the TCP data that the bottleneck carries at most."""
    return share(result, "all", from_s, to_s)


def load_mbit(result: Result, on: bool = False) -> float:
    """What the run's UDP streams send, as frames; a square wave with its mean, or what it is while it is on."""
    load = 0.0
    for stream in getattr(result.experiment, "traffic", ()):
        if stream.kind == "udp":
            asked = {"pattern": "constant", "duty": 0.5, **dict(stream.options)}
            part = asked["duty"] if asked["pattern"] == "square" and not on else 1.0
            load += asked["rate_mbit"] * part * (1 + ETHERNET_BYTES / asked["size_bytes"])
    return load


def left_mbit(result: Result, load: float) -> float:
    """What a load of frames leaves of the link for TCP data."""
    link = result.experiment.link
    return capacity_mbit(link) * (1 - load / link.rate_mbit)


@measure("")
def available(result: Result, flows: str = "background", from_s: float = 0.0, to_s: float = 0.0) -> float:
    """Goodput of the flows ÷ what the UDP streams, which send all the time, leave of the link for TCP data. A square
    wave counts with its mean, so whole periods make sense."""
    return goodput(result, flows, from_s, to_s) / left_mbit(result, load_mbit(result))


@measure("")
def part_of(
    result: Result, flows: str = "background", of_flows: str = "foreground", from_s: float = 0.0, to_s: float = 0.0
) -> float:
    """Goodput of the flows together ÷ that of other flows of the same run."""
    other = goodput(result, of_flows, from_s, to_s)
    return goodput(result, flows, from_s, to_s) / other if other else NAN


@measure("", reference="alone")
def transparency(
    result: Result, alone: Result, flows: str = "foreground", from_s: float = 0.0, to_s: float = 0.0
) -> float:
    """Goodput of the foreground ÷ its goodput without the background."""
    return goodput(result, flows, from_s, to_s) / goodput(alone, flows, from_s, to_s)


@measure("", reference="ideal")
def efficiency(
    result: Result, ideal: Result, flows: str = "background", from_s: float = 0.0, to_s: float = 0.0
) -> float:
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
    for begin, end in zip(changes, changes[1:], strict=False):
        there = [flow for flow in chosen if flow.flow.start_s <= begin and flow.flow.end_s >= end]
        if end - begin >= PHASE_S and len(there) > 1:
            found.append(jain_of([flow.goodput_mbit(end - (end - begin) / 3, end) for flow in there]))
    return min(found, default=NAN)


@measure("")
def deviation(
    result: Result, flows: str = "foreground", expect: float = 0.0, from_s: float = 0.0, to_s: float = 0.0
) -> float:
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
def available_in_phases(
    result: Result, flows: str = "background", period_s: float = 60.0, settle_s: float = 5.0
) -> float:
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


# --- the queue -------------------------------------------------------------------------------------------------------


@measure("ms")
def queue_mean(result: Result, from_s: float = 0.0, to_s: float = 0.0) -> float:
    """Mean queueing delay at the bottleneck: its true backlog over its rate, sampled every 0.1 s."""
    return mean(delays_ms(result, *span(result, from_s, to_s)))


@measure("ms")
def queue_quantile(result: Result, part: float = 0.95, from_s: float = 0.0, to_s: float = 0.0) -> float:
    """The queueing delay at the bottleneck that this part of the samples does not exceed."""
    return quantile(delays_ms(result, *span(result, from_s, to_s)), part)


@measure("packets")
def drops(result: Result) -> float:
    """Packets that the bottleneck's queue dropped, in the whole run."""
    return float(result.queue_drops)


@measure("")
def loss_rate(result: Result) -> float:
    """Packets dropped by the bottleneck's queue ÷ packets of data that came to it, in the whole run."""
    return _per_packet(result, result.queue_drops)


@measure("")
def mark_rate(result: Result) -> float:
    """Packets marked CE by the bottleneck's queue ÷ packets of data that came to it, in the whole run."""
    return _per_packet(result, getattr(result, "marks", 0))


@measure("packets")
def class_count(result: Result, of_class: str = "nf", counter: str = "marked") -> float:
    """A counter of our queue program (nf_red) for one of its classes, all bottlenecks together, in the whole run."""
    counters = getattr(result, "classes", {}).get(of_class, {})
    return float(counters.get(counter, NAN))


def _per_packet(result: Result, count: int) -> float:
    flows = [flow for flow in result.flows.values() if not getattr(flow.flow, "reverse", False)]
    received = sum(sample.megabits for flow in flows for sample in flow.samples) * 1e6 / 8
    received /= data_bytes(result.experiment.link)
    return count / (received + result.queue_drops) if received else NAN


# --- over time -------------------------------------------------------------------------------------------------------


def first_time(flows: Sequence[FlowResult], after_s: float, end_s: float, hold: Callable[[float], bool]) -> float:
    """Seconds from after_s until a window of STEADY_S begins whose mean goodput holds; inf: never until end_s."""
    start = after_s
    while start + STEADY_S <= end_s + 1e-9:
        if hold(received_mbit(flows, start, start + STEADY_S)):
            return max(0.0, round(start - after_s, 6))
        start += 0.1
    return math.inf


def arrived_s(flows: Sequence[FlowResult]) -> tuple[float, float]:
    """When the flows' first data arrived, and when their last did."""
    last = max((s.end_s for flow in flows for s in flow.samples if s.megabits > 0), default=NAN)
    return min((flow.first_s for flow in flows), default=NAN), last


@measure("s")
def time_to_yield(result: Result, before_s: float = 10.0) -> float:
    """From the foreground's first data at its receiver until a second begins in which the background gets less than
    10 % of its mean in the before_s seconds before. inf: never while the foreground is there."""
    foreground, background = group(result, "foreground"), group(result, "background")
    begin, end = arrived_s(foreground)
    rate = received_mbit(background, begin - before_s, begin)
    return first_time(background, begin, end, lambda now: now < YIELDED * rate)


@measure("s")
def time_to_reclaim(result: Result, before_s: float = 10.0) -> float:
    """From the foreground's last data at its receiver until a second begins in which the background gets 90 % of its
    mean in the before_s seconds before the foreground came. inf: never until the background's end."""
    foreground, background = group(result, "foreground"), group(result, "background")
    begin, end = arrived_s(foreground)
    rate = received_mbit(background, begin - before_s, begin)
    return first_time(background, end, arrived_s(background)[1], lambda now: now >= RECLAIMED * rate)


@measure("s")
def time_to_fill(result: Result, flows: str = "background", level: float = 0.9) -> float:
    """From the foreground's last data at its receiver until a second begins in which the flows get `level` of the
    link."""
    chosen = group(result, flows)
    _, end = arrived_s(group(result, "foreground"))
    goal = level * capacity_mbit(result.experiment.link)
    return first_time(chosen, end, arrived_s(chosen)[1], lambda now: now >= goal)


@measure("s")
def time_to_link(result: Result, flows: str = "background", after_s: float = 0.0, level: float = 0.9) -> float:
    """From after_s until a second begins in which the flows get `level` of the link. If they never do, the time to the
    end of the run: it was at least as long."""
    goal = level * capacity_mbit(result.experiment.link)
    end_s = result.experiment.end_s
    return min(first_time(group(result, flows), after_s, end_s, lambda now: now >= goal), end_s - after_s)


@measure("")
def kept_rate(
    result: Result, flows: str = "background", at_s: float = 0.0, before_s: float = 10.0,
    from_s: float = 0.0, to_s: float = 0.0,
) -> float:  # fmt: skip
    """Goodput of the flows ÷ what they had in the before_s seconds before at_s."""
    return goodput(result, flows, from_s, to_s) / goodput(result, flows, at_s - before_s, at_s)


@measure("s")
def time_to_fair(result: Result, flows: str = "background", level: float = 0.9) -> float:
    """From the last flow's first data until 10 s begin over which Jain's index of the flows is at least `level`."""
    chosen = group(result, flows)
    start = begin = max((flow.first_s for flow in chosen), default=NAN)
    end = min((flow.flow.end_s for flow in chosen), default=NAN)
    while start + FAIR_WINDOW_S <= end:
        if jain_of([flow.goodput_mbit(start, start + FAIR_WINDOW_S) for flow in chosen]) >= level:
            return round(start - begin, 6)
        start += 0.5
    return math.inf


@measure("")
def window_correlation(result: Result, from_s: float = 5.0, to_s: float = 0.0) -> float:
    """Pearson's correlation of the two classes' congestion windows over the samples of the senders' sockets."""
    begin, end = span(result, from_s, to_s)
    one, other = joined(result, "foreground"), joined(result, "background")
    times = [at for at in sorted(one.keys() & other.keys()) if begin <= at <= end]
    return correlation([one[at] for at in times], [other[at] for at in times])


@measure("packets")
def threshold_mean(result: Result, from_s: float = 0.0, to_s: float = 0.0) -> float:
    """TCPW-LP's threshold Q_th: the mean over the early window reductions of all flows, by its own events."""
    begin, end = span(result, from_s, to_s)
    events = [event for event in getattr(result, "events", []) if event.get("type") == "ewr"]
    return mean([float(event["b"]) / 1000 for event in events if begin <= float(event["at_s"]) <= end])


@measure("changes")
def layers_off(result: Result, begins: Sequence[float] = (), least: float = 5) -> float:
    """LTCP: its changes of layer, by its own events, to a layer K whose window is not in W_K … W_K+1 (begins: W_1, W_2, …;
    the last one has no end). With fewer than `least` different layers there is nothing to tell."""
    changes = [(int(e["b"]), int(e["cwnd"])) for e in getattr(result, "events", []) if e.get("type") == "layer"]
    if len({layer for layer, _ in changes}) < least:
        return NAN
    table = dict(enumerate(zip(begins, (*begins[1:], math.inf), strict=True), 1))
    return float(sum(not table[layer][0] <= cwnd < table[layer][1] for layer, cwnd in changes))


# --- probes ----------------------------------------------------------------------------------------------------------


def own_events(result: Result, kind: str, begin: float, end: float) -> list[dict[str, Any]]:
    """What our controllers told of that kind, in a window."""
    events = [event for event in getattr(result, "events", []) if event.get("type") == kind]
    return [event for event in events if begin <= float(event["at_s"]) <= end]


def others_mbit(result: Result, flows: str, begin: float, end: float) -> float:
    """What all but these flows carry over the bottleneck, as frames: the other flows, the UDP streams."""
    link = result.experiment.link
    names = {flow.flow.name for flow in group(result, flows)}
    others = [flow for flow in group(result, "all") if flow.flow.name not in names]
    rate = received_mbit(others, begin, end) * frame_bytes(link) / data_bytes(link)
    return rate + sum(stream_mbit(own, begin, end) for own in getattr(result, "traffic", {}).values())


def stream_mbit(own: Any, begin: float, end: float) -> float:
    """What came of a UDP stream, as frames, Mbit/s; of anything else 0. The sink counts IP packets."""
    step = own.report.get("interval_s")
    if own.traffic.kind != "udp" or not step:
        return 0.0
    bits = 0.0
    for entry in own.report["series"]:
        at = own.zero_s + entry["t"]
        inside = max(0.0, min(end, at + step) - max(begin, at)) / step
        bits += inside * 8 * (entry["bytes"] + entry["packets"] * ETHERNET_BYTES)
    return bits / (end - begin) / 1e6


def estimates(
    result: Result, flows: str = "background", from_s: float = 0.0, to_s: float = 0.0
) -> list[tuple[float, float, float]]:
    """(s, estimate, truth) in Mbit/s of frames. The truth: the link's rate less what all others carried over it in the
    second before."""
    rate = result.experiment.link.rate_mbit
    found = []
    for event in own_events(result, ESTIMATE, *span(result, from_s, to_s)):
        at = float(event["at_s"])
        truth = max(0.0, rate - others_mbit(result, flows, at - BEFORE_S, at))
        found.append((at, float(event["b"]) / 1e3, truth))
    return found


@measure("")
def estimate_error(
    result: Result, flows: str = "background", least_mbit: float = 1.0, from_s: float = 0.0, to_s: float = 0.0
) -> float:
    """Median, over the estimates of the available bandwidth, of the distance to the truth ÷ the truth. The truth is the
    link's rate less what all others carried over it in the second before; where that is under least_mbit there is
    nothing that may be probed, and the estimate does not count."""
    made = [(own, truth) for _, own, truth in estimates(result, flows, from_s, to_s) if truth >= least_mbit]
    return quantile([abs(own - truth) / truth for own, truth in made], 0.5)


@measure("")
def estimate_count(result: Result, from_s: float = 0.0, to_s: float = 0.0) -> float:
    """How many estimates of the available bandwidth there were."""
    return float(len(own_events(result, ESTIMATE, *span(result, from_s, to_s))))


@measure("Mbit/s")
def probe_load(result: Result, from_s: float = 0.0, to_s: float = 0.0) -> float:
    """What the flows' probes are of the link, on the average: the bytes that their records count, over the time from the
    first to the last record in the window."""
    begin, end = span(result, from_s, to_s)
    counted: dict[int, list[tuple[float, int]]] = {}
    for record in getattr(result, "records", []):
        if begin <= float(record["at_s"]) <= end and PROBE_BYTES in record:
            counted.setdefault(record["key"], []).append((float(record["at_s"]), int(record[PROBE_BYTES])))
    rates = []
    for samples in counted.values():
        (first_s, first), (last_s, last) = samples[0], samples[-1]
        if last_s > first_s:
            rates.append((last - first) * 8 / 1e6 / (last_s - first_s))
    return sum(rates) if rates else NAN


@measure("probes")
def probes_while_marked(result: Result, from_s: float = 0.0, to_s: float = 0.0) -> float:
    """Probes that a flow sent within a base round trip after an ECN echo had reduced its window."""
    begin, end = span(result, from_s, to_s)
    rtt_s = result.experiment.link.rtt_ms / 1e3
    marked: dict[int, list[float]] = {}
    for event in own_events(result, "mark", 0.0, end):
        marked.setdefault(int(event["local_port"]), []).append(float(event["at_s"]))
    sent = own_events(result, PROBE, begin, end)
    if not sent:
        return NAN
    return float(sum(
        any(0 <= float(event["at_s"]) - at <= rtt_s for at in marked.get(int(event["local_port"]), [])) for event in sent
    ))  # fmt: skip


# --- datagrams -------------------------------------------------------------------------------------------------------


def stream(result: Result, traffic: str) -> dict[str, Any]:
    """What the sink of that UDP stream counted."""
    own = getattr(result, "traffic", {}).get(traffic)
    return own.report if own else {}


@measure("")
def datagram_loss(result: Result, traffic: str = "") -> float:
    """Packets of that UDP stream that never came ÷ its packets."""
    report = stream(result, traffic)
    sent = report.get("packets", 0) + report.get("lost", 0)
    return report["lost"] / sent if sent else NAN


@measure("", reference="alone")
def datagram_loss_added(result: Result, alone: Result, traffic: str = "") -> float:
    """The part of that UDP stream's packets that is lost, less the part that is lost without the background."""
    return datagram_loss(result, traffic) - datagram_loss(alone, traffic)


@measure("ms")
def datagram_delay(result: Result, traffic: str = "") -> float:
    """Mean queueing delay of that UDP stream's packets: above the least delay that one of them had."""
    mean_s = stream(result, traffic).get("variation_s", {}).get("mean")
    return NAN if mean_s is None else 1e3 * mean_s


# --- response times --------------------------------------------------------------------------------------------------


def responses(
    result: Result, traffic: str = "", low: float = 0.0, high: float = math.inf, at_least: bool = False
) -> list[float]:
    """Response times in s of the objects of low … high bytes. An object that never came has inf, or at_least what it had
    waited when the run was over."""
    found = []
    for name, own in getattr(result, "traffic", {}).items():
        if not traffic or name == traffic:
            found += [
                result.experiment.end_s - due_s if at_least and math.isinf(seconds) else seconds
                for due_s, size, seconds in own.objects
                if low <= size <= high
            ]
    return found


@measure("s")
def response_mean(
    result: Result, traffic: str = "", low: float = 0.0, high: float = math.inf, at_least: bool = False
) -> float:
    """Mean response time, from connect() to the last byte, of the objects of low … high bytes. An object that never came
    makes it infinite; in the run that another is divided by, it counts with the time until the end."""
    return mean(responses(result, traffic, low, high, at_least))


@measure("s")
def response_quantile(
    result: Result, traffic: str = "", part: float = 0.95, low: float = 0.0, high: float = math.inf
) -> float:
    """The response time that this part of the objects of low … high bytes does not exceed."""
    return quantile(responses(result, traffic, low, high), part)


def binned(objects: Sequence[tuple[float, float, float]], ratio: float = 1.1) -> list[tuple[float, float, int]]:
    """(size, mean response in s, count) in bins that grow by `ratio` (the TCP-LP paper, footnote 8); finished ones."""
    bins: dict[int, list[tuple[float, float]]] = {}
    for _, size, seconds in objects:
        if size >= 1 and math.isfinite(seconds):
            bins.setdefault(math.floor(math.log(size, ratio)), []).append((size, seconds))
    return [(mean([s for s, _ in part]), mean([t for _, t in part]), len(part)) for _, part in sorted(bins.items())]
