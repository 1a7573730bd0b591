# SPDX-License-Identifier: GPL-2.0-only
"""The demo's runs in the virtual-time lab, for machines whose own kernel cannot make them. Needs no root."""

from __future__ import annotations

import platform
import subprocess
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

from . import session
from .engine import virtual, virtual_experiment
from .engine.experiment import Experiment, Result
from .guest import image
from .guest.errors import LabError
from .guest.image import Guest

__all__ = ["LabError", "controller_in", "estimate_s", "install", "prepare", "run"]

KERNEL = "6.12"
DEPS = image.REPOSITORY / "packaging/deps.sh"
VENV = image.REPOSITORY / ".cache/venv"
BUILT_IN = ("reno", "cubic")  # of every kernel of Debian; the others are modules
DONE = "nothing to install"  # what deps.sh says then
MARK = "at "  # of a line of the guest's console: its uptime


def install(say: Callable[[str], None]) -> None:
    """QEMU and what makes a guest, if it is missing."""
    if platform.machine() != "x86_64":
        raise LabError(f"the virtual-time lab's guests are x86-64, this machine is {platform.machine()}")
    with subprocess.Popen([DEPS, VENV, "lab"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        assert process.stdout
        for line in process.stdout:
            if DONE not in line:
                say(line.rstrip())
    if process.returncode:
        raise LabError(f"{DEPS.name} could not install what the lab needs; its words are above")


def prepare(say: Callable[[str], None]) -> Guest:
    """The guest; made the first time."""
    words = f"making the guest from Debian's packages of Linux {KERNEL}: the first time only, about a minute"
    waiting = threading.Timer(1.0, say, [words])
    waiting.start()
    try:
        return image.build(KERNEL)
    finally:
        waiting.cancel()


def controller_in(guest: Guest, name: str) -> bool:
    """Whether this guest has that controller."""
    return name in BUILT_IN or f"/tcp_{name}.ko".encode() in guest.base.read_bytes()


def estimate_s(experiments: Sequence[Experiment]) -> float:
    """Seconds of wall time that the runs take, one after the other."""
    factor = session.RECORD_FACTOR if virtual.choose_mode() == virtual.RECORD else 1.0
    return factor * sum(session.estimate_s(experiment) for experiment in experiments)


def run(experiment: Experiment, directory: Path, watch: Callable[[float, float], None]) -> Result:
    """One run; `watch` gets the guest's time and its end, s."""

    def hear(line: str) -> None:
        if line.startswith(MARK):
            watch(min(experiment.end_s, float(line.removeprefix(MARK))), experiment.end_s)

    watch(0.0, experiment.end_s)
    return virtual_experiment.run(experiment, directory, KERNEL, watch=hear)
