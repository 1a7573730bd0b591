# SPDX-License-Identifier: GPL-2.0-only
"""What the C headers declare, read from the headers themselves: there is no second copy of a struct, a prototype, a
constant or a table in these tests.

    declarations()   what cffi can parse of laws.c and the shared headers
    constants()      every numeric macro of ours, by name
    table(...)       the rows of an X-macro table, as tuples
    flow_parts()     the same of a flow record's parts
    laws()           the library of all laws, and cffi's view of it
    macro(...)       a number of a kernel-side header, which no compiler here can read
"""

import ast
import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import cffi

from tests.unit.cdata import Ffi, Laws

ROOT = Path(__file__).resolve().parents[2]
LIBRARY = "build/tests/liblaws.so"
CC = os.environ.get("CC", "gcc")
CLANG = next(filter(None, (shutil.which(f"clang-{version}") for version in range(20, 15, -1))), "clang")  # as the Makefile

SHARED = [
    "ccbpf/aqm.h",
    "ccbpf/controllers.h",
    "ccbpf/event.h",
    "ccbpf/flow.h",
    "ccbpf/identity.h",
    "ccbpf/params.h",
    "ccbpf/stats.h",
]
LAWS = '#include "tests/unit/laws.c"\n'
EVERYTHING = LAWS + "".join(f'#include "{name}"\n' for name in SHARED)

WORDS = {"LAW"}  # macros that stand for no number

# In place of the system's headers, whose attributes and builtins cffi cannot parse.
STUBS = {
    "linux/types.h": """
        typedef unsigned char __u8; typedef unsigned short __u16;
        typedef unsigned int __u32; typedef int __s32;
        typedef unsigned long long __u64; typedef long long __s64;
    """,
    "stdbool.h": "",
}


def cc(arguments: list[str], source: str | None = None) -> str:
    run = subprocess.run([CC, *arguments], input=source, capture_output=True, text=True, cwd=ROOT)
    assert run.returncode == 0, run.stderr
    return run.stdout


def preprocessed(source: str, *options: str) -> str:
    with tempfile.TemporaryDirectory() as stubs:
        for name, text in STUBS.items():
            path = Path(stubs, name)
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)
        return cc(["-E", "-P", "-nostdinc", f"-I{stubs}", "-Iinclude", "-I.", "-xc", *options, "-"], source)


def declarations() -> str:
    text = preprocessed(EVERYTHING)
    # Kernel style: a function's braces, and only they, stand alone in column 0.
    return re.sub(r"\n\{\n.*?^\}$", ";", text, flags=re.M | re.S)


def constants() -> dict[str, int]:
    """Object-like macros of ours that have an integer value, computed by the compiler. No header of the system is read."""
    macro = re.compile(r"^#define (\w+) (\S.*)$", re.M)
    of_the_compiler = {name for name, _ in macro.findall(preprocessed("", "-dM"))}
    ours = [found for found in macro.findall(preprocessed(EVERYTHING, "-dM")) if found[0] not in of_the_compiler]
    names = [name for name, value in ours if '"' not in value and value not in WORDS]
    prints = "".join(f'printf("{name} %lld\\n", (long long)({name}));\n' for name in names)
    with tempfile.TemporaryDirectory() as scratch:
        program = str(Path(scratch, "constants"))
        cc(
            ["-std=gnu11", "-Iinclude", "-I.", "-xc", "-o", program, "-"],
            f"{EVERYTHING}#include <stdio.h>\nint main(void)\n{{\n{prints}return 0;\n}}\n",
        )
        lines = subprocess.run([program], capture_output=True, text=True, check=True).stdout.splitlines()
    return {name: int(value) for name, value in map(str.split, lines)}


def table(header: str, macro: str, columns: str, *arguments: str) -> list[tuple[Any, ...]]:
    """Rows of `macro(X)` of `header`. columns: one letter per column, w: a bare word, v: a value (number or string). Where a
    table takes more than X, `arguments` are those."""
    cells = [f"c{i}" for i in range(len(columns))]
    shown = ", ".join("#" + cell if kind == "w" else cell for cell, kind in zip(cells, columns))
    call = f"{macro}({', '.join(('X', *arguments))})"
    source = f'#include "{header}"\n#define X({", ".join(cells)}) ({shown},),\nTABLE_BEGIN {call}\n'
    return list(ast.literal_eval("[" + preprocessed(source).split("TABLE_BEGIN", 1)[1].strip() + "]"))


def flow_fields(macro: str, struct: str) -> list[tuple[Any, ...]]:
    """Rows (field, form, unit, text) of one of ccbpf/flow.h's tables of fields."""
    return [row[1:] for row in table("ccbpf/flow.h", macro, "wwwvv", struct)]


def flow_parts() -> dict[str, tuple[str, list[tuple[Any, ...]], str]]:
    """The controllers' own parts of a flow record. Part → (the struct that has its fields, rows, what it is)"""
    return {
        part: (f"ccbpf_flow_{member}", flow_fields(macro, f"ccbpf_flow_{member}"), text)
        for part, member, macro, text in table("ccbpf/flow.h", "CCBPF_FLOW_PARTS", "wwwv")
    }


def laws() -> tuple[Ffi, Laws]:
    """(ffi, every function of include/law by its C name)"""
    subprocess.run(["make", "-s", LIBRARY], cwd=ROOT, check=True)
    ffi = cffi.FFI()
    ffi.cdef(declarations())
    return ffi, ffi.dlopen(str(ROOT / LIBRARY))


def macro(header: str, name: str) -> int:
    found = re.search(rf"^#define {name} (\d+)\b", (ROOT / "include" / header).read_text(), re.M)
    assert found, f"{header}: no number {name}"
    return int(found[1])
