# SPDX-License-Identifier: GPL-2.0-only
"""QEMU as a process whose guest sees the same instructions and the same clock in every run, however busy the host is.

With -icount the clock of a guest counts its instructions, and when the guest is idle the clock jumps to the next timer.
Two threads of QEMU take part: the vCPU executes the guest, the main loop makes the jump. Each timer of the guest wakes
the main loop. If it then runs while the vCPU is about to halt, it reads an instruction count to which the last
instructions are not yet added, and the jump is too long (QEMU's accel/tcg/tcg-accel-ops-rr.c: the vCPU is marked as
halted before icount_process_data; icount_start_warp_timer tests that mark). So the two must never run together:

  lockstep  All threads have one core. The vCPU is an ordinary process; every other thread has SCHED_FIFO. The host then
            runs the vCPU only while all others sleep, and what wakes them is only the vCPU. Needs CAP_SYS_NICE or
            RLIMIT_RTPRIO.
  record    QEMU records events for a later replay, into nothing, and takes a lock around both threads. Needs no
            privilege, and takes 1.4 to 1.9 times as long.

Both give the same bytes. In lockstep a busy host only takes time from the guest, as from any process. The vCPU must not
have SCHED_FIFO: a vCPU that computes for seconds keeps other threads of its core waiting, and one that waits inside the
kernel holds up RCU-tasks grace periods, and with them every freed BPF program, for the whole host.

The threads are set while the guest is stopped (-S), by way of QEMU's text monitor: a QMP monitor has a thread of its
own, which each timer of the guest wakes as well (1.6 times the system time).
"""

from __future__ import annotations

import os
import re
import selectors
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from ..guest.errors import LabError

QEMU = "qemu-system-x86_64"
LOCKSTEP, RECORD = "lockstep", "record"
MODES = (LOCKSTEP, RECORD)
VARIABLE = "CCBPF_LAB_MODE"
PRIORITY = 1  # of SCHED_FIFO: above every ordinary process is enough
NICE = 10  # of a recording QEMU
POLL_S = 0.2  # the console's lines, the time-out
STUCK_S = 60.0  # without any processor time; the busiest host gives some
MONITOR_S = 60.0  # for an answer of the monitor; the host may be busy
PROMPT = b"(qemu) "
REMEDY = f"{VARIABLE}={RECORD} runs without placing threads"
MONITOR = ["-S", "-chardev", "stdio,id=monitor,signal=off", "-mon", "chardev=monitor,mode=readline"]


# --- the mode --------------------------------------------------------------------------------------------------------


def lockstep_allowed() -> bool:
    """Whether this process may use SCHED_FIFO; a separate thread tries it."""
    allowed = threading.Event()

    def attempt() -> None:
        try:
            os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(PRIORITY))  # 0: this thread
        except OSError:
            return
        allowed.set()

    thread = threading.Thread(target=attempt)
    thread.start()
    thread.join()
    return allowed.is_set()


def choose_mode() -> str:
    """What CCBPF_LAB_MODE asks for, else lockstep where it is allowed."""
    asked = os.environ.get(VARIABLE)
    if asked and asked not in MODES:
        raise LabError(f"{VARIABLE}={asked}: there are {' and '.join(MODES)}")
    allowed = asked != RECORD and lockstep_allowed()
    if asked == LOCKSTEP and not allowed:
        raise LabError(f"{VARIABLE}={LOCKSTEP}: this process may not use SCHED_FIFO; run as root, or take {VARIABLE}={RECORD}")
    return LOCKSTEP if allowed else RECORD


# --- the process -----------------------------------------------------------------------------------------------------


def run(arguments: Sequence[str], core: int | None, log: Path, timeout_s: float, poll: Callable[[], None]) -> int | str:
    """Runs QEMU in lockstep on this core, or (None) recording on any core. Returns its exit code, or a text that says why it
    was killed.

    Its messages go to `log`; `poll` is called now and then. It dies with us, and leaves nothing running.
    """
    process = _start(arguments, core, log)
    try:
        if core is not None:
            _go_in_lockstep(process, core)
        return _wait(process, timeout_s, poll)
    finally:
        process.kill()
        with process:  # the monitor's pipes stay open until here: closing one would wake the main loop
            process.wait()
        poll()


def _wait(process: subprocess.Popen[bytes], timeout_s: float, poll: Callable[[], None]) -> int | str:
    """The time-out is of processor time: a busy host is no failure of the guest. A guest always computes, or its clock
    jumps, so a QEMU that takes no processor time has stopped."""
    used_s, since = 0.0, time.monotonic()
    while True:
        try:
            return process.wait(POLL_S)
        except subprocess.TimeoutExpired:
            poll()
        now_s = processor_s(str(process.pid))
        if now_s >= timeout_s:
            return f"no end after {timeout_s:g} s of processor time"
        if now_s > used_s:
            used_s, since = now_s, time.monotonic()
        elif time.monotonic() - since > STUCK_S:
            return f"QEMU did nothing for {STUCK_S:.0f} s"


def processor_s(entry: str) -> float:
    """The processor time of an entry of /proc: PID (all its threads together) or PID/task/TID."""
    fields = Path("/proc", entry, "stat").read_text().rpartition(")")[2].split()
    user, system = int(fields[11]), int(fields[12])  # proc_pid_stat(5): fields 14 and 15
    return (user + system) / os.sysconf("SC_CLK_TCK")


def _start(arguments: Sequence[str], core: int | None, log: Path) -> subprocess.Popen[bytes]:
    prefix = ["setpriv", "--pdeathsig", "KILL"]
    if core is None:
        command, pipes = [*prefix, "nice", "-n", str(NICE), *arguments], subprocess.DEVNULL
    else:
        command, pipes = [*prefix, *arguments, *MONITOR], subprocess.PIPE
    try:
        with log.open("wb") as messages:
            return subprocess.Popen(command, stdin=pipes, stdout=pipes, stderr=messages, process_group=0)
    except FileNotFoundError as error:
        raise LabError("setpriv: not installed; `make deps` installs it") from error


def _go_in_lockstep(process: subprocess.Popen[bytes], core: int) -> None:
    """Places the threads of a stopped QEMU and starts its guest. Does nothing if QEMU has ended: its exit
    code says why."""
    assert process.stdin
    try:
        _answer(process)
        process.stdin.write(b"info cpus\n")
        process.stdin.flush()
        words = _answer(process)
        match = re.search(rb"thread_id=(\d+)", words)
        if not match:
            raise LabError(f"QEMU names no vCPU thread: {words.decode(errors='replace').strip()}; {REMEDY}")
        place(process.pid, int(match[1]), core)
        process.stdin.write(b"cont\n")
        process.stdin.flush()
    except (EOFError, BrokenPipeError):
        return


def _answer(process: subprocess.Popen[bytes]) -> bytes:
    """What the monitor says until its next prompt."""
    assert process.stdout
    words = b""
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        while not words.endswith(PROMPT):
            if not selector.select(MONITOR_S):
                raise LabError(f"QEMU's monitor did not answer within {MONITOR_S:.0f} s; {REMEDY}")
            new = os.read(process.stdout.fileno(), 4096)
            if not new:
                raise EOFError
            words += new
    return words


def place(process: int, vcpu: int, core: int) -> None:
    """All threads on this core; SCHED_FIFO for all but the vCPU."""
    threads = [int(name) for name in os.listdir(f"/proc/{process}/task")]
    if vcpu not in threads:
        raise LabError(f"QEMU says that its vCPU is thread {vcpu}, which it does not have; {REMEDY}")
    try:
        for thread in threads:
            os.sched_setaffinity(thread, {core})
            if thread != vcpu:
                os.sched_setscheduler(thread, os.SCHED_FIFO, os.sched_param(PRIORITY))
    except OSError as error:
        raise LabError(f"QEMU's threads on core {core}: {error.strerror}; {REMEDY}") from error
