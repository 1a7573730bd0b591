# SPDX-License-Identifier: GPL-2.0-only
"""What an experiment in virtual time may ask for beyond experiment.py: the language of rows, as data.

rows/rows.py builds these from TOML; the virtual-time lab (virtual_experiment.py) and the simulator run them. This module
knows no lab.
Rates are of Ethernet frames (1514 bytes for 1448 of data).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from .experiment import MTU_BYTES, Experiment, Flow, Link

HEADER_BYTES = 14  # of a frame, before the packet
NF_RED = "nf_red"
BLEACHES = ("before", "behind")
HOPS_MAX = 3
RTTS_MAX = 16  # as many different round trips as one experiment may have: the bands of a prio

# How packets are late: each by its own draw, so that they overtake each other; the same, but never before the packet
# ahead; or held back and released together, as Wi-Fi's aggregates. All three are within ±jitter_ms.
REORDERS, ORDERED, AGGREGATED = "reorders", "ordered", "aggregated"
JITTERS = (REORDERS, ORDERED, AGGREGATED)
BOTH, FORWARD, REVERSE = "both", "forward", "reverse"
WAYS = (BOTH, FORWARD, REVERSE)
RECEIVERS = ("rledbatpp",)  # laws of a receiver that are not part of the product: tests/lab/peers/NAME.h
GATEWAY = "gateway"  # a receiver whose host is its own router, with `ccbpf gateway`; the program's name, too

# Queues with a meaning of their own; any other word is the kernel's qdisc with its options.
PFIFO, BFIFO, PRIORITY, MARKING = "pfifo", "bfifo", "priority", "marking"


@dataclass(frozen=True)
class VirtualLink(Link):
    """A bottleneck, and the path around it."""

    queue: str = PFIFO  # pfifo, bfifo, priority, marking, or a qdisc with its options; "nf_red …": ours before it
    nf_red: tuple[tuple[str, str], ...] = ()  # options of `ccbpf aqm attach`, where the queue begins with nf_red
    buffer_packets: int | None = None  # of a pfifo; None: as many full packets as buffer_bytes
    mark_at: float = 0.15  # of a marking queue: the part of the buffer above which what speaks ECN is marked
    loss_percent: float = 0.0  # random, behind the bottleneck
    jitter_ms: float = 0.0  # each way's delay is up to so much longer or shorter
    jitter: str = REORDERS
    jitter_way: str = BOTH
    reorder_percent: float = 0.0  # of these packets on the way there is no delay at all
    duplicate_percent: float = 0.0
    both_ways: bool = False  # the same bottleneck on the way back
    reverse_mbit: float | None = None  # a bottleneck on the way back with this rate
    reverse_packets: int | None = None  # its buffer; None: as many of its own BDP as the link's buffer_bdp says
    rtt_changes: tuple[tuple[float, float], ...] = ()  # (s, the round trip in ms from then on)
    stalls: tuple[tuple[float, float], ...] = ()  # (s, ms): nothing leaves the bottleneck for so long
    policer_packets: int | None = None  # no queue: a token bucket of so many full frames drops what exceeds the rate
    route_ssthresh: int = 0  # packets: the first ssthresh of every flow, from the sender's route; 0: none
    hops: int = 1  # so many of these bottlenecks in a row, each with this round trip
    gso: bool = False  # segments travel 64 kB at a time: for what a gigabit needs; what is lost is lost by as much
    packet_bytes: int = MTU_BYTES  # a full packet of the hosts, with its IP header
    bleach: str = ""  # ECN's two bits are cleared: "before" the bottleneck, or "behind" it

    @property
    def frame_bytes(self) -> int:
        return self.packet_bytes + HEADER_BYTES

    @property
    def packets(self) -> int:
        return self.buffer_packets or max(2, self.buffer_bytes // self.packet_bytes)

    @property
    def limit_bytes(self) -> int:
        """Of a queue that counts bytes."""
        return self.buffer_packets * self.frame_bytes if self.buffer_packets else self.buffer_bytes

    @property
    def marks_low_class(self) -> bool:
        """Our program is on the bottleneck's device."""
        return self.queue.split(" ")[0] == NF_RED

    @property
    def qdisc(self) -> str:
        """The queue itself, without our program before it."""
        return (self.queue.removeprefix(NF_RED).strip() or PFIFO) if self.marks_low_class else self.queue

    @property
    def back(self) -> VirtualLink | None:
        """The bottleneck on the way back, a queue that never stalls."""
        if not self.reverse_mbit and not self.both_ways:
            return None
        plain = replace(self, stalls=(), policer_packets=None)
        if not self.reverse_mbit:
            return plain
        return replace(plain, rate_mbit=self.reverse_mbit, buffer_packets=self.reverse_packets)


@dataclass(frozen=True)
class VirtualFlow(Flow):
    """A bulk transfer that a row may ask for."""

    background: bool = False  # under queue="priority": served with what the others leave
    reverse: bool = False  # from the receiver to the sender
    ecn: bool = False  # asks for ECN, whatever the sysctl
    rtt_ms: float | None = None  # its own round trip without a queue; None: the link's
    hop: int = 0  # only through this bottleneck, 1, 2, 3; 0: through all
    relay: str = ""  # a proxy behind the sender takes it over and goes on with this controller
    dscp: int = 0  # of its packets; a controller of ours may set one itself
    window_bytes: int = 0  # the receive window that its sender sees; 0: the receiver's own
    download: bool = False  # its receiver runs under `ccbpf run --download`: rx_le yields there, whatever the controller
    receiver: str = ""  # the law of its receiver, one of RECEIVERS, in the place of rx_le; or GATEWAY
    starts_as: str = ""  # this controller, until a setsockopt changes it to `controller` …
    switch_s: float = 0.0  # … at this time of the run


@dataclass(frozen=True)
class Traffic:
    """Traffic beside the flows; all of it is foreground. The options are those of the row."""

    name: str
    kind: str  # udp, web, fetch
    seconds: float
    start_s: float = 0.0
    options: tuple[tuple[str, object], ...] = ()
    hop: int = 0

    @property
    def controller(self) -> str:
        return str(dict(self.options).get("controller", ""))


@dataclass(frozen=True)
class VirtualExperiment(Experiment):
    """A whole run."""

    parameters: tuple[tuple[str, str], ...] = ()  # of our controllers: ccbpf enable --set KEY=VALUE
    sysctls: tuple[tuple[str, str], ...] = ()  # at the senders and receivers
    sockets_every_s: float = 1.0  # `ss -ti`; each costs the guest some milliseconds
    traffic: tuple[Traffic, ...] = ()


# --- questions to an experiment of either language -------------------------------------------------------------------


def hops_of(experiment: Experiment) -> int:
    return experiment.link.hops if isinstance(experiment.link, VirtualLink) else 1


def gso_of(experiment: Experiment) -> bool:
    return isinstance(experiment.link, VirtualLink) and experiment.link.gso


def hop_of(item: Flow | Traffic) -> int:
    return item.hop if isinstance(item, VirtualFlow | Traffic) else 0


def crossed(experiment: Experiment) -> tuple[int, ...]:
    """The bottlenecks that have hosts of their own."""
    hops = {hop_of(flow) for flow in experiment.flows} | {traffic.hop for traffic in traffic_of(experiment)}
    return tuple(sorted(hops - {0}))


def relays_of(experiment: Experiment) -> list[str]:
    return sorted({flow.relay for flow in experiment.flows if isinstance(flow, VirtualFlow) and flow.relay})


def relay_of(experiment: Experiment) -> str:
    """The controller of the proxy's outgoing connections: they share a namespace, and so its default controller."""
    return next(iter(relays_of(experiment)), "")


def rtts_of(experiment: Experiment) -> list[float]:
    """The link's round trip, then those that single flows have instead."""
    own = {flow.rtt_ms for flow in experiment.flows if isinstance(flow, VirtualFlow) and flow.rtt_ms is not None}
    return [experiment.link.rtt_ms, *sorted(own - {experiment.link.rtt_ms})]


def marks_low_class(experiment: Experiment) -> bool:
    return isinstance(experiment.link, VirtualLink) and experiment.link.marks_low_class


def traffic_of(experiment: Experiment) -> tuple[Traffic, ...]:
    return experiment.traffic if isinstance(experiment, VirtualExperiment) else ()


def controllers_of(experiment: Experiment) -> set[str]:
    """All controllers that the flows have at any time."""
    first = {flow.starts_as for flow in experiment.flows if isinstance(flow, VirtualFlow)}
    return {flow.controller for flow in experiment.flows} | (first | {relay_of(experiment)}) - {""}


def receivers_of(experiment: Experiment) -> set[str]:
    """The laws of the receivers of downloads; "": the product's. Not those behind a gateway."""
    held = {flow.receiver for flow in experiment.flows if isinstance(flow, VirtualFlow) and flow.download}
    return held - {GATEWAY}


def gateways_of(experiment: Experiment) -> list[int]:
    """The hops whose receiving host has a gateway."""
    return sorted({flow.hop for flow in experiment.flows if isinstance(flow, VirtualFlow) and flow.receiver == GATEWAY})


# --- what does not go together ---------------------------------------------------------------------------------------


def problem(experiment: VirtualExperiment) -> str:
    """Says what the experiment asks for but the lab cannot do, beginning with the key; empty: nothing."""
    return next(_problems(experiment), "")


def _problems(experiment: VirtualExperiment) -> Iterator[str]:
    link = experiment.link
    assert isinstance(link, VirtualLink)
    yield from _names(experiment)
    yield from _chain(experiment, link)
    yield from _delay(experiment, link)
    yield from _bottleneck(experiment, link)
    for flow in experiment.flows:
        assert isinstance(flow, VirtualFlow)
        if flow.starts_as and (flow.reverse or flow.relay):
            yield f"flow {flow.name}: handover: a reverse or relayed flow has its sender elsewhere"
        if flow.receiver and not flow.download:
            yield f"flow {flow.name}: receiver: {flow.receiver} is a law of downloads: set download"
        if flow.receiver != GATEWAY and flow.hop in gateways_of(experiment):
            yield f"flow {flow.name}: hop: {flow.hop} has a gateway, which holds all that its host receives: give the flow another hop"
        if flow.starts_as and not flow.start_s < flow.switch_s < flow.end_s:
            yield f"flow {flow.name}: handover.at_s: {flow.switch_s:g} s is not within {flow.start_s:g} to {flow.end_s:g} s"


def _names(experiment: VirtualExperiment) -> Iterator[str]:
    for kind, names in (
        ("flow", [flow.name for flow in experiment.flows]),
        ("traffic", [traffic.name for traffic in experiment.traffic]),
    ):
        for name in {name for name in names if names.count(name) > 1}:
            yield f"{kind}: name: {name!r} is there twice (the second of count = 2 is called NAME-2)"


def _chain(experiment: VirtualExperiment, link: VirtualLink) -> Iterator[str]:
    cross, relays = crossed(experiment), relays_of(experiment)
    items: list[Flow | Traffic] = [*experiment.flows, *experiment.traffic]
    for item in items:
        if hop_of(item) > link.hops:
            yield f"{item.name}: hop: {hop_of(item)}, and the link has hops = {link.hops}"
    if len(relays) > 1:
        yield f"flow: relay: {', '.join(relays)}: all relayed flows have one controller"
    if link.hops > 1 or cross:
        for name, there in (("relay", relays), ("rtt_ms of a flow", rtts_of(experiment)[1:]), ("stalls", link.stalls),
                            ("policer_packets", link.policer_packets), ("route_ssthresh", link.route_ssthresh)):  # fmt: skip
            if there:
                yield f"{name}: works with one bottleneck and without `hop`"


def _delay(experiment: VirtualExperiment, link: VirtualLink) -> Iterator[str]:
    rtts = rtts_of(experiment)
    if len(rtts) > RTTS_MAX:
        yield f"flow: rtt_ms: {len(rtts)} different round trips; at most {RTTS_MAX}"
    if link.rtt_changes and len(rtts) > 1:
        yield "link: rtt_changes: every flow must have the link's round trip"
    if link.jitter_ms and link.jitter_ms > min(rtts) / 2:
        yield f"link: jitter_ms: {link.jitter_ms:g} is more than one way's delay, {min(rtts) / 2:g} ms"
    if link.jitter != REORDERS and link.reorder_percent:
        yield f"link: reorder_percent: not with jitter = {link.jitter!r}, which keeps the order"
    for key, times in (("rtt_changes", link.rtt_changes), ("stalls", link.stalls)):
        for at_s, _ in times:
            if at_s >= experiment.end_s:
                yield f"link: {key}: {at_s:g} s: the run ends at {experiment.end_s:g} s"
    for (at_s, ms), (next_s, _) in zip(link.stalls, link.stalls[1:], strict=False):
        if at_s + ms / 1e3 >= next_s:
            yield f"link: stalls: the one at {at_s:g} s is not over when the next begins at {next_s:g} s"


def _bottleneck(experiment: VirtualExperiment, link: VirtualLink) -> Iterator[str]:
    if link.stalls and link.qdisc not in (PFIFO, BFIFO, MARKING, PRIORITY):
        yield f"link: stalls: the queue must be {PFIFO}, {BFIFO} or {MARKING}, not {link.qdisc!r}"
    if link.policer_packets:
        if link.queue != PFIFO:
            yield f"link: policer_packets: a policer has no queue, neither {link.queue!r} nor strict priority"
        for name, there in (("stalls", link.stalls), ("gso", link.gso), ("both_ways", link.both_ways)):
            if there:
                yield f"link: policer_packets: not together with {name}"
    if link.reverse_mbit and link.both_ways:
        yield "link: reverse_mbit: not with both_ways, which is the same bottleneck on the way back"
    if link.reverse_packets and not link.reverse_mbit:
        yield "link: reverse_packets: needs reverse_mbit"
