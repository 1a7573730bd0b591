# SPDX-License-Identifier: GPL-2.0-only
"""`ccbpf run` without privilege, in a cgroup that an administrator has prepared; and what it must not make possible."""

from __future__ import annotations

import fcntl
import json
import os
import pwd
import re
import shutil
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.cgroups import MOUNT
from tests.functional import kernel
from tests.functional.conftest import CCBPF, Cli, Result
from tests.functional.rules.background import BACKGROUND, ENDS_S, SYSTEM_PYTHON, Sinks, default

NOBODY = pwd.getpwnam("nobody")
PLAIN = ("setpriv", f"--reuid={NOBODY.pw_uid}", f"--regid={NOBODY.pw_gid}", "--clear-groups", "--inh-caps=-all", "--")
DELEGATED = ("cgroup.procs", "cgroup.threads", "cgroup.subtree_control")  # by systemd, with the directory

# Says its controller, and each time that it is told to go on that of a new connection.
AGAIN = """
import socket, sys
while True:
    with socket.create_connection(("127.0.0.1", int(sys.argv[1]))) as s:
        print(s.getsockopt(6, 13, 16).split(bytes(1))[0].decode(), flush=True)
    if not sys.stdin.readline():
        break
"""


@dataclass(frozen=True)
class User:
    """The user nobody, with a cgroup as systemd delegates it, and an application in it."""

    cli: Cli
    cgroup: Path

    @property
    def prepared(self) -> Path:
        return self.cgroup / f"ccbpf-run-for-{BACKGROUND}"

    @property
    def application(self) -> Path:
        return self.cgroup / "app.scope"

    @property
    def path(self) -> str:
        return f"/{self.cgroup.relative_to(MOUNT)}"

    def words(self, *words: object, within: Path | None = None) -> list[str]:
        """The words of a command as this user in this cgroup: by default the application's."""
        script = f'echo $$ > {within or self.application}/cgroup.procs; exec "$@"'
        return ["sh", "-c", script, "sh", *PLAIN, *map(str, words)]

    def netnice(self, *words: object, within: Path | None = None) -> Result:
        done = subprocess.run(
            self.words(CCBPF, "run", *words, within=within), capture_output=True, text=True, env=self.cli.env(), timeout=ENDS_S
        )
        return Result(done.returncode, done.stdout, done.stderr)


@pytest.fixture
def user(run: Cli) -> Iterator[User]:
    top = MOUNT / "user.slice"
    had = top.exists()
    cgroup = top / f"user-{NOBODY.pw_uid}.slice" / f"user@{NOBODY.pw_uid}.service"
    user = User(run, cgroup)
    user.application.mkdir(parents=True)
    for name in (".", *DELEGATED):
        shutil.chown(cgroup / name, NOBODY.pw_uid)
    yield user
    run("clean", "--all")
    for path in (user.application, cgroup, cgroup.parent, *([] if had else [top])):
        path.rmdir()


def test_a_plain_user_where_it_is_prepared(user: User, sinks: Sinks) -> None:
    said = user.cli("run", "--prepare", "nobody").err
    assert said == f"ccbpf: user {NOBODY.pw_uid}: `netnice` uses {BACKGROUND}, in the cgroup {user.path}/{user.prepared.name}\n"
    assert user.netnice(*sinks.client(python=SYSTEM_PYTHON)).out.split()[:2] == [BACKGROUND, "0"]
    (found,) = user.cli("-j", "status").json["runs"]
    assert (found["state"], found["uid"], found["counts"]["set"]) == ("prepared", NOBODY.pw_uid, 1)
    assert kernel.run(*user.words(*sinks.client(python=SYSTEM_PYTHON))).stdout.split()[0] == default()


def test_it_is_the_command_itself(user: User) -> None:
    user.cli("run", "-q", "--prepare", user.path)
    done = user.netnice("-u", "sh", "-c", 'id -u; grep Cap /proc/self/status; cat "/proc/$$/cgroup"; kill -TERM $$')
    assert done.code == -signal.SIGTERM and done.err == ""
    assert done.out.startswith(f"{NOBODY.pw_uid}\n") and f"{user.prepared.name}\n" in done.out
    assert set(re.findall(r"Cap(?:Inh|Prm|Eff|Amb):\t(\w+)", done.out)) == {"0" * 16}
    assert user.netnice("sh", "-c", "exit 7").code == 7
    assert user.netnice("/no/such").code == 127
    assert user.netnice("/etc").code == 126


def test_that_only_what_is_sent_is_in_the_background_is_told(user: User) -> None:
    user.cli("run", "-q", "--prepare", "nobody")
    assert user.netnice("true").err == (
        "ccbpf: true: what it receives is not in the background: a prepared cgroup is for what is sent; `sudo netnice COMMAND` does both\n"
    )
    assert user.netnice("-u", "true").err == user.netnice("-q", "true").err == ""


def test_the_work_of_a_daemon(user: User) -> None:
    """Who may use docker is told that it is the daemon that fetches. Whether there is a docker does not matter."""
    user.cli("run", "-q", "--prepare", "nobody")
    said = user.netnice("-u", "env", "docker", "version").err
    assert "docker: a daemon does its work (docker.service)" in said
    assert "an administrator's `ccbpf assign NAME --cgroup unit:docker.service` does" in said
    assert "a daemon" not in user.netnice("-q", "env", "docker", "version").err


def test_it_is_taken_back(user: User, sinks: Sinks) -> None:
    """Alone: another one stays. What runs in it goes on, and its connections keep their controller."""
    user.cli("run", "-q", "--prepare", "nobody")
    user.cli("run", "-q", "--prepare", "nobody", "tcp_lp")
    again = user.words(CCBPF, "run", SYSTEM_PYTHON, "-c", AGAIN, sinks.port)
    with subprocess.Popen(again, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=user.cli.env()) as process:
        assert process.stdin and process.stdout and process.stdout.readline() == f"{BACKGROUND}\n"
        said = user.cli("run", "--prepare", "nobody", "--off").err
        assert said == f"ccbpf: user {NOBODY.pw_uid}: `netnice` no longer uses {BACKGROUND}\n"
        process.stdin.write("\n")
        process.stdin.flush()
        assert process.stdout.readline() == f"{default()}\n"
        process.stdin.close()
        assert process.wait(ENDS_S) == 0
    (left,) = user.cli("-j", "status").json["runs"]
    assert (left["state"], left["controller"]) == ("prepared", "tcp_lp")
    assert "only for uploads by tcp_lp" in user.netnice("true").err
    assert "it is not prepared" in user.cli("run", "--prepare", "nobody", "--off", code=5).err
    user.cli("run", "-q", "--prepare", "nobody", "--off", "tcp_lp")
    assert not user.cli("-j", "status").json["runs"] and "--prepare USER" in user.netnice("true").err
    user.cli("run", "-q", "--prepare", "nobody")
    assert user.netnice(*sinks.client(python=SYSTEM_PYTHON)).out.split()[0] == BACKGROUND, "and given again"


def test_off_is_of_prepare(ccbpf: Cli) -> None:
    said = ccbpf("run", "--off", "true", code=125).err
    assert said == "ccbpf: cannot run --off: it takes a preparation back; `ccbpf run --prepare USER --off`\n"


def test_another_controller_and_a_mark(user: User, sinks: Sinks) -> None:
    user.cli("run", "--prepare", "nobody", "--dscp", "le", "tcpw_lp")
    client = sinks.client(python=SYSTEM_PYTHON)
    assert user.netnice("--dscp", "le", "tcpw_lp", *client).out.split()[:2] == ["tcpw_lp", "4"]
    said = (
        "ccbpf: cannot run: a cgroup is prepared for you, but only for uploads by tcpw_lp with --dscp; "
        "`netnice tcpw_lp --dscp le COMMAND` uses it; for more `sudo netnice`, or ask an administrator\n"
    )
    for words in (["tcpw_lp"], ["--dscp", "le"], []):  # as it was prepared, or not at all
        assert user.netnice(*words, *client).err == said


def test_more_than_is_prepared(user: User) -> None:
    user.cli("run", "-q", "--prepare", "nobody")
    for words in (["-d"], ["tcpw_lp"], ["--dscp", "le"], ["--uid", "nobody"]):
        done = user.netnice(*words, "true")
        assert done.code == 125 and "only for uploads by le without --dscp; `netnice COMMAND` uses it" in done.err, done
    user.cli("run", "-q", "--prepare", "nobody", "tcp_lp", "--dscp", "le")
    assert "for uploads by tcp_lp with --dscp and le without --dscp; `netnice COMMAND` uses it" in user.netnice("-d", "true").err


# --- where it is not prepared, one sentence says what helps ---


def test_not_prepared(user: User) -> None:
    done = user.netnice("true")
    assert done.code == 125
    pattern = r"ccbpf: cannot run: this process lacks cap_\S.*; `sudo netnice COMMAND`: .*; or an administrator .*\n"
    assert re.fullmatch(pattern, done.err), done.err


def test_out_of_reach(user: User) -> None:
    """A login by ssh, outside of the cgroups of the user's own systemd."""
    user.cli("run", "--prepare", "nobody")
    done = user.netnice("true", within=MOUNT)
    assert done.code == 125 and done.err.count("\n") == 1
    assert "outside of your own systemd's cgroup; `systemd-run --user --scope -q netnice COMMAND`" in done.err


# --- what a user must not be able to do ---


def plainly(user: User, code: str, *arguments: object) -> str:
    """The result of a program that this user starts without netnice."""
    return kernel.run(*user.words(SYSTEM_PYTHON, "-c", code, *arguments)).stdout


TRY = """
import os, sys
for act in (
    lambda: os.mkdir(sys.argv[1] + "/x"),
    lambda: os.chmod(sys.argv[1], 0o777),
    lambda: open(sys.argv[1] + "/cgroup.subtree_control", "w"),
    lambda: os.write(os.open(sys.argv[1] + "/cgroup.procs", os.O_WRONLY), sys.argv[2].encode()),
    lambda: os.listdir(sys.argv[3]),
    lambda: os.rmdir(sys.argv[3] + "/runs/1"),
):
    try:
        act()
        print("done")
    except PermissionError:
        print("refused")
"""


def test_nothing_but_entering_is_allowed(user: User) -> None:
    """The user cannot move in a process of another user, make a cgroup below, or see a pin."""
    user.cli("run", "--prepare", "nobody")
    with subprocess.Popen(["sleep", "60"]) as other:
        try:
            assert plainly(user, TRY, user.prepared, other.pid, user.cli.root).split() == ["refused"] * 6
        finally:
            other.kill()
    assert os.stat(user.prepared / "cgroup.procs").st_uid == NOBODY.pw_uid


def test_no_other_command_is_opened(user: User) -> None:
    user.cli("run", "--prepare", "nobody")
    for words in (("flows",), ("renice", BACKGROUND, "--all"), ("assign", "list"), ("status",)):
        done = kernel.run(*user.words(CCBPF, *words), check=False, env=user.cli.env())
        assert done.returncode == 4 and not done.stdout and "cap_bpf" in done.stderr, words


def test_ltcp_is_not_to_be_had(user: User) -> None:
    user.cli("enable", "ltcp")
    said = user.cli("run", "--prepare", "nobody", "ltcp", code=4).err
    assert said.startswith("ccbpf: cannot prepare ltcp: ") and "only a process with cap_net_admin may select it" in said
    user.cli("run", "--prepare", "nobody")
    assert "only a process with cap_net_admin may select it" in user.netnice("ltcp", "true").err


def test_a_cgroup_that_the_user_has_made_instead(user: User, sinks: Sinks) -> None:
    kernel.run(*user.words("mkdir", user.prepared))
    try:
        assert user.netnice("true").code == 125
        assert "its owner is not root; remove it with rmdir" in user.cli("run", "--prepare", "nobody", code=1).err
        assert not user.cli("-j", "status").json["runs"]
    finally:
        user.prepared.rmdir()
    user.cli("run", "--prepare", "nobody")
    for _ in range(3):  # the kernel takes the program from a removed cgroup a moment later
        kernel.run(*user.words("rmdir", user.prepared))  # it is in the user's own directory
        user.cli("run", "--prepare", "nobody")
    kernel.run(*user.words("rmdir", user.prepared))
    kernel.run(*user.words("mkdir", user.prepared))
    user.cli("clean")
    assert user.prepared.exists() and not user.cli("-j", "status").json["runs"]  # it is not ours
    user.prepared.rmdir()
    user.cli("run", "--prepare", "nobody")
    assert len(user.cli("-j", "status").json["runs"]) == 1
    assert user.netnice(*sinks.client(python=SYSTEM_PYTHON)).out.split()[0] == BACKGROUND


def test_no_other_user_comes_in(user: User) -> None:
    user.cli("run", "--prepare", "nobody")
    words = user.words(CCBPF, "run", "true")
    words[words.index(PLAIN[1])] = "--reuid=65533"
    done = kernel.run(*words, check=False, env=user.cli.env())
    assert done.returncode == 125 and "an administrator prepares it for you" in done.stderr


def test_what_cannot_be_prepared(user: User) -> None:
    for given, code, said in (
        ("no-such-user", 2, "there is no such user"),
        ("root", 1, "user@0.service"),
        ("/", 1, "its owner is root"),
        ("/no/such", 1, "No such file"),
        ("/user.slice/..", 2, "it is not a cgroup"),
    ):
        err = user.cli("run", "--prepare", given, code=code).err
        assert err.startswith("ccbpf: cannot prepare ") and said in err
        assert ("for another cgroup give its path" in err) == (given == "root"), err
    assert "cannot prepare --dscp ef" in user.cli("run", "--prepare", "nobody", "--dscp", "ef", code=2).err
    assert "it takes no command" in user.cli("run", "--prepare", "nobody", "true", code=2).err
    assert not user.cli("-j", "status").json["runs"]


# --- its end, and kills ---


def test_clean_takes_it_back(user: User, sinks: Sinks) -> None:
    """Even while a process is in it, which goes on."""
    user.cli("run", "--prepare", "nobody")
    said = user.cli("run", "--prepare", "nobody", code=5).err
    assert said.startswith("ccbpf: cannot prepare the cgroup ") and "it is prepared already" in said
    words = user.words(CCBPF, "run", SYSTEM_PYTHON, "-c", AGAIN, sinks.port)
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=user.cli.env()) as process:
        assert process.stdin and process.stdout
        assert process.stdout.readline() == f"{BACKGROUND}\n"
        user.cli("clean", "--all")
        assert not user.prepared.exists() and not user.cli.root.exists()
        print(file=process.stdin, flush=True)
        assert process.stdout.readline() == f"{default()}\n"
        process.stdin.close()
        assert process.wait(ENDS_S) == 0


def test_a_cgroup_is_prepared_once_however_its_path_is_written(user: User) -> None:
    user.cli("run", "-q", "--prepare", user.path)
    for path in (f"{user.path}/", f"/{user.path}", user.path.replace("/user@", "//user@")):
        assert "it is prepared already" in user.cli("run", "--prepare", path, code=5).err
    assert len(user.cli("-j", "status").json["runs"]) == 1


def test_two_commands_that_look_at_once_see_the_same(user: User) -> None:
    """A reader's own lock of a run's directory is not taken for that of the run's ccbpf."""
    user.cli("run", "-q", "--prepare", "nobody")
    (directory,) = (user.cli.root / "runs").iterdir()
    reader = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(reader, fcntl.LOCK_SH)
        assert [run["state"] for run in user.cli("-j", "status").json["runs"]] == ["prepared"]
    finally:
        os.close(reader)


def test_what_clean_could_not_empty_is_shut_and_taken_again(user: User, sinks: Sinks) -> None:
    """A cgroup that enables controllers for its children takes no process itself: then it stays until its processes have ended."""
    user.prepared.mkdir()
    shutil.chown(user.prepared / "cgroup.procs", 0)
    assert user.netnice("true").code == 125
    user.cli("run", "--prepare", "nobody")
    assert user.netnice(*sinks.client(python=SYSTEM_PYTHON)).out.split()[0] == BACKGROUND


def test_killed_at_every_step(user: User, kill_at: Path, sinks: Sinks) -> None:
    """The user can move processes in only if the program is attached; the next command repairs."""
    seen, code, at = set(), 1, 0
    while code:
        at += 1
        environment = user.cli.env() | {"LD_PRELOAD": str(kill_at), "KILL_AT": str(at)}
        words = [str(CCBPF), "run", "--prepare", "nobody"]
        ended = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=60)
        code = ended.returncode
        assert code in (0, -signal.SIGKILL) and at < 100, (at, ended)
        done = user.netnice(*sinks.client(size=10, python=SYSTEM_PYTHON))
        assert done.code == 125 or done.out.split()[0] == BACKGROUND, (at, done)
        seen.add(done.code)
        user.cli.run("run", "-q", "--prepare", "nobody")
        assert len(user.cli("-j", "status").json["runs"]) == 1
        assert user.netnice("true").code == 0, at
        user.prepared.rmdir()
    assert seen == {0, 125} and at > 5


# --- sudo ---


def called(run: Cli, started: str, command: Path = CCBPF, uid: int = NOBODY.pw_uid) -> Cli:
    """As sudo calls it, for nobody by default. `started` is the command that sudo has started."""
    variables = {"SUDO_UID": str(uid), "SUDO_GID": str(NOBODY.pw_gid), "SUDO_COMMAND": started}
    return Cli(run.root, variables, command)


THIS = (
    "",  # it is not known
    "/tmp/a directory/netnice",
    "/usr/local/sbin/ccbpf run id -u",
    "/usr/bin/nice /usr/bin/netnice id -u",  # rather the caller than root
    "/usr/local/bin/netnice id -u",
)
ANOTHER = ("/root/backup.sh", "/usr/bin/env netnice id -u", "/opt/netnice-daily", "/bin/bash")


def test_a_user_with_sudo_for_netnice_alone_becomes_no_other_user(run: Cli) -> None:
    """A line of sudoers for netnice alone does not lead to a shell of root's."""
    for started in THIS:
        assert called(run, started)("run", "-q", "id", "-u").out == f"{NOBODY.pw_uid}\n", started
    for given in ("root", "0", "daemon"):
        done = called(run, THIS[-1])("run", "-q", "--uid", given, "id", "-u", code=125)
        assert "sudo calls it for user" in done.err and f"`sudo netnice sudo -u {given} COMMAND`" in done.err and not done.out
    assert called(run, THIS[-1])("run", "-q", "--uid", "nobody", "id", "-u").out == f"{NOBODY.pw_uid}\n"
    assert "only a process with cap_net_admin" in called(run, THIS[-1])("run", "-q", "ltcp", "id", "-u", code=125).err


def test_a_user_with_sudo_for_netnice_alone_prepares_for_no_other_user(user: User, tmp_path: Path) -> None:
    """Who may call ccbpf by sudo, and who has a shell or a script of root's, may."""
    netnice, other = tmp_path / "netnice", NOBODY.pw_uid - 1
    netnice.symlink_to(CCBPF)
    for started in THIS:
        for given in ("nobody", user.path):
            said = called(user.cli, started, netnice, other)("--prepare", given, code=4).err
            assert f"is of user {NOBODY.pw_uid}, and sudo calls `netnice` for user {other}" in said, said
            assert said.endswith(f"; an administrator enters `sudo ccbpf run --prepare {given}`\n") and not user.prepared.exists()
    called(user.cli, THIS[-1], netnice)("--prepare", "nobody")
    assert os.stat(user.prepared / "cgroup.procs").st_uid == NOBODY.pw_uid
    user.cli("clean", "--all")
    called(user.cli, "/usr/local/sbin/ccbpf run --prepare nobody", CCBPF, other)("run", "--prepare", "nobody")
    assert user.prepared.exists()
    user.cli("clean", "--all")
    called(user.cli, ANOTHER[0], netnice, other)("--prepare", "nobody")
    assert user.prepared.exists()


def test_neither_by_another_name(run: Cli, tmp_path: Path) -> None:
    """That of the file, or of a link to it, as the one sudo or the other tells it."""
    shutil.copy(CCBPF, tmp_path / "file")
    (tmp_path / "link").symlink_to("file")
    for started in ("/usr/local/bin/file run id -u", "/usr/local/bin/link"):
        assert called(run, started, tmp_path / "link")("run", "-q", "id", "-u").out == f"{NOBODY.pw_uid}\n"


def test_in_a_shell_or_script_that_sudo_started_it_is_root(run: Cli) -> None:
    for started in ANOTHER:
        assert called(run, started)("run", "-q", "id", "-u").out == "0\n", started
    assert called(run, ANOTHER[-1])("run", "-q", "--uid", "nobody", "id", "-u").out == f"{NOBODY.pw_uid}\n"
    assert "who called sudo" not in called(run, ANOTHER[-1])("run", "false", code=1).err


def test_a_command_that_fails_as_the_user_who_called_sudo(run: Cli) -> None:
    """Usually because it needs root."""
    sudo = called(run, "/usr/local/bin/netnice cat /etc/shadow")
    said = "ccbpf: cat: it ended with 1; it ran as nobody, who called sudo; `sudo netnice sudo COMMAND` runs it as root\n"
    assert sudo("run", "cat", "/etc/shadow", code=1).err.endswith(said)
    assert json.loads(sudo("-j", "run", "false", code=1).err.splitlines()[-1])["note"]["on"] == "false"
    for words in (("true",), ("sh", "-c", "kill -TERM $$"), ("-q", "false"), ("--uid", "nobody", "false")):
        assert "who called sudo" not in sudo.run("run", *words).err
