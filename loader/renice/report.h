/* SPDX-License-Identifier: GPL-2.0-only */
/* What `ccbpf renice` says of the transfers. */
#ifndef CCBPF_RENICE_REPORT_H
#define CCBPF_RENICE_REPORT_H

#include "renice/transfers.h"

/*
 * Print the answer, or the reason why nothing was done. Returns the exit code: EXIT_OK if
 * all that were selected are moved now (or would be), EXIT_NOTHING if there was
 * nothing to move, EXIT_FAILED if one was refused.
 */
int report(const char *what, const struct transfers *transfers);

#endif
