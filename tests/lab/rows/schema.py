# SPDX-License-Identifier: GPL-2.0-only
"""The keys of a file of rows: the type, the range or the words of each. experiments/README.md says what they mean.

check() raises RowError, which names the place, the key, the value, and what is allowed. A value that begins with "@" is a
placeholder: it is checked again when it has been filled.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ..engine.scenario import BLEACHES, GATEWAY, HOPS_MAX, JITTERS, RECEIVERS, WAYS

Table = Mapping[str, Any]
DAY_S = 86400.0
MS_MAX = 60_000.0
MBIT_MAX = 100_000.0


class RowError(Exception):
    """An error in a file of rows."""


# --- types -----------------------------------------------------------------------------------------------------------

NUMBER, WHOLE, TEXT, BOOL, LIST, TABLE = "a number", "a whole number", "a text", "true or false", "a list", "a table"
TEXTS, NAMES, WHOLES, PAIRS = "a list of texts", "a list of names", "a list of whole numbers", "a list of pairs"
TYPES: dict[str, tuple[type, ...]] = {
    NUMBER: (int, float), WHOLE: (int, float), TEXT: (str,), BOOL: (bool,), LIST: (list,), TABLE: (dict,),
    TEXTS: (list,), NAMES: (list,), WHOLES: (list,), PAIRS: (list,),
}  # fmt: skip
ELEMENTS = {TEXTS: TEXT, WHOLES: WHOLE}


@dataclass(frozen=True)
class Key:
    """The values that a key accepts. `of`: the keys of a table; `pair`: what the two numbers of each pair are."""

    kind: str
    low: float = -math.inf
    high: float = math.inf
    words: tuple[str, ...] = ()
    of: Table | None = None
    pair: str = ""


def number(low: float = 0, high: float = math.inf) -> Key:
    return Key(NUMBER, low, high)


def whole(low: float = 0, high: float = math.inf) -> Key:
    return Key(WHOLE, low, high)


def one_word(*words: str) -> Key:
    return Key(TEXT, words=words)


def pairs(what: str, low: float) -> Key:
    """[[s, …], …]: times that grow, each with a number from `low`."""
    return Key(PAIRS, low, MS_MAX, pair=what)


text, flag, table, texts, names = Key(TEXT), Key(BOOL), Key(TABLE), Key(TEXTS), Key(NAMES)
seconds = number(0, DAY_S)
dscp = whole(0, 63)
percent = number(0, 100)
receiver = one_word(*RECEIVERS, GATEWAY)

# --- the tables ------------------------------------------------------------------------------------------------------

NF_RED = {"nf_min": percent, "nf_max": percent, "std": text, "nf_dscp": text, "probe_dscp": dscp}
LINK = {
    "rate_mbit": number(0.01, MBIT_MAX), "rtt_ms": number(0, MS_MAX), "buffer_bdp": number(0, 1000),
    "buffer_packets": whole(1, 1e6), "queue": text, "mark_at": number(0, 1), "loss_percent": percent,
    "jitter_ms": number(0, MS_MAX), "jitter": one_word(*JITTERS), "jitter_way": one_word(*WAYS),
    "reorder_percent": percent, "duplicate_percent": percent, "both_ways": flag,
    "reverse_mbit": number(0.01, MBIT_MAX), "reverse_packets": whole(1, 1e6),
    "rtt_changes": pairs("[s, round trip in ms]", 0), "stalls": pairs("[s, ms that it lasts]", 1),
    "policer_packets": whole(0, 1e6), "route_ssthresh": whole(0, 1e6), "hops": whole(1, HOPS_MAX), "gso": flag,
    "packet_bytes": whole(256, 9000), "bleach": one_word("", *BLEACHES), "nf_red": Key(TABLE, of=NF_RED),
}  # fmt: skip
HANDOVER = {"from": text, "at_s": seconds}
FLOW = {
    "name": text, "controller": text, "start_s": seconds, "stop_s": number(0.1, DAY_S), "count": whole(0, 1000),
    "every_s": seconds, "background": flag, "reverse": flag, "ecn": flag, "rtt_ms": number(0, MS_MAX),
    "hop": whole(0, HOPS_MAX), "relay": text, "dscp": dscp, "window_bytes": whole(0, 1 << 30),
    "download": flag, "receiver": receiver, "handover": Key(TABLE, of=HANDOVER),
}  # fmt: skip
FLOW_OPTIONS = ("reverse", "ecn", "rtt_ms", "hop", "relay", "dscp", "window_bytes", "download", "receiver")

TRAFFIC_COMMON = {
    "name": text, "kind": text, "start_s": seconds, "stop_s": number(0.1, DAY_S), "hop": whole(0, HOPS_MAX),
}  # fmt: skip
PATTERNS = ("constant", "poisson", "square")
TRAFFIC: dict[str, dict[str, Key]] = {
    "udp": {
        "rate_mbit": number(0, MBIT_MAX), "size_bytes": whole(52, 65535), "pattern": one_word(*PATTERNS),
        "period_s": number(0.0001, DAY_S), "duty": number(0.001, 1), "seed": whole(0, 1 << 62),
    },
    "web": {
        "sessions": whole(1, 1000), "mean_bytes": whole(1, 1e9), "max_bytes": whole(2, 1e12), "shape": number(0.1, 100),
        "objects": whole(1, 1000), "think": flag, "seed": whole(0, 1 << 62), "controller": text,
    },
    "fetch": {"bytes": Key(WHOLES, 1, 1e12), "every_s": number(0.001, DAY_S), "controller": text},
}  # fmt: skip
TRAFFIC_NEEDS: dict[str, tuple[str, ...]] = {"udp": ("rate_mbit",), "web": (), "fetch": ()}
ALL_TRAFFIC = {**TRAFFIC_COMMON, **TRAFFIC["udp"], **TRAFFIC["web"], **TRAFFIC["fetch"]}

OPERATORS = ("<=", "<", ">=", ">")
BOUND = {
    "what": text, "measure": text, "op": one_word(*OPERATORS), "bound": number(-math.inf), "of": text, "points": names,
    "of_point": text, "for": texts, "foregrounds": texts, "options": table, "part": number(0.5, 1), "every": flag,
    "mean": flag, "table": flag,
}  # fmt: skip
SWEEP = {"what": text, "values": Key(LIST)}
POINT = {"kernels": texts, "for": texts, "only": one_word("sim")}  # beside the keys that the template asks for
CONTROLLER = {
    "is": text, "queue": text, "nf_red": Key(TABLE, of=NF_RED), "ecn": flag, "dscp": dscp,
    "download": flag, "receiver": receiver,
}  # fmt: skip

PLOTS = ("rates", "windows", "queue", "curve", "responses", "estimates")
WINDOW = {"seconds": number(1, DAY_S), "from_s": seconds, "to_s": seconds}
WHO = {"foreground": texts, "ours": texts, "peers": texts, "peer_points": names, "ideal": text, "alone": flag}
OTHERWISE = {**WINDOW, **WHO, "repeat": whole(1, 1000), "points": names}  # of SET=quick, and of the simulator
ROW = {
    **WINDOW, **WHO, "repeat": whole(1, 1000), "what": text, "paper": table, "scale": text, "note": text,
    "link": Key(TABLE, of=LINK), "flow": Key(LIST), "traffic": Key(LIST), "sweep": Key(TABLE, of=SWEEP),
    "parameters": table, "sysctls": table, "bounds": Key(LIST), "plots": texts, "plot_points": names,
    "quick": Key(TABLE, of=OTHERWISE), "sim": Key(TABLE, of=OTHERWISE), "memory_mb": whole(64, 1 << 20),
    "sockets_every_s": number(0.01, DAY_S), "kernels": texts,
}  # fmt: skip
FILE = {"title": text, "paper": text, "include": texts, "defaults": table, "controller": table, "row": table}
DEFAULTS: dict[str, Any] = {
    "foreground": ["reno"], "ours": [], "peers": [], "ideal": "", "alone": True, "seconds": 30, "from_s": 0, "to_s": 0,
    "paper": {}, "scale": "full scale", "note": "", "traffic": [], "flow": [], "parameters": {}, "sysctls": {},
    "bounds": [], "plots": ["rates"], "quick": {}, "sim": {}, "memory_mb": 256, "kernels": [], "repeat": 1,
}  # fmt: skip


# --- checks ----------------------------------------------------------------------------------------------------------


def placeholder(value: Any) -> bool:
    return isinstance(value, str) and value.startswith("@")


def check(where: str, table: Any, schema: Table, required: Iterable[str] = ()) -> Table:
    """The table itself, if its keys and values are the schema's."""
    if not isinstance(table, dict):
        raise RowError(f"{where}: {table!r} is not a table of {', '.join(schema)}")
    for name, value in table.items():
        if name not in schema:
            raise RowError(f"{where}: {name}: no such key; there are {', '.join(sorted(schema))}")
        if not placeholder(value):
            check_value(f"{where}: {name}", value, schema[name])
    for name in required:
        if name not in table:
            raise RowError(f"{where}: {name} is missing")
    return table


def check_value(where: str, value: Any, key: Key) -> None:
    right = isinstance(value, TYPES[key.kind]) and (key.kind == BOOL or not isinstance(value, bool))
    if not right or (key.kind == WHOLE and value != math.floor(value)):
        raise RowError(f"{where}: {value!r} is not {key.kind}{f', each {key.pair}' if key.pair else ''}")
    if key.kind in (NUMBER, WHOLE) and not key.low <= value <= key.high:
        raise RowError(f"{where}: {value:g} is not {limits(key)}")
    if key.words:
        one_of(where, value, key.words)
    if key.of is not None:
        check(where, value, key.of)
    if key.kind in ELEMENTS:
        for item in value:
            if not placeholder(item):
                check_value(where, item, Key(ELEMENTS[key.kind], key.low, key.high))
    if key.kind == PAIRS:
        check_pairs(where, value, key)


def check_pairs(where: str, value: list[Any], key: Key) -> None:
    """Times that grow, each with a number."""
    before = -math.inf
    for item in value:
        if not isinstance(item, list) or len(item) != 2:
            raise RowError(f"{where}: {item!r} is not a pair {key.pair}: write [[10, …], [20, …]]")
        at_s, other = item
        if not placeholder(at_s):
            check_value(where, at_s, seconds)
            if at_s <= before:
                raise RowError(f"{where}: {at_s:g} s comes after {before:g} s: times must grow")
            before = at_s
        if not placeholder(other):
            check_value(where, other, Key(NUMBER, key.low, key.high))


def limits(key: Key) -> str:
    """The limits in words."""
    if key.high == math.inf:
        return f"{key.low:g} or more"
    return f"from {key.low:g} to {key.high:.15g}"


def one_of(where: str, value: Any, allowed: Iterable[str]) -> str:
    if value not in allowed:
        raise RowError(f"{where}: {value!r} is none of {', '.join(map(repr_word, allowed))}")
    return str(value)


def repr_word(word: str) -> str:
    return word or '""'
