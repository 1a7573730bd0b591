# SPDX-License-Identifier: GPL-2.0-only
"""What the tests of the controllers' congestion control share: every controller beside reno, and paths that do one thing.

Each test is one situation, tried with all controllers at once, because most of it is waiting. reno is among them: where it fails, the
test is wrong. A path of 40 ms without a bottleneck makes a flow predictable, and the parameters in CALM keep out what these tests are
not about: early indications of this machine's own delays, chirps, and pacing. A flow's own law is tested in tests/functional.
"""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest

from tests.functional import kernel
from tests.functional.conftest import RERUNS
from tests.functional.flow.test_losses import DISORDER, INFINITE, LOSS, OPEN, infos
from tests.functional.kernel import Controller, TcpInfo, eventually, tcp_info
from tests.functional.peer import Behaviour, Flow, Segment

ALL = ["reno", *kernel.KINDS]
RTT_S = 0.04
MSS = 1448
INITIAL_WINDOW = 10  # RFC 6928
FIRST = {name: 4 if name == "le" else INITIAL_WINDOW for name in ALL}  # packets: le's start is gentle

# What fails three times in a row has failed; see tests/functional/conftest.py.
TIMED = [
    pytest.mark.quiet,
    pytest.mark.rerun("segments and ACKs are timed: a host that stands still looks like a delay, or lets a timer expire"),
    pytest.mark.flaky(reruns=RERUNS, reruns_delay=1),
]

# The largest part of a window below 38 packets that a loss may leave. TCPW-LP keeps what the path carried.
KEPT = {name: 1.0 if name == "tcpw_lp" else 0.5 for name in ALL}
KEPT_OF_ONE = {**KEPT, "le": 1.0}  # the same after a single loss: le takes the first one for chance

_NEVER_US = 10_000_000
_LP = {"delta": 900, "pace_rtt": _NEVER_US}
CALM: dict[str, dict[str, int]] = {
    "tcp_lp": _LP, "tcp_lp_ecn": _LP, "hstcp_lp": _LP, "tcpw_lp": {"backlog_max": 64000, "pace_rtt": _NEVER_US},
    "nf_tcp": {"probe": 0, "pace_rtt": _NEVER_US}, "ltcp": {}, "le": {"threshold": 100_000, "pace_rtt": _NEVER_US},
}  # fmt: skip


Connect = Callable[[str, Behaviour], Flow]


def at_once(*names: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Calls the test with each of these as its `name`, at once. It fails with what failed, by name."""

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        def together(**fixtures: Any) -> None:
            with ThreadPoolExecutor(len(names)) as pool:
                calls = {name: pool.submit(test, name=name, **fixtures) for name in names}
            failed: list[BaseException] = []
            for name, call in calls.items():
                if error := call.exception():
                    error.add_note(f"with {name}")
                    failed.append(error)
            if failed:
                raise BaseExceptionGroup(f"{len(failed)} of {len(names)}", failed)

        signature = inspect.signature(test)
        parameters = [parameter for name, parameter in signature.parameters.items() if name != "name"]
        together.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
        together.__name__, together.__doc__ = test.__name__, test.__doc__
        return together

    return decorate


@contextmanager
def calm(controllers: dict[str, Controller]) -> Iterator[None]:
    with ExitStack() as stack:
        for name, values in CALM.items():
            stack.enter_context(controllers[name].set(**values))
        yield


class Path_(Behaviour):
    """A path that loses these segments, once each, and can be closed for a while in both directions or for ACKs alone."""

    def __init__(self, losing: Iterable[int] = (), **path: Any) -> None:
        super().__init__(rtt_s=RTT_S, **path)
        self.losing = set(losing)
        self.dead = False
        self.acks_wait_until_s = 0.0

    def lost(self, segment: Segment) -> bool:
        return self.dead or segment.number in self.losing

    def ack_held_s(self, number: int) -> float:
        return max(0.0, self.acks_wait_until_s - time.monotonic())


def again(flow: Flow) -> list[Segment]:
    return [segment for segment in flow.end.segments if segment.again]


def burst(flow: Flow, since: int = 0) -> list[Segment]:
    """The segments that left within most of a round trip, from this one on: before any ACK for it could come."""
    segments = flow.end.segments[since:]
    return [segment for segment in segments if segment.at_s < segments[0].at_s + 0.9 * RTT_S]


def timed_out(flow: Flow) -> TcpInfo:
    """The state right after a retransmission timeout."""

    def find() -> TcpInfo | None:
        info = tcp_info(flow.sock)
        return info if info.ca_state == LOSS else None

    found = eventually(find, 5, "a retransmission timeout", every_s=0.002)
    assert found
    return found


def untouched(info: TcpInfo) -> bool:
    return info.ca_state in (OPEN, DISORDER) and info.ssthresh == INFINITE


def finish(flow: Flow) -> None:
    """Every byte arrives, and the window was never 0."""
    flow.stop()
    flow.deliver(10)
    assert all(info.cwnd >= 1 for info in infos(flow))
    flow.close()
