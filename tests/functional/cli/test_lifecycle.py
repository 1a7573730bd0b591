# SPDX-License-Identifier: GPL-2.0-only
"""enable, disable, reload, set, status: their effects, output and exit codes; no change is ever left half done."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.functional import kernel
from tests.functional.cli.pins import OWN, SHARED, SYSCTL
from tests.functional.conftest import Cli

UNPRIVILEGED = ("setpriv", "--reuid=65534", "--clear-groups", "--bounding-set=-all")


def dump(path: Path) -> list[dict[str, Any]]:
    """A pinned map as bpftool shows it, with BTF names."""
    rows: list[dict[str, Any]] = json.loads(kernel.run("bpftool", "-j", "map", "dump", "pinned", path).stdout)
    return rows


def params(ccbpf: Cli, name: str = "tcp_lp") -> dict[str, int]:
    """The parameters in force, by bpftool."""
    (section,) = dump(ccbpf.root / name / "params")[0]["formatted"]["value"].values()
    found: dict[str, int] = section[0]["params"] if isinstance(section, list) else section
    return found


def test_enable_then_disable_leaves_nothing(ccbpf: Cli) -> None:
    enabled = ccbpf("-j", "enable", "tcp_lp").json
    assert [e["name"] for e in enabled["enabled"]] == ["tcp_lp"]
    assert ccbpf.names() == SHARED | OWN
    assert "tcp_lp" in kernel.available()
    status = ccbpf.status()["tcp_lp"]
    assert status["state"] == "enabled"
    assert status["link_id"] == enabled["enabled"][0]["link_id"] > 0
    assert status["instance"] == enabled["enabled"][0]["instance"] > 0
    assert 0 <= status["age_s"] < 60
    assert (status["flows"], status["draining"], status["default"], status["outdated"]) == (0, 0, False, False)
    assert status["changed"] == {}
    assert sum(status["stats"].values()) == 0
    assert ccbpf("-j", "disable", "tcp_lp").json == {
        "disabled": [{"name": "tcp_lp", "draining": 0, "restored_default": None, "restored_ecn": None}]
    }
    assert not ccbpf.root.exists()
    assert "tcp_lp" not in kernel.available()


def test_a_second_enable_has_nothing_to_do_and_says_what_would(ccbpf: Cli) -> None:
    link = ccbpf("-j", "enable", "tcp_lp").json["enabled"][0]["link_id"]
    again = ccbpf("enable", "tcp_lp", code=5)
    for word in ("already enabled", f"link {link}", "`ccbpf reload tcp_lp`", "`ccbpf set tcp_lp`"):
        assert word in again.err
    assert ccbpf("-j", "enable", "tcp_lp", code=5).error["exit"] == 5
    assert ccbpf.status()["tcp_lp"]["link_id"] == link


def test_several_are_enabled_or_none(ccbpf: Cli) -> None:
    ccbpf("enable", "tcp_lp")
    ccbpf("enable", "tcp_lp_ecn", "tcp_lp", code=5)
    assert ccbpf.names() == SHARED | OWN
    ccbpf("disable", "tcp_lp")
    ccbpf("enable", "tcp_lp_ecn", "tcp_lp")
    assert {c["state"] for c in ccbpf.status().values()} == {"enabled"}
    assert len(ccbpf.status()) == 2
    assert len(ccbpf("-j", "disable", "--all").json["disabled"]) == 2
    assert not ccbpf.root.exists()


def test_disable_is_all_or_none_too(ccbpf: Cli) -> None:
    ccbpf("enable", "tcp_lp")
    ccbpf("disable", "tcp_lp", "tcp_lp_ecn", code=5)
    assert ccbpf.status()["tcp_lp"]["state"] == "enabled"


@pytest.mark.parametrize(
    "words",
    [
        ["disable", "tcp_lp"],
        ["disable", "--all"],
        ["reload", "tcp_lp"],
        ["set", "tcp_lp", "delta=100"],
        ["status", "tcp_lp"],
        ["flows"],
        ["trace"],
    ],
    ids=" ".join,
)
def test_a_controller_that_is_not_enabled_is_nothing_to_do(ccbpf: Cli, words: list[str]) -> None:
    assert "enable" in ccbpf(*words, code=5).err
    assert not ccbpf.root.exists()
    ccbpf("enable", "tcp_lp_ecn")
    if "tcp_lp" in words:
        assert ("`ccbpf enable tcp_lp`" in ccbpf(*words, code=5).err) == (words[0] != "disable")
        assert set(ccbpf.status()) == {"tcp_lp_ecn"}


def test_all_commands_report_in_the_same_words_that_nothing_is_enabled(ccbpf: Cli) -> None:
    """In every command, with and without a pin directory."""

    def said() -> list[str]:
        return [ccbpf(*words, code=5).err for words in (["disable", "--all"], ["disable", "tcp_lp"], ["flows"], ["top", "-b"])]

    without = said()
    assert without[:2] == [
        "ccbpf: cannot disable any: no controller is enabled\n",
        "ccbpf: cannot disable tcp_lp: it is not enabled\n",
    ]
    assert all("no controller is enabled; `netnice COMMAND` runs a command in the background" in err for err in without[2:])
    ccbpf.root.mkdir()
    assert said() == without


def test_status_without_anything_is_fine(ccbpf: Cli) -> None:
    document = ccbpf("-j", "status").json
    assert document["controllers"] == []
    assert document["pin_root"] == str(ccbpf.root)
    assert document["default"] == SYSCTL.read_text().strip()
    assert "no controller is enabled" in ccbpf("status").out


def test_parameters_are_set_before_loading_and_live(ccbpf: Cli) -> None:
    defaults = {p["name"]: p["default"] for p in ccbpf("-j", "list").json[0]["params"]}
    ccbpf("enable", "tcp_lp", "--set", "delta=100", "--set", "smoothing=4")
    assert params(ccbpf) == defaults | {"delta": 100, "smoothing": 4}
    assert ccbpf.status()["tcp_lp"]["changed"] == {"delta": 100, "smoothing": 4}
    shown = ccbpf("-j", "set", "tcp_lp", "delta=200", "inference_rtts=5").json
    assert params(ccbpf) == defaults | {"delta": 200, "smoothing": 4, "inference_rtts": 5}
    assert shown["set"] == [{"name": "tcp_lp", "params": params(ccbpf)}]
    assert "set to delta=200 smoothing=4 inference_rtts=5" in ccbpf("status").out


def test_one_wrong_setting_changes_nothing(ccbpf: Cli) -> None:
    ccbpf("enable", "tcp_lp")
    before = params(ccbpf)
    ccbpf("set", "tcp_lp", "delta=200", "smoothing=65", code=2)
    ccbpf("set", "tcp_lp", "tcp_lp_ecn", "delta=200", code=5)
    ccbpf("reload", "tcp_lp", "tcp_lp_ecn", "--set", "delta=200", code=5)
    assert params(ccbpf) == before
    ccbpf("enable", "tcp_lp_ecn", "--set", "delta=200", "--set", "delta=200", code=2)
    assert ccbpf.names() == SHARED | OWN


def test_set_reaches_every_named_controller(ccbpf: Cli) -> None:
    ccbpf("enable", "tcp_lp", "tcp_lp_ecn", "--set", "delta=300")
    assert {name: c["changed"] for name, c in ccbpf.status().items()} == {key: {"delta": 300} for key in ("tcp_lp", "tcp_lp_ecn")}
    ccbpf("set", "tcp_lp_ecn", "delta=310")
    assert {name: c["changed"]["delta"] for name, c in ccbpf.status().items()} == {"tcp_lp": 300, "tcp_lp_ecn": 310}


def test_reload_keeps_link_and_parameters_and_loads_anew(ccbpf: Cli) -> None:
    ccbpf("enable", "tcp_lp", "--set", "delta=100")
    before, map_id = ccbpf.status()["tcp_lp"], kernel.Map.by_pin(ccbpf.root / "tcp_lp/params").id
    ccbpf("reload", "tcp_lp", "--set", "smoothing=16")
    after = ccbpf.status()["tcp_lp"]
    assert after["link_id"] == before["link_id"]
    assert after["map_id"] != before["map_id"]
    assert after["instance"] > before["instance"]
    assert after["changed"] == {"delta": 100, "smoothing": 16}
    assert kernel.Map.by_pin(ccbpf.root / "tcp_lp/params").id == map_id  # so that `set` reaches older flows too
    assert ccbpf.names() == SHARED | OWN


def test_reload_never_takes_the_name_away(ccbpf: Cli) -> None:
    ccbpf("enable", "tcp_lp")
    reloading = [ccbpf.popen("reload", "tcp_lp", stdout=subprocess.DEVNULL) for _ in range(5)]
    looked = 0
    while any(process.poll() is None for process in reloading):
        assert "tcp_lp" in kernel.available()
        looked += 1
    assert [process.wait() for process in reloading] == [0] * 5
    assert looked > 10


@contextmanager
def flow(netns_pair: tuple[kernel.Namespace, kernel.Namespace], controller: str) -> Iterator[None]:
    """A connection that uses a controller."""
    a, b = netns_pair
    with kernel.Sink(b, "10.77.0.2") as sink, a.socket() as sock:
        kernel.choose(sock, controller)
        sock.connect(sink.address)
        sock.send(b"x")
        yield


def test_flows_finish_under_a_disabled_controller(ccbpf: Cli, netns_pair: tuple[kernel.Namespace, kernel.Namespace]) -> None:
    ccbpf("enable", "tcp_lp")
    with flow(netns_pair, "tcp_lp"):
        assert ccbpf.status()["tcp_lp"]["flows"] == 1
        assert ccbpf("-j", "disable", "tcp_lp").json["disabled"][0]["draining"] == 1
        assert "tcp_lp" not in kernel.available()
        status = ccbpf.status()["tcp_lp"]
        assert (status["state"], status["flows"], status["draining"]) == ("draining", 0, 1)
        assert ccbpf.names() == SHARED
        assert len(ccbpf("-j", "flows").json["flows"]) == 1
        assert ccbpf("-j", "clean").json["removed"] == []  # in use
        ccbpf("enable", "tcp_lp")
        status = ccbpf.status()["tcp_lp"]
        assert (status["state"], status["flows"], status["draining"]) == ("enabled", 0, 1)
        assert "1 flow will finish" in ccbpf("disable", "tcp_lp").out
    kernel.eventually(lambda: not ccbpf("-j", "flows").json["flows"], 10, "the flow's record is removed")
    assert len(ccbpf("-j", "clean").json["removed"]) == len(SHARED) + 1
    assert not ccbpf.root.exists()


def test_status_counts_flows_from_before_a_reload(ccbpf: Cli, netns_pair: tuple[kernel.Namespace, kernel.Namespace]) -> None:
    ccbpf("enable", "tcp_lp")
    with flow(netns_pair, "tcp_lp"):
        ccbpf("reload", "tcp_lp")
        with flow(netns_pair, "tcp_lp"):
            status = ccbpf.status()["tcp_lp"]
            assert (status["flows"], status["draining"]) == (1, 1)
            assert status["stats"]["flows_opened"] == 2


def test_clean_leaves_what_is_enabled_and_clean_all_does_not(ccbpf: Cli) -> None:
    ccbpf("enable", "tcp_lp", "tcp_lp_ecn")
    assert ccbpf("-j", "clean").json == {"removed": [], "left": []}
    assert "nothing to remove" in ccbpf("clean").out
    assert {c["state"] for c in ccbpf.status().values()} == {"enabled"}
    assert str(ccbpf.root) in ccbpf("-j", "clean", "--all").json["removed"]
    assert not ccbpf.root.exists()
    assert not {"tcp_lp", "tcp_lp_ecn"} & kernel.available()
    ccbpf("clean", "--all")


# --- the default ---


@pytest.fixture
def sysctl(own_network: None) -> Path:
    """The default controller."""
    return SYSCTL


def test_default_is_set_and_restored(ccbpf: Cli, sysctl: Path) -> None:
    sysctl.write_text("reno")
    assert ccbpf("-j", "enable", "tcp_lp", "--default").json["default"] == "tcp_lp"
    assert sysctl.read_text().strip() == "tcp_lp"
    document = ccbpf("-j", "status").json
    assert (document["default"], document["default_before"]) == ("tcp_lp", "reno")
    assert document["controllers"][0]["default"]
    assert ccbpf("-j", "disable", "tcp_lp").json["disabled"][0]["restored_default"] == "reno"
    assert sysctl.read_text().strip() == "reno"
    assert not ccbpf.root.exists()


def test_ecn_is_set_and_restored(ccbpf: Cli) -> None:
    before, sysctl = "2", Path("/proc/sys/net/ipv4/tcp_ecn")
    with kernel.Namespace("ecn") as namespace, kernel.inside(namespace.name):
        sysctl.write_text(before)
        assert "ecn:" not in ccbpf("status").out and ccbpf("-j", "status").json["ecn_before"] is None
        ccbpf("enable", "tcp_lp_ecn", "--ecn")
        document = ccbpf("-j", "status").json
        assert (document["ecn"], document["ecn_before"]) == ("1", before)
        assert f"\necn: 1, before: {before}\n" in ccbpf("status").out
        assert ccbpf("-j", "disable", "tcp_lp_ecn").json["disabled"][0]["restored_ecn"] == before
        assert "ecn:" not in ccbpf("status").out and sysctl.read_text().strip() == before


def test_a_sysctl_of_another_network_namespace_is_not_restored(ccbpf: Cli) -> None:
    """What restores it is said."""
    with kernel.Namespace("ecn") as namespace:
        within = ("ip", "netns", "exec", namespace.name)
        before = namespace.run("sysctl", "-n", "net.ipv4.tcp_ecn").stdout.strip()
        ccbpf("enable", "tcp_lp_ecn", "--ecn", prefix=within)
        said = ccbpf("clean", "--all").err
        assert said.endswith(f"; `ip netns exec {namespace.name} sysctl net.ipv4.tcp_ecn={before}` sets it there\n"), said
        assert namespace.run("sysctl", "-n", "net.ipv4.tcp_ecn").stdout.strip() == "1" != before
        assert not ccbpf.root.exists()


def test_what_is_enabled_already_becomes_the_default(ccbpf: Cli, sysctl: Path) -> None:
    sysctl.write_text("reno")
    link = ccbpf("-j", "enable", "tcp_lp").json["enabled"][0]["link_id"]
    document = ccbpf("-j", "enable", "tcp_lp", "--default").json
    assert (document["default"], document["enabled"][0]["link_id"]) == ("tcp_lp", link)
    assert "`ccbpf set tcp_lp`" in ccbpf("enable", "tcp_lp", "--default", "--set", "delta=100", code=5).err
    assert ccbpf("-j", "disable", "tcp_lp").json["disabled"][0]["restored_default"] == "reno"


def test_a_default_that_somebody_changed_since_is_left_alone(ccbpf: Cli, sysctl: Path) -> None:
    sysctl.write_text("reno")
    ccbpf("enable", "tcp_lp", "--default")
    sysctl.write_text("cubic")
    assert ccbpf("-j", "disable", "tcp_lp").json["disabled"][0]["restored_default"] is None
    assert sysctl.read_text().strip() == "cubic"
    assert not ccbpf.root.exists()


def test_one_default_after_the_other_restores_the_first(ccbpf: Cli, sysctl: Path) -> None:
    sysctl.write_text("reno")
    ccbpf("enable", "tcp_lp", "--default")
    ccbpf("enable", "tcp_lp_ecn", "--default")
    assert sysctl.read_text().strip() == "tcp_lp_ecn"
    ccbpf("disable", "tcp_lp")
    assert sysctl.read_text().strip() == "tcp_lp_ecn"
    ccbpf("disable", "tcp_lp_ecn")
    assert sysctl.read_text().strip() == "reno"


def test_a_default_chosen_between_two_of_ours_is_restored(ccbpf: Cli, sysctl: Path) -> None:
    sysctl.write_text("reno")
    ccbpf("enable", "tcp_lp", "--default")
    sysctl.write_text("cubic")
    ccbpf("enable", "tcp_lp_ecn", "--default")
    ccbpf("disable", "--all")
    assert sysctl.read_text().strip() == "cubic"


@pytest.mark.parametrize("where", ["own_network", "registry_lock"], ids=["in a namespace", "on the host"])
def test_clean_all_restores_the_default(ccbpf: Cli, request: pytest.FixtureRequest, where: str) -> None:
    request.getfixturevalue(where)
    before = SYSCTL.read_text()
    try:
        SYSCTL.write_text("reno")
        ccbpf("enable", "tcp_lp", "--default")
        assert SYSCTL.read_text().strip() == "tcp_lp"
        ccbpf("clean", "--all")
        assert SYSCTL.read_text().strip() == "reno"
    finally:
        SYSCTL.write_text(before)


def test_the_default_of_another_namespace_is_reported_not_touched(
    ccbpf: Cli, sysctl: Path, netns_pair: tuple[kernel.Namespace, kernel.Namespace]
) -> None:
    before = sysctl.read_text()
    inside = ("nsenter", f"--net=/run/netns/{netns_pair[0].name}")
    assert ccbpf("-j", "enable", "tcp_lp", "--default", prefix=inside).json["default"] == "tcp_lp"
    assert sysctl.read_text() == before
    assert "another network namespace" in ccbpf("disable", "tcp_lp").err
    assert sysctl.read_text() == before


# --- permission, and names of others ---


@pytest.mark.parametrize(
    "words",
    [
        ["enable", "tcp_lp"],
        ["disable", "tcp_lp"],
        ["reload", "tcp_lp"],
        ["clean"],
        ["set", "tcp_lp", "delta=100"],
        ["status"],
        ["flows"],
        ["trace"],
    ],
    ids=" ".join,
)
def test_unprivileged_names_the_capability(ccbpf: Cli, words: list[str]) -> None:
    ccbpf("enable", "tcp_lp")
    before = ccbpf.names()
    result = ccbpf(*words, code=4, prefix=UNPRIVILEGED)
    assert "cap_bpf" in result.err
    assert "root" in result.err
    assert ccbpf("-j", *words, code=4, prefix=UNPRIVILEGED).error["exit"] == 4
    assert ccbpf.names() == before


def test_only_what_is_missing_is_named(ccbpf: Cli) -> None:
    result = ccbpf("enable", "tcp_lp", code=4, prefix=("setpriv", "--bounding-set=-net_admin"))
    assert "cap_net_admin" in result.err
    assert "cap_bpf" not in result.err
    assert not ccbpf.root.exists()


def test_capabilities_without_access_to_the_pins(ccbpf: Cli) -> None:
    caps = "+bpf,+perfmon,+net_admin"
    prefix = ("setpriv", "--reuid=65534", "--clear-groups", f"--inh-caps={caps}", f"--ambient-caps={caps}")
    ccbpf("enable", "tcp_lp")
    for words in (["enable", "tcp_lp_ecn"], ["status"], ["disable", "tcp_lp"]):
        assert "lacks cap_dac_override" in ccbpf(*words, code=4, prefix=prefix).err
    rows = {row["name"]: row["verdict"] for row in ccbpf("-j", "check", code=4, prefix=prefix).json["rows"]}
    assert (rows["capabilities"], rows["bpffs"]) == ("note", "missing")
    listed = ccbpf("-j", "list", prefix=prefix)
    assert (listed.json[0]["enabled"], listed.err) == (None, "")


def test_a_name_that_bpftool_registered_is_said(ccbpf: Cli) -> None:
    with kernel.registered_by_bpftool(kernel.ROOT / "build/bpf/tcp_lp.bpf.o"):
        result = ccbpf("enable", "tcp_lp", code=1)
        for word in ("already has a controller of this name", "set CCBPF_PIN_ROOT", "bpftool struct_ops unregister name tcp_lp"):
            assert word in result.err
        assert not ccbpf.root.exists()
        assert "tcp_lp" in kernel.available()
        ccbpf("enable", "tcp_lp_ecn", "tcp_lp", code=1)  # all or nothing
        assert not ccbpf.root.exists()
        assert "tcp_lp_ecn" not in kernel.available()
    ccbpf("enable", "tcp_lp")


def test_the_maps_read_well_by_bpftool(ccbpf: Cli, netns_pair: tuple[kernel.Namespace, kernel.Namespace]) -> None:
    ccbpf("enable", "tcp_lp")
    with flow(netns_pair, "tcp_lp"):
        (record,) = dump(ccbpf.root / "flows")
        value = record["formatted"]["value"]
        assert value["controller"] == "tcp_lp"
        assert value["remote_addr"][:4] == [10, 77, 0, 2]
    (identity,) = dump(ccbpf.root / "tcp_lp/identity")
    assert str(ccbpf.status()["tcp_lp"]["instance"]) in json.dumps(identity["formatted"])


# --- kernels without struct_ops links ---


def test_without_links_the_map_holds_the_registration(ccbpf: Cli) -> None:
    old = Cli(ccbpf.root, {"CCBPF_NO_LINKS": "1"})
    old("enable", "tcp_lp", "--set", "delta=100")
    assert old.names() == SHARED | (OWN - {"tcp_lp/link"}) | {"tcp_lp/ops"}
    assert "tcp_lp" in kernel.available()
    status = old.status()["tcp_lp"]
    assert (status["state"], status["link_id"], status["changed"]) == ("enabled", None, {"delta": 100})
    old("enable", "tcp_lp", code=5)
    old("set", "tcp_lp", "delta=200")
    assert "`ccbpf disable tcp_lp`" in old("reload", "tcp_lp", code=3).err
    old("disable", "tcp_lp")
    assert not old.root.exists()
    assert "tcp_lp" not in kernel.available()


def test_enable_with_full_verbosity_shows_the_verifiers_counts(ccbpf: Cli) -> None:
    quiet = ccbpf("enable", "tcp_lp")
    assert quiet.err == ""
    ccbpf("disable", "tcp_lp")
    assert "processed" not in ccbpf("enable", "tcp_lp", "-v").err
    ccbpf("disable", "tcp_lp")
    assert "processed" in ccbpf("enable", "tcp_lp", "-vv").err
