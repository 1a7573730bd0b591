# SPDX-License-Identifier: GPL-2.0-only
"""The pin directory: what is stale, foreign, of another layout, detached; many ccbpf at once; ccbpf killed anywhere."""

from __future__ import annotations

import fcntl
import json
import os
import random
import shutil
import signal
import struct
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests import registry
from tests.functional import kernel
from tests.functional.conftest import CCBPF, Cli

SHARED = {"flows", "events", "stats", "listener"}
OWN = {"tcp_lp", "tcp_lp/link", "tcp_lp/params", "tcp_lp/identity"}
SYSCTL = Path("/proc/sys/net/ipv4/tcp_congestion_control")
ECN = Path("/proc/sys/net/ipv4/tcp_ecn")
KILLS = 40


def pin_a_map(path: Path, value_size: int = 4) -> None:
    """A map that is not ccbpf's, at a path."""
    kernel.run("bpftool", "map", "create", path, "type", "array", "key", 4, "value", value_size, "entries", 1, "name", "x")


def assert_works(ccbpf: Cli) -> None:
    """From here, everything works and leaves nothing."""
    ccbpf("enable", "tcp_lp")
    assert ccbpf.names() >= SHARED | OWN
    assert ccbpf.status()["tcp_lp"]["state"] == "enabled"
    ccbpf("disable", "tcp_lp")
    assert "tcp_lp" not in kernel.available()


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
    """The identity of a loading by another version, in its place."""
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
    """identity_new is in force exactly if it is older than the struct_ops map: both cases, and both end tidy."""
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


# --- bpffs ---


def test_a_root_that_is_not_on_bpffs(tmp_path: Path, registry_lock: Path) -> None:
    elsewhere = Cli(tmp_path / "a/b")
    result = elsewhere("enable", "tcp_lp", code=1)
    assert "does not lie on a BPF file system" in result.err
    assert list(tmp_path.iterdir()) == []
    assert "BPF file system" in Cli(tmp_path)("status", code=1).err
    for root, says in (("relative/root", "absolute"), ("/sys/fs/bpf/a.b", "dot"), ("/sys/fs/bpf/" + "x" * 300, "256")):
        for words in (["enable", "tcp_lp"], ["status"]):
            assert says in Cli(Path(root))(*words, code=2).err


def lacking(script: str, words: str) -> subprocess.CompletedProcess[str]:
    """A command where a script has hidden something that the kernel has."""
    return in_mount_namespace(f"{script}; exec $CCBPF {words}")


def hide(what: str, content: Path) -> str:
    return f"mount --bind {content} {what}"


def test_a_kernel_without_btf(bpffs: Path) -> None:
    script = "mount -t tmpfs none /sys/kernel/btf; mount -t tmpfs none /boot"
    done = lacking(script, "enable tcp_lp")
    assert done.returncode == 3, done
    assert "no BTF" in done.stderr and "CONFIG_DEBUG_INFO_BTF" in done.stderr
    done = lacking(script, "-j check")
    assert done.returncode == 3, done
    rows = {row["name"]: row for row in json.loads(done.stdout)["rows"]}
    assert rows["BTF"]["verdict"] == rows["struct_ops"]["verdict"] == "missing"


def btf_of(path: Path) -> bytes:
    """The section .BTF of an ELF file of 64 bits."""
    data = path.read_bytes()
    (table,), (size, count, names) = struct.unpack_from("=Q", data, 40), struct.unpack_from("=HHH", data, 58)
    headers = [struct.unpack_from("=IIQQQQ", data, table + i * size) for i in range(count)]
    for name, _, _, _, offset, length in headers:
        if data[headers[names][4] + name :].startswith(b".BTF\0"):
            return data[offset : offset + length]
    raise AssertionError(f"{path} has no BTF")


def test_a_kernel_without_struct_ops_for_tcp(bpffs: Path, tmp_path: Path) -> None:
    """Its BTF is that of our own object: it has the members, and nothing that a kernel has besides."""
    blob = tmp_path / "btf"
    blob.write_bytes(btf_of(kernel.ROOT / "build/bpf/tcp_lp.bpf.o"))
    script = hide("/sys/kernel/btf/vmlinux", blob)
    done = lacking(script, "enable tcp_lp")
    assert done.returncode == 3, done
    assert "struct_ops" in done.stderr and "Linux 6.1" in done.stderr
    done = lacking(script, "-j check")
    assert done.returncode == 3, done
    rows = {row["name"]: row["verdict"] for row in json.loads(done.stdout)["rows"]}
    assert (rows["BTF"], rows["struct_ops"], rows["struct_ops links"]) == ("ok", "missing", "note")
    assert (rows["kernel members"], rows["kernel functions"]) == ("ok", "ok")


def test_a_kernel_whose_structures_lack_members(bpffs: Path, tmp_path: Path) -> None:
    """The same, where a member of tcp_sock and a function have other names."""
    blob = tmp_path / "btf"
    data = btf_of(kernel.ROOT / "build/bpf/tcp_lp.bpf.o")
    for name in (b"\0mss_cache\0", b"\0tcp_slow_start\0"):
        assert data.count(name) == 1
        data = data.replace(name, name.upper())
    blob.write_bytes(data)
    done = lacking(hide("/sys/kernel/btf/vmlinux", blob), "-j check")
    assert done.returncode == 3, done
    rows = {row["name"]: row["found"] for row in json.loads(done.stdout)["rows"]}
    assert rows["kernel members"] == "tcp_sock.mss_cache"
    assert rows["kernel functions"] == "tcp_slow_start"


def test_a_kernel_whose_jit_is_off(bpffs: Path, tmp_path: Path) -> None:
    off = tmp_path / "jit"
    off.write_text("0\n")
    script = hide("/proc/sys/net/core/bpf_jit_enable", off)
    done = lacking(script, "enable tcp_lp")
    assert done.returncode == 3, done
    assert "sysctl net.core.bpf_jit_enable=1" in done.stderr
    assert lacking(script, "check").returncode == 3


def test_an_old_libbpf(ccbpf: Cli, tmp_path: Path) -> None:
    (tmp_path / "old.c").write_text("unsigned libbpf_minor_version(void) { return 1; }")
    kernel.run("gcc", "-shared", "-fPIC", "-o", tmp_path / "old.so", tmp_path / "old.c")
    old = Cli(ccbpf.root, {"LD_PRELOAD": str(tmp_path / "old.so")})
    result = old("enable", "tcp_lp", code=3)
    assert "too old" in result.err and "libbpf 1.4" in result.err
    old("check", code=3)


def in_mount_namespace(script: str) -> subprocess.CompletedProcess[str]:
    """A script where /sys/fs/bpf is not mounted."""
    environment = {k: v for k, v in os.environ.items() if k != "CCBPF_PIN_ROOT"} | {"CCBPF": str(CCBPF)}
    return subprocess.run(
        ["unshare", "--mount", "--propagation=private", "sh", "-euc", "umount /sys/fs/bpf; " + script],
        capture_output=True,
        text=True,
        timeout=30,
        env=environment,
    )


def test_enable_mounts_bpffs_where_it_is_missing(bpffs: Path) -> None:
    done = in_mount_namespace(
        "$CCBPF check | grep 'bpffs *note'; $CCBPF status; ! mountpoint -q /sys/fs/bpf;"
        "$CCBPF enable tcp_lp; test -e /sys/fs/bpf/ccbpf/tcp_lp/link; $CCBPF disable tcp_lp;"
        "! test -e /sys/fs/bpf/ccbpf; mountpoint /sys/fs/bpf"
    )
    assert done.returncode == 0, done
    assert "is a mountpoint" in done.stdout


def test_without_permission_to_mount_the_capability_is_named(bpffs: Path) -> None:
    done = in_mount_namespace("exec setpriv --bounding-set=-sys_admin $CCBPF enable tcp_lp")
    assert done.returncode == 4, done
    assert "cap_sys_admin" in done.stderr
    assert "mount -t bpf" in done.stderr


@pytest.mark.parametrize(
    "words",
    [["enable", "tcp_lp", "--default"], ["enable", "tcp_lp", "tcp_lp_ecn"], ["reload", "tcp_lp"], ["disable", "tcp_lp"]],
    ids=" ".join,
)
def test_a_failure_at_any_system_call_is_undone(ccbpf: Cli, words: list[str]) -> None:
    """Fault injection by a limit of open files: each of them makes another call the first to fail."""
    before, codes = SYSCTL.read_text(), set()
    if words[0] != "enable":
        ccbpf("enable", "tcp_lp")
    for limit in range(4, 64):
        held = ccbpf.names()
        result = ccbpf.run(*words, prefix=("prlimit", f"--nofile={limit}"))
        codes.add(result.code)
        if result.code == 0:
            break
        if result.code == 127:  # not even its libraries
            continue
        assert result.err.startswith("ccbpf: "), (limit, result)
        assert ccbpf.names() == held, (limit, result)
        assert SYSCTL.read_text() == before
    assert codes >= {0, 1}, codes
    ccbpf("clean", "--all")
    assert SYSCTL.read_text() == before
    assert not ccbpf.root.exists()


# --- locks ---


@contextmanager
def held(ccbpf: Cli, mode: int) -> Iterator[None]:
    ccbpf.root.mkdir(exist_ok=True)
    fd = os.open(ccbpf.root, os.O_RDONLY | os.O_DIRECTORY)
    fcntl.flock(fd, mode)
    yield
    os.close(fd)


def test_a_held_lock_is_waited_for(ccbpf: Cli) -> None:
    with held(ccbpf, fcntl.LOCK_EX):
        waiting = [ccbpf.popen(*words, stdout=subprocess.PIPE) for words in (["enable", "tcp_lp"], ["status"])]
        time.sleep(0.3)  # long enough for both to reach the lock
        assert [process.poll() for process in waiting] == [None, None]
    assert [process.wait(20) for process in waiting] == [0, 0]


def test_readers_read_together(ccbpf: Cli) -> None:
    ccbpf("enable", "tcp_lp")
    with held(ccbpf, fcntl.LOCK_SH):
        assert ccbpf.status()["tcp_lp"]["state"] == "enabled"


def test_a_lock_held_for_long_names_its_holder(ccbpf: Cli) -> None:
    """But one that goes from hand to hand is waited for: the holder after ten seconds is not the one before."""
    turns = Cli(registry.session_pins("turns"))
    turns.root.mkdir()
    hands = [subprocess.Popen(["flock", turns.root, "sleep", "6"]) for _ in range(2)]
    waiting = turns.popen("set", "tcp_lp", "delta=100", stderr=subprocess.PIPE)
    with held(ccbpf, fcntl.LOCK_EX):
        start = time.monotonic()
        result = ccbpf("enable", "tcp_lp", code=1)
        assert 9 < time.monotonic() - start < 15
    assert f"process {os.getpid()}, holds its lock (waited 10 s)" in result.err
    _, err = waiting.communicate(timeout=20)
    assert (waiting.returncode, "it is not enabled" in err) == (5, True), err
    assert [hand.wait() for hand in hands] == [0, 0]


def test_many_at_once_end_consistently(ccbpf: Cli) -> None:
    words = [
        ["enable", "tcp_lp"],
        ["disable", "tcp_lp"],
        ["reload", "tcp_lp"],
        ["status"],
        ["clean"],
        ["set", "tcp_lp", "delta=100"],
        ["enable", "tcp_lp", "tcp_lp_ecn"],
        ["disable", "--all"],
        ["flows"],
    ]
    chooser = random.Random(1)
    for _ in range(4):
        running = [
            (w, ccbpf.popen(*w, stdout=subprocess.PIPE, stderr=subprocess.PIPE))
            for w in (chooser.choice(words) for _ in range(25))
        ]
        for w, process in running:
            out, err = process.communicate(timeout=60)
            assert process.returncode in (0, 5), (w, out, err)
    for name in ccbpf.status():
        assert ccbpf.status()[name]["state"] == "enabled"
    ccbpf.run("disable", "--all")
    assert_works(ccbpf)
    assert not ccbpf.root.exists()


def test_of_many_enables_one_wins(ccbpf: Cli) -> None:
    running = [ccbpf.popen("enable", "tcp_lp", stdout=subprocess.PIPE, stderr=subprocess.PIPE) for _ in range(10)]
    codes = sorted(process.wait(60) for process in running)
    for process in running:
        process.communicate()
    assert codes == [0] + [5] * 9


# --- killed anywhere ---


def killed_at_every_step(ccbpf: Cli, library: Path, *words: str) -> Iterator[int]:
    """Runs the command again and again, killed before its 1st, 2nd, … change, until it ends by itself."""
    for at in range(1, 200):
        process = subprocess.run(
            [str(CCBPF), *words],
            capture_output=True,
            text=True,
            timeout=60,
            env=ccbpf.env() | {"LD_PRELOAD": str(library), "KILL_AT": str(at)},
        )
        assert process.returncode in (0, -signal.SIGKILL), process
        yield at
        if process.returncode == 0:
            assert at > 5, "the steps are counted"
            return
    raise AssertionError("it never ends")


@pytest.fixture(params=["links", "no links"])
def either(ccbpf: Cli, request: pytest.FixtureRequest) -> Cli:
    return Cli(ccbpf.root, {} if request.param == "links" else {"CCBPF_NO_LINKS": "1"})


def test_killed_at_every_step_of_enable(either: Cli, kill_at: Path) -> None:
    seen = set()
    for _ in killed_at_every_step(either, kill_at, "enable", "tcp_lp", "tcp_lp_ecn", "--set", "delta=100"):
        status = either.status()
        states = {name: c["state"] for name, c in status.items()}
        seen.add(str(sorted(states.items())))
        for c in status.values():  # what is enabled is whole
            assert c["state"] == "stale" or (c["params"]["delta"], bool(c["instance"])) == (100, True)
        for name in ("tcp_lp", "tcp_lp_ecn"):
            either("enable", name, code=5 if states.get(name) == "enabled" else 0)
        assert {c["state"] for c in either.status().values()} == {"enabled"}
        either("disable", "--all")
        assert not either.root.exists()
    assert len(seen) >= 4, seen  # nothing, one stale, one enabled, both


def test_clean_after_every_step_of_enable(either: Cli, kill_at: Path) -> None:
    for _ in killed_at_every_step(either, kill_at, "enable", "tcp_lp"):
        either("clean")
        assert either.names() in (set(), SHARED | OWN, SHARED | OWN - {"tcp_lp/link"} | {"tcp_lp/ops"})
        assert (either.names() != set()) == ("tcp_lp" in kernel.available())
        either("clean", "--all")
        assert not either.root.exists()


@pytest.mark.parametrize("words", [["enable", "tcp_lp_ecn", "--default", "--ecn"], ["clean", "--all"]], ids=" ".join)
def test_killed_at_every_step_with_sysctls_changed(ccbpf: Cli, kill_at: Path, words: list[str]) -> None:
    """Default and ECN are those of before after the next `clean --all`."""
    before = {path: path.read_text() for path in (SYSCTL, ECN)}
    try:
        ECN.write_text("2")
        for _ in changed_and_killed(ccbpf, kill_at, words):
            ccbpf("clean", "--all")
            assert (SYSCTL.read_text(), ECN.read_text()) == (before[SYSCTL], "2\n")
            assert not ccbpf.root.exists()
    finally:
        for path, value in before.items():
            path.write_text(value)


def changed_and_killed(ccbpf: Cli, kill_at: Path, words: list[str]) -> Iterator[int]:
    """killed_at_every_step(), where what is not `enable` finds all changed each time."""

    def enable() -> None:
        if words[0] != "enable":
            ccbpf("enable", "tcp_lp_ecn", "--default", "--ecn")

    enable()
    for at in killed_at_every_step(ccbpf, kill_at, *words):
        yield at
        enable()


def test_killed_at_every_step_of_disable(either: Cli, kill_at: Path) -> None:
    before = SYSCTL.read_text().strip()

    def run() -> Iterator[int]:
        either("enable", "tcp_lp", "--default")
        for at in killed_at_every_step(either, kill_at, "disable", "tcp_lp"):
            yield at
            either("enable", "tcp_lp", "--default")

    try:
        for _ in run():
            if either.run("disable", "tcp_lp").code == 5:
                either("clean")
            assert not either.root.exists()
            assert "tcp_lp" not in kernel.available()
            assert SYSCTL.read_text().strip() == before
    finally:
        SYSCTL.write_text(before)


def running_instance(ops_id: int) -> int:
    """The instance of the programs behind a struct_ops map, from the identity that they themselves read."""
    program = next(iter(kernel.struct_ops()[ops_id].programs))
    shown = json.loads(kernel.run("bpftool", "-j", "prog", "show", "id", program).stdout)
    for map_id in shown["map_ids"]:
        found = kernel.Map.by_id(map_id)
        if found.name == ".rodata.identity"[:15]:
            return int(struct.unpack_from("=IIQ", found.lookup(bytes(4)) or b"")[2])
    raise AssertionError(f"program {program} has no identity")


def test_killed_at_every_step_of_reload(ccbpf: Cli, kill_at: Path) -> None:
    ccbpf("enable", "tcp_lp", "--set", "delta=100")
    instances = {ccbpf.status()["tcp_lp"]["instance"]}
    for _ in killed_at_every_step(ccbpf, kill_at, "reload", "tcp_lp", "--set", "smoothing=4"):
        status = ccbpf.status()["tcp_lp"]
        assert status["state"] == "enabled"
        assert status["changed"]["delta"] == 100
        instances.add(status["instance"])
        ccbpf("clean")
        assert ccbpf.names() == SHARED | OWN
        assert ccbpf.status()["tcp_lp"]["instance"] == status["instance"]
        assert running_instance(status["map_id"]) == status["instance"]
    assert len(instances) >= 3
    assert ccbpf.status()["tcp_lp"]["changed"] == {"delta": 100, "smoothing": 4}


def test_killed_at_any_time(ccbpf: Cli) -> None:
    """And once more by the clock, spread over the whole run."""
    start = time.monotonic()
    ccbpf("enable", "tcp_lp")
    longest = time.monotonic() - start
    ccbpf("disable", "tcp_lp")
    killed = 0
    for i in range(KILLS):
        process = ccbpf.popen("enable", "tcp_lp", stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        time.sleep(longest * 1.1 * i / KILLS)
        process.kill()
        process.communicate()
        killed += process.returncode == -signal.SIGKILL
        ccbpf("enable", "tcp_lp", code=5 if "tcp_lp/link" in ccbpf.names() else 0)
        ccbpf("disable", "tcp_lp")
        assert not ccbpf.root.exists()
    assert killed > KILLS / 4


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
    """Even where there are as many of them."""
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
    """It keeps the programs, and new connections get them: that is said, and whose it is stays."""
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


def test_a_default_that_cannot_be_restored(ccbpf: Cli) -> None:
    """A read-only /proc/sys, as in containers: nothing is said to be what it is not, and nothing is forgotten."""
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
