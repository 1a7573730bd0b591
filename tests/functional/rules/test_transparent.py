# SPDX-License-Identifier: GPL-2.0-only
"""`ccbpf run`: neither the command nor its caller notices it: status, signals, terminal, user, limits, files."""

from __future__ import annotations

import fcntl
import json
import os
import pwd
import re
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from tests.cgroups import cgroups_of_runs
from tests.functional import kernel
from tests.functional.conftest import CCBPF, Cli
from tests.functional.rules.background import BACKGROUND, ENDS_S, PYTHON, SYSTEM_PYTHON, Sinks, account

NOBODY = pwd.getpwnam("nobody")

# What a process finds of itself.
ITSELF = """
import json, os, sys
status = dict(line.split(":\\t", 1) for line in open("/proc/self/status").read().splitlines() if ":\\t" in line)
keys = ("SigBlk", "SigIgn", "Uid", "Gid", "Groups", "Umask", "CapEff", "CapBnd", "CapInh", "NoNewPrivs", "Seccomp")
fds = {}
for fd in os.listdir("/proc/self/fd"):
    try:
        fds[fd] = os.readlink("/proc/self/fd/" + fd)
    except OSError:
        pass
print(json.dumps({
    "status": {k: status[k] for k in keys}, "limits": open("/proc/self/limits").read(), "cwd": os.getcwd(),
    "env": dict(os.environ), "nice": os.nice(0), "argv": sys.argv, "sid": os.getsid(0),
    "fds": {fd: name for fd, name in fds.items() if not name.startswith("pipe:")},
    "oom": open("/proc/self/oom_score_adj").read(), "cpus": sorted(os.sched_getaffinity(0)),
}, sort_keys=True))
"""


def test_it_finds_all_as_without(run: Cli) -> None:
    setup = (
        "ulimit -n 333; ulimit -c 0; umask 0123; cd /usr; export ODD=$(printf 'a\\nb='); trap '' USR1 HUP; "
        'exec 7</etc/passwd; exec 2>/dev/null; exec "$@"'
    )

    def itself(*prefix: str) -> Any:
        words = ["nice", "-n", "3", "bash", "-c", setup, "bash", *prefix, PYTHON, "-c", ITSELF, "one two", "", "--help", "--"]
        done = subprocess.run(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, env=run.env(), timeout=ENDS_S, check=True)
        return json.loads(done.stdout)

    without = itself()
    assert itself(str(CCBPF), "run", "--") == without
    assert without["fds"]["7"] == "/etc/passwd" and without["argv"][1:] == ["one two", "", "--help", "--"]


def test_closed_standard_files_stay_closed(run: Cli) -> None:
    words = ["bash", "-c", '"$@" 0<&- 2>&-', "bash"]
    ls = ["bash", "-c", "test -e /proc/self/fd/0; echo $?; test -e /proc/self/fd/2; echo $?"]
    assert kernel.run(*words, CCBPF, "run", "-q", *ls, env=run.env()).stdout == kernel.run(*words, *ls).stdout


@pytest.mark.parametrize("ignored", ["", "PIPE", "CHLD"])
def test_ignored_signals_stay_ignored(run: Cli, ignored: str) -> None:
    words = ["bash", "-c", f"trap '' {ignored}; exec \"$@\"" if ignored else 'exec "$@"', "bash"]
    grep = ["grep", "SigIgn", "/proc/self/status"]
    without = kernel.run(*words, *grep, restore_signals=False).stdout
    assert kernel.run(*words, CCBPF, "run", "-q", *grep, env=run.env(), restore_signals=False).stdout == without


@pytest.mark.parametrize("code", [0, 1, 7, 125, 255])
def test_exit_codes(run: Cli, code: int) -> None:
    assert run.run("run", "sh", "-c", f"exit {code}").code == code


@pytest.mark.parametrize("name", ["SEGV", "KILL", "TERM", "INT", "PIPE"])
def test_a_command_that_a_signal_ends(run: Cli, name: str) -> None:
    assert run.run("run", "sh", "-c", f"kill -{name} $$").code == -getattr(signal, f"SIG{name}")


def test_what_cannot_be_executed(run: Cli, tmp_path: Path) -> None:
    assert "cannot run /no/such: No such file or directory" in run("run", "/no/such", code=127).err
    assert "Permission denied" in run("run", tmp_path, code=126).err
    assert run("-j", "run", "no-such-command", code=127).error["on"] == "no-such-command"
    assert run("-j", "run", tmp_path, code=126).error["why"] == "Permission denied"
    assert not (run.root / "runs").exists()


def test_usage(run: Cli) -> None:
    assert "no command is given; for example: `netnice rsync" in run("run", code=125).err
    assert "no command is given" in run("run", BACKGROUND, code=125).err
    assert "--dscp cs1" in run("run", "--dscp", "cs1", "true", code=125).err
    assert "there is no such user" in run("run", "--uid", "no-such-user", "true", code=125).err
    assert "option `--no-such` is unknown" in run("run", "--no-such", "true", code=125).err
    assert "--prepare USER --off" in run("-j", "run", "--off", "true", code=125).error["remedy"]
    assert "takes no command" in run("-j", "run", "--prepare", "nobody", "true", code=2).error["why"]
    assert run("run", "-q", "--", "echo", "-j", "--help", "-q").out == "-j --help -q\n"
    assert run("run", "-q", "echo", "--", "x").out == "-- x\n"
    assert run("run", "-q", BACKGROUND, "echo", "-j").out == "-j\n"


def test_netnice(run: Cli, tmp_path: Path, sinks: Sinks) -> None:
    (tmp_path / "netnice").symlink_to(CCBPF)
    netnice = Cli(run.root, run.environment, tmp_path / "netnice")
    assert netnice(BACKGROUND, *sinks.client()).out.split()[0] == BACKGROUND
    assert netnice("no-such", code=127).err.startswith("ccbpf: cannot run no-such")
    assert "Run a command in the background class" in netnice("--help").out


# --- signals and the terminal ---


def test_signals_are_sent_on(run: Cli) -> None:
    """Each once, and the command decides."""
    traps = 'for s in TERM INT HUP USR1; do trap "echo $s" $s; done; trap "echo QUIT; exit 3" QUIT'
    process = run.popen("run", "-q", "bash", "-c", f"{traps}; echo up; while :; do sleep 0.05; done", stdout=subprocess.PIPE)
    assert process.stdout and process.stdout.readline() == "up\n"
    for name in ("TERM", "INT", "HUP", "USR1", "QUIT"):
        process.send_signal(getattr(signal, f"SIG{name}"))
        assert process.stdout.readline() == f"{name}\n"
    assert process.wait(ENDS_S) == 3 and process.stdout.read() == ""


class Terminal:
    """A shell with job control on a terminal of its own."""

    def __init__(self, cli: Cli) -> None:
        self.pid, self.fd = os.forkpty()
        if self.pid == 0:
            environment = {**cli.env(), "PS1": "ready> ", "HISTFILE": "", "TERM": "dumb"}
            os.execvpe("bash", ["bash", "--norc", "--noprofile", "-i"], environment)
        self.seen = ""
        os.set_blocking(self.fd, False)
        self.expect("ready> ")

    def expect(self, pattern: str) -> str:
        """The output up to the end of this text."""

        def found() -> str | None:
            with suppress(BlockingIOError):
                self.seen += os.read(self.fd, 1 << 16).decode(errors="replace")
            match = re.search(pattern, self.seen)
            if not match:
                return None
            before, self.seen = self.seen[: match.end()], self.seen[match.end() :]
            return before

        return kernel.eventually(found, ENDS_S, f"{pattern!r} in {self.seen!r}")

    def type(self, keys: str) -> None:
        os.write(self.fd, keys.encode())

    def close(self) -> None:
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        os.close(self.fd)


@pytest.fixture
def terminal(run: Cli) -> Iterator[Terminal]:
    terminal = Terminal(run)
    yield terminal
    terminal.close()


# Says each signal and who sent it, and ends at SIGQUIT.
LISTENER = """
import signal, sys
signals = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT}
signal.pthread_sigmask(signal.SIG_BLOCK, signals)
print("it", "is", "up", sep="-", flush=True)
while True:
    info = signal.sigwaitinfo(signals)
    print("got", info.si_signo, "from", info.si_pid, sep="-", flush=True)
    if info.si_signo == signal.SIGQUIT:
        sys.exit(5)
"""


def test_control_c_reaches_it_once(terminal: Terminal, tmp_path: Path) -> None:
    """From the terminal, which is no process, and not again from ccbpf."""
    (tmp_path / "listener.py").write_text(LISTENER)
    terminal.type(f"{CCBPF} run -q {PYTHON} {tmp_path}/listener.py\n")
    terminal.expect("it-is-up")
    for _ in range(30):  # of two at the same instant the kernel keeps one
        terminal.type("\x03")
        assert not re.search("from-[1-9]", terminal.expect("got-2-from-0"))
        time.sleep(0.02)
    terminal.type("\x1c")
    assert "got-2" not in terminal.expect("got-3-from-0")
    terminal.type("echo status=$?\n")
    terminal.expect("status=5")


@contextmanager
def listening(run: Cli) -> Iterator[subprocess.Popen[str]]:
    """LISTENER, in a process group of its own."""
    process = run.popen("run", "-q", PYTHON, "-c", LISTENER, stdout=subprocess.PIPE, process_group=0)
    try:
        assert process.stdout and process.stdout.readline() == "it-is-up\n"
        yield process
        process.send_signal(signal.SIGQUIT)
        assert process.stdout.read() == f"got-3-from-{process.pid}\n", "and nothing else"
        assert process.wait(ENDS_S) == 5
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def to_the_group(process: subprocess.Popen[str], name: signal.Signals) -> None:
    """As `kill -- -PGID`, and a shell at its end."""
    os.killpg(process.pid, name)


def to_each(process: subprocess.Popen[str], name: signal.Signals) -> None:
    """As `systemctl stop`: ccbpf is the first process of its unit, the command is in a cgroup below."""
    children = children_of(process.pid)
    for pid in (process.pid, children.pop(WITNESS), *children.values()):
        os.kill(pid, name)


@pytest.mark.parametrize("send", [to_the_group, to_each])
def test_a_signal_to_all_reaches_it_once(run: Cli, send: Callable[[subprocess.Popen[str], signal.Signals], None]) -> None:
    """Not again from ccbpf; and one to ccbpf alone is sent on, also right after that."""
    with listening(run) as process:
        assert process.stdout
        for _ in range(10):
            for name in (signal.SIGTERM, signal.SIGHUP):
                send(process, name)
                assert process.stdout.readline() == f"got-{name}-from-{os.getpid()}\n"
                time.sleep(LATE_S)
            process.terminate()
            assert process.stdout.readline() == f"got-15-from-{process.pid}\n"
        for _ in range(30):  # two at once: ccbpf asks for the second while it takes another witness for the first
            to_the_group(process, signal.SIGTERM)
            to_the_group(process, signal.SIGHUP)
            both = {process.stdout.readline(), process.stdout.readline()}
            assert both == {f"got-{number}-from-{os.getpid()}\n" for number in (1, 15)}
            time.sleep(LATE_S)
        time.sleep(LATE_S)


def test_a_signal_to_the_witness_alone_is_forgotten(run: Cli) -> None:
    """As by `pkill -P`: one to ccbpf alone, later, is not taken for one to all."""
    with listening(run) as process:
        os.kill(children_of(process.pid)[WITNESS], signal.SIGTERM)
        time.sleep(FORGOTTEN_S)
        process.terminate()
        assert process.stdout and process.stdout.readline() == f"got-15-from-{process.pid}\n"


def test_the_witness_is_found_by_nobody_and_leaves_nothing(run: Cli) -> None:
    """`pkill netnice` and `pkill -f` match ccbpf alone, and it is not taken for a process of the run."""
    process = run.popen("run", "-q", "sleep", "60")
    kernel.eventually(lambda: "sleep" in named_children(process.pid), ENDS_S, "the command")
    children = children_of(process.pid)
    witness = Path(f"/proc/{children[WITNESS]}")
    assert (witness / "cmdline").read_bytes().rstrip(b"\0") == WITNESS.encode()
    assert files_of(children[WITNESS]) == ["anon_inode:[signalfd]"], "no pipe is held open"
    assert [run_["processes"] for run_ in run("-j", "status").json["runs"]] == [1]
    process.kill()
    process.wait()
    kernel.eventually(lambda: gone(children[WITNESS]), ENDS_S, "its end")
    os.kill(children["sleep"], signal.SIGKILL)


# Writes to a file who sends it SIGHUP and SIGCONT, and ends when none has come for a second.
HANGUPS = """
import signal, sys
names = {signal.SIGHUP: "HUP", signal.SIGCONT: "CONT"}
signal.pthread_sigmask(signal.SIG_BLOCK, names)
print("it", "is", "up", sep="-", flush=True)
wait = 30
with open(sys.argv[1], "w") as file:
    while info := signal.sigtimedwait(names, wait):
        print(names[info.si_signo], info.si_pid, file=file)
        wait = 1
"""


def on_a_terminal(cli: Cli, *words: object) -> tuple[int, int]:
    """Runs this as the leader of a session until it has said that it is up: its id, and the other side of its terminal."""
    pid, fd = os.forkpty()
    if pid == 0:
        os.execvpe(str(words[0]), [str(word) for word in words], cli.env())
    seen = b""
    while b"it-is-up\r\n" not in seen:  # the whole line: the terminal takes its end a moment later
        seen += os.read(fd, 1 << 16)
    return pid, fd


def gone(pid: int) -> bool:
    return not Path(f"/proc/{pid}").exists()


WITNESS = "signal-witness"
LATE_S = 0.1  # ccbpf waits for its witness for 20 ms: what it sends on has come then
FORGOTTEN_S = 1.5  # the witness keeps a signal for one second


def named_children(pid: int) -> dict[str, int]:
    pids = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return {Path(f"/proc/{child}/comm").read_text().strip(): int(child) for child in pids}


def files_of(pid: int) -> list[str]:
    return [str(fd.readlink()) for fd in Path(f"/proc/{pid}/fd").iterdir()]


def children_of(pid: int) -> dict[str, int]:
    """Of this `ccbpf run`, by name, once its witness is ready: the command may be up before that."""

    def ready() -> bool:
        with suppress(FileNotFoundError):  # it closes its files meanwhile
            return files_of(named_children(pid).get(WITNESS, pid)) == ["anon_inode:[signalfd]"]
        return False

    kernel.eventually(ready, ENDS_S, "the witness")
    return named_children(pid)


def command_of(pid: int) -> int:
    """The command of this `ccbpf run`."""
    (child,) = (child for name, child in children_of(pid).items() if name != WITNESS)
    return child


def test_a_terminal_that_goes_ends_it(run: Cli) -> None:
    """The kernel tells the session leader alone, as after `ssh -t` or in tmux."""
    pid, fd = on_a_terminal(run, CCBPF, "run", "-q", "sh", "-c", "echo it-is-up; exec sleep 60")
    child = command_of(pid)
    os.close(fd)
    try:
        kernel.eventually(lambda: gone(child), ENDS_S, "the end of the command")
    finally:
        with suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(status) == -signal.SIGHUP and not cgroups_of_runs()


@pytest.mark.parametrize("leads", [True, False])
def test_a_hangup_reaches_it_once(run: Cli, tmp_path: Path, leads: bool) -> None:
    """From ccbpf if that is the session leader, else from the kernel, which tells the whole group when the leader ends."""
    (tmp_path / "hangups.py").write_text(HANGUPS)
    shell = [] if leads else ["sh", "-c", '"$@" & wait', "sh"]
    pid, fd = on_a_terminal(run, *shell, CCBPF, "run", "-q", PYTHON, tmp_path / "hangups.py", tmp_path / "got")
    os.close(fd)
    os.waitpid(pid, 0)
    kernel.eventually(lambda: not cgroups_of_runs(), ENDS_S, "the end of the run")
    sender = pid if leads else 0
    assert (tmp_path / "got").read_text() == f"HUP {sender}\nCONT {sender}\n"


# Sets a timer that outlives exec(), and becomes the command.
TIMED = "import os, signal, sys; signal.setitimer(int(sys.argv[1]), int(sys.argv[2])); os.execvp(sys.argv[3], sys.argv[3:])"


def test_an_alarm_from_before_ends_it(run: Cli) -> None:
    """As with perl -e 'alarm 3; exec @ARGV'."""
    timed = (PYTHON, "-c", TIMED, str(signal.ITIMER_REAL), "3")
    assert run.run("run", "-q", "sleep", "9", prefix=timed).code == -signal.SIGALRM
    assert not cgroups_of_runs()


@pytest.mark.parametrize("name", ["REAL", "VIRTUAL", "PROF"])
def test_a_timer_from_before_is_its_own(run: Cli, name: str) -> None:
    """It can read it and stop it."""
    timer = getattr(signal, f"ITIMER_{name}")
    code = f"import signal; print(*signal.setitimer({timer}, 0))"
    left, interval = run("run", "-q", PYTHON, "-c", code, prefix=(PYTHON, "-c", TIMED, str(timer), "30")).out.split()
    assert 0 < float(left) < 31 and float(interval) == 0


def test_what_the_kernel_sends_to_one_process_is_sent_on(run: Cli) -> None:
    """SIGIO of a file whose owner it is."""
    process = run.popen("run", "-q", "sh", "-c", "echo up; exec sleep 8", stdout=subprocess.PIPE)
    assert process.stdout and process.stdout.readline() == "up\n"
    ends = os.pipe()
    try:
        fcntl.fcntl(ends[0], fcntl.F_SETOWN, process.pid)
        fcntl.fcntl(ends[0], fcntl.F_SETFL, os.O_ASYNC)
        os.write(ends[1], b"x")
        assert process.wait(ENDS_S) == -signal.SIGIO
    finally:
        for end in ends:
            os.close(end)


def test_job_control(terminal: Terminal, run: Cli) -> None:
    """It reads from the terminal, is stopped by Ctrl-Z, and continued by fg."""
    terminal.type(f"{CCBPF} run -q cat\n")
    kernel.eventually(lambda: [r for r in run("-j", "status").json["runs"] if r["processes"]], ENDS_S, "cat")
    terminal.type("one\n")
    terminal.expect(r"one\r\none\r")
    terminal.type("\x1a")
    terminal.expect("(?s)Stopped.*ready> ")
    terminal.type("fg\n")
    terminal.expect("run -q cat\r\n")  # as the shell says it
    terminal.type("two\n")
    terminal.expect(r"two\r\ntwo\r")
    terminal.type("\x04")
    terminal.expect("ready> ")
    assert not run("-j", "status").json["runs"]


def test_a_command_that_is_stopped_alone(run: Cli) -> None:
    """Its ccbpf stops as well, so that the shell notices it; both continue together."""
    process = run.popen("run", "-q", "sh", "-c", "kill -STOP $$; exit 9")
    try:
        pid, status = os.waitpid(process.pid, os.WUNTRACED)
        assert pid == process.pid and os.WIFSTOPPED(status)
    finally:
        process.send_signal(signal.SIGCONT)
    assert process.wait(ENDS_S) == 9


# --- users ---


def test_under_sudo_it_is_the_invoking_user(run: Cli, sinks: Sinks) -> None:
    uid, gid = NOBODY.pw_uid, NOBODY.pw_gid
    variables = {"SUDO_UID": str(uid), "SUDO_GID": str(gid), "SUDO_USER": "nobody", "SUDO_COMMAND": "/usr/bin/netnice"}
    sudo = Cli(run.root, variables)
    code = "import os; print(os.getresuid(), os.getresgid(), os.getgroups(), os.environ['HOME'], os.environ['USER'])"
    expected = f"({uid}, {uid}, {uid}) ({gid}, {gid}, {gid}) [{gid}] {NOBODY.pw_dir} nobody\n"
    assert sudo("run", "-q", SYSTEM_PYTHON, "-c", code).out == expected
    assert run("run", "-q", "--uid", "nobody", SYSTEM_PYTHON, "-c", code).out == expected
    assert re.search(r"CapEff:\t0+\n", sudo("run", "-q", "cat", "/proc/self/status").out)
    done = sudo("-j", "run", *sinks.client(python=SYSTEM_PYTHON))
    assert done.out.split()[0] == BACKGROUND and account(done.err)["uid"] == uid


@pytest.mark.parametrize("lie", ["-1", "4294967295", "x", "", "99999999999999999999", "0", "65534x"])
def test_an_environment_that_lies(run: Cli, lie: str) -> None:
    assert Cli(run.root, {"SUDO_UID": lie, "SUDO_COMMAND": "/usr/bin/netnice"})("run", "-q", "id", "-u").out == "0\n"


def test_without_privilege_one_sentence_says_what_helps(run: Cli) -> None:
    done = run.run("run", "true", prefix=("setpriv", "--reuid=65534", "--clear-groups", "--bounding-set=-all"))
    assert done.code == 125
    assert re.fullmatch(r"ccbpf: cannot run: this process lacks cap_.*; `sudo netnice COMMAND`: .*\n", done.err), done.err
