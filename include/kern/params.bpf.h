/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A controller's parameters on the kernel side: the map `.data.params`, whose only
 * value is the struct that include/ccbpf/params.h makes from the controller's table.
 * The object calls it `params`.
 */
#ifndef CCBPF_KERN_PARAMS_BPF_H
#define CCBPF_KERN_PARAMS_BPF_H

#include "ccbpf/params.h"
#include "law/fixed.h"

/* For a table: the initialiser of each parameter. */
#define PARAM_DEFAULT(name, unit, min, max, def, source, text) .name = def,

/* For a table: param_<name>(), the parameter as it is now, clamped whoever wrote it. The verifier
 * forgets where it was clamped: each parameter would double the paths that it follows. */
#define PARAM_GETTER(name, unit, min, max, def, source, text) \
	static __always_inline u32 param_##name(void)         \
	{                                                     \
		u32 v = *(volatile u32 *)&params.name;        \
                                                              \
		if (min)                                      \
			v = law_max(v, min);                  \
		return law_forget(law_min(v, max));           \
	}

#endif
