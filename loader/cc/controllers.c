// SPDX-License-Identifier: GPL-2.0-only
/*
 * The controllers that this ccbpf carries. A new one needs its row in
 * include/ccbpf/controllers.h, its parameters in include/ccbpf/params.h, and
 * one line here that joins the two.
 */
#include <string.h>

#include "cc/controllers.h"
#include "ccbpf/identity.h"
#include "ccbpf/rule.h"
#include "out/errors.h"
#include "sys/objects.h"
#include "util/nearest.h"
#include "util/text.h"

#define PARAM(name, unit, min, max, def, source, text) { #name, unit, min, max, def, source, text },
static const struct param params_tcp_lp[] = { TCP_LP_PARAMS(PARAM) };
static const struct param params_tcp_lp_ecn[] = { TCP_LP_ECN_PARAMS(PARAM) };
static const struct param params_hstcp_lp[] = { HSTCP_LP_PARAMS(PARAM) };
static const struct param params_tcpw_lp[] = { TCPW_LP_PARAMS(PARAM) };
static const struct param params_ltcp[] = { LTCP_PARAMS(PARAM) };
static const struct param params_nf_tcp[] = { NF_TCP_PARAMS(PARAM) };
static const struct param params_le[] = { LE_PARAMS(PARAM) };

#define OPEN true
#define RESTRICTED false
#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

#define ARRAY(bytes) ONE_VALUE(BPF_MAP_TYPE_ARRAY, bytes)
#define MAPS(n_params)                                                                      \
	{                                                                                   \
		{ PIN_IDENTITY, ".rodata.identity", ARRAY(sizeof(struct ccbpf_identity)) }, \
		{ PIN_PARAMS, ".data.params", ARRAY((n_params) * sizeof(uint32_t)) },       \
	}

/*
 * Not a table of initialisers in their order, but of named ones: an X-macro row
 * is read by people.
 */
#define X(number, name_, access, title_, source_)         \
	{                                                 \
		.kind = number,                           \
		.name = #name_,                           \
		.open = access,                           \
		.title = title_,                          \
		.source = source_,                        \
		.params = params_##name_,                 \
		.n_params = COUNT(params_##name_),        \
		.object = ccbpf_object_##name_,           \
		.object_end = ccbpf_object_##name_##_end, \
		.maps = MAPS(COUNT(params_##name_)),      \
	},
const struct controller controllers[] = { CCBPF_CONTROLLERS(X) };
#undef X

const unsigned int n_controllers = COUNT(controllers);

#define X(name) [CCBPF_KIND_##name] = true,
bool controller_wants_ecn(const struct controller *c)
{
	static const bool wants[CCBPF_KINDS] = { CCBPF_ECN_CONTROLLERS(X) };

	return wants[c->kind];
}

bool controller_wants_echo(const struct controller *c)
{
	static const bool wants[CCBPF_KINDS] = { CCBPF_ECHO_CONTROLLERS(X) };

	return wants[c->kind];
}
#undef X

const struct controller *controller_find(const char *name)
{
	for_each_controller (c)
		if (strcmp(c->name, name) == 0)
			return c;
	return NULL;
}

const struct controller *controller_background(void)
{
	return controller_find("le");
}

const struct controller *controller_of_kind(uint32_t kind)
{
	for_each_controller (c)
		if (c->kind == kind)
			return c;
	return NULL;
}

int controller_unknown(const char *what, const char *name)
{
	const char *near;

	if (!strcmp(name, CCBPF_RECEIVER))
		return FAIL(
			EXIT_USAGE, .what = what, .on = name,
			.why = "it stands for downloads in the background, and is no controller",
			.remedy =
				"`netnice -d`, `ccbpf assign -d` and `ccbpf renice -d` begin them; they have no parameters");
	near = nearest(name, &controllers[0].name, n_controllers, sizeof(controllers[0]));
	return FAIL(EXIT_USAGE, .what = what, .on = name, .why = "no controller has this name",
		    .remedy = near ? text("did you mean %s?", near)
				   : "`ccbpf list` shows them all");
}
