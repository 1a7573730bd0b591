# SPDX-License-Identifier: GPL-2.0-only
"""What `ccbpf metrics` serves, read by a real Prometheus: promtool finds nothing in it, the samples arrive as they are, and the
dashboard's queries, like those of docs/monitoring.md, are answered with data."""

from __future__ import annotations

import contextlib
import json
import re
import socket
import struct
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.parse import quote
from urllib.request import urlopen

import pytest

from tests.functional import kernel
from tests.functional.line import DEV, Frame, Line
from tests.functional.records import record
from tests.functional.samples import samples

PROGRAMS = kernel.ROOT / ".cache/servers/usr/bin"  # unpacked by packaging/deps.sh
CONFIG = """
global: {{scrape_interval: 500ms}}
scrape_configs:
  - job_name: ccbpf
    static_configs: [{{targets: ["127.0.0.1:{port}"]}}]
"""
READY_S = 15.0
IDLE = {  # nothing is sent: the command of the test sends nothing, and its flow is a record alone
    "Commands of ccbpf run: part of the time held back",
    "Part of the time in which the flows gave way",
}


@pytest.fixture
def busy(line: Line) -> Iterator[Line]:
    """Some of all that has metrics: a queue, controllers, a flow that gives way, a rule, a command of `ccbpf run`."""
    line.tbf()
    line.aqm("attach", DEV)
    line.send([Frame(dscp=dscp) for dscp in (0, 1, 1)])
    line.ccbpf("enable", "tcp_lp", "nf_tcp")
    flow = record(phase=2, delay_source=1, delay_smoothed_us=7000, bytes_acked=2**40, updated_ns=time.monotonic_ns() + 60 * 10**9)
    kernel.pinned(line.ccbpf.root, "tcp_lp").maps["flows"].update(struct.pack("=Q", 1), flow)
    line.ccbpf("assign", "tcp_lp", "--remote", "192.0.2.0/24")
    with line.ccbpf.popen("run", "-q", "--", "sh", "-c", "echo; cat", stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin and process.stdout and process.stdout.readline()
        yield line
        process.stdin.close()


@contextlib.contextmanager
def ended(process: subprocess.Popen[Any]) -> Iterator[subprocess.Popen[Any]]:
    try:
        yield process
    finally:
        process.terminate()
        process.wait(10)


class Prometheus:
    def __init__(self, port: int) -> None:
        self.port = port

    def query(self, expression: str) -> list[Any]:
        with urlopen(f"http://127.0.0.1:{self.port}/api/v1/query?query={quote(expression)}", timeout=5) as answer:
            found: list[Any] = json.load(answer)["data"]["result"]
            return found

    def has(self, expression: str) -> bool:
        try:
            return bool(self.query(expression))
        except URLError:  # not yet, or that is no query
            return False


@pytest.fixture
def prometheus(busy: Line, tmp_path: Path) -> Iterator[Prometheus]:
    """One that has read what the command serves several times."""
    with contextlib.ExitStack() as stack:
        serving = busy.ccbpf.popen("-j", "metrics", "--listen", "0", stdout=subprocess.PIPE)
        stack.enter_context(ended(serving))
        assert serving.stdout
        (tmp_path / "prometheus.yml").write_text(CONFIG.format(port=json.loads(serving.stdout.readline())["port"]))
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        words = [PROGRAMS / "prometheus", f"--config.file={tmp_path}/prometheus.yml", f"--storage.tsdb.path={tmp_path}/data",
                 f"--web.listen-address=127.0.0.1:{port}"]  # fmt: skip
        log = stack.enter_context((tmp_path / "log").open("w"))
        stack.enter_context(ended(subprocess.Popen([str(word) for word in words], stdout=log, stderr=log)))
        server = Prometheus(port)
        read_twice = "count_over_time(ccbpf_build_info[1m]) >= 3 and on() up == 1"
        kernel.eventually(lambda: server.has(read_twice), READY_S, "Prometheus has read it")
        yield server


def test_promtool_finds_nothing(busy: Line) -> None:
    text = busy.ccbpf("metrics").out
    done = subprocess.run([PROGRAMS / "promtool", "check", "metrics"], input=text, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    worse = text.replace("ccbpf_cuts_to_one_total", "ccbpf_cuts_to_one")
    assert subprocess.run([PROGRAMS / "promtool", "check", "metrics"], input=worse, capture_output=True, text=True).returncode


def of_dashboard() -> list[tuple[str, str]]:
    """Title and query of each curve, for all instances."""
    board = json.loads((kernel.ROOT / "packaging/grafana/ccbpf.json").read_text())
    return [
        (panel["title"], target["expr"].replace("$instance", ".*").replace("$__rate_interval", "1m"))
        for panel in board["panels"]
        for target in panel["targets"]
    ]


def of_document() -> list[str]:
    """The lines of docs/monitoring.md that are queries."""
    lines = (kernel.ROOT / "docs/monitoring.md").read_text().splitlines()
    return [line.strip() for line in lines if re.match(r"    (sum|histogram_quantile|ccbpf_|increase|time\(\))\W*\w", line)]


def test_prometheus_has_all_of_it(prometheus: Prometheus, busy: Line) -> None:
    """Each sample with its value; each query of the dashboard and of the document is one, with data."""
    truth = samples(busy.ccbpf, "openmetrics")
    found = {}
    for one in prometheus.query('{job="ccbpf", __name__=~"ccbpf_.+"}'):
        labels = {name: value for name, value in one["metric"].items() if name not in ("__name__", "instance", "job")}
        found[one["metric"]["__name__"], frozenset(labels.items())] = float(one["value"][1])
    assert found.keys() == truth.keys() and len(found) > 100
    assert {key: value for key, value in found.items() if value == value} == {k: v for k, v in truth.items() if v == v}  # no NaN

    queries = of_dashboard()
    assert len(queries) > 20
    empty = {title for title, query in queries if not prometheus.query(query)}
    assert empty == IDLE
    (delay,) = [float(one["value"][1]) for title, query in queries if "90 %" in title for one in prometheus.query(query)
                if one["metric"]["controller"] == "tcp_lp"]  # fmt: skip
    assert 0.005 < delay <= 0.01, "of the one flow, whose delay is 7 ms"

    written = of_document()
    assert len(written) == 5
    for query in written:
        prometheus.query(query)
    assert prometheus.query(written[1])
