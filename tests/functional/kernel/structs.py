# SPDX-License-Identifier: GPL-2.0-only
"""The structs and tables of include/ccbpf, and how bytes of a map become one."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import cffi

from tests.unit import headers

ffi = cffi.FFI()
ffi.cdef(headers.preprocessed("".join(f'#include "{name}"\n' for name in headers.SHARED)))
PHASE = SimpleNamespace(**{row[1]: row[0] for row in headers.table("ccbpf/flow.h", "CCBPF_FLOW_PHASES", "vwvv")})
SIGNAL = SimpleNamespace(**{row[1]: row[0] for row in headers.table("ccbpf/flow.h", "CCBPF_FLOW_SIGNALS", "vwvv")})
_flow = dict(ffi.typeof("struct ccbpf_flow").fields)
OWN_PARTS = {name for name, field in _flow.items() if name and field.offset == _flow["own"].offset}  # of a flow's record
LIFE = [name for name, _ in ffi.typeof("struct ccbpf_flow_life").fields]
TIMES = [name for name in LIFE if name.endswith("_ns")]  # which JSON has beside the other fields
PARAM_STRUCTS = {name for name in ffi.list_types()[1] if name.endswith("_params")}
ABI = headers.constants()["CCBPF_ABI"]
EVENT_WORDS = {row[0]: row[2] for row in headers.table("ccbpf/event.h", "CCBPF_EVENTS", "vwvv")}
EVENT_DATA = 1 << 20


def decode(kind: str, data: bytes) -> SimpleNamespace:
    """A C struct as an object: char arrays as text, other arrays as bytes or lists, structs as objects."""

    def convert(value: Any, type_: cffi.FFI.CType) -> object:
        if type_.kind == "struct":
            return fields(value, type_)
        if type_.kind == "union":
            return None
        if type_.kind == "array":
            if type_.item.cname == "char":
                return ffi.string(value).decode()
            return bytes(ffi.buffer(value)) if ffi.sizeof(type_.item) == 1 else list(value)
        return int(value)

    def fields(value: object, type_: cffi.FFI.CType) -> SimpleNamespace:
        found: dict[str, object] = {}
        for name, field in type_.fields:
            if name:
                found[name] = convert(getattr(value, name), field.type)
            else:  # the anonymous union of the controllers' own parts
                for inner, inner_field in field.type.fields:
                    found[inner] = convert(getattr(value, inner), inner_field.type)
        return SimpleNamespace(**found)

    type_ = ffi.typeof(f"struct {kind}")
    assert len(data) >= ffi.sizeof(type_), f"struct {kind} of {len(data)} bytes"
    return fields(ffi.cast(f"struct {kind} *", ffi.from_buffer(data))[0], type_)
