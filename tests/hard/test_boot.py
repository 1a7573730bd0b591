# SPDX-License-Identifier: GPL-2.0-only
"""The package's units and examples under a systemd that boots: an operator enables them before a reboot, and after it everything is
back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.functional import kernel
from tests.functional.rules.background import BACKGROUND, default
from tests.hard.machine import Machine, of_command

SOCKETS = {"echo": 7007, "answer": 7008}  # systemd listens at these ports: a rule names one socket unit, a drop-in the other
RELEASED_S = 60.0  # the kernel takes a name away some time after its last pin

CONFIG = """
[controller.tcp_lp]
set.delta = 100
default = true

[controller.nf_tcp]
ecn = true

[[rule]]
controller = "tcpw_lp"
cgroup = "unit:upload.service"

[[rule]]
controller = "hstcp_lp"
cgroup = "unit:echo.socket"
"""
# Listeners of systemd's own, and units that connect to one of them as soon as they may. Each notes its cgroup and the controllers of
# its connection: its own, and that of the socket that was accepted for it.
SOCKET = "[Socket]\nListenStream=127.0.0.1:{port}\nAccept=yes\n[Install]\nWantedBy=sockets.target\n"
ECHO = "[Service]\nExecStart=/bin/cat\nStandardInput=socket\n"
CONNECT = """
sed -n 's/^0:://p' /proc/self/cgroup >"/cgroup.$1"
exec 3<>/dev/tcp/127.0.0.1/$2
echo hello >&3
read -r answer <&3
ss -Htinp dport = :$2 | grep -A 1 "pid=$$," >"/chosen.$1"
port=$(awk 'NR == 1 { sub(".*:", "", $4); print $4 }' "/chosen.$1")
ss -Htin sport = :$2 dport = :$port >"/accepted.$1"
"""
SERVICE = """
[Unit]
{order}
[Service]
Type=oneshot
ExecStart=/bin/bash -eu /connect %p {port}
[Install]
WantedBy=multi-user.target
"""
BEFORE = """
systemctl --quiet enable --now ccbpf.service ccbpf-metrics.timer ccbpf-exporter.service
ccbpf systemd media.service hstcp_lp
ccbpf systemd answer.socket tcpw_lp
"""
# What the README of the examples says: the slice has backup.service, and archive.service has a drop-in of its own.
EXAMPLES = "/usr/share/doc/ccbpf/examples"
COPY_EXAMPLES = f"""
cd /etc/systemd/system
mkdir backup.service.d archive.service.d
cp -r {EXAMPLES}/background.slice {EXAMPLES}/background.slice.d .
cp {EXAMPLES}/backup.service.d/slice.conf backup.service.d
cp {EXAMPLES}/backup.service.d/50-ccbpf.conf archive.service.d
ccbpf systemd --all
systemctl daemon-reload
systemctl restart backup.service archive.service
"""
OF_EXAMPLES = {"backup": "/background.slice/backup.service", "archive": "/system.slice/archive.service"}
EXPORTER = "/dev/tcp/127.0.0.1/9464"
METRICS = "/var/lib/prometheus/node-exporter/ccbpf.prom"
AFTER = f"""
systemctl start ccbpf-metrics.service
stat -c %a {METRICS}
grep "^ccbpf_controller_enabled.* 1$" {METRICS} | wc -l
until (: <>{EXPORTER}) 2>/dev/null; do sleep 0.1; done
exec 3<>{EXPORTER}
printf 'GET /metrics HTTP/1.0\\r\\n\\r\\n' >&3
grep -c "^ccbpf_controller_enabled.* 1$" <&3
ccbpf -j status >/status
systemctl is-active ccbpf.service ccbpf-units.service ccbpf-metrics.timer ccbpf-exporter.service
systemctl list-units --failed --plain --no-legend
cat /proc/sys/net/ipv4/tcp_congestion_control /proc/sys/net/ipv4/tcp_ecn
"""
UNITS = {  # when it starts, and which socket it connects to
    "backup": ("", "echo"),
    "archive": ("", "echo"),
    "upload": ("After=ccbpf.service", "echo"),
    "media": ("", "echo"),
    "plain": ("After=ccbpf.service", "echo"),
    "early": ("Before=ccbpf.service", "echo"),
    "asks": ("After=ccbpf.service", "answer"),
}


@pytest.fixture
def host(machine: Machine, packages: dict[str, Path]) -> Machine:
    """A host with the package, its configuration, and units that will connect."""
    machine.install(of_command(packages))
    machine.write("etc/ccbpf.toml", CONFIG)
    for name, port in SOCKETS.items():
        machine.write(f"etc/systemd/system/{name}.socket", SOCKET.format(port=port))
        machine.write(f"etc/systemd/system/{name}@.service", ECHO)
    machine.write("connect", CONNECT)
    (machine.root / METRICS.removeprefix("/")).parent.mkdir(parents=True)
    for name, (order, to) in UNITS.items():
        machine.write(f"etc/systemd/system/{name}.service", SERVICE.format(order=order, port=SOCKETS[to]))
    machine(f"systemctl --quiet enable echo.socket answer.socket {' '.join(f'{name}.service' for name in UNITS)}")
    return machine


def controllers_of(host: Machine, end: str) -> dict[str, str]:
    """The controller of this end of each unit's connection: ss has it first in its second line."""
    return {name: (host.root / f"{end}.{name}").read_text().splitlines()[1].split()[0] for name in UNITS}


def cgroups_of_examples(host: Machine) -> dict[str, str]:
    return {name: (host.root / f"cgroup.{name}").read_text().strip() for name in OF_EXAMPLES}


def released() -> bool:
    return not kernel.available() & {"tcp_lp", "hstcp_lp", "tcpw_lp", "nf_tcp", BACKGROUND}


def test_all_is_there_after_a_reboot(host: Machine) -> None:
    said = host.boot(BEFORE + COPY_EXAMPLES)
    first = dict.fromkeys(UNITS, default())
    assert controllers_of(host, "chosen") == {**first, **dict.fromkeys(OF_EXAMPLES, BACKGROUND)}, said
    assert controllers_of(host, "accepted") == {**first, **dict.fromkeys(OF_EXAMPLES, "hstcp_lp")}, said
    assert cgroups_of_examples(host) == OF_EXAMPLES
    kernel.eventually(released, RELEASED_S, "a reboot ends what runs")

    said = host.boot(AFTER)
    assert said.splitlines() == ["644", "5", "5", *["active"] * 4, "tcp_lp", "1"]
    plain = {"plain": "tcp_lp", "early": default(), "asks": "tcp_lp"}
    examples = dict.fromkeys(OF_EXAMPLES, BACKGROUND)
    assert controllers_of(host, "chosen") == {"upload": "tcpw_lp", "media": "hstcp_lp", **plain, **examples}
    assert cgroups_of_examples(host) == OF_EXAMPLES
    accepted = controllers_of(host, "accepted")
    assert {name: accepted[name] for name in ("upload", "plain", "asks")} == {
        "upload": "hstcp_lp",
        "plain": "hstcp_lp",
        "asks": "tcpw_lp",
    }
    status: dict[str, Any] = json.loads((host.root / "status").read_text())
    controllers = {c["name"]: c for c in status["controllers"]}
    assert set(controllers) == {"tcp_lp", "nf_tcp", "tcpw_lp", "hstcp_lp", BACKGROUND}
    assert controllers["tcp_lp"]["params"]["delta"] == 100
    assert [(rule["controller"], rule["cgroup"], rule["file"]) for rule in status["rules"]] == [
        ("tcpw_lp", "unit:upload.service", True),
        ("hstcp_lp", "unit:echo.socket", True),
    ]
    kernel.eventually(released, RELEASED_S, "its end ends what runs")
