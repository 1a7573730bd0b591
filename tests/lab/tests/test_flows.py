# SPDX-License-Identifier: GPL-2.0-only
"""What the virtual-time lab says of a flow that did not end well."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from ..engine import virtual, virtual_result
from ..engine import virtual_experiment as lab
from ..engine.experiment import Flow, FlowResult
from ..engine.scenario import VirtualExperiment, VirtualFlow, VirtualLink
from ..guest.errors import LabError


def left_by(directory: Path, *, code: int, report: Mapping[str, object], server: str) -> Path:
    """What a guest leaves of its flow 0."""
    (directory / "client-0.exit").write_text(f"{code}\n")
    (directory / "client-0.json").write_text(json.dumps(report))
    (directory / "client-0.err").write_text("")
    (directory / "server-0.txt").write_text(server)
    return directory


def flow_of(directory: Path, starves: bool) -> FlowResult:
    return virtual_result.parse_flow(directory, 0, Flow("background", "reno", 10.0), 2.0, starves)


INTERRUPTED = {"error": "interrupt - the client has terminated", "end": {"sum_sent": {"retransmits": 17}}}
INTERVAL = "3.10 [  5]   0.00-0.10   sec  12.5 KBytes  1000 Kbits/sec\n"


@pytest.mark.parametrize(("said", "size"), [("33308b 22p", 33308), ("34Kb 23p", 34816), ("2Mb 1386p", 2 << 20)])
def test_a_backlog_as_tc_says_it(said: str, size: int) -> None:
    text = f"qdisc bfifo 10: root\n Sent 5 bytes 1 pkt (dropped 7, overlimits 0 requeues 0)\n backlog {said} requeues 0\n"
    assert virtual_result.queue_counts(text) == (size, int(said.split()[1][:-1]), 7)


def test_an_interrupted_flow_is_no_result(tmp_path: Path) -> None:
    with pytest.raises(LabError, match="iperf3 ended with 1: interrupt"):
        flow_of(left_by(tmp_path, code=1, report=INTERRUPTED, server=INTERVAL), starves=False)


def test_a_starved_flow_is_what_arrived_of_it(tmp_path: Path) -> None:
    result = flow_of(left_by(tmp_path, code=1, report=INTERRUPTED, server=INTERVAL), starves=True)
    assert [sample.megabits for sample in result.samples] == [pytest.approx(0.1)]
    assert result.retransmits == 17


def test_a_starved_flow_may_never_begin(tmp_path: Path) -> None:
    refused = {"error": "unable to send control message", "end": {}}
    result = flow_of(left_by(tmp_path, code=1, report=refused, server="3.1 Server listening on 5201\n"), starves=True)
    assert result.samples == [] and result.retransmits == 0


@pytest.mark.parametrize(("queue", "background", "starves"),
                         [("priority", True, True), ("priority", False, False), ("pfifo", True, False)])  # fmt: skip
def test_only_the_last_class_under_strict_priority_starves(queue: str, background: bool, starves: bool) -> None:
    flow = VirtualFlow("one", "reno", 10.0, background=background)
    link = VirtualLink(rate_mbit=10, rtt_ms=50, queue=queue)
    assert virtual_result.may_starve(VirtualExperiment("row", link, (flow,)), flow) is starves


def test_many_flows_have_their_ports_and_their_memory() -> None:
    def prepared(count: int) -> set[bool]:
        flows = tuple(VirtualFlow(f"flow-{number}", "reno", 10.0) for number in range(count))
        experiment = VirtualExperiment("row", VirtualLink(rate_mbit=10, rtt_ms=50), flows)
        script = lab.script(experiment)
        return {f"ip_local_reserved_ports=40001-{40000 + count}" in script, "net.ipv4.tcp_mem=" in script}

    assert prepared(100) == {True} and prepared(20) == {False}


@pytest.mark.parametrize("again", ["well", "taken"])
def test_a_port_that_is_taken_is_reserved_and_the_run_made_again(
    again: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also of a flow that may starve, which else would only seem to."""
    taken = {"error": "unable to connect stream: Address already in use", "end": {}}
    experiment = VirtualExperiment("row", VirtualLink(rate_mbit=10, rtt_ms=50), (VirtualFlow("a", "reno", 9.0),))
    scripts: list[str] = []

    def run(kernel: str, script: str, *_: object, **__: object) -> str:
        scripts.append(script)
        return "taken" if len(scripts) == 1 else again

    def parse(_: object, outcome: str) -> FlowResult:
        well = {"end": {"sum_sent": {"retransmits": 0}}}
        code, report = (1, taken) if outcome == "taken" else (0, well)
        return flow_of(left_by(tmp_path, code=code, report=report, server=INTERVAL), starves=True)

    monkeypatch.setattr(virtual, "run", run)
    monkeypatch.setattr(lab, "parse", parse)
    if again == "taken":
        with pytest.raises(LabError, match="flow background .reno.: its port 40001 is taken"):
            lab.run(experiment, tmp_path)
    else:
        found: object = lab.run(experiment, tmp_path)
        assert isinstance(found, FlowResult) and found.samples, "what parse() made"
    assert ["ip_local_reserved_ports=40001-40001" in script for script in scripts] == [False, True]


def test_what_a_guest_short_of_memory_measures_is_no_result() -> None:
    experiment = VirtualExperiment("row", VirtualLink(rate_mbit=10, rtt_ms=50), ())
    counters = "#kernel\nTcpExtTCPMemoryPressures        {}                  0.0\nTcpExtTCPMemoryPressuresChrono  7    0.0\n"
    virtual_result.require_memory(experiment, counters.format(0))
    with pytest.raises(LabError, match="row: TCP was short of memory in the guest .4 times.; raise memory_mb"):
        virtual_result.require_memory(experiment, counters.format(4))
