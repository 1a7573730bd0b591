/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A controller's BPF object on its way into the kernel: open, load, attach,
 * pin.
 */
#ifndef CCBPF_PROGRAM_H
#define CCBPF_PROGRAM_H

#include <bpf/libbpf.h>

#include "cc/controllers.h"
#include "cc/params.h"

struct program {
	const struct controller *controller;
	struct bpf_object *obj;
	struct bpf_map *ops, *maps[CONTROLLER_MAPS];
	struct bpf_link *link; /* NULL until attached */
};

/*
 * Let libbpf say as much as --verbose asks for. Once, before anything else of
 * libbpf.
 */
void program_logging(void);

/*
 * Open the embedded object and write its identity. The values go into its
 * parameters unless `params_fd` >= 0, which is a map to use instead. Every
 * function returns EXIT_OK, or the exit code after saying what failed.
 */
int program_open(const char *what, struct program *program, const struct controller *c,
		 const struct values *values, int params_fd);

/*
 * Load it into the kernel, with the shared maps that are pinned, and pin those
 * that are not.
 */
int program_load(const char *what, struct program *program);

/* Register it: the name becomes selectable. */
int program_attach(const char *what, struct program *program);

/*
 * Register it in place of what the pinned link `link_fd` holds, without a gap.
 * bpf_link__update_map() cannot do that: it takes every link for one that
 * libbpf attached itself, and writes behind the smaller one that it opens from
 * a pin (libbpf 1.4 to 1.7).
 */
int program_replace(const char *what, const struct program *program, int link_fd);

/* Release everything; what is not pinned by then ends. */
void program_close(struct program *program);

#endif
