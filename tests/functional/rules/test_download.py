# SPDX-License-Identifier: GPL-2.0-only
"""`ccbpf run --download`: what a command receives is in the background, from a sender that knows nothing of it.

The path is the native lab's: a drop-tail bottleneck at a router, and a delay line."""

from __future__ import annotations

import json
import re
import subprocess
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.functional import kernel
from tests.functional.conftest import Cli
from tests.functional.rules.background import BACKGROUND, ENDS_S, PYTHON, account
from tests.functional.rules.downloads import (
    BYTES,
    RATE_MBIT,
    Got,
    Reading,
    bottleneck,
    has_all,
    received,
    records,
    setting,
    yields,
)
from tests.lab.engine import native

pytestmark = [pytest.mark.quiet, pytest.mark.rerun("a host that stands still is a queue, and a pause of the reader")]


def yields_and_ends(ccbpf: Cli, path: native.Path, sender: str, address: str) -> None:
    words = ["-j", "run", "--download", "--", *Reading(BYTES, sender, address).at(path)]
    background = ccbpf.popen(*words, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    yields(ccbpf, path, address)
    out, err = background.communicate(timeout=40)
    assert has_all(out)
    counts = account(err)["counts"]
    assert counts["receivers"] == 1 and counts["unstamped"] == 0 and counts["received"] == BYTES
    assert 1e9 < counts["receiving_held_ns"] < counts["receiving_ns"], counts


def test_a_download_yields(ccbpf: Cli, paths: dict[str, native.Path]) -> None:
    """It also takes the link back: it ends in time, with every byte. By IPv4 and by IPv6 at once, each on a path of its own."""
    with ThreadPoolExecutor() as pool:
        ends = [pool.submit(yields_and_ends, ccbpf, path, sender, address)
                for sender, (address, path) in zip(("cubic", "bbr"), paths.items(), strict=True)]  # fmt: skip
    for end in ends:
        end.result()


def test_the_record_says_that_ecn_was_agreed_and_which_losses_were_none(ccbpf: Cli) -> None:
    """Packets that overtake all others make the sender send again what was not lost: the law takes a loss for one, and then not."""
    with bottleneck(faults=native.Faults(early=0.08)) as path, setting(path, path.receiver, "net.ipv4.tcp_ecn", 1):
        reading = Reading(2 * BYTES)
        background = ccbpf.popen("run", "-q", "-d", "--", *reading.at(path), stdout=subprocess.PIPE)
        kernel.eventually(lambda: any(record["undos"] for record in records(ccbpf)), ENDS_S, "a loss that was none")
        (record,) = records(ccbpf)
        assert Got.of(background.communicate(timeout=40)[0]).is_all(reading.size)
    assert (record["ecn"], record["delay_source"]) == (1, "owd")
    assert record["undos"] <= record["losses"] and record["ssthresh"] > 0, record


def live_bytes(ccbpf: Cli) -> int:
    (value,) = re.findall(r'^ccbpf_live_bytes_acked\{controller="rx_le"\} (\d+)$', ccbpf("metrics").out, re.M) or ["0"]
    return int(value)


def test_what_is_received_is_its_rate_and_its_bytes(ccbpf: Cli, path: native.Path) -> None:
    """In `flows`, `top` and `metrics` while it goes on; at the end the run's counters have all of it."""
    words = ["-j", "run", "-d", "--", *Reading(BYTES).at(path)]
    background = ccbpf.popen(*words, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    kernel.eventually(lambda: received(ccbpf) > 500_000, ENDS_S, "the download")
    before, live = received(ccbpf), live_bytes(ccbpf)
    assert before <= live <= BYTES
    (batch,) = [json.loads(line) for line in ccbpf("top", "-bj", "--watch", "0.5", "--count", 1, "rx_le").out.splitlines()]
    (flow,) = batch["flows"]
    assert live <= flow["bytes_acked"] <= received(ccbpf) <= live_bytes(ccbpf) <= BYTES
    assert 0.2 * RATE_MBIT <= flow["goodput_bps"] / 1e6 <= 1.1 * RATE_MBIT
    assert flow["yielded_s"] == pytest.approx(flow["receive"]["held_ms"] / 1e3, abs=0.1)  # which is without the phase recovery
    assert flow["sending_ns"] / 1e9 == pytest.approx(flow["age_s"], abs=0.3)
    assert flow["age_s"] == (batch["time_ns"] - flow["started_ns"]) / 1e9
    (row,) = [line for line in ccbpf("-v", "flows", "rx_le").out.splitlines() if "received " in line]
    assert re.search(r"received \d+(\.\d+)? MB, held back", row), row
    assert re.search(r"^ccbpf_run_receiving_connections_total\{.*\} 1$", ccbpf("metrics").out, re.M)
    status = ccbpf("status").out
    assert re.search(
        r"^  received \d\S* [kM]B in the background over 1 connection\n  their receive window was held back for ", status, re.M
    ), status
    _, err = background.communicate(timeout=40)
    assert account(err)["counts"]["received"] == BYTES


def test_the_line_at_the_end(ccbpf: Cli, path: native.Path) -> None:
    err = ccbpf("run", "-d", *Reading(1_000_000).at(path)).err
    pattern = (
        r"ccbpf: ip: received 1\.00 MB in the background over 1 connection; their receive window was held back for "
        r"\d+\.\d s of \d+\.\d s\n"
    )
    assert re.fullmatch(pattern, err), err
    assert not ccbpf.root.exists()


@pytest.mark.parametrize("options", [[], ["--upload", "--download"]], ids=["by default", "by options"])
def test_both_directions_at_once(ccbpf: Cli, options: list[str]) -> None:
    """The controller for what is sent, the window for what is received, on one connection."""
    code = (
        "import socket, sys, threading\n"
        "s = socket.create_server(('127.0.0.1', 0)); c = socket.create_connection(s.getsockname()); a = s.accept()[0]\n"
        "threading.Thread(target=a.sendall, args=(bytes(500_000),)).start()\n"
        "n = 0\n"
        "while n < 500_000: n += len(c.recv(1 << 16))\n"
        "print(c.getsockopt(6, 13, 16).split(bytes(1))[0].decode()); c.close(); a.close()\n"
    )
    done = ccbpf("-j", "run", *options, "--", PYTHON, "-c", code)
    found = account(done.err)
    assert done.out.split() == [BACKGROUND]
    assert (found["upload"], found["download"], found["controller"]) == (True, True, BACKGROUND)
    assert (found["counts"]["set"], found["counts"]["receivers"]) == (2, 1)
    assert found["counts"]["received"] == 500_000
    ccbpf("clean", "--all")


def test_clean_opens_the_windows(ccbpf: Cli, path: native.Path) -> None:
    """The command goes on without us: after that its download is as fast as any other."""
    words = ["run", "--download", "--", *Reading(BYTES).at(path)]
    background = ccbpf.popen(*words, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    kernel.eventually(lambda: received(ccbpf) > 1_000_000, ENDS_S, "the download")
    ccbpf("clean", "--all")
    assert not ccbpf.root.exists()
    held = path.command(path.receiver, "ss", "-tinH", "dst", "10.0.1.2")
    assert int(re.findall(r"rcv_ssthresh:(\d+)", held)[0]) >= 65535, held
    out, _ = background.communicate(timeout=40)
    assert has_all(out)


def test_what_is_for_sending_needs_upload(ccbpf: Cli) -> None:
    for words in (["tcpw_lp"], ["--dscp", "le"]):
        err = ccbpf("run", "--download", *words, "true", code=125).err
        assert "that is for what is sent" in err and "add --upload" in err
