# SPDX-License-Identifier: GPL-2.0-only
"""Running a command whose words or pins are random, and what holds for each of them.

Whatever it is given, a command ends with one of its own exit codes, prints nothing that a terminal obeys, and the
sanitizers find nothing. One that would run on (`flows --watch`, `trace`) ends at SIGTERM.

Nothing of this machine is changed. `run` finds no programs but the harmless ones of a room (room()), as PATH has nothing else;
`plot` finds a python3 that only says something. `systemd` writes into the room, and `apply` without a file finds none.
"""

from __future__ import annotations

import os
import random
import re
import shlex
import subprocess
from collections.abc import Sequence
from pathlib import Path

from tests.cgroups import cgroups_of_runs
from tests.functional import kernel
from tests.functional.conftest import CCBPF, Cli
from tests.functional.line import DEV

CODES = {*range(6)}  # `ccbpf --help` lists them
RUN_CODES = CODES | {125, 126, 127, -9}  # and those of `run`, and the end of a program of the room
LASTS_S = 0.4  # a command that follows something is ended then
LONGEST_S = 60.0
ENDS_S = 10.0
LONGEST = 30_000  # characters of a word, of four bytes at the most: the kernel takes 128 KiB (MAX_ARG_STRLEN)
REPORT = ("Sanitizer", "runtime error:")
OBEYED = re.compile(rb"[\x00-\x08\x0b-\x1f\x7f]|\xc2[\x80-\x9f]")  # by a terminal; tab and newline are layout

NAMES = [*kernel.KINDS, "nf_red", "reno", "tcp_lp_", "TCP_LP", "x" * 16, "", "../tcp_lp", "tcp_lp\x1b[31m"]
KEYS = ["delta", "smoothing", "inference_rtts", "delay_memory", "small_window", "gentle_start", "decrease", "dscp", "nothing"]
NUMBERS = ["0", "1", "10", "100", "150", "900", "-1", "4294967295", "4294967296", "18446744073709551616", "1e3", "0x10", "",
           " 7", "7 ", "nan", "1.5", "9" * 400, "%s%n", "١"]  # fmt: skip
VERBS = {"list": 4, "enable": 1, "disable": 2, "reload": 1, "set": 4, "status": 4, "flows": 4, "trace": 1, "aqm": 6, "gateway": 4, "assign": 4, "metrics": 1,
         "top": 2, "check": 1, "clean": 1, "version": 1, "help": 3, "renice": 4, "run": 2, "apply": 3, "systemd": 3, "plot": 1, "lis": 1, "": 1, "--": 1}  # fmt: skip
FLAGS = ["-j", "-v", "-vv", "--pretty", "--json", "--help", "-jv", "--all", "--default", "--ecn", "--no", "-", "--set", "--=",
         "--j"]  # fmt: skip
AQM = ["attach", "show", "set", "detach", "sho", ""]
DEVICES = [DEV, "lo", "v1", "", "v0\x1b]0;x\x07", "a" * 200]
AQM_OPTIONS = ["--average", "--class", "--limit", "--nf-dscp", "--nf-max", "--nf-min", "--probe-dscp", "--rate", "--std"]
AQM_VALUES = [
    *NUMBERS,
    "1:10",
    "1:",
    "ffff:ffff",
    "off",
    "5,7",
    "50,40",
    "1,1,1",
    "64",
    "100K",
    "20p",
    "1G",
    "1,",
    ",",
    "100.001",
]

CONDITIONS = {
    "--pid": ["1", "4194303", *NUMBERS],
    "--cgroup": ["/", "unit:ssh", "unit:", "unit:../..", "/proc", "..", "x" * 300, "a/" * 3000, ""],
    "--dst": ["10.0.0.0/8", "::/0", "::ffff:0:0/96", "::1", "1.2.3.4/33", "1.2.3.4/", "/8", "fe80::1%lo", "9" * 5000, ""],
    "--port": ["5201", "65535", "65536", *NUMBERS],
    "--from": NAMES,
}
WITHOUT_OTHERS = ["/usr/bin/setpriv", "--bounding-set=-sys_admin"]  # no namespace but its own can be entered


ASSIGN_OPTIONS = ["--remote", "--remote-port", "--local-port", "--cgroup", "--netns", "--dscp"]
ASSIGN_VALUES = [
    *NUMBERS,
    "192.0.2.0/24",
    "192.0.2.1",
    "192.0.2.1/33",
    "2001:db8::/32",
    "2001:db8::/129",
    "1-2",
    "2-1",
    "70000",
    "unit:x",
    "slice:",
    "unit:" + "x" * 130,
    "/",
    "/no/such",
    "/..",
    "container:0123456789ab",
    "pod:",
    "le",
    "ef",
    "lo",
]


RUN_OPTIONS = ["-q", "-d", "-u", "-du", "--dscp=le", "--dscp=ef", "--uid=65534", "--uid=nobody", "--uid=no-such-user", "--uid=-1",
               "--uid=4294967296", "--uid=", "--prepare=no-such-user", "--prepare=/no/such", "--prepare="]  # fmt: skip
PROGRAMS = {"true": "exit 0", "false": "exit 1", "speaks": "echo said", "dies": "kill -9 $$", "stays": "sleep 0.05 &"}
PYTHON = "printf 'Traceback\\n%s: \\033[31mno such file\\n' \"$4\" >&2; exit $(($# % 5))"
FILES = {
    "a.toml": '[controller.tcp_lp]\nset.delta = 200\n[[rule]]\ncontroller = "tcp_lp"\nremote = "192.0.2.0/24"\n',
    "b.toml": '[controller.nf_tcp]\ndefault = true\necn = true\n[[rule]]\ndownload = true\nremote = "2001:db8::/32"\n',
    "wrong.toml": "[[rule]]\nremote = 7\n",
    "no.toml": "[[rule\n\x1b[31m",
    "pods.json": '{"kind": "PodList", "items": []}',
    "wrong.json": '{"kind": "PodList", "items": [{"metadata": 7}]}',
}
PATHS = [*FILES, "none", "/dev/null", ".", "-", "", "x" * 300]
UNITS = ["backup", "backup.service", "bulk.slice", "a.socket", "b.scope", "a@.service", "-.slice", "c.timer", "../x", "a/b", "%n", "a b",
         "\x1b[31m", "x" * 300, ""]  # fmt: skip
SYSTEM_PATH = "/usr/sbin:/usr/bin:/sbin:/bin"
HIDE = f"""
export PATH={SYSTEM_PATH}
mount --bind "$0/units" /etc/systemd/system
[ ! -e /etc/ccbpf.toml ] || mount --bind /dev/null /etc/ccbpf.toml
export PATH="$0/bin"
exec "$@"
"""
HIDDEN = ["/usr/bin/unshare", "--mount", "/bin/sh", "-euc", HIDE]


def room(path: Path) -> Path:
    """A directory with what a random command may find: programs, files for `apply`, and a place for units."""
    for name in ("bin", "units"):
        (path / name).mkdir()
    for name, script in {**PROGRAMS, "python3": PYTHON, "sleep": f"PATH={SYSTEM_PATH} exec sleep $1"}.items():
        program = path / "bin" / name
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)
    for name, text in FILES.items():
        (path / name).write_text(text)
        (path / name).chmod(0o644)
    return path


def noise(dice: random.Random, longest: int = 40) -> str:
    """Bytes as an argument may have them: any but NUL."""
    return os.fsdecode(bytes(dice.randrange(1, 256) for _ in range(dice.randrange(longest))))


def parameter(dice: random.Random) -> str:
    return dice.choice(KEYS) + dice.choice(["=", "=", "=", "", "=="]) + dice.choice(NUMBERS)


def aqm_words(dice: random.Random) -> list[str]:
    words = [dice.choice(AQM), dice.choice(DEVICES)]
    for _ in range(dice.randrange(4)):
        option, value = dice.choice(AQM_OPTIONS), dice.choice(AQM_VALUES)
        words += [f"{option}={value}"] if dice.random() < 0.6 else [option, value]
    return words


def gateway_words(dice: random.Random) -> list[str]:
    words = [dice.choice(["attach", "attach", "show", "detach", "sho", ""]), dice.choice(DEVICES)]
    for _ in range(dice.randrange(3)):
        prefixes = dice.choices(CONDITIONS["--dst"], k=dice.choice([1, 1, 2, 9]))
        words += [f"{dice.choice(['--host', '--remote'])}={','.join(prefixes)}"]
    return words


def condition(dice: random.Random) -> str:
    option, values = dice.choice([*CONDITIONS.items()])
    return f"{option}={dice.choice(values)}"


def assign_words(dice: random.Random) -> list[str]:
    """Words for `assign`; valid ones reach only addresses that nobody has."""
    words = [dice.choice(["list", "remove", "remove", *NAMES]), "--remote=192.0.2.0/24"]
    for _ in range(dice.randrange(4)):
        words += [f"{dice.choice(ASSIGN_OPTIONS)}={dice.choice(ASSIGN_VALUES)}"]
    return words + dice.choices(["--not", "--force", "1", "2", ""], k=dice.randrange(3))


def run_words(dice: random.Random) -> list[str]:
    words = dice.choices(RUN_OPTIONS, k=dice.choice([0, 0, 1, 2])) + dice.choices(NAMES, k=dice.choice([0, 1]))
    words += dice.choice([[], [], ["--"]]) + dice.choices([*PROGRAMS, "none", "."], k=dice.choice([0, 1, 1, 1]))
    return words + [noise(dice) for _ in range(dice.choice([0, 0, 1]))]


def apply_words(dice: random.Random) -> list[str]:
    words = dice.choices(PATHS, k=dice.choice([0, 1, 1, 1, 1, 2]))
    words += [f"--pods={dice.choice(PATHS)}" for _ in range(dice.choice([0, 0, 1]))]
    return words + dice.choices(["-n", "--dry-run", "--pods"], k=dice.choice([0, 0, 1]))


def systemd_words(dice: random.Random) -> list[str]:
    words = dice.choices(UNITS, k=dice.choice([0, 1, 1, 1])) + dice.choices(NAMES, k=dice.choice([0, 1, 1, 2]))
    return words + dice.choices(["--print", "--remove", "--all", "-d", "-u", "-du"], k=dice.choice([0, 1, 1, 2]))


def plot_words(dice: random.Random) -> list[str]:
    return dice.choices(PATHS, k=dice.choice([0, 1, 1, 2, 5])) + [f"--output={dice.choice(PATHS)}"] * dice.randrange(2)


OWN_WORDS = {
    "assign": assign_words,
    "gateway": gateway_words,
    "run": run_words,
    "apply": apply_words,
    "systemd": systemd_words,
    "plot": plot_words,
}


def command_line(dice: random.Random) -> list[str]:
    """Words of a command, mostly near valid ones; some of them mangled."""
    verb = dice.choices([*VERBS], [*VERBS.values()])[0]
    words = [*dice.choices(FLAGS, k=dice.choice([0, 0, 0, 1, 2])), verb]
    if verb == "aqm":
        words += aqm_words(dice)
    elif verb == "renice":
        words += dice.choices(["cubic", "reno", *NAMES], k=dice.choice([1, 1, 1, 0, 2]))
        words += [condition(dice) for _ in range(dice.choice([0, 1, 1, 2, 4]))]
        words += dice.choices(["-n", "--dry-run", "--all", "--download", "-d", "--off"], k=dice.choice([0, 0, 1, 2]))
    elif verb in OWN_WORDS:
        words += OWN_WORDS[verb](dice)
    elif verb == "help":
        words += dice.choices([*VERBS, *NAMES], k=dice.randrange(2))
    else:
        words += dice.choices(NAMES, k=dice.choice([0, 1, 1, 2, 3]))
        words += [parameter(dice) for _ in range(dice.choice([0, 0, 1, 2]))]
    if verb == "top":
        options = ["--count", "--sort", "--filter", "--group", "1", "rate", "process", "tree", *NUMBERS]
        words += ["-b", *dice.choices(options, k=dice.choice([0, 1, 2]))]
    if verb == "metrics":
        words += dice.choices(
            ["--listen", "--format", "openmetrics", "0", "[::1]:0", "127.0.0.1:0", *NUMBERS], k=dice.choice([0, 1, 2])
        )
    if verb in ("flows", "top", "trace"):
        words += ["--for" if verb == "trace" else "--watch", dice.choice(["0.01", *NUMBERS])]
    words += dice.choices(FLAGS, k=dice.choice([0, 0, 1]))
    while dice.random() < 0.15:
        mangle(dice, words)
    return words


def mangle(dice: random.Random, words: list[str]) -> None:
    at = dice.randrange(len(words))
    word = words[at]
    words[at : at + 1] = dice.choice([
        [], [word, word], [noise(dice)], [word + noise(dice, 8)], [word[: len(word) // 2]], [word.swapcase()],
        [(word * 50)[:LONGEST]], [noise(dice, 4) + word], ["--", word],
    ])  # fmt: skip
    words[:] = words or [""]


def before(words: Sequence[str], place: Path) -> list[str]:
    """What is run in front of the command, so that it changes nothing of this machine."""
    if any("renice" in word for word in words):  # transfers of this machine are not ours
        return WITHOUT_OTHERS
    if any("apply" in word or "systemd" in word for word in words):
        return [*HIDDEN, str(place)]
    return []


def run(cli: Cli, words: Sequence[str], namespace: str, place: Path) -> int:
    """Runs it in the namespace and in a room(), and asserts what must hold; its exit code."""
    said = f"`{shlex.join(words)!a}`"
    environment = cli.env() | {"PATH": str(place / "bin")}
    follows = any(re.match(r"(trace|flows|top|show|--?w|--?f|--?l)", word) for word in words)
    with kernel.inside(namespace):
        process = subprocess.Popen([*before(words, place), CCBPF, *words], env=environment, cwd=place, stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE)  # fmt: skip
    try:
        out, err = process.communicate(timeout=LASTS_S if follows else LONGEST_S)
    except subprocess.TimeoutExpired:
        assert follows, f"{said} does not end within {LONGEST_S:.0f} s"
        process.terminate()
        try:
            out, err = process.communicate(timeout=ENDS_S)
        except subprocess.TimeoutExpired:
            process.kill()
            raise AssertionError(f"{said} goes on after SIGTERM") from None
    text = (out + err).decode(errors="replace")
    assert not any(word in text for word in REPORT), f"{said}: {text}"
    codes = RUN_CODES if "run" in words else CODES
    assert process.returncode in codes or (follows and process.returncode == -15), f"{said}: {process.returncode}: {text}"
    assert not OBEYED.search(out + err), f"{said} prints {out + err!a}"
    return process.returncode


def assert_tidy(cli: Cli, namespace: str, place: Path) -> None:
    """`clean --all` still works, and nothing of ours is left behind it."""
    assert run(cli, ["clean", "--all"], namespace, place) == 0
    assert not Path(cli.root).exists(), cli.names()
    assert not cgroups_of_runs()
