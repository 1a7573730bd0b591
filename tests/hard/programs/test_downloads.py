# SPDX-License-Identifier: GPL-2.0-only
"""What programs download, from servers that know nothing of it: as they are, and by `ccbpf run --download`.

Each program brings the same bytes in both ways. In the background `ccbpf flows` shows its connections while they receive, and the
account of the run has them at the end; as they are nothing is seen of them. Beside a transfer of curl's in the foreground they leave it the
link in the background, and take their share of it as they are.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import random
import subprocess
import tarfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.functional import kernel
from tests.functional.conftest import Cli
from tests.functional.rules.background import ENDS_S, PYTHON, account
from tests.functional.rules.downloads import RATE_MBIT, Bottleneck, bottleneck
from tests.hard.programs.conftest import SIZE, Hosts
from tests.hard.programs.test_programs import NGINX_PORT, SERVERS, SSH_PORT, going, nginx, ssh_keys, ssh_server

TLS_PORT, REGISTRY_PORT, FOREGROUND_PORT = 8443, 5000, 8084
REGISTRY = SERVERS.parent / "bin/docker-registry"
LOOKS_S = 0.02
LAYERS = 3  # of the image; skopeo fetches them at once
FOREGROUND, BACKGROUND = 4_000_000, 10_000_000  # bytes
LEAST = 100_000  # bytes: more than a server says before the file
ALONE_S = FOREGROUND * 8 / (RATE_MBIT * 1e6 * 1448 / 1514)  # of the foreground


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


# --- servers ---------------------------------------------------------------------------


@contextmanager
def http(hosts: Hosts, source: Path, room: Path) -> Iterator[None]:
    with going(nginx(hosts, source, room)):
        hosts.listens(NGINX_PORT)
        yield


@contextmanager
def http2(hosts: Hosts, source: Path, room: Path) -> Iterator[None]:
    """The same server, with HTTP/2 over TLS as well."""
    words = nginx(hosts, source, room)
    made = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 1 -subj /CN=test"
    kernel.run(
        *made.split(), "-addext", f"subjectAltName=IP:{hosts.address}", "-keyout", room / "key.pem", "-out", room / "cert.pem"
    )
    config = room / "nginx.conf"
    server = f"server {{ listen {hosts.address}:{TLS_PORT} ssl http2; root {source}; "
    server += f"ssl_certificate {room}/cert.pem; ssl_certificate_key {room}/key.pem; }} }}"
    config.write_text(config.read_text().rstrip().removesuffix("}") + server)
    with going(words):
        hosts.listens(TLS_PORT)
        yield


@contextmanager
def ssh(hosts: Hosts, _: Path, room: Path) -> Iterator[None]:
    ssh_keys(room)
    with going(ssh_server(hosts, room)):
        hosts.listens(SSH_PORT)
        yield


def make_archive(hosts: Hosts, source: Path, room: Path) -> None:
    """One package in an archive of apt, which holds the file, and apt's own directories."""
    tree = room / "package"
    (tree / "DEBIAN").mkdir(parents=True)
    about = "Package: thing\nVersion: 1\nArchitecture: all\nMaintainer: nobody <nobody@example.org>\nDescription: a thing\n"
    (tree / "DEBIAN/control").write_text(about)
    (tree / "file").write_bytes((source / "file").read_bytes())
    package = source / "thing_1_all.deb"
    kernel.run("dpkg-deb", "-Znone", "--root-owner-group", "--build", tree, package)
    data = package.read_bytes()
    (source / "Packages").write_text(f"{about}Filename: ./{package.name}\nSize: {len(data)}\nSHA256: {digest(data)}\n")
    (room / "apt/etc/apt.conf.d").mkdir(parents=True)
    (room / "apt/etc/sources.list").write_text(f"deb [trusted=yes] http://{hosts.address}:{NGINX_PORT}/ ./\n")
    (room / "apt/status").touch()
    for name in ("state/lists/partial", "cache/archives/partial"):
        (room / "apt" / name).mkdir(parents=True)


@contextmanager
def archive(hosts: Hosts, source: Path, room: Path) -> Iterator[None]:
    make_archive(hosts, source, room)
    with http(hosts, source, room):
        yield


@contextmanager
def several(hosts: Hosts, source: Path, room: Path) -> Iterator[None]:
    """One nginx that also has HTTP/2 and the archive, and the server of ssh."""
    make_archive(hosts, source, room)
    with http2(hosts, source, room), ssh(hosts, source, room):
        yield


def layout(source: Path, room: Path) -> None:
    """An image of LAYERS layers, a part of the file in each, as the OCI lays it out in a directory."""
    blobs = room / "image/blobs/sha256"
    blobs.mkdir(parents=True)

    def blob(kind: str, data: bytes) -> dict[str, object]:
        (blobs / digest(data)).write_bytes(data)
        return {"mediaType": f"application/vnd.oci.image.{kind}", "digest": f"sha256:{digest(data)}", "size": len(data)}

    def layer(name: str, data: bytes) -> bytes:
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w") as tar:
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            tar.addfile(entry, io.BytesIO(data))
        return packed.getvalue()

    data = (source / "file").read_bytes()
    part = -(-len(data) // LAYERS)
    layers = [layer(f"part{i}", data[i * part : (i + 1) * part]) for i in range(LAYERS)]
    parts = [f"sha256:{digest(found)}" for found in layers]
    config = {"architecture": "amd64", "os": "linux", "rootfs": {"type": "layers", "diff_ids": parts}}
    manifest: dict[str, object] = {"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json"}
    manifest["layers"] = [blob("layer.v1.tar+gzip", gzip.compress(found, 1, mtime=0)) for found in layers]
    manifest["config"] = blob("config.v1+json", json.dumps(config).encode())
    entry = blob("manifest.v1+json", json.dumps(manifest).encode())
    entry["annotations"] = {"org.opencontainers.image.ref.name": "latest"}
    (room / "image/index.json").write_text(json.dumps({"schemaVersion": 2, "manifests": [entry]}))
    (room / "image/oci-layout").write_text('{"imageLayoutVersion": "1.0.0"}')


def blobs(image: Path) -> str:
    """The image's manifest, its configuration and its layers, all with the digest that its bytes have; their names."""
    found = sorted((image / "blobs/sha256").iterdir())
    assert all(path.name == digest(path.read_bytes()) for path in found)
    return " ".join(path.name for path in found)


@contextmanager
def registry(hosts: Hosts, source: Path, room: Path) -> Iterator[None]:
    """With that image in it."""
    layout(source, room)
    (room / "registry.yml").write_text(
        f"version: 0.1\nlog: {{level: error}}\nstorage: {{filesystem: {{rootdirectory: {room}/registry}}}}\n"
        f"http: {{addr: '{hosts.address}:{REGISTRY_PORT}'}}\n"
    )
    hosts.far.run("ip", "link", "set", "lo", "up")  # the image is put there from the same host
    with going(hosts.on_far(REGISTRY, "serve", room / "registry.yml")):
        hosts.listens(REGISTRY_PORT)
        to = f"docker://{hosts.address}:{REGISTRY_PORT}/thing:latest"
        copy = hosts.on_far("skopeo", "--insecure-policy", "copy", "-q", "--dest-tls-verify=false")
        kernel.run(*copy, f"oci:{room}/image:latest", to)
        yield


# --- programs --------------------------------------------------------------------------

Server = Callable[[Hosts, Path, Path], AbstractContextManager[None]]


@dataclass(frozen=True)
class Program:
    """Its server, its words behind a prefix of `ip netns exec`, and the digest of what it brought."""

    server: Server
    port: int
    words: Callable[[Hosts, Path, Path], list[object]]
    brought: Callable[[Path], str] = lambda to: digest((to / "file").read_bytes())
    wanted: Callable[[Path, Path], str] = lambda source, _: digest((source / "file").read_bytes())
    says: str = ""  # its stdout
    least: int = 1  # connections


def curl(to: Path, *words: object) -> list[object]:
    """It says which HTTP it was."""
    return ["curl", "-sf", "-w", "%{http_version}", "-o", to / "file", *words]


def curl_http1(hosts: Hosts, _: Path, to: Path) -> list[object]:
    return curl(to, "--http1.1", f"http://{hosts.address}:{NGINX_PORT}/file")


def curl_http2(hosts: Hosts, room: Path, to: Path) -> list[object]:
    return curl(to, "--http2", "--cacert", room / "cert.pem", f"https://{hosts.address}:{TLS_PORT}/file")


def aria2(hosts: Hosts, _: Path, to: Path) -> list[object]:
    url = f"http://{hosts.address}:{NGINX_PORT}/file"
    return ["aria2c", "-q", "--no-conf", "-x4", "-s4", "-k1M", "--file-allocation=none", "-d", to, "-o", "file", url]


APT = """
set -e
apt="apt-get -qq -o Dir=$1 -o Dir::Etc=$1/etc -o Dir::State=$1/state -o Dir::State::status=$1/status -o Dir::Cache=$1/cache
     -o APT::Sandbox::User=root -o Acquire::AllowInsecureRepositories=true -o Acquire::Languages=none"
$apt update 2>/dev/null
cd "$2"
exec $apt download thing
"""


def apt(_: Hosts, room: Path, to: Path) -> list[object]:
    return ["sh", "-c", APT, "sh", room / "apt", to]


def skopeo(hosts: Hosts, _: Path, to: Path) -> list[object]:
    copy = ["skopeo", "--insecure-policy", "copy", "-q", "--src-tls-verify=false"]
    return [*copy, f"docker://{hosts.address}:{REGISTRY_PORT}/thing:latest", f"oci:{to}/image:latest"]


def rsync(hosts: Hosts, room: Path, to: Path) -> list[object]:
    shell = (
        f"ssh -F none -p {SSH_PORT} -i {room}/key -o BatchMode=yes -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null"
    )
    return ["rsync", "-a", "-e", shell, f"root@{hosts.address}:{room}/from/file", f"{to}/"]


def python(hosts: Hosts, _: Path, to: Path) -> list[object]:
    code = "import sys, urllib.request; urllib.request.urlretrieve(*sys.argv[1:])"
    return [PYTHON, "-c", code, f"http://{hosts.address}:{NGINX_PORT}/file", to / "file"]


PROGRAMS = {
    "curl, HTTP/1.1": Program(http, NGINX_PORT, curl_http1, says="1.1"),
    "curl, HTTP/2 over TLS": Program(http2, TLS_PORT, curl_http2, says="2"),
    "aria2, four connections": Program(http, NGINX_PORT, aria2, least=3),
    "apt": Program(
        archive,
        NGINX_PORT,
        apt,
        lambda to: digest((to / "thing_1_all.deb").read_bytes()),
        lambda source, _: digest((source / "thing_1_all.deb").read_bytes()),
    ),
    "skopeo from a registry": Program(
        registry,
        REGISTRY_PORT,
        skopeo,
        lambda to: blobs(to / "image"),
        lambda _, room: blobs(room / "image"),
        least=LAYERS,
    ),
    "rsync over ssh": Program(ssh, SSH_PORT, rsync),
    "Python's urllib": Program(http, NGINX_PORT, python),
}


@dataclass
class Looks:
    """At `ccbpf flows`, until the block ends: local ports of downloads from this port."""

    cli: Cli
    port: int
    found: set[int] = field(default_factory=set)
    _stop: threading.Event = field(default_factory=threading.Event)

    def _look(self) -> None:
        while not self._stop.wait(LOOKS_S):
            result = self.cli.run("-j", "flows")
            for flow in result.json["flows"] if result.code == 0 else []:
                if flow["controller"] == "rx_le" and flow["remote_port"] == self.port:
                    self.found.add(flow["local_port"])

    def __enter__(self) -> Looks:
        self._thread = threading.Thread(target=self._look)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(kernel.COMMAND_S)


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_download(ccbpf: Cli, hosts: Hosts, source: Path, tmp_path: Path, name: str) -> None:
    program = PROGRAMS[name]
    with program.server(hosts, source, tmp_path):
        for way in ("plain", "background"):
            to = tmp_path / way
            to.mkdir()
            words = hosts.on_near(*program.words(hosts, tmp_path, to))
            with Looks(ccbpf, program.port) as looks:
                if way == "plain":
                    said = kernel.run(*words).stdout
                else:
                    done = ccbpf("-j", "run", "--download", "--", *words)
                    said = done.out
            assert said.strip() == program.says
            assert program.brought(to) == program.wanted(source, tmp_path)
            assert bool(looks.found) == (way == "background"), way
    counts = account(done.err)["counts"]
    assert counts["receivers"] >= program.least and counts["received"] >= SIZE and not counts["unstamped"], counts
    assert not ccbpf.root.exists()


# --- beside somebody else --------------------------------------------------------------


def namespace(name: str) -> kernel.Namespace:
    """One that is there already."""
    found = kernel.Namespace("")
    found.name = name
    return found


@pytest.fixture
def path() -> Iterator[Bottleneck]:
    with bottleneck() as path:
        yield path


# Server: the programs that fetch from it at the same time.
BESIDE: list[tuple[Server, tuple[str, ...]]] = [
    (http, ("aria2, four connections",)),
    (registry, ("skopeo from a registry",)),
    (several, ("curl, HTTP/1.1", "curl, HTTP/2 over TLS", "apt", "rsync over ssh", "Python's urllib")),
]


# Runs the words behind the path of a file as soon as that is there: five runs of `ccbpf` begin one after the other.
GATE = ("sh", "-c", 'while [ ! -e "$0" ]; do sleep 0.02; done; exec "$@"')


def came(path: Bottleneck) -> int:
    """Bytes of packets that the receiver has got."""
    return int(path.command(path.receiver, "cat", "/sys/class/net/wire/statistics/rx_bytes"))


def runs(ccbpf: Cli) -> list[int]:
    """Bytes that each run has received so far."""
    return [run["counts"]["received"] for run in ccbpf("-j", "status").json["runs"]]


@pytest.mark.quiet
@pytest.mark.rerun("a host that stands still is a queue, and a pause of the reader")
@pytest.mark.parametrize("way", ["plain", "background"])
@pytest.mark.parametrize(
    ("server", "names"), BESIDE, ids=[names[0] if len(names) == 1 else "five at once" for _, names in BESIDE]
)
def test_beside_a_foreground(
    ccbpf: Cli, path: Bottleneck, tmp_path: Path, server: Server, names: tuple[str, ...], way: str
) -> None:
    """On the path of the native lab. curl takes at most half again as long as alone; without the option three quarters longer at the least,
    because it has a fourth to a sixth of the link until the others are done."""
    hosts = Hosts(namespace(path.receiver), namespace(path.sender), "10.0.1.2")
    source, other = tmp_path / "from", tmp_path / "other"
    to = {name: tmp_path / f"to{i}" for i, name in enumerate(names)}
    for made in (source, other, *to.values()):
        made.mkdir()
    (source / "file").write_bytes(random.Random(1).randbytes(BACKGROUND // len(names)))
    (other / "foreground").write_bytes(bytes(FOREGROUND))
    prefix = [] if way == "plain" else [ccbpf.command, "run", "-q", "-d", "--"]
    with server(hosts, source, tmp_path), going(nginx(hosts, other, other, FOREGROUND_PORT)), ExitStack() as stack:
        hosts.listens(FOREGROUND_PORT)
        programs = []
        for name in names:
            words = [*prefix, *GATE, tmp_path / "go", *hosts.on_near(*PROGRAMS[name].words(hosts, tmp_path, to[name]))]
            going_on = subprocess.Popen([str(word) for word in words], stdout=subprocess.DEVNULL, env=ccbpf.env())
            programs.append(stack.enter_context(going_on))
        if way == "background":
            kernel.eventually(lambda: len(runs(ccbpf)) == len(names), ENDS_S, "the runs")
        before = came(path)
        (tmp_path / "go").touch()
        kernel.eventually(lambda: came(path) > before + BACKGROUND / 3, ENDS_S, "the downloads")
        if way == "background":
            kernel.eventually(lambda: min(runs(ccbpf)) > LEAST, ENDS_S, "each of them")
        start = time.monotonic()
        url = f"http://{hosts.address}:{FOREGROUND_PORT}/foreground"
        kernel.run(*hosts.on_near("curl", "-sf", "-o", tmp_path / "got", url))
        took = time.monotonic() - start
        assert [program.wait(2 * ENDS_S) for program in programs] == [0] * len(names)
    for name in names:
        assert PROGRAMS[name].brought(to[name]) == PROGRAMS[name].wanted(source, tmp_path)
    assert took < 1.5 * ALONE_S if way == "background" else took > 1.75 * ALONE_S, took
