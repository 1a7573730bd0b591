# SPDX-License-Identifier: GPL-2.0-only
"""Downloads in the background, in situations that no row has."""

from __future__ import annotations

import statistics
from typing import Any

import pytest

from .simulator import simulate

MSS, FRAME = 1448, 1514
POISSON = {"rate_mbit": 0.2, "frame_bytes": 1014, "poisson": 1, "period_s": 0, "duty": 1, "start_s": 0}


def run(seed: int, *flows: dict[str, Any], seconds: float, rate_mbit: int, limit: int, back: int = 0) -> Any:
    link = {"rtt_ms": 50, "queue": {"rate_mbit": rate_mbit, "limit_packets": limit}}
    if back:
        link["reverse_queue"] = {"rate_mbit": back, "limit_packets": limit * back // rate_mbit}
    return simulate({
        "seed": seed, "seconds": seconds, "sample_s": 0.1, "segment_bytes": MSS, "link": link,
        "flows": [{"name": "flow", "controller": "cubic", "start_s": 0, "stop_s": seconds, **flow} for flow in flows],
        "udp": [{**POISSON, "stop_s": seconds}],
    })  # fmt: skip


def mbit(result: Any, flow: int, from_s: float, to_s: float) -> float:
    got = result["flows"][flow]["segments"][round(from_s * 10) : round(to_s * 10)]
    return float(sum(got) * FRAME * 8 / 1e6 / (to_s - from_s))


def test_ten_do_not_take_one_another_for_others() -> None:
    """With 1 % of cross traffic. A queue that fell after a drain was that of downloads which all drained."""
    used = []
    for seed in range(1, 6):
        result = run(seed, *({"start_s": n, "download": 1} for n in range(10)), seconds=80, rate_mbit=20, limit=165)
        used.append(sum(mbit(result, n, 30, 80) for n in range(10)) / 20)
    assert statistics.median(used) >= 0.95 and min(used) >= 0.94, used


@pytest.mark.parametrize("back", [10, 2])
def test_it_yields_beside_an_upload(back: int) -> None:
    """The upload's queue makes bursts of what arrives: the foreground's queue is still seen."""
    kept = []
    for seed in range(1, 6):
        flows = {"start_s": 12, "stop_s": 32}, {"reverse": 1}
        alone = run(seed, *flows, seconds=40, rate_mbit=10, limit=103, back=back)
        beside = run(seed, *flows, {"download": 1}, seconds=40, rate_mbit=10, limit=103, back=back)
        kept.append(mbit(beside, 0, 15, 32) / mbit(alone, 0, 15, 32))
    assert statistics.median(kept) >= 0.95 and min(kept) >= 0.9, kept
