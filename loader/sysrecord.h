/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A sysctl of this network namespace that a command changes for as long as
 * controllers are enabled. What was there before is kept in a small pinned map,
 * <root>/<pin>, with the namespace it belongs to.
 */
#ifndef CCBPF_SYSRECORD_H
#define CCBPF_SYSRECORD_H

#include <stdbool.h>

#define SYSRECORD_LEN 16 /* of a value, with its 0 */

struct sysrecord {
	const char *pin; /* its map's name */
	const char *name; /* net.ipv4... */
	const char *path; /* /proc/sys/net/ipv4/... */
};

/* Its value now ("" where it cannot be read). */
void sysrecord_now(const struct sysrecord *sysctl, char *value,
		   unsigned int size);

/* Returns 0 or -errno. */
int sysrecord_write(const struct sysrecord *sysctl, const char *value);

/*
 * What is remembered, and whether it is of this network namespace. Returns 0 or
 * -errno; -ENOENT: nothing is.
 */
int sysrecord_read(const struct sysrecord *sysctl, char previous[SYSRECORD_LEN],
		   bool *own);

/*
 * Remember `previous`, for this namespace. Returns EXIT_OK, or the exit code
 * after saying why not.
 */
int sysrecord_remember(const char *what, const struct sysrecord *sysctl,
		       const char *previous);

void sysrecord_forget(const struct sysrecord *sysctl);

#endif
