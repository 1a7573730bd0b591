# SPDX-License-Identifier: GPL-2.0-only
"""ECE and CWR (RFC 3168, 6.1.2): one reduction for a round trip of echoes, which CWR reports to the receiver."""

from __future__ import annotations

import time

import pytest

from tests.functional.flow.test_losses import INFINITE, LOSS, infos
from tests.functional.kernel import eventually
from tests.functional.peer import CWR as CWR_FLAG
from tests.functional.peer import Segment
from tests.hard.congestion import ALL, RTT_S, TIMED, Connect, Path_, again, at_once, finish

pytestmark = TIMED

AT = 40
KEPT = {name: {"tcpw_lp": 1.0, "nf_tcp": 0.875}.get(name, 0.5) for name in ALL}  # of a window below 38 packets, by a mark
ROUNDS = 4


class Router(Path_):
    """Marks some segments."""

    ecn = True

    def __init__(self, marking: range) -> None:
        super().__init__()
        self.marking = marking

    def marked(self, segment: Segment) -> bool:
        return segment.number in self.marking


@pytest.mark.parametrize("marks", [1, 12], ids=["one mark", "a row of marks"])
@at_once(*ALL)
def test_an_echo_reduces_once(name: str, marks: int, connect: Connect) -> None:
    flow = connect(name, Router(range(AT, AT + marks)))
    flow.pump()
    eventually(lambda: any(info.ssthresh < INFINITE for info in infos(flow)), 5, "a reduction")
    time.sleep(ROUNDS * RTT_S)
    seen = infos(flow)
    first = next(i for i, info in enumerate(seen) if info.ssthresh < INFINITE)
    before, after = seen[first - 1], seen[first]
    assert 2 <= after.ssthresh <= before.cwnd * KEPT[name] + 1
    assert len({info.ssthresh for info in seen[first:]}) == 1, "more than one reduction"
    answers = [segment for segment in flow.end.segments if segment.flags & CWR_FLAG]
    assert 1 <= len(answers) <= 2 and not any(segment.again for segment in answers)
    assert not again(flow) and LOSS not in {info.ca_state for info in seen}
    finish(flow)
