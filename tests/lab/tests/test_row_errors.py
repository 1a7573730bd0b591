# SPDX-License-Identifier: GPL-2.0-only
"""What the loader says of rows that are wrong: file, row, key, and what is allowed, before anything boots."""

from __future__ import annotations

from pathlib import Path

import pytest

from ..guest.image import MODULES
from ..rows import catalogue, rows
from ..rows.rows import RowError
from .row_fixture import GOOD, Load

UDP = 'bounds = [{ what = "x", measure = "datagram_loss", op = "<=", bound = 0 }]\n'
BOUNDS = GOOD[GOOD.index("bounds =") :]
POINTS = 'points = ["1", "2"]'


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        # keys and types
        ("rate_mbit = 10", "rate = 10", r"mine.toml: row mine: link: rate: no such key; there are .*rate_mbit"),
        ("rate_mbit = 10, ", "", r"link: rate_mbit is missing"),
        ("rate_mbit = 10", "rate_mbit = 0", r"link: rate_mbit: 0 is not from 0.01 to 100000"),
        ("rate_mbit = 10", 'rate_mbit = "10"', r"link: rate_mbit: '10' is not a number"),
        ("rate_mbit = 10", "rate_mbit = true", r"link: rate_mbit: True is not a number"),
        ("rate_mbit = 10", "rate_mbit = nan", r"link: rate_mbit: nan is not from"),
        ("rate_mbit = 10", "gso = 1, rate_mbit = 10", r"link: gso: 1 is not true or false"),
        ("what =", "why =", r"row mine: why: no such key"),
        ("[row.mine]", "[row.mine", r"mine.toml: not TOML: .*line"),
        ("[row.mine]", '[row."a b"]', r"an id is made of letters, digits and -"),
        ("[row.mine]", f"[row.{'x' * 65}]", r"an id is made of letters, digits and -, 64 at the most"),
        ("[row.mine]", "[row]\nx = 3\n[row.mine]", r"mine.toml: row.x: 3 is not a table"),
        ("ecn = true", "ecm = true", r"controller.tcp_lp_ecn: ecm: no such key"),
        ("count = 2", "count = 2.5", r"flow 2: count: 2.5 is not a whole number"),
        ('peers = ["lp"]', 'peers = "lp"', r"row mine: peers: 'lp' is not a list of texts"),
        ('peers = ["lp"]', "peers = [3]", r"row mine: peers: 3 is not a text"),
        # placeholders
        ('"@background"', '"@backgroud"', r"flow 2.*@backgroud: there are @foreground, @background"),
        ('"@point"', '"@point.x"', r"@point.x: there are"),
        ("[0.5, 1, 2]", "[0.5, 1, 2000]", r"link: buffer_bdp: 2000 is not from 0 to 1000"),
        ("[0.5, 1, 2]", "[1, 1]", r"sweep.values: they must differ"),
        ("[0.5, 1, 2]", '[0.5, 1, { name = "2", kernels = ["5.4"] }]', r"sweep.values: 2: kernels: '5.4' is none of 6.1"),
        # times
        ("every_s = 0.5", "every_s = -1", r"flow 2: every_s: -1 is not from 0 to 86400"),
        ("every_s = 0.5", 'receiver = "rledbatpp"', r"flow background: receiver: rledbatpp is a law of downloads: set download"),
        ("every_s = 0.5", 'download = true, receiver = "x"', r"flow 2: receiver: 'x' is none of rledbatpp"),
        ("every_s = 0.5", 'download = true, receiver = "gateway"', r"flow foreground: hop: 0 has a gateway, which holds all"),
        ("every_s = 0.5", "start_s = 30", r"flow 2: it would stop at 20 s and start at 30 s"),
        # the link
        ("rate_mbit = 10", "rate_mbit = 10, loss_percent = 200", r"link: loss_percent: 200 is not from 0 to 100"),
        ("rate_mbit = 10", "rate_mbit = 10, rtt_changes = [25, 60]", r"link: rtt_changes: 25 is not a pair \[s, round"),
        ("rate_mbit = 10", "rate_mbit = 10, rtt_changes = [[5, 'x']]", r"link: rtt_changes: 'x' is not a number"),
        ("rate_mbit = 10", "rate_mbit = 10, rtt_changes = [[9, 60], [5, 50]]", r"rtt_changes: 5 s comes after 9 s"),
        ("rate_mbit = 10", "rate_mbit = 10, rtt_changes = [[25, 60]]", r"link: rtt_changes: 25 s: the run ends at 20 s"),
        ("rate_mbit = 10", "rate_mbit = 10, stalls = [[5, 900], [5.5, 9]]", r"stalls: the one at 5 s is not over"),
        ("rate_mbit = 10", "rate_mbit = 10, stalls = [[5, 9]], queue = 'codel'", r"link: stalls: the queue must be pfifo"),
        ("rate_mbit = 10", "rate_mbit = 10, queue = 'fqcodel'", r"link: queue: 'fqcodel' is none of pfifo, .*fq_codel"),
        ("rate_mbit = 10", "rate_mbit = 10, queue = 'nf_red htb'", r"link: queue: 'htb' is none of pfifo"),
        ("rate_mbit = 10", "rate_mbit = 10, bleach = 'beside'", r"link: bleach: 'beside' is none of \"\", before, behind"),
        ("rate_mbit = 10", "rate_mbit = 10, nf_red = { nf_mid = 3 }", r"link: nf_red: nf_mid: no such key; there are nf_dscp"),
        ("rate_mbit = 10", "rate_mbit = 10, nf_red = { nf_max = 300 }", r"link: nf_red: nf_max: 300 is not from 0 to 100"),
        ("rate_mbit = 10", "rate_mbit = 10, jitter_ms = 40", r"link: jitter_ms: 40 is more than one way's delay, 25 ms"),
        ("rate_mbit = 10", "rate_mbit = 10, jitter = 'shuffles'", r"jitter: 'shuffles' is none of reorders, ordered, agg"),
        ("rate_mbit = 10", "rate_mbit = 10, jitter = 'ordered', reorder_percent = 1", r"reorder_percent: not with jitter"),
        ("rate_mbit = 10", "rate_mbit = 10, reverse_packets = 9", r"link: reverse_packets: needs reverse_mbit"),
        ("rate_mbit = 10", "rate_mbit = 10, reverse_mbit = 3, both_ways = true", r"link: reverse_mbit: not with both_ways"),
        ("rate_mbit = 10", "rate_mbit = 10, policer_packets = 5", r"link: policer_packets: a policer has no queue"),
        ("rate_mbit = 10", "rate_mbit = 10, hops = 4", r"link: hops: 4 is not from 1 to 3"),
        ("count = 2", "hop = 2", r"background: hop: 2, and the link has hops = 1"),
        # flows
        ('controller = "@foreground"', 'controller = "cubik"', r"flow 1: controller: 'cubik' is none of tcp_lp, .*cubic"),
        ('["cubic", "reno"]', '["cubik"]', r"row mine: foreground: 'cubik' is none of tcp_lp, .*cubic"),
        ('["tcp_lp", "tcp_lp_ecn"]', '["tcp_lpp"]', r"row mine: ours: 'tcp_lpp' is none of tcp_lp, tcp_lp_ecn"),
        ('peers = ["lp"]', 'peers = ["pl"]', r"row mine: peers: 'pl' is none of"),
        ("seconds = 5,", 'seconds = 5, peers = ["pl"],', r"row mine: quick.peers: 'pl' is none of"),
        ('ideal = "reno"', 'ideal = "renno"', r"row mine: ideal: 'renno' is none of"),
        ("[controller.tcp_lp_ecn]", "[controller.tcp_lp_ecm]", r"mine.toml: controller: 'tcp_lp_ecm' is none of"),
        ("ecn = true", 'ecn = true\nis = "tcp_lq"', r"controller.tcp_lp_ecn: is: 'tcp_lq' is none of"),
        ('queue = "marking"', 'queue = "marks"', r"controller.tcp_lp_ecn: queue: 'marks' is none of"),
        ('name = "foreground"', 'name = "background"', r"flow: name: 'background' is there twice"),
        ('name = "foreground"', 'name = "background-2"', r"flow: name: 'background-2' is there twice"),
        ("count = 2", 'handover = { from = "cubic" }', r"flow 2: handover: at_s is missing"),
        ("count = 2", 'handover = { from = "qubic", at_s = 9 }', r"flow 2: handover.from: 'qubic' is none of"),
        ("count = 2", 'handover = { from = "cubic", at_s = 25 }', r"handover.at_s: 25 s is not within 0 to 20 s"),
        ("count = 2", "window_bytes = -1", r"flow 2: window_bytes: -1 is not from 0"),
        ('ours = ["tcp_lp", "tcp_lp_ecn"]\npeers = ["lp"]', "", r"which controllers stand for @background"),
        # parameters and sysctls
        ("delta = 200", "delter = 200", r"parameters: tcp_lp: 'delter' is none of delta, smoothing"),
        ("delta = 200", "delta = 2000", r"parameters: delta: 2000 is not from 10 to 900 \(tcp_lp, permille\)"),
        ("delta = 200", "delta = 20.5", r"parameters: delta: 20.5 is not a whole number"),
        ("delta = 200", "cubic = { delta = 200 }", r"parameters: 'cubic' is none of tcp_lp, "),
        ("delta = 200", "tcp_lp = { chance = 2 }", r"parameters: tcp_lp: 'chance' is none of delta, smoothing"),
        ("parameters =", 'sysctls = { "kernel.panic" = 1 }\nparameters =', r"sysctls: kernel.panic: the hosts are network"),
        ("parameters =", 'sysctls = { "net.x" = [1] }\nparameters =', r"sysctls: net.x: \[1\] is neither"),
        # bounds
        ('measure = "transparency"', 'measure = "kindness"', r"bound 1: measure: 'kindness' is none of .*transparency"),
        ('op = ">="', 'op = "=="', r"bound 1: op: '==' is none of <=, <, >=, >"),
        (POINTS, 'points = ["3"]', r"bound 1: points: '3' is none of 0.5, 1, 2"),
        (POINTS, "options = { part = 1 }", r"bound 1: options: 'part' is none of flows, from_s, to_s"),
        (POINTS, 'of = "vegas"', r"bound 1: of: 'vegas' is none of alone, ideal, lp"),
        ("[0.5, 1, 2]", '[0.5, 1, { name = "2", for = ["x"] }]', r"sweep.values: 2: for: 'x' is none of tcp_lp"),
        (POINTS, 'for = ["vegas"]', r"bound 1: for: 'vegas' is none of tcp_lp, tcp_lp_ecn, lp"),
        (POINTS, 'foregrounds = ["bbr"]', r"bound 1: foregrounds: 'bbr' is none of cubic, reno"),
        (POINTS, "options = { flows = 3 }", r"bound 1: options: flows: 3 is not a text"),
        (POINTS, 'options = { from_s = "x" }', r"bound 1: options: from_s: 'x' is not a number"),
        (POINTS, "options = { from_s = 15, to_s = 10 }", r"transparency: from_s = 15 is not before to_s = 10"),
        (POINTS, "options = { from_s = -5, to_s = 10 }", r"transparency: from_s = -5 is not before to_s = 10"),
        ('buffer_bdp = "@point"', 'buffer_bdp = "@point", buffer_packets = 9', r"link: buffer_bdp and buffer_packets: .*in one way"),
        (POINTS, "options = { from_s = 30 }", r"transparency: from_s = 30, and the run ends at 20 s"),
        (POINTS, "options = { from_s = -30 }", r"transparency: from_s = -30, and the run ends at 20 s"),
        (POINTS, 'options = { flows = "foregroud" }', r"transparency: there is no flow 'foregroud'; there are foreground"),
        (POINTS, 'options = { flows = "background" }', r"there is no flow 'background'; there are foreground \(in cubic"),
        (POINTS, "part = 0.2", r"bound 1: part: 0.2 is not from 0.5 to 1"),
        (POINTS, "part = 0.8, every = true", r"bound 1: part and every: the draws are judged in one way"),
        ('points = ["1"]', 'points = ["7"]', r"quick.points: '7' is none of 0.5, 1, 2"),
        (BOUNDS, UDP, r"datagram_loss: options.traffic: '': there is nothing of kind udp"),
        ('peers = ["lp"]', 'peers = ["lp"]\npeer_points = ["9"]', r"row mine: peer_points: '9' is none of 0.5, 1, 2"),
        ('peers = ["lp"]', 'peers = ["lp"]\nplot_points = ["9"]', r"row mine: plot_points: '9' is none of 0.5, 1, 2"),
        ('peers = ["lp"]', 'peers = ["lp"]\nplots = ["pie"]', r"row mine: plots: 'pie' is none of rates"),
        ('peers = ["lp"]', 'peers = ["lp"]\nsim = { draws = 16 }', r"row mine: sim: draws: no such key; there are .*repeat"),
        ('peers = ["lp"]', 'peers = ["lp"]\nsim = { repeat = 0 }', r"row mine: sim: repeat: 0 is not from 1 to 1000"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named(load: Load, old: str, new: str, words: str) -> None:
    assert old in GOOD
    with pytest.raises(RowError, match=words):
        load(GOOD.replace(old, new))


@pytest.mark.parametrize(
    ("traffic", "words"),
    [
        ('{ kind = "udp" }', r"traffic 1: name is missing"),
        ('{ name = "a" }', r"traffic 1: kind is missing"),
        ('{ name = "a", kind = "tcp" }', r"traffic 1: kind: 'tcp' is none of udp, web, fetch"),
        ('{ name = "a", kind = "udp" }', r"row mine: traffic 1: rate_mbit is missing"),
        ('{ name = "a", kind = "udp", rate_mbit = 1, pattern = "saw" }', r"pattern: 'saw' is none of constant, poisson, sq"),
        ('{ name = "a", kind = "web", rate_mbit = 1 }', r"traffic 1: rate_mbit: no such key; there are .*mean_bytes"),
        ('{ name = "a", kind = "fetch", bytes = [0] }', r"traffic 1: bytes: 0 is not from 1"),
        ('{ name = "a", kind = "web", controller = "x" }', r"traffic 1: controller: 'x' is none of"),
        ('{ name = "a", kind = "web", start_s = 20 }', r"traffic 1: it would stop at 20 s and start at 20 s"),
        ('{ name = "a", kind = "web" }, { name = "a", kind = "web" }', r"traffic: name: 'a' is there twice"),
        ('{ name = "a", kind = "web", hop = 2 }', r"a: hop: 2, and the link has hops = 1"),
    ],
)
def test_traffic_that_is_wrong_is_named(load: Load, traffic: str, words: str) -> None:
    with pytest.raises(RowError, match=words):
        load(GOOD.replace("bounds =", f"traffic = [{traffic}]\nbounds ="))


def test_a_row_that_cannot_measure_its_bound_says_so_when_it_is_loaded(load: Load) -> None:
    """No foreground: nobody's goodput is kept."""
    text = GOOD.replace('    { name = "foreground", controller = "@foreground" },\n', "").replace('ideal = "reno"\n', "")
    with pytest.raises(RowError, match="bound 1: of: 'alone' is none of lp, tcp_lp, tcp_lp_ecn"):
        load(text)
    # at one point of several there is none
    some = GOOD.replace("[0.5, 1, 2]", "[0, 1, 2]").replace('"@foreground" }', '"@foreground", count = "@point" }')
    some = some.replace('buffer_bdp = "@point"', "buffer_bdp = 1")
    with pytest.raises(RowError, match=r"bound 1: transparency: there is no flow 'foreground'.* \(in cubic · tcp_lp · 0\)"):
        load(some.replace(POINTS, 'points = ["0", "1", "2"]'))
    load(some)


def test_a_peer_that_divides_must_be_there_at_that_point(load: Load) -> None:
    text = GOOD.replace('peers = ["lp"]', 'peers = ["lp"]\npeer_points = ["1"]')
    of_peer = text.replace('measure = "transparency"', 'of = "lp", measure = "goodput"')
    with pytest.raises(RowError, match="goodput: it needs the run 'cubic · lp · 2', which this row does not have"):
        load(of_peer)
    load(of_peer.replace(POINTS, 'points = ["1"]'))
    load(text)


def test_ideal_is_needed_by_what_compares_with_it(load: Load) -> None:
    text = GOOD.replace('ideal = "reno"', "").replace('"transparency"', '"distance"')
    with pytest.raises(RowError, match="bound 1: of: 'ideal' is none of"):
        load(text)


def test_a_parameter_is_one_of_each_controller_that_runs_with_it(load: Load) -> None:
    text = GOOD.replace('"tcp_lp_ecn"]\npeers', '"nf_tcp"]\npeers')
    with pytest.raises(RowError, match="parameters: nf_tcp: 'delta' is none of decrease"):
        load(text)
    load(text.replace("{ delta = 200 }", "{ gentle_start = 1 }"))
    only_peers = GOOD.replace('ours = ["tcp_lp", "tcp_lp_ecn"]', "ours = []")
    with pytest.raises(RowError, match="parameters: no controller of ours is in this row"):
        load(only_peers)


def test_a_file_that_is_not_there() -> None:
    with pytest.raises(RowError, match=r"nowhere.toml: cannot be read"):
        rows.choose("nowhere.toml")
    with pytest.raises(RowError, match="EXP=nothing: no such row"):
        rows.choose("nothing")


def test_two_rows_of_one_id_would_have_one_directory(load: Load, tmp_path: Path) -> None:
    load(GOOD)
    (tmp_path / "other.toml").write_text(GOOD)
    both = f"{tmp_path / 'mine.toml'},{tmp_path / 'other.toml'}"
    with pytest.raises(RowError, match=r"other.toml: row mine: there is one of this id in .*mine.toml too"):
        rows.choose(both)
    assert [row.id for row in rows.choose(f"{tmp_path / 'mine.toml'},{tmp_path / 'mine.toml'}:mine")] == ["mine"]


def test_a_number_of_draws() -> None:
    with pytest.raises(RowError, match=r"^REPEAT=-3: at least 1, or 0 for as many as the row says$"):
        rows.choose("alone", repeat=-3)


def test_only_some_controllers_and_what_they_are_compared_with() -> None:
    chosen = rows.choose("policer,alone,yield-bbr,nf-fig2-single")
    policer, alone, bbr = rows.only(chosen, "le")
    assert [row.id for row in (policer, alone, bbr)] == ["policer", "alone", "yield-bbr"]
    assert {key.background for key in policer.runs} == {"le", "reno", "alone"}, "reno's divides its goodput"
    assert {key.background for key in bbr.runs} == {"le", "alone", "ideal"}
    assert alone.ours == ("le",) and not alone.peers
    assert rows.only(chosen, "") == chosen
    with pytest.raises(RowError, match=r"ONLY=nosuchcc: none of .*\bvegas\b"):
        rows.only(chosen, "le,nosuchcc")


def test_names_of_qdiscs_are_those_of_the_guests() -> None:
    """The fifos are a part of every kernel."""
    assert {f"sch_{name}" for name in catalogue.QDISCS} <= set(MODULES)
    assert {"reno", "cubic", "lp", "vegas", "bbr"} <= set(catalogue.kernels_own())
    assert "diag" not in catalogue.kernels_own()
