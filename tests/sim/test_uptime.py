# SPDX-License-Identifier: GPL-2.0-only
"""A flow does not depend on how long its host has been up: the same run, bit for bit, also while a clock wraps. Nor does it
matter how long the application has had nothing to send.

The kernel's clock is 64 bits of us; the programs keep 32 bits of us and of 1024 us, and TCP's timestamps are 32 bits of ms.
"""

from __future__ import annotations

from typing import Any

import pytest

from .simulator import simulate
from .test_paths import NF_RED

YOUNG_S = 1000  # and the others are later by a multiple of 16 s: there a us, a ms and 1024 us begin together as here
WRAPS_S = {"us": 12872, "1024 us": 4398040}  # three times 2^32, and 2^32 of each, are over 13 and 7 s later
OLD_S = 13000 * 1000 + 8  # 150 days, no clock wraps
STAMPS_MS = {"long before": 1_000_000, "in the run": 2**32 - 15_000, "just after": 1000}

QUEUE = {"rate_mbit": 10, "limit_packets": 82}
MARKS = {"nf_red": NF_RED}
CONTROLLERS = ["tcp_lp", "tcp_lp_ecn", "hstcp_lp", "tcpw_lp", "ltcp", "nf_tcp", "le"]
FLOWS: list[dict[str, Any]] = [*({"controller": name, "background": 1, "ecn": 1} for name in CONTROLLERS), {"download": 1}]
NAMES = [*CONTROLLERS, "rx_le"]


def run(up_s: int, background: dict[str, Any], stamps_ms: int = 1_000_000, **link: Any) -> Any:
    """A foreground comes and goes; there are losses, and jitter."""
    always = {"controller": "cubic", "stamps_ms": stamps_ms}
    result = simulate({
        "seed": 1, "seconds": 40, "sample_s": 0.1, "segment_bytes": 1448, "up_s": up_s,
        "link": {"rtt_ms": 50, "queue": QUEUE, "forward": {"loss": 0.001, "jitter_ms": 1}, **link},
        "flows": [{**always, "start_s": 10, "stop_s": 25}, {**always, "start_s": 0, "stop_s": 0, **background}],
    })  # fmt: skip
    assert result.pop("up_us") == (up_s + 40) * 10**6
    assert [flow.pop("stamp_ms") for flow in result["flows"]] == 2 * [(stamps_ms + 40_000) % 2**32]
    return result


@pytest.mark.parametrize("link", [{}, MARKS], ids=["drop-tail", "nf_red"])
@pytest.mark.parametrize("flow", FLOWS, ids=NAMES)
def test_uptime_changes_nothing(flow: dict[str, Any], link: dict[str, Any]) -> None:
    """A pause of nf_tcp was cut to 32 bits of us, so it was over at once on a host that was up for 71 minutes."""
    young = run(YOUNG_S, flow, **link)
    assert [up_s for up_s in (*WRAPS_S.values(), OLD_S) if run(up_s, flow, **link) != young] == []


@pytest.mark.parametrize("flow", FLOWS, ids=NAMES)
def test_timestamps_that_wrap_change_nothing(flow: dict[str, Any]) -> None:
    runs = [run(YOUNG_S, flow, stamps_ms) for stamps_ms in STAMPS_MS.values()]
    assert runs[0] == runs[1] == runs[2]


@pytest.mark.parametrize("pause_s", [600, 2200, 4300, 40000])
@pytest.mark.parametrize("flow", FLOWS, ids=NAMES)
def test_a_pause_of_hours(flow: dict[str, Any], pause_s: int) -> None:
    """It sends as before, from the tenth second on, and yields (but ltcp does not). 2200 s are more than 2^31 us, and 4300 s are
    more than 2^32 us."""
    on_s = 60 + pause_s
    background = {"controller": "cubic", "start_s": 0, "stop_s": 0, "pauses": [[60, pause_s]], **flow}
    foreground = {"controller": "cubic", "start_s": on_s + 30, "stop_s": on_s + 60}
    result = simulate({
        "seed": 1, "seconds": on_s + 60, "sample_s": 1, "segment_bytes": 1448, "flows": [background, foreground],
        "link": {"rtt_ms": 50, "queue": QUEUE, **(MARKS if flow.get("controller") == "nf_tcp" else {})},
    })  # fmt: skip
    got, others = (flow["segments"] for flow in result["flows"])
    assert sum(got[70 : on_s - 10]) == 0
    assert sum(got[on_s + 10 : on_s + 30]) >= 0.97 * sum(got[30:50])
    beside, foregrounds = (sum(segments[on_s + 35 : on_s + 60]) for segments in (got, others))
    assert foregrounds >= 0.95 * (beside + foregrounds) or flow.get("controller") == "ltcp"


@pytest.mark.parametrize(("unit_us", "up_s"), zip((1, 1024), WRAPS_S.values(), strict=True))
def test_the_clocks_do_wrap_in_these_runs(unit_us: int, up_s: int) -> None:
    turns = [at_s * 10**6 // unit_us >> 32 for at_s in (up_s, up_s + 20)]
    assert turns[1] == turns[0] + 1 and (up_s - YOUNG_S) % 16 == 0
