# SPDX-License-Identifier: GPL-2.0-only
"""The README's tables are those of the headers. `python -m tests.unit.test_readme` writes them anew."""
import re

from tests.unit import headers
from tests.unit.test_tables import CONTROLLERS, PARAMS

README = headers.ROOT / "README.md"
SECTION = re.compile(r"(<!-- parameters -->\n).*?(<!-- /parameters -->)", re.S)


def tables() -> dict[tuple, list[str]]:
    """The controllers of each table of parameters: some share one."""
    found: dict[tuple, list[str]] = {}
    for name, rows in PARAMS.items():
        found.setdefault(tuple(rows), []).append(f"`{name}`")
    return found


def parameters() -> str:
    """The tables of parameters, in Markdown."""
    parts = []
    for table, names in tables().items():
        rows = [f"{', '.join(names)}:", "",
                "| parameter | unit | range | default | source | what |", "| --- | --- | --- | --- | --- | --- |"]
        for name, unit, least, most, default, source, text in table:
            rows.append(f"| `{name}` | {unit} | {least} … {most} | {default} | {source.replace('ours', '*ours*')} | {text} |")
        parts.append("\n".join(rows) + "\n")
    return "\n".join(parts)


def test_every_parameter_is_in_the_readme():
    assert SECTION.search(README.read_text()).group(0).splitlines()[1:-1] == parameters().splitlines()


def test_every_controller_has_a_row_in_the_readme():
    text = README.read_text()
    assert [name for _, name, *_ in CONTROLLERS if f"\n| `{name}` |" not in text] == []


if __name__ == "__main__":
    README.write_text(SECTION.sub(lambda m: m[1] + parameters() + m[2], README.read_text()))
