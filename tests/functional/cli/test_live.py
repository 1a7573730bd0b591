# SPDX-License-Identifier: GPL-2.0-only
"""ccbpf metrics: the flows of this instant by rule and by unit are those that ss has, and what their records say."""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cgroups import MOUNT, remove_cgroup
from tests.functional import kernel
from tests.functional.conftest import Cli
from tests.functional.records import settle, ss
from tests.functional.samples import Samples, of, samples

Pair = tuple[kernel.Namespace, kernel.Namespace]

HOLD = """
import signal, socket, sys, time
socks = [socket.create_connection(("10.77.0.2", int(sys.argv[1]))) for _ in range(2)]
for s in socks: s.sendall(bytes(299_999))
time.sleep(0.1)  # the next ACK is published at once
for s in socks: s.sendall(b"x")
signal.pause()
"""
SENT = 300_000  # by each connection
RECEIVED = 200_000
BPF_PROG_LOAD = 5  # include/uapi/linux/bpf.h


def without(found: Samples, name: str, **labels: str) -> bool:
    return not [1 for (n, all_) in found if n == f"ccbpf_{name}" and labels.items() <= dict(all_).items()]


@pytest.fixture
def unit() -> Iterator[Path]:
    path = MOUNT / f"ccbpf-test-live-{os.getpid()}"
    path.mkdir()
    yield path
    remove_cgroup(path)


def test_by_rule_and_by_unit(ccbpf: Cli, netns_pair: Pair, unit: Path) -> None:
    """Two connections of a unit by one rule, one of this process by another, and one that no rule gave its controller."""
    a, b = netns_pair
    ccbpf("enable", "tcp_lp")
    inside = ("sh", "-c", f'echo $$ > {unit}/cgroup.procs; exec "$@"', "sh", "ip", "netns", "exec", a.name)
    with kernel.Sink(b, "10.77.0.2") as first, kernel.Sink(b, "10.77.0.2") as second, a.socket() as own, a.socket() as chosen:
        ports = [sink.address[1] for sink in (first, second)]
        for port in ports:
            ccbpf("assign", "tcp_lp", "--remote-port", port, "--netns", a.name)
        held = kernel.Child([*inside, sys.executable, "-c", HOLD, str(ports[0])])
        try:
            with kernel.Sink(b, "10.77.0.2") as third:
                own.connect(second.address)
                kernel.choose(chosen, "tcp_lp")
                chosen.connect(third.address)
                for sock in (own, chosen):
                    sock.sendall(bytes(SENT - 1))
                settle(ccbpf, own, chosen)
                own.sendall(b"x")
                kernel.eventually(lambda: first.received == 2 * SENT and second.received == SENT, 10, "all is received")
                compare(ccbpf, a, ports, unit)
        finally:
            held.end()
        kernel.eventually(lambda: without(samples(ccbpf), "rule_live_flows", rule="1"), 10, "its flows have ended")
        assert of(samples(ccbpf), "rule_live_flows", rule="2") == 1


def compare(ccbpf: Cli, a: kernel.Namespace, ports: list[int], unit: Path) -> None:
    def agrees() -> bool:
        found = samples(ccbpf)
        return all(
            of(found, f"rule_live_{name}", rule=str(i + 1)) == sum(flow[name] for flow in ss(a, port).values())
            for i, port in enumerate(ports) for name in ("bytes_acked", "retransmits")
        )  # fmt: skip

    for form, gcount in (("prometheus", "_count"), ("openmetrics", "_gcount")):
        found = samples(ccbpf, form, "--units")
        for i, port in enumerate(ports):
            rule = {"rule": str(i + 1), "controller": "tcp_lp", "conditions": f"--remote-port {port} --netns {a.name}"}
            flows = len(ss(a, port))
            assert of(found, "rule_live_flows", **rule) == flows == 2 - i
            assert of(found, f"rule_live_flows_delay_seconds{gcount}", **rule) == flows
            assert of(found, "rule_live_flows_delay_seconds_bucket", le="+Inf", **rule) == flows
        assert of(found, "live_flows", controller="tcp_lp") == 4, "one is of no rule"
        assert of(found, "unit_live_flows", unit=f"/{unit.name}", controller="tcp_lp") == 2
        assert of(found, f"unit_live_flows_delay_seconds{gcount}", unit=f"/{unit.name}") == 2
        here = sum(v for (n, k), v in found.items() if n == "ccbpf_unit_live_flows" and dict(k)["unit"] != f"/{unit.name}")
        assert here == 2, "also of the connection that no rule gave its controller"
    kernel.eventually(agrees, 5, "the sums of ss")
    change_records(ccbpf, ports[0])
    found = samples(ccbpf, "prometheus", "--units")
    for name, value in {"indications": 5, "cuts_to_one": 2, "losses": 3, "marks": 4}.items():
        assert of(found, f"rule_live_{name}", rule="1") == 2 * value
        assert of(found, f"rule_live_{name}", rule="2") == 0
    for prefix, labels in (("rule", {"rule": "1"}), ("unit", {"unit": f"/{unit.name}"})):
        assert of(found, f"{prefix}_live_flows_yielding", to="delay", **labels) == 2
        assert of(found, f"{prefix}_live_flows_delay_seconds_bucket", le="0.005", **labels) == 0
        assert of(found, f"{prefix}_live_flows_delay_seconds_bucket", le="0.01", **labels) == 2
        assert of(found, f"{prefix}_live_flows_delay_seconds_sum", **labels) == pytest.approx(0.014)


def change_records(ccbpf: Cli, port: int) -> None:
    """Of the flows to this port: as if they gave way, with known counters."""
    flows = kernel.Map.by_pin(ccbpf.root / "flows")
    for key in flows:
        value = bytearray(flows.lookup(key) or b"")
        flow = kernel.ffi.from_buffer("struct ccbpf_flow *", value)
        if flow.remote_port == port:
            flow.phase, flow.delay_source, flow.delay_smoothed_us = kernel.PHASE.INFERENCE, 1, 7000
            flow.indications, flow.cuts_to_one, flow.losses, flow.marks = 5, 2, 3, 4
            flow.updated_ns += 60 * 10**9
            flows.update(key, bytes(value))
    flows.close()


def test_a_download_by_a_rule(ccbpf: Cli, netns_pair: Pair) -> None:
    """It has a record of its own, of rx_le."""
    a, b = netns_pair
    with b.socket() as server, a.socket() as sock:
        server.bind(("10.77.0.2", 0))
        server.listen()
        ccbpf("assign", "--download", "--remote-port", server.getsockname()[1], "--netns", a.name)
        sock.connect(server.getsockname())
        with server.accept()[0] as far:
            far.sendall(bytes(RECEIVED))
            left = RECEIVED
            while left:
                left -= len(sock.recv(left))

            def received() -> float:
                return sum(v for (n, k), v in samples(ccbpf).items() if n == "ccbpf_rule_live_bytes_acked" and
                           dict(k)["rule"] == "1" and dict(k)["controller"] == "rx_le")  # fmt: skip

            kernel.eventually(lambda: received() > 0, 5, "it has a record")
            time.sleep(0.1)  # what comes next is published at once
            far.sendall(b"x")
            assert sock.recv(1) == b"x"
            kernel.eventually(lambda: received() == RECEIVED + 1, 5, "what was received")
            assert of(samples(ccbpf), "rule_live_flows", rule="1", controller="rx_le") == 1


def test_where_the_kernel_refuses_the_iterators_nothing_is_said(everything: Cli, refuse: Path) -> None:
    """Of the flows by rule, which is not the same as 0. All else is there."""
    live = re.compile(r"(# \w+ )?ccbpf_rule_live_")

    def others(page: str) -> list[str]:
        return [line for line in page.splitlines() if not live.match(line)]

    page = everything("metrics", "--units").out
    assert "\nccbpf_rule_live_flows{" in page and "\nccbpf_unit_live_flows{" in page
    refused = Cli(everything.root, {"LD_PRELOAD": str(refuse), "REFUSE": str(BPF_PROG_LOAD)}, everything.command)
    assert others(refused("metrics", "--units").out) == others(page)
    assert "\nccbpf_rule_live_" not in refused("metrics", "--units").out
