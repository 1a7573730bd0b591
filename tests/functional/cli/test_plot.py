# SPDX-License-Identifier: GPL-2.0-only
"""`flows --record` and `plot`: what is recorded, what the picture shows, and the errors for files of another kind."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import signal
import struct
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from matplotlib.figure import Figure
from numpy import asarray

from tests.functional import kernel
from tests.functional.conftest import Cli
from tests.functional.records import record

PYTHON = {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}  # the one that has matplotlib
S = 10**9


@pytest.fixture
def plotting(watching: Cli) -> Cli:
    return Cli(watching.root, PYTHON, watching.command)


@pytest.fixture(scope="module")
def plot() -> Iterator[ModuleType]:
    spec = importlib.util.spec_from_file_location("ccbpf_plot", kernel.ROOT / "loader/cmd/plot.py")
    assert spec and spec.loader
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    yield module
    del sys.modules[spec.name]


def flow(**fields: Any) -> dict[str, Any]:
    ends = {"local_addr": "192.0.2.1", "local_port": 40_000, "remote_addr": "192.0.2.2", "remote_port": 22}
    counters = {"bytes_acked": 0, "losses": 0, "marks": 0, "indications": 0}
    record = {"key": 1, "started_ns": 4 * S, "controller": "le", "cwnd": 10, "delay_us": 0, "delay_threshold_us": 4000}
    return {**record, **ends, **counters, **fields}


def samples(path: Path, *each: list[dict[str, Any]]) -> Path:
    """One a second."""
    path.write_text("".join(f"{json.dumps({'time_ns': n * S, 'flows': flows})}\n" for n, flows in enumerate(each, 5)))
    return path


def texts(svg: Path) -> set[str]:
    """matplotlib draws text as shapes, and leaves it in a comment."""
    ET.parse(svg)
    return set(re.findall(r"<!-- (.*?) -->", svg.read_text()))


def test_a_recording_becomes_a_picture(plotting: Cli, flows: kernel.Map, tmp_path: Path) -> None:
    file, key = tmp_path / "recorded", struct.pack("=Q", 1)
    flows.update(key, record(cwnd=41, bytes_acked=1000, remote_port=2222))
    process = plotting.popen("flows", "--record", file, "--watch", "0.05")
    kernel.eventually(lambda: file.exists() and file.read_text().count("\n") >= 2, 10, "two samples")
    flows.update(key, record(cwnd=20, bytes_acked=9000, remote_port=2222, losses=1))
    seen = file.read_text().count("\n")
    kernel.eventually(lambda: file.read_text().count("\n") > seen + 1, 10, "two more")
    process.send_signal(signal.SIGINT)
    assert process.wait(10) == 0
    found = [json.loads(line)["flows"][0]["cwnd"] for line in file.read_text().splitlines()]
    assert set(found) == {41, 20} and found == sorted(found, reverse=True)
    assert file.stat().st_mode & 0o777 == 0o600, "addresses are in it"
    assert plotting("plot", file).out == f"{file}.svg\n"
    assert {"tcp_lp to 0.0.0.0:2222", "loss"} <= texts(Path(f"{file}.svg"))


@pytest.mark.parametrize("form", ["png", "pdf"])
def test_the_name_says_which_form(plotting: Cli, tmp_path: Path, form: str) -> None:
    file = samples(tmp_path / "in", [flow()], [flow(bytes_acked=1000)])
    plotting("plot", file, "--output", tmp_path / f"out.{form}")
    assert (tmp_path / f"out.{form}").read_bytes().startswith({"png": b"\x89PNG", "pdf": b"%PDF"}[form])


def test_rates_are_of_what_was_acknowledged(plot: ModuleType) -> None:
    docs = [{"time_ns": (5 + n) * S, "flows": [flow(bytes_acked=n * n * 125_000)]} for n in range(4)]
    (found,) = plot.gather(docs)
    assert found.rates() == ([1, 2, 3], pytest.approx([1, 3, 5]))
    assert found.curve("delay_threshold_us", 1e-3) == ([0, 1, 2, 3], [4, 4, 4, 4])


def test_the_curves_are_what_was_recorded(plot: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Rate, window as steps with a mark at each loss, delay and threshold in milliseconds."""
    drawn: list[Figure] = []
    monkeypatch.setattr(Figure, "savefig", lambda figure, _: drawn.append(figure))
    each = [(10, 1000, 0, 0), (20, 9000, 125_000, 0), (5, 2500, 375_000, 1)]
    docs = [{"time_ns": (5 + n) * S, "flows": [flow(cwnd=cwnd, delay_us=delay, bytes_acked=acked, losses=losses)]}
            for n, (cwnd, delay, acked, losses) in enumerate(each)]  # fmt: skip
    plot.draw(plot.gather(docs), tmp_path / "none.svg")
    curves = [[asarray(line.get_xydata()).tolist() for line in axis.lines] for axis in drawn[0].axes]
    rates, (window, loss), (delay, threshold) = curves[0][0], [c for c in curves[1] if c], curves[2]
    assert rates == [[1, pytest.approx(1)], [2, pytest.approx(2)]]  # Mbit/s
    assert (window, loss) == ([[0, 10], [1, 20], [2, 5]], [[2, 5]])
    assert (delay, threshold) == ([[0, 1], [1, 9], [2, 2.5]], [[0, 4], [1, 4], [2, 4]])
    assert drawn[0].axes[1].lines[0].get_drawstyle() == "steps-post"


def test_a_key_that_comes_again_is_another_flow(plot: ModuleType) -> None:
    """It is the address of a socket. The second flow begins at 0 bytes, on another port."""
    first, second = ([flow(bytes_acked=base + n * 125_000) for n in range(3)] for base in (1_000_000, 0))
    for later in second:
        later.update(started_ns=8 * S, local_port=40_001)
    docs = [{"time_ns": n * S, "flows": [each]} for n, each in enumerate([*first, *second], 5)]
    found = plot.gather(docs)
    assert [each.carried for each in found] == [250_000, 250_000]
    assert [each.rates()[1] for each in found] == [pytest.approx([1, 1])] * 2


def test_events_are_exact_and_without_them_the_counters_speak(plot: ModuleType) -> None:
    docs: list[dict[str, Any]] = [
        {"time_ns": 5 * S, "flows": [flow()]},
        {"time_ns": 7 * S, "flows": [flow(losses=2, indications=1)]},
    ]
    assert sorted(plot.gather(docs)[0].met) == [(2, "indications"), (2, "losses")]
    assert plot.gather([*docs, event(6, flow())])[0].met == [(1, "losses")]
    for other in ({"remote_port": 23}, {"remote_addr": "192.0.2.3"}, {"local_addr": "192.0.2.3"}, {"key": 2}):
        assert plot.gather([*docs, event(6, flow(**other))])[0].met == [], f"of a flow that no sample has: {other}"


def event(at_s: int, of: dict[str, Any]) -> dict[str, Any]:
    """A loss of a flow."""
    ends = {name: value for name, value in of.items() if "addr" in name or "port" in name}
    return {"type": "loss", "time_ns": at_s * S, "flow": of["key"], **ends}


OTHERS: dict[str, dict[str, Any]] = {  # a flow that shares the ports with the first
    "of another remote address": {"key": 2, "remote_addr": "192.0.2.3"},
    "of another local address": {"key": 2, "local_addr": "192.0.2.3"},
    "in another network namespace": {"key": 2},
    "after it": {"started_ns": 7 * S},
}


@pytest.mark.parametrize("which", OTHERS)
def test_flows_that_share_ports_have_their_own_events(plot: ModuleType, which: str) -> None:
    first, second = flow(bytes_acked=1), flow(**OTHERS[which])
    docs = [{"time_ns": 5 * S, "flows": [first, second]}, {"time_ns": 9 * S, "flows": [{**first, "bytes_acked": 2}, second]}]
    found = plot.gather([*docs, event(6, first), event(8, second)])
    assert [one.met for one in found] == [[(1, "losses")], [(3, "losses")]]


def test_the_flows_that_carried_the_most_are_drawn(plotting: Cli, tmp_path: Path) -> None:
    each = [[flow(key=n, remote_port=1000 + n, bytes_acked=n * at) for n in range(20)] for at in (0, 1000)]
    plotting("plot", samples(tmp_path / "in", *each))
    found = texts(tmp_path / "in.svg")
    assert {t for t in found if " to " in t} == {f"le to 192.0.2.2:{1000 + n}" for n in range(12, 20)}
    assert "the 8 of 20 flows that carried the most" in found


def test_half_a_last_line_is_of_a_recording_that_was_killed(plotting: Cli, tmp_path: Path) -> None:
    file = samples(tmp_path / "in", [flow()], [flow()])
    file.write_text(file.read_text() + '{"time_ns": 7, "fl')
    plotting("plot", file)
    assert texts(tmp_path / "in.svg")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("x\n", "in:1: this is not JSON (record with `ccbpf flows --record FILE`)"),
        ("[]\n", "in:1: this is neither a sample of flows nor an event (no `time_ns`)"),
        (
            '{"time_ns": 1, "flows": []}\n{"time_ns": "2"}\n',
            "in:2: this is neither a sample of flows nor an event (no `time_ns`)",
        ),
        ('{"time_ns": 1, "flows": [{"key": 1}]}\n', "a sample lacks a field of a flow"),
        ('{"time_ns": 1, "flows": 5}\n', "a sample lacks a field of a flow"),
        ('{"time_ns": 1, "flows": []}\n', "in: no flow was there while it was recorded"),
        ("", "in: no flow was there while it was recorded"),
        ("\udcff\n", "in: it is no text"),
    ],
)
def test_other_files(plotting: Cli, tmp_path: Path, text: str, why: str) -> None:
    (tmp_path / "in").write_bytes(text.encode(errors="surrogateescape"))
    assert why in plotting("plot", tmp_path / "in", code=1).err
    assert not (tmp_path / "in.svg").exists()


def test_errors_are_json_too(plotting: Cli, tmp_path: Path) -> None:
    error = json.loads(plotting("-j", "plot", tmp_path / "none", code=1).err)["error"]
    assert error["what"] == "plot" and error["why"] == f"{tmp_path / 'none'}: No such file or directory"


def test_where_it_cannot_be_written(plotting: Cli, tmp_path: Path) -> None:
    file = samples(tmp_path / "in", [flow()], [flow()])
    assert "No such file or directory" in plotting("plot", file, "--output", tmp_path / "none/out.svg", code=1).err
    assert (
        "no picture has the form `.doc`: name it .svg, .png or .pdf"
        in plotting("plot", file, "--output", tmp_path / "out.doc", code=1).err
    )
    assert "no file is named" in plotting("plot", code=2).err


def test_without_python_or_matplotlib(hooks: Cli, tmp_path: Path) -> None:
    file = samples(tmp_path / "in", [flow()], [flow()])
    for said, why in (("", "there is no python3"), ("#!/bin/sh\nexit 3\n", "python3 finds no matplotlib")):
        bin_ = tmp_path / f"bin{len(said)}"
        bin_.mkdir()
        if said:
            (bin_ / "python3").write_text(said)
            (bin_ / "python3").chmod(0o755)
        err = Cli(hooks.root, {"PATH": str(bin_)}, hooks.command)("plot", file, code=1).err
        assert why in err and ("ccbpf-tools" if not said else "python3-matplotlib") in err


def test_a_python_that_fails_without_a_word(hooks: Cli, tmp_path: Path) -> None:
    file, python = samples(tmp_path / "in", [flow()], [flow()]), tmp_path / "python3"
    python.write_text("#!/bin/sh\nexit 1\n")
    python.chmod(0o755)
    err = Cli(hooks.root, {"PATH": str(tmp_path)}, hooks.command)("plot", file, code=1).err
    tool = hooks.command.resolve().parent / "plot.py"
    assert err == f"ccbpf: cannot plot: python3 failed and printed nothing; run `python3 -I {tool} {file}.svg FILE` to see why\n"


def test_without_the_tool(hooks: Cli, tmp_path: Path) -> None:
    """The command alone, as in a package of its own; and where the other package has the tool."""
    command = tmp_path / "usr/sbin/ccbpf"
    command.parent.mkdir(parents=True)
    shutil.copy(hooks.command, command)
    alone, file = Cli(hooks.root, PYTHON, command), samples(tmp_path / "in", [flow()], [flow()])
    assert "install the package ccbpf-tools" in alone("plot", file, code=1).err
    assert "install the package ccbpf-tools" in alone("trace", "--plot", tmp_path / "x.svg", code=1).err
    tool = tmp_path / "usr/share/ccbpf/plot.py"
    tool.parent.mkdir(parents=True)
    shutil.copy(kernel.ROOT / "loader/cmd/plot.py", tool)
    alone("plot", file)


# --- trace --plot ---


@pytest.fixture
def recorded(tmp_path: Path) -> Path:
    """A python3 that keeps the recording which it is given to draw."""
    copy = tmp_path / "bin/python3"
    copy.parent.mkdir()
    copy.write_text(f'#!/bin/sh\n[ -z "$4" ] || cp "$4" {tmp_path}/recorded\nexec {sys.executable} "$@"\n')
    copy.chmod(0o755)
    return tmp_path / "recorded"


def test_a_trace_becomes_a_picture(
    ccbpf: Cli, recorded: Path, tmp_path: Path, netns_pair: tuple[kernel.Namespace, kernel.Namespace]
) -> None:
    """Samples of the flows, and their events: of the controller that is named."""
    a, b = netns_pair
    cli = Cli(ccbpf.root, {"PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}"}, ccbpf.command)
    cli("enable", "tcp_lp", "nf_tcp")
    device = a.run("sh", "-c", "ls /sys/class/net | grep -v lo").stdout.split()[0]
    a.run("tc", "qdisc", "add", "dev", device, "root", "tbf", "rate", "20mbit", "burst", "5k", "limit", "10k")
    picture = tmp_path / "picture.svg"
    out = (tmp_path / "out").open("w+")
    process = cli.popen("trace", "tcp_lp", "--plot", picture, "-j", "--pretty", stdout=out, stderr=subprocess.PIPE)
    with kernel.Sink(b, "10.77.0.2") as sink:
        listener = kernel.eventually(
            lambda: (cli.root / "listener").exists() and kernel.Map.by_pin(cli.root / "listener"), 10, "it"
        )
        kernel.eventually(lambda: int.from_bytes(listener.lookup(bytes(4)) or b"", "little") > 1, 10, "the trace listens")
        listener.close()
        with a.socket() as sock, a.socket() as other:
            for one, name in ((sock, "tcp_lp"), (other, "nf_tcp")):
                kernel.choose(one, name)
                one.connect(sink.address)
            sock.sendall(bytes(1 << 20))
            kernel.eventually(lambda: sink.received >= 1 << 20, 10, "all is received")
            port = sock.getsockname()[1]
    process.send_signal(signal.SIGINT)
    assert process.wait(20) == 0, process.stderr and process.stderr.read()
    docs = [json.loads(line) for line in recorded.read_text().splitlines()]
    ports = {record["local_port"] for doc in docs for record in doc.get("flows", [])}
    assert ports == {port}, "not that of nf_tcp"
    events = [doc["type"] for doc in docs if "type" in doc]
    assert events[0] == "opened" and "loss" in events
    out.seek(0)
    assert len(events) == out.read().count('"type"'), "those that were shown"
    assert process.stderr and f"the picture is {picture}" in process.stderr.read()
    assert {"tcp_lp to 10.77.0.2:" + str(sink.address[1]), "loss"} <= texts(picture)


def test_nobody_traces_in_vain(enabled: Cli, tmp_path: Path) -> None:
    """What the picture lacks is said before, and a picture that is there is not touched."""
    cli = Cli(enabled.root, PYTHON, enabled.command)
    (tmp_path / "d.svg").mkdir()
    for name, why in (("none/x.svg", "No such file"), ("x.doc", "no picture has the form"), ("d.svg", "Is a directory")):
        err = cli("trace", "--plot", tmp_path / name, code=1).err
        assert "cannot trace" in err and why in err and "events" not in err
    old = tmp_path / "old.svg"
    old.write_text("mine")
    err = cli("trace", "--plot", old, "--for", "0.1", code=1).err
    assert f"{old}: there was no flow while the trace ran; start the transfer first" in err
    assert old.read_text() == "mine"
    short = Cli(enabled.root, {**PYTHON, "TMPDIR": str(tmp_path / "none")}, enabled.command)
    assert "No such file or directory; set TMPDIR" in short("trace", "--plot", old, code=1).err


def test_nothing_of_the_working_directory_is_run(plotting: Cli, tmp_path: Path) -> None:
    file = samples(tmp_path / "in", [flow()], [flow()])
    (tmp_path / "json.py").write_text("raise SystemExit('mine')")
    plotting("plot", file, cwd=tmp_path)
    assert texts(tmp_path / "in.svg")


@pytest.mark.parametrize("where", ["none/file", "."])
def test_a_recording_that_cannot_be(plotting: Cli, tmp_path: Path, where: str) -> None:
    err = plotting("flows", "--record", tmp_path / where, code=1).err
    assert f"cannot record {tmp_path / where}" in err and err.endswith("; make its directory, or name another file\n")
