# SPDX-License-Identifier: GPL-2.0-only
"""The bounds of the rows, on real paths and over hours, with few draws. `make sim` makes the other draws."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from tests.lab.engine.scenario import VirtualExperiment
from tests.lab.rows import judge, rows
from tests.lab.rows.builder import FULL, SIM
from tests.lab.rows.row import ALONE, Row

from . import session, simulator

DOWNLOADS = ("rx_le<cubic", "rx_le<reno")
LP = ("tcp_lp", "hstcp_lp", "tcpw_lp")
OURS = (*LP, "le")
MANY = 32  # draws where their median is near the bound


@dataclass(frozen=True)
class Case:
    """Points of a row and the controllers that are judged there; some seconds of some draws."""

    row: str
    points: tuple[str, ...]
    ours: tuple[str, ...] = OURS
    repeat: int = 3
    seconds: float = 0  # instead of the row's, where its one flow lasts for the whole run
    measures: tuple[str, ...] = ()  # of the bounds that are judged; empty: all

    @property
    def id(self) -> str:
        return f"{self.row}: {'; '.join((*self.points, *self.measures)) or 'all'}"


CASES = (
    Case("long-alone", ("nothing", "1 ms of jitter, delay_memory 10 s"), LP, repeat=1, seconds=2 * 3600),
    Case("long-alone", ("0.5 Mbit/s of Poisson", "1 ms of jitter"), ("tcp_lp", "nf_tcp", "le"), repeat=1, seconds=3600),
    Case("long-alone", ("nothing", "0.1 % loss"), ("le",), seconds=3600),
    Case("jitter", ("1 ms", "4 ms", "4 ms, reordering", "beside cubic, 1 ms"), repeat=2),
    Case("stall", ("before cubic", "every 10 s"), ("tcp_lp", "hstcp_lp", "le")),
    Case("stall", ("before cubic",), ("tcpw_lp",), repeat=MANY),
    Case("policer", ("5", "20", "60"), (*OURS, "nf_tcp"), repeat=5),
    Case("tiny-buffer", (), ("tcp_lp", "hstcp_lp", "le", "nf_tcp"), repeat=5),
    Case("tiny-buffer", (), ("tcpw_lp",), repeat=MANY),
    Case("early-loss", ("50 Mbit/s, 80 ms, 0.03 %", "10 Mbit/s, 50 ms, 0.1 %"), ("le",), repeat=5),
    Case("unmarked", (), ("tcp_lp_ecn",)),
    Case("route-change", ("6 Mbit/s, 20 to 60 ms", "10 Mbit/s, 50 to 80 ms", "4 Mbit/s, 30 to 90 ms", "6 Mbit/s, 60 to 20 ms"),
         repeat=2),
    Case("route-change", ("100 Mbit/s, 20 to 40 ms", "100 Mbit/s, 40 to 20 ms"), ("tcp_lp",), repeat=1),
    Case("crowd", ("2, 25 ms", "10, 25 ms", "24, 25 ms"), ("tcp_lp", "hstcp_lp", "le"), repeat=2, measures=("jain",)),
    Case("crowd", ("10, 25 ms", "24, 25 ms", "24, 100 ms"), ("tcpw_lp", "le"), repeat=2, measures=("utilisation", "queue_mean")),
    Case("handover", ("born", "setsockopt", "route", "gentle_start", "held, 2.5 BDP"), repeat=2),
    Case("time-to-yield", (), ("le",)),
    Case("settled", (), ("le",), repeat=5),
    Case("fast-alone", ("100 Mbit/s, 100 ms, 0.01 % loss", "1 Gbit/s, 10 ms, 0.5 BDP"), ("le",), repeat=1),
    Case("fast-reclaim", (), ("le",), repeat=1),
    Case("peers-beside", ("20 ms, 1 BDP", "40 ms, 0.5 BDP", "40 ms, 4 BDP", "100 ms, 1 BDP"), ("le",)),
    Case("peers-alone", ("20 ms, 1 BDP", "40 ms, 0.5 BDP", "100 ms, 4 BDP"), ("le",), repeat=1),
    Case("peers-latecomer", (), ("le",), repeat=2),
    Case("peers-loss", ("alone",), ("le",)),
    Case("rx-yield", (), DOWNLOADS, repeat=5),
    Case("rx-alone", ("10 Mbit/s, 50 ms, 0.5 BDP", "10 Mbit/s, 50 ms, 4 BDP"), DOWNLOADS, repeat=1, seconds=600),
    Case("rx-many", ("staggered, 1 s", "at once"), DOWNLOADS, repeat=5),
    Case("rx-loss", ("1 % lost",), DOWNLOADS, repeat=3),
    Case("hour-foreground", ("12 min",), repeat=1, measures=("transparency",)),
    Case("hour-foreground", ("12 min",), ("tcpw_lp", "le"), repeat=1, measures=("time_to_reclaim",)),
)  # fmt: skip


def chosen(case: Case) -> Row:
    """The row with only these runs: our controllers, and the runs that they are compared with."""
    row = next(one for one in rows.choose(case.row, set_=FULL if case.row == "hour-foreground" else SIM,
                                          repeat=case.repeat) if one.id == case.row)  # fmt: skip
    references = {ALONE, *(bound.of for bound in row.bounds)}
    runs = {
        key: shortened(run, case.seconds)
        for key, run in row.runs.items()
        if (not case.points or key.point in case.points) and key.background in (*case.ours, *references)
    }
    bounds = tuple(bound for bound in row.bounds if bound.measure in (case.measures or (bound.measure,)))
    return replace(row, runs=runs, bounds=bounds, ours=case.ours, peers=tuple(name for name in row.peers if name in references))


def shortened(run: VirtualExperiment, seconds: float) -> VirtualExperiment:
    if not seconds:
        return run
    traffic = tuple(replace(one, seconds=seconds) for one in run.traffic)
    flows = tuple(replace(flow, seconds=seconds) for flow in run.flows)
    return replace(run, flows=flows, traffic=traffic, seconds=seconds)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_it_holds(case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(simulator, "RUNS", tmp_path)
    work = session.plan(chosen(case), 1, SIM)
    assert session.make_all([work], session.cores(), print) == []
    verdicts = [verdict for verdict in judge.judge(work.row, work.results) if judge.decides(work.row, verdict)]
    assert verdicts
    wrong = [
        f"{v.controller} {v.at.words}: {v.measured:.3f} is not {v.bound.op} {v.bound.bound:g}: {v.bound.what} {list(v.draws)}"
        for v in verdicts
        if not v.holds
    ]
    assert wrong == []
