/* SPDX-License-Identifier: GPL-2.0-only */
/* To how many flows each rule, each run and systemd's units gave a controller, for `status`. */
#ifndef CCBPF_GIVERS_H
#define CCBPF_GIVERS_H

#include "cc/flows.h"
#include "rules/origins.h"

struct givers {
	struct origin *origins; /* of flows, sorted by what gave them the controller */
	size_t n;
};

/* Those of the flows of `c`. */
struct givers givers_of(const struct origins *origins, const struct flow *flows, size_t n_flows,
			const struct controller *c);
void givers_free(struct givers *givers);

/* [{"by", "id", "flows"}] */
struct json_object *givers_json(const struct givers *givers);

/* "tcp_lp: 2 flows by rule 1, 1 by run 1"; nothing where there are none. */
void givers_print(const struct controller *c, const struct givers *givers);

#endif
