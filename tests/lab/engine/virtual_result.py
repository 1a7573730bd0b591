# SPDX-License-Identifier: GPL-2.0-only
"""What a guest left in its directory → the VirtualResult of a run."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..guest.errors import LabError
from . import virtual
from .experiment import Experiment, Flow, FlowResult, Result, Sample
from .flow_script import FIRST_CLIENT_PORT
from .native import ECHO, INTERVAL
from .path_script import POLICED
from .scenario import Traffic, VirtualFlow, VirtualLink, traffic_of

TAKEN = "Address already in use"  # iperf3's words: a control connection has such a port
EVENTS = "events.jsonl"
FLOWS = "flows.jsonl"
COUNTERS = "aqm.json"  # of our program at all bottlenecks
CLASS_COUNTERS = ("packets", "bytes", "marked", "dropped")


@dataclass
class TrafficResult:
    """The result of traffic: objects with their response times, or the counts of a UDP stream's sink."""

    traffic: Traffic
    objects: list[tuple[float, float, float]] = field(default_factory=list)  # (s, bytes, response in s; inf: never)
    report: dict[str, Any] = field(default_factory=dict)  # as the receiving end reports it
    zero_s: float = 0.0  # when the report's time began, on our clock


@dataclass
class VirtualResult(Result):
    """What only this lab measures."""

    marks: int = 0  # packets that the bottleneck's queue marked CE
    classes: dict[str, dict[str, int]] = field(default_factory=dict)  # nf_red's counters, of all bottlenecks together
    packets: list[tuple[float, int]] = field(default_factory=list)  # (s, packets in the bottleneck's queue)
    events: list[dict[str, object]] = field(default_factory=list)  # of `ccbpf trace -j`; at_s is on our clock
    records: list[dict[str, object]] = field(default_factory=list)  # of `ccbpf -j flows`, each second; with at_s too
    sockets: list[tuple[float, str]] = field(default_factory=list)  # (s, `ss -ti` of the senders)
    traffic: dict[str, TrafficResult] = field(default_factory=dict)
    busy: float = float(
        "nan"
    )  # busy part of the guest's CPU, where gso is on: near 1 the CPU was the bottleneck, and the result is not valid
    outcome: virtual.Outcome | None = None


def require_memory(experiment: Experiment, counters: str) -> None:
    """Under memory pressure receivers shrink their windows for good: the run would then measure the guest's memory."""
    found = re.search(r"^TcpExtTCPMemoryPressures\s+(\d+)", counters, re.MULTILINE)
    if found and int(found[1]):
        raise LabError(f"{experiment.name}: TCP was short of memory in the guest ({found[1]} times); raise memory_mb of this row")


def parse(experiment: Experiment, outcome: virtual.Outcome) -> VirtualResult:
    if outcome.exit_code:
        raise LabError(
            f"{experiment.name}: the guest's script ended with {outcome.exit_code}: "
            f"{' / '.join(outcome.text('stderr').strip().splitlines()[-3:]) or 'no message'} (all of it: {outcome.directory})"
        )
    require_memory(experiment, outcome.text("nstat.txt"))
    start_s = float(outcome.text("start"))
    result = VirtualResult(experiment, outcome=outcome)
    for number, flow in enumerate(experiment.flows):
        result.flows[flow.name] = parse_flow(outcome.directory, number, flow, start_s, may_starve(experiment, flow))
    parse_pings(outcome.text("ping.txt"), experiment.ping_every_s, result)
    for number, traffic in enumerate(traffic_of(experiment)):
        result.traffic[traffic.name] = parse_traffic(outcome.directory, number, traffic, start_s)
    parse_queue(outcome.directory, start_s, result)
    parse_sockets(outcome.text("ss.txt"), start_s, result)
    if (outcome.directory / "idle").exists():
        result.busy = busy_part(outcome.text("idle"), float(outcome.text("end")) - start_s)
    if (outcome.directory / EVENTS).exists():
        result.events = [json.loads(line) for line in outcome.text(EVENTS).splitlines()]
        for event in result.events:
            event["at_s"] = round(float(str(event["time_ns"])) / 1e9 - start_s, 6)
    if (outcome.directory / FLOWS).exists():
        result.records = parse_records(outcome.text(FLOWS), start_s)
    parse_classes(outcome.directory, result)
    return result


def parse_records(text: str, start_s: float) -> list[dict[str, Any]]:
    """What `ccbpf -j flows --watch` said, one document after the other; the last may be cut off. The members of
    a controller's own part are put beside the others."""
    records: list[dict[str, Any]] = []
    decoder, place = json.JSONDecoder(), 0
    while (begin := text.find("{", place)) >= 0:
        try:
            document, place = decoder.raw_decode(text, begin)
        except ValueError:
            break
        for flow in document["flows"]:
            parts = [part for part in flow.values() if isinstance(part, dict)]
            record = {key: value for one in (flow, *parts) for key, value in one.items()}
            records.append(record | {"at_s": round(float(flow["updated_ns"]) / 1e9 - start_s, 6)})
    return records


def busy_part(idle: str, seconds: float) -> float:
    """The busy part of the only CPU, from its idle time at the beginning and at the end."""
    before_s, after_s = (float(word) for word in idle.split())
    return 1 - (after_s - before_s) / seconds


def may_starve(experiment: Experiment, flow: Flow) -> bool:
    """Under strict priority a background flow may get nothing at all, its control connection included."""
    queue = experiment.link.queue if isinstance(experiment.link, VirtualLink) else ""
    return queue == "priority" and isinstance(flow, VirtualFlow) and flow.background


class PortTaken(LabError):
    """A control connection of iperf3 has taken the port of a flow, which happens about once in ten thousand runs."""


def parse_flow(directory: Path, number: int, flow: Flow, start_s: float, starves: bool = False) -> FlowResult:
    """Intervals as the receiver saw them, on the guest's clock; the rest as the sender reports it."""
    result = FlowResult(flow)
    code = (directory / f"client-{number}.exit").read_text().strip()
    try:
        report = json.loads((directory / f"client-{number}.json").read_text())
    except ValueError:
        report = {"error": (directory / f"client-{number}.err").read_text().strip() or "no report"}
    if TAKEN in str(report.get("error", "")):
        raise PortTaken(f"flow {flow.name} ({flow.controller}): its port {FIRST_CLIENT_PORT + number} is taken")
    if (code != "0" or "error" in report) and not starves:
        raise LabError(f"flow {flow.name} ({flow.controller}): iperf3 ended with {code}: {report.get('error', '')}")
    end = report.get("end", {})
    result.controller = end.get("sender_tcp_congestion", "")
    if isinstance(flow, VirtualFlow) and flow.starts_as:
        require_handover(directory, number, flow)
        result.controller = flow.controller
    result.retransmits = int(end.get("sum_sent", {}).get("retransmits", 0))
    intervals, anchor_s = [], float("inf")
    if isinstance(flow, VirtualFlow) and flow.reverse:
        spans = [entry["sum"] for entry in report["intervals"]]
        intervals = [(span["start"], span["end"], span["bytes"] * 8 / 1e6) for span in spans]
        anchor_s = flow.start_s
    else:
        for line in (directory / f"server-{number}.txt").read_text().splitlines():
            at, _, text = line.partition(" ")
            if match := INTERVAL.match(text):
                begin, until, kbit = (float(word) for word in match.groups())
                anchor_s = min(anchor_s, float(at) - start_s - until)
                intervals.append((begin, until, kbit / 1e3 * (until - begin)))
    result.samples = [Sample(anchor_s + a, anchor_s + b, megabits) for a, b, megabits in intervals if b > a]
    return result


def require_handover(directory: Path, number: int, flow: Flow) -> None:
    """Raises LabError if the handover failed: iperf3 reports only the controller at the start."""
    out = f"handover-{number}"
    if (directory / f"{out}.exit").read_text().strip() != "0":
        words = (directory / f"{out}.err").read_text().strip() or "no message"
        raise LabError(f"flow {flow.name}: it did not become {flow.controller}: {words}")


def parse_traffic(directory: Path, number: int, traffic: Traffic, start_s: float) -> TrafficResult:
    out = f"traffic-{number}"
    code = (directory / f"{out}.exit").read_text().strip()
    if code != "0":
        words = (directory / f"{out}.err").read_text().strip() or "no message"
        raise LabError(f"traffic {traffic.name} ({traffic.kind}): its client ended with {code}: {words}")
    try:
        client = json.loads((directory / f"{out}.json").read_text().splitlines()[-1])
        server = json.loads((directory / f"{out}.server").read_text().splitlines()[-1])
    except (ValueError, IndexError) as error:
        raise LabError(f"traffic {traffic.name} ({traffic.kind}): no report of it in {directory}/{out}.*") from error
    result = TrafficResult(traffic, report=server if traffic.kind == "udp" else client)
    zero_s = client["zero_ns"] / 1e9 - start_s
    result.zero_s = result.report["zero_ns"] / 1e9 - start_s
    for item in client.get("objects", client.get("files", [])):
        seconds = float("inf") if item["seconds"] is None else float(item["seconds"])
        result.objects.append((zero_s + item["due"], float(item["bytes"]), seconds))
    return result


def parse_pings(text: str, every_s: float, result: Result) -> None:
    """An echo's time is when its answer came; ping's first one was sent at 0."""
    last = 0
    for line in text.splitlines():
        if match := ECHO.search(line):
            last = int(match[1])
            rtt_ms = float(match[2])
            result.pings.append(((last - 1) * every_s + rtt_ms / 1e3, rtt_ms))
    result.pings_lost = last - len(result.pings)


QDISC = re.compile(r"^qdisc (\S+) 10: ", re.MULTILINE)
COUNTS = re.compile(r"dropped (\d+), overlimits \d+ requeues \d+\)\s+backlog (\d+)(K|M)?b (\d+)p")


def parse_queue(directory: Path, start_s: float, result: VirtualResult) -> None:
    """The bottleneck's own queue (handle 10:) in each sample and at the end."""
    times = [float(word) - start_s for word in (directory / "backlog.at").read_text().split()]
    samples = re.split(r"(?m)^(?=qdisc \S+ \S+ root )", (directory / "backlog.txt").read_text())[1:]
    for at, sample in zip(times, samples, strict=False):
        size, packets, _ = queue_counts(sample)
        result.backlog.append((at, size))
        result.packets.append((at, packets))
    final = (directory / "qdisc.txt").read_text()
    result.queue_drops = queue_counts(final)[2]
    result.marks = sum(int(number) for number in re.findall(r"\b(?:marked|ecn_mark) (\d+)", final))
    if (directory / POLICED).exists():
        result.queue_drops += sum(map(int, re.findall(r"\(dropped (\d+),", (directory / POLICED).read_text())))


def parse_classes(directory: Path, result: VirtualResult) -> None:
    """Reads nf_red's counters of each class on the way to the receiver. Those of the first bottleneck (`aqm show` ran there, and
    so knows the qdisc) also count as marks and drops of the queue."""
    path = directory / COUNTERS
    for queue in json.loads(path.read_text())["queues"] if path.exists() else []:
        for name, counts in queue["classes"].items() if queue["device"] == "out" else ():
            own = result.classes.setdefault(name, dict.fromkeys(CLASS_COUNTERS, 0))
            for counter in CLASS_COUNTERS:
                own[counter] += counts[counter]
            if queue["qdisc"]:
                result.marks += counts["marked"]
                result.queue_drops += counts["dropped"]


def queue_counts(text: str) -> tuple[int, int, int]:
    """Backlog in bytes and in packets, packets dropped so far."""
    begin = QDISC.search(text)
    match = COUNTS.search(text, begin.end()) if begin else None
    if not match:
        raise LabError(f"tc -s showed no queue 10: at the bottleneck: {text[:120]!r}")
    scale = {None: 1, "K": 1 << 10, "M": 1 << 20}[match[3]]  # tc prints K and M only where they are exact to a few bytes
    return int(match[2]) * scale, int(match[4]), int(match[1])


def parse_sockets(text: str, start_s: float, result: VirtualResult) -> None:
    for block in re.split(r"(?m)^at ", text)[1:]:
        at, _, rest = block.partition("\n")
        result.sockets.append((float(at) - start_s, rest))
