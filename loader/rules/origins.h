/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Which rule, run or unit of systemd gave a live connection its controller, or which of them, or a gateway, holds
 * its receive window: of all network namespaces, at one instant. The rule that gave a controller is in the flow's record
 * (kern/ruled.bpf.h), the others are in the storage of the sockets (bpf/chosen.bpf.c).
 */
#ifndef CCBPF_ORIGINS_H
#define CCBPF_ORIGINS_H

#include <json-c/json.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ccbpf/controllers.h"
#include "ccbpf/flow.h"
#include "gateway/gateway.h"
#include "rules/run.h"
#include "rules/standing.h"
#include "sys/held.h"

enum origin_by {
	ORIGIN_RULE,
	ORIGIN_RUN,
	ORIGIN_UNIT, /* of systemd */
	ORIGIN_RENICE, /* `renice --download` */
	ORIGIN_GATEWAY, /* it is another host's */
};

struct origin {
	uint64_t flow; /* key of its record in `flows` */
	uint64_t cgroup; /* id of its socket's; 0: not known */
	enum origin_by by;
	unsigned int id; /* of the rule or run, else 0 */
	const struct ccbpf_rule *rule; /* NULL: not by a rule, or it was removed */
	const char *device; /* of the gateway, else NULL */
	char controller[CCBPF_NAME_LEN]; /* that it gives; "": not known, or a receive window */
};

#define ORIGIN_NAMES 64 /* cgroups and processes whose names are kept: most flows share theirs */

struct origins {
	struct origin *all; /* that sockets remember: sorted by flow, without `cgroup` and `rule` */
	size_t n;
	bool known; /* the sockets could be read; false: nobody knows of any */
	struct standing standing;
	struct run *runs;
	unsigned int n_runs;
	struct gateway_name *gateways;
	struct origin *by_gateway; /* of each of them */
	unsigned int n_gateways;
	uint64_t units_unstamped; /* connections of units without TCP timestamps */
	struct held held; /* read when the first process is asked for */
	bool have_held;
	struct kept_name {
		uint64_t id; /* 0: empty */
		char *name; /* NULL: it has none */
		const char *why; /* then: "gone" or "unknown" */
	} cgroups[ORIGIN_NAMES], processes[ORIGIN_NAMES];
};

/* Read them; needs a lock. What cannot be read is left out: then nobody knows. */
void origins_read(struct origins *out);
void origins_free(struct origins *origins);

/*
 * Who gave the flow with this key and record the controller that it has, or holds its receive window: in `*out`. Returns
 * false where it is nobody of these, as after `renice`, or after a choice of its program.
 */
bool origins_find(const struct origins *origins, uint64_t flow, const struct ccbpf_flow *record,
		  struct origin *out);

/* The first of the processes that hold its socket, and their number; NULL: none is seen. */
const struct held_socket *origin_processes(struct origins *origins, const struct origin *origin,
					   size_t *n);

/* "rule 3", "run 1", "systemd", "renice", "gateway eth0", a text(). */
const char *origin_name(const struct origin *origin);

/* For any flow: the same with its conditions or command, or "by no rule, run or unit", and with its cgroup and its
 * processes, a text(). NULL: nothing is known. */
const char *origins_words(struct origins *origins, uint64_t flow, const struct ccbpf_flow *record);

/* {"by", "id", "of", "cgroup", "processes": [{"pid", "name"}]}. */
struct json_object *origin_json(struct origins *origins, const struct origin *origin);

/* {"by", "id"}, to which more can be added. */
struct json_object *origin_id_json(const struct origin *origin);

/* How many connections there are by this giver. */
size_t origins_count(const struct origins *origins, enum origin_by by);

/*
 * Connections that a rule, a run or a unit is for and whose receive window is left alone, because they have no TCP
 * timestamps. The kernel counts them since the rule or the run began, and does not remember which they are.
 */
/* "1 by rule 3, 2 by run 1", a text(), or NULL where there is none. */
const char *origins_unstamped_words(const struct origins *origins);

/* [{"by", "id", "connections"}]. */
struct json_object *origins_unstamped_json(const struct origins *origins);

/* An order of origins by what gave the controller. */
int origin_by_giver(const void *a, const void *b);

#endif
