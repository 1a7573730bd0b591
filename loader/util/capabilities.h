/* SPDX-License-Identifier: GPL-2.0-only */
/* The capabilities that this process has. */
#ifndef CCBPF_CAPABILITIES_H
#define CCBPF_CAPABILITIES_H

/* What they are for. Each needs those of the one before, too. */
enum capabilities {
	CAPABILITIES_READING, /* maps and pins */
	CAPABILITIES_CHANGING, /* what runs */
	CAPABILITIES_FILES, /* and files of root's, such as pins */
	CAPABILITIES_NAMESPACES, /* and other network namespaces */
};

/*
 * The capabilities that this process lacks for that, "cap_bpf, cap_net_admin", or
 * NULL for none. A static buffer.
 */
const char *capabilities_missing(enum capabilities use);

/* What to do about that. */
const char *capabilities_remedy(void);

#endif
