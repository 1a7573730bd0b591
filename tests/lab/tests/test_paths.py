# SPDX-License-Identifier: GPL-2.0-only
"""Paths and flows of the format, in a guest: each is what its key says. Three guests, about 20 s when the machine is idle."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from ..engine import topology, virtual, virtual_experiment
from ..engine.flow_script import FIRST_CLIENT_PORT
from ..engine.path_script import netem
from ..engine.scenario import JITTERS, ORDERED, REORDERS, VirtualExperiment, VirtualFlow, VirtualLink, problem
from ..engine.virtual_experiment import GENERATOR
from ..engine.virtual_result import VirtualResult

KERNEL = "6.12"
JITTER_MS = 4.0
WINDOW_BYTES = 65536
SSTHRESH = 17
STALL_S, STALL_MS = 3.0, 200.0
SWITCH_S = 2.0


def run(tmp_path: Path, link: VirtualLink, *flows: VirtualFlow, seconds: float) -> VirtualResult:
    experiment = VirtualExperiment("path", link, flows, seconds=seconds, sockets_every_s=0.2)
    assert not problem(experiment)
    return virtual_experiment.run(experiment, tmp_path / "run", KERNEL)


def sockets(result: VirtualResult, number: int) -> list[tuple[float, str]]:
    """(s, what ss says of the data socket of flow `number`)"""
    port = f":{FIRST_CLIENT_PORT + number} "
    return [(at, line) for at, text in result.sockets for line in text.splitlines() if port in line]


# --- jitter ----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def jittered(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, object]]:
    """What a sink of UDP counted under each jitter: 500 packets a second for 1.5 s."""
    lines = [topology.commands(), "ip netns exec sender ping -c 1 10.0.3.2 >first"]
    for jitter in JITTERS:
        link = VirtualLink(rate_mbit=10, rtt_ms=40, jitter_ms=JITTER_MS, jitter=jitter)
        lines += [
            f"tc -n delay qdisc replace dev out root {netem(link, 'out', link.rtt_ms)}",
            f"ip netns exec receiver /lab/traffic udp-sink 7001 --interval 0.1 >{jitter} & sink=$!",
            "ip netns exec sender /lab/traffic udp-send 10.0.3.2 7001 --rate 2M --size 500 --for 1.5 --start 0.1 >sent",
            "sleep 0.2; kill $sink; wait $sink; tc -n delay qdisc del dev out root",
        ]
    directory = tmp_path_factory.mktemp("jitter")
    done = virtual.run(KERNEL, "\n".join(lines), directory, {"traffic": GENERATOR}, product=False)
    assert done.exit_code == 0, done.text("stderr")
    return {jitter: json.loads(done.text(jitter).splitlines()[-1]) for jitter in JITTERS}


@pytest.mark.parametrize("jitter", JITTERS)
def test_jitter_is_as_large_as_asked_and_keeps_the_order_if_asked(jitter: str, jittered: dict[str, dict[str, object]]) -> None:
    report = jittered[jitter]
    variation = report["variation_s"]
    assert report["packets"] == 750 and report["lost"] == 0 and isinstance(variation, dict)
    spread_ms = 2 * JITTER_MS
    assert 0.7 * spread_ms <= variation["p99"] * 1e3 <= spread_ms
    assert variation["max"] * 1e3 <= 1.05 * spread_ms
    reordered = report["reordered"]
    assert isinstance(reordered, int)
    assert reordered > 100 if jitter == REORDERS else reordered == 0
    if jitter == ORDERED:
        assert 0.4 * spread_ms <= variation["p50"] * 1e3 <= 0.7 * spread_ms


# --- everything else -------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> VirtualResult:
    link = VirtualLink(
        rate_mbit=20, rtt_ms=40, buffer_packets=400, route_ssthresh=SSTHRESH, stalls=((STALL_S, STALL_MS),), reverse_mbit=3.0
    )
    flows = (
        VirtualFlow("held", "cubic", 5, window_bytes=WINDOW_BYTES),
        VirtualFlow("switched", "reno", 5, starts_as="cubic", switch_s=SWITCH_S, ecn=True),
        VirtualFlow("reverse", "reno", 5, reverse=True),
    )
    return run(tmp_path_factory.mktemp("path"), link, *flows, seconds=5)


def test_a_window_is_what_the_sender_sees(path: VirtualResult) -> None:
    """From the first ACK of data on: the window of the receiver's SYN is its own."""
    lines = [line for _, line in sockets(path, 0) if re.search(r"bytes_acked:\d\d", line)]  # the SYN counts as 1
    seen = [int(match[1]) for line in lines if (match := re.search(r"snd_wnd:(\d+)", line))]
    assert len(seen) > 10 and set(seen) == {WINDOW_BYTES}
    assert max(int(re.findall(r"unacked:(\d+)", line)[0]) for _, line in sockets(path, 0) if "unacked" in line) <= 46
    assert all(f"snd_wnd:{WINDOW_BYTES}" not in line for _, line in sockets(path, 1))


def test_a_flow_changes_hands_at_its_time(path: VirtualResult) -> None:
    seen = [(at, re.findall(r" (cubic|reno) ", line)[0]) for at, line in sockets(path, 1)]
    assert {name for at, name in seen if at < SWITCH_S - 0.1} == {"cubic"}
    assert {name for at, name in seen if at > SWITCH_S + 0.1} == {"reno"}
    assert path.flows["switched"].controller == "reno" and path.flows["held"].controller == "cubic"


@pytest.mark.parametrize("number", [0, 1])
def test_the_first_ssthresh_is_the_routes(number: int, path: VirtualResult) -> None:
    """Also at the address that asks for ECN."""
    _, first = next((at, line) for at, line in sockets(path, number) if "ssthresh" in line)
    assert f" ssthresh:{SSTHRESH} " in first


def test_nothing_leaves_a_link_that_stands_still(path: VirtualResult) -> None:
    begin, end = STALL_S + 0.02, STALL_S + STALL_MS / 1e3 - 0.02
    late = 0.02 + 0.02  # half of the round trip, and tc's own start
    forward = [path.flows[name] for name in ("held", "switched")]
    assert sum(flow.goodput_mbit(begin + late, end) for flow in forward) < 0.05 * 20
    before = STALL_S - 1.0  # by then the flow that began at the route's ssthresh has grown
    assert sum(flow.goodput_mbit(before, STALL_S) for flow in forward) > 0.8 * 20


def test_the_way_back_has_its_own_rate(path: VirtualResult) -> None:
    assert 0.3 * 3 < path.flows["reverse"].goodput_mbit(1, 5) < 3


def test_a_policer_drops_and_delays_nobody(tmp_path: Path) -> None:
    result = run(tmp_path, VirtualLink(rate_mbit=10, rtt_ms=40, policer_packets=5), VirtualFlow("one", "reno", 3), seconds=3)
    assert result.queue_drops >= 10 and 0.3 < result.flows["one"].goodput_mbit(0, 3) < 9
    assert max(size for _, size in result.backlog) == 0 and len(result.backlog) > 20
    assert max(rtt for at, rtt in result.pings if at > 0.3) < 45  # the first one waits for addresses as well
