/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The iterator bpf/renice.bpf.c, or for downloads bpf/renice_rx.bpf.c: loaded once, opened in each
 * network namespace. Nothing of it is pinned, so nothing is left when the process ends in whatever
 * way.
 */
#ifndef CCBPF_RENICE_ITERATOR_H
#define CCBPF_RENICE_ITERATOR_H

#include <bpf/libbpf.h>
#include <stdbool.h>

#include "renice/selection.h"
#include "rules/moved.h"
#include "sys/namespaces.h"

struct iterator {
	struct bpf_object *obj;
	struct bpf_link *link;
};

/*
 * Load it for this selection. `moved`: for downloads the maps of the program that holds them, if there
 * is one; else NULL. Returns EXIT_OK, or the exit code after saying what failed.
 * iterator_close() after either.
 */
int iterator_open(const char *what, const struct selection *selection, const struct moved *moved,
		  struct iterator *iterator);

/*
 * Walk the sockets of a namespace once, and call `each` for every record, a struct
 * ccbpf_renice_record. Returns 0, or -errno of entering the namespace or of the walk.
 */
int iterator_walk(const char *what, const struct iterator *iterator, const struct netns *netns,
		  void (*each)(void *data, const void *record), void *data);

void iterator_close(struct iterator *iterator);

#endif
