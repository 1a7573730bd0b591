# SPDX-License-Identifier: GPL-2.0-only
"""docs/kubernetes.md: the manifest, its command with its configuration and its capabilities, on cgroups as a kubelet makes them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.functional import kernel
from tests.functional.conftest import Cli
from tests.functional.rules.background import BACKGROUND, MOUNT, Sinks, default, remove_cgroup

MANIFEST = kernel.ROOT / "packaging/kubernetes/ccbpf.yaml"
UID = f"6c1f2d3e-4a5b-4c6d-8e7f-{os.getpid():012d}"
# What a runtime gives a container that is not privileged: a network of its own, no sysctls, cgroups that cannot be written.
CONTAINER = 'mount --bind /proc/sys /proc/sys; mount -o remount,bind,ro /proc/sys; mount -o remount,bind,ro "$0"; exec "$@"'


def documents() -> dict[str, Any]:
    return {document["kind"]: document for document in yaml.safe_load_all(MANIFEST.read_text())}


def pod() -> dict[str, Any]:
    spec: dict[str, Any] = documents()["DaemonSet"]["spec"]["template"]["spec"]
    return spec


def test_the_manifest_fits_together() -> None:
    config, daemons = documents()["ConfigMap"], documents()["DaemonSet"]
    spec = daemons["spec"]
    assert spec["selector"]["matchLabels"] == spec["template"]["metadata"]["labels"]
    assert config["metadata"]["namespace"] == daemons["metadata"]["namespace"] == "kube-system"
    (apply,), (wait,) = pod()["initContainers"], pod()["containers"]
    assert apply["image"] == wait["image"]
    volumes = {volume["name"]: volume for volume in pod()["volumes"]}
    mounts = {mount["name"]: mount for mount in apply["volumeMounts"]}
    assert volumes.keys() == mounts.keys() and "volumeMounts" not in wait
    assert volumes["config"]["configMap"]["name"] == config["metadata"]["name"]
    (file,) = config["data"]
    assert apply["command"] == ["ccbpf", "apply", f"{mounts['config']['mountPath']}/{file}"]
    assert mounts["cgroup"]["mountPath"] == volumes["cgroup"]["hostPath"]["path"]
    assert volumes["bpf"]["hostPath"]["path"] == "/sys/fs/bpf" != mounts["bpf"]["mountPath"]
    assert apply["env"] == [{"name": "CCBPF_PIN_ROOT", "value": f"{mounts['bpf']['mountPath']}/ccbpf"}]
    for container in (apply, wait):
        context = container["securityContext"]
        assert context["capabilities"]["drop"] == ["ALL"] and not context["allowPrivilegeEscalation"]
        assert "privileged" not in context
    assert wait["securityContext"]["runAsNonRoot"] and "add" not in wait["securityContext"]["capabilities"]


@pytest.fixture
def scope() -> Iterator[Path]:
    """A container's cgroup in a pod without requests, by the kubelet's systemd driver."""
    top = MOUNT / "kubepods.slice"
    assert not top.exists(), "a kubelet is at work here"
    of_pod = f"kubepods-besteffort-pod{UID.replace('-', '_')}.slice"
    scope = top / "kubepods-besteffort.slice" / of_pod / f"cri-containerd-{'ab' * 32}.scope"
    scope.mkdir(parents=True)
    yield scope
    remove_cgroup(top)


def test_what_the_manifest_does_on_a_node(ccbpf: Cli, sinks: Sinks, scope: Path, tmp_path: Path) -> None:
    (apply,) = pod()["initContainers"]
    capabilities = ",".join(f"+{name.lower()}" for name in apply["securityContext"]["capabilities"]["add"])
    file = tmp_path / "ccbpf.toml"
    file.symlink_to("..data/ccbpf.toml")  # as the kubelet mounts a ConfigMap
    real = tmp_path / "..data/ccbpf.toml"
    real.parent.mkdir()
    own = scope.with_name("cri-containerd-of-ccbpf.scope")
    own.mkdir()
    enter = ("sh", "-euc", 'echo $$ >"$0/cgroup.procs"; exec "$@"', str(own))
    namespaces = ("unshare", "--cgroup", "--mount", "--net", "--pid", "--fork", "--mount-proc")
    runtime = (*enter, *namespaces, "sh", "-euc", CONTAINER, str(MOUNT))
    within = (*runtime, "setpriv", f"--bounding-set=-all,{capabilities}")

    def applied(text: str, code: int = 0) -> str:
        real.write_text(text)
        real.chmod(0o444)
        done = ccbpf(*apply["command"][1:-1], file, prefix=within, code=code)
        return done.err if code else done.out

    def chosen() -> str:
        enter = ("sh", "-c", f'echo $$ > {scope}/cgroup.procs; exec "$@"', "sh")
        return kernel.run(*enter, *sinks.client("4", 10)).stdout.split()[0]

    config = documents()["ConfigMap"]["data"]["ccbpf.toml"]
    assert f"+ rule 1: {BACKGROUND} --cgroup slice:kubepods-besteffort.slice" in applied(config)
    assert chosen() == BACKGROUND
    assert kernel.run(*sinks.client("4", 10)).stdout.split()[0] == default()
    assert "Read-only file system" in applied(f"{config}\n[controller.tcp_lp]\ndefault = true\n", code=1)
    assert chosen() == BACKGROUND

    ccbpf("assign", "tcpw_lp", "--cgroup", f"pod:{UID}")
    assert chosen() == "tcpw_lp"
    ccbpf("assign", "remove", "2")
    applied("")
    assert chosen() == default() and not ccbpf("-j", "assign", "list").json["rules"]
