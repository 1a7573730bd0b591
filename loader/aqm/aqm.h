/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * nf_red on a device, as its pins tell. What runs is what is pinned:
 *
 *   <root>/aqm/<netns>_<ifindex>/identity config state counts
 *   <root>/aqm/<netns>_<ifindex>/link      TCX (6.6): the attachment itself,
 *                                          pinned last
 *   <root>/aqm/<netns>_<ifindex>/program   instead of it, where there is no
 *                                          TCX: a filter at the device's clsact
 *                                          holds this program, whoever made the
 *                                          clsact
 *
 * <netns> is the inode of the device's network namespace. A directory whose
 * attachment is not there is what an interrupted ccbpf left, or its device is
 * gone.
 */
#ifndef CCBPF_AQM_LOADER_H
#define CCBPF_AQM_LOADER_H

#include <stdbool.h>
#include <stdint.h>

#include "ccbpf/aqm.h"

#define AQM_DIR "aqm" /* in the pin directory */

enum aqm_state {
	AQM_ABSENT,
	AQM_REST, /* an interrupted ccbpf left it */
	AQM_GONE, /* its device is no more, or in another namespace */
	AQM_TAKEN, /* somebody else took our program off the device */
	AQM_ATTACHED,
	AQM_UNREADABLE, /* not ours, or of another version */
};

struct aqm {
	char dir[64]; /* "aqm/<netns>_<ifindex>" */
	enum aqm_state state;
	struct ccbpf_aqm_identity identity; /* zero where it is not readable */
	bool by_filter; /* no TCX */
	bool elsewhere; /* by filter, in a namespace where we cannot look */
	uint32_t link_id, program_id;
	int hold_fd; /* link or program, or -1 */
};

/* Open what is pinned for a device. Returns EXIT_OK or the exit code. */
int aqm_open(const char *what, uint32_t netns, uint32_t ifindex, struct aqm *out);
void aqm_close(struct aqm *aqm);

/*
 * Open all that are pinned, in no order; the caller closes and frees them. What
 * has no name of ours is left out, and what cannot be opened, after saying why.
 * Returns EXIT_OK or the exit code.
 */
int aqm_open_all(const char *what, struct aqm **out, unsigned int *n);

/* Whether a directory's name is one of ours, and of which device. */
bool aqm_parse_dir(const char *name, uint32_t *netns, uint32_t *ifindex);

/* Whether it can only be removed: anything but attached and unreadable. */
bool aqm_is_rest(const struct aqm *aqm);

/* Why, in words. */
const char *aqm_state_text(const struct aqm *aqm);

#endif
