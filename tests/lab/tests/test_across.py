# SPDX-License-Identifier: GPL-2.0-only
"""The tables across all pages: what is bold, what is of older programs, what a page compares with."""

from __future__ import annotations

from typing import Any

from ..report import across, programs

DIGESTS = {"le": programs.digests()["le"]}


def bound(controller: str, holds: bool = True, what: str = "keeps", least: float = 0.9) -> dict[str, Any]:
    measured = 0.95 if holds else 0.85
    return {"what": what, "measured": measured, "op": ">=", "bound": least, "holds": holds, "controller": controller, "at": ""}


def stores(*bounds: dict[str, Any], peers: list[dict[str, Any]] | None = None, digests: dict[str, str] = DIGESTS) -> Any:
    origin = {"commit": "abc", "kernel": "6.12", "seed": 1, "draws": 1, "run_s": 30}
    names = dict.fromkeys(b["controller"] for b in [*bounds, *(peers or [])])
    of = {name: {**origin, "programs": digests if name == "le" else {}} for name in names}
    made = {"guest": "6.12", "set": "quick", "of": of, "bounds": list(bounds), "peers": peers or [], "figures": {}, "earlier": {}}
    return {"own": {"title": "Own", "rows": {"yield-rtts": {"what": "", "made": [{**made, "note": ""}], "remarks": []}}}}


def cells(text: str, row: str) -> list[str]:
    (line,) = [line for line in text.splitlines() if line.startswith(f"| [`{row}`]")]
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_the_matrix_counts_what_holds() -> None:
    made = stores(bound("le"), bound("le", False, "of the link"), bound("tcp_lp"))
    assert cells(across.matrix(made), "yield-rtts") == ["[`yield-rtts`](own.md)", "1", "**1 of 2**", "1 of 1"]
    older = stores(bound("le"), digests={"le": "another"})
    assert cells(across.matrix(older), "yield-rtts")[2] == "1 of 1†"


def test_the_matrix_says_how_many_draws_are_judged() -> None:
    """Of the controllers that are judged, not of the peers."""
    made = stores(bound("le"), bound("tcp_lp"), peers=[bound("reno")])
    of = made["own"]["rows"]["yield-rtts"]["made"][0]["of"]
    of["le"]["draws"], of["reno"]["draws"] = 3, 5
    assert cells(across.matrix(made), "yield-rtts")[1] == "1, 3"
    of["tcp_lp"]["draws"] = 3
    assert cells(across.matrix(made), "yield-rtts")[1] == "3"


def test_a_bound_of_the_whole_row_is_nobodys() -> None:
    made = stores(bound(""), bound("le"))
    assert cells(across.matrix(made), "yield-rtts") == ["[`yield-rtts`](own.md)", "1", "1 of 1"]
    assert "yield-rtts" not in across.matrix(stores(bound("")))


def test_a_page_has_the_bounds_of_its_controller_and_what_others_do_on_them() -> None:
    made = stores(
        bound("le"), bound("tcp_lp", False), bound("tcp_lp", what="not for le"), peers=[bound("lp", False), bound("reno")]
    )
    text = across.page("le", made)
    at = dict(zip([cell.strip() for cell in text.splitlines()[6].strip("|").split("|")], cells(text, "yield-rtts"), strict=True))
    assert at["`le`"] == "0.950" and at["`tcp_lp`"] == at["`lp`"] == "**0.850**" and at["`vegas`"] == ""
    assert at["must be"] == "≥ 0.9" and at["programs"] == "today's"
    assert "not for le" not in text and "reno" not in text


def test_a_page_without_rows() -> None:
    assert "## " not in across.page("le", stores(bound("tcp_lp")))
