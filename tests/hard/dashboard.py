# SPDX-License-Identifier: GPL-2.0-only
"""The picture of the dashboard in docs/monitoring.md:

    make all && sudo .cache/venv/bin/python -m tests.hard.dashboard docs/dashboard.png

Traffic in two namespaces for a minute and a half, a real Prometheus that reads `ccbpf metrics --listen --units`, and each panel of
packaging/grafana/ccbpf.json drawn from the answers to its own queries. Grafana is not involved.
"""

from __future__ import annotations

import argparse
import io
import math
import re
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests import registry
from tests.functional import kernel
from tests.functional.conftest import Cli
from tests.hard.prometheus import Panel, Prometheus, panels, reading

RATE_MBIT = 20
BUFFER_BYTES = 150_000  # 60 ms
SECONDS = 90.0
SETTLES_S = 10.0  # before that: not in the picture
STEP_S, RATE_INTERVAL = 0.5, "8s"  # Prometheus reads twice a second
COLORS = 256
ROOM = 1.5  # above the curves, for the legend
COLUMNS, PANEL_INCHES, DPI = 2, (5.6, 2.1), 80
MOST_CURVES = 5  # with a name in the legend, none of which is always 0 unless all are
UNITS = {"bps": (1e-6, "Mbit/s"), "percentunit": (100, "%"), "s": (1e3, "ms"), "short": (1, "")}

# Opens a connection, sends for so many seconds, pauses, and begins anew. It begins anew at once if nothing is acknowledged for 2 s: a
# transfer can hang on a kernel that does not run a controller's programs in every interrupt. Without the answer of min_tso_segs()
# such a kernel may send a packet without data. Nobody acknowledges it, and a window of one packet lets nothing else leave.
SENDER = """
import socket, sys, time
port, on_s, off_s = int(sys.argv[1]), float(sys.argv[2]), float(sys.argv[3])
while True:
    try:
        with socket.create_connection(("10.77.0.2", port)) as s:
            s.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 2000)
            end = time.monotonic() + on_s
            while time.monotonic() < end: s.send(bytes(16384))
    except TimeoutError:
        continue
    time.sleep(off_s)
"""


@contextmanager
def traffic(cli: Cli) -> Iterator[None]:
    """A bottleneck with nf_red. In the background: a backup and short transfers by a rule (tcp_lp), and a command of `ccbpf run`
    (nf_tcp, whose packets nf_red marks). In the foreground: a transfer that comes and goes. Another rule is for a controller that
    is not enabled any more: its connections are refused."""
    with kernel.joined() as (near, far), ExitStack() as stack:
        for namespace in (near, far):
            namespace.sysctl("net.ipv4.tcp_ecn=1")
        near.run("tc", "qdisc", "add", "dev", "veth0", "root", "tbf", "rate", f"{RATE_MBIT}mbit", "burst", "5000",
                 "limit", BUFFER_BYTES)  # fmt: skip
        inside = ("ip", "netns", "exec", near.name)
        cli("enable", "tcp_lp", "nf_tcp", "tcp_lp_ecn")
        cli("aqm", "attach", "veth0", prefix=inside)
        backup, run, foreground, refused = (stack.enter_context(kernel.Sink(far, "10.77.0.2")).address[1] for _ in range(4))
        cli("assign", "tcp_lp", "--remote-port", backup, "--netns", near.name)
        cli("assign", "tcp_lp_ecn", "--remote-port", refused, "--netns", near.name)
        cli("disable", "tcp_lp_ecn")

        def send(port: int, on_s: float, off_s: float, *prefix: object) -> None:
            words = (*prefix, sys.executable, "-c", SENDER, port, on_s, off_s)
            stack.callback(kernel.start(near, *words).end)

        send(backup, 3600, 0)
        send(backup, 0.3, 0.7)
        send(run, 2, 0.2, "env", f"CCBPF_PIN_ROOT={cli.root}", cli.command, "run", "-q", "nf_tcp", "--")
        send(foreground, 8, 10)
        send(refused, 0.05, 1)
        yield


def name(legend: str, labels: dict[str, str]) -> str:
    return re.sub(r"\{\{(\w+)\}\}", lambda label: labels.get(label[1], ""), legend).strip()


Curve = tuple[str, list[tuple[float, float]]]  # its name; s, value


def highest(curve: Curve) -> float:
    return max((value for _, value in curve[1] if math.isfinite(value)), default=0)


def draw(shown: list[Panel], prometheus: Prometheus, start: float, end: float, to: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot
    from PIL import Image

    rows = -(-len(shown) // COLUMNS)
    figure, axes = pyplot.subplots(rows, COLUMNS, figsize=(COLUMNS * PANEL_INCHES[0], rows * PANEL_INCHES[1]), squeeze=False)
    for panel, axis in zip(shown, axes.flat, strict=False):
        factor, unit = UNITS[panel.unit]
        curves: list[Curve] = [
            (name(legend, curve["metric"]), [(float(at) - start, factor * float(value)) for at, value in curve["values"]])
            for query, legend in panel.queries
            for curve in prometheus.curves(query, start, end, STEP_S)
        ]
        curves.sort(key=lambda curve: -highest(curve))
        named = [curve for curve in curves if highest(curve)] or curves
        for curve in curves:
            axis.plot(*zip(*curve[1], strict=True), linewidth=1.2, label=curve[0] if curve in named[:MOST_CURVES] else None)
        axis.set_title(panel.title, fontsize=9, loc="left", fontweight="bold")
        axis.set_xlim(0, end - start)
        axis.set_ylim(0, ROOM * max(map(highest, curves), default=0) or 1)
        axis.set_ylabel(unit, fontsize=8)
        axis.tick_params(labelsize=7)
        axis.grid(alpha=0.3)
        if curves:
            axis.legend(fontsize=6.5, loc="upper left", framealpha=0.7)
    for axis in list(axes.flat)[len(shown) :]:
        axis.set_axis_off()
    for axis in axes[-1]:
        axis.set_xlabel("s", fontsize=8)
    figure.suptitle("ccbpf: the background class of TCP. Drawn from the dashboard's queries by tests/hard/dashboard.py, not by Grafana",
                    fontsize=10)  # fmt: skip
    figure.tight_layout(rect=(0, 0, 1, 0.985))
    drawn = io.BytesIO()
    figure.savefig(drawn, dpi=DPI)
    Image.open(drawn).convert("RGB").quantize(COLORS, Image.Quantize.MAXCOVERAGE).save(to, optimize=True)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.hard.dashboard", description="Draw the panels of the dashboard.")
    parser.add_argument("picture", type=Path, help="a PNG")
    parser.add_argument("--seconds", type=float, default=SECONDS, help=f"of traffic (default: {SECONDS:g})")
    given = parser.parse_args()
    with registry.held(), tempfile.TemporaryDirectory() as directory:
        cli = Cli(registry.session_pins(0))
        try:
            with traffic(cli), reading(cli, Path(directory)) as prometheus:
                time.sleep(SETTLES_S)
                start = time.time()
                time.sleep(given.seconds)
                draw(panels(RATE_INTERVAL), prometheus, start, time.time(), given.picture)
        finally:
            cli("clean", "--all")
    return 0


if __name__ == "__main__":
    sys.exit(main())
