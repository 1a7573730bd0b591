# SPDX-License-Identifier: GPL-2.0-only
"""Over time: how soon a flow yields, is back, has the link; whether it keeps what it has; windows, our controllers' events."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from ..engine.experiment import FlowResult, Result
from .base import NAN, capacity_mbit, correlation, group, joined, mean, measure, received_mbit, span
from .rates import goodput, jain_of

YIELDED = 0.10  # of its rate before: from here on a background flow has yielded
RECLAIMED = 0.90  # of its rate before: the background is back
STEADY_S = 1.0  # the mean over this time counts: longer than a round trip, shorter than a phase
FAIR_WINDOW_S = 10.0


def first_time(
    flows: Sequence[FlowResult], after_s: float, end_s: float, hold: Callable[[float], bool], mean_s: float = STEADY_S
) -> float:
    """Seconds from after_s until a window of mean_s begins whose mean goodput holds; inf: never until end_s."""
    start = after_s
    while start + mean_s <= end_s + 1e-9:
        if hold(received_mbit(flows, start, start + mean_s)):
            return max(0.0, round(start - after_s, 6))
        start += 0.1
    return math.inf


def arrived_s(flows: Sequence[FlowResult]) -> tuple[float, float]:
    """When the flows' first data arrived, and when their last did."""
    last = max((s.end_s for flow in flows for s in flow.samples if s.megabits > 0), default=NAN)
    return min((flow.first_s for flow in flows), default=NAN), last


@measure("s", needs=("foreground", "background"))
def time_to_yield(result: Result, before_s: float = 10.0) -> float:
    """From the foreground's first data at its receiver until a second begins in which the background gets less than
    10 % of its mean in the before_s seconds before. inf: never while the foreground is there."""
    foreground, background = group(result, "foreground"), group(result, "background")
    begin, end = arrived_s(foreground)
    rate = received_mbit(background, begin - before_s, begin)
    return first_time(background, begin, end, lambda now: now < YIELDED * rate)


@measure("s", needs=("foreground", "background"))
def time_to_reclaim(result: Result, before_s: float = 10.0) -> float:
    """From the foreground's last data at its receiver until a second begins in which the background gets 90 % of its
    mean in the before_s seconds before the foreground came. inf: never until the background's end."""
    foreground, background = group(result, "foreground"), group(result, "background")
    begin, end = arrived_s(foreground)
    rate = received_mbit(background, begin - before_s, begin)
    return first_time(background, end, arrived_s(background)[1], lambda now: now >= RECLAIMED * rate)


@measure("s", needs=("foreground",))
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


@measure("")
def endurance(result: Result, flows: str = "background", window_s: float = 60.0) -> float:
    """Goodput of the flows in the last window_s of the run ÷ in the second window_s of it: whether what a flow has is
    its own for as long as it lives."""
    end_s = result.experiment.end_s
    early = goodput(result, flows, window_s, 2 * window_s)
    return goodput(result, flows, end_s - window_s, end_s) / early if early else NAN


@measure("s")
def time_to_recover(
    result: Result, flows: str = "background", at_s: float = 0.0, level: float = 0.8, before_s: float = 10.0,
    mean_s: float = 10.0,
) -> float:  # fmt: skip
    """From at_s until mean_s begin over which the flows have `level` of what they had in the before_s before at_s. inf:
    never until the end of the run."""
    chosen = group(result, flows)
    goal = level * received_mbit(chosen, at_s - before_s, at_s)
    return first_time(chosen, at_s, result.experiment.end_s, lambda now: now >= goal, mean_s)


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


@measure("", needs=("foreground", "background"), windows=True)
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
