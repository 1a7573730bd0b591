# SPDX-License-Identifier: GPL-2.0-only
"""python -m tests.sim [run|list|report|agreement|constants]: the lab's rows in the simulator, hundreds of draws. `make sim`."""

from __future__ import annotations

import argparse
import os
import signal
import sys

from tests.lab.rows.rows import SIM, RowError

from . import agreement, constants, report, session

EXIT_WRONG = 2  # 1: a bound does not hold


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.sim", description=__doc__)
    parser.add_argument("what", nargs="?", choices=("run", "list", "report", "agreement", "constants"), default="run")
    parser.add_argument(
        "--exp", default=os.environ.get("EXP", ""), help="ids and .toml files, comma-separated (those with `sim`)"
    )
    parser.add_argument("--set", default=os.environ.get("SET") or SIM, choices=("sim", "full", "quick"), help="(%(default)s)")
    parser.add_argument("--jobs", type=int, default=os.environ.get("JOBS") or session.cores(), help="runs at once (%(default)s)")
    parser.add_argument(
        "--repeat",
        type=int,
        default=os.environ.get("REPEAT") or 0,
        metavar="N",
        help="draws of each run (as many as the row says)",
    )
    parser.add_argument("--only", default=os.environ.get("ONLY", ""), help="constants: only these, comma-separated (all)")
    parser.add_argument("--seed", type=int, default=1, help="of the first draw (%(default)s)")
    return parser.parse_args()


def main() -> int:
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.default_int_handler)
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # of `| head`
    options = arguments()

    def say(line: str) -> None:
        print(line, flush=True)

    try:
        if options.what == "agreement":
            return agreement.main(options, say)
        if options.what == "report":
            return report.write(say)
        if options.what == "constants":
            return constants.main(options, say)
        chosen = session.choose(options.exp, options.set, options.repeat)
        if options.what == "list":
            for row in chosen:
                say(f"{row.id:22} {len(row.runs):5} runs  {row.what}")
            return 0
        return session.run(session.plans(chosen, options.seed, options.set, say), max(1, options.jobs), options.seed, say)
    except RowError as error:
        print(f"simulator: {error}", file=sys.stderr)
        return EXIT_WRONG
    except KeyboardInterrupt:
        return 128 + signal.SIGINT


if __name__ == "__main__":
    sys.exit(main())
