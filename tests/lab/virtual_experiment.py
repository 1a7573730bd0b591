# SPDX-License-Identifier: GPL-2.0-only
"""An experiment of the language (experiment.py) in the virtual-time lab: data → guest script → Result.

    sender ──veth── router ──veth── delay ──veth── receiver
    10.0.1.2        htb, queue      netem of half  10.0.3.2
                    10.0.2.1 ──▶    the RTT each way

All of it is one kernel with one clock, so every time in a Result is on that clock, 0 when the first flow may start.
The bottleneck is the router's htb towards the receiver, with the queue that the link asks for below it; the way back
has none unless a flow runs in reverse. Rates are of Ethernet frames (1514 bytes for 1448 of data).
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from . import topology, virtual
from .experiment import MTU_BYTES, Experiment, Flow, FlowResult, Link, Result, Sample
from .guest import proxy
from .guest.errors import LabError
from .native import ECHO, INTERVAL

FIRST_PORT = 5201  # the server of flow 0
FIRST_TRAFFIC_PORT = 7001  # the server of traffic 0
FIRST_CLIENT_PORT = 40001  # fixed: a port chosen by the kernel would be another one in each run
MANY_FLOWS = 32  # more need these ports kept from iperf3's control connections, and memory for their buffers
TAKEN = "Address already in use"  # iperf3's words: a control connection has such a port
SAMPLE_S = 0.1
SETTLE_S = 1.0  # between the topology's making and time 0
BLOCK, FAST_BLOCK = 8192, 131072  # bytes; iperf3 counts whole blocks: 0.1 s of 10 Mbit/s is less than one of the latter
FAST_MBIT = 100.0
GRACE_S = 15.0  # after its end a starved flow may take this long to say so
PATIENCE_S = 100.0  # iperf3's server ends after 120 s without data, counted from its own start: it waits for later flows
DELAY_PACKETS = 100_000  # the delay line never drops
HEADER_BYTES = 14  # of a frame, before the packet
BANDS = 16  # of a prio: as many different round trips as one experiment may have
EVENTS = "events.jsonl"
FLOWS = "flows.jsonl"
COUNTERS = "aqm.json"  # of our program at all bottlenecks
CLASS_COUNTERS = ("packets", "bytes", "marked", "dropped")
NF_RED = "nf_red"
PROBES = "nf_tcp"  # the controller whose records are read all the time: they count its probes
FLOWS_EVERY_S = 1.0
BURST_BYTES, LATE_S = 200, 20e-6
BLEACHES = ("before", "behind")
OURS = virtual.image.BUILD / "bpf"
GENERATOR = virtual.image.BUILD / "tests/traffic"
DRAIN_S = 10.0  # after its end the answers of what was asked may take this long


@dataclass(frozen=True)
class VirtualLink(Link):
    """What only this lab offers of a bottleneck."""

    queue: str = "pfifo"  # pfifo, bfifo, priority, marking, or a qdisc with its options; "nf_red …": ours before it
    nf_red: tuple[tuple[str, str], ...] = ()  # options of `ccbpf aqm attach`, where the queue begins with nf_red
    buffer_packets: int | None = None  # of a pfifo; None: as many full packets as buffer_bytes
    mark_at: float = 0.15  # of a marking queue: the part of the buffer above which what speaks ECN is marked
    loss_percent: float = 0.0  # random, behind the bottleneck
    jitter_ms: float = 0.0  # each way; packets overtake each other
    reorder_percent: float = 0.0  # of these packets on the way there is no delay at all
    duplicate_percent: float = 0.0
    both_ways: bool = False  # the same bottleneck on the way back
    rtt_changes: tuple[tuple[float, float], ...] = ()  # (s, the round trip in ms from then on)
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
        return (self.queue.removeprefix(NF_RED).strip() or "pfifo") if self.marks_low_class else self.queue


@dataclass(frozen=True)
class VirtualFlow(Flow):
    """What only this lab offers of a flow."""

    background: bool = False  # under queue="priority": served with what the others leave
    reverse: bool = False  # from the receiver to the sender
    ecn: bool = False  # asks for ECN, whatever the sysctl
    rtt_ms: float | None = None  # its own round trip without a queue; None: the link's
    hop: int = 0  # only through this bottleneck, 1, 2, 3; 0: through all
    relay: str = ""  # a proxy behind the sender takes it over and goes on with this controller
    dscp: int = 0  # of its packets; a controller of ours may set one itself


@dataclass(frozen=True)
class Traffic:
    """What build/tests/traffic puts beside the flows; all of it is foreground. Options are the row's own words."""

    name: str
    kind: str  # udp, web, fetch
    seconds: float
    start_s: float = 0.0
    options: tuple[tuple[str, object], ...] = ()
    hop: int = 0


@dataclass(frozen=True)
class VirtualExperiment(Experiment):
    """What only this lab offers of an experiment."""

    parameters: tuple[tuple[str, str], ...] = ()  # of our controllers: ccbpf enable --set KEY=VALUE
    sysctls: tuple[tuple[str, str], ...] = ()  # at the senders and receivers
    sockets_every_s: float = 1.0  # `ss -ti`; each costs the guest some milliseconds
    traffic: tuple[Traffic, ...] = ()


@dataclass
class TrafficResult:
    """What became of it: objects with their response times, or what the sink of a UDP stream counted."""

    traffic: Traffic
    objects: list[tuple[float, float, float]] = field(default_factory=list)  # (s, bytes, response in s; inf: never)
    report: dict[str, Any] = field(default_factory=dict)  # the receiving end's own words
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
    busy: float = float("nan")  # the part of the time that the guest's CPU was, where gso is on: near 1 it is no lab
    outcome: virtual.Outcome | None = None


# --- the script ------------------------------------------------------------------------------------------------------

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


def relay_of(experiment: Experiment) -> str:
    """The controller of the proxy's outgoing connections; they are of one namespace, and so of one controller."""
    names = {flow.relay for flow in experiment.flows if isinstance(flow, VirtualFlow) and flow.relay}
    if len(names) > 1:
        raise LabError(f"{experiment.name}: one relay, {len(names)} controllers: {', '.join(sorted(names))}")
    return next(iter(names), "")


def relay_commands(experiment: Experiment) -> list[str]:
    """The proxy runs, and what it sends is under the relay's controller."""
    name = relay_of(experiment)
    if not name:
        return []
    inside = f"ip netns exec {topology.PROXY}"
    start = f"env LD_LIBRARY_PATH=/lab /lab/{proxy.PROGRAM} -e stderr -p /tmp -c /lab/proxy.conf >proxy.txt 2>&1"
    return [
        f"{inside} sysctl -qw net.ipv4.tcp_congestion_control={name}",
        f'{inside} {start} & servers="$servers $!"',
    ]


def relays(experiment: Experiment) -> dict[str, str]:
    """From where to where the proxy relays."""
    there = topology.receiver_address(0, hops_of(experiment))
    ports = [
        FIRST_PORT + number
        for number, flow in enumerate(experiment.flows)
        if isinstance(flow, VirtualFlow) and flow.relay
    ]
    return {f"{topology.PROXY_ADDRESS}:{port}": f"{there}:{port}" for port in ports}


def topology_commands(experiment: Experiment) -> str:
    hops, cross = hops_of(experiment), crossed(experiment)
    if not 1 <= hops <= topology.HOPS_MAX or any(hop > hops for hop in cross):
        raise LabError(f"{experiment.name}: {hops} bottlenecks, hop {max(cross, default=0)}; 1 to {topology.HOPS_MAX} work")
    relay = relay_of(experiment)
    if relay and (hops > 1 or cross):
        raise LabError(f"{experiment.name}: a relay works with one bottleneck only")
    return topology.commands(hops, cross, gso=gso_of(experiment), proxy=bool(relay)) + packet_commands(experiment)


def packet_commands(experiment: Experiment) -> str:
    """Full packets, where they are not of the usual size: from the hosts' MTU follows the MSS, from the bottleneck's
    what our program there takes for one packet."""
    size = getattr(experiment.link, "packet_bytes", MTU_BYTES)
    if size == MTU_BYTES:
        return ""
    ends = [(end(hop), dev) for hop in (0, *crossed(experiment)) for end, dev in topology.ENDS]
    ends += [(router, "out") for router in topology.routers(hops_of(experiment))]
    return "".join(f"ip -n {name} link set {device} mtu {size}\n" for name, device in ends)


def queue_commands(experiment: Experiment) -> list[str]:
    """The bottlenecks towards the receiver (and back, if asked for), and netem both ways."""
    link, lines = experiment.link, []
    for router in topology.routers(hops_of(experiment)):
        lines += bottleneck_commands(experiment, router, "out")
        if isinstance(link, VirtualLink) and link.both_ways:
            lines += bottleneck_commands(experiment, router, "in")
    return lines + delay_commands(experiment) + bleach_commands(experiment)


def bottleneck_commands(experiment: Experiment, router: str, device: str) -> list[str]:
    """htb with the queue that the link asks for below it, as handle 10:."""
    link = experiment.link
    queue = link.qdisc if isinstance(link, VirtualLink) else "bfifo"
    tc = f"tc -n {router} qdisc add dev {device}"
    rate = f"{link.rate_mbit * 1000:.0f}kbit"
    lines = [
        f"{tc} root handle 1: htb default 1",
        f"tc -n {router} class add dev {device} parent 1: classid 1:1 htb rate {rate} quantum 1514{wire(experiment)}",
    ]
    if queue in ("pfifo", "bfifo"):
        lines.append(f"{tc} parent 1:1 handle 10: {fifo(link, queue)}")
    elif queue == "priority":
        lines += priority_commands(experiment, router, device)
    elif queue == "marking" and isinstance(link, VirtualLink):
        lines.append(f"{tc} parent 1:1 handle 10: {marking_queue(link)}")
    else:
        lines.append(f"{tc} parent 1:1 handle 10: {queue}")
    if marks_low_class(experiment):
        lines.append(attach_command(experiment, router, device))
    return lines


def wire(experiment: Experiment) -> str:
    """htb lets 1600 bytes go at once, which a wire does not, and of which a queue of one packet is not seen: where our
    program watches for that, only what makes up for a late timer."""
    if not marks_low_class(experiment):
        return ""
    burst = max(BURST_BYTES, round(experiment.link.rate_mbit * 1e6 / 8 * LATE_S))
    return f" burst {burst} cburst {burst}"


def marks_low_class(experiment: Experiment) -> bool:
    return isinstance(experiment.link, VirtualLink) and experiment.link.marks_low_class


def attach_command(experiment: Experiment, router: str, device: str) -> str:
    """Our program before the queue, with the buffer as its limit."""
    link = experiment.link
    assert isinstance(link, VirtualLink)
    limit = link.packets * link.frame_bytes if link.qdisc == "pfifo" and not link.gso else link.limit_bytes
    options = "".join(f" --{name.replace('_', '-')} {shlex.quote(value)}" for name, value in link.nf_red)
    return f"ip netns exec {router} ccbpf aqm attach {device} --limit {limit}{options} >>aqm-attach.txt"


def bleach_commands(experiment: Experiment) -> list[str]:
    """A path that clears ECN's bits on the way to the receiver: where packets come into the first router, or where they
    have left the last bottleneck."""
    link = experiment.link
    if not isinstance(link, VirtualLink) or not link.bleach:
        return []
    if link.bleach not in BLEACHES:
        raise LabError(f"{experiment.name}: bleach: {link.bleach!r} is none of {', '.join(BLEACHES)}")
    place = "router" if link.bleach == "before" else topology.delays(link.hops)[-1]
    clear = "action pedit ex munge ip tos set 0 retain 0x03 pipe action csum ip4h"
    return [
        f"tc -n {place} qdisc add dev in clsact",
        f"tc -n {place} filter add dev in ingress protocol ip matchall {clear}",
    ]


def fifo(link: Link, queue: str = "pfifo") -> str:
    """A drop-tail queue. Where 64 kB count as one packet, it must count bytes."""
    if not isinstance(link, VirtualLink):
        return f"bfifo limit {link.buffer_bytes}"
    if queue == "bfifo" or link.gso:
        return f"bfifo limit {link.limit_bytes}"
    return f"pfifo limit {link.packets}"


def marking_queue(link: VirtualLink) -> str:
    """TCP-LP's router (IV-A): RED with both thresholds at one length; who does not speak ECN is not dropped early.
    The average is taken over a few packets, as the end host's own over 8 ACKs."""
    frame = link.frame_bytes
    limit = link.packets * frame
    low = max(frame, round(link.mark_at * limit))
    burst = -(-low // frame) + 4
    bounds = f"limit {limit} min {low} max {low + frame} avpkt {frame} burst {burst}"
    return f"red {bounds} probability 1.0 bandwidth {link.rate_mbit:g}mbit ecn nodrop"


def delay_commands(experiment: Experiment) -> list[str]:
    """netem of half the round trip each way; flows with a round trip of their own in bands of their own."""
    link = experiment.link
    own = [flow.rtt_ms for flow in experiment.flows if isinstance(flow, VirtualFlow) and flow.rtt_ms is not None]
    rtts = [link.rtt_ms, *sorted({rtt for rtt in own if rtt != link.rtt_ms})]
    if len(rtts) > BANDS:
        raise LabError(f"{experiment.name}: {len(rtts)} different round trips; at most {BANDS} are possible")
    hops, cross = hops_of(experiment), crossed(experiment)
    if len(rtts) == 1:
        return [
            f"tc -n {name} qdisc add dev {device} root {netem(link, device, link.rtt_ms)}"
            for hop, name in enumerate(topology.delays(hops), 1)
            for device in ("out", "in", *(["cross"] if hop in cross else []))
        ]
    if hops > 1 or cross:
        raise LabError(f"{experiment.name}: a flow's own round trip works with one bottleneck only")
    tc = "tc -n delay qdisc add dev"
    lines = []
    for device, port in (("out", "dport"), ("in", "sport")):
        lines.append(f"{tc} {device} root handle 1: prio bands {len(rtts)} priomap {' '.join(['0'] * 16)}")
        for band, rtt_ms in enumerate(rtts, 1):
            lines.append(f"{tc} {device} parent 1:{band:x} {netem(link, device, rtt_ms)}")
        for number, flow in enumerate(experiment.flows):
            if isinstance(flow, VirtualFlow) and flow.rtt_ms not in (None, link.rtt_ms):
                match = f"match ip {port} {FIRST_PORT + number} 0xffff flowid 1:{rtts.index(flow.rtt_ms) + 1:x}"
                lines.append(f"tc -n delay filter add dev {device} parent 1: protocol ip prio 1 u32 {match}")
    return lines


def netem(link: Link, device: str, rtt_ms: float) -> str:
    """One way's delay; what is random happens on the way to the receiver."""
    words = f"netem limit {DELAY_PACKETS} delay {rtt_ms * 500:.0f}us"
    if not isinstance(link, VirtualLink):
        return words
    if link.jitter_ms:
        words += f" {link.jitter_ms * 1000:.0f}us"
    if device != "in":
        for word in ("loss", "reorder", "duplicate"):
            if percent := getattr(link, f"{word}_percent"):
                words += f" {word} {percent:g}%"
    return words


def change_commands(experiment: Experiment) -> list[str]:
    """The link's changes of delay, each at its time. All flows must have the link's round trip."""
    link = experiment.link
    if not isinstance(link, VirtualLink) or not link.rtt_changes:
        return []
    lines = []
    for at_s, rtt_ms in link.rtt_changes:
        ways = [f"tc -n delay qdisc change dev {way} root {netem(link, way, rtt_ms)}" for way in ("out", "in")]
        lines.append(f"( sleep {at_s:g}; {'; '.join(ways)} ) &")
    return lines


def priority_commands(experiment: Experiment, router: str, device: str) -> list[str]:
    """Strict priority: band 1 for all, band 2 for the background flows; each may fill the buffer."""
    tc = f"tc -n {router} qdisc add dev {device}"
    port = "dport" if device == "out" else "sport"
    lines = [f"{tc} parent 1:1 handle 10: prio bands 2 priomap 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0"]
    lines += [f"{tc} parent 10:{band} {fifo(experiment.link)}" for band in (1, 2)]
    for number, flow in enumerate(experiment.flows):
        if isinstance(flow, VirtualFlow) and flow.background:
            match = f"match ip {port} {FIRST_PORT + number} 0xffff"
            add = f"tc -n {router} filter add dev {device} parent 10: protocol ip prio 1"
            lines.append(f"{add} u32 {match} flowid 10:2")
    return lines


def flow_commands(experiment: Experiment, number: int) -> tuple[str, str]:
    """The server and the client of one flow."""
    flow = experiment.flows[number]
    port, own = FIRST_PORT + number, FIRST_CLIENT_PORT + number
    block = BLOCK if experiment.link.rate_mbit < FAST_MBIT else FAST_BLOCK
    reverse = f"-R -i {SAMPLE_S}" if isinstance(flow, VirtualFlow) and flow.reverse else "-i 0"
    bound = flow.seconds + GRACE_S
    patience = f" --rcv-timeout {(flow.start_s + bound) * 1e3:.0f}" if flow.start_s > PATIENCE_S else ""
    server = (
        f"ip netns exec {topology.receiver(hop_of(flow))} iperf3 -s -1 -p {port} -i {SAMPLE_S} -f k --forceflush{patience}"
        f" 2>&1 | stamped >server-{number}.txt &"
    )
    ecn = isinstance(flow, VirtualFlow) and flow.ecn
    address = topology.receiver_address(hop_of(flow), hops_of(experiment), ecn)
    if isinstance(flow, VirtualFlow) and flow.relay:
        address = topology.PROXY_ADDRESS
    options = f"-c {address} -p {port} --cport {own} -C {flow.controller} -l {block} -t {flow.seconds:g} {reverse} -J"
    if isinstance(flow, VirtualFlow) and flow.dscp:
        options += f" -S {flow.dscp << 2}"
    client = (
        f"( sleep {flow.start_s:g}; code=0; ip netns exec {topology.sender(hop_of(flow))} timeout {bound:g} iperf3 {options} >client-{number}.json"
        f" 2>client-{number}.err || code=$?; echo $code >client-{number}.exit ) & clients=\"$clients $!\""
    )
    return server, client


def traffic_commands(experiment: Experiment, number: int, traffic: Traffic) -> tuple[str, str]:
    """Server and client. Data goes from the sender to the receiver: of the web, the receiver asks."""
    source, sink = topology.sender(traffic.hop), topology.receiver(traffic.hop)
    target = topology.receiver_address(traffic.hop, hops_of(experiment))
    port = FIRST_TRAFFIC_PORT + number
    words = {name: value for name, value in traffic.options}
    until = f"--start {traffic.start_s:g}"
    out = f"traffic-{number}"
    if traffic.kind == "udp":
        options = f"--rate {words['rate_mbit']}M --size {words.get('size_bytes', 1000)} --for {traffic.seconds:g} {until}"
        options += {"poisson": " --poisson", "square": f" --square {words.get('period_s', 1)}"}.get(
            str(words.get("pattern", "constant")), ""
        )
        options += "".join(f" --{key} {words[key]}" for key in ("duty", "seed") if key in words)
        server = f"ip netns exec {sink} /lab/traffic udp-sink {port} --interval {SAMPLE_S} >{out}.server 2>&1"
        client = f"ip netns exec {source} /lab/traffic udp-send {target} {port} {options}"
    else:
        controller = f" -C {words['controller']}" if "controller" in words else ""
        server = f"ip netns exec {source} /lab/traffic web-server {port}{controller} >{out}.server 2>&1"
        ask = asking(traffic, words, f"{topology.sender_address(traffic.hop)} {port}")
        client = f"ip netns exec {sink} /lab/traffic {ask} {until} --drain {DRAIN_S:g}"
    done = f'( code=0; {client} >{out}.json 2>{out}.err || code=$?; echo $code >{out}.exit ) & clients="$clients $!"'
    return f'{server} & servers="$servers $!"', done


def asking(traffic: Traffic, words: dict[str, object], address: str) -> str:
    """The client's command and options, of the web or of files."""
    if traffic.kind == "fetch":
        every = float(str(words.get("every_s", 1)))
        sizes = words.get("bytes", (30000,))
        text = ",".join(str(size) for size in sizes) if isinstance(sizes, tuple) else str(sizes)
        return f"fetch {address} --bytes {text} --every {every:g} --count {max(1, int(traffic.seconds / every))}"
    names = {"sessions": "sessions", "mean_bytes": "mean", "max_bytes": "max", "shape": "shape", "objects": "objects",
             "seed": "seed"}  # fmt: skip
    options = "".join(f" --{option} {words[key]}" for key, option in names.items() if key in words)
    return f"web-client {address} --for {traffic.seconds:g}{options}{' --think' if words.get('think') else ''}"


def traffic_of(experiment: Experiment) -> tuple[Traffic, ...]:
    return experiment.traffic if isinstance(experiment, VirtualExperiment) else ()


def controllers_to_enable(experiment: Experiment) -> list[str]:
    """Those of the flows' controllers that are ours."""
    return sorted(name for name in controllers_of(experiment) if (OURS / f"{name}.bpf.o").exists())


def objects_of(experiment: Experiment) -> list[str]:
    """Our programs that decide its result."""
    return controllers_to_enable(experiment) + ([NF_RED] if marks_low_class(experiment) else [])


def controllers_of(experiment: Experiment) -> set[str]:
    relay = relay_of(experiment)
    return {flow.controller for flow in experiment.flows} | ({relay} if relay else set())


def sysctl_commands(experiment: Experiment, reserve: bool) -> list[str]:
    settings = experiment.sysctls if isinstance(experiment, VirtualExperiment) else ()
    if reserve or len(experiment.flows) > MANY_FLOWS:
        last = FIRST_CLIENT_PORT + len(experiment.flows) - 1
        settings = (*settings, ("net.ipv4.ip_local_reserved_ports", f"{FIRST_CLIENT_PORT}-{last}"))
    words = " ".join(shlex.quote(f"{key}={value}") for key, value in settings)
    names = [end(hop) for hop in (0, *crossed(experiment)) for end in (topology.sender, topology.receiver)]
    return [f"ip netns exec {name} sysctl -qw {words}" for name in names] if words else []


def script(experiment: Experiment, reserve: bool = False) -> str:
    """What the guest runs. It leaves one file per thing measured in its working directory. With reserve, the flows' own
    ports are kept from all others even where they are few."""
    flows = [flow_commands(experiment, number) for number in range(len(experiment.flows))]
    ours = controllers_to_enable(experiment)
    theirs = sorted(controllers_of(experiment) - set(ours))
    interval = f"{experiment.ping_every_s:g}"
    pinged = topology.receiver_address(0, hops_of(experiment))
    settings = experiment.parameters if isinstance(experiment, VirtualExperiment) else ()
    parameters = "".join(f" --set {key}={value}" for key, value in settings)
    sockets_s = experiment.sockets_every_s if isinstance(experiment, VirtualExperiment) else 1.0
    lines = [topology_commands(experiment), *sysctl_commands(experiment, reserve), *queue_commands(experiment)]
    idle = ["echo $idle >>idle"] if gso_of(experiment) else []
    lines += [TCP_MEMORY] if gso_of(experiment) or len(experiment.flows) > MANY_FLOWS else []
    lines += ["stamped() { while read -r line; do read -r now idle </proc/uptime; echo \"$now $line\"; done; }"]
    lines += [f"modprobe -q tcp_{name} || true" for name in theirs]  # else the first flow waits for it
    if ours:
        lines += [f"ccbpf enable {' '.join(ours)}{parameters} >enable.txt", f"ccbpf trace -j >{EVENTS} 2>trace.err & helpers=$!"]
    if PROBES in ours:
        lines += [f'ccbpf -j flows --watch {FLOWS_EVERY_S:g} >{FLOWS} 2>flows.err & helpers="$helpers $!"']
    lines += relay_commands(experiment)
    others = [traffic_commands(experiment, number, traffic) for number, traffic in enumerate(traffic_of(experiment))]
    lines += [server for server, _ in (*flows, *others)]
    lines += [
        f"sleep {SETTLE_S:g}",
        "read -r start idle </proc/uptime; echo $start >start",
        *idle,
        f"ip netns exec sender ping -n -D -i {interval} {pinged} >ping.txt & helpers=\"$helpers $!\"",
        *[client for _, client in (*flows, *others)],
        *change_commands(experiment),
        SAMPLERS.replace("SOCKETS_S", f"{sockets_s:g}"),
        f"sleep {experiment.end_s:g}",
        "for client in $clients; do wait $client; done",
        "read -r now idle </proc/uptime; echo $now >end",
        *idle,
        "touch /tmp/over; killall tick",
        "tc -n router -s qdisc show dev out >qdisc.txt",
        "tc -n delay -s qdisc show >delay.txt",
        "ip netns exec sender nstat -asz >nstat.txt",
    ]
    if marks_low_class(experiment):
        lines.append(f"ip netns exec {topology.routers(1)[0]} ccbpf -j aqm show >{COUNTERS}")
    if ours:
        lines += ["ccbpf status >status.txt", "ccbpf -j flows >flows.json"]
    lines += ["kill $helpers $servers", "wait"]
    return "\n".join(lines) + "\n"


# Windows of 100 000 packets, or a hundred flows, are not to be short of memory: pages, for all sockets together.
TCP_MEMORY = "sysctl -qw net.ipv4.tcp_mem='40000 50000 60000'"

# One tc takes all its requests from one program: forks each 0.1 s took as long as a flow of 10 Mbit/s.
SAMPLERS = f"""\
tick {SAMPLE_S * 1000:.0f} backlog.at "qdisc show dev out" | tc -n router -s -force -batch - >backlog.txt &
( count=0; while ! [ -e /tmp/over ]; do
    read -r now idle </proc/uptime; echo "at $now"; ip netns exec sender ss -tinHO state established
    count=$((count + 1)); [ $((count % 5)) = 0 ] && echo "at $now" >/dev/console; sleep SOCKETS_S
done ) >ss.txt &"""


# --- the result ------------------------------------------------------------------------------------------------------


def require_memory(experiment: Experiment, counters: str) -> None:
    """Under pressure receivers shrink their windows for good: what then is measured is the guest's memory."""
    found = re.search(r"^TcpExtTCPMemoryPressures\s+(\d+)", counters, re.MULTILINE)
    if found and int(found[1]):
        raise LabError(
            f"{experiment.name}: TCP was short of memory in the guest ({found[1]} times); raise memory_mb of this row"
        )


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
    """What `ccbpf -j flows --watch` said, one document after the other; the last may be cut off. A controller's own part
    lies flat beside the rest."""
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
    """Of the one CPU, from how long it had been idle at the beginning and at the end."""
    before_s, after_s = (float(word) for word in idle.split())
    return 1 - (after_s - before_s) / seconds


def may_starve(experiment: Experiment, flow: Flow) -> bool:
    """Under strict priority a background flow may get nothing at all, its control connection included."""
    queue = experiment.link.queue if isinstance(experiment.link, VirtualLink) else ""
    return queue == "priority" and isinstance(flow, VirtualFlow) and flow.background


class PortTaken(LabError):
    """A connection of iperf3's own has chosen the port of a flow's: once in some ten thousand."""


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
    samples = re.split(r"(?m)^(?=qdisc htb 1: )", (directory / "backlog.txt").read_text())[1:]
    for at, sample in zip(times, samples, strict=False):
        size, packets, _ = queue_counts(sample)
        result.backlog.append((at, size))
        result.packets.append((at, packets))
    final = (directory / "qdisc.txt").read_text()
    result.queue_drops = queue_counts(final)[2]
    result.marks = sum(int(number) for number in re.findall(r"\b(?:marked|ecn_mark) (\d+)", final))


def parse_classes(directory: Path, result: VirtualResult) -> None:
    """What our program counted on the way to the receiver, class by class; of the first bottleneck, from which it was
    asked (and so knows the qdisc), also as marks and drops of its queue."""
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
    scale = {None: 1, "K": 1 << 10, "M": 1 << 20}[match[3]]  # where tc can say it so within a few bytes
    return int(match[2]) * scale, int(match[4]), int(match[1])


def parse_sockets(text: str, start_s: float, result: VirtualResult) -> None:
    for block in re.split(r"(?m)^at ", text)[1:]:
        at, _, rest = block.partition("\n")
        result.sockets.append((float(at) - start_s, rest))


# --- one run ---------------------------------------------------------------------------------------------------------


def files_of(experiment: Experiment) -> dict[str, bytes | str | Path]:
    """What the script needs in /lab."""
    files: dict[str, bytes | str | Path] = {}
    if relay_of(experiment):
        files |= proxy.files() | {"proxy.conf": proxy.configuration(relays(experiment))}
    if not traffic_of(experiment):
        return files
    if not GENERATOR.exists():
        raise LabError(f"{GENERATOR}: not built; `make all` builds it")
    return files | {"traffic": GENERATOR}


def run(
    experiment: Experiment,
    directory: Path,
    kernel: str = "6.12",
    *,
    seed: int = 1,
    memory_mb: int = virtual.MEMORY_MB,
    timeout_s: float = 0.0,
    watch: Callable[[str], None] | None = None,
) -> VirtualResult:
    """Runs it in a guest. timeout_s of wall time, by default ten times the virtual time and a minute. Where a flow's port
    was taken it runs again with all of them reserved, for the same seed on every machine: reserved always, each run of
    before would have another draw."""
    limit_s = experiment.end_s + GRACE_S + SETTLE_S + 30

    def once(reserve: bool) -> VirtualResult:
        outcome = virtual.run(
            kernel,
            script(experiment, reserve),
            directory,
            files_of(experiment),
            seed=seed,
            memory_mb=memory_mb,
            timeout_s=timeout_s or 60 + 10 * limit_s,
            limit_s=limit_s,
            product=bool(objects_of(experiment)),
            watch=watch,
        )
        return parse(experiment, outcome)

    try:
        return once(reserve=False)
    except PortTaken:
        return once(reserve=True)
