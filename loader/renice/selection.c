// SPDX-License-Identifier: GPL-2.0-only
/* Which transfers `ccbpf renice` moves: see selection.h. */
#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "out/errors.h"
#include "renice/control_group.h"
#include "renice/selection.h"
#include "sys/process.h"
#include "util/memory.h"
#include "util/text.h"

#define PORT_MOST 65535
#define PID_MOST 4194304 /* PID_MAX_LIMIT, include/linux/threads.h */
#define V4_BITS 32
#define V6_BITS 128
#define V4_AT (V6_BITS - V4_BITS) /* of an IPv4 address in ::ffff:a.b.c.d */

static int bad(const char *what, const char *option, const char *word, const char *why,
	       const char *remedy)
{
	return FAIL(EXIT_USAGE, .what = what, .on = option, .why = text("`%.64s` %s", word, why),
		    .remedy = remedy);
}

/* A whole number from `least` to `most`, and nothing behind it. */
static bool parse_number(const char *word, unsigned long least, unsigned long most,
			 unsigned long *out)
{
	char *end;

	errno = 0;
	*out = strtoul(word, &end, 10);
	return isdigit((unsigned char)*word) && !*end && !errno && *out >= least && *out <= most;
}

static int parse_port(const char *what, const char *word, struct ccbpf_renice_config *config)
{
	unsigned long port;

	if (!parse_number(word, 1, PORT_MOST, &port))
		return bad(what, "--port", word, text("is not a port from 1 to %u", PORT_MOST),
			   "give a number, as `ss -tn` shows it");
	config->port = port;
	return EXIT_OK;
}

static int parse_name(const char *what, const char *option, const char *word,
		      char name[CCBPF_RENICE_NAME_LEN])
{
	if (!*word || strlen(word) >= CCBPF_RENICE_NAME_LEN)
		return bad(what, option, word,
			   text("is not a name of 1 to %u bytes", CCBPF_RENICE_NAME_LEN - 1),
			   "`ccbpf list` and `sysctl net.ipv4.tcp_available_congestion_control` "
			   "show the controllers");
	memcpy(name, word, strlen(word));
	return EXIT_OK;
}

/* Set the first `bits` bits of 16 bytes. */
static void fill_mask(uint8_t *mask, unsigned int bits)
{
	for (unsigned int i = 0; i < bits; i++)
		mask[i / 8] |= 0x80 >> i % 8;
}

/* "ADDRESS" as IPv6. Returns its family, or 0. */
static int parse_address(const char *word, uint8_t address[16])
{
	if (inet_pton(AF_INET6, word, address) == 1)
		return AF_INET6;
	memset(address, 0, 16);
	address[10] = address[11] = 0xff;
	return inet_pton(AF_INET, word, address + 12) == 1 ? AF_INET : 0;
}

/* Is it in ::ffff:0:0/96, where the addresses of IPv4 are? */
static bool is_mapped(const uint8_t address[16])
{
	return IN6_IS_ADDR_V4MAPPED((const struct in6_addr *)address);
}

/* ADDRESS or ADDRESS/BITS, of IPv4 or IPv6. */
static int parse_prefix(const char *what, const char *word, struct ccbpf_renice_config *config)
{
	uint8_t *prefix = (uint8_t *)config->prefix, *mask = (uint8_t *)config->mask;
	const char *slash = strchr(word, '/');
	char address[INET6_ADDRSTRLEN] = "";
	unsigned long bits;
	int family = 0, most;

	if ((slash ? (size_t)(slash - word) : strlen(word)) < sizeof(address)) {
		memcpy(address, word, slash ? (size_t)(slash - word) : strlen(word));
		family = parse_address(address, prefix);
	}
	most = family == AF_INET ? V4_BITS : V6_BITS;
	bits = most;
	if (!family || (slash && !parse_number(slash + 1, 0, most, &bits)))
		return bad(what, "--dst", word, "is not an address or a prefix",
			   "for example 192.0.2.7, 192.0.2.0/24 or 2001:db8::/32");
	if (family == AF_INET)
		bits += V4_AT;
	fill_mask(mask, bits);
	config->peer = bits >= V4_AT && is_mapped(prefix) ? CCBPF_RENICE_PEER_V4
							  : CCBPF_RENICE_PEER_V6;
	for (int i = 0; i < 16; i++)
		if (prefix[i] & ~mask[i])
			return bad(what, "--dst", word, "has bits set behind its prefix",
				   "set them to 0, or give more bits");
	return EXIT_OK;
}

static void add_inode(void *data, pid_t pid, uint64_t inode)
{
	struct selection *selection = data;

	(void)pid;
	/* Doubled whenever its number is a power of two. */
	if (!(selection->n_inodes & (selection->n_inodes - 1)))
		selection->inodes =
			must_grow(selection->inodes, (2 * selection->n_inodes + 1) * sizeof(inode));
	selection->inodes[selection->n_inodes++] = inode;
}

/* The sockets among the descriptors of a process. */
static int add_process(const char *what, const char *word, struct selection *selection)
{
	unsigned long pid;
	int err;

	if (!parse_number(word, 1, PID_MOST, &pid))
		return bad(what, "--pid", word, "is not the id of a process",
			   "`pidof PROGRAM` or `pgrep` show it");
	err = process_sockets(pid, add_inode, selection);
	if (err == -ENOENT)
		return FAIL(EXIT_FAILED, .what = what, .on = text("--pid %lu", pid),
			    .why = "there is no such process",
			    .remedy = "`pidof PROGRAM` or `pgrep` show those that there are");
	return err ? fail_errno(what, text("/proc/%lu/fd", pid), err) : EXIT_OK;
}

int selection_parse(const char *what, const struct selection_words *words,
		    struct selection *selection)
{
	struct ccbpf_renice_config *config = &selection->config;
	int err;

	memset(selection, 0, sizeof(*selection));
	err = words->to ? parse_name(what, NULL, words->to, config->to) : EXIT_OK;
	if (!err && words->from)
		err = parse_name(what, "--from", words->from, config->from);
	if (!err && words->port)
		err = parse_port(what, words->port, config);
	if (!err && words->dst)
		err = parse_prefix(what, words->dst, config);
	if (!err && words->cgroup)
		err = control_group_find(what, "--cgroup", words->cgroup,
					 (uint64_t *)&config->cgroup);
	config->by_inode = words->n_pids > 0;
	for (unsigned int i = 0; !err && i < words->n_pids; i++)
		err = add_process(what, words->pids[i], selection);
	return err;
}

void selection_free(struct selection *selection)
{
	free(selection->inodes);
}
