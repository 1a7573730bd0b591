/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What tells a rule from others: its id, a small number for people, which begins anew when the last
 * rule was removed; and when it was made, which no other rule has, also of those that are no more.
 */
#ifndef CCBPF_RULES_IDS_H
#define CCBPF_RULES_IDS_H

#include "rules/standing.h"

/* Give both to a rule that is not among them yet. */
void ids_give(struct standing *standing, struct ccbpf_rule *rule);

#endif
