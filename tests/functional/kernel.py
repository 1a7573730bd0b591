# SPDX-License-Identifier: GPL-2.0-only
"""What these tests ask of the kernel itself, without the command under test: BPF maps through bpf(2), with the structs
of include/ccbpf, sockets in namespaces, and TCP_INFO.

    registered(…)      controllers, registered by `bpftool struct_ops register` or found by their pins
    Controller         one of them: its kernel name, flows, statistics, parameters, events
    Namespace          a network namespace of a unique name, removed at the end
    tcp_info(sock)     the kernel's own view of a connection
    eventually(…)      a condition that must hold within a bound
"""

from __future__ import annotations

import ctypes
import errno
import itertools
import json
import mmap
import os
import platform
import re
import socket
import struct
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal, TypeVar

import cffi

from tests.unit import headers

ROOT = Path(__file__).resolve().parents[2]
COMMAND_S = 20.0
NAME = "ccbpf-flow"

T = TypeVar("T")


def run(*arguments: object, check: bool = True, **options: Any) -> subprocess.CompletedProcess[str]:
    """A short command; its failure says what it said."""
    words = [str(a) for a in arguments]
    done = subprocess.run(words, capture_output=True, text=True, timeout=COMMAND_S, **options)
    assert not check or done.returncode == 0, f"{' '.join(words)}: {done.returncode}: {done.stderr or done.stdout}"
    return done


def eventually(condition: Callable[[], T | Literal[False] | None], seconds: float, what: str, every_s: float = 0.01) -> T:
    """Polls until the condition is true and returns its value; fails after `seconds` with its last value."""
    end = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        assert time.monotonic() < end, f"not within {seconds:g} s: {what} (last: {value!r})"
        time.sleep(every_s)


# --- the structs of include/ccbpf ------------------------------------------------------------------------------------

ffi = cffi.FFI()
ffi.cdef(headers.preprocessed("".join(f'#include "{name}"\n' for name in headers.SHARED)))
PHASE = SimpleNamespace(**{row[1]: row[0] for row in headers.table("ccbpf/flow.h", "CCBPF_FLOW_PHASES", "vwvv")})
SIGNAL = SimpleNamespace(**{row[1]: row[0] for row in headers.table("ccbpf/flow.h", "CCBPF_FLOW_SIGNALS", "vwvv")})
_flow = dict(ffi.typeof("struct ccbpf_flow").fields)
OWN_PARTS = {name for name, field in _flow.items() if name and field.offset >= _flow["own"].offset}  # of a flow's record
PARAM_STRUCTS = {name for name in ffi.list_types()[1] if name.endswith("_params")}
ABI = headers.constants()["CCBPF_ABI"]
EVENT_WORDS = {row[0]: row[2] for row in headers.table("ccbpf/event.h", "CCBPF_EVENTS", "vwvv")}
EVENT_DATA = 1 << 20


def decode(kind: str, data: bytes) -> SimpleNamespace:
    """A C struct as an object: char arrays as text, other arrays as bytes or lists, structs as objects."""

    def convert(value: Any, type_: cffi.FFI.CType) -> object:
        if type_.kind == "struct":
            return fields(value, type_)
        if type_.kind == "union":
            return None
        if type_.kind == "array":
            if type_.item.cname == "char":
                return ffi.string(value).decode()
            return bytes(ffi.buffer(value)) if ffi.sizeof(type_.item) == 1 else list(value)
        return int(value)

    def fields(value: object, type_: cffi.FFI.CType) -> SimpleNamespace:
        found: dict[str, object] = {}
        for name, field in type_.fields:
            if name:
                found[name] = convert(getattr(value, name), field.type)
            else:  # the anonymous union of the controllers' own parts
                for inner, inner_field in field.type.fields:
                    found[inner] = convert(getattr(value, inner), inner_field.type)
        return SimpleNamespace(**found)

    type_ = ffi.typeof(f"struct {kind}")
    assert len(data) >= ffi.sizeof(type_), f"struct {kind} of {len(data)} bytes"
    return fields(ffi.cast(f"struct {kind} *", ffi.from_buffer(data))[0], type_)


# --- bpf(2) ----------------------------------------------------------------------------------------------------------

_libc = ctypes.CDLL(None, use_errno=True)
_NR_BPF = {"x86_64": 321, "aarch64": 280}[platform.machine()]
LOOKUP, UPDATE, DELETE, NEXT_KEY, OBJ_PIN, OBJ_GET, FD_BY_ID, INFO_BY_FD, LINK_CREATE = 1, 2, 3, 4, 6, 7, 14, 15, 28
TCX_EGRESS = 47
LOOKUP_BATCH, UPDATE_BATCH, DELETE_BATCH = 24, 26, 27
POSSIBLE_CPUS = int(Path("/sys/devices/system/cpu/possible").read_text().strip().rpartition("-")[2]) + 1


def bpf(command: int, attributes: bytes) -> tuple[int, bytes]:
    """The system call; returns its result and the attributes as the kernel left them. OSError on failure."""
    buffer = ctypes.create_string_buffer(attributes.ljust(128, b"\0"), 128)
    result = _libc.syscall(_NR_BPF, command, buffer, 128)
    if result < 0:
        raise OSError(ctypes.get_errno(), f"bpf({command}): {os.strerror(ctypes.get_errno())}")
    return result, buffer.raw


def open_pin(path: str | Path) -> int:
    """A descriptor of the pinned object."""
    name = ctypes.create_string_buffer(os.fsencode(path))
    return bpf(OBJ_GET, struct.pack("=QII", ctypes.addressof(name), 0, 0))[0]


def pin_tcx_link(program: Path, ifindex: int, path: Path) -> None:
    """Attaches a pinned program at the device's egress, and pins the link."""
    fd = open_pin(program)
    link, _ = bpf(LINK_CREATE, struct.pack("=IIII", fd, ifindex, TCX_EGRESS, 0))
    name = ctypes.create_string_buffer(os.fsencode(path))
    bpf(OBJ_PIN, struct.pack("=QII", ctypes.addressof(name), link, 0))
    os.close(link)
    os.close(fd)


class Map:
    """A BPF map by its file descriptor."""

    def __init__(self, fd: int) -> None:
        self.fd = fd
        info = ctypes.create_string_buffer(128)
        bpf(INFO_BY_FD, struct.pack("=IIQ", fd, 128, ctypes.addressof(info)))
        self.type, self.id, self.key_size, self.value_size, self.max_entries = struct.unpack_from("=IIIII", info.raw)
        self.name = info.raw[24:40].partition(b"\0")[0].decode()
        per_cpu = self.type in (5, 6)
        self._out_size = -(-self.value_size // 8) * 8 * POSSIBLE_CPUS if per_cpu else self.value_size

    @classmethod
    def by_id(cls, map_id: int) -> Map:
        return cls(bpf(FD_BY_ID, struct.pack("=III", map_id, 0, 0))[0])

    @classmethod
    def by_pin(cls, path: str | Path) -> Map:
        return cls(open_pin(path))

    def close(self) -> None:
        os.close(self.fd)

    def _element(self, command: int, key: bytes | None, value: ctypes.Array[ctypes.c_char] | None, flags: int = 0) -> None:
        k = ctypes.create_string_buffer(key, len(key)) if key is not None else None
        bpf(
            command,
            struct.pack("=IIQQQ", self.fd, 0, ctypes.addressof(k) if k else 0, ctypes.addressof(value) if value else 0, flags),
        )

    def lookup(self, key: bytes) -> bytes | None:
        value = ctypes.create_string_buffer(self._out_size)
        try:
            self._element(LOOKUP, key, value)
        except OSError as error:
            if error.errno == errno.ENOENT:
                return None
            raise
        return value.raw

    def update(self, key: bytes, value: bytes) -> None:
        self._element(UPDATE, key, ctypes.create_string_buffer(value, len(value)))

    def delete(self, key: bytes) -> None:
        self._element(DELETE, key, None)

    def __iter__(self) -> Iterator[bytes]:
        return iter(self.keys())

    def keys(self) -> list[bytes]:
        found: list[bytes] = []
        key = None
        while True:
            following = ctypes.create_string_buffer(self.key_size)
            try:
                self._element(NEXT_KEY, key, following)
            except OSError as error:
                if error.errno == errno.ENOENT:
                    return found
                raise
            key = following.raw
            found.append(key)
            assert len(found) <= 2 * self.max_entries, "the walk does not end"

    def batch(self, command: int, keys: list[bytes], values: bytes = b"") -> int:
        """Updates or deletes many; returns how many were done, an OSError's worth of fewer at the first refusal."""
        k = ctypes.create_string_buffer(b"".join(keys))
        v = ctypes.create_string_buffer(values) if values else None
        attributes = struct.pack(
            "=QQQQIIQQ", 0, 0, ctypes.addressof(k), ctypes.addressof(v) if v else 0, len(keys), self.fd, 0, 0
        )
        buffer = ctypes.create_string_buffer(attributes.ljust(128, b"\0"), 128)
        _libc.syscall(_NR_BPF, command, buffer, 128)
        return int(struct.unpack_from("=I", buffer.raw, 32)[0])


class Ring:
    """A BPF ring buffer, read by its own positions: what was ever written is there to be counted."""

    def __init__(self, map_: Map) -> None:
        page, self._size = mmap.PAGESIZE, map_.max_entries
        self._consumer = mmap.mmap(map_.fd, page)
        self._producer = mmap.mmap(map_.fd, page + 2 * self._size, prot=mmap.PROT_READ, offset=page)
        self._page = page

    @property
    def written(self) -> int:
        """Bytes that were ever written to it."""
        return int(struct.unpack_from("=Q", self._producer, 0)[0])

    def read(self) -> list[SimpleNamespace]:
        """The events since the last reading by anybody."""
        (at,) = struct.unpack_from("=Q", self._consumer, 0)
        events = []
        while at < self.written:
            offset = self._page + (at & (self._size - 1))
            (header,) = struct.unpack_from("=I", self._producer, offset)
            if header & 1 << 31:  # being written
                break
            length = header & (1 << 30) - 1
            if not header & 1 << 30:
                event = decode("ccbpf_event", self._producer[offset + 8 : offset + 8 + length])
                event.word = EVENT_WORDS[event.type]
                events.append(event)
            at += -(-(length + 8) // 8) * 8
            struct.pack_into("=Q", self._consumer, 0, at)
        return events


# --- controllers -----------------------------------------------------------------------------------------------------


class Controller:
    """A registered controller and its maps."""

    def __init__(self, name: str, title: str, kind: int, maps: dict[str, Map]) -> None:
        self.name = name  # what TCP_CONGESTION takes
        self.title = title  # what its records say
        self.kind = kind
        self.maps = maps
        self.ring = Ring(maps["events"])

    def flows(self) -> list[SimpleNamespace]:
        """The live records of this controller."""
        flows = self.maps["flows"]
        values = ((key, flows.lookup(key)) for key in flows)
        records = []
        for key, value in values:
            if value is not None:
                record = decode("ccbpf_flow", value)
                record.key = int.from_bytes(key, "little")
                if record.kind == self.kind:
                    records.append(record)
        return records

    def flow(self, sock: socket.socket) -> SimpleNamespace | None:
        """The record of one of our sockets."""
        local, remote = sock.getsockname()[1], sock.getpeername()[1]
        found = [f for f in self.flows() if (f.local_port, f.remote_port) == (local, remote)]
        assert len(found) <= 1, found
        return found[0] if found else None

    def undone(self, sock: socket.socket, undos: int, rtt_s: float) -> None:
        """Waits until the undo of this number is over, and two round trips more."""
        eventually(lambda: (f := self.flow(sock)) and f.undos == undos, 5, "the undo")
        time.sleep(2 * rtt_s)

    def stats(self) -> SimpleNamespace:
        data = self.maps["stats"].lookup(struct.pack("=I", self.kind))
        assert data
        size = ffi.sizeof("struct ccbpf_stats")
        per_cpu = [decode("ccbpf_stats", data[i : i + size]) for i in range(0, size * POSSIBLE_CPUS, size)]
        return SimpleNamespace(**{name: sum(getattr(s, name) for s in per_cpu) for name in vars(per_cpu[0])})

    def listen(self, seconds: float) -> None:
        """Events are written for so long; 0: no more."""
        until = time.monotonic_ns() + round(seconds * 1e9) if seconds else 0
        self.maps["listener"].update(bytes(4), struct.pack("=Q", until))

    @property
    def table(self) -> str:
        """The struct of its parameters: its own, or TCP-LP's where it has none."""
        own = f"{self.title}_params"
        return own if own in PARAM_STRUCTS else "tcp_lp_params"

    def params(self) -> SimpleNamespace:
        data = self.maps["params"].lookup(bytes(4))
        assert data
        return decode(self.table, data)

    @contextmanager
    def set(self, **values: int) -> Iterator[None]:
        """Other parameters meanwhile."""
        params = self.maps["params"]
        before = params.lookup(bytes(4))
        assert before
        changed = ffi.new(f"struct {self.table} *")
        ffi.memmove(changed, before, ffi.sizeof(f"struct {self.table}"))
        for name, value in values.items():
            setattr(changed, name, value)
        params.update(bytes(4), bytes(ffi.buffer(changed)))
        try:
            yield
        finally:
            params.update(bytes(4), before)


_TABLE = headers.table("ccbpf/controllers.h", "CCBPF_CONTROLLERS", "vwwvv")
KINDS = {row[1]: row[0] for row in _TABLE}
OPEN = [row[1] for row in _TABLE if row[2] == "OPEN"]  # anybody may select them
# TCP-LP's machinery, and its part of the record: below 38 packets they are one
LP_FAMILY = [name for name, part in headers.table("ccbpf/flow.h", "CCBPF_FLOW_OWN", "ww") if part == "lp"]


def available() -> set[str]:
    return set(Path("/proc/sys/net/ipv4/tcp_available_congestion_control").read_text().split())


def struct_ops_value(map_id: int) -> dict[str, object]:
    """The ops table in a struct_ops map."""
    shown = json.loads(run("bpftool", "-j", "struct_ops", "dump", "id", map_id).stdout)
    data: dict[str, object] = shown[1]["bpf_struct_ops_tcp_congestion_ops"]["data"]
    return data


def struct_ops() -> dict[int, SimpleNamespace]:
    """The registered controllers that are BPF: the name of each, and the maps of its programs, by struct_ops map."""
    found = {}
    for row in json.loads(run("bpftool", "-j", "struct_ops", "list").stdout or "[]"):
        done = run("bpftool", "-j", "struct_ops", "dump", "id", row["id"], check=False)
        if done.returncode:  # gone meanwhile
            continue
        value = json.loads(done.stdout)[1]["bpf_struct_ops_tcp_congestion_ops"]
        if value["common"]["state"] == "BPF_STRUCT_OPS_STATE_TOBEFREE":  # unregistered
            continue
        ops = value["data"]
        programs = {int(n) for value in ops.values() for n in re.findall(r"/prog_id:(\d+)$", str(value))}
        found[row["id"]] = SimpleNamespace(name=ops["name"], programs=programs)
    return found


def name_in_object(path: Path) -> str:
    """The name that an object registers: the only text in its ELF section .struct_ops."""
    elf = path.read_bytes()
    (table,) = struct.unpack_from("=Q", elf, 40)
    size, count, names = struct.unpack_from("=HHH", elf, 58)
    sections = [struct.unpack_from("=IIQQQQ", elf, table + i * size) for i in range(count)]
    texts = sections[names][4]
    for name, _, _, _, offset, length in sections:
        if elf[texts + name :].startswith(b".struct_ops\0"):
            words: list[bytes] = re.findall(rb"[a-z][a-z_]+", elf[offset : offset + length])
            return words[0].decode()
    raise AssertionError(f"{path}: no section .struct_ops")


@contextmanager
def registered_by_bpftool(path: Path) -> Iterator[Controller]:
    """An object registered without ccbpf; it has maps of its own."""
    title, name, before = path.name.partition(".")[0], name_in_object(path), set(struct_ops())
    run("bpftool", "struct_ops", "register", path)
    new = {i: ops for i, ops in struct_ops().items() if i not in before and ops.name == name}
    try:
        ((ops_id, ops),) = new.items()
        shown = [json.loads(run("bpftool", "-j", "prog", "show", "id", i).stdout) for i in ops.programs]
        opened = [Map.by_id(i) for i in sorted({i for program in shown for i in program["map_ids"]})]
        maps = {m.name: m for m in opened}
        maps["params"] = next(m for m in opened if m.name.startswith(".data.params"))
        try:
            yield Controller(ops.name, title, KINDS[title], maps)
        finally:
            for m in opened:
                m.close()
    finally:
        for ops_id in new:
            run("bpftool", "struct_ops", "unregister", "id", ops_id)


def pinned(root: str | Path, title: str) -> Controller:
    """A controller that ccbpf enabled under this root."""
    shared = {name: Map.by_pin(f"{root}/{name}") for name in ("flows", "stats", "events", "listener")}
    return Controller(title, title, KINDS[title], {**shared, "params": Map.by_pin(f"{root}/{title}/params")})


# --- namespaces and sockets ------------------------------------------------------------------------------------------

CLONE_NEWNET = 0x40000000
_counter = itertools.count()


@contextmanager
def inside(namespace: str) -> Iterator[None]:
    """This thread in the namespace: what it opens there stays there."""
    with open("/proc/thread-self/ns/net") as home, open(f"/run/netns/{namespace}") as there:
        assert _libc.setns(there.fileno(), CLONE_NEWNET) == 0, os.strerror(ctypes.get_errno())
        try:
            yield
        finally:
            assert _libc.setns(home.fileno(), CLONE_NEWNET) == 0, os.strerror(ctypes.get_errno())


def replace_map(pin: Path, change: Callable[[bytes], bytes]) -> None:
    """Another array with a changed value in the place of a pinned one, which may be frozen."""
    old = Map.by_pin(pin)
    value = old.lookup(bytes(4))
    assert value is not None
    pin.unlink()
    run("bpftool", "map", "create", pin, "type", "array", "key", 4, "value", old.value_size, "entries", 1, "name", "other")
    new = Map.by_pin(pin)
    new.update(bytes(4), change(value))
    old.close()
    new.close()


class Namespace:
    """A network namespace of a unique name."""

    def __init__(self, role: str) -> None:
        self.name = f"{NAME}.{os.getpid()}.{next(_counter)}.{role}"

    def __enter__(self) -> Namespace:
        run("ip", "netns", "add", self.name)
        self.ip("link", "set", "lo", "up")
        self.sysctl("net.ipv4.tcp_no_metrics_save=1")  # a flow learns nothing from the one before it
        return self

    def __exit__(self, *_: object) -> None:
        run("ip", "netns", "del", self.name)

    @property
    def inode(self) -> int:
        return os.stat(f"/run/netns/{self.name}").st_ino

    def ip(self, *arguments: object) -> str:
        return run("ip", "-n", self.name, *arguments).stdout

    def run(self, *arguments: object, check: bool = True) -> subprocess.CompletedProcess[str]:
        return run("ip", "netns", "exec", self.name, *arguments, check=check)

    def sysctl(self, *settings: str) -> None:
        self.run("sysctl", "-qw", *settings)

    def socket(self, family: int = socket.AF_INET) -> socket.socket:
        with inside(self.name):
            return socket.socket(family, socket.SOCK_STREAM)


@contextmanager
def joined() -> Iterator[tuple[Namespace, Namespace]]:
    """Two namespaces, joined: 10.77.0.1, fd77::1 in the first, 10.77.0.2, fd77::2 in the second."""
    with Namespace("a") as a, Namespace("b") as b:
        a.ip("link", "add", "veth0", "type", "veth", "peer", "name", "veth0", "netns", b.name)
        for namespace in (a, b):
            namespace.sysctl("net.ipv6.conf.veth0.accept_dad=0")
            namespace.ip("link", "set", "veth0", "up")
        for namespace, host in ((a, 1), (b, 2)):
            namespace.ip("address", "add", f"10.77.0.{host}/24", "dev", "veth0")
            namespace.ip("address", "add", f"fd77::{host}/64", "dev", "veth0", "nodad")
        yield a, b


class Child:
    """A process in a namespace, with all its output so far; it dies with us."""

    def __init__(self, arguments: list[str]) -> None:
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 -- closed with the process
        self._process = subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", *arguments], stdin=subprocess.DEVNULL, stdout=self._log, stderr=self._log
        )

    def output(self) -> str:
        return os.pread(self._log.fileno(), 1 << 20, 0).decode(errors="replace")

    def wait(self, seconds: float) -> int:
        try:
            return self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            raise


def start(namespace: Namespace, *arguments: object) -> Child:
    return Child(["ip", "netns", "exec", namespace.name, *(str(a) for a in arguments)])


def choose(sock: socket.socket, controller: str) -> None:
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, controller.encode())


def chosen(sock: socket.socket) -> str:
    return sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16).partition(b"\0")[0].decode()


def abort(sock: socket.socket) -> None:
    """Closes with RST."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    sock.close()


@dataclass(frozen=True)
class TcpInfo:
    ca_state: int
    unacked: int
    rtt_us: int
    ssthresh: int
    cwnd: int
    retrans: int
    pacing_rate: int


def tcp_info(sock: socket.socket) -> TcpInfo:
    data = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 192)
    (unacked,) = struct.unpack_from("=I", data, 24)
    rtt_us, _, ssthresh, cwnd = struct.unpack_from("=IIII", data, 68)
    (retrans,) = struct.unpack_from("=I", data, 100)
    (pacing_rate,) = struct.unpack_from("=Q", data, 104)
    return TcpInfo(data[1], unacked, rtt_us, ssthresh, cwnd, retrans, pacing_rate)


def kernel_log() -> list[str]:
    return run("dmesg").stdout.splitlines()


@contextmanager
def no_kernel_warning() -> Iterator[None]:
    """Fails if the kernel warned meanwhile."""
    before = len(kernel_log())
    yield
    bad = [line for line in kernel_log()[before:] if re.search(r"WARNING|BUG|Oops|RIP:|Call Trace|divide error", line)]
    assert not bad, bad


class Sink:
    """A server in a namespace that reads what comes, each connection in a thread; `received` and the bytes' hash."""

    def __init__(self, namespace: Namespace, address: str, port: int = 0, on_data: Callable[[bytes], None] | None = None):
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        self.server = namespace.socket(family)
        self.server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.server.bind((address, port))
        self.server.listen(1024)
        self.address = (address, self.server.getsockname()[1])
        self.received = 0
        self._on_data = on_data
        self._threads: list[threading.Thread] = []
        self._connections: list[socket.socket] = []
        self._accepter = threading.Thread(target=self._accept, daemon=True)
        self._accepter.start()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self.server.accept()
            except OSError:
                return
            self._connections.append(connection)
            thread = threading.Thread(target=self._read, args=(connection,), daemon=True)
            self._threads.append(thread)
            thread.start()

    def _read(self, connection: socket.socket) -> None:
        try:
            while data := connection.recv(1 << 16):
                self.received += len(data)
                if self._on_data:
                    self._on_data(data)
        except OSError:
            pass
        connection.close()

    def abort(self) -> None:
        """Resets all connections."""
        for connection in self._connections:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            connection.shutdown(socket.SHUT_RD)  # wakes the reader, which closes

    def close(self) -> None:
        self.server.shutdown(socket.SHUT_RDWR)
        self.server.close()
        self._accepter.join(5)
        for connection in self._connections:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(5)

    def __enter__(self) -> Sink:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
