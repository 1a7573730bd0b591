# SPDX-License-Identifier: GPL-2.0-only
"""The command in unusual surroundings: a read-only bpffs, pins removed by hand, a directory that vanishes, another clock, closed
files."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from tests.functional import kernel
from tests.functional.cli.pins import ECN, OWN, SHARED, SYSCTL, assert_works
from tests.functional.conftest import CCBPF, Cli, Result

PRELOADED_BY_GLIBC = "libc_malloc_debug.so.0"  # with MALLOC_CHECK_=3 it ends a process that wrote behind a block


# --- memory ---


def test_reload_writes_into_its_own_memory_only(ccbpf: Cli) -> None:
    """In libbpf a link that was opened from a pin is a smaller block of memory than one that was attached."""
    ccbpf("enable", "tcp_lp")
    before = ccbpf.status()["tcp_lp"]
    checked = Cli(ccbpf.root, {"LD_PRELOAD": PRELOADED_BY_GLIBC, "MALLOC_CHECK_": "3"})
    checked("reload", "tcp_lp")
    after = ccbpf.status()["tcp_lp"]
    assert (after["link_id"], after["instance"] > before["instance"]) == (before["link_id"], True)


def test_reload_puts_every_member_in_place(ccbpf: Cli) -> None:
    """The table that `reload` writes is the one that libbpf wrote for `enable`, except for the numbers of the programs."""

    def table(name: str) -> dict[str, object]:
        shown = kernel.struct_ops_value(ccbpf.status()[name]["map_id"])
        return {k: re.sub(r"/prog_id:\d+$", "", str(v)) for k, v in shown.items() if k != "owner"}

    names = ["tcp_lp", "nf_tcp"]
    ccbpf("enable", *names)
    before = {name: table(name) for name in names}
    ccbpf("reload", *names)
    assert {name: table(name) for name in names} == before
    assert all(len([v for v in values.values() if v not in ("0", "0x0")]) > 4 for values in before.values()), before


# --- pins removed by hand ---


@pytest.fixture
def sysctls(own_network: None) -> None:
    """Known values of the default controller and ECN."""
    SYSCTL.write_text("reno")
    ECN.write_text("2")


def gone(name: str) -> None:
    kernel.eventually(lambda: name not in kernel.available(), 10, "the kernel drops a link without a pin")


@pytest.mark.parametrize("words", [["clean", "--all"], ["clean"], ["disable", "tcp_lp"]], ids=" ".join)
def test_what_enable_changed_is_restored_without_its_pins(ccbpf: Cli, sysctls: None, words: list[str]) -> None:
    ccbpf("enable", "nf_tcp", "--default", "--ecn")
    ccbpf("enable", "tcp_lp")
    shutil.rmtree(ccbpf.root / "nf_tcp")
    gone("nf_tcp")
    assert (SYSCTL.read_text().strip(), ECN.read_text().strip()) == ("nf_tcp", "1")
    ccbpf(*words)
    assert (SYSCTL.read_text().strip(), ECN.read_text().strip()) == ("reno", "2")
    ccbpf("clean", "--all")
    assert not ccbpf.root.exists()


def test_a_default_whose_pins_are_all_gone_is_reported(ccbpf: Cli, sysctls: None) -> None:
    """The value to restore was in these pins."""
    ccbpf("enable", "tcp_lp", "--default")
    shutil.rmtree(ccbpf.root)
    gone("tcp_lp")
    for words in (["clean"], ["clean", "--all"]):
        said = ccbpf(*words).err
        assert "tcp_lp stays the default" in said and "`sysctl net.ipv4.tcp_congestion_control=" in said
    assert SYSCTL.read_text().strip() == "tcp_lp"
    SYSCTL.write_text("reno")
    assert ccbpf("clean").err == ""


def test_what_somebody_changed_since_is_left_alone_then_too(ccbpf: Cli, sysctls: None) -> None:
    ccbpf("enable", "nf_tcp", "--default", "--ecn")
    shutil.rmtree(ccbpf.root / "nf_tcp")
    gone("nf_tcp")
    SYSCTL.write_text("cubic")
    ECN.write_text("0")
    assert ccbpf("clean").err == ""
    assert (SYSCTL.read_text().strip(), ECN.read_text().strip()) == ("cubic", "0")
    assert not ccbpf.root.exists()


def test_a_sysctl_that_cannot_be_restored_now_is_restored_later(ccbpf: Cli, sysctls: None) -> None:
    """/proc/sys is read-only: this is reported once, and the value is remembered until a `clean` that can restore it, or --all."""
    ccbpf("enable", "nf_tcp", "--default", "--ecn")
    shutil.rmtree(ccbpf.root / "nf_tcp")
    gone("nf_tcp")
    script = 'mount -o bind,ro /proc/sys /proc/sys && exec "$@"'
    read_only = ("unshare", "-m", "sh", "-c", script, "sh")
    said = ccbpf("clean", prefix=read_only).err
    for what in ("reno cannot be restored: Read-only file system", "net.ipv4.tcp_ecn: 2 cannot be restored"):
        assert said.count(what) == 1, said
    assert ccbpf.names() == {"default", "ecn"}
    ccbpf("clean")
    assert (SYSCTL.read_text().strip(), ECN.read_text().strip()) == ("reno", "2")
    assert not ccbpf.root.exists()


def test_the_default_stays_while_its_controller_is_enabled(ccbpf: Cli, sysctls: None) -> None:
    ccbpf("enable", "nf_tcp", "--default", "--ecn")
    ccbpf("enable", "tcp_lp")
    shutil.rmtree(ccbpf.root / "tcp_lp")
    assert ccbpf("clean").err == ""
    assert (SYSCTL.read_text().strip(), ECN.read_text().strip()) == ("nf_tcp", "1")
    assert ccbpf("-j", "status").json["default_before"] == "reno"


# --- a root that vanishes ---


def losing(ccbpf: Cli, library: Path, directory: Path, times: int) -> Cli:
    environment = {"LD_PRELOAD": str(library), "VANISH": str(directory), "VANISH_TIMES": str(times)}
    return Cli(ccbpf.root, environment)


def test_a_root_that_another_command_removes_is_made_again(ccbpf: Cli, vanish: Path) -> None:
    losing(ccbpf, vanish, ccbpf.root, 20)("enable", "tcp_lp")
    assert set(ccbpf.status()) == {"tcp_lp"}
    ccbpf("disable", "tcp_lp")
    within = Cli(ccbpf.root / "below/it")
    losing(within, vanish, ccbpf.root / "below", 20)("enable", "tcp_lp")
    assert set(within.status()) == {"tcp_lp"}
    within("disable", "tcp_lp")


def test_a_root_that_always_vanishes_ends_it(ccbpf: Cli, vanish: Path) -> None:
    start = time.monotonic()
    refused = losing(ccbpf, vanish, ccbpf.root, 1_000_000)("enable", "tcp_lp", code=1).err
    assert "times and removed each time" in refused and str(ccbpf.root) in refused
    assert time.monotonic() - start < 10
    assert "tcp_lp" not in kernel.available()


# --- a read-only bpffs ---


READ_ONLY = {"superblock": "mount -o remount,ro $AT", "mount": "mount -o remount,bind,ro $AT"}


def where_read_only(ccbpf: Cli, how: str, tmp_path: Path, before: str, words: list[str]) -> Result:
    """A command in a bpffs of its own, where `before` was run before that became read-only."""
    at = tmp_path / "bpffs"
    at.mkdir()
    script = f"mount -t bpf bpf $AT; for words in {before}; do $CCBPF $words >&2; done; {READ_ONLY[how]}; " \
             "set +e; $CCBPF \"$@\" 2>$AT.err; echo $? >$AT.code"  # fmt: skip
    env = {**os.environ, "CCBPF": str(CCBPF), "AT": str(at), "CCBPF_PIN_ROOT": str(at / "pins")}
    done = subprocess.run(["unshare", "-m", "sh", "-euc", script, "sh", *words], capture_output=True, text=True, timeout=30,
                          env=env)  # fmt: skip
    assert done.returncode == 0, done
    code, err = (at.with_name(f"bpffs.{name}").read_text() for name in ("code", "err"))
    return Result(int(code), done.stdout, err)


@pytest.mark.parametrize("how", READ_ONLY)
@pytest.mark.parametrize(
    "words",
    [
        ["set", "tcp_lp", "delta=100"],
        ["reload", "tcp_lp"],
        ["disable", "tcp_lp"],
        ["clean"],
        ["disable", "--all"],
        ["clean", "--all"],
        ["enable", "tcp_lp_ecn"],
        ["enable", "tcp_lp"],
        ["aqm", "detach", "--all"],
        ["trace", "--for", "0.1"],
    ],
    ids=" ".join,
)
def test_a_read_only_bpffs_is_reported(ccbpf: Cli, tmp_path: Path, how: str, words: list[str]) -> None:
    result = where_read_only(ccbpf, how, tmp_path, "'enable tcp_lp'", words)
    assert (result.code, result.out) == (1, ""), result
    assert re.search(r"Read-only file system\); .*read-write", result.err), result.err
    assert result.err.count("\n") == 1, result.err


@pytest.mark.parametrize("how", READ_ONLY)
def test_reading_from_a_read_only_bpffs(ccbpf: Cli, tmp_path: Path, how: str) -> None:
    """The kernel opens a link for writing only: so it is known whether a mount is read-only, not what a superblock's has."""
    code = {"superblock": 1, "mount": 0}[how]
    for number, words in enumerate((["status"], ["-j", "list"], ["flows"])):
        there = tmp_path / str(number)
        there.mkdir()
        result = where_read_only(ccbpf, how, there, "'enable tcp_lp'", words)
        assert result.code == code, result
        assert ("Read-only file system" in result.err) == bool(code), result
        assert "unreadable" not in result.out
        if words == ["-j", "list"]:
            assert ('"enabled":null' in result.out, '"enabled":true' in result.out) == (bool(code), not code)


@pytest.mark.parametrize("how", READ_ONLY)
def test_check_tells_a_read_only_bpffs(ccbpf: Cli, tmp_path: Path, how: str) -> None:
    result = where_read_only(ccbpf, how, tmp_path, "'version'", ["-j", "check"])
    (row,) = [row for row in result.json["rows"] if row["name"] == "bpffs"]
    assert (result.code, row["verdict"], row["remedy"]) == (3, "missing", "mount it read-write"), row
    assert "is mounted read-only" in row["found"]


def test_an_empty_read_only_bpffs(ccbpf: Cli, tmp_path: Path) -> None:
    result = where_read_only(ccbpf, "superblock", tmp_path, "'version'", ["enable", "tcp_lp"])
    assert result.code == 1 and "Read-only file system" in result.err, result
    assert "tcp_lp" not in kernel.available()


# --- another clock ---


def behind(seconds: float) -> tuple[str, ...]:
    """In a time namespace whose clock is this much behind the host's."""
    return ("unshare", "--time", "--monotonic", str(-round(seconds)), "--fork", "--")


@pytest.fixture
def uptime_s() -> float:
    return time.clock_gettime(time.CLOCK_MONOTONIC)


def test_ages_in_a_time_namespace(ccbpf: Cli, uptime_s: float) -> None:
    """They are those of the host, whatever clock the command has."""
    ccbpf("enable", "tcp_lp")
    for shift in (uptime_s - 1, -86400):
        (shown,) = ccbpf("-j", "status", prefix=behind(shift)).json["controllers"]
        assert 0 <= shown["age_s"] < 60, shift
        assert re.search(r"tcp_lp +enabled +\d+ +\d+s ", ccbpf("status", prefix=behind(shift)).out)
        ccbpf("reload", "tcp_lp", prefix=behind(shift))
        (shown,) = ccbpf("-j", "status").json["controllers"]
        assert 0 <= shown["age_s"] < 60, shift


def test_an_age_from_the_future_is_none(ccbpf: Cli) -> None:
    ccbpf("enable", "tcp_lp")
    kernel.replace_map(ccbpf.root / "tcp_lp/identity", lambda value: value[:8] + b"\xff" * 8 + value[16:])
    assert ccbpf.status()["tcp_lp"]["age_s"] == 0
    assert re.search(r"tcp_lp +enabled +\d+ +0s ", ccbpf("status").out)


def test_a_trace_in_a_time_namespace_listens(ccbpf: Cli, uptime_s: float) -> None:
    """Until three seconds from now by the programs' clock, not by its own."""
    ccbpf("enable", "tcp_lp")
    listener = kernel.Map.by_pin(ccbpf.root / "listener")

    def listens_for_s() -> float:
        return (int.from_bytes(listener.lookup(bytes(4)) or b"", "little") - time.monotonic_ns()) / 1e9

    for shift in (uptime_s - 1, -86400):
        words = [*behind(shift), str(CCBPF), "trace", "--for", "0.5"]
        process = subprocess.Popen(words, env=ccbpf.env(), stderr=subprocess.PIPE, text=True)
        kernel.eventually(lambda: 1 < listens_for_s() < 4, 10, "it listens")
        _, err = process.communicate(timeout=10)
        assert process.returncode == 0 and re.search(r"0 events in \d\.\d s", err), err
    listener.close()


# --- who may select ltcp ---


def test_ltcp_in_a_users_own_namespace(ccbpf: Cli) -> None:
    """The kernel asks for CAP_NET_ADMIN over the network namespace: a user's own one is theirs."""
    ccbpf("enable", "ltcp")
    user = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")
    script = "import socket; socket.socket().setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, b'ltcp')"
    choose = ("/usr/bin/env", "python3", "-c", script)
    refused = kernel.run(*user, *choose, check=False)
    assert refused.returncode and "PermissionError" in refused.stderr
    kernel.run(*user, "unshare", "--user", "--net", "--map-root-user", *choose)
    ccbpf("disable", "ltcp")
    assert_works(ccbpf)


# --- few files, no /proc, signals ---


FEW = [["status"], ["-j", "status"], ["flows"], ["list"], ["set", "tcp_lp", "delta=200"], ["clean"], ["check"],
       ["trace", "--for", "0.01"], ["disable", "nf_tcp"], ["clean", "--all"]]  # fmt: skip
WRONG = ("cannot be restored", "is not a controller's link", "not made by ccbpf", "another version", "another program made", "stale",
         "Success", "is not enabled")  # fmt: skip


@pytest.mark.parametrize("words", FEW, ids=" ".join)
def test_with_few_open_files_the_error_names_the_reason(ccbpf: Cli, sysctls: None, words: list[str]) -> None:
    """Each limit makes another call the first to fail: the error says so, and nothing is lost."""
    codes = set()
    for limit in range(4, 40):
        if not ccbpf.names():
            ccbpf("enable", "nf_tcp", "--default", "--ecn")
            ccbpf("enable", "tcp_lp")
            held = ccbpf.names()
        result = ccbpf.run(*words, prefix=("prlimit", f"--nofile={limit}"))
        codes.add(result.code)
        if result.code == 127:  # not even its libraries
            continue
        assert result.code in (0, 1, 3), (limit, result)
        assert not any(wrong in result.out + result.err for wrong in WRONG), (limit, result)
        if result.code == 0:
            break
        assert "Too many open files" in result.err or words == ["check"], (limit, result)
        assert "default" in ccbpf.names() or SYSCTL.read_text().strip() == "reno", (limit, result)
        assert ccbpf.names() - {"trace"} == held or words[0] in ("disable", "clean"), (limit, result)
    assert codes >= {0}, codes
    ccbpf("clean", "--all")
    assert (SYSCTL.read_text().strip(), ECN.read_text().strip()) == ("reno", "2")
    assert not ccbpf.root.exists()


def test_without_proc_it_says_so(ccbpf: Cli) -> None:
    ccbpf("enable", "tcp_lp")
    without = ("unshare", "-m", "sh", "-c", 'mount -t tmpfs none /proc && exec "$@"', "sh")
    for words in (["status"], ["disable", "tcp_lp"], ["clean", "--all"], ["flows"]):
        assert "cannot" in (said := ccbpf(*words, code=1, prefix=without).err) and "`mount -t proc proc /proc`" in said
    assert ccbpf.status()["tcp_lp"]["state"] == "enabled"


def test_where_ended_children_are_ignored(ccbpf: Cli) -> None:
    """SIGCHLD is ignored, as a supervisor may leave it: a bpffs that a child has mounted outside is found all the same."""
    with kernel.Namespace("ignored") as namespace:
        root = "/sys/fs/bpf/ccbpf-ignored"
        script = f"umount /sys/fs/bpf; ip netns exec {namespace.name} env --ignore-signal=CHLD {CCBPF} enable tcp_lp"
        words = ["unshare", "--mount", "--propagation=private", "sh", "-euc", f"{script}; {CCBPF} disable tcp_lp"]
        done = subprocess.run(words, capture_output=True, text=True, timeout=30, env={**os.environ, "CCBPF_PIN_ROOT": root})
    assert (done.returncode, done.stderr) == (0, ""), done


# --- a kernel that refuses ---


BPF = {"map create": 0, "lookup": 1, "update": 2, "prog load": 5, "pin": 6, "get": 7, "info": 15, "BTF load": 18,
       "link create": 28, "link update": 29}  # fmt: skip


@pytest.mark.parametrize("call", BPF)
def test_a_refused_call_is_reported_and_undone(ccbpf: Cli, sysctls: None, refuse: Path, call: str) -> None:
    """The first call is refused, or the third and later ones: what was done is undone, or the command did without that call."""
    changing = [["enable", "tcp_lp_ecn", "--default", "--ecn"], ["reload", "tcp_lp", "--set", "delta=200"],
                ["set", "tcp_lp", "delta=300"]]  # fmt: skip
    others = [["status"], ["flows"], ["list"], ["clean"], ["disable", "tcp_lp"], ["clean", "--all"]]
    for words, at in [*((w, at) for w in changing for at in (1, 3)), *((w, 1) for w in others)]:
        if ccbpf.names() != SHARED | OWN:
            ccbpf.run("clean", "--all")
            ccbpf("enable", "tcp_lp", "--set", "delta=100")
        environment = {"LD_PRELOAD": str(refuse), "REFUSE": str(BPF[call]), "REFUSE_WITH": "12", "REFUSE_AT": str(at)}
        result = Cli(ccbpf.root, environment).run(*words)
        assert result.code in (0, 1) or (result.code, call) == (3, "BTF load"), (words, at, result)
        assert bool(result.code) == ("ccbpf: cannot" in result.err), (words, at, result)
        if result.code:
            assert "memory" in result.err or call == "BTF load", (words, at, result)
        if words in changing and result.code:
            assert ccbpf.names() == SHARED | OWN, (words, at, result)
            assert ccbpf.status()["tcp_lp"]["params"]["delta"] == 100, (words, at, result)
        if words in changing and not result.code:
            ccbpf("clean", "--all")
        assert (SYSCTL.read_text().strip(), ECN.read_text().strip()) == ("reno", "2"), (words, at, result)


def test_a_verifier_that_refuses_is_no_missing_permission(ccbpf: Cli, refuse: Path) -> None:
    refused = Cli(ccbpf.root, {"LD_PRELOAD": str(refuse), "REFUSE": str(BPF["prog load"]), "REFUSE_WITH": "13"})
    said = refused("enable", "tcp_lp", code=3).err
    assert "does not accept its programs (Permission denied)" in said and "`-v`" in said


def test_a_link_that_is_detached_while_it_is_reloaded(ccbpf: Cli, refuse: Path) -> None:
    ccbpf("enable", "tcp_lp")
    refused = Cli(ccbpf.root, {"LD_PRELOAD": str(refuse), "REFUSE": str(BPF["link update"]), "REFUSE_WITH": "67"})
    assert "somebody detached its link" in refused("reload", "tcp_lp", code=1).err
    assert ccbpf.names() == SHARED | OWN
