# SPDX-License-Identifier: GPL-2.0-only
"""Runs the rows that were chosen: jobs on several guests at once, results that are kept, a verdict per row.

    build/lab/<kernel>/runs/<digest>/    one run: the raw outputs, and run.json when it is whole
    build/lab/<kernel>/<id>/             one row: result.json, plots, a link to each of its runs

A run's digest covers all that decides its result (the guest's script with the experiment in it, kernel, tools, seed,
memory, QEMU, our objects): what is there already is not run again, so an interrupted session goes on where it stopped,
and runs that rows have in common are made once. CCBPF_LAB_ROOT is another place than build/lab.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypedDict

from . import measures
from .engine import virtual, virtual_experiment, virtual_result
from .engine.experiment import Experiment, Result
from .engine.scenario import VirtualExperiment
from .guest import image
from .guest.errors import LabError
from .report import place, plots, programs
from .report.markdown import duration
from .rows import judge, rows
from .rows.figures import WORDS, Results
from .rows.row import AS_GIVEN, Row, RunKey

REPOSITORY = image.REPOSITORY
MADE = "run.json"  # written last: the run is whole
PARSED_KEPT = 24  # results in memory; one is some megabytes

# What a run costs on one core, s: measured on two cores of 2023, corrected while running.
BOOT_S = 3.0
PER_VIRTUAL_S = 0.012  # samplers, timers
PER_SOCKETS_S = 0.045  # a look at the sockets
PER_PACKET_S = 200e-6  # of data, its ACK included, at each bottleneck
GSO_PACKETS = 12  # so many travel as one, in the mean over a gigabit's runs
RECORD_FACTOR = 1.6


# --- one run ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Job:
    """One run of one or more rows."""

    experiment: VirtualExperiment
    memory_mb: int
    kernel: str
    seed: int
    digest: str

    @property
    def directory(self) -> Path:
        return place.ROOT / self.kernel / "runs" / self.digest

    @property
    def made(self) -> bool:
        return (self.directory / MADE).exists()

    @property
    def estimate_s(self) -> float:
        return estimate_s(self.experiment)


def estimate_s(experiment: Experiment) -> float:
    """Seconds of one core that a run takes, before anything was measured here."""
    virtual_s = experiment.end_s + virtual_experiment.SETTLE_S
    packets = experiment.link.rate_mbit * 1e6 / 8 / measures.frame_bytes(experiment.link) * virtual_s
    factor = 2.0 if getattr(experiment.link, "both_ways", False) else 1.0
    if getattr(experiment.link, "gso", False):
        factor /= GSO_PACKETS
    looks = virtual_s / getattr(experiment, "sockets_every_s", 1.0)
    return BOOT_S + PER_VIRTUAL_S * virtual_s + PER_SOCKETS_S * looks + PER_PACKET_S * packets * factor


@functools.cache
def qemu_version() -> str:
    try:
        done = subprocess.run([virtual.QEMU, "--version"], capture_output=True, text=True, check=False)
    except FileNotFoundError as error:
        raise LabError(f"{virtual.QEMU}: not installed; `make lab-guest` installs it") from error
    return done.stdout.splitlines()[0] if done.stdout else "unknown"


def hash_of(path: Path) -> str:
    if not path.exists():
        raise LabError(f"{path}: not built; `make all` builds it")
    return hashlib.sha256(path.read_bytes()).hexdigest()


def digest_of(experiment: VirtualExperiment, memory_mb: int, kernel: str, seed: int) -> str:
    """A digest of everything that decides the result."""
    ours = virtual_experiment.objects_of(experiment)
    guest = image.build(kernel)
    parts = {
        "script": virtual_experiment.script(experiment),
        "guest": guest.directory.name,
        "hardware": virtual.hardware(guest),
        "memory_mb": memory_mb,
        "seed": seed,
        "qemu": qemu_version(),
        "objects": [hash_of(virtual_experiment.OURS / f"{name}.bpf.o") for name in ours],
        "files": [hash_of(path) for path in virtual_experiment.files_of(experiment).values() if isinstance(path, Path)],
    }
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:16]


def job_of(experiment: VirtualExperiment, memory_mb: int, kernel: str, seed: int) -> Job:
    return Job(experiment, memory_mb, kernel, seed, digest_of(experiment, memory_mb, kernel, seed))


class Note(TypedDict):
    """run.json"""

    name: str
    virtual_s: float
    wall_s: float
    exit_code: int
    mode: str


def make(job: Job, watch: Callable[[str], None] | None = None) -> Note:
    """Runs it, and keeps it; raises LabError."""
    result = virtual_experiment.run(
        job.experiment, job.directory, job.kernel, seed=job.seed, memory_mb=job.memory_mb,
        timeout_s=120 + 12 * job.estimate_s, watch=watch,
    )  # fmt: skip
    assert result.outcome
    if digest_of(job.experiment, job.memory_mb, job.kernel, job.seed) != job.digest:
        raise LabError("our programs were built anew while it ran; run it again")
    note: Note = {
        "name": job.experiment.name,
        "virtual_s": result.outcome.virtual_s,
        "wall_s": round(result.outcome.wall_s, 1),
        "exit_code": result.outcome.exit_code,
        "mode": result.outcome.mode,
    }
    keep(job, note)
    return note


def keep(job: Job, note: Note) -> None:
    """Keeps a complete run. It is renamed into place: others look for it while it is written, and we may be killed."""
    draft = job.directory / f"{MADE}.new"
    draft.write_text(json.dumps(note, indent=1) + "\n")
    draft.replace(job.directory / MADE)


def note_of(job: Job) -> Note:
    note: Note = json.loads((job.directory / MADE).read_text())
    return note


def load(job: Job) -> Result:
    """A run that was made."""
    note = note_of(job)
    outcome = virtual.Outcome(
        job.directory, note["exit_code"], note["virtual_s"], note["wall_s"], image.build(job.kernel), note["mode"]
    )
    return virtual_result.parse(job.experiment, outcome)


# --- a row -----------------------------------------------------------------------------------------------------------


@dataclass
class Work:
    """A row and its jobs."""

    row: Row
    jobs: dict[RunKey, Job]
    kernel: str
    seed: int
    set: str
    repeat: int = 0  # what was asked for; 0: what the row says
    failures: list[str] = field(default_factory=list)

    @property
    def directory(self) -> Path:
        return place.of_row(self.kernel, self.row.id)

    def results(self) -> Results:
        """Parses a run when it is asked for, and keeps some."""
        return functools.lru_cache(maxsize=PARSED_KEPT)(lambda key: load(self.jobs[key]))

    def finish(self, git: str) -> dict[str, Any]:
        """Judges, draws, links its runs, writes result.json."""
        results = self.results()
        notes = [note_of(job) for job in self.jobs.values()]
        result = judge.result_of(
            self.row, results, kernel=image.build(self.kernel).release, seed=self.seed, set_=self.set, git=git,
            virtual_s=sum(note["virtual_s"] for note in notes), wall_s=sum(note["wall_s"] for note in notes),
        )  # fmt: skip
        result["programs"] = self.programs()
        self._link()
        result["plots"] = plots.draw(self.row, results, self.directory)
        repeat = f" REPEAT={self.repeat}" if self.repeat else ""
        result["command"] = f"make lab EXP={self.exp} KERNEL={self.kernel} SET={self.set}{repeat}"
        judge.write(self.directory / "result.json", result)
        return result

    def programs(self) -> dict[str, dict[str, str]]:
        """Background → each of our programs in its runs, by its digest."""
        today, found = programs.digests(), dict[str, dict[str, str]]()
        for key, job in self.jobs.items():
            own = {name: today[name] for name in virtual_experiment.objects_of(job.experiment)}
            found.setdefault("" if key.background == AS_GIVEN else key.background, {}).update(own)
        return found

    @property
    def exp(self) -> str:
        own = self.row.file.resolve().parent != rows.DIRECTORY
        return f"{os.path.relpath(self.row.file, REPOSITORY)}:{self.row.id}" if own else self.row.id

    def _link(self) -> None:
        """The row's directory anew: its runs by name."""
        shutil.rmtree(self.directory, ignore_errors=True)
        self.directory.mkdir(parents=True)
        for key, job in self.jobs.items():
            (self.directory / (key.slug or "run")).symlink_to(os.path.relpath(job.directory, self.directory))


def plan(rows: Sequence[Row], kernel: str, seed: int, set_: str, repeat: int = 0) -> list[Work]:
    """Plans the jobs. Each draw has its own seed, so the random losses of netem differ."""
    return [
        Work(
            row,
            {key: job_of(run, row.memory_mb, kernel, seed + key.number) for key, run in row.runs.items()},
            kernel, seed, set_, repeat,
        )
        for row in rows
    ]  # fmt: skip


# --- all of them -----------------------------------------------------------------------------------------------------


class Progress:
    """Lines for whoever waits: what ended, what runs and where it is, how long the rest will take."""

    def __init__(self, jobs: Sequence[Job], at_once: int, record: bool) -> None:
        self.jobs, self.at_once = jobs, max(1, at_once)
        self.factor = RECORD_FACTOR if record else 1.0  # what a job takes ÷ its estimate, as seen so far
        self.weight = 20.0  # s of estimate that the factor is worth already
        self.done = 0
        self.at: dict[str, str] = {}  # name of a running job: its virtual time
        self.stop = threading.Event()  # the guests that run shall end
        self.lock = threading.Lock()
        self.live = sys.stderr.isatty()

    def rest_s(self) -> float:
        """Wall time of the jobs that are still to be run, divided among the guests."""
        return sum(job.estimate_s for job in self.jobs if not job.made) * self.factor / self.at_once

    def ended(self, job: Job, wall_s: float) -> None:
        with self.lock:
            self.done += 1
            self.at.pop(job.experiment.name, None)
            total = self.weight + job.estimate_s
            self.factor = (self.factor * self.weight + wall_s) / total
            self.weight = total

    def watch(self, job: Job) -> Callable[[str], None]:
        def line(text: str) -> None:
            if self.stop.is_set():
                raise LabError("stopped")
            if not text.startswith("at "):
                return
            with self.lock:
                self.at[job.experiment.name] = f"{float(text[3:]):.0f}/{job.experiment.end_s:.0f} s"
                if self.live:
                    running = "; ".join(f"{name} {at}" for name, at in self.at.items())
                    print(f"\r\033[K{running[: shutil.get_terminal_size().columns - 2]}", end="", file=sys.stderr)

        return line

    def say(self, text: str) -> None:
        clear = "\r\033[K" if self.live else ""
        print(f"{clear}{text}", flush=True, file=sys.stderr if self.live else sys.stdout)


def announce(works: Sequence[Work], jobs: Sequence[Job], progress: Progress) -> None:
    missing = [job for job in jobs if not job.made]
    virtual_s = sum(job.experiment.end_s for job in missing)
    kept = f", {len(jobs) - len(missing)} of them kept from before" if len(jobs) > len(missing) else ""
    progress.say(f"{len(works)} rows, {len(jobs)} runs{kept}; on Linux {image.build(works[0].kernel).release}")
    if missing:
        at_once = f"{progress.at_once} at once" if progress.at_once > 1 else "one at a time"
        progress.say(f"{virtual_s:.0f} virtual s to run, {at_once}: about {duration(progress.rest_s())}")


def run(works: Sequence[Work], at_once: int, make_job: Callable[..., Note] = make) -> int:
    """Makes what is missing and judges each row as soon as its runs are there.

    0: all bounds hold, 1: one does not, 2: the lab failed.
    """
    jobs = list({job.digest: job for work in works for job in work.jobs.values()}.values())
    mode = virtual.choose_mode()
    asked, at_once = at_once, virtual.most_at_once(at_once, mode)
    progress = Progress(jobs, at_once, mode == virtual.RECORD)
    if at_once < asked:
        progress.say(f"JOBS={asked}: only {at_once} at once, a core each; CCBPF_LAB_CPUS names the cores")
    announce(works, jobs, progress)
    git = judge.git_of(REPOSITORY)
    programs.digests()  # now: the sources may change before the last row is judged
    outstanding = list(works)
    errors: dict[str, str] = {}  # digest: why
    worst = 0

    def settle() -> None:
        nonlocal worst
        for work in [w for w in outstanding if all(j.made or j.digest in errors for j in w.jobs.values())]:
            outstanding.remove(work)
            worst = max(worst, conclude(work, errors, git, progress))

    settle()
    with ThreadPoolExecutor(at_once) as pool:
        running: dict[Future[Note], Job] = {pool.submit(make_job, job, progress.watch(job)): job for job in jobs if not job.made}
        count = len(running)
        try:
            while running:
                for future in wait(running, return_when=FIRST_COMPLETED).done:
                    job = running.pop(future)
                    report(job, future, errors, progress, count)
                settle()
        except BaseException:
            progress.stop.set()
            for future in running:
                future.cancel()
            progress.say("stopped; what was made is kept, the same command goes on from there")
            raise
    return worst


def report(job: Job, future: Future[Note], errors: dict[str, str], progress: Progress, count: int) -> None:
    """One line for a run that ended."""
    try:
        note = future.result()
    except LabError as error:
        errors[job.digest] = str(error)
        progress.ended(job, job.estimate_s * progress.factor)
        progress.say(f"[{progress.done}/{count}] {job.experiment.name}: THE LAB FAILED: {error}")
        return
    progress.ended(job, note["wall_s"])
    took = f"{note['virtual_s']:.0f} virtual s in {duration(note['wall_s'])}"
    progress.say(f"[{progress.done}/{count}] {job.experiment.name}: {took}; about {duration(progress.rest_s())} left")


def conclude(work: Work, errors: dict[str, str], git: str, progress: Progress) -> int:
    """A row whose runs have ended: its verdict, and the exit code that it asks for."""
    failed = {key.words: errors[job.digest] for key, job in work.jobs.items() if job.digest in errors}
    if failed:
        (work.directory / "result.json").unlink(missing_ok=True)
        progress.say(f"{work.row.id}: no result: {len(failed)} of its {len(work.jobs)} runs failed in the lab")
        return 2
    try:
        result = work.finish(git)
    except LabError as error:
        progress.say(f"{work.row.id}: no result: {error}")
        return 2
    for line in lines_of(result):
        progress.say(line)
    return 0 if result["holds"] else 1


def lines_of(result: Mapping[str, Any]) -> list[str]:
    """A row's verdict for the terminal; where nothing is judged, what was measured."""
    bounds = result["bounds"]
    word = ("holds" if result["holds"] else "FALLS SHORT") if bounds else "printed, not judged"
    lines = [f"{result['id']}: {word}"]
    for bound in bounds:
        mark = "holds      " if bound["holds"] else "falls short"
        at = f" ({bound['at']})" if bound["at"] else ""
        value = f"{said(bound['measured'], bound)}{draws_of(bound)}"
        lines.append(f"  {mark} {bound['controller']:10} {value} {bound['op']} {bound['bound']:g}: {bound['what']}{at}")
    return lines if bounds else [*lines, *figure_lines(result)]


def said(value: float | None, bound: Mapping[str, Any]) -> str:
    return f"{value:.4g}" if value is not None else str(bound.get("why", "never"))


def draws_of(bound: Mapping[str, Any]) -> str:
    """For several draws the value that is judged, their range, and the worst."""
    if "draws" not in bound:
        return ""
    span = f"{bound['least']:.4g} … {bound['most']:.4g}, " if "least" in bound else ""
    worst = said(bound["worst"], {})
    return f" ({bound['judged']}; {span}worst {worst}, {bound['held']} of {len(bound['draws'])} hold)"


def figure_lines(result: Mapping[str, Any]) -> list[str]:
    """Every figure of every run, ours and the peers'."""
    lines = []
    for controller, places in {**result["measured"], **result["peers"]}.items():
        for where, own in places.items():
            words = [f"{WORDS[name]} {value:.4g}" for name, value in own.items() if name in WORDS]
            lines.append(f"  {controller:10} {where}: {'; '.join(words)}")
    return lines
