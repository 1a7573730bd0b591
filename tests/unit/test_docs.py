# SPDX-License-Identifier: GPL-2.0-only
"""The documents: what they name exists, and what they say of the parameters is what the headers say. Their figures are checked
by tests/lab/tests/test_results.py.

`python -m tests.unit.test_docs` writes docs/parameters.md anew.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit import headers
from tests.unit.test_tables import CONTROLLERS, EVENTS, FLOW, FLOW_LIFE, FLOW_OWN, FLOW_PARTS, FLOW_WORDS, PARAMS, STATS

ROOT = headers.ROOT
README = ROOT / "README.md"
PARAMETERS = ROOT / "docs/parameters.md"
GLOSSARY = ROOT / "docs/glossary.md"
HANDBOOK = [README, *sorted((ROOT / "docs").glob("*.md"))]
RESULTS = sorted((ROOT / "docs/results").glob("*.md"))
DOCUMENTS = [*HANDBOOK, *RESULTS, ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", ROOT / "tests/sim/README.md",
             ROOT / "tests/lab/experiments/README.md"]  # fmt: skip

README_LINES = 149  # below 150
GLOSSARY_TERMS = 30
PICTURE_BYTES = 120_000

every_document = pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


# --- what is generated -----------------------------------------------------------------------------------------------


def parameters() -> str:
    """docs/parameters.md: what the tables of include/ccbpf say to a user."""
    lines = [
        "# Parameters, events, counters and flow records",
        "",
        "Generated from the tables of `include/ccbpf` by `python -m tests.unit.test_docs`; a test compares. `ccbpf help set` prints the",
        "parameters. Set one by `ccbpf enable NAME --set KEY=VALUE`, or by `ccbpf set NAME KEY=VALUE` while the controller is enabled: live",
        "flows take the new value at their next ACK. *ours* marks a decision of this project, where the paper says nothing or cannot be",
        "followed; other sources are sections and equations of the controller's paper. [Flow records](#flow-records) are at the end.",
    ]
    for controller, rows in PARAMS.items():
        lines += [
            "",
            f"## {controller}",
            "",
            "| parameter | unit | range | default | source | what |",
            "| --- | --- | --- | --- | --- | --- |",
        ]
        lines += [
            f"| `{name}` | {unit} | {least} … {most} | {default} | {source.replace('ours', '*ours*')} | {text} |"
            for name, unit, least, most, default, source, text in rows
        ]
    lines += [
        "",
        "## Events",
        "",
        "What `ccbpf trace` prints; a and b are the event's two numbers. Of a download (`rx_le`) cwnd is the window that is advertised, ssthresh the",
        "window to which it returns, and `loss` has the window before and after, all in packets.",
        "",
        "| event | what |",
        "| --- | --- |",
    ]
    lines += [f"| `{word}` | {text} |" for _, _, word, text in EVENTS]
    lines += ["", "## Counters", "", "What `ccbpf status` shows of each controller.", "", "| counter | what |", "| --- | --- |"]
    lines += [f"| `{name}` | {text} |" for name, text in STATS]
    return "\n".join([*lines, *flow_records()]) + "\n"


def flow_fields(rows: list[tuple[str, str, str, str]]) -> list[str]:
    return [
        "",
        "| field | unit | what |",
        "| --- | --- | --- |",
        *(f"| `{name}` | {unit} | {text} |" for name, _, unit, text in rows),
    ]


def flow_records() -> list[str]:
    """The fields of the map `flows`, which `ccbpf -j flows` prints."""
    lines = [
        "",
        "## Flow records",
        "",
        "What `ccbpf -j flows` prints of each flow, and what the map `flows` holds. `key` is the flow's key in that map: a number, unique",
        "among live flows. Times are those of CLOCK_MONOTONIC.",
        *flow_fields(FLOW + FLOW_LIFE),
    ]
    for part, (_, rows, text) in FLOW_PARTS.items():
        owners = ", ".join(f"`{controller}`" for controller, of in FLOW_OWN if of == part)
        lines += ["", f"### {part}", "", f"The object `{part}` in records of {owners}: {text}.", *flow_fields(rows)]
    lines += [
        "",
        "### Words",
        "",
        "The map has the number, JSON the word.",
        "",
        "| field | number | word | what |",
        "| --- | --- | --- | --- |",
    ]
    fields = {form: name for rows in (FLOW, *(rows for _, rows, _ in FLOW_PARTS.values())) for name, form, *_ in rows}
    lines += [
        f"| `{fields[form]}` | {number} | `{word}` | {text} |"
        for form, rows in FLOW_WORDS.items() for number, _, word, text in rows
    ]  # fmt: skip
    return lines


def test_the_parameters_are_those_of_the_headers() -> None:
    assert PARAMETERS.read_text() == parameters(), ".cache/venv/bin/python -m tests.unit.test_docs writes it anew"


# --- sizes -----------------------------------------------------------------------------------------------------------


def test_the_readme_is_short() -> None:
    assert len(README.read_text().splitlines()) <= README_LINES


@pytest.mark.parametrize("name", ["demo.png", "dashboard.png"])
def test_a_picture_is_light(name: str) -> None:
    picture = (ROOT / "docs" / name).read_bytes()
    assert picture.startswith(b"\x89PNG") and len(picture) < PICTURE_BYTES


def test_the_picture_of_top_is_of_this_top() -> None:
    """Its titles are those of the columns that a screen of 80 has for flows of several controllers."""
    picture = (ROOT / "docs/top.svg").read_text()
    assert len(picture) < PICTURE_BYTES / 4
    columns = re.findall(r'^\t\{ "(.+?)", +\d+, +\S+, +(\w+),', (ROOT / "loader/top/columns.c").read_text(), re.M)
    titles = " ".join(title for title, from_ in columns if from_.isdigit() and int(from_) <= 80)
    words = [" ".join(text.split()) for text in re.findall(r">([^<>]+)</text>", picture)]
    assert titles in words and words[1].startswith("grouped by cgroup and process, sorted by rate")


def test_the_glossary_is_short_and_in_order() -> None:
    terms = [cells(line)[0] for line in GLOSSARY.read_text().splitlines() if line.startswith("| ")][2:]
    assert len(set(terms)) == len(terms) <= GLOSSARY_TERMS
    assert terms == sorted(terms, key=str.lower)


# --- what is named exists --------------------------------------------------------------------------------------------

LINK = re.compile(r"\]\(([^)\s]+)\)")


def anchors(document: Path) -> set[str]:
    """The anchors of the headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", document.read_text(), re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def broken_links(document: Path) -> Iterator[str]:
    for link in LINK.findall(document.read_text()):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (document.parent / path).resolve() if path else document
        if not target.exists() or (anchor and anchor not in anchors(target)):
            yield link


@every_document
def test_every_link_resolves(document: Path) -> None:
    assert list(broken_links(document)) == []


def code(document: Path) -> list[str]:
    """Text in backticks, in fences, or indented by four; a span may continue on the next line."""
    text = document.read_text()
    fences = re.findall(r"^```[^\n]*\n(.*?)^```", text, re.M | re.S)
    text = re.sub(r"^```.*?^```", "", text, flags=re.M | re.S)
    indented = re.findall(r"^(?: {4}|\t)(.*)$", text, re.M)
    spans = [span.replace("\n", " ") for span in re.findall(r"`([^`]+)`", text)]
    return [re.sub(r"  +", " ", line) for line in (*spans, *indented, *"\n".join(fences).splitlines())]


def targets() -> set[str]:
    return set(re.findall(r"^([a-z][a-z-]*):(?!=)", (ROOT / "Makefile").read_text(), re.M))


def commands() -> set[str]:
    found = list((ROOT / "loader").rglob("commands.h"))
    assert len(found) == 1
    table = found[0].read_text().split("#define CCBPF_COMMANDS(X)", 1)[1].split("\n\n", 1)[0]
    return set(re.findall(r"X\((\w+)\)", table))


PATH = re.compile(r"(?:bpf|include|loader|tests|docs|packaging|law|kern|ccbpf)/[\w./-]+\.(?:h|c|py|md|toml|json|sh)")


@every_document
def test_every_file_exists(document: Path) -> None:
    """Names with `my` are those of a future controller, command or law."""
    named = {span for span in re.findall(r"`([^`\n]+)`", document.read_text()) if PATH.fullmatch(span) and "my" not in span}
    assert [path for path in sorted(named) if not (ROOT / path).exists() and not (ROOT / "include" / path).exists()] == []


NAMED_TEST = re.compile(r"`(tests/[\w/]+\.py)::(test_\w+)`")


@every_document
def test_every_named_test_exists(document: Path) -> None:
    named = NAMED_TEST.findall(document.read_text())
    assert [(file, test) for file, test in named if f"\ndef {test}(" not in (ROOT / file).read_text()] == []


@every_document
def test_every_make_target_exists(document: Path) -> None:
    named = {target for line in code(document) for target in re.findall(r"\bmake (?:-\S+ )*([a-z][a-z-]*)", line)}
    assert named - targets() == set()


@every_document
def test_every_command_exists(document: Path) -> None:
    named = {
        word for line in code(document) for word in re.findall(r"^(?:sudo )?(?:build/)?ccbpf (?:-\S+ )*(?:help )?([a-z]+)", line)
    }
    assert named - commands() == set()


def test_targets_commands_and_tests_are_found() -> None:
    """The patterns above find them."""
    assert {"help", "demo", "test-hard", "sim-report"} <= targets()
    assert {"enable", "aqm", "help"} <= commands()
    text = "\n".join("\n".join(code(document)) for document in HANDBOOK)
    assert len(set(re.findall(r"\bmake ([a-z-]+)", text)) & targets()) >= 10
    assert len(set(re.findall(r"\bccbpf ([a-z]+)", text)) & commands()) >= 10
    assert len(NAMED_TEST.findall((ROOT / "docs/before-and-after.md").read_text())) >= 30


def test_every_controller_is_described() -> None:
    text = (ROOT / "docs/which-controller.md").read_text()
    assert [name for _, name, *_ in CONTROLLERS if f"\n| `{name}` |" not in text] == [], "no row in docs/which-controller.md"


if __name__ == "__main__":
    PARAMETERS.write_text(parameters())
