# SPDX-License-Identifier: GPL-2.0-only
"""Can the unit tests fail? Changes the laws in one place at a time, in a scratch copy, and sees whether they notice.

    python -m tests.unit.mutate [-j JOBS] [WORD...]     all mutants, or those whose name has one of the words
    python -m tests.unit.mutate --check                 only whether each mutant finds its place

Exit code 1 if a mutant survives. Not part of `make test`: it is for whoever changes a law or its tests.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.unit.headers import ROOT
from tests.unit.mutants import MUTANTS

COPIED = ["Makefile", "include", "pyproject.toml", "tests/__init__.py", "tests/lab/peers", "tests/unit"]


def path_of(header: str) -> Path:
    rooms = ("include/law", "include/ccbpf", "tests/lab/peers")
    return next(Path(room, header) for room in rooms if (ROOT / room / header).exists())


OF_THE_TREE = {
    "test_docs.py",
    "test_flow_record.py",
    "test_fuzzers.py",
    "test_rooms.py",
    "test_mutants.py",
    "test_widths.py",
}  # not of one law


def tests_for(header: str) -> list[str]:
    """All unit tests, those of this law first."""
    tests = [str(path.relative_to(ROOT)) for path in sorted(ROOT.glob("tests/unit/test_*.py")) if path.name not in OF_THE_TREE]
    return sorted(tests, key=lambda name: f"test_{header[:-2].split('_')[0]}" not in name)


def mutated(text: str, header: str, old: str, new: str) -> str:
    """The header with one place changed. White space between tokens is the formatter's business: it need not be the same."""
    pattern = r"\s*".join(map(re.escape, re.findall(r"\w+|[^\w\s]", old)))
    found = len(re.findall(pattern, text))
    if found != 1:
        raise LookupError(f"{header} has {old!r} {found} times: bring the list of mutants up to date")
    return re.sub(pattern, lambda _: new.strip(), text)


def lost() -> Iterator[str]:
    """The mutants that do not find their place, as messages."""
    for _, header, old, new in MUTANTS:
        try:
            mutated((ROOT / path_of(header)).read_text(), header, old, new)
        except LookupError as error:
            yield str(error)


def killed_by(mutant: tuple[str, str, str, str]) -> str | None:
    """The first test that fails on the mutant, None if all pass."""
    _, header, old, new = mutant
    with tempfile.TemporaryDirectory() as scratch:
        tree = Path(scratch)
        for name in COPIED:
            target = tree / name
            target.parent.mkdir(parents=True, exist_ok=True)
            if (ROOT / name).is_dir():
                shutil.copytree(ROOT / name, target, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy(ROOT / name, target)
        victim = tree / path_of(header)
        victim.write_text(mutated(victim.read_text(), header, old, new))
        subprocess.run(
            ["make", "-s", "build/tests/liblaws.so", "WARN=-w"], cwd=tree, check=True, stdout=subprocess.DEVNULL
        )  # it is C, at least
        run = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-o", "addopts=", *tests_for(header)],
            cwd=tree,
            capture_output=True,
            text=True,
            env={**os.environ, "MAKEFLAGS": "WARN=-w"},
        )
    if run.returncode == 0:
        return None
    failed = [line for line in run.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    assert not (failed and failed[0].startswith("ERROR") and "::" not in failed[0]), f"not even collected: {failed[0]}"
    return failed[0].split(" - ")[0].split("::", 1)[-1] if failed else run.stdout[-300:]


def main() -> bool:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-j", "--jobs", type=int, default=1)
    parser.add_argument("--check", action="store_true", help="only whether each mutant finds its place")
    parser.add_argument("words", nargs="*")
    arguments = parser.parse_args()
    if arguments.check:
        print(*(messages := list(lost())), sep="\n")
        return bool(messages)
    chosen = [m for m in MUTANTS if not arguments.words or any(word in m[0] for word in arguments.words)]
    survivors = 0
    with ThreadPoolExecutor(arguments.jobs) as pool:
        for mutant, killer in zip(chosen, pool.map(killed_by, chosen)):
            survivors += killer is None
            print(f"{mutant[0]:45} {killer or 'SURVIVES'}", flush=True)
    print(f"{len(chosen) - survivors} of {len(chosen)} killed")
    return survivors > 0


if __name__ == "__main__":
    sys.exit(main())
