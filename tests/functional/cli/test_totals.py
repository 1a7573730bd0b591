# SPDX-License-Identifier: GPL-2.0-only
"""ccbpf metrics: the totals, which keep flows that have ended, by controller, cgroup and rule."""

from __future__ import annotations

import json
import os
import re
import socket
import struct
import subprocess
import sys
import threading
import time
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.cgroups import cgroup, this_process_in
from tests.functional import kernel
from tests.functional.conftest import Cli
from tests.functional.records import settle, ss
from tests.functional.samples import TOTALS, Samples, of, samples

Pair = tuple[kernel.Namespace, kernel.Namespace]

SENDER = """
import socket, sys
socks = [socket.create_connection(("10.77.0.2", int(sys.argv[1]))) for _ in range(2)]
for s in socks:
    s.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, b"tcp_lp")
    s.sendall(bytes(1 << 20))
print("sent", flush=True)
sys.stdin.readline()
for s in socks: s.close()
print("closed", flush=True)
sys.stdin.readline()
"""
UNIT_TOTALS = (  # struct ccbpf_totals, and what a metric's unit has of a field's
    *((name, 1) for name in ("flows", "bytes_acked", "retransmits", "indications", "cuts_to_one", "losses", "marks")),
    ("sending_seconds", 10**9), ("yielded_seconds", 10**9),
)  # fmt: skip
HOSTILE = (  # the kernel refuses a newline, but not the two characters
    'a"b\\c}{=,', "\\n\t\r", "\x1b[31m\x7f", "\N{GREEK SMALL LETTER ALPHA}\N{NO-BREAK SPACE}",
    os.fsdecode(b"\xff\xc0\x80"), "#" * 255,
)  # fmt: skip


def test_totals_keep_what_ended_by_controller_and_unit(ccbpf: Cli, netns_pair: Pair) -> None:
    """They are those of ss while the flows live, never fall, and are still there when the flows and their cgroup's process end."""
    a, b = netns_pair
    ccbpf("enable", "tcp_lp")
    with cgroup(f"ccbpf-test-totals-{os.getpid()}") as here, kernel.Sink(b, "10.77.0.2") as sink:
        port = sink.address[1]
        inside = ("sh", "-c", f'echo $$ > {here}/cgroup.procs; exec "$@"', "sh", "ip", "netns", "exec", a.name)
        words = [*inside, sys.executable, "-c", SENDER]
        with subprocess.Popen([*words, str(port)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdin and process.stdout and process.stdout.readline() == "sent\n"
            kernel.eventually(lambda: sink.received == 2 << 20, 10, "all is received")
            truth = ss(a, port).values()
            live = sum(t["bytes_acked"] for t in truth)
            process.stdin.write("\n")
            process.stdin.flush()
            assert process.stdout.readline() == "closed\n"
            kernel.eventually(lambda: of(samples(ccbpf), "live_flows", controller="tcp_lp") == 0, 10, "the flows have ended")
            for form in ("prometheus", "openmetrics"):
                found = samples(ccbpf, form, "--units")
                for labels in ({"controller": "tcp_lp"}, {"controller": "tcp_lp", "unit": f"/{here.name}"}):
                    name = "unit_" if "unit" in labels else ""
                    of_labels = {n: v for (n, all_), v in found.items() if dict(all_) == labels}
                    # a SYN was acknowledged before the controller had the flow, and a FIN at its end
                    assert 2 << 20 <= of_labels[f"ccbpf_{name}bytes_acked_total"] <= live + 2
                    assert of_labels[f"ccbpf_{name}retransmits_total"] == sum(t["retransmits"] for t in truth)
                    assert (
                        0
                        <= of_labels[f"ccbpf_{name}yielded_seconds_total"]
                        <= of_labels[f"ccbpf_{name}sending_seconds_total"]
                        < 20
                    )
                for name in ("indications", "cuts_to_one", "losses", "marks"):
                    assert of(found, f"unit_{name}_total", unit=f"/{here.name}") == of(
                        found, f"{name}_total", controller="tcp_lp"
                    )
                assert of(found, "unit_flows_total", unit=f"/{here.name}") == 2
                assert of(found, "units_left_out") == 0
            assert not any("unit_" in name for name, _ in samples(ccbpf))
    assert not any("unit_" in name for name, _ in samples(ccbpf, "prometheus", "--units"))  # the cgroup is gone
    assert of(samples(ccbpf), "bytes_acked_total", controller="tcp_lp") >= 2 << 20


def send_beside_cubic(ccbpf: Cli, a: kernel.Namespace, sink: kernel.Sink, others: kernel.Sink) -> None:
    """Until the flow has reduced to its smallest window, and given way for some time; then it ends."""
    a.run("tc", "qdisc", "add", "dev", "veth0", "root", "tbf", "rate", "20mbit", "burst", "5000", "limit", "100000")
    stop = threading.Event()

    def send(sock: socket.socket) -> None:
        while not stop.is_set():
            sock.sendall(bytes(1 << 14))

    with a.socket() as sock, a.socket() as cubic:
        for one, to, name in ((sock, sink, "le"), (cubic, others, "cubic")):
            one.connect(to.address)
            assert kernel.chosen(one) == name
        senders = [threading.Thread(target=send, args=(one,)) for one in (sock, cubic)]
        for sender in senders:
            sender.start()
        try:
            for name in ("cuts_to_one_total", "yielded_seconds_total"):
                kernel.eventually(lambda: of(samples(ccbpf), name, controller="le") > 0, 20, name, 0.1)
        finally:
            stop.set()
            for sender in senders:
                sender.join(10)
    kernel.eventually(lambda: of(samples(ccbpf), "live_flows", controller="le") == 0, 10, "the flow has ended")


def test_totals_of_a_rule_keep_what_ended(ccbpf: Cli, netns_pair: Pair) -> None:
    """They are those of its connections alone, and begin anew with the next rule, also where that has the same id."""
    a, b = netns_pair
    ccbpf("enable", "le")
    a.sysctl("net.ipv4.tcp_congestion_control=cubic")
    with kernel.Sink(b, "10.77.0.2") as sink, kernel.Sink(b, "10.77.0.2") as second, a.socket() as other:
        rule = ("assign", "le", "--remote-port", sink.address[1], "--netns", a.name)
        ccbpf(*rule)
        send_beside_cubic(ccbpf, a, sink, second)
        of_all = samples(ccbpf)
        before = {name: of(of_all, f"{name}_total", controller="le") for name in TOTALS}
        assert before["indications"] >= before["cuts_to_one"] > 0 and before["yielded_seconds"] > 0
        assert sink.received <= before["bytes_acked"] <= sink.received + 1  # a FIN
        kernel.choose(other, "le")
        other.connect(second.address)
        with a.socket() as kept:  # its own choice, although it is the rule's
            kernel.choose(kept, "le")
            kept.connect(sink.address)
            for sock in (other, kept):
                sock.sendall(bytes(100_000))
            settle(ccbpf, other, kept)
            found = samples(ccbpf)
        assert {name: of(found, f"rule_{name}_total", rule="1", controller="le") for name in TOTALS} == before
        (listed,) = ccbpf("-j", "assign", "list").json["rules"]
        assert listed["totals"] == {name.replace("_seconds", "_ns"): round(value * (10**9 if "seconds" in name else 1))
                                    for name, value in before.items()} | {"flows": 1}  # fmt: skip
        assert re.search(r"^ +sent \S+ [kM]B; yielded \d+s of \d+s$", ccbpf("-v", "assign", "list").out, re.M)
        assert "sent" not in ccbpf("assign", "list").out
        ccbpf("assign", "remove", 1)
        ccbpf(*rule)
        assert not any("_rule_bytes" in name for name, _ in samples(ccbpf)), "a pair without flows has no series"
        with a.socket() as sock:
            sock.connect(sink.address)
            found = samples(ccbpf)
            assert of(found, "rule_connections_set_total", rule="1") == 1
            assert of(found, "rule_indications_total", rule="1", controller="le") == 0


def test_a_rule_by_force_has_what_a_run_had(ccbpf: Cli, netns_pair: Pair) -> None:
    """The controller is the same: init() has run before the program of the rules."""
    a, b = netns_pair
    with kernel.Sink(b, "10.77.0.2") as sink:
        ccbpf("assign", "le", "--force", "--remote-port", sink.address[1], "--netns", a.name)
        client = f"import socket; s = socket.create_connection(('10.77.0.2', {sink.address[1]})); s.sendall(bytes({1 << 16})); s.shutdown(1); s.recv(1)"
        ccbpf("run", "-q", "le", "--", sys.executable, "-c", client, prefix=("ip", "netns", "exec", a.name))
        found = samples(ccbpf)
        assert of(found, "rule_connections_set_total", rule="1") == 1
        assert 1 << 16 <= of(found, "rule_bytes_acked_total", rule="1", controller="le") <= (1 << 16) + 1
        (listed,) = ccbpf("-j", "assign", "list").json["rules"]
        assert listed["totals"]["flows"] == 1


def test_a_rule_for_the_default_controller(ccbpf: Cli, netns_pair: Pair) -> None:
    """init() runs after the program of the rules, and finds the rule in the storage of the socket."""
    a, b = netns_pair
    ccbpf("enable", "le")
    a.sysctl("net.ipv4.tcp_congestion_control=le")
    with kernel.Sink(b, "10.77.0.2") as sink, a.socket() as sock:
        ccbpf("assign", "le", "--remote-port", sink.address[1], "--netns", a.name)
        sock.connect(sink.address)
        sock.sendall(bytes(100_000))
        settle(ccbpf, sock)
        (listed,) = ccbpf("-j", "assign", "list").json["rules"]
        assert (listed["counts"]["set"], listed["totals"]["flows"]) == (1, 1)
        assert 0 < listed["totals"]["bytes_acked"] <= 100_000
        (flow,) = ccbpf("-j", "flows").json["flows"]
        assert (flow["origin"]["by"], flow["origin"]["id"]) == ("rule", 1)


def test_yielded_seconds_are_the_time_in_such_a_phase(ccbpf: Cli, netns_pair: Pair) -> None:
    """Two records 0.2 s apart: what the first says of the phase counts for the time between, also for the unit and the rule of the
    flow, and in its record, which has since when it gives way. A pause of 3 s is neither."""
    a, b = netns_pair
    ccbpf("enable", "tcp_lp")
    with cgroup(f"ccbpf-test-{os.getpid()}-yields.service") as here, kernel.Sink(b, "10.77.0.2") as sink, ExitStack() as stack:
        with this_process_in(here):
            sock = stack.enter_context(a.socket())
        ccbpf("assign", "tcp_lp", "--remote-port", sink.address[1], "--netns", a.name)
        sock.connect(sink.address)
        sock.sendall(bytes(1 << 16))
        states = ((kernel.PHASE.AVOIDANCE, False, 0), (kernel.PHASE.INFERENCE, True, 0), (kernel.PHASE.INFERENCE, False, 3))
        for phase, yields, pause_s in states:
            settle(ccbpf, sock)
            flows = kernel.Map.by_pin(ccbpf.root / "flows")
            (key,) = [
                key for key in flows if kernel.decode("ccbpf_flow", flows.lookup(key) or b"").remote_port == sink.address[1]
            ]
            value = bytearray(flows.lookup(key) or b"")
            changed = kernel.ffi.from_buffer("struct ccbpf_flow *", value)
            changed.phase, updated_ns, life = phase, changed.updated_ns, kernel.decode("ccbpf_flow", bytes(value)).life
            changed.updated_ns -= pause_s * 10**9
            changed.started_ns -= pause_s * 10**9  # no time before counts
            flows.update(key, bytes(value))
            flows.close()
            before = samples(ccbpf, "prometheus", "--units")
            time.sleep(0.2)
            sock.send(b"x")
            kernel.eventually(
                lambda: of(samples(ccbpf), "bytes_acked_total", controller="tcp_lp")
                > of(before, "bytes_acked_total", controller="tcp_lp"),
                5, "it is published",
            )  # fmt: skip
            passed_s = (time.monotonic_ns() - updated_ns) / 1e9
            after = samples(ccbpf, "prometheus", "--units")
            (flow,) = [f for f in ccbpf("-j", "flows").json["flows"] if f["remote_port"] == sink.address[1]]
            (shown,) = json.loads(ccbpf("top", "-bj", "--watch", "0.02", "--count", 1).out)["flows"]
            assert shown["yielded_s"] == flow["yielded_ns"] / 1e9
            assert flow["yields_since_ns"] == (updated_ns if yields else 0) or (pause_s and flow["yields_since_ns"] > updated_ns)
            for prefix, labels in (("", {}), ("unit_", {"unit": f"/{here.name}"}), ("rule_", {"rule": "1"})):
                sending, yielded = (
                    of(after, name, controller="tcp_lp", **labels) - of(before, name, controller="tcp_lp", **labels)
                    for name in (f"{prefix}{which}_seconds_total" for which in ("sending", "yielded"))
                )
                assert 0 <= yielded <= sending < 0.2 if pause_s else 0.2 < sending < passed_s, prefix
                assert pause_s or yielded == pytest.approx(sending if yields else 0), prefix
                assert (flow["sending_ns"] - life.sending_ns) / 1e9 == pytest.approx(sending)
                assert (flow["yielded_ns"] - life.yielded_ns) / 1e9 == pytest.approx(yielded)


def test_hostile_names_of_cgroups(ccbpf: Cli) -> None:
    """Each is one label of one line, read back by both parsers; what a terminal would obey is a question mark. All that is counted of
    a unit stands behind the name."""
    ccbpf("enable", "tcp_lp")
    units = kernel.Map.by_pin(ccbpf.root / "unit_totals")
    with ExitStack() as stack:
        stack.callback(units.close)
        wanted = {}
        for i, name in enumerate(HOSTILE):
            path = stack.enter_context(cgroup(name))
            key = struct.pack("=QII", path.stat().st_ino, kernel.KINDS["tcp_lp"], 0)
            units.update(key, struct.pack("=9Q", *((i + 1) * 10**9 + field for field in range(9))))
            wanted[i + 1] = name
        for form in ("prometheus", "openmetrics"):
            found = samples(ccbpf, form, "--units")
            for field, (metric, unit) in enumerate(UNIT_TOTALS):
                name_of = f"ccbpf_unit_{metric}_total"
                seen = {round(v * unit) - field: dict(all_)["unit"] for (n, all_), v in found.items() if n == name_of}
                assert seen == {number * 10**9: "/" + printable(name) for number, name in wanted.items()}, metric


def printable(name: str) -> str:
    """As the loader shows it: bytes that are no UTF-8, and control characters, are question marks."""
    return re.sub(r"[\x00-\x1f\x7f-\x9f\udc80-\udcff]", "?", name)


def bytes_acked(cli: Cli, name: str = "tcp_lp") -> float:
    return of(samples(cli), "bytes_acked_total", controller=name)


def test_a_flow_lives_through_reload_disable_and_enable(ccbpf: Cli, netns_pair: Pair) -> None:
    """Its bytes are counted once, whichever loading of the controller sends them."""
    a, b = netns_pair
    ccbpf("enable", "tcp_lp", "hstcp_lp")  # which keeps the shared maps
    with kernel.Sink(b, "10.77.0.2") as sink, a.socket() as sock:
        kernel.choose(sock, "tcp_lp")
        sock.connect(sink.address)
        for words in (["status"], ["reload", "tcp_lp", "--set", "delta=200"], ["disable", "tcp_lp"], ["enable", "tcp_lp"]):
            ccbpf(*words)
            sock.sendall(bytes(100_000))
        kernel.eventually(lambda: not kernel.tcp_info(sock).unacked, 5, "all is acknowledged")
        kernel.choose(sock, "hstcp_lp")
        sock.sendall(bytes(50_000))
        kernel.eventually(lambda: not kernel.tcp_info(sock).unacked, 5, "all is acknowledged")
        sock.close()
        kernel.eventually(lambda: of(samples(ccbpf), "live_flows", controller="hstcp_lp") == 0, 10, "the flow has ended")
    assert bytes_acked(ccbpf) == 400_000
    assert 50_000 <= bytes_acked(ccbpf, "hstcp_lp") <= 50_001


CROWD = """
import os, socket, sys
os.sched_setaffinity(0, {int(sys.argv[1])})
socks = [socket.create_connection(("10.77.0.2", int(sys.argv[2]))) for _ in range(100)]
for s in socks:
    s.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, b"tcp_lp")
    s.sendall(bytes(10000))
print("sent", flush=True)
sys.stdin.readline()
for s in socks: s.close()
"""


def test_flows_that_end_on_several_processors_at_once(ccbpf: Cli, netns_pair: Pair) -> None:
    """No flow is counted twice, and no addition is lost: by controller, and by the cgroup in which all are."""
    a, b = netns_pair
    ccbpf("enable", "tcp_lp")
    cpus = sorted(os.sched_getaffinity(0))[:4]
    with cgroup("ccbpf-test-crowd") as here, kernel.Sink(b, "10.77.0.2") as sink, ExitStack() as stack:
        inside = ("sh", "-c", f'echo $$ > {here}/cgroup.procs; exec "$@"', "sh", "ip", "netns", "exec", a.name)
        words = [[*inside, sys.executable, "-c", CROWD, str(cpu), str(sink.address[1])] for cpu in cpus]
        crowd = [
            stack.enter_context(subprocess.Popen(own, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)) for own in words
        ]
        assert [p.stdout.readline() for p in crowd if p.stdout] == ["sent\n"] * len(cpus)
        flows = 100 * len(cpus)
        kernel.eventually(lambda: sink.received == flows * 10_000, 10, "all is received")
        for process in crowd:
            process.communicate("\n", timeout=10)
        kernel.eventually(lambda: of(samples(ccbpf), "live_flows", controller="tcp_lp") == 0, 10, "the flows have ended")
        found = samples(ccbpf, "prometheus", "--units")
        assert (
            of(found, "unit_flows_total", unit=f"/{here.name}") == of(found, "flows_opened_total", controller="tcp_lp") == flows
        )
        for total in (
            of(found, "bytes_acked_total", controller="tcp_lp"),
            of(found, "unit_bytes_acked_total", unit=f"/{here.name}"),
        ):
            assert flows * 10_000 <= total <= flows * 10_001  # with the FIN


def test_more_cgroups_than_the_map_holds(ccbpf: Cli, netns_pair: Pair) -> None:
    """Those that were idle for longest are forgotten; a cgroup that sends is not, nor is anything of the controller."""
    a, b = netns_pair
    ccbpf("enable", "tcp_lp")
    units = kernel.Map.by_pin(ccbpf.root / "unit_totals")
    with kernel.Sink(b, "10.77.0.2") as sink, a.socket() as sock:
        kernel.choose(sock, "tcp_lp")
        sock.connect(sink.address)
        for i in range(3):
            for cgroup_id in range(2000):  # 6000 in all; none exists
                units.update(struct.pack("=QII", (i << 56) + (1 << 55) + cgroup_id, kernel.KINDS["tcp_lp"], 0), bytes(72))
            settle(ccbpf, sock)
            sock.sendall(bytes(100_000))
            kernel.eventually(lambda: not kernel.tcp_info(sock).unacked, 5, "all is acknowledged")
        assert len(units.keys()) <= 4096
        settle(ccbpf, sock)
        sock.send(b"x")
        kernel.eventually(lambda: bytes_acked(ccbpf) == 300_001, 5, "it is published")
        found = samples(ccbpf, "prometheus", "--units")
        (sent,) = [v for (name, _), v in found.items() if name == "ccbpf_unit_bytes_acked_total"]
        assert sent == 300_001 and of(found, "units_left_out") == 0
        over = threading.Event()
        churn = threading.Thread(target=forget, args=(units, over))
        churn.start()
        try:
            assert all(samples(ccbpf, "prometheus", "--units") for _ in range(4))
        finally:
            over.set()
            churn.join()
    units.close()


def forget(units: kernel.Map, over: threading.Event) -> None:
    """New cgroups all the time: while the map is read, the kernel forgets others."""
    for i in range(200_000):
        if over.is_set():
            break
        units.update(struct.pack("=QII", (5 << 60) + i, kernel.KINDS["tcp_lp"], 0), bytes(72))


@pytest.mark.quiet
def test_names_are_looked_for_in_bounded_time(ccbpf: Cli, slow_walk: Path) -> None:
    """Cgroups that are not found by then are counted; which of them are gone is not known."""
    ccbpf("enable", "tcp_lp")
    units = kernel.Map.by_pin(ccbpf.root / "unit_totals")
    with ExitStack() as stack:
        stack.callback(units.close)
        for i in range(100):
            name = f"ccbpf-test-{os.getpid()}-{i}.slice"
            stack.enter_context(cgroup(name))
            inode = stack.enter_context(cgroup(f"{name}/a.service")).stat().st_ino
            units.update(struct.pack("=QII", inode, kernel.KINDS["tcp_lp"], 0), struct.pack("=9Q", *range(1, 10)))
        units.update(struct.pack("=QII", 1 << 60, kernel.KINDS["tcp_lp"], 0), bytes(72))  # one that is gone

        def shown(found: Samples) -> int:
            return sum(name == "ccbpf_unit_flows_total" for name, _ in found)

        found = samples(ccbpf, "prometheus", "--units")
        assert (shown(found), of(found, "units_left_out")) == (100, 0)
        began = time.monotonic()
        found = samples(Cli(ccbpf.root, {"LD_PRELOAD": str(slow_walk)}, ccbpf.command), "prometheus", "--units")
        assert time.monotonic() - began < 4, "and not the 10 s that 200 directories take"
        assert shown(found) < 100 and shown(found) + of(found, "units_left_out") == 101


def test_a_root_without_totals(ccbpf: Cli) -> None:
    """That of an older ccbpf: its other metrics are shown, and what is enabled from now on has totals."""
    ccbpf("enable", "tcp_lp")
    (ccbpf.root / "totals").unlink()
    (ccbpf.root / "unit_totals").unlink()
    found = samples(ccbpf, "prometheus", "--units")
    assert of(found, "flows_opened_total", controller="tcp_lp") == 0
    assert not any("bytes_acked_total" in name or "unit" in name for name, _ in found)
    ccbpf("enable", "hstcp_lp")
    assert bytes_acked(ccbpf, "hstcp_lp") == 0
    ccbpf("reload", "tcp_lp")
    assert bytes_acked(ccbpf) == 0
