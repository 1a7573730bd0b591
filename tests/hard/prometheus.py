# SPDX-License-Identifier: GPL-2.0-only
"""A real Prometheus that reads what `ccbpf metrics --listen` serves, a real node_exporter that reads what `ccbpf metrics --output` writes,
and the queries that this repository has for it."""

from __future__ import annotations

import contextlib
import json
import re
import socket
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.parse import urlencode
from urllib.request import urlopen

from tests.functional import kernel
from tests.functional.conftest import Cli

PROGRAMS = kernel.ROOT / ".cache/servers/usr/bin"  # unpacked by packaging/deps.sh
DASHBOARD = kernel.ROOT / "packaging/grafana/ccbpf.json"
DOCUMENT = kernel.ROOT / "docs/monitoring.md"
CONFIG = """
global: {{scrape_interval: 500ms}}
scrape_configs:
  - job_name: ccbpf
    static_configs: [{{targets: ["127.0.0.1:{port}"]}}]
"""
EXPORTER = "127.0.0.1:9100"  # in a namespace
READY_S = 15.0


@contextlib.contextmanager
def ended(process: subprocess.Popen[Any]) -> Iterator[subprocess.Popen[Any]]:
    try:
        yield process
    finally:
        process.terminate()
        process.wait(10)


@dataclass(frozen=True)
class Prometheus:
    port: int

    def ask(self, what: str, **parameters: object) -> Any:
        with urlopen(f"http://127.0.0.1:{self.port}/api/v1/{what}?{urlencode(parameters)}", timeout=5) as answer:
            return json.load(answer)["data"]

    def query(self, expression: str) -> list[Any]:
        return list(self.ask("query", query=expression)["result"])

    def curves(self, expression: str, start: float, end: float, step: float) -> list[Any]:
        return list(self.ask("query_range", query=expression, start=start, end=end, step=step)["result"])

    def values(self, label: str, metric: str) -> list[Any]:
        """As Grafana asks for label_values(metric, label)."""
        return list(self.ask(f"label/{label}/values", **{"match[]": metric}))

    def has(self, expression: str) -> bool:
        try:
            return bool(self.query(expression))
        except URLError:  # not yet, or that is no query
            return False


@contextlib.contextmanager
def reading(cli: Cli, directory: Path) -> Iterator[Prometheus]:
    """One that has read what the command serves several times; its files are in the directory."""
    with contextlib.ExitStack() as stack:
        serving = cli.popen("-j", "metrics", "--units", "--listen", "0", stdout=subprocess.PIPE)
        stack.enter_context(ended(serving))
        assert serving.stdout
        (directory / "prometheus.yml").write_text(CONFIG.format(port=json.loads(serving.stdout.readline())["port"]))
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        words = [PROGRAMS / "prometheus", f"--config.file={directory}/prometheus.yml", f"--storage.tsdb.path={directory}/data",
                 f"--web.listen-address=127.0.0.1:{port}"]  # fmt: skip
        log = stack.enter_context((directory / "log").open("w"))
        stack.enter_context(ended(subprocess.Popen([str(word) for word in words], stdout=log, stderr=log)))
        server = Prometheus(port)
        read_twice = "count_over_time(ccbpf_build_info[1m]) >= 3 and on() up == 1"
        kernel.eventually(lambda: server.has(read_twice), READY_S, "Prometheus has read it", every_s=0.1)
        yield server


@contextlib.contextmanager
def exporting(namespace: kernel.Namespace, directory: Path) -> Iterator[Callable[[], str]]:
    """node_exporter on the loopback of the namespace, with nothing but the pages in the directory: what it answers."""
    words = [PROGRAMS / "prometheus-node-exporter", f"--web.listen-address={EXPORTER}", "--collector.disable-defaults",
             "--collector.textfile", f"--collector.textfile.directory={directory}", "--web.disable-exporter-metrics"]  # fmt: skip

    def answer() -> str:
        with kernel.inside(namespace.name), urlopen(f"http://{EXPORTER}/metrics", timeout=5) as page:
            text: str = page.read().decode()
            return text

    def listens() -> bool:
        with contextlib.suppress(URLError):
            return bool(answer())
        return False

    inside = ["ip", "netns", "exec", namespace.name, *map(str, words)]
    with ended(subprocess.Popen(inside, stderr=subprocess.DEVNULL)):
        kernel.eventually(listens, READY_S, "node_exporter answers", every_s=0.1)
        yield answer


def promtool(text: str) -> tuple[int, str]:
    """The exit code of `promtool check metrics`, and what it says."""
    done = subprocess.run([PROGRAMS / "promtool", "check", "metrics"], input=text, capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


@dataclass(frozen=True)
class Panel:
    title: str
    unit: str
    queries: tuple[tuple[str, str], ...]  # of each curve: the query, for all instances, and its legend


def panels(rate_interval: str = "1m") -> list[Panel]:
    """Those of the dashboard, in the order in which it shows them; what Grafana would take for $__rate_interval."""
    board = json.loads(DASHBOARD.read_text())
    rows = sorted(board["panels"], key=lambda panel: (panel["gridPos"]["y"], panel["gridPos"]["x"]))

    def filled(expression: str) -> str:
        return expression.replace("$instance", ".*").replace("$__rate_interval", rate_interval)

    return [
        Panel(
            panel["title"],
            panel["fieldConfig"]["defaults"]["unit"],
            tuple((filled(target["expr"]), target["legendFormat"]) for target in panel["targets"]),
        )
        for panel in rows
    ]


def documented() -> list[str]:
    """The lines of code in docs/monitoring.md, between the list of the metrics and the dashboard: all are queries."""
    part = DOCUMENT.read_text().partition("### What it shows")[2].partition("### A dashboard")[0]
    return [line.strip() for line in part.splitlines() if re.match(r" {4}\S", line)]
