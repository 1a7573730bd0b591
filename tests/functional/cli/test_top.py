# SPDX-License-Identifier: GPL-2.0-only
"""ccbpf top: its figures are those of ss and of the records, its screen fits, and its terminal is left as it was."""

from __future__ import annotations

import json
import os
import re
import resource
import signal
import socket
import struct
import subprocess
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from tests.functional import kernel
from tests.functional.cli.test_flows import lines_of
from tests.functional.conftest import Cli
from tests.functional.records import record, settle, ss
from tests.functional.tmux import Tmux
from tests.functional.top import NO_COOKIE, put, remove, rows, shown

MANY = 10_000
MEMORY_MOST = 64 << 20  # bytes
FEW = MANY // 10
SHARE_OVER_S = 2.5
RX_LE = kernel.ffi.typeof("enum ccbpf_kind").relements["CCBPF_KIND_rx_le"]


def cpu_time_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def batches(process: subprocess.Popen[str], n: int) -> list[Any]:
    return [json.loads(line) for line in lines_of(process, n)]


# --- figures ---


def test_figures_of_real_flows_are_those_of_ss(enabled: Cli, netns_pair: tuple[kernel.Namespace, kernel.Namespace]) -> None:
    enabled("enable", "nf_tcp")
    a, b = netns_pair
    stop = threading.Event()

    def send(sock: socket.socket) -> None:
        while not stop.wait(0.01):
            sock.sendall(bytes(20_000))

    with kernel.Sink(b, "10.77.0.2") as sink, kernel.Sink(b, "fd77::2", sink.address[1]) as sink6:
        with a.socket() as one, a.socket(socket.AF_INET6) as two:
            for sock, name, to in ((one, "tcp_lp", sink), (two, "nf_tcp", sink6)):
                kernel.choose(sock, name)
                sock.connect(to.address)
            senders = [threading.Thread(target=send, args=(sock,)) for sock in (one, two)]
            for sender in senders:
                sender.start()
            process = enabled.popen("top", "-b", "-j", "--watch", "0.4", stdout=subprocess.PIPE)
            first, *middle, last = batches(process, 4)
            process.send_signal(signal.SIGTERM)
            assert process.wait(10) == 0
            stop.set()
            for sender in senders:
                sender.join(5)
            for sock in (one, two):
                port = sock.getsockname()[1]
                rows = [next(f for f in batch["flows"] if f["local_port"] == port) for batch in (first, *middle, last)]
                sent = sum(row["goodput_bps"] * (later["time_ns"] - sooner["time_ns"]) / 8e9
                           for row, sooner, later in zip(rows[1:], [first, *middle], [*middle, last], strict=True))  # fmt: skip
                assert sent == pytest.approx(rows[-1]["bytes_acked"] - rows[0]["bytes_acked"], rel=0.001)
                assert sent > 500_000
                assert rows[-1]["controller"] == kernel.chosen(sock)
                for side, address in (("local", sock.getsockname()), ("remote", sock.getpeername())):
                    assert (rows[-1][f"{side}_addr"], rows[-1][f"{side}_port"]) == address[:2]
                assert rows[-1]["age_s"] == pytest.approx((last["time_ns"] - rows[-1]["started_ns"]) / 1e9)
                assert rows[-1]["age_s"] - rows[0]["age_s"] == pytest.approx((last["time_ns"] - first["time_ns"]) / 1e9)
            settle(enabled, one, two)
            for sock in (one, two):
                sock.send(b"x")  # so that the records are of the last ACK

            def agrees() -> bool:
                truth = ss(a, sink.address[1])
                (batch,) = [json.loads(enabled("top", "-bj", "--watch", "0.02", "--count", 1).out)]
                found = {f["local_port"]: f for f in batch["flows"]}
                names = ("cwnd", "bytes_acked", "retransmits")
                return len(truth) == 2 and all(
                    all(row[name] == found[port][name] for name in names)
                    and abs(row["srtt_us"] - found[port]["srtt_us"]) <= 1
                    and found[port]["goodput_bps"] == 0
                    for port, row in truth.items()
                )

            kernel.eventually(agrees, 5, "the figures of ss")


def test_what_a_flow_yields_to_and_for_how_long(watching: Cli, flows: kernel.Map) -> None:
    """A record that changes as a controller would change it."""
    steps = [  # what changes, to what it yields then
        ({"phase": 1}, None),
        ({"phase": 2, "indications": 1}, "delay"),
        ({"phase": 3, "indications": 1, "losses": 1}, "loss"),
        ({"phase": 4, "indications": 1, "losses": 1}, "loss"),  # the small window that the loss has left
        ({"phase": 3, "indications": 1, "losses": 1, "marks": 1}, "mark"),
        ({"phase": 1, "indications": 1, "losses": 1, "marks": 1}, None),
    ]
    put(flows, 7)
    process = watching.popen("top", "-b", "-j", "--watch", "0.1", stdout=subprocess.PIPE)
    since_ns = 0
    try:
        for i, (fields, to) in enumerate(steps):
            put(flows, 7, delay_source=1, life={"yields_since_ns": since_ns}, **fields)
            changed = time.monotonic_ns()
            batch = next(b for b in iter(lambda: batches(process, 1)[0], None) if b["time_ns"] > changed + 10**6)
            (flow,) = batch["flows"]
            assert flow["yields_to"] == to, (i, flow)
            if to and not since_ns:  # the record says so from its next writing on
                since_ns = flow["updated_ns"]
            assert flow["yields_s"] == pytest.approx((batch["time_ns"] - since_ns) / 1e9 if to else 0, abs=1e-9)
            assert (batch["controllers"][0]["controller"], batch["controllers"][0]["n_flows"]) == ("tcp_lp", 1)
            for word in ("delay", "mark", "loss"):
                assert batch["controllers"][0][f"yield_to_{word}"] == (word == to)
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=10)


def test_a_flow_has_yielded_since_it_began(watching: Cli, flows: kernel.Map) -> None:
    """As its record says, also before top watches it. What no clock could have said is shown as a whole part, and no negative time."""
    now_ns = time.monotonic_ns()
    started_ns = now_ns - 40 * 10**9
    put(flows, 1, kind=RX_LE, controller=b"rx_le", started_ns=started_ns, life={"yielded_ns": 10 * 10**9})
    put(flows, 2, started_ns=started_ns, phase=2, life={"yielded_ns": 20 * 10**9, "yields_since_ns": now_ns - 3 * 10**9})
    put(flows, 3, started_ns=now_ns + 10**15, phase=2, life={"yielded_ns": 2**64 - 1, "yields_since_ns": 2**64 - 1})
    batch = watching("top", "-bj", "--watch", "0.1", "--count", 1).json
    received, sent, odd = sorted(batch["flows"], key=lambda flow: int(flow["key"]))
    assert (received["yielded_s"], sent["yielded_s"]) == (10, 20)
    assert received["age_s"] == sent["age_s"] == (batch["time_ns"] - started_ns) / 1e9
    assert sent["yields_s"] == pytest.approx((batch["time_ns"] - now_ns) / 1e9 + 3)
    assert (odd["age_s"], odd["yields_s"]) == (0, 0)
    table = watching("top", "-b", "--watch", "0.1", "--count", 1, "--sort", "yielded").out.splitlines()
    ends = [line.split() for line in table if line.startswith(("tcp_lp ", "rx_le "))]
    assert [line[-1] for line in ends] == ["100%", "50%", "25%"], table
    assert ends[1][-2] == "3s", table


def test_a_flow_that_sends_nothing_does_not_yield_and_a_new_one_is_not_the_old_one(watching: Cli, flows: kernel.Map) -> None:
    put(flows, 1, phase=4, updated_ns=time.monotonic_ns() - 3 * 10**9)
    put(flows, 2, phase=4, bytes_acked=1000)
    process = watching.popen("top", "-b", "-j", "--watch", "0.1", stdout=subprocess.PIPE)
    try:
        batch = batches(process, 2)[-1]
        assert {f["key"]: f["yields_to"] for f in batch["flows"]} == {1: None, 2: "delay"}
        put(flows, 2, phase=4, bytes_acked=9_000_000, started_ns=time.monotonic_ns())  # the same address of a socket
        changed = time.monotonic_ns()
        batch = next(b for b in iter(lambda: batches(process, 1)[0], None) if b["time_ns"] > changed)
        (flow,) = [f for f in batch["flows"] if f["key"] == 2]
        assert flow["age_s"] < 1 and flow["yielded_s"] == 0 and flow["goodput_bps"] is None
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=10)


def test_batches_are_sorted_filtered_and_counted(watching: Cli, flows: kernel.Map) -> None:
    for key, cwnd, delay in ((1, 30, 5000), (2, 10, 9000), (3, 20, 7000)):
        life = {"yielded_ns": 2**60} if key == 3 else {}
        put(flows, key, cwnd=cwnd, delay_smoothed_us=delay, delay_threshold_us=8000, phase=2 if key == 3 else 1, life=life)
    put(flows, 4, kind=kernel.KINDS["nf_tcp"], controller=b"nf_tcp", cwnd=99)

    def keys(*words: object) -> list[int]:
        done = watching("top", "-bj", "--watch", "0.02", "--count", 2, *words)
        last = json.loads(done.out.splitlines()[-1])
        assert done.out.count("\n") == 2
        return [f["key"] for f in last["flows"]]

    assert keys("--sort", "cwnd") == [1, 3, 2, 4]  # by controller first
    assert keys("--sort", "delay") == [2, 3, 1, 4]
    assert keys("--sort", "age") == [1, 2, 3, 4]
    assert keys("--sort", "port") == [3, 2, 1, 4]
    assert keys("nf_tcp") == [4]
    assert keys("--filter", "INFER") == keys("--filter", ".3:3") == [3]
    assert keys("--filter", "nothing") == []
    table = watching.with_columns(99)("top", "-b", "--watch", "0.02", "--count", 1, "--sort", "cwnd").out.splitlines()
    assert max(map(len, table)) <= 99
    row = next(line for line in table if ":3 " in line).split()
    assert row[:3] == ["tcp_lp", "192.0.2.251:40000", "192.0.2.3:3"]
    assert row[4:9] == ["20", "0.0", "7.0/8.0", "inference", "delay"]
    assert re.fullmatch(r"\d+s", row[9]) and row[10:] == ["100%"]  # it yields since its record was put
    assert table[-2:] == ["4 flows, 0 bit/s, 1 yields (1 delay)", ""]


def batch_cpu_s(watching: Cli, n: int) -> float:
    """What a batch of n flows costs."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    out = watching("top", "-bj", "--watch", "0.1", "--count", 1).out
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert len(json.loads(out)["flows"]) == n
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def test_many_flows(watching: Cli, flows: kernel.Map) -> None:
    """Its cost is linear in the flows; the bounds in seconds are those of tests.bench."""
    now = time.monotonic_ns()
    keys = [struct.pack("=Q", NO_COOKIE + i) for i in range(MANY)]
    values = [record(started_ns=i, cwnd=i % 1000, updated_ns=now) for i in range(MANY)]
    assert flows.batch(kernel.UPDATE_BATCH, keys[:FEW], b"".join(values[:FEW])) == FEW
    few_s = batch_cpu_s(watching, FEW)
    assert flows.batch(kernel.UPDATE_BATCH, keys[FEW:], b"".join(values[FEW:])) == MANY - FEW
    cpu_s = batch_cpu_s(watching, MANY)
    with Tmux([str(watching.command), "top"], 80, 24, watching.env()) as screen:
        screen.until(lambda lines: f"{MANY} flows" in lines[0], "all flows")
        screen.keys("g", "g", "Down", "Enter")
        screen.until(
            lambda lines: "the last 4 periods" in "".join(lines), "the detail of one, of which it is looked up whose it is"
        )
        screen.keys("Escape", "g", "g")
        screen.until(lambda lines: lines[1].startswith("grouped by cgroup and process"), "the tree")
        began_s, spent_s = time.monotonic(), -cpu_time_s(screen.pid)
        time.sleep(SHARE_OVER_S)
        spent_s += cpu_time_s(screen.pid)
        share = spent_s / (time.monotonic() - began_s)
        flows.batch(kernel.DELETE_BATCH, keys)
        screen.until(lambda lines: re.match(r"ccbpf top: 0 flows.*, [1-9]\d+ ended", lines[0]), "all have ended")
        (peak,) = re.findall(r"^VmHWM:\s+(\d+) kB$", Path(f"/proc/{screen.pid}/status").read_text(), re.M)
        rss = int(peak) << 10
    print(
        f"{FEW} flows: {few_s:.3f} s of CPU time for a batch; {MANY}: {cpu_s:.3f} s, screen {share:.3f} of a core, {rss >> 20} MB"
    )
    assert cpu_s < 2 * MANY / FEW * few_s, "a square would be 100 times the cost"
    assert share < cpu_s, "the screen, which is drawn once a second, costs no more than a batch, which also starts"
    assert "sanitize" in str(watching.command) or rss < MEMORY_MOST


# --- the screen ---


def test_80_by_24(watching: Cli, flows: kernel.Map) -> None:
    always = {"yielded_ns": 2**60}
    put(flows, 1, cwnd=31, delay_smoothed_us=4000, delay_threshold_us=8000, phase=1)
    put(flows, 2, cwnd=12, delay_smoothed_us=9000, delay_threshold_us=8000, phase=2, indications=1, delay_source=1,
        life=always)  # fmt: skip
    put(flows, 3, cwnd=65535, phase=3, losses=2, family=10, remote="2001:db8:1111:2222:3333:4444:5555:6666", remote_port=65535,
        life=always)  # fmt: skip
    put(flows, 4, kind=kernel.KINDS["nf_tcp"], controller=b"nf_tcp", phase=3, marks=1, delay_source=2, cwnd=7)
    with shown(watching, 80, 24, "--sort", "age") as screen:
        lines = screen.until(lambda lines: lines[5].split()[1:2] == ["0"], "the flows, of a whole period")
        assert max(map(len, lines)) <= 80
        assert lines[0] == "ccbpf top: 4 flows, 0 bit/s, 3 yield (1 delay, 1 mark, 1 loss)"
        assert lines[2].split() == ["REMOTE", "BIT/S", "CWND", "DELAY", "PHASE", "YIELD", "FOR", "PART"]
        assert lines[3] == "- tcp_lp: 3 flows, 0 bit/s, 2 yield (1 delay, 1 loss)"
        assert lines[4].split() == ["192.0.2.1:1", "0", "31", "###....", "avoidance", "0%"]
        assert lines[5].split()[:6] == ["192.0.2.2:2", "0", "12", "#######!", "inference", "delay"]
        assert re.fullmatch(r"  \[2001:db8:111\S*~\S*:6666\]:65535 +0 65535 - +recovery +loss +\ds 100%", lines[6]), lines[6]
        assert lines[7] == "- nf_tcp: 1 flow, 0 bit/s, 1 yields (1 mark)"
        assert [len(line) for line in lines[4:7]] == [80, 80, 80]
        screen.resize(200, 60)
        lines = screen.until(lambda lines: "RETRANS" in lines[2], "the wide screen")
        assert max(map(len, lines)) <= 200
        assert lines[2].split() == ["LOCAL", "REMOTE", "BIT/S", "CWND", "SRTT", "ms", "DELAY", "ms", "DELAY", "PHASE", "YIELD", "FOR",
                                    "PART", "AGE", "INDIC", "LOSSES", "MARKS", "RETRANS"]  # fmt: skip
        assert "[2001:db8:1111:2222:3333:4444:5555:6666]:65535" in lines[6]
        screen.resize(40, 10)
        screen.until(lambda lines: len(lines) == 10 and lines[2].startswith("  REMOTE"), "a small screen")
        screen.keys("q")
        assert screen.ended() == 0


def test_200_by_60(watching: Cli, flows: kernel.Map) -> None:
    for key in range(1, 71):
        put(flows, key, cwnd=key, srtt_us=40_100, delay_smoothed_us=1500, delay_threshold_us=3000, indications=11, losses=22,
            marks=33, retransmits=44, bytes_acked=1)  # fmt: skip
    with shown(watching, 200, 60, "--sort", "cwnd") as screen:
        lines = screen.until(lambda lines: lines[4].split()[2:3] == ["0"], "the flows, of a whole period")
        assert len(lines) == 60 and max(map(len, lines)) <= 200
        found = lines[4].split()
        assert found[:8] == ["192.0.2.251:40000", "192.0.2.70:70", "0", "70", "40.1", "1.5/3.0", "###....", "avoidance"]
        assert found[-4:] == ["11", "22", "33", "44"]
        assert rows(lines) == ["tcp_lp", *(f"192.0.2.{key}" for key in range(70, 14, -1))]
        screen.keys("End")
        assert rows(screen.until(lambda lines: "192.0.2.1:1 " in lines[59], "the end"))[-1] == "192.0.2.1"
        screen.keys("PPage")
        screen.keys("Home")
        screen.until(lambda lines: "tcp_lp: 70 flows" in lines[3], "the beginning")


def test_the_help_fits_on_a_screen_of_80_by_24() -> None:
    """The screen would cut what is longer."""
    (table,) = re.findall(r"help\[\] = \{(.*?)\};", (kernel.ROOT / "loader/top/screen.c").read_text(), re.S)
    lines = re.findall(r'^\t"(.*)",$', table, re.M)
    assert 20 < len(lines) <= 24 and max(map(len, lines)) <= 80


@pytest.mark.parametrize(("locale", "typed"), [("C.UTF-8", "süx"), ("C", "x")])
def test_a_filter_in_utf8(watching: Cli, flows: kernel.Map, locale: str, typed: str) -> None:
    """Names of units and processes may be so. In another locale nobody knows what such bytes are."""
    with shown(watching, 80, 24, LC_ALL=locale) as screen:
        screen.keys("/", "s", "ü", "ß", "BSpace", "x")  # it takes back ß, or s
        screen.until(lambda lines: lines[1].startswith(f"filter: {typed}_"), "the filter")


def test_keys(watching: Cli, flows: kernel.Map) -> None:
    for key in (1, 2, 3):
        put(flows, key, cwnd=10 * key)
    put(flows, 4, kind=kernel.KINDS["nf_tcp"], controller=b"nf_tcp")
    with shown(watching, 80, 24, "--sort", "cwnd") as screen:

        def are(*found: str) -> list[str]:
            return screen.until(lambda lines: rows(lines) == list(found), str(found))

        one, two, three, four = (f"192.0.2.{key}" for key in (1, 2, 3, 4))
        are("tcp_lp", three, two, one, "nf_tcp", four)
        screen.keys("r")
        are("tcp_lp", one, two, three, "nf_tcp", four)
        screen.keys("r", "f")
        assert "FROZEN" in are("tcp_lp", three, two, one, "nf_tcp", four)[1]
        put(flows, 1, cwnd=90)
        put(flows, 5, cwnd=95)
        are("tcp_lp", three, two, one, "192.0.2.5", "nf_tcp", four)  # the new one comes last
        screen.keys("f")
        are("tcp_lp", "192.0.2.5", one, three, two, "nf_tcp", four)
        screen.keys("f", "r")  # another order also where it is frozen
        are("tcp_lp", two, three, one, "192.0.2.5", "nf_tcp", four)
        screen.keys("f", "r")
        screen.keys("s")  # age
        assert "sorted by age" in are("tcp_lp", one, two, three, "192.0.2.5", "nf_tcp", four)[1]
        screen.keys("p")
        screen.until(lambda lines: "PAUSED" in lines[1], "it pauses")
        remove(flows, 5)
        time.sleep(0.4)  # longer than a period, in which nothing may happen
        are("tcp_lp", one, two, three, "192.0.2.5", "nf_tcp", four)
        screen.keys("Space")
        are("tcp_lp", one, two, three, "nf_tcp", four)
        screen.keys("/", "2", ".", "3", ":", "3", "x", "BSpace")
        screen.until(lambda lines: lines[1].startswith("filter: 2.3:3_"), "the filter")
        screen.keys("Enter")
        assert "filter: 2.3:3" in are("tcp_lp", three)[1]
        screen.keys("/", "y")
        screen.until(lambda lines: "no flow passes" in lines[3], "nothing")
        screen.keys("Escape")
        are("tcp_lp", one, two, three, "nf_tcp", four)
        screen.keys("Down", "-", "-")  # of a flow: its controller; once more has no effect
        are("tcp_lp", "nf_tcp", four)
        screen.keys("+")
        are("tcp_lp", one, two, three, "nf_tcp", four)
        screen.keys("Enter")  # the cursor is on the controller
        are("tcp_lp", "nf_tcp", four)
        screen.keys("a")
        are("tcp_lp", one, two, three, "nf_tcp", four)
        screen.keys("a")
        are("tcp_lp", "nf_tcp")
        screen.keys("?")
        screen.until(lambda lines: "Any key goes back." in "".join(lines), "the help")
        screen.keys("x")
        are("tcp_lp", "nf_tcp")
        for element in flows:
            flows.delete(element)
        screen.until(lambda lines: lines[0].startswith("ccbpf top: 0 flows"), "it goes on")
        screen.keys("q")
        assert screen.ended() == 0


ENDS = {signal.SIGTERM, signal.SIGHUP, signal.SIGINT}  # top ends by itself, with 0
# The signals that a process survives by default (signal(7)), and SIGKILL, which cannot be caught.
NOT_CAUGHT = {signal.SIGCHLD, signal.SIGCONT, signal.SIGURG, signal.SIGWINCH, signal.SIGSTOP, signal.SIGTSTP, signal.SIGTTIN,
              signal.SIGTTOU, signal.SIGKILL}  # fmt: skip


@pytest.mark.parametrize("how", sorted(set(signal.Signals) - NOT_CAUGHT), ids=lambda how: how.name)
def test_every_end_gives_the_terminal_back(watching: Cli, how: signal.Signals) -> None:
    with shown(watching) as screen:
        os.kill(screen.pid, how)
        assert screen.ended() == (0 if how in ENDS else 128 + how)


def test_a_signal_that_is_ignored_stays_ignored(watching: Cli) -> None:
    script = f"trap '' USR1; exec {watching.command} top"
    with Tmux(["sh", "-c", script], 80, 24, watching.env()) as screen:
        screen.until(lambda lines: lines[0].startswith("ccbpf top: "), "the first screen")
        os.kill(screen.pid, signal.SIGUSR1)
        screen.keys("?")
        screen.until(lambda lines: "Any key goes back." in "".join(lines), "the help")
        screen.keys("q", "q")
        assert screen.ended() == 0


def test_ctrl_z_and_ctrl_c(watching: Cli, flows: kernel.Map) -> None:
    put(flows, 1)
    script = f"set -m; {watching.command} top --watch 0.25; echo stopped; read line; fg"
    with Tmux(["bash", "-c", script], 80, 24, watching.env()) as screen:
        screen.until(lambda lines: lines[0].startswith("ccbpf top: "), "the first screen")
        screen.keys("C-z")
        screen.until(lambda lines: "stopped" in lines, "it stops, and gives the terminal back")
        put(flows, 2)
        screen.keys("Enter")
        screen.until(lambda lines: "192.0.2.2:2" in "".join(lines) and lines[0].startswith("ccbpf top: "), "it goes on")
        screen.keys("C-c")
        assert screen.ended() == 0


@pytest.mark.parametrize("no_color", ["", "1"])
def test_no_color(watching: Cli, flows: kernel.Map, no_color: str) -> None:
    put(flows, 1, phase=2, indications=1)
    with shown(watching, 80, 24, NO_COLOR=no_color) as screen:
        screen.until(lambda lines: "inference" in "".join(lines), "the flow")
        coloured = bool(re.search(r"\x1b\[(?:\d+;)*3[0-7]m", "".join(screen.lines(styles=True))))
        assert coloured == (not no_color)


# --- what it refuses ---


def test_what_it_refuses(hooks: Cli, watching: Cli) -> None:
    assert "no controller is enabled" in hooks("top", "-b", code=5).err
    error = hooks("-j", "top", code=2).error
    assert (error["why"], error["remedy"]) == ("`-j` and `--count` need -b", "add -b")
    assert "`rate`, `yielded`" in hooks("top", "--sort", "name", code=2).err
    assert "`cgroup`, `process` or `controller`" in hooks("top", "--group", "user", code=2).err
    assert "--count 0: it is not a whole number from 1 on; give" in hooks("top", "-b", "--count", "0", code=2).err
    assert "too long" in hooks("top", "--filter", "x" * 64, code=2).err
    assert "`ccbpf top -b`" in watching("top", code=1, stdin=subprocess.DEVNULL).err
    with Tmux(["env", "TERM=unheard-of", str(watching.command), "top"], 80, 24, watching.env()) as screen:
        assert screen.ended() == 1
        assert "TERM is `unheard-of`" in "".join(screen.lines())


def test_why_there_is_no_screen_is_read_on_the_terminal(watching: Cli) -> None:
    """Whichever descriptor cannot be had, that of a timer included: no message is left on a screen that is then cleared."""
    said = set()
    for limit in range(3, 12):
        words = ["prlimit", f"--nofile={limit}", str(watching.command), "top", "--for", "0.1"]
        with Tmux(words, 80, 24, watching.env()) as screen:
            code, lines = screen.ended(), screen.lines()
        if code == 0:
            break
        if code != 127:  # not even its libraries
            assert lines[0].startswith("ccbpf: cannot "), (limit, lines)
            said.add(" ".join(lines[0].split()[:4]))
    assert code == 0 and "ccbpf: cannot show timers:" in said, said
