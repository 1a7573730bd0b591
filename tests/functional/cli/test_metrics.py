# SPDX-License-Identifier: GPL-2.0-only
"""ccbpf metrics: the text is what its format says, and its figures are those of ss, of the maps and of other commands."""

from __future__ import annotations

import json
import os
import re
import socket
import stat
import struct
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.functional import kernel
from tests.functional.conftest import Cli
from tests.functional.line import DEV, Frame, Line
from tests.functional.records import record, settle, ss
from tests.functional.samples import of, samples
from tests.unit import headers

LIMITS_S = [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, float("inf")]
DELAY = "live_flows_delay_seconds"
SUM_AND_COUNT = {"prometheus": ("_sum", "_count"), "openmetrics": ("_gsum", "_gcount")}


def test_nothing_enabled(ccbpf: Cli) -> None:
    found = samples(ccbpf)
    assert of(found, "build_info") == 1
    assert of(found, "controller_enabled", controller="tcp_lp") == 0
    assert samples(ccbpf, "openmetrics") == found


def test_the_stats_map_and_the_records(ccbpf: Cli) -> None:
    """Each counter from the map by bpf(2); the sums over records with known values."""
    ccbpf("enable", "tcp_lp", "nf_tcp")
    lp = kernel.pinned(ccbpf.root, "tcp_lp")
    size = kernel.ffi.sizeof("struct ccbpf_stats")
    counters = [name for name, _ in kernel.ffi.typeof("struct ccbpf_stats").fields]
    per_cpu = struct.pack(f"={len(counters)}Q", *range(1, len(counters) + 1)).ljust(size, b"\0") * kernel.POSSIBLE_CPUS
    lp.maps["stats"].update(struct.pack("=I", lp.kind), per_cpu)
    now = time.monotonic_ns()
    rows = [  # phase, signal, losses, marks, us of delay, age in s
        (2, 1, 3, 0, 1500, 0), (2, 2, 0, 0, 0, 0), (3, 1, 1, 0, 7000, 0), (3, 2, 0, 5, 600_000, 0),
        (4, 0, 0, 0, 1000, 0), (4, 0, 0, 0, 1000, 60), (1, 1, 9, 9, 1000, 0), (0, 1, 0, 0, 1001, 0),
    ]  # fmt: skip
    for i, (phase, signal, losses, marks, delay_us, age_s) in enumerate(rows):
        lp.maps["flows"].update(
            struct.pack("=Q", i + 1),
            record(phase=phase, delay_source=signal, losses=losses, marks=marks, delay_smoothed_us=delay_us, bytes_acked=2**40,
                   retransmits=7, updated_ns=now - age_s * 10**9),
        )  # fmt: skip
    for form in ("prometheus", "openmetrics"):
        found = samples(ccbpf, form)
        for i, name in enumerate(counters):
            assert of(found, f"{name}_total", controller="tcp_lp") == (i + 1) * kernel.POSSIBLE_CPUS
            assert of(found, f"{name}_total", controller="nf_tcp") == 0
        assert of(found, "live_flows", controller="tcp_lp") == len(rows)
        assert of(found, "live_bytes_acked", controller="tcp_lp") == len(rows) * 2**40
        assert of(found, "live_retransmits", controller="tcp_lp") == len(rows) * 7
        yielding = {to: of(found, "live_flows_yielding", controller="tcp_lp", to=to) for to in ("delay", "mark", "loss")}
        assert yielding == {"delay": 2, "mark": 2, "loss": 1}  # the silent one does not
        for i, word in enumerate(("slow-start", "avoidance", "inference", "recovery", "small")):
            assert of(found, "live_flows_in_phase", controller="tcp_lp", phase=word) == sum(row[0] == i for row in rows)
        limits = {float(dict(k)["le"]): v for (n, k), v in found.items()
                  if n == f"ccbpf_{DELAY}_bucket" and dict(k)["controller"] == "tcp_lp"}  # fmt: skip
        assert limits == {s: sum(row[4] <= s * 1e6 for row in rows) for s in LIMITS_S}
        sum_, count = (of(found, DELAY + end, controller="tcp_lp") for end in SUM_AND_COUNT[form])
        assert sum_ == pytest.approx(sum(row[4] for row in rows) / 1e6) and count == len(rows)
        assert of(found, "controller_enabled", controller="nf_tcp") == 1
        assert of(found, "controller_enabled", controller="ltcp") == 0


def test_flows_are_those_of_ss_and_counters_keep_those_that_end(
    ccbpf: Cli, netns_pair: tuple[kernel.Namespace, kernel.Namespace]
) -> None:
    a, b = netns_pair
    ccbpf("enable", "tcp_lp")
    with kernel.Sink(b, "10.77.0.2") as sink, a.socket() as one, a.socket() as two:
        for sock in (one, two):
            kernel.choose(sock, "tcp_lp")
            sock.connect(sink.address)
            sock.sendall(bytes(1 << 20))
        kernel.eventually(lambda: sink.received == 2 << 20, 10, "all is received")
        settle(ccbpf, one, two)
        for sock in (one, two):
            sock.send(b"x")  # so that the records are of the last ACK

        def agrees() -> bool:
            found, truth = samples(ccbpf), ss(a, sink.address[1]).values()
            return (
                of(found, "live_bytes_acked", controller="tcp_lp") == sum(t["bytes_acked"] for t in truth) > 2 << 20
                and of(found, "live_retransmits", controller="tcp_lp") == sum(t["retransmits"] for t in truth)
                and of(found, "live_flows", controller="tcp_lp") == len(truth) == 2
            )

        kernel.eventually(agrees, 5, "the sums of ss")
    kernel.eventually(lambda: of(samples(ccbpf), "live_flows", controller="tcp_lp") == 0, 10, "the flows have ended")
    found = samples(ccbpf)
    assert of(found, "flows_opened_total", controller="tcp_lp") == of(found, "flows_closed_total", controller="tcp_lp") == 2
    assert of(found, "live_bytes_acked", controller="tcp_lp") == 0


def test_rules_and_runs(ccbpf: Cli, tmp_path: Path) -> None:
    """The rules' counts are those of `assign list`; the run's counts match its command."""
    client = (
        "import socket, sys, time\n"
        "s = socket.create_connection(('127.0.0.1', int(sys.argv[1])))\n"
        "s.sendall(bytes(123456)); s.shutdown(socket.SHUT_WR); s.recv(1); s.close()\n"
        "print('sent', flush=True); sys.stdin.read()\n"
    )
    odd = tmp_path / 'a"b\\c'
    odd.symlink_to(sys.executable)
    ccbpf("enable", "tcp_lp")
    with kernel.Namespace("s") as namespace, kernel.Sink(namespace, "127.0.0.1") as sink:
        port = sink.address[1]
        ccbpf("assign", "tcp_lp", "--remote-port", port, "--netns", namespace.name)
        ccbpf("assign", "--not", "--remote", "192.0.2.0/24")
        with namespace.socket() as sock:
            sock.connect(sink.address)
            assert kernel.chosen(sock) == "tcp_lp"
        process = subprocess.Popen(
            ["ip", "netns", "exec", namespace.name, ccbpf.command, "run", "-q", "tcp_lp", "--", odd, "-c", client, str(port)],
            env=ccbpf.env(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert process.stdout and process.stdin
        assert process.stdout.readline() == "sent\n"
        for form in ("prometheus", "openmetrics"):
            found = samples(ccbpf, form)
            listed = {rule["id"]: rule["counts"] for rule in ccbpf("-j", "assign", "list").json["rules"]}
            assert listed[1]["set"] == 1
            for rule, counts in listed.items():
                for name, value in counts.items():
                    assert of(found, f"rule_connections_{name}_total", rule=str(rule)) == value
            labels = {"rule": "1", "controller": "tcp_lp", "conditions": f"--remote-port {port} --netns {namespace.name}"}
            assert of(found, "rule_connections_set_total", **labels) == 1
            run = {"command": odd.name, "controller": "tcp_lp"}
            assert of(found, "run_connections_total", **run) == 1
            assert of(found, "run_sent_bytes_total", **run) == 123456
            (status,) = ccbpf("-j", "status").json["runs"]
            for metric, key in (("sending", "sending_ns"), ("yielded", "held_ns")):
                ns = status["counts"][key] if "counts" in status else status[key]
                assert of(found, f"run_{metric}_seconds_total", **run) == pytest.approx(ns / 1e9, abs=1e-9)
        process.stdin.close()
        assert process.wait(10) == 0
        process.stdout.close()


DOWNLOAD = 50_000  # more than the first segments, which are of no download


def receive(namespace: kernel.Namespace, server: socket.socket) -> None:
    with namespace.socket() as sock:
        sock.connect(server.getsockname())
        with server.accept()[0] as far:
            far.sendall(bytes(DOWNLOAD))
            left = DOWNLOAD
            while left:
                left -= len(sock.recv(left))


def test_what_rules_did_with_their_connections(ccbpf: Cli, netns_pair: tuple[kernel.Namespace, kernel.Namespace]) -> None:
    """Each connection is counted once, as what was done with it."""
    a, b = netns_pair
    here = ("--netns", a.name, "--remote-port")
    ccbpf("enable", "tcp_lp", "nf_tcp")
    with ExitStack() as stack:
        sinks = [stack.enter_context(kernel.Sink(b, "10.77.0.2")) for _ in range(3)]
        server = stack.enter_context(b.socket())
        server.bind(("10.77.0.2", 0))
        server.listen()
        for port, words in zip([sink.address[1] for sink in sinks], (["tcp_lp"], ["--not"], ["nf_tcp"]), strict=True):
            ccbpf("assign", *words, *here, port)
        ccbpf("assign", "--download", *here, server.getsockname()[1])
        ccbpf("disable", "nf_tcp")
        for sink, own, n in ((sinks[0], "", 2), (sinks[0], "reno", 3), (sinks[1], "", 4), (sinks[2], "", 5)):
            for _ in range(n):
                with a.socket() as sock:
                    if own:
                        kernel.choose(sock, own)
                    sock.connect(sink.address)
        for stamps, n in ((1, 1), (0, 2)):
            a.sysctl(f"net.ipv4.tcp_timestamps={stamps}")
            for _ in range(n):
                receive(a, server)
    expected = {1: {"set": 2, "kept": 3}, 2: {"exempt": 4}, 3: {"refused": 5}, 4: {"receivers": 1, "unstamped": 2}}
    listed = {rule["id"]: rule["counts"] for rule in ccbpf("-j", "assign", "list").json["rules"]}
    found = samples(ccbpf)
    for rule, counts in expected.items():
        assert {name: n for name, n in listed[rule].items() if n} == counts
        for name in listed[rule]:
            assert of(found, f"rule_connections_{name}_total", rule=str(rule)) == counts.get(name, 0), (rule, name)


def test_each_count_of_a_rule_is_that_of_its_map(ccbpf: Cli) -> None:
    """Also those that no connection of a test can make: a connection that the kernel did not mark, or could not hold."""
    before = {shown["id"] for shown in json.loads(kernel.run("bpftool", "-j", "map", "show").stdout)}
    ccbpf("enable", "tcp_lp")
    ccbpf("assign", "tcp_lp", "--remote-port", 9)
    shown = json.loads(kernel.run("bpftool", "-j", "map", "show").stdout)
    (made,) = [found["id"] for found in shown if found.get("name") == "rule_counts" and found["id"] not in before]
    names = [row[0] for row in headers.table("ccbpf/rule.h", "CCBPF_CHOICE_COUNTS", "wv")]
    kernel.Map.by_id(made).update(struct.pack("=I", 1), struct.pack(f"={len(names)}Q", *range(101, 101 + len(names))))
    (rule,) = ccbpf("-j", "assign", "list").json["rules"]
    written = {name: 101 + number for number, name in enumerate(names)}
    found = samples(ccbpf)
    for name, count in rule["counts"].items():
        assert count == of(found, f"rule_connections_{name}_total", rule="1") == written[name], name


def test_queues(line: Line) -> None:
    line.tbf()
    line.aqm("attach", DEV)
    line.send([Frame(dscp=dscp) for dscp in (0, 0, 1, 1, 1)])
    (shown,) = line.ccbpf("-j", "aqm", "show").json["queues"]
    assert sum(c["packets"] for c in shown["classes"].values()) == 5
    netns = str(line.near.inode)
    for form in ("prometheus", "openmetrics"):
        found = samples(line.ccbpf, form)
        for name, counts in shown["classes"].items():
            for what in ("packets", "bytes", "marked", "dropped"):
                assert of(found, f"queue_{what}_total", device=DEV, netns=netns, **{"class": name}) == counts[what]
        below = {float(dict(k)["le"]): v for (n, k), v in found.items() if n == "ccbpf_queue_found_bytes_bucket"}
        ends = [bucket["from_bytes"] - 1.0 for bucket in shown["histogram"][1:]] + [float("inf")]
        sums = [sum(bucket["packets"] for bucket in shown["histogram"][: i + 1]) for i in range(len(ends))]
        assert below == dict(zip(ends, sums, strict=True))
        assert below[float("inf")] == 5
        tc = line.statistics()
        assert sum(v for (n, _), v in found.items() if n == "ccbpf_queue_packets_total") == tc["packets"] + tc["qlen"] == 5
        assert sum(v for (n, _), v in found.items() if n == "ccbpf_queue_bytes_total") == tc["bytes"] + tc["backlog"]


def test_the_dashboard_asks_for_what_is_printed(everything: Cli) -> None:
    """For each query of the dashboard: the metric is printed, with the labels by which it is summed; only counters are read by
    their rate."""
    labels = {name: set(dict(pairs)) for name, pairs in samples(everything, "prometheus", "--units")}
    board = json.loads((kernel.ROOT / "packaging/grafana/ccbpf.json").read_text())
    queries = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    assert len(queries) > 24 and "label_values(ccbpf_build_info, instance)" in str(board["templating"])
    for query in queries:
        by = set(re.findall(r"\w+", " ".join(re.findall(r"by \(([^)]*)\)", query))))
        for name, rated in re.findall(r"(\bccbpf_\w+)\{instance=~\"\$instance\"\}(\[\$__rate_interval\])?", query):
            assert by <= labels[name], query
            assert name.endswith("_total") == bool(rated), query
        assert query.count("ccbpf_") == query.count("$instance"), query


def test_a_file_is_replaced_in_one_step(ccbpf: Cli, tmp_path: Path) -> None:
    target = tmp_path / "ccbpf.prom"
    target.write_text("old\n")
    before = target.stat().st_ino
    assert ccbpf("metrics", "--output", target, umask=0o077).out == ""
    assert target.read_text() == ccbpf("metrics").out
    assert target.stat().st_ino != before
    assert stat.S_IMODE(target.stat().st_mode) == 0o644
    (tmp_path / "directory").mkdir()
    assert "directory" in ccbpf("metrics", "--output", tmp_path / "directory", code=1).err
    for name, why in (("absent/file", "No such file or directory"), ("x" * 300, "File name too long")):
        said = ccbpf("metrics", "--output", tmp_path / name, code=1).err
        assert said == f"ccbpf: cannot print metrics {tmp_path / name}: {why}; make its directory, or name another file\n"
    full = tmp_path / "full"
    full.mkdir()
    kernel.run("mount", "-t", "tmpfs", "-o", "size=4k", "tmpfs", full)
    try:
        (full / "metrics").write_text("old\n")
        assert "No space left" in ccbpf("metrics", "--output", full / "metrics", code=1).err
        assert os.listdir(full) == ["metrics"]
        assert (full / "metrics").read_text() == "old\n"
    finally:
        kernel.run("umount", full)
    assert {path.name for path in tmp_path.iterdir()} == {"ccbpf.prom", "directory", "full"}


def test_what_is_no_file_is_not_replaced(ccbpf: Cli, tmp_path: Path) -> None:
    """The rename would replace /dev/null by a file, or /dev/stdout, which is a link."""
    pipe, link = tmp_path / "pipe", tmp_path / "link"
    os.mkfifo(pipe)
    link.symlink_to("ccbpf.prom")
    for path in (pipe, link):
        assert f"{path}: it is not a regular file" in ccbpf("metrics", "--output", path, code=1).err
    assert pipe.is_fifo() and link.is_symlink()
    assert {path.name for path in tmp_path.iterdir()} == {"pipe", "link"}


def test_another_format_is_refused(ccbpf: Cli) -> None:
    assert "prometheus or openmetrics" in ccbpf("metrics", "--format", "xml", code=2).err
    assert "takes no argument" in ccbpf("metrics", "tcp_lp", code=2).err
