# SPDX-License-Identifier: GPL-2.0-only
"""python -m tests.bench [PART ...], `make bench`: what a controller costs, as ratios measured in one run.

    ack       nanoseconds of each controller's programs per ACK, and of the kernel's cubic called from BPF, over an empty program
              in each of its hooks on the same path (bpf_stats is part of both): a busy veth pair, and the native lab's
              bottleneck
    skb       nanoseconds of nf_red per packet, over an empty tc program that sees the same packets
    rules     nanoseconds of the standing rules' program per end of a connection, with 1 000 prefixes and 200 cgroups, over one
              that does nothing or sets the same controller; and the calls, which must not grow with the number of packets
    downloads nanoseconds of a download's program per segment, over an empty one, and its goodput; busy, and at 100 Mbit/s
    gateway   nanoseconds of a gateway's two programs per packet, over an empty one behind each, on the same paths
    goodput   bulk transfer over a veth pair, limited by the CPU: each controller, and the kernel's reno right before it
    command   `ccbpf enable`; with 10 000 flows of a standing rule, which are 10 000 sockets of one process beside those of the
              host: `ccbpf flows`, `ccbpf metrics`, a batch of `ccbpf top` by each grouping, and the CPU time of its screen

Rounds alternate between the things compared, and medians with their quartiles are printed: timing is noisy. Nothing here is
asserted; build/bench/bench.json has every round.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from tests import registry
from tests.bench import downloads, gateway, rules
from tests.bench.command import FLOWS, enable_ms, with_many_flows
from tests.bench.shell import BUILD, CCBPF, REPOSITORY, say, sh
from tests.lab.engine import native
from tests.lab.engine.experiment import Experiment, Flow, Link
from tests.lab.rows import catalogue

MANY_RULES = BUILD / "many-rules"
EMPTY = BUILD / "tests/empty.bpf.o"
CUBIC = BUILD / "tests/cubic.bpf.o"
EMPTY_TC = BUILD / "tests/empty_tc.bpf.o"
SOCKOPS = BUILD / "tests/sockops.bpf.o"
CONTROLLERS = catalogue.ours()
YARDSTICK, KERNELS = "cc_empty", "cc_cubic"
PREFIXES = {YARDSTICK: "empty_", KERNELS: "cubic_"}  # of the names of their programs
WANTED_NS = {"nf_tcp": 80}  # the others: 60
ROUNDS = 15
ROUND_S = 1
BOTTLENECK = Link(rate_mbit=100, rtt_ms=10)
CLIENT, SERVER = f"ccbpf-bench.{os.getpid()}.a", f"ccbpf-bench.{os.getpid()}.b"
ADDRESS = "10.0.9.2"
PORT = 5201


# --- the bench -------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def pair() -> Iterator[None]:
    """Two namespaces joined by a veth pair, and an iperf3 server in the second."""
    server = None
    try:
        for name in (CLIENT, SERVER):
            sh("ip", "netns", "add", name)
        sh("ip", "-n", CLIENT, "link", "add", "veth0", "type", "veth", "peer", "name", "veth1", "netns", SERVER)
        for name, device, address in ((CLIENT, "veth0", "10.0.9.1"), (SERVER, "veth1", ADDRESS)):
            sh("ip", "-n", name, "address", "add", f"{address}/24", "dev", device)
            sh("ip", "-n", name, "link", "set", device, "up")
            sh("ip", "-n", name, "link", "set", "lo", "up")
            sh("ip", "netns", "exec", name, "sysctl", "-q", "-w", "net.ipv4.tcp_no_metrics_save=1")
        server = subprocess.Popen(
            ["ip", "netns", "exec", SERVER, "iperf3", "-s", "-p", str(PORT)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        wait_for_server()
        yield
    finally:
        if server:
            server.terminate()
            server.wait(10)
        for name in (CLIENT, SERVER):
            subprocess.run(["ip", "netns", "delete", name], capture_output=True)


def wait_for_server() -> None:
    for _ in range(100):
        if f":{PORT}" in sh("ip", "netns", "exec", SERVER, "ss", "-ltn"):
            return
        time.sleep(0.05)
    raise RuntimeError(f"iperf3 does not listen on port {PORT} of {SERVER} after 5 s; is it installed? (make deps)")


@contextlib.contextmanager
def stats_on() -> Iterator[None]:
    stats = "kernel.bpf_stats_enabled"
    before = sh("sysctl", "-n", stats).strip()
    sh("sysctl", "-q", "-w", f"{stats}=1")
    try:
        yield
    finally:
        sh("sysctl", "-q", "-w", f"{stats}={before}")


@contextlib.contextmanager
def enabled(turn: int = 0) -> Iterator[None]:
    """Our controllers and the empty one, each round in another order, with `bpf_stats` on."""
    try:
        first = turn % len(CONTROLLERS)
        sh(str(CCBPF), "enable", *CONTROLLERS[first:], *CONTROLLERS[:first])
        for programs_of in (EMPTY, CUBIC):
            sh("bpftool", "struct_ops", "register", str(programs_of))
        with stats_on():
            yield
    finally:
        for name in PREFIXES:
            subprocess.run(["bpftool", "struct_ops", "unregister", "name", name], capture_output=True)
        subprocess.run([str(CCBPF), "disable", *CONTROLLERS], capture_output=True)
        subprocess.run([str(CCBPF), "clean"], capture_output=True)


def transfer(controller: str) -> Any:
    """One bulk transfer; iperf3's report, an object."""
    return json.loads(
        sh("ip", "netns", "exec", CLIENT, "iperf3", "-c", ADDRESS, "-p", str(PORT), "-C", controller,
           "-t", str(ROUND_S), "-J")
    )  # fmt: skip


# --- nanoseconds per ACK ---------------------------------------------------------------------------------------------


def programs(controller: str) -> dict[int, tuple[str, int, int]]:
    """Program id: (name, run_time_ns, run_cnt) of a registered controller's programs."""
    prefix = PREFIXES.get(controller, f"{controller}_")
    longer = tuple(other for other in CONTROLLERS if other.startswith(prefix))  # tcp_lp_ecn_… is not tcp_lp's
    found = {}
    for program in json.loads(sh("bpftool", "-j", "prog", "show")):
        name = program.get("name", "")
        if program["type"] != "struct_ops" or not name.startswith(prefix) or name.startswith(longer):
            continue
        found[program["id"]] = (name, program.get("run_time_ns", 0), program.get("run_cnt", 0))
    return found


HOOKS = (
    "cong_avoid",
    "in_ack_event",
    "pkts_acked",
    "min_tso_segs",
)  # hooks that are called for every ACK, or for every attempt to send
Cost = dict[str, tuple[float, float]]  # hook, or "rest": (calls per ACK, ns per call)


def cost(controller: str, path: Callable[[str], object]) -> Cost:
    """One round. A call of cong_avoid counts as an ACK. The kernel does not call it while it repairs a loss; such ACKs are not
    counted. in_ack_event counts with one call per ACK: iperf3 gives the controller to the receiver
    as well, which gets one with each packet of data."""
    before = programs(controller)
    path(controller)
    spent: dict[str, list[int]] = {hook: [0, 0] for hook in (*HOOKS, "rest")}
    for number, (name, ns, count) in programs(controller).items():
        _, ns0, count0 = before.get(number, (name, 0, 0))
        hook = next((hook for hook in HOOKS if name.endswith(f"_{hook}")), "rest")
        spent[hook][0] += ns - ns0
        spent[hook][1] += count - count0
    acks = max(spent["cong_avoid"][1], 1)
    return {
        hook: (1.0 if hook == "in_ack_event" else calls / acks, ns / calls)
        for hook, (ns, calls) in spent.items() if calls
    }  # fmt: skip


def over(costs: Cost, empty: Cost) -> float:
    """ns per ACK above an empty program that is called as often in each hook: the window decides how often a flow sends."""

    def of_nothing(hook: str) -> float:
        return empty[hook][1] if hook in HOOKS else 0

    return sum(calls * (ns - of_nothing(hook)) for hook, (calls, ns) in costs.items())


def busy(controller: str) -> None:
    """Packets of one segment over veth, as many ACKs as this machine can process; ssthresh is low, so that the flow is in
    congestion avoidance."""
    transfer(controller)


def bottleneck(controller: str) -> None:
    """100 Mbit/s, 10 ms: few ACKs, so the programs are rarely in the CPU's caches."""
    native.run(Experiment("bench", BOTTLENECK, (Flow("bulk", controller, ROUND_S),)))


def per_ack(path: Callable[[str], object]) -> dict[str, list[Cost]]:
    """Each round loads the programs anew: where in memory the kernel puts one makes a difference of up to 60 ns."""
    rounds: dict[str, list[Cost]] = {}
    for number in range(ROUNDS):
        with enabled(number):
            for controller in (YARDSTICK, KERNELS, *CONTROLLERS):
                say(f"per ACK, {path.__name__}: round {number + 1} of {ROUNDS}, {controller}")
                rounds.setdefault(controller, []).append(cost(controller, path))
    return rounds


@contextlib.contextmanager
def single_segments() -> Iterator[None]:
    """No offloads, and a route that begins in congestion avoidance."""
    for name, device in ((CLIENT, "veth0"), (SERVER, "veth1")):
        sh("ip", "netns", "exec", name, "ethtool", "-K", device, "tso", "off", "gso", "off", "gro", "off")
    sh("ip", "-n", CLIENT, "route", "add", f"{ADDRESS}/32", "dev", "veth0", "ssthresh", "20")
    yield
    sh("ip", "-n", CLIENT, "route", "delete", f"{ADDRESS}/32")
    for name, device in ((CLIENT, "veth0"), (SERVER, "veth1")):
        sh("ip", "netns", "exec", name, "ethtool", "-K", device, "tso", "on", "gso", "on", "gro", "on")


# --- nanoseconds per skb ---------------------------------------------------------------------------------------------


def inside(*arguments: str) -> str:
    """A command at the sender."""
    return sh("ip", "netns", "exec", CLIENT, *arguments)


@contextlib.contextmanager
def queue() -> Iterator[None]:
    """A bottleneck on the sender's device, its LE traffic marked by nf_red, and an empty program behind that."""
    try:
        inside("tc", "qdisc", "add", "dev", "veth0", "root", "tbf", "rate", "1gbit", "burst", "128k", "limit", "1m")
        inside(str(CCBPF), "aqm", "attach", "veth0")
        inside("tc", "qdisc", "add", "dev", "veth0", "clsact")
        inside("tc", "filter", "add", "dev", "veth0", "egress", "bpf", "da", "obj", str(EMPTY_TC), "sec", "tc")
        inside("sysctl", "-q", "-w", "net.ipv4.tcp_ecn=1")
        yield
    finally:
        subprocess.run(["ip", "netns", "exec", CLIENT, str(CCBPF), "aqm", "detach", "veth0"], capture_output=True)
        for parent in ("clsact", "root"):
            subprocess.run(["tc", "-n", CLIENT, "qdisc", "del", "dev", "veth0", parent], capture_output=True)


def tc_programs() -> dict[str, tuple[int, int]]:
    """Nanoseconds and calls so far of both programs."""
    shown = json.loads(sh("bpftool", "-j", "prog", "show"))
    return {p["name"]: (p.get("run_time_ns", 0), p.get("run_cnt", 0)) for p in shown if p["name"] in ("nf_red", "empty_tc")}


TRAFFIC = {
    "packets": ("-u", "-b", "2G", "-l", "1400", "-S", "6"),  # one by one, as fast as they come: a busy router
    "trains": ("-C", "reno", "-S", "4"),  # GSO: few skbs of many packets, marked, and the programs are rarely in the caches
}


def per_skb(traffic: str) -> list[dict[str, float]]:
    rounds = []
    with queue():
        for number in range(ROUNDS):
            say(f"per skb, {traffic}: round {number + 1} of {ROUNDS}")
            before = tc_programs()
            inside("iperf3", "-c", ADDRESS, "-p", str(PORT), "-t", str(ROUND_S), *TRAFFIC[traffic])
            spent = {name: (ns - before[name][0], calls - before[name][1]) for name, (ns, calls) in tc_programs().items()}
            rounds.append({name: ns / calls for name, (ns, calls) in spent.items()} | {"skbs": spent["nf_red"][1]})
    return rounds


# --- nanoseconds per connection --------------------------------------------------------------------------------------


def per_connection() -> list[dict[str, rules.Spent]]:
    rounds = []
    for number in range(ROUNDS):
        say(f"rules: round {number + 1} of {ROUNDS}")
        rounds.append(rules.measure(CCBPF, MANY_RULES, SOCKOPS, Path(os.environ["CCBPF_PIN_ROOT"])))
    return rounds


# --- downloads -------------------------------------------------------------------------------------------------------

RECEIVER = downloads.Receiver(CLIENT, ADDRESS, PORT, ROUND_S)
LIMITS = {"": (), " at 10 Gbit/s": ("-b", "10G")}


@contextlib.contextmanager
def slow_link() -> Iterator[None]:
    """100 Mbit/s from the server to the receiver: few segments, so the program is rarely in the CPU's caches."""
    sh("tc", "-n", SERVER, "qdisc", "add", "dev", "veth1", "root", "tbf", "rate", "100mbit", "burst", "32k", "latency", "20ms")
    yield
    sh("tc", "-n", SERVER, "qdisc", "delete", "dev", "veth1", "root")


PATHS = {"busy": single_segments, "100 Mbit/s": slow_link}


def per_segment() -> dict[str, list[tuple[downloads.Cost, downloads.Cost]]]:
    """For each path and round: the yardstick's cost and the download's."""
    found: dict[str, list[tuple[downloads.Cost, downloads.Cost]]] = {}
    for name, path in PATHS.items():
        with path(), stats_on():
            for number in range(ROUNDS):
                say(f"downloads, {name}: round {number + 1} of {ROUNDS}")
                found.setdefault(name, []).append(downloads.measure(CCBPF, SOCKOPS, RECEIVER))
    return found


def download_goodput() -> dict[str, list[tuple[float, float]]]:
    """For each limit and round: Gbit/s without the program right before it, and with it."""
    rounds: dict[str, list[tuple[float, float]]] = {}
    for number in range(ROUNDS):
        for limit, words in LIMITS.items():
            say(f"goodput of a download{limit}: round {number + 1} of {ROUNDS}")
            pair = (downloads.gbit(RECEIVER, None, *words), downloads.gbit(RECEIVER, CCBPF, *words))
            rounds.setdefault(limit, []).append(pair)
    return rounds


def per_packet() -> dict[str, list[dict[str, float]]]:
    """For each path and round: the costs of a gateway and of the empty programs behind it."""
    found: dict[str, list[dict[str, float]]] = {}
    for name, path in PATHS.items():

        def say_round(number: int, name: str = name) -> None:
            say(f"gateway, {name}: round {number + 1} of {ROUNDS}")

        with path(), stats_on():
            found[name] = gateway.measure(RECEIVER, EMPTY_TC, ROUNDS, say_round)
    return found


# --- goodput ---------------------------------------------------------------------------------------------------------


def goodput() -> dict[str, list[tuple[float, float]]]:
    """For each controller and round: Gbit/s of reno right before it, and its own, without a bottleneck. The speed of a machine
    changes by some percent within a round, so a single run of reno would favour the controllers next to it. bpf_stats is
    off, because it is not part of the product."""
    sh("sysctl", "-q", "-w", "kernel.bpf_stats_enabled=0")
    rounds: dict[str, list[tuple[float, float]]] = {}
    for number in range(ROUNDS):
        for controller in CONTROLLERS:
            say(f"goodput: round {number + 1} of {ROUNDS}, {controller}")
            rounds.setdefault(controller, []).append((gbit("reno"), gbit(controller)))
    return rounds


def gbit(controller: str) -> float:
    return float(transfer(controller)["end"]["sum_received"]["bits_per_second"]) / 1e9


# --- the report ------------------------------------------------------------------------------------------------------


def spread(values: list[float], digits: int = 1) -> str:
    low, middle, high = statistics.quantiles(values, n=4, method="inclusive")
    return f"{middle:.{digits}f} ({low:.{digits}f} … {high:.{digits}f})"


def row(what: str, measured: str, wanted: str = "") -> None:
    print(f"{what:<52} {measured:<28} {wanted}")


def report_per_ack(path: str, acks: dict[str, Any]) -> None:
    for hook in HOOKS:
        row(f"{path}: empty {hook}, ns per call", spread([empty[hook][1] for empty in acks[YARDSTICK]]))
    kernels = [over(costs, empty) for costs, empty in zip(acks[KERNELS], acks[YARDSTICK], strict=True)]
    row(f"{path}: the kernel's cubic over them, ns per ACK", spread(kernels))
    for name in CONTROLLERS:
        above = [over(ours, empty) for ours, empty in zip(acks[name], acks[YARDSTICK], strict=True)]
        row(f"{path}: {name} over them, ns per ACK", spread(above), f"<= {WANTED_NS.get(name, 60)}")
        row(f"{path}: {name} ÷ the kernel's cubic", spread([ours / of for ours, of in zip(above, kernels, strict=True)], 2))


def report_ack(result: dict[str, Any]) -> None:
    for path in (busy, bottleneck):
        report_per_ack(path.__name__, result[f"per_ack_{path.__name__}"])


def report_skb(result: dict[str, Any]) -> None:
    for traffic in TRAFFIC:
        rounds = result[f"per_skb_{traffic}"]
        row(f"{traffic}: empty tc program, ns per skb", spread([r["empty_tc"] for r in rounds]))
        row(f"{traffic}: nf_red over it, ns per skb", spread([r["nf_red"] - r["empty_tc"] for r in rounds]), "<= 150")


def report_rules(result: dict[str, Any]) -> None:
    rounds = result["rules"]
    for name in rules.YARDSTICKS.values():
        row(f"{name}: ns per end of a connection", spread([r[name][0] for r in rounds]))
    for name in rules.LOADS:
        row(f"{name}: ns over that", spread([r[name][0] for r in rounds]), "<= 1000")
        row(f"{name}: calls per end", spread([r[name][1] for r in rounds]))
        more = [r[f"{name}, long"][1] - r[name][1] for r in rounds]
        row(f"{name}: calls more for {rules.LONG_BYTES // 10**6} MB", spread(more), "0")


def report_downloads(result: dict[str, Any]) -> None:
    for path, rounds in result["downloads"].items():
        for what, wanted in (("sent", "<= 200"), ("received", "<= 150")):
            cost = f"ns_per_{what}"
            row(f"download, {path}: empty program, ns per segment {what}", spread([getattr(empty, cost) for empty, _ in rounds]))
            above = [getattr(ours, cost) - getattr(empty, cost) for empty, ours in rounds]
            row(f"download, {path}: rx_le over it, ns per segment {what}", spread(above), wanted)
        row(f"download, {path}: calls per segment sent", spread([ours.calls_per_sent for _, ours in rounds], 2))
    for limit, pairs in result["download_goodput"].items():
        row(f"download{limit}, without, Gbit/s", spread([without for without, _ in pairs]))
        row(f"download{limit}, % of that", spread([100 * ours / without for without, ours in pairs]), ">= 97")


def report_gateway(result: dict[str, Any]) -> None:
    for path, rounds in result["gateway"].items():
        for way, program in gateway.PROGRAMS.items():
            row(f"gateway, {path}: empty tc program, {way}, ns", spread([one[f"empty {way}"] for one in rounds]))
            row(f"gateway, {path}: {program} over it, ns per packet", spread([one[way] - one[f"empty {way}"] for one in rounds]))


def report_goodput(result: dict[str, Any]) -> None:
    rounds = result["goodput"]
    row("reno over veth, Gbit/s", spread([reno for own in rounds.values() for reno, _ in own]))
    for name in CONTROLLERS:
        row(f"{name} over veth, % of reno", spread([100 * gbit / reno for reno, gbit in rounds[name]]), ">= 97")


def report_command(result: dict[str, Any]) -> None:
    row("ccbpf enable tcp_lp, ms", spread(result["enable_ms"]), "<= 300")
    for name, rounds in result["many_flows"]["commands"].items():
        row(f"ccbpf {name}, {FLOWS} flows, ms", spread([ms for ms, _ in rounds]), f"<= {300 if name == 'metrics' else 200}")
        row(f"ccbpf {name}, {FLOWS} flows, MB", spread([mb for _, mb in rounds]), "<= 64")
    row(f"ccbpf top on a screen, {FLOWS} flows, % of a core", spread(result["many_flows"]["screen_percent"]), "<= 5")


REPORTS = {
    "ack": report_ack,
    "skb": report_skb,
    "rules": report_rules,
    "downloads": report_downloads,
    "gateway": report_gateway,
    "goodput": report_goodput,
    "command": report_command,
}


def measure(parts: Sequence[str]) -> dict[str, Any]:
    """Every round of these parts of it."""
    result: dict[str, Any] = {}
    with registry.held(), pair():
        if "ack" in parts:
            with single_segments():
                result["per_ack_busy"] = per_ack(busy)
            result["per_ack_bottleneck"] = per_ack(bottleneck)
        if "downloads" in parts:
            result["downloads"] = per_segment()
            result["download_goodput"] = download_goodput()
        if "gateway" in parts:
            result["gateway"] = per_packet()
        with enabled():
            if "skb" in parts:
                for traffic in TRAFFIC:
                    result[f"per_skb_{traffic}"] = per_skb(traffic)
            if "rules" in parts:
                result["rules"] = per_connection()
            if "goodput" in parts:
                result["goodput"] = goodput()
            if "command" in parts:
                result["many_flows"] = with_many_flows()
        if "command" in parts:
            result["enable_ms"] = enable_ms()
    return result


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.bench", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"{', '.join(REPORTS)} (all: about twenty minutes)")
    options = parser.parse_args()
    for part in options.parts:
        if part not in REPORTS:
            parser.error(f"{part}: there are {', '.join(REPORTS)}")
    options.parts = options.parts or list(REPORTS)
    return options


def main() -> int:
    options = arguments()
    if os.geteuid():
        print("bench: loading programs needs root: run 'sudo make bench'", file=sys.stderr)
        return 4
    os.environ.setdefault("CCBPF_PIN_ROOT", str(registry.session_pins("bench")))
    for number in (signal.SIGTERM, signal.SIGHUP):  # as Ctrl-C: kernel.bpf_stats_enabled and the namespaces do not stay
        signal.signal(number, signal.default_int_handler)
    try:
        result = measure(options.parts)
    except KeyboardInterrupt:
        print("bench: interrupted; everything that was made is removed", file=sys.stderr)
        return 130
    out = BUILD / "bench/bench.json"
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(result, indent=1) + "\n")
    print()
    row(f"median (quartiles) of {ROUNDS} rounds", "measured", "wanted")
    for part in options.parts:
        REPORTS[part](result)
    print(f"\nevery round: {out.relative_to(REPOSITORY)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
