# SPDX-License-Identifier: GPL-2.0-only
"""docs/kubernetes.md: rules by the annotation of pods, on cgroups as a kubelet makes them by either driver; and the manifest: what its
two containers do, with their capabilities, beside an API server. A kill amid `apply --pods` is in tests/hard/test_kubernetes.py."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cgroups import MOUNT
from tests.functional import kernel
from tests.functional.conftest import Cli
from tests.functional.rules.background import BACKGROUND, Sinks, default
from tests.functional.rules.kubelet import ANNOTATION, DRIVERS, NODE, TOKEN, Api, Pod, kubelet, pod_list

KUBERNETES = kernel.ROOT / "packaging/kubernetes"
MANIFEST = KUBERNETES / "ccbpf.yaml"
FOLLOWS_S = 20.0  # a change of an annotation, on a busy machine

# Pods of whose annotation nothing comes, and what is said; "": nothing.
REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "no controller": ({"annotations": {ANNOTATION: "reno"}}, "there is no controller `reno`"),
    "of root": ({"annotations": {ANNOTATION: "ltcp"}}, "ltcp is reserved for root"),
    "empty": ({"annotations": {ANNOTATION: ""}}, "there is no controller ``"),
    "a number": ({"annotations": {ANNOTATION: 7}}, "there is no controller `?`"),
    "two lines": ({"annotations": {ANNOTATION: 'le"\n[[rule]]\nnot = true\x1b[31m'}}, "there is no controller `le\"?[[rule]]?not = true?[31m`"),
    "a NUL": ({"annotations": {ANNOTATION: "le\0"}}, "there is no controller `?`"),
    "long": ({"annotations": {ANNOTATION: "x" * 100_000}}, f"there is no controller `{'x' * 64}`"),
    "other case": ({"annotations": {"ccbpf/Controller": "le"}}, ""),
    "a list": ({"annotations": [ANNOTATION, "le"]}, ""),
    "no annotations": ({"annotations": None}, ""),
    "a path": ({"uid": "../../kubepods.slice/../../../../etc/x", "annotations": {ANNOTATION: "le"}}, "etc/x` is not a Kubernetes UID"),
    "a part of a uid": ({"uid": "6c1f2d3e", "annotations": {ANNOTATION: "le"}}, "its uid `6c1f2d3e` is not a Kubernetes UID"),
    "no uid": ({"uid": None, "annotations": {ANNOTATION: "le"}}, "it has no uid"),
    "names": ({"name": "a\x1b[2J" + "b" * 10_000, "namespace": [], "annotations": {ANNOTATION: "x"}}, "there is no controller `x`"),
}  # fmt: skip
NO_LISTS = ("", "{", "null", "[]", '{"kind": "Status", "code": 403}', pod_list(kind="NodeList"), pod_list()[:-2] + "},",
            '{"kind": "PodList", "items": {}}', '{"kind": "PodList", "metadata": {"continue": "x"}, "items": []}',
            "[" * 100_000, '{"kind": "PodList", "items": ' + "[" * 100 + "]" * 100 + "}")  # fmt: skip


def documents() -> dict[str, Any]:
    return {document["kind"]: document for document in yaml.safe_load_all(MANIFEST.read_text())}


def pod() -> dict[str, Any]:
    spec: dict[str, Any] = documents()["DaemonSet"]["spec"]["template"]["spec"]
    return spec


def container(name: str) -> dict[str, Any]:
    (found,) = [one for one in pod()["containers"] if one["name"] == name]
    return dict(found)


def test_the_manifest_fits_together() -> None:
    of_kind = documents()
    config, spec = of_kind["ConfigMap"], of_kind["DaemonSet"]["spec"]
    assert spec["selector"]["matchLabels"] == spec["template"]["metadata"]["labels"]
    account = of_kind["ServiceAccount"]["metadata"]
    assert (
        account["namespace"] == config["metadata"]["namespace"] == of_kind["DaemonSet"]["metadata"]["namespace"] == "kube-system"
    )
    binding = of_kind["ClusterRoleBinding"]
    assert binding["subjects"] == [{"kind": "ServiceAccount", "name": account["name"], "namespace": "kube-system"}]
    assert (
        binding["roleRef"]["name"] == of_kind["ClusterRole"]["metadata"]["name"]
        and pod()["serviceAccountName"] == account["name"]
    )
    assert of_kind["ClusterRole"]["rules"] == [{"apiGroups": [""], "resources": ["pods"], "verbs": ["list", "watch"]}]
    lists, applies = container("list"), container("apply")
    assert lists["image"] == applies["image"] and pod()["containers"][1] == applies, "docs/kubernetes.md, Remove"
    volumes = {volume["name"]: volume for volume in pod()["volumes"]}
    mounts = {one["name"]: {mount["name"]: mount for mount in one["volumeMounts"]} for one in (lists, applies)}
    assert mounts["list"].keys() == {"pods", "token"} and mounts["apply"].keys() == volumes.keys() - {"token"}
    assert not pod()["automountServiceAccountToken"]
    assert volumes["config"]["configMap"]["name"] == config["metadata"]["name"]
    (file,) = config["data"]
    shared = mounts["list"]["pods"]["mountPath"]
    assert mounts["apply"]["pods"]["mountPath"] == shared and mounts["apply"]["pods"]["readOnly"]
    assert lists["command"] == ["ccbpf-pods", "list", f"{shared}/list.json"]
    assert applies["command"] == [
        "ccbpf-pods",
        "apply",
        f"{shared}/list.json",
        f"{mounts['apply']['config']['mountPath']}/{file}",
    ]
    assert mounts["apply"]["cgroup"]["mountPath"] == volumes["cgroup"]["hostPath"]["path"]
    assert volumes["bpf"]["hostPath"]["path"] == "/sys/fs/bpf" != mounts["apply"]["bpf"]["mountPath"]
    assert applies["env"] == [{"name": "CCBPF_PIN_ROOT", "value": f"{mounts['apply']['bpf']['mountPath']}/ccbpf"}]
    for context in (lists["securityContext"], applies["securityContext"]):
        assert context["capabilities"]["drop"] == ["ALL"] and not context["allowPrivilegeEscalation"]
        assert context["readOnlyRootFilesystem"] and "privileged" not in context
    assert lists["securityContext"]["runAsNonRoot"] and "add" not in lists["securityContext"]["capabilities"]


# --- ccbpf apply --pods ----------------------------------------------------------------------------------------------


class Node:
    """The cgroups of some pods, and the command with a list of them and a file."""

    def __init__(self, cli: Cli, sinks: Sinks, driver: str, directory: Path) -> None:
        self.cli, self.sinks, self.driver = cli, sinks, driver
        self.file = directory / "ccbpf.toml"
        self.write("")

    def write(self, text: str) -> None:
        self.file.write_text(text)
        self.file.chmod(0o644)

    def apply(self, text: str, code: int = 0) -> list[str]:
        """What it says on stderr."""
        return self.cli("apply", "--pods", "-", self.file, input=text, code=code).err.splitlines()

    def rules(self) -> dict[str, str]:
        """Controller by path of the cgroup, of the rules of pods."""
        return {rule["cgroup"]: rule["controller"] for rule in self.cli("-j", "assign", "list").json["rules"] if rule["pod"]}

    def wanted(self, *pods: Pod) -> dict[str, str]:
        return {f"/{pod.cgroup(self.driver)}": pod.annotations[ANNOTATION] for pod in pods}

    def chosen(self, pod: Pod) -> str:
        """The controller of a connection of the pod's container."""
        enter = ("sh", "-c", f'echo $$ > {pod.container(self.driver)}/cgroup.procs; exec "$@"', "sh")
        return kernel.run(*enter, *self.sinks.client("4", 10)).stdout.split()[0]


PODS = (
    Pod(1, "besteffort", {ANNOTATION: "le"}),
    Pod(2, "burstable", {ANNOTATION: "tcp_lp", "kubernetes.io/config.source": "api"}),
    Pod(3, "guaranteed", {ANNOTATION: "tcpw_lp"}),
)
PLAIN = Pod(4, "burstable")
ELSEWHERE = Pod(5, "burstable", {ANNOTATION: "reno"})  # no cgroup of this node


@pytest.fixture(params=DRIVERS)
def node(request: pytest.FixtureRequest, ccbpf: Cli, sinks: Sinks, tmp_path: Path) -> Iterator[Node]:
    with kubelet(request.param, *PODS, PLAIN):
        yield Node(ccbpf, sinks, request.param, tmp_path)


def test_an_annotation_gives_a_controller(node: Node) -> None:
    """In each class of service, by either driver. It is followed when it changes, and ends with the pod."""
    listed = [pod.whole() for pod in (*PODS, PLAIN, ELSEWHERE)]
    assert node.apply(pod_list(*listed)) == []
    assert node.rules() == node.wanted(*PODS)
    assert [node.chosen(pod) for pod in PODS] == ["le", "tcp_lp", "tcpw_lp"]
    assert node.chosen(PLAIN) == kernel.run(*node.sinks.client("4", 10)).stdout.split()[0] == default()

    random.Random(1).shuffle(listed)
    again = node.cli("-j", "apply", "--pods", "-", node.file, input=pod_list(*listed)).json
    assert again["changes"] == [], "in any order"
    metadata = [{"metadata": pod.metadata()} for pod in PODS]
    assert (
        node.cli("-j", "apply", "--pods", "-", node.file, input=pod_list(*metadata, kind="PartialObjectMetadataList")).json
        == again
    )

    first, second, third = PODS
    changed = replace(first, annotations={ANNOTATION: "tcp_lp"})
    node.apply(pod_list(changed.whole(), replace(second, annotations={}).whole(), third.whole()))
    assert node.rules() == node.wanted(changed, third)
    assert (node.chosen(first), node.chosen(second)) == ("tcp_lp", default())
    third.container(node.driver).rmdir()
    (MOUNT / third.cgroup(node.driver)).rmdir()
    node.apply(pod_list(changed.whole(), third.whole()))
    assert node.rules() == node.wanted(changed), "the pod has ended, and is still in the list"
    assert set(node.cli.status()) == {"tcp_lp"}, "what no pod wants any more is disabled"
    node.cli("apply", node.file)
    assert not node.cli("-j", "assign", "list").json["rules"] and not node.cli.status()


def test_what_is_wrong_in_one_pod_is_its_own_affair(node: Node) -> None:
    """One line for each, and nothing of it reaches the terminal or another rule."""
    bad = [{"metadata": {**PLAIN.metadata(), "name": name, **metadata}} for name, (metadata, _) in REFUSED.items()]
    strange: list[Any] = [None, 7, "le", [], {}, {"metadata": None}, {"metadata": {"annotations": {ANNOTATION: {"a": "le"}}}}]
    said = node.apply(pod_list(*bad, *strange, PODS[0].whole(), *bad, PODS[0].whole(), PODS[1].whole()))
    assert node.rules() == node.wanted(*PODS[:2])
    words = [why for _, why in REFUSED.values() if why]
    assert len(said) == 2 * len(words) + 2, said  # with a strange one without a uid, and the one that is there twice
    for line, why in zip(said, words, strict=False):
        assert line.startswith("ccbpf: pod ") and why in line and line.isprintable() and len(line) < 500
    assert said[-1] == "ccbpf: pod default/pod-1: it is in the list already"


@pytest.mark.parametrize("text", NO_LISTS, ids=range(len(NO_LISTS)))
def test_what_is_no_list_changes_nothing(ccbpf: Cli, tmp_path: Path, text: str) -> None:
    node = Node(ccbpf, sinks=None, driver="systemd", directory=tmp_path)  # type: ignore[arg-type]
    node.write('[[rule]]\nremote = "192.0.2.7"\nnot = true\n')
    (said,) = node.apply(text, code=1)
    assert said.startswith("ccbpf: cannot apply the list of pods: ") and said.endswith("GET /api/v1/pods")
    assert not ccbpf.root.exists()


def test_a_pod_beside_other_rules(node: Node) -> None:
    """Its own rule wins over that of a slice; a rule of the file or one made by hand for the same cgroup wins over the annotation."""
    first, second, third = PODS
    path = f"/{second.cgroup(node.driver)}"
    top = "/" + third.cgroup(node.driver).parts[0]
    node.write(f'[[rule]]\ncgroup = "{top}"\ncontroller = "hstcp_lp"\n[[rule]]\ncgroup = "{path}"\nnot = true\n')
    node.cli("assign", "tcpw_lp", "--cgroup", f"pod:{first.uid}")
    said = node.apply(pod_list(*(pod.whole() for pod in PODS)))
    assert said == [
        "ccbpf: pod default/pod-2: the file has a rule for its cgroup",
        "ccbpf: pod default/pod-1: rule 1, made by hand, gives it tcpw_lp",
    ]
    assert node.rules() == node.wanted(third)
    assert [node.chosen(pod) for pod in (*PODS, PLAIN)] == ["tcpw_lp", default(), "tcpw_lp", "hstcp_lp"]
    assert [row.split()[1] for row in node.cli("assign", "list").out.splitlines()[1:5]] == ["file", "hand", "pod", "file"]
    node.cli("assign", "remove", "1")
    node.apply(pod_list(first.whole()))
    assert node.rules() == node.wanted(first)


# --- the manifest ----------------------------------------------------------------------------------------------------

# What the container runtime mounts, in a mount namespace: $0 is a directory with the account's files and what the volumes hold.
MOUNTS = """
mount -t tmpfs tmpfs /run
mkdir -p /run/secrets/kubernetes.io/serviceaccount /run/pods /run/config /run/bin
cp "$0/account/"* /run/secrets/kubernetes.io/serviceaccount
cp "$0/ccbpf-pods" /run/bin
mount --bind "$0/pods" /run/pods
mount --bind "$0/config" /run/config
"""
LIST = MOUNTS + 'export PATH=/run/bin:$PATH; exec setpriv --reuid 65534 --regid 65534 --clear-groups --inh-caps=-all "$@"'
# A network of its own, no sysctls, cgroups that cannot be written, no token.
APPLY = """
rm /run/secrets/kubernetes.io/serviceaccount/token
mount --bind /proc/sys /proc/sys; mount -o remount,bind,ro /proc/sys
mount --rbind "$1" /sys/fs/cgroup; mount -o remount,bind,ro /sys/fs/cgroup
shift
export PATH=/run/bin:$PATH
exec setpriv "$@"
"""


class Containers:
    """The two containers of the DaemonSet's pod, as the manifest has them."""

    def __init__(self, cli: Cli, api: Api, directory: Path) -> None:
        self.directory, self.cli, self.api = directory, cli, api
        self.log = directory / "log"
        for name in ("account", "pods", "config"):
            (directory / name).mkdir()
        (directory / "pods").chmod(0o777)
        (directory / "account/token").write_text(TOKEN)
        shutil.copy(api.certificate, directory / "account/ca.crt")
        shutil.copy(KUBERNETES / "pods.sh", directory / "ccbpf-pods")
        # as the kubelet mounts a ConfigMap
        (directory / "config/ccbpf.toml").symlink_to("..data/ccbpf.toml")
        (directory / "config/..data").mkdir()
        self.configure(documents()["ConfigMap"]["data"]["ccbpf.toml"])
        own = directory / "ccbpf"
        own.write_text(f'#!/bin/sh\nexec {cli.command} "$@"\n')
        own.chmod(0o755)

    def configure(self, text: str) -> None:
        real = self.directory / "config/..data/ccbpf.toml"
        real.write_text(text)
        real.chmod(0o444)

    def command(self, name: str, *instead: str, without: str = "") -> list[str]:
        """What the runtime starts: the container's command, or another one in its place; perhaps without a capability."""
        given = [
            word.replace("/pods/", "/run/pods/").replace("/etc/ccbpf/", "/run/config/") for word in container(name)["command"]
        ]
        if name == "list":
            words = ["unshare", "--mount", "sh", "-euc", LIST, str(self.directory), "--bounding-set=-all"]
        else:
            add = container(name)["securityContext"]["capabilities"]["add"]
            capabilities = ",".join(f"+{capability.lower()}" for capability in add if capability != without)
            spaces = ["--cgroup", "--mount", "--net", "--pid", "--fork", "--kill-child", "--mount-proc"]
            script = MOUNTS + 'cp "$0/ccbpf" /run/bin\n' + APPLY
            bounding = f"--bounding-set=-all,{capabilities}"
            words = ["unshare", *spaces, "sh", "-euc", script, str(self.directory), str(MOUNT), bounding]
        return [*words, "--no-new-privs", *(instead or given)]

    @contextmanager
    def running(self, *names: str) -> Iterator[None]:
        service = {"KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": str(self.api.port), "NODE_NAME": NODE}
        with ExitStack() as stack, self.log.open("a") as log:
            for name in names:
                env = {**self.cli.env(), **(service if name == "list" else {})}
                words = ["setpriv", "--pdeathsig", "KILL", *self.command(name)]
                process = stack.enter_context(subprocess.Popen(words, env=env, stdout=log, stderr=log, process_group=0))
                stack.callback(partial(os.killpg, process.pid, 9))
            yield


@pytest.fixture
def api(tmp_path: Path) -> Iterator[Api]:
    server = Api(tmp_path)
    yield server
    server.close()


def test_what_the_daemonset_does_on_a_node(ccbpf: Cli, sinks: Sinks, api: Api, tmp_path: Path) -> None:
    first, second, _ = PODS
    late = Pod(6, "burstable", {ANNOTATION: "tcp_lp"})
    wrong = replace(PLAIN, annotations={ANNOTATION: "nonsense"})
    with kubelet("systemd", first, second, PLAIN):
        node = Node(ccbpf, sinks, "systemd", tmp_path)
        containers = Containers(ccbpf, api, tmp_path)
        follows: Callable[[Callable[[], bool], str], Any] = lambda holds, what: kernel.eventually(holds, FOLLOWS_S, what)  # noqa: E731
        api.set(first, wrong)
        with containers.running("list", "apply"):
            follows(lambda: node.rules() == node.wanted(first), f"the annotation: {containers.log.read_text()}")
            assert (node.chosen(first), node.chosen(PLAIN)) == ("le", default())
            api.set(first, second, wrong, late)
            follows(lambda: node.rules() == node.wanted(first, second), "an annotation that came")
            late.container("systemd").mkdir(parents=True)
            follows(lambda: node.rules() == node.wanted(first, second, late), "a pod that starts after it was listed")
            assert node.chosen(late) == "tcp_lp"
            said = containers.log.read_text()
            assert said.count("nonsense") == 1 and TOKEN not in said, said
        api.set(second, late)
        api.broken = True
        assert node.rules() == node.wanted(first, second, late), "killed, and the rules stay"
        with containers.running("list", "apply"):
            follows(lambda: "500" in containers.log.read_text(), "what the API server answers is said")
            assert node.rules() == node.wanted(first, second, late), "an API server that fails changes nothing"
        api.broken = False
        with containers.running("list", "apply"):
            follows(lambda: node.rules() == node.wanted(second, late), "both were killed, and go on")
            containers.configure('[[rule]]\ncgroup = "slice:kubepods-besteffort.slice"\n')
            follows(lambda: node.chosen(first) == BACKGROUND, "the ConfigMap")
            containers.configure("[controller.tcp_lp]\ndefault = true\n")
            follows(lambda: "Read-only file system" in containers.log.read_text(), "what a container cannot change")
            assert node.chosen(late) == "tcp_lp"
        kernel.run(*containers.command("apply", "ccbpf", "clean", "--all"), env=ccbpf.env())
        assert node.chosen(late) == default() and not ccbpf.root.exists()
    assert api.refused == []


@pytest.mark.parametrize("capability", container("apply")["securityContext"]["capabilities"]["add"])
def test_each_capability_of_the_daemonset_is_needed(ccbpf: Cli, api: Api, tmp_path: Path, capability: str) -> None:
    """Without one of them a changed file is not applied, and the error names the capability; the rules stay."""
    containers = Containers(ccbpf, api, tmp_path)
    apply = ("ccbpf", "apply", "/run/config/ccbpf.toml")

    def apply_rule(port: int, without: str = "") -> subprocess.CompletedProcess[str]:
        containers.configure(f"[[rule]]\nremote-port = {port}\n")
        words = containers.command("apply", *apply, without=without)
        return subprocess.run(words, env=ccbpf.env(), capture_output=True, text=True)

    def ports() -> list[str]:
        return [rule["remote-port"] for rule in ccbpf("-j", "assign", "list").json["rules"]]

    done = apply_rule(1001)
    before = ports()
    assert done.returncode == 0 and len(before) == 1, done.stderr
    refused = apply_rule(1002, without=capability)
    assert refused.returncode != 0 and f"cap_{capability.lower()}" in refused.stderr, refused.stderr
    assert ports() == before
    assert apply_rule(1002).returncode == 0 and ports() != before
