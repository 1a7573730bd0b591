# SPDX-License-Identifier: GPL-2.0-only
"""From results to numbers: what a bound may name. Each measure says its unit and what exactly it is.

A measure is a pure function of one run's Result, of a reference run's where it says so, and of options that a bound may
give (`flows`, `from_s`, …). Goodput is what receivers got of TCP data, by their own samples of 0.1 s. Whatever a run
cannot say is nan: a comparison with nan never holds.
"""

from .base import *
from .beside import *
from .probes import *
from .queue import *
from .rates import *
from .times import *
