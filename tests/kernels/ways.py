# SPDX-License-Identifier: GPL-2.0-only
"""The ways to give a connection its controller on a guest of `make kernels`: `ccbpf run`, `assign` and `renice`.

Each carries a transfer of iperf3 that has not asked for this controller. iperf3 says which one its socket uses when it is
connected; `ss`, when it was moved later. `renice` also moves many connections there and back while others come and go
beside listeners: kernels before Linux 6.5 had a locking defect there. And the ways to hold a receive window: `assign --download
--from`, whose rule counts its connection, `renice --download` of one that runs, which a kernel before Linux 6.12 cannot:
there it must say so, and `gateway`, which counts the ACKs that it has rewritten.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

CONTROLLER = "tcp_lp"
CONTROLLING = ("run", "assign", "renice")
DOWNLOAD = "download"
MOVED = "moved"
GATEWAY = "gateway"
NAMES = (*CONTROLLING, DOWNLOAD, MOVED, GATEWAY)
UNABLE = 3  # its exit code where the kernel lacks something
MANY = 40  # connections that `renice` moves there and back
MOVES, MOVES_MOST = 9, 21  # of all of them, until LEAST_CHURN: an odd number, so that the last one gives CONTROLLER
LISTENERS = 20
LEAST_CHURN = 3  # clients of ten connections each that came and went meanwhile
WARNING = re.compile(r"WARNING|BUG|Oops|Call Trace|stall|lockup|deadlock|blocked for more than")

SCRIPT = """\
mkdir run assign renice download moved gateway
ccbpf enable {controller} >/dev/null
client() {{ # seconds, options
    ip netns exec sender timeout 40 iperf3 -c {address} -J -t "$@"
}}
serve
ip netns exec sender timeout 20 ccbpf -vv -j run {controller} iperf3 -c {address} -J -t 1 >run/iperf3.json 2>run/log
echo $? >run/enabled
refused run && ip netns exec sender ccbpf -v run {controller} true 2>>run/log
grep '^{{"run":' run/log >run/said.json
ccbpf -j status >run/disable.txt
grep -q '"runs":\\[\\]' run/disable.txt
echo $? >run/disabled

ccbpf -vv assign {controller} --remote {address} >/dev/null 2>assign/log
echo $? >assign/enabled
refused assign && ccbpf -v assign {controller} --remote {address} 2>>assign/log
serve
client 1 >assign/iperf3.json
ccbpf -j assign list >assign/said.json
ccbpf assign remove --all >assign/disable.txt 2>&1
echo $? >assign/disabled

serve
client 2 -C cubic >renice/iperf3.json & flow=$!
until_true 'ip netns exec sender ss -tinHO state established "dport = :5201" | grep -qE "bytes_acked:[0-9]{{6}}"'
ccbpf -vv -j renice {controller} --dst {address} >renice/said.json 2>renice/log
echo $? >renice/enabled
refused renice && ccbpf -v renice {controller} --dst {address} 2>>renice/log
ip netns exec sender ss -tinHO state established >renice/ss.txt
wait $flow

servers=
for port in $(seq 5202 $((5201 + {listeners}))); do
    ip netns exec receiver iperf3 -s -p $port >/dev/null 2>&1 & servers="$servers $!"
done
serve
client 14 -C cubic -P {many} -b 100K >renice/many.json & flow=$!
until_true '[ "$(ip netns exec sender ss -Htn state established "dport = :5201" | wc -l)" -gt {many} ]'
while [ ! -e renice/still ]; do
    ip netns exec sender timeout 5 iperf3 -c {address} -p 5202 -P 9 -n 2K >/dev/null 2>&1 && echo >>renice/churn
done & churn=$!
for move in $(seq {moves_most}); do
    [ $((move % 2)) = 1 ] && to={controller} || to=cubic
    ccbpf -j renice $to --all >>renice/many.jsonl 2>>renice/many.err || echo $? >>renice/failed
    sleep 0.1
    [ $move -ge {moves} ] && [ $((move % 2)) = 1 ] && [ "$(cat renice/churn 2>/dev/null | wc -l)" -ge {least_churn} ] && break
done
touch renice/still
ip netns exec sender ss -tinHO state established "dport = :5201" >renice/many.txt
wait $flow $churn
kill $servers
dmesg >renice/dmesg.txt
ccbpf clean --all >renice/disable.txt 2>&1
echo $? >renice/disabled

ccbpf -vv assign --download --from "$(cat /proc/sys/net/ipv4/tcp_congestion_control)" --remote {address} >/dev/null 2>download/log
echo $? >download/enabled
refused download && ccbpf -v assign --download --remote {address} 2>>download/log
serve
client 1 -R >download/iperf3.json
ccbpf -j assign list >download/said.json
ccbpf assign remove --all >download/disable.txt 2>&1
echo $? >download/disabled

serve; server=$!
client 30 -R -b 20M >moved/iperf3.json & flow=$! # the verifier needs ten seconds of a guest's time
until_true 'ip netns exec sender ss -tinHO state established "dport = :5201" | grep -qE "bytes_received:[0-9]{{6}}"'
ccbpf -j renice --download --dst {address} >moved/said.json 2>moved/log
code=$?
until_true '[ $code != 0 ] || ccbpf flows rx_le | grep -q renice'
ccbpf -j flows >moved/flows.json
ccbpf -j check >moved/check.json
[ $code != {unable} ] || {{ echo "{{}}" >moved/said.json; code=0; }}
echo $code >moved/enabled
kill $server # its client ends, too
wait $flow
ccbpf clean --all >moved/disable.txt 2>&1
echo $? >moved/disabled

device=$(ip netns exec sender ip -o route get {address} | sed 's/.* dev \\([^ ]*\\) .*/\\1/')
ip netns exec sender ccbpf -vv gateway attach $device >/dev/null 2>gateway/log
echo $? >gateway/enabled
refused gateway && ip netns exec sender ccbpf -v gateway attach $device 2>>gateway/log
serve
client 1 -R >gateway/iperf3.json
ip netns exec sender ccbpf -j gateway show $device >gateway/said.json
ip netns exec sender ccbpf gateway detach $device >gateway/disable.txt 2>&1
echo $? >gateway/disabled
for way in run assign renice download moved gateway; do [ "$(cat $way/enabled)" != 0 ] || keep_cost $way; done
"""


def connections(name: str, said: Any) -> int:
    """The number of connections that got the controller, or whose window was held, as the command reports it."""
    if name == "renice":
        return int(said["moved"])
    if name == "run" and not said["run"]["download"]:
        return 0  # both directions are its default
    counts = said["run"]["counts"] if name == "run" else said["rules"][0]["counts"]
    return int(counts["receivers" if name == DOWNLOAD else "set"])


def used(name: str, directory: Path) -> str:
    """The controller of the transfer; of several connections, all that they have."""
    if name == "renice":
        shown = re.findall(r"(\S+) wscale:", (directory / "ss.txt").read_text())
        return ", ".join(sorted(set(shown))) or "no controller: there was no connection"
    report = json.loads((directory / "iperf3.json").read_text())
    return str(report.get("end", {}).get("sender_tcp_congestion") or report.get("error"))


def many_fault(directory: Path) -> str:
    """Of `renice` amid many: all were moved each time, all go on, and the kernel did not complain."""
    answers = [json.loads(line) for line in (directory / "many.jsonl").read_text().splitlines()]
    if (directory / "failed").exists() or any(answer["moved"] < MANY for answer in answers) or not answers:
        return f"amid many: moved {[answer['moved'] for answer in answers]}: {(directory / 'many.err').read_text()}"
    if any(answer["listens"] < LISTENERS for answer in answers):
        return f"amid many: listeners {[answer['listens'] for answer in answers]}, expected at least {LISTENERS}"
    left = [name for name in re.findall(r"(\S+) wscale:", (directory / "many.txt").read_text()) if name != CONTROLLER]
    if left:
        return f"amid many: {len(left)} have {left[0]} at the end"
    report = json.loads((directory / "many.json").read_text())
    silent = [stream for stream in report.get("end", {}).get("streams", []) if not stream["receiver"]["bytes"]]
    if "error" in report or silent:
        return f"amid many: {report.get('error', '')}, {len(silent)} connections received nothing"
    churn = (directory / "churn").read_text().count("\n")
    if churn < LEAST_CHURN:
        return f"amid many: {churn} clients came and went, expected at least {LEAST_CHURN}"
    warned = [line for line in (directory / "dmesg.txt").read_text().splitlines() if WARNING.search(line)]
    return f"amid many, the kernel said: {warned[0]}" if warned else ""


def moved_fault(said: Any, directory: Path) -> str:
    """Of `renice --download`: it holds the download, or `check` says that this kernel cannot."""
    rows = json.loads((directory / "check.json").read_text())["rows"]
    (verdict,) = [row["verdict"] for row in rows if row["name"] == "renice --download"]
    if not said:
        return "" if verdict == "note" else "it says that this kernel cannot, and `check` that it can"
    origins = [
        flow["origin"] for flow in json.loads((directory / "flows.json").read_text())["flows"] if flow["controller"] == "rx_le"
    ]
    held = [origin for origin in origins if origin and origin["by"] == "renice"]
    return "" if verdict == "ok" and said["moved"] and held else f"verdict {verdict}, moved {said['moved']}, held {len(held)}"


def gateway_fault(said: Any) -> str:
    """Of `gateway`: it has rewritten the ACKs of the download."""
    (gateway,) = said["gateways"]
    return "" if gateway["counts"]["rewritten"] else f"no ACK was rewritten: {gateway['counts']}"


def fault(name: str, directory: Path) -> str:
    """What did not work, or ''."""
    if name == MOVED:
        return moved_fault(json.loads((directory / "said.json").read_text()), directory)
    if name == GATEWAY:
        return gateway_fault(json.loads((directory / "said.json").read_text()))
    given = connections(name, json.loads((directory / "said.json").read_text()))
    if name == DOWNLOAD:
        return "" if given else "it says that no connection received in the background"
    if used(name, directory) != CONTROLLER:
        return f"the transfer used {used(name, directory)}, expected {CONTROLLER}"
    if not given:
        return "it says that it has given the controller to no connection"
    return many_fault(directory) if name == "renice" else ""
