# SPDX-License-Identifier: GPL-2.0-only
"""python -m tests.lab [list|report|results]: the experiments, judged. `make lab`, `lab-list`, `report`, `results`."""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Sequence

from . import session, sweep
from .engine import virtual, virtual_experiment
from .engine.cores import cpus
from .guest.errors import LabError
from .guest.lock import kernels
from .report import report, results
from .rows import rows
from .rows.rows import SETS, RowError
from .session import Work

EXIT_LAB = 2  # 1: a bound does not hold


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.lab", description=__doc__)
    parser.add_argument("what", nargs="?", choices=("run", "list", "report", "results"), default="run")
    parser.add_argument("--exp", default=os.environ.get("EXP", ""), help="ids and .toml files, comma-separated (all)")
    parser.add_argument("--only", default=os.environ.get("ONLY", ""), help="only these controllers, comma-separated (all)")
    parser.add_argument("--kernel", default=os.environ.get("KERNEL") or "6.12", help="%(default)s; one of kernels.lock")
    parser.add_argument("--set", default=os.environ.get("SET") or "full", help="quick or full (%(default)s)")
    parser.add_argument(
        "--jobs", type=int, default=os.environ.get("JOBS") or None, help="guests at once (one per core of theirs)"
    )
    parser.add_argument(
        "--repeat", type=int, default=os.environ.get("REPEAT") or "0", metavar="N",
        help="draws of each run: another seed, the background 50 ms later (as many as the row says)",
    )  # fmt: skip
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--run", metavar="DIGEST", help="only this run of them, not judged: a job of `make sweep`")
    parser.add_argument(
        "--keep", metavar="NAME", default=os.environ.get("KEEP"),
        help="this run of one row (a link in its directory), in real time, and then a shell in its guest",
    )  # fmt: skip
    return parser.parse_args()


def check(options: argparse.Namespace) -> None:
    for name, value, allowed in (("KERNEL", options.kernel, kernels()), ("SET", options.set, SETS)):
        if value not in allowed:
            raise RowError(f"{name}={value}: there are {', '.join(allowed)}")
    if options.jobs is None:
        options.jobs = len(cpus())
    if options.jobs < 1:
        raise RowError(f"JOBS={options.jobs}: at least 1")


def keep(works: Sequence[Work], name: str) -> int:
    """A run in a guest that stays."""
    jobs = {key.slug or "run": job for work in works for key, job in work.jobs.items()}
    if len(works) != 1 or name not in jobs:
        raise RowError(f"--keep {name}: give one row by --exp, and one of its runs: {', '.join(jobs)}")
    job = jobs[name]
    files = virtual_experiment.files_of(job.experiment)
    return virtual.shell(job.kernel, files, job.memory_mb, virtual_experiment.script(job.experiment))


def main() -> int:
    for number in (signal.SIGTERM, signal.SIGINT):  # the latter is ignored in a shell's background
        signal.signal(number, signal.default_int_handler)
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # of `| head`
    options = arguments()
    try:
        check(options)
        if options.what == "results":
            results.write()
            return 0
        chosen = rows.choose(options.exp, options.kernel, options.set, options.repeat)
        chosen = rows.only(chosen, options.only)
        if options.what == "list":
            for row in chosen:
                print(f"{row.id:22} {len(row.runs):4} runs  {row.what}")
            return 0
        if options.what == "report":
            print(report.write(chosen, options.kernel))
            return 0
        works = session.plan(chosen, options.kernel, options.seed, options.set, options.repeat)
        if options.keep:
            return keep(works, options.keep)
        return sweep.run_one(works, options.run) if options.run else session.run(works, options.jobs)
    except (RowError, LabError) as error:
        print(f"lab: {error}", file=sys.stderr)
        return EXIT_LAB
    except KeyboardInterrupt:
        return 128 + signal.SIGINT


if __name__ == "__main__":
    sys.exit(main())
