# SPDX-License-Identifier: GPL-2.0-only
"""Programs that people use, as they are, in the background class: by `ccbpf run` where they send, or by a rule.

`ss` says which controller a connection has, at both ends, while the program runs; the bytes are compared with what was sent.
curl's upload, iperf3, rsync's own protocol, children, daemons, and sockets that are inherited or passed on are in
tests/functional/rules.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.functional import kernel
from tests.functional.conftest import Cli
from tests.functional.rules.background import BACKGROUND, ENDS_S, account, default
from tests.hard.programs.conftest import SIZE, Hosts
from tests.hard.programs.watch import Watch

SERVERS = kernel.ROOT / ".cache/servers/usr/sbin"  # unpacked by packaging/deps.sh
SSH_PORT, REST_PORT, NGINX_PORT, HAPROXY_PORT, GO_PORT = 2222, 8000, 8080, 8081, 8082
PROGRAM_S = 30.0


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


@contextmanager
def going(words: list[str], env: dict[str, str] | None = None) -> Iterator[None]:
    """A program that runs until the block ends."""
    with subprocess.Popen(["setpriv", "--pdeathsig", "KILL", *words], env=env, stdin=subprocess.DEVNULL) as process:
        try:
            yield
        finally:
            process.terminate()
            process.wait(ENDS_S)


# --- backups ---


SSHD = """
ListenAddress {address}:{port}
HostKey {room}/host
AuthorizedKeysFile {room}/key.pub
StrictModes no
UsePAM no
PidFile none
"""

# sshd of OpenSSH as its package has it, where that is not installed: with its user, its directory, and the programs that newer
# releases start. The home directory of root is empty, and the account is not locked.
SSH_SERVER = """
mount -t tmpfs -o mode=755 tmpfs /run && mkdir /run/sshd
mount -t tmpfs -o mode=700 tmpfs {home}
{{ grep -v ^sshd: /etc/passwd; echo sshd:x:65534:65534::/run/sshd:/usr/sbin/nologin; }} >{room}/passwd
echo 'root:*:::::::' >{room}/shadow
for name in passwd shadow; do mount --bind {room}/$name /etc/$name; done
[ ! -e {library}/sshd-session ] || mount --bind {library} /usr/lib/openssh
exec {sshd} -D -e -f {room}/sshd_config
"""


def ssh_keys(room: Path) -> None:
    for name in ("host", "key"):
        kernel.run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", room / name)


def ssh_server(hosts: Hosts, room: Path) -> list[str]:
    (room / "sshd_config").write_text(SSHD.format(address=hosts.address, port=SSH_PORT, room=room))
    sshd, library = SERVERS / "sshd", SERVERS.with_name("lib") / "openssh"
    script = SSH_SERVER.format(home=Path("~root").expanduser(), room=room, sshd=sshd, library=library)
    return hosts.on_far("sh", "-euc", script)


def test_rsync_over_ssh(run: Cli, hosts: Hosts, source: Path, tmp_path: Path) -> None:
    """By OpenSSH at both ends. The process ssh sends, not rsync."""
    ssh_keys(tmp_path)
    shell = f"ssh -F none -p {SSH_PORT} -i {tmp_path}/key -o BatchMode=yes -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null"
    words = hosts.on_near("rsync", "-a", "-e", shell, f"{source}/", f"root@{hosts.address}:{tmp_path}/to/")
    with going(ssh_server(hosts, tmp_path)):
        hosts.listens(SSH_PORT)
        with Watch(hosts.near, hosts.far) as watch:
            done = run("-j", "run", "--", *words)
    assert digest(tmp_path / "to" / "file") == digest(source / "file")
    assert watch.controllers(hosts.near, remote=SSH_PORT) == {BACKGROUND}
    assert watch.controllers(hosts.far, local=SSH_PORT) == {default()}
    counts = account(done.err)["counts"]
    assert counts["set"] == 1 and counts["bytes"] > SIZE, counts


def test_restic_to_a_rest_server(run: Cli, hosts: Hosts, source: Path, tmp_path: Path) -> None:
    """Two programs in Go, several connections at a time."""
    environment = {**run.env(), "RESTIC_PASSWORD": "x", "HOME": str(tmp_path)}
    server = hosts.on_far("rclone", "-q", "serve", "restic", "--addr", f"{hosts.address}:{REST_PORT}", tmp_path / "repository")
    restic = hosts.on_near("restic", "-q", "--no-cache", "-r", f"rest:http://{hosts.address}:{REST_PORT}/")
    with going(server, environment):
        hosts.listens(REST_PORT)
        kernel.run(*restic, "init", env=environment)
        with Watch(hosts.near, hosts.far) as watch:
            done = Cli(run.root, environment)("-j", "run", "--", *restic, "backup", ".", cwd=source)
        kernel.run(*restic, "restore", "latest", "--target", tmp_path / "to", env=environment)
    assert digest(tmp_path / "to" / "file") == digest(source / "file")
    assert watch.controllers(hosts.near, remote=REST_PORT) == {BACKGROUND}
    assert watch.controllers(hosts.far, local=REST_PORT) == {default()}
    assert account(done.err)["counts"]["bytes"] > SIZE


# --- servers: what fills a link is their answers ---


def nginx(hosts: Hosts, source: Path, room: Path, port: int = NGINX_PORT) -> list[str]:
    """A master and two workers, which inherit the listener."""
    temporary = " ".join(f"{name}_temp_path {room}/{name};" for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
    (room / "nginx.conf").write_text(
        f"daemon off; user root; worker_processes 2; pid {room}/nginx.pid; error_log stderr; events {{}}\n"
        f"http {{ access_log off; {temporary} server {{ listen {hosts.address}:{port}; root {source}; }} }}\n"
    )
    return hosts.on_far(SERVERS / "nginx", "-e", "stderr", "-c", room / "nginx.conf")


def haproxy(hosts: Hosts, room: Path) -> list[str]:
    (room / "haproxy.conf").write_text(
        "defaults\n mode http\n timeout connect 5s\n timeout client 5s\n timeout server 5s\n"
        f"listen here\n bind {hosts.address}:{HAPROXY_PORT}\n server nginx {hosts.address}:{NGINX_PORT}\n"
    )
    return hosts.on_far(SERVERS / "haproxy", "-db", "-f", room / "haproxy.conf")


def download(hosts: Hosts, port: int, into: Path) -> None:
    kernel.run(*hosts.on_near("curl", "-sf", "-o", into, f"http://{hosts.address}:{port}/file"))


def in_background(run: Cli, words: list[str]) -> list[str]:
    return [str(run.command), "run", "-q", "--", *words]


@pytest.mark.parametrize("by", ["rule", "run"])
def test_curl_from_nginx(run: Cli, hosts: Hosts, source: Path, tmp_path: Path, by: str) -> None:
    server = nginx(hosts, source, tmp_path)
    if by == "rule":
        run("assign", "--local-port", NGINX_PORT, "--netns", hosts.far.name)
    with going(server if by == "rule" else in_background(run, server), run.env()):
        hosts.listens(NGINX_PORT)
        with Watch(hosts.near, hosts.far) as watch:
            download(hosts, NGINX_PORT, tmp_path / "got")
    assert digest(tmp_path / "got") == digest(source / "file")
    assert watch.controllers(hosts.far, local=NGINX_PORT) == {BACKGROUND}
    assert watch.controllers(hosts.near, remote=NGINX_PORT) == {default()}


def test_haproxy_between_curl_and_nginx(run: Cli, hosts: Hosts, source: Path, tmp_path: Path) -> None:
    """Of one download only the proxy's two connections are in the background."""
    with (
        going(nginx(hosts, source, tmp_path)),
        going(in_background(run, haproxy(hosts, tmp_path)), run.env()),
    ):
        for port in (NGINX_PORT, HAPROXY_PORT):
            hosts.listens(port)
        with Watch(hosts.near, hosts.far) as watch:
            download(hosts, HAPROXY_PORT, tmp_path / "got")
    assert digest(tmp_path / "got") == digest(source / "file")
    assert watch.controllers(hosts.far, local=HAPROXY_PORT) == {BACKGROUND}
    assert watch.controllers(hosts.far, remote=NGINX_PORT) == {BACKGROUND}
    assert watch.controllers(hosts.far, local=NGINX_PORT) == {default()}
    assert watch.controllers(hosts.near, remote=HAPROXY_PORT) == {default()}


# --- a static program with a network stack of its own ---


def test_a_static_client_in_go(run: Cli, hosts: Hosts, source: Path, transfer: Path) -> None:
    """LD_PRELOAD would do nothing to it."""
    arrived = hashlib.sha256()
    with kernel.Sink(hosts.far, hosts.address, GO_PORT, arrived.update) as sink, Watch(hosts.near) as watch:
        done = run("-j", "run", "--", *hosts.on_near(transfer, "dial", f"{hosts.address}:{GO_PORT}", source / "file"))
        kernel.eventually(lambda: sink.received == SIZE, ENDS_S, "the file")
    assert arrived.hexdigest() == digest(source / "file")
    assert watch.controllers(hosts.near, remote=GO_PORT) == {BACKGROUND}
    assert account(done.err)["counts"]["set"] == 1


def test_a_static_server_in_go(run: Cli, hosts: Hosts, source: Path, tmp_path: Path, transfer: Path) -> None:
    """From Go 1.24 on its listener speaks Multipath TCP; a client that does not gets plain TCP."""
    server = hosts.on_far(transfer, "listen", f"{hosts.address}:{GO_PORT}", source / "file")
    with run.popen("-j", "run", "--", *server, stderr=subprocess.PIPE) as going_on:
        hosts.listens(GO_PORT)
        with Watch(hosts.far) as watch, (tmp_path / "got").open("wb") as got, hosts.near.socket() as sock:
            sock.settimeout(ENDS_S)
            sock.connect((hosts.address, GO_PORT))
            while data := sock.recv(1 << 16):
                got.write(data)
        _, err = going_on.communicate(timeout=ENDS_S)
    assert digest(tmp_path / "got") == digest(source / "file")
    assert watch.controllers(hosts.far, local=GO_PORT) == {BACKGROUND}
    assert account(err)["counts"]["set"] == 1
