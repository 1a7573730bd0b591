# SPDX-License-Identifier: GPL-2.0-only
"""The completions: that of bash, asked as bash asks it. Those of zsh and fish are tried in tests/hard, with these shells."""

from __future__ import annotations

import subprocess

import pytest

from tests.packaging import BUILD, ROOT, ask

SCRIPT = BUILD / "completions/ccbpf.bash"
ASK = """
source "$1"
COMP_LINE=$2 COMP_POINT=${#2} COMP_WORDBREAKS=$3
_ccbpf
printf '%s\\n' "${COMPREPLY[@]}"
"""


def complete(line: str, breaks: str = " \t\n\"'><;|&(") -> set[str]:
    answer = subprocess.run(
        ["bash", "--norc", "-c", ASK, "bash", SCRIPT, line, breaks], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert answer.stderr == ""
    return set(answer.stdout.split())


def test_commands() -> None:
    commands = {command["name"] for command in ask("help")["commands"]}
    assert complete("ccbpf ") == complete("ccbpf -j ") == commands
    assert complete("ccbpf help ") == commands | {controller["name"] for controller in ask("list")}
    assert complete("ccbpf re") == {command for command in commands if command.startswith("re")}


def test_controllers() -> None:
    controllers = {controller["name"] for controller in ask("list")}
    assert complete("ccbpf enable ") == complete("ccbpf enable tcp_lp ") == complete("ccbpf renice --from ") == controllers


def test_every_option_of_every_command() -> None:
    described = ask("help")
    of_all = {form for option in described["options"] for form in (option["name"], option["short"]) if form}
    assert complete("ccbpf -") == of_all
    for command in described["commands"]:
        own = {form for option in command["options"] for form in (option["name"], option["short"]) if form}
        assert complete(f"ccbpf {command['name']} -") == own | of_all


CASES = {
    "a second one": ("ccbpf enable tcp_lp hs", {"hstcp_lp"}),
    "an option's controller": ("ccbpf renice --from hs", {"hstcp_lp"}),
    "behind =": ("ccbpf renice --from=hs", {"--from=hstcp_lp"}),
    "parameters": ("ccbpf set tcp_lp delt", {"delta="}),
    "parameters behind =": ("ccbpf enable tcp_lp --set=delt", {"--set=delta="}),
    "verbs": ("ccbpf aqm a", {"attach"}),
    "devices": ("ccbpf aqm attach l", {"lo"}),
    "a word among others": ("ccbpf aqm set lo --std ", {"off"}),
    "users": ("ccbpf run --uid roo", {"root"}),
    "files of an option": ("ccbpf metrics --output Makef", {"Makefile"}),
    "nothing is known": ("ccbpf flows --watch ", set()),
    "no command": ("ccbpf bogus ", set()),
    "netnice is run": ("netnice --dscp ", {"le"}),
    "by its path": ("/usr/sbin/netnice --dscp ", {"le"}),
    "a file for the command to run": ("ccbpf run tcp_lp cat Makef", {"Makefile"}),
    "whatever that is called": ("netnice enable Makef", {"Makefile"}),
    "its options are its own": ("netnice cat --", set()),
}


@pytest.mark.parametrize("line, offered", CASES.values(), ids=CASES.keys())
def test_what_is_offered(line: str, offered: set[str]) -> None:
    assert complete(line) == offered


@pytest.mark.parametrize(
    "begin", ["ccbpf run ", "ccbpf run tcp_lp ", "ccbpf run --dscp le -- ", "netnice -q ", "netnice --uid root "]
)
def test_the_command_to_run(begin: str) -> None:
    assert complete(f"{begin}bas") >= {"bash", "basename"}


def test_the_controller_before_it() -> None:
    assert complete("netnice nf_") == complete("ccbpf run nf_") == {"nf_tcp"}


def test_what_stands_behind_a_break_of_bash() -> None:
    """bash replaces only that."""
    assert complete("ccbpf enable tcp_lp --set=delt", "=: ") == {"delta="}
    assert complete("ccbpf renice --from=hs", "=: ") == {"hstcp_lp"}
