# SPDX-License-Identifier: GPL-2.0-only
"""The virtual-time lab: a script on a stock kernel in QEMU, where the clock counts instructions.

    outcome = run("6.12", "ping -c 1 127.0.0.1 >ping.txt", directory=Path("build/lab/x"))
    (outcome.directory / "ping.txt").read_text()

One instruction is one nanosecond; an idle guest's time jumps to its next timer. The same guest, script, files, seed
and memory give the same bytes on any machine with the same QEMU: emulator.py says how, and what CCBPF_LAB_MODE chooses.
One core of the machine stays free of guests; CCBPF_LAB_CPUS=0,1 names the cores that they may use (cores.py).

A run that gave no result (no tar, wrong exit code, panic, time-out) raises LabError: it is never a result. The exit code
of the script is one, and is in the outcome.

    python -m tests.lab.engine.virtual shell --kernel 6.12      an interactive shell, in real time
    python -m tests.lab.engine.virtual run SCRIPT [FILE...]     a script of your own
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from ..guest import image
from ..guest.cpio import Tree
from ..guest.errors import LabError
from ..guest.image import Guest
from . import emulator
from .cores import core, cpus
from .emulator import LOCKSTEP, QEMU, RECORD, choose_mode

__all__ = ["QEMU", "RECORD", "LabError", "Outcome", "choose_mode", "run"]

MEMORY_MB = 256  # 128 suffices for 10 Mbit/s, 512 for 1 Gbit/s
DONE = 2 * 42 + 1  # what QEMU exits with after the guest wrote 42 to isa-debug-exit
KILLED = 128 + signal.SIGKILL  # the script, at its limit of virtual time
EPOCH = "2020-01-01T00:00:00"
CONSOLE_TAIL = 4  # lines of the console that an error quotes

MACHINE = """-M microvm,pit=on,pic=on,rtc=on,isa-serial=on,acpi=off,x-option-roms=off -nodefaults -no-user-config
    -nographic -accel tcg -smp 1 -no-reboot
    -device isa-debug-exit,iobase=0x501,iosize=1""".split()
NEEDS_CX16 = (6, 19)  # since this release socket storage is allocated by kmalloc_nolock(), which needs cmpxchg16b
QUIET = "quiet panic=-1 reboot=t nokaslr random.trust_cpu=off tsc=reliable clocksource=tsc mitigations=off"
SKIPPED = "initcall_blacklist=jent_mod_init,load_system_certificate_list,trace_eval_init,init_kprobe_trace"  # 3 s of boot


@dataclass(frozen=True)
class Outcome:
    """What a script did, and how long it took."""

    directory: Path  # what it wrote into its working directory, with stdout, stderr and console.log
    exit_code: int
    virtual_s: float  # from its start to its end, by the guest's clock
    wall_s: float  # boot and end included
    guest: Guest
    mode: str

    def text(self, name: str) -> str:
        return (self.directory / name).read_text(errors="replace")


def most_at_once(jobs: int, mode: str) -> int:
    """How many of these guests run at once: in lockstep each has a core."""
    return min(jobs, len(cpus())) if mode == LOCKSTEP else jobs


# --- the machine -----------------------------------------------------------------------------------------------------


def experiment_files(script: str, files: Mapping[str, bytes | str | Path], seed: int = 1, limit_s: float = 0) -> Tree:
    """The third part of the initramfs: /lab/run, its limit, the seed, and the files under /lab."""
    tree = Tree()
    tree.file("lab/run", script.encode())
    tree.file("lab/limit", f"{limit_s:g}\n".encode())
    tree.file("lab/seed", f"ccbpf {seed}\n".encode())
    for name, content in files.items():
        mode = 0o755 if isinstance(content, Path) and os.access(content, os.X_OK) else 0o644
        data = content.read_bytes() if isinstance(content, Path) else content
        tree.file(f"lab/{name}", data.encode() if isinstance(data, str) else data, mode)
    return tree


def write_initramfs(path: Path, guest: Guest, own: Tree, product: bool) -> None:
    with path.open("wb") as output:
        with guest.base.open("rb") as base:
            shutil.copyfileobj(base, output)
        if product:
            output.write(image.product().pack())
        output.write(own.pack())


def processor(release: str) -> str:
    """The guest's CPU model: without cmpxchg16b (QEMU 7.2 crashed in it in 1 of 42 runs) where Linux does not need it."""
    version = re.match(r"(\d+)\.(\d+)", release)
    if not version:
        raise LabError(f"guest kernel {release}: expected a release such as 6.12.1; remove its directory in .cache/lab/guests")
    return "max" if (int(version[1]), int(version[2])) >= NEEDS_CX16 else "max,cx16=off"


def hardware(guest: Guest) -> list[str]:
    """The arguments of QEMU that decide a result, besides the clock, the memory and the files."""
    kernel = f"console=ttyS0 {QUIET} {SKIPPED}"
    return [*MACHINE, "-cpu", processor(guest.release), "-append", kernel]


def machine(guest: Guest, initramfs: Path, memory_mb: int) -> list[str]:
    """QEMU's arguments that a shell and a run have in common."""
    files = ["-kernel", str(guest.vmlinux), "-initrd", str(initramfs)]
    return [QEMU, *hardware(guest), "-m", str(memory_mb), *files]


def clock(mode: str, seed: int) -> list[str]:
    record = ",rr=record,rrfile=/dev/null" if mode == RECORD else ""
    count = ["-icount", f"shift=0,sleep=off,align=off{record}"]
    return [*count, "-seed", str(seed), "-rtc", f"base={EPOCH},clock=vm"]


def channels(scratch: Path) -> list[str]:
    """The console, and the port that takes the tar."""
    place = str(scratch).replace(",", ",,")  # QEMU's way to write a comma in an option
    tar = ["-chardev", f"file,id=out,path={place}/out.tar", "-device", "isa-debugcon,iobase=0xe9,chardev=out"]
    console = ["-chardev", f"file,id=console,path={place}/console.log", "-serial", "chardev:console"]
    return [*tar, *console]


def run(
    kernel: str,
    script: str,
    directory: Path,
    files: Mapping[str, bytes | str | Path] | None = None,
    *,
    seed: int = 1,
    memory_mb: int = MEMORY_MB,
    timeout_s: float = 600.0,
    limit_s: float = 600.0,
    product: bool = True,
    watch: Callable[[str], None] | None = None,
) -> Outcome:
    """Runs a shell script in a guest: its working directory comes back in `directory`, which is emptied before.

    `files` lie in /lab; with `product`, our ccbpf and programs are there. `watch` gets the console's lines while they
    come (a script says them by `echo … >/dev/console`). At most timeout_s of processor time and limit_s of virtual time.
    """
    mode = choose_mode()
    guest = image.build(kernel)
    with tempfile.TemporaryDirectory(prefix="ccbpf-virtual.") as name:
        scratch = Path(name)
        write_initramfs(scratch / "initramfs", guest, experiment_files(script, files or {}, seed, limit_s), product)
        arguments = [*machine(guest, scratch / "initramfs", memory_mb), *clock(mode, seed), *channels(scratch)]
        console = _Console(scratch / "console.log", watch)
        with core() if mode == LOCKSTEP else contextlib.nullcontext() as cpu:
            start = time.monotonic()
            end = emulator.run(arguments, cpu, scratch / "qemu.log", timeout_s, console.read)
            wall_s = time.monotonic() - start
        _empty(directory)
        if (scratch / "console.log").exists():
            shutil.copy(scratch / "console.log", directory / "console.log")
        _require_end(end, scratch, directory)
        _unpack(scratch / "out.tar", directory)
    begin_s, end_s = map(float, (directory / "uptime").read_text().split())
    exit_code = int((directory / "exit").read_text())
    if exit_code == KILLED and end_s - begin_s >= limit_s - 1:
        raise LabError(f"the script did not end within {limit_s:g} virtual s; what it wrote until then: {directory}")
    return Outcome(directory, exit_code, round(end_s - begin_s, 2), wall_s, guest, mode)


class _Console:
    """Gives new lines of the console to the `watch` function."""

    def __init__(self, path: Path, watch: Callable[[str], None] | None) -> None:
        self.path, self.watch = path, watch
        self._position = 0

    def read(self) -> None:
        if not self.watch or not self.path.exists():
            return
        with self.path.open("rb") as console:
            console.seek(self._position)
            data = console.read()
        whole = data[: data.rfind(b"\n") + 1]
        self._position += len(whole)
        for line in whole.decode(errors="replace").splitlines():
            self.watch(line)


def _empty(directory: Path) -> None:
    if directory.exists():
        shutil.rmtree(directory)
    directory.mkdir(parents=True)


def _require_end(end: int | str, scratch: Path, directory: Path) -> None:
    """Raises LabError unless the guest ended as it should and handed over its results."""
    console = directory / "console.log"
    lines = console.read_text(errors="replace").splitlines() if console.exists() else []
    panic = next((line.strip() for line in lines if "Kernel panic" in line), "")
    tar = scratch / "out.tar"
    if panic:
        why = f"the guest's {panic[panic.index('Kernel panic') :]}"
    elif isinstance(end, str):
        why = end
    elif end != DONE:
        said = (scratch / "qemu.log").read_text(errors="replace").strip().splitlines()[-2:]
        why = f"QEMU ended with {end} instead of {DONE}: {' / '.join(said) or 'the guest rebooted or was killed'}"
    elif not tar.exists() or not tarfile.is_tarfile(tar):
        why = "the guest handed over no result"
    else:
        return
    last = " / ".join(line.strip() for line in lines[-CONSOLE_TAIL:] if line.strip())
    raise LabError(f"{why}; the console's end is: {last or 'nothing'}; all of it: {console}")


def _unpack(tar: Path, directory: Path) -> None:
    """Plain files and directories only; nothing outside of the directory."""
    with tarfile.open(tar) as archive:
        for member in archive:
            path = (directory / member.name).resolve()
            if not path.is_relative_to(directory.resolve()):
                raise LabError(f"{member.name}: a result outside of its directory")
            if member.isdir():
                path.mkdir(parents=True, exist_ok=True)
            elif member.isfile() and (content := archive.extractfile(member)):
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content.read())


# --- by hand ---------------------------------------------------------------------------------------------------------


def shell(kernel: str, files: Mapping[str, bytes | str | Path], memory_mb: int = MEMORY_MB, script: str = "") -> int:
    """An interactive guest on this terminal, in real time, after the script; `exit` ends it, Ctrl-A X kills it."""
    guest = image.build(kernel)
    own = experiment_files(script, files)
    own.file("lab/shell", b"")
    with tempfile.TemporaryDirectory(prefix="ccbpf-virtual.") as name:
        initramfs = Path(name) / "initramfs"
        write_initramfs(initramfs, guest, own, product=True)
        arguments = [*machine(guest, initramfs, memory_mb), "-serial", "mon:stdio"]
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the guest's
        code = subprocess.run(arguments, check=False).returncode
    return 0 if code == DONE else 1


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.lab.engine.virtual", description="A guest of the virtual-time lab.")
    commands = parser.add_subparsers(dest="command", required=True)
    for name, text in (("shell", "an interactive shell"), ("run", "a script; its files come back")):
        sub = commands.add_parser(name, help=text)
        sub.add_argument("--kernel", default="6.12", help="a name in kernels.lock (%(default)s)")
        sub.add_argument("--memory", type=int, default=MEMORY_MB, metavar="MB")
        if name == "run":
            sub.add_argument("--timeout", type=float, default=600.0, metavar="S", help="processor time (%(default)s)")
            sub.add_argument("--seed", type=int, default=1)
            sub.add_argument("--keep", action="store_true", help="in real time, and then a shell in that guest")
            sub.add_argument("--out", type=Path, default=Path("build/lab/run"), help="%(default)s")
            sub.add_argument("script", type=Path)
        sub.add_argument("file", type=Path, nargs="*", help="lies in /lab")
    return parser.parse_args()


def main() -> int:
    options = arguments()
    files = {path.name: path for path in options.file}
    try:
        if options.command == "shell":
            return shell(options.kernel, files, options.memory)
        if options.keep:
            return shell(options.kernel, files, options.memory, options.script.read_text())
        outcome = run(
            options.kernel,
            options.script.read_text(),
            options.out,
            files,
            seed=options.seed,
            memory_mb=options.memory,
            timeout_s=options.timeout,
            watch=lambda line: print(line, file=sys.stderr),
        )
    except LabError as error:
        print(f"virtual lab: {error}", file=sys.stderr)
        return 2
    sys.stdout.write(outcome.text("stdout"))
    sys.stderr.write(outcome.text("stderr"))
    note = f"{outcome.virtual_s:g} virtual s in {outcome.wall_s:.1f} s ({outcome.mode}), exit code {outcome.exit_code}"
    print(f"virtual lab: {note}; files: {shlex.quote(str(outcome.directory))}", file=sys.stderr)
    return outcome.exit_code


if __name__ == "__main__":
    sys.exit(main())
