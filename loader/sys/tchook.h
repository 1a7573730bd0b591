/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * One tc program of ours on one side of a device, as its pins tell (sys/attachment.h, strict): what holds it
 * there is a TCX link (6.6), or a filter at the device's clsact where there is no TCX.
 *
 *   <root>/<dir>/<netns>_<ifindex><suffix>/identity, and the maps of its table
 *   <root>/<dir>/<netns>_<ifindex><suffix>/link      TCX: the attachment itself
 *   <root>/<dir>/<netns>_<ifindex><suffix>/program   instead of it, where there is no TCX: a filter holds
 *                                                    this program, whoever made the clsact
 *
 * <netns> is the inode of the device's network namespace.
 */
#ifndef CCBPF_TCHOOK_H
#define CCBPF_TCHOOK_H

#include "ccbpf/aqm.h"
#include "sys/attachment.h"
#include "sys/device.h"

/* A sort of them. */
struct tchook_kind {
	const char *dir; /* below the root */
	const char *suffix; /* of its directories' names */
	const char *title; /* in errors */
	const char *command; /* `ccbpf <command> attach DEV` */
	bool ingress; /* the side: what comes in; else what goes out */
	const struct attachment_map *maps; /* the first: struct ccbpf_aqm_identity */
	const struct attachment_kind *attachment; /* TCHOOK_ATTACHMENT */
};

struct tchook {
	const struct tchook_kind *kind;
	struct attachment attachment; /* it holds the program */
	/* The device as the directory's name says; the rest is zero where it is not readable. */
	struct ccbpf_aqm_identity identity;
};

/* Of a device, before its pins are read. */
struct tchook tchook_of(const struct tchook_kind *kind, uint32_t netns, uint32_t ifindex);

/* Open what is pinned for a device. Returns EXIT_OK or the exit code. */
int tchook_open(const char *what, const struct tchook_kind *kind, uint32_t netns, uint32_t ifindex,
		struct tchook *out);

/* Whether it is attached. */
bool tchook_is_attached(const struct tchook *hook);

/* Whether its device is, or was, in the network namespace of this process. */
bool tchook_is_here(const struct tchook *hook);

/* The name of its device: now, or when it was attached where the device is not seen. Until the next one is asked for. */
const char *tchook_device(const struct tchook *hook);

/*
 * Open all of a sort that are pinned, in no order; the caller closes and frees them. What has no name
 * of ours is left out, and what cannot be opened, after saying why. Returns EXIT_OK or the exit code.
 */
int tchook_open_all(const char *what, const struct tchook_kind *kind, struct tchook **out,
		    unsigned int *n);

/*
 * device_require(), where the error says in which network namespace a device of this name has one of the sort. Returns
 * EXIT_OK or the exit code.
 */
int tchook_require_device(const char *what, const struct tchook_kind *kind, const char *name,
			  struct device *device);

/* Its state in words. */
const char *tchook_state_text(const struct tchook *hook);

/* Read the one value of a map, by its place in the table. Returns EXIT_OK or the exit code. */
int tchook_read_map(const char *what, const struct tchook *hook, unsigned int map, void *out);

/* The same of an array per CPU of sums, all __u64, which are added up. */
int tchook_read_sums(const char *what, const struct tchook *hook, unsigned int map, __u64 *sums,
		     unsigned int n);

/* attachment_sweep() of all of a sort, and of their directory where nothing is left. */
int tchook_sweep(const char *what, const struct tchook_kind *kind, bool all,
		 struct json_object *removed);

/* Put what lies below their directory and is not of one of these sorts, which share it, behind `foreign`. */
void tchook_foreign(const struct tchook_kind *const *kinds, unsigned int n,
		    struct json_object *foreign);

/* Whether a device can have such a program. Returns EXIT_OK, or the exit code after saying why not. */
int tchook_require(const char *what, const struct device *device);

/* The identity of a program that is loaded for a device. */
void tchook_identify(const struct device *device, struct ccbpf_aqm_identity *identity);

/*
 * Pin the maps of a loaded object, and attach its program. `hook`: of the device, with its identity. Returns
 * EXIT_OK or the exit code; then something may be left, for tchook_remove().
 */
int tchook_hold(const char *what, const struct bpf_object *obj, const struct device *device,
		struct tchook *hook);

/* Take it off the device and remove its pins. Returns EXIT_OK or the exit code. */
int tchook_remove(const char *what, struct tchook *hook);

/* For TCHOOK_ATTACHMENT. */
int tchook_read(struct attachment *a, const struct bpf_link_info *link);
int tchook_release(const char *what, const struct attachment *a);

#define TCHOOK_LINK 11 /* BPF_LINK_TYPE_TCX of 6.6: the headers here may be older */

/* What struct attachment_kind says of such a program. */
#define TCHOOK_ATTACHMENT(maps, its_abi, its_program) \
	{ .n_maps = (maps),                           \
	  .abi = (its_abi),                           \
	  .link_type = TCHOOK_LINK,                   \
	  .instead = "program",                       \
	  .instead_kind = PIN_KIND_PROGRAM,           \
	  .strict = true,                             \
	  .program = (its_program),                   \
	  .program_type = BPF_PROG_TYPE_SCHED_CLS,    \
	  .read = tchook_read,                        \
	  .release = tchook_release }

#endif
