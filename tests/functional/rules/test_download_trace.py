# SPDX-License-Identifier: GPL-2.0-only
"""`ccbpf trace` shows what the law of a download does, as it happens; and what the shared maps are kept for."""

from __future__ import annotations

import json
import signal
import subprocess
from collections import Counter
from typing import Any

import pytest

from tests.functional import kernel
from tests.functional.conftest import Cli
from tests.functional.rules.background import ENDS_S, PYTHON
from tests.functional.rules.downloads import Reading, received, records, serving, yields
from tests.lab.engine import native

MS_NS = 1_000_000
SHARED = ("flows", "events", "stats", "listener")


def traced(trace: subprocess.Popen[str]) -> tuple[list[dict[str, Any]], str]:
    out, err = trace.communicate(timeout=ENDS_S)
    return [json.loads(line) for line in out.splitlines()], err


@pytest.mark.quiet
@pytest.mark.rerun("a host that stands still is a queue")
def test_the_events_of_a_download(ccbpf: Cli, path: native.Path) -> None:
    """They are those that its record and its run count, in their order."""
    run = ccbpf.popen("-j", "run", "-d", "--", *Reading(9_000_000).at(path), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    kernel.eventually(lambda: (ccbpf.root / "events").exists(), ENDS_S, "the run's maps are pinned")
    trace = ccbpf.popen("-j", "trace", "rx_le", stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    yields(ccbpf, path)
    kernel.eventually(lambda: received(ccbpf) > 8_000_000, ENDS_S, "the rest of the download")
    (record,) = records(ccbpf)
    run.communicate(timeout=ENDS_S)
    trace.send_signal(signal.SIGINT)
    events, err = traced(trace)
    assert ", 0 lost" in err, err
    assert {(e["controller"], e["local_port"], e["remote_port"]) for e in events} == {("rx_le", record["local_port"], 7)}
    assert [e["time_ns"] for e in events] == sorted(e["time_ns"] for e in events)
    met = Counter(e["type"] for e in events)
    assert (met["opened"], met["slow-start-end"], met["closed"]) == (1, 1, 1)
    assert events[0]["type"] == "opened" and abs(events[0]["time_ns"] - record["started_ns"]) < MS_NS
    assert events[-1]["type"] == "closed"
    assert (events[-1]["a"], events[-1]["b"]) == (met["indication"] + met["cut-to-one"], met["loss"])
    assert met["cut-to-one"] >= 1 and met["small-leave"] >= 1, met
    for event in events:
        if event["type"] in ("indication", "cut-to-one"):
            assert event["a"] > event["b"] > 0, event  # the delay, and the threshold
        if event["type"] == "cut-to-one":
            assert event["cwnd"] == 1


def test_without_a_listener_nothing_is_written(ccbpf: Cli) -> None:
    """A later trace has nothing to read of what happened before."""
    with serving("127.0.0.1") as server:
        ccbpf("assign", "--download", "--remote-port", server.port)
        with server.connection():
            assert len(records(ccbpf)) == 1
        assert "0 events" in ccbpf("trace", "--for", "0.3").err


def test_one_run_leaves_the_shared_maps_to_another(ccbpf: Cli) -> None:
    """What a run that ends does not take along is found by `flows`."""
    with ccbpf.popen("-q", "run", "-d", "--", "sleep", "30") as other:
        kernel.eventually(lambda: (ccbpf.root / "runs").exists(), ENDS_S, "the other run")
        ccbpf("-q", "run", "-d", "--", PYTHON, "-c", "")
        ccbpf("clean")
        assert [name for name in SHARED if not (ccbpf.root / name).exists()] == []
        other.terminate()
    assert not ccbpf.root.exists()
