# SPDX-License-Identifier: GPL-2.0-only
"""Sweeps beyond one machine: each run of each row is an independent job of a workflow engine (workflow/Snakefile).

    python -m tests.lab.sweep                    `make sweep`: plans, runs, judges, reports; exit codes of `make lab`
    python -m tests.lab --exp ROW --run DIGEST   one of its jobs, on whatever machine

Runs lie where `make lab` puts them, so either goes on from what the other made.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from . import session
from .engine.cores import cpus
from .guest.errors import LabError
from .guest.lock import kernels
from .report import place
from .report.markdown import duration
from .rows import rows
from .rows.rows import RowError
from .session import Job, Work

WORKFLOW = Path(__file__).parent / "workflow"
EXIT_BOUND, EXIT_LAB = 1, 2
SPARE_MB = 300  # QEMU and Python beside the guest's memory
SLACK = 5  # a cluster ends a job that takes so many times what was estimated


@dataclass(frozen=True)
class Sweep:
    """The request, with the words of `make lab`; KERNEL may be several, comma-separated."""

    works: tuple[Work, ...]

    @classmethod
    def of(cls, exp: str, kernel: str, set_: str, repeat: str = "", seed: int = 1) -> Sweep:
        names = [name for name in (kernel or "6.12").split(",") if name]
        for name in names:
            if name not in kernels():
                raise RowError(f"KERNEL={name}: there are {', '.join(kernels())}")
        set_ = set_ or "full"
        if repeat and not repeat.isdecimal():
            raise RowError(f"REPEAT={repeat}: a number of draws")
        draws = int(repeat or 0)
        plans = [session.plan(rows.choose(exp, name, set_, draws), name, seed, set_, draws) for name in names]
        return cls(tuple(work for plan in plans for work in plan))

    @property
    def kernels(self) -> list[str]:
        return list(dict.fromkeys(work.kernel for work in self.works))

    def of_kernel(self, kernel: str) -> list[Work]:
        return [work for work in self.works if work.kernel == kernel]

    def work(self, kernel: str, row: str) -> Work:
        return next(work for work in self.of_kernel(kernel) if work.row.id == row)

    def job(self, digest: str) -> tuple[Work, Job]:
        """A run, and one of the rows that it belongs to."""
        return next((work, job) for work in self.works for job in work.jobs.values() if job.digest == digest)


def made(job: Job) -> str:
    """What a job leaves, below place.ROOT."""
    return str((job.directory / session.MADE).relative_to(place.ROOT))


def all_made(work: Work) -> list[str]:
    return sorted({made(job) for job in work.jobs.values()})


def judged(work: Work) -> str:
    return str((work.directory / "result.json").relative_to(place.ROOT))


def memory_mb(job: Job) -> int:
    return job.memory_mb + SPARE_MB


def minutes(job: Job) -> int:
    """The time limit of a job on a cluster."""
    return 5 + round(SLACK * session.RECORD_FACTOR * job.estimate_s / 60)


# --- commands of the workflow's rules --------------------------------------------------------------------------------


def _lab(works: Sequence[Work], *words: str) -> str:
    """python -m tests.lab for these rows of one kernel."""
    work = works[0]
    exp = ",".join(each.exp for each in works)
    options = [*words, "--exp", exp, "--kernel", work.kernel, "--set", work.set, "--seed", str(work.seed)]
    options += ["--repeat", str(work.repeat)] if work.repeat else []
    return f"cd {shlex.quote(str(session.REPOSITORY))} && {shlex.join([sys.executable, '-m', 'tests.lab', *options])}"


def run_command(work: Work, job: Job) -> str:
    return f"{_lab([work])} --run {job.digest}"


def judge_command(work: Work) -> str:
    """All its runs are there, so this only judges; a bound that does not hold is a result."""
    return f"{_lab([work])} || [ $? -eq {EXIT_BOUND} ]"


def report_command(works: Sequence[Work]) -> str:
    return _lab(works, "report")


# --- one job ---------------------------------------------------------------------------------------------------------


def run_one(works: Sequence[Work], digest: str) -> int:
    """The run of these rows with that digest, unless it was made before."""
    jobs = [job for work in works for job in work.jobs.values() if job.digest == digest]
    if not jobs:
        raise LabError(
            f"run {digest} is none of {', '.join(work.row.id for work in works)} here: the guest, QEMU or our programs "
            "are not those of the machine that planned the sweep; use the same tree and the same QEMU on both"
        )
    if not jobs[0].made:
        note = session.make(jobs[0])
        print(f"{note['name']}: {note['virtual_s']:.0f} virtual s in {duration(note['wall_s'])}")
    return 0


# --- all of it -------------------------------------------------------------------------------------------------------


def snakemake(profile: str, jobs: int, more: Sequence[str]) -> None:
    """Raises LabError if a job failed."""
    directory = WORKFLOW / "profiles" / profile
    if not directory.is_dir():
        there = ", ".join(sorted(path.name for path in directory.parent.iterdir()))
        raise RowError(f"PROFILE={profile}: there are {there}")
    cores = ["--cores", str(jobs)] if profile == "machine" else []
    words = ["--snakefile", str(WORKFLOW / "Snakefile"), "--directory", str(place.ROOT), "--profile", str(directory)]
    command = [sys.executable, "-m", "snakemake", *words, *cores, *more]
    done = subprocess.run(command, cwd=session.REPOSITORY, check=False)
    if done.returncode:
        raise LabError(f"snakemake ended with {done.returncode}; its words are above; what was made is kept")


def verdict(sweep: Sweep) -> int:
    """1 if a row does not hold; says which."""
    short = []
    for work in sweep.works:
        if not json.loads((place.ROOT / judged(work)).read_text())["holds"]:
            short.append(f"{work.row.id} ({work.kernel})")
    if short:
        print(f"{len(short)} of {len(sweep.works)} rows fall short: {', '.join(short)}")
    return EXIT_BOUND if short else 0


def main() -> int:
    parser = argparse.ArgumentParser(prog="make sweep", description="The experiments as jobs of Snakemake.")
    parser.add_argument("--profile", default=os.environ.get("PROFILE") or "machine", help="%(default)s")
    parser.add_argument("--jobs", type=int, default=os.environ.get("JOBS"), help="guests at once (one per core of theirs)")
    parser.add_argument("snakemake", nargs="*", help="options for snakemake itself, after --")
    options = parser.parse_args()
    try:
        exp, kernel, set_, draws = (os.environ.get(name, "") for name in ("EXP", "KERNEL", "SET", "REPEAT"))
        sweep = Sweep.of(exp, kernel, set_, draws)
        jobs = len(cpus()) if options.jobs is None else options.jobs
        snakemake(options.profile, jobs, options.snakemake)
        return verdict(sweep)
    except (RowError, LabError) as error:
        print(f"sweep: {error}", file=sys.stderr)
        return EXIT_LAB


if __name__ == "__main__":
    sys.exit(main())
