# SPDX-License-Identifier: GPL-2.0-only
"""The simulator itself, against what is known about TCP and queues: nothing here is about our programs."""

from __future__ import annotations

import math
from typing import Any

import pytest

from .simulator import SimulatorError, simulate

MSS, FRAME = 1448, 1514
RATE_MBIT, RTT_MS, BDP = 10, 50, 41
CARRIED_MBIT = RATE_MBIT * MSS / FRAME
RENO = {"name": "reno", "controller": "reno", "start_s": 0, "stop_s": 0}


def run(*flows: dict[str, Any], seconds: float = 60, queue: dict[str, Any] | None = None, seed: int = 1, **link: Any) -> Any:
    return simulate({
        "seed": seed, "seconds": seconds, "sample_s": 0.05, "segment_bytes": MSS,
        "link": {"rtt_ms": RTT_MS, "queue": {"rate_mbit": RATE_MBIT, "limit_packets": BDP, **(queue or {})}, **link},
        "flows": [{**RENO, **flow} for flow in flows],
    })  # fmt: skip


def mbit(result: Any, flow: int, from_s: float, to_s: float) -> float:
    got = result["flows"][flow]["segments"][round(from_s / 0.05) : round(to_s / 0.05)]
    return float(sum(got) * MSS * 8 / 1e6 / (to_s - from_s))


def test_the_same_scenario_is_the_same_run_and_another_seed_another() -> None:
    lossy: dict[str, Any] = {"forward": {"loss": 0.01}}
    assert run({}, seconds=20, **lossy) == run({}, seconds=20, **lossy)
    assert run({}, seconds=20, **lossy) != run({}, seconds=20, seed=2, **lossy)


def test_reno_alone_fills_a_link_with_a_buffer_of_one_bdp_and_no_more() -> None:
    result = run({})
    assert 0.98 < mbit(result, 0, 10, 60) / CARRIED_MBIT <= 1.001
    assert max(result["backlog"]) <= BDP * FRAME
    assert result["flows"][0]["timeouts"] == 0
    assert result["flows"][0]["undone"] == 0


def test_with_half_a_bdp_reno_loses_what_its_halving_leaves_empty() -> None:
    part = mbit(run({}, queue={"limit_packets": BDP // 4}), 0, 10, 60) / CARRIED_MBIT
    assert 0.80 < part < 0.97


def test_random_loss_gives_renos_square_root() -> None:
    """Mathis et al. 1997, with delayed ACKs: rate = MSS / RTT * sqrt(3 / (4 p)), within a third."""
    loss = 0.01
    expected = MSS * 8 / 1e6 / (RTT_MS / 1e3) * math.sqrt(3 / 4 / loss)
    got = mbit(run({}, seconds=600, forward={"loss": loss}), 0, 10, 600)
    assert 0.67 < got / expected < 1.4


def test_two_renos_share_equally() -> None:
    result = run({}, {"start_s": 3}, seconds=600)
    one, other = (mbit(result, flow, 60, 600) for flow in (0, 1))
    assert 0.75 < one / other < 1.33
    assert one + other > 0.98 * CARRIED_MBIT


def test_a_stalled_link_delivers_nothing() -> None:
    result = run({}, seconds=20, queue={"stalls": [[10, 0.2]]})
    assert mbit(result, 0, 10.1, 10.2) == 0
    assert mbit(result, 0, 11, 20) > 0.9 * CARRIED_MBIT


def test_a_policer_drops_and_never_delays() -> None:
    result = run({}, queue={"policer_bytes": 20 * FRAME})
    assert result["drops"] > 10
    assert max(result["backlog"]) == 0
    assert mbit(result, 0, 10, 60) <= 1.01 * CARRIED_MBIT


def test_jitter_in_order_loses_nothing_and_reordering_is_undone() -> None:
    ordered = run({"window_packets": 40}, forward={"jitter_ms": 4, "in_order": 1})
    assert ordered["flows"][0]["retransmits"] == 0
    mixed = run({"window_packets": 40}, forward={"jitter_ms": 10})
    assert mixed["flows"][0]["recoveries"] <= 10


def test_aggregates_come_together() -> None:
    """±10 ms in slots: most samples of 50 ms have bursts, and no packet is lost."""
    result = run({"window_packets": 40}, reverse={}, forward={"jitter_ms": 10, "aggregated": 1})
    assert result["flows"][0]["retransmits"] == 0
    assert mbit(result, 0, 10, 60) > 0.5 * CARRIED_MBIT


def test_strict_priority_gives_the_background_what_is_left() -> None:
    both = run({"app_mbit": 4}, {"background": 1, "controller": "cubic"}, queue={"priority": 1, "limit_packets": 2 * BDP})
    assert mbit(both, 0, 10, 60) == pytest.approx(4, rel=0.02)
    assert mbit(both, 0, 10, 60) + mbit(both, 1, 10, 60) > 0.95 * CARRIED_MBIT


def test_a_longer_path_is_a_longer_round_trip() -> None:
    held = run({"window_packets": 20}, seconds=40, rtt_changes=[[20, 2 * RTT_MS]])
    assert mbit(held, 0, 30, 40) == pytest.approx(mbit(held, 0, 10, 20) / 2, rel=0.05)


def test_marks_take_the_place_of_drops() -> None:
    result = run({"ecn": 1}, queue={"limit_packets": 4 * BDP, "mark_bytes": BDP * FRAME, "mark_shift": 3})
    assert result["marks"] > 10
    assert result["flows"][0]["retransmits"] <= 70  # slow start's end alone
    assert mbit(result, 0, 10, 60) > 0.9 * CARRIED_MBIT


@pytest.mark.parametrize("flow", [{"controller": "nobody"}, {"controller": "vegas"}])
def test_an_unknown_controller_is_named(flow: dict[str, str]) -> None:
    with pytest.raises(SimulatorError, match=flow["controller"]):
        run(flow)


@pytest.mark.parametrize(("name", "target_ms"), [("ledbatpp", 60), ("ledbatpp_apple", 40)])
def test_a_peer_of_the_tests_own_keeps_its_target_in_the_queue(name: str, target_ms: int) -> None:
    """One source, two controllers. The queue is empty only in the slowdowns, and Apple's has none after a decrease."""
    result = run({"controller": name}, queue={"limit_packets": 4 * BDP})
    queue_ms = [size * 8 / RATE_MBIT / 1e3 for size in result["backlog"][600:]]
    assert target_ms - 8 < max(queue_ms) < target_ms + 8 and result["drops"] == 0
    assert (min(queue_ms) < 2) == (name == "ledbatpp")
    assert mbit(result, 0, 30, 60) > 0.9 * CARRIED_MBIT


def test_a_peer_of_the_tests_own_leaves_a_deep_buffer_to_others_and_not_a_short_one() -> None:
    flows = {"controller": "ledbatpp"}, {"controller": "cubic", "start_s": 10}
    deep, short = (run(*flows, queue={"limit_packets": limit}) for limit in (4 * BDP, BDP))
    assert mbit(deep, 1, 30, 60) > 0.97 * CARRIED_MBIT > 1.03 * mbit(short, 1, 30, 60)
