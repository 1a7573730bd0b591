# SPDX-License-Identifier: GPL-2.0-only
"""Controllers: which are registered, and the flows, statistics, parameters and events of one."""

from __future__ import annotations

import json
import re
import socket
import struct
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

from tests.unit import headers

from .command import eventually, run
from .maps import POSSIBLE_CPUS, Map, Ring
from .structs import PARAM_STRUCTS, decode, ffi


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
        """Lets events be written for this long; 0: no more."""
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
        """Other parameters within the block."""
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
    shared = {
        name: Map.by_pin(f"{root}/{name}")
        for name in ("flows", "stats", "totals", "unit_totals", "rule_totals", "events", "listener")
    }
    return Controller(title, title, KINDS[title], {**shared, "params": Map.by_pin(f"{root}/{title}/params")})
