/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The BPF objects, embedded in the command: ccbpf_object_<name> up to
 * ccbpf_object_<name>_end, of the controllers and of the early-marking queue.
 * See objects.c.
 */
#ifndef CCBPF_OBJECTS_H
#define CCBPF_OBJECTS_H

#include "ccbpf/controllers.h"

#define OBJECT_DECLARE(name) extern const char ccbpf_object_##name[], ccbpf_object_##name##_end[];

#define X(number, name, access, title, source) OBJECT_DECLARE(name)
CCBPF_CONTROLLERS(X)
#undef X
OBJECT_DECLARE(nf_red)

#endif
