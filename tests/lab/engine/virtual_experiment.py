# SPDX-License-Identifier: GPL-2.0-only
"""An experiment (scenario.py) in the virtual-time lab: data → guest script → Result.

All of it is one kernel with one clock, so every time in a Result is on that clock, 0 when the first flow may start.
path_script.py has the path, flow_script.py the traffic, virtual_result.py reads what the guest left.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from ..guest import proxy
from ..guest.errors import LabError
from ..guest.image import BUILD
from . import peers, topology, virtual
from .experiment import Experiment
from .flow_script import (
    GRACE_S,
    MANY_FLOWS,
    SAMPLE_S,
    flow_commands,
    gateway_commands,
    handover_commands,
    listening_commands,
    relay_commands,
    relays,
    route_commands,
    sysctl_commands,
    traffic_commands,
    window_commands,
)
from .path_script import POLICED, change_commands, polices, queue_commands, stall_commands, topology_commands
from .scenario import (
    GATEWAY,
    NF_RED,
    VirtualExperiment,
    controllers_of,
    gateways_of,
    gso_of,
    hops_of,
    marks_low_class,
    receivers_of,
    relay_of,
    traffic_of,
)
from .virtual_result import COUNTERS, EVENTS, FLOWS, PortTaken, VirtualResult, parse

SETTLE_S = 1.0  # between the topology's making and time 0
PROBES = "nf_tcp"  # controllers whose records are read during the run: they count probes, and what a receiver held back
RECEIVER = "rx_le"  # of a flow that is a download
FLOWS_EVERY_S = 1.0
SAID_S = 5.0  # how often the guest says on its console where it is
OURS = BUILD / "bpf"
GENERATOR = BUILD / "tests/traffic"


def controllers_to_enable(experiment: Experiment) -> list[str]:
    """Our controllers among those of the experiment."""
    names = controllers_of(experiment) | {traffic.controller for traffic in traffic_of(experiment)}
    return sorted(name for name in names if (OURS / f"{name}.bpf.o").exists())


def modules(experiment: Experiment) -> list[str]:
    """Loads the modules of the kernel's controllers beforehand: else the first flow would wait for its module."""
    return sorted(controllers_of(experiment) - set(controllers_to_enable(experiment)) - set(peers.PEERS))


def objects_of(experiment: Experiment) -> list[str]:
    """Our programs that decide its result."""
    receivers = [RECEIVER] if "" in receivers_of(experiment) else []
    receivers += [GATEWAY] if gateways_of(experiment) else []
    return controllers_to_enable(experiment) + ([NF_RED] if marks_low_class(experiment) else []) + receivers


def script(experiment: Experiment, reserve: bool = False) -> str:
    """What the guest runs. It leaves one file per thing measured in its working directory. With reserve, the flows' own
    ports are kept from all others even where they are few."""
    flows = [flow_commands(experiment, number) for number in range(len(experiment.flows))]
    ours = controllers_to_enable(experiment)
    interval = f"{experiment.ping_every_s:g}"
    pinged = topology.receiver_address(0, hops_of(experiment))
    settings = experiment.parameters if isinstance(experiment, VirtualExperiment) else ()
    parameters = "".join(f" --set {key}={value}" for key, value in settings)
    sockets_s = experiment.sockets_every_s if isinstance(experiment, VirtualExperiment) else 1.0
    lines = [topology_commands(experiment), *sysctl_commands(experiment, reserve), *queue_commands(experiment)]
    lines += [*window_commands(experiment), *route_commands(experiment)]
    idle = ["echo $idle >>idle"] if gso_of(experiment) else []
    lines += [TCP_MEMORY] if gso_of(experiment) or len(experiment.flows) > MANY_FLOWS else []
    lines += ['stamped() { while read -r line; do read -r now idle </proc/uptime; echo "$now $line"; done; }']
    lines += [f"modprobe -q tcp_{name} || true" for name in modules(experiment)]
    lines += [f"bpftool struct_ops register /lab/{name} >>peers.txt" for name in peers.objects(controllers_of(experiment))]
    lines += [*peers.receiver_commands(receivers_of(experiment)), *gateway_commands(experiment)]
    if ours:
        lines += [f"ccbpf enable {' '.join(ours)}{parameters} >enable.txt", f"ccbpf trace -j >{EVENTS} 2>trace.err & helpers=$!"]
    lines += relay_commands(experiment)
    others = [traffic_commands(experiment, number, traffic) for number, traffic in enumerate(traffic_of(experiment))]
    lines += [server for server, _ in (*flows, *others)]
    lines += listening_commands(experiment)
    if {PROBES, RECEIVER, GATEWAY} & set(objects_of(experiment)):
        lines += [f'ccbpf -j flows --watch {FLOWS_EVERY_S:g} >{FLOWS} 2>flows.err & helpers="$helpers $!"']
    lines += [
        f"sleep {SETTLE_S:g}",
        "read -r start idle </proc/uptime; echo $start >start",
        *idle,
        f'ip netns exec sender ping -n -D -i {interval} {pinged} >ping.txt & helpers="$helpers $!"',
        *[client for _, client in (*flows, *others)],
        *change_commands(experiment),
        *stall_commands(experiment),
        *handover_commands(experiment),
        SAMPLERS.replace("SOCKETS_S", f"{sockets_s:g}").replace("SAID", f"{max(1, round(SAID_S / sockets_s))}"),
        f"sleep {experiment.end_s:g}",
        "for client in $clients; do wait $client; done",
        "read -r now idle </proc/uptime; echo $now >end",
        *idle,
        "touch /tmp/over; killall tick",
        "tc -n router -s qdisc show dev out >qdisc.txt",
        "tc -n delay -s qdisc show >delay.txt",
        *([f"tc -n router -s filter show dev out egress >{POLICED}"] if polices(experiment) else []),
        "ip netns exec sender nstat -asz >nstat.txt",
    ]
    if marks_low_class(experiment):
        lines.append(f"ip netns exec {topology.routers(1)[0]} ccbpf -j aqm show >{COUNTERS}")
    if ours:
        lines += ["ccbpf status >status.txt", "ccbpf -j flows >flows.json"]
    lines += ["kill $helpers $servers", "wait"]
    return "\n".join(lines) + "\n"


# In pages, for all sockets together: enough for windows of 100 000 packets, and for a hundred flows.
TCP_MEMORY = "sysctl -qw net.ipv4.tcp_mem='40000 50000 60000'"

# One tc takes all its requests from one program: a fork each 0.1 s costs as much CPU as a flow of 10 Mbit/s.
SAMPLERS = f"""\
tick {SAMPLE_S * 1000:.0f} backlog.at "qdisc show dev out" | tc -n router -s -force -batch - >backlog.txt &
( count=0; while ! [ -e /tmp/over ]; do
    read -r now idle </proc/uptime; echo "at $now"; ip netns exec sender ss -tinHO state established
    count=$((count + 1)); [ $((count % SAID)) = 0 ] && echo "at $now" >/dev/console; sleep SOCKETS_S
done ) >ss.txt &"""


# --- one run ---------------------------------------------------------------------------------------------------------


def files_of(experiment: Experiment) -> dict[str, bytes | str | Path]:
    """What the script needs in /lab."""
    files: dict[str, bytes | str | Path] = {
        **peers.objects(controllers_of(experiment)),
        **peers.receivers(receivers_of(experiment)),
    }
    if relay_of(experiment):
        files |= proxy.files() | {"proxy.conf": proxy.configuration(relays(experiment))}
    if not (traffic_of(experiment) or handover_commands(experiment) or route_commands(experiment)):
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
    """Runs it in a guest. timeout_s of processor time, by default ten times the virtual time and a minute. If the port of a
    flow was taken, it runs again with all ports reserved, which happens for the same seeds on every machine. They are not
    always reserved, because that would give every run another draw."""
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
