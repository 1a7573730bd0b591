# SPDX-License-Identifier: GPL-2.0-only
"""With many flows, which are sockets of a process, the command's memory is bounded. `make bench` has the figures, and the time."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.cost import cost_of
from tests.functional import kernel
from tests.functional.conftest import Cli
from tests.functional.samples import of, samples

FLOWS = 10_000
MEMORY_MOST_MB = 64

# Both ends of half as many connections, all of which send under the controller.
HOLD = f"""
import resource, socket, sys
resource.setrlimit(resource.RLIMIT_NOFILE, ({2 * FLOWS}, {2 * FLOWS}))
listener, held = socket.create_server(("127.0.0.1", 0), backlog=512), []
listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, b"tcp_lp")
for _ in range({FLOWS // 2}):
    held.append(socket.socket())
    held[-1].setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, b"tcp_lp")
    held[-1].connect(listener.getsockname())
    held.append(listener.accept()[0])
print("held", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def many(enabled: Cli) -> Iterator[Cli]:
    with kernel.Namespace("many") as namespace:
        words = ["ip", "netns", "exec", namespace.name, sys.executable, "-I", "-S", "-c", HOLD]
        with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdin and process.stdout and process.stdout.readline() == "held\n"
            yield enabled
            process.stdin.close()


def test_metrics_and_a_batch_of_top_take_little_memory(many: Cli) -> None:
    batch = ("top", "-b", "--count", "1", "--watch", "0.25")
    assert of(samples(many), "live_flows", controller="tcp_lp") == FLOWS
    flows = many("-j", *batch, "--group", "process").json["flows"]
    assert len(flows) == FLOWS and all(flow["group"] for flow in flows), "each has its process"
    all_ = (("metrics",), ("metrics", "--units"), batch, ("-j", *batch))
    mb = {" ".join(words): cost_of(str(many.command), *words, env=many.env())[1] for words in all_}
    print(f"{FLOWS} flows: {mb} MB")
    if "sanitize" not in str(many.command):
        assert max(mb.values()) < MEMORY_MOST_MB, mb
