/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Which connections get which controller, or receive in the background: the maps of bpf/run.bpf.c, bpf/assign.bpf.c,
 * bpf/unit.bpf.c and bpf/rx_moved.bpf.c.
 *
 *   <root>/runs/<name>/run      array of 1, read-only: struct ccbpf_run
 *                     /counts   array of 1: struct ccbpf_run_counts
 *                     /link     bpf/run.bpf.c at the run's cgroup, where it sends in the background
 *                     /receive  bpf/rx_le.bpf.c there, where it receives in the background
 *   <root>/rules/link           the program at the root cgroup; its maps are found by it:
 *        rules                  array: struct ccbpf_rule, in the order in which they win
 *        prefixes               hash: struct ccbpf_prefix -> struct ccbpf_rule_set, all that may match its addresses
 *        cgroup_ids, cgroup_names  hashes: id or name of a cgroup -> those that name it
 *        rule_counts            hash: id of a rule -> struct ccbpf_choice_counts
 *        ruled                  storage of sockets: struct ccbpf_chosen, of those that got their controller by a rule,
 *                               while their flow has no record;
 *                               also pinned as <root>/ruled, where the controllers find it
 *        receives               storage of sockets: which rule holds their receive window, and how
 *   <root>/units/<controller>   the program that units of systemd name; its maps are found by it:
 *               rx_le           the same for what they receive
 *        unit_counts            array of 1: struct ccbpf_choice_counts, of all these units together
 *        chosen                 storage of sockets: struct ccbpf_chosen with zeroes but for `key`, of those that got their controller
 *        receives               as above, with 0 in the place of a rule's id
 *   <root>/renice/link          bpf/rx_moved.bpf.c at the root cgroup, while `renice --download` holds a connection
 *        receives               as above: it holds their receive window
 *        .data.moved            array of 1: struct ccbpf_moved
 */
#ifndef CCBPF_RULE_H
#define CCBPF_RULE_H

#include "ccbpf/flow.h"
#include "ccbpf/types.h"

#define CCBPF_RULE_ABI 9 /* grows with any change to one of these layouts */

#define CCBPF_CGROUP_LEN 512 /* bytes of a cgroup's path with its NUL */
#define CCBPF_WORD_LEN 32 /* bytes of a command's name with its NUL */
#define CCBPF_DSCP_KEEP 64 /* no DSCP: they have six bits */
#define CCBPF_DSCP_LE 1 /* RFC 8622: lower effort */

/* What to do with a connection. */
#define CCBPF_CHOICE_FORCE 1 /* even if its application has chosen a controller */
#define CCBPF_CHOICE_RESTRICTED 2 /* only if its socket belongs to root */
#define CCBPF_CHOICE_EXEMPT 4 /* change nothing: the connection keeps its default */
#define CCBPF_CHOICE_DOWNLOAD 8 /* hold its receive window back */
#define CCBPF_CHOICE_KEEP 16 /* with DOWNLOAD: do only that, the connection keeps its controller */

#define CCBPF_RECEIVER "rx_le" /* in a choice's `controller`: hold only the receive window */

struct ccbpf_choice {
	char controller[CCBPF_NAME_LEN];
	__u32 flags; /* CCBPF_CHOICE_... */
	__u32 dscp; /* DSCP of its packets; CCBPF_DSCP_KEEP: unchanged */
};

/*   X(name, text) */
#define CCBPF_CHOICE_COUNTS(X)                                                                  \
	X(set, "connections that got the controller")                                           \
	X(kept, "connections whose application had chosen a controller")                        \
	X(refused, "connections that went on with their default: the kernel "                   \
		   "refused the controller, or it is reserved for root")                        \
	X(exempt, "connections left alone by a rule with --not")                                \
	X(unmarked, "connections whose DSCP could not be set")                                  \
	X(receivers, "connections whose receive window was in the background")                  \
	X(unstamped, "connections without TCP timestamps, whose receive window was left alone") \
	X(unheld, "connections without memory for the state of their receive window")

struct ccbpf_choice_counts {
#define X(name, text) __u64 name;
	CCBPF_CHOICE_COUNTS(X)
#undef X
};

/* Units of systemd that name the program of a controller. */
struct ccbpf_unit {
	__u32 abi; /* CCBPF_RULE_ABI of the object */
	__u32 reserved;
	struct ccbpf_choice choice;
};

/* What the storage of a socket says about the rule that gave it its controller. */
struct ccbpf_chosen {
	__u32 rule; /* the rule's id */
	__u32 key; /* the kernel's, of the controller that it gave: for a socket that connects anew */
	__u64 made_ns; /* of the rule: ids begin at 1 again after the last rule was removed */
};

/* What bpf/chosen.bpf.c writes about a connection that has such a storage, or that of a run. */
struct ccbpf_chosen_record {
	__u64 flow; /* key of its controller's record in `flows` */
	__u64 cookie; /* key of its receive window's record there */
	__u32 rule; /* the first number of its storage */
	__u32 reserved;
};

/* What bpf/held.bpf.c writes about a socket that a process holds. */
struct ccbpf_held_record {
	__u64 flow, cookie; /* as above */
	__u32 pid;
	__u32 reserved;
};

/* Which directions of a run are in the background. */
#define CCBPF_RUN_UPLOAD 1 /* what it sends: bpf/run.bpf.c */
#define CCBPF_RUN_DOWNLOAD 2 /* what it receives: bpf/rx_le.bpf.c */

/* The instance in a receive window's record is `started_ns` of the run, or one of these. */
#define CCBPF_RECEIVED_BY_RULE 1
#define CCBPF_RECEIVED_BY_UNIT 2
#define CCBPF_RECEIVED_BY_RENICE 3
/* Of a gateway: this, and its id (struct ccbpf_gateway_config) in the 30 bits above the lowest 32. The
 * records' keys are the same with a number of their own in the lowest 32. */
#define CCBPF_RECEIVED_BY_GATEWAY (1ull << 62)

/* The program that holds what `renice --download` has moved. */
struct ccbpf_moved {
	__u32 abi; /* CCBPF_RULE_ABI of the object */
	__u32 opening; /* 1: the program goes, so their windows open */
};

/* What bpf/rx_open.bpf.c is to do; it is not pinned. */
struct ccbpf_rx_open {
	__u32 foreign; /* 1: what is remembered is of another layout */
	__u32 by_rule; /* 1: those of rules that there are stay held */
};

/* A run: one command in a cgroup of its own. */
struct ccbpf_run {
	__u32 abi; /* CCBPF_RULE_ABI of the object */
	__u32 uid; /* the user who runs the command */
	__u64 started_ns; /* CLOCK_MONOTONIC */
	__u32 directions; /* CCBPF_RUN_UPLOAD, CCBPF_RUN_DOWNLOAD */
	__u32 reserved;
	struct ccbpf_choice choice;
	char command[CCBPF_WORD_LEN];
	char cgroup[CCBPF_CGROUP_LEN]; /* its path below the cgroup file system */
};

/*   X(name, text): what the connections that got the controller did */
#define CCBPF_RUN_COUNTS(X)                                                              \
	X(opened, "connections in the background")                                       \
	X(closed, "connections among them that have ended")                              \
	X(uncounted, "connections among them without memory for a count of their bytes") \
	X(bytes, "bytes of payload sent by connections that have ended, or are ending")  \
	X(sending_ns, "ns: time in which they sent, all connections together")           \
	X(held_ns, "ns: time among it in which the controller held its window back")     \
	X(received, "bytes of payload received by the connections among receivers")      \
	X(receiving_ns, "ns: time in which they received, all connections together")     \
	X(receiving_held_ns, "ns: time among it in which their receive window was held back")

struct ccbpf_run_counts {
	struct ccbpf_choice_counts choice;
#define X(name, text) __u64 name;
	CCBPF_RUN_COUNTS(X)
#undef X
	__u64 opening; /* 1: the run ends before its connections, so their windows open */
};

#define CCBPF_RULES_MOST 2048
#define CCBPF_UNIT_LEN 128 /* bytes of a unit's name with its NUL */
#define CCBPF_LOOKS_CGROUPS 4096 /* cgroups whose rules are remembered */

/* A set of rules: bit i of the whole is rule i of `rules`. Only a program and the loader that loads
 * it share this layout: it is no part of the ABI. */
struct ccbpf_rule_set {
	__u64 filled; /* bit w: words[w] has bits. First, so that it shares a cache line with the key of a map */
	__u64 words[CCBPF_RULES_MOST / 64];
};

#define CCBPF_MAPPED_BITS 96 /* of ::ffff:0:0/96, all of IPv4 */

/* An address, and how many of its bits count; IPv4 is ::ffff:a.b.c.d, with CCBPF_MAPPED_BITS more. */
struct ccbpf_prefix {
	__u32 bits;
	__u8 address[16];
};

#define CCBPF_LENGTHS_MOST 129 /* of prefixes: 0 to 128 bits */
#define CCBPF_LENGTHS_STEPS 8 /* of a binary search among them */

/* The lengths of the prefixes that there are, in ascending order. As with struct ccbpf_rule_set, only a
 * program and its loader share this layout. */
struct ccbpf_rule_lengths {
	__u32 n; /* at least 2: all of IPv6, all of IPv4 */
	struct {
		__u32 bits;
		__u32 mask[4]; /* of an address, in network byte order: the bits that count */
	} at[CCBPF_LENGTHS_MOST];
};

/* The conditions that a rule may set for a connection. */
#define CCBPF_RULE_REMOTE 1 /* its remote address lies in `remote` */
#define CCBPF_RULE_CGROUP 2 /* its socket was made in the cgroup with `cgroup_id`, or below */
#define CCBPF_RULE_UNIT 4 /* the same, of the systemd unit `cgroup` */
#define CCBPF_RULE_NETNS 8 /* it is in the network namespace with `netns_cookie` */
#define CCBPF_RULE_LOCAL_PORT 16
#define CCBPF_RULE_REMOTE_PORT 32
#define CCBPF_RULE_FROM 64 /* without the rule it has the controller `from` */

/* Where a rule comes from. */
#define CCBPF_PLACE_HAND 0
#define CCBPF_PLACE_POD 1 /* `ccbpf apply --pods`: from a pod's annotation */
#define CCBPF_PLACE_FILE 2 /* the first in the file of `ccbpf apply`; the second has 3, … */

struct ccbpf_rule {
	__u32 id;
	__u32 conditions; /* CCBPF_RULE_..., all of which must hold */
	struct ccbpf_choice choice;
	__u64 made_ns; /* CLOCK_MONOTONIC, when it was made; no other rule has the same */
	__u64 netns_cookie;
	__u64 cgroup_id;
	struct ccbpf_prefix remote;
	__u16 local_first, local_last; /* ports, in host byte order */
	__u16 remote_first, remote_last;
	__u32 place; /* CCBPF_PLACE_...: of two rules that are equal else, the smaller wins */
	char netns[CCBPF_UNIT_LEN]; /* as it was given */
	char cgroup[CCBPF_CGROUP_LEN]; /* its path, or the unit's name */
	char from[CCBPF_NAME_LEN]; /* zeroes behind it */
};

#endif
