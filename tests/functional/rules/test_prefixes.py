# SPDX-License-Identifier: GPL-2.0-only
"""Rules for many prefixes of many lengths, one in the other: the longest that contains the address wins. Python's `ipaddress` says
which one that is. How it is searched is in include/kern/rule_prefixes.bpf.h."""

from __future__ import annotations

import json
import random
import struct
from collections import Counter
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from pathlib import Path

import pytest

from tests.functional import kernel
from tests.functional.conftest import Cli
from tests.functional.rules.background import PYTHON, Sinks
from tests.functional.rules.downloads import rules

Network = IPv4Network | IPv6Network
Address = IPv4Address | IPv6Address

WITHIN: dict[type[Network], Network] = {IPv4Network: IPv4Network("127.64.0.0/10"), IPv6Network: IPv6Network("fd7c::/16")}
PREFIXES, ADDRESSES = 60, 150  # of each family

# Connects to each address of its argument, from one that is in no prefix.
CONNECT = """
import json, socket, sys
with socket.create_server(("::", 0), family=socket.AF_INET6, dualstack_ipv6=True, backlog=8) as server:
    for address in json.loads(sys.argv[1]):
        source = "::1" if ":" in address else "127.0.0.1"
        with socket.create_connection((address, server.getsockname()[1]), source_address=(source, 0)) as near, server.accept()[0] as far:
            pass
"""


def beside(dice: random.Random, address: int, size: int, least: int) -> int:
    """An address that has at least the first `least` of its `size` bits in common with this one."""
    return address ^ dice.getrandbits(size - dice.randint(least, size))


def draw(dice: random.Random, kind: type[Network], lengths: list[int]) -> tuple[list[Network], list[Address]]:
    """Prefixes of these lengths, and addresses in them, near them, and far from them."""
    within = WITHIN[kind]
    size = within.max_prefixlen
    at = [int(within.network_address) | dice.getrandbits(size - within.prefixlen)]
    networks: set[Network] = set()
    while len(networks) < PREFIXES:
        at.append(beside(dice, dice.choice(at), size, within.prefixlen))
        networks.add(kind((at[-1], dice.choice(lengths)), strict=False))
    addresses = [beside(dice, dice.choice(at), size, within.prefixlen) for _ in range(ADDRESSES)]
    return sorted(networks, key=str), [type(within.network_address)(address) for address in addresses]


def longest(networks: list[Network], address: Address) -> str | None:
    found = [network for network in networks if network.version == address.version and address in network]
    return str(max(found, key=lambda network: network.prefixlen)) if found else None


@pytest.mark.parametrize("lengths", ["of all lengths", "of three"])
def test_the_longest_of_many_prefixes_wins(ccbpf: Cli, tmp_path: Path, lengths: str) -> None:
    dice = random.Random(lengths)
    networks: list[Network] = []
    addresses: list[Address] = []
    for kind, within in WITHIN.items():
        there = list(range(within.prefixlen + 3, within.max_prefixlen + 1))
        some = draw(dice, kind, there if lengths == "of all lengths" else dice.sample(there, 3))
        networks += some[0]
        addresses += some[1]
    wanted = Counter(found for found in (longest(networks, address) for address in addresses) if found)
    assert len(wanted) > 20 and sum(wanted.values()) < len(addresses), "some match, in many ways, and some do not"

    config = tmp_path / "ccbpf.toml"
    config.write_text("".join(f'[[rule]]\nnot = true\nremote = "{network}"\n' for network in networks))
    config.chmod(0o644)
    with kernel.Namespace("prefixes") as namespace:
        inside = ("ip", "netns", "exec", namespace.name)
        kernel.run(*inside, "ip", "route", "add", "local", str(WITHIN[IPv6Network]), "dev", "lo")
        ccbpf("apply", config)
        kernel.run(*inside, PYTHON, "-c", CONNECT, json.dumps([str(address) for address in addresses]))
    counted = {rule["remote"]: rule["counts"]["exempt"] for rule in ccbpf("-j", "assign", "list").json["rules"]}
    assert {str(ip_address(remote.split("/")[0])) + "/" + remote.split("/")[1]: n for remote, n in counted.items() if n} == wanted


def test_a_prefix_that_somebody_made_longer_than_an_address(ccbpf: Cli, sinks: Sinks) -> None:
    """In the map of the rules, which the next command takes over. Bits behind a prefix mean nothing, either."""
    ccbpf("assign", "tcp_lp", "--remote", "127.0.0.0/8", "--remote-port", sinks.port)
    link = json.loads(kernel.run("bpftool", "-j", "link", "show", "pinned", ccbpf.root / "rules/link", check=False).stdout)
    ids = json.loads(kernel.run("bpftool", "-j", "prog", "show", "id", link["prog_id"]).stdout)["map_ids"]
    (found,) = [map_ for map_ in map(kernel.Map.by_id, ids) if map_.name == "rules"]
    (key,) = found.keys()
    value = found.lookup(key)
    assert value
    written = struct.pack("=I", 96 + 8) + bytes.fromhex("00000000000000000000ffff7f000000")
    assert value.count(written) == 1
    for bits, shown in ((0xFFFFFFFF, "127.0.0.1/32"), (96 + 8, "127.0.0.0/8")):
        found.update(key, value.replace(written, struct.pack("=I", bits) + bytes.fromhex("00000000000000000000ffff7f000001")))
        assert [rule["remote"] for rule in rules(ccbpf)] == [shown]
    ccbpf("assign", "--not", "--remote", "192.0.2.1")
    assert kernel.run(*sinks.client()).stdout.split()[0] == "tcp_lp"
