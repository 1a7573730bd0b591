# SPDX-License-Identifier: GPL-2.0-only
"""packaging/examples: the drop-ins are those that the command writes. systemd reads them in tests/hard/test_packages.py."""

from __future__ import annotations

import os
import subprocess

import pytest

from tests.packaging import BUILD, ROOT

EXAMPLES = ROOT / "packaging/examples"
DROPINS = sorted(EXAMPLES.glob("*.d/50-ccbpf.conf"))


@pytest.mark.parametrize("dropin", DROPINS, ids=lambda dropin: dropin.parent.stem)
def test_a_drop_in_is_what_the_command_writes(dropin: os.PathLike[str]) -> None:
    unit = os.path.basename(os.path.dirname(dropin)).removesuffix(".d")
    environment = {name: value for name, value in os.environ.items() if name != "CCBPF_PIN_ROOT"}
    words = [str(BUILD / "ccbpf"), "systemd", unit, "--print"]
    with open(dropin) as file:
        assert file.read() == subprocess.run(words, env=environment, check=True, capture_output=True, text=True).stdout


def test_the_readme_names_each_of_them() -> None:
    found = {str(path.relative_to(EXAMPLES)) for path in EXAMPLES.rglob("*") if path.is_file()} - {"README"}
    readme = (EXAMPLES / "README").read_text()
    assert len(found) == 4 and {name for name in found if f"\n  {name} " in readme} == found
