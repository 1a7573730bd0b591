# SPDX-License-Identifier: GPL-2.0-only
"""The README's tables are those of the headers. `python -m tests.unit.test_readme` writes them anew."""
import re

from tests.unit import headers
from tests.unit.test_tables import CONTROLLERS, PARAMS

README = headers.ROOT / "README.md"
SECTION = re.compile(r"(<!-- parameters -->\n).*?(<!-- /parameters -->)", re.S)


def parameters() -> str:
    """The table of parameters, in Markdown: each once, with the controllers that have it."""
    rows = ["| parameter | of | unit | range | default | source | what |", "| --- | --- | --- | --- | --- | --- | --- |"]
    of: dict[tuple, list[str]] = {}
    for controller, table in PARAMS.items():
        for row in table:
            of.setdefault(row, []).append(f"`{controller}`")
    for (name, unit, least, most, default, source, text), names in of.items():
        whose = "all" if len(names) == len(PARAMS) else ", ".join(names)
        rows.append(f"| `{name}` | {whose} | {unit} | {least} … {most} | {default} | {source.replace('ours', '*ours*')} | {text} |")
    return "\n".join(rows) + "\n"


def test_every_parameter_is_in_the_readme():
    assert SECTION.search(README.read_text()).group(0).splitlines()[1:-1] == parameters().splitlines()


def test_every_controller_has_a_row_in_the_readme():
    text = README.read_text()
    assert [name for _, name, *_ in CONTROLLERS if f"\n| `{name}` |" not in text] == []


if __name__ == "__main__":
    README.write_text(SECTION.sub(lambda m: m[1] + parameters() + m[2], README.read_text()))
