# SPDX-License-Identifier: GPL-2.0-only
"""The ways to give a connection its controller on a guest of `make kernels`: `ccbpf run`, `assign` and `renice`.

Each carries a transfer of iperf3 that has not asked for this controller. iperf3 says which one its socket uses when it is
connected; `ss`, when it was moved later.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

CONTROLLER = "tcp_lp"
NAMES = ("run", "assign", "renice")

SCRIPT = """\
mkdir run assign renice
ccbpf enable {controller} >/dev/null
server() {{
    ip netns exec receiver iperf3 -s -1 >/dev/null 2>&1 &
    sleep 0.2
}}
client() {{ # seconds, options
    ip netns exec sender timeout 20 iperf3 -c {address} -J -t "$@"
}}
server
ip netns exec sender timeout 20 ccbpf -vv -j run {controller} iperf3 -c {address} -J -t 1 >run/iperf3.json 2>run/log
echo $? >run/enabled
grep '^{{"run":' run/log >run/said.json
ccbpf -j status >run/disable.txt
grep -q '"runs":\\[\\]' run/disable.txt
echo $? >run/disabled

ccbpf -vv assign {controller} --remote {address} >/dev/null 2>assign/log
echo $? >assign/enabled
server
client 1 >assign/iperf3.json
ccbpf -j assign list >assign/said.json
ccbpf assign remove --all >assign/disable.txt 2>&1
echo $? >assign/disabled

server
client 2 -C cubic >renice/iperf3.json & flow=$!
sleep 1
ccbpf -vv -j renice {controller} --dst {address} >renice/said.json 2>renice/log
echo $? >renice/enabled
ip netns exec sender ss -tinHO state established >renice/ss.txt
wait $flow
ccbpf clean --all >renice/disable.txt 2>&1
echo $? >renice/disabled
for way in run assign renice; do [ "$(cat $way/enabled)" != 0 ] || keep_cost $way; done
"""


def connections(name: str, said: Any) -> int:
    """How many connections the command says that it has given the controller."""
    if name == "renice":
        return int(said["moved"])
    counts = said["run"]["counts"] if name == "run" else said["rules"][0]["counts"]
    return int(counts["set"])


def used(name: str, directory: Path) -> str:
    """The controller of the transfer; of several connections, all that they have."""
    if name == "renice":
        shown = re.findall(r"(\S+) wscale:", (directory / "ss.txt").read_text())
        return ", ".join(sorted(set(shown))) or "no controller: there was no connection"
    report = json.loads((directory / "iperf3.json").read_text())
    return str(report.get("end", {}).get("sender_tcp_congestion") or report.get("error"))


def fault(name: str, directory: Path) -> str:
    """What did not work, or ''."""
    if used(name, directory) != CONTROLLER:
        return f"the transfer used {used(name, directory)}, expected {CONTROLLER}"
    given = connections(name, json.loads((directory / "said.json").read_text()))
    return "" if given else "it says that it has given the controller to no connection"
