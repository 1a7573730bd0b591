# SPDX-License-Identifier: GPL-2.0-only
"""The path of an experiment as shell commands for the guest: topology, bottlenecks and their queues, delay, changes.

    sender ──veth── router ──veth── delay ──veth── receiver
    10.0.1.2        htb, queue      netem of half  10.0.3.2
                    10.0.2.1 ──▶    the RTT each way

The bottleneck is the router's htb towards the receiver, with the queue that the link asks for below it; the way back
has none unless the link asks for one.
"""

from __future__ import annotations

import shlex

from . import topology
from .experiment import MTU_BYTES, Experiment, Link
from .scenario import (
    AGGREGATED,
    BFIFO,
    BOTH,
    FORWARD,
    MARKING,
    ORDERED,
    PFIFO,
    PRIORITY,
    REVERSE,
    VirtualFlow,
    VirtualLink,
    crossed,
    gso_of,
    hops_of,
    relay_of,
    rtts_of,
)

FIRST_PORT = 5201  # the server of flow 0
DELAY_PACKETS = 100_000  # the delay line never drops
UNLIMITED = "100gbit"  # the delay line's rate, where it must have one
BURST_BYTES, LATE_S = 200, 20e-6


def topology_commands(experiment: Experiment) -> str:
    hops, cross = hops_of(experiment), crossed(experiment)
    relay = bool(relay_of(experiment))
    return topology.commands(hops, cross, gso=gso_of(experiment), proxy=relay) + packet_commands(experiment)


def packet_commands(experiment: Experiment) -> str:
    """Sets the MTU where full packets do not have the usual size. The MSS follows from the hosts' MTU, and the packet size that
    nf_red assumes from the bottleneck's."""
    size = getattr(experiment.link, "packet_bytes", MTU_BYTES)
    if size == MTU_BYTES:
        return ""
    ends = [(end(hop), dev) for hop in (0, *crossed(experiment)) for end, dev in topology.ENDS]
    ends += [(router, "out") for router in topology.routers(hops_of(experiment))]
    return "".join(f"ip -n {name} link set {device} mtu {size}\n" for name, device in ends)


def queue_commands(experiment: Experiment) -> list[str]:
    """The bottlenecks towards the receiver (and back, if asked for), netem both ways, and what else is on the path."""
    link, lines = experiment.link, []
    back = link.back if isinstance(link, VirtualLink) else None
    for router in topology.routers(hops_of(experiment)):
        lines += bottleneck_commands(experiment, link, router, "out")
        lines += bottleneck_commands(experiment, back, router, "in") if back else []
    return lines + delay_commands(experiment) + bleach_commands(experiment)


def bottleneck_commands(experiment: Experiment, link: Link, router: str, device: str) -> list[str]:
    """htb with the queue that the link asks for below it, as handle 10:."""
    if isinstance(link, VirtualLink) and link.policer_packets:
        return policer_commands(link, router, device)
    queue = link.qdisc if isinstance(link, VirtualLink) else BFIFO
    tc = f"tc -n {router} qdisc add dev {device}"
    rate = f"{link.rate_mbit * 1000:.0f}kbit"
    lines = [
        f"{tc} root handle 1: htb default 1",
        f"tc -n {router} class add dev {device} parent 1: classid 1:1 htb rate {rate} quantum 1514{wire(link)}",
    ]
    if queue in (PFIFO, BFIFO):
        lines.append(f"{tc} parent 1:1 handle 10: {fifo(link, queue)}")
    elif queue == PRIORITY:
        lines += priority_commands(experiment, link, router, device)
    elif queue == MARKING and isinstance(link, VirtualLink):
        lines.append(f"{tc} parent 1:1 handle 10: {marking_queue(link)}")
        lines += [f"{tc} parent 10:1 handle 11: {fifo(link, BFIFO)}"] if link.stalls else []
    else:
        lines.append(f"{tc} parent 1:1 handle 10: {queue}")
    lines += plug_commands(link, router, device, OPEN)
    if isinstance(link, VirtualLink) and link.marks_low_class:
        lines.append(attach_command(link, router, device))
    return lines


# --- a link that stands still ----------------------------------------------------------------------------------------

PLUG = "plug"  # a drop-tail queue in bytes that can be shut
OPEN, SHUT = "release_indefinite", "block"
PLUGS = {MARKING: ("10:1 handle 11:",), PRIORITY: ("10:1 handle 11:", "10:2 handle 12:")}  # where they are; else 10:


def plug_commands(link: Link, router: str, device: str, word: str) -> list[str]:
    """Opens or shuts the bottleneck's queue, for a link that stalls."""
    if not isinstance(link, VirtualLink) or not link.stalls:
        return []
    places = PLUGS.get(link.qdisc, ("1:1 handle 10:",))
    return [f"tc -n {router} qdisc change dev {device} parent {place} {PLUG} {word}" for place in places]


def stall_commands(experiment: Experiment) -> list[str]:
    """Each stall at its time."""
    link = experiment.link
    router = topology.routers(1)[0]
    shut, opened = ("; ".join(plug_commands(link, router, "out", word)) for word in (SHUT, OPEN))
    stalls = link.stalls if isinstance(link, VirtualLink) else ()
    return [f"( sleep {at_s:g}; {shut}; sleep {ms / 1e3:g}; {opened} ) &" for at_s, ms in stalls]


# --- a policer -------------------------------------------------------------------------------------------------------

POLICED = "police.txt"  # what it counted


def polices(experiment: Experiment) -> bool:
    return isinstance(experiment.link, VirtualLink) and bool(experiment.link.policer_packets)


def policer_commands(link: VirtualLink, router: str, device: str) -> list[str]:
    """A token bucket that drops packets above the rate; packets that conform are sent at once."""
    assert link.policer_packets
    burst = link.policer_packets * link.frame_bytes
    police = f"police rate {link.rate_mbit * 1000:.0f}kbit burst {burst} mtu {2 * link.frame_bytes} conform-exceed drop/pass"
    return [
        f"tc -n {router} qdisc add dev {device} root handle 10: pfifo limit {DELAY_PACKETS}",
        f"tc -n {router} qdisc add dev {device} clsact",
        f"tc -n {router} filter add dev {device} egress protocol ip prio 1 matchall action {police}",
    ]


# --- queues ----------------------------------------------------------------------------------------------------------


def wire(link: Link) -> str:
    """htb's default burst of 1600 bytes sends a packet at once, so a queue of one packet would not be visible. Where nf_red
    watches for such a queue, the burst is only what a late timer needs."""
    if not isinstance(link, VirtualLink) or not link.marks_low_class:
        return ""
    burst = max(BURST_BYTES, round(link.rate_mbit * 1e6 / 8 * LATE_S))
    return f" burst {burst} cburst {burst}"


def attach_command(link: VirtualLink, router: str, device: str) -> str:
    """Attaches nf_red before the queue, with the buffer as its limit."""
    limit = link.packets * link.frame_bytes if link.qdisc == PFIFO and not link.gso else link.limit_bytes
    options = "".join(f" --{name.replace('_', '-')} {shlex.quote(value)}" for name, value in link.nf_red)
    return f"ip netns exec {router} ccbpf aqm attach {device} --limit {limit}{options} >>aqm-attach.txt"


def bleach_commands(experiment: Experiment) -> list[str]:
    """A path that clears ECN's bits on the way to the receiver: at the entry of the first router, or behind the
    last bottleneck."""
    link = experiment.link
    if not isinstance(link, VirtualLink) or not link.bleach:
        return []
    place = "router" if link.bleach == "before" else topology.delays(link.hops)[-1]
    clear = "action pedit ex munge ip tos set 0 retain 0x03 pipe action csum ip4h"
    return [
        f"tc -n {place} qdisc add dev in clsact",
        f"tc -n {place} filter add dev in ingress protocol ip matchall {clear}",
    ]


def fifo(link: Link, queue: str = PFIFO) -> str:
    """A drop-tail queue. It counts bytes where one packet may have 64 kB (gso), or where the link stalls."""
    if not isinstance(link, VirtualLink):
        return f"bfifo limit {link.buffer_bytes}"
    if link.stalls:
        return f"{PLUG} limit {link.packets * link.frame_bytes if queue == PFIFO else link.limit_bytes}"
    if queue == BFIFO or link.gso:
        return f"bfifo limit {link.limit_bytes}"
    return f"pfifo limit {link.packets}"


def marking_queue(link: VirtualLink) -> str:
    """TCP-LP's router (IV-A): RED with both thresholds at one length; packets without ECN are not dropped early.
    The average covers a few packets, as the end host's average covers 8 ACKs."""
    frame = link.frame_bytes
    limit = link.packets * frame
    low = max(frame, round(link.mark_at * limit))
    if (
        low < 2 * frame
    ):  # with avpkt = frame tc would choose a weight of 1/512, or one that the kernel refuses; half a frame gives 1/8
        average, burst = frame // 2, -(-2 * low // frame) + 2
    else:
        average, burst = frame, -(-low // frame) + 4
    bounds = f"limit {limit} min {low} max {low + frame} avpkt {average} burst {burst}"
    return f"red {bounds} probability 1.0 bandwidth {link.rate_mbit:g}mbit ecn nodrop"


def delay_commands(experiment: Experiment) -> list[str]:
    """netem with half of the round trip each way. Flows with another round trip have a separate band."""
    link = experiment.link
    rtts, hops, cross = rtts_of(experiment), hops_of(experiment), crossed(experiment)
    if len(rtts) == 1:
        return [
            f"tc -n {name} qdisc add dev {device} root {netem(link, device, link.rtt_ms)}"
            for hop, name in enumerate(topology.delays(hops), 1)
            for device in ("out", "in", *(["cross"] if hop in cross else []))
        ]
    tc = "tc -n delay qdisc add dev"
    lines = []
    for device, port in (("out", "dport"), ("in", "sport")):
        lines.append(f"{tc} {device} root handle 1: prio bands {len(rtts)} priomap {' '.join(['0'] * 16)}")
        for band, rtt_ms in enumerate(rtts, 1):
            lines.append(f"{tc} {device} parent 1:{band:x} {netem(link, device, rtt_ms)}")
        for number, flow in enumerate(experiment.flows):
            if isinstance(flow, VirtualFlow) and flow.rtt_ms is not None and flow.rtt_ms != link.rtt_ms:
                match = f"match ip {port} {FIRST_PORT + number} 0xffff flowid 1:{rtts.index(flow.rtt_ms) + 1:x}"
                lines.append(f"tc -n delay filter add dev {device} parent 1: protocol ip prio 1 u32 {match}")
    return lines


def netem(link: Link, device: str, rtt_ms: float) -> str:
    """The delay of one way. Loss, duplication and reordering apply only on the way to the receiver."""
    delay_us = rtt_ms * 500
    if not isinstance(link, VirtualLink):
        return f"netem limit {DELAY_PACKETS} delay {delay_us:.0f}us"
    late = jitter_words(link, device)
    if late and link.jitter == AGGREGATED:
        delay_us -= link.jitter_ms * 1000  # the mean time that a packet waits for its slot
    words = f"netem limit {DELAY_PACKETS} delay {delay_us:.0f}us{late}"
    if device != "in":
        for word in ("loss", "reorder", "duplicate"):
            if percent := getattr(link, f"{word}_percent"):
                words += f" {word} {percent:g}%"
    return words


def jitter_words(link: VirtualLink, device: str) -> str:
    """What follows netem's delay. With a rate, netem lets no packet leave before the one ahead of it; the rate itself is
    no limit. With slots, it releases together the packets that
    have arrived since the last slot."""
    way = REVERSE if device == "in" else FORWARD
    if not link.jitter_ms or link.jitter_way not in (BOTH, way):
        return ""
    jitter_us = link.jitter_ms * 1000
    if link.jitter == AGGREGATED:
        return f" slot 0 {2 * jitter_us:.0f}us"
    return f" {jitter_us:.0f}us" + (f" rate {UNLIMITED}" if link.jitter == ORDERED else "")


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


def priority_commands(experiment: Experiment, link: Link, router: str, device: str) -> list[str]:
    """Strict priority: band 1 for all, band 2 for the background flows; each may fill the buffer."""
    tc = f"tc -n {router} qdisc add dev {device}"
    port = "dport" if device == "out" else "sport"
    lines = [f"{tc} parent 1:1 handle 10: prio bands 2 priomap 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0"]
    stalls = isinstance(link, VirtualLink) and bool(link.stalls)
    for band in (1, 2):
        lines.append(f"{tc} parent 10:{band}{f' handle 1{band}:' if stalls else ''} {fifo(link)}")
    for number, flow in enumerate(experiment.flows):
        if isinstance(flow, VirtualFlow) and flow.background:
            match = f"match ip {port} {FIRST_PORT + number} 0xffff"
            add = f"tc -n {router} filter add dev {device} parent 10: protocol ip prio 1"
            lines.append(f"{add} u32 {match} flowid 10:2")
    return lines
