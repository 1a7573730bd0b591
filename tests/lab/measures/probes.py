# SPDX-License-Identifier: GPL-2.0-only
"""NF-TCP's probes: their estimates, and the truth."""

from __future__ import annotations

from typing import Any

from ..engine.experiment import Result, quantile
from .base import ETHERNET_BYTES, NAN, data_bytes, frame_bytes, group, measure, received_mbit, span

PROBE, ESTIMATE = "chirp", "estimate"  # events of nf_tcp: a chirp has left; what is used from now on (b: kbit/s)
PROBE_BYTES = "probe_bytes"  # of its record: all that left in chirps
BEFORE_S = 1.0  # the traffic beside a probe is the mean over this time before its estimate


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
    """What arrived of a UDP stream, as frames, Mbit/s; 0 for other traffic. The sink counts IP packets."""
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
