# SPDX-License-Identifier: GPL-2.0-only
"""The image of packaging/kubernetes/Containerfile, built by buildah without a registry and without a runtime for containers."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.functional import kernel
from tests.functional.rules.test_kubernetes import KUBERNETES
from tests.hard.machine import MINIMAL, make_minimal

IMAGE = "ccbpf-of-the-test"
BUILD_S = 300.0


class Buildah:
    """The command, with a storage of its own."""

    def __init__(self, directory: Path) -> None:
        self.options = ("--root", directory / "root", "--runroot", directory / "run", "--storage-driver", "overlay")

    def __call__(self, *words: object) -> str:
        command = ["buildah", *map(str, (*self.options, *words))]
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=BUILD_S, env={**os.environ, "BUILDAH_ISOLATION": "chroot"}
        )
        assert done.returncode == 0, f"{words}: {done}"
        return done.stdout.strip()

    @classmethod
    @contextmanager
    def of(cls, storage: Path) -> Iterator[Buildah]:
        """Its storage is removed at the end of the block."""
        command = cls(storage)
        yield command
        command("umount", "--all")
        command("rm", "--all")
        kernel.run("umount", "--quiet", storage / "root/overlay", check=False)
        shutil.rmtree(storage)


@pytest.fixture
def buildah(tmp_path: Path) -> Iterator[Buildah]:
    with Buildah.of(tmp_path / "storage") as command:
        yield command


def make_image(buildah: Buildah, package: Path, context: Path) -> None:
    """IMAGE, from a minimal system of this release in the place of one from a registry."""
    if not MINIMAL.exists():
        make_minimal()
    base = buildah("from", "scratch")
    buildah("add", "--quiet", base, MINIMAL)
    buildah("commit", "--quiet", base, "base")
    buildah("rm", base)

    for path, to in ((package, "build/deb"), (KUBERNETES / "pods.sh", "packaging/kubernetes")):
        (context / to).mkdir(parents=True)
        shutil.copy(path, context / to)
    release = platform.freedesktop_os_release()
    target = f"{release['VERSION_CODENAME']}-backports" if release["VERSION_ID"] == "12" else ""
    arguments = ("--build-arg", "BASE=localhost/base", "--build-arg", f"TARGET={target}")
    buildah("build", "--quiet", *arguments, "--file", KUBERNETES / "Containerfile", "--tag", IMAGE, context)
