/* SPDX-License-Identifier: GPL-2.0-only */
/* The project's kernel types on a host, where stdbool.h may have come before them. */
#undef bool
#undef true
#undef false
#include "../../../vmlinux.h"
