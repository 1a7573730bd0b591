# SPDX-License-Identifier: GPL-2.0-only
"""What the traffic program refuses, and the words with which it does."""

from __future__ import annotations

import subprocess

import pytest

from .traffic import ANYWHERE, TRAFFIC, serving, traffic

SEND = ("udp-send", "127.0.0.1", "9", "--rate", "1M", "--size", "500", "--for", "1")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "usage: traffic COMMAND"),
        (("nosuch",), "nosuch: no such command"),
        (("udp-sink",), "too few arguments"),
        (("udp-sink", "1", "2"), "too many arguments"),
        (("udp-sink", "0"), 'PORT: "0" is not a number from 1 to 65535'),
        (("udp-sink", "65536"), "PORT"),
        (("udp-sink", "-1"), "-1: no such option"),
        (("udp-sink", "9", "--interval", "0"), '--interval: "0" is not a number from 0.001'),
        (("udp-sink", "9", "--bind", "example.org"), "names are not looked up"),
        (("udp-sink", "9", "--bind", "fe80::1%nosuch"), 'no interface "nosuch"'),
        (("udp-sink", "9", "--bind", ""), "--bind: it is empty"),
        (("udp-send", "127.0.0.1", "9", "--size", "500", "--for", "1"), "--rate and --size are needed"),
        (SEND[:-2], "--for is needed"),
        ((*SEND, "--rate"), "--rate: its value is missing"),
        ((*SEND, "--rate", "1Q"), '"1Q" is not a number'),
        ((*SEND, "--rate", "nan"), '"nan" is not a number'),
        ((*SEND, "--rate", "0x10000"), "is not a number"),
        ((*SEND, "--rate", "1500.5"), "is not a whole number"),
        ((*SEND, "--rate", "-1M"), "is not a number"),
        ((*SEND, "--size", "51"), "our own header to 127.0.0.1 are 52 bytes"),
        ((*SEND, "--size", "65536"), "--size"),
        ((*SEND, "--for", "86401"), "--for"),
        ((*SEND, "--duty", "0"), "--duty"),
        ((*SEND, "--rtp"), "leave them out"),
        ((*SEND, "--constant", "--poisson"), "exclude each other"),
        ((*SEND, "--seed", "-1"), "--seed"),
        ((*SEND, "--nosuch"), "--nosuch: no such option"),
        (("web-client", "127.0.0.1", "9"), "--for is needed"),
        (("web-client", "127.0.0.1", "9", "--for", "1", "--shape", "1"), "has no mean"),
        (("web-client", "127.0.0.1", "9", "--for", "1", "--mean", "1k", "--min", "1k"), "exclude each other"),
        (("web-client", "127.0.0.1", "9", "--for", "1", "--min", "1k", "--max", "1k"), "not above the --min"),
        (("web-client", "127.0.0.1", "9", "--for", "1", "--max", "12k"), "not above the mean"),
        (("web-client", "127.0.0.1", "9", "--for", "1", "--sessions", "0"), "less than 1"),
        (("fetch", "127.0.0.1", "9"), "--bytes is needed"),
        (("fetch", "127.0.0.1", "9", "--bytes", "3k,,4k"), '--bytes: "" is not a number'),
        (("fetch", "127.0.0.1", "9", "--bytes", "3k", "--count", "2"), "--every is needed"),
    ],
)
def test_bad_arguments(arguments: tuple[str, ...], words: str) -> None:
    done = traffic(*arguments)
    assert done.returncode == 2 and not done.stdout
    assert words in done.stderr


@pytest.mark.parametrize("command", ["udp-sink", "udp-send", "web-server", "web-client", "fetch"])
def test_help(command: str) -> None:
    done = traffic(command, "--help")
    assert done.returncode == 0 and done.stdout.startswith(f"usage: traffic {command} ")
    assert command in traffic("--help").stdout


def test_failures_name_what_is_wrong() -> None:
    with serving("web-server") as server:
        done = traffic("web-server", server.port)
        assert done.returncode == 1
        assert f"bind to :: port {server.port}: Address already in use; take another PORT" in done.stderr
    done = traffic("web-server", server.port, "-C", "nosuch")
    assert done.returncode == 1 and "congestion control nosuch: No such file or directory; `sysctl" in done.stderr
    done = traffic("web-server", server.port, "--bind", "192.0.2.1")
    assert done.returncode == 1 and "--bind wants an address of this host" in done.stderr
    done = traffic("web-client", *ANYWHERE, "--dry-run", "--for", "86400", "--sessions", "1000")
    assert done.returncode == 1 and "the path has more than 1000000 objects" in done.stderr
    with open("/dev/full", "w") as full:
        assert subprocess.run([TRAFFIC, "--help"], stdout=full, stderr=subprocess.DEVNULL).returncode == 1
