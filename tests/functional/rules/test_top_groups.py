# SPDX-License-Identifier: GPL-2.0-only
"""ccbpf top: flows by controller, cgroup and process: of a rule, of a run, and of a program that chose for itself.

A record without a socket stands for a flow that no process holds any more.
"""

from __future__ import annotations

import ipaddress
import os
import re
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.cgroups import MOUNT, remove_cgroup
from tests.functional import kernel
from tests.functional.conftest import CCBPF, Cli
from tests.functional.records import flows_of
from tests.functional.rules.background import BACKGROUND, Sinks
from tests.functional.tmux import Tmux
from tests.functional.top import NO_COOKIE, put, shown

ORPHAN = 40000  # its local port: a flow of which nothing is known


@contextmanager
def three(run: Cli, sinks: Sinks) -> Iterator[tuple[str, int, int, int]]:
    """Flows of a rule (in this cgroup), of a run, and of this process: the first one's process, and their ports."""
    run("assign", "--remote-port", sinks.port)
    with (
        sinks.held() as (pid, ruled),
        sinks.held(str(CCBPF), "run", "-q", env=run.env()) as (_, led),
        socket.socket() as own,
        flows_of(run) as flows,
    ):
        kernel.choose(own, BACKGROUND)
        own.connect(("127.0.0.1", sinks.port))
        put(flows, NO_COOKIE, kind=kernel.KINDS[BACKGROUND], controller=BACKGROUND.encode(), remote_port=1,
            local_addr=ipaddress.ip_address("127.0.0.1"), started_ns=2**63)  # fmt: skip
        yield f"{Path(f'/proc/{pid}/comm').read_text().strip()} ({pid})", ruled, led, own.getsockname()[1]


def own_name() -> str:
    return f"{Path('/proc/self/comm').read_text().strip()} ({os.getpid()})"


def own_cgroup() -> str:
    (path,) = [line[3:] for line in Path("/proc/self/cgroup").read_text().splitlines() if line.startswith("0::")]
    return path


def groups(lines: list[str]) -> dict[str, list[int]]:
    """The local ports below the line of each group."""
    found: dict[str, list[int]] = {}
    for line in lines[3:]:
        if head := re.match(r"[-+] (.+?): \d+ flow", line):
            ports = found.setdefault(head[1], [])
        elif port := re.search(r" 127\.0\.0\.1:(\d+) ", line):
            ports.append(int(port[1]))
    return found


def of_processes(lines: list[str]) -> bool:
    """No group of a cgroup is left on the screen: a busy machine may show a half-drawn picture for long."""
    return all(name == "unknown" or re.fullmatch(r".+ \(\d+\)", name) for name in groups(lines))


def test_groups_on_the_screen(run: Cli, sinks: Sinks) -> None:
    with three(run, sinks) as (process, ruled, led, own), shown(run, 200, 60, "--sort", "age") as screen:
        lines = screen.until(lambda lines: "4 flows" in lines[0], "the flows")
        assert groups(lines) == {BACKGROUND: [ruled, led, own, ORPHAN]} and "CONTROLLER" not in lines[2]
        screen.keys("g", "g")  # the tree comes between
        lines = screen.until(lambda lines: lines[1].startswith("grouped by cgroup, sorted by age"), "by cgroup")
        (cgroup,) = [name for name in groups(lines) if name.startswith("/ccbpf-run-1-")]
        assert groups(lines) == {own_cgroup(): [ruled, own], cgroup: [led], "unknown": [ORPHAN]}
        assert lines[2].split()[0] == "CONTROLLER" and lines[4].split()[0] == BACKGROUND
        assert list(groups(lines))[-1] == "unknown"
        screen.keys("g")
        lines = screen.until(lambda lines: lines[1].startswith("grouped by process") and of_processes(lines), "by process")
        (other,) = [name for name in groups(lines) if name not in (process, own_name(), "unknown")]
        assert groups(lines) == {process: [ruled], other: [led], own_name(): [own], "unknown": [ORPHAN]}
        assert re.fullmatch(r".+ \(\d+\)", other)
        screen.keys("End", "-")
        screen.until(
            lambda lines: groups(lines) == {process: [ruled], other: [led], own_name(): [own], "unknown": []}, "one is folded"
        )
        screen.keys("a")
        screen.until(
            lambda lines: groups(lines) == {process: [ruled], other: [led], own_name(): [own], "unknown": [ORPHAN]}, "none is"
        )
        screen.keys("a", "Home", "Enter")
        screen.until(lambda lines: sum(map(len, groups(lines).values())) == 1, "all but the first one")
        screen.keys("g")
        lines = screen.until(lambda lines: lines[1].startswith("grouped by controller"), "by controller again")
        assert groups(lines) == {BACKGROUND: [ruled, led, own, ORPHAN]}  # other groups: nothing is folded
        screen.resize(80, 24)
        screen.keys("g", "g")
        lines = screen.until(lambda lines: lines[1].startswith("grouped by cgroup, ") and len(lines) == 24, "a small screen")
        assert lines[2].split() == ["REMOTE", "BIT/S", "CWND", "DELAY", "PHASE", "YIELD", "FOR", "PART"]
        assert max(map(len, lines)) <= 80
        screen.keys("q")
        assert screen.ended() == 0


def test_groups_of_batches(run: Cli, sinks: Sinks) -> None:
    with three(run, sinks) as (process, ruled, led, own):
        for by, first in (("cgroup", own_cgroup()), ("process", process)):
            batch = run("top", "-bj", "--watch", "0.05", "--count", 1, "--group", by, "--sort", "age").json
            assert [(c["controller"], c["n_flows"]) for c in batch["controllers"]] == [(BACKGROUND, 4)]
            of = {f["local_port"]: f["group"] for f in batch["flows"]}
            assert of | {led: ""} == {ruled: first, led: "", own: own_name() if by == "process" else first, ORPHAN: None}
            assert batch["groups"][-1]["group"] is None and sum(group["n_flows"] for group in batch["groups"]) == 4
            assert {group["group"] for group in batch["groups"]} == {f["group"] for f in batch["flows"]}
            table = run("top", "-b", "--watch", "0.05", "--count", 1, "--group", by).out.splitlines()
            assert table[0].split()[:2] == [by.upper(), "CONTROLLER"]
            assert table[4].split()[:2] == ["-", BACKGROUND]
            assert table[-4:] == [*table[-4:-3], "unknown: 1 flow, 0 bit/s, 0 yield", "4 flows, 0 bit/s, 0 yield", ""]
            assert len(table) == 7 + len(batch["groups"])
        assert "group" not in run("top", "-bj", "--watch", "0.05", "--count", 1, "--group", "controller").json["flows"][0]


def test_what_its_process_has_closed_keeps_its_cgroup(run: Cli) -> None:
    """The kernel still sends what the process wrote."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        run("assign", "--remote-port", server.getsockname()[1])
        with socket.create_connection(server.getsockname()) as near:
            port = near.getsockname()[1]
            near.settimeout(0.2)
            with pytest.raises(TimeoutError):
                near.sendall(bytes(1 << 26))
        for by, group in (("cgroup", own_cgroup()), ("process", None)):
            (flow,) = run("top", "-bj", "--watch", "0.05", "--count", 1, "--group", by).json["flows"]
            assert (flow["local_port"], flow["group"]) == (port, group)
        (tree,) = run("top", "-bj", "--watch", "0.05", "--count", 1, "--group", "tree").json["groups"]
        assert (tree["cgroup"], tree["n_flows"], tree["processes"]) == (own_cgroup(), 1, [])
        (flow,) = run("-j", "flows").json["flows"]
        assert (flow["origin"]["cgroup"], flow["origin"]["processes"]) == (own_cgroup(), [])
        assert "process unknown" in run("-v", "flows").out


def test_the_filter_knows_cgroups_and_processes(run: Cli, sinks: Sinks) -> None:
    """Also where neither is shown."""
    with three(run, sinks) as (process, ruled, led, own):
        for text, ports in (("/CCBPF-run-1-", [led]), (process, [ruled]), (own_name(), [own]), (f"{own_cgroup()}x", []),
                            (":40000", [ORPHAN]), (BACKGROUND, [ruled, led, own, ORPHAN])):  # fmt: skip
            words = ("top", "-bj", "--watch", "0.05", "--count", 1, "--sort", "age", "--group", "controller", "--filter", text)
            assert [flow["local_port"] for flow in run(*words).json["flows"]] == ports, text
        with shown(run, 80, 24, "--sort", "age", "--group", "controller") as screen:
            screen.until(lambda lines: "4 flows" in lines[0], "the flows")
            screen.keys("/", *"ccbpf-run", "Enter")
            lines = screen.until(lambda lines: "filter: ccbpf-run" in lines[1] and "1 flow," in lines[0], "that of the run")
            assert lines[3].startswith(f"- {BACKGROUND}: 1 flow, ")


def to_detail(screen: Tmux, port: int) -> None:
    """From the list, with the cursor on its first line."""
    lines = screen.until(lambda lines: f":{port} " in "".join(lines), "the flow")
    (at,) = (i for i, line in enumerate(lines) if f" 127.0.0.1:{port} " in line)
    screen.keys("Home", *["Down"] * (at - 3), "Enter")
    screen.until(lambda lines: f" 127.0.0.1:{port} to " in lines[0], "its detail")


def test_the_detail_says_whose_it_is_also_when_it_has_ended(run: Cli, sinks: Sinks) -> None:
    run("assign", "--remote-port", sinks.port)
    with shown(run, 200, 60) as screen:
        with sinks.held() as (pid, port):
            to_detail(screen, port)
            notes = [" ".join(line.split()) for line in run("-v", "flows").out.splitlines()[2:5]]
            assert notes[2].startswith(f"by rule 1 (--remote-port {sinks.port}); cgroup /; process ") and notes[2].endswith(
                f"({pid})"
            )
            lines = screen.until(lambda lines: "by rule 1" in "".join(lines), "whose it is")
            said = " ".join(" ".join(lines).split())
            for note in notes:
                assert note in said
            screen.resize(80, 24)
            screen.until(lambda lines: len(lines) == 24 and f"({pid})" in "".join(lines), "all of it on a small screen")
        lines = screen.until(lambda lines: re.search(r", ended [1-9] s ago$", lines[0]), "it has ended")
        assert "by rule 1" in "".join(lines) and f"({pid})" in "".join(lines)
        screen.keys("Escape", "g", "g", "g")
        lines = screen.until(lambda lines: lines[1].startswith("grouped by process") and of_processes(lines), "by process")
        assert "0 flows, 0 bit/s, 0 yield, 1 ended" in lines[0]


def test_the_detail_of_a_flow_that_its_program_chose(run: Cli, sinks: Sinks) -> None:
    said = f"by no rule, run or unit; cgroup {own_cgroup()}; process {own_name()}"
    with three(run, sinks) as (_, _, _, port):
        with shown(run, 200, 60) as screen:
            to_detail(screen, port)
            screen.until(lambda lines: said in " ".join(" ".join(lines).split()), "whose it is")
        assert said in " ".join(run("-v", "flows").out.split())


def test_a_group_keeps_its_name_when_its_process_ends(run: Cli, sinks: Sinks) -> None:
    run("assign", "--remote-port", sinks.port)
    with shown(run, 80, 24, "--group", "process") as screen:
        with sinks.held() as (pid, _):
            screen.until(lambda lines: re.match(rf"- .+ \({pid}\): 1 flow, ", lines[3]), "the process")
        lines = screen.until(lambda lines: "1 ended" in lines[0], "it has ended")
        assert re.match(rf"- .+ \({pid}\): 0 flows, .*, 1 ended", lines[3])


def test_a_long_name_is_shortened(run: Cli, sinks: Sinks) -> None:
    """There is room for the sums beside it."""
    here = MOUNT / ("ccbpf-test-" + "long-" * 30)
    here.mkdir()
    run("assign", "--cgroup", f"/{here.name}")
    try:
        within = ("sh", "-c", f'echo $$ > {here}/cgroup.procs; exec "$@"', "sh")
        with sinks.held(*within), shown(run, 80, 24, "--group", "cgroup") as screen:
            lines = screen.until(lambda lines: lines[3].startswith("- /ccbpf-test-long"), "the cgroup")
            assert re.fullmatch(r"- /ccbpf-test-long-\S*~\S*long-: 1 flow, 0 bit/s, 0 yield", lines[3]) and len(lines[3]) == 80
    finally:
        remove_cgroup(here)
