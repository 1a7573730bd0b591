# SPDX-License-Identifier: GPL-2.0-only
"""The measures, on results that were made by hand."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from .. import measures
from ..engine.experiment import FlowResult, Sample
from ..engine.scenario import Traffic, VirtualExperiment, VirtualFlow, VirtualLink
from ..engine.virtual_result import TrafficResult, VirtualResult, busy_part, parse_classes, parse_records
from ..measures import MEASURES

LINK = VirtualLink(rate_mbit=10, rtt_ms=50)
CAPACITY = 10 * 1448 / 1514
Rate = Callable[[float], float]


def flow(name: str, rate: Rate, end_s: float = 60.0, **options: Any) -> FlowResult:
    """A flow whose goodput at t is rate(t), in samples of 0.1 s."""
    samples = [Sample(n / 10, (n + 1) / 10, rate(n / 10) / 10) for n in range(int(end_s * 10))]
    return FlowResult(VirtualFlow(name, "reno", end_s, **options), samples)


def result(*flows: FlowResult, traffic: tuple[Traffic, ...] = ()) -> VirtualResult:
    experiment = VirtualExperiment("made", LINK, tuple(own.flow for own in flows), traffic=traffic)
    return VirtualResult(experiment, {own.flow.name: own for own in flows})


def udp(**options: object) -> Traffic:
    return Traffic("udp", "udp", 60, options=tuple(sorted(options.items())))


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


def test_a_window_may_count_from_the_end() -> None:
    made = result(flow("background", between(1, 0, 50, 4)))
    assert measures.goodput(made, "background", from_s=-20) == pytest.approx(2.5)
    assert measures.goodput(made, "background", from_s=-20, to_s=50) == pytest.approx(1)


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


def test_datagrams_lost_beyond_those_lost_alone() -> None:
    runs = [result(flow("background", constant(1))) for _ in range(2)]
    for made, lost in zip(runs, (30, 10), strict=True):
        made.traffic["udp"] = TrafficResult(Traffic("udp", "udp", 60), report={"packets": 1000 - lost, "lost": lost})
    assert measures.datagram_loss_added(*runs, traffic="udp") == pytest.approx(0.02)
    assert measures.datagram_loss_added(runs[0], runs[0], "udp") == 0
    assert math.isnan(measures.datagram_loss_added(*runs, traffic="rtp"))


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
    """986 of 1000 bytes of a frame are the IP packet; another stream is on for a quarter of its time."""
    half = udp(rate_mbit=4.93, size_bytes=986)
    made = result(flow("background", constant(CAPACITY / 3)), traffic=(half,))
    assert measures.available(made) == pytest.approx(2 / 3)
    wave = udp(rate_mbit=9.86, size_bytes=986, pattern="square", duty=0.25)
    made = result(flow("background", constant(CAPACITY / 8)), traffic=(half, wave))
    assert measures.available(made) == pytest.approx(1 / 2)


def test_fetched_objects_leave_the_rest_of_the_link() -> None:
    """10 and 30 kB by turns, one each 0.1 s: 1.6 Mbit/s of data."""
    options = (("bytes", (10000, 30000)), ("every_s", 0.1))
    made = result(flow("background", constant((CAPACITY - 1.6) / 2)), traffic=(Traffic("objects", "fetch", 60, options=options),))
    assert measures.available(made) == pytest.approx(1 / 2)


@pytest.mark.parametrize(("rates", "index"), [((1, 1, 1), 1.0), ((3, 0, 0), 1 / 3), ((2, 1), 0.9)])
def test_jain(rates: tuple[float, ...], index: float) -> None:
    names = ["background", *(f"background-{n}" for n in range(2, 9))]
    made = result(*(flow(name, constant(rate)) for name, rate in zip(names, rates, strict=False)))
    assert measures.jain(made) == pytest.approx(index)


def test_jain_in_the_last_third_of_the_worst_phase() -> None:
    """One comes at 0, one at 30 s, one at 60 s of 90: unfair from 50 s to 60 s, which is the last third of its phase."""
    one, two, three = (
        flow("background", constant(3), 90),
        flow("background-2", constant(3), 90),
        flow("background-3", constant(3), 90),
    )
    for number, late in ((1, two), (2, three)):
        late.flow = VirtualFlow(late.flow.name, "nf_tcp", 90 - 30 * number, 30 * number)
    two.samples = [Sample(s.start_s, s.end_s, 0.1 if 50 <= s.start_s < 60 else s.megabits) for s in two.samples]
    made = result(one, two, three)
    assert measures.jain_in_phases(made) == pytest.approx(0.8)
    two.samples = [Sample(s.start_s, s.end_s, 0 if s.start_s < 50 or s.start_s >= 60 else 0.3) for s in two.samples]
    assert measures.jain_in_phases(made) == pytest.approx(2 / 3)
    assert math.isnan(measures.jain_in_phases(result(one)))


def test_flows_that_come_together_are_one_phase() -> None:
    """While they come the shares are 3 : 0."""
    flows = [flow("background", constant(3)), *(flow(f"background-{n}", between(3, 20, 60)) for n in (2, 3))]
    for number, late in enumerate(flows):
        late.flow = VirtualFlow(late.flow.name, "nf_tcp", 60 - number / 10, number / 10)
    assert measures.jain_in_phases(result(*flows)) == pytest.approx(1)


def test_a_flow_that_has_ended_is_in_no_phase() -> None:
    flows = [flow("background", constant(3)), flow("background-2", constant(3)), flow("background-3", between(3, 0, 30))]
    flows[2].flow = VirtualFlow("background-3", "nf_tcp", 30)
    assert measures.jain_in_phases(result(*flows)) == pytest.approx(1)


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
    """On 0-10, off 10-20, on 20-30, …: the first seconds of each do not count."""
    wave = udp(rate_mbit=4.93, size_bytes=986, pattern="square", period_s=20)

    def worst(fourth: float, settle_s: float) -> float:
        rates = {0: CAPACITY / 2, 1: CAPACITY, 2: CAPACITY / 2, 3: CAPACITY, 4: fourth, 5: CAPACITY}
        made = result(flow("background", lambda t: 0 if t % 10 < 2 else rates[int(t // 10)]), traffic=(wave,))
        return measures.available_in_phases(made, period_s=20, settle_s=settle_s)

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


def test_packets_of_another_size() -> None:
    link = VirtualLink(rate_mbit=10, rtt_ms=50, packet_bytes=1000)
    one = flow("background", constant(948 * 8 / 1e4))  # 100 packets/s
    made = VirtualResult(VirtualExperiment("made", link, (one.flow,)), {"background": one}, marks=600)
    assert measures.capacity_mbit(link) == pytest.approx(10 * 948 / 1014)
    assert measures.mark_rate(made) == pytest.approx(0.1)


def test_marks_of_a_class() -> None:
    made = result(flow("foreground", constant(9)))
    assert math.isnan(measures.class_count(made))
    made.classes = {"nf": {"marked": 7, "dropped": 1}, "standard": {"marked": 0}}
    assert measures.class_count(made) == 7
    assert measures.class_count(made, "standard") == 0
    assert measures.class_count(made, "nf", "dropped") == 1


def test_our_queue_s_counters_are_of_all_bottlenecks_towards_the_receiver(tmp_path: Path) -> None:
    def queue(device: str, qdisc: str | None, marked: int, dropped: int) -> dict[str, object]:
        nf = {"dscp": [1], "min_percent": 1.0, "packets": 50, "bytes": 50_000, "marked": marked, "dropped": dropped}
        none = {"dscp": None, "min_percent": None, "packets": 9, "bytes": 9_000, "marked": 0, "dropped": 0}
        return {"device": device, "qdisc": qdisc, "classes": {"nf": nf, "standard": none}}

    queues = [queue("out", "htb", 10, 1), queue("in", "htb", 70, 0), queue("out", None, 5, 0)]
    (tmp_path / "aqm.json").write_text(json.dumps({"time_ns": 1, "queues": queues}))
    made = result(flow("foreground", constant(9)))
    made.marks = 1
    parse_classes(tmp_path, made)
    assert made.classes["nf"] == {"packets": 100, "bytes": 100_000, "marked": 15, "dropped": 1}
    assert (made.marks, made.queue_drops) == (11, 1)
    empty = result(flow("foreground", constant(9)))
    parse_classes(tmp_path / "nothing", empty)
    assert empty.classes == {}


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


def test_what_is_kept_of_a_rate() -> None:
    made = result(flow("background", lambda t: 8 if t < 31.5 else 0 if t < 50 else 6, 60))
    assert measures.kept_rate(made, at_s=30, from_s=50, to_s=60) == pytest.approx(0.75)
    assert measures.kept_rate(made, at_s=30, from_s=35, to_s=50) == 0


def test_time_to_fill() -> None:
    made = result(flow("foreground", between(9, 20, 40), 40), flow("background", between(1, 20, 45, 9), 60))
    assert measures.time_to_fill(made) == pytest.approx(5, abs=0.11)


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


# --- probes ----------------------------------------------------------------------------------------------------------


def probing() -> VirtualResult:
    """10 Mbit/s; a TCP of 2.5 Mbit/s as frames from 20 s on, 1000-byte UDP frames of 5 Mbit/s from 40 s on."""
    made = result(flow("foreground", between(2.5 * 1448 / 1514, 20, 60)), flow("background", constant(3)))
    series = [{"t": n / 10, "packets": 62.5 if n >= 300 else 0, "bytes": 62.5 * 986 if n >= 300 else 0} for n in range(500)]
    report = {"interval_s": 0.1, "series": series}
    made.traffic["udp"] = TrafficResult(Traffic("udp", "udp", 60), report=report, zero_s=10.0)
    made.traffic["web"] = TrafficResult(Traffic("web", "web", 60), report=report)  # nothing of it is a stream
    return made


def test_others_are_flows_and_streams() -> None:
    made = probing()
    assert measures.others_mbit(made, "background", 5, 15) == pytest.approx(0)
    assert measures.others_mbit(made, "background", 25, 35) == pytest.approx(2.5)
    assert measures.others_mbit(made, "background", 45, 55) == pytest.approx(7.5)
    assert measures.others_mbit(made, "background", 35, 45) == pytest.approx(5)


def estimate(at_s: float, mbit: float) -> dict[str, object]:
    return {"type": "estimate", "at_s": at_s, "local_port": 40002, "a": 1, "b": round(mbit * 1e3)}


def test_error_of_estimates() -> None:
    made = probing()
    assert math.isnan(measures.estimate_error(made))
    made.events = [estimate(40.5, 5)]
    assert [truth for _, _, truth in measures.estimates(made)] == pytest.approx([5])  # half of the second before
    made.events = [estimate(10, 9), estimate(30, 4.5), estimate(50, 3.5), {"type": "mark", "at_s": 51.0, "a": 1}]
    assert [truth for _, _, truth in measures.estimates(made)] == pytest.approx([10, 7.5, 2.5])
    assert measures.estimate_error(made) == pytest.approx(0.4)
    assert measures.estimate_error(made, to_s=20) == pytest.approx(0.1)
    assert measures.estimate_error(made, least_mbit=3) == pytest.approx(0.1)  # 50 s does not count
    assert measures.estimate_count(made) == 3


def test_layers_of_ltcp_against_a_table() -> None:
    made = result(flow("background", constant(9)))
    begins = [0, 50, 200, 500]
    assert math.isnan(measures.layers_off(made, begins))
    made.events = [{"type": "layer", "b": k, "cwnd": cwnd} for k, cwnd in ((2, 50), (3, 200), (4, 900), (3, 499))]
    assert measures.layers_off(made, begins, least=3) == 0
    assert math.isnan(measures.layers_off(made, begins, least=4))
    made.events += [
        {"type": "layer", "b": 2, "cwnd": 200},
        {"type": "layer", "b": 4, "cwnd": 499},
        {"type": "loss", "b": 1, "cwnd": 7},
    ]
    assert measures.layers_off(made, begins, least=3) == 2


def test_load_of_probes() -> None:
    made = probing()
    assert math.isnan(measures.probe_load(made))
    made.records = [
        {"at_s": float(n), "key": key, "probe_bytes": step * n} for n in range(10) for key, step in ((1, 50_000), (2, 25_000))
    ]
    made.records += [{"at_s": 9.0, "key": 3}]
    assert measures.probe_load(made) == pytest.approx(0.6)
    assert measures.probe_load(made, from_s=5, to_s=9) == pytest.approx(0.6)


def test_records_are_read_to_the_last_whole_one() -> None:
    text = """{"time_ns": 1, "flows": []}
{"time_ns": 2, "flows": [{"key": 7, "updated_ns": 12500000000, "nf": {"probe_bytes": 90, "dscp": 1}},
 {"key": 8, "updated_ns": 12600000000}]}
{"time_ns": 3, "flows": [{"key": 7, "upda"""
    assert parse_records(text, 10.0) == [
        {"key": 7, "updated_ns": 12_500_000_000, "at_s": 2.5, "nf": {"probe_bytes": 90, "dscp": 1}, "probe_bytes": 90, "dscp": 1},
        {"key": 8, "updated_ns": 12_600_000_000, "at_s": 2.6},
    ]


def test_probes_while_marks_arrive() -> None:
    made = probing()
    assert math.isnan(measures.probes_while_marked(made))
    made.events = [
        {"type": "mark", "at_s": 10.0, "local_port": 40002},
        *({"type": "chirp", "at_s": at, "local_port": 40002} for at in (9.99, 10.01, 10.04, 10.06)),
        {"type": "chirp", "at_s": 10.01, "local_port": 40003},
    ]
    assert measures.probes_while_marked(made) == 2
    assert measures.probes_while_marked(made, from_s=10.02) == 1


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


# --- long lives ------------------------------------------------------------------------------------------------------


def test_endurance_is_the_last_minute_over_the_second() -> None:
    def fading(t: float) -> float:
        return 9.0 if t < 60 else 8.0 if t < 120 else 4.0

    assert measures.endurance(result(flow("background", fading, 600))) == pytest.approx(0.5)
    assert measures.endurance(result(flow("background", fading, 600)), window_s=30) == pytest.approx(4 / 9)
    assert math.isnan(measures.endurance(result(flow("background", between(9, 0, 60), 600))))


def test_back_after_a_change_is_a_mean_and_not_a_moment() -> None:
    """Before it 8 Mbit/s; then nothing, a second with 20 of them, and from 30 s after it on 7."""

    def changed(t: float) -> float:
        return 8.0 if t < 40 else 20.0 if 50 <= t < 51 else 7.0 if t >= 70 else 0.0

    made = result(flow("background", changed, 120))
    assert measures.time_to_recover(made, at_s=40, level=0.8) == pytest.approx(30, abs=1.1)
    assert measures.time_to_recover(made, at_s=40, level=0.8, mean_s=1) == pytest.approx(10, abs=0.7)
    assert measures.time_to_recover(made, at_s=40, level=0.95) == math.inf
    assert measures.time_to_recover(result(flow("background", constant(8), 120)), at_s=40, level=1) == 0
