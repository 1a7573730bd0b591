/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The detail of a flow, in the place of the list of `ccbpf top`: all its columns, what it did in
 * the last periods, and what `ccbpf flows -v` says of it.
 */
#ifndef CCBPF_TOP_DETAIL_H
#define CCBPF_TOP_DETAIL_H

#include "top/screen.h"

void detail_draw(const struct screen *screen, const struct watched *flow);

#endif
