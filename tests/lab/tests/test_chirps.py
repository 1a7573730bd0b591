# SPDX-License-Identifier: GPL-2.0-only
"""NF-TCP behind the qdisc fq: no chirp begins, the flow goes on, and the command says why. A guest has fq; the kernel that
runs the other tests of nf_tcp may not have it. 24 s of the guest's time."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ..engine import topology, virtual

KERNEL = "6.12"
RATE_MBIT, SECONDS = 20, 8

SCRIPT = f"""\
{topology.commands()}
tc -n router qdisc add dev out root handle 1: htb default 1
tc -n router class add dev out parent 1: classid 1:1 htb rate {RATE_MBIT}mbit quantum 1514
tc -n router qdisc add dev out parent 1:1 handle 10: pfifo limit 50
for device in in out; do tc -n delay qdisc add dev $device root netem limit 10000 delay 10ms; done
ip netns exec router ccbpf aqm attach out --limit 75700 >/dev/null
ccbpf enable nf_tcp >/dev/null 2>&1
run() {{ # qdisc of the sender, directory
    mkdir $2
    tc -n sender qdisc replace dev out root $1
    ip netns exec sender ccbpf -j check >$2/check.json
    ip netns exec receiver iperf3 -s -1 >/dev/null 2>&1 &
    sleep 0.2
    ip netns exec sender iperf3 -c {topology.receiver_address(0, 1, ecn=True)} -C nf_tcp -t {SECONDS} -J >$2/iperf3.json &
    sleep {SECONDS - 1}
    ccbpf -j flows >$2/flows.json
    ccbpf -v flows >$2/flows.txt
    wait
}}
set +e
run fq fq
run fq_codel fq_codel
ccbpf disable nf_tcp >/dev/null
"""


def test_fq_prevents_chirps_and_is_reported(tmp_path: Path) -> None:
    """With fq_codel in its place there are chirps, and nothing to tell."""
    virtual.run(KERNEL, SCRIPT, tmp_path / "out", timeout_s=120)

    def document(name: str) -> dict[str, Any]:
        read: dict[str, Any] = json.loads((tmp_path / "out" / name).read_text())
        return read

    def departures(name: str) -> dict[str, str]:
        return next(row for row in document(f"{name}/check.json")["rows"] if row["name"] == "fq (nf_tcp)")

    def chirps(name: str) -> dict[str, Any]:
        part: dict[str, Any] = max(document(f"{name}/flows.json")["flows"], key=lambda flow: flow["bytes_acked"])["nf"]
        return part

    assert departures("fq")["verdict"] == "note" and "fq chooses them on out" in departures("fq")["found"]
    assert "fq_codel" in departures("fq")["remedy"] and departures("fq_codel")["verdict"] == "ok"
    assert (chirps("fq")["chirps_sent"], chirps("fq")["chirps_wait"]) == (0, "fq")
    assert "no chirp: the qdisc fq chooses when packets leave" in (tmp_path / "out/fq/flows.txt").read_text()
    assert chirps("fq_codel")["chirps_complete"] >= 1
    sent = document("fq/iperf3.json")["end"]["sum_received"]["bits_per_second"] / 1e6
    assert sent >= 0.7 * RATE_MBIT, "and the flow goes on"
