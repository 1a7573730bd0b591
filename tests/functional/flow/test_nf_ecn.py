# SPDX-License-Identifier: GPL-2.0-only
"""Whether connections from this host ask for ECN: check and enable report it, --ecn changes it, disable restores it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.functional.conftest import Cli

ECN = Path("/proc/sys/net/ipv4/tcp_ecn")
PASSIVE, ASK = "2", "1"
WORDS = "do not ask for ECN"


@pytest.fixture(autouse=True)
def passive() -> Iterator[None]:
    """As distributions have it; as it was at the end."""
    before = ECN.read_text()
    ECN.write_text(PASSIVE)
    yield
    ECN.write_text(before)


def now() -> str:
    return ECN.read_text().strip()


def test_told_in_a_line(ccbpf: Cli) -> None:
    (row,) = [row for row in ccbpf("-j", "check").json["rows"] if row["name"] == "ECN"]
    assert row["verdict"] == "note" and "tcp_ecn=2" in row["found"] and "--ecn" in row["remedy"]
    told = ccbpf("enable", "nf_tcp").err
    assert WORDS in told and len(told.strip().splitlines()) == 1
    assert WORDS not in ccbpf("enable", "tcp_lp").err, "marks are not its signal"
    assert now() == PASSIVE


@pytest.mark.parametrize("names", [["nf_tcp"], ["tcp_lp_ecn"], ["tcp_lp", "nf_tcp"]], ids=" ".join)
def test_arranged_and_put_back(names: list[str], ccbpf: Cli) -> None:
    assert WORDS not in ccbpf("enable", *names, "--ecn").err
    assert now() == ASK
    (row,) = [row for row in ccbpf("-j", "check").json["rows"] if row["name"] == "ECN"]
    assert row["verdict"] == "ok"
    disabled = ccbpf("-j", "disable", "--all").json["disabled"]
    assert [entry["restored_ecn"] for entry in disabled] == [None] * (len(names) - 1) + [PASSIVE], "null where nothing is"
    assert now() == PASSIVE and ccbpf.names() == set()


def test_the_remedy_in_the_message_works(ccbpf: Cli) -> None:
    assert "`ccbpf enable --ecn NAME`" in ccbpf("enable", "nf_tcp").err
    assert WORDS not in ccbpf("enable", "--ecn", "nf_tcp").err
    assert now() == ASK
    ccbpf("disable", "nf_tcp")
    assert now() == PASSIVE


def test_put_back_with_the_last_one(ccbpf: Cli) -> None:
    ccbpf("enable", "nf_tcp", "--ecn")
    ccbpf("enable", "tcp_lp_ecn", "--ecn")
    ccbpf("disable", "nf_tcp")
    assert now() == ASK
    ccbpf("disable", "tcp_lp_ecn")
    assert now() == PASSIVE


def test_what_somebody_changed_since_is_left_alone(ccbpf: Cli) -> None:
    ccbpf("enable", "nf_tcp", "--ecn")
    ECN.write_text("0")
    ccbpf("disable", "nf_tcp")
    assert now() == "0"


def test_what_asked_already_stays(ccbpf: Cli) -> None:
    ECN.write_text(ASK)
    ccbpf("enable", "nf_tcp", "--ecn")
    ccbpf("disable", "nf_tcp")
    assert now() == ASK


def a_sysctl_of(value: str, tmp_path: Path) -> tuple[str, ...]:
    """A prefix under which net.ipv4.tcp_ecn is this, which kernels before 6.19 refuse: a file in its place."""
    (tmp_path / "tcp_ecn").write_text(value + "\n")
    script = f'mount --bind {tmp_path}/tcp_ecn {ECN}; exec "$@"'
    return ("unshare", "--mount", "--propagation=private", "sh", "-euc", script, "sh")


@pytest.mark.parametrize("accurate", ["3", "4"])
def test_accecn_echoes_no_mark_of_a_chirp(accurate: str, ccbpf: Cli, tmp_path: Path) -> None:
    """Both let a server's sender agree on AccECN: that is enough for tcp_lp_ecn, and told of nf_tcp; --ecn mends it."""
    prefix = a_sysctl_of(accurate, tmp_path)
    (row,) = [row for row in ccbpf("-j", "check", prefix=prefix).json["rows"] if row["name"] == "ECN"]
    assert row["verdict"] == "note" and f"tcp_ecn={accurate}" in row["found"] and "AccECN" in row["found"]
    assert "--ecn" in row["remedy"]
    assert ccbpf("enable", "tcp_lp_ecn", prefix=prefix).err == "", "its marks are counted"
    told = ccbpf("enable", "nf_tcp", prefix=prefix).err
    assert "AccECN" in told and WORDS not in told and len(told.strip().splitlines()) == 1
    ccbpf("disable", "--all", prefix=prefix)
    assert "AccECN" not in ccbpf("enable", "nf_tcp", "--ecn", prefix=prefix).err
    assert (tmp_path / "tcp_ecn").read_text().strip() == ASK
    assert f"is {accurate} again" in ccbpf("disable", "nf_tcp", prefix=prefix).out
    assert (tmp_path / "tcp_ecn").read_text().strip() == accurate


def test_clean_puts_it_back(ccbpf: Cli) -> None:
    ccbpf("enable", "nf_tcp", "--ecn")
    ccbpf("clean", "--all")
    assert now() == PASSIVE


def test_refused_where_nobody_wants_it(ccbpf: Cli) -> None:
    assert "marks are not its signal" in ccbpf("enable", "tcp_lp", "--ecn", code=2).err
    assert now() == PASSIVE and ccbpf.names() == set()


def test_a_default_is_put_back_where_ecn_cannot_be_set(ccbpf: Cli) -> None:
    """All or nothing: the default must not be a controller whose enabling was undone."""
    default = Path("/proc/sys/net/ipv4/tcp_congestion_control")
    before = default.read_text()
    script = f'mount --bind {ECN} {ECN}; mount -o remount,ro,bind {ECN}; exec "$@"'
    prefix = ("unshare", "--mount", "--propagation=private", "sh", "-euc", script, "sh")
    try:
        refused = ccbpf("enable", "nf_tcp", "--default", "--ecn", code=1, prefix=prefix).err
        assert "tcp_ecn" in refused and "read-only" in refused
        assert (now(), default.read_text()) == (PASSIVE, before)
        assert ccbpf.names() == set()
    finally:
        default.write_text(before)
