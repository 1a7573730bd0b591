# SPDX-License-Identifier: GPL-2.0-only
"""For the tests of `ccbpf run` and `ccbpf assign`: a client, something to connect to, and the cgroups."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

PYTHON = sys.executable
SYSTEM_PYTHON = "/usr/bin/python3"  # any user may execute it
ENDS_S = 10.0
BACKGROUND = "le"  # where no controller is named

# Connects to a port of this host, sends so many bytes, says its controller, its TOS and its priority.
CLIENT = """
import os, socket, sys
family, port, size, chosen = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4:]
s = socket.socket(socket.AF_INET if family == "4" else socket.AF_INET6)
if chosen:
    s.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, chosen[0].encode())
s.connect(({"4": "127.0.0.1", "6": "::1", "mapped": "::ffff:127.0.0.1"}[family], port))
s.sendall(bytes(size))
name = s.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16).split(b"\\0")[0].decode()
tos = s.getsockopt(socket.IPPROTO_IP, socket.IP_TOS) if family != "6" else s.getsockopt(socket.IPPROTO_IPV6, socket.IPV6_TCLASS)
os.write(1, f"{name} {tos} {s.getsockopt(socket.SOL_SOCKET, socket.SO_PRIORITY)}\\n".encode())  # whole: others write there as well
s.shutdown(socket.SHUT_WR)
s.recv(1)
"""

# Reads whatever connects, in IPv4 and IPv6, until its end.
SINKS = """
import socket, threading
def sink(c):
    while c.recv(1 << 20): pass
    c.close()
s = socket.create_server(("::", 0), family=socket.AF_INET6, dualstack_ipv6=True)
print(s.getsockname()[1], flush=True)
while True: threading.Thread(target=sink, args=(s.accept()[0],), daemon=True).start()
"""


# Connects to a port of this host, forks so often, and holds the connection until its standard input ends.
HOLD = """
import os, socket, sys
s = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
twice = s.dup()
for _ in range(int(sys.argv[2])): os.fork()
os.write(1, f"{s.getsockname()[1]}\\n".encode())
sys.stdin.read()
while True:
    try: os.wait()
    except ChildProcessError: break
"""


# Connects to a port of this host twice with one socket, sends so many bytes each time until it is answered, and says the controllers.
ANEW = """
import ctypes, socket, struct, sys
s = socket.socket()
for _ in range(2):
    s.connect(("127.0.0.1", int(sys.argv[1])))
    s.sendall(bytes(int(sys.argv[2])))
    assert s.recv(1) == b"!"
    print(s.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16).split(bytes(1))[0].decode())
    assert ctypes.CDLL(None).connect(s.fileno(), struct.pack("=H14x", 0), 16) == 0
"""
ANEW_BYTES = 5000


def anew(port: int) -> list[str]:
    """The command line of a client that connects twice with one socket."""
    return [PYTHON, "-c", ANEW, str(port), str(ANEW_BYTES)]


def answer(listener: socket.socket) -> None:
    """The other end of it."""
    for _ in range(2):
        with listener.accept()[0] as far:
            left = ANEW_BYTES
            while left:
                left -= len(far.recv(left))
            far.sendall(b"!")


class Sinks:
    """Something to connect to, at a port of this host."""

    def __init__(self) -> None:
        words = ["setpriv", "--pdeathsig", "KILL", PYTHON, "-c", SINKS]
        self._process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout
        self.port = int(self._process.stdout.readline())

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()

    @contextmanager
    def held(self, *prefix: str, forks: int = 0, env: dict[str, str] | None = None) -> Iterator[tuple[int, int]]:
        """A process, behind these words, that holds a connection: its id and its port."""
        words = [*prefix, PYTHON, "-c", HOLD, str(self.port), str(forks)]
        with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env) as process:
            assert process.stdin and process.stdout
            try:
                said = [process.stdout.readline() for _ in range(2**forks)]
                yield process.pid, int(said[0])
            finally:
                process.stdin.close()
                process.wait(ENDS_S)

    def client(self, family: str = "4", size: int = 100_000, *chosen: str, python: str = PYTHON) -> list[str]:
        """The command line of a client of these sinks."""
        return [python, "-c", CLIENT, family, str(self.port), str(size), *chosen]


def account(err: str) -> dict[str, Any]:
    """The account of a run under -j."""
    found: dict[str, Any] = json.loads(err.splitlines()[-1])["run"]
    return found


def default() -> str:
    return Path("/proc/sys/net/ipv4/tcp_congestion_control").read_text().strip()
