// SPDX-License-Identifier: GPL-2.0-only
/*
 * The fields of a flow record: see flowfields.h. A new controller needs no line
 * here.
 */
#include <string.h>

#include "cc/flowfields.h"
#include "ccbpf/controllers.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

#define FIELD(of, field, form, unit, text) { #field, offsetof(struct of, field), FORM_##form },

static const struct field common_fields[] = { CCBPF_FLOW_COMMON(FIELD, ccbpf_flow) };
const struct part flow_common = { "flow", common_fields, COUNT(common_fields) };

static const struct field life_fields[] = { CCBPF_FLOW_LIFE(FIELD, ccbpf_flow_life) };
const struct part flow_life = { "life", life_fields, COUNT(life_fields) };

#define X(key, member, table, text)                                                       \
	static const struct field key##_fields[] = { table(FIELD, ccbpf_flow_##member) }; \
	static const struct part key##_part = { #key, key##_fields, COUNT(key##_fields) };
CCBPF_FLOW_PARTS(X)
#undef X

#define X(controller, key) { CCBPF_KIND_##controller, &key##_part },
static const struct {
	__u32 kind;
	const struct part *part;
} own_parts[] = { CCBPF_FLOW_OWN(X) };
#undef X

const struct part *flow_part(__u32 kind, unsigned int i)
{
	for (unsigned int row = 0; row < COUNT(own_parts); row++)
		if (own_parts[row].kind == kind && i-- == 0)
			return own_parts[row].part;
	return NULL;
}

bool field_is_number(const struct field *field)
{
	return field->form <= FORM_u64;
}

__u64 field_number(const struct field *field, const void *of)
{
	const char *at = (const char *)of + field->offset;
	__u64 u64;
	__u32 u32;
	__u16 u16;

	switch (field->form) {
	case FORM_u16:
	case FORM_chirp_wait:
	case FORM_chirp_end:
		memcpy(&u16, at, sizeof(u16));
		return u16;
	case FORM_s32:
		memcpy(&u32, at, sizeof(u32));
		return (__s32)u32;
	case FORM_u64:
		memcpy(&u64, at, sizeof(u64));
		return u64;
	default:
		memcpy(&u32, at, sizeof(u32));
		return u32;
	}
}
