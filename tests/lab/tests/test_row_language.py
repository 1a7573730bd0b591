# SPDX-License-Identifier: GPL-2.0-only
"""What rows may say of sets, points and other files, and what the guest's script makes of paths and flows."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from ..engine import peers, scenario, virtual_experiment
from ..engine.flow_script import window_scale
from ..engine.path_script import marking_queue, netem
from ..engine.scenario import VirtualExperiment, VirtualFlow, VirtualLink
from ..engine.virtual_experiment import controllers_to_enable, files_of, modules, objects_of, script
from ..guest.image import BUILD, REPOSITORY
from ..rows import rows, schema
from ..rows.rows import ALONE, IDEAL, RowError, RunKey
from .row_fixture import GOOD, Load


def runs(load: Load, link: str = "", flow: str = "", extra: str = "", set_: str = "full") -> Callable[[str], str]:
    """The script of cubic and a background at point 1, with something more in the link, in the background, in the row."""
    text = GOOD.replace("rate_mbit = 10,", f"rate_mbit = 10, {link},".replace(", ,", ","))
    text = text.replace("background = true,", f"background = true, {flow},".replace(", ,", ","))
    (row,) = load(text.replace("parameters =", f"{extra}\nparameters ="), set_)
    return lambda background: script(row.runs[RunKey("cubic", "1", background)])


# --- sets and points -------------------------------------------------------------------------------------------------


def test_peers_have_their_own_points(load: Load) -> None:
    (row,) = load(GOOD.replace('peers = ["lp"]', 'peers = ["lp"]\npeer_points = ["2"]'))
    assert {key.point for key in row.runs if key.background == "lp"} == {"2"}
    assert {key.point for key in row.runs if key.background == "tcp_lp"} == {"0.5", "1", "2"}
    (quick,) = load(GOOD.replace('peers = ["lp"]', 'peers = ["lp"]\npeer_points = ["2"]'), "quick")
    assert {key.background for key in quick.runs} == {"tcp_lp", "tcp_lp_ecn", ALONE, IDEAL}


def test_a_point_may_be_for_some_controllers(load: Load) -> None:
    points = '[{ name = "1", b = 1, for = ["tcp_lp"] }, { name = "2", b = 2 }]'
    (row,) = load(GOOD.replace("[0.5, 1, 2]", points).replace('"@point"', '"@point.b"'))
    there = {point: {key.background for key in row.runs if key.point == point} for point in ("1", "2")}
    assert there["1"] == {"tcp_lp", ALONE, IDEAL} and there["2"] == {"tcp_lp", "tcp_lp_ecn", "lp", ALONE, IDEAL}


def test_a_simulator_has_its_own_length_draws_and_points(load: Load) -> None:
    points = '[0.5, 1, { name = "2", only = "sim" }]'
    link = GOOD.replace("[0.5, 1, 2]", points).replace('buffer_bdp = "@point"', "buffer_bdp = 1")
    text = link.replace("seconds = 20", 'seconds = 20\nsim = { seconds = 43200, repeat = 16, points = ["1", "2"] }')
    full, quick, sim = (load(text, set_)[0] for set_ in ("full", "quick", "sim"))
    assert [point.name for point in full.points] == ["0.5", "1"] and full.repeat == 1 and full.for_sim
    assert [point.name for point in quick.points] == ["1"]
    assert [point.name for point in sim.points] == ["1", "2"] and sim.repeat == 16
    assert {run.end_s for run in sim.runs.values()} == {43200} and {run.end_s for run in full.runs.values()} == {20}
    with pytest.raises(RowError, match="row mine: sim: seconds: 100000 is not from 1 to 86400"):
        load(text.replace("43200", "100000"))


def test_a_bound_may_name_what_only_another_set_has(load: Load) -> None:
    text = GOOD.replace('points = ["1", "2"]', 'points = ["2"], for = ["tcp_lp_ecn"], foregrounds = ["reno"]')
    (row,) = load(text.replace("seconds = 5,", 'seconds = 5, ours = ["tcp_lp"], foreground = ["cubic"],'), "quick")
    assert row.about(row.bounds[0], "tcp_lp_ecn") == []


def test_parameters_may_come_from_the_point(load: Load) -> None:
    points = '[{ name = "1", set = {} }, { name = "2", set = { delta = 300 } }]'
    text = GOOD.replace("[0.5, 1, 2]", points).replace('buffer_bdp = "@point"', "buffer_bdp = 1")
    (row,) = load(text.replace("{ delta = 200 }", '"@point.set"'))
    assert row.runs[RunKey("cubic", "2", "tcp_lp")].parameters == (("delta", "300"),)
    assert row.runs[RunKey("cubic", "1", "tcp_lp")].parameters == ()


def test_parameters_may_be_of_one_controller(load: Load) -> None:
    text = GOOD.replace("{ delta = 200 }", "{ delta = 200, tcp_lp_ecn = { delta = 300 } }")
    (row,) = load(text)
    assert row.runs[RunKey("cubic", "1", "tcp_lp")].parameters == (("delta", "200"),)
    assert row.runs[RunKey("cubic", "1", "tcp_lp_ecn")].parameters == (("delta", "300"),)
    (row,) = load(text.replace('"tcp_lp_ecn"]\npeers', '"nf_tcp"]\npeers').replace("delta = 200, tcp_lp_ecn", "tcp_lp"))
    assert row.runs[RunKey("cubic", "1", "nf_tcp")].parameters == ()


def test_a_large_parameter_keeps_its_digits(load: Load) -> None:
    (row,) = load(GOOD.replace("{ delta = 200 }", "{ pace_rtt = 1234567 }"))
    assert "--set pace_rtt=1234567 " in script(row.runs[RunKey("cubic", "1", "tcp_lp")]) + " "


# --- files -----------------------------------------------------------------------------------------------------------

BASE = """
[defaults]
ours = ["tcp_lp"]
seconds = 7
link = { rate_mbit = 10, rtt_ms = 50 }
flow = [{ name = "background", controller = "@background" }]
[controller.tcp_lp_ecn]
queue = "marking"
[row.one]
what = "one"
[row.two]
what = "two"
repeat = 3
"""


def included(tmp_path: Path, include: str, rest: str = "") -> dict[str, rows.Row]:
    (tmp_path / "base.toml").write_text(BASE)
    (tmp_path / "mine.toml").write_text(f'include = ["{include}"]\n{rest}')
    return {row.id: row for row in rows.load(tmp_path / "mine.toml")}


def test_a_file_has_anothers_defaults_and_controllers(tmp_path: Path) -> None:
    own = '[defaults]\nours = ["tcp_lp_ecn"]\n[row.mine]\nwhat = "mine"\n'
    (row,) = included(tmp_path, "base.toml", own).values()
    assert row.id == "mine" and row.ours == ("tcp_lp_ecn",)
    run = row.runs[RunKey("", "", "tcp_lp_ecn")]
    assert run.end_s == 7 and isinstance(run.link, VirtualLink) and run.link.queue == "marking"
    assert row.file == tmp_path / "mine.toml"


def test_a_file_has_anothers_rows_and_changes_a_word(tmp_path: Path) -> None:
    assert included(tmp_path, "base.toml:two").keys() == {"two"}
    both = included(tmp_path, "base.toml:*", '[defaults]\nseconds = 9\n[row.two]\nrepeat = 2\n[row.mine]\nwhat = "mine"\n')
    assert both.keys() == {"one", "two", "mine"} and both["two"].repeat == 2 and both["two"].what == "two"
    assert {run.end_s for row in both.values() for run in row.runs.values()} == {9}


def test_what_cannot_be_included_is_named(tmp_path: Path) -> None:
    with pytest.raises(RowError, match=r"mine.toml: include: base.toml:three: 'three' is none of one, two"):
        included(tmp_path, "base.toml:three")
    with pytest.raises(RowError, match=r"none.toml: cannot be read: .*\(include of .*mine.toml\)"):
        included(tmp_path, "none.toml")
    with pytest.raises(RowError, match=r"mine.toml: include: .*mine.toml includes it"):
        included(tmp_path, "mine.toml")
    with pytest.raises(RowError, match=r"mine.toml: row is missing"):
        included(tmp_path, "base.toml")


# --- paths -----------------------------------------------------------------------------------------------------------


def test_a_link_has_another_rate_on_the_way_back(load: Load) -> None:
    text = runs(load, "reverse_mbit = 3, reverse_packets = 20")("lp")
    assert "dev out parent 1: classid 1:1 htb rate 10000kbit" in text and "dev out parent 1:1 handle 10: pfifo limit 41" in text
    assert "dev in parent 1: classid 1:1 htb rate 3000kbit" in text and "dev in parent 1:1 handle 10: pfifo limit 20" in text
    own = runs(load, "reverse_mbit = 3")("lp")
    assert "dev in parent 1:1 handle 10: pfifo limit 12" in own  # one BDP of its own
    assert "dev in parent 1:1" not in runs(load)("lp")


@pytest.mark.parametrize(
    ("jitter", "out", "back"),
    [
        ("jitter_ms = 4", "delay 25000us 4000us", "delay 25000us 4000us"),
        ('jitter_ms = 4, jitter = "ordered"', "delay 25000us 4000us rate 100gbit", "delay 25000us 4000us rate 100gbit"),
        ('jitter_ms = 0.1, jitter = "aggregated"', "delay 24900us slot 0 200us", "delay 24900us slot 0 200us"),
        ('jitter_ms = 4, jitter_way = "reverse"', "delay 25000us", "delay 25000us 4000us"),
        ('jitter_ms = 4, jitter_way = "forward"', "delay 25000us 4000us", "delay 25000us"),
        ("jitter_ms = 4, loss_percent = 1", "delay 25000us 4000us loss 1%", "delay 25000us 4000us"),
    ],
)
def test_jitter_as_netem_has_it(load: Load, jitter: str, out: str, back: str) -> None:
    (row,) = load(GOOD.replace("rate_mbit = 10,", f"rate_mbit = 10, {jitter},"))
    link = row.runs[RunKey("cubic", "1", "lp")].link
    assert netem(link, "out", 50) == f"netem limit 100000 {out}"
    assert netem(link, "in", 50) == f"netem limit 100000 {back}"


def test_a_link_that_stands_still(load: Load) -> None:
    text = runs(load, "stalls = [[3, 200], [8, 50]]")
    plain, marking, ideal = (text(name) for name in ("lp", "tcp_lp_ecn", IDEAL))
    opened = "tc -n router qdisc change dev out parent 1:1 handle 10: plug release_indefinite"
    shut = "tc -n router qdisc change dev out parent 1:1 handle 10: plug block"
    assert f"parent 1:1 handle 10: plug limit {41 * 1514}\n{opened}\n" in plain
    assert f"( sleep 3; {shut}; sleep 0.2; {opened} ) &" in plain and "( sleep 8; " in plain
    assert "handle 10: red" in marking and "parent 10:1 handle 11: plug limit 62500" in marking
    assert marking.count("parent 10:1 handle 11: plug block") == 2
    assert ideal.count("parent 10:1 handle 11: plug block; ") == ideal.count("parent 10:2 handle 12: plug block; ") == 2
    assert "plug" not in runs(load)(IDEAL)


def test_a_policer_has_no_queue_but_a_bucket(load: Load) -> None:
    text = GOOD.replace('ideal = "reno"\n', "").replace("rate_mbit = 10,", "rate_mbit = 10, policer_packets = 5,")
    (row,) = load(text)
    for name in ("lp", "tcp_lp_ecn"):  # whose marking router is not there
        made = script(row.runs[RunKey("cubic", "1", name)])
        assert "htb" not in made and " red " not in made
        assert "matchall action police rate 10000kbit burst 7570 mtu 3028 conform-exceed drop/pass" in made
        assert "filter show dev out egress >police.txt" in made
    (none,) = load(text.replace("policer_packets = 5", "policer_packets = 0"))
    assert "police" not in script(none.runs[RunKey("cubic", "1", "lp")])


def test_a_queue_that_the_row_names_stays(load: Load) -> None:
    """ECN is agreed and nobody marks: the controller's own router is not there, though what it asks for is."""
    (row,) = load(GOOD.replace("rate_mbit = 10,", 'rate_mbit = 10, queue = "pfifo",'))
    run = row.runs[RunKey("cubic", "1", "tcp_lp_ecn")]
    assert " red " not in script(run) and [flow.ecn for flow in run.flows if isinstance(flow, VirtualFlow)] == [False, True, True]


def test_an_ssthresh_of_the_route_is_cached_for_every_address(load: Load) -> None:
    (row,) = load(GOOD.replace("rate_mbit = 10,", "rate_mbit = 10, route_ssthresh = 17,"))
    run = row.runs[RunKey("cubic", "1", "tcp_lp_ecn")]
    made = script(run)
    assert "route change default via 10.0.1.1 ssthresh lock 17\n" in made
    assert "route change 10.0.3.3 via 10.0.1.1 features ecn ssthresh lock 17\n" in made
    assert "fetch 10.0.3.2 7999" in made and "fetch 10.0.3.3 7999" in made and "traffic" in files_of(run)
    assert made.index("fetch 10.0.3.3") < made.index("iperf3 -s")
    assert "7999" not in runs(load)("lp")


# --- flows -----------------------------------------------------------------------------------------------------------


def test_a_window_is_in_every_ack_of_its_flow_alone(load: Load) -> None:
    text = runs(load, flow="window_bytes = 65536")("lp")
    for server, client in ((5202, 40002), (5203, 40003)):
        assert f"in egress protocol ip prio 1 flower ip_proto tcp src_port {server} dst_port {client} tcp_flags 0x10/0x12" in text
    assert text.count("munge offset 34 u16 set 512 pipe action csum tcp") == 2 and "src_port 5201" not in text
    assert text.count("qdisc add dev in clsact") == 1 and "'net.ipv4.tcp_rmem=4096 131072 6291456'" in text
    back = runs(load, flow="window_bytes = 65536, reverse = true")("lp")
    assert "tc -n sender filter add dev out egress protocol ip prio 1 flower ip_proto tcp src_port 40002 dst_port 5202" in back
    assert "munge" not in runs(load)("lp")


@pytest.mark.parametrize(("most", "scale"), [("65535", 0), ("65536", 1), ("6291456", 7), ("67108864", 11), ("2147483647", 14)])
def test_the_scale_of_a_window_follows_from_the_receivers_memory(most: str, scale: int) -> None:
    link = VirtualLink(rate_mbit=10, rtt_ms=50)
    assert window_scale(VirtualExperiment("one", link, sysctls=(("net.ipv4.tcp_rmem", f"4096 131072 {most}"),))) == scale


def test_a_flow_changes_hands(load: Load, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("tcp_lp", "ltcp"):
        (tmp_path / f"{name}.bpf.o").touch()
    monkeypatch.setattr(virtual_experiment, "OURS", tmp_path)
    flow = 'handover = { from = "ltcp", at_s = 9 }'
    text = GOOD.replace("background = true,", f"background = true, {flow},").replace("parameters = { delta = 200 }", "")
    (row,) = load(text)
    run = row.runs[RunKey("cubic", "1", "tcp_lp")]
    made = script(run)
    assert made.count("-C ltcp ") == 2 and "-C tcp_lp " not in made
    assert "( sleep 9; code=0; ip netns exec sender /lab/traffic handover 40002 tcp_lp >handover-1.json" in made
    assert controllers_to_enable(run) == objects_of(run) == ["ltcp", "tcp_lp"] and modules(run) == ["cubic"]
    (none,) = load(text.replace(flow, "handover = {}"))
    assert "handover" not in script(none.runs[RunKey("cubic", "1", "tcp_lp")])


def test_a_peer_of_the_tests_own_is_registered_in_the_guest(load: Load) -> None:
    """One object for both of its controllers, before any flow; no module, and no program of the product."""
    (row,) = load(GOOD.replace('peers = ["lp"]', 'peers = ["lp", "ledbatpp_apple"]'))
    run = row.runs[RunKey("cubic", "1", "ledbatpp_apple")]
    made, other = script(run), row.runs[RunKey("cubic", "1", "lp")]
    assert made.count("bpftool struct_ops register /lab/ledbatpp.bpf.o") == 1 and "tcp_ledbatpp" not in made
    assert made.index("struct_ops register") < made.index("iperf3 -s") < made.index("-C ledbatpp_apple ")
    assert files_of(run)["ledbatpp.bpf.o"] == BUILD / "tests/ledbatpp.bpf.o" and not objects_of(run)
    assert "struct_ops" not in script(other) and "ledbatpp.bpf.o" not in files_of(other)


def test_each_peer_of_the_tests_own_is_in_its_object() -> None:
    for name, path in peers.PEERS.items():
        text = (REPOSITORY / f"tests/lab/peers/{path}.bpf.c").read_text()
        assert f'.name = "{name}"' in text and len(name) < 16
    for name in scenario.RECEIVERS:
        assert f'SEC("sockops")\nint {name}(' in (REPOSITORY / f"tests/lab/peers/{name}.bpf.c").read_text()


def test_a_receiver_with_a_law_of_the_tests_own(load: Load) -> None:
    """Its program is attached to a cgroup before the server begins in it; the product's is not there."""
    special = '[controller."peer<cubic"]\nis = "cubic"\ndownload = true\nreceiver = "rledbatpp"\n'
    (row,) = load(GOOD.replace("[row.mine]", special + "[row.mine]").replace('peers = ["lp"]', 'peers = ["lp", "peer<cubic"]'))
    run = row.runs[RunKey("cubic", "1", "peer<cubic")]
    made, other = script(run), script(row.runs[RunKey("cubic", "1", "lp")])
    assert made.count("bpftool cgroup attach /sys/fs/cgroup/rledbatpp sock_ops pinned /sys/fs/bpf/rledbatpp") == 1
    assert made.index("cgroup attach") < made.index(">/sys/fs/cgroup/rledbatpp/cgroup.procs") and "ccbpf run" not in made
    assert files_of(run)["rledbatpp.bpf.o"] == BUILD / "tests/rledbatpp.bpf.o" and not objects_of(run)
    assert "rledbatpp" not in other and "rledbatpp.bpf.o" not in files_of(row.runs[RunKey("cubic", "1", "lp")])


def test_a_download_behind_a_gateway(load: Load) -> None:
    """The gateway of its host is there before the host listens, and nothing else holds it; in other runs there is none."""
    special = '[controller."gateway<cubic"]\nis = "cubic"\ndownload = true\nreceiver = "gateway"\n'
    text = GOOD.replace("[row.mine]", special + "[row.mine]").replace('ours = ["tcp_lp",', 'ours = ["gateway<cubic",')
    (row,) = load(text.replace("background = true,", "background = true, hop = 1,").replace("parameters = { delta = 200 }\n", ""))
    run = row.runs[RunKey("cubic", "1", "gateway<cubic")]
    made, other = script(run), script(row.runs[RunKey("cubic", "1", "lp")])
    assert made.count("ip netns exec receiver-1 ccbpf gateway attach in") == 1 and "ccbpf run" not in made
    assert made.index("gateway attach") < made.index("iperf3 -s") and objects_of(run) == ["gateway"]
    assert "gateway" not in other


def test_controllers_of_other_traffic_are_enabled_too(load: Load, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "nf_tcp.bpf.o").touch()
    monkeypatch.setattr(virtual_experiment, "OURS", tmp_path)
    (row,) = load(GOOD.replace("bounds =", 'traffic = [{ name = "w", kind = "web", controller = "nf_tcp" }]\nbounds ='))
    assert controllers_to_enable(row.runs[RunKey("cubic", "1", "lp")]) == ["nf_tcp"]


# --- the reference ---------------------------------------------------------------------------------------------------


def test_the_reference_names_every_key_and_every_word() -> None:
    text = re.sub(r"```.*?```", "", (rows.DIRECTORY / "README.md").read_text(), flags=re.DOTALL)
    said = set(re.findall(r"`([^`]+)`", text))
    tables = (schema.FILE, schema.ROW, schema.LINK, schema.NF_RED, schema.FLOW, schema.ALL_TRAFFIC, schema.BOUND,
              schema.CONTROLLER, schema.SWEEP, schema.POINT)  # fmt: skip
    keys = {key for table in tables for key in table} - {"controller", "row"}  # they are there with a name behind
    words = {word for table in tables for key in table.values() for word in key.words} - {"", "sim", "before", "behind"}
    missing = {word for word in keys | words | set(schema.PLOTS) if word not in said and f'"{word}"' not in said}
    assert missing == set()


# --- RED's average ---------------------------------------------------------------------------------------------------


def weight_log(least: int, packet: int, burst: int) -> int | None:
    """What tc makes of a burst (tc_red_eval_ewma): the average's weight is 1/2^n. None: it finds none."""
    extent = burst + 1 - least / packet
    weight = 0.5
    for log in range(1, 32):
        if extent <= (1 - (1 - weight) ** burst) / weight:
            return log
        weight /= 2
    return None


@pytest.mark.parametrize("packets", [2, 3, 5, 12, 20, 41, 104, 1000])
@pytest.mark.parametrize("mark_at", [0.01, 0.05, 0.15, 0.4, 0.9])
def test_a_marking_queue_averages_over_a_few_packets(packets: int, mark_at: float) -> None:
    words = marking_queue(VirtualLink(rate_mbit=10, rtt_ms=50, buffer_packets=packets, mark_at=mark_at)).split()
    said = {key: int(words[words.index(key) + 1]) for key in ("min", "max", "avpkt", "burst")}
    assert said["min"] < said["max"]
    assert weight_log(said["min"], said["avpkt"], said["burst"]) in (2, 3, 4, 5)
