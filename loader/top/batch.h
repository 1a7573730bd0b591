/* SPDX-License-Identifier: GPL-2.0-only */
/* What `ccbpf top -b` prints of a period: a table, or a line of JSON. */
#ifndef CCBPF_TOP_BATCH_H
#define CCBPF_TOP_BATCH_H

#include "top/view.h"

void batch_print(struct view *view, struct model *model);

#endif
