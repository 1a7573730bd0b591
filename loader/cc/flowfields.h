/* SPDX-License-Identifier: GPL-2.0-only */
/* The fields of a flow record, as the tables of include/ccbpf/flow.h have them. */
#ifndef CCBPF_FLOWFIELDS_H
#define CCBPF_FLOWFIELDS_H

#include <stdbool.h>
#include <stddef.h>

#include "ccbpf/flow.h"

/* What is stored at a field: see the forms of include/ccbpf/flow.h. */
enum form {
	FORM_u16,
	FORM_u32,
	FORM_s32,
	FORM_u64, /* the last number; what follows is shown as text */
	FORM_name,
	FORM_address,
	FORM_phase,
	FORM_signal,
	FORM_chirp_wait,
	FORM_chirp_end,
};

struct field {
	const char *name;
	unsigned short offset; /* in the struct of its table */
	enum form form;
};

/* The fields of one table, and the key of the object that shows them. */
struct part {
	const char *name;
	const struct field *fields;
	unsigned int n;
};

/* What every record has; the fields of the first count from the record's beginning, of the second
 * from its `life`. */
extern const struct part flow_common, flow_life;

/*
 * The own parts of a controller's records, from `i` 0 up to NULL; their fields
 * count from the record's `own`.
 */
const struct part *flow_part(__u32 kind, unsigned int i);

/* Is it shown as a number? The others are shown as text. */
bool field_is_number(const struct field *field);

/* What is stored there, in 2, 4 or 8 bytes; a negative number as (__u64)(__s64). */
__u64 field_number(const struct field *field, const void *of);

#endif
