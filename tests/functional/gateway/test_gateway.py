# SPDX-License-Identifier: GPL-2.0-only
"""`ccbpf gateway`: what a host behind a router receives is in the background, and neither end knows of it."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator

import pytest

from tests.functional import kernel
from tests.functional.conftest import Cli
from tests.functional.gateway.network import DEV, HOSTS, Ack, Capture, Network, network
from tests.functional.rules.background import ENDS_S
from tests.functional.rules.downloads import BYTES, Got, Reading, has_all, received, records, setting, yields
from tests.functional.samples import of, samples

SYN, RST = 2, 4
SOME = 4_000_000  # bytes: a download that is not measured


def measured(test: Callable[..., None]) -> Callable[..., None]:
    again = pytest.mark.rerun("a host that stands still is a queue, and a pause of the reader")
    marked: Callable[..., None] = pytest.mark.quiet(again(test))
    return marked


@pytest.fixture
def net(ccbpf: Cli) -> Iterator[Network]:
    with network(ccbpf) as found:
        yield found


def start(net: Network, reading: Reading) -> subprocess.Popen[str]:
    return subprocess.Popen(reading.within(net.host), stdout=subprocess.PIPE, text=True)


def read(net: Network, reading: Reading) -> Got:
    return Got.of(kernel.run(*reading.within(net.host)).stdout)


def check_windows(sent: list[Ack], seen: list[Ack], scale: int) -> int:
    """`sent` by the host, `seen` by the server: no window was raised, and no right edge was taken back. How many were lowered."""
    of_host = {(ack.ident, ack.ack): ack.window for ack in sent if not ack.flags & (SYN | RST)}
    edge, lowered = 0, 0
    for ack in seen:
        if ack.flags & (SYN | RST):
            continue
        window = of_host[ack.ident, ack.ack]
        assert ack.window <= window, (ack, window)
        lowered += ack.window < window
        right = ack.ack + (ack.window << scale)
        assert not edge or (right - edge) % (1 << 32) < 1 << 31, (ack, edge)
        edge = right
    return lowered


@measured
def test_a_download_yields(net: Network) -> None:
    """It also takes the link back: it ends in time, with every byte. Each of its ACKs is looked at on both sides."""
    net.attach("--host", HOSTS)
    captures = [Capture(net.host, "lan"), Capture(net.path.sender, "veth")]
    background = start(net, Reading(BYTES))
    yields(net.ccbpf, net.path)
    (flow,) = records(net.ccbpf)
    assert (flow["local_addr"], flow["remote_addr"], flow["remote_port"]) == ("10.0.3.2", "10.0.1.2", 7)
    assert (flow["origin"]["by"], flow["origin"]["of"]) == ("gateway", DEV)
    out, _ = background.communicate(timeout=40)
    assert has_all(out)
    sent, seen = (capture.end() for capture in captures)
    lowered = check_windows(sent, seen, flow["receive"]["scale_bytes"].bit_length() - 1)
    counts = net.counts()
    assert counts["rewritten"] == lowered > 1000
    assert (counts["connections"], counts["downloads"]) == (1, 1), "the foreground is not this host's"
    assert flow["receive"]["held_ms"] > 0 and not records(net.ccbpf)


@measured
def test_a_download_by_ipv6_yields(net: Network) -> None:
    net.attach()
    background = start(net, Reading(BYTES, "bbr", "fd00:1::2"))
    yields(net.ccbpf, net.path)
    out, _ = background.communicate(timeout=40)
    assert has_all(out)


@measured
def test_alone_it_has_the_link(net: Network) -> None:
    reading = Reading(BYTES, settles=1)
    without = read(net, reading)
    net.attach()
    alone = read(net, reading)
    assert alone.is_all(BYTES) and alone.mbit >= 0.9 * without.mbit
    assert net.counts()["rewritten"]
    kernel.eventually(lambda: not records(net.ccbpf), ENDS_S, "the record goes")
    assert of(samples(net.ccbpf), "bytes_acked_total", controller="rx_le") in (BYTES, BYTES + 1)  # a FIN


def test_what_is_left_alone(net: Network) -> None:
    """Without timestamps, or older than the gateway: counted, and not touched. Without a window scale its unit is a byte."""
    older = start(net, Reading(BYTES, rate=500_000))
    kernel.eventually(lambda: "10.0.1.2:7" in net.path.command(net.host, "ss", "-Htn"), ENDS_S, "a connection")
    net.attach()
    kernel.eventually(lambda: net.counts()["unseen"] > 10, ENDS_S, "its data")
    with setting(net.path, net.host, "net.ipv4.tcp_timestamps", 0):
        assert read(net, Reading(500_000)).is_all(500_000)
    counts = net.counts()
    assert (counts["connections"], counts["unstamped"], counts["downloads"]) == (1, 1, 0)
    assert counts["rewritten"] == 0
    with setting(net.path, net.host, "net.ipv4.tcp_window_scaling", 0):
        unscaled = start(net, Reading(BYTES, rate=1_000_000))
        kernel.eventually(lambda: received(net.ccbpf) > 0, ENDS_S, "the download without a scale")
        assert records(net.ccbpf)[0]["receive"]["scale_bytes"] == 1
    for process in (older, unscaled):
        process.kill()
        process.communicate()


@pytest.mark.usefixtures("registry_lock")
def test_of_which_hosts_and_senders(net: Network) -> None:
    """Also the router's own connections, without --host; one of a program of ours on it stays with that."""
    net.attach("--remote", "192.0.2.0/24,fd00:1::/64")
    read(net, Reading(100_000))
    assert net.counts()["connections"] == 0
    read(net, Reading(100_000, address="fd00:1::2"))
    assert net.counts()["downloads"] == 1
    net.gateway("detach", DEV)
    net.attach("--remote", "::/0")
    read(net, Reading(100_000))
    assert net.counts()["connections"] == 0, "that is all of IPv6"
    read(net, Reading(100_000, address="fd00:1::2"))
    assert net.counts()["downloads"] == 1
    net.gateway("detach", DEV)
    net.attach("--remote", "10.0.1.2")
    kernel.run(*Reading(100_000).at(net.path))
    assert net.counts()["downloads"] == 1
    net.ccbpf("run", "-d", "--", *Reading(1_000_000).at(net.path))
    counts = net.counts()
    assert (counts["downloads"], counts["ours"]) == (2, 1)


def test_from_another_network_namespace(net: Network) -> None:
    """Where the device is, is named; it need not be entered to take all off."""
    net.attach()
    where = f"{DEV} in network namespace {net.path.receiver}"
    assert f"\ngateway: {where} (`ccbpf gateway show`)\n" in net.ccbpf("status").out
    assert net.ccbpf("gateway", "show").out.startswith(f"{where}: the gateway, since ")
    assert net.gateway("show").out.startswith(f"{DEV}: the gateway, since ")
    for verb in ("show", "detach"):
        said = net.ccbpf("gateway", verb, DEV, code=1).err
        assert f"the one that has the gateway is in network namespace {net.path.receiver}; enter that by `ip netns exec " in said
    assert net.ccbpf("gateway", "detach", "--all").out == f"{DEV}: the gateway is detached\n"
    assert "gateway" not in net.programs() and not net.ccbpf.root.exists()


def test_detached_amid_a_download(net: Network) -> None:
    net.attach()
    background = start(net, Reading(SOME))
    kernel.eventually(lambda: received(net.ccbpf) > 1_000_000, ENDS_S, "the download")
    shown = net.ccbpf("flows").out.splitlines()
    assert shown[0].endswith("  BY") and shown[1].endswith(f"  gateway {DEV}"), shown
    assert net.gateway("detach", DEV).out == f"{DEV}: the gateway is detached\n"
    assert not net.ccbpf.root.exists() and "gateway" not in net.programs()
    out, _ = background.communicate(timeout=40)
    assert Got.of(out).is_all(SOME)
    assert "it has no gateway" in net.gateway("detach", DEV, code=5).err


def test_clean_removes_it(net: Network) -> None:
    net.attach()
    background = start(net, Reading(SOME))
    kernel.eventually(lambda: received(net.ccbpf) > 1_000_000, ENDS_S, "the download")
    net.ccbpf("clean")
    assert records(net.ccbpf) and "gateway_in" in net.programs() and "gateway_out" in net.programs()
    net.ccbpf("clean", "--all")
    assert not net.ccbpf.root.exists() and "gateway" not in net.programs()
    out, _ = background.communicate(timeout=40)
    assert Got.of(out).is_all(SOME)
