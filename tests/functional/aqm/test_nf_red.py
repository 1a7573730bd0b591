# SPDX-License-Identifier: GPL-2.0-only
"""nf_red marks, drops and counts packets, with every kind of queue and packet, and changes nothing else."""

from __future__ import annotations

import json
import os
import socket
import struct
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import pytest

from tests.functional import kernel
from tests.functional.conftest import Cli
from tests.functional.line import CE, DEV, ECT0, ECT1, NEIGHBOUR, NOT_ECT, OPEN, SO_SNDBUFFORCE, Frame, Line, ident_of

LE, PROBE, STANDARD = 1, 7, 0
PROG_FD_BY_ID, LINK_CREATE, TCX_EGRESS, BEFORE = 13, 28, 47, 1 << 3  # include/uapi/linux/bpf.h
NOW = ("--average", 1)  # the queue as it is
STEP = (*NOW, "--nf-min", 10, "--nf-max", 10)  # marks above 10 000 of 100 000 bytes: above ten packets


def frames(count: int, **what: Any) -> list[Frame]:
    return [Frame(ident=i, **what) for i in range(count)]


def test_marks_where_the_queue_exceeds_the_threshold_and_nothing_else(either: Line) -> None:
    """Ten packets of 1000 bytes may wait; the twelfth is the first that finds more."""
    either.tbf()
    queue = either.attach(*STEP)
    assert (queue["attached"], queue["limit_bytes"]) == ("clsact" if either.ccbpf.environment else "tcx", 100_000)
    sent = frames(30, dscp=LE)
    either.send(sent)
    assert either.statistics()["backlog"] == either.shown()["backlog_bytes"] == 29_000
    either.release()
    received = either.received(30)
    assert received == [f.ip() for f in sent[:12]] + [f.with_ce for f in sent[12:]]
    counted = either.classes()
    assert counted["nf"] | {"dscp": 0} == {
        "dscp": 0, "min_percent": 10, "max_percent": 10, "packets": 30, "bytes": 30_000, "marked": 18, "dropped": 0
    }  # fmt: skip
    assert counted["standard"]["packets"] == counted["probe"]["packets"] == 0


@pytest.mark.parametrize("version", [4, 6])
@pytest.mark.parametrize("ecn", [ECT0, ECT1, CE])
@pytest.mark.parametrize("tags", [(), (100,), (200, 100)])
def test_ce_with_a_right_checksum(line: Line, version: int, ecn: int, tags: tuple[int, ...]) -> None:
    """Tags in the packet, as a bridge or a guest may send them."""
    line.tbf()
    line.attach(*STEP)
    line.fill(20)
    sent = frames(3, dscp=LE, version=version, ecn=ecn, tags=tags)
    line.send(sent)
    line.release()
    assert line.received(24)[21:] == [f.with_ce for f in sent]
    assert line.classes()["nf"]["marked"] == 3


@pytest.mark.parametrize("version", [4, 6])
@pytest.mark.parametrize("push", ["vlan", "qinq"])
def test_ce_under_tags_that_the_kernel_pushed(line: Line, version: int, push: str) -> None:
    """One tag beside the packet (accelerated), or one beside it and one in it: the kernel's own offset is wrong then."""
    line.without_tcx().tbf()  # behind the neighbour
    line.attach(*STEP)
    line.fill(20)
    with line.neighbour(push):
        sent = frames(3, dscp=LE, version=version)
        line.send(sent)
    line.release()
    assert line.received(24)[21:] == [f.with_ce for f in sent]
    assert line.classes()["nf"]["marked"] == 3


@pytest.mark.parametrize("version", [4, 6])
@pytest.mark.parametrize("tags", [(), (100,), (200, 100)])
def test_ce_in_a_bridged_frame(line: Line, version: int, tags: tuple[int, ...]) -> None:
    """The first of two tags comes beside the packet, and the kernel's offset of the IP header is that of the second tag."""
    line.near.ip("link", "add", "br0", "type", "bridge", "mcast_snooping", 0)
    line.near.ip("link", "add", "w0", "type", "veth", "peer", "name", "w1", "netns", line.far.name)
    line.far.ip("link", "set", "w1", "arp", "off", "up")
    for port in ("w0", DEV):
        line.near.ip("link", "set", port, "master", "br0", "arp", "off", "up")
    line.near.ip("link", "set", "br0", "arp", "off", "up")
    line.tc("qdisc", "add", "dev", "w0", "root", "handle", "1:", "tbf", "rate", "8kbit", "burst", "1514", "limit", 100_000)
    line.aqm("attach", "w0", *NOW, "--nf-min", 0, "--nf-max", 0)
    with kernel.inside(line.far.name):
        line.capture.close()
        line.capture = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
        line.capture.bind(("w1", 3))
        out = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
        out.bind((DEV, 0))
    sent = frames(6, dscp=LE, version=version, tags=tags)
    with out:
        for frame in sent:
            out.send(frame.bytes())
    line.tc("qdisc", "change", "dev", "w0", "root", "handle", "1:", "tbf", "rate", OPEN[0], "burst", OPEN[1], "limit", 100_000)
    assert line.received(6) == [f.ip() for f in sent[:2]] + [f.with_ce for f in sent[2:]]


def test_every_header_that_can_be_marked(line: Line) -> None:
    """RFC 1624: the new checksum is that of the whole header, whatever it was."""
    line.tbf(1_000_000)
    line.attach(*NOW, "--nf-min", 0, "--nf-max", 0)
    line.fill(1)
    sent = [Frame(dscp=LE, ecn=ecn, ident=i * 655 + ecn, size=100) for i in range(101) for ecn in (ECT0, ECT1)]
    line.send(sent)
    line.release(1_000_000)
    assert line.received(2 + len(sent))[2:] == [f.with_ce for f in sent]


def test_packets_without_ecn_are_dropped_instead(line: Line) -> None:
    line.tbf()
    line.attach(*STEP)
    sent = frames(15, dscp=LE, ecn=NOT_ECT)
    line.send(sent)
    line.release()
    assert line.received(12) == [f.ip() for f in sent[:12]]
    assert (line.classes()["nf"]["dropped"], line.classes()["nf"]["marked"]) == (3, 0)
    assert line.statistics()["drops"] == 0, "not by the qdisc"


@pytest.mark.parametrize("version", [4, 6])
def test_half_of_the_tcp_packets_is_dropped(version: int, line: Line) -> None:
    """A retransmission is never ECN-capable, and must get through at some time."""
    line.tbf()
    line.attach(*STEP)
    sent = frames(52, dscp=LE, ecn=NOT_ECT, protocol=socket.IPPROTO_TCP, version=version)
    line.send(sent)
    line.release()
    counted = line.classes()["nf"]
    assert (counted["packets"], counted["marked"]) == (52, 0)
    assert 8 <= counted["dropped"] <= 32, "of 40"
    received = [ident_of(ip) for ip in line.received(52 - counted["dropped"])]
    assert received[:12] == list(range(12)) and received == sorted(received)


def test_one_fifo(line: Line) -> None:
    """Classes mixed, in order."""
    line.tbf()
    line.attach(*STEP)
    sent = [Frame(dscp=(LE, STANDARD, PROBE, 46)[i % 4], ident=i) for i in range(60)]
    line.send(sent)
    line.release()
    assert [ident_of(ip) for ip in line.received(60)] == list(range(60))


def test_standard_traffic_is_untouched_below_its_minimum(line: Line) -> None:
    """And marked above it: 90.667 % of 100 000 bytes."""
    line.tbf()
    line.attach(*NOW)
    sent = frames(99)
    line.send(sent)
    line.release()
    received = line.received(99)
    assert received[:92] == [f.ip() for f in sent[:92]]
    marked = sum(ip == f.with_ce for ip, f in zip(received, sent, strict=True))
    assert marked == line.classes()["standard"]["marked"] <= 7
    line.tbf()
    line.aqm("set", DEV, "--std", "50,50")
    line.send(frames(60))
    assert line.classes()["standard"]["marked"] == marked + 8


@pytest.mark.parametrize("dscp", [LE, PROBE])
def test_where_standard_traffic_is_marked_background_is_dropped(line: Line, dscp: int) -> None:
    """A mark had no effect (RFC 7567, 4.2.1): it was not obeyed, or was removed on the way."""
    line.tbf()
    line.attach(*STEP, "--std", "50,50")
    line.fill(50)
    sent = [Frame(dscp=(dscp, STANDARD)[i % 2], ident=i) for i in range(20)]
    line.send(sent)  # the first finds 50 000 bytes, which is not above 50 %
    line.release()
    assert line.received(62)[51:] == [f.with_ce for f in (sent[0], *sent[1::2])]
    counted = line.classes()["nf" if dscp == LE else "probe"]
    assert (counted["marked"], counted["dropped"]) == (1, 9)


def test_standard_off(line: Line) -> None:
    line.tbf(20_000)
    line.attach(*NOW, "--std", "off")
    line.send(frames(40, ecn=NOT_ECT))
    counted = line.classes()["standard"]
    assert (counted["packets"], counted["marked"], counted["dropped"], counted["min_percent"]) == (40, 0, 0, None)
    assert line.statistics()["drops"] == 40 - 21, "tail drop is the qdisc's"


def test_a_probe_is_marked_whenever_more_than_one_packet_waits(line: Line) -> None:
    """A packet of this device is 1514 bytes; the average does not matter."""
    line.tbf()
    line.attach("--average", 32768, "--nf-min", 50)
    line.send([Frame(size=1514, ident=1), Frame(size=1514, ident=2)])  # the first leaves: one waits
    one = Frame(dscp=PROBE, size=1514, ident=3)
    more = Frame(dscp=PROBE, size=1514, ident=4)
    line.send([one, more])
    line.release()
    assert line.received(4)[2:] == [one.ip(), more.with_ce]
    line.tbf()
    small = [Frame(dscp=PROBE, size=66, ident=i) for i in range(24)]  # 22 of them have less than one packet's bytes
    line.send([Frame(size=1514), *small])
    assert line.classes()["probe"]["marked"] == 1 + 1


def test_classes_are_what_they_are_said_to_be(line: Line) -> None:
    line.tbf()
    line.attach("--nf-dscp", "8,10", "--probe-dscp", 44)
    line.send([Frame(dscp=i) for i in range(64)])
    counted = line.classes()
    assert {name: c["packets"] for name, c in counted.items()} == {"nf": 3, "probe": 1, "standard": 60}
    assert (counted["nf"]["dscp"], counted["probe"]["dscp"]) == ([1, 8, 10], [44])


def test_the_average_is_per_packet_and_marks_are_random_between(line: Line) -> None:
    """The law that the unit tests check, driven by packets: w = 1/16, a queue of 50 000 bytes."""
    line.tbf()
    line.attach("--average", 16, "--nf-min", 0, "--nf-max", 100, "--std", "off")
    average = 0.0
    for i in range(50):
        average += (max(0, i - 1) * 1000 - average) / 16
    line.send(frames(50))
    assert line.shown()["average_bytes"] == pytest.approx(average, abs=1)
    assert line.shown()["found_bytes"] == 48_000
    line.send([Frame(dscp=LE, size=66, ident=i) for i in range(400)])
    marked = line.classes()["nf"]["marked"]
    assert 100 < marked < 400, "p from 0.4 to 0.7: a mark each 1.5 to 1.2 packets or so"


def gso_socket(namespace: kernel.Namespace, size: int) -> socket.socket:
    with kernel.inside(namespace.name):
        sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.setsockopt(socket.SOL_SOCKET, SO_SNDBUFFORCE, 1 << 26)
    sock.setsockopt(socket.SOL_UDP, 103, size)  # UDP_SEGMENT
    sock.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, LE << 2 | ECT0)
    sock.connect(("10.77.0.2", 9))
    return sock


def test_a_gso_train_counts_as_its_packets(ccbpf: Cli, netns_pair: tuple[kernel.Namespace, kernel.Namespace]) -> None:
    near, _ = netns_pair
    near.ip("neighbour", "replace", "10.77.0.2", "lladdr", "02:00:00:00:00:02", "dev", "veth0")
    near.run("tc", "qdisc", "add", "dev", "veth0", "root", "handle", "1:", "tbf", "rate", "8kbit", "burst", "64k",
             "limit", "1000k")  # fmt: skip
    prefix = ("ip", "netns", "exec", near.name)
    ccbpf("aqm", "attach", "veth0", "--average", 64, "--nf-min", 50, prefix=prefix)
    before = ccbpf("-j", "aqm", "show", prefix=prefix).json["queues"][0]["classes"]["nf"]
    with gso_socket(near, 1000) as sock:
        average, queue = 0.0, 0
        for _ in range(8):
            sock.send(bytes(40_000))
            average = queue + (average - queue) * (1 - 1 / 64) ** 40
            (row,) = json.loads(near.run("tc", "-s", "-j", "qdisc", "show", "dev", "veth0").stdout)
            queue = row["backlog"]
    shown = ccbpf("-j", "aqm", "show", prefix=prefix).json["queues"][0]
    nf = shown["classes"]["nf"]
    assert before["packets"] == 0
    assert nf["packets"] == 320
    assert nf["bytes"] == 320 * 1042, "each has its own headers on the wire, as tc counts"
    assert shown["found_bytes"] > 100_000
    assert shown["average_bytes"] == pytest.approx(average, rel=0.1)


def test_the_histogram_is_of_what_packets_found(line: Line) -> None:
    line.tbf()
    line.attach()
    line.send(frames(10))  # 0, 0, 1000, … 8000 bytes
    found = {b["from_bytes"]: b["packets"] for b in line.shown()["histogram"] if b["packets"]}
    assert found == {0: 2, 512: 1, 1024: 1, 2048: 2, 4096: 4}


def test_counts_agree_with_tc(line: Line) -> None:
    line.tbf(how=OPEN)
    line.attach()
    line.send([Frame(dscp=i % 8, size=60 + 31 * (i % 40), version=4 + 2 * (i % 2)) for i in range(400)])
    line.received(400)
    counted, tc = line.classes().values(), line.statistics()
    assert sum(c["packets"] for c in counted) == tc["packets"] == 400
    assert sum(c["bytes"] for c in counted) == tc["bytes"]


def test_idle_time_is_forgotten(line: Line) -> None:
    """After a full queue and a pause the average is as with an empty queue (RED's idle rule)."""
    line.tbf()
    line.attach("--average", 1024, "--rate", "100M")
    line.send(frames(90))
    full = line.shown()["average_bytes"]
    line.release()
    line.received(90)
    time.sleep(0.2)  # 1650 packets of 1514 bytes at 100 Mbit/s: 1.6 times 1/w
    line.send(frames(1))
    assert line.shown()["average_bytes"] < 0.3 * full
    line.tbf()
    line.aqm("set", DEV, "--rate", "1K")
    line.send(frames(90))
    full = line.shown()["average_bytes"]
    line.release()
    line.received(91)
    time.sleep(0.2)
    line.send(frames(1))
    assert line.shown()["average_bytes"] > 0.9 * full, "that is no time at all for a slow link"


# --- kinds of queues ---


def test_htb_root(line: Line) -> None:
    """The root's backlog is that of all leaves; the limit is the default class's pfifo: 1000 packets of 1514 bytes."""
    line.htb()
    queue = line.attach(*NOW, "--nf-min", 1, "--nf-max", 1)
    assert (queue["qdisc"], queue["limit_bytes"]) == ("htb", 1000 * 1514)
    sent = frames(30, dscp=LE)
    line.send(sent)
    backlog = line.statistics()["backlog"]
    assert 25_000 < backlog == line.shown()["backlog_bytes"]
    assert line.shown()["found_bytes"] == backlog - 1000
    assert line.classes()["nf"]["marked"] == sum(i * 1000 > 15_140 for i in range(backlog // 1000))


def test_htb_leaf(line: Line) -> None:
    line.htb()
    line.tc("qdisc", "add", "dev", DEV, "parent", "1:20", "handle", "20:", "bfifo", "limit", 50_000)
    queue = line.attach(*NOW, "--class", "1:20", "--nf-min", 20, "--nf-max", 20)
    assert (queue["limit_bytes"], queue["class"]) == (50_000, "1:20")
    line.send(frames(30, dscp=LE))  # all to 1:10, the default
    assert (line.shown()["found_bytes"], line.shown()["backlog_bytes"]) == (0, 0)
    line.out.setsockopt(socket.SOL_SOCKET, socket.SO_PRIORITY, 0x10020)
    line.send(frames(30, dscp=LE))
    shown = line.shown()
    assert shown["backlog_bytes"] == line.statistics("20:")["backlog"] > 25_000
    assert shown["found_bytes"] == shown["backlog_bytes"] - 1000
    assert shown["classes"]["nf"]["marked"] == sum(i * 1000 > 10_000 for i in range(shown["backlog_bytes"] // 1000))
    line.tc("qdisc", "replace", "dev", DEV, "parent", "1:20", "handle", "21:", "pfifo", "limit", 100)
    line.send(frames(5, dscp=LE))
    assert 0 < line.shown()["found_bytes"] == line.statistics("21:")["backlog"] - 1000, "another qdisc, the same class"


def test_htb_leaf_among_many(line: Line) -> None:
    """The kernel keeps the qdiscs that classes have by default in one chain, the oldest last."""
    line.htb(minors=[f"{minor:x}" for minor in range(1, 61)])
    line.attach("--class", "1:1")
    line.send(frames(10))
    shown = line.shown()
    assert shown["found_bytes"] == shown["backlog_bytes"] - 1000 > 5000


@pytest.mark.parametrize("kind, limit, bytes_", [("bfifo", 60_000, 60_000), ("pfifo", 40, 40 * 1514)])
def test_fifo(line: Line, kind: str, limit: int, bytes_: int) -> None:
    """No packet waits in a fifo before veth; only its limit is read."""
    line.tc("qdisc", "replace", "dev", DEV, "root", "handle", "1:", kind, "limit", limit)
    assert line.attach()["limit_bytes"] == bytes_
    line.send(frames(5, dscp=LE))
    line.received(5)
    assert line.classes()["nf"]["packets"] == 5


def test_fifo_under_tbf(line: Line) -> None:
    line.tbf()
    line.tc("qdisc", "replace", "dev", DEV, "parent", "1:1", "handle", "2:", "bfifo", "limit", 30_000)
    line.attach(*STEP, "--limit", 100_000)
    line.send(frames(20, dscp=LE))
    assert line.statistics()["backlog"] == 19_000
    assert line.classes()["nf"]["marked"] == 8


def test_mq(ccbpf: Cli) -> None:
    """The sum of the queues of its children; pfifo_fast among them is refused."""
    with Line(ccbpf, queues=2) as line:
        line.tc("qdisc", "replace", "dev", DEV, "root", "handle", "1:", "mq")
        assert "pfifo_fast" in line.aqm("attach", DEV, code=1).err
        for i in (1, 2):
            line.tc("qdisc", "replace", "dev", DEV, "parent", f"1:{i}", "handle", f"1{i}:", "tbf", "rate", "8kbit", "burst",
                    "1514", "limit", 100_000)  # fmt: skip
        queue = line.attach(*NOW, "--nf-min", 5, "--nf-max", 5)
        assert (queue["qdisc"], queue["limit_bytes"]) == ("mq", 200_000)
        line.send(frames(20, dscp=LE))
        waits = sum(line.statistics(f"1{i}:")["backlog"] for i in (1, 2))
        assert waits >= 18_000
        assert line.shown()["found_bytes"] == waits - 1000
        assert line.classes()["nf"]["marked"] == sum(i * 1000 > 10_000 for i in range(waits // 1000))


def test_a_qdisc_changed_under_it(either: Line) -> None:
    """tbf, then htb, then none, then tbf: it reads what is there."""
    either.tbf()
    either.attach(*STEP)
    either.send(frames(20, dscp=LE))
    assert either.classes()["nf"]["marked"] == 8
    either.tc("qdisc", "del", "dev", DEV, "root")
    either.send(frames(20, dscp=LE))
    assert (either.classes()["nf"]["marked"], either.shown()["found_bytes"]) == (8, 0)
    assert either.shown()["qdisc"] in (None, "noqueue")
    either.htb()
    either.send(frames(20, dscp=LE))
    assert either.classes()["nf"]["marked"] > 12
    either.tc("qdisc", "del", "dev", DEV, "root")
    before = either.classes()["nf"]["marked"]
    either.tbf()
    either.send(frames(20, dscp=LE))
    assert either.classes()["nf"]["marked"] == before + 8


NOT_TRUE = "is lock-free: its length and the average are unknown; `tc qdisc replace dev v0 root bfifo limit BYTES`"


def test_a_lock_free_queue_under_it_is_reported(line: Line) -> None:
    line.tbf()
    line.attach()
    line.tc("qdisc", "replace", "dev", DEV, "root", "pfifo_fast")
    line.send(frames(5, dscp=LE))
    assert (line.shown()["blind"], line.shown()["lock_free"]) == (5, True)
    assert "met a lock-free queue" in line.aqm("show", DEV).out and NOT_TRUE in line.aqm("show", DEV).out
    line.tbf()
    assert not line.shown()["lock_free"]
    assert "met a lock-free queue" in line.aqm("show", DEV).out, "that was"
    assert NOT_TRUE not in line.aqm("show", DEV).out


def test_lock_free_children_of_mq_are_reported(ccbpf: Cli) -> None:
    """A new mq gets pfifo_fast; what nf_red reads there is zero."""
    with Line(ccbpf, queues=2) as line:
        line.tbf()
        line.attach()
        assert line.shown()["lock_free"] is False
        line.tc("qdisc", "del", "dev", DEV, "root")
        line.tc("qdisc", "add", "dev", DEV, "root", "handle", "2:", "mq")
        assert (line.shown()["qdisc"], line.shown()["lock_free"], line.shown()["blind"]) == ("mq", True, 0)
        line.send(frames(5, dscp=LE))
        assert line.shown()["blind"] == 5
        assert NOT_TRUE in line.aqm("show", DEV).out
        for i in (1, 2):
            line.tc("qdisc", "replace", "dev", DEV, "parent", f"2:{i}", "bfifo", "limit", 100_000)
        assert line.shown()["lock_free"] is False and NOT_TRUE not in line.aqm("show", DEV).out
        line.send(frames(5, dscp=LE))
        assert line.shown()["blind"] == 5


# --- and nothing else ---


def test_packets_that_are_not_ip_pass(line: Line) -> None:
    line.tbf()
    line.attach(*NOW, "--std", "0,0", "--nf-min", 0, "--nf-max", 0)
    line.fill(20)
    ours = line.classes()
    head = bytes.fromhex("020000000002020000000001")
    odd = [head + bytes.fromhex("0806") + bytes(46), head + bytes.fromhex("88b5") + b"\x45" + bytes(60),
           head + bytes.fromhex("0800") + b"\x45\x04\0", head + bytes.fromhex("81000064") + bytes.fromhex("0806") + bytes(46),
           head + bytes.fromhex("8100006481000065810000668100006708004504") + bytes(60)]  # fmt: skip
    for frame in odd:
        line.out.send(frame)
    counted = line.classes()
    assert counted["standard"]["packets"] == ours["standard"]["packets"] + len(odd)
    assert counted["standard"]["dropped"] == ours["standard"]["dropped"] == 0
    assert counted["standard"]["marked"] == ours["standard"]["marked"]
    assert counted["nf"]["packets"] == 0


def test_it_lives_beside_other_programs(either: Line) -> None:
    """They see the packets that we pass, and stay when we are detached."""
    either.tbf()
    with either.neighbour("pass"):
        either.attach(*STEP)
        either.send(frames(15, dscp=LE))
        assert either.classes()["nf"]["marked"] == 3
        either.aqm("detach", DEV)
        filters = either.tc("filter", "show", "dev", DEV, "egress")
        assert "pass" in filters and "nf_red" not in filters
        assert "clsact" in either.tc("qdisc", "show", "dev", DEV)
        (program,) = [row for row in either.tcx() if "pass" in row["name"]]
        maps = json.loads(kernel.run("bpftool", "-j", "prog", "show", "id", program["id"]).stdout)["map_ids"]
        counted = [m for m in map(kernel.Map.by_id, maps) if m.name.startswith(".data")]
        assert struct.unpack("=Q", counted[0].lookup(bytes(4)) or b"")[0] == 15


@contextmanager
def others(line: Line, name: str) -> Iterator[int]:
    """The id of one of the neighbour's programs, loaded."""
    pins = line.ccbpf.root.parent / f"{line.ccbpf.root.name}-other"
    try:
        kernel.run("bpftool", "prog", "loadall", NEIGHBOUR, pins, "type", "classifier")
        yield json.loads(kernel.run("bpftool", "-j", "prog", "show", "pinned", pins / name).stdout)["id"]
    finally:
        for pin in pins.glob("*"):
            pin.unlink()
        if pins.exists():
            pins.rmdir()


@pytest.mark.parametrize("name", ["pass", "ok"])
def test_a_tcx_program_of_others_stays(line: Line, name: str) -> None:
    """It is there before and after us. Our program runs before it: behind a program that ends the processing of a packet ours
    would see no packets."""
    with others(line, name) as program:
        line.near.run("bpftool", "net", "attach", "tcx_egress", "id", program, "dev", DEV)
        line.tbf()
        line.attach(*STEP)
        assert [row["name"] for row in line.tcx()] == ["nf_red", name]
        line.send(frames(15, dscp=LE))
        assert line.classes()["nf"]["marked"] == 3
        line.aqm("detach", DEV)
        assert [row["name"] for row in line.tcx()] == [name]


def test_a_filter_of_others_comes_behind_ours(line: Line) -> None:
    line.without_tcx().tbf()
    line.tc("qdisc", "add", "dev", DEV, "clsact")
    line.tc("filter", "add", "dev", DEV, "egress", "prio", 7, "bpf", "da", "obj", NEIGHBOUR, "sec", "tc/ok")
    line.attach(*STEP)
    line.send(frames(15, dscp=LE))
    assert line.classes()["nf"]["marked"] == 3
    line.aqm("detach", DEV)
    filters = line.tc("filter", "show", "dev", DEV, "egress")
    assert "pref 7" in filters and "nf_red" not in filters


def sending(line: Line) -> AbstractContextManager[None]:
    """Sends a packet every 5 ms."""
    return kernel.repeated(lambda: line.send(frames(1, dscp=LE)), 0.005)


def test_show_reports_that_no_packet_is_seen(either: Line) -> None:
    """A program that was attached later, before ours, ends the processing of each packet. No message while ours sees packets, or
    while none are sent."""
    either.tbf(how=OPEN)
    either.attach(*STEP)
    with sending(either):
        time.sleep(1.1)
        assert either.shown()["unseen"] is False
    time.sleep(1.1)
    assert either.shown()["unseen"] is False, "idle"
    with others(either, "ok") as program:
        if either.ccbpf.environment:  # clsact
            either.tc("filter", "add", "dev", DEV, "egress", "prio", 1, "bpf", "da", "obj", NEIGHBOUR, "sec", "tc/ok")
        else:
            fd = kernel.bpf(PROG_FD_BY_ID, struct.pack("=III", program, 0, 0))[0]
            with kernel.inside(either.near.name):
                where = struct.pack("=IIII", fd, socket.if_nametoindex(DEV), TCX_EGRESS, BEFORE)
                link = kernel.bpf(LINK_CREATE, where)[0]
        with sending(either):
            time.sleep(1.1)
            assert either.shown()["unseen"] is True
            said = either.aqm("show", DEV).out
            assert "nf_red sees none, because a program before it ends their processing" in said
        if not either.ccbpf.environment:
            os.close(link)
            os.close(fd)
