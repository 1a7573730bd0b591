# SPDX-License-Identifier: GPL-2.0-only
"""The traffic beside the flows: datagrams that are lost or late, objects and their response times."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ..engine.experiment import Result, quantile
from .base import NAN, OBJECTS, UDP, mean, measure


def stream(result: Result, traffic: str) -> dict[str, Any]:
    """What the sink of that UDP stream counted."""
    own = getattr(result, "traffic", {}).get(traffic)
    return own.report if own else {}


@measure("", traffic=UDP)
def datagram_loss(result: Result, traffic: str = "") -> float:
    """Packets of that UDP stream that never came ÷ its packets."""
    report = stream(result, traffic)
    sent = report.get("packets", 0) + report.get("lost", 0)
    return report["lost"] / sent if sent else NAN


@measure("", reference="alone", traffic=UDP)
def datagram_loss_added(result: Result, alone: Result, traffic: str = "") -> float:
    """The part of that UDP stream's packets that is lost, less the part that is lost without the background."""
    return datagram_loss(result, traffic) - datagram_loss(alone, traffic)


@measure("ms", traffic=UDP)
def datagram_delay(result: Result, traffic: str = "") -> float:
    """Mean queueing delay of that UDP stream's packets: above the least delay that one of them had."""
    mean_s = stream(result, traffic).get("variation_s", {}).get("mean")
    return NAN if mean_s is None else 1e3 * mean_s


# --- response times --------------------------------------------------------------------------------------------------


def responses(result: Result, traffic: str = "", low: float = 0.0, high: float = math.inf, at_least: bool = False) -> list[float]:
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


@measure("s", traffic=OBJECTS)
def response_mean(result: Result, traffic: str = "", low: float = 0.0, high: float = math.inf, at_least: bool = False) -> float:
    """Mean response time, from connect() to the last byte, of the objects of low … high bytes. An object that never came
    makes it infinite; in the run that another is divided by, it counts with the time until the end."""
    return mean(responses(result, traffic, low, high, at_least))


@measure("s", traffic=OBJECTS)
def response_quantile(result: Result, traffic: str = "", part: float = 0.95, low: float = 0.0, high: float = math.inf) -> float:
    """The response time that this part of the objects of low … high bytes does not exceed."""
    return quantile(responses(result, traffic, low, high), part)


def binned(objects: Sequence[tuple[float, float, float]], ratio: float = 1.1) -> list[tuple[float, float, int]]:
    """(size, mean response in s, count) in bins that grow by `ratio` (the TCP-LP paper, footnote 8); finished ones."""
    bins: dict[int, list[tuple[float, float]]] = {}
    for _, size, seconds in objects:
        if size >= 1 and math.isfinite(seconds):
            bins.setdefault(math.floor(math.log(size, ratio)), []).append((size, seconds))
    return [(mean([s for s, _ in part]), mean([t for _, t in part]), len(part)) for _, part in sorted(bins.items())]
