/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The BPF objects, embedded in the command: ccbpf_object_<name> up to
 * ccbpf_object_<name>_end, of the controllers, of the early-marking queue, and of what
 * chooses a controller. See objects.c. Functions that get `what` return EXIT_OK, or the
 * exit code after saying what failed.
 */
#ifndef CCBPF_OBJECTS_H
#define CCBPF_OBJECTS_H

#include <bpf/libbpf.h>

#include "ccbpf/controllers.h"

#define OBJECT_DECLARE(name) extern const char ccbpf_object_##name[], ccbpf_object_##name##_end[];

#define X(number, name, access, title, source) OBJECT_DECLARE(name)
CCBPF_CONTROLLERS(X)
#undef X
OBJECT_DECLARE(nf_red)
OBJECT_DECLARE(gateway)
OBJECT_DECLARE(renice)
OBJECT_DECLARE(renice_rx)
OBJECT_DECLARE(run)
OBJECT_DECLARE(chosen)
OBJECT_DECLARE(chosen_tcp)
OBJECT_DECLARE(held)
OBJECT_DECLARE(unit)
OBJECT_DECLARE(assign)
OBJECT_DECLARE(rx_le)
OBJECT_DECLARE(rx_moved)
OBJECT_DECLARE(rx_open)

/* Open one, by the name that its errors are to say. */
int object_open(const char *what, const char *name, const char *begin, const char *end,
		struct bpf_object **obj);

/* Find a map of it whose value has this size; 0: any. */
int object_map(const char *what, const struct bpf_object *obj, const char *name, size_t size,
	       struct bpf_map **map);

/* What a data map that object_map() found holds when it is loaded, to be changed before. */
void *object_initial(const struct bpf_map *map);

/* Let it use the map behind `fd` in the place of one of its own. */
int object_reuse(const char *what, const struct bpf_object *obj, const char *name, int fd);

/* Load it into the kernel. */
int object_load(const char *what, struct bpf_object *obj);

#endif
