# SPDX-License-Identifier: GPL-2.0-only
"""What downloads have done, those that have ended included: `ccbpf metrics` by controller (rx_le), cgroup and rule, and
`ccbpf assign list`. Its truth is what the program received, and what `ccbpf run` counts by itself."""

from __future__ import annotations

import re
import subprocess

import pytest

from tests.functional import kernel
from tests.functional.conftest import Cli
from tests.functional.rules.background import ENDS_S, account
from tests.functional.rules.downloads import (
    BYTES,
    LEAST,
    Bottleneck,
    Reading,
    Server,
    cgroup,
    has_all,
    held,
    received,
    records,
    rules,
)
from tests.functional.samples import Samples, of, samples

RX = {"controller": "rx_le"}


def units(ccbpf: Cli) -> Samples:
    return samples(ccbpf, "prometheus", "--units")


def test_they_keep_what_ended_by_rule_and_unit(ccbpf: Cli, server: Server) -> None:
    ccbpf("assign", "--download", "--remote-port", server.port)
    with cgroup() as (path, prefix):
        for times in (1, 2):
            with held(server, *prefix):
                pass
            kernel.eventually(lambda: not records(ccbpf), ENDS_S, "the record goes")
            found = units(ccbpf)
            for labels, name in ((RX, ""), (RX | {"rule": "1"}, "rule_"), (RX | {"unit": path}, "unit_")):
                assert of(found, f"{name}bytes_acked_total", **labels) == times * LEAST, name
            assert of(found, "flows_opened_total", **RX) == of(found, "unit_flows_total", unit=path) == times
            (rule,) = rules(ccbpf)
            assert (rule["received"]["flows"], rule["received"]["bytes_acked"]) == (times, times * LEAST)
            assert rule["totals"]["flows"] == 0
    shown = ccbpf("-v", "assign", "list").out
    assert re.search(rf"^ +received {2 * LEAST // 1000}\S* kB; yielded", shown, re.M) and "sent" not in shown
    ccbpf("assign", "remove", "--all")
    ccbpf("assign", "--download", "--remote-port", server.port)
    assert rules(ccbpf)[0]["received"]["flows"] == 0, "a rule of the same id begins anew"


@pytest.mark.quiet
def test_they_are_those_of_the_run(ccbpf: Cli, path: Bottleneck) -> None:
    """Beside a foreground, so it yields: `run` counts its time by itself, and the record has the reactions. A controller is enabled,
    so the sums stay when the run has ended."""
    ccbpf("enable", "le")
    run = ccbpf.popen("-j", "run", "-d", "--", *Reading(BYTES).at(path), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    kernel.eventually(lambda: received(ccbpf) > 1_000_000, ENDS_S, "the download")
    kernel.run(*Reading(12_000_000, seconds=2.5).at(path))
    (live,) = records(ccbpf)
    found = samples(ccbpf)
    for name in ("indications", "cuts_to_one"):
        assert 0 < live[name] <= of(found, f"{name}_total", **RX)
    out, err = run.communicate(timeout=ENDS_S)
    assert has_all(out), err
    counts, found = account(err)["counts"], samples(ccbpf)
    assert of(found, "bytes_acked_total", **RX) == counts["received"] == BYTES
    assert of(found, "flows_opened_total", **RX) == 1
    sending, yielded = (of(found, f"{name}_seconds_total", **RX) for name in ("sending", "yielded"))
    assert sending == pytest.approx(counts["receiving_ns"] / 1e9, abs=0.3)
    assert 1 < yielded <= sending
