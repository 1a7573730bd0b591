# SPDX-License-Identifier: GPL-2.0-only
"""TCP over loopback: objects are fetched and served whole, in any number, and a running connection is handed over."""

from __future__ import annotations

import contextlib
import json
import os
import resource
import signal
import socket
import statistics
import struct
import subprocess
import time
from pathlib import Path

import pytest

from .traffic import ANYWHERE, TRAFFIC, free_port, path, result, serving, traffic


@pytest.mark.parametrize("address", ["127.0.0.1", "::1"])
def test_objects_are_those_of_the_path(address: str) -> None:
    options = ("--for", "0.8", "--sessions", "20", "--seed", "4")
    with serving("web-server") as server:
        got = result("web-client", address, server.port, *options, "--drain", "5")
    summary, objects = got["summary"], got["objects"]
    keys = ("due", "bytes", "session", "page")
    assert [[o[k] for k in keys] for o in objects] == [[o[k] for k in keys] for o in path(*options)]
    assert all(o["seconds"] > 0 and o["start"] >= o["due"] for o in objects)
    assert summary["count"] == summary["finished"] == len(objects) > 100
    assert summary["bytes_received"] == server.result["bytes"] == sum(o["bytes"] for o in objects)
    assert server.result["served"] == len(objects)
    times = sorted(o["seconds"] for o in objects)
    assert summary["response_s"]["mean"] == pytest.approx(statistics.fmean(times), abs=2e-9)
    assert summary["response_s"]["p50"] == times[-(-len(times) // 2) - 1]
    assert summary["response_s"]["max"] == times[-1]
    for row in summary["bins"]:
        mine = [o["seconds"] for o in objects if row["from"] <= o["bytes"] < row["to"]]
        assert len(mine) == row["count"] and row["mean_s"] == pytest.approx(statistics.fmean(mine), abs=2e-9)
        assert row["to"] / row["from"] == pytest.approx(1.1, rel=1e-3)
    assert sum(row["count"] for row in summary["bins"]) == len(objects)


def test_thinking_changes_times_not_sizes() -> None:
    """The server stands still at first, so that a page takes longer than the gap after it."""
    options = ("--for", "1.5", "--sessions", "10", "--page-gap", "0.1", "--seed", "4")
    with serving("web-server") as server:
        server.process.send_signal(signal.SIGSTOP)
        command: list[str | Path] = [TRAFFIC, "web-client", "127.0.0.1", server.port, *options, "--drain", "5", "--think"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as client:
            time.sleep(0.7)
            server.process.send_signal(signal.SIGCONT)
            thought = json.loads(client.communicate(timeout=10)[0])["objects"]
    planned = path(*options)
    for session in range(10):
        mine, theirs = ([o for o in objects if o["session"] == session] for objects in (thought, planned))
        assert 20 < len(mine) < len(theirs)
        assert [o["bytes"] for o in mine] == [o["bytes"] for o in theirs[: len(mine)]]
        for page in range(1, mine[-1]["page"] + 1):
            complete = max(o["start"] + o["seconds"] for o in mine if o["page"] == page - 1)
            gap = theirs[10 * page]["due"] - theirs[10 * page - 1]["due"]
            assert mine[10 * page]["due"] == pytest.approx(complete + gap, abs=1e-6)


def test_a_thousand_objects_at_once() -> None:
    """The server stands still while they are asked for, then serves all."""
    with serving("web-server") as server:
        server.process.send_signal(signal.SIGSTOP)
        client = subprocess.Popen(
            [TRAFFIC, "fetch", "127.0.0.1", server.port, "--bytes", "20k", "--every", "0.0001", "--count", "1500"],
            stdout=subprocess.PIPE,
            text=True,
        )
        time.sleep(0.7)
        server.process.send_signal(signal.SIGCONT)
        summary = json.loads(client.communicate(timeout=10)[0])["summary"]
    assert summary["finished"] == 1500 and summary["bytes_received"] == 1500 * 20000
    assert summary["most_at_once"] >= 1000


def test_a_thousand_connections_wait_and_are_served() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(4096, hard), hard))
    try:
        with serving("web-server") as server:
            waiting = [socket.create_connection(("127.0.0.1", int(server.port)), timeout=5) for _ in range(1200)]
            for n, peer in enumerate(waiting):
                peer.sendall(f"GET {n}\n".encode())
            for n, peer in enumerate(waiting):
                with peer, peer.makefile("rb") as answer:
                    assert len(answer.read()) == n
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert server.result["served"] == 1200 and server.result["most_at_once"] >= 1000


def test_more_connections_than_files_wait_for_their_turn() -> None:
    """100 files, 64 of them set aside: 36 places."""
    prefix = ("setpriv", "--bounding-set=-sys_resource", "prlimit", "--nofile=100:100")
    with serving("web-server", prefix=prefix if os.geteuid() == 0 else prefix[2:]) as server:
        waiting = [socket.create_connection(("127.0.0.1", int(server.port)), timeout=5) for _ in range(50)]
        time.sleep(0.1)
        before = Path(f"/proc/{server.process.pid}/stat").read_text().rpartition(") ")[2].split()
        time.sleep(0.2)
        after = Path(f"/proc/{server.process.pid}/stat").read_text().rpartition(") ")[2].split()
        assert sum(map(int, after[11:13])) - sum(map(int, before[11:13])) <= 5  # of 20 ticks: it sleeps meanwhile
        for peer in waiting:
            peer.sendall(b"GET 1000\n")
        for peer in waiting:
            with peer, peer.makefile("rb") as answer:
                assert len(answer.read()) == 1000
    assert (server.result["served"], server.result["most_at_once"]) == (50, 36)


@pytest.mark.parametrize(
    "line", [b"\n", b"GET\n", b"GET -1\n", b"GET x\n", b"GET 5x\n", b"POST 5\n", b"GET 9999999999999\n", b"G" * 40]
)
def test_bad_requests_are_closed_and_counted(line: bytes) -> None:
    with serving("web-server") as server:
        with socket.create_connection(("127.0.0.1", int(server.port)), timeout=5) as peer:
            peer.sendall(line)
            with contextlib.suppress(ConnectionResetError):  # more was sent than is read
                assert peer.recv(1) == b""
        assert result("fetch", "127.0.0.1", server.port, "--bytes", "5")["summary"]["finished"] == 1
    assert (server.result["bad_requests"], server.result["served"]) == (1, 1)


def test_a_request_may_come_in_pieces() -> None:
    with serving("web-server") as server, socket.create_connection(("127.0.0.1", int(server.port)), timeout=5) as peer:
        for piece in (b"GE", b"T 1", b"00\r", b"\n"):
            peer.sendall(piece)
            time.sleep(0.02)
        with peer.makefile("rb") as answer:
            assert len(answer.read()) == 100


def test_server_outlives_peers_that_go() -> None:
    with serving("web-server") as server:
        for request in (b"", b"GET 100000000\n"):
            with socket.create_connection(("127.0.0.1", int(server.port)), timeout=5) as peer:
                peer.sendall(request)
                peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # a reset
                time.sleep(0.05)
        assert result("fetch", "127.0.0.1", server.port, "--bytes", "5")["summary"]["finished"] == 1
    assert (server.result["aborted"], server.result["served"], server.result["open"]) == (2, 1, 0)


def test_server_that_goes_leaves_objects_unfinished() -> None:
    """One answer in full, one half, one never: 1 finished, 1 failed, 1 unfinished at the end."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        client = subprocess.Popen(
            [
                TRAFFIC,
                "fetch",
                *map(str, listener.getsockname()),
                "--bytes",
                "10",
                "--every",
                "0.01",
                "--count",
                "3",
                "--drain",
                "0.5",
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        peers = [listener.accept()[0] for _ in range(3)]
        assert [peer.recv(20) for peer in peers] == [b"GET 10\n"] * 3
        peers[0].sendall(b"0123456789")
        peers[1].sendall(b"01234")
        peers[0].close()
        peers[1].close()
        out, err = client.communicate(timeout=5)
        peers[2].close()
    got = json.loads(out)
    assert client.returncode == 0 and "1 of 3 objects of 127.0.0.1" in err
    assert [o["seconds"] is None for o in got["objects"]] == [False, True, True]
    assert {key: got["summary"][key] for key in ("finished", "unfinished", "failed", "bytes_received")} == {
        "finished": 1,
        "unfinished": 2,
        "failed": 1,
        "bytes_received": 15,
    }


def test_no_server_at_all() -> None:
    options = ("--bytes", "10", "--every", "0.1", "--count", "2")
    done = traffic("fetch", "127.0.0.1", free_port(socket.SOCK_STREAM), *options)
    assert done.returncode == 1
    assert "2 of 2 objects of 127.0.0.1 port" in done.stderr and "is web-server running there?" in done.stderr
    assert [o["seconds"] for o in json.loads(done.stdout)["objects"]] == [None, None]


def test_server_sends_with_the_controller() -> None:
    with serving("web-server", "-C", "reno") as server:
        with socket.create_connection(("127.0.0.1", int(server.port)), timeout=5) as peer:
            peer.sendall(b"GET 100000000\n")
            peer.recv(1)
            shown = subprocess.run(
                ["ss", "-tinH", "state", "established", f"sport = :{server.port}"], capture_output=True, text=True
            ).stdout
            assert " reno " in shown


def test_sigterm_brings_the_result() -> None:
    for arguments in (
        ("udp-send", *ANYWHERE, "--rtp", "--for", "20"),
        ("web-client", "127.0.0.1", free_port(socket.SOCK_STREAM), "--for", "20", "--page-gap", "60"),
    ):
        with subprocess.Popen([TRAFFIC, *arguments], stdout=subprocess.PIPE, text=True) as process:
            time.sleep(0.2)
            process.terminate()
            json.loads(process.communicate(timeout=5)[0])
            assert process.returncode == 0


# --- handover --------------------------------------------------------------------------------------------------------


def controller_of(connection: socket.socket) -> str:
    return connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16).split(b"\0")[0].decode()


def test_a_running_connection_gets_another_controller() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as connection:
        accepted, _ = server.accept()
        with accepted:
            port = str(connection.getsockname()[1])
            before = controller_of(accepted)
            for name in ("reno", "cubic"):
                assert result("handover", port, name).keys() == {"changed_ns"}
                assert controller_of(connection) == name and controller_of(accepted) == before
            wrong = traffic("handover", port, "nothing")
            assert wrong.returncode == 1 and "congestion control nothing" in wrong.stderr
    gone = traffic("handover", port, "reno")
    assert gone.returncode == 1 and f"port {port}: no established connection has it" in gone.stderr
