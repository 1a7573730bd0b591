# SPDX-License-Identifier: GPL-2.0-only
"""The pin directory: pins that are stale, foreign, of another layout or detached; and the defaults that it remembers."""

from __future__ import annotations

import shutil
import stat
import struct
import subprocess
import time
from pathlib import Path

import pytest

from tests.functional import kernel
from tests.functional.cli.pins import ECN, OWN, SHARED, SYSCTL, assert_works, pin_a_map
from tests.functional.conftest import Cli
from tests.functional.line import DEV, Line

# --- whose they are ---

ANYTHING = ("sh", "-c", 'umask 0; exec "$@"', "sh")  # a process that would let everybody write


def test_all_pins_are_roots_alone(line: Line, tmp_path: Path) -> None:
    """Of controllers, rules, a unit, a run and a queue, whatever the umask: the directories 0700, the pins 0600."""
    ccbpf, hidden = line.ccbpf, ("unshare", "-m", "sh", "-c", 'mount --bind "$0" /etc/systemd/system && exec "$@"', str(tmp_path))
    for words in ("enable tcp_lp ltcp", "assign tcp_lp --remote 192.0.2.0/24", "assign --download --remote 2001:db8::/32"):
        ccbpf(*words.split(), prefix=ANYTHING)
    ccbpf("systemd", "a.service", "ltcp", "-du", prefix=(*ANYTHING, *hidden))
    line.tbf()
    line.aqm("attach", DEV, prefix=ANYTHING)
    with subprocess.Popen([*ANYTHING, ccbpf.command, "run", "-q", "sleep", "60"], env=ccbpf.env()) as process:
        try:
            kernel.eventually(lambda: [r for r in ccbpf("-j", "status").json["runs"] if r["processes"]], 10, "the run")
            paths = {path: path.lstat() for path in [ccbpf.root, *ccbpf.root.rglob("*")]}
        finally:
            process.terminate()
    found = {(stat.S_ISDIR(s.st_mode), oct(stat.S_IMODE(s.st_mode)), s.st_uid, s.st_gid) for s in paths.values()}
    assert found == {(True, "0o700", 0, 0), (False, "0o600", 0, 0)}
    assert {"tcp_lp/link", "rules/link", "units/ltcp", "units/rx_le", "runs/1/link", "flows"} <= {
        str(path.relative_to(ccbpf.root)) for path in paths
    }


# --- stale and foreign ---


def test_a_stale_directory_is_told_and_cleaned_by_enable(ccbpf: Cli) -> None:
    ccbpf("enable", "tcp_lp")
    (ccbpf.root / "tcp_lp/link").unlink()
    kernel.eventually(lambda: "tcp_lp" not in kernel.available(), 10, "the kernel drops a link without a pin")
    assert ccbpf.status()["tcp_lp"]["state"] == "stale"
    assert "`ccbpf clean`" in ccbpf("status").out
    assert "stale" in ccbpf("disable", "tcp_lp", code=5).err
    assert_works(ccbpf)
    assert not ccbpf.root.exists()


def test_clean_removes_a_stale_directory(ccbpf: Cli) -> None:
    ccbpf("enable", "tcp_lp")
    (ccbpf.root / "tcp_lp/link").unlink()
    assert str(ccbpf.root / "tcp_lp") in ccbpf("-j", "clean").json["removed"]
    assert not ccbpf.root.exists()


def test_disable_all_removes_what_a_killed_one_has_left(ccbpf: Cli) -> None:
    """Nothing is enabled any more, and it says so."""
    ccbpf("enable", "tcp_lp")
    (ccbpf.root / "tcp_lp/link").unlink()
    assert "no controller is enabled" in ccbpf("disable", "--all", code=5).err
    assert not ccbpf.root.exists()


@pytest.mark.usefixtures("own_network")
def test_clean_restores_the_default_of_what_is_gone(ccbpf: Cli) -> None:
    before = SYSCTL.read_text()
    try:
        SYSCTL.write_text("reno")
        ccbpf("enable", "tcp_lp", "--default")
        (ccbpf.root / "tcp_lp/link").unlink()
        ccbpf("clean")
        assert SYSCTL.read_text().strip() == "reno"
        assert not ccbpf.root.exists()
    finally:
        SYSCTL.write_text(before)


def test_a_link_that_somebody_detached(ccbpf: Cli) -> None:
    link = ccbpf("-j", "enable", "tcp_lp").json["enabled"][0]["link_id"]
    kernel.run("bpftool", "link", "detach", "id", link)
    assert ccbpf.status()["tcp_lp"]["state"] == "detached"
    for words in (["disable", "tcp_lp"], ["reload", "tcp_lp"], ["set", "tcp_lp", "delta=100"]):
        assert "detached" in ccbpf(*words, code=5).err
    assert_works(ccbpf)
    assert not ccbpf.root.exists()


def test_what_is_not_ours_stays(ccbpf: Cli) -> None:
    ccbpf("enable", "tcp_lp")
    (ccbpf.root / "theirs").mkdir()
    pin_a_map(ccbpf.root / "their_map")
    pin_a_map(ccbpf.root / "tcp_lp/another")
    foreign = {"theirs", "their_map", "tcp_lp/another"}
    paths = {str(ccbpf.root / name) for name in foreign}
    assert set(ccbpf("-j", "status").json["foreign"]) == paths
    for path in paths:
        assert f"{path}: not made by ccbpf" in ccbpf("status").err
    assert set(ccbpf("-j", "clean").json["left"]) == paths
    ccbpf("disable", "tcp_lp")
    assert ccbpf.names() == foreign | {"tcp_lp"}
    ccbpf("clean", "--all")
    assert ccbpf.names() == foreign | {"tcp_lp"}
    assert_works(ccbpf)
    assert ccbpf.names() == foreign | {"tcp_lp"}


@pytest.mark.parametrize("name", ["flows", "stats", "events", "listener"])
def test_a_shared_map_of_another_layout(ccbpf: Cli, name: str) -> None:
    ccbpf.root.mkdir()
    pin_a_map(ccbpf.root / name, 24)
    result = ccbpf("enable", "tcp_lp", code=1)
    assert str(ccbpf.root / name) in result.err
    assert "`ccbpf clean --all`" in result.err
    assert "tcp_lp" not in kernel.available()
    ccbpf("clean", "--all")
    assert_works(ccbpf)


def test_a_shared_map_of_another_layout_while_enabled(ccbpf: Cli) -> None:
    ccbpf("enable", "tcp_lp")
    (ccbpf.root / "flows").unlink()
    pin_a_map(ccbpf.root / "flows")
    for words in (["status"], ["flows"], ["reload", "tcp_lp"]):
        assert "`ccbpf clean --all`" in ccbpf(*words, code=1).err
    ccbpf("clean", "--all")
    assert "tcp_lp" not in kernel.available()
    assert not ccbpf.root.exists()


def test_parameters_of_another_layout_take_a_reload(ccbpf: Cli) -> None:
    ccbpf("enable", "tcp_lp", "--set", "delta=100")
    (ccbpf.root / "tcp_lp/params").unlink()
    pin_a_map(ccbpf.root / "tcp_lp/params", 8)
    assert ccbpf.status()["tcp_lp"]["params"] is None
    assert "`ccbpf reload tcp_lp`" in ccbpf("set", "tcp_lp", "delta=100", code=1).err
    assert "defaults" in ccbpf("reload", "tcp_lp", "--set", "smoothing=4").err
    assert ccbpf.status()["tcp_lp"]["changed"] == {"smoothing": 4}
    assert ccbpf.names() == SHARED | OWN


@pytest.mark.parametrize("words", [["disable", "tcp_lp"], ["set", "tcp_lp", "delta=100"], ["reload", "tcp_lp"]], ids=" ".join)
def test_an_empty_directory_does_not_stay(ccbpf: Cli, words: list[str]) -> None:
    ccbpf.root.mkdir()
    ccbpf(*words, code=5)
    assert not ccbpf.root.exists()


def test_a_link_pin_that_is_something_else(ccbpf: Cli) -> None:
    (ccbpf.root / "tcp_lp").mkdir(parents=True)
    pin_a_map(ccbpf.root / "tcp_lp/link")
    assert ccbpf.status()["tcp_lp"]["state"] == "unreadable"
    assert "`ccbpf clean --all`" in ccbpf("enable", "tcp_lp", code=1).err
    ccbpf("clean", "--all")
    assert_works(ccbpf)


def test_an_older_ccbpf_is_told(ccbpf: Cli) -> None:
    """The pinned identity is that of another version."""
    ccbpf("enable", "tcp_lp")
    path = ccbpf.root / "tcp_lp/identity"
    identity = bytearray(kernel.Map.by_pin(path).lookup(bytes(4)) or b"")
    identity[16:40] = b"0.0.9".ljust(24, b"\0")
    path.unlink()
    pin_a_map(path, len(identity))
    kernel.Map.by_pin(path).update(bytes(4), bytes(identity))
    assert ccbpf.status()["tcp_lp"]["outdated"]
    assert ccbpf.status()["tcp_lp"]["version"] == "0.0.9"
    assert "`ccbpf reload tcp_lp`" in ccbpf("status").out
    ccbpf("reload", "tcp_lp")
    assert not ccbpf.status()["tcp_lp"]["outdated"]


def test_an_interrupted_reload_is_read_right(ccbpf: Cli) -> None:
    """identity_new is in force exactly if it is older than the struct_ops map. In both cases the directory is tidy at the end."""
    ccbpf("enable", "tcp_lp")
    path, new = ccbpf.root / "tcp_lp/identity", ccbpf.root / "tcp_lp/identity_new"
    before = ccbpf.status()["tcp_lp"]["instance"]
    pin_a_map(new, kernel.Map.by_pin(path).value_size)  # as if killed before the link changed over
    assert ccbpf.status()["tcp_lp"]["instance"] == before
    ccbpf("reload", "tcp_lp")
    after = ccbpf.status()["tcp_lp"]["instance"]
    assert after > before
    path.rename(new)  # as if killed after it
    pin_a_map(path, kernel.Map.by_pin(new).value_size)
    assert ccbpf.status()["tcp_lp"]["instance"] == after
    ccbpf("clean")
    assert ccbpf.names() == SHARED | OWN
    assert ccbpf.status()["tcp_lp"]["instance"] == after


def test_a_removed_directory_disables(ccbpf: Cli) -> None:
    """`rm -r` of the pins is a way out that always works."""
    ccbpf("enable", "tcp_lp")
    shutil.rmtree(ccbpf.root)
    kernel.eventually(lambda: "tcp_lp" not in kernel.available(), 10, "the kernel drops a link without a pin")
    assert_works(ccbpf)


def test_the_time_of_the_identity_is_the_loadings(ccbpf: Cli) -> None:
    before = time.monotonic_ns()
    ccbpf("enable", "tcp_lp")
    value = kernel.Map.by_pin(ccbpf.root / "tcp_lp/identity").lookup(bytes(4))
    assert value
    abi, kind, instance = struct.unpack_from("=IIQ", value)
    assert before < instance < time.monotonic_ns()
    assert (abi, kind) == (kernel.ABI, kernel.KINDS["tcp_lp"])


def test_parameters_of_another_layout_are_not_touched(ccbpf: Cli) -> None:
    """Even if the number of parameters is the same."""
    ccbpf("enable", "tcp_lp")
    kernel.replace_map(ccbpf.root / "tcp_lp/identity", lambda value: b"\x63" + value[1:])
    assert "of another layout" in ccbpf("status").out
    assert "reload" in ccbpf("set", "tcp_lp", "delta=200", code=1).err
    ccbpf("reload", "tcp_lp")
    ccbpf("set", "tcp_lp", "delta=200")


def test_foreign_pins_alone_are_nothing_stale(ccbpf: Cli) -> None:
    ccbpf("enable", "tcp_lp")
    foreign = ccbpf.root / "tcp_lp/mine"
    foreign.mkdir()
    ccbpf("disable", "tcp_lp")
    assert ccbpf.status() == {}
    assert str(foreign.parent) not in ccbpf("-j", "clean").json["removed"]
    foreign.rmdir()
    foreign.parent.rmdir()
    ccbpf("clean")


def test_a_default_that_somebody_else_set(ccbpf: Cli) -> None:
    """That default keeps the programs loaded, and new connections get them: the message says so, and the default stays."""
    with kernel.Namespace("default") as namespace:
        within = ("ip", "netns", "exec", namespace.name)
        ccbpf("enable", "tcp_lp")
        namespace.sysctl("net.ipv4.tcp_congestion_control=tcp_lp")
        said = ccbpf("disable", "tcp_lp", prefix=within).err
        assert "tcp_lp stays the default" in said and "`sysctl net.ipv4.tcp_congestion_control=" in said
        assert "disabled, but still the default" in ccbpf("status", prefix=within).out
        namespace.sysctl("net.ipv4.tcp_congestion_control=reno")
        assert "still the default" not in ccbpf("status", prefix=within).out


def test_ltcp_is_no_default_of_a_namespace(ccbpf: Cli) -> None:
    """The kernel would refuse it and keep a reference for ever."""
    with kernel.Namespace("default") as namespace:
        refused = ccbpf("enable", "ltcp", "--default", prefix=("ip", "netns", "exec", namespace.name), code=1)
        assert "the default of the host's own network namespace" in refused.err
    assert "ltcp" not in kernel.available()
    assert not ccbpf.root.exists()


@pytest.mark.usefixtures("own_network")
def test_a_default_that_cannot_be_restored(ccbpf: Cli) -> None:
    """/proc/sys is read-only, as in containers: no message says that it was restored, and the old value is not forgotten."""
    before = {path: path.read_text() for path in (SYSCTL, ECN)}
    ccbpf("enable", "nf_tcp", "--ecn", "--default")
    try:
        script = 'mount -o bind,ro /proc/sys /proc/sys && exec "$@"'
        said = ccbpf("disable", "nf_tcp", prefix=("unshare", "-m", "sh", "-c", script, "sh")).err
        assert f"{before[SYSCTL].strip()} cannot be restored: Read-only file system" in said
        assert "is the default now" not in said
        assert f"net.ipv4.tcp_ecn: {before[ECN].strip()} cannot be restored" in said
    finally:
        for path, value in before.items():
            path.write_text(value)
