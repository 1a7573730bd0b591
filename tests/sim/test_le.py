# SPDX-License-Identifier: GPL-2.0-only
"""le, in situations that the law alone does not cover: the kernel's states Loss and CWR."""

from __future__ import annotations

from typing import Any

import pytest

from .simulator import simulate

MSS, FRAME = 1448, 1514


def run(*flows: dict[str, Any], rate_mbit: int, rtt_ms: int, seconds: float, seed: int = 1, udp: Any = (), **queue: Any) -> Any:
    return simulate({
        "seed": seed, "seconds": seconds, "sample_s": 0.1, "segment_bytes": MSS,
        "link": {"rtt_ms": rtt_ms, "queue": {"rate_mbit": rate_mbit, **queue}},
        "flows": [{"name": "flow", "start_s": 0, "stop_s": 0, **flow} for flow in flows],
        "udp": [{"frame_bytes": FRAME, **stream} for stream in udp],
    })  # fmt: skip


def part(result: Any, flow: int, from_s: float, rate_mbit: float) -> float:
    """The part of the link that a flow gets, until the end."""
    got = result["flows"][flow]["segments"][round(from_s * 10) :]
    return float(sum(got) * FRAME * 8 / 1e6 / (len(got) / 10) / rate_mbit)


@pytest.mark.parametrize(("rate_mbit", "rtt_ms"), [(20, 50), (200, 20), (1000, 50)])
def test_after_a_burst_that_ends_in_a_timeout_it_has_the_link_again(rate_mbit: int, rtt_ms: int) -> None:
    """A second of traffic at five times the link's rate. In state Loss only the program lets the window grow: without that it
    stayed at one packet."""
    udp = [{"rate_mbit": 5 * rate_mbit, "start_s": 10, "stop_s": 11}]
    bdp = rate_mbit * rtt_ms // 12
    result = run({"controller": "le"}, rate_mbit=rate_mbit, rtt_ms=rtt_ms, seconds=20, udp=udp, limit_packets=2 * bdp)
    assert result["flows"][0]["timeouts"] > 0
    assert part(result, 0, 14, rate_mbit) > 0.9


def test_marks_without_end_leave_no_queue() -> None:
    """From then on each round trip has a mark, and every ACK comes in state CWR, in which the window of an earlier version never
    changed."""
    udp = [{"rate_mbit": 10, "start_s": 20, "stop_s": 60}]
    flow = {"controller": "le", "ecn": 1}
    result = run(flow, rate_mbit=20, rtt_ms=50, seconds=60, udp=udp, limit_packets=166, mark_bytes=5 * FRAME, mark_shift=0)
    backlog = result["backlog"][400:]
    assert sum(backlog) / len(backlog) < 20 * FRAME
    assert part(result, 0, 40, 10) > 0.3


def test_marked_pairs_go_apart() -> None:
    """Others leave 3 % of the link, and nearly each pair meets one of their packets. When a mark did not count one pair left in each
    round trip: .012 of the link."""
    udp = [{"rate_mbit": 19.4, "poisson": 1, "start_s": 0, "stop_s": 60}]
    flow = {"controller": "le", "ecn": 1}
    result = run(flow, rate_mbit=20, rtt_ms=50, seconds=60, udp=udp, limit_packets=166, mark_bytes=FRAME, mark_shift=0)
    assert 0.001 < part(result, 0, 30, 20) < 0.004


@pytest.mark.parametrize(("mark", "keeps"), [(10, 1.0), (20, 1.5), (32, 1.5)])
def test_behind_a_router_that_marks_below_its_threshold_reno_keeps_its_share(mark: int, keeps: float) -> None:
    """100 Mbit/s, 20 ms, all flows with ECN, marks from 1.2 to 3.9 ms of queue on: beside le, reno gets at least as much as
    beside reno."""

    def reno_beside(controller: str) -> float:
        flows = [{"controller": name, "ecn": 1} for name in ("reno", controller)]
        result = run(*flows, rate_mbit=100, rtt_ms=20, seconds=40, limit_packets=333, mark_bytes=mark * FRAME, mark_shift=0)
        return part(result, 0, 10, 100)

    assert reno_beside("le") > keeps * reno_beside("reno")


@pytest.mark.parametrize(("rtt_ms", "buffer", "at_s"), [(20, 3, 5), (20, 20, 1), (50, 20, 5)])
def test_after_a_stall_a_small_buffer_is_a_small_one(rtt_ms: int, buffer: int, at_s: int) -> None:
    """100 Mbit/s, no packet for 200 ms: the delay of that stall must not be taken for that of a full buffer, or losses would be
    taken for random ones."""

    def reno_beside(controller: str) -> float:
        flows: list[dict[str, Any]] = [{"controller": "reno"}, {"controller": controller, "start_s": 0.5}]
        result = run(*flows, rate_mbit=100, rtt_ms=rtt_ms, seconds=60, limit_packets=buffer, stalls=[[at_s, 0.2]])
        return part(result, 0, 10, 100)

    assert reno_beside("le") > 0.6 * reno_beside("reno")


def test_a_start_into_a_policer_is_not_chance() -> None:
    """100 Mbit/s, 20 ms, a bucket of 60 packets: the losses of the start's end are found one by one, and the first of them seems
    to be alone. Sent again in 4 s: 98 packets (reno: 107), and 207 if nothing is made of those that follow."""
    again = [
        run({"controller": name}, rate_mbit=100, rtt_ms=20, seconds=4, policer_bytes=60 * FRAME)["flows"][0]["retransmits"]
        for name in ("le", "reno")
    ]
    assert again[0] < 1.3 * again[1]


@pytest.mark.parametrize(("rate_mbit", "rtt_ms", "bdp"), [(10, 50, 0.5), (10, 50, 1), (10, 50, 2), (50, 20, 1), (100, 50, 1)])
def test_a_receiver_that_hides_the_queue_has_no_more_than_reno(rate_mbit: int, rtt_ms: int, bdp: float) -> None:
    """From 20 s on its timestamps tell of each packet that it met no queue. Reno then kept .54 to .91 of what it has beside reno when
    each loss was followed by a return to 7/8 of the window before it."""

    def reno_beside(**flow: Any) -> float:
        limit = int(bdp * rate_mbit * rtt_ms / 12)
        flows = [{"controller": "reno"}, {"start_s": 3, **flow}]
        result = run(*flows, rate_mbit=rate_mbit, rtt_ms=rtt_ms, seconds=120, limit_packets=limit)
        return part(result, 0, 30, rate_mbit)

    assert reno_beside(controller="le", lies_s=20) > 0.85 * reno_beside(controller="reno")


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_lost_tail_that_a_probe_repairs_is_no_mark(seed: int) -> None:
    """ECN is agreed and nobody marks. The application pauses each second, and bursts of others drop packets, also the last one before
    a pause. When such a tail passed for a mark, the flow grew by a packet per RTT for good: in the third draw .65 of the link."""
    pauses = [[5 + n, 0.5] for n in range(10)]
    udp = [{"rate_mbit": 1600, "period_s": 1, "duty": 0.02, "start_s": 4.995, "stop_s": 15}]
    flow = {"controller": "le", "ecn": 1, "pauses": pauses}
    result = run(flow, rate_mbit=200, rtt_ms=50, seconds=60, seed=seed, udp=udp, limit_packets=413)
    assert result["flows"][0]["recoveries"] > 5
    assert part(result, 0, 20, 200) > 0.95
