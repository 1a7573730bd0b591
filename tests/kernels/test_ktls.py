# SPDX-License-Identifier: GPL-2.0-only
"""A download in TLS of the kernel (KTLS), in the background: every byte comes, and it yields. On guest kernels, because not every
kernel that the tests run on has TLS. The program can read only whole records, of 16 kB: more than a window of one segment.

Before Linux 6.3 the kernel refuses a program that sets an option of TCP on such a socket: there it is received as usual."""

from __future__ import annotations

import json
import re
import tempfile
from pathlib import Path

import pytest

from tests.kernels import path
from tests.lab.engine import topology, virtual
from tests.lab.guest import image
from tests.lab.guest.errors import command
from tests.lab.guest.lock import TOOLS, Resolver, pins_of

HERE = Path(__file__).parent
MODULES = ("tls", "ctr", "gcm", "ghash_generic", "aes_generic")  # what AES-GCM needs where it is no part of the kernel's image
SIZE = 24_000_000  # not at its end before the foreground, also where it does not yield
START_S = 3  # of the foreground, not measured: eight seeds differ by its slow start's losses
FOREGROUND_S = 3
KEEPS = 0.9  # of the link: 0.96 and more in each of eight seeds; 0.73 and less where the download does not yield
STALL_MS = 1000

SCRIPT = """\
{topology}
set +e
tc -n router qdisc add dev out root tbf rate {rate}mbit burst 3000 limit {limit}
for device in in out; do tc -n delay qdisc add dev $device root netem limit 10000 delay 5ms; done
for module in {modules}; do busybox insmod /lab/$module.ko; done
ip netns exec receiver iperf3 -s -1 >/dev/null 2>&1 &
ip netns exec sender /lab/ktls send 4433 {size} &
sleep 0.5
ip netns exec receiver timeout 60 ccbpf -j run -d /lab/ktls receive {sender} 4433 >got.json 2>run.json & background=$!
sleep 2
ip netns exec sender iperf3 -c {receiver} -t {seconds} -O {start} -J >foreground.json
wait $background
ip netns exec receiver cat /proc/net/tls_stat >tls_stat
"""


def modules(kernel: str, scratch: Path) -> dict[str, bytes]:
    """MODULES of this kernel, as far as they are modules, and what they need, in the order in which they are inserted."""
    for package in Resolver().packages(pins_of(kernel)):
        for file in package.paths if package.pin.role != TOOLS else ():
            image.unpack(file, scratch)
    source = image.modules_directory(scratch)
    command(["depmod", "-b", image.modules_root(scratch, source), source.name])
    lines = [line.replace(":", "").split() for line in (source / "modules.dep").read_text().splitlines()]
    needs = {image.module_name(line[0]): line for line in lines}
    found: dict[str, bytes] = {}
    for name in MODULES:
        for relative in reversed(needs.get(name, [])):
            found.setdefault(image.module_name(relative), image.decompress_module(source / relative))
    return found


@pytest.mark.parametrize(("kernel", "yields"), [("6.1", False), ("6.12", True)], ids=["6.1", "6.12"])
def test_a_download_in_tls_of_the_kernel(kernel: str, yields: bool, tmp_path: Path) -> None:
    program = tmp_path / "ktls"
    command(["gcc", "-std=gnu11", "-Wall", "-Wextra", "-Werror", "-O2", "-static", "-o", program, HERE / "ktls.c"])
    with tempfile.TemporaryDirectory(prefix="ccbpf-modules.") as scratch:
        found = modules(kernel, Path(scratch))
    script = SCRIPT.format(
        topology=topology.commands(), rate=path.RATE_MBIT, limit=path.BUFFER_PACKETS * 1514, modules=" ".join(found), size=SIZE,
        sender=topology.sender_address(0), receiver=topology.receiver_address(0, 1), start=START_S, seconds=FOREGROUND_S,
    )  # fmt: skip
    files: dict[str, bytes | str | Path] = {"ktls": program, **{f"{name}.ko": data for name, data in found.items()}}
    outcome = virtual.run(kernel, script, image.BUILD / "kernels" / f"{kernel}-ktls", files)
    got, run = (json.loads(outcome.text(name)) for name in ("got.json", "run.json"))
    assert re.search(r"^TlsRxSw\s+1$", outcome.text("tls_stat"), re.M), outcome.text("stderr")
    assert (got["bytes"], got["same"]) == (SIZE, True)
    assert got["waits_ms"][0] < STALL_MS, got
    assert run["run"]["counts"]["receivers"] == 1
    foreground = json.loads(outcome.text("foreground.json"))["end"]["sum_received"]["bits_per_second"] / 1e6
    assert (foreground > KEEPS * path.RATE_MBIT * 1448 / 1514) == yields, foreground
