# SPDX-License-Identifier: GPL-2.0-only
"""The command line: help, usage errors, the form of an error, and the destinations of output. Nothing is enabled here."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.functional import kernel
from tests.functional.conftest import CCBPF, Cli
from tests.unit import headers

CONTROLLERS = [row[1] for row in headers.table("ccbpf/controllers.h", "CCBPF_CONTROLLERS", "vwwvv")]
PARAMS = headers.table("ccbpf/params.h", "TCP_LP_PARAMS", "wvvvvvv")
COMMANDS = re.findall(r"^\s+X\((\w+)\)", (kernel.ROOT / "loader/commands.h").read_text(), re.M)
WIDTH = 99
HELP_WIDTH = 79


def test_help_lists_every_command_and_ends_well(ccbpf: Cli) -> None:
    assert COMMANDS == [command["name"] for command in ccbpf("-j", "help").json["commands"]]
    shown = ccbpf("--help").out
    for command in COMMANDS:
        assert re.search(rf"^  {command} ", shown, re.M), command
    assert shown == ccbpf("help").out == ccbpf("-h").out
    assert max(map(len, shown.splitlines())) <= HELP_WIDTH


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_explains_itself(ccbpf: Cli, command: str) -> None:
    result = ccbpf(command, "--help")
    assert max(map(len, result.out.splitlines())) <= HELP_WIDTH
    assert result.out == ccbpf("help", command).out
    assert result.err == ""
    described = ccbpf("-j", "help", command).json
    assert [d["name"] for d in described["commands"]] == [command]
    for option in [*described["commands"][0]["options"], *described["options"]]:
        forms = f"{option['short']}, {option['name']}" if option["short"] else f"    {option['name']}"
        assert f"  {forms}{'=' + option['argument'] if option['argument'] else ''} " in result.out


def test_the_help_of_set_has_every_parameter_with_range_and_default(ccbpf: Cli) -> None:
    shown = ccbpf("help", "set").out
    for name, unit, low, high, default, *_ in PARAMS:
        assert re.search(rf"{name}\s+{low} to {high} {re.escape(unit)}, by default {default} ", shown), name


def test_the_help_of_set_for_one_controller(ccbpf: Cli) -> None:
    shown = ccbpf("help", "set", "tcp_lp").out
    assert re.findall("^Parameters of (.*):$", shown, re.M) == ["tcp_lp"]
    assert shown == ccbpf("set", "tcp_lp", "--help").out
    assert re.findall("^Parameters of (.*):$", ccbpf("help", "set").out, re.M) == CONTROLLERS
    words = " ".join(shown.split())
    assert all(text in words for *_, text in PARAMS)  # each word, though the lines are wrapped


def test_list_needs_no_privilege_and_has_every_controller(ccbpf: Cli) -> None:
    listed = ccbpf("-j", "list").json
    assert [c["name"] for c in listed] == CONTROLLERS
    assert all(c["enabled"] is False for c in listed)
    assert [p["name"] for p in listed[0]["params"]] == [row[0] for row in PARAMS]
    assert [p["default"] for p in listed[0]["params"]] == [row[4] for row in PARAMS]
    unprivileged = ccbpf("-j", "list", prefix=("setpriv", "--reuid=65534", "--clear-groups", "--bounding-set=-all"))
    assert [c["enabled"] for c in unprivileged.json] == [None] * len(CONTROLLERS)
    assert max(map(len, ccbpf.with_columns(WIDTH)("list").out.splitlines())) <= WIDTH


def test_version_is_the_makefiles(ccbpf: Cli) -> None:
    version = re.search(r"^VERSION := (\S+)$", (kernel.ROOT / "Makefile").read_text(), re.M)
    assert version
    assert ccbpf("-j", "version").json["version"] == version[1]
    assert version[1] in ccbpf("version").out


USAGE = {
    "no command": ([], "no command"),
    "unknown command": (["enabel"], "did you mean enable?"),
    "command nowhere near": (["foo"], "see `ccbpf --help`"),
    "unknown option": (["status", "--bogus"], "--bogus"),
    "option without its argument": (["enable", "tcp_lp", "--set"], "--set"),
    "no name": (["enable"], "no controller is named"),
    "unknown name": (["enable", "tcp_pl"], "did you mean tcp_lp?"),
    "name nowhere near": (["enable", "westwood"], "`ccbpf list`"),
    "name twice": (["enable", "tcp_lp", "tcp_lp"], "twice"),
    "key twice": (["enable", "tcp_lp", "--set", "delta=100", "--set", "delta=200"], "delta is given twice"),
    "unknown key": (["enable", "tcp_lp", "--set", "gamma=1"], "its keys are delta, smoothing, inference_rtts"),
    "key's beginning": (["set", "tcp_lp", "delt=100"], "no parameter `delt`"),
    "not key=value": (["set", "tcp_lp", "tcp_lp_ecn", "=7"], "not key=value"),
    "not a number": (["set", "tcp_lp", "delta=ten"], "not a whole number"),
    "empty number": (["set", "tcp_lp", "delta="], "not a whole number"),
    "signed number": (["set", "tcp_lp", "delta=-5"], "not a whole number"),
    "spaced number": (["set", "tcp_lp", "delta= 50"], "not a whole number"),
    "fraction": (["set", "tcp_lp", "delta=15.5"], "not a whole number"),
    "below the range": (["enable", "tcp_lp", "--set", "delta=9"], "10 to 900 permille"),
    "above the range": (["reload", "tcp_lp", "--set", "delta=901"], "10 to 900 permille"),
    "beyond 32 bits": (["set", "tcp_lp", "delta=4294967396"], "10 to 900 permille"),
    "beyond 64 bits": (["set", "tcp_lp", "delta=99999999999999999999999"], "10 to 900 permille"),
    "nothing to set": (["set", "tcp_lp"], "no KEY=VALUE"),
    "set nothing": (["set", "delta=100"], "no controller is named"),
    "two defaults": (["enable", "tcp_lp", "tcp_lp_ecn", "--default"], "only one can be the default"),
    "all and a name": (["disable", "tcp_lp", "--all"], "--all takes no names"),
    "argument to none": (["version", "tcp_lp"], "takes no argument"),
    "watch what": (["flows", "--watch", "soon"], "not a number of seconds"),
    "watch never": (["flows", "--watch", "0"], "not a number of seconds"),
    "for ever": (["trace", "--for", "inf"], "not a number of seconds"),
    "help on nothing": (["help", "nothing"], "no such command"),
    "help on an unknown name": (["help", "set", "tcp_pl"], "did you mean tcp_lp?"),
    "help on two names": (["help", "set", "tcp_lp", "le"], "`ccbpf help set le`"),
    "help on no parameters": (["help", "status", "le"], "status takes no parameters"),
}


@pytest.mark.parametrize("arguments, says", USAGE.values(), ids=USAGE.keys())
def test_usage_errors(ccbpf: Cli, arguments: list[str], says: str) -> None:
    plain = ccbpf(*arguments, code=2)
    assert plain.out == ""
    assert re.fullmatch(r"ccbpf: cannot .+: .+; .+\n", plain.err), plain.err
    assert says in plain.err
    error = ccbpf("-j", *arguments, code=2).error
    assert error.keys() == {"what", "on", "why", "remedy", "exit"}
    assert error["exit"] == 2
    assert says in f"{error['why']} {error['remedy']}"
    assert ccbpf("-vj", *arguments, code=2).error == error
    assert not ccbpf.root.exists()


@pytest.mark.parametrize("row", PARAMS, ids=lambda row: row[0])
def test_the_whole_range_of_a_parameter_is_valid_and_no_more(ccbpf: Cli, row: tuple[Any, ...]) -> None:
    name, unit, low, high, *_ = row
    for value in (low, high):  # valid, so that what fails is that nothing is enabled
        assert "not enabled" in ccbpf("set", "tcp_lp", f"{name}={value}", code=5).err
    for value in ([low - 1] if low else []) + [high + 1]:
        assert f"{low} to {high} {unit}" in ccbpf("set", "tcp_lp", f"{name}={value}", code=2).err


@pytest.mark.parametrize("command", ["list", "help", "version", "check"])
def test_a_full_disk_is_a_failure(ccbpf: Cli, command: str) -> None:
    for flags in ([], ["-j"]):
        with open("/dev/full", "w") as full:
            done = subprocess.run(
                [str(CCBPF), *flags, command], stdout=full, stderr=subprocess.PIPE, text=True, env=ccbpf.env(), timeout=20
            )
        assert done.returncode == 1
        assert "No space left" in done.stderr


def test_a_closed_stdout_is_a_failure(ccbpf: Cli) -> None:
    done = subprocess.run(
        ["sh", "-c", 'exec "$0" list >&-', CCBPF], stderr=subprocess.PIPE, text=True, env=ccbpf.env(), timeout=20
    )
    assert done.returncode == 1
    assert "cannot write the output" in done.stderr


def test_a_reader_that_leaves_ends_it_quietly(ccbpf: Cli) -> None:
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run([str(CCBPF), "help"], stdout=write, stderr=subprocess.PIPE, text=True, env=ccbpf.env(), timeout=20)
    os.close(write)
    assert done.returncode == -13  # SIGPIPE
    assert done.stderr == ""


def coloured(ccbpf: Cli, **environment: str) -> bool:
    """Whether `list` on a terminal uses escape sequences."""
    master, slave = pty.openpty()
    env = {k: v for k, v in ccbpf.env().items() if k != "NO_COLOR"} | environment
    subprocess.run([str(CCBPF), "list"], stdout=slave, env=env, timeout=20, check=True)
    os.close(slave)
    shown = os.read(master, 1 << 16).decode()
    os.close(master)
    assert "tcp_lp" in shown
    return "\033[" in shown


def test_colours_only_on_a_terminal_that_wants_them(ccbpf: Cli) -> None:
    assert coloured(ccbpf)
    assert not coloured(ccbpf, NO_COLOR="1")
    assert "\033" not in ccbpf("list").out


def test_check_finds_what_this_kernel_has(ccbpf: Cli) -> None:
    found = ccbpf("-j", "check").json
    rows = {row["name"]: row for row in found["rows"]}
    assert found["ok"]
    assert {
        "kernel",
        "libbpf",
        "capabilities",
        "BTF",
        "struct_ops",
        "struct_ops links",
        "JIT",
        "kernel members",
        "kernel functions",
        "renice",
        "bpffs",
    } <= rows.keys()
    assert os.uname().release in rows["kernel"]["found"]
    asks = Path("/proc/sys/net/ipv4/tcp_ecn").read_text().strip() == "1"
    assert rows["ECN"]["verdict"] == ("ok" if asks else "note")
    of_host = {"ECN", "default at boot", "ECN at boot", "lockdown"}  # as the host's owner has set and mounted them
    assert all(row["verdict"] == "ok" for name, row in rows.items() if name not in of_host), rows
    assert of_host <= rows.keys() and rows["cgroup v2"]["found"].startswith("/")
    shown = ccbpf.with_columns(WIDTH)("check").out.splitlines()
    assert max(map(len, shown)) <= WIDTH and shown[-1] == "ccbpf works on this kernel"
    plain = ccbpf("check", code=4, prefix=("setpriv", "--reuid=65534", "--clear-groups", "--bounding-set=-all")).out
    assert plain.splitlines()[-1] == "this process may not use ccbpf: see the lines `missing`"


def test_check_names_a_missing_feature_with_its_remedy(ccbpf: Cli) -> None:
    lacking = Cli(ccbpf.root, {"CCBPF_NO_LINKS": "1"})
    rows = {row["name"]: row for row in lacking("-j", "check").json["rows"]}
    assert rows["struct_ops links"]["verdict"] == "note"
    assert "6.4" in rows["struct_ops links"]["remedy"]
    elsewhere = Cli(kernel.ROOT / "build")
    rows = {row["name"]: row for row in elsewhere("-j", "check", code=3).json["rows"]}
    assert rows["bpffs"]["verdict"] == "missing"
    assert "mount -t bpf" in rows["bpffs"]["remedy"]
    said = "ccbpf does not work on this kernel: see the lines `missing`"
    assert elsewhere("check", code=3).out.splitlines()[-1] == said


def test_check_names_what_renice_lacks(ccbpf: Cli, tmp_path: Path) -> None:
    """A kernel without the iterator over sockets: its BTF has only what one of the controllers reads."""
    kernel.run(
        "bpftool", "gen", "min_core_btf", "/sys/kernel/btf/vmlinux", tmp_path / "btf", kernel.ROOT / "build/bpf/tcp_lp.bpf.o"
    )
    words = ("unshare", "-m", "sh", "-c", f'mount --bind {tmp_path}/btf /sys/kernel/btf/vmlinux && exec "$@"', "sh")
    (row,) = [row for row in ccbpf.run("-j", "check", prefix=words).json["rows"] if row["name"] == "renice"]
    assert row["verdict"] == "note" and "the iterator over TCP sockets" in row["found"]


def test_json_is_pretty_on_request(ccbpf: Cli) -> None:
    plain, pretty = ccbpf("-j", "list").out, ccbpf("--pretty", "list").out
    assert plain.count("\n") == 1
    assert pretty.count("\n") > 20
    assert json.loads(plain) == json.loads(pretty)


def test_any_byte_in_a_name(ccbpf: Cli) -> None:
    """JSON stays valid, and a terminal gets no control characters."""
    name = os.fsdecode(b"tcp\xff\x1b[2J\xc3\x9f")
    assert ccbpf("-j", "enable", name, code=2).error["on"] == "tcp??[2Jß"
    assert "tcp??[2Jß" in ccbpf("enable", name, code=2).err
