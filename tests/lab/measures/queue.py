# SPDX-License-Identifier: GPL-2.0-only
"""The bottleneck's queue: delays, drops, marks."""

from __future__ import annotations

from ..engine.experiment import Result, quantile
from .base import NAN, data_bytes, delays_ms, mean, measure, span


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
