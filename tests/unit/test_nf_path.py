# SPDX-License-Identifier: GPL-2.0-only
"""NF-TCP's laws together on a simulated path (nf_path.py): what no law shows by itself."""
from tests.unit.nf_path import PACE, run

KERNELS_PACE = 1.2  # net.ipv4.tcp_pacing_ca_ratio


def test_five_flows_keep_a_small_queue_and_share_alike(ffi, law):
    """Each stops for a chirp of its own now and then, and those of the others find the link empty. The low threshold is
    1.2 ms, the buffer 100 ms."""
    found = run(ffi, law, rate_mbit=20, seconds=40, flows=5)
    delays = [ms for s, ms in found.queue_ms if s >= 10]
    shares = [found.share(10, 40, number) for number in range(5)]
    assert sum(delays) / len(delays) <= 2.4 and found.queue(0.99, 10) <= 7
    assert sum(shares) >= 0.88 and max(shares) <= 1.25 * min(shares)


def test_a_lone_flow_finds_the_link(ffi, law):
    """nf-fig2-single until TCP comes; and eq. 2's sawtooth over a threshold of three packets."""
    found = run(ffi, law, rate_mbit=20, seconds=20)
    assert any(found.share(i / 2, i / 2 + 0.5) > 0.85 for i in range(12)) and found.share(10, 20) >= 0.88


def test_even_departures_leave_room_for_others(ffi, law):
    """Beside Poisson UDP of a half. A window that leaves in five sixths of the round trip is marked earlier."""
    def taken(pace):
        runs = [run(ffi, law, rate_mbit=60, seconds=30, udp=lambda s: 0.5, pace=pace, seed=seed) for seed in (1, 2)]
        return sum(found.share(10, 30) / 0.5 for found in runs) / len(runs)

    assert taken(PACE) >= max(0.7, taken(KERNELS_PACE) + 0.02)


def test_it_yields_and_comes_back(ffi, law):
    """The whole link is taken from 5 to 15 s."""
    found = run(ffi, law, rate_mbit=20, seconds=25, udp=lambda s: 1.02 if 5 <= s < 15 else 0.0)
    assert found.share(8, 15) <= 0.06 and found.share(20, 25) >= 0.85
