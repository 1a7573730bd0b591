# SPDX-License-Identifier: GPL-2.0-only
"""Each figure of `ccbpf top`, and the test that compares it with a source that is not ccbpf. Where there is none (what only a
controller knows), the source is a record that the test writes."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from tests.functional import kernel

HERE = Path(__file__).parent
TOP = kernel.ROOT / "loader/top"

Sources = dict[str, tuple[str, str, str]]  # figure: (source, file, test)

SS = ("ss", "test_top.py", "test_figures_of_real_flows_are_those_of_ss")
SOCKET = ("the socket's addresses and TCP_CONGESTION", *SS[1:])
RATE = ("iperf3", "test_figures.py", "test_the_rate_of_iperf3_and_the_queue_of_tc")
QUEUE = ("the backlog that tc has", *RATE[1:])
CLOCK = ("the clock of the test", "test_totals.py", "test_yielded_seconds_are_the_time_in_such_a_phase")
RECORD = "a record that the test writes"
LOSSES = ("nstat and ss", "test_sources.py", "test_losses_are_those_of_nstat_and_ss")
MARKS = ("packets with CWR, by tcpdump; delivered_ce of ss", "test_sources.py", "test_marks_are_those_of_tcpdump_nstat_and_ss")
DETAIL = (RECORD, "test_top_detail.py", "test_it_says_all_that_flows_says")
CURVES = (RECORD, "test_top_detail.py", "test_curves")

TOP_SOURCES: Sources = {
    **dict.fromkeys(("CONTROLLER", "LOCAL", "REMOTE"), SOCKET),
    **dict.fromkeys(("CWND", "SRTT ms"), SS),
    "BIT/S": RATE,
    "DELAY ms": QUEUE,
    "DELAY": (RECORD, "test_top.py", "test_80_by_24"),
    "PHASE": (RECORD, "test_top.py", "test_80_by_24"),
    "YIELD": (RECORD, "test_top.py", "test_what_a_flow_yields_to_and_for_how_long"),
    **dict.fromkeys(("FOR", "PART"), CLOCK),
    "AGE": ("the clock of the test", *DETAIL[1:]),
    "INDIC": DETAIL,
    **dict.fromkeys(("LOSSES", "RETRANS"), LOSSES),
    "MARKS": MARKS,
    "CGROUP": ("/proc of the processes", "../rules/test_top_groups.py", "test_groups_of_batches"),
    "PROCESS": ("/proc of the processes", "../rules/test_top_groups.py", "test_groups_of_batches"),
    **dict.fromkeys(("detail: rate", "detail: window", "detail: delay"), CURVES),
    **dict.fromkeys(("detail: acknowledged", "detail: last round trip"), DETAIL),
    "detail: delivery rate": ("TCP_INFO", "../flow/test_records.py", "test_record_of_a_socket"),
    **{
        f"sum: {name}": ("the flows that the test writes", "test_top_detail.py", "test_a_flow_that_has_ended_is_shown_for_a_while_and_is_in_no_sum")
        for name in ("flow", "bit/s", "yield", "ended")
    },
}  # fmt: skip


def named_tests(file: Path) -> set[str]:
    """The tests of a module, by name."""
    found = {node.name for node in ast.parse(file.read_text()).body if isinstance(node, ast.FunctionDef)}
    return {name for name in found if name.startswith("test_")}


def titles() -> list[str]:
    """Of the columns, also of those of groups in batches; that of controllers is one of both."""
    of_flows = re.findall(r'^\t\{ "([^"]+)", +\d+,', (TOP / "columns.c").read_text(), re.M)
    of_groups = re.findall(r'^\tX\(([A-Z]+), "\w+"\)', (TOP / "group.h").read_text(), re.M)
    assert len(of_flows) > 10 and len(of_groups) == 3
    return sorted({*of_flows, *of_groups})


def detail_figures() -> list[str]:
    """What the detail adds to the columns, and to the sentences of `ccbpf flows -v`."""
    source = (TOP / "detail.c").read_text()
    curves = re.findall(r'\[CURVE_\w+\] = \{ "(\w+)"', source)
    (sentence,) = re.findall(r'return text\("(.* acknowledged;[^"]*)"', source)
    words = [re.sub(r"%s( ms| bit/s)?", "", part).strip() for part in re.split("[;,]", sentence)]
    return [f"detail: {name}" for name in (*curves, *words)]


def sums() -> list[str]:
    """Of the lines of groups, and of the last line."""
    (form,) = re.findall(r'return text\("(%zu flow[^"]*)"', (TOP / "columns.c").read_text())
    names = re.findall(r"%(?:zu|s) ([a-z/]+)", form)
    return [f"sum: {name}" for name in (*names, *re.findall(r'text\(", %zu (\w+)"', (TOP / "columns.c").read_text()))]
