# SPDX-License-Identifier: GPL-2.0-only
"""NF-TCP's laws together on a simulated path (nf_path.py): what no law shows by itself."""

import statistics
from typing import Any

from tests.unit.cdata import Ffi, Laws
from tests.unit.nf_path import PACE, Flow, Liar, Reno, run

KERNELS_PACE = 1.2  # net.ipv4.tcp_pacing_ca_ratio


def test_five_flows_keep_a_small_queue_and_share_equally(ffi: Ffi, law: Laws) -> None:
    """Each stops for a chirp of its own now and then, and those of the others find the link empty. The low threshold is
    1.2 ms, the buffer 100 ms. The largest share is a quarter above the least in the median of the draws."""
    spreads = []
    for seed in (1, 2, 3):
        found = run(ffi, law, rate_mbit=20, seconds=40, flows=5, seed=seed)
        delays = [ms for s, ms in found.queue_ms if s >= 10]
        shares = [found.share(10, 40, number) for number in range(5)]
        assert sum(delays) / len(delays) <= 2.4 and found.queue(0.99, 10) <= 7
        assert sum(shares) >= 0.88
        assert sum(shares) ** 2 / 5 / sum(share * share for share in shares) >= 0.975  # Jain's index
        spreads.append(max(shares) / min(shares))
    assert statistics.median(spreads) <= 1.25, spreads


def test_a_lone_flow_finds_the_link(ffi: Ffi, law: Laws) -> None:
    """nf-fig2-single until TCP comes; and eq. 2's sawtooth over a threshold of three packets."""
    found = run(ffi, law, rate_mbit=20, seconds=20)
    assert any(found.share(i / 2, i / 2 + 0.5) > 0.85 for i in range(12)) and found.share(10, 20) >= 0.88


def test_even_departures_leave_room_for_others(ffi: Ffi, law: Laws) -> None:
    """Beside Poisson UDP of a half. A window that leaves in five sixths of the round trip is marked earlier."""

    def taken(pace: float) -> float:
        runs = [run(ffi, law, rate_mbit=60, seconds=30, udp=lambda s: 0.5, pace=pace, seed=seed) for seed in (1, 2)]
        return sum(found.share(10, 30) / 0.5 for found in runs) / len(runs)

    assert taken(PACE) >= max(0.7, taken(KERNELS_PACE) + 0.02)


def test_it_yields_and_comes_back(ffi: Ffi, law: Laws) -> None:
    """The whole link is taken from 5 to 15 s."""
    found = run(ffi, law, rate_mbit=20, seconds=25, udp=lambda s: 1.02 if 5 <= s < 15 else 0.0)
    assert found.share(8, 15) <= 0.06 and found.share(20, 25) >= 0.85


def test_marks_in_a_row_make_it_yield_sooner(ffi: Ffi, law: Laws) -> None:
    """What is left from ten to twenty round trips after the link is taken, against the paper's eighth per round trip."""

    def left(**changed: Any) -> float:
        return run(ffi, law, rate_mbit=20, seconds=7, udp=lambda s: 1.02 if s >= 5 else 0.0, **changed).share(6, 7)

    assert left() <= 0.06 and left(decrease_most=125) >= 0.09


def test_back_to_15_16_uses_more_of_the_link(ffi: Ffi, law: Laws) -> None:
    def used(**changed: Any) -> float:
        return run(ffi, law, rate_mbit=20, seconds=50, **changed).share(10, 50)

    assert used() >= used(back=0) + 0.01


def test_flat_answers_to_chirps_do_not_pay(ffi: Ffi, law: Laws) -> None:
    """A receiver that never tells of a mark and shapes what it says of chirps, so that the target is far above the path.
    What it takes of a reno flow is what another reno would take; without doubt (range.h, 6.) reno keeps a tenth of that."""

    def kept(kind: type[Flow]) -> float:
        return run(ffi, law, rate_mbit=6, seconds=50, flows=(Reno, kind), rtt=50, buffer_bdp=1, marks=False).share(10, 50, 0)

    assert kept(Liar) >= 0.7 * kept(Reno)
