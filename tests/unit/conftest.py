# SPDX-License-Identifier: GPL-2.0-only
"""The laws for the tests: build/tests/liblaws.so, declared to cffi by its own headers (headers.py)."""

import os
from collections.abc import Callable
from types import SimpleNamespace

import pytest
from hypothesis import HealthCheck, settings

from tests.unit import headers
from tests.unit.backlog import Flow, MakeFlow
from tests.unit.cdata import Ffi, Laws
from tests.unit.estimator import Estimator, MakeEstimator
from tests.unit.le import Flow as LeFlow

# Derandomized: a red run is red for everybody. HYPOTHESIS_PROFILE=explore looks for what nobody has seen yet.
settings.register_profile(
    "fixed",
    derandomize=True,
    deadline=None,
    max_examples=200,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.register_profile("explore", parent=settings.get_profile("fixed"), derandomize=False, max_examples=5000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "fixed"))


@pytest.fixture(scope="session")
def laws() -> tuple[Ffi, Laws]:
    return headers.laws()


@pytest.fixture(scope="session")
def ffi(laws: tuple[Ffi, Laws]) -> Ffi:
    return laws[0]


@pytest.fixture(scope="session")
def law(laws: tuple[Ffi, Laws]) -> Laws:
    """Every function of include/law by its C name."""
    return laws[1]


@pytest.fixture(scope="session")
def c() -> SimpleNamespace:
    """Every constant of ours by its C name."""
    return SimpleNamespace(**headers.constants())


@pytest.fixture(scope="session")
def estimator(ffi: Ffi, law: Laws, c: SimpleNamespace) -> MakeEstimator:
    """A new delay estimator at each call."""
    return lambda **params: Estimator(ffi, law, c, **params)


@pytest.fixture(scope="session")
def flow(ffi: Ffi, law: Laws) -> MakeFlow:
    """A new flow under law/backlog.h at each call."""
    return lambda **params: Flow(ffi, law, **params)


@pytest.fixture(scope="session")
def new_le(ffi: Ffi, law: Laws) -> Callable[..., LeFlow]:
    """A new flow under law/le.h at each call."""
    return lambda **path: LeFlow(ffi, law, **path)
