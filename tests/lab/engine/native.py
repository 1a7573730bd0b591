# SPDX-License-Identifier: GPL-2.0-only
"""The native lab: an experiment on this kernel, in network namespaces, in real time.

    sender ──veth── router ──tun, tbf──▶ delayline ──tun── receiver
    10.0.1.2        the bottleneck       half the RTT      10.0.2.2
    fd00:1::2                            each way          fd00:2::2

The bottleneck is the router's tbf, whose byte limit is the drop-tail buffer. The way back has no bottleneck. Senders
are iperf3, and goodput is what the receiving iperf3 reports every 0.1 s; ping measures the round trip through the
queue beside them. The veth pair has no offloads, so that a queue is made of packets of at most 1500 bytes.

Everything lives in three namespaces `ccbpf-lab.<pid>.<start time of pid>.<n>.<role>` and in children of this process;
nothing outside is touched. They are removed with the Path, however it ends; the next run removes what a killed run left.
"""

from __future__ import annotations

import itertools
import json
import os
import re
import selectors
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path as FilePath
from types import TracebackType

from tests import owner

from .experiment import Experiment, FlowResult, Link, Result, Sample

REPOSITORY = FilePath(__file__).resolve().parents[3]
DELAYLINE = REPOSITORY / "build/tests/delayline"
NETNICE = REPOSITORY / "build/netnice"

SLOTS = 4096  # packets that the delay line holds in each direction
FAULTS_OF = 10_000  # packets, of which it is told how many meet a fault

NAME = "ccbpf-lab"
ROLES = ("sender", "router", "receiver")
RECEIVER = {4: "10.0.2.2", 6: "fd00:2::2"}
FIRST_PORT = 5201

SAMPLE_S = 0.1  # iperf3's shortest interval
TICK_S = 0.2  # backlog samples and progress
GRACE_S = 10.0  # after its end a starved flow may take this long to say so
SOCKETS_S = 3.0  # time for two ends to close a connection, at worst through a full buffer and a loss
COMMAND_S = 10.0  # a single ip, tc, sysctl
BURST_MS = 2.0  # tbf's bucket: a wake-up this late costs no rate

_counter = itertools.count()


class LabError(Exception):
    """The lab itself failed: never a result of an experiment."""


# --- processes -------------------------------------------------------------------------------------------------------


def environment() -> dict[str, str]:
    """The environment of every process here: a locale with decimal points, and /usr/sbin in PATH also after a plain `su`."""
    return {**os.environ, "LC_ALL": "C", "PATH": f"{os.environ.get('PATH', '')}:/usr/local/sbin:/usr/sbin:/sbin"}


def command(*arguments: str, stdin: str | None = None) -> str:
    """Runs a short command and returns its stdout."""
    try:
        done = subprocess.run(
            arguments,
            input=stdin,
            capture_output=True,
            text=True,
            timeout=COMMAND_S,
            process_group=0,
            env=environment(),
        )
    except FileNotFoundError as error:
        raise LabError(f"{arguments[0]}: not installed; `make deps` installs it") from error
    except subprocess.TimeoutExpired as error:
        raise LabError(f"{' '.join(arguments)}: no end after {COMMAND_S:g} s") from error
    if done.returncode:
        raise LabError(f"{' '.join(arguments)}: exit code {done.returncode}: {done.stderr.strip() or 'no message'}")
    return done.stdout


class Child:
    """A process of the lab, which dies with us; its stdout line by line, stamped with CLOCK_MONOTONIC."""

    def __init__(self, arguments: list[str], stdin: int | None = subprocess.DEVNULL) -> None:
        self.lines: list[str] = []
        self.on_line: Callable[[str, float], None] = lambda line, at: self.lines.append(line)
        self._partial = b""
        # Its own process group: a Ctrl-C reaches us alone, and we end it in good order.
        self.process = subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", *arguments],
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            process_group=0,
            env=environment(),
        )

    @property
    def fd(self) -> int:
        assert self.process.stdout is not None
        return self.process.stdout.fileno()

    def read(self) -> bool:
        """Reads what is available (the fd was polled as readable); False at the end of the output."""
        data = os.read(self.fd, 65536)
        at = time.monotonic()
        *lines, self._partial = (self._partial + data).split(b"\n")
        for line in lines:
            self.on_line(line.decode(errors="replace"), at)
        return bool(data)

    def drain(self, seconds: float, until: Callable[[], bool] = lambda: False) -> None:
        """Reads until the output ends, or `until` holds, or the time is over."""
        end = time.monotonic() + seconds
        with selectors.DefaultSelector() as selector:
            selector.register(self.fd, selectors.EVENT_READ)
            while not until() and (left := end - time.monotonic()) > 0:
                if selector.select(left) and not self.read():
                    return

    def end(self, seconds: float = 2.0) -> None:
        """Sends SIGTERM, and SIGKILL if the process does not end in time."""
        self.process.terminate()
        if self.process.stdin:
            self.process.stdin.close()
        self.drain(seconds)
        try:
            self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        if self.process.stdout:
            self.process.stdout.close()


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Blocks SIGINT, SIGTERM and SIGHUP in the block: what it builds is either complete or removed."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM, signal.SIGHUP})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


# --- names and leftovers ---------------------------------------------------------------------------------------------


def namespaces() -> list[str]:
    return [line.split()[0] for line in command("ip", "netns", "list").splitlines() if line.strip()]


def owner_of(namespace: str) -> int | None:
    """The process that a namespace of the lab belongs to; 0 if that process has ended, None if the namespace is not the lab's."""
    match = re.fullmatch(rf"{NAME}\.(\d+)\.(\d+)\.\d+\.\w+", namespace)
    if not match:
        return None
    return int(match[1]) if owner.lives(int(match[1]), match[2]) else 0


def remove_leftovers() -> list[str]:
    """Removes the namespaces of runs whose process is gone, and what still runs in them; returns their names."""
    removed = [name for name in namespaces() if owner_of(name) == 0]
    for name in removed:
        try:
            for pid in command("ip", "netns", "pids", name).split():
                os.kill(int(pid), signal.SIGKILL)
            command("ip", "netns", "del", name)
        except (LabError, ProcessLookupError):
            if name in namespaces():  # and not removed by another run meanwhile
                raise
    return removed


# --- the path --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Faults:
    """Of the packets to the receiver the share that is lost, that arrives twice, that arrives before all that are on their way."""

    lost: float = 0.0
    twice: float = 0.0
    early: float = 0.0


class Path:
    """The topology, alive while the `with` block runs. It takes about 0.3 s to build."""

    def __init__(self, link: Link, faults: Faults | None = None) -> None:
        self.link = link
        self.faults = faults or Faults()
        self.wire: dict[str, object] = {}  # the delay line's statistics, after the end
        run = f"{NAME}.{os.getpid()}.{owner.start_time(os.getpid())}.{next(_counter)}"
        self.sender, self.router, self.receiver = (f"{run}.{role}" for role in ROLES)
        self._children: list[Child] = []
        self._delayline: Child | None = None

    def __enter__(self) -> Path:
        require()
        remove_leftovers()
        with uninterrupted():
            try:
                self._make()
            except BaseException:
                self._unmake()
                raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        with uninterrupted():
            self._unmake()

    def command(self, namespace: str, *arguments: str) -> str:
        return command("ip", "netns", "exec", namespace, *arguments)

    def start(self, namespace: str, *arguments: str) -> Child:
        """Starts a process in a namespace; it ends with the path at the latest."""
        child = Child(["ip", "netns", "exec", namespace, *arguments])  # not in uninterrupted(): it would inherit that
        self._children.append(child)
        return child

    def queue(self) -> tuple[int, int]:
        """Bytes in the bottleneck's queue now, packets that it dropped so far."""
        root = json.loads(command("tc", "-n", self.router, "-j", "-s", "qdisc", "show", "dev", "wire"))[0]
        return int(root["backlog"]), int(root["drops"])

    def _make(self) -> None:
        for name in (self.sender, self.router, self.receiver):
            command("ip", "netns", "add", name)
            settings = {
                "net.ipv4.tcp_no_metrics_save": 1,  # a flow must not take over metrics of the flow before
                "net.ipv6.conf.default.accept_dad": 0,
                "net.ipv4.ip_forward": 1,
                "net.ipv6.conf.all.forwarding": 1,
            }
            self.command(name, "sysctl", "-qw", *(f"{key}={value}" for key, value in settings.items()))
        self._start_delayline()
        command("ip", "-n", self.router, "link", "add", "veth", "type", "veth", "peer", "veth", "netns", self.sender)
        for name in (self.sender, self.router):
            self.command(name, "ethtool", "-K", "veth", "tso", "off", "gso", "off", "gro", "off")
        self._ip(self.sender, "addr add 10.0.1.2/24 dev veth", "addr add fd00:1::2/64 dev veth", "link set veth up")
        self._ip(self.sender, "route add default via 10.0.1.1", "route add default via fd00:1::1")
        self._ip(self.router, "addr add 10.0.1.1/24 dev veth", "addr add fd00:1::1/64 dev veth", "link set veth up")
        self._ip(self.router, "addr add 10.0.2.1/24 dev wire", "addr add fd00:2::1/64 dev wire", "link set wire up")
        self._ip(self.receiver, "addr add 10.0.2.2/24 dev wire", "addr add fd00:2::2/64 dev wire", "link set wire up")
        self._ip(self.receiver, "route add default via 10.0.2.1", "route add default via fd00:2::1")
        self._set_bottleneck()

    def _ip(self, namespace: str, *commands: str) -> None:
        command("ip", "-n", namespace, "-batch", "-", stdin="\n".join(commands) + "\n")

    def _start_delayline(self) -> None:
        ends = [item for name in (self.router, self.receiver) for item in (f"/run/netns/{name}", "wire")]
        one_way_us = round(self.link.rtt_ms * 500)
        faults = self.faults
        often = (str(round(share * FAULTS_OF)) for share in (faults.lost, faults.twice, faults.early))
        line = Child([str(DELAYLINE), *ends, str(one_way_us), str(SLOTS), *often], stdin=subprocess.PIPE)
        self._delayline = line
        line.drain(5.0, until=lambda: bool(line.lines))
        if not line.lines or "ready" not in line.lines[0]:
            raise LabError(f"the delay line did not start: {' '.join(line.lines) or 'no output in 5 s'}")

    def _set_bottleneck(self) -> None:
        link = self.link
        burst = max(2 * 1500, round(link.rate_mbit * 1e3 / 8 * BURST_MS))
        queue = f"rate {link.rate_mbit}mbit burst {burst} limit {link.buffer_bytes}"
        command("tc", "-n", self.router, "qdisc", "add", "dev", "wire", "root", "tbf", *queue.split())

    def _unmake(self) -> None:
        for child in self._children:
            child.process.terminate()
        for child in self._children:
            child.end()
        self._children.clear()
        present = set(namespaces())
        self._wait_for_sockets(present)
        if self._delayline:
            self._delayline.end()
            if len(self._delayline.lines) > 1:
                self.wire = json.loads(self._delayline.lines[1])
            self._delayline = None
        for name in (self.sender, self.router, self.receiver):
            if name in present:
                command("ip", "netns", "del", name)

    def _wait_for_sockets(self, present: set[str]) -> None:
        """Waits while the path still exists, so that both ends see the connection close. A socket that is cut off retransmits for
        minutes, and keeps its namespace and its controller in use."""
        end = time.monotonic() + SOCKETS_S
        for name in present & {self.sender, self.receiver}:
            while command("ss", "-HtnN", name, "state", "connected", "exclude", "time-wait"):
                if time.monotonic() > end:
                    return
                time.sleep(0.02)


def require() -> None:
    """Raises LabError naming what this machine lacks for the lab."""
    if os.geteuid() != 0:
        raise LabError("the native lab makes network namespaces: it needs root (CAP_NET_ADMIN and CAP_SYS_ADMIN)")
    tools = ("ip", "tc", "ss", "ethtool", "iperf3", "ping", "sysctl", "setpriv")
    if missing := [tool for tool in tools if not shutil.which(tool, path=environment()["PATH"])]:
        raise LabError(f"not installed: {', '.join(missing)}; `make deps` installs them")
    if not DELAYLINE.exists():
        raise LabError(f"{DELAYLINE}: not built; `make all` builds it")


# --- one run ---------------------------------------------------------------------------------------------------------

INTERVAL = re.compile(r"\[\s*\d+\]\s+([\d.]+)-([\d.]+)\s+sec\s+[\d.]+ \S*Bytes\s+([\d.]+) Kbits/sec\s*$")
ECHO = re.compile(r"icmp_seq=(\d+) .*time=([\d.]+) ms")


@dataclass
class _Transfer:
    """An iperf3 pair: the server's intervals as they arrive, the client's report at the end."""

    result: FlowResult
    port: int
    server: Child
    client: Child | None = None
    listening: bool = False
    anchor_s: float = float("inf")  # when the server's clock read 0
    intervals: list[tuple[float, float, float]] = field(default_factory=list)

    def hear(self, line: str, at_s: float) -> None:
        if "Server listening" in line:
            self.listening = True
        elif match := INTERVAL.match(line):  # the summary ends in "receiver" and does not match
            start, end, kbit = (float(text) for text in match.groups())
            self.anchor_s = min(self.anchor_s, at_s - end)
            if end > start:
                self.intervals.append((start, end, kbit / 1e3 * (end - start)))

    def samples(self) -> list[Sample]:
        return [Sample(self.anchor_s + a, self.anchor_s + b, megabits) for a, b, megabits in self.intervals]


@dataclass(frozen=True)
class Progress:
    """For the `watch` function of a run: the time, and each flow's goodput in the last second."""

    at_s: float
    end_s: float
    goodput_mbit: dict[str, float]
    rtt_ms: float


class Run:
    """One experiment over one path."""

    def __init__(self, path: Path, experiment: Experiment, watch: Callable[[Progress], None] | None) -> None:
        self.path, self.experiment, self.watch = path, experiment, watch
        self.result = Result(experiment)
        self.transfers: list[_Transfer] = []
        self.start_s = 0.0  # CLOCK_MONOTONIC
        self.last_echo = 0

    def __call__(self) -> Result:
        self._start_servers()
        self._start_ping()
        self._loop()
        for transfer in self.transfers:
            self._finish(transfer)
        self.result.queue_drops = self.path.queue()[1]
        self.result.pings_lost = self.last_echo - len(self.result.pings)
        return self.result

    @property
    def now_s(self) -> float:
        return time.monotonic() - self.start_s

    def _heard(self, transfer: _Transfer, line: str, at_s: float) -> None:
        transfer.hear(line, at_s - self.start_s)

    def _start_servers(self) -> None:
        for number, flow in enumerate(self.experiment.flows):
            port = FIRST_PORT + number
            options = f"-s -1 -p {port} -i {SAMPLE_S} -f k --forceflush"
            server = self.path.start(self.path.receiver, "iperf3", *options.split())
            transfer = _Transfer(FlowResult(flow), port, server)
            self.transfers.append(transfer)
            server.on_line = partial(self._heard, transfer)
            server.drain(5.0, until=partial(getattr, transfer, "listening"))
            if not transfer.listening:
                raise LabError(f"iperf3 for flow {flow.name} did not listen on port {port} within 5 s")

    def _start_ping(self) -> None:
        every, bound = self.experiment.ping_every_s, self.experiment.end_s + GRACE_S
        options = f"-n -i {every} -w {round(bound)} {RECEIVER[4]}"
        self.ping = self.path.start(self.path.sender, "ping", *options.split())
        self.ping.on_line = self._hear_ping

    def _hear_ping(self, line: str, at: float) -> None:
        if match := ECHO.search(line):
            self.last_echo = int(match[1])
            self.result.pings.append((at - self.start_s, float(match[2])))

    def _start_client(self, transfer: _Transfer) -> None:
        flow = transfer.result.flow
        options = f"-c {RECEIVER[flow.family]} -p {transfer.port} -t {flow.client_s} -i 0 --json --connect-timeout 3000"
        words = ["iperf3", *options.split()]
        words = [str(NETNICE), "-q", flow.controller, *words] if flow.netnice else [*words, "-C", flow.controller]
        transfer.client = self.path.start(self.path.sender, *words)

    def _loop(self) -> None:
        """Waits until every flow has ended, at most until GRACE_S after the experiment's end."""
        self.start_s = time.monotonic()
        waiting = sorted(self.transfers, key=lambda t: t.result.flow.start_s)
        next_tick = 0.0
        with selectors.DefaultSelector() as selector:
            for child in (self.ping, *(t.server for t in self.transfers)):
                selector.register(child.fd, selectors.EVENT_READ, child)
            while self._unfinished(waiting):
                while waiting and waiting[0].result.flow.start_s <= self.now_s:
                    transfer = waiting.pop(0)
                    self._start_client(transfer)
                    assert transfer.client
                    selector.register(transfer.client.fd, selectors.EVENT_READ, transfer.client)
                if next_tick <= self.now_s:
                    self._tick()
                    next_tick = max(next_tick + TICK_S, self.now_s)
                wake = min([next_tick, *(t.result.flow.start_s for t in waiting[:1])])
                for key, _ in selector.select(max(0.0, wake - self.now_s)):
                    if not key.data.read():
                        selector.unregister(key.fd)

    def _unfinished(self, waiting: list[_Transfer]) -> bool:
        now = self.now_s
        if now < self.experiment.end_s:
            return True
        running = any(t.client and t.client.process.poll() is None for t in self.transfers)
        return bool(waiting or running) and now < self.experiment.end_s + GRACE_S

    def _tick(self) -> None:
        now = self.now_s
        self.result.backlog.append((now, self.path.queue()[0]))
        if not self.watch:
            return
        rates = {}
        for transfer in self.transfers:
            recent = FlowResult(transfer.result.flow, transfer.samples()[-15:])
            rates[transfer.result.flow.name] = recent.goodput_mbit(now - 1.1, now - 0.1)
        rtt = self.result.pings[-1][1] if self.result.pings else float("nan")
        self.watch(Progress(now, self.experiment.end_s, rates, rtt))

    def _finish(self, transfer: _Transfer) -> None:
        flow = transfer.result.flow
        assert transfer.client
        transfer.client.drain(1.0)
        text = "\n".join(transfer.client.lines)
        try:
            report = json.loads(text)
        except ValueError as error:
            said = text[-300:] or "no output"
            raise LabError(f"iperf3 of flow {flow.name} ended without a report: {said}") from error
        if "error" in report:
            raise LabError(f"iperf3 of flow {flow.name} ({flow.controller}): {report['error']}")
        transfer.result.controller = report["end"].get("sender_tcp_congestion", "")
        transfer.result.retransmits = int(report["end"]["sum_sent"].get("retransmits", 0))
        if transfer.result.controller != flow.controller:
            raise LabError(
                f"flow {flow.name} asked for {flow.controller} and its socket used {transfer.result.controller or '?'}"
            )
        transfer.result.samples = transfer.samples()
        self.result.flows[flow.name] = transfer.result


def run(experiment: Experiment, watch: Callable[[Progress], None] | None = None) -> Result:
    """Runs an experiment over a path of its own. `watch` is called every 0.2 s; what it raises ends the run."""
    with ExitStack() as stack:
        path = stack.enter_context(Path(experiment.link))
        result = Run(path, experiment, watch)()
    result.wire = path.wire
    return result


def run_all(experiments: Sequence[Experiment], at_once: int = 2) -> list[Result]:
    """Runs experiments, some at once, each over a path of its own. The first failure, or Ctrl-C, ends the others."""
    stop = threading.Event()

    def watch(_: Progress) -> None:
        if stop.is_set():
            raise LabError("ended, because another run failed or was interrupted")

    with ThreadPoolExecutor(at_once) as pool:
        futures = [pool.submit(run, experiment, watch) for experiment in experiments]
        try:
            return [future.result() for future in futures]
        except BaseException:
            stop.set()
            for future in futures:
                future.cancel()
            raise
