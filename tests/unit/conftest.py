# SPDX-License-Identifier: GPL-2.0-only
"""The laws for the tests: build/tests/liblaws.so, declared to cffi by its own headers (headers.py)."""
import os
import subprocess
from types import SimpleNamespace

import cffi
import pytest
from hypothesis import HealthCheck, settings

from tests.unit import headers
from tests.unit.estimator import Estimator

LIBRARY = "build/tests/liblaws.so"

# Derandomized: a red run is red for everybody. HYPOTHESIS_PROFILE=explore looks for what nobody has seen yet.
settings.register_profile("fixed", derandomize=True, deadline=None, max_examples=200, database=None,
                          suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
settings.register_profile("explore", parent=settings.get_profile("fixed"), derandomize=False, max_examples=5000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "fixed"))


@pytest.fixture(scope="session")
def ffi():
    ffi = cffi.FFI()
    ffi.cdef(headers.declarations())
    return ffi


@pytest.fixture(scope="session")
def law(ffi):
    """Every function of include/law by its C name."""
    subprocess.run(["make", "-s", LIBRARY], cwd=headers.ROOT, check=True)
    return ffi.dlopen(str(headers.ROOT / LIBRARY))


@pytest.fixture(scope="session")
def c():
    """Every constant of ours by its C name."""
    return SimpleNamespace(**headers.constants())


@pytest.fixture(scope="session")
def estimator(ffi, law, c):
    """A new delay estimator at each call."""
    return lambda **params: Estimator(ffi, law, c, **params)
