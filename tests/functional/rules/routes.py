# SPDX-License-Identifier: GPL-2.0-only
"""A route that names a controller (`congctl`), and a client whose connection takes it; and what a SYN carries."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
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


def tos_of_syn(hosts: Pair, connect: Callable[[list[str]], object]) -> int:
    """The TOS of the first SYN that comes from the first to the second. `connect` gets the command line of a client, which fails,
    because nobody listens."""
    near, far = hosts
    script = "import socket; s = socket.socket(); s.settimeout(0.5); s.connect_ex(('10.77.0.2', 9))"
    dump = kernel.start(far, "timeout", "30", "tcpdump", "-ni", "veth0", "-c", "1", "-v", "tcp[tcpflags] & tcp-syn != 0")
    kernel.eventually(lambda: "listening" in dump.output(), LISTENS_S, "the capture")
    connect(["ip", "netns", "exec", near.name, PYTHON, "-c", script])
    dump.wait(2 * LISTENS_S)
    (found,) = re.findall(r"tos (0x\w+),", dump.output())
    return int(found, 16)
