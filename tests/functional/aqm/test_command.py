# SPDX-License-Identifier: GPL-2.0-only
"""ccbpf aqm: its output, its refusals, what it leaves behind, and what it does with leftovers."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests import registry
from tests.functional import kernel
from tests.functional.conftest import CCBPF, MEMORY_NOISE, Cli, own_memory
from tests.functional.line import DEV, Frame, Line

MAPS = {"config", "counts", "identity", "state"}


@pytest.fixture
def line(line: Line) -> Line:
    """A device with a queue."""
    line.tbf()
    return line


def names(line: Line) -> set[str]:
    """What is pinned, without the directory of the device."""
    return {name.split("/", 2)[-1] for name in line.ccbpf.names() if name.count("/") == 2}


def clean_device(line: Line) -> bool:
    return not line.tcx() and "clsact" not in line.tc("qdisc", "show", "dev", DEV)


def make_strange(directory: Path) -> None:
    """Puts a file that is not ours where ours would be."""
    directory.mkdir(parents=True)
    kernel.run("bpftool", "map", "create", directory / "identity", "type", "array", "key", 4, "value", 8, "entries", 1,
               "name", "x")  # fmt: skip


@pytest.mark.parametrize(
    ("options", "low", "high"),
    [
        (("--limit", "1000000"), 1, 50),  # three packets of 1514 bytes are less than 1 %
        (("--limit", "5000"), 50, 50),
        (("--nf-max", 2), 2, 2),
        (("--nf-min", 1), 1, 50),
    ],
)
def test_marks_begin_at_three_packets_by_default(line: Line, options: tuple[object, ...], low: int, high: int) -> None:
    line.tbf()
    nf = line.attach(*options)["classes"]["nf"]
    assert (nf["min_percent"], nf["max_percent"]) == (low, high)


def test_attach_show_detach(either: Line) -> None:
    hold = "program" if either.ccbpf.environment else "link"
    assert "nf_red attached: tbf, limit 100000 bytes" in either.aqm("attach", DEV).out
    assert names(either) == MAPS | {hold}
    assert next(row["name"] for row in either.tcx()).startswith("nf_red")
    queue = either.shown()
    assert (queue["device"], queue["qdisc"], queue["netns"]) == (DEV, "tbf", either.near.inode)
    assert {n: (c["dscp"], c["min_percent"], c["max_percent"]) for n, c in queue["classes"].items()} == {
        "standard": (None, 90.667, 100), "nf": ([1], 4.542, 50), "probe": ([7], None, None)
    }  # fmt: skip
    assert queue["average_packets"] == 4, "1/16 of 66 packets"
    assert either.ccbpf("-j", "aqm", "show").json["queues"][0]["device"] == DEV, "also from outside"
    where = f"in network namespace {either.near.name}"
    assert f"\nqueue: {DEV} {where} (`ccbpf aqm show`)\n" in either.ccbpf("status").out
    assert (
        f"the one that has nf_red is {where}; enter that by `ip netns exec {either.near.name}`"
        in either.ccbpf("aqm", "show", DEV, code=1).err
    )
    assert f", {where}\n{DEV}: the last packet" in either.ccbpf("aqm", "show").out
    with kernel.inside(either.near.name):
        assert f"\nqueue: {DEV} (`ccbpf aqm show`)\n" in either.ccbpf("status").out
    assert either.ccbpf("-j", "status").json["queues"] == [DEV]
    assert max(map(len, either.aqm("show", prefix=("env", "COLUMNS=99")).out.splitlines())) <= 99
    assert either.aqm("detach", DEV).out == f"{DEV}: nf_red detached\n"
    assert clean_device(either)
    assert not either.ccbpf.root.exists()


def test_a_second_attach_has_nothing_to_do(either: Line) -> None:
    either.attach("--nf-min", 2)
    before = either.shown()
    again = either.aqm("attach", DEV, "--nf-min", 5, code=5)
    assert re.search(r"it has nf_red already \((link|program) \d+\); `ccbpf aqm set v0 ...` changes it", again.err)
    assert either.shown()["classes"] == before["classes"]
    assert len(either.tcx()) == 1
    either.aqm("detach", DEV)
    assert "it has no nf_red; `ccbpf aqm attach v0`" in either.aqm("detach", DEV, code=5).err
    assert "none has nf_red" in either.aqm("detach", "--all", code=5).err
    assert "it has no nf_red" in either.aqm("show", DEV, code=5).err
    assert "it has no nf_red" in either.aqm("set", DEV, "--std", "off", code=5).err
    assert either.aqm("show").out == "no device has nf_red\n"
    assert not either.ccbpf.root.exists()


def test_set_changes_what_is_given(line: Line) -> None:
    line.attach("--nf-min", 2, "--nf-dscp", "8")
    before = line.shown()
    line.send([Frame(dscp=1)])
    (after,) = line.aqm("set", DEV, "--nf-max", "33.333", "--probe-dscp", 9, "--limit", "20p", json=True).json["queues"]
    assert (after["limit_bytes"], after["classes"]["nf"]["max_percent"]) == (20 * 1514, 33.333)
    assert (after["classes"]["nf"]["min_percent"], after["classes"]["nf"]["dscp"]) == (2, [1, 8])
    assert after["classes"]["probe"]["dscp"] == [9]
    assert after["classes"]["nf"]["packets"] == 1, "counts go on"
    for key in ("average_packets", "packet_ns", "link_id"):
        assert after[key] == before[key], key
    assert "33.333 %" in line.aqm("set", DEV, "--std", "off").out


def test_another_class_has_a_limit_and_a_rate_of_its_own(line: Line) -> None:
    line.htb()
    line.htb("80kbit", "change", ["20"])
    for minor, queue in (("10", ("bfifo", "limit", 50_000)), ("20", ("bfifo", "limit", 20_000))):
        line.tc("qdisc", "add", "dev", DEV, "parent", f"1:{minor}", *queue)

    def have(verb: str, *options: object) -> tuple[str, int, int]:
        (queue,) = line.aqm(verb, DEV, *options, json=True).json["queues"]
        return queue["class"], queue["limit_bytes"], queue["packet_ns"]

    assert have("attach", "--class", "1:10") == ("1:10", 50_000, 1_514_000_000)
    assert have("set", "--class", "1:20") == ("1:20", 20_000, 151_400_000)
    assert have("set", "--nf-min", 3) == ("1:20", 20_000, 151_400_000)
    assert have("set", "--class", "1:10", "--limit", 7000, "--rate", "10M") == ("1:10", 7000, 1_211_200)
    line.tc("qdisc", "replace", "dev", DEV, "parent", "1:20", "htb")
    refused = line.aqm("set", DEV, "--class", "1:20", code=2).err
    assert "the limit of its queue (htb) cannot be read; give the size of the queue by `--limit SIZE`" in refused
    assert have("set", "--nf-min", 2) == ("1:10", 7000, 1_211_200), "all of it or nothing"
    assert have("set", "--class", "1:20", "--limit", 9000) == ("1:20", 9000, 151_400_000)


@pytest.mark.parametrize("kind, limits", [("pfifo", (40 * 1514, 40 * 9014)), ("bfifo", (40, 40))])
def test_an_mtu_changed_under_it(line: Line, kind: str, limits: tuple[int, int]) -> None:
    """`show` reports it, and `set` takes the new MTU: a limit in packets changes with it, the rate does not."""

    def have(**options: Any) -> tuple[int, int, int]:
        (queue,) = line.aqm(*options.get("words", ("show", DEV)), json=True).json["queues"]
        return queue["limit_bytes"], queue["packet_bytes"], queue["packet_ns"]

    line.tc("qdisc", "replace", "dev", DEV, "root", "handle", "2:", kind, "limit", 40)
    line.attach("--rate", "10M")
    assert line.shown()["device_packet_bytes"] == 1514 and "takes that" not in line.aqm("show", DEV).out
    line.near.ip("link", "set", DEV, "mtu", 9000)
    before = (limits[0], 1514, 1_211_200)
    assert have() == before and line.shown()["device_packet_bytes"] == 9014
    assert "packets have up to 9014 bytes now, not 1514: `ccbpf aqm set v0` takes that" in line.aqm("show", DEV).out
    assert "already" in line.aqm("attach", DEV, code=5).err and have() == before
    assert have(words=("set", DEV)) == have() == (limits[1], 9014, 7_211_200)
    assert "takes that" not in line.aqm("show", DEV).out
    line.aqm("set", DEV, "--limit", 5000)
    line.near.ip("link", "set", DEV, "mtu", 1500)
    assert have(words=("set", DEV, "--nf-min", 2)) == (5000, 1514, 1_211_200), "a limit that is given stays"


def test_limits_and_rates_are_read(line: Line) -> None:
    assert line.attach()["packet_ns"] == 1_514_000_000, "8 kbit/s"
    line.aqm("detach", DEV)
    for size, expected in (("150K", 150_000), ("2M", 2_000_000), ("7500p", 7500 * 1514), ("5000", 5000)):
        assert line.attach("--limit", size)["limit_bytes"] == expected
        line.aqm("detach", DEV)
    assert line.attach("--limit", "7500p")["average_packets"] == 512, "RED's weight, at the paper's size"
    line.aqm("detach", DEV)
    assert line.attach("--rate", "10M")["packet_ns"] == 1_211_200
    line.aqm("detach", DEV)
    line.tbf(how=("10mbit", "15k"))
    assert line.attach()["packet_ns"] == 1_211_200


REFUSED = {
    "noqueue": (["del", "root"], 1, "it has no queue (noqueue)", "tc qdisc replace dev v0 root bfifo"),
    "pfifo_fast": (["replace", "root", "pfifo_fast"], 1, "pfifo_fast, is lock-free", "tc qdisc replace dev v0 root bfifo"),
    "no limit": (["replace", "root", "handle", "2:", "htb"], 2, "the limit of its queue (htb)", "--limit SIZE"),
}


@pytest.mark.parametrize("verb, code, why, remedy", REFUSED.values(), ids=REFUSED.keys())
def test_queues_that_are_refused(line: Line, verb: list[str], code: int, why: str, remedy: str) -> None:
    line.tc("qdisc", "del", "dev", DEV, "root")
    if verb[0] != "del":
        line.tc("qdisc", verb[0], "dev", DEV, *verb[1:])
    refused = line.aqm("attach", DEV, code=code)
    assert why in refused.err and remedy in refused.err
    assert line.aqm("attach", DEV, json=True, code=code).error["exit"] == code
    assert clean_device(line)
    assert not line.ccbpf.root.exists()


OPTIONS = {"--limit", "--nf-max", "--nf-dscp", "--average", "--rate", "--class"}
USAGE = {
    "nothing": ([], "expected attach, show, set or detach"),
    "unknown": (["atach", DEV], "expected attach, show, set or detach"),
    "no device": (["attach"], "no device is named"),
    "two devices": (["attach", DEV, "lo"], "one device at a time"),
    "all and one": (["detach", DEV, "--all"], "--all takes no device"),
    "attach all": (["attach", "--all"], "only detach takes --all"),
    "show with options": (["show", DEV, "--limit", "5"], "only attach and set take"),
    "watch attach": (["attach", DEV, "--watch", "1"], "only show takes --watch"),
    "limit 0": (["attach", DEV, "--limit", "0"], "a size from 1 byte to 4 GB"),
    "limit of 5 GB": (["attach", DEV, "--limit", "5000M"], "a size from 1 byte to 4 GB"),
    "limit beyond 64 bits": (["attach", DEV, "--limit", "99999999999999999M"], "a size from 1 byte to 4 GB"),
    "limit in words": (["attach", DEV, "--limit", "100kb"], "a size from 1 byte to 4 GB"),
    "signed limit": (["attach", DEV, "--limit", "-5"], "a size from 1 byte to 4 GB"),
    "percent above 100": (["attach", DEV, "--nf-min", "100.001"], "a percentage from 0 to 100"),
    "percent too fine": (["attach", DEV, "--nf-max", "1.0001"], "at most 3 decimals"),
    "percent of nothing": (["attach", DEV, "--nf-max", ""], "a percentage from 0 to 100"),
    "upside down": (["attach", DEV, "--nf-min", "60"], "marks would begin at 60 %, above their end at 50 %"),
    "std upside down": (["attach", DEV, "--std", "90,80"], "above their end at 80 %"),
    "std alone": (["attach", DEV, "--std", "90"], "off, nor two times"),
    "dscp 64": (["attach", DEV, "--nf-dscp", "8,64"], "a DSCP from 0 to 63"),
    "dscp list with a hole": (["attach", DEV, "--nf-dscp", "8,,9"], "a DSCP from 0 to 63"),
    "two probes": (["attach", DEV, "--probe-dscp", "3,4"], "one DSCP"),
    "probe is nf": (["attach", DEV, "--nf-dscp", "7"], "7 is the DSCP of probes"),
    "probe is LE": (["attach", DEV, "--probe-dscp", "1"], "1 is LE"),
    "average 3": (["attach", DEV, "--average", "3"], "a power of 2"),
    "average 65536": (["attach", DEV, "--average", "65536"], "a power of 2"),
    "rate 0": (["attach", DEV, "--rate", "0"], "a rate in bit/s"),
    "class of words": (["attach", DEV, "--class", "ten"], "a class"),
}


@pytest.mark.parametrize("arguments, says", USAGE.values(), ids=USAGE.keys())
def test_usage_errors(shared_line: Line, arguments: list[str], says: str) -> None:
    plain = shared_line.aqm(*arguments, code=2)
    assert plain.out == ""
    assert re.fullmatch(r"ccbpf: cannot .+: .+; .+\n", plain.err), plain.err
    assert says in plain.err
    if arguments[1:2] == [DEV] and arguments[-2] in OPTIONS and arguments[0] == "attach":
        assert plain.err.startswith(f"ccbpf: cannot attach nf_red to {DEV} with {arguments[-2]}: "), plain.err
    assert shared_line.aqm(*arguments, code=2, json=True).error["exit"] == 2
    assert not shared_line.ccbpf.root.exists()


@pytest.fixture(scope="module")
def shared_line(bpffs: Path) -> Iterator[Line]:
    with Line(Cli(registry.hook_pins("usage"))) as line:
        line.tbf()
        yield line


def test_no_such_device(line: Line) -> None:
    for verb in ("attach", "show", "detach"):
        assert "there is no such device in this network namespace" in line.aqm(verb, "v7", code=1).err


def test_without_privilege_the_capability_is_named(line: Line) -> None:
    for lacking, needs in (("-all", "cap_bpf"), ("-net_admin", "cap_net_admin")):
        prefix = ("setpriv", "--reuid=65534", "--clear-groups", f"--bounding-set={lacking}")
        refused = line.aqm("attach", DEV, code=4, prefix=prefix)
        assert (
            re.match(rf"ccbpf: cannot attach nf_red to {DEV}: this process lacks .*{needs}", refused.err)
            and "root" in refused.err
        )
    for command, title in (("aqm", "nf_red"), ("gateway", "the gateway")):
        for words, on in (
            (("attach", DEV), f"attach {title} to {DEV}"),
            (("show",), f"show {title} of all devices"),
            (("detach", DEV), f"detach {title} from {DEV}"),
            (("detach", "--all"), f"detach {title} from all devices"),
        ):
            said = line.ccbpf(
                command, *words, code=4, prefix=("setpriv", "--reuid=65534", "--clear-groups", "--bounding-set=-all")
            ).err
            assert said.startswith(f"ccbpf: cannot {on}: this process lacks cap_"), said
    assert clean_device(line)


def test_clsact_of_others_stays(line: Line) -> None:
    line.without_tcx().tc("qdisc", "add", "dev", DEV, "clsact")
    line.attach()
    line.aqm("detach", DEV)
    assert "clsact" in line.tc("qdisc", "show", "dev", DEV)
    line.tc("qdisc", "del", "dev", DEV, "clsact")
    line.attach()
    with line.neighbour("pass"):  # moves in
        line.aqm("detach", DEV)
        assert "clsact" in line.tc("qdisc", "show", "dev", DEV), "it is used"


def test_the_qdisc_ingress_has_no_egress(line: Line) -> None:
    """The kernel accepts a filter for egress there but runs it at ingress: packets would be marked by a queue that they never
    meet."""
    line.without_tcx().tc("qdisc", "add", "dev", DEV, "ingress")
    refused = line.aqm("attach", DEV, code=1).err
    assert "the qdisc `ingress`" in refused and f"`tc qdisc add dev {DEV} clsact`" in refused
    assert "nf_red" not in line.tc("filter", "show", "dev", DEV, "ingress")
    assert not line.ccbpf.root.exists()
    line.ccbpf = Cli(line.ccbpf.root)
    line.attach()  # a link needs neither


@pytest.mark.usefixtures("registry_lock")
def test_a_filter_whose_namespace_is_gone(ccbpf: Cli) -> None:
    """It looks like one in a namespace without a name: the pins stay, and the message says how to remove them."""
    with Line(ccbpf).without_tcx() as line:
        line.tbf()
        line.attach()
    (directory,) = ccbpf.root.glob("aqm/*")
    for words in (("aqm", "detach", "--all"), ("clean", "--all")):
        assert f"`rm -r {directory}`" in line.ccbpf(*words, code=1).err
    ccbpf("enable", "tcp_lp")
    cleaned = ccbpf("-j", "clean", "--all", code=1)  # and what could be done is done, and said
    assert {Path(path).name for path in cleaned.json["removed"]} >= {"tcp_lp", "flows", "events"}
    assert directory.is_dir()
    kernel.run("rm", "-r", directory)
    ccbpf("clean")
    assert not ccbpf.root.exists()


def test_detach_all_goes_on_after_a_failure(line: Line) -> None:
    """Each one that stays is named: filters in namespaces that are gone, and foreign files at our paths."""
    with Line(line.ccbpf).without_tcx() as a, Line(line.ccbpf).without_tcx() as b:
        for other in (a, b):
            other.tbf()
            other.attach()
    gone = set(line.ccbpf.root.glob("aqm/*"))
    strange = line.ccbpf.root / "aqm/1_1"
    make_strange(strange)
    line.attach()
    result = line.aqm("detach", "--all", json=True, code=1)
    assert result.json == {"detached": [DEV]}
    errors = [json.loads(each)["error"] for each in result.err.splitlines()]
    assert len(errors) == 3 and len(gone) == 2
    assert all(any(e["remedy"].endswith(f"/aqm/{directory.name}`") for e in errors) for directory in gone)
    assert [e["remedy"] for e in errors if e["on"].endswith("/aqm/1_1")] == ["`ccbpf clean --all` removes it"]
    assert clean_device(line)
    again = line.ccbpf("clean", "--all", code=1)
    assert not strange.exists() and all(f"`rm -r {directory}`" in again.err for directory in gone)
    kernel.run("rm", "-r", *gone)


def test_detach_all_and_clean_all(either: Line) -> None:
    either.attach()
    either.aqm("detach", "--all")
    assert clean_device(either)
    either.attach()
    either.ccbpf("clean", prefix=("ip", "netns", "exec", either.near.name))
    assert len(either.tcx()) == 1, "what is attached is no leftover"
    either.ccbpf("clean", "--all", prefix=("ip", "netns", "exec", either.near.name))
    assert clean_device(either)
    assert not either.ccbpf.root.exists()


@pytest.mark.usefixtures("registry_lock")
def test_enabling_and_disabling_leaves_it_alone(line: Line) -> None:
    line.attach()
    line.ccbpf("enable", "tcp_lp")
    line.ccbpf("disable", "tcp_lp")
    assert line.shown()["device"] == DEV
    line.aqm("detach", DEV)
    assert not line.ccbpf.root.exists()


@pytest.mark.parametrize("within", [None, "near", "far"])
def test_where_bpffs_is_not_mounted_and_sys_is_fresh(line: Line, within: str | None) -> None:
    """`ip netns exec` has a /sys of its own, which ends with the command: bpffs is mounted for who called it, or who
    called the shell in a namespace that called it."""
    root, inside = "/sys/fs/bpf/ccbpf-here", f"ip netns exec {line.near.name} {CCBPF}"
    attach = f"{inside} aqm attach {DEV}"
    if within:
        attach = f"ip netns exec {getattr(line, within).name} sh -euc '{attach}; true'"
    script = f"umount /sys/fs/bpf; {attach}; test -e {root}/aqm; {CCBPF} -j aqm show; {inside} aqm detach --all"
    done = subprocess.run(["unshare", "--mount", "--propagation=private", "sh", "-euc", script], capture_output=True, text=True,
                          timeout=30, env={**os.environ, "CCBPF_PIN_ROOT": root})  # fmt: skip
    assert done.returncode == 0, done
    assert json.loads(done.stdout.splitlines()[1])["queues"][0]["device"] == DEV
    assert clean_device(line)


def test_a_pin_directory_that_bpffs_refuses(line: Line) -> None:
    """The message is the same where the directory is found through the caller."""
    for prefix in ((), ("ip", "netns", "exec", line.near.name)):
        refused = Cli(line.ccbpf.root.with_name("a.b"))("aqm", "detach", "--all", code=2, prefix=prefix).err
        assert "has a dot, which bpffs refuses in names; choose" in refused


# --- leftovers ---


def test_a_renamed_device_is_still_it(either: Line) -> None:
    either.attach()
    either.near.ip("link", "set", DEV, "down")
    either.near.ip("link", "set", DEV, "name", "wan")
    (queue,) = either.aqm("show", "wan", json=True).json["queues"]
    assert queue["device"] == "wan"
    assert "already" in either.aqm("attach", "wan", code=5).err
    either.aqm("detach", "wan")
    assert not either.ccbpf.root.exists()


def test_a_device_that_is_gone(either: Line) -> None:
    either.attach()
    either.near.ip("link", "del", DEV)
    assert "its device is gone" in either.aqm("show").err
    assert "its device is gone" in either.aqm("show", DEV, code=5).err
    removed = either.ccbpf("-j", "clean", prefix=("ip", "netns", "exec", either.near.name)).json["removed"]
    assert any("/aqm/" in path for path in removed)
    assert not either.ccbpf.root.exists()


def test_a_device_that_is_moved(either: Line) -> None:
    """Its queue stays behind; our link moves with the device."""
    with kernel.Namespace("other") as other:
        either.attach()
        either.near.ip("link", "set", DEV, "netns", other.name)
        assert "in another network namespace" in either.aqm("show", DEV, code=5).err
        assert "what was left is removed" in either.aqm("detach", DEV).err
        assert "nf_red" not in other.run("bpftool", "net", "show", "dev", DEV).stdout
        assert not either.ccbpf.root.exists()


def test_detach_from_a_device_that_is_gone(either: Line) -> None:
    either.attach()
    either.near.ip("link", "del", DEV)
    assert "what was left is removed" in either.aqm("detach", DEV).err
    assert not either.ccbpf.root.exists()


def test_a_class_that_is_gone(line: Line) -> None:
    """There is no queue then; the root's is not read instead."""
    line.htb()
    assert line.attach("--class", "1:20")["qdisc"] == "pfifo"
    line.tc("class", "del", "dev", DEV, "classid", "1:20")
    line.send([Frame(ident=i) for i in range(5)])  # they wait in 1:10
    queue = line.shown()
    assert (queue["qdisc"], queue["backlog_bytes"], queue["class"]) == (None, 0, "1:20")
    assert f"{DEV}: no queue of class 1:20," in line.aqm("show", DEV).out


def test_whatever_is_in_the_configuration_is_shown(line: Line) -> None:
    """And traffic goes on."""
    line.attach()
    (config,) = line.ccbpf.root.glob("aqm/*/config")
    for byte in ("00", "ff"):
        kernel.run("bpftool", "map", "update", "pinned", config, "key", *["0"] * 4, "value", "hex", *[byte] * 64)
        line.tbf()
        line.send([Frame(dscp=i % 8) for i in range(16)])
        assert max(map(len, line.aqm("show", DEV, prefix=("env", "COLUMNS=99")).out.splitlines()[2:])) <= 99
        assert line.shown()["average_packets"] == (1 if byte == "00" else 32768)
    assert sum(c["packets"] for c in line.classes().values()) == 32


def test_a_program_that_somebody_took_away(line: Line) -> None:
    line.attach()
    line.near.run("bpftool", "link", "detach", "id", line.shown()["link_id"])
    assert "somebody took our program off" in line.aqm("show", DEV, code=5).err
    assert "removed" in line.aqm("attach", DEV).err
    assert len(line.tcx()) == 1


def test_foreign_files_stay_and_are_named(line: Line) -> None:
    line.attach()
    (directory,) = line.ccbpf.root.glob("aqm/*")
    foreign = [line.ccbpf.root / "aqm/notes", directory / "mine"]
    for path in foreign:
        path.mkdir()
    cleaned = line.ccbpf("-j", "clean", "--all", code=1)
    assert all(path.is_dir() for path in foreign)
    assert cleaned.err.count('"error"') == 1, "what cannot be removed is said once"
    foreign[1].rmdir()
    cleaned = line.ccbpf("-j", "clean", "--all")
    assert [Path(path).name for path in cleaned.json["left"]] == ["notes"]
    foreign[0].rmdir()


def test_many_foreign_files_are_all_named(line: Line) -> None:
    line.attach()
    (directory,) = line.ccbpf.root.glob("aqm/*")
    foreign = [directory / f"mine{i}" for i in range(20)]
    for path in foreign:
        path.mkdir()
    assert sorted(line.ccbpf("-j", "clean").json["left"]) == sorted(map(str, foreign))
    for path in foreign:
        path.rmdir()


def test_a_file_that_is_not_ours_in_our_place(line: Line) -> None:
    directory = line.ccbpf.root / f"aqm/{line.near.inode}_{int(line.near.run('cat', f'/sys/class/net/{DEV}/ifindex').stdout)}"
    make_strange(directory)
    assert "is not one of this ccbpf" in line.aqm("attach", DEV, code=1).err
    line.ccbpf("clean", "--all")
    assert not line.ccbpf.root.exists()
    line.attach()


def killed_at_every_step(line: Line, library: Path, *words: str) -> Iterator[int]:
    inside = ("ip", "netns", "exec", line.near.name)
    return line.ccbpf.killed_at_every_step(library, "aqm", *words, prefix=inside, most=60)


def test_killed_at_every_step_of_attach(either: Line, kill_at: Path) -> None:
    """It leaves a queue that is attached and complete, or leftovers that the next attach removes."""
    attached = 0
    for _ in killed_at_every_step(either, kill_at, "attach", DEV, "--nf-min", "7"):
        shown = either.aqm("show", json=True).json["queues"]
        assert len(shown) == len(either.tcx())
        for queue in shown:
            attached += 1
            assert queue["classes"]["nf"]["min_percent"] == 7
        either.aqm("attach", DEV, code=5 if shown else 0)
        assert len(either.tcx()) == 1
        either.aqm("detach", DEV)
        assert clean_device(either)
        assert not either.ccbpf.root.exists()
    assert attached


def test_clean_after_every_step_of_attach_and_detach(either: Line, kill_at: Path) -> None:
    inside = ("ip", "netns", "exec", either.near.name)
    for verb, undo in (("attach", "detach"), ("detach", "attach")):
        either.ccbpf.run("aqm", undo, DEV, prefix=inside)
        for _ in killed_at_every_step(either, kill_at, verb, DEV):
            either.ccbpf("clean", prefix=inside)
            assert either.ccbpf.root.exists() == bool(either.tcx())
            assert either.tcx() or clean_device(either)
            if either.tcx():
                assert MAPS < names(either)
                assert either.shown()["device"] == DEV
            either.ccbpf.run("aqm", undo, DEV, prefix=inside)


def test_many_at_once(line: Line) -> None:
    """Of ten attaches one wins."""
    words = ["ip", "netns", "exec", line.near.name, str(CCBPF), "aqm", "attach", DEV]
    running = [subprocess.Popen(words, env=line.ccbpf.env(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
               for _ in range(10)]  # fmt: skip
    assert sorted(process.wait(60) for process in running) == [0] + [5] * 9
    assert len(line.tcx()) == 1


def test_watch(line: Line) -> None:
    line.attach()
    words = ["ip", "netns", "exec", line.near.name, str(CCBPF), "-j", "aqm", "show", DEV, "--watch", "0.05"]
    process = subprocess.Popen(words, env=line.ccbpf.env(), stdout=subprocess.PIPE, text=True)
    assert process.stdout
    seen = [json.loads(process.stdout.readline()) for _ in range(3)]
    process.terminate()
    assert process.wait(10) == 0
    assert seen[0]["time_ns"] < seen[1]["time_ns"] < seen[2]["time_ns"]


@pytest.mark.parametrize("options", [[], ["-j"]], ids=["table", "json"])
def test_a_long_watch_takes_no_more_memory(line: Line, options: list[str]) -> None:
    """The texts of a round are freed after it."""
    line.attach()
    ccbpf = line.ccbpf.without_quarantine()
    words = ["ip", "netns", "exec", line.near.name, str(CCBPF), *options, "aqm", "show", DEV, "--watch", "0.01"]
    process = subprocess.Popen(words, env=ccbpf.env(), stdout=subprocess.PIPE, text=True)

    def rounds(n: int) -> None:
        assert process.stdout
        while n:
            shown = process.stdout.readline()
            assert shown, "it ended"
            n -= "limit" in shown

    rounds(120)  # after a second without packets a round also asks whether the device sends
    early = own_memory(process)
    rounds(60)
    late = own_memory(process)
    process.terminate()
    assert process.wait(10) == 0
    assert late - early <= MEMORY_NOISE


def test_check_says_how(ccbpf: Cli) -> None:
    rows = {row["name"]: row for row in ccbpf("-j", "check").json["rows"]}
    assert rows["queue (aqm)"]["verdict"] == "ok"
    without = Cli(ccbpf.root, {"CCBPF_NO_TCX": "1"})("-j", "check").json["rows"]
    (row,) = [row for row in without if row["name"] == "queue (aqm)"]
    assert (row["verdict"], "clsact" in row["found"]) == ("note", True)


def test_a_filter_of_another_layout_is_taken_off(line: Line) -> None:
    """Its identity cannot be read; the directory's name and the pinned program are enough."""
    line = line.without_tcx()
    line.attach()
    (directory,) = line.ccbpf.root.glob("aqm/*")
    kernel.replace_map(directory / "identity", lambda value: b"\x63" + value[1:])
    assert "`ccbpf clean --all` removes it" in line.aqm("detach", DEV, code=1).err
    line.ccbpf("clean", "--all", prefix=("ip", "netns", "exec", line.near.name))
    assert not line.ccbpf.root.exists()
    assert "nf_red" not in line.near.run("tc", "filter", "show", "dev", DEV, "egress").stdout
