# SPDX-License-Identifier: GPL-2.0-only
"""Every controller on the oldest and the newest guest kernel: it loads, carries traffic, publishes its state, its
mechanism works, and it is removed. So do `run`, `assign` and `renice`, which give it to a connection, and `assign --download`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.kernels import __main__ as matrix
from tests.kernels import path, ways
from tests.lab.guest.image import BUILD
from tests.lab.guest.lock import kernels

LOG = """\
libbpf: prog 'one': -- BEGIN PROG LOAD LOG --
processed 120 insns (limit 1000000) max_states_per_insn 1 total_states 7 peak_states 7 mark_read 2
-- END PROG LOAD LOG --
libbpf: prog 'two': -- BEGIN PROG LOAD LOG --
processed 30 insns (limit 1000000) max_states_per_insn 0 total_states 2 peak_states 2 mark_read 1
"""


@pytest.mark.parametrize("kernel", [kernels()[0], kernels()[-1]])
def test_every_controller_works_on(kernel: str) -> None:
    rows = matrix.measure(kernel, matrix.controllers())
    assert [f"{row.name}: {row}" for row in rows if not row.holds] == []
    assert all(row.insns > 100 for row in rows if row.name != ways.MOVED), "its log would take longer than its connection"
    accecn = {directory.name for directory in (BUILD / "kernels" / kernel).glob(f"*-{path.ACCECN}")}
    assert accecn == ({f"{name}-{path.ACCECN}" for name in path.MARKED} if kernel == kernels()[-1] else set())


def test_cost_is_read_per_program() -> None:
    assert matrix.read_cost(LOG) == {"one": (120, 7), "two": (30, 2)}


def test_growth_over_a_fifth_is_reported() -> None:
    row = matrix.Row("6.1", "x", cost={"one": (120, 7), "two": (30, 2), "new": (9, 9)})
    assert matrix.grown(row, {"6.1": {"x": {"one": [100, 6], "two": [30, 2]}}}) == []
    assert matrix.grown(row, {"6.1": {"x": {"one": [90, 6]}}}) == ["6.1 one: instructions 90 -> 120 (+33%)"]
    assert matrix.grown(row, {}) == []


def test_baseline_knows_every_kernel() -> None:
    assert sorted(json.loads(matrix.BASELINE.read_text())) == sorted(kernels())


# --- what is read from a run -----------------------------------------------------------------------------------------


def looks(number: int = 20, **members: Any) -> list[dict[str, Any]]:
    """Records of a steady flow, each of `members` for all of them."""
    record = {"controller": "nf_tcp", "phase": "avoidance", "cwnd": 30, "srtt_us": 20_000, "indications": 0, "marks": 0,
              "nf": {"chirps_complete": 0}, "age_ms": 8.0}  # fmt: skip
    return [{**record, "bytes_acked": 100_000 * (look + 1), **members} for look in range(number)]


def test_mechanisms_are_those_of_controllers() -> None:
    assert set(path.MECHANISMS) <= set(matrix.controllers()) >= set(path.MARKED)


def test_a_mechanism_that_did_not_work_is_told() -> None:
    assert path.mechanism("nf_tcp", looks()) == "complete chirps: 0, expected at least 1"
    assert path.mechanism("nf_tcp", looks(nf={"chirps_complete": 2})) == ""
    assert path.mechanism("tcp_lp", looks()) == "early indications: 0, expected at least 1"
    assert path.mechanism("tcp_lp_ecn", []) == "reductions by a mark: 0, expected at least 1"
    assert path.mechanism("ltcp", looks(ltcp={"layer": 1})) == "layers: 1, expected at least 2"


def test_what_accecn_cannot_do_is_told() -> None:
    assert path.accecn("nf_tcp", looks(marks=3, nf={"chirps_sent": 0})) == ""
    assert path.accecn("nf_tcp", looks(marks=3, nf={"chirps_sent": 2})) == "with AccECN 2 chirps: none can be answered"
    assert path.accecn("nf_tcp", looks(nf={"chirps_sent": 0})) == "with AccECN no reduction by a mark"


def test_records_that_are_not_kept_up_are_reported() -> None:
    assert path.publishing(looks()) == ""
    assert path.publishing(looks(5)) == "4 records of a steady flow, expected at least 5"
    assert path.publishing(looks(age_ms=31.0)) == "a record was 31 ms old, at most 25 are promised"
    assert path.publishing(looks(bytes_acked=1)) == "bytes_acked does not grow in the records"
    assert path.publishing(looks(phase="recovery", age_ms=99.0)).startswith("0 records of a steady flow")


def test_documents_are_read_until_one_is_cut_off(tmp_path: Path) -> None:
    flow = {"controller": "ltcp", "updated_ns": 3_000_000}
    other = {"controller": "tcp_lp", "updated_ns": 0}
    documents = [json.dumps({"time_ns": 5_000_000, "flows": flows}) for flows in ([flow, other], [], [flow])]
    (tmp_path / path.FLOWS).write_text("\n".join(documents) + '\n{"time_ns": 5')
    assert [record["age_ms"] for record in path.records(tmp_path / path.FLOWS, "ltcp")] == [2.0, 2.0]


def many(
    directory: Path,
    moved: int = 41,
    listens: int = 21,
    names: str = "tcp_lp",
    received: int = 9,
    churn: int = 5,
    dmesg: str = "x",
) -> None:
    """What `renice` amid many leaves."""
    stream = {"receiver": {"bytes": received}}
    files = {
        "many.jsonl": "".join(json.dumps({"moved": n, "listens": listens}) + "\n" for n in (50, moved)),
        "many.err": "why",
        "many.txt": "".join(f"0 0 a:1 b:2\n\t ts {name} wscale:7,7 rto:204\n" for name in names.split()),
        "many.json": json.dumps({"end": {"streams": [stream, stream]}}),
        "churn": churn * "\n",
        "dmesg.txt": f"[ 1.0] fine\n[ 2.0] {dmesg}\n",
    }
    for name, text in files.items():
        (directory / name).write_text(text)


def test_what_went_wrong_amid_many_is_told(tmp_path: Path) -> None:
    def fault(**members: Any) -> str:
        many(tmp_path, **members)
        return ways.many_fault(tmp_path)

    assert fault() == ""
    assert fault(moved=39) == "amid many: moved [50, 39]: why"
    assert fault(listens=19) == "amid many: listeners [19, 19], expected at least 20"
    assert fault(names="tcp_lp cubic tcp_lp") == "amid many: 1 have cubic at the end"
    assert fault(received=0) == "amid many: , 2 connections received nothing"
    assert fault(churn=2) == "amid many: 2 clients came and went, expected at least 3"
    assert fault(dmesg="WARNING: CPU: 0") == "amid many, the kernel said: [ 2.0] WARNING: CPU: 0"
    (tmp_path / "failed").write_text("1\n")
    assert fault().startswith("amid many: moved [50, 41]")


def test_a_way_that_gave_no_controller_is_told(tmp_path: Path) -> None:
    many(tmp_path)

    def fault(name: str, used: str, **said: Any) -> str:
        (tmp_path / "iperf3.json").write_text(json.dumps({"end": {"sender_tcp_congestion": used}}))
        (tmp_path / "ss.txt").write_text(f"0 0 10.0.0.1:1 10.0.0.2:2\n\t ts sack {used} wscale:7,7 rto:204\n")
        (tmp_path / "said.json").write_text(json.dumps(said))
        return ways.fault(name, tmp_path)

    good: dict[str, dict[str, Any]] = {
        "run": {"run": {"download": True, "counts": {"set": 1}}},
        "assign": {"rules": [{"counts": {"set": 1}}]},
        "renice": {"moved": 2},
    }
    assert {name: fault(name, "tcp_lp", **said) for name, said in good.items()} == dict.fromkeys(ways.CONTROLLING, "")
    assert {fault(name, "cubic", **said) for name, said in good.items()} == {"the transfer used cubic, expected tcp_lp"}
    assert fault("download", "cubic", rules=[{"counts": {"set": 0, "receivers": 1}}]) == ""
    assert fault("download", "cubic", rules=[{"counts": {"set": 1, "receivers": 0}}]).endswith("received in the background")
    assert "given the controller to no connection" in fault("run", "tcp_lp", run={"download": False, "counts": {"set": 1}})
    assert fault("renice", "tcp_lp", moved=0) == "it says that it has given the controller to no connection"
