# SPDX-License-Identifier: GPL-2.0-only
"""Connections come and go while controllers do: nothing leaks, no record is torn, and any user may select the controllers."""

from __future__ import annotations

import hashlib
import json
import os
import random
import socket
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.functional import kernel
from tests.functional.conftest import Cli
from tests.functional.kernel import Map, Namespace, Sink, abort, choose, chosen, eventually

CONNECTIONS, THREADS = 2000, 8
MOST = 60_000  # a bound, should the commands never end
OURS = ["tcp_lp", "tcp_lp_ecn"]
Pair = tuple[Namespace, Namespace]


@pytest.fixture
def quiet_kernel() -> Iterator[None]:
    with kernel.no_kernel_warning():
        yield


# --- 2 000 connections -----------------------------------------------------------------------------------------------


class Churn:
    """Connections of every kind of life and end, from several threads: CONNECTIONS, and on until it is `enough`."""

    def __init__(self, a: Namespace, sink: Sink) -> None:
        self.a, self.sink = a, sink
        self.ends: Counter[str] = Counter()
        self.chosen: Counter[str] = Counter()
        self.errors: list[str] = []
        self.enough = threading.Event()
        self._next = iter(range(MOST))
        self._lock = threading.Lock()
        self._threads = [threading.Thread(target=self._work, args=(i,), daemon=True) for i in range(THREADS)]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    @property
    def running(self) -> bool:
        return any(thread.is_alive() for thread in self._threads)

    def _work(self, seed: int) -> None:
        dice = random.Random(seed)
        ends = [self._close, self._reset, self._switch, self._half_open, self._linger]
        with kernel.inside(self.a.name):
            while True:
                with self._lock:
                    number = next(self._next, None)
                if number is None or (number >= CONNECTIONS and self.enough.is_set()):
                    return
                end = ends[number % len(ends)]
                sock = socket.socket(socket.AF_INET6 if dice.random() < 0.3 else socket.AF_INET)
                try:
                    sock.settimeout(10)
                    self._try(sock, dice.choice(OURS))
                    end(sock, dice)
                    with self._lock:
                        self.ends[end.__name__] += 1
                except OSError as error:
                    self.errors.append(f"{end.__name__}: {error!r}")
                finally:
                    sock.close()

    def _try(self, sock: socket.socket, name: str) -> None:
        """Selects the controller, which may be disabled at that moment."""
        try:
            choose(sock, name)
        except FileNotFoundError:
            name = "none"
        with self._lock:
            self.chosen[name] += 1

    def _connect(self, sock: socket.socket) -> None:
        address = "10.77.0.2" if sock.family == socket.AF_INET else "fd77::2"
        sock.connect((address, self.sink.address[1]))

    def _close(self, sock: socket.socket, dice: random.Random) -> None:
        self._connect(sock)
        sock.sendall(bytes(dice.randrange(1, 50_000)))

    def _reset(self, sock: socket.socket, dice: random.Random) -> None:
        self._connect(sock)
        sock.sendall(bytes(dice.randrange(1, 50_000)))
        abort(sock)

    def _switch(self, sock: socket.socket, dice: random.Random) -> None:
        self._connect(sock)
        for name in dice.sample([*OURS, "reno", "cubic"], 3):
            sock.sendall(bytes(dice.randrange(1, 20_000)))
            self._try(sock, name)

    def _half_open(self, sock: socket.socket, dice: random.Random) -> None:
        """A SYN to an address without a host; some close the socket, some change the controller before."""
        sock.setblocking(False)
        sock.connect_ex(("10.77.0.99", 9) if sock.family == socket.AF_INET else ("fd77::99", 9))
        if dice.random() < 0.5:
            self._try(sock, dice.choice(OURS))

    def _linger(self, sock: socket.socket, dice: random.Random) -> None:
        """A connection that stays half closed for a while."""
        self._connect(sock)
        sock.sendall(bytes(1000))
        sock.shutdown(socket.SHUT_WR)
        sock.recv(1)


class Watcher:
    """Every map `flows` and `stats` that existed: a new enable may create new ones."""

    def __init__(self, ccbpf: Cli) -> None:
        self.root = ccbpf.root
        self.maps: dict[int, Map] = {}

    def look(self) -> None:
        for name in ("flows", "stats"):
            try:
                found = Map.by_pin(self.root / name)
            except OSError:
                continue
            if found.id in self.maps:
                found.close()
            else:
                self.maps[found.id] = found

    def records(self) -> int:
        return sum(len(m.keys()) for m in self.maps.values() if m.name == "flows")

    def counted(self) -> Counter[str]:
        total: Counter[str] = Counter()
        size = kernel.ffi.sizeof("struct ccbpf_stats")
        for m in self.maps.values():
            if m.name != "stats":
                continue
            for name in OURS:
                data = m.lookup(kernel.KINDS[name].to_bytes(4, "little"))
                assert data
                for at in range(0, size * kernel.POSSIBLE_CPUS, size):
                    total.update(vars(kernel.decode("ccbpf_stats", data[at : at + size])))
        return total


@pytest.mark.rerun(
    "a sandbox's kernel may run no BPF program in process 1, nor in a softirq there: docs/limits.md, Kernels and tools"
)
def test_thousands_of_connections_while_controllers_come_and_go(ccbpf: Cli, netns_pair: Pair, quiet_kernel: None) -> None:
    a, b = netns_pair
    before = set(kernel.struct_ops())  # a socket of another test may use an old one until it has sent its last data
    ccbpf("enable", *OURS)
    watcher = Watcher(ccbpf)
    watcher.look()
    with Sink(b, "::") as sink:
        sink.server.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, b"tcp_lp")  # its connections inherit it
        churn = Churn(a, sink)
        churn.start()
        steps: list[tuple[object, ...]] = [
            ("set", "tcp_lp", "delta=300"),
            ("reload", "tcp_lp"),
            ("disable", "tcp_lp"),
            ("enable", "tcp_lp"),
            ("set", "tcp_lp_ecn", "small_window=9"),
            ("disable", "--all"),
            ("enable", *OURS),
            ("reload", *OURS),
        ]
        done = 0
        while churn.running:
            ccbpf(*steps[done % len(steps)])
            watcher.look()
            done += 1
            if done >= len(steps):
                churn.enough.set()
        assert done >= len(steps)
        assert not churn.errors, churn.errors[:10]
        assert sum(churn.ends.values()) >= CONNECTIONS
        assert all(churn.chosen[name] > 300 for name in OURS), churn.chosen
    eventually(lambda: watcher.records() == 0, 10, "no record is left")
    total = watcher.counted()
    assert total["flows_opened"] == total["flows_closed"] > CONNECTIONS, total
    assert total["flows_untracked"] == 0
    ccbpf.run("disable", "--all")
    eventually(
        lambda: not {ops.name for number, ops in kernel.struct_ops().items() if number not in before} & set(OURS),
        10,
        "the controllers are gone",
    )


# --- disabling under flows -------------------------------------------------------------------------------------------


def test_flows_finish_whole_after_disable(ccbpf: Cli, netns_pair: Pair) -> None:
    """Flows keep the controller, and every byte arrives; new ones cannot select it, and status counts those that remain."""
    a, b = netns_pair
    ccbpf("enable", *OURS)
    data = random.Random(1).randbytes(1 << 20)
    received = [hashlib.sha256(), hashlib.sha256()]
    socks = []
    sinks = [Sink(b, "10.77.0.2", on_data=digest.update) for digest in received]
    try:
        for name, sink in zip(OURS, sinks):
            sock = a.socket()
            choose(sock, name)
            sock.settimeout(10)
            sock.connect(sink.address)
            sock.sendall(data)
            socks.append(sock)
        ccbpf("disable", "--all")
        status = ccbpf.status()
        assert [(status[name]["state"], status[name]["draining"]) for name in OURS] == [("draining", 1)] * 2
        assert not set(OURS) & kernel.available()
        for name, sock in zip(OURS, socks):
            with a.socket() as fresh, pytest.raises(FileNotFoundError):
                choose(fresh, name)
            for _ in range(20):
                sock.sendall(data)
            assert chosen(sock) == name
        flows = {f["controller"]: f for f in ccbpf("-j", "flows").json["flows"]}
        assert set(flows) == set(OURS)
        for digest, sink in zip(received, sinks):
            eventually(lambda: sink.received == 21 * len(data), 10, "all data")
            assert digest.hexdigest() == hashlib.sha256(data * 21).hexdigest()
        # one of them ends: one is left
        socks[0].close()
        eventually(lambda: OURS[0] not in {f["controller"] for f in ccbpf("-j", "flows").json["flows"]}, 5, "it is gone")
        left = ccbpf.status()
        assert left[OURS[1]]["draining"] == 1 and left.get(OURS[0], {"draining": 0})["draining"] == 0
        # the new generation works beside the old one
        ccbpf("enable", OURS[1])
        fresh = a.socket()
        choose(fresh, OURS[1])
        fresh.connect(sinks[0].address)
        status = ccbpf.status()
        assert (status[OURS[1]]["flows"], status[OURS[1]]["draining"]) == (1, 1)
        fresh.close()
    finally:
        for sock in socks:
            sock.close()
        for sink in sinks:
            sink.close()
    eventually(lambda: not ccbpf("-j", "flows").json["flows"], 5, "no record is left")


# --- who may -----------------------------------------------------------------------------------------------------------

SELECT = """
import json, os, socket, sys
status = dict(line.split(":", 1) for line in open("/proc/self/status") if ":" in line)
found = {"uid": os.getuid(), "capabilities": int(status["CapEff"], 16)}
for name in sys.argv[2:]:
    s = socket.socket()
    try:
        s.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, name.encode())
        s.connect(("10.77.0.2", int(sys.argv[1])))
        s.sendall(bytes(100000))
        found[name] = s.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16).rstrip(b"\\0").decode()
    except OSError as error:
        found[name] = error.strerror
print(json.dumps(found))
"""


def test_anybody_may_select_them(ccbpf: Cli, netns_pair: Pair) -> None:
    """A user without capabilities, in another network namespace than the one where they were enabled."""
    a, b = netns_pair
    ccbpf("enable", *kernel.OPEN)
    with Sink(b, "10.77.0.2") as sink:
        drop = "--reuid nobody --regid nogroup --clear-groups --inh-caps=-all --bounding-set=-all --no-new-privs".split()
        done = a.run("setpriv", *drop, "/usr/bin/env", "python3", "-c", SELECT, sink.address[1], *kernel.OPEN, "nothing")
        found = json.loads(done.stdout)
        assert found.pop("uid") != 0 and found.pop("capabilities") == 0
        assert found == {**{name: name for name in kernel.OPEN}, "nothing": os.strerror(2)}
        eventually(lambda: sink.received == 100_000 * len(kernel.OPEN), 5, "all data")
    statistics = {name: ccbpf.status()[name]["stats"] for name in kernel.OPEN}
    assert [statistics[name]["flows_opened"] for name in kernel.OPEN] == [1] * len(kernel.OPEN)


# --- without ccbpf -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", kernel.KINDS)
def test_bpftool_alone(name: str, registry_lock: Path, none_registered: None, netns_pair: Pair) -> None:
    """`bpftool struct_ops register build/bpf/<name>.bpf.o`, a flow, `bpftool map dump name flows`."""
    a, b = netns_pair
    with kernel.registered_by_bpftool(kernel.ROOT / f"build/bpf/{name}.bpf.o") as controller, Sink(b, "10.77.0.2") as sink:
        assert controller.name == name
        sock = a.socket()
        choose(sock, name)
        sock.connect(sink.address)
        sock.sendall(bytes(100_000))
        dump = kernel.run("bpftool", "map", "dump", "name", "flows").stdout
        assert f'"controller": "{name}"' in dump
        assert f'"remote_port": {sink.address[1]}' in dump
        assert '"phase": "CCBPF_PHASE_SLOW_START"' in dump
        record = controller.flow(sock)
        assert record and (record.controller, record.instance) == (name, 0)
        sock.close()
        eventually(lambda: not controller.flows(), 5, "no record is left")
    assert name not in kernel.available()
