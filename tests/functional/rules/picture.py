# SPDX-License-Identifier: GPL-2.0-only
"""python -m tests.functional.rules.picture FILE: a picture of `ccbpf top` at work, as SVG; about 20 s, as root.

Two units share a bottleneck of 20 Mbit/s with a cubic flow, which starts last: a backup with two processes under `le`, and a
mirror under `tcp_lp`. Their transfers are iperf3's, and their cgroups are those of units by name only. The picture is what
a terminal of 80 columns and 24 lines shows then. Nothing stays behind.
"""

from __future__ import annotations

import argparse
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests import registry
from tests.cgroups import MOUNT, remove_cgroup
from tests.functional import svg
from tests.functional.conftest import Cli
from tests.functional.tmux import Tmux
from tests.lab.engine import native
from tests.lab.engine.experiment import Link

WIDTH, HEIGHT = 80, 24
LINK = Link(rate_mbit=20, rtt_ms=40)
UNITS = {"backup.service": ("le", (3, 1)), "mirror.service": ("tcp_lp", (2,))}  # its controller; connections of each process
PROCESSES = sum(len(processes) for _, processes in UNITS.values())
ALONE_S, BESIDE_S = 6.0, 5.0
TITLE = "ccbpf top: flows of two units, of which most give way to a foreground flow"
PORT = 5201


def transfer(path: native.Path, port: int, *words: str, cgroup: Path | None = None) -> native.Child:
    """iperf3 to a server of its own, in a cgroup. `ip netns exec` has a /sys of its own, so the cgroup comes before it."""
    server = path.start(path.receiver, "iperf3", "-s", "-1", "-p", str(port), "--forceflush")

    def listens() -> bool:
        return any("listening" in line for line in server.lines)

    server.drain(20.0, until=listens)
    assert listens(), f"iperf3 does not listen on port {port}"
    enter = f"echo $$ > {cgroup}/cgroup.procs; " if cgroup else ""
    client = ["ip", "netns", "exec", path.sender, "iperf3", "-c", native.RECEIVER[4], "-p", str(port), "-t", "60", *words]
    return native.Child(["sh", "-c", f'{enter}exec "$@"', "sh", *client])


@contextmanager
def units(cli: Cli, slice_: str) -> Iterator[dict[str, Path]]:
    """The cgroups, each with a rule."""
    top = MOUNT / slice_
    top.mkdir()
    try:
        made = {name: top / name for name in UNITS}
        for name, (controller, _) in UNITS.items():
            made[name].mkdir()
            cli("enable", controller)
            cli("assign", controller, "--cgroup", f"/{slice_}/{name}")
        yield made
    finally:
        remove_cgroup(top)


def whole(lines: list[str]) -> bool:
    """The screen shows both units and all of their processes."""
    text = "\n".join(lines)
    return all(f"/{name}: " in text for name in UNITS) and text.count("- iperf3 (") == PROCESSES


def photograph(cli: Cli, slice_: str, alone_s: float = ALONE_S, beside_s: float = BESIDE_S) -> str:
    """The picture. `slice_`: a cgroup that is made for it, below the root."""
    port = PORT
    with units(cli, slice_) as cgroups, native.Path(LINK) as path, ExitStack() as transfers:
        with Tmux([str(cli.command), "top"], WIDTH, HEIGHT, cli.env() | {"NO_COLOR": ""}) as screen:
            for name, (_, processes) in UNITS.items():
                for connections in processes:
                    it = transfer(path, port, "-P", str(connections), cgroup=cgroups[name])
                    transfers.callback(it.end)
                    port += 1
            time.sleep(alone_s)
            transfers.callback(transfer(path, port, "-C", "cubic").end)
            time.sleep(beside_s)
            return svg.picture(screen.until(whole, "both units and their processes", styles=True), WIDTH, TITLE)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.functional.rules.picture", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)  # fmt: skip
    parser.add_argument("file", type=Path, metavar="FILE")
    file = parser.parse_args().file
    for number in (signal.SIGTERM, signal.SIGHUP):  # as Ctrl-C: what was made is removed
        signal.signal(number, signal.default_int_handler)
    native.require()
    with registry.held():
        cli = Cli(registry.session_pins("picture"))
        try:
            file.write_text(photograph(cli, "bg.slice"))
        finally:
            cli.run("clean", "--all")
    print(f"{file}: {file.stat().st_size} bytes", file=sys.stderr)


if __name__ == "__main__":
    main()
