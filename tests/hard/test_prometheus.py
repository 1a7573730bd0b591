# SPDX-License-Identifier: GPL-2.0-only
"""What `ccbpf metrics` serves, read by a real Prometheus: promtool finds nothing in it, the samples arrive as they are, and the
queries of the dashboard and of docs/monitoring.md are answered with data, of real traffic. What it writes, read by a real node_exporter."""

from __future__ import annotations

import os
import struct
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.cgroups import MOUNT, remove_cgroup
from tests.functional import kernel
from tests.functional.conftest import Cli
from tests.functional.line import DEV, Frame, Line
from tests.functional.records import record
from tests.functional.samples import Samples, samples, samples_of
from tests.hard.dashboard import RATE_MBIT, draw, traffic
from tests.hard.prometheus import Prometheus, documented, exporting, panels, promtool, reading

ANSWERED_S = 40.0  # until there are two samples of all, and the foreground has come
DIGITS = 9  # of a part: Prometheus extrapolates both rates of the quotient, and 1.0000000000000007 was seen
OF_NODE_EXPORTER = 'time() - node_textfile_mtime_seconds{file=~".*ccbpf.prom"} > 300'
UNIT = MOUNT / f"ccbpf-test-prometheus-{os.getpid()}"


@pytest.fixture
def still(line: Line) -> Iterator[Cli]:
    """Some of all that has metrics, none of which changes: a queue, controllers, a flow that gives way, a unit, a rule, a command of
    `ccbpf run`."""
    cli = line.ccbpf
    line.tbf()
    line.aqm("attach", DEV)
    line.send([Frame(dscp=dscp) for dscp in (0, 1, 1)])
    cli("enable", "tcp_lp", "nf_tcp")
    flow = record(phase=2, delay_source=1, delay_smoothed_us=7000, bytes_acked=2**40, updated_ns=time.monotonic_ns() + 60 * 10**9)
    kernel.pinned(cli.root, "tcp_lp").maps["flows"].update(struct.pack("=Q", 1), flow)
    cli("assign", "tcp_lp", "--remote", "192.0.2.0/24")
    units = kernel.Map.by_pin(cli.root / "unit_totals")
    UNIT.mkdir()
    try:
        key = struct.pack("=QII", UNIT.stat().st_ino, kernel.KINDS["tcp_lp"], 0)
        units.update(key, struct.pack("=9Q", *range(1, 10)))
        with cli.popen("run", "-q", "--", "sh", "-c", "echo; cat", stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
            assert process.stdin and process.stdout and process.stdout.readline()
            yield cli
            process.stdin.close()
    finally:
        units.close()
        remove_cgroup(UNIT)


def test_promtool_finds_nothing(still: Cli) -> None:
    text = still("metrics", "--units").out
    assert f'ccbpf_unit_flows_total{{unit="/{UNIT.name}",controller="tcp_lp"}} 1\n' in text
    assert promtool(text) == (0, "")
    assert promtool(text.replace("ccbpf_unit_flows_total", "ccbpf_unit_flows"))[0]


def test_prometheus_has_each_sample(still: Cli, tmp_path: Path) -> None:
    with reading(still, tmp_path) as prometheus:
        truth = samples(still, "openmetrics", "--units")
        found = {}
        for one in prometheus.query('{job="ccbpf", __name__=~"ccbpf_.+"}'):
            labels = {name: value for name, value in one["metric"].items() if name not in ("__name__", "instance", "job")}
            found[one["metric"]["__name__"], frozenset(labels.items())] = float(one["value"][1])
        assert not found.keys() ^ truth.keys() and len(found) > 100
        assert {key: value for key, value in found.items() if value == value} == {
            k: v for k, v in truth.items() if v == v
        }  # no NaN
        (query,) = [query for query in documented() if "(controller, le)" in query]
        (delay,) = [float(one["value"][1]) for one in prometheus.query(query) if one["metric"]["controller"] == "tcp_lp"]
        assert 0.005 < delay <= 0.01, "of the one flow, whose delay is 7 ms"


def as_numbers(found: Samples) -> Samples:
    """With numbers as numbers, also the bounds of histograms: node_exporter writes 1048575.0 as 1.048575e+06."""
    return {
        (name, frozenset((label, str(float(value)) if label == "le" else value) for label, value in labels)): float(sample)
        for (name, labels), sample in found.items()
    }


def test_node_exporter_has_each_sample(still: Cli, line: Line, tmp_path: Path) -> None:
    """Of the page that the timer writes, as the textfile collector reads it."""
    page = tmp_path / "ccbpf.prom"
    still("metrics", "--units", "--output", page)
    truth = as_numbers(samples_of(page.read_text()))
    with exporting(line.near, tmp_path) as answer:
        families = text_string_to_metric_families(answer())
        found = as_numbers(
            {(one.name, frozenset(one.labels.items())): one.value for family in families for one in family.samples}
        )
    assert len(truth) > 100 and truth.keys() <= found.keys()
    assert not [key for key, value in truth.items() if repr(found[key]) != repr(value)]  # some are NaN
    assert found["node_textfile_scrape_error", frozenset()] == 0
    assert int(found["node_textfile_mtime_seconds", frozenset({("file", str(page))})]) == int(page.stat().st_mtime)


def test_each_query_is_answered_with_data(ccbpf: Cli, tmp_path: Path) -> None:
    """A foreground and several flows in the background share a bottleneck."""
    queries = [query for panel in panels() for query, _ in panel.queries]
    written = [query for query in documented() if query != OF_NODE_EXPORTER]
    assert len(queries) > 24 and len(written) >= 8 and OF_NODE_EXPORTER in documented()
    began = time.time()
    with traffic(ccbpf), reading(ccbpf, tmp_path) as prometheus:
        left = [*queries, *written]

        def answered() -> bool:
            left[:] = [query for query in left if not prometheus.query(query)]
            return not left

        try:
            kernel.eventually(answered, ANSWERED_S, "all are answered", every_s=0.5)
        except AssertionError:
            raise AssertionError(f"without data: {left}") from None
        prometheus.query(OF_NODE_EXPORTER)  # whose metric is node_exporter's: it is a query
        assert len(prometheus.values("instance", "ccbpf_build_info")) == 1, "the dashboard's variable"
        parts = gives_way(prometheus)
        assert parts.keys() >= {"tcp_lp", "nf_tcp"} and all(0 <= part <= 1 for part in parts.values())
        kernel.eventually(lambda: gives_way(prometheus)["tcp_lp"] > 0, ANSWERED_S, "it gives way to the foreground", 0.5)
        (sent,) = [float(one["value"][1]) for one in prometheus.query("8 * sum(rate(ccbpf_bytes_acked_total[1m]))")]
        assert 0 < sent < RATE_MBIT * 1e6
        picture = tmp_path / "dashboard.png"
        draw(panels(), prometheus, began, time.time(), picture)
        assert picture.read_bytes().startswith(b"\x89PNG")


def gives_way(prometheus: Prometheus) -> dict[str, float]:
    """The part of the time in which the flows of each controller gave way, as the dashboard asks for it."""
    (panel,) = [panel for panel in panels() if panel.title == "Part of the time in which the flows gave way"]
    return {one["metric"]["controller"]: round(float(one["value"][1]), DIGITS) for one in prometheus.query(panel.queries[0][0])}
