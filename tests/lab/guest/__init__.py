# SPDX-License-Identifier: GPL-2.0-only
"""The guest of the virtual-time lab: stock Debian kernels and tools, unpacked, pinned, reproducible."""
