/* SPDX-License-Identifier: GPL-2.0-only */
/* A network device of the network namespace of this process. */
#ifndef CCBPF_DEVICE_H
#define CCBPF_DEVICE_H

#include <stdint.h>

struct device {
	char name[16]; /* IFNAMSIZ */
	uint32_t ifindex;
	uint32_t netns; /* inode of its network namespace: ours */
	uint32_t packet_bytes; /* MTU and link header */
	uint64_t rate_bps; /* of the link, bit/s; 0: not known */
};

/* Find a device by its name. Returns 0 or -errno: ENODEV. */
int device_find(const char *name, struct device *out);

/* The same. Returns EXIT_OK, or the exit code after saying why not. */
int device_require(const char *what, const char *name, struct device *device);

/* The name that an ifindex has in this namespace now, or NULL. */
const char *device_name(uint32_t ifindex);

/* packets that it has sent, modulo 2^32 */
uint32_t device_sent(const char *name);

/* inode of this process's network namespace */
uint32_t device_netns(void);

#endif
