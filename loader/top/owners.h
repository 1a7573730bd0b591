/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Whose the flows of `ccbpf top` are: their cgroups and processes, and for one flow also what gave
 * it its controller. The cgroup is in the flow's record. To look for the others costs as much as there
 * are open files and sockets, so it is done at most once a period, and for at most a fiftieth of the
 * time of a core: with many of them less often.
 */
#ifndef CCBPF_TOP_OWNERS_H
#define CCBPF_TOP_OWNERS_H

#include "top/group.h"
#include "top/model.h"

/* What knows it: this room does not know the rules. */
struct owner_source {
	void (*look)(void *data); /* for processes, anew */
	/* That of a flow, as of the last look; 0: none is seen. */
	pid_t (*process)(void *data, uint64_t flow);
	bool (*look_for_words)(void *data); /* anew; false: not possible just now */
	/* What gave it its controller, its cgroup and process, a text(); NULL: not known. */
	const char *(*words)(void *data, const struct flow *flow);
	void *data;
};

struct owners {
	struct owner_source source;
	uint64_t period_ns;
	struct owner_names {
		struct owner_name {
			uint64_t group;
			char *name;
		} *all; /* by group */
		size_t n;
	} names[GROUP_KINDS];
	bool grouped; /* the last look was also for cgroups and processes */
	uint64_t due_ns; /* before then there is no look for the same */
	char *said; /* by the source, of the flow that is held; NULL: it is not known */
	struct flow_id said_of;
};

/*
 * Look, if it is time to: with `groups` write cgroups and processes into the flows, and say whose
 * the flow is that the model holds.
 */
void owners_look(struct owners *owners, bool groups, struct model *model);

/*
 * "/system.slice/backup.service", "rsync (4711)". Lives until the next look. NULL: not known, or
 * it is no cgroup or process.
 */
const char *owners_name(const struct owners *owners, enum group_kind kind, uint64_t group);

/* What gave this flow its controller, its cgroup and process; NULL: not known. */
const char *owners_said(const struct owners *owners, const struct flow_id *flow);

void owners_free(struct owners *owners);

#endif
