# SPDX-License-Identifier: GPL-2.0-only
"""What the C headers declare, read from the headers themselves: there is no second copy of a struct, a prototype, a
constant or a table in these tests.

    declarations()   what cffi can parse of laws.c and the shared headers
    constants()      every numeric macro of ours, by name
    table(...)       the rows of an X-macro table, as tuples
    laws()           the library of all laws, and cffi's view of it
    macro(...)       a number of a kernel-side header, which no compiler here can read
"""
import ast
import os
import re
import subprocess
import tempfile
from pathlib import Path

import cffi

ROOT = Path(__file__).resolve().parents[2]
LIBRARY = "build/tests/liblaws.so"
CC = os.environ.get("CC", "gcc")

SHARED = ["ccbpf/aqm.h", "ccbpf/controllers.h", "ccbpf/event.h", "ccbpf/flow.h", "ccbpf/identity.h", "ccbpf/params.h", "ccbpf/stats.h"]
LAWS = '#include "tests/unit/laws.c"\n'
EVERYTHING = LAWS + "".join(f'#include "{name}"\n' for name in SHARED)

# In place of the system's headers, whose attributes and builtins cffi cannot parse.
STUBS = {
    "linux/types.h": """
        typedef unsigned char __u8; typedef unsigned short __u16;
        typedef unsigned int __u32; typedef int __s32;
        typedef unsigned long long __u64; typedef long long __s64;
    """,
    "stdbool.h": "",
}


def cc(arguments, source=None):
    run = subprocess.run([CC, *arguments], input=source, capture_output=True, text=True, cwd=ROOT)
    assert run.returncode == 0, run.stderr
    return run.stdout


def preprocessed(source, *options):
    with tempfile.TemporaryDirectory() as stubs:
        for name, text in STUBS.items():
            path = Path(stubs, name)
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)
        return cc(["-E", "-P", "-nostdinc", f"-I{stubs}", "-Iinclude", "-I.", "-xc", *options, "-"], source)


def declarations():
    text = preprocessed(EVERYTHING)
    # Kernel style: a function's braces, and only they, stand alone in column 0.
    return re.sub(r"\n\{\n.*?^\}$", ";", text, flags=re.M | re.S)


def constants():
    """Object-like macros of ours that have an integer value, computed by the compiler."""
    macro = re.compile(
        r"^#define ((?:LAW|KIUS|AGED|BACKLOG|CHIRP|DELAY|GENTLE|HIGHSPEED|LAYERS|NF|PROECN|RED|SMALL|WESTWOOD|CCBPF)_\w+) (\S.*)$",
        re.M,
    )
    names = [name for name, value in macro.findall(preprocessed(EVERYTHING, "-dM")) if '"' not in value]
    prints = "".join(f'printf("{name} %lld\\n", (long long)({name}));\n' for name in names)
    with tempfile.TemporaryDirectory() as scratch:
        program = str(Path(scratch, "constants"))
        cc(["-std=gnu11", "-Iinclude", "-I.", "-xc", "-o", program, "-"],
           f"{EVERYTHING}#include <stdio.h>\nint main(void)\n{{\n{prints}return 0;\n}}\n")
        lines = subprocess.run([program], capture_output=True, text=True, check=True).stdout.splitlines()
    return {name: int(value) for name, value in map(str.split, lines)}


def table(header, macro, columns):
    """Rows of `macro(X)` of `header`. columns: one letter per column, w: a bare word, v: a value (number or string)."""
    arguments = [f"c{i}" for i in range(len(columns))]
    shown = ", ".join("#" + a if kind == "w" else a for a, kind in zip(arguments, columns))
    source = f'#include "{header}"\n#define X({", ".join(arguments)}) ({shown},),\nTABLE_BEGIN {macro}(X)\n'
    return list(ast.literal_eval("[" + preprocessed(source).split("TABLE_BEGIN", 1)[1].strip() + "]"))


def laws():
    """(ffi, every function of include/law by its C name)"""
    subprocess.run(["make", "-s", LIBRARY], cwd=ROOT, check=True)
    ffi = cffi.FFI()
    ffi.cdef(declarations())
    return ffi, ffi.dlopen(str(ROOT / LIBRARY))


def macro(header, name):
    found = re.search(rf"^#define {name} (\d+)\b", (ROOT / "include" / header).read_text(), re.M)
    assert found, f"{header}: no number {name}"
    return int(found[1])
