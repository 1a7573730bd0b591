# SPDX-License-Identifier: GPL-2.0-only
"""gentle_start=1, with each controller: slow start begins with a smaller window, is half as fast, and ends before a loss."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext

import pytest

from tests.functional.kernel import KINDS, Controller, eventually, tcp_info
from tests.functional.peer import Behaviour, Peer

pytestmark = pytest.mark.rerun(
    "the delay that ends slow start is the peer's: a host that stands still for some ms is such a delay"
)

RTT_S = 0.04
MSS = 1448
FIRST = 4  # packets: the first window
DATA = 40  # packets
RATE_BPS, BUFFER = 12e6, 1 << 20  # a bottleneck that never drops
PIPE = RATE_BPS * RTT_S / 8 / MSS  # packets
INFINITE = 0x7FFFFFFF
ALWAYS = {"le"}  # its start is gentle without a parameter


@pytest.fixture(params=sorted(KINDS))
def gentle(request: pytest.FixtureRequest, controllers: dict[str, Controller]) -> Iterator[Controller]:
    with nullcontext() if request.param in ALWAYS else controllers[request.param].set(gentle_start=1):
        yield controllers[request.param]


def test_it_grows_by_half_of_what_is_acknowledged(gentle: Controller, peer: Peer) -> None:
    """From 4 packets; the usual slow start adds all of it to 10."""
    flow = peer.connect(gentle.name, Behaviour(rtt_s=RTT_S))
    assert tcp_info(flow.sock).cwnd == FIRST
    flow.pump(DATA * MSS)
    flow.deliver(5)
    end = tcp_info(flow.sock)
    assert FIRST + DATA // 4 <= end.cwnd <= FIRST + DATA // 2 and end.ssthresh == INFINITE
    flow.close()


def test_it_ends_when_a_queue_grows(gentle: Controller, peer: Peer) -> None:
    """Soon after the path is full: the buffer holds 15 times as much."""
    flow = peer.connect(gentle.name, Behaviour(rtt_s=RTT_S, rate_bps=RATE_BPS, buffer_bytes=BUFFER))
    flow.pump()
    left = eventually(lambda: (i := tcp_info(flow.sock)).ssthresh < INFINITE and i, 10, "slow start is left")
    record = gentle.flow(flow.sock)
    assert record and record.losses == 0
    assert PIPE / 2 <= left.ssthresh <= 2 * PIPE
    flow.close()
