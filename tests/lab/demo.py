# SPDX-License-Identifier: GPL-2.0-only
"""The demo: what a foreground transfer feels of a background one, without and with controllers of ours.

Four runs over a bottleneck of its own: the foreground alone; beside a background with the kernel's default controller;
beside one with tcp_lp, and beside one with le. The background runs first, the foreground joins it and leaves again. About
110 s. On this kernel if it can load the programs and this is root; else the same runs in the virtual-time lab, on a kernel in
QEMU. The result is on stdout, all else on stderr. Nothing stays behind: no namespace, no process, and both controllers
are disabled again, unless they were enabled before. Exit codes: 0, 1 failure, 2 usage, 3 the kernel lacks something,
4 permission (3 and 4 only if QEMU cannot be had either), 128 + n ended by signal n.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from types import FrameType

from tests import registry

from .engine import native
from .engine.experiment import Experiment, Flow, Link, Result, quantile
from .report import chart

CCBPF = native.REPOSITORY / "build/ccbpf"
PLOT = native.REPOSITORY / "build/demo/demo.png"
CONTROLLERS = ("tcp_lp", "le")
FOREGROUND = "cubic"
SYSCTL = Path("/proc/sys/net/ipv4")

LINK = Link(rate_mbit=20, rtt_ms=40, buffer_bdp=1)  # a home's line, with the classic drop-tail buffer
BEFORE_S, TOGETHER_S, AFTER_S = 6.0, 15.0, 9.0
SETTLE_S = 2.0  # of the time together, not counted: the foreground starts slowly, alone as well
OVERHEAD_S = 0.7  # making and removing a path, iperf3's own end
NOISY = 0.01  # part of late packets that is worth a word
LINE_EVERY_S = 5.0  # progress where no terminal shows it
COMMAND_S = 30.0  # a single ccbpf
CLEAN_S = 3.0  # for the kernel to let the last flow go
SPARK_COLUMNS = 60

EXIT_FAILURE, EXIT_KERNEL, EXIT_PERMISSION = 1, 3, 4


class Stop(Exception):
    """The demo cannot go on; `code` is its exit code."""

    def __init__(self, code: int, words: str) -> None:
        super().__init__(words)
        self.code = code


# --- signals ---------------------------------------------------------------------------------------------------------


class Signals:
    """Ctrl-C and SIGTERM are only noted, and obeyed where `check` is called: between steps and every 0.2 s of a run.

    Within `at_once` the first of them raises where it comes."""

    HANDLED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

    def __init__(self) -> None:
        self.received: int | None = None
        self._raise = False

    def __enter__(self) -> Signals:
        self._before = {number: signal.signal(number, self._note) for number in self.HANDLED}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():  # a second Ctrl-C must not disturb the end of this process
            signal.signal(number, signal.SIG_IGN if self.received else handler)

    def _note(self, number: int, _: FrameType | None) -> None:
        first = not self.received
        self.received = self.received or number
        if first and self._raise:
            self.check()

    @contextmanager
    def at_once(self) -> Iterator[None]:
        self.check()
        self._raise = True
        try:
            yield
        finally:
            self._raise = False

    def check(self) -> None:
        if self.received:
            name = signal.Signals(self.received).name
            raise Stop(128 + self.received, f"ended by {name}; everything that was made is removed")


# --- the controller --------------------------------------------------------------------------------------------------


def ccbpf(*arguments: str) -> subprocess.CompletedProcess[str]:
    if not CCBPF.exists():
        raise Stop(EXIT_FAILURE, f"{CCBPF}: not built; `make all` builds it")
    # Blocked: between fork() and setpgid() the terminal's Ctrl-C is the child's as well.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, Signals.HANDLED)
    try:
        return subprocess.run([CCBPF, *arguments], capture_output=True, text=True, timeout=COMMAND_S, process_group=0)
    except subprocess.TimeoutExpired:
        words = f"no end after {COMMAND_S:g} s; is another ccbpf stuck?"
        return subprocess.CompletedProcess(arguments, EXIT_FAILURE, "", words)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def words(done: subprocess.CompletedProcess[str]) -> str:
    return "\n".join(text.strip() for text in (done.stdout, done.stderr) if text.strip())


@dataclass(frozen=True)
class Lack:
    """Why the demo cannot run on this kernel; `code` is the exit code that says so."""

    code: int
    words: str


def lack() -> Lack | None:
    """What `ccbpf check` finds missing for this kernel or this user; None: nothing is."""
    done = ccbpf("-j", "check")
    if done.returncode not in (0, EXIT_KERNEL, EXIT_PERMISSION):
        raise Stop(EXIT_FAILURE, f"this machine cannot run {' or '.join(CONTROLLERS)}. `ccbpf check` says:\n{words(done)}")
    if done.returncode:
        return Lack(done.returncode, f"`ccbpf check` says: {missing(done.stdout) or words(done)}")
    if os.geteuid() != 0:
        return Lack(EXIT_PERMISSION, "it makes network namespaces, for which it must be run as root")
    return None


def missing(report: str) -> str:
    """The rows of `ccbpf -j check` that are not there, as a part of a sentence."""
    try:
        rows = [row for row in json.loads(report)["rows"] if row["verdict"] == "missing"]
        return "; ".join(f"{row['name']}: {row['found']} ({row['remedy']})" for row in rows)
    except (ValueError, KeyError, TypeError):
        return ""


def available() -> list[str]:
    return (SYSCTL / "tcp_available_congestion_control").read_text().split()


@contextmanager
def enabled(say: Progress) -> Iterator[set[str]]:
    """Both are there inside; one that was there before is used, and left, but not what a killed demo left. Yields those that
    `netnice` can use: ccbpf has enabled them, and not somebody else."""
    registry.sweep_owned()
    there = [name for name in CONTROLLERS if name in available()]
    for name in there:
        say.line(f"{name} is enabled already: this one is used, and left enabled")
    usable = {name for name in there if is_enabled(name)}
    if not there:
        os.environ.setdefault("CCBPF_PIN_ROOT", str(registry.demo_pins()))
    before = pins()
    own: list[str] = []
    try:
        for name in CONTROLLERS:
            if name not in there:
                enable(name)
                own.append(name)
        yield usable | set(own)
    finally:
        disable(own, before, say)


def enable(name: str) -> None:
    done = ccbpf("enable", name)
    if done.returncode:
        raise Stop(done.returncode, f"`ccbpf enable {name}` failed:\n{words(done)}")


def is_enabled(name: str) -> bool:
    """By ccbpf, in the pin directory that it uses now."""
    done = ccbpf("-j", "status")
    controllers = json.loads(done.stdout)["controllers"] if done.returncode == 0 else []
    return any((c["name"], c["state"]) == (name, "enabled") for c in controllers)


def disable(names: Sequence[str], before: set[Path], say: Progress) -> None:
    """Disables them, and removes the maps that they share once their last flow is gone."""
    for name in names:
        done = ccbpf("disable", name)
        if done.returncode:
            say.line(f"`ccbpf disable {name}` failed:\n{words(done)}")
    end = time.monotonic() + CLEAN_S
    while names and pins() - before and time.monotonic() < end:
        time.sleep(0.05)
        done = ccbpf("clean")
    if names and (left := pins() - before):
        paths = " ".join(map(str, sorted(left)))
        say.line(f"left behind: {paths}; `ccbpf clean` removes it when no flow uses it any more\n{words(done)}")


def pins() -> set[Path]:
    root = Path(os.environ.get("CCBPF_PIN_ROOT", registry.BPFFS / "ccbpf"))
    return {root, *root.rglob("*")} if root.exists() else set()


def default_controller() -> str:
    """The kernel's; cubic, if the user made our own the default."""
    name = (SYSCTL / "tcp_congestion_control").read_text().strip()
    return "cubic" if name.startswith(CONTROLLERS) else name


# --- progress --------------------------------------------------------------------------------------------------------


class Progress:
    """Says on stderr what goes on: one line that is rewritten on a terminal, else a line every few seconds."""

    def __init__(self, total_s: float, signals: Signals) -> None:
        self.start_s = time.monotonic()
        self.total_s = total_s
        self.signals = signals
        self.phase = ""
        self._terminal = sys.stderr.isatty()
        self._next_line_s = 0.0
        self._pending = False  # the terminal's cursor stands in our rewritten line

    def start(self, total_s: float) -> None:
        """The clock begins anew: what came before took unknown time."""
        self.start_s = time.monotonic()
        self.total_s = total_s

    def line(self, text: str) -> None:
        self.clear()
        print(text, file=sys.stderr, flush=True)

    def clear(self) -> None:
        if self._pending:
            sys.stderr.write("\r\033[K")
            sys.stderr.flush()
            self._pending = False

    def watch(self, now: native.Progress) -> None:
        flows = "  ".join(f"{name} {rate:4.1f}" for name, rate in now.goodput_mbit.items())
        ping = "" if math.isnan(now.rtt_ms) else f"  ping {now.rtt_ms:.0f} ms"
        self.show(f"{flows} Mbit/s{ping}")

    def watch_virtual(self, at_s: float, end_s: float) -> None:
        self.show(f"{at_s:.0f} of {end_s:g} virtual s")

    def show(self, text: str) -> None:
        self.signals.check()
        elapsed = time.monotonic() - self.start_s
        done = f"{min(elapsed, self.total_s):3.0f}/{self.total_s:.0f} s"
        text = f"{done}  {self.phase}:  {text}"
        if self._terminal:
            columns = os.get_terminal_size(sys.stderr.fileno()).columns or 80
            sys.stderr.write("\r\033[K" + text[: max(20, columns - 1)])
            sys.stderr.flush()
            self._pending = True
        elif elapsed >= self._next_line_s:
            self._next_line_s = elapsed + LINE_EVERY_S
            self.line(text)


# --- the runs --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Times:
    """Seconds of the background alone, of both, of the background alone again."""

    before_s: float
    together_s: float
    after_s: float
    settle_s: float

    @classmethod
    def scaled(cls, part: float) -> Times:
        return cls(BEFORE_S * part, TOGETHER_S * part, AFTER_S * part, SETTLE_S * part)

    @property
    def total_s(self) -> float:
        pair = self.before_s + self.together_s + self.after_s
        pairs = 1 + len(CONTROLLERS)
        return self.together_s + pairs * pair + (1 + pairs) * OVERHEAD_S


def alone(times: Times) -> Experiment:
    return Experiment("alone", LINK, (Flow("foreground", FOREGROUND, times.together_s),))


def beside(background: str, times: Times, netnice: bool = False) -> Experiment:
    whole = times.before_s + times.together_s + times.after_s
    flows = (
        Flow("foreground", FOREGROUND, times.together_s, start_s=times.before_s),
        Flow("background", background, whole, netnice=netnice),
    )
    return Experiment(f"beside {background}", LINK, flows)


@dataclass(frozen=True)
class Figures:
    """One run: means while both flows are there, without the first seconds."""

    foreground_mbit: float
    foreground_kept: float  # part of what it has alone
    ping_p50_ms: float
    ping_p95_ms: float
    pings_lost: int
    background: str | None = None  # its controller
    background_mbit: float | None = None
    background_back_s: float | None = None  # after the foreground's end, until it had 80 % of the link; None: never


@dataclass(frozen=True)
class Outcome:
    """What the demo found."""

    kernel: str  # that ran it
    virtual: bool  # in the virtual-time lab
    default: str  # this machine's controller
    runs: dict[str, Figures]  # by name: alone, beside the default, beside each of ours
    late_part: float  # of the packets, in the noisiest run
    plot: Path

    def as_json(self) -> str:
        link = {"rate_mbit": LINK.rate_mbit, "rtt_ms": LINK.rtt_ms, "buffer_bytes": LINK.buffer_bytes}
        return json.dumps({"link": link, "foreground": FOREGROUND, **asdict(self), "plot": str(self.plot)})


def figures(result: Result, times: Times, solo_mbit: float | None = None) -> Figures:
    """Of a run beside a background, if solo_mbit says what the foreground has alone."""
    foreground = result.flows["foreground"]
    from_s, to_s = foreground.flow.start_s + times.settle_s, foreground.flow.end_s
    rtts = result.rtts_ms(from_s, to_s)
    goodput = foreground.goodput_mbit(from_s, to_s)
    found = Figures(
        foreground_mbit=round(goodput, 2),
        foreground_kept=round(goodput / solo_mbit, 3) if solo_mbit else 1.0,
        ping_p50_ms=round(quantile(rtts, 0.50), 1),
        ping_p95_ms=round(quantile(rtts, 0.95), 1),
        pings_lost=result.pings_lost,
    )
    if not solo_mbit:
        return found
    background = result.flows["background"]
    back = background.reaches(0.8 * solo_mbit, to_s, 1.0)
    return replace(
        found,
        background=background.controller,
        background_mbit=round(background.goodput_mbit(from_s, to_s), 2),
        background_back_s=None if back is None else round(back, 1),
    )


@dataclass(frozen=True)
class Runs:
    """All of them, and where they were made."""

    kernel: str
    virtual: bool
    results: list[Result]


def outcome_of(made: Runs, times: Times, plot: Path) -> Outcome:
    results = made.results
    solo = figures(results[0], times)
    runs = {results[0].experiment.name: solo}
    for result in results[1:]:
        runs[result.experiment.name] = figures(result, times, solo.foreground_mbit)
    late = round(max(result.late_part for result in results), 4)
    return Outcome(made.kernel, made.virtual, results[1].flows["background"].controller, runs, late, plot)


# --- what the terminal shows -----------------------------------------------------------------------------------------


def headline() -> str:
    return (
        f"bottleneck {LINK.rate_mbit:g} Mbit/s, {LINK.rtt_ms:g} ms round trip, "
        f"drop-tail buffer {LINK.buffer_bytes // 1000} kB ({LINK.buffer_ms:g} ms: one bandwidth-delay product)"
    )


def table(outcome: Outcome) -> list[str]:
    lines = [
        f"{'':26}{'foreground':>12}{'kept':>7}{'background':>12}{'ping p50':>10}{'p95':>8}",
        f"{'':26}{'Mbit/s':>12}{'':>7}{'Mbit/s':>12}{'ms':>10}{'ms':>8}",
    ]
    for name, run in outcome.runs.items():
        label = f"{name} (the default)" if run.background == outcome.default else name
        background = "-" if run.background_mbit is None else f"{run.background_mbit:.1f}"
        lines.append(
            f"{label:26}{run.foreground_mbit:12.1f}{run.foreground_kept:7.0%}{background:>12}"
            f"{run.ping_p50_ms:10.0f}{run.ping_p95_ms:8.0f}"
        )
    return lines


def sparks(result: Result, blocks: str) -> list[str]:
    end = result.experiment.end_s
    lines = [
        f"{result.experiment.name}: foreground from {result.flows['foreground'].flow.start_s:g} s "
        f"to {result.flows['foreground'].flow.end_s:g} s of {end:g} s"
    ]
    for name in ("foreground", "background"):
        _, values = chart.rates(result.flows[name], end, end / SPARK_COLUMNS)
        lines.append(f"  {name}  {chart.sparkline(values, LINK.rate_mbit, blocks)}")
    return lines


def conclusion(outcome: Outcome) -> list[str]:
    theirs = outcome.runs[f"beside {outcome.default}"]
    lines = [f"Beside {outcome.default} the foreground kept {theirs.foreground_kept:.0%} of what it has alone."]
    for name in CONTROLLERS:
        ours = outcome.runs[f"beside {name}"]
        lines.append(f"Beside {name} it kept {ours.foreground_kept:.0%}; when it ended, {back_again(name, ours)}.")
    if outcome.late_part > NOISY:
        late = f"{outcome.late_part:.1%} of the packets came over 1 ms late"
        lines.append(f"This machine was busy: {late}; the figures are rough.")
    return lines


def back_again(name: str, ours: Figures) -> str:
    if ours.background_back_s is None:
        return f"{name} did not reach 80 % of the link in the time shown"
    return f"{name} had 80 % of the link again after {ours.background_back_s:.1f} s"


def try_it(outcome: Outcome, ours: Result) -> list[str]:
    """How the background was started, and any other one can be."""
    if outcome.virtual:
        return []
    netnice = os.path.relpath(native.NETNICE)
    live = f"The last background was `{netnice} iperf3 ...`. " if ours.flows["background"].flow.netnice else ""
    return [f"{live}Try it yourself: sudo {netnice} rsync ..."]


def blocks_for_terminal() -> str:
    encoding = (sys.stdout.encoding or "ascii").lower()
    return chart.BLOCKS if encoding.startswith("utf") else chart.ASCII_BLOCKS


def show(outcome: Outcome, results: list[Result]) -> None:
    lines = ["", *table(outcome), ""]
    for result in results[1:]:
        lines += [*sparks(result, blocks_for_terminal()), ""]
    lines += [*conclusion(outcome), f"Plot: {os.path.relpath(outcome.plot)}", *try_it(outcome, results[-1])]
    print("\n".join(lines), flush=True)


def draw(outcome: Outcome, results: list[Result]) -> None:
    columns = []
    for result in results[1:]:
        run = outcome.runs[result.experiment.name]
        note = ", the default" if run.background == outcome.default else ""
        columns.append((f"beside {run.background}{note}\nthe foreground keeps {run.foreground_kept:.0%}", result))
    title = f"A {FOREGROUND} foreground joins a background transfer, and leaves"
    place = f"; Linux {outcome.kernel.partition('+')[0]} in virtual time" if outcome.virtual else ""
    chart.draw(outcome.plot, title, headline() + place, columns, outcome.runs["alone"].foreground_mbit)


# --- main ------------------------------------------------------------------------------------------------------------


def all_of(default: str, times: Times, netnice: Collection[str] = ()) -> list[Experiment]:
    """`netnice`: the controllers that are started by it."""
    ours = (beside(name, times, name in netnice) for name in CONTROLLERS)
    return [alone(times), beside(default, times), *ours]


def announce(say: Progress, default: str, whose: str) -> None:
    say.line(f"ccbpf demo: {headline()}")
    say.line(
        f"foreground {FOREGROUND}; background {default} ({whose}), then {' and '.join(CONTROLLERS)}; about {say.total_s:.0f} s"
    )


def native_runs(times: Times, say: Progress) -> Runs:
    native.require()
    default = default_controller()
    announce(say, default, "this kernel's default")
    results = []
    with enabled(say) as netnice:
        for experiment in all_of(default, times, netnice):
            say.signals.check()
            say.phase = experiment.name
            results.append(native.run(experiment, say.watch))
    return Runs(platform.release(), False, results)


def virtual_runs(times: Times, say: Progress, lacking: Lack | None) -> Runs:
    """The same in guests, because of what is lacking here."""
    from . import demo_virtual  # of no use to who does not need it

    why = f"This machine cannot run them: {lacking.words}; so" if lacking else "As asked,"
    say.line(f"{why} the demo runs in the virtual-time lab, on Linux {demo_virtual.KERNEL} in QEMU.")
    scratch = Path(tempfile.mkdtemp(prefix="ccbpf-demo."))
    before, tempfile.tempdir = tempfile.tempdir, str(scratch)  # so that all is gone, whenever a signal comes
    try:
        with say.signals.at_once():
            demo_virtual.install(say.line)
            guest = demo_virtual.prepare(say.line)
            default = default_controller()
            if not demo_virtual.controller_in(guest, default):
                say.line(f"{default}, the default here, is not in Linux {guest.release}: {FOREGROUND} stands for it")
                default = FOREGROUND
            experiments = all_of(default, times)
            say.start(demo_virtual.estimate_s(experiments))
            announce(say, default, "the default")
            results = []
            for experiment in experiments:
                say.phase = experiment.name
                results.append(demo_virtual.run(experiment, scratch / experiment.name, say.watch_virtual))
        return Runs(guest.release, True, results)
    except demo_virtual.LabError as error:
        say.signals.check()
        code = lacking.code if lacking else EXIT_FAILURE
        raise Stop(code, f"the virtual-time lab failed: {error}") from error
    finally:
        tempfile.tempdir = before
        shutil.rmtree(scratch, ignore_errors=True)


def demo(times: Times, signals: Signals, plot: Path, virtual: bool = False) -> tuple[Outcome, list[Result]]:
    say = Progress(times.total_s, signals)
    try:
        lacking = None if virtual else lack()
        made = virtual_runs(times, say, lacking) if virtual or lacking else native_runs(times, say)
        signals.check()
        outcome = outcome_of(made, times, plot)
        draw(outcome, made.results)
        return outcome, made.results
    except native.LabError:
        signals.check()  # a signal to the whole group ends the lab's commands too
        raise
    finally:
        say.clear()


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make demo", description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("-j", "--json", action="store_true", help="only the result on stdout, as JSON")
    parser.add_argument("--quick", action="store_true", help="a fifth of the time: shows that it works, not how well")
    parser.add_argument("--virtual", action="store_true", help="in the virtual-time lab, wherever this is")
    parser.add_argument("--plot", type=Path, default=PLOT, help="where the picture goes (%(default)s)")
    return parser.parse_args()


def main() -> int:
    options = arguments()
    with Signals() as signals:
        try:
            outcome, results = demo(Times.scaled(0.2 if options.quick else 1.0), signals, options.plot, options.virtual)
            if options.json:
                print(outcome.as_json(), flush=True)
            else:
                show(outcome, results)
        except Stop as stop:
            print(f"demo: {stop}", file=sys.stderr)
            return stop.code
        except native.LabError as error:
            print(f"demo: the lab failed: {error}", file=sys.stderr)
            return EXIT_FAILURE
        except PermissionError as error:
            print(f"demo: {error}; another user made it: remove it, or work in a clone of your own", file=sys.stderr)
            return EXIT_PERMISSION
        except BrokenPipeError:  # the reader of our output left
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return EXIT_FAILURE
    return 0


if __name__ == "__main__":
    sys.exit(main())
