# SPDX-License-Identifier: GPL-2.0-only
"""A cgroup that is removed, and a network namespace that is deleted, under a rule and a connection that sends."""

from __future__ import annotations

import hashlib
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.cgroups import MOUNT
from tests.functional import kernel
from tests.functional.conftest import Cli
from tests.functional.rules.background import BACKGROUND, ENDS_S, PYTHON, default
from tests.hard.programs.conftest import Hosts
from tests.hard.programs.watch import connections

PORT = 8083

# Sends what it reads from stdin, a connection for each line: "connect", "send", "close", and says each when it is done.
SENDER = """
import socket, sys
for line in sys.stdin:
    if line == "connect\\n":
        s = socket.create_connection((sys.argv[1], int(sys.argv[2])))
    elif line == "send\\n":
        s.sendall(b"x" * 1000000)
    else:
        s.close()
    print(line, end="", flush=True)
"""


class Sender:
    def __init__(self, words: list[str], address: str, port: int = PORT) -> None:
        self.process = subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", *words, PYTHON, "-c", SENDER, address, str(port)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def does(self, *verbs: str) -> None:
        assert self.process.stdin and self.process.stdout
        for verb in verbs:
            print(verb, file=self.process.stdin, flush=True)
            assert self.process.stdout.readline() == f"{verb}\n"

    def controller(self) -> str:
        """The controller of its connection, by `ss` in its namespace."""
        ((_, _, name),) = [c for c in connections("nsenter", "-t", str(self.process.pid), "-n") if c[1] == PORT]
        return name


@contextmanager
def sender(words: list[str], address: str) -> Iterator[Sender]:
    sender = Sender(words, address)
    try:
        yield sender
    finally:
        sender.process.kill()
        sender.process.communicate()


def test_a_cgroup_removed_while_its_connection_sends(run: Cli, hosts: Hosts) -> None:
    """The connection stays, and goes on sending. The process is not in the cgroup any more, so its next connection is not the
    rule's."""
    cgroup, arrived = MOUNT / f"ccbpf-test-{os.getpid()}", hashlib.sha256()
    cgroup.mkdir()
    try:
        run("assign", "--cgroup", f"/{cgroup.name}")
        within = ["sh", "-c", f'echo $$ > {cgroup}/cgroup.procs; exec "$@"', "sh", *hosts.on_near()]
        with kernel.Sink(hosts.far, hosts.address, PORT, arrived.update) as sink, sender(within, hosts.address) as program:
            program.does("connect", "send")
            assert program.controller() == BACKGROUND
            (MOUNT / "cgroup.procs").write_text(str(program.process.pid))
            cgroup.rmdir()
            program.does("send")
            assert program.controller() == BACKGROUND
            (rule,) = run("-j", "assign", "list").json["rules"]
            assert rule["gone"] and rule["counts"]["set"] == 1
            program.does("close", "connect")
            assert program.controller() == default()
            kernel.eventually(lambda: sink.received == 2_000_000, ENDS_S, "what was sent")
        assert arrived.hexdigest() == hashlib.sha256(b"x" * 2_000_000).hexdigest()
    finally:
        if cgroup.exists():
            cgroup.rmdir()


def test_a_namespace_deleted_while_its_connection_sends(run: Cli) -> None:
    """A process keeps the namespace, which has no name any more, and the rule still applies to it."""
    arrived = hashlib.sha256()
    with kernel.no_kernel_warning():
        with kernel.Namespace("gone") as there:
            run("assign", "--netns", there.name)
            sink = kernel.Sink(there, "127.0.0.1", PORT, arrived.update)
            program = Sender(["ip", "netns", "exec", there.name], "127.0.0.1")
            program.does("connect", "send")
        try:
            assert not Path("/run/netns", there.name).exists()
            program.does("send")
            assert program.controller() == BACKGROUND
            program.does("close", "connect", "send")
            assert program.controller() == BACKGROUND
            kernel.eventually(lambda: sink.received == 3_000_000, ENDS_S, "what was sent")
        finally:
            program.process.kill()
            program.process.communicate()
            sink.close()
        assert arrived.hexdigest() == hashlib.sha256(b"x" * 3_000_000).hexdigest()
        (rule,) = run("-j", "assign", "list").json["rules"]
        assert rule["netns"] == there.name and rule["counts"]["set"] >= 2
        assert run("assign", "remove", "1").out == "1 rule removed, 0 left\n"
