# SPDX-License-Identifier: GPL-2.0-only
"""The manual pages: mandoc finds nothing to say, they have all that the tables have, and `make install` puts them in place."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tests.packaging import BUILD, ROOT, ask, run

PAGES = sorted((BUILD / "man").iterdir())
COMMANDS = re.findall(r"^\s+X\((\w+)\)", (ROOT / "loader/commands.h").read_text(), re.M)


def plain(page: str) -> str:
    """As a reader sees it, in one line. Bold is c, backspace, c; underlined is _, backspace, c."""
    return re.sub(r".\x08", "", " ".join(run("mandoc", "-T", "ascii", "-O", "width=100", BUILD / "man" / page).split()))


def test_mandoc_finds_nothing() -> None:
    """Except that pages which are not installed here are referenced; these are in the same directory."""
    lint = subprocess.run(["mandoc", "-T", "lint", *PAGES], capture_output=True, text=True).stdout.splitlines()
    found = [(line, re.search(r"referenced manual not found: Xr (\S+) (\d)", line)) for line in lint]
    assert [line for line, xr in found if not (xr and BUILD / "man" / f"{xr[1]}.{xr[2]}" in PAGES)] == []
    assert len(found) > len(COMMANDS), "mandoc did look"


def test_every_command_has_a_page_and_no_other() -> None:
    assert {page.name for page in PAGES} == {"ccbpf.8", "ccbpf.toml.5", "ccbpf-controllers.7"} | {
        f"ccbpf-{command}.8" for command in COMMANDS
    }


@pytest.mark.parametrize("command", COMMANDS)
def test_a_page_has_what_the_tables_have(command: str) -> None:
    described = ask("help", command)["commands"][0]
    page = plain(f"ccbpf-{command}.8")
    verbs = re.findall(r"\b[a-z]+\b", described["arguments"])
    for option in described["options"]:
        argument = f"={option['argument']}" if option["argument"] else ""
        short = f"{option['short']}, " if option["short"] else ""
        text = option["text"].replace("`", "")
        as_entered = option["text"].startswith("`") or text.partition(": ")[0] in verbs
        begin = text[0] if as_entered else text[0].upper()
        assert f"{short}{option['name']}{argument} {begin}{text[1:]}" in page
    assert f"ccbpf {command}" in page
    assert (described["more"] or "").replace("`", "") in page
    overview = plain("ccbpf.8")
    assert f" {command} {described['text'].replace('`', '')}. See ccbpf-{command}(8)." in overview


def test_keys_columns_and_metrics() -> None:
    """Those of the screen of `ccbpf top`, and each metric, of which the second of a row may be short (…_total)."""
    top, metrics = plain("ccbpf-top.8"), plain("ccbpf-metrics.8")
    for words in ("g group by cgroup", "Enter a flow in detail", "q quit", "DELAY queueing delay", "PART part of the time"):
        assert words in top
    names = re.findall(r"^\| (`ccbpf_.*?) \| ", (ROOT / "docs/monitoring.md").read_text(), re.M)
    assert len(names) > 20
    for name in re.findall(r"`(\S+)`", " ".join(names)):
        assert name.replace("…", "...") in metrics


@pytest.mark.parametrize(
    ("command", "text"),
    [
        ("top", "--sort=BY rate, yielded"),
        ("top", "--group=BY tree (cgroup"),
        ("metrics", "--format=FORMAT prometheus (text"),
        ("assign", "--all remove: all rules"),
        ("gateway", "--all detach: from all devices"),
    ],
)
def test_what_is_entered_has_no_capital_letter(command: str, text: str) -> None:
    assert text in plain(f"ccbpf-{command}.8")


def test_the_overview_has_options_and_exit_codes() -> None:
    page = plain("ccbpf.8")
    assert all(f"{option['name']} {option['text'][0].upper()}{option['text'][1:]}." in page for option in ask("help")["options"])
    assert all(f" {row['code']} {row['text'][0].upper()}{row['text'][1:]}." in page for row in ask("help")["exit_codes"])


def test_every_controller_has_its_parameters() -> None:
    page = plain("ccbpf-controllers.7")
    for controller in ask("list"):
        section = page.split(f" {controller['name']} {controller['title'][0].upper()}", 1)[1]
        for p in controller["params"]:
            row = f" {p['name']} {p['min']} to {p['max']} {p['unit']}, by default {p['default']} ({p['source']}). "
            assert f"{row}{p['text'][0].upper()}{p['text'][1:].replace('`', '')}" in section


def test_the_file_has_the_keys_that_are_read() -> None:
    page = plain("ccbpf.toml.5")
    keys = set(re.findall(r'\{ "([a-z-]+)", NODE_', (ROOT / "loader/config/config.c").read_text()))
    assert keys >= {"cgroup", "remote-port", "download", "ecn"}
    assert not [key for key in keys - {"set", "rule"} if not re.search(rf" {key} = |\[{key}\.NAME\]", page)]
    assert set(re.findall(r" ([a-z-]+) = (?:true|NUMBER|“NAME”)", page)) <= keys | {"set.KEY"}
    assert "(the default; with download = true: both)" in page and "--download" not in page
    assert "[[rule]]" in page and "set.KEY = NUMBER" in page


def test_prose_is_of_pages_that_exist() -> None:
    assert {f.stem for f in (ROOT / "packaging/man").iterdir()} <= {page.stem for page in PAGES}


def test_install_and_uninstall(tmp_path: Path) -> None:
    run("make", "-s", "install", f"DESTDIR={tmp_path}", "PREFIX=/usr")
    man = tmp_path / "usr/share/man"
    assert {file.name for file in man.glob("*/*")} == {page.name for page in PAGES} | {"netnice.8"}
    assert "netnice" in (man / "man8/netnice.8").read_text()
    assert all(link.exists() for link in tmp_path.rglob("*") if link.is_symlink())
    assert "ExecStart=/usr/sbin/ccbpf apply\n" in (tmp_path / "usr/lib/systemd/system/ccbpf.service").read_text()
    run("make", "-s", "uninstall", f"DESTDIR={tmp_path}", "PREFIX=/usr")
    assert [path for path in tmp_path.rglob("*") if not path.is_dir() and path.name != "ccbpf.toml"] == []
