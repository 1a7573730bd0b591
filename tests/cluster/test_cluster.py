# SPDX-License-Identifier: GPL-2.0-only
"""docs/kubernetes.md, done on a cluster: the manifest as it is, the pods that it makes, annotations, logs, and the removal."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.cgroups import MOUNT
from tests.cluster.cluster import NODE_IP, PAUSE, STARTS_S, Cluster, cluster
from tests.functional import kernel
from tests.functional.rules.background import default
from tests.functional.rules.test_kubernetes import MANIFEST, container, documents
from tests.hard.image import IMAGE, Buildah, make_image
from tests.hard.machine import build, of_command

PORT = 7007
SINK = f"import socket; s = socket.create_server(('0.0.0.0', {PORT})); held = [s.accept() for _ in iter(int, 1)]"
CONNECTS = f"while :; do exec 3<>/dev/tcp/{NODE_IP}/{PORT}; sleep 1; done"  # one connection a second, held for as long
FOLLOWS_S = 30.0
CAPABILITIES = Path("/usr/include/linux/capability.h")
OF_SYSTEM = "--namespace=kube-system"
APPLY = (OF_SYSTEM, "exec", "daemonset/ccbpf", "--container=apply", "--")


def manifest() -> str:
    """As it is, but for a host where version 2 of the cgroups is mounted elsewhere."""
    text = MANIFEST.read_text()
    named = "hostPath: {path: /sys/fs/cgroup, type: Directory}"
    assert text.count(named) == 1
    return text.replace(named, named.replace("/sys/fs/cgroup", str(MOUNT)))


def image_of_manifest() -> str:
    name: str = container("apply")["image"]
    return name


@pytest.fixture(scope="module")
def node(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A cluster whose node has the image of this working tree."""
    directory = tmp_path_factory.mktemp("cluster")
    archives = make_archives(directory / "image")
    (directory / "run").mkdir()
    request.getfixturevalue("registry_lock")
    with cluster(directory / "run") as made:
        for archive in archives:
            made.import_image(archive)
        made.start_kubelet()
        made.start("sink", "/usr/bin/python3", "-c", SINK)
        yield made


def make_archives(directory: Path) -> list[Path]:
    """The image under the name that the manifest has, and one for the container that holds the namespaces of a pod."""
    directory.mkdir()
    with Buildah.of(directory / "storage") as buildah:
        make_image(buildah, of_command(build(directory / "deb")), directory / "context")
        pause = buildah("from", IMAGE)
        buildah("config", "--cmd", "sleep infinity", pause)
        buildah("commit", "--quiet", pause, "pause")
        found = []
        for own, name in ((IMAGE, image_of_manifest()), ("pause", PAUSE)):
            found.append(directory / f"{own}.tar")
            buildah("push", "--quiet", own, f"docker-archive:{found[-1]}:{name}")
        return found


def follows(holds: Callable[[], bool], what: str) -> None:
    kernel.eventually(holds, FOLLOWS_S, what)


def pod(name: str, **annotations: str) -> str:
    """One that connects, of no class of service but the lowest."""
    one = {"name": "c", "image": image_of_manifest(), "command": ["bash", "-c", CONNECTS]}
    meta = {"name": name, "annotations": {f"ccbpf/{key}": value for key, value in annotations.items()}}
    spec = {"containers": [one], "terminationGracePeriodSeconds": 0}
    return json.dumps({"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec})


def chosen(node: Cluster, name: str) -> str:
    """The controller of the pod's newest connection."""
    shown = node.kubectl("exec", name, "--", "ss", "-Htin", "state", "established", f"dport = :{PORT}", check=False).splitlines()
    return shown[-1].split()[0] if len(shown) > 1 else ""


def rules(node: Cluster) -> dict[str, str]:
    """Controller by cgroup, of the rules of pods."""
    listed = json.loads(node.kubectl(*APPLY, "ccbpf", "-j", "assign", "list"))["rules"]
    return {rule["cgroup"]: rule["controller"] for rule in listed if rule["pod"]}


def effective(node: Cluster, name: str) -> set[str]:
    """The capabilities that the container's process has."""
    status = node.kubectl(OF_SYSTEM, "exec", "daemonset/ccbpf", f"--container={name}", "--", "cat", "/proc/1/status")
    (mask,) = re.findall(r"^CapEff:\s+(\w+)", status, re.M)
    names = dict(re.findall(r"^#define CAP_(\w+)\s+(\d+)$", CAPABILITIES.read_text(), re.M))
    return {name for name, bit in names.items() if int(mask, 16) >> int(bit) & 1}


def test_the_api_server_takes_the_manifest(node: Cluster) -> None:
    said = node.kubectl("apply", "--server-side", "--validate=strict", "--filename=-", input=manifest())
    kinds = [kind.lower() for kind in documents()]
    assert [line.split("/")[0].split(".")[0] for line in said.splitlines()] == kinds
    assert all(line.endswith(" serverside-applied") for line in said.splitlines())
    node.kubectl(OF_SYSTEM, "rollout", "status", "daemonset/ccbpf", f"--timeout={STARTS_S:.0f}s")


def test_the_account_may_list_pods_and_nothing_else(node: Cluster) -> None:
    account = "--as=system:serviceaccount:kube-system:ccbpf"
    for verb, kind, may in (("list", "pods", "yes"), ("watch", "pods", "yes"), ("get", "pods", "no"), ("list", "secrets", "no"),
                            ("create", "pods", "no"), ("list", "nodes", "no")):  # fmt: skip
        assert node.kubectl("auth", "can-i", verb, kind, "--all-namespaces", account, check=False).strip() == may, (verb, kind)


def test_the_containers_may_what_the_manifest_says(node: Cluster) -> None:
    assert effective(node, "list") == set()
    assert effective(node, "apply") == set(container("apply")["securityContext"]["capabilities"]["add"])


def test_an_annotation_gives_a_controller(node: Cluster) -> None:
    """From `kubectl` to a connection of the pod; a change is followed, and the rule ends with the pod."""
    node.kubectl("apply", "--filename=-", input=pod("early", controller="le"))
    node.kubectl("apply", "--filename=-", input=pod("plain"))
    node.kubectl("wait", "--for=condition=Ready", "pod/early", "pod/plain", f"--timeout={STARTS_S:.0f}s")
    follows(lambda: chosen(node, "early") == "le", "the annotation of a new pod")
    assert chosen(node, "plain") == default()
    uid = node.kubectl("get", "pod", "early", "--output=jsonpath={.metadata.uid}")
    ((cgroup, controller),) = rules(node).items()
    assert uid in cgroup and controller == "le" and (MOUNT / cgroup.removeprefix("/")).is_dir()

    node.kubectl("annotate", "pod", "plain", "ccbpf/controller=tcp_lp")
    follows(lambda: chosen(node, "plain") == "tcp_lp", "an annotation that comes")
    node.kubectl("annotate", "pod", "plain", "--overwrite", "ccbpf/controller=ltcp")
    follows(lambda: chosen(node, "plain") == default(), "an annotation that is refused")
    log = partial(node.kubectl, OF_SYSTEM, "logs", "daemonset/ccbpf", "--container=apply")
    follows(lambda: "default/plain: ltcp is reserved for root" in log(), "the log")
    node.kubectl("delete", "pod", "early")
    follows(lambda: rules(node) == {}, "the rule ends with its pod")
    node.kubectl("delete", "pod", "plain")


def test_the_config_map(node: Cluster) -> None:
    """Of all nodes: it is followed."""
    node.kubectl("apply", "--filename=-", input=pod("plain"))
    node.kubectl("wait", "--for=condition=Ready", "pod/plain", f"--timeout={STARTS_S:.0f}s")
    text = '[[rule]]\ncgroup = "/kubepods/besteffort"\ncontroller = "tcpw_lp"\n'
    patch = {"data": {"ccbpf.toml": text}}
    node.kubectl(OF_SYSTEM, "patch", "configmap", "ccbpf", f"--patch={json.dumps(patch)}")
    kernel.eventually(lambda: chosen(node, "plain") == "tcpw_lp", 120.0, "a rule of the file")
    node.kubectl("delete", "pod", "plain")


def test_the_removal(node: Cluster) -> None:
    """As the page has it: the DaemonSet ends what runs, and then goes itself."""
    page = (kernel.ROOT / "docs/kubernetes.md").read_text().split("## Remove", 1)[1]
    (patch,) = re.findall(r"--patch='(\[.*?\])'", page, re.S)
    node.kubectl(OF_SYSTEM, "patch", "daemonset", "ccbpf", "--type=json", f"--patch={patch}")
    node.kubectl(OF_SYSTEM, "rollout", "status", "daemonset/ccbpf", f"--timeout={STARTS_S:.0f}s")
    follows(lambda: "ccbpf" not in node.run("ls", "/sys/fs/bpf").split(), "nothing is pinned")
    node.kubectl("delete", "--filename=-", input=manifest())
    assert not kernel.available() & {"le", "tcp_lp", "tcpw_lp"}
