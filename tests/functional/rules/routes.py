# SPDX-License-Identifier: GPL-2.0-only
"""A route that names a controller (`congctl`), and a client whose connection takes it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tests.functional import kernel
from tests.functional.rules.background import BACKGROUND, CLIENT, PYTHON

Pair = tuple[kernel.Namespace, kernel.Namespace]
BY_ROUTE = "reno"
ROUTES = [((), BACKGROUND), (("lock",), BY_ROUTE)]  # what the route has beside the name, and the controller of the connection
ROUTE_IDS = ["congctl", "congctl lock"]
PORT = "7"
LISTENS_S = 5.0


@contextmanager
def routed(hosts: Pair, lock: tuple[str, ...]) -> Iterator[list[str]]:
    """The command line of a client in the first, which connects to the second by the route, and says its controller."""
    near, far = hosts
    near.ip("route", "change", "10.77.0.0/24", "dev", "veth0", "src", "10.77.0.1", "congctl", *lock, BY_ROUTE)
    serve = f"import socket; c = socket.create_server(('', {PORT})).accept()[0]; c.recv(9); c.close()"
    server = kernel.start(far, PYTHON, "-c", serve)
    kernel.eventually(lambda: f":{PORT} " in far.run("ss", "-ltn").stdout, LISTENS_S, "the listener")
    client = CLIENT.replace("127.0.0.1", "10.77.0.2")
    yield ["ip", "netns", "exec", near.name, PYTHON, "-c", client, "4", PORT, "5"]
    server.wait(LISTENS_S)
