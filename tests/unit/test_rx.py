# SPDX-License-Identifier: GPL-2.0-only
"""The receiver's law (rx_window.h, rx_delay.h, rx_clock.h) at the end of a small path: a sender that fills what is advertised,
one bottleneck, and a queue of others that comes and goes."""

import heapq
import math
import statistics
from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.cdata import Ffi, Laws

MSS = 1448
RATE = 1.25  # bytes per us
LINK = RATE * 8  # Mbit/s
BASE_US = 50_000
WRAP = 1 << 32
FIRST_CWND = 10
FREE, CUT, JUDGE, SMALL = range(4)  # enum le_stage
SHALLOW, SINKS, RISES = range(3)  # enum rx_depth


@dataclass
class Path:
    """A download. `others(t)`: us of queue ahead of a packet that is sent at t us."""

    ffi: Ffi
    law: Laws
    others: Callable[[float], float] = lambda t: 0.0
    tick_us: float = 1000.0
    drift: float = 0.0  # of the sender's clock
    scale: int = 7
    buffer_us: float = 125_000.0
    limit: float = 1e12  # bytes/s that the sender has
    stands: tuple[float, float] = (math.inf, math.inf)  # nothing arrives between these seconds
    jumps: tuple[float, int] = (math.inf, 0)  # from this second on the sender's clock is so many ticks ahead
    windows: list[tuple[float, int]] = field(default_factory=list)
    arrived: list[tuple[float, int]] = field(default_factory=list)
    STATE = "struct rx *"

    def answer(self, x: Any, ack: Any) -> int:
        """An ACK's window, by the law."""
        if not x.started:
            self.law.rx_init(x, ack)
        self.law.rx_step(x, ack)
        return int(self.law.rx_window(x, ack))

    def run(self, seconds: float) -> Any:
        ack, x = self.ffi.new("struct rx_ack *"), self.ffi.new(self.STATE)
        events: list[tuple[float, int, str, Any]] = []
        number = 0
        sent, edge, una, cwnd, free, last, rcv_nxt, right = 0, 65535, 0, FIRST_CWND * MSS, 0.0, 0.0, 0, 65535

        def push(at: float, kind: str, what: Any) -> None:
            nonlocal number
            number += 1
            heapq.heappush(events, (at, number, kind, what))

        push(0.0, "ack", (0, 65535, 0))
        self.ts0 = WRAP - 5000
        while events:
            now, _, kind, what = heapq.heappop(events)
            if now > seconds * 1e6:
                break
            if kind == "ack":
                acked, edge_now, echo = what
                cwnd, una, edge = min(cwnd + acked - una, 1 << 20), acked, edge_now
                while sent + MSS <= min(edge, una + cwnd, self.limit * now / 1e6 + FIRST_CWND * MSS):
                    leaves = max(now, free) + MSS / RATE
                    if leaves - now - MSS / RATE + self.others(now) > self.buffer_us:
                        cwnd = max((sent - una) // 2, MSS)  # it would be lost: a sender that knows is enough here
                        break
                    free, sent = leaves, sent + MSS
                    stamp = self.ts0 + int(now * (1 + self.drift) / self.tick_us) + self.jumps[1] * (now >= self.jumps[0] * 1e6)
                    at = last = max(last, leaves + BASE_US / 2 + self.others(now))  # in order
                    begins, ends = (1e6 * second for second in self.stands)
                    push(ends if begins <= at < ends else at, "data", (sent, stamp, echo))
                continue
            rcv_nxt, stamp, echo = what
            self.arrived.append((now, rcv_nxt))
            if rcv_nxt // MSS % 2 and right - rcv_nxt >= MSS:
                continue  # a delayed ACK
            ack.now_us, ack.long_us, ack.our_ts = int(now) % WRAP, int(now), int(now / 1000) % WRAP
            ack.tsval, ack.tsecr, ack.rcv_nxt = stamp % WRAP, echo, rcv_nxt
            ack.left, ack.mss, ack.unit, ack.rtt_us, ack.fresh = right - rcv_nxt, MSS, 1 << self.scale, BASE_US, True
            window = self.answer(x, ack)
            self.windows.append((now, window))
            right = max(right, up(rcv_nxt + window, 1 << self.scale))
            push(now + BASE_US / 2, "ack", (rcv_nxt, right, int(now / 1000) % WRAP))
        return x

    def mbit(self, begin: float, end: float) -> float:
        inside = [got for at, got in self.arrived if begin <= at / 1e6 < end]
        return (inside[-1] - inside[0]) * 8e-6 / (end - begin) if inside else 0.0

    def window_at(self, second: float) -> int:
        return next(window for at, window in reversed(self.windows) if at <= second * 1e6)


def up(value: int, unit: int) -> int:
    return -(-value // unit) * unit


@pytest.fixture
def path(ffi: Ffi, law: Laws) -> Callable[..., Path]:
    return lambda **what: Path(ffi, law, **what)


def step(begin: float, end: float, queue_us: float) -> Callable[[float], float]:
    return lambda t: queue_us if begin <= t / 1e6 < end else 0.0


@pytest.mark.parametrize("tick_us", [1.0, 1000.0, 4000.0, 10_000.0])
def test_alone_it_uses_the_link(path: Callable[..., Path], tick_us: float) -> None:
    alone = path(tick_us=tick_us)
    x = alone.run(20)
    assert x.clock.tick_ns == tick_us * 1000
    assert alone.mbit(5, 20) >= LINK * 0.95


@pytest.mark.parametrize("scale", [0, 7, 9])
def test_it_yields_and_comes_back(path: Callable[..., Path], scale: int) -> None:
    beside = path(others=step(10, 14, 60_000), scale=scale)
    beside.run(20)
    yielded = next(at for at, window in beside.windows if at > 10e6 and window == MSS)
    assert yielded <= 10.45e6, yielded
    assert beside.mbit(11, 14) < 0.2
    back = next(at for at, window in beside.windows if at > 14.3e6 and window >= 7 / 8 * LINK * BASE_US / 8)
    assert back <= 15.0e6, back


@pytest.mark.parametrize("scale", [0, 7, 9])
def test_after_its_return_it_uses_the_link(path: Callable[..., Path], scale: int) -> None:
    used = []
    for later in range(16):
        beside = path(others=step(10 + later / 80, 14 + later / 80, 60_000), scale=scale)
        beside.run(20)
        used.append(beside.mbit(15, 20) / LINK)
    assert statistics.median(used) >= 0.94 and min(used) >= 0.89, used


@pytest.mark.parametrize(("remains_us", "least"), [(0, False), (7_000, True)])
def test_a_queue_that_remains_after_its_own_was_drained_is_that_of_others(
    path: Callable[..., Path], remains_us: float, least: bool
) -> None:
    beside = path(others=lambda t: step(10, 10.08, 25_000)(t) or step(10.08, 12, remains_us)(t))
    beside.run(11)
    after = [window for at, window in beside.windows if at > 10e6]
    assert (min(after) == MSS) == least and min(after) < 65_000


@pytest.mark.parametrize(
    ("cut_us", "queues_us", "stages"),
    [
        (4800, [4800, 4800, 4800], [JUDGE, JUDGE, SMALL]),
        (2000, [4800, 4800], [JUDGE, SMALL]),  # more than twice that of the cut
        (8016, [8016, 8016], [JUDGE, SMALL]),  # more than twice the threshold
        (4000, [8016], [SMALL]),
        (4800, [4800, 3200], [JUDGE, FREE]),  # the others have drained meanwhile
        (4800, [3200], [FREE]),
    ],
)
def test_the_first_block_of_a_judgement_may_be_above_the_threshold(
    ffi: Ffi, law: Laws, cut_us: int, queues_us: list[int], stages: list[int]
) -> None:
    x, ack = ffi.new("struct rx *"), ffi.new("struct rx_ack *", {"mss": MSS, "unit": 1, "rtt_us": BASE_US})
    law.rx_init(x, ack)
    for _ in range(2):  # the second judgement as the first one
        law.rx_set(x, ack, 40)
        x.law.stage, x.law.count, x.law.cut_q = JUDGE, 0, cut_us // 16
        seen = []
        for x.law.q in [queue_us // 16 for queue_us in queues_us]:
            law.rx_decide(x, ack)
            seen.append(x.law.stage)
        assert seen == stages


@pytest.mark.parametrize(
    ("most_us", "small_buffer", "packet_us", "noise_us", "expected_us"),
    [
        (100_000, 0, 1000, 0, 4000),
        (6016, 1, 1000, 0, 3008),  # half of a small buffer
        (1600, 1, 100, 0, 1000),  # but not less than a tick
        (100_000, 0, 4000, 0, 6000),  # 1.5 packets
        (100_000, 0, 1000, 4000, 6000),  # 1.5 times the noise
        (100_000, 0, 1000, 40_000, 9000),  # which counts up to 6 ms
    ],
)
def test_the_threshold(
    ffi: Ffi, law: Laws, most_us: int, small_buffer: int, packet_us: int, noise_us: int, expected_us: int
) -> None:
    x, ack = ffi.new("struct rx *"), ffi.new("struct rx_ack *", {"mss": MSS, "rtt_us": BASE_US})
    law.rx_init(x, ack)
    x.law.most, x.law.small_buffer = most_us // 16, small_buffer
    x.spacing.packet_us, x.noise.noise, x.avoiding = packet_us, noise_us // 4, True
    assert law.rx_threshold(x) == expected_us


def test_a_clock_of_10_ms_is_no_queue(ffi: Ffi, law: Laws) -> None:
    """Half a tick of a delay is the sender's clock, in the mean."""
    x, ack = ffi.new("struct rx *"), ffi.new("struct rx_ack *", {"mss": MSS, "rtt_us": BASE_US})
    law.rx_init(x, ack)
    x.queue_us = 9000
    for tick_us, others_us in ((1, 9000), (1000, 8500), (10_000, 4000), (20_000, 0)):
        x.clock.tick_ns = tick_us * 1000
        assert law.rx_others_us(x, ack, 1) == others_us


PACKET_US = 1200
EACH_US = PACKET_US * 7 // 8


@pytest.mark.parametrize(
    ("sent_ms", "waited_us"),
    [
        ((0, 0, 0, 0, 0, 0), 4 * EACH_US),  # a burst, behind a pair
        ((0, 2, 4, 6, 8, 10), 0),  # as the link carries them
        ((0, 0, 0, 0, 0, 100), 0),  # long after a burst
        ((0, 0, 0, 0, 0, 3), 4 * EACH_US - 3000),
    ],
)
def test_what_a_packet_waits_for_its_own_burst(ffi: Ffi, law: Laws, sent_ms: tuple[int, ...], waited_us: int) -> None:
    x, ack = ffi.new("struct rx *"), ffi.new("struct rx_ack *", {"mss": MSS, "rtt_us": BASE_US, "tsval": WRAP - 3})
    law.rx_init(x, ack)
    x.clock.tick_ns, x.spacing.packet_us, x.avoiding, x.own_ts = 1_000_000, PACKET_US, True, WRAP - 3
    got = 0
    for at in sent_ms:
        ack.tsval = (WRAP - 3 + at) % WRAP
        got = law.rx_own_us(x, ack, 1)
    assert got == waited_us


def test_a_queue_that_stands_is_not_its_own_burst(ffi: Ffi, law: Laws) -> None:
    """A window above what the path carries is sent at the link's rate, and stays in the queue."""
    x, ack = ffi.new("struct rx *"), ffi.new("struct rx_ack *", {"mss": MSS, "rtt_us": BASE_US})
    law.rx_init(x, ack)
    x.clock.tick_ns, x.spacing.packet_us, x.avoiding, x.own_us = 1000, PACKET_US, True, 40_000
    waited = []
    for number in range(400):
        ack.tsval = number * PACKET_US
        waited.append(law.rx_own_us(x, ack, 1))
    assert waited[0] > 30_000 and waited[-1] == 0


def test_on_its_way_back_it_gives_way_to_a_small_queue(path: Callable[..., Path]) -> None:
    """The others have not left if there is a queue long before the window is what it was."""
    beside = path(others=lambda t: step(10, 14, 60_000)(t) or step(14, 30, 5_000)(t))
    beside.run(18)
    assert beside.window_at(18) <= 4 * MSS


def test_one_packet_alone_is_no_shorter_path(ffi: Ffi, law: Laws) -> None:
    x, ack = ffi.new("struct rx *"), ffi.new("struct rx_ack *", {"mss": MSS, "unit": 1, "rtt_us": BASE_US})
    x.clock.anchored, x.clock.tick_ns = 1, 1_000_000
    x.delay.rtt.now, x.delay.rtt.before, x.avoiding = BASE_US, WRAP // 2 - 1, True

    def delay(us: int, hole: bool = False) -> int:
        ack.now_us, ack.hole = us, hole
        return int(law.rx_delay(x, ack))

    assert [delay(us) for us in (41_000, 50_500, 41_000, 41_500)] == [BASE_US, 50_500, BASE_US, 41_500], "two in a row are"
    x.lone = False
    assert [delay(41_000, hole=True), delay(41_000)] == [BASE_US, BASE_US], "one of them overtook"
    x.lone = False
    assert delay(43_000) == 43_000, "a queue that drains"
    x.avoiding = False
    assert delay(41_000) == 41_000, "START has seen little"


def test_which_drains_take_more(ffi: Ffi, law: Laws) -> None:
    x, ack = ffi.new("struct rx *"), ffi.new("struct rx_ack *", {"mss": MSS, "unit": 1, "rtt_us": BASE_US})
    assert [number for number in range(1, 300) if law.rx_deep(x)] == [8, 16, 32, 64, 128, 256 + 8, 256 + 16, 256 + 32]
    law.rx_init(x, ack)
    x.avoiding, x.packets, x.flight, x.law.stage, x.law.q, x.drains = True, 100, 100 * MSS, FREE, 4800 // 16, 7
    law.rx_drain(x, ack)
    assert (x.packets, x.return_to, x.credit, x.depth) == (91, 91, 0, SINKS)  # 50 / (50 + 4.8) of it
    assert law.rx_every(x, True) == 4
    law.rx_sink(x, 7)
    assert (x.packets, x.credit) == (90, 3)
    while x.depth == SINKS:
        law.rx_sink(x, 2)
    assert (x.packets, x.return_to, x.depth) == (69, 91, RISES)  # three quarters of it
    assert law.rx_every(x, True) == 8
    law.rx_drain(x, ack)
    assert (x.packets, x.depth) == (x.return_to, SHALLOW)


def test_a_deep_drain_takes_and_gives_a_packet_now_and_then(path: Callable[..., Path]) -> None:
    """A hole in what comes would be followed by a burst."""
    alone = path()
    x = alone.run(20)
    packets = [window // MSS for _, window in alone.windows]
    steps = [after - before for before, after in zip(packets, packets[1:], strict=False)]
    assert x.drains > 8
    assert max(steps[len(steps) // 4 :]) <= 2, "packets that an ACK gives"
    assert min(steps[len(steps) // 4 :]) >= -8, "packets that a drain takes"


def test_a_flow_that_began_in_the_queue_of_others_finds_the_empty_path(path: Callable[..., Path]) -> None:
    """The others yield to it little by little, and it takes their place in the queue."""
    late = path(others=lambda t: max(0.0, 12_000 - t / 5000))
    x = late.run(100)
    assert x.rtt_min_us <= BASE_US + 3000 and late.mbit(80, 100) >= 0.95 * LINK


@pytest.mark.parametrize("drift", [-200e-6, 200e-6])
def test_clocks_that_drift_are_no_queue(path: Callable[..., Path], drift: float) -> None:
    drifting = path(drift=drift)
    drifting.run(150)
    assert drifting.mbit(100, 150) >= 8.0


def test_a_longer_path_is_no_queue(path: Callable[..., Path]) -> None:
    longer = path(others=step(10, 1000, 60_000))
    longer.run(45)
    assert longer.mbit(10, 14) < 1.0 and longer.mbit(38, 45) >= 5.0


@pytest.mark.parametrize("stood_s", [0.2, 1.5, 3.0])
def test_a_path_that_stands_still_does_not_show_its_buffer(path: Callable[..., Path], stood_s: float) -> None:
    """200 ms on a buffer of 25 ms."""
    stall = path(buffer_us=25_000, stands=(10.0, 10.0 + stood_s), others=step(15, 18, 20_000))
    x = stall.run(18)
    assert x.law.most * 16 <= 30_000
    assert stall.mbit(16, 18) < 0.1 * LINK


def test_a_host_that_was_suspended_still_yields(path: Callable[..., Path]) -> None:
    """Its clock stood still for 30 s, the sender's did not."""
    woken = path(others=step(15, 18, 60_000), jumps=(10.0, 30_000))
    x = woken.run(18)
    assert x.law.most * 16 < 200_000 and woken.mbit(16, 18) < 0.1 * LINK


def test_a_path_that_becomes_many_times_longer(path: Callable[..., Path]) -> None:
    """Each segment of the smallest window comes after a silence, and still rounds end."""
    longer = path(others=step(10, 1000, 300_000), buffer_us=1e6)
    longer.run(60)
    assert longer.mbit(10.5, 14) < 1.0 and longer.mbit(50, 60) >= 0.2 * LINK


def test_in_the_start_a_block_is_a_round(ffi: Ffi, law: Laws) -> None:
    """Bursts at twice the link's rate are a queue for most of a round."""
    x = ffi.new("struct rx *")
    x.packets = 40
    assert (law.rx_block_window(x, False), law.rx_block_window(x, True)) == (WRAP - 1, 0)
    x.avoiding = True
    assert law.rx_block_window(x, False) == law.rx_block_window(x, True) == 40


@pytest.mark.parametrize("tick_us", [100_000.0, math.inf])
def test_without_a_clock_losses_alone_decide(path: Callable[..., Path], tick_us: float) -> None:
    """The sender's clock fits no tick in use: a cut is not judged, and SMALL ends."""
    blind = path(tick_us=tick_us)
    given, cuts = blind.answer, iter((2.0, 2.5, 6.0, math.inf))
    at = next(cuts)

    def answer(x: Any, ack: Any) -> int:
        nonlocal at
        window = given(x, ack)
        if ack.long_us > at * 1e6:
            at = next(cuts)
            blind.law.rx_loss(x, ack)
        return window

    blind.answer = answer  # type: ignore[method-assign]
    x = blind.run(60)
    assert not x.clock.tick_ns and x.avoiding and blind.mbit(40, 60) >= 0.9 * LINK


@pytest.mark.parametrize(("waited", "ends"), [(8, False), (9, True)])
def test_a_blind_small_window_ends_after_its_gap(ffi: Ffi, law: Laws, waited: int, ends: bool) -> None:
    x, ack = ffi.new("struct rx *"), ffi.new("struct rx_ack *", {"mss": MSS, "unit": 1, "rtt_us": BASE_US})
    law.rx_init(x, ack)
    x.avoiding, x.packets, x.law.stage, x.law.count, x.law.back_q8, x.waited = True, 1, SMALL, 8, 40 << 8, waited
    law.rx_unseen(x, ack)
    assert (x.packets, x.return_to) == ((4, 40) if ends else (1, 0)) and x.law.stage == (FREE if ends else SMALL)


def test_the_noise_of_a_start_is_its_own_queue(ffi: Ffi, law: Laws) -> None:
    x, ack = ffi.new("struct rx *"), ffi.new("struct rx_ack *", {"mss": MSS, "unit": 1, "rtt_us": BASE_US})
    law.rx_init(x, ack)
    x.noise.noise = 20_000 // 4
    assert law.rx_threshold(x) == 4000
    law.rx_set(x, ack, 40)
    assert x.avoiding and law.rx_threshold(x) == 4000
    x.noise.noise = 4000 // 4
    law.rx_set(x, ack, 40)
    assert law.rx_threshold(x) == 6000


def test_chance_loses_no_verdict(ffi: Ffi, law: Laws) -> None:
    """The ACK of a chance loss judges as any other: SMALL ends here."""
    x, ack = ffi.new("struct rx *"), ffi.new("struct rx_ack *", {"mss": MSS, "unit": 1, "rtt_us": BASE_US, "fresh": True})
    law.rx_init(x, ack)
    x.avoiding, x.packets, x.return_to, x.flight, x.law.back_q8 = True, 40, 40, 40 * MSS, 80 << 8
    x.law.fits, x.law.stage, x.law.of_loss, x.law.samples, x.law.block = True, JUDGE, 1, 8, 100
    x.clock.tick_ns, x.clock.anchored, x.delay.rtt.now = 1000, True, BASE_US
    x.hole, x.hole_ts, x.round_ts = True, 5, 100
    ack.rcv_nxt, ack.tsval, ack.now_us = MSS, 6, 1000
    law.rx_step(x, ack)
    assert x.law.stage == FREE and x.packets == 40 and x.return_to == 65  # 7/8 of back, which lost an eighth of the way


@pytest.mark.parametrize(("avoiding", "left", "packets"), [(False, 500, 300), (False, 250, 250), (True, 500, 200)])
def test_how_much_of_what_is_advertised_a_cut_awaits(ffi: Ffi, law: Laws, avoiding: bool, left: int, packets: int) -> None:
    """START is three flights of 100 packets ahead, for which no queue is judged; later two count."""
    x, ack = ffi.new("struct rx *"), ffi.new("struct rx_ack *", {"mss": MSS, "unit": 1, "rtt_us": BASE_US, "left": left * MSS})
    law.rx_init(x, ack)
    x.avoiding, x.flight = avoiding, 100 * MSS
    law.rx_set(x, ack, 50)
    assert x.muted and x.muted_until == packets * MSS and x.avoiding


def test_a_slow_sender_is_not_held(path: Callable[..., Path]) -> None:
    slow = path(limit=100_000)
    x = slow.run(20)
    assert not x.avoiding and min(window for _, window in slow.windows) == 65535 // MSS * MSS // 128 * 128


@given(st.integers(0, 2**32 - 1), st.integers(536, 65_000), st.integers(0, 14))
def test_what_is_advertised(ffi: Ffi, law: Laws, window: int, mss: int, scale: int) -> None:
    ack = ffi.new("struct rx_ack *", {"mss": mss, "unit": 1 << scale})
    got = law.rx_rounded(window, ack)
    assert got >= mss and (got == mss or (got % (1 << scale) == 0 and got <= window < got + (1 << scale)) or window > 2**30)


@pytest.mark.parametrize(("filled_by", "lost"), [(99, False), (100, False), (101, True)])
def test_a_hole_that_a_later_packet_fills_was_a_loss(ffi: Ffi, law: Laws, filled_by: int, lost: bool) -> None:
    """Of two packets behind the hole the first was sent at 100."""
    x, ack = ffi.new("struct rx *"), ffi.new("struct rx_ack *")
    for rcv_nxt, tsval, hole in ((1000, 99, False), (1000, 100, True), (1000, 100, True)):
        ack.rcv_nxt, ack.tsval, ack.hole = rcv_nxt, tsval, hole
        assert not law.rx_lost(x, ack)
        x.rcv_nxt = rcv_nxt
    ack.rcv_nxt, ack.tsval, ack.hole = 4000, filled_by, False
    assert law.rx_lost(x, ack) == lost


def test_a_hole_that_older_packets_fill_in_part(ffi: Ffi, law: Laws) -> None:
    """What waits behind it is the same as before: the packet of 100."""
    x, ack = ffi.new("struct rx *"), ffi.new("struct rx_ack *")
    x.rcv_nxt = 1000
    for rcv_nxt, tsval, hole, lost in ((1000, 100, True, False), (2000, 80, True, False), (3000, 81, True, False),
                                       (4000, 101, True, True), (5000, 101, False, False)):  # fmt: skip
        ack.rcv_nxt, ack.tsval, ack.hole = rcv_nxt, tsval, hole
        assert law.rx_lost(x, ack) == lost
        x.rcv_nxt = rcv_nxt


def test_a_pause_is_no_round_trip(ffi: Ffi, law: Laws) -> None:
    x, ack = ffi.new("struct rx *"), ffi.new("struct rx_ack *", {"mss": MSS, "rtt_us": BASE_US})
    law.rx_init(x, ack)
    ack.rcv_nxt, ack.now_us, ack.our_ts = MSS, 1_000_000, 1000
    law.rx_notice_silence(x, ack)
    assert (x.round_us, x.round_ts, x.round_seq) == (1_000_000, 1000, MSS) and x.rtt_us == 2 * BASE_US
    assert not law.rx_round_over(x, ack)


@pytest.mark.parametrize(("left", "until"), [(40, 30 + 40), (11, 50), (60, 50)])
def test_an_edge_that_creeps_is_followed(ffi: Ffi, law: Laws, left: int, until: int) -> None:
    """Up to twice as far as the edge was at the cut; where the window fits, it crept no more."""
    x, ack = ffi.new("struct rx *"), ffi.new("struct rx_ack *", {"mss": 1, "rtt_us": BASE_US, "left": left, "rcv_nxt": 30})
    law.rx_init(x, ack)
    x.rcv_nxt, x.flight, x.packets, x.muted, x.muted_until, x.follow_until = 30, 100, 10, True, 50, 80
    law.rx_follow(x, ack)
    assert x.muted_until == until


@pytest.mark.parametrize(("window", "flight", "used"), [(100, 100, 100), (100, 40, 44.5), (100, 20, 23.25)])
def test_a_drain_begins_with_what_comes(ffi: Ffi, law: Laws, window: int, flight: int, used: float) -> None:
    """Where that is less than the window: the sender may have reduced for a loss."""
    x, ack = ffi.new("struct rx *"), ffi.new("struct rx_ack *", {"mss": MSS, "unit": 1, "rtt_us": BASE_US, "left": window * MSS})
    law.rx_init(x, ack)
    x.packets, x.flight, x.avoiding, x.law.q = window, flight * MSS, True, 10_000 // 16
    x.law.back_q8 = 50 * 256
    law.rx_drain(x, ack)
    assert x.packets == int(used * BASE_US / (BASE_US + 10_000)) and x.muted and x.return_to == x.packets


@pytest.mark.parametrize(("flight", "grows"), [(100, True), (66, True), (65, False)])
def test_a_window_that_does_not_limit_does_not_grow(ffi: Ffi, law: Laws, flight: int, grows: bool) -> None:
    x, ack = ffi.new("struct rx *"), ffi.new("struct rx_ack *", {"mss": MSS, "unit": 1, "rtt_us": BASE_US})
    law.rx_init(x, ack)
    x.packets, x.return_to, x.flight, x.avoiding = 100, 200, flight * MSS, True
    law.rx_grow(x, ack, 40)
    assert x.packets == (110 if grows else 100)


@pytest.mark.parametrize(
    ("fits", "most_us", "hole_us", "left"),
    [
        (True, 0, 3984, 100),
        (True, 0, 4000, 50),
        (False, 0, 0, 88),
        (False, 0, 3984, 88),
        (False, 7984, 0, 88),
        (False, 8000, 0, 100),
        (False, 100_000, 4000, 50),
    ],
)
def test_a_loss_without_a_queue_is_the_senders_matter(
    ffi: Ffi, law: Laws, fits: bool, most_us: int, hole_us: int, left: int
) -> None:
    """A path that has shown no queue may have a buffer too small to be seen, or a policer: there an eighth goes."""
    x, ack = ffi.new("struct rx *"), ffi.new("struct rx_ack *", {"mss": MSS, "unit": 1, "rtt_us": BASE_US})
    law.rx_init(x, ack)
    x.avoiding, x.packets, x.return_to, x.flight, x.law.back_q8 = True, 100, 100, 100 * MSS, 100 << 8
    x.law.fits, x.law.most, x.hole, x.hole_ts, x.hole_us = fits, most_us // 16, True, 5, hole_us
    ack.rcv_nxt, ack.tsval, ack.now_us, ack.tsecr = 40 * MSS, 6, 1000, WRAP - 1
    law.rx_step(x, ack)
    assert left - 5 <= x.packets <= left
    assert left != 88 or x.law.back_q8 == x.packets << 8


@pytest.mark.parametrize(("most_us", "bare"), [(7984, True), (8000, False)])
def test_a_start_that_filled_the_buffer_is_not_slow_afterwards(ffi: Ffi, law: Laws, most_us: int, bare: bool) -> None:
    """Its block had not ended. On a path that never carried a queue the window grows by half a packet only."""
    x, ack = ffi.new("struct rx *"), ffi.new("struct rx_ack *", {"mss": MSS, "unit": 1, "rtt_us": BASE_US})
    law.rx_init(x, ack)
    x.packets, x.law.most, x.hole_us = 100, most_us // 16, most_us
    ack.rcv_nxt, ack.now_us = 100 * MSS, BASE_US
    law.rx_round(x, ack)
    law.rx_loss(x, ack)
    assert bool(x.law.bare) == bare == (not x.law.fits)


@pytest.mark.parametrize(("rounds", "undone"), [(0, True), (2, True), (3, False)])
@pytest.mark.parametrize("avoiding", [False, True])
def test_a_loss_that_was_none_is_undone(ffi: Ffi, law: Laws, avoiding: bool, rounds: int, undone: bool) -> None:
    """What was sent again had come before (D-SACK), within three rounds."""
    x, ack = ffi.new("struct rx *"), ffi.new("struct rx_ack *", {"mss": MSS, "unit": 1, "rtt_us": BASE_US})
    law.rx_init(x, ack)
    x.avoiding, x.packets, x.return_to, x.flight, x.hole_us = avoiding, 100, 100, 100 * MSS, 4000
    assert law.rx_loss(x, ack) == law.RX_LOSS and x.packets == 50 and x.avoiding
    x.law.rounds = rounds
    law.rx_undo(x)
    assert x.packets == (100 if undone else 50) and x.avoiding == (avoiding or not undone) and x.muted != undone


def test_a_cut_for_a_queue_is_not_undone(ffi: Ffi, law: Laws) -> None:
    x, ack = ffi.new("struct rx *"), ffi.new("struct rx_ack *", {"mss": MSS, "unit": 1, "rtt_us": BASE_US})
    law.rx_init(x, ack)
    x.avoiding, x.packets, x.return_to, x.flight = True, 100, 100, 100 * MSS
    law.rx_loss(x, ack)
    law.rx_set(x, ack, 1)
    law.rx_undo(x)
    assert x.packets == 1


def test_a_packet_that_overtook_is_no_minimum(ffi: Ffi, law: Laws) -> None:
    """It came by another way, and a hole is before it."""
    x, ack = ffi.new("struct rx *"), ffi.new("struct rx_ack *", {"mss": MSS, "unit": 1, "rtt_us": BASE_US})
    law.rx_init(x, ack)
    x.clock.tick_ns, x.clock.anchored = 1000, True
    x.delay.rtt.now = BASE_US
    ack.now_us, ack.tsval = 100_000, 120_000  # 20 ms faster than ever
    for hole, delay_us in ((True, BASE_US), (False, BASE_US - 20_000)):
        ack.hole = hole
        assert law.rx_delay(x, ack) == delay_us


@given(st.sampled_from([1, 1000, 4000, 10_000]), st.integers(0, WRAP - 1), st.integers(0, WRAP - 1),
       st.lists(st.integers(0, 8_000), min_size=60, max_size=60))  # fmt: skip
def test_the_one_way_delay(ffi: Ffi, law: Laws, tick_us: int, start_ts: int, start_us: int, delays: list[int]) -> None:
    """Whatever the clocks say at first: within a tick, and what the tick may be wrong by is nothing."""
    clock = ffi.new("struct rx_clock *")
    law.rx_clock_init(clock)
    seen = []
    for number, delay in enumerate(delays):
        sent = number * 50_000
        now, tsval = (start_us + sent + delay) % WRAP, (start_ts + sent // tick_us) % WRAP
        law.rx_clock_heard(clock, now, tsval)
        if clock.tick_ns:
            seen.append((law.rx_clock_owd_us(clock, now, tsval), delay))
    assert clock.tick_ns == tick_us * 1000 and len(seen) > 30
    differences = [owd - delay for owd, delay in seen]
    assert max(differences) - min(differences) <= tick_us + 1


def test_a_clock_that_stands_still_is_not_used(ffi: Ffi, law: Laws, c: SimpleNamespace) -> None:
    clock = ffi.new("struct rx_clock *")
    for now in range(0, c.RX_CLOCK_GIVE_UP_US * 2, 10_000):
        law.rx_clock_heard(clock, now, 7)
    assert clock.tick_ns == 0
