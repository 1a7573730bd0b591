# SPDX-License-Identifier: GPL-2.0-only
"""law/le.h after a loss that was none (le_needless()): what that loss had said of the buffer is forgotten."""

from typing import Any

import pytest

from tests.unit.le import SMALL, WAIT, YIELD, Flow


def known(flow: Flow) -> tuple[int, ...]:
    return flow.l.small_buffer, flow.l.bare, flow.l.back_q8, flow.l.stage


@pytest.mark.parametrize("window", [10, 40], ids=["of a start", "of a large window"])
@pytest.mark.parametrize("chance", [False, True])
def test_a_loss_that_was_none_has_said_nothing(new_le: Any, window: int, chance: bool) -> None:
    """Jitter of 2 ms would be a small buffer that is full, and the path one that never carries a queue."""
    flow = new_le()
    for _ in range(4):
        flow.ack(2000, window=400)
    before = known(flow)
    flow.law.le_loss(flow.l, window, chance, flow.path)
    assert flow.l.of_loss and (known(flow) == before) == chance
    flow.law.le_needless(flow.l)
    assert known(flow) == before and (flow.l.count, flow.l.growth, flow.l.samples) == (0, 3, 0)


def test_what_earlier_losses_said_stays(new_le: Any) -> None:
    flow = new_le()
    for _ in range(2):
        for _ in range(4):
            flow.ack(2000, window=400)
        flow.law.le_loss(flow.l, 40, False, flow.path)
        assert flow.l.small_buffer and flow.l.bare
    back_q8 = flow.l.back_q8
    flow.law.le_needless(flow.l)
    assert flow.l.small_buffer and flow.l.bare and flow.l.back_q8 == back_q8 > 0


def test_a_queue_since_the_loss_is_no_part_of_it(new_le: Any) -> None:
    """Undo then leaves the flow in its pairs."""
    flow = new_le()
    flow.law.le_loss(flow.l, 10, False, flow.path)
    assert flow.l.stage == SMALL and flow.l.of_loss
    assert flow.pair(11_000) == WAIT and not flow.l.of_loss
    flow = new_le()
    flow.l.back_q8 = 1
    flow.law.le_loss(flow.l, 40, False, flow.path)
    flow.round()
    flow.block(20_000)
    assert flow.decide() == YIELD and flow.l.stage == SMALL and not flow.l.of_loss
