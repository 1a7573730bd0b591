# SPDX-License-Identifier: GPL-2.0-only
"""Each figure of `ccbpf metrics` is compared with a source that is not ccbpf: SOURCES says which, and where. A metric without an
entry fails. The comparisons here are those of traffic that meets losses and marks, and of whole runs."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.cgroups import cgroup, this_process_in
from tests.functional import kernel
from tests.functional.cli.top_sources import HERE, TOP_SOURCES, Sources, detail_figures, named_tests, sums, titles
from tests.functional.conftest import Cli
from tests.functional.line import CE, ECT0, NEIGHBOUR, NOT_ECT, Frame, Line
from tests.functional.records import settle, ss
from tests.functional.samples import TOTALS, Samples, of, samples

Pair = tuple[kernel.Namespace, kernel.Namespace]

MAP = "the map, written or read by bpf(2)"
SOURCES: Sources = {  # family: (source, file, test)
    "build": ("`ccbpf version`", "test_sources.py", "test_the_version"),
    "controller_enabled": ("the kernel's tcp_available_congestion_control", "test_sources.py", "test_enabled_is_what_the_kernel_says"),
    **dict.fromkeys(("indications", "cuts_to_one", "undos", "flows_untracked", "fallbacks", "events_dropped", "storage_refused", "live_flows_in_phase", "live_flows_yielding", "live_flows_delay_seconds"), (MAP, "test_metrics.py", "test_the_stats_map_and_the_records")),
    **dict.fromkeys(("flows_opened", "flows_closed", "live_flows", "live_bytes_acked", "live_retransmits"), ("ss", "test_metrics.py", "test_flows_are_those_of_ss_and_counters_keep_those_that_end")),
    "bytes_acked": ("ss", "test_totals.py", "test_totals_keep_what_ended_by_controller_and_unit"),
    **dict.fromkeys(("losses", "retransmits"), ("nstat and ss", "test_sources.py", "test_losses_are_those_of_nstat_and_ss")),
    "marks": ("packets with CWR, by tcpdump; delivered_ce of ss", "test_sources.py", "test_marks_are_those_of_tcpdump_nstat_and_ss"),
    "sending_seconds": ("the time of iperf3", "test_sources.py", "test_a_run_is_what_iperf3_says"),
    "yielded_seconds": ("the clock of the test", "test_totals.py", "test_yielded_seconds_are_the_time_in_such_a_phase"),
    **{
        f"unit_{name}": ("ss, and the counters of the controller", "test_totals.py", "test_totals_keep_what_ended_by_controller_and_unit")
        for name in ("flows", "bytes_acked", "indications", "cuts_to_one")
    },
    **{
        f"rule_{name}": ("ss, the counters of the controller, the clock of the test", "test_totals.py", test)
        for name, test in (
            ("bytes_acked", "test_totals_of_a_rule_keep_what_ended"), ("indications", "test_totals_of_a_rule_keep_what_ended"),
            ("cuts_to_one", "test_totals_of_a_rule_keep_what_ended"),
            ("sending_seconds", "test_yielded_seconds_are_the_time_in_such_a_phase"),
            ("yielded_seconds", "test_yielded_seconds_are_the_time_in_such_a_phase"),
        )
    },
    **dict.fromkeys(("rule_losses", "rule_retransmits"), ("nstat and ss", "test_sources.py", "test_losses_are_those_of_nstat_and_ss")),
    "rule_marks": ("packets with CWR, by tcpdump; delivered_ce of ss", "test_sources.py", "test_marks_are_those_of_tcpdump_nstat_and_ss"),
    **dict.fromkeys(("unit_losses", "unit_retransmits"), ("nstat and ss", "test_sources.py", "test_losses_are_those_of_nstat_and_ss")),
    "unit_marks": ("packets with CWR, by tcpdump; delivered_ce of ss", "test_sources.py", "test_marks_are_those_of_tcpdump_nstat_and_ss"),
    **dict.fromkeys(("unit_sending_seconds", "unit_yielded_seconds"), ("the clock of the test", "test_totals.py", "test_yielded_seconds_are_the_time_in_such_a_phase")),
    "units_left_out": ("the number of cgroups", "test_totals.py", "test_more_cgroups_than_the_map_holds"),
    **dict.fromkeys((*(f"rule_live_{of}" for of in ("flows", "bytes_acked", "retransmits", "indications", "cuts_to_one", "losses", "marks", "flows_yielding", "flows_delay_seconds")), "unit_live_flows", "unit_live_flows_yielding", "unit_live_flows_delay_seconds"), ("ss, and the records", "test_live.py", "test_by_rule_and_by_unit")),
    **{
        f"rule_connections_{name}": ("the connections of the test; `assign list`", "test_metrics.py", "test_what_rules_did_with_their_connections")
        for name in ("set", "kept", "refused", "exempt", "receivers", "unstamped")
    },
    **dict.fromkeys(("rule_connections_unmarked", "rule_connections_unheld"), (MAP, "test_metrics.py", "test_each_count_of_a_rule_is_that_of_its_map")),
    **{
        f"run_{name}": ("iperf3", "test_sources.py", "test_a_run_is_what_iperf3_says")
        for name in ("connections", "sent_bytes", "sending_seconds", "receiving_connections", "received_bytes", "receiving_seconds")
    },
    **{
        f"run_{name}": ("the totals of all flows, which the clock of a test measures", "test_sources.py", "test_a_run_is_what_iperf3_says")
        for name in ("yielded_seconds", "receiving_yielded_seconds")
    },
    **{
        f"queue_{name}": ("tc -s", "test_metrics.py", "test_queues") for name in ("packets", "bytes")
    },
    "queue_found_bytes": ("`aqm show`, which test_nf_red.py compares with the queue", "test_metrics.py", "test_queues"),
    "queue_marked": ("a capture; InCEPkts of nstat", "test_sources.py", "test_marked_and_dropped_are_those_of_a_capture"),
    "queue_dropped": ("a capture", "test_sources.py", "test_marked_and_dropped_are_those_of_a_capture"),
}  # fmt: skip


def test_each_metric_has_a_source(everything: Cli) -> None:
    families = re.findall(r"^# TYPE ccbpf_(\w+) ", everything("metrics", "--units", "--format", "openmetrics").out, re.M)
    assert sorted(families) == sorted(SOURCES)


@pytest.mark.parametrize("table", [SOURCES, TOP_SOURCES], ids=["metrics", "top"])
def test_each_test_that_a_source_names_exists(table: Sources) -> None:
    missing = {(file, test) for source, file, test in table.values() if not source or test not in named_tests(HERE / file)}
    assert not missing


def test_each_figure_of_top_has_a_source() -> None:
    """A column, a figure of the detail or of the lines of sums that is not in the table fails."""
    assert sorted(TOP_SOURCES) == sorted([*titles(), *detail_figures(), *sums()])


def test_the_version(ccbpf: Cli) -> None:
    assert of(samples(ccbpf), "build_info", version=ccbpf("-j", "version").json["version"]) == 1


def test_enabled_is_what_the_kernel_says(ccbpf: Cli) -> None:
    ccbpf("enable", "tcp_lp", "le")
    found = samples(ccbpf)
    known = Path("/proc/sys/net/ipv4/tcp_available_congestion_control").read_text().split()
    for name in kernel.KINDS:
        if name != "rx_le":
            assert of(found, "controller_enabled", controller=name) == (name in known), name


def nstat(namespace: kernel.Namespace) -> dict[str, int]:
    found: dict[str, int] = json.loads(namespace.run("nstat", "-aszj").stdout)["kernel"]
    return found


def send_for(sock: socket.socket, seconds: float) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        sock.sendall(bytes(1 << 14))


def published(ccbpf: Cli, sock: socket.socket) -> Samples:
    """When all is acknowledged, and one byte more, so that the records are of the last ACK."""
    settle(ccbpf, sock)
    before = of(samples(ccbpf), "bytes_acked_total", controller=kernel.chosen(sock))
    sock.send(b"x")
    kernel.eventually(
        lambda: of(samples(ccbpf), "bytes_acked_total", controller=kernel.chosen(sock)) > before, 5, "it is published"
    )
    return samples(ccbpf, "prometheus", "--units")


@contextmanager
def socket_of_a_unit(namespace: kernel.Namespace) -> Iterator[tuple[socket.socket, str]]:
    """A socket, and the unit to which it belongs."""
    with cgroup(f"ccbpf-test-{os.getpid()}-sources.service") as here:
        with this_process_in(here):
            sock = namespace.socket()
        with sock:
            yield sock, f"/{here.name}"


def assert_top_has_all(ccbpf: Cli, found: Samples, controller: str) -> None:
    """The only flow: what is compared for its controller's metrics holds for `top`."""
    (flow,) = ccbpf("top", "-bj", "--watch", "0.02", "--count", 1).json["flows"]
    for name in ("retransmits", "losses", "marks", "indications"):
        assert flow[name] == of(found, f"{name}_total", controller=controller), name


def assert_unit_and_rule_have_all(found: Samples, unit: str, controller: str) -> None:
    """Their flow is the only one of the controller: what is compared for the one holds for the others."""
    for name in TOTALS:
        total = of(found, f"{name}_total", controller=controller)
        assert of(found, f"unit_{name}_total", unit=unit, controller=controller) == total, name
        assert of(found, f"rule_{name}_total", rule="1", controller=controller) == total, name


SEND_S = 2.0
LOWER_EFFORT = 1  # DSCP


def bottleneck(near: kernel.Namespace) -> None:
    near.run("tc", "qdisc", "add", "dev", "veth0", "root", "tbf", "rate", "20mbit", "burst", "5000", "limit", "100000")


def of_queue(found: Samples, what: str) -> float:
    return sum(v for (n, _), v in found.items() if n == f"ccbpf_queue_{what}_total")


def test_losses_are_those_of_nstat_and_ss(ccbpf: Cli, netns_pair: Pair) -> None:
    """The path loses packets: about each repair is a reduction, and what was sent again is what the kernel counts."""
    a, b = netns_pair
    ccbpf("enable", "ltcp")
    bottleneck(a)
    b.run("tc", "qdisc", "add", "dev", "veth0", "clsact")
    b.run("tc", "filter", "add", "dev", "veth0", "ingress", "bpf", "da", "obj", NEIGHBOUR, "sec", "tc/lossy")
    with kernel.Sink(b, "10.77.0.2") as sink, socket_of_a_unit(a) as (sock, unit):
        ccbpf("assign", "ltcp", "--remote-port", sink.address[1], "--netns", a.name)
        sock.connect(sink.address)
        send_for(sock, SEND_S)
        found = published(ccbpf, sock)
        assert_top_has_all(ccbpf, found, "ltcp")
        kernel_says, (flow,) = nstat(a), ss(a, sink.address[1]).values()
    repairs = kernel_says["TcpExtTCPSackRecovery"] + kernel_says["TcpExtTCPRenoRecovery"]
    others = kernel_says["TcpExtTCPLossProbeRecovery"] + kernel_says["TcpExtTCPTimeouts"]
    assert repairs >= 3, kernel_says
    # A packet that the sender's own queue drops is a reduction, and its repair, in the same round trip, is none.
    own = max(2, repairs // 4)
    assert repairs - own <= of(found, "losses_total", controller="ltcp") <= repairs + others + own, kernel_says
    assert of(found, "marks_total", controller="ltcp") == 0
    again = of(found, "retransmits_total", controller="ltcp")
    assert again == of(found, "live_retransmits", controller="ltcp") == flow["retransmits"] == kernel_says["TcpRetransSegs"]
    assert again >= repairs
    assert of(found, "unit_losses_total", unit=unit) > 0
    assert_unit_and_rule_have_all(found, unit, "ltcp")


@pytest.mark.rerun("on a busy host the queue behind drops packets that were marked: nobody receives these marks")
def test_marks_are_those_of_tcpdump_nstat_and_ss(ccbpf: Cli, netns_pair: Pair) -> None:
    """The queue marks, and the flow reduces: the receiver has what the queue marked, and a CWR for each reduction."""
    a, b = netns_pair
    ccbpf("enable", "ltcp")
    for namespace in (a, b):
        namespace.sysctl("net.ipv4.tcp_ecn=1")
    bottleneck(a)
    ccbpf("aqm", "attach", "veth0", "--nf-min", 15, "--nf-max", 15, "--std", "off", prefix=("ip", "netns", "exec", a.name))
    with kernel.Sink(b, "10.77.0.2") as sink, socket_of_a_unit(a) as (sock, unit):
        cwr = "tcp[tcpflags] & (tcp-cwr | tcp-syn) == tcp-cwr"
        dump = kernel.start(
            b, "tcpdump", "-ni", "veth0", "-Q", "in", "-l", "--immediate-mode", f"dst port {sink.address[1]} and {cwr}"
        )
        kernel.eventually(lambda: "listening on" in dump.output(), 10, "tcpdump listens")
        ccbpf("assign", "ltcp", "--remote-port", sink.address[1], "--netns", a.name)
        sock.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, LOWER_EFFORT << 2)  # the class that is marked early
        sock.connect(sink.address)
        send_for(sock, 2 * SEND_S)
        found = published(ccbpf, sock)
        assert_top_has_all(ccbpf, found, "ltcp")
        said = a.run("ss", "-tinHO", "dport", "=", f":{sink.address[1]}").stdout
        dump.end()
    (behind,) = json.loads(a.run("tc", "-s", "-j", "qdisc", "show", "dev", "veth0").stdout)
    assert behind["drops"] == 0, behind
    marked = of_queue(found, "marked")
    assert marked == nstat(b)["IpExtInCEPkts"] > 0
    delivered = int(re.findall(r"\bdelivered_ce:(\d+)", said)[0])
    reductions = len(re.findall(r" IP ", dump.output()))
    marks, losses = (of(found, f"{name}_total", controller="ltcp") for name in ("marks", "losses"))
    assert 2 < marks <= min(marked, delivered)
    assert reductions <= marks + losses <= reductions + 1, "two reductions may share a CWR"
    assert_unit_and_rule_have_all(found, unit, "ltcp")


def test_marked_and_dropped_are_those_of_a_capture(line: Line) -> None:
    line.tbf()
    line.aqm("attach", "v0", "--nf-min", 5, "--nf-max", 5)
    line.fill(10)
    for ecn, first in ((ECT0, 0), (NOT_ECT, 20)):
        line.send([Frame(dscp=1, ecn=ecn, ident=first + i) for i in range(20)])
    found = samples(line.ccbpf)
    marked, dropped = of_queue(found, "marked"), of_queue(found, "dropped")
    assert marked > 10 and dropped > 10
    line.release()
    came = line.received(11 + 40 - int(dropped))
    assert sum(ip[1] & 3 == CE for ip in came) == marked


# iperf3's control connection is silent meanwhile: for longer than GAP_MOST_NS of bpf/run.bpf.c, which makes it a pause.
RUN_S = {"upload": 5, "download": 2}
CONTROL_BYTES = 10_000  # iperf3's results, as JSON
QUEUE_BYTES = 100_000  # the server ends the test by a reset: what it had received by then may not be acknowledged


@pytest.mark.quiet
@pytest.mark.rerun("a host that stands still is time in which a run sends nothing")
@pytest.mark.parametrize("way", RUN_S)
def test_a_run_is_what_iperf3_says(ccbpf: Cli, netns_pair: Pair, way: str) -> None:
    """Its data, and the little of its control connection."""
    a, b = netns_pair
    ccbpf("enable", "tcp_lp")
    a.run("tc", "qdisc", "add", "dev", "veth0", "root", "tbf", "rate", "50mbit", "burst", "5000", "limit", "100000")
    b.run("tc", "qdisc", "add", "dev", "veth0", "root", "tbf", "rate", "50mbit", "burst", "5000", "limit", "100000")
    server = kernel.start(b, "iperf3", "-s", "-1", "-p", "5201", "--forceflush")
    kernel.eventually(lambda: "listening" in server.output(), 10, "iperf3 listens")
    client = f"iperf3 -J -c 10.77.0.2 -p 5201 -t {RUN_S[way]} {'-R' if way == 'download' else ''}; read end"
    what = "-d" if way == "download" else "tcp_lp"
    words = ["ip", "netns", "exec", a.name, str(ccbpf.command), "run", "-q", what, "--", "sh", "-c", client]
    with subprocess.Popen(words, env=ccbpf.env(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin and process.stdout
        said: dict[str, Any] = json.loads("".join(iter(process.stdout.readline, "}\n")) + "}")["end"]
        carried, least = ("received_bytes", 0) if way == "download" else ("sent_bytes", -QUEUE_BYTES)
        least += said["sum_received"]["bytes"]
        kernel.eventually(lambda: of(samples(ccbpf), f"run_{carried}_total", run="1") >= least, 5, "its connections have ended")
        found = samples(ccbpf)
        process.stdin.write("\n")
        process.stdin.flush()
        assert process.wait(10) == 0
    sent, seconds = said["sum_sent"]["bytes"], said["sum_sent"]["seconds"]
    if way == "download":  # its control connection receives too little to be held back
        assert of(found, "run_receiving_connections_total", run="1") == 1
        assert least <= of(found, "run_received_bytes_total", run="1") <= sent
        spent, yielded = (of(found, f"run_receiving_{which}seconds_total", run="1") for which in ("", "yielded_"))
    else:
        assert of(found, "run_connections_total", run="1") == 2
        assert least <= of(found, "run_sent_bytes_total", run="1") <= sent + CONTROL_BYTES
        assert least <= of(found, "bytes_acked_total", controller="tcp_lp") <= sent + CONTROL_BYTES
        spent, yielded = (of(found, f"run_{which}_seconds_total", run="1") for which in ("sending", "yielded"))
        assert of(found, "sending_seconds_total", controller="tcp_lp") == pytest.approx(seconds, rel=0.15)
    assert spent == pytest.approx(seconds, rel=0.15)
    of_all = {"controller": "rx_le" if way == "download" else "tcp_lp"}
    assert spent == pytest.approx(of(found, "sending_seconds_total", **of_all), abs=0.3)
    assert 0 < yielded == pytest.approx(of(found, "yielded_seconds_total", **of_all), abs=0.3)
