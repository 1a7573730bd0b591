# SPDX-License-Identifier: GPL-2.0-only
"""The flows and the other traffic of an experiment as shell commands for the guest: servers, clients, the relay."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from ..guest import proxy
from . import peers, topology
from .experiment import Experiment, Flow
from .path_script import FIRST_PORT
from .scenario import (
    GATEWAY,
    Traffic,
    VirtualExperiment,
    VirtualFlow,
    VirtualLink,
    crossed,
    gateways_of,
    hop_of,
    hops_of,
    relay_of,
)

FIRST_TRAFFIC_PORT = 7001  # the server of traffic 0
WARM_PORT = 7999  # of a first connection, for the route's metrics
FIRST_CLIENT_PORT = 40001  # fixed: a port chosen by the kernel would be another one in each run
MANY_FLOWS = 32  # with more flows, the ports are reserved (iperf3's control connections could take them) and TCP gets more memory
SAMPLE_S = 0.1
BLOCK, FAST_BLOCK = 8192, 131072  # bytes; iperf3 counts whole blocks: 0.1 s of 10 Mbit/s is less than one of the latter
FAST_MBIT = 100.0
GRACE_S = 15.0  # after its end a starved flow may take this long to say so
PATIENCE_S = 100.0  # iperf3's server ends after 120 s without data, counted from its own start: it waits for later flows
DRAIN_S = 10.0  # answers to requests may arrive this long after the end of the requests
RECEIVE_MEMORY = "4096 131072 6291456"  # the kernel's own on most machines
WINDOW_PLACE = 34  # of the window in a packet without IP options


def relay_commands(experiment: Experiment) -> list[str]:
    """Starts the proxy, whose outgoing connections use the relay's controller."""
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
    """The pairs of addresses between which the proxy relays."""
    there = topology.receiver_address(0, hops_of(experiment))
    ports = [FIRST_PORT + number for number, flow in enumerate(experiment.flows) if isinstance(flow, VirtualFlow) and flow.relay]
    return {f"{topology.PROXY_ADDRESS}:{port}": f"{there}:{port}" for port in ports}


def flow_commands(experiment: Experiment, number: int) -> tuple[str, str]:
    """The server and the client of one flow."""
    flow = experiment.flows[number]
    port, own = FIRST_PORT + number, FIRST_CLIENT_PORT + number
    block = BLOCK if experiment.link.rate_mbit < FAST_MBIT else FAST_BLOCK
    reverse = f"-R -i {SAMPLE_S}" if isinstance(flow, VirtualFlow) and flow.reverse else "-i 0"
    bound = flow.seconds + GRACE_S
    patience = f" --rcv-timeout {(flow.start_s + bound) * 1e3:.0f}" if flow.start_s > PATIENCE_S else ""
    server = (
        f"{received_by(flow)}ip netns exec {topology.receiver(hop_of(flow))} iperf3 -s -1 -p {port} -i {SAMPLE_S} -f k --forceflush{patience}"
        f" 2>&1 | stamped >server-{number}.txt &"
    )
    address = address_of(experiment, flow)
    if isinstance(flow, VirtualFlow) and flow.relay:
        address = topology.PROXY_ADDRESS
    first = (isinstance(flow, VirtualFlow) and flow.starts_as) or flow.controller
    options = f"-c {address} -p {port} --cport {own} -C {first} -l {block} -t {flow.client_s} {reverse} -J"
    if isinstance(flow, VirtualFlow) and flow.dscp:
        options += f" -S {flow.dscp << 2}"
    client = (
        f"( sleep {flow.start_s:g}; code=0; ip netns exec {topology.sender(hop_of(flow))} timeout {bound:g} iperf3 {options} >client-{number}.json"
        f' 2>client-{number}.err || code=$?; echo $code >client-{number}.exit ) & clients="$clients $!"'
    )
    return server, client


def received_by(flow: Flow) -> str:
    """The prefix of the receiver's command."""
    if not isinstance(flow, VirtualFlow) or not flow.download or flow.receiver == GATEWAY:
        return ""
    return peers.in_cgroup(flow.receiver) if flow.receiver else "ccbpf run --quiet --download -- "


def gateway_commands(experiment: Experiment) -> list[str]:
    return [f"ip netns exec {topology.receiver(hop)} ccbpf gateway attach in >>gateway.txt" for hop in gateways_of(experiment)]


def listening_commands(experiment: Experiment) -> list[str]:
    """Wait until the receivers of downloads listen: `ccbpf run` first loads its program."""
    lines = []
    for number, flow in enumerate(experiment.flows):
        if received_by(flow):
            listens = f"ip netns exec {topology.receiver(hop_of(flow))} ss -Hltn 'sport = :{FIRST_PORT + number}'"
            lines.append(f'until [ -n "$({listens})" ]; do sleep 0.1; done')
    return lines


def handover_commands(experiment: Experiment) -> list[str]:
    """A setsockopt on the socket of a running flow, from outside its process."""
    lines = []
    for number, flow in enumerate(experiment.flows):
        if isinstance(flow, VirtualFlow) and flow.starts_as:
            out = f"handover-{number}"
            tool = (
                f"ip netns exec {topology.sender(flow.hop)} /lab/traffic handover {FIRST_CLIENT_PORT + number} {flow.controller}"
            )
            change = f"{tool} >{out}.json 2>{out}.err || code=$?; echo $code >{out}.exit"
            lines.append(f'( sleep {flow.switch_s:g}; code=0; {change} ) & clients="$clients $!"')
    return lines


# --- a receive window ------------------------------------------------------------------------------------------------


def windowed(experiment: Experiment) -> Iterator[tuple[int, VirtualFlow]]:
    for number, flow in enumerate(experiment.flows):
        if isinstance(flow, VirtualFlow) and flow.window_bytes:
            yield number, flow


def window_commands(experiment: Experiment) -> list[str]:
    """Writes this window into every ACK of such a flow. The window that the receiver's buffer allows differs between kernels
    and grows. The scale of the field follows from tcp_rmem."""
    lines, shaped = [], set()
    step = 1 << window_scale(experiment)
    for number, flow in windowed(experiment):
        server, client = FIRST_PORT + number, FIRST_CLIENT_PORT + number
        name, device = (topology.sender(flow.hop), "out") if flow.reverse else (topology.receiver(flow.hop), "in")
        ports = f"src_port {client} dst_port {server}" if flow.reverse else f"src_port {server} dst_port {client}"
        if name not in shaped:
            lines.append(f"tc -n {name} qdisc add dev {device} clsact")
            shaped.add(name)
        field = max(1, round(flow.window_bytes / step))
        lines.append(
            f"tc -n {name} filter add dev {device} egress protocol ip prio 1 flower ip_proto tcp {ports} tcp_flags 0x10/0x12"
            f" action pedit munge offset {WINDOW_PLACE} u16 set {field} pipe action csum tcp"
        )
    return lines


def window_scale(experiment: Experiment) -> int:
    """The window scale that a receiver derives from its tcp_rmem (tcp_select_initial_window)."""
    largest = int(dict(receive_memory(experiment))["net.ipv4.tcp_rmem"].split()[-1])
    return min(14, max(0, largest.bit_length() - 1 - 15))


def receive_memory(experiment: Experiment) -> tuple[tuple[str, str], ...]:
    """The experiment's sysctls, with a known tcp_rmem."""
    settings = experiment.sysctls if isinstance(experiment, VirtualExperiment) else ()
    return tuple(sorted({"net.ipv4.tcp_rmem": RECEIVE_MEMORY, **dict(settings)}.items()))


# --- an ssthresh from the route --------------------------------------------------------------------------------------

SAVES, SAVES_SSTHRESH = "net.ipv4.tcp_no_metrics_save", "net.ipv4.tcp_no_ssthresh_metrics_save"


def route_commands(experiment: Experiment) -> list[str]:
    """The first ssthresh of the sender's flows. The kernel takes it from its cache of metrics. The entry of an address is
    created from the route's metrics when the first connection to it ends; the lock keeps that connection from writing its
    own ssthresh."""
    link = experiment.link
    if not isinstance(link, VirtualLink) or not link.route_ssthresh:
        return []
    sender, receiver = (f"ip netns exec {name}" for name in (topology.sender(0), topology.receiver(0)))
    lines = [f"{sender} sysctl -qw {SAVES}=0 {SAVES_SSTHRESH}=0"]
    for route in topology.sender_routes(link.hops):
        lines.append(f"ip -n {topology.sender(0)} route change {route} ssthresh lock {link.route_ssthresh}")
    lines += [f"{receiver} /lab/traffic web-server {WARM_PORT} >/dev/null & warm=$!", "sleep 0.1"]
    for address in sorted({address_of(experiment, flow) for flow in experiment.flows}):
        lines.append(f"{sender} /lab/traffic fetch {address} {WARM_PORT} --bytes 1 --every 1 --count 1 >/dev/null")
    ended_s = 0.1 + 2 * link.rtt_ms / 1e3  # the last packets of the last one
    return [*lines, f"sleep {ended_s:g}", "kill $warm", "wait $warm", f"{sender} sysctl -qw {SAVES}=1"]


def address_of(experiment: Experiment, flow: Flow) -> str:
    """The receiver's address; flows that ask for ECN use its second one."""
    return topology.receiver_address(hop_of(flow), hops_of(experiment), isinstance(flow, VirtualFlow) and flow.ecn)


# --- other traffic ---------------------------------------------------------------------------------------------------


def traffic_commands(experiment: Experiment, number: int, traffic: Traffic) -> tuple[str, str]:
    """Server and client. Data goes from the sender to the receiver: with `web` and `fetch` the receiver is the client."""
    source, sink = topology.sender(traffic.hop), topology.receiver(traffic.hop)
    target = topology.receiver_address(traffic.hop, hops_of(experiment))
    port = FIRST_TRAFFIC_PORT + number
    words = dict(traffic.options)
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
    """The command and options of the client for `web` or `fetch`."""
    if traffic.kind == "fetch":
        every = float(str(words.get("every_s", 1)))
        sizes = words.get("bytes", (30000,))
        text = ",".join(str(size) for size in sizes) if isinstance(sizes, tuple) else str(sizes)
        return f"fetch {address} --bytes {text} --every {every:g} --count {max(1, int(traffic.seconds / every))}"
    names = {"sessions": "sessions", "mean_bytes": "mean", "max_bytes": "max", "shape": "shape", "objects": "objects",
             "seed": "seed"}  # fmt: skip
    options = "".join(f" --{option} {words[key]}" for key, option in names.items() if key in words)
    return f"web-client {address} --for {traffic.seconds:g}{options}{' --think' if words.get('think') else ''}"


def sysctl_commands(experiment: Experiment, reserve: bool) -> list[str]:
    settings = experiment.sysctls if isinstance(experiment, VirtualExperiment) else ()
    if any(windowed(experiment)):
        settings = receive_memory(experiment)
    if reserve or len(experiment.flows) > MANY_FLOWS:
        last = FIRST_CLIENT_PORT + len(experiment.flows) - 1
        settings = (*settings, ("net.ipv4.ip_local_reserved_ports", f"{FIRST_CLIENT_PORT}-{last}"))
    words = " ".join(shlex.quote(f"{key}={value}") for key, value in settings)
    names = [end(hop) for hop in (0, *crossed(experiment)) for end in (topology.sender, topology.receiver)]
    return [f"ip netns exec {name} sysctl -qw {words}" for name in names] if words else []
