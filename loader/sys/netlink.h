/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * rtnetlink by libmnl, as far as traffic control needs it: ask for all objects of one
 * kind, and read their attributes.
 */
#ifndef CCBPF_NETLINK_H
#define CCBPF_NETLINK_H

#include <libmnl/libmnl.h>
#include <linux/rtnetlink.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define NETLINK_TYPES \
	32 /* types of attributes that are told apart, in any nest of traffic control */

/* Gets each message: its head, and its attributes (TCA_...) by type; NULL: not there. */
typedef void (*netlink_each)(const struct tcmsg *tc, const struct nlattr **at, void *data);

/*
 * Ask for what is below `parent` of a device (`type`: RTM_GETQDISC and so on), and hand
 * each message of the answer on. Returns 0 or -errno.
 */
int netlink_dump(uint16_t type, uint32_t ifindex, uint32_t parent, netlink_each each, void *data);

/* The attributes of a nest by type; NULL: not there. */
void netlink_parse_nest(const struct nlattr *nest, const struct nlattr *out[NETLINK_TYPES]);

/* Copy what an attribute holds, of `size` bytes. Returns whether it does. */
bool netlink_take(const struct nlattr *at, void *out, size_t size);

/* The string in an attribute; "": it holds none. */
const char *netlink_string(const struct nlattr *at);

#endif
