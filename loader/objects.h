/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The BPF objects, embedded in the command: ccbpf_object_<name> up to
 * ccbpf_object_<name>_end. See objects.c.
 */
#ifndef CCBPF_OBJECTS_H
#define CCBPF_OBJECTS_H

#include "ccbpf/controllers.h"

#define X(number, name, access, title, source) \
	extern const char ccbpf_object_##name[], ccbpf_object_##name##_end[];
CCBPF_CONTROLLERS(X)
#undef X

#endif
