# SPDX-License-Identifier: GPL-2.0-only
"""The tables that kernel side, loader, documentation and tests share, and the records that cross to user space."""

import itertools
import re
from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

import pytest

from tests.unit import headers
from tests.unit.cdata import Ffi, Laws
from tests.unit.estimator import MakeEstimator

CONTROLLERS = headers.table("ccbpf/controllers.h", "CCBPF_CONTROLLERS", "vwwvv")
RECEIVERS = headers.table("ccbpf/controllers.h", "CCBPF_RECEIVERS", "vwv")
EVENTS = headers.table("ccbpf/event.h", "CCBPF_EVENTS", "vwvv")
STATS = headers.table("ccbpf/stats.h", "CCBPF_STATS", "wv")
FLOW = headers.flow_fields("CCBPF_FLOW_COMMON", "ccbpf_flow")
FLOW_LIFE = headers.flow_fields("CCBPF_FLOW_LIFE", "ccbpf_flow_life")
FLOW_PARTS = headers.flow_parts()
FLOW_OWN = headers.table("ccbpf/flow.h", "CCBPF_FLOW_OWN", "ww")
FLOW_WORDS = {
    form: headers.table("ccbpf/flow.h", macro, "vwvv")
    for form, macro in {
        "phase": "CCBPF_FLOW_PHASES",
        "signal": "CCBPF_FLOW_SIGNALS",
        "chirp_wait": "CCBPF_CHIRP_WAITS",
        "chirp_end": "CCBPF_CHIRP_ENDS",
    }.items()
}
PARAMS = {name: headers.table("ccbpf/params.h", f"{name.upper()}_PARAMS", "wvvvvvv") for _, name, *_ in CONTROLLERS}
TCP_LP = {row[0]: row for row in PARAMS["tcp_lp"]}

WORD = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")


def unique(values: Iterable[object]) -> bool:
    values = list(values)
    return len(values) == len(set(values))


@pytest.mark.parametrize("row", CONTROLLERS, ids=lambda row: row[1])
def test_controller(c: SimpleNamespace, law: Laws, row: tuple[Any, ...]) -> None:
    number, name, access, title, source = row
    assert len(name) < c.CCBPF_NAME_LEN == 16, "TCP_CA_NAME_MAX, with its 0"
    assert WORD.fullmatch(name)
    assert 1 <= number < law.CCBPF_KINDS
    assert getattr(law, f"CCBPF_KIND_{name}") == number
    assert access in ("OPEN", "RESTRICTED")
    assert title and source
    assert PARAMS[name]


def test_controllers_are_distinct() -> None:
    assert unique(row[0] for row in CONTROLLERS + RECEIVERS)
    assert unique(row[1] for row in CONTROLLERS + RECEIVERS)


@pytest.mark.parametrize("row", [(c, *row) for c, rows in PARAMS.items() for row in rows], ids=lambda r: f"{r[0]}-{r[1]}")
def test_parameter(row: tuple[Any, ...]) -> None:
    _, name, unit, least, most, default, source, text = row
    assert WORD.fullmatch(name)
    assert 0 <= least <= default <= most < 2**32
    assert unit and source and text
    assert (least, most) == (0, 1) if unit == "switch" else least < most


def test_parameters_are_distinct() -> None:
    for rows in PARAMS.values():
        assert unique(row[0] for row in rows)


@pytest.mark.parametrize("name", PARAMS)
def test_the_struct_has_the_tables_fields(ffi: Ffi, name: str) -> None:
    fields = ffi.typeof(f"struct {name}_params").fields
    assert [field for field, _ in fields] == [row[0] for row in PARAMS[name]]
    assert ffi.sizeof(f"struct {name}_params") == 4 * len(fields)


@pytest.mark.parametrize("name", ["tcp_lp_ecn", "hstcp_lp"])
def test_the_familys_parameters_come_first(name: str) -> None:
    """lp_state.bpf.h reads them by TCP-LP's names."""
    assert PARAMS[name][: len(TCP_LP)] == list(TCP_LP.values())


@pytest.mark.parametrize(
    "name, value, where",
    [
        ("delta", 150, "III-D.2: 0.15"),
        ("smoothing", 8, "III-D.1: 1/8"),
        ("inference_rtts", 3, "III-D.3: three RTT"),
        ("delay_memory", 180, "VI-A: three minutes"),
        ("small_window", 5, "III-B.4: below 5 packets"),
        ("gentle_start", 0, "the papers leave slow start alone"),
    ],
)
def test_defaults_are_the_papers(name: str, value: int, where: str) -> None:
    assert TCP_LP[name][4] == value, where


@pytest.mark.parametrize(
    "name, value, where",
    [
        ("layer_window", 50, "3.1: W_T = 50 packets"),
        ("decrease", 150, "3.1: beta = 0.15"),
        ("gentle_start", 0, "section 3: slow start is not modified"),
    ],
)
def test_defaults_are_the_papers_of_ltcp(name: str, value: int, where: str) -> None:
    assert {row[0]: row for row in PARAMS["ltcp"]}[name][4] == value, where


@pytest.mark.parametrize(
    "name, value, where",
    [("backlog_max", 3000, "4.3: as in Vegas, M = 3"), ("gentle_start", 0, "the papers leave slow start alone")],
)
def test_defaults_are_tcpw_lps(name: str, value: int, where: str) -> None:
    assert {row[0]: row for row in PARAMS["tcpw_lp"]}[name][4] == value, where


@pytest.mark.parametrize(
    "name, value, where",
    [
        ("decrease", 125, "3.1: b = 12.5 %"),
        ("alpha", 500, "3.2: alpha = 0.5"),
        ("packets", 15, "3.2: N = 15"),
        ("spread", 1200, "3.2: SF = 1.2"),
        ("min_rate", 1000, "3.2: 1 Mbit/s"),
        ("dscp", 0b000001, "RFC 8622: LE"),
        ("gentle_start", 0, "the paper leaves slow start alone"),
    ],
)
def test_defaults_are_nf_tcps(name: str, value: int, where: str) -> None:
    assert {row[0]: row for row in PARAMS["nf_tcp"]}[name][4] == value, where


@pytest.mark.parametrize(
    "delta, smoothing, memory, floor",
    itertools.product(
        *(
            sorted({TCP_LP[name][2], TCP_LP[name][4], TCP_LP[name][3]})
            for name in ("delta", "smoothing", "delay_memory", "threshold_floor")
        )
    ),
)
def test_the_delay_law_takes_the_whole_range(
    estimator: MakeEstimator, delta: int, smoothing: int, memory: int, floor: int
) -> None:
    law = estimator(delta=delta, smoothing=smoothing, memory_s=memory, floor_us=floor)
    now = 0
    for i in range(60):
        now += memory * 50_000
        rtt = (1, 20_000, 2**23, 50_000, 2**32 - 1)[i % 5]
        law.check(law.ack(now, rtt, now // 1000 % 2**32, now // 1000 % 2**32, 1_000_000), rtt)
    law.restart()
    for _ in range(200 * smoothing):
        now += 1
        law.ack(now, 2**23)
    assert law.indicates, "a full queue indicates at every setting"


def test_the_small_window_law_takes_the_whole_range(law: Laws) -> None:
    low, high = TCP_LP["small_spread"][2:4]
    for spread, w, mss in itertools.product((low, high), range(TCP_LP["small_window"][3] + 1), (88, 536, 1448, 65483)):
        assert 2 <= law.small_gap_rtts(w, mss, spread) <= 2 * high


def test_events(law: Laws) -> None:
    assert unique(row[0] for row in EVENTS) and unique(row[1] for row in EVENTS) and unique(row[2] for row in EVENTS)
    for number, name, word, text in EVENTS:
        assert getattr(law, f"CCBPF_EVENT_{name}") == number >= 1
        assert word == name.lower().replace("_", "-")
        assert text


def test_stats(ffi: Ffi) -> None:
    assert unique(name for name, _ in STATS)
    assert [name for name, _ in ffi.typeof("struct ccbpf_stats").fields] == [name for name, _ in STATS]
    assert all(WORD.fullmatch(name) and text for name, text in STATS)


@pytest.mark.parametrize(
    "struct, rows",
    [("ccbpf_flow", FLOW), ("ccbpf_flow_life", FLOW_LIFE), *((struct, rows) for struct, rows, _ in FLOW_PARTS.values())],
)
def test_the_fields_of_a_flow(ffi: Ffi, struct: str, rows: list[tuple[Any, ...]]) -> None:
    fields = dict(ffi.typeof(f"struct {struct}").fields)
    names = [name for name, *_ in rows]
    assert unique(names) and [name for name in fields if name in names] == names
    assert all(WORD.fullmatch(name) and unit and text for name, _, unit, text in rows)
    assert [name for name, form, unit, _ in rows if (unit == "word") != (form in FLOW_WORDS)] == []


def test_every_field_of_a_flow_is_in_a_table(ffi: Ffi) -> None:
    members = {name for name, _ in ffi.typeof("struct ccbpf_flow").fields if name}
    parts = {struct.removeprefix("ccbpf_flow_") for struct, _, _ in FLOW_PARTS.values()}
    assert members == {name for name, *_ in FLOW} | parts | {"own", "reserved", "life"}
    owner = ["rule", "cgroup", "rule_id", "reserved"]  # what `origin` is made of
    assert [name for name, _ in ffi.typeof("struct ccbpf_flow_life").fields] == [name for name, *_ in FLOW_LIFE] + owner
    for struct, rows, _ in FLOW_PARTS.values():
        fields = [name for name, _ in ffi.typeof(f"struct {struct}").fields]
        assert [name for name in fields if name not in parts] == [name for name, *_ in rows]


def test_every_part_of_a_flow_is_a_controllers() -> None:
    assert unique(FLOW_OWN)
    assert {controller for controller, _ in FLOW_OWN} <= {row[1] for row in CONTROLLERS + RECEIVERS}
    assert {part for _, part in FLOW_OWN} == set(FLOW_PARTS)
    assert all(text for *_, text in FLOW_PARTS.values())
    assert unique((*FLOW_PARTS, *(name for name, *_ in FLOW + FLOW_LIFE))), "keys of the same object in JSON"


def test_the_words_of_a_flow(law: Laws) -> None:
    constants = {"phase": "PHASE", "signal": "SIGNAL", "chirp_wait": "CHIRP_WAIT", "chirp_end": "CHIRP"}
    for form, rows in FLOW_WORDS.items():
        first = 1 if form.startswith("chirp") else 0  # 0: no reason
        assert [number for number, *_ in rows] == list(range(first, first + len(rows)))
        for number, name, word, text in rows:
            assert getattr(law, f"CCBPF_{constants[form]}_{name}") == number
            assert word == name.lower().replace("_", "-")
            assert text


@pytest.mark.parametrize(
    "record",
    [
        "ccbpf_flow",
        "ccbpf_flow_life",
        *(struct for struct, _, _ in FLOW_PARTS.values()),
        "ccbpf_event",
        "ccbpf_identity",
        "ccbpf_stats",
        *(f"{name}_params" for name in PARAMS),
    ],
)
def test_no_hole_in_what_crosses_to_user_space(ffi: Ffi, record: str) -> None:
    """A hole would carry the kernel's memory, and differ between compilers."""
    covered: set[int] = set()
    for _, field in ffi.typeof(f"struct {record}").fields:
        covered.update(range(field.offset, field.offset + ffi.sizeof(field.type)))
    assert covered == set(range(ffi.sizeof(f"struct {record}")))


def test_every_controllers_part_of_a_flow_fits(ffi: Ffi) -> None:
    fields = dict(ffi.typeof("struct ccbpf_flow").fields)
    own = fields["own"]
    parts = [field for name, field in fields.items() if name != "own" and field.offset == own.offset]
    assert parts
    assert all(part.offset + ffi.sizeof(part.type) <= own.offset + ffi.sizeof(own.type) for part in parts)


@pytest.mark.parametrize(
    "state, bytes_", [("delay", 64), ("inference", 16), ("gentle_start", 16), ("layers", 40), ("backlog", 52), ("westwood", 20)]
)
def test_the_laws_state_fits_a_connection(ffi: Ffi, state: str, bytes_: int) -> None:
    assert ffi.sizeof(f"struct {state}") <= bytes_
