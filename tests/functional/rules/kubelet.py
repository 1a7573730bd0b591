# SPDX-License-Identifier: GPL-2.0-only
"""For the tests of pods: the cgroups that a kubelet makes, and the part of an API server that lists pods."""

from __future__ import annotations

import json
import os
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.cgroups import MOUNT, remove_cgroup
from tests.functional import kernel

DRIVERS = ("systemd", "cgroupfs")
ANNOTATION = "ccbpf/controller"
NODE = "node-1.example"
TOKEN = "eyJhbGciOiJSUzI1NiJ9.token-of-the-test"
FORMATS = {
    "list": "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
    "watch": "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1",
}


@dataclass
class Pod:
    """One of a class of service: guaranteed, burstable or besteffort."""

    number: int
    service: str = "besteffort"
    annotations: dict[str, Any] = field(default_factory=dict)

    @property
    def uid(self) -> str:
        return f"6c1f2d3e-4a5b-4c6d-8e7f-{os.getpid() % 10**8:08d}{self.number:04d}"

    def cgroup(self, driver: str) -> Path:
        """Of the pod, below the root."""
        between = "" if self.service == "guaranteed" else self.service
        if driver == "cgroupfs":
            return Path("kubepods", between, f"pod{self.uid}")
        prefix = "-".join(filter(None, ("kubepods", between)))
        slices = ["kubepods.slice", f"{prefix}.slice"][: 2 if between else 1]
        return Path(*slices, f"{prefix}-pod{self.uid.replace('-', '_')}.slice")

    def container(self, driver: str) -> Path:
        name = "ab" * 32
        return MOUNT / self.cgroup(driver) / (f"cri-containerd-{name}.scope" if driver == "systemd" else name)

    def metadata(self) -> dict[str, Any]:
        """As the API server has it."""
        managed: dict[str, Any] = {"f:metadata": {"f:annotations": {".": {}, f"f:{ANNOTATION}": {}}}}
        return {
            "name": f"pod-{self.number}",
            "namespace": "default",
            "uid": self.uid,
            "resourceVersion": "41",
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": {"app": "test", ANNOTATION: "hstcp_lp"},
            "annotations": self.annotations,
            "managedFields": [
                {"manager": "kubectl", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": managed}
            ],
        }

    def whole(self) -> dict[str, Any]:
        """With what only a PodList has."""
        container = {"name": "c", "image": "x", "env": [{"name": ANNOTATION, "value": "hstcp_lp"}]}
        spec = {"nodeName": NODE, "containers": [container], "restartPolicy": "Always"}
        return {"metadata": self.metadata(), "spec": spec, "status": {"phase": "Running", "qosClass": self.service.capitalize()}}


def pod_list(*items: Any, kind: str = "PodList", **more: Any) -> str:
    version = "v1" if kind == "PodList" else "meta.k8s.io/v1"
    return (
        json.dumps({"kind": kind, "apiVersion": version, "metadata": {"resourceVersion": "42"}, "items": [*items], **more}) + "\n"
    )


@contextmanager
def kubelet(driver: str, *pods: Pod) -> Iterator[None]:
    """The cgroups of these pods, each with one of a container. A pod's own may go meanwhile."""
    top = MOUNT / ("kubepods.slice" if driver == "systemd" else "kubepods")
    assert not top.exists(), "a kubelet is at work here"
    try:
        for pod in pods:
            pod.container(driver).mkdir(parents=True)
        yield
    finally:
        remove_cgroup(top)


class Api:
    """GET /api/v1/pods of an API server, listed and watched, over TLS."""

    def __init__(self, directory: Path) -> None:
        self.certificate, key = directory / "ca.crt", directory / "key"
        make = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=test -addext subjectAltName=IP:127.0.0.1"
        kernel.run("openssl", *make.split(), "-keyout", key, "-out", self.certificate)
        self.pods: dict[int, Pod] = {}
        self.refused: list[str] = []
        self.broken = False  # answers 500
        self._version = 42
        self._changed = threading.Condition()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.certificate, key)
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self.port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def set(self, *pods: Pod) -> None:
        with self._changed:
            self.pods = {pod.number: pod for pod in pods}
            self._version += 1
            self._changed.notify_all()

    def wrong(self, request: BaseHTTPRequestHandler, query: dict[str, list[str]]) -> str:
        kind = "watch" if query.get("watch") == ["true"] else "list"
        asked = {name: request.headers[name] for name in ("Authorization", "Accept")}
        if asked != {"Authorization": f"Bearer {TOKEN}", "Accept": FORMATS[kind]}:
            return f"{asked}"
        if query.get("fieldSelector") != [f"spec.nodeName={NODE}"]:
            return f"{query}"
        return "" if kind == "list" or query["resourceVersion"][0].isdecimal() else f"{query}"

    def _list(self) -> str:
        with self._changed:
            items = [{"metadata": pod.metadata()} for pod in self.pods.values()]
            listed = json.loads(pod_list(*items, kind="PartialObjectMetadataList"))
            listed["metadata"]["resourceVersion"] = str(self._version)
        return json.dumps(listed)

    def _watch(self, request: BaseHTTPRequestHandler, since: int, seconds: float) -> None:
        with self._changed:
            while self._changed.wait_for(lambda: self._version > since, seconds):
                since = self._version
                event = {"type": "MODIFIED", "object": {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1"}}
                request.wfile.write(f"{json.dumps(event)}\n".encode())

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        api = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                url = urlsplit(self.path)
                query = parse_qs(url.query)
                if wrong := "" if url.path == "/api/v1/pods" and not (why := api.wrong(self, query)) else url.path + why:
                    api.refused.append(wrong)
                if wrong or api.broken:
                    self.send_error(403 if wrong else 500)
                    return
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.end_headers()
                if "watch" in query:
                    api._watch(self, int(query["resourceVersion"][0]), float(query["timeoutSeconds"][0]))
                else:
                    self.wfile.write(api._list().encode())

            def log_message(self, format: str, *args: Any) -> None:
                pass

        return Handler
