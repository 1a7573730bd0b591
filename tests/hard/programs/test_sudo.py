# SPDX-License-Identifier: GPL-2.0-only
"""sudo itself, with the line of sudoers in docs/usage.md: it permits `netnice`, and does not lead to root."""

from __future__ import annotations

import pwd
import subprocess
from pathlib import Path

import pytest

from tests.functional.conftest import CCBPF, Cli, Result
from tests.functional.rules.background import BACKGROUND, ENDS_S, SYSTEM_PYTHON, Sinks

ID, CGROUP = "/usr/bin/id", "/usr/bin/cat /proc/self/cgroup"  # what nobody may run as root as well
NOBODY = pwd.getpwnam("nobody")
REFUSED = "sudo: a password is required\n"


@pytest.fixture
def netnice(tmp_path: Path) -> Path:
    link = tmp_path / "netnice"
    link.symlink_to(CCBPF)
    return link


class Sudo:
    """sudo, called by nobody, with a sudoers of its own. CCBPF_PIN_ROOT passes, so that the test has its own pins."""

    def __init__(self, cli: Cli, room: Path, netnice: Path) -> None:
        self._cli = cli
        self._sudoers = room / "sudoers"
        self._sudoers.write_text(
            f'Defaults env_keep += "CCBPF_PIN_ROOT"\nnobody ALL=(root) NOPASSWD: {netnice}, {ID}, {CGROUP}\n'
        )
        self._sudoers.chmod(0o440)

    def __call__(self, *words: object) -> Result:
        script = (
            f'mount --bind {self._sudoers} /etc/sudoers && cd / && exec setpriv --reuid={NOBODY.pw_uid} --clear-groups -- "$@"'
        )
        command = ["unshare", "-m", "sh", "-c", script, "sh", "sudo", "-n", *map(str, words)]
        done = subprocess.run(command, capture_output=True, text=True, env=self._cli.env(), timeout=ENDS_S)
        return Result(done.returncode, done.stdout, done.stderr)


@pytest.fixture
def sudo(run: Cli, tmp_path: Path, netnice: Path) -> Sudo:
    return Sudo(run, tmp_path, netnice)


def test_a_line_for_netnice(sudo: Sudo, netnice: Path) -> None:
    sinks = Sinks()
    try:
        assert sudo(netnice, "-q", *sinks.client(python=SYSTEM_PYTHON)).out.split()[0] == BACKGROUND
    finally:
        sinks.close()
    assert sudo(netnice, "-q", "id", "-u").out == f"{NOBODY.pw_uid}\n"
    assert "CapEff:\t0000000000000000" in sudo(netnice, "-q", "cat", "/proc/self/status").out


def test_sudo_within(sudo: Sudo, netnice: Path) -> None:
    """`sudo netnice sudo COMMAND` runs what sudo permits as root, and nothing else, in the cgroup of netnice."""
    assert sudo(netnice, "-q", "sudo", "-n", ID, "-u").out == "0\n"
    assert "/ccbpf-run-" in sudo(netnice, "-q", "sudo", "-n", *CGROUP.split()).out
    done = sudo(netnice, "-q", "sudo", "-n", "/usr/bin/cat", "/etc/shadow")
    assert (done.code, done.out, done.err) == (1, "", REFUSED)


def test_it_is_no_way_to_root(sudo: Sudo, netnice: Path, tmp_path: Path) -> None:
    for words in (["--uid", "root"], ["--uid=0"], ["-q", "--uid", "daemon"]):
        done = sudo(netnice, *words, ID, "-u")
        assert done.code == 125 and not done.out and "sudo calls it for user" in done.err
    assert "only a process with cap_net_admin" in sudo(netnice, "ltcp", "id").err
    assert sudo(CCBPF, "flows").err == REFUSED
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "netnice").symlink_to(CCBPF)  # sudo takes it for the same file: also then it is netnice
    assert "cannot run /flows" in sudo(tmp_path / "mine" / "netnice", "/flows").err
    assert "not allowed to set" in sudo("LD_PRELOAD=/x", netnice, "id").err
