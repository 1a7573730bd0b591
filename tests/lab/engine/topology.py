# SPDX-License-Identifier: GPL-2.0-only
"""The namespaces of the virtual-time lab: a chain of bottlenecks, each a router and a delay, as shell commands.

    one:    sender ── router ── delay ── receiver

    three:  sender ── router ── delay ── router2 ── delay2 ── router3 ── delay3 ── receiver
                     /             \\
             sender-1               receiver-1    and so on: hosts that use only that bottleneck (hop 1, 2, 3)

Link i of the chain is 10.0.i.0/24; the hosts of hop k are 10.1.k.2 and 10.2.k.2. Devices are `out` towards the receiver
and `in` towards the sender; routers and delays have `cross` towards the hosts of their hop. A `proxy`, for one bottleneck,
hangs on the router (10.3.0.0/24): what it relays comes from the sender and goes on through the bottleneck.
"""

from __future__ import annotations

PROXY, PROXY_ADDRESS = "proxy", "10.3.0.2"

# One packet is one segment, as on a wire. With gso up to 64 kB of segments travel as one packet, which a gigabit needs.
NO_OFFLOADS = "ip netns exec $1 ethtool -K $2 tso off gso off gro off >/dev/null"
OFFLOADS = ":"

HEAD = """\
set -e
for ns in {names}; do
    ip netns add $ns
    ip netns exec $ns sysctl -qw net.ipv4.ip_forward=1 net.ipv4.tcp_no_metrics_save=1 \\
        net.ipv6.conf.all.disable_ipv6=1 net.ipv6.conf.default.disable_ipv6=1
    ip -n $ns link set lo up
done
join() {{ # namespace, device, address, namespace, device, address
    ip link add $2 netns $1 type veth peer name $5 netns $4
    for end in "$1 $2 $3" "$4 $5 $6"; do
        set -- $end
        {offloads}
        ip -n $1 addr add $3/24 dev $2
        ip -n $1 link set $2 up
    done
}}
"""


def numbered(name: str, hop: int) -> str:
    return name if hop == 1 else f"{name}{hop}"


def routers(hops: int) -> list[str]:
    return [numbered("router", hop) for hop in range(1, hops + 1)]


def delays(hops: int) -> list[str]:
    return [numbered("delay", hop) for hop in range(1, hops + 1)]


def sender(hop: int) -> str:
    """The namespace that sends: 0 through the whole chain, k through bottleneck k only."""
    return f"sender-{hop}" if hop else "sender"


def receiver(hop: int) -> str:
    return f"receiver-{hop}" if hop else "receiver"


ENDS = ((sender, "out"), (receiver, "in"))  # the hosts, each with its device


def sender_address(hop: int) -> str:
    return f"10.1.{hop}.2" if hop else "10.0.1.2"


def receiver_address(hop: int, hops: int, ecn: bool = False) -> str:
    """The receiver's address; flows that ask for ECN use its second one."""
    net = f"10.2.{hop}" if hop else f"10.0.{2 * hops + 1}"
    return f"{net}.{3 if ecn else 2}"


def sender_routes(hops: int) -> tuple[str, str]:
    """The first sender's to the receiver, and the one that asks for ECN."""
    return "default via 10.0.1.1", f"{receiver_address(0, hops, ecn=True)} via 10.0.1.1 features ecn"


def commands(hops: int = 1, cross: tuple[int, ...] = (), *, gso: bool = False, proxy: bool = False) -> str:
    """Makes the namespaces, links, addresses and routes; `cross` are the bottlenecks that have hosts of their own."""
    chain = ["sender", *(name for pair in zip(routers(hops), delays(hops), strict=True) for name in pair), "receiver"]
    own = [name for hop in cross for name in (sender(hop), receiver(hop))]
    lines = [f"join sender out 10.0.1.2 {chain[1]} in 10.0.1.1"]
    for number in range(2, len(chain)):
        left, right = chain[number - 1], chain[number]
        lines.append(f"join {left} out 10.0.{number}.1 {right} in 10.0.{number}.2")
    lines += routes(chain)
    for hop in cross:
        lines += hosts(hop, hops)
    if proxy:
        lines += proxy_commands()
    names = [*chain, *own, *([PROXY] if proxy else [])]
    head = HEAD.format(names=" ".join(names), offloads=OFFLOADS if gso else NO_OFFLOADS)
    return head + "\n".join(lines) + "\n"


def proxy_commands() -> list[str]:
    """The proxy's host. Its socket buffers are small, so that they do not become a second queue."""
    memory = "'net.ipv4.tcp_rmem=4096 65536 131072' 'net.ipv4.tcp_wmem=4096 65536 262144'"
    return [
        f"join {PROXY} out {PROXY_ADDRESS} router relay 10.3.0.1",
        f"ip -n {PROXY} route add default via 10.3.0.1",
        "ip -n delay route add 10.3.0.0/24 via 10.0.2.1",
        f"ip netns exec {PROXY} sysctl -qw {memory}",
    ]


def routes(chain: list[str]) -> list[str]:
    """Towards the receiver by default, towards the sender by network."""
    last = len(chain) - 1
    plain, ecn = sender_routes((last - 1) // 2)
    lines = [f"ip -n sender route add {plain}"]
    for number in range(1, last):
        if number < last - 1:
            lines.append(f"ip -n {chain[number]} route add default via 10.0.{number + 1}.2")
        back = [f"ip -n {chain[number]} route add 10.0.{net}.0/24 via 10.0.{number}.1" for net in range(1, number)]
        lines += back
    lines.append(f"ip -n receiver route add default via 10.0.{last}.1")
    lines.append(f"ip -n receiver addr add 10.0.{last}.3/24 dev in")
    lines.append(f"ip -n sender route add {ecn}")
    return lines


def hosts(hop: int, hops: int) -> list[str]:
    """The sender and the receiver that use only one bottleneck."""
    source, sink = sender(hop), receiver(hop)
    router, delay = routers(hops)[hop - 1], delays(hops)[hop - 1]
    return [
        f"join {source} out 10.1.{hop}.2 {router} cross 10.1.{hop}.1",
        f"join {delay} cross 10.2.{hop}.1 {sink} in 10.2.{hop}.2",
        f"ip -n {source} route add default via 10.1.{hop}.1",
        f"ip -n {sink} route add default via 10.2.{hop}.1",
        f"ip -n {sink} addr add 10.2.{hop}.3/24 dev in",
        f"ip -n {source} route add 10.2.{hop}.3 via 10.1.{hop}.1 features ecn",
        f"ip -n {router} route add 10.2.{hop}.0/24 via 10.0.{2 * hop}.2",
        f"ip -n {delay} route add 10.1.{hop}.0/24 via 10.0.{2 * hop}.1",
    ]
