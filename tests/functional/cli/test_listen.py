# SPDX-License-Identifier: GPL-2.0-only
"""ccbpf metrics --listen: the page is that of `ccbpf metrics`, in the format that was asked for, and the process has no more
privilege than it says. What clients do to it: test_listen_clients.py."""

from __future__ import annotations

import fcntl
import http.client
import json
import os
import re
import shutil
import signal
import socket
import struct
import subprocess
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import parser
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics

from tests.functional import kernel
from tests.functional.cli.exporter import CACHE_S, SCRAPE, SILENCE_S, Exporter, serving
from tests.functional.conftest import BPFFS, Cli

PROMETHEUS = "text/plain; version=0.0.4; charset=utf-8"
OPENMETRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"
CAP_DAC_OVERRIDE, CAP_SYS_PTRACE, CAP_SYS_ADMIN, CAP_BPF = 1, 19, 21, 39
NOBODY = 65534
ENDS_S = 2.0
READING = 1 << CAP_BPF | 1 << CAP_SYS_ADMIN


def families(page: str, type_: str) -> list[Any]:
    """The metric families, read by the parser of that format."""
    parse = parse_openmetrics if type_ == OPENMETRICS else parser.text_string_to_metric_families
    return list(parse(page))


# --- what it answers -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("units", [(), ("--units",)], ids=["", "units"])
def test_the_page_is_what_the_command_prints(everything: Cli, units: tuple[str, ...]) -> None:
    """Although the process has given up what names a cgroup by its id."""
    with serving(everything, *units) as exporter:
        assert_may(exporter, READING)
        plain, open_ = everything("metrics", *units).out, everything("metrics", "--format", "openmetrics", *units).out
        assert exporter.page() == plain
        assert exporter.page(Accept=SCRAPE) == open_
        names = ["controller_enabled", "live_flows{", "rule_connections_set_total{", "rule_live_flows{", "run_connections",
                 "queue_packets"]  # fmt: skip
        for name in [*names, *(("unit_flows_total{", "unit_live_flows{") if units else ())]:
            assert f"ccbpf_{name}" in plain, name
        assert units or "ccbpf_unit" not in plain
        for page, type_ in ((plain, PROMETHEUS), (open_, OPENMETRICS)):
            assert len(families(page, type_)) > 20


def test_it_is_gathered_once_a_second(ccbpf: Cli) -> None:
    """A change of a counter shows after a second, and not before."""
    ccbpf("enable", "tcp_lp")
    lp = kernel.pinned(ccbpf.root, "tcp_lp")
    counts = struct.pack("=Q", 7).ljust(kernel.ffi.sizeof("struct ccbpf_stats"), b"\0") * kernel.POSSIBLE_CPUS
    with serving(ccbpf) as exporter:
        before = exporter.page()
        lp.maps["stats"].update(struct.pack("=I", lp.kind), counts)
        assert exporter.page() == before
        kernel.eventually(lambda: exporter.page() != before, 5 * CACHE_S, "it is gathered anew")
        assert exporter.page() == ccbpf("metrics").out


@pytest.mark.parametrize(
    "words, accept, type_",
    [
        ((), None, PROMETHEUS),
        ((), "*/*", PROMETHEUS),
        ((), "text/plain", PROMETHEUS),
        ((), SCRAPE, OPENMETRICS),
        ((), "Application/OpenMetrics-Text", OPENMETRICS),
        (("--format", "openmetrics"), None, OPENMETRICS),
        (("--format", "openmetrics"), "text/plain", OPENMETRICS),
        (("--format", "prometheus"), SCRAPE, PROMETHEUS),
    ],
)
def test_the_format_that_is_asked_for(hooks: Cli, words: tuple[str, ...], accept: str | None, type_: str) -> None:
    with serving(hooks, *words) as exporter:
        response, page = exporter.ask(**{"Accept": accept} if accept else {})
        assert (response.status, response.getheader("Content-Type"), response.getheader("Vary")) == (200, type_, "Accept")
        assert families(page, type_)
        head, nothing = exporter.ask(method="HEAD", **{"Accept": accept} if accept else {})
        names = ("Content-Type", "Content-Length", "Vary")
        assert (head.status, nothing) == (200, "")
        assert [head.getheader(name) for name in names] == [response.getheader(name) for name in names]
        assert int(response.getheader("Content-Length", "0")) == len(page.encode())


def test_other_paths_methods_and_bodies(exporter: Exporter) -> None:
    response, body = exporter.ask("/")
    assert (response.status, body) == (200, "ccbpf: the metrics are at /metrics\n")
    assert exporter.ask("/", "HEAD")[0].status == 200
    assert exporter.ask("/metrics?name=x")[0].status == 200
    for path in ("/metrics/", "/Metrics", "//metrics", "/favicon.ico", "/../etc/passwd", "/%2e%2e/etc/passwd", "/" + "x" * 5000):
        assert exporter.ask(path)[0].status == 404, path
    for method in ("POST", "PUT", "DELETE", "OPTIONS", "TRACE", "PATCH", "X"):
        response, _ = exporter.ask("/metrics", method)
        assert (response.status, response.getheader("Allow")) == (405, "GET, HEAD"), method
    for body_headers in ({"Content-Length": "3"}, {"Transfer-Encoding": "chunked"}):
        response, _ = exporter.ask("/metrics", **body_headers)
        assert (response.status, response.getheader("Connection")) == (413, "close")


def test_a_connection_serves_several_requests(exporter: Exporter) -> None:
    connection = http.client.HTTPConnection(exporter.host, exporter.port, timeout=SILENCE_S)
    connection.sock = exporter.connect()
    ports = set()
    for _ in range(5):
        connection.request("GET", "/metrics")
        assert connection.getresponse().read()
        ports.add(connection.sock.getsockname()[1])
    connection.close()
    assert len(ports) == 1


def test_what_cannot_be_read_is_said_and_not_the_end(ccbpf: Cli) -> None:
    ccbpf("enable", "tcp_lp")
    flows, away = ccbpf.root / "flows", ccbpf.root / "away"
    wrong = f"{flows}: the pin there is not one of this ccbpf"
    with serving(ccbpf, says=rf"(ccbpf: cannot print metrics {wrong}.*\n){{1,2}}") as exporter:
        page = exporter.page()
        flows.rename(away)
        flows.mkdir()
        try:
            time.sleep(CACHE_S)
            response, said = exporter.ask(Accept=SCRAPE)
            assert (response.status, response.getheader("Content-Type")) == (503, "text/plain; charset=utf-8")
            assert wrong in said and "clean --all" in said and said.count("\n") == 1
            assert exporter.ask(Accept=SCRAPE)[1] == said, "said once a second at most"
        finally:
            flows.rmdir()
            away.rename(flows)
        kernel.eventually(lambda: exporter.ask(Accept=SCRAPE)[0].status == 200, 5 * CACHE_S, "it can be read again")
        assert exporter.page() == page


def test_it_waits_for_a_command_that_changes_something(ccbpf: Cli) -> None:
    """That command holds the lock of the pin directory."""
    ccbpf("enable", "tcp_lp")
    answers: list[str] = []
    with serving(ccbpf) as exporter:
        reader = threading.Thread(target=lambda: answers.append(exporter.page()))
        root = os.open(ccbpf.root, os.O_RDONLY | os.O_DIRECTORY)
        fcntl.flock(root, fcntl.LOCK_EX)
        try:
            reader.start()
            reader.join(0.5)
            assert not answers
        finally:
            os.close(root)
        reader.join(5)
        assert answers == [ccbpf("metrics").out]


# --- where it listens ------------------------------------------------------------------------------------------------


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


@pytest.mark.parametrize(
    "form, host",
    [
        ("{}", "127.0.0.1"),
        (":{}", "127.0.0.1"),
        ("127.0.0.1:{}", "127.0.0.1"),
        ("0.0.0.0:{}", "0.0.0.0"),
        ("[::1]:{}", "::1"),
        ("[::]:{}", "::"),
    ],
)
def test_where_it_is_told_to(hooks: Cli, form: str, host: str) -> None:
    port = free_port()
    with serving(hooks, at=form.format(port), host=host) as exporter:
        assert exporter.port == port
        assert exporter.page()
        shown = kernel.run("ss", "-Hltn", f"sport = :{port}").stdout.split()
        assert shown[3] == {"::1": f"[::1]:{port}", "::": f"*:{port}"}.get(host, f"{host}:{port}"), "there and nowhere else"
    with pytest.raises(ConnectionRefusedError):
        exporter.connect()


@pytest.mark.parametrize("at, address, host", [("0", "127.0.0.1", "127.0.0.1"), ("[::1]:0", "::1", "[::1]")])
def test_json_says_where(hooks: Cli, at: str, address: str, host: str) -> None:
    process = hooks.popen("-j", "metrics", "--listen", at, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        assert process.stdout
        said = json.loads(process.stdout.readline())
        assert said == {"url": f"http://{host}:{said['port']}/metrics", "address": address, "port": said["port"]}
        connection = http.client.HTTPConnection(address, said["port"], timeout=SILENCE_S)
        connection.request("GET", "/metrics")
        assert connection.getresponse().status == 200
        process.terminate()
        assert process.communicate(timeout=SILENCE_S) == ("", "") and process.returncode == 0
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize(
    "given",
    ["", ":", "x", "-1", "65536", "99999999999999999999", "9464x", " 9464", "127.0.0.1", "127.0.0.1:", "localhost:9464", "127.1:9464",
     "0x7f.0.0.1:1", "256.0.0.1:1", "::1:9464x", "[::1]", "[::1]9464", "[]:9464", "[127.0.0.1]:9464", "[::1:9464", "[fe80::1%nodev]:9464",
     "x" * 5000 + ":1"],
    ids=lambda given: given[:20],
)  # fmt: skip
def test_what_is_no_address(hooks: Cli, given: str) -> None:
    done = hooks("metrics", "--listen", given, code=2)
    assert "cannot listen at" in done.err and "give PORT (0 to 65535), ADDRESS:PORT" in done.err and not done.out


def test_where_it_cannot(hooks: Cli) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        said = hooks("metrics", "--listen", port, code=1).err
        assert f"127.0.0.1:{port}: another process listens there; `ss -ltnp sport = :{port}` names it" in said
    assert "no such address; `ip address`" in hooks("metrics", "--listen", "192.0.2.1:0", code=1).err
    with kernel.Namespace("m") as namespace:  # whose ports below 1024 are reserved, whatever this host's settings are
        lacks = ("ip", "netns", "exec", namespace.name, "setpriv", "--bounding-set=-net_bind_service")
        assert "cap_net_bind_service" in hooks("metrics", "--listen", "127.0.0.1:9", code=4, prefix=lacks).err
    assert "cap_bpf" in hooks("metrics", "--listen", 0, code=4, prefix=("setpriv", "--bounding-set=-bpf")).err


def test_a_file_or_a_socket(hooks: Cli, tmp_path: Path) -> None:
    said = hooks("metrics", "--listen", 0, "--output", tmp_path / "file", code=2).err
    assert said == "ccbpf: cannot print metrics: --output and --listen exclude each other; give one of them\n"
    assert not list(tmp_path.iterdir())
    assert "prometheus or openmetrics" in hooks("metrics", "--listen", 0, "--format", "xml", code=2).err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_it(hooks: Cli, number: signal.Signals) -> None:
    """Also in the middle of a request, and the port is free at once."""
    with serving(hooks) as exporter, exporter.connect() as sock:
        sock.sendall(b"GET /metrics HTTP/1.1\r\n")
        exporter.page()
        exporter.process.send_signal(number)
        assert exporter.process.wait(SILENCE_S) == 0
        assert sock.recv(1) == b""
        with serving(hooks, at=exporter.port) as again:
            assert again.page()


def has_open(pid: int, path: Path) -> bool:
    with suppress(FileNotFoundError):  # a descriptor that was closed meanwhile
        return any(fd.readlink() == path for fd in Path(f"/proc/{pid}/fd").iterdir())
    return False


def test_a_signal_ends_it_while_it_waits_for_a_page(ccbpf: Cli) -> None:
    """A command holds the lock of the pin directory, for which the reader waits ten seconds at most. The reader ends at once too."""
    ccbpf("enable", "tcp_lp")
    with serving(ccbpf) as exporter, exporter.connect() as sock:
        root = os.open(ccbpf.root, os.O_RDONLY | os.O_DIRECTORY)
        fcntl.flock(root, fcntl.LOCK_EX)
        try:
            sock.sendall(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
            kernel.eventually(lambda: has_open(exporter.reader, ccbpf.root), SILENCE_S, "the reader waits for the lock")
            reader = Path(f"/proc/{exporter.reader}")
            exporter.process.terminate()
            assert exporter.process.wait(ENDS_S) == 0
            assert sock.recv(1) == b""
            kernel.eventually(lambda: not reader.exists(), ENDS_S, "the reader has ended")
        finally:
            os.close(root)


# --- what it may -----------------------------------------------------------------------------------------------------


def assert_may(exporter: Exporter, capabilities: int, user: int = NOBODY) -> None:
    """What listens may do nothing, as another user than root; what reads has these capabilities."""
    for pid, allowed in ((exporter.process.pid, 0), (exporter.reader, capabilities)):
        for key in ("CapPrm", "CapEff"):
            assert exporter.status(key, pid) == allowed, key
        assert exporter.status("CapInh", pid) == exporter.status("CapAmb", pid) == 0
        assert exporter.status("NoNewPrivs", pid) == 1
        assert exporter.status("Threads", pid) == 1
    ids = Path(f"/proc/{exporter.process.pid}/status").read_text()
    for key in ("Uid", "Gid"):
        assert re.search(rf"^{key}:(\s+{user}){{4}}$", ids, re.M), ids
    assert user != NOBODY or re.search(r"^Groups:\s*$", ids, re.M), ids


def test_root_keeps_what_reading_needs(ccbpf: Cli) -> None:
    """And that is enough for all parts of a page: see the first test."""
    ccbpf("enable", "tcp_lp")
    ccbpf("assign", "tcp_lp", "--remote", "192.0.2.0/24")
    with serving(ccbpf) as exporter:
        assert_may(exporter, READING)
        assert exporter.page() == ccbpf("metrics").out


def test_the_sandbox_of_its_unit_is_enough(everything: Cli) -> None:
    """Capabilities and mounts as in packaging/systemd/ccbpf-exporter.service.in."""
    read_only = f"mount --bind {BPFFS} {BPFFS} && mount -o remount,bind,ro {BPFFS}"
    script = f'{read_only} && exec setpriv --bounding-set=-all,+bpf,+sys_admin,+setuid,+setgid --no-new-privs "$@"'
    with serving(everything, "--units", prefix=("unshare", "-m", "sh", "-euc", script, "sh")) as exporter:
        assert_may(exporter, READING)
        assert exporter.page() == everything("metrics", "--units").out


def test_another_user_keeps_what_root_need_not_have(ccbpf: Cli) -> None:
    ccbpf("enable", "tcp_lp")
    ccbpf("assign", "tcp_lp", "--remote", "192.0.2.0/24")
    names = ",".join(f"+{name}" for name in ("bpf", "sys_admin", "dac_override", "net_admin", "perfmon"))
    user = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", f"--inh-caps={names}", f"--ambient-caps={names}")
    with serving(ccbpf, prefix=user) as exporter:
        assert_may(exporter, READING | 1 << CAP_DAC_OVERRIDE)
        assert exporter.page() == ccbpf("metrics").out


def test_without_cap_sys_admin_all_but_rules(ccbpf: Cli) -> None:
    """Without this capability the kernel does not open the maps of a rule by their ids."""
    ccbpf("enable", "tcp_lp")
    with serving(ccbpf, prefix=("setpriv", "--bounding-set=-sys_admin"), says=r"ccbpf: cannot .*rules.*\n") as exporter:
        assert_may(exporter, 1 << CAP_BPF)
        assert exporter.page() == ccbpf("metrics").out
        ccbpf("assign", "tcp_lp", "--remote", "192.0.2.0/24")
        time.sleep(CACHE_S)
        assert exporter.ask()[0].status == 503


def test_in_another_network_namespace(ccbpf: Cli) -> None:
    """`ip netns exec` hides bpffs: the pins are found through a process outside, for which the kernel wants cap_sys_ptrace."""
    ccbpf("enable", "tcp_lp")
    with kernel.Namespace("m") as namespace:
        within = ("ip", "netns", "exec", namespace.name)
        with serving(ccbpf, prefix=within, namespace=namespace.name) as exporter:
            assert_may(exporter, READING | 1 << CAP_SYS_PTRACE)
            assert exporter.page() == ccbpf("metrics").out


def test_each_of_the_two_processes_ends_with_the_other(hooks: Cli) -> None:
    with hooks.popen("metrics", "--listen", 0, stderr=subprocess.PIPE) as process:
        exporter = Exporter(process)
        os.kill(exporter.reader, signal.SIGKILL)
        response, body = exporter.ask()
        assert (response.status, body) == (503, "no page\n")
        assert process.wait(SILENCE_S) == 1
        assert process.stderr and "the process that reads" in process.stderr.read()
    with hooks.popen("metrics", "--listen", 0, stderr=subprocess.PIPE) as process:
        reader = Path(f"/proc/{Exporter(process).reader}")
        process.kill()
        kernel.eventually(lambda: not reader.exists(), SILENCE_S, "the reader reads an end")


def test_a_pin_directory_that_comes_and_goes(ccbpf: Cli) -> None:
    """It neither creates the directory nor keeps it in existence."""
    with serving(ccbpf) as exporter:
        assert exporter.page() and not ccbpf.root.exists()
        ccbpf("enable", "tcp_lp")
        time.sleep(CACHE_S)
        assert "ccbpf_live_flows" in exporter.page()
        ccbpf("disable", "tcp_lp")
        ccbpf("clean", "--all")
        assert not ccbpf.root.exists()
        time.sleep(CACHE_S)
        assert "ccbpf_live_flows" not in exporter.page()
        if ccbpf.root.exists():
            shutil.rmtree(ccbpf.root)


def test_the_library_is_loaded_for_it_alone(hooks: Cli, tmp_path: Path) -> None:
    """It brings GnuTLS along. Where it is missing, the error names the package and the other commands work."""
    needed = kernel.run("readelf", "-d", hooks.command).stdout
    assert "libbpf.so" in needed and "microhttpd" not in needed
    (tmp_path / "libmicrohttpd.so.12").touch()
    without = Cli(hooks.root, {"LD_LIBRARY_PATH": str(tmp_path)}, hooks.command)
    error = without("-j", "metrics", "--listen", "0", code=1).error
    assert error["on"] == "HTTP" and "libmicrohttpd.so.12" in error["why"] and "libmicrohttpd12" in error["remedy"]
    assert without("metrics").out.startswith("# HELP")
