# SPDX-License-Identifier: GPL-2.0-only
"""packaging/kubernetes: the manifest is valid by the schemas of Kubernetes, the image can be built and has what the manifest runs; and
`ccbpf apply --pods`, killed before each of its changes. What the manifest does on a node: tests/functional/rules/test_kubernetes.py."""

from __future__ import annotations

import json
import subprocess
from dataclasses import replace
from pathlib import Path
from zipfile import ZipFile

import pytest
import yaml

from tests.functional import kernel
from tests.functional.conftest import Cli
from tests.functional.rules.background import Sinks
from tests.functional.rules.kubelet import ANNOTATION, kubelet, pod_list
from tests.functional.rules.test_kubernetes import MANIFEST, PODS, Node
from tests.hard.image import IMAGE, Buildah, buildah, make_image
from tests.hard.machine import Machine, of_command
from tests.packaging import run

TOOLS = kernel.ROOT / ".cache/kubernetes"  # of packaging/deps.sh
VERSIONS = ("1.25.0", "1.31.0", "1.37.0")  # the oldest of the package, one between, the newest


# --- the manifest ----------------------------------------------------------------------------------------------------


def schemas(version: str, to: Path) -> None:
    """Each as one file: kubeconform does not follow the references of kubernetes-validate to its common file."""
    kinds = {(one["kind"].lower(), one["apiVersion"]) for one in yaml.safe_load_all(MANIFEST.read_text())}
    names = [f"{kind}-{api.split('.')[0].replace('/', '-')}{'-v1' if '.' in api else ''}.json" for kind, api in kinds]
    (wheel,) = TOOLS.glob("kubernetes_validate-*.whl")
    with ZipFile(wheel) as packed:
        room = f"kubernetes_validate/kubernetes-json-schema/v{version}-local-strict"
        common = json.loads(packed.read(f"{room}/_definitions.json"))["$defs"]
        for name in names:
            schema = json.loads(packed.read(f"{room}/{name}").replace(b'"/api/_definitions.json#', b'"#'))
            del schema["$id"]
            (to / name).write_text(json.dumps({**schema, "$defs": common}))


@pytest.mark.parametrize("version", VERSIONS)
def test_the_manifest_is_valid(version: str, tmp_path: Path) -> None:
    schemas(version, tmp_path)

    def validate(text: str) -> subprocess.CompletedProcess[str]:
        command = [
            TOOLS / "kubeconform",
            "-strict",
            "-schema-location",
            f"{tmp_path}/{{{{.ResourceKind}}}}{{{{.KindSuffix}}}}.json",
            "-",
        ]
        return subprocess.run([str(word) for word in command], input=text, capture_output=True, text=True)

    text = MANIFEST.read_text()
    done = validate(text)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    for good, bad in (("runAsUser: 0", "runAsUsr: 0"), ("cpu: 1m", "cpu: [1m]"), ('verbs: ["list", "watch"]', "verbs: list")):
        assert good in text and validate(text.replace(good, bad)).returncode == 1


# --- the image -------------------------------------------------------------------------------------------------------


@pytest.mark.xdist_group("registry")  # where the other tests are that need the packages
def test_the_image(packages: dict[str, Path], buildah: Buildah, pin_root: Path, tmp_path: Path) -> None:
    """Built from a minimal system of this release in the place of one from a registry, and used."""
    make_image(buildah, of_command(packages), tmp_path / "context")
    image = Machine(Path(buildah("mount", buildah("from", IMAGE))), pin_root)
    version = run(kernel.ROOT / "build/ccbpf", "version")
    assert image("ccbpf version") == version
    assert json.loads(image("ccbpf -j check"))["ok"]
    image.write("/etc/ccbpf.toml", '[[rule]]\nremote = "192.0.2.7"\n')
    said = image(f"echo '{pod_list()}' | ccbpf apply --pods -")
    assert "+ rule 1: le --remote 192.0.2.7" in said
    image("ccbpf clean --all")
    commands = {one["command"][0] for one in next(
        document for document in yaml.safe_load_all(MANIFEST.read_text()) if document["kind"] == "DaemonSet"
    )["spec"]["template"]["spec"]["containers"]}  # fmt: skip
    assert commands == {"ccbpf-pods"}
    assert image("for command in ccbpf-pods ccbpf curl; do command -v $command; done; ccbpf-pods || echo $?").endswith(
        "curl\n2\n"
    )
    assert not list(image.root.glob("tmp/*")) and not list(image.root.glob("var/lib/apt/lists/*_Packages"))


# --- killed ----------------------------------------------------------------------------------------------------------


def test_killed_before_each_change(ccbpf: Cli, sinks: Sinks, kill_at: Path, tmp_path: Path) -> None:
    """The rules are the old ones or the new ones, and the next one finishes."""
    first, second, third = PODS
    list_of_new = tmp_path / "new.json"
    with kubelet("systemd", *PODS):
        node = Node(replace(ccbpf, command=kernel.ROOT / "build/ccbpf"), sinks, "systemd", tmp_path)
        node.write("".join(f"[controller.{pod.annotations[ANNOTATION]}]\n" for pod in PODS))  # only rules come and go
        old, new = pod_list(first.whole(), second.whole()), pod_list(replace(first, annotations={}).whole(), third.whole())
        list_of_new.write_text(new)
        node.apply(old)
        for at in node.cli.killed_at_every_step(kill_at, "apply", "--pods", list_of_new, node.file):
            assert node.rules() in (node.wanted(first, second), node.wanted(third)), at
            node.apply(new)
            assert node.rules() == node.wanted(third), at
            node.apply(old)
            assert node.rules() == node.wanted(first, second), at
