# SPDX-License-Identifier: GPL-2.0-only
"""`ccbpf apply`: what the file says is in force, again and again; what was made by hand stays; an error leaves all as it was.

Kills are in tests/hard/test_kill.py, and random files in tests/fuzz/config.cc.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.functional import kernel
from tests.functional.conftest import Cli, Result
from tests.functional.rules.background import BACKGROUND, Sinks

SYSCTLS = ("net.ipv4.tcp_congestion_control", "net.ipv4.tcp_ecn")
LINK_UPDATE = 29  # enum bpf_cmd
NOBODYS = "198.51.100.0/24"  # a rule for 10.0.0.0/8 would reach the connections of the lab, in another worker
FIRST = """
[controller.tcp_lp]
set.delta = 100
default = true

[controller.tcp_lp_ecn]
ecn = true

[[rule]]
cgroup = "unit:backup.service"
controller = "tcp_lp"
dscp = "le"

[[rule]]  # of no controller: le
remote-port = {port}
"""
SECOND = """
[[rule]]
not = true
remote = "192.0.2.7"

[[rule]]
cgroup = "unit:backup.service"
controller = "tcp_lp"
force = true
"""


@dataclass
class Host:
    """The command in a network namespace of its own, whose default is reno, and a file."""

    cli: Cli
    file: Path
    prefix: tuple[str, ...]

    def __call__(self, *words: object, code: int = 0, cli: Cli | None = None) -> Result:
        result = (cli or self.cli).run(*words, prefix=self.prefix)
        assert result.code == code, (words, result)
        return result

    def write(self, text: str) -> None:
        self.file.write_text(text)
        self.file.chmod(0o644)

    def apply(self, text: str, *words: str) -> list[str]:
        """What changed, as "kind name"."""
        self.write(text)
        changes = self("-j", "apply", self.file, *words).json["changes"]
        return [f"{change['kind']} {change['name']}" for change in changes]

    def refused(self, text: str, code: int) -> dict[str, Any]:
        self.write(text)
        return self("-j", "apply", self.file, code=code).error

    def rules(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self("-j", "assign", "list").json["rules"]
        return found

    def state(self) -> tuple[dict[str, Any], list[dict[str, Any]], list[str]]:
        """All state that the command can change. What rules count goes on: connections of others on this host count, too."""
        status = self("-j", "status").json
        sysctls = kernel.run(*self.prefix, "sysctl", "-n", *SYSCTLS).stdout.split()
        rules = [{name: value for name, value in rule.items() if name != "counts"} for rule in status["rules"]]
        return {c["name"]: c["params"] for c in status["controllers"]}, rules, sysctls


@pytest.fixture
def host(ccbpf: Cli, tmp_path: Path) -> Iterator[Host]:
    with kernel.Namespace("apply") as namespace:
        namespace.sysctl("net.ipv4.tcp_congestion_control=reno", "net.ipv4.tcp_ecn=2")
        yield Host(ccbpf, tmp_path / "ccbpf.toml", ("ip", "netns", "exec", namespace.name))
        ccbpf.run("clean", "--all", prefix=("ip", "netns", "exec", namespace.name))


def test_the_file_is_in_force_and_what_it_drops_goes(host: Host, sinks: Sinks) -> None:
    first = FIRST.format(port=sinks.port)
    shown = host.apply(first, "--dry-run")
    assert not host.cli.root.exists()  # it was only shown
    assert shown == [
        *(
            "controller tcp_lp",
            "controller tcp_lp_ecn",
            f"controller {BACKGROUND}",
            f"default {SYSCTLS[0]}",
            f"ecn {SYSCTLS[1]}",
            "rule 1",
            "rule 2",
        )
    ]
    assert host.apply(first) == shown
    params, rules, sysctls = host.state()
    assert (params["tcp_lp"]["delta"], {*params}, sysctls) == (100, {"tcp_lp", "tcp_lp_ecn", BACKGROUND}, ["tcp_lp", "1"])
    assert [(r["cgroup"], r["remote-port"], r["dscp"], r["file"]) for r in rules] == [
        *(("unit:backup.service", None, 1, True), (None, str(sinks.port), None, True))
    ]
    assert kernel.run(*sinks.client("4", 10)).stdout.split()[0] == BACKGROUND  # from the host's own namespace: by the rule
    kept = host.state()
    assert "nothing to change" in host("apply", host.file).out
    assert host.state() == kept

    by_hand = [rule["id"] for rule in [host("-j", "assign", "tcp_lp", "--remote", NOBODYS).json["rule"]]]
    host("set", "tcp_lp", "delta=77")
    assert "parameter tcp_lp.delta" in host.apply(first)  # of what is in the file, the file decides
    host.apply(SECOND)
    params, rules, sysctls = host.state()
    assert (params["tcp_lp"]["delta"], {*params}, sysctls) == (150, {"tcp_lp"}, ["reno", "2"])
    assert [(r["controller"], r["force"], r["file"]) for r in rules] == [
        *((None, False, True), ("tcp_lp", False, False), ("tcp_lp", True, True))
    ]
    host.write("")
    left = host("apply", host.file)
    assert f"rule {by_hand[0]} gives it" in left.err
    assert [rule["id"] for rule in host.rules()] == by_hand
    assert host("-j", "status").json["controllers"][0]["name"] == "tcp_lp"
    assert not any("applied" in name for name in host.cli.names())


def test_the_place_in_the_file_decides_between_equals(host: Host) -> None:
    """Of two matching rules with equally many conditions, the first in the file wins, whichever was there before. A rule made by
    hand that is also in the file becomes the file's."""
    a, b = "[[rule]]\nlocal-port = 1\n", '[[rule]]\nremote-port = "2-3"\n'
    host("assign", "--remote-port", "2-3")
    assert host.apply(b) == ["rule 1"]
    assert [rule["file"] for rule in host.rules()] == [True]
    assert host.apply(b + a) == ["rule 2"]
    assert host.apply(a + b) == ["rules order"]
    assert [rule["id"] for rule in host.rules()] == [2, 1]
    assert host.apply(a + b) == []
    host("assign", "remove", "2")
    assert host.apply(a + b) == ["rule 3"]  # made anew
    host("clean", "--all")
    assert not host.cli.root.exists()


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ("[kontroller.tcp_lp]", 1, "did you mean controller?"),
        ("[controller.tcp_lq]", 1, "did you mean tcp_lp?"),
        ("[controller]\ntcp_lp = true", 2, "write [controller.NAME] above"),
        ("[controller.tcp_lp]\nset.dleta = 1", 2, "did you mean delta?"),
        ("[controller.tcp_lp]\nset.delta = 0", 2, "delta takes"),
        ("[controller.tcp_lp]\nset.delta = 50.5", 2, "it must be a whole number; delta takes 10 to 900 permille, by default 150"),
        ("[controller.tcp_lp]\nset.delta = true", 2, "it must be a whole number; delta takes"),
        ("[controller.tcp_lp]\nset.dleta = 50.5", 2, "did you mean delta?"),
        ("[controller.tcp_lp]\nset = 5", 2, "must be a table"),
        ("[controller.tcp_lp]\ndefault = 1", 2, "must be true or false"),
        ("[controller.tcp_lp]\necn = true", 2, "marks are not the signal"),
        ("[controller.tcp_lp]\ndefault = true\n[controller.tcpw_lp]\n\ndefault = true", 5, "line 2 makes another"),
        ("[rule]\nremote = '::1'", 1, "write [[rule]] above each"),
        ("rule = [1]", 1, "must be a table"),
        ("[[rule]]\ndscp = 'le'", 1, "it has no condition"),
        ("[[rule]]\nremote = '::1'\ndscp = 'ef'", 3, "lower effort"),
        ("[[rule]]\nremote = '::1'\nnot = true\nforce = true", 1, "no controller, force or dscp"),
        ("[[rule]]\nremote = '10.0.0.0/33'", 2, "give /0 to /32"),
        ("[[rule]]\nlocal-port = 70000", 2, "from 1 to 65535"),
        ("[[rule]]\nremote-prot = 1", 2, "did you mean remote-port?"),
        ("[[rule]]\nremote = '::1'\ncontroller = 'cubic'", 3, "no controller has this name"),
        ("[[rule]]\nlocal-port = 5\n[[rule]]\nlocal-port = '5-5'", 3, "the rule of line 1 has these conditions"),
        ("a = 1\na = 2", 2, "redefine"),
        ("x = 'é'", 1, "not ASCII"),
        ('\n\nx = """\n#"""\ufeff', 3, "several lines"),
        ('x = "\\u0000"', 1, "\\u0000"),
        (f"\nx{'.x' * 200} = 1", 2, "too many dots"),
        ("x = " + "[" * 100_000, 1, "nested value depth"),
        ('\nx = "abc\ny = 1', 2, "(is a closing quote missing?)"),
        ("\nx = 'abc", 2, "(is a closing quote missing?)"),
        # On these the assertions of toml++ 3.3.0 fail.
        ("\n\n[}", 3, "syntax error"),
        ("\n[#", 2, "syntax error"),
        ("x = [0,}\n\n", 1, "syntax error"),
        ("x = [1, 2, 1958-05-28T.07:32:00Z]", 1, "syntax error"),
        ("\n\nx =0978-05-2= 5\n", 3, "syntax error"),
    ],
    ids=lambda value: ascii(value)[:30],
)
def test_what_is_wrong(ccbpf: Cli, tmp_path: Path, text: str, line: int, said: str) -> None:
    here = Host(ccbpf, tmp_path / "ccbpf.toml", ())
    error = here.refused(text, 2)
    assert (error["file"], error.get("line")) == (str(here.file), line), error
    assert said in f"{error['why']}; {error['remedy']}", error
    assert not ccbpf.root.exists()


def test_the_example(host: Host) -> None:
    """The example changes nothing as it is, and every line of it is understood."""
    text = (kernel.ROOT / "packaging/ccbpf.toml").read_text()
    assert host.apply(text, "--dry-run") == []
    active = re.sub(r"^# (?=\[|[a-z.-]+ = )", "", text, flags=re.M)
    assert active.count("\n[[rule]]") == 4
    assert len(host.apply(active, "--dry-run")) == 3 + 2 + 4  # controllers, sysctls, rules


def test_what_this_host_lacks(host: Host) -> None:
    for key, value in (("cgroup", "/no/such"), ("cgroup", "container:0123456789abcdef"), ("netns", "no-such")):
        error = host.refused(f'[[rule]]\nremote = "::1"\n{key} = "{value}"', 1)
        assert error["line"] == 3 and error["remedy"], error
    assert f"{host.file}:3: cannot apply --netns no-such: " in host("apply", host.file, code=1).err


def test_whose_file(host: Host) -> None:
    def refused(said: str) -> None:
        assert said in host("apply", host.file, code=1).err

    refused("there is no such file; write it, or name another one: packaging/ccbpf.toml")
    assert "Not a directory; name another file" in host("apply", "/etc/passwd/x", code=1).err
    host.write("#" * ((1 << 20) + 1))
    refused("1048577 bytes")
    host.write("")
    none = host.file.with_name("none")
    said = host("apply", "--pods", none, host.file, code=1).err
    assert said == f"ccbpf: {none}: cannot apply the list of pods: No such file or directory; name another file\n"
    for mode in (0o664, 0o646):
        host.file.chmod(mode)
        refused("others than root may write it")
    host.file.chmod(0o644)
    os.chown(host.file, 65534, 0)
    refused("others than root may write it")
    host.file.unlink()
    os.mkfifo(host.file)
    refused("not a regular file")
    assert "only one file" in host("apply", "a", "b", code=2).err


def test_an_error_leaves_all_as_it_was(host: Host, refuse: Path) -> None:
    host.apply(FIRST.format(port=7))
    host("assign", "tcpw_lp", "--remote", NOBODYS)
    before, pins = host.state(), host.cli.names()
    changed = '[controller.hstcp_lp]\ndefault = true\n[controller.tcp_lp]\nset.delta = 50\n[[rule]]\nremote = "{}"\n'

    error = host.refused(changed.format(NOBODYS), 1)  # gives tcp_lp, the one by hand tcpw_lp
    assert (error["line"], error["remedy"].split(", ")[0]) == (5, "`ccbpf assign remove 3`")
    assert (host.state(), host.cli.names()) == (before, pins)

    with kernel.registered_by_bpftool(kernel.ROOT / "build/bpf/hstcp_lp.bpf.o"):
        error = host.refused(changed.format("::1"), 1)
        assert "already has a controller of this name" in error["why"] and error["line"] == 1
        error = host.refused('[[rule]]\nnot = true\nremote = "::1"\n[[rule]]\ncontroller = "hstcp_lp"\nlocal-port = 9\n', 1)
        assert "already has a controller of this name" in error["why"] and error["line"] == 4, "of the rule that gives it"
    assert (host.state(), host.cli.names()) == (before, pins)

    refusing = Cli(host.cli.root, {"LD_PRELOAD": str(refuse), "REFUSE": str(LINK_UPDATE), "REFUSE_WITH": "12"}, host.cli.command)
    host.write(changed.format("::1"))
    said = host("apply", host.file, code=1, cli=refusing).err  # the rules, which are the last step
    assert "nothing of the file is in force that was not before" in said
    assert (host.state(), host.cli.names()) == (before, pins)
    host("apply", host.file)
    assert host.state() != before
