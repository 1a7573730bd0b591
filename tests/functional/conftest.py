# SPDX-License-Identifier: GPL-2.0-only
"""Fixtures of the functional tests: the command, a pin directory of its own, a pair of namespaces."""

from __future__ import annotations

import fcntl
import itertools
import json
import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests import registry
from tests.cgroups import cgroups_of_runs, remove_cgroup
from tests.functional import kernel
from tests.functional.line import Line
from tests.functional.peer import Peer

CCBPF = kernel.ROOT / os.environ.get("CCBPF_TEST_COMMAND", "build/ccbpf")
SANITIZER_CODE = 99  # no test expects it: a report never passes for an expected failure
for sanitizer in ("ASAN_OPTIONS", "UBSAN_OPTIONS"):
    os.environ.setdefault(sanitizer, f"exitcode={SANITIZER_CODE}:print_stacktrace=1")
BPFFS = Path("/sys/fs/bpf")
COMMAND_S = 60.0
_counter = itertools.count()


RERUNS = int(os.environ.get("CCBPF_TEST_RERUNS", "2"))  # 0 shows the first failure
FLOWS = Path(__file__).parent / "flow"  # tests whose peer, in Python, keeps time beside a kernel


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A host that stands still for some milliseconds makes one of hundreds of timed tests fail, another one each time. Tests
    with the mark `rerun`, which gives the reason, are tried again. A test that fails three times in a row has failed; the
    summary counts the reruns. All flows run while nothing else does. Tests that kill a command at each of its steps have the mark
    `kills`: `make test-hard` runs them."""
    for item in items:
        if item.path.parent == FLOWS:
            item.add_marker(pytest.mark.quiet)
        if "kill_at" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.kills)
        if item.get_closest_marker("rerun"):
            item.add_marker(pytest.mark.flaky(reruns=RERUNS, reruns_delay=1))


@dataclass(frozen=True)
class Result:
    """The exit code and the output of a command."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The document on stdout."""
        return json.loads(self.out)

    @property
    def error(self) -> dict[str, Any]:
        """The error on stderr of a command under -j; notes may stand before it."""
        said: dict[str, Any] = json.loads(self.err.splitlines()[-1])["error"]
        assert said["exit"] == self.code, said
        return said


MEMORY_NOISE = 16 << 10  # bytes: four pages


def own_memory(process: subprocess.Popen[str] | int) -> int:
    """Bytes of memory that no file backs, of a process or of one with this id: the smallest of some readings, because a reading may come in the middle of a round."""

    pid = process if isinstance(process, int) else process.pid

    def reading() -> int:
        time.sleep(0.01)
        (line,) = re.findall(r"^RssAnon:\s+(\d+) kB$", Path(f"/proc/{pid}/status").read_text(), re.M)
        return int(line) << 10

    return min(reading() for _ in range(20))


@dataclass
class Cli:
    """ccbpf with a pin directory of its own."""

    root: Path
    environment: dict[str, str] = field(default_factory=dict)
    command: Path = CCBPF

    def env(self) -> dict[str, str]:
        inherited = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
        return {**inherited, "CCBPF_PIN_ROOT": str(self.root), **self.environment}

    def with_columns(self, columns: int) -> Cli:
        """The same, whose tables are at most so wide."""
        return Cli(self.root, {**self.environment, "COLUMNS": str(columns)}, self.command)

    def run(self, *arguments: object, prefix: tuple[str, ...] = (), **options: Any) -> Result:
        """With any exit code."""
        words = [*prefix, str(self.command), *(str(a) for a in arguments)]
        done = subprocess.run(words, capture_output=True, text=True, env=self.env(), timeout=COMMAND_S, **options)
        return Result(done.returncode, done.stdout, done.stderr)

    def __call__(self, *arguments: object, code: int = 0, **options: Any) -> Result:
        """Fails unless it ends with this exit code."""
        result = self.run(*arguments, **options)
        assert result.code == code, f"ccbpf {' '.join(map(str, arguments))}: {result}"
        return result

    def popen(self, *arguments: object, prefix: tuple[str, ...] = (), **options: Any) -> subprocess.Popen[str]:
        words = [*prefix, str(self.command), *(str(a) for a in arguments)]
        return subprocess.Popen(words, text=True, env=self.env(), **options)

    def killed_at_every_step(
        self, library: Path, *arguments: object, prefix: tuple[str, ...] = (), most: int = 200
    ) -> Iterator[int]:
        """Runs it again and again, killed before its 1st, 2nd, … change, until it ends by itself."""
        for at in range(1, most):
            result = self.run(*arguments, prefix=(*prefix, "env", f"LD_PRELOAD={library}", f"KILL_AT={at}"))
            assert result.code in (0, -signal.SIGKILL), result
            yield at
            if result.code == 0:
                assert at > 5, "the steps are counted"
                return
        raise AssertionError("it never ends")

    def without_quarantine(self) -> Cli:
        """The same; built with ASan, freed memory is returned at once, so that memory use can be compared."""
        options = f"{os.environ['ASAN_OPTIONS']}:quarantine_size_mb=0:thread_local_quarantine_size_kb=0"
        return Cli(self.root, {**self.environment, "ASAN_OPTIONS": options}, self.command)

    def status(self) -> dict[str, dict[str, Any]]:
        """`ccbpf status`, by name of the controller."""
        return {c["name"]: c for c in self("-j", "status").json["controllers"]}

    def names(self) -> set[str]:
        """What lies in the pin directory, as relative paths."""
        return {str(path.relative_to(self.root)) for path in self.root.rglob("*")} if self.root.exists() else set()


@pytest.fixture(scope="session")
def bpffs() -> Path:
    """A mounted bpffs. Two workers take turns: a second mount would hide what is pinned in the first one."""
    lock = os.open(BPFFS.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not os.path.ismount(BPFFS):
            kernel.run("mount", "-t", "bpf", "-o", "mode=0700", "bpf", BPFFS)
    finally:
        os.close(lock)
    return BPFFS


@contextmanager
def pin_directory() -> Iterator[Path]:
    """A path that does not exist yet. What is there at the end is removed; a cgroup of a run that `clean --all` leaves is an
    error, and is removed as well: the tests after this one expect none."""
    root, before = registry.session_pins(next(_counter)), cgroups_of_runs()
    yield root
    done = Cli(root).run("clean", "--all")
    if root.exists():
        shutil.rmtree(root)
    left = cgroups_of_runs() - before
    for cgroup in left:
        remove_cgroup(cgroup)
    assert not left, f"`ccbpf clean --all` has left {left}: {done}"


@pytest.fixture
def pin_root(bpffs: Path, registry_lock: Path) -> Iterator[Path]:
    with pin_directory() as root:
        yield root


@pytest.fixture
def ccbpf(pin_root: Path) -> Cli:
    return Cli(pin_root)


@pytest.fixture
def hooks(bpffs: Path) -> Iterator[Cli]:
    """For a test that registers no controller and begins no run, and so is no matter to those that do."""
    cli = Cli(registry.hook_pins(next(_counter)))
    yield cli
    cli.run("clean", "--all")
    if cli.root.exists():
        shutil.rmtree(cli.root)


@pytest.fixture(scope="module")
def module_ccbpf(bpffs: Path, registry_lock: Path) -> Iterator[Cli]:
    """The same for all tests of a module."""
    with pin_directory() as root:
        yield Cli(root)


def preload(directory: Path, source: Path) -> Path:
    """A library, built in this directory, to be preloaded into a command."""
    library = directory / f"{source.stem}.so"
    kernel.run("gcc", "-Wall", "-Werror", "-D_GNU_SOURCE", "-shared", "-fPIC", "-o", library, source)
    return library


@pytest.fixture(scope="session")
def kill_at(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return preload(tmp_path_factory.mktemp("preload"), Path(__file__).with_name("kill_at.c"))


@pytest.fixture(scope="session")
def refuse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return preload(tmp_path_factory.mktemp("preload"), Path(__file__).with_name("refuse.c"))


@pytest.fixture
def line(ccbpf: Cli) -> Iterator[Line]:
    with Line(ccbpf) as line:
        yield line


@pytest.fixture(params=["tcx", "clsact"])
def either(line: Line, request: pytest.FixtureRequest) -> Line:
    """Attached by a TCX link, or by a filter as on kernels before 6.6."""
    return line if request.param == "tcx" else line.without_tcx()


@pytest.fixture
def netns_pair() -> Iterator[tuple[kernel.Namespace, kernel.Namespace]]:
    """See kernel.joined()."""
    with kernel.joined() as pair:
        yield pair


@contextmanager
def enabled(request: pytest.FixtureRequest, names: Iterable[str]) -> Iterator[dict[str, kernel.Controller]]:
    """These controllers, enabled under one pin directory, by name.

    CCBPF_TEST_OBJECTS=DIRECTORY takes the objects there instead, by bpftool, under the names that they register: a copy
    that was broken on purpose, to see a test fail.
    """
    request.getfixturevalue("bpffs")
    request.getfixturevalue("registry_lock")
    if objects := os.environ.get("CCBPF_TEST_OBJECTS"):
        with ExitStack() as stack:
            paths = {name: Path(objects, f"{name}.bpf.o") for name in names}
            yield {name: stack.enter_context(kernel.registered_by_bpftool(path)) for name, path in paths.items()}
        return
    root = registry.session_pins(next(_counter))
    cli = Cli(root)
    try:
        cli("enable", *names)
        yield {name: kernel.pinned(root, name) for name in names}
    finally:
        cli.run("disable", "--all")
        cli.run("clean", "--all")


@pytest.fixture(scope="module")
def controllers(request: pytest.FixtureRequest) -> Iterator[dict[str, kernel.Controller]]:
    """All controllers, for the tests of a module."""
    with enabled(request, kernel.KINDS) as found:
        yield found


@pytest.fixture
def peer() -> Iterator[Peer]:
    with kernel.no_kernel_warning(), Peer() as peer:
        yield peer
