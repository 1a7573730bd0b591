# SPDX-License-Identifier: GPL-2.0-only
"""A Kubernetes cluster of one node, in namespaces of its own: etcd, the API server with Node and RBAC authorization, controllers and
scheduler, a kubelet, containerd and runc. All of it ends with the block.

The cgroups are this host's. Where it mounts version 1 beside version 2, the kubelet and runc make each cgroup of a pod in both.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from tests.cgroups import MOUNT, remove_cgroup
from tests.functional import kernel

TOOLS = kernel.ROOT / ".cache/cluster"  # of packaging/deps.sh
COMPONENTS = TOOLS / "components"
BIN = (TOOLS / "debian/usr/bin", TOOLS / "debian/usr/sbin")
CNI = TOOLS / "debian/usr/lib/cni"
NODE, NODE_IP, SERVICE_IP, PODS_NET = "node-1", "192.0.2.1", "10.96.0.1", "10.88.0.0/24"
PAUSE = "registry.example/pause:1"
SOCKET = "/run/containerd/containerd.sock"
STARTS_S = 120.0
COMMAND_S = 120.0

# The node: interfaces, a bpffs of its own, and settings of the kernel that the kubelet would change for the whole host.
SETUP = """
ip link set lo up
ip address add {service}/32 dev lo
ip link add node0 type veth peer name beyond
ip address add {node}/24 dev node0
ip link set node0 up
ip link set beyond up
ip route add default dev node0
mount -t bpf -o mode=0700 bpf /sys/fs/bpf
mount -t tmpfs tmpfs /run
mount -t tmpfs tmpfs /var/log
mount -t tmpfs tmpfs /etc/cni 2>/dev/null || true
set_as_wanted() {{ echo "$2" >"$0/settings/$1"; mount --bind "$0/settings/$1" "/proc/sys/$(echo "$1" | tr . /)"; }}
mkdir "$0/settings"
set_as_wanted vm.overcommit_memory 1
set_as_wanted vm.panic_on_oom 0
set_as_wanted kernel.panic 10
set_as_wanted kernel.panic_on_oops 1
set_as_wanted kernel.keys.root_maxkeys 1000000
set_as_wanted kernel.keys.root_maxbytes 25000000
echo ready
exec sleep infinity
"""

CONTAINERD = """
version = 2
root = "{directory}/containerd"
state = "/run/containerd"
disabled_plugins = ["io.containerd.snapshotter.v1.aufs", "io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.devmapper",
                    "io.containerd.snapshotter.v1.zfs"]
[grpc]
address = "{socket}"
[plugins."io.containerd.internal.v1.opt"]
path = "{directory}/opt"
[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = "{pause}"
restrict_oom_score_adj = true # a host that is itself a guest may lack CAP_SYS_RESOURCE
[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = "{cni}"
conf_dir = "{directory}/cni"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
"""

NETWORK = {
    "cniVersion": "0.4.0",
    "name": "pods",
    "plugins": [
        {
            "type": "ptp",
            "ipam": {"type": "host-local", "subnet": PODS_NET, "routes": [{"dst": "0.0.0.0/0"}], "dataDir": "/run/cni"},
        }
    ],
}

# Who may do what is decided by these names: of the user (CN) and of the group (O).
USERS = {
    "admin": "/O=system:masters/CN=admin",
    "node": f"/O=system:nodes/CN=system:node:{NODE}",
    "controllers": "/CN=system:kube-controller-manager",
    "scheduler": "/CN=system:kube-scheduler",
}


def make_certificates(directory: Path) -> None:
    """An authority, the API server's certificate, one of each user, and the key of service accounts."""

    def openssl(*words: object) -> None:
        kernel.run("openssl", *words)

    key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")
    ca = directory / "ca"
    openssl("req", "-x509", *key, "-days", 2, "-subj", "/CN=ca", "-keyout", f"{ca}.key", "-out", f"{ca}.crt")
    names = f"subjectAltName=IP:127.0.0.1,IP:{NODE_IP},IP:{SERVICE_IP},DNS:kubernetes.default.svc"
    for name, subject in {"server": "/CN=kube-apiserver", **USERS}.items():
        one = directory / name
        openssl("req", *key, "-subj", subject, "-keyout", f"{one}.key", "-out", f"{one}.csr")
        extensions = directory / f"{name}.ext"
        extensions.write_text(names if name == "server" else "extendedKeyUsage=clientAuth")
        openssl("x509", "-req", "-in", f"{one}.csr", "-CA", f"{ca}.crt", "-CAkey", f"{ca}.key", "-CAcreateserial", "-days", 2,
                "-extfile", extensions, "-out", f"{one}.crt")  # fmt: skip
    openssl("genrsa", "-out", directory / "accounts.key", 2048)
    openssl("rsa", "-in", directory / "accounts.key", "-pubout", "-out", directory / "accounts.pub")


def write_kubeconfig(directory: Path, user: str) -> Path:
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {"name": "it", "cluster": {"server": f"https://{NODE_IP}:443", "certificate-authority": f"{directory}/ca.crt"}}
        ],
        "users": [
            {"name": "me", "user": {"client-certificate": f"{directory}/{user}.crt", "client-key": f"{directory}/{user}.key"}}
        ],
        "contexts": [{"name": "this", "context": {"cluster": "it", "user": "me"}}],
        "current-context": "this",
    }
    path = directory / f"{user}.kubeconfig"
    path.write_text(json.dumps(config))
    return path


def kubelet_config(directory: Path) -> dict[str, object]:
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "authentication": {"anonymous": {"enabled": False}, "x509": {"clientCAFile": f"{directory}/ca.crt"}},
        "authorization": {"mode": "Webhook"},
        "cgroupDriver": "cgroupfs",
        "containerRuntimeEndpoint": f"unix://{SOCKET}",
        "failSwapOn": False,
        "evictionHard": {"imagefs.available": "0%", "nodefs.available": "0%", "nodefs.inodesFree": "0%"},
        "imageGCHighThresholdPercent": 100,
        "syncFrequency": "5s",
    }


@dataclass
class Cluster:
    directory: Path
    pid: int = 0  # the first process of its namespaces
    stack: ExitStack = field(default_factory=ExitStack)

    @property
    def inside(self) -> list[str]:
        return ["nsenter", f"--target={self.pid}", "--mount", "--net", "--pid", "--uts", "--ipc"]

    def env(self) -> dict[str, str]:
        path = ":".join([*map(str, BIN), os.environ["PATH"]])
        return {**os.environ, "PATH": path, "KUBECONFIG": str(self.directory / "admin.kubeconfig"), "HOME": str(self.directory)}

    def start(self, name: str, *words: object) -> None:
        """A process that stays. What it says is in NAME.log."""
        log = self.stack.enter_context((self.directory / f"{name}.log").open("w"))
        command = [*self.inside, *map(str, words)]
        process = subprocess.Popen(command, env=self.env(), stdout=log, stderr=log, cwd=self.directory, process_group=0)
        self.stack.callback(process.wait)
        self.stack.callback(process.kill)

    def component(self, name: str, **flags: object) -> None:
        self.start(name, COMPONENTS, name, *(f"--{flag.replace('_', '-')}={value}" for flag, value in flags.items()))

    def run(self, *words: object, input: str | None = None, check: bool = True) -> str:
        done = subprocess.run(
            [*self.inside, *map(str, words)], env=self.env(), input=input, capture_output=True, text=True, timeout=COMMAND_S
        )
        assert done.returncode == 0 or not check, f"{words}: {done}"
        return done.stdout

    def kubectl(self, *words: object, input: str | None = None, check: bool = True) -> str:
        return self.run(COMPONENTS, "kubectl", *words, input=input, check=check)

    def says(self, *words: str) -> bool:
        """Whether kubectl answers at all."""
        return bool(self.kubectl(*words, check=False))

    def import_image(self, archive: Path) -> None:
        self.run("ctr", f"--address={SOCKET}", "--namespace=k8s.io", "images", "import", archive)

    # --- its parts

    def make_node(self) -> None:
        script = SETUP.format(service=SERVICE_IP, node=NODE_IP)
        spaces = [
            "--mount",
            "--net",
            "--pid",
            "--uts",
            "--ipc",
            "--fork",
            "--kill-child",
            "--mount-proc",
            "--propagation=private",
        ]
        command = ["unshare", *spaces, "sh", "-euc", script, str(self.directory)]
        process = self.stack.enter_context(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
        self.stack.callback(process.kill)
        assert process.stdout and process.stdout.readline() == "ready\n"
        self.pid = int(Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text())

    def start_control_plane(self) -> None:
        d = self.directory
        self.component("etcd", data_dir=d / "etcd", unsafe_no_fsync="true")
        self.component(
            "kube-apiserver", etcd_servers="http://127.0.0.1:2379", secure_port=443, advertise_address=NODE_IP, cert_dir=d,
            tls_cert_file=d / "server.crt", tls_private_key_file=d / "server.key", client_ca_file=d / "ca.crt",
            service_account_issuer="https://kubernetes.default.svc", service_account_key_file=d / "accounts.pub",
            service_account_signing_key_file=d / "accounts.key", service_cluster_ip_range="10.96.0.0/24",
            authorization_mode="Node,RBAC", enable_admission_plugins="NodeRestriction",
            kubelet_client_certificate=d / "admin.crt", kubelet_client_key=d / "admin.key", kubelet_preferred_address_types="InternalIP",
        )  # fmt: skip
        kernel.eventually(lambda: self.says("get", "--raw", "/readyz"), STARTS_S, f"the API server answers: {d}")
        self.component(
            "kube-controller-manager", kubeconfig=d / "controllers.kubeconfig", leader_elect="false", root_ca_file=d / "ca.crt",
            service_account_private_key_file=d / "accounts.key", use_service_account_credentials="true", cert_dir=d,
        )  # fmt: skip
        self.component("kube-scheduler", kubeconfig=d / "scheduler.kubeconfig", leader_elect="false", cert_dir=d)

    def start_node(self) -> None:
        d = self.directory
        (d / "cni").mkdir()
        (d / "cni/10-pods.conflist").write_text(json.dumps(NETWORK))
        (d / "containerd.toml").write_text(CONTAINERD.format(directory=d, socket=SOCKET, pause=PAUSE, cni=CNI))
        (d / "kubelet.yaml").write_text(yaml.safe_dump(kubelet_config(d)))
        self.start("containerd", "containerd", "--config", d / "containerd.toml")
        ctr = ("ctr", f"--address={SOCKET}", "version")
        kernel.eventually(lambda: bool(self.run(*ctr, check=False)), STARTS_S, "containerd answers")

    def start_kubelet(self) -> None:
        d = self.directory
        self.component(
            "kubelet", config=d / "kubelet.yaml", kubeconfig=d / "node.kubeconfig", hostname_override=NODE, node_ip=NODE_IP,
            root_dir=d / "kubelet", cert_dir=d,
        )  # fmt: skip
        ready = ("get", "node", NODE, '--output=jsonpath={.status.conditions[?(@.type=="Ready")].status}')
        kernel.eventually(lambda: self.kubectl(*ready, check=False) == "True", STARTS_S, f"the node is ready: {d}")


def hierarchies() -> list[Path]:
    """Where a kubelet makes cgroups on this host: in each hierarchy."""
    mounts = [line.split() for line in Path("/proc/self/mounts").read_text().splitlines()]
    return list(dict.fromkeys(Path(where) for _, where, kind, *_ in mounts if kind in ("cgroup", "cgroup2")))


@contextmanager
def cluster(directory: Path) -> Iterator[Cluster]:
    """The control plane and containerd; without images, and before the kubelet."""
    assert COMPONENTS.exists(), "`make cluster` builds the components of Kubernetes first"
    assert not (MOUNT / "kubepods").exists(), "a kubelet is at work here"
    make_certificates(directory)
    for user in USERS:
        write_kubeconfig(directory, user)
    made = Cluster(directory)
    try:
        with made.stack:
            made.make_node()
            made.start_control_plane()
            made.start_node()
            yield made
    finally:
        for top in hierarchies():
            if (top / "kubepods").exists():
                remove_cgroup(top / "kubepods")
        shutil.rmtree(directory / "containerd", ignore_errors=True)
