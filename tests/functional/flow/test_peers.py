# SPDX-License-Identifier: GPL-2.0-only
"""The labs' own peers on this kernel: it takes the object, and flows under each of its controllers send what they should."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.functional import kernel
from tests.functional.kernel import Namespace, Sink, choose, chosen, eventually

OBJECT = kernel.ROOT / "build/tests/ledbatpp.bpf.o"
NAMES = ("ledbatpp", "ledbatpp_apple")
BYTES = 2_000_000


@pytest.fixture
def registered(registry_lock: Path) -> Iterator[None]:
    before = set(kernel.struct_ops())
    try:
        kernel.run("bpftool", "struct_ops", "register", OBJECT)
        yield
    finally:
        for map_id in set(kernel.struct_ops()) - before:
            kernel.run("bpftool", "struct_ops", "unregister", "id", map_id)


def send(name: str, a: Namespace, sink: Sink) -> None:
    with a.socket() as sock:
        choose(sock, name)
        sock.connect(sink.address)
        sock.sendall(bytes(BYTES))
        assert chosen(sock) == name
        eventually(lambda: sink.received == BYTES, 10, "all data")


def test_a_flow_under_each(registered: None, netns_pair: tuple[Namespace, Namespace]) -> None:
    a, b = netns_pair
    assert set(NAMES) <= kernel.available()
    for name in NAMES:
        with Sink(b, "10.77.0.2") as sink:
            send(name, a, sink)
