# SPDX-License-Identifier: GPL-2.0-only
"""The measures, on results that were made by hand."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest

from . import measures
from .experiment import Experiment, FlowResult, Sample
from .measures import MEASURES
from .virtual_experiment import Traffic, TrafficResult, VirtualFlow, VirtualLink, VirtualResult, busy_part

LINK = VirtualLink(rate_mbit=10, rtt_ms=50)
CAPACITY = 10 * 1448 / 1514
Rate = Callable[[float], float]


def flow(name: str, rate: Rate, end_s: float = 60.0, **options: object) -> FlowResult:
    """A flow whose goodput at t is rate(t), in samples of 0.1 s."""
    samples = [Sample(n / 10, (n + 1) / 10, rate(n / 10) / 10) for n in range(int(end_s * 10))]
    return FlowResult(VirtualFlow(name, "reno", end_s, **options), samples)  # type: ignore[arg-type]


def result(*flows: FlowResult) -> VirtualResult:
    experiment = Experiment("made", LINK, tuple(own.flow for own in flows))
    return VirtualResult(experiment, {own.flow.name: own for own in flows})


def constant(mbit: float) -> Rate:
    return lambda t: mbit


def between(mbit: float, begin: float, end: float, other: float = 0.0) -> Rate:
    return lambda t: mbit if begin <= t < end else other


ALONE = result(flow("foreground", constant(9.5)))
IDEAL = result(flow("foreground", constant(5)), flow("background", constant(CAPACITY - 5)))
BOTH = result(flow("foreground", constant(4.75)), flow("background", constant(3)))


# --- rates -----------------------------------------------------------------------------------------------------------


def test_shares_are_of_the_data_that_the_link_carries() -> None:
    assert measures.goodput(BOTH) == pytest.approx(4.75)
    assert measures.share(BOTH, "background") == pytest.approx(3 / CAPACITY)
    assert measures.utilisation(BOTH) == pytest.approx(7.75 / CAPACITY)


def test_a_part_of_other_flows() -> None:
    made = result(flow("foreground", constant(8)), flow("background", constant(1)), flow("background-2", between(1, 0, 30)))
    assert measures.part_of(made) == pytest.approx(1.5 / 8)
    assert measures.part_of(made, to_s=30) == pytest.approx(2 / 8)
    assert measures.part_of(made, "foreground", "background-2", from_s=30) is measures.NAN


def test_the_threshold_is_the_mean_of_the_reductions() -> None:
    made = result(flow("background", constant(1)))
    assert math.isnan(measures.threshold_mean(made))
    made.events = [
        {"type": "ewr", "at_s": 5.0, "a": 3100, "b": 2400},
        {"type": "ewr", "at_s": 6.0, "a": 3100, "b": 2200},
        {"type": "loss", "at_s": 6.5, "a": 1, "b": 9000},
        {"type": "ewr", "at_s": 40.0, "a": 700, "b": 300},
    ]
    assert measures.threshold_mean(made, to_s=30) == pytest.approx(2.3)
    assert measures.threshold_mean(made, from_s=30) == pytest.approx(0.3)


def test_datagrams() -> None:
    made = result(flow("background", constant(1)))
    assert math.isnan(measures.datagram_loss(made, "rtp")) and math.isnan(measures.datagram_delay(made, "rtp"))
    report = {"packets": 990, "lost": 10, "variation_s": {"mean": 0.0042}}
    made.traffic["rtp"] = TrafficResult(Traffic("rtp", "udp", 60), report=report)
    assert measures.datagram_loss(made, "rtp") == pytest.approx(0.01)
    assert measures.datagram_delay(made, "rtp") == pytest.approx(4.2)


def test_transparency_efficiency_distance() -> None:
    assert measures.transparency(BOTH, ALONE) == pytest.approx(0.5)
    assert measures.efficiency(BOTH, IDEAL) == pytest.approx(3 / (CAPACITY - 5))
    assert measures.distance(BOTH, IDEAL) == pytest.approx((0.25 + CAPACITY - 5 - 3) / 2 / CAPACITY)
    assert measures.distance(IDEAL, IDEAL) == 0


def test_efficiency_is_nothing_where_the_foreground_leaves_nothing() -> None:
    full = result(flow("foreground", constant(CAPACITY)), flow("background", constant(0)))
    assert math.isnan(measures.efficiency(BOTH, full))


def test_groups_are_named_and_numbered_and_reverse_flows_are_not_goodput() -> None:
    made = result(
        flow("background", constant(1)),
        flow("background-2", constant(2)),
        flow("backgrounds", constant(4)),
        flow("reverse", constant(8), reverse=True),
    )
    assert measures.goodput(made, "background") == pytest.approx(3)
    assert measures.goodput(made, "all") == pytest.approx(7)
    assert math.isnan(measures.goodput(made, "nobody"))


def test_available_takes_the_load_away() -> None:
    made = result(flow("background", constant(CAPACITY / 3)))
    assert measures.available(made, load_mbit=10 / 3) == pytest.approx(0.5)


@pytest.mark.parametrize(("rates", "index"), [((1, 1, 1), 1.0), ((3, 0, 0), 1 / 3), ((2, 1), 0.9)])
def test_jain(rates: tuple[float, ...], index: float) -> None:
    names = ["background", *(f"background-{n}" for n in range(2, 9))]
    made = result(*(flow(name, constant(rate)) for name, rate in zip(names, rates, strict=False)))
    assert measures.jain(made) == pytest.approx(index)


def test_difference_to_what_was_expected() -> None:
    assert measures.deviation(BOTH, expect=4.75) == pytest.approx(0)
    assert measures.deviation(BOTH, "background", 4) == pytest.approx(-1 / CAPACITY)
    assert measures.deviation(ALONE, "background", 0) == pytest.approx(0)


def test_ratio_to_what_was_expected() -> None:
    made = result(flow("near", constant(6)), flow("far", constant(2)))
    assert measures.goodput_ratio(made, "near", "far") == pytest.approx(3)
    assert measures.goodput_ratio(made, "near", "far", expect=4) == pytest.approx(0.75)
    assert math.isnan(measures.goodput_ratio(made, "near", "nobody"))


def test_available_in_the_worst_phase_of_a_square_wave() -> None:
    """On 0-10, off 10-20, on 20-30, …: the first half does not count, nor do the first seconds of each."""

    def worst(fourth: float, settle_s: float) -> float:
        rates = {1: CAPACITY, 2: CAPACITY / 2, 3: CAPACITY, 4: fourth, 5: CAPACITY}
        made = result(flow("background", lambda t: 0 if t % 10 < 2 else rates.get(int(t // 10), 0)))
        return measures.available_in_phases(made, load_mbit=5, period_s=20, settle_s=settle_s)

    assert worst(CAPACITY / 4, 2) == pytest.approx(0.5)
    assert worst(CAPACITY / 2, 2) == pytest.approx(1)
    assert worst(CAPACITY / 2, 0) == pytest.approx(0.8)


def test_deviation_of_newcomers() -> None:
    """Two come at 20 and 40 s; the first of all goes at 60 s."""
    one = flow("background", lambda t: 9 if t < 20 else 5 if t < 40 else 3)
    two = flow("background-2", lambda t: 0 if t < 20 else 4 if t < 40 else 3)
    three = flow("background-3", lambda t: 0 if t < 40 else 3 if t < 57 else 2)
    for number, late in ((1, two), (2, three)):
        late.flow = VirtualFlow(late.flow.name, "ltcp", 60 - 20 * number, 20 * number)
    made = result(one, two, three)
    assert measures.newcomer_deviation(made, window_s=10) == pytest.approx(4 / 4.5 - 1)
    assert measures.newcomer_deviation(made, window_s=4) == pytest.approx(2.25 / 2.75 - 1)
    assert math.isnan(measures.newcomer_deviation(result(one), window_s=10))


# --- the queue -------------------------------------------------------------------------------------------------------


def test_queueing_delay_is_the_backlog_over_the_rate() -> None:
    made = result(flow("foreground", constant(9)))
    made.backlog = [(n / 10, 12_500 if n < 90 else 125_000) for n in range(100)]  # 10 ms; the last second 100 ms
    assert measures.queue_mean(made) == pytest.approx(19)
    assert measures.queue_quantile(made, 0.9) == 10
    assert measures.queue_quantile(made, 0.95) == 100
    assert measures.queue_mean(made, from_s=9.0, to_s=9.9) == 100


def test_losses_and_marks_are_per_packet_of_data() -> None:
    made = result(flow("foreground", constant(1448 * 8 / 1e4)))  # 100 packets/s, 6000
    made.queue_drops, made.marks = 60, 606
    assert measures.drops(made) == 60
    assert measures.loss_rate(made) == pytest.approx(60 / 6060)
    assert measures.mark_rate(made) == pytest.approx(0.1)


def test_how_busy_the_guest_was() -> None:
    assert busy_part("2.50\n26.50\n", 40) == pytest.approx(0.4)


# --- over time -------------------------------------------------------------------------------------------------------


def test_time_to_yield_counts_from_the_first_byte() -> None:
    made = result(flow("foreground", between(9, 20, 40), 40), flow("background", between(0.5, 21.5, 45, 9), 60))
    assert measures.time_to_yield(made) == pytest.approx(1.5, abs=0.11)


def test_a_dip_is_no_yield() -> None:
    dips = flow("background", lambda t: 0 if t % 1 < 0.5 else 9, 60)
    assert measures.time_to_yield(result(flow("foreground", between(9, 20, 40), 40), dips)) == math.inf


def test_time_to_reclaim_counts_from_the_last_byte() -> None:
    made = result(flow("foreground", between(9, 20, 40), 40), flow("background", between(0.1, 20, 43, 9), 60))
    assert measures.time_to_reclaim(made) == pytest.approx(2.9, abs=0.2)
    gone = result(flow("foreground", between(9, 20, 40), 40), flow("background", between(9, 0, 20), 60))
    assert measures.time_to_reclaim(gone) == math.inf


def test_time_to_fill_and_to_recover() -> None:
    made = result(flow("foreground", between(9, 20, 40), 40), flow("background", between(1, 20, 45, 9), 60))
    assert measures.time_to_fill(made) == pytest.approx(5, abs=0.11)
    assert measures.time_to_recover(made, at_s=20, level=0.6) == pytest.approx(24.6, abs=0.11)


def test_time_to_the_link_ends_with_the_run() -> None:
    made = result(flow("background", lambda t: 2 if t < 20 else 9))
    assert measures.time_to_link(made, after_s=5) == pytest.approx(15, abs=0.11)
    assert measures.time_to_link(made, after_s=5, level=0.99) == 55


def test_time_to_fair_counts_from_the_latecomer() -> None:
    late = flow("background-2", between(5, 30, 100, 0), 60)
    late.samples = [Sample(s.start_s, s.end_s, s.megabits if s.start_s >= 20 else 0) for s in late.samples]
    first = flow("background", between(9, 0, 30, 5), 60)
    late.samples = [Sample(s.start_s, s.end_s, 0.01 if 20 <= s.start_s < 30 else s.megabits) for s in late.samples]
    assert measures.time_to_fair(result(first, late)) == pytest.approx(7, abs=1.5)


SOCKETS = """\
0 0 10.0.1.2:40001 10.0.3.2:5201 cubic wscale:5,5 rto:352 cwnd:{one} ssthresh:32
0 0 10.0.1.2:40002 10.0.3.2:5202 tcp_lp wscale:5,5 rto:352 cwnd:{other} ssthresh:32
0 0 10.0.1.2:37412 10.0.3.2:5201 cubic wscale:5,5 rto:256 cwnd:999
"""


def test_windows_are_read_from_the_senders_sockets() -> None:
    made = result(flow("foreground", constant(5)), flow("background", constant(5)))
    made.sockets = [(float(n), SOCKETS.format(one=10 + n, other=40 - n)) for n in range(30)]
    assert measures.windows(made)["background"][:2] == [(0.0, 40), (1.0, 39)]
    assert measures.window_correlation(made) == pytest.approx(-1)
    made.sockets = [(float(n), SOCKETS.format(one=10, other=40 - n)) for n in range(30)]
    assert math.isnan(measures.window_correlation(made))


# --- response times --------------------------------------------------------------------------------------------------


def test_response_times() -> None:
    made = result(flow("background", constant(5)))
    objects = [(0.0, 10_000.0, 0.4), (1.0, 10_000.0, 0.6), (2.0, 1e6, 5.0)]
    made.traffic = {"web": TrafficResult(Traffic("web", "web", 60), objects)}
    assert measures.response_mean(made) == pytest.approx(2)
    assert measures.response_mean(made, low=9_000, high=11_000) == pytest.approx(0.5)
    assert measures.response_quantile(made, part=0.5) == 0.6
    assert [(round(size), count) for size, _, count in measures.binned(objects)] == [(10_000, 2), (1_000_000, 1)]
    made.traffic["web"].objects.append((3.0, 500.0, math.inf))
    assert measures.response_mean(made) == math.inf
    end_s = made.experiment.end_s
    assert measures.response_mean(made, at_least=True) == pytest.approx((0.4 + 0.6 + 5.0 + end_s - 3) / 4)


# --- the table -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted(MEASURES))
def test_every_measure_is_defined_in_words(name: str) -> None:
    assert len(MEASURES[name].text) > 20
    assert MEASURES[name].reference in ("", "alone", "ideal")
    assert "result" not in MEASURES[name].options
