# SPDX-License-Identifier: GPL-2.0-only
"""Pins, maps and names that somebody else made: what is not ours is not trusted, not printed raw, and not removed."""

from __future__ import annotations

import json
import os
import re
import struct
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests import registry
from tests.functional import kernel
from tests.functional.cli.pins import assert_works, pin_a_map
from tests.functional.conftest import Cli, Result
from tests.functional.line import DEV, Line

ESCAPE = b"\x1b[31m\x07\x7f\xc2\x9b\n"  # a colour, a bell, DEL, CSI as one character, a second line
SYSCTL = Path("/proc/sys/net/ipv4/tcp_congestion_control")


def pin(path: Path, kind: str, key: int, value: int, entries: int, *flags: object) -> None:
    """A foreign map of any kind."""
    kernel.run("bpftool", "map", "create", path, "type", kind, "key", key, "value", value, "entries", entries, "name", "x",
               *flags)  # fmt: skip


def assert_printable(result: Result) -> None:
    """No byte that a terminal obeys; in JSON not even as an escape sequence."""
    for text in (result.out, result.err):
        assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]", text), ascii(text)
        assert not re.search(r"\\u00[0189]|\\n", text), ascii(text)


# --- kinds and shapes ---


@pytest.mark.parametrize("words", [["clean"], ["disable", "tcp_lp"], ["flows"], ["status"], ["enable", "tcp_lp"]], ids=" ".join)
def test_flows_with_a_longer_key(ccbpf: Cli, words: list[str]) -> None:
    """Its keys are not read into a variable of eight bytes."""
    ccbpf.root.mkdir()
    pin(ccbpf.root / "flows", "hash", 512, 4, 8)
    kernel.Map.by_pin(ccbpf.root / "flows").update(b"A" * 512, bytes(4))
    assert ccbpf.run(*words).code in (0, 1, 5)
    ccbpf("clean", "--all")
    assert not ccbpf.root.exists()


@pytest.mark.parametrize("kind", ["lru_hash", "array"])
def test_a_map_is_no_link(ccbpf: Cli, kind: str) -> None:
    """The kernel's answer about an lru_hash, type 9, reads like that about a struct_ops link, type 9 as well."""
    directory = ccbpf.root / "tcp_lp"
    directory.mkdir(parents=True)
    pin(directory / "link", kind, 4, 8, 100)
    assert ccbpf.status()["tcp_lp"]["state"] == "unreadable"
    for words in (["enable", "tcp_lp"], ["disable", "tcp_lp"], ["reload", "tcp_lp"], ["set", "tcp_lp", "delta=100"]):
        assert "is not a controller's link; `ccbpf clean --all`" in ccbpf(*words, code=1).err
    assert str(directory) in ccbpf("-j", "clean", "--all").json["removed"]
    assert_works(ccbpf)


def test_a_link_of_something_else_is_not_detached(ccbpf: Cli) -> None:
    """A struct_ops link under the name of another controller: it may belong to anything, a scheduler for example."""
    other = Cli(registry.session_pins("other"))
    link = other("-j", "enable", "tcp_lp_ecn").json["enabled"][0]["link_id"]
    try:
        (ccbpf.root / "tcp_lp").mkdir(parents=True)
        kernel.run("bpftool", "link", "pin", "id", link, ccbpf.root / "tcp_lp/link")
        assert ccbpf.status()["tcp_lp"]["state"] == "unreadable"
        assert "is not a controller's link" in ccbpf("disable", "tcp_lp", code=1).err
        ccbpf("clean", "--all")
        assert not ccbpf.root.exists()
        assert "tcp_lp_ecn" in kernel.available()
        assert other.status()["tcp_lp_ecn"]["state"] == "enabled"
    finally:
        other("clean", "--all")


def make_directory(path: Path) -> None:
    path.mkdir(parents=True)


def make_dangling(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to("/nowhere")


def make_map(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pin_a_map(path)


@pytest.mark.parametrize("make", [make_directory, make_dangling, make_map])
@pytest.mark.parametrize("name", ["flows", "listener", "tcp_lp/link", "tcp_lp", "default"])
def test_anything_in_a_place_of_ours(ccbpf: Cli, make: Callable[[Path], None], name: str) -> None:
    """The message says what it is, and does not blame a missing permission; `clean --all` is the remedy that it names."""
    make(ccbpf.root / name)
    tidy = name == "tcp_lp" and make is make_directory  # an empty directory is what an interrupted ccbpf leaves
    enabled = ccbpf.run("enable", "tcp_lp")
    if tidy or name == "default":
        assert enabled.code == 0, enabled
    else:
        assert enabled.code == 1 and "`ccbpf clean --all`" in enabled.err, enabled
        assert "tcp_lp" not in kernel.available()
    ccbpf("clean", "--all")
    assert not ccbpf.root.exists()
    assert_works(ccbpf)


def test_what_cannot_be_removed_is_not_reported_as_removed(ccbpf: Cli) -> None:
    inside = ccbpf.root / "stats/theirs"
    inside.mkdir(parents=True)
    pin_a_map(ccbpf.root / "listener")
    result = ccbpf("-j", "clean", "--all", code=1)
    assert result.json["removed"] == [str(ccbpf.root / "listener")], "what can be removed is"
    assert "ccbpf did not put there" in result.error["why"]
    assert "removed" not in ccbpf("clean", "--all", code=1).out
    inside.rmdir()
    assert str(ccbpf.root / "stats") in ccbpf("-j", "clean", "--all").json["removed"]


def test_new_pins_of_another_kind(ccbpf: Cli) -> None:
    """Where an interrupted reload would leave a map, there is another kind of object: it never replaces the identity."""
    link = ccbpf("-j", "enable", "tcp_lp").json["enabled"][0]["link_id"]
    kernel.run("bpftool", "link", "pin", "id", link, ccbpf.root / "tcp_lp/identity_new")
    before = ccbpf.status()["tcp_lp"]["instance"]
    ccbpf("clean")
    assert not (ccbpf.root / "tcp_lp/identity_new").exists()
    assert ccbpf.status()["tcp_lp"]["instance"] == before > 0


# --- nf_red ---


def directory_of(line: Line) -> Path:
    index = int(line.near.run("cat", f"/sys/class/net/{DEV}/ifindex").stdout)
    return line.ccbpf.root / f"aqm/{line.near.inode}_{index}"


@pytest.fixture
def attached(line: Line) -> Line:
    line.tbf()
    line.attach()
    return line


def test_a_map_is_no_link_of_nf_red(attached: Line) -> None:
    """An lpm_trie, type 11, with as many entries as the device's index reads like its TCX link, type 11."""
    directory = directory_of(attached)
    index = int(directory.name.partition("_")[2])
    (directory / "link").unlink()
    pin(directory / "link", "lpm_trie", 8, 8, index, "flags", 1)
    assert "is not one of this ccbpf" in attached.aqm("detach", DEV, code=1).err
    attached.ccbpf("clean", "--all")
    assert not attached.ccbpf.root.exists()


def test_a_link_of_another_type_is_no_controllers_link(attached: Line) -> None:
    """The kernel tells a TCX link's device where a struct_ops link has the id of its map."""
    link = attached.shown()["link_id"]
    (attached.ccbpf.root / "tcp_lp").mkdir()
    kernel.run("bpftool", "link", "pin", "id", link, attached.ccbpf.root / "tcp_lp/link")
    assert attached.ccbpf.status()["tcp_lp"]["state"] == "unreadable"
    attached.ccbpf("clean", "--all")
    assert not attached.ccbpf.root.exists()


def test_a_program_of_somebody_else_at_the_device(attached: Line) -> None:
    """Their TCX link, pinned in the place of ours, is unpinned, but never reported as nf_red."""
    directory = directory_of(attached)
    (directory / "link").unlink()
    theirs = attached.ccbpf.root.with_name(attached.ccbpf.root.name + "-theirs")
    kernel.run("bpftool", "prog", "load", kernel.ROOT / "build/tests/empty_tc.bpf.o", theirs, "type", "tcx/egress")
    try:
        with kernel.inside(attached.near.name):
            kernel.pin_tcx_link(theirs, int(directory.name.partition("_")[2]), directory / "link")
        assert "is not one of this ccbpf" in attached.aqm("show", DEV, code=1).err
    finally:
        theirs.unlink()


def test_an_identity_that_names_another_device(attached: Line) -> None:
    kernel.replace_map(directory_of(attached) / "identity", lambda value: value[:8] + struct.pack("=I", 1) + value[12:])
    assert "is not one of this ccbpf" in attached.aqm("detach", DEV, code=1).err
    attached.ccbpf("clean", "--all", prefix=("ip", "netns", "exec", attached.near.name))
    assert not attached.ccbpf.root.exists()


# --- what a terminal would obey ---


def put(value: bytes, at: int, text: bytes) -> bytes:
    return value[:at] + text + b"\0" + value[at + len(text) + 1 :]


def test_a_version_is_printable(ccbpf: Cli) -> None:
    ccbpf("enable", "tcp_lp")
    kernel.replace_map(ccbpf.root / "tcp_lp/identity", lambda value: put(value, 16, ESCAPE))
    for words in (["status"], ["-j", "status"], ["status", "tcp_lp"]):
        assert_printable(ccbpf(*words))
    assert "?[31m" in ccbpf("status").out


def test_the_name_in_a_record_is_printable(ccbpf: Cli) -> None:
    ccbpf("enable", "tcp_lp")
    flow = kernel.ffi.new("struct ccbpf_flow *", {"kind": 1, "controller": ESCAPE, "family": 2})
    flows = kernel.Map.by_pin(ccbpf.root / "flows")
    flows.update(bytes(8), bytes(kernel.ffi.buffer(flow)))
    for words in (["flows"], ["flows", "-v"], ["-j", "flows"], ["--pretty", "flows"]):
        shown = ccbpf(*words)
        assert_printable(shown)
        assert "?[31m" in shown.out
    flows.delete(bytes(8))
    flows.close()


@pytest.mark.usefixtures("own_network")
def test_a_remembered_default_is_printable(ccbpf: Cli) -> None:
    before = SYSCTL.read_text()
    try:
        ccbpf("enable", "tcp_lp", "--default")
        kernel.replace_map(ccbpf.root / "default", lambda value: put(value, 0, ESCAPE))
        for words in (["status"], ["-j", "status"], ["disable", "tcp_lp"]):
            assert_printable(ccbpf(*words))
    finally:
        SYSCTL.write_text(before)


def test_foreign_names_are_printable(ccbpf: Cli) -> None:
    ccbpf("enable", "tcp_lp")
    foreign = Path(os.fsdecode(os.fsencode(ccbpf.root) + b"/" + ESCAPE))
    foreign.mkdir()
    for words in (["status"], ["-j", "status"], ["clean"], ["-j", "clean"], ["disable", "tcp_lp"]):
        assert_printable(ccbpf(*words))
    foreign.rmdir()


@pytest.fixture
def odd(line: Line) -> Iterator[str]:
    """The device has a name that the kernel accepts and a terminal would obey."""
    name = os.fsdecode(ESCAPE.rstrip(b"\n"))
    line.near.ip("link", "set", DEV, "down")
    line.near.ip("link", "set", DEV, "name", name)
    line.near.ip("link", "set", name, "up")
    line.tc("qdisc", "replace", "dev", name, "root", "bfifo", "limit", 100_000)
    yield name


def test_a_devices_name_is_printable(line: Line, odd: str) -> None:
    for words in (["attach", odd], ["attach", odd, "--nf-min", "x"], ["set", odd, "--nf-min", "3"], ["show", odd], ["show"],
                  ["set", odd, "--limit", "x"], ["detach", odd], ["detach", odd], ["show", odd]):  # fmt: skip
        for flags in ([], ["-j"]):
            prefix = ("ip", "netns", "exec", line.near.name)
            shown = line.ccbpf.run(*flags, "aqm", *words, prefix=prefix)
            assert shown.code in (0, 2, 5), shown
            assert_printable(shown)


def test_an_identity_of_nf_red_is_printable(attached: Line) -> None:
    """Device and version, as `show` prints them from another namespace."""
    identity = directory_of(attached) / "identity"
    offsets = {name: field.offset for name, field in kernel.ffi.typeof("struct ccbpf_aqm_identity").fields}
    for name in ("device", "version"):
        kernel.replace_map(identity, lambda value: put(value, offsets[name], ESCAPE))
    for flags in ([], ["-j"]):
        assert_printable(attached.ccbpf(*flags, "aqm", "show"))
        assert_printable(attached.aqm(*flags, "show", DEV) if not flags else attached.aqm("show", DEV, json=True))
    assert_printable(attached.aqm("detach", DEV))


def test_what_libbpf_says_is_printable(ccbpf: Cli) -> None:
    root = Path(os.fsdecode(os.fsencode(ccbpf.root) + ESCAPE.rstrip(b"\n")))
    try:
        said = Cli(root)("enable", "tcp_lp", "-v").err
    finally:
        Cli(root)("clean", "--all")
    assert not re.search(r"[\x1b\x07\x7f]", said), ascii(said)


def test_json_of_hostile_strings_is_json(ccbpf: Cli) -> None:
    ccbpf("enable", "tcp_lp")
    kernel.replace_map(ccbpf.root / "tcp_lp/identity", lambda value: put(value, 16, b'"},{\xff\\'))
    assert json.loads(ccbpf("-j", "status").out)["controllers"][0]["version"] == '"},{?\\'
