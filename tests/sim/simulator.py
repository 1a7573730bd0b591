# SPDX-License-Identifier: GPL-2.0-only
"""Runs of the simulator: an experiment and a seed → a Result as the lab's, which its measures take.

A run is kept in build/sim/runs under a digest of everything that decides it: the scenario, the simulator, the programs.
"""

from __future__ import annotations

import functools
import hashlib
import json
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.lab.engine import peers
from tests.lab.engine.experiment import FlowResult, Sample
from tests.lab.engine.scenario import VirtualExperiment, VirtualLink, controllers_of
from tests.lab.engine.virtual_result import TrafficResult, VirtualResult
from tests.lab.rows import catalogue

from .translate import REPOSITORY, scenario

BUILD = REPOSITORY / "build/sim"
RUNS = BUILD / "runs"
TIMEOUT_S = 600  # of the wall: 12 h of 10 Mbit/s take 10 s on a core


class SimulatorError(Exception):
    """The simulator could not run a scenario, or a program did something that no program may do."""


def simulate(asked: dict[str, Any], built: Path = BUILD) -> dict[str, Any]:
    """One scenario, not kept. Raises SimulatorError with the simulator's own words."""
    if not (built / "sim").exists():
        raise SimulatorError(f"{built / 'sim'}: not built; `make all` builds it")
    try:
        done = subprocess.run(
            [built / "sim", built], input=json.dumps(asked), capture_output=True, text=True, timeout=TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise SimulatorError(f"a run of {asked['seconds']:g} s was not over after {TIMEOUT_S} s") from error
    if done.returncode:
        raise SimulatorError(done.stderr.strip() or f"the simulator ended with {done.returncode}")
    result: dict[str, Any] = json.loads(done.stdout)
    return result


@functools.cache
def hash_of(path: Path) -> str:
    if not path.exists():
        raise SimulatorError(f"{path}: not built; `make all` builds it")
    return hashlib.sha256(path.read_bytes()).hexdigest()


@dataclass(frozen=True)
class Run:
    """One draw of an experiment."""

    experiment: VirtualExperiment
    seed: int
    built: Path = BUILD  # the simulator and the programs

    @functools.cached_property
    def scenario(self) -> dict[str, Any]:
        return scenario(self.experiment, self.seed)

    @functools.cached_property
    def path(self) -> Path:
        link = self.experiment.link
        programs = sorted(controllers_of(self.experiment) & {*catalogue.ours(), *peers.PEERS})
        programs += ["nf_red"] if isinstance(link, VirtualLink) and link.marks_low_class else []
        parts = [self.scenario, hash_of(self.built / "sim"), [hash_of(self.built / f"{name}.so") for name in programs]]
        return RUNS / f"{hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:16]}.json"

    def make(self) -> None:
        """Makes a run. The result is renamed into place, so an interrupted run leaves nothing that looks complete."""
        if self.path.exists():
            return
        draft = self.path.with_suffix(f".{self.seed}.new")
        RUNS.mkdir(parents=True, exist_ok=True)
        draft.write_text(json.dumps(simulate(self.scenario, self.built)))
        draft.replace(self.path)

    def result(self) -> VirtualResult:
        self.make()
        return parse(self.experiment, self.scenario, json.loads(self.path.read_text()))


def parse(experiment: VirtualExperiment, asked: dict[str, Any], said: dict[str, Any]) -> VirtualResult:
    sample_s, megabits = asked["sample_s"], asked["segment_bytes"] * 8 / 1e6
    result = VirtualResult(experiment, queue_drops=said["drops"], marks=said["marks"])
    for flow, own in zip(experiment.flows, said["flows"], strict=True):
        samples = [Sample(n * sample_s, (n + 1) * sample_s, segments * megabits) for n, segments in enumerate(own["segments"])]
        result.flows[flow.name] = FlowResult(flow, samples, flow.controller, own["retransmits"])
    for traffic, own in zip(experiment.traffic, said["streams"], strict=True):
        report = {"packets": own["received"], "lost": own["sent"] - own["received"]}
        result.traffic[traffic.name] = TrafficResult(traffic, report=report)
    result.backlog = [((n + 1) * sample_s, size) for n, size in enumerate(said["backlog"])]
    return result
