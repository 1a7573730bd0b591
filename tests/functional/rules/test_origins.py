# SPDX-License-Identifier: GPL-2.0-only
"""`ccbpf flows` and `ccbpf status` say which rule or run gave a flow its controller, in which cgroup, and whose socket it is."""

from __future__ import annotations

import os
import re
import socket
from pathlib import Path
from typing import Any

from tests.cgroups import MOUNT
from tests.functional import kernel
from tests.functional.conftest import CCBPF, Cli
from tests.functional.kernel import Namespace
from tests.functional.rules.background import BACKGROUND, PYTHON, Sinks

UNIQUE = f"ccbpf-test-{os.getpid()}"


def flow_of(cli: Cli, port: int) -> dict[str, Any]:
    """The flow from this local port."""
    found: dict[str, Any] = next(flow for flow in cli("-j", "flows").json["flows"] if flow["local_port"] == port)
    return found


def origin_of(cli: Cli, port: int) -> Any:
    return flow_of(cli, port)["origin"]


def row_of(cli: Cli, port: int) -> str:
    """The same for a person, with the lines below it."""
    lines = cli("-v", "flows").out.splitlines()
    (at,) = (i for i, line in enumerate(lines) if f"127.0.0.1:{port} " in line)
    return "\n".join(lines[at : at + 4])


def test_a_rule_a_run_and_neither(run: Cli, sinks: Sinks) -> None:
    run("assign", "--remote-port", sinks.port)
    name = Path(PYTHON).resolve().name[:15]
    with (
        sinks.held() as (pid, ruled),
        sinks.held(str(CCBPF), "run", "-q", env=run.env()) as (_, led),
        socket.socket() as own,
    ):
        kernel.choose(own, BACKGROUND)
        own.connect(("127.0.0.1", sinks.port))
        rule = origin_of(run, ruled)
        (process,) = rule.pop("processes")
        assert rule == {"by": "rule", "id": 1, "of": f"--remote-port {sinks.port}", "cgroup": "/"}
        assert process["pid"] == pid and process["name"].startswith("python")
        origin = origin_of(run, led)
        assert (origin["by"], origin["id"], origin["of"]) == ("run", 1, Path(PYTHON).name)
        assert re.fullmatch(r"/ccbpf-run-1-\d+", origin["cgroup"])
        assert origin_of(run, own.getsockname()[1]) is None
        assert f"by rule 1 (--remote-port {sinks.port}); cgroup /; process {process['name']} ({pid})" in row_of(run, ruled)
        assert f"by run 1 ({name[:6]}" in row_of(run, led) and "cgroup /ccbpf-run-1-" in row_of(run, led)
        assert " by " not in row_of(run, own.getsockname()[1]).splitlines()[0]
        assert row_of(run, own.getsockname()[1]).splitlines()[0].endswith(" -")
        assert run.status()[BACKGROUND]["origins"] == [{"by": "rule", "id": 1, "flows": 1}, {"by": "run", "id": 1, "flows": 1}]
        assert f"{BACKGROUND}: 1 flow by rule 1, 1 by run 1\n" in run("status").out


def test_other_rules_do_not_forget_it(run: Cli, sinks: Sinks) -> None:
    """Another set of rules is another program."""
    run("assign", "tcp_lp", "--remote-port", sinks.port)
    with sinks.held() as (_, port):
        run("assign", "tcp_lp", "--remote", "192.0.2.0/24")
        assert origin_of(run, port)["id"] == 1 and origin_of(run, port)["of"]
        run("assign", "remove", "1")
        assert origin_of(run, port)["id"] == 1 and origin_of(run, port)["of"] is None
        assert "by rule 1 (removed)" in row_of(run, port)
        run("assign", "remove", "--all")
        run("assign", "le", "--remote", "192.0.2.0/24")  # has the same id
        assert origin_of(run, port)["id"] == 1 and origin_of(run, port)["of"] is None


def test_after_renice_it_is_nobodys(run: Cli, sinks: Sinks) -> None:
    """The socket still remembers its rule or run, but has another controller than these give."""
    run("assign", "le", "--remote-port", sinks.port)
    run("enable", "tcp_lp")
    with sinks.held() as (_, ruled), sinks.held(str(CCBPF), "run", "-q", env=run.env()) as (_, led):
        given = {ruled: "rule", led: "run"}
        for port, by in given.items():
            assert origin_of(run, port)["by"] == by
            run("renice", "tcp_lp", "--port", port)
            assert flow_of(run, port)["controller"] == "tcp_lp"
            assert origin_of(run, port) is None and not row_of(run, port).splitlines()[0].endswith(f" {by} 1")
        assert run.status()["tcp_lp"]["origins"] == run.status()["le"]["origins"] == []
        assert "flow by" not in run("status").out
        for port, by in given.items():
            run("renice", "le", "--port", port)
            assert (origin_of(run, port)["by"], origin_of(run, port)["id"]) == (by, 1)
        assert run.status()["le"]["origins"] == [{"by": by, "id": 1, "flows": 1} for by in given.values()]


def test_in_which_cgroup_and_by_whom(run: Cli, sinks: Sinks) -> None:
    """A cgroup that is removed has no name any more; for a shared socket all processes are named."""
    here = MOUNT / UNIQUE / "a.service"
    here.mkdir(parents=True)
    run("assign", "tcp_lp", "--cgroup", f"/{UNIQUE}")
    try:
        within = ("sh", "-c", f'echo $$ > {here}/cgroup.procs; exec "$@"', "sh")
        with sinks.held(*within, forks=1) as (pid, port):
            origin = origin_of(run, port)
            assert origin["cgroup"] == f"/{UNIQUE}/a.service"
            less = run("-v", "flows", prefix=("setpriv", "--bounding-set=-dac_read_search")).out
            assert "cgroup unknown; process" in less, "one that only may not be named is not gone"
            pids = [process["pid"] for process in origin["processes"]]
            assert pid in pids and len(pids) == 2 and "and 1 more" in row_of(run, port)
            for moved in pids:
                (MOUNT / "cgroup.procs").write_text(str(moved))
            here.rmdir()
            assert origin_of(run, port)["cgroup"] is None and "cgroup gone" in row_of(run, port)
    finally:
        for path in (here, here.parent):
            if path.exists():
                path.rmdir()


def test_in_another_namespace(run: Cli, netns_pair: tuple[Namespace, Namespace]) -> None:
    near, far = netns_pair
    with far.socket() as server, near.socket() as client:
        server.bind(("10.77.0.2", 0))
        server.listen()
        run("assign", "tcp_lp", "--remote-port", server.getsockname()[1])
        client.connect(server.getsockname())
        with server.accept()[0]:
            origin = origin_of(run, client.getsockname()[1])
            assert origin["id"] == 1 and os.getpid() in [process["pid"] for process in origin["processes"]]
