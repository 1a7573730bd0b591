# SPDX-License-Identifier: GPL-2.0-only
"""The store of results: which programs a row is of, what takes the place of what, how a page says it; and that every document
has the figures of the store."""

from __future__ import annotations

import copy
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from ..guest.errors import LabError
from ..guest.image import REPOSITORY
from ..report import described, pages, place, programs, readme, results, store
from ..rows import rows

ROW = "yield-rtts"
RESULT: dict[str, Any] = {
    "id": ROW, "file": "own.toml", "git": "abc1234", "kernel": "6.12.1", "seed": 1, "set": "quick", "repeat": 3, "run_s": 30,
    "programs": {"tcp_lp": {"tcp_lp": ""}, "lp": {}},
    "bounds": [
        {"what": "keeps", "measured": 0.95, "op": ">=", "bound": 0.96, "holds": False, "controller": "tcp_lp", "at": "cubic",
         "judged": "the median", "held": 1, "draws": [0.94, 0.95, 0.97], "worst": 0.94, "least": 0.94, "most": 0.97},
    ],
    "peers_bounds": [{"what": "keeps", "measured": 0.5, "op": ">=", "bound": 0.96, "holds": False, "controller": "lp", "at": "cubic"}],
    "measured": {"tcp_lp": {"cubic": {"transparency": 0.95, "distance_to_ideal": 0.02}, "reno": {"distance_to_ideal": 0.04}}},
    "peers": {"lp": {"cubic": {"transparency": 0.5, "loss_rate": 0.1}}},
    "ranges": {"tcp_lp": {"cubic": {"transparency": [0.94, 0.97]}}},
}  # fmt: skip


def result(digest: str = "", **changes: Any) -> dict[str, Any]:
    made = copy.deepcopy(RESULT) | changes
    made["programs"]["tcp_lp"]["tcp_lp"] = digest or programs.digests()["tcp_lp"]
    return made


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(place, "ROOT", tmp_path / "lab")
    monkeypatch.setattr(store, "DIRECTORY", tmp_path / "store")
    return tmp_path / "lab"


def left(lab: Path, made: dict[str, Any], guest: str = "6.12", row: str = ROW) -> None:
    path = lab / guest / row / "result.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(made))


def stored() -> list[store.Made]:
    return list(store.read("own")["rows"][ROW]["made"])


# --- which programs ------------------------------------------------------------------------------------------------------


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for name in ("bpf", "include"):
        shutil.copytree(REPOSITORY / name, tmp_path / name)
    return tmp_path


def changed(tree: Path, file: str, old: str, new: str) -> set[str]:
    """The programs whose digest a change of a file changes."""
    path = tree / file
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new, 1))
    now = programs.digests_of(tree)
    return {name for name, digest in programs.digests().items() if now[name] != digest}


def test_a_digest_is_of_the_code(tree: Path) -> None:
    assert programs.digests_of(tree) == programs.digests()
    assert changed(tree, "include/law/red.h", "#include", "/* another\n   word */\n\n#include") == set()
    assert changed(tree, "include/law/highspeed.h", "\treturn ", "\treturn 1 + ") == {"hstcp_lp"}


def test_a_function_counts_only_where_it_is_called(tree: Path) -> None:
    header = tree / "include/law/red.h"
    end = header.read_text().rpartition("#endif")
    called = "static __always_inline int called(int a) { return a + %d; }\n"
    header.write_text(end[0] + called % 1 + "static int calls(int a) { return called(a); }\n#endif\n")
    assert programs.digests_of(tree) == programs.digests()
    (tree / "bpf/ltcp.bpf.c").write_text((tree / "bpf/ltcp.bpf.c").read_text() + '#include "law/red.h"\nint a = calls(1);\n')
    first = programs.digests_of(tree)
    assert {name for name, digest in programs.digests().items() if first[name] != digest} == {"ltcp"}
    header.write_text(header.read_text().replace(called % 1, called % 2))
    second = programs.digests_of(tree)
    assert {name for name, digest in first.items() if second[name] != digest} == {"ltcp"}


def test_another_controller_leaves_the_others_as_they_are(tree: Path) -> None:
    kinds, flow = "include/ccbpf/controllers.h", "include/ccbpf/flow.h"
    assert changed(tree, kinds, "\tX(6, nf_tcp,", '\tX(9, other, OPEN, "", "") \\\n\tX(6, nf_tcp,') == set()
    assert changed(tree, flow, "/*\n * The controllers' own parts", "struct ccbpf_flow_other { int a; };\n/*\n *") == set()
    assert changed(tree, flow, "\tX(nf, nf,", '\tX(other, other, CCBPF_FLOW_NF, "") \\\n\tX(nf, nf,') == set()
    assert changed(tree, flow, "own[8]", "own[9]") >= {"nf_tcp", "tcp_lp"}


def test_what_a_program_uses_of_a_table_counts(tree: Path) -> None:
    kinds, flow = "include/ccbpf/controllers.h", "include/ccbpf/flow.h"
    assert changed(tree, kinds, "X(5, ltcp,", "X(9, ltcp,") == {"ltcp"}
    assert changed(tree, flow, "X(of, layer, u32,", "X(of, layer, u64,") == {"ltcp"}


def test_a_declaration_may_move_to_another_file(tree: Path) -> None:
    moved = "int moved(int a) { return a + 1; }\n"
    (tree / "bpf/ltcp.bpf.c").write_text((tree / "bpf/ltcp.bpf.c").read_text() + moved)
    before = programs.digests_of(tree)
    (tree / "include/kern/moved.bpf.h").write_text("/* here */\n#ifndef MOVED_H\n#define MOVED_H\n" + moved + "#endif\n")
    text = (tree / "bpf/ltcp.bpf.c").read_text().removesuffix(moved)
    (tree / "bpf/ltcp.bpf.c").write_text('#include "kern/moved.bpf.h"\n' + text)
    assert programs.digests_of(tree) == before
    assert {name for name, digest in programs.digests().items() if before[name] != digest} == {"ltcp"}


TOTALS, MAPS, LIFE, RULED, DOWNLOADS, RECEIVERS, GATEWAYS = (
    f"include/kern/{name}.bpf.h"
    for name in ("totals", "totals_maps", "life", "ruled", "download_totals", "receive_totals", "gateway_record")
)
STATEMENT = "\ttotals_reduced(sk, loss);\n"
ADDS = {
    "totals_add_up", "totals_closed", "totals_here", "totals_begun", "totals_ended", "totals_last", "totals_of_download", "totals_received", "receive_of", "life_receive_rule", "totals_element", "totals_find", "totals_indication", "totals_opened", "totals_reduced",
    "totals_unit", "life_cgroup_of", "life_gives_way", "life_set_cgroup", "life_set_rule", "life_step", "ruled_begin",
    "ruled_keep", "ruled_totals", "ruled_before", "sock_controller_key", "totals_is_last", "flow_of", "tcp_of", "bpf_map_lookup_elem", "bpf_map_update_elem",
    "bpf_sk_storage_get", "bpf_core_field_exists", "BPF_CORE_READ", "law_likely", "TOTALS_ADD", "__sync_fetch_and_add", "__uint",
    "__type", "SEC", "if", "while",
}  # fmt: skip


def replaced(file: Path, old: str, new: str) -> None:
    assert old in file.read_text()
    file.write_text(file.read_text().replace(old, new, 1))


def test_totals_do_not_count(tree: Path) -> None:
    """Neither their statements nor their functions and maps; but a call does on which something depends."""
    replaced(tree / MAPS, "(to).all->counter, n)", "(to).all->counter, 2 * (n))")
    replaced(tree / MAPS, "no_totals = {}", "no_totals = { .flows = 1 }")
    replaced(tree / LIFE, "f->life.sending_ns += passed_ns", "f->life.sending_ns += 2 * passed_ns")
    replaced(tree / "include/ccbpf/flow.h", "X(of, sending_ns, u64", "X(of, sending_ns, u32")
    replaced(tree / "include/ccbpf/identity.h", "#define CCBPF_ABI ", "#define CCBPF_ABI 9")
    replaced(tree / MAPS, "__uint(max_entries, CCBPF_UNITS_MOST)", "__uint(max_entries, 1)")
    replaced(tree / DOWNLOADS, "drains + yields - f->indications", "1")
    replaced(tree / RECEIVERS, "r->life_rule = made_ns", "r->life_rule = 1")
    replaced(tree / "include/kern/receives.bpf.h", "\tu64 life_rule;", "")
    replaced(tree / GATEWAYS, "\ttotals_gateway_last(c);\n", "")
    assert changed(tree, "include/kern/flow.bpf.h", STATEMENT, "") == set()
    replaced(tree / "include/kern/tcpw_window.bpf.h", "\ttotals_ind", "\tif (f)\n\t\ttotals_ind")
    assert changed(tree, "bpf/le.bpf.c", "\ttotals_ind", "\tp.base_us += totals_ind") == {"le", "tcpw_lp"}


def test_totals_decide_nothing() -> None:
    """Why they may be left out: they call nothing that changes a socket but its storage `ruled`, and store only in their own
    variables, their maps, in the records of downloads, and in the part `life` of a record, which nobody else in the kernel
    reads. The one function of theirs that is elsewhere is a single call."""
    (elsewhere,) = re.findall(
        r"int (totals_gateway_last)\(.*\n{\n\ttotals_ended\([^;]*;\n\treturn 0;\n}", (REPOSITORY / GATEWAYS).read_text()
    )
    checked = (TOTALS, MAPS, LIFE, RULED, DOWNLOADS, RECEIVERS)
    defined = re.compile(r"^static [\w* ]*?((?:totals|life)_\w+)\(", re.M)
    headers = {str(file.relative_to(REPOSITORY)): file.read_text() for file in (REPOSITORY / "include").rglob("*.h")}
    assert [name for file, text in headers.items() if file not in checked for name in defined.findall(text)] == [elsewhere]
    code = "".join((REPOSITORY / file).read_text() for file in checked)
    text = " ".join(programs.TOKEN.findall(re.sub(r"/\*.*?\*/", "", code, flags=re.DOTALL)))
    assert set(re.findall(r"\b([A-Za-z_]\w*) \(", text)) == ADDS
    assert set(re.findall(r"__sync_fetch_and_add \( & (.*?) - >", text)) == {
        "( to ) . all",
        "( to ) . unit",
        "( to ) . rule",
        "to",
    }
    assert re.findall(r"bpf_map_update_elem \( (.*?) ,", text) == ["map"]
    assert set(re.findall(r"totals_element \( (.*?) ,", text)) == {"void * map", "& unit_totals", "& rule_totals"}
    assert set(re.findall(r"bpf_sk_storage_get \( (.*?) ,", text)) == {"& ruled"}
    stored = re.findall(r"(\w+ - > \w+(?: \. \w+)*) (?:[-+*/%&|^] |< < |> > )?=(?! =)", text)  # through a pointer
    assert set(stored) == {
        *(f"f - > life . {name}" for name in ("sending_ns", "yielded_ns", "yields_since_ns", "rule", "rule_id", "cgroup")),
        *(f"f - > {name}" for name in ("updated_ns", "bytes_acked", "indications", "cuts_to_one", "losses")),
        "r - > life_rule",
    }
    assert not re.search(r"[;{})] \* [^;]*=|\+ \+|- - |memcpy|memset", text)
    others = {
        *(REPOSITORY / "bpf").glob("*.c"),
        *(REPOSITORY / "include/kern").glob("*.h"),
        *(REPOSITORY / "include/law").glob("*.h"),
    }
    reading = {str(file.relative_to(REPOSITORY)) for file in others if re.search(r"(?:->|\.)life(?:_rule)?\b", file.read_text())}
    assert reading == {TOTALS, LIFE, DOWNLOADS, RECEIVERS}  # RULED calls what is in LIFE


# --- the store -----------------------------------------------------------------------------------------------------------


def test_what_the_lab_left_is_stored(lab: Path) -> None:
    left(lab, result())
    store.update()
    (made,) = stored()
    origin = {"commit": "abc1234", "kernel": "6.12.1", "seed": 1, "draws": 3, "run_s": 30}
    own = {"tcp_lp": programs.digests()["tcp_lp"]}
    assert made["of"] == {"tcp_lp": {**origin, "programs": own}, "lp": {**origin, "programs": {}}}
    assert made["bounds"][0]["draws"] == 3 and not store.older(made)
    assert made["figures"]["tcp_lp"]["cubic"]["transparency"] == [0.95, 0.94, 0.97]
    assert made["figures"]["lp"] == {"cubic": {"transparency": 0.5}}  # only what the pages show
    before = (store.DIRECTORY / "own.json").read_bytes()
    store.update()
    assert (store.DIRECTORY / "own.json").read_bytes() == before


def test_a_later_result_takes_the_place_of_one_of_the_same_kernel_and_set(lab: Path) -> None:
    for guest, changes in (("7.x", {}), ("6.12", {"set": "full"}), ("6.12", {}), ("6.12", {"git": "later"})):
        left(lab, result(**changes), guest)
        store.update()
    assert [(made["guest"], made["set"]) for made in stored()] == [("6.12", "quick"), ("7.x", "quick"), ("6.12", "full")]
    assert stored()[0]["of"]["tcp_lp"]["commit"] == "later"


def test_what_a_later_result_lacks_stays_with_its_origin(lab: Path) -> None:
    left(lab, result("0" * 12, git="old"))
    store.update()
    later = result(git="later", peers={}, peers_bounds=[])
    del later["programs"]["lp"]
    left(lab, later)
    store.update()
    (made,) = stored()
    assert [made["of"][name]["commit"] for name in ("tcp_lp", "lp")] == ["later", "old"] and not store.older(made)
    assert [bound["controller"] for bound in made["peers"]] == ["lp"] and made["figures"]["lp"]
    page = pages.page(store.read("own"))
    assert f"| `{ROW}` | `tcp_lp` | today's | later |" in page and f"| `{ROW}` | `lp` | none of ours | old |" in page
    later["bounds"][0]["bound"] = 0.97  # what was said of the other bound is no more
    left(lab, later)
    store.update()
    assert stored()[0]["peers"] == []


def test_a_result_of_one_controller_leaves_the_others_their_own(lab: Path) -> None:
    """ONLY=le: the bounds that are about tcp_lp alone are in the row, not in that result, and so are distances of an earlier one."""
    own = {"what": "of the link", "op": ">=", "bound": 0.85, "measured": 0.81, "holds": False, "controller": "tcp_lp", "at": "1"}
    first = result(id="alone", git="first") | {"bounds": [own]}
    no_ideal = {"tcp_lp": {"cubic": {"transparency": 0.99}}}
    only = result(id="alone", git="only", bounds=[], peers={}, peers_bounds=[], measured={"le": {"cubic": {"transparency": 0.9}}})
    only["programs"] = {"le": {"le": programs.digests()["le"]}}
    for made in (first, first | {"measured": no_ideal, "git": "second"}, only | {"ranges": {}}):
        left(lab, made, row="alone")
        store.update()
    (found,) = store.read("own")["rows"]["alone"]["made"]
    assert [(bound["controller"], bound["bound"]) for bound in found["bounds"]] == [("tcp_lp", 0.85)]
    assert {name: found["of"][name]["commit"] for name in ("tcp_lp", "le")} == {"tcp_lp": "second", "le": "only"}
    assert pages.distance_cell(found, "tcp_lp") == "3.0%"


def test_older_programs_do_not_take_the_place_of_todays(lab: Path, capsys: pytest.CaptureFixture[str]) -> None:
    left(lab, result("0" * 12, git="old"))
    store.update()
    assert stored()[0]["of"]["tcp_lp"]["commit"] == "old" and store.older(stored()[0]) == ["tcp_lp"]
    left(lab, result())
    store.update()
    assert not store.older(stored()[0])
    left(lab, result("0" * 12, git="old"))
    store.update()
    assert not store.older(stored()[0]) and "older programs" in capsys.readouterr().err


@pytest.fixture
def commits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Two of a repository of its own, the earlier one first."""

    def git(*words: str) -> str:
        identity = ["-c", "user.name=somebody", "-c", "user.email=somebody@example.org"]
        return subprocess.run(["git", *identity, *words], cwd=tmp_path, capture_output=True, text=True, check=True).stdout

    monkeypatch.setattr(store, "REPOSITORY", tmp_path)
    git("init", "--quiet")
    for name in ("first", "second"):
        git("commit", "--quiet", "--allow-empty", "--message", name)
    return git("rev-list", "--reverse", "HEAD").split()


@pytest.mark.parametrize("age", ["older", "of today"])
def test_only_todays_programs_of_an_earlier_commit_replace_a_later_one(lab: Path, commits: list[str], age: str) -> None:
    earlier, later = commits
    for digest, commit in [("0" * 12, later), ("0" * 12 if age == "older" else "", earlier)]:
        left(lab, result(digest, git=commit))
        store.update()
    assert stored()[0]["of"]["tcp_lp"]["commit"] == (later if age == "older" else earlier)


@pytest.mark.parametrize("broken", ["{", "[]", "no programs", "another file"])
def test_what_the_store_cannot_use_is_left_out_and_named(lab: Path, capsys: pytest.CaptureFixture[str], broken: str) -> None:
    made = result(file="mine.toml" if broken == "another file" else "own.toml")
    if broken == "no programs":
        del made["programs"]
    left(lab, made)
    if broken in ("{", "[]"):
        (lab / f"6.12/{ROW}/result.json").write_text(broken)
    store.update()
    assert store.names() == [] and f"{ROW}/result.json" in capsys.readouterr().err


def test_a_remark_stays(lab: Path) -> None:
    remark = {"of": "elsewhere", "text": "0.123 once"}
    store.write("own", {"title": "", "rows": {ROW: {"what": "", "made": [], "remarks": [remark]}}})
    left(lab, result())
    store.update()
    assert store.read("own")["rows"][ROW]["remarks"] == [remark] and len(stored()) == 1
    assert "- `yield-rtts`: 0.123 once (Programs: elsewhere.)" in pages.page(store.read("own"))


# --- a page --------------------------------------------------------------------------------------------------------------


def test_a_page_says_what_is_judged_and_by_which_programs(lab: Path) -> None:
    left(lab, result())
    store.update()
    page = pages.page(store.read("own"))
    assert f"| `{ROW}` | keeps | ≥ 0.96 | **0.950 [0.940 … 0.970] (cubic)** | today's |" in page
    assert f"| `{ROW}` | keeps | ≥ 0.96 | **0.500 (cubic)** |" in page.split("### The peers on the same bounds")[1]
    assert f"| `{ROW}` | `tcp_lp` | today's | abc1234 | Linux 6.12.1 | 3 | 30 s |" in page
    assert f"| `{ROW}` | cubic | the foreground keeps | 0.950 [0.940 … 0.970] | 0.500 |" in page
    assert f"| `{ROW}` | 3.0% |" in page.split("### Distance to the ideal")[1]  # the mean of two places
    left(lab, result("0" * 12))
    shutil.rmtree(store.DIRECTORY)
    store.update()
    page = pages.page(store.read("own"))
    assert "(cubic)** | **older** |" in page and "| **older** | abc1234 |" in page


def test_a_figure_beyond_its_bound_does_not_look_as_if_it_were_on_it(lab: Path) -> None:
    made = result()
    made["bounds"][0] |= {"measured": 0.95998}
    left(lab, made)
    store.update()
    assert "**0.95998 [" in pages.page(store.read("own"))


def test_the_readme_marks_what_is_not_of_today(lab: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readme, "COMPARED", (ROW,))
    table = "| take | when | keeps |\n| --- | --- | --- |\n| `tcp_lp` | always | 0.1 |\n| `ltcp` | never | 0.2 |\n"
    left(lab, result())
    store.update()
    block = readme.controllers_block(table)
    assert (
        "| `tcp_lp` | always | 0.950 |\n| `ltcp` | never | – |\n\nMeasured with the programs of abc1234, which have not changed since."
        in block
    )
    store.write(
        "own", {"title": "", "rows": {ROW: {"what": "", "made": [store.made_of(result("0" * 12), "6.12")], "remarks": []}}}
    )
    block = readme.controllers_block(table)
    assert "| always | 0.950† |" in block and "\n† with older programs, at abc1234.\n[" in block
    assert readme.controllers_block(block) == block


def test_a_distance_stays_where_a_later_result_has_no_ideal(lab: Path) -> None:
    first = result("0" * 12, git="old")
    first["peers"]["lp"]["cubic"]["distance_to_ideal"] = 0.3
    left(lab, first)
    store.update()
    later = result(git="later", measured={"tcp_lp": {"cubic": {"transparency": 0.99}}})
    for _ in range(2):
        left(lab, later)
        store.update()
        (made,) = stored()
        assert made["figures"]["tcp_lp"] == {"cubic": {"transparency": [0.99, 0.94, 0.97]}} and not store.older(made)
        assert pages.distance_cell(made, "tcp_lp") == "3.0%†" and pages.distance_cell(made, "lp") == "30.0%"
    left(lab, result(git="latest"))
    store.update()
    (made,) = stored()
    assert pages.distance_cell(made, "tcp_lp") == "3.0%" and pages.distance_cell(made, "lp") == "30.0%‡"


def test_what_cannot_be_written_is_named(lab: Path) -> None:
    with pytest.raises(LabError, match=r"alone, .*: not in .*own\.json; `make lab KERNEL=6.12 SET=quick EXP=.*alone,"):
        readme.controllers_block("| take | when |\n| --- | --- |\n| `tcp_lp` | always |\n")
    store.DIRECTORY.mkdir()
    (store.DIRECTORY / "own.json").write_text("{")
    with pytest.raises(LabError, match=r"own\.json: cannot be read"):
        store.update()
    (lab / "bpf").mkdir(parents=True)
    (lab / "include").mkdir()
    (lab / "bpf/broken.bpf.c").write_text("#error no")
    with pytest.raises(LabError, match=r"broken\.bpf\.c: .*#error no"):
        programs.digests_of(lab)


def test_every_stored_figure_is_shown() -> None:
    assert {*pages.FIGURES} == {*store.FIGURES}


def test_every_commit_of_the_store_is_one() -> None:
    """Who wants to measure a row again needs the programs of its commit. Rows of "0.1.0 (…)" are of several."""

    def git(*words: str) -> list[str]:
        return subprocess.run(["git", *words], cwd=REPOSITORY, capture_output=True, text=True).stdout.split()

    if git("rev-parse", "--is-shallow-repository") != ["false"]:
        pytest.skip("this clone has no history: `git fetch --unshallow` brings it")
    known = git("rev-list", "HEAD")
    origins = [of for name in store.names() for row in store.read(name)["rows"].values() for made in row["made"]
               for of in [*made["of"].values(), *(one["of"] for one in made["earlier"].values())]]  # fmt: skip
    named = {of["commit"] for of in origins if not of["commit"].startswith("0.1.0")}
    assert [commit for commit in sorted(named) if not any(whole.startswith(commit) for whole in known)] == []


def test_a_row_is_described() -> None:
    delta, policer = described.described(["lp-fig8-delta", "policer"]).splitlines()[2:]
    assert "| 10 Mbit/s, 50 ms, 2.5 BDP | delta, permille: 10; 150 (2 of 9) | delta = 0.01: down to 10 % of the link" in delta
    assert "| 10 Mbit/s, 50 ms, a policer |" in policer and policer.endswith("|  |  |")


def test_every_row_of_the_store_is_a_row() -> None:
    """What a row that went left behind would never be measured again."""
    known = {(row.file.stem, row.id) for row in rows.load_all()}
    assert {(name, row) for name in store.names() for row in store.read(name)["rows"]} <= known


# --- the documents --------------------------------------------------------------------------------------------------------

HANDBOOK = [readme.README, *sorted((REPOSITORY / "docs").glob("*.md"))]
SIM_RESULTS = REPOSITORY / "tests/sim/RESULTS.md"


def test_the_documents_have_the_figures_of_the_store() -> None:
    generated = results.documents()
    stale = [
        str(path.relative_to(REPOSITORY)) for path, text in generated.items() if not path.exists() or path.read_text() != text
    ]
    assert stale == [], "`make results` writes them anew"
    assert {*results.PAGES.glob("*.md")} == {*generated} - {readme.README}


def test_the_readmes_tables_are_generated() -> None:
    """Each marked block is one that is known, and no figure of a measured column is missing."""
    blocks = {name: text for _, name, text, _ in readme.BLOCK.findall(readme.README.read_text())}
    assert blocks.keys() == readme.BLOCKS.keys()
    lines = {name: [readme.cells(line) for line in text.splitlines() if line.startswith("| `")] for name, text in blocks.items()}
    assert [line for line in lines["distance"] if "" in line] == []
    assert {line[0] for line in lines["controllers"] if set(line[2:]) & {"", "–"}} == {"`ltcp`"}


# --- figures that are quoted -----------------------------------------------------------------------------------------

# `row: figure`, from the lab (docs/results) or from the simulator's report
QUOTED = re.compile(r"`([a-z0-9-]+): (-?[\d.]+)`")
FIGURE = re.compile(r"-?\d+(?:\.\d+)?(?:e-\d+)?")


def reported() -> dict[str, set[str]]:
    """Row → every figure of it, in the store of the lab's results and in the simulator's report (sections)."""
    figures: dict[str, set[str]] = {}
    for name in store.names():
        for row, own in store.read(name)["rows"].items():
            figures[row] = {figure for text in pages.figures_of(own) for figure in FIGURE.findall(text)}
    for section in SIM_RESULTS.read_text().split("\n## ")[1:]:
        figures.setdefault(section.split(":", 1)[0], set()).update(FIGURE.findall(section))
    return figures


@pytest.mark.parametrize("document", HANDBOOK, ids=lambda path: path.name)
def test_quoted_figures_are_in_a_report(document: Path) -> None:
    known = reported()
    assert [quote for quote in QUOTED.findall(document.read_text()) if quote[1] not in known.get(quote[0], set())] == []


def test_limits_quote_figures() -> None:
    """The pattern above finds them."""
    assert len(QUOTED.findall((REPOSITORY / "docs/limits.md").read_text())) >= 40
