# SPDX-License-Identifier: GPL-2.0-only
"""Why NF-TCP sends no chirp, or completes none: told by `flows`, `check`, a count and an event. fq, which this kernel may not
have: tests/lab/tests/test_chirps.py. A receiver that does not answer CWR: test_nf_answers.py."""

from __future__ import annotations

import pytest

from tests.functional import kernel
from tests.functional.conftest import Cli
from tests.functional.flow.test_nf_chirps import Path, events_of, nf, start
from tests.functional.kernel import Controller, eventually
from tests.functional.peer import Behaviour, Peer

ECN, OFF, STORAGE, SLOW_START = 1, 2, 4, 5  # enum ccbpf_chirp_wait
TOO_LITTLE = 600  # bytes of memory beside its buffers that a socket may have: a flow's chirps need more
ENOUGH = 1 << 17


def test_no_memory_is_counted_and_reported(nf_tcp: Controller, peer: Peer) -> None:
    """Reported once for each flow, even if it is tried again; the flow goes on, and chirps begin when there is memory."""
    peer.namespace.sysctl(f"net.core.optmem_max={TOO_LITTLE}")
    before = nf_tcp.stats()
    nf_tcp.listen(30)
    nf_tcp.ring.read()
    with nf_tcp.set(probe_cost=1000):
        flow = start(nf_tcp, peer, Path(), rate_bps=40e6)
        eventually(lambda: nf(nf_tcp, flow).chirps_wait == STORAGE, 10, "a refusal")
        received = flow.received
        eventually(lambda: flow.received > received + 200_000, 5, "data goes on")
        assert nf_tcp.stats().storage_refused == before.storage_refused + 1
        assert len(events_of(nf_tcp, "no-storage")) == 1
        assert nf(nf_tcp, flow).chirps_sent == 0
        peer.namespace.sysctl(f"net.core.optmem_max={ENOUGH}")
        eventually(lambda: nf(nf_tcp, flow).chirps_complete, 10, "chirps")
    nf_tcp.listen(0)
    flow.close()


@pytest.mark.parametrize("why", ["ecn", "off", "slow-start"])
def test_reasons_in_the_record(why: str, nf_tcp: Controller, peer: Peer) -> None:
    behaviour = Behaviour(rtt_s=0.02, window_bytes=8 << 20) if why == "slow-start" else Path()
    behaviour.ecn = why != "ecn"
    with nf_tcp.set(probe=why != "off"):
        flow = start(nf_tcp, peer, behaviour, rate_bps=40e6)
        code = {"ecn": ECN, "off": OFF, "slow-start": SLOW_START}[why]
        eventually(lambda: nf(nf_tcp, flow).chirps_wait == code, 10, why)
        assert nf(nf_tcp, flow).chirps_sent == 0
    flow.close()


def test_check_tries_the_memory(ccbpf: Cli) -> None:
    """In a namespace where sockets may first use enough of it, and then too little."""
    with kernel.Namespace("memory") as netns:

        def row(name: str) -> dict[str, str]:
            rows: list[dict[str, str]] = ccbpf("-j", "check", prefix=("ip", "netns", "exec", netns.name)).json["rows"]
            return {row["name"]: row for row in rows}[name]

        assert row("socket storage")["verdict"] == "ok"
        assert row("fq (nf_tcp)")["verdict"] == "ok"
        netns.sysctl(f"net.core.optmem_max={TOO_LITTLE}")
        refused = row("socket storage")
    assert refused["verdict"] == "note" and "Cannot allocate memory" in refused["found"]
    assert "cmpxchg16b" in refused["remedy"] and "optmem_max" in refused["remedy"]
