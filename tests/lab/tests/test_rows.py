# SPDX-License-Identifier: GPL-2.0-only
"""The loader of rows: what it makes of data."""

from __future__ import annotations

from pathlib import Path

import pytest

from ..engine import virtual_experiment
from ..engine.flow_script import flow_commands, relays
from ..engine.scenario import VirtualFlow, VirtualLink
from ..engine.virtual_experiment import objects_of, script
from ..guest.lock import kernels
from ..rows import rows
from ..rows.builder import QUICK
from ..rows.rows import ALONE, IDEAL, RunKey
from .row_fixture import GOOD, Load

# --- what it makes ---------------------------------------------------------------------------------------------------


def test_a_row_is_all_combinations(load: Load) -> None:
    (row,) = load(GOOD)
    assert len(row.runs) == 2 * 3 * 5  # foregrounds, points, controllers with alone and ideal
    assert {key.background for key in row.runs} == {"tcp_lp", "tcp_lp_ecn", "lp", ALONE, IDEAL}
    run = row.runs[RunKey("cubic", "0.5", "tcp_lp")]
    assert run.link == VirtualLink(rate_mbit=10, rtt_ms=50, buffer_bdp=0.5)
    assert run.parameters == (("delta", "200"),)
    assert [flow.name for flow in run.flows] == ["foreground", "background", "background-2"]
    assert run.flows[2] == VirtualFlow("background-2", "tcp_lp", 19.5, 0.5, background=True)


def test_each_draws_flows_last_to_the_end_of_the_run() -> None:
    """iperf3 takes 39.95 seconds for 39. So all draws but the first once lost up to a second of their background at the end."""
    (row,) = rows.choose("rx-many", set_=QUICK, repeat=3)
    assert len({run.flows[0].start_s for run in row.runs.values()}) == 3
    for run in row.runs.values():
        for number, flow in enumerate(run.flows):
            _, asked = flow_commands(run, number)[1].split(" -t ")
            assert flow.start_s + int(asked.split()[0]) >= run.end_s == 40


def test_alone_has_no_background_and_the_ideal_has_strict_priority(load: Load) -> None:
    (row,) = load(GOOD)
    assert [flow.name for flow in row.runs[RunKey("reno", "1", ALONE)].flows] == ["foreground"]
    ideal = row.runs[RunKey("reno", "1", IDEAL)]
    assert isinstance(ideal.link, VirtualLink) and ideal.link.queue == "priority"
    assert ideal.flows[1].controller == "reno"


def test_a_controller_brings_its_router_and_its_ecn(load: Load) -> None:
    (row,) = load(GOOD)
    run = row.runs[RunKey("reno", "1", "tcp_lp_ecn")]
    assert isinstance(run.link, VirtualLink) and run.link.queue == "marking"
    assert [flow.ecn for flow in run.flows if isinstance(flow, VirtualFlow)] == [False, True, True]


def test_a_gigabit_has_offloads_and_queues_that_count_bytes(load: Load) -> None:
    plain, fast = (
        next(iter(load(GOOD.replace("rate_mbit = 10,", words))[0].runs.values()))
        for words in ("rate_mbit = 1000,", "rate_mbit = 1000, gso = true,")
    )
    assert isinstance(fast.link, VirtualLink) and fast.link.gso
    limit = round(0.5 * 1e9 / 8 * 0.05)
    assert "tso off gso off" in script(plain) and f"handle 10: pfifo limit {limit // 1500}" in script(plain)
    assert "tso off gso off" not in script(fast) and f"handle 10: bfifo limit {limit}" in script(fast)
    assert "tcp_mem" in script(fast) and "echo $idle >>idle" in script(fast)
    assert "tcp_mem" not in script(plain) and "echo $idle >>idle" not in script(plain)


def test_a_gigabit_under_strict_priority_and_with_a_buffer_in_packets(load: Load) -> None:
    text = GOOD.replace("rate_mbit = 10,", "rate_mbit = 1000, gso = true,").replace(
        'buffer_bdp = "@point"', "buffer_packets = 200"
    )
    (row,) = load(text)
    assert script(row.runs[RunKey("reno", "1", IDEAL)]).count("bfifo limit 302800") == 2
    assert "handle 10: bfifo limit 302800" in script(row.runs[RunKey("reno", "1", "lp")])


def test_a_sysctl_of_several_numbers_is_one_word(load: Load) -> None:
    text = GOOD.replace(
        "parameters =", 'sysctls = { "net.ipv4.tcp_rmem" = "4096 131072 9000000", "net.ipv4.tcp_ecn" = 1 }\nparameters ='
    )
    (row,) = load(text)
    for line in script(next(iter(row.runs.values()))).splitlines():
        if "tcp_rmem" in line:
            assert line.endswith("sysctl -qw net.ipv4.tcp_ecn=1 'net.ipv4.tcp_rmem=4096 131072 9000000'")


RELAYED = GOOD.replace(
    'controller = "@background", background = true, count = 2',
    'controller = "reno", relay = "@background", background = true, count = 2',
)


def test_a_relay_goes_on_with_the_background_controller(load: Load) -> None:
    (row,) = load(RELAYED)
    run = row.runs[RunKey("cubic", "1", "tcp_lp")]
    assert [flow.relay for flow in run.flows if isinstance(flow, VirtualFlow)] == ["", "tcp_lp", "tcp_lp"]
    assert {flow.controller for flow in run.flows} == {"cubic", "reno"}
    text = script(run)
    assert "ip netns exec proxy sysctl -qw net.ipv4.tcp_congestion_control=tcp_lp" in text
    assert text.count("iperf3 -c 10.3.0.2") == 2 and text.count("iperf3 -c 10.0.3.2") == 1
    assert relays(run) == {"10.3.0.2:5202": "10.0.3.2:5202", "10.3.0.2:5203": "10.0.3.2:5203"}
    assert "proxy" not in script(row.runs[RunKey("cubic", "1", ALONE)])


def test_quick_is_one_point_and_its_own_length(load: Load) -> None:
    (row,) = load(GOOD, "quick")
    assert {key.point for key in row.runs} == {"1"}
    assert {run.end_s for run in row.runs.values()} == {5.0}


def test_points_that_are_tables(load: Load) -> None:
    tables = '[{ name = "1", b = 3 }, { name = "2", b = 4, kernels = ["6.1"] }]'
    text = GOOD.replace("[0.5, 1, 2]", tables)
    (row,) = load(text.replace('"@point"', '"@point.b"'))
    assert [point.name for point in row.points] == ["1"]
    assert next(iter(row.runs.values())).link.buffer_bdp == 3


def test_names_of_runs_are_names_of_directories(load: Load) -> None:
    (row,) = load(GOOD)
    slugs = [key.slug for key in row.runs]
    assert len(set(slugs)) == len(slugs)
    assert all(set(slug) <= set("abcdefghijklmnopqrstuvwxyz0123456789_.-") for slug in slugs)


# --- our own queue ---------------------------------------------------------------------------------------------------

MARKED = GOOD.replace('buffer_bdp = "@point" }', 'buffer_bdp = "@point", QUEUE }')


def marked(load: Load, queue: str, background: str = "lp", text: str = MARKED) -> str:
    (row,) = load(text.replace("QUEUE", queue))
    return script(row.runs[RunKey("reno", "1", background)])


def test_our_queue_is_drop_tail_with_our_program_before_it(load: Load) -> None:
    text = marked(load, 'queue = "nf_red", nf_red = { nf_min = 2, nf_max = 40.5, std = "90,100", nf_dscp = "1,8" }')
    lines = text.splitlines()
    queue, attach = (next(n for n, line in enumerate(lines) if word in line) for word in ("pfifo limit 41", "aqm attach"))
    assert queue < attach
    options = "--nf-dscp 1,8 --nf-max 40.5 --nf-min 2 --std 90,100"
    assert f"netns exec router ccbpf aqm attach out --limit {41 * 1514} {options} >>" in lines[attach]
    assert "netns exec router ccbpf -j aqm show >aqm.json" in text
    assert "aqm" not in marked(load, 'queue = "pfifo"')


def test_before_our_queue_a_packet_is_sent_as_on_a_wire(load: Load) -> None:
    assert "htb rate 10000kbit quantum 1514 burst 200 cburst 200\n" in marked(load, 'queue = "nf_red"')
    fast = marked(load, 'queue = "nf_red", gso = true', text=MARKED.replace("rate_mbit = 10", "rate_mbit = 600"))
    assert "burst 1500 cburst 1500\n" in fast
    assert "burst" not in marked(load, 'queue = "pfifo"')


def test_our_queue_is_before_any_other(load: Load) -> None:
    text = marked(load, 'queue = "nf_red fq_codel limit 100", nf_red = { std = "off" }')
    assert "handle 10: fq_codel limit 100\n" in text and "--limit 62500 --std off" in text


def test_our_queue_is_at_every_bottleneck_and_both_ways(load: Load) -> None:
    hops = marked(load, 'queue = "nf_red", hops = 3')
    assert [f"netns exec {name} ccbpf aqm attach out" in hops for name in ("router", "router2", "router3")] == [True] * 3
    assert hops.count("aqm show") == 1  # it shows those of all namespaces
    ways = marked(load, 'queue = "nf_red", both_ways = true')
    assert "aqm attach out" in ways and "aqm attach in" in ways


def test_strict_priority_has_not_our_queue(load: Load) -> None:
    assert "aqm" not in marked(load, 'queue = "nf_red"', IDEAL)
    assert "aqm" in marked(load, 'queue = "nf_red"', ALONE)


def test_our_queue_counts_the_bytes_of_a_gigabit(load: Load) -> None:
    text = marked(load, 'queue = "nf_red", gso = true')
    assert "bfifo limit 62500" in text and "aqm attach out --limit 62500" in text


def test_our_queue_decides_the_result(load: Load) -> None:
    (row,) = load(MARKED.replace("QUEUE", 'queue = "nf_red"'))
    assert objects_of(row.runs[RunKey("reno", "1", ALONE)]) == ["nf_red"]
    assert objects_of(row.runs[RunKey("reno", "1", IDEAL)]) == []


def test_a_variant_is_the_controller_with_another_router(load: Load) -> None:
    extra = '[controller."tcp_lp_ecn+nf_red"]\nis = "tcp_lp_ecn"\nqueue = "nf_red"\nnf_red = { nf_min = 15, nf_max = 15 }\necn = true\n'
    text = GOOD.replace("[row.mine]", extra + "[row.mine]").replace('"tcp_lp_ecn"]', '"tcp_lp_ecn", "tcp_lp_ecn+nf_red"]')
    (row,) = load(text)
    one, other = (row.runs[RunKey("reno", "1", name)] for name in ("tcp_lp_ecn", "tcp_lp_ecn+nf_red"))
    assert one.flows == other.flows and other.flows[1].controller == "tcp_lp_ecn"
    assert "aqm" not in script(one) and "handle 10: red" in script(one)
    assert "--nf-max 15 --nf-min 15" in script(other) and "handle 10: pfifo" in script(other)
    assert row.judged == ("tcp_lp", "tcp_lp_ecn", "tcp_lp_ecn+nf_red")


def test_the_server_of_a_late_flow_waits_for_it(load: Load) -> None:
    late = GOOD.replace("seconds = 20", "seconds = 320").replace("every_s = 0.5", "start_s = 300")
    (row,) = load(late)
    servers = [line for line in script(row.runs[RunKey("reno", "1", "tcp_lp")]).splitlines() if "iperf3 -s" in line]
    assert ["--rcv-timeout 335000" in line for line in servers] == [False, True, True]


def test_a_class_is_told_to_iperf3_unless_the_controller_sets_it(load: Load) -> None:
    text = GOOD.replace("background = true", "background = true, dscp = 1, ecn = true")
    (row,) = load(text.replace('queue = "marking"', 'queue = "marking"\ndscp = 0'))
    lp, own = (script(row.runs[RunKey("reno", "1", name)]) for name in ("lp", "tcp_lp_ecn"))
    assert lp.count(" -S 4 ") == 2 and " -S " not in own
    assert lp.count("-c 10.0.3.3 ") == 2 == own.count("-c 10.0.3.3 ")  # the address with ECN


def test_packets_of_another_size(load: Load) -> None:
    in_packets = MARKED.replace('buffer_bdp = "@point"', "buffer_packets = 60")
    text = marked(load, "packet_bytes = 1000, queue = 'nf_red'", text=in_packets)
    assert "ip -n sender link set out mtu 1000\nip -n receiver link set in mtu 1000\nip -n router link set out mtu 1000\n" in text
    assert f"--limit {60 * 1014}" in text
    assert "mtu" not in marked(load, "packet_bytes = 1500")
    hops = "packet_bytes = 1000, hops = 3"
    crossing = MARKED.replace("count = 2, every_s = 0.5", "hop = 2")
    assert "ip -n sender-2 link set out mtu 1000\nip -n receiver-2 " in marked(load, hops, text=crossing)


def test_a_path_that_clears_ecn(load: Load) -> None:
    before, behind = (marked(load, f"bleach = '{place}'") for place in ("before", "behind"))
    assert "tc -n router filter add dev in ingress protocol ip matchall" in before and "retain 0x03" in before
    assert "tc -n delay filter add dev in ingress" in behind
    assert "clsact" not in marked(load, "bleach = ''")


def test_records_are_read_all_the_time_where_they_count_probes(
    load: Load, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "nf_tcp.bpf.o").touch()
    (tmp_path / "tcp_lp.bpf.o").touch()
    monkeypatch.setattr(virtual_experiment, "OURS", tmp_path)
    text = GOOD.replace("parameters = { delta = 200 }\n", "")
    (row,) = load(text.replace('ours = ["tcp_lp",', 'ours = ["tcp_lp", "nf_tcp",'))
    assert "ccbpf -j flows --watch 1 >flows.jsonl" in script(row.runs[RunKey("reno", "1", "nf_tcp")])
    assert "--watch" not in script(row.runs[RunKey("reno", "1", "tcp_lp")])


# --- the project's own -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kernel", kernels())
@pytest.mark.parametrize("set_", rows.SETS)
def test_all_rows_load(kernel: str, set_: str) -> None:
    loaded = rows.load_all(kernel, set_)
    ids = [row.id for row in loaded]
    assert len(set(ids)) == len(ids) > 20
    for row in loaded:
        assert row.what and row.scale and (row.bounds or row.note)
        for run in row.runs.values():
            script(run)


def test_quick_has_every_row() -> None:
    assert [row.id for row in rows.load_all(set_="quick")] == [row.id for row in rows.load_all(set_="full")]
