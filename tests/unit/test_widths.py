# SPDX-License-Identifier: GPL-2.0-only
"""law_min(), law_max() and law_clamp() take 32 bits. A time in us does not fit them once the host is up for 71 minutes: what is
64 bits wide and may be larger is compared by itself.

The compiler names each argument that it would shorten. Two kinds are right: a value of law_forget(), which the law's text has to
bound, and one that the same expression has bounded (`x > MOST ? MOST : law_max(x, 1)`). Other values that are shortened, as in
`u32 x = …`, are not looked at.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tests.unit import headers

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = sorted((ROOT / "bpf").glob("*.bpf.c"))
OPTIONS = "-target bpf -mcpu=v3 -O2 -std=gnu11 -fsyntax-only -Iinclude -I. -Wshorten-64-to-32".split()
RANGES = [
    "-fno-caret-diagnostics",
    "-fdiagnostics-print-source-range-info",
]  # FILE:LINE:COLUMN:{of the argument}{of the function}
RANGE = r"\{(\d+):(\d+)-(\d+):(\d+)\}"
SHORTENED = re.compile(rf"^([^:\n]+):\d+:\d+:{RANGE}{RANGE}: warning: .*\[-Wshorten-64-to-32\]$", re.M)
BOUNDED_CALL = re.compile(r"(\w+) > [^?;]+\? [^:;]+: law_m(?:in|ax)\(\1,")

CUT = """#include "law/fixed.h"
u32 cut(u64 now_us, u64 due_us, u32 small)
{
u64 later_us = law_max(due_us, small);
later_us += law_clamp(small, 1, now_us +
small);
later_us += law_min(law_forget(small), 1);
return later_us > 9 ? 9 : law_max(later_us, 1);
}
"""


def text_of(lines: list[str], place: tuple[str, ...]) -> str:
    """The source between two places, each a line and a column that count from 1."""
    first, begin, last, end = map(int, place)
    text = lines[first - 1 : last]
    text[-1] = text[-1][: end - 1]
    text[0] = text[0][begin - 1 :]
    return " ".join(line.strip() for line in text)


def wrongly_shortened(source: Path) -> set[str]:
    """`FILE:LINE: FUNCTION(ARGUMENT)` for each argument of the three that may lose bits."""
    command = [headers.CLANG, *OPTIONS, *RANGES, str(source)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = set()
    for file, *places in SHORTENED.findall(done.stderr):
        lines = (ROOT / file).read_text().splitlines()
        argument, function = text_of(lines, tuple(places[:4])), text_of(lines, tuple(places[4:]))
        if function not in ("law_min", "law_max", "law_clamp") or argument.startswith("law_forget("):
            continue
        bounded = BOUNDED_CALL.search(lines[int(places[0]) - 1])
        if not (bounded and bounded[1] == argument):
            found.add(f"{file}:{places[0]}: {function}({argument})")
    return found


@pytest.mark.parametrize("source", PROGRAMS, ids=lambda path: path.name.partition(".")[0])
def test_no_wide_value_is_cut_to_32_bits(source: Path) -> None:
    assert wrongly_shortened(source) == set()


def test_a_cut_would_be_found(tmp_path: Path) -> None:
    """Clocks as in a program, an argument over two lines, and the two kinds that are right."""
    source = tmp_path / "cut.c"
    source.write_text(CUT)
    arguments = {line.split(": ", 1)[1] for line in wrongly_shortened(source)}
    assert arguments == {"law_max(due_us)", "law_clamp(now_us + small)"}
