# SPDX-License-Identifier: GPL-2.0-only
"""What the package is said to need. It is built, and tried in a minimal system, in tests/hard."""

from __future__ import annotations

import re

from tests.packaging import ROOT

CONTROL = (ROOT / "packaging/debian/control").read_text()


def test_the_package_is_built_with_what_make_deps_installs() -> None:
    installed = set(re.findall(r"\b(?!libc6)[\w+-]+-dev\b", (ROOT / "packaging/deps.sh").read_text()))
    needed = set(re.findall(r"[\w+-]+-dev\b", CONTROL.split("Build-Depends:", 1)[1].split("\n\n", 1)[0]))
    assert needed == installed


def test_it_needs_the_same_libbpf() -> None:
    least = set(re.findall(r"--atleast-version=(\S+) libbpf", (ROOT / "packaging/deps.sh").read_text()))
    assert least == set(re.findall(r"libbpf\S* \(>= 1:(\S+)\)", CONTROL)) and len(least) == 1
