# SPDX-License-Identifier: GPL-2.0-only
"""A row's run as a scenario: nothing is left out silently."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.lab.engine.scenario import Traffic, VirtualExperiment, VirtualFlow, VirtualLink
from tests.lab.rows import rows
from tests.lab.rows.builder import SIM

from .simulator import simulate
from .translate import Unfit, scenario

LINK = VirtualLink(10, 50, 2)
FLOW = VirtualFlow("background", "tcp_lp", 60, background=True)
PLAIN = VirtualExperiment("a run", LINK, (FLOW,))


def link_of(**values: Any) -> Any:
    return scenario(replace(PLAIN, link=replace(LINK, **values)), 1)["link"]


def test_the_path() -> None:
    made = link_of(jitter_ms=4, jitter="ordered", jitter_way="forward", loss_percent=0.5, rtt_changes=((20, 80.0),))
    assert made["queue"] == {"rate_mbit": 10, "limit_packets": 83, "stalls": []}
    assert made["forward"] == {
        "jitter_ms": 4, "in_order": 1, "aggregated": 0, "loss": 0.005, "reorder": 0, "duplicate": 0,
    }  # fmt: skip
    assert made["reverse"] == {}
    assert made["rtt_changes"] == [[20, 80.0]]
    assert "reverse_queue" not in made


def test_queues() -> None:
    assert link_of(stalls=((10, 200.0),))["queue"]["stalls"] == [[10, 0.2]]
    assert link_of(policer_packets=20)["queue"]["policer_bytes"] == 20 * 1514
    assert link_of(queue="priority")["queue"]["priority"] == 1
    assert link_of(reverse_mbit=3)["reverse_queue"] == {"rate_mbit": 3, "limit_packets": 25, "stalls": []}
    marking = link_of(queue="marking", mark_at=0.5, buffer_packets=40)["queue"]
    assert marking["mark_bytes"] == 20 * 1514 + 757


def test_nf_red_as_the_command_attaches_it() -> None:
    made = link_of(queue="nf_red", buffer_packets=1000, nf_red=(("nf_max", "15"), ("std", "off")))["nf_red"]
    assert (made["limit_bytes"], made["packet_bytes"]) == (1000 * 1514, 1514)
    assert (made["nf_min"], made["nf_max"]) == (1000, 15000)
    assert made["std_min"] == 0xFFFFFFFF


def test_flows() -> None:
    flow = replace(FLOW, window_bytes=65536, starts_as="cubic", switch_s=20.0, rtt_ms=30.0)
    made = scenario(replace(PLAIN, flows=(flow,)), 1)["flows"][0]
    assert (made["controller"], made["switches"]) == ("cubic", [[20.0, "tcp_lp"]])
    assert (made["window_packets"], made["rtt_ms"]) == (45, 30.0)
    assert made["download"] == 0 and "receiver" not in made
    flow = replace(FLOW, download=True, receiver="rledbatpp")
    made = scenario(replace(PLAIN, flows=(flow,)), 1)["flows"][0]
    assert (made["download"], made["receiver"]) == (1, "rledbatpp")


def test_a_parameter_finds_its_place() -> None:
    """threshold_floor reaches the program: at 100 ms it yields late."""
    foreground = VirtualFlow("foreground", "cubic", 40)
    both = replace(PLAIN, flows=(foreground, replace(FLOW, seconds=40)), seconds=40)
    deaf = replace(both, parameters=(("threshold_floor", "100000"), ("delta", "900")))
    kept = [sum(simulate(scenario(run, 1))["flows"][0]["segments"]) for run in (both, deaf)]
    assert kept[1] < 0.95 * kept[0]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"link": replace(LINK, hops=2)}, "hops"),
        ({"link": replace(LINK, queue="fq_codel")}, "queue fq_codel"),
        ({"link": replace(LINK, gso=True)}, "gso"),
        ({"link": replace(LINK, bleach="before")}, "bleach"),
        ({"flows": (replace(FLOW, controller="vegas"),)}, "controller vegas"),
        ({"flows": (replace(FLOW, relay="cubic"),)}, "controller|relay"),
        ({"traffic": (Traffic("web", "web", 10),)}, "web"),
        ({"sysctls": (("net.ipv4.tcp_sack", "0"),)}, "tcp_sack"),
    ],
)
def test_what_is_not_here_is_refused_by_name(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(Unfit, match=said):
        scenario(replace(PLAIN, **changes), 1)


def test_every_row_for_the_simulator_can_be_made() -> None:
    for row in rows.load_all(set_=SIM, repeat=1):
        if row.for_sim:
            for key, run in row.runs.items():
                if key.background in (*row.ours, "alone"):
                    assert scenario(run, 1), f"{row.id}: {key}"
