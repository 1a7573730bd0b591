# SPDX-License-Identifier: GPL-2.0-only
"""A VirtualExperiment of the lab's language → the scenario that build/sim/sim reads.

What the simulator has no model for raises Unfit, with its name. Nothing is left out silently.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.lab.engine import peers
from tests.lab.engine.scenario import (
    AGGREGATED,
    BFIFO,
    BOTH,
    FORWARD,
    MARKING,
    ORDERED,
    PFIFO,
    PRIORITY,
    REVERSE,
    Traffic,
    VirtualExperiment,
    VirtualFlow,
    VirtualLink,
    controllers_of,
)
from tests.lab.measures import HEADERS_BYTES
from tests.lab.rows import catalogue

REPOSITORY = Path(__file__).resolve().parents[2]
PEERS = ("reno", "cubic")  # of peers.c
SAMPLE_S, LONG_S, LONG_SAMPLE_S = 0.1, 3900.0, 1.0  # runs longer than LONG_S are sampled rarely
MARKING_SHIFT = 3  # RED's average in the lab's marking queue: 1/8 of a new sample
MEMORY = re.compile(r"net\.ipv4\.tcp_[rw]mem")  # sysctls of buffers: no receive window is a limit here, unless a row gives one
MILLI_PERCENT = 1000
OFF = 0xFFFFFFFF


class Unfit(Exception):
    """The simulator cannot do this."""


def scenario(experiment: VirtualExperiment, seed: int) -> dict[str, Any]:
    """Times in s from the start of the run, sizes in bytes of frames, rates in Mbit/s of frames."""
    for reason in unfit(experiment):
        raise Unfit(f"{experiment.name}: {reason}")
    link = experiment.link
    assert isinstance(link, VirtualLink)
    return {
        "seed": seed,
        "seconds": experiment.end_s,
        "sample_s": LONG_SAMPLE_S if experiment.end_s > LONG_S else SAMPLE_S,
        "segment_bytes": link.packet_bytes - HEADERS_BYTES,
        "link": link_of(link),
        "flows": [flow_of(link, flow) for flow in experiment.flows if isinstance(flow, VirtualFlow)],
        "udp": [stream_of(traffic) for traffic in experiment.traffic],
        "parameters": parameters(experiment),
    }


def unfit(experiment: VirtualExperiment) -> Iterator[str]:
    """The features of the row that the simulator does not have."""
    link = experiment.link
    assert isinstance(link, VirtualLink)
    known = (*catalogue.ours(), *PEERS, *peers.PEERS)
    for name in sorted(controllers_of(experiment) - set(known)):
        yield f"controller {name}: there are {', '.join(known)}"
    for key in ("gso", "bleach", "relay"):
        if getattr(link, key, None) or any(getattr(flow, key, None) for flow in experiment.flows):
            yield key
    if link.hops > 1 or any(flow.hop for flow in experiment.flows if isinstance(flow, VirtualFlow)):
        yield "hops: one bottleneck"
    if link.qdisc not in (PFIFO, BFIFO, PRIORITY, MARKING):
        yield f"queue {link.qdisc}"
    for traffic in experiment.traffic:
        if traffic.kind != "udp":
            yield f"traffic of kind {traffic.kind}"
    for key, _ in experiment.sysctls:
        if not MEMORY.fullmatch(key):
            yield f"sysctl {key}"


# --- the path --------------------------------------------------------------------------------------------------------


def link_of(link: VirtualLink) -> dict[str, Any]:
    made: dict[str, Any] = {
        "rtt_ms": link.rtt_ms,
        "queue": queue_of(link),
        "forward": way_of(link, FORWARD) | {
            "loss": link.loss_percent / 100,
            "reorder": link.reorder_percent / 100,
            "duplicate": link.duplicate_percent / 100,
        },
        "reverse": way_of(link, REVERSE),
        "rtt_changes": [list(change) for change in link.rtt_changes],
    }  # fmt: skip
    if link.back:
        made["reverse_queue"] = queue_of(link.back)
    if link.marks_low_class:
        made["nf_red"] = nf_red_of(link)
    return made


def way_of(link: VirtualLink, way: str) -> dict[str, Any]:
    if link.jitter_way not in (BOTH, way):
        return {}
    return {
        "jitter_ms": link.jitter_ms,
        "in_order": int(link.jitter == ORDERED),
        "aggregated": int(link.jitter == AGGREGATED),
    }


def queue_of(link: VirtualLink) -> dict[str, Any]:
    made: dict[str, Any] = {"rate_mbit": link.rate_mbit, "stalls": [[at_s, ms / 1e3] for at_s, ms in link.stalls]}
    if link.policer_packets:
        return made | {"policer_bytes": link.policer_packets * link.frame_bytes}
    if link.qdisc == BFIFO:
        made["limit_bytes"] = link.limit_bytes
    elif link.qdisc == MARKING:
        made |= {"limit_bytes": link.packets * link.frame_bytes, "mark_shift": MARKING_SHIFT, "mark_bytes": mark_bytes(link)}
    else:
        made["limit_packets"] = link.packets
    return made | ({"priority": 1} if link.qdisc == PRIORITY else {})


def mark_bytes(link: VirtualLink) -> float:
    """The lab's RED has its thresholds one frame apart, with a probability that rises to 1 between them."""
    return max(link.frame_bytes, link.mark_at * link.packets * link.frame_bytes) + link.frame_bytes / 2


@functools.cache
def aqm_default(name: str) -> int:
    """Read from the command's own source: there is no second copy."""
    text = (REPOSITORY / "loader/aqm/config.c").read_text()
    found = re.search(rf"#define {name} (\d+)", text)
    if not found:
        raise Unfit(f"loader/aqm/config.c: no {name}")
    return int(found[1])


def nf_red_of(link: VirtualLink) -> dict[str, Any]:
    """`ccbpf aqm attach` with the row's options: struct ccbpf_aqm_config."""
    options = dict(link.nf_red)
    if set(options) - {"nf_min", "nf_max", "std", "probe_dscp"}:
        raise Unfit(f"nf_red: {', '.join(sorted(options))}")
    limit_bytes = link.packets * link.frame_bytes if link.qdisc == PFIFO else link.limit_bytes
    nf_max = percent(options.get("nf_max"), aqm_default("NF_MAX"))
    least = aqm_default("NF_MIN_PACKETS") * link.frame_bytes * 100 * MILLI_PERCENT // limit_bytes
    nf_min = percent(options.get("nf_min"), min(max(aqm_default("NF_MIN"), least), nf_max))
    std_min, std_max = std_of(options.get("std", ""))
    return {
        "limit_bytes": limit_bytes, "packet_bytes": link.frame_bytes, "average_shift": average_shift(link, limit_bytes),
        "nf_min": nf_min, "nf_max": nf_max, "std_min": std_min, "std_max": std_max,
        "probe_dscp": int(options.get("probe_dscp", 7)),
    }  # fmt: skip


def percent(said: str | None, otherwise: int) -> int:
    return otherwise if said is None else round(float(said) * MILLI_PERCENT)


def std_of(said: str) -> tuple[int, int]:
    if said == "off":
        return OFF, OFF
    if not said:
        return aqm_default("STD_MIN"), 100 * MILLI_PERCENT
    low, _, high = said.partition(",")
    return percent(low, 0), percent(high, 0)


def average_shift(link: VirtualLink, limit_bytes: int) -> int:
    packets, shift = limit_bytes // link.frame_bytes, 0
    while shift < aqm_default("AVERAGE_SHIFT") and packets * 3 > (aqm_default("AVERAGE_PART") * 4) << shift:
        shift += 1
    return shift


# --- what is sent ----------------------------------------------------------------------------------------------------


def flow_of(link: VirtualLink, flow: VirtualFlow) -> dict[str, Any]:
    made: dict[str, Any] = {
        "name": flow.name,
        "controller": flow.starts_as or flow.controller,
        "start_s": flow.start_s,
        "stop_s": flow.end_s,
        "background": int(flow.background),
        "reverse": int(flow.reverse),
        "ecn": int(flow.ecn),
        "download": int(flow.download),
        "dscp": flow.dscp,
        "ssthresh": link.route_ssthresh,
    }
    if flow.rtt_ms is not None:
        made["rtt_ms"] = flow.rtt_ms
    if flow.receiver:
        made["receiver"] = flow.receiver
    if flow.window_bytes:
        made["window_packets"] = max(1, flow.window_bytes // (link.packet_bytes - HEADERS_BYTES))
    if flow.starts_as:
        made["switches"] = [[flow.switch_s, flow.controller]]
    return made


def stream_of(traffic: Traffic) -> dict[str, Any]:
    words: dict[str, Any] = {"size_bytes": 1000, "pattern": "constant", "period_s": 1.0, "duty": 0.5, **dict(traffic.options)}
    square = words["pattern"] == "square"
    return {
        "rate_mbit": words["rate_mbit"] * (1 + 14 / words["size_bytes"]),  # the row's is of packets
        "frame_bytes": words["size_bytes"] + 14,
        "poisson": int(words["pattern"] == "poisson"),
        "period_s": words["period_s"] if square else 0,
        "duty": words["duty"] if square else 1,
        "start_s": traffic.start_s,
        "stop_s": traffic.start_s + traffic.seconds,
    }


def parameters(experiment: VirtualExperiment) -> dict[str, dict[str, int]]:
    """controller → place of the parameter in its struct → value."""
    ours = sorted(controllers_of(experiment) & set(catalogue.ours()))
    return {
        name: {str(place): int(value) for place, key in enumerate(catalogue.parameters(name))
               for given, value in experiment.parameters if given == key}
        for name in ours
        if experiment.parameters
    }  # fmt: skip
