# SPDX-License-Identifier: GPL-2.0-only
"""What held receive windows goes: they open at once, also those of connections that receive nothing just then, and the sockets
keep nothing of ours. The same of what another version of ccbpf has left.

No connection receives anything between the command and the look at its clamp."""

from __future__ import annotations

import array
import ctypes
import json
import socket
import struct
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.cgroups import MOUNT, cgroups_of_runs, remove_cgroup
from tests.functional import kernel
from tests.functional.conftest import CCBPF, Cli
from tests.functional.rules.background import ENDS_S, PYTHON
from tests.functional.rules.downloads import LEAST, OPEN, UNIQUE, Ends, Server, cgroup, counts, held, records, rules
from tests.functional.rules.others import WATCHER, attach, calls, compiled, counter

EM_BPF = 247
LIBC = ctypes.CDLL(None, use_errno=True)
AF_UNSPEC = struct.pack("=H14x", 0)

# Connects, receives, passes its socket on, and ends, or waits for the end of who got it.
PASSED = """
import array, socket, sys
s = socket.create_connection((sys.argv[1], int(sys.argv[2])))
left = int(sys.argv[3])
while left: left -= len(s.recv(left))
s.sendall(b"!")
u = socket.socket(fileno=int(sys.argv[4]))
u.sendmsg([b"s"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [s.fileno()]))])
if int(sys.argv[5]): u.recv(1)
"""


def assert_can_be_held_again(cli: Cli, ends: Ends) -> None:
    """Nothing of ours, and of nobody else, is called for the connection, whose ends are both of this process."""
    answer = cli("-j", "renice", "--download", *ends.selected).json
    cli("renice", "--download", "--off", "--all")
    assert not cli.root.exists()
    assert (answer["moved"], answer["elsewhere"]) == (2, 0), answer


# --- rules -----------------------------------------------------------------------------


def test_the_last_rule_opens_idle_connections(ccbpf: Cli, either: Server) -> None:
    ccbpf("assign", "--download", "--remote-port", either.port)
    with either.connection() as ends:
        assert ends.origin(ccbpf) == ("rule", 1) and ends.clamp < OPEN
        ccbpf("assign", "remove", "--all")
        assert ends.clamp == OPEN and not ccbpf.root.exists()
        assert_can_be_held_again(ccbpf, ends)


def test_a_rule_opens_its_own(ccbpf: Cli, server: Server) -> None:
    """Those of another rule stay, and a rule for what is sent keeps none."""
    ccbpf("enable", "tcp_lp")
    with cgroup() as (name, within):
        ccbpf("assign", "--download", "--cgroup", name)
        ccbpf("assign", "--download", "--remote-port", server.port)
        ccbpf("assign", "tcp_lp", "--remote", "198.51.100.0/24")
        with server.connection() as ends, held(server, *within) as port:
            assert ends.origin(ccbpf) == ("rule", 2) and ends.clamp < OPEN
            ccbpf("assign", "remove", 2)
            assert ends.clamp == OPEN and not ends.record(ccbpf)
            assert [record["local_port"] for record in records(ccbpf)] == [port]
            ccbpf("assign", "remove", 1)
            assert not records(ccbpf) and [rule["id"] for rule in rules(ccbpf)] == [3]
    ccbpf("clean", "--all")


def test_what_has_not_begun_never_begins(ccbpf: Cli, server: Server) -> None:
    """A connection that had received too little to be held is none of a rule that is gone, while another rule is there."""
    ccbpf("assign", "--download", "--remote", "198.51.100.0/24")
    ccbpf("assign", "--download", "--remote-port", server.port)
    with server.connection(receives=100) as ends:
        ccbpf("assign", "remove", 2)
        ends.receive()
        assert not ends.record(ccbpf)
    assert counts(ccbpf, 1)["receivers"] == 0
    ccbpf("assign", "remove", "--all")


def killed_at(ccbpf: Cli, kill_at: Path, at: int) -> Cli:
    return Cli(ccbpf.root, {"LD_PRELOAD": str(kill_at), "KILL_AT": str(at)}, ccbpf.command)


def test_killed_at_every_step_of_removing(ccbpf: Cli, kill_at: Path, server: Server) -> None:
    """Where the rule is gone its idle connection opens with the next command, if not before. These are the steps around the change of
    the rules, because each costs two loads of them."""
    seen, code = set(), 1
    ccbpf("assign", "--download", "--remote", "198.51.100.0/24")
    for rule, at in enumerate((11, 12, 13, 99), 2):
        ccbpf("assign", "--download", "--remote-port", server.port)
        with server.connection() as ends:
            assert ends.clamp < OPEN
            code = killed_at(ccbpf, kill_at, at).run("assign", "remove", rule).code
            assert code in (0, -9)
            there, before = len(rules(ccbpf)) == 2, ends.clamp
            ccbpf("clean")
            assert (ends.clamp == OPEN) == (not there), at
            seen.add((there, before == OPEN))
            ccbpf.run("assign", "remove", rule)
    assert code == 0 and seen == {(True, False), (False, False), (False, True)}, seen
    ccbpf("assign", "remove", "--all")
    assert not ccbpf.root.exists()


def test_what_others_ask_for_stays(ccbpf: Cli, server: Server, tmp_path: Path) -> None:
    """A program that is called after ours asks for the changes of state, which we had asked for before."""
    pin = Path("/sys/fs/bpf") / f"{UNIQUE}-watcher"
    ccbpf("assign", "--download", "--remote-port", server.port)
    with ExitStack() as stack:
        attach(stack, compiled(tmp_path, WATCHER), pin, MOUNT, "multi")
        counted = counter(pin)
        stack.callback(counted.close)
        with server.connection() as ends:
            assert ends.clamp < OPEN
            ccbpf("assign", "remove", "--all")
            before = calls(counted)
            ends.near.shutdown(socket.SHUT_WR)
            assert ends.far.recv(1) == b""
            assert calls(counted) >= before + 2, "one of each end"


# --- runs ------------------------------------------------------------------------------


@contextmanager
def passed_on(cli: Cli, server: Server, *options: str, stays: bool = False) -> Iterator[tuple[Ends, int]]:
    """A connection that a run has passed to this process, and the run's exit code; with `stays` the run goes on."""
    near, theirs = socket.socketpair()
    words = ["run", "-q", *options, "--", "env", "-u", "LD_PRELOAD", PYTHON, "-c", PASSED, server.address, server.port, LEAST]
    with near:
        with theirs:
            run = cli.popen(*words, theirs.fileno(), int(stays), pass_fds=[theirs.fileno()])
        with server.listener.accept()[0] as far:
            far.sendall(bytes(LEAST))
            assert far.recv(1) == b"!"
            _, ancillary, _, _ = near.recvmsg(1, socket.CMSG_SPACE(array.array("i").itemsize))
            code = 0 if stays else run.wait(ENDS_S)
            with socket.socket(fileno=array.array("i", ancillary[0][2])[0]) as mine:
                yield Ends(mine, far), code
    run.wait(ENDS_S)


@pytest.mark.parametrize("options", [("--download",), ("--upload", "--download")], ids=" ".join)
def test_a_socket_that_outlives_its_run(run: Cli, server: Server, options: tuple[str, ...]) -> None:
    with passed_on(run, server, *options) as (ends, _):
        assert ends.clamp == OPEN and not records(run)
        run("clean", "--all")
        assert_can_be_held_again(run, ends)


def first_step_with_a_command(ccbpf: Cli, kill_at: Path, begun: Path) -> int:
    """A run that is killed before this step does not start its command."""
    for at in range(20, 60):
        killed_at(ccbpf, kill_at, at)("run", "-q", "--download", "--", "touch", begun, code=-9)
        ccbpf("clean")
        if begun.exists():
            return at
    raise AssertionError("no step is behind the start of the command")


def test_killed_at_every_step_of_a_run(ccbpf: Cli, kill_at: Path, server: Server, tmp_path: Path) -> None:
    """The next command opens what the killed one did not. These are the steps around the end of the command."""
    seen = set()
    first = first_step_with_a_command(ccbpf, kill_at, tmp_path / "begun")
    for at in (*range(first, first + 8), 99):
        killer = killed_at(ccbpf, kill_at, at)
        with passed_on(killer, server, "--download") as (ends, code):
            seen.add((code, ends.clamp == OPEN))
            ccbpf("clean")
            assert ends.clamp == OPEN and not records(ccbpf), at
        assert not ccbpf.root.exists(), at
    assert seen == {(-9, False), (-9, True), (0, True)}


# --- of another version ----------------------------------------------------------------


def section(binary: bytearray, begin: int, name: bytes) -> tuple[int, int]:
    """Where the section of an ELF object that begins at `begin` lies, and its size."""
    (table,) = struct.unpack_from("=Q", binary, begin + 40)
    size, number, names = struct.unpack_from("=HHH", binary, begin + 58)
    headers = [struct.unpack_from("=IIQQQQ", binary, begin + table + i * size) for i in range(number)]
    base = begin + headers[names][4]
    for header in headers:
        at = base + header[0]
        if binary[at : at + len(name) + 1] == name + b"\0":
            return begin + header[4], header[5]
    return 0, 0


def other_layout(binary: bytearray, begin: int) -> None:
    """What its sockets remember of their windows is 8 bytes longer."""
    at, _ = section(binary, begin, b".BTF")
    if not at or not section(binary, begin, b".maps")[0]:
        return
    length, types, types_size, strings = struct.unpack_from("=IIII", binary, at + 4)
    name = binary.find(b"\0receive\0", at + length + strings) + 1 - (at + length + strings)
    for place in range(at + length + types, at + length + types + types_size, 4):
        found, info, size = struct.unpack_from("=III", binary, place)
        if found == name and info >> 24 == 4:  # BTF_KIND_STRUCT
            struct.pack_into("=I", binary, place + 8, size + 8)


@pytest.fixture(scope="module")
def older(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A ccbpf whose programs have another CCBPF_RULE_ABI, and another layout of `receives`."""
    binary = bytearray(CCBPF.read_bytes())
    begin, changed = binary.find(b"\x7fELF", 1), 0
    while begin > 0:
        if struct.unpack_from("=H", binary, begin + 18) != (EM_BPF,):
            begin = binary.find(b"\x7fELF", begin + 1)
            continue
        for name in (b".rodata.table", b".rodata.run"):
            at, _ = section(binary, begin, name)
            if at:
                struct.pack_into("=I", binary, at, struct.unpack_from("=I", binary, at)[0] - 1)
                changed += 1
        other_layout(binary, begin)
        begin = binary.find(b"\x7fELF", begin + 1)
    assert changed == 3, "assign, run, rx_le"
    path = tmp_path_factory.mktemp("older") / "ccbpf"
    path.write_bytes(binary)
    path.chmod(0o755)
    return path


def test_rules_of_another_version(ccbpf: Cli, older: Path, server: Server) -> None:
    Cli(ccbpf.root, {}, older)("assign", "--download", "--remote-port", server.port)
    with server.connection() as ends:
        assert ends.clamp < OPEN
        ccbpf("clean", "--all")
        assert ends.clamp == OPEN and not ccbpf.root.exists()
        assert_can_be_held_again(ccbpf, ends)


def test_a_run_of_another_version(ccbpf: Cli, older: Path, server: Server) -> None:
    """Its command goes on."""
    try:
        with passed_on(Cli(ccbpf.root, {}, older), server, "--download", stays=True) as (ends, _):
            assert ends.clamp < OPEN
            ccbpf("clean", "--all")
            assert ends.clamp == OPEN and not ccbpf.root.exists()
            assert_can_be_held_again(ccbpf, ends)
    finally:
        for left in cgroups_of_runs():
            remove_cgroup(left)


def moved_data(root: Path) -> int:
    """The map that says the version of the program behind the pin."""
    shown = subprocess.run(
        ("bpftool", "-j", "link", "show", "pinned", root / "renice" / "link"), stdout=subprocess.PIPE, check=False
    )
    program = json.loads(kernel.run("bpftool", "-j", "prog", "show", "id", str(json.loads(shown.stdout)["prog_id"])).stdout)
    (found,) = [number for number in program["map_ids"] if kernel.Map.by_id(number).name == ".data.moved"]
    return int(found)


def test_what_another_version_has_moved(ccbpf: Cli, older: Path, server: Server) -> None:
    with server.connection() as ends:
        Cli(ccbpf.root, {}, older)("renice", "--download", *ends.selected)
        moved = kernel.Map.by_id(moved_data(ccbpf.root))
        moved.update(bytes(4), struct.pack("=II", 1, 0))  # its ABI
        ends.receive()
        assert ends.clamp < OPEN
        ccbpf("clean", "--all")
        assert ends.clamp == OPEN and not ccbpf.root.exists()
        assert_can_be_held_again(ccbpf, ends)


# --- connected anew --------------------------------------------------------------------


@pytest.mark.parametrize("by", ["rule", "renice"])
def test_a_socket_that_connects_anew(ccbpf: Cli, server: Server, by: str) -> None:
    """To where nothing is held: nothing of ours is called for the new connection."""
    with server.connection() as ends, socket.create_server(("127.0.0.1", 0)) as other:
        if by == "rule":
            ccbpf("assign", "--download", "--remote-port", other.getsockname()[1])
            ccbpf("assign", "--download", "--remote", "198.51.100.0/24")
        near = ends.near
        if by == "renice":
            ccbpf("renice", "--download", *ends.selected)
            ends.receive()
        else:
            near = socket.create_connection(other.getsockname())
            ends = Ends(near, other.accept()[0])
            ends.receive()
        assert ends.clamp < OPEN
        assert LIBC.connect(near.fileno(), AF_UNSPEC, len(AF_UNSPEC)) == 0
        near.connect(server.listener.getsockname())
        with near, server.listener.accept()[0] as far:
            again = Ends(near, far)
            again.receive()
            assert again.record(ccbpf) is None
            ends.far.close()
            ccbpf("clean", "--all")
            assert_can_be_held_again(ccbpf, again)
