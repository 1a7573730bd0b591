# SPDX-License-Identifier: GPL-2.0-only
"""`make soak`: hours of connections, commands and kills at once, and a check each minute whether anything accumulates."""
