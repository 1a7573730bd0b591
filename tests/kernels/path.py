# SPDX-License-Identifier: GPL-2.0-only
"""The script of a guest of `make kernels`: each program runs over a bottleneck at which its mechanism must act.

    sender ── router ── delay ── receiver      25 Mbit/s, a round trip of 10 ms, a buffer of 100 packets (48 ms)

A flow alone fills such a buffer. The queue is drop-tail for those that react to delay and loss, and behind nf_red, with
ECN agreed, for those that need marks. A controller that loads and carries traffic may still not do its work: on
Linux 6.19 and later without cmpxchg16b, for example, socket storage is never allocated and NF-TCP sends no chirp.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from tests.kernels import ways
from tests.lab.engine import topology
from tests.lab.rows import catalogue

RATE_MBIT = 25
BUFFER_PACKETS = 100
SECONDS = 3  # of traffic for each controller
QUEUE = "nf_red"
FLOWS = "flows.jsonl"
EVERY_S = 0.1  # between two samples of the records
FRESH_MS = 10.0  # include/ccbpf/flow.h: a record is at most max(1 RTT, 10 ms) old while ACKs arrive
READING_MS = 5.0  # from the record's reading to the document's time
STEADY = ("avoidance", "inference")  # in recovery, and with a small window, there are pauses between ACKs
STEADY_CWND = 10
LEAST_STEADY = 5  # of some 30 samples of a flow; NF-TCP is in recovery for half of the time that a queue marks its packets

# They need ECN, and nf_red before the queue.
MARKED = tuple(name for (name,) in catalogue.table("ccbpf/controllers.h", "CCBPF_ECN_CONTROLLERS", "w"))

# The counter in a controller's record that shows that its mechanism has worked: path to the number, least value. For
# controllers that are not listed it counts reductions by a mark, or early indications.
MECHANISMS = {
    "ltcp": ("layers", "ltcp.layer", 2),
    "nf_tcp": ("complete chirps", "nf.chirps_complete", 1),
}
BY_MARKS = ("reductions by a mark", "marks", 1)
BY_DELAY = ("early indications", "indications", 1)

# The same where AccECN is agreed (from Linux 7.0 on): marks still count. A chirp needs the echo of each packet's mark that
# RFC 3168 gives, and AccECN has none.
ACCECN = "accecn"

SCRIPT = """\
{topology}
set +e
tc -n router qdisc add dev out root handle 1: htb default 1
tc -n router class add dev out parent 1: classid 1:1 htb rate {rate}mbit quantum 1514
tc -n router qdisc add dev out parent 1:1 handle 10: pfifo limit {packets}
for device in in out; do tc -n delay qdisc add dev $device root netem limit 10000 delay 5ms; done
ccbpf check >check.txt 2>&1
refused() {{ # with -vv the log has the verifier's counts; of a refused program it needs the verifier's words, which -v shows
    [ "$(cat $1/enabled)" != 0 ]
}}
keep_cost() {{ # what an accepted program cost; the log of a refused one stays
    grep -E "^(libbpf: prog '|processed )" $1/log >$1/cost
    rm $1/log
}}
until_true() {{ # a condition, asked at most 50 times
    tries=50
    until eval "$1"; do
        tries=$((tries - 1))
        [ $tries != 0 ] || return
        sleep 0.1
    done
}}
serve() {{ # one iperf3 client, from now on
    ip netns exec receiver iperf3 -s -1 >/dev/null 2>&1 &
    until_true '[ -n "$(ip netns exec receiver ss -Hltn "sport = :5201")" ]'
}}
try() {{ # controller, address of the receiver, directory
    to=${{3:-$1}}
    mkdir $to
    ccbpf -vv enable $1 >$to/enable.txt 2>$to/log
    echo $? >$to/enabled
    if refused $to; then
        ccbpf -v enable $1 2>>$to/log
        return
    fi
    serve
    ccbpf -j flows --watch {every} >$to/{flows} & watch=$!
    ip netns exec sender timeout {timeout} iperf3 -c $2 -C $1 -t {seconds} -J >$to/iperf3.json 2>&1
    kill $watch
    ccbpf disable $1 >$to/disable.txt 2>&1
    echo $? >$to/disabled
    keep_cost $to
}}
for name in {plain}; do try $name {address}; done
{ways}mkdir {queue}
ip netns exec router ccbpf -vv aqm attach out --limit {limit} >{queue}/enable.txt 2>{queue}/log
echo $? >{queue}/enabled
refused {queue} && ip netns exec router ccbpf -v aqm attach out --limit {limit} 2>>{queue}/log
for name in {marked}; do try $name {ecn_address}; done
if ip netns exec receiver sysctl -qw net.ipv4.tcp_ecn=3 && ip netns exec sender sysctl -qw net.ipv4.tcp_ecn=3; then
    for name in {marked}; do try $name {address} $name-{accecn}; done
fi
if [ "$(cat {queue}/enabled)" = 0 ]; then
    ip netns exec router ccbpf -j aqm show out >{queue}/show.json
    tc -n router -s qdisc show dev out >{queue}/tc.txt
    ip netns exec router ccbpf aqm detach out >{queue}/disable.txt 2>&1
    echo $? >{queue}/disabled
    keep_cost {queue}
fi
"""


def script(names: Iterable[str]) -> str:
    """The guest's, for these controllers, the ways to give one, and nf_red."""
    names = list(names)
    return SCRIPT.format(
        topology=topology.commands(), rate=RATE_MBIT, packets=BUFFER_PACKETS, every=EVERY_S, flows=FLOWS,
        seconds=SECONDS, timeout=SECONDS + 20, queue=QUEUE, accecn=ACCECN, limit=BUFFER_PACKETS * 1514,
        plain=" ".join(name for name in names if name not in MARKED),
        marked=" ".join(name for name in names if name in MARKED),
        ways=ways.SCRIPT.format(
            controller=ways.CONTROLLER, unable=ways.UNABLE, many=ways.MANY, moves=ways.MOVES,
            moves_most=ways.MOVES_MOST, least_churn=ways.LEAST_CHURN, listeners=ways.LISTENERS,
            address=topology.receiver_address(0, 1),
        ),
        address=topology.receiver_address(0, 1), ecn_address=topology.receiver_address(0, 1, ecn=True),
    )  # fmt: skip


# --- what is read from it --------------------------------------------------------------------------------------------


def records(path: Path, name: str) -> list[dict[str, Any]]:
    """This controller's records in the documents of `ccbpf -j flows --watch`, in order, with their age_ms."""
    found = []
    for line in path.read_text().splitlines():
        try:
            document = json.loads(line)
        except json.JSONDecodeError:
            break  # the last one was cut off
        flows = [flow for flow in document["flows"] if flow["controller"] == name]
        for flow in flows:
            flow["age_ms"] = (document["time_ns"] - flow["updated_ns"]) / 1e6
        found += flows
    return found


def number_at(record: Mapping[str, Any], place: str) -> int:
    """The number at a path such as nf.chirps_complete."""
    value: Any = record
    for word in place.split("."):
        value = value[word]
    return int(value)


def mechanism(name: str, seen: list[dict[str, Any]]) -> str:
    """What did not work with this controller, or ''."""
    words, place, least = MECHANISMS.get(name, BY_MARKS if name in MARKED else BY_DELAY)
    most = max((number_at(record, place) for record in seen), default=0)
    return f"{words}: {most}, expected at least {least}" if most < least else ""


def accecn(name: str, seen: list[dict[str, Any]]) -> str:
    """What did not work with this controller where AccECN was agreed, or ''."""
    marks = max((number_at(record, "marks") for record in seen), default=0)
    if not marks:
        return "with AccECN no reduction by a mark"
    chirps = max((number_at(record, "nf.chirps_sent") for record in seen if "nf" in record), default=0)
    return f"with AccECN {chirps} chirps: none can be answered" if chirps else ""


def publishing(seen: list[dict[str, Any]]) -> str:
    """What is wrong with the published records, or ''."""
    live = [record for record in seen if record["bytes_acked"]]  # without iperf3's control connection
    steady = [record for record in live[:-1] if record["phase"] in STEADY and record["cwnd"] >= STEADY_CWND]
    if len(steady) < LEAST_STEADY:
        return f"{len(steady)} records of a steady flow, expected at least {LEAST_STEADY}"
    for record in steady:
        most_ms = max(record["srtt_us"] / 1e3, FRESH_MS) + READING_MS
        if record["age_ms"] > most_ms:
            return f"a record was {record['age_ms']:.0f} ms old, at most {most_ms:.0f} are promised"
    if live[-1]["bytes_acked"] <= live[0]["bytes_acked"]:
        return "bytes_acked does not grow in the records"
    return ""
