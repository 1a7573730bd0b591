# SPDX-License-Identifier: GPL-2.0-only
"""LTCP on a real kernel: who may select it, its layers in `flows` and events, its growth and its losses."""

from __future__ import annotations

import subprocess
import sys
import time
from itertools import dropwhile
from types import SimpleNamespace

import pytest

from tests.functional.flow.test_losses import Late, around, infos, steady
from tests.functional.kernel import PHASE, Controller, Namespace, Sink, choose, chosen, eventually
from tests.functional.peer import Behaviour, Flow, Peer, Segment

pytestmark = pytest.mark.rerun("growth is counted by round trips of the peer: ACKs that the host delays come together, as one")

OPEN, DISORDER, CWR, RECOVERY = range(4)
UNPRIVILEGED = ("setpriv", "--reuid=65534", "--clear-groups", "--bounding-set=-all")
CHOOSES = "import socket; socket.socket().setsockopt(6, 13, b'{name}')"
INFINITE = 0x7FFFFFFF
W_T, BETA = 50, 150
RTT_S = 0.04


def w_k(k: int, first: int = W_T) -> int:
    return first * k * (k + 1) * (k - 1) // 6


class Path(Behaviour):
    """40 ms, and a receive window for large windows. Loses these segments, once each."""

    def __init__(self, *lost: int, rtt_s: float = RTT_S) -> None:
        super().__init__(rtt_s=rtt_s, window_bytes=1 << 20)
        self.lose = set(lost)

    def lost(self, segment: Segment) -> bool:
        return segment.number in self.lose


class Overtaken(Late):
    def __init__(self, *late: int) -> None:
        super().__init__(*late)
        self.rtt_s, self.late_s, self.window_bytes = RTT_S, 0.7 * RTT_S, 1 << 20

    def ack_held_s(self, number: int) -> float:
        return 0


def record_of(controller: Controller, flow: Flow) -> SimpleNamespace:
    record = controller.flow(flow.sock)
    assert record
    return record


# --- who may ---------------------------------------------------------------------------------------------------------


def test_only_the_privileged_may_select_it(ltcp: Controller) -> None:
    for name, refused in (("reno", False), (ltcp.name, True)):
        words = [*UNPRIVILEGED, sys.executable, "-c", CHOOSES.format(name=name)]
        done = subprocess.run(words, capture_output=True, text=True, timeout=20)
        assert ("PermissionError" in done.stderr) == refused == bool(done.returncode), done.stderr


# That no other network namespace may make it its default is not tried here: on 6.18 the kernel, refusing it
# (tcp_set_default_congestion_control(), net/ipv4/tcp_cong.c), keeps the reference that it took, and the programs stay
# in the kernel for ever.


def test_root_selects_it_in_other_namespaces(ltcp: Controller, netns_pair: tuple[Namespace, Namespace]) -> None:
    a, _ = netns_pair
    sock = a.socket()
    choose(sock, ltcp.name)
    assert chosen(sock) == ltcp.name
    sock.close()


def test_passes_traffic(ltcp: Controller, netns_pair: tuple[Namespace, Namespace]) -> None:
    a, b = netns_pair
    before = ltcp.stats()
    with Sink(b, "10.77.0.2") as sink:
        sock = a.socket()
        choose(sock, ltcp.name)
        sock.settimeout(10)
        sock.connect(sink.address)
        sock.sendall(bytes(20_000_000))
        eventually(lambda: sink.received == 20_000_000, 10, "all data arrives")
        (record,) = ltcp.flows()
        assert (record.controller, record.ltcp.layer >= 1) == ("ltcp", True)
        sock.close()
        eventually(lambda: not ltcp.flows(), 5, "the record is gone")
    assert ltcp.stats().flows_opened == before.flows_opened + 1


# --- layers ----------------------------------------------------------------------------------------------------------


def sane(record: SimpleNamespace, first: int = W_T) -> None:
    layer = record.ltcp
    assert (layer.layer_begin, layer.layer_end) == (w_k(layer.layer, first), w_k(layer.layer + 1, first))
    assert layer.layer_begin <= record.cwnd < layer.layer_end
    wanted = max(1.0, (record.rtt_min_us / 10_000) ** (1 / 3))
    assert layer.rtt_factor_permille / 1000 == pytest.approx(wanted, abs=0.002)


def test_layers_of_a_large_window(ltcp: Controller, peer: Peer) -> None:
    """Slow start takes it up to the receive window; the layer is that of the window in every record, and each change is
    an event."""
    ltcp.ring.read()
    ltcp.listen(30)
    flow = peer.connect(ltcp.name, Path())
    flow.pump()
    seen: list[SimpleNamespace] = []

    def fourth() -> bool:
        record = ltcp.flow(flow.sock)
        assert record
        seen.append(record)
        return bool(record.ltcp.layer >= 4)

    eventually(fourth, 10, "the fourth layer")
    flow.stop()
    ltcp.listen(0)
    assert seen[0].ltcp.layer == 1
    for record in seen:
        if record.rtt_min_us and record.phase == PHASE.SLOW_START:
            sane(record)
    port = flow.sock.getsockname()[1]
    changes = [(e.a, e.b) for e in ltcp.ring.read() if (e.word, e.local_port) == ("layer", port)]
    assert changes and changes[0][0] == 1 and changes[-1][1] >= 4
    assert [b for _, b in changes[:-1]] == [a for a, _ in changes[1:]], "each change begins where the last one ended"
    assert 0.04 < seen[-1].rtt_min_us / 1e6 < 0.06
    assert seen[-1].delay_us == seen[-1].rtt_us - seen[-1].rtt_min_us


def test_growth_by_the_layer(ltcp: Controller, peer: Peer) -> None:
    """After a loss in the third layer: w^2 grows by 2 K_R K for each packet that arrives."""
    flow = peer.connect(ltcp.name, Path(300))
    flow.pump()
    steady(flow, ltcp, 1)
    begin = eventually(lambda: (r := record_of(ltcp, flow)).ltcp.layer == 3 and r, 5, "the third layer")
    time.sleep(15 * RTT_S)
    end = record_of(ltcp, flow)
    assert (begin.ltcp.layer, end.ltcp.layer) == (3, 3)
    sane(begin)
    packets = (end.bytes_acked - begin.bytes_acked) / end.mss
    assert packets > 2000
    wanted = 2 * 3 * end.ltcp.rtt_factor_permille / 1000 * packets
    assert end.cwnd**2 - begin.cwnd**2 == pytest.approx(wanted, abs=4 * end.cwnd)
    assert end.phase == PHASE.AVOIDANCE
    flow.close()


@pytest.mark.parametrize("number, kept", [(500, 1 - BETA / 1000), (20, 0.5)], ids=["above W_T", "below W_T"])
def test_what_a_loss_takes(number: int, kept: float, ltcp: Controller, peer: Peer) -> None:
    before = ltcp.stats()
    flow = peer.connect(ltcp.name, Path(number))
    flow.pump()
    intact, repaired = around(flow, lambda info: info.ca_state in (OPEN, DISORDER) and info.ssthresh == INFINITE)
    assert (intact.cwnd > W_T) == (kept > 0.5)
    assert repaired.ssthresh == int(intact.cwnd * kept)
    steady(flow, ltcp, 1)
    record = record_of(ltcp, flow)
    assert (record.losses, record.undos) == (1, 0)
    assert ltcp.stats().losses == before.losses + 1
    flow.close()


def test_needless_loss_is_given_back(ltcp: Controller, peer: Peer) -> None:
    flow = peer.connect(ltcp.name, Overtaken(500))
    flow.pump()
    intact, _ = around(flow, lambda info: info.ca_state < RECOVERY)
    eventually(lambda: record_of(ltcp, flow).undos == 1, 5, "the undo")
    time.sleep(2 * RTT_S)
    since = dropwhile(lambda info: info.ca_state < RECOVERY, infos(flow))
    given_back = next(info for info in since if (info.ca_state, info.ssthresh) == (OPEN, INFINITE))
    assert given_back.cwnd >= intact.cwnd > W_T
    flow.close()


def test_grows_only_while_the_window_limits(ltcp: Controller, peer: Peer) -> None:
    """The receive window has room for 120 packets: 30 round trips later the congestion window is not beyond it."""
    behaviour = Path(80)
    behaviour.window_bytes = 120 * 1448
    flow = peer.connect(ltcp.name, behaviour)
    flow.pump()
    steady(flow, ltcp, 1)
    eventually(lambda: record_of(ltcp, flow).cwnd >= 115, 10, "the window that the receiver allows")
    time.sleep(30 * RTT_S)
    assert record_of(ltcp, flow).cwnd <= 130
    flow.close()


# --- parameters ------------------------------------------------------------------------------------------------------


def test_parameters_count_at_the_next_ack(ltcp: Controller, peer: Peer) -> None:
    flow = peer.connect(ltcp.name, Path(500))
    flow.pump()
    steady(flow, ltcp, 1)
    with ltcp.set(layer_window=30):
        deeper = eventually(lambda: (r := record_of(ltcp, flow)).ltcp.layer_begin == w_k(4, 30) and r, 2, "layer 4 of W_T 30")
        sane(deeper, 30)
    with ltcp.set(rtt_ref=1000):
        eventually(lambda: record_of(ltcp, flow).ltcp.rtt_factor_permille > 3000, 2, "K_R of another RTT_ref")
    with ltcp.set(layer_window=1000, rtt_ref=1_000_000):
        reno = eventually(lambda: (r := record_of(ltcp, flow)).ltcp.layer == 1 and r, 2, "the first layer")
        assert reno.ltcp.rtt_factor_permille == 1000
    flow.close()
