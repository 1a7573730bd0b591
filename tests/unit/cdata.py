# SPDX-License-Identifier: GPL-2.0-only
"""Names for the objects of cffi in annotations.

cffi reads the C headers when the tests run: no type checker can know the functions and fields that it finds there. All
of it is `Any`, and each name says what is meant.
"""

from typing import Any, TypeAlias

Ffi: TypeAlias = Any  # the declarations: ffi.new("struct delay *")
Laws: TypeAlias = Any  # the library: every function of include/law by its C name
Struct: TypeAlias = Any  # what ffi.new() returns
