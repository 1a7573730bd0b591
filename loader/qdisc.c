// SPDX-License-Identifier: GPL-2.0-only
/* A network device and its queueing disciplines: see qdisc.h. */
#include <errno.h>
#include <linux/ethtool.h>
#include <linux/gen_stats.h>

#include <linux/pkt_sched.h>
#include <linux/rtnetlink.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "output.h"
#include "qdisc.h"

#define ETH_HEADER_BYTES 14
#define BUFFER_BYTES 65536 /* what the kernel sends at once is below */
#define ANSWER_S 5

uint32_t device_netns(void)
{
	struct stat st;

	return stat("/proc/self/ns/net", &st) ? 0 : st.st_ino;
}

const char *device_name(uint32_t ifindex)
{
	static char name[IF_NAMESIZE];

	return if_indextoname(ifindex, name);
}

/* bit/s of the link, 0: not known */
static uint64_t link_rate_bps(int fd, struct ifreq *request)
{
	struct ethtool_cmd command = { .cmd = ETHTOOL_GSET };
	uint32_t mbps;

	request->ifr_data = (char *)&command;
	if (ioctl(fd, SIOCETHTOOL, request))
		return 0;
	mbps = ethtool_cmd_speed(&command);
	return mbps == (uint32_t)SPEED_UNKNOWN ? 0 : mbps * 1000000ULL;
}

static void read_link(int fd, const char *name, struct device *out)
{
	struct ifreq request = { 0 };
	uint32_t header = 0;

	snprintf(request.ifr_name, sizeof(request.ifr_name), "%s", name);
	if (ioctl(fd, SIOCGIFHWADDR, &request) == 0 &&
	    (request.ifr_hwaddr.sa_family == ARPHRD_ETHER ||
	     request.ifr_hwaddr.sa_family == ARPHRD_LOOPBACK))
		header = ETH_HEADER_BYTES;
	if (ioctl(fd, SIOCGIFMTU, &request) == 0)
		out->packet_bytes = request.ifr_mtu + header;
	out->rate_bps = link_rate_bps(fd, &request);
}

int device_find(const char *name, struct device *out)
{
	int fd;

	*out = (struct device){ .netns = device_netns() };
	if (!*name || strlen(name) >= IF_NAMESIZE)
		return -ENODEV;
	out->ifindex = if_nametoindex(name);
	if (!out->ifindex)
		return -ENODEV;
	snprintf(out->name, sizeof(out->name), "%s", name);
	fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	read_link(fd, name, out);
	close(fd);
	return out->packet_bytes ? 0 : -ENODEV;
}

/* --- rtnetlink: one dump, a call for each message ------------------------- */

struct dump {
	struct nlmsghdr head;
	struct tcmsg tc;
	struct rtattr invisible; /* TCA_DUMP_INVISIBLE, for qdiscs */
};

typedef void (*each_fn)(const struct tcmsg *tc, int bytes, void *data);

/* Attributes of a message or of a nest, by type; what is not there is NULL. */
static void parse(const struct rtattr *at, int bytes, const struct rtattr **out,
		  unsigned int n)
{
	memset(out, 0, n * sizeof(*out));
	for (; RTA_OK(at, bytes); at = RTA_NEXT(at, bytes))
		if ((at->rta_type & NLA_TYPE_MASK) < n)
			out[at->rta_type & NLA_TYPE_MASK] = at;
}

static void parse_nest(const struct rtattr *nest, const struct rtattr **out,
		       unsigned int n)
{
	parse(nest ? RTA_DATA(nest) : NULL, nest ? RTA_PAYLOAD(nest) : 0, out,
	      n);
}

/* Copy what an attribute holds, of `size` bytes. Returns whether it does. */
static bool take(const struct rtattr *at, void *out, size_t size)
{
	if (!at || RTA_PAYLOAD(at) < size)
		return false;
	memcpy(out, RTA_DATA(at), size);
	return true;
}

/* Hand each message of one datagram on. Returns 1 at the end, 0, or -errno. */
static int hand_on(const char *buffer, ssize_t length, each_fn each, void *data)
{
	const struct nlmsghdr *head = (const void *)buffer;
	const struct nlmsgerr *error;

	for (; NLMSG_OK(head, (unsigned int)length);
	     head = NLMSG_NEXT(head, length)) {
		if (head->nlmsg_type == NLMSG_DONE)
			return 1;
		if (head->nlmsg_type == NLMSG_ERROR) {
			error = NLMSG_DATA(head);
			return error->error ?: 1;
		}
		if (head->nlmsg_len >= NLMSG_LENGTH(sizeof(struct tcmsg)))
			each(NLMSG_DATA(head),
			     head->nlmsg_len -
				     NLMSG_LENGTH(sizeof(struct tcmsg)),
			     data);
	}
	return 0;
}

static int dump(struct dump *ask, each_fn each, void *data)
{
	struct timeval wait = { .tv_sec = ANSWER_S };
	char *buffer = must_alloc(1, BUFFER_BYTES);
	int err = 0,
	    fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);

	if (fd < 0 ||
	    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof(wait)) ||
	    send(fd, ask, ask->head.nlmsg_len, 0) < 0)
		err = -errno;
	while (!err) {
		ssize_t length = recv(fd, buffer, BUFFER_BYTES, 0);

		err = length < 0 ? -errno : hand_on(buffer, length, each, data);
	}
	if (fd >= 0)
		close(fd);
	free(buffer);
	return err < 0 ? err : 0;
}

static struct dump question(uint16_t type, uint32_t ifindex, uint32_t parent)
{
	return (struct dump){
		.head = { .nlmsg_len = NLMSG_LENGTH(sizeof(struct tcmsg)),
			  .nlmsg_type = type,
			  .nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP },
		.tc = { .tcm_ifindex = ifindex, .tcm_parent = parent },
		.invisible = { .rta_len = RTA_LENGTH(0),
			       .rta_type = TCA_DUMP_INVISIBLE },
	};
}

/* --- qdiscs --------------------------------------------------------------- */

static void read_tbf(const struct rtattr *options, struct qdisc *q)
{
	const struct rtattr *at[TCA_TBF_MAX + 1];
	struct tc_tbf_qopt tbf;
	uint64_t rate;

	parse_nest(options, at, TCA_TBF_MAX + 1);
	if (!take(at[TCA_TBF_PARMS], &tbf, sizeof(tbf)))
		return;
	rate = tbf.rate.rate;
	take(at[TCA_TBF_RATE64], &rate, sizeof(rate));
	q->limit = tbf.limit;
	q->rate_bps = rate * 8;
}

static void read_htb(const struct rtattr *options, struct qdisc *q)
{
	const struct rtattr *at[TCA_HTB_MAX + 1];
	struct tc_htb_glob htb;

	parse_nest(options, at, TCA_HTB_MAX + 1);
	if (take(at[TCA_HTB_INIT], &htb, sizeof(htb)) && htb.defcls)
		q->default_class = TC_H_MAKE(q->handle, htb.defcls);
}

static void read_fifo(const struct rtattr *options, struct qdisc *q)
{
	struct tc_fifo_qopt fifo;

	if (take(options, &fifo, sizeof(fifo)))
		q->limit = fifo.limit;
	q->limit_in_packets = *q->kind == 'p';
}

static void read_stats(const struct rtattr *stats, struct qdisc *q)
{
	const struct rtattr *at[TCA_STATS_MAX + 1];
	struct gnet_stats_queue queue;

	parse_nest(stats, at, TCA_STATS_MAX + 1);
	if (take(at[TCA_STATS_QUEUE], &queue, sizeof(queue)))
		q->backlog_bytes = queue.backlog;
}

static const struct {
	const char *kind;
	void (*read)(const struct rtattr *options, struct qdisc *q);
} readers[] = {
	{ "tbf", read_tbf },
	{ "htb", read_htb },
	{ "bfifo", read_fifo },
	{ "pfifo", read_fifo },
	{ "pfifo_head_drop", read_fifo },
};

struct gathering {
	struct qdiscs *all;
	uint32_t ifindex;
};

static void add_qdisc(const struct tcmsg *tc, int bytes, void *data)
{
	struct gathering *to = data;
	const struct rtattr *at[TCA_MAX + 1];
	struct qdisc *q;

	if ((uint32_t)tc->tcm_ifindex != to->ifindex)
		return;
	parse(TCA_RTA(tc), bytes, at, TCA_MAX + 1);
	if (!at[TCA_KIND])
		return;
	if (tc->tcm_parent == TC_H_CLSACT) { /* no queue */
		to->all->ingress = !strcmp(RTA_DATA(at[TCA_KIND]), "ingress");
		to->all->clsact = !to->all->ingress;
		return;
	}
	if (to->all->n == MOST_QDISCS)
		return;
	q = &to->all->q[to->all->n++];
	*q = (struct qdisc){ .handle = tc->tcm_handle,
			     .parent = tc->tcm_parent };
	snprintf(q->kind, sizeof(q->kind), "%s",
		 (const char *)RTA_DATA(at[TCA_KIND]));
	for (size_t i = 0; i < sizeof(readers) / sizeof(readers[0]); i++)
		if (strcmp(readers[i].kind, q->kind) == 0)
			readers[i].read(at[TCA_OPTIONS], q);
	read_stats(at[TCA_STATS2], q);
}

int qdiscs_read(uint32_t ifindex, struct qdiscs *out)
{
	struct dump ask = question(RTM_GETQDISC, ifindex, 0);

	out->n = 0;
	out->clsact = out->ingress = false;
	ask.head.nlmsg_len = sizeof(ask);
	return dump(&ask, add_qdisc, &(struct gathering){ out, ifindex });
}

const struct qdisc *qdisc_under(const struct qdiscs *all, uint32_t parent)
{
	for (unsigned int i = 0; i < all->n; i++)
		if (all->q[i].parent == parent)
			return &all->q[i];
	return NULL;
}

/* --- classes and filters -------------------------------------------------- */

struct class_question {
	uint32_t classid;
	uint64_t rate_bps;
};

static void take_class(const struct tcmsg *tc, int bytes, void *data)
{
	struct class_question *asked = data;
	const struct rtattr *at[TCA_MAX + 1], *own[TCA_HTB_MAX + 1];
	struct tc_htb_opt htb;
	uint64_t rate;

	if (tc->tcm_handle != asked->classid)
		return;
	parse(TCA_RTA(tc), bytes, at, TCA_MAX + 1);
	parse_nest(at[TCA_OPTIONS], own, TCA_HTB_MAX + 1);
	if (!take(own[TCA_HTB_PARMS], &htb, sizeof(htb)))
		return;
	rate = htb.ceil.rate;
	take(own[TCA_HTB_CEIL64], &rate, sizeof(rate));
	asked->rate_bps = rate * 8;
}

uint64_t class_rate_bps(uint32_t ifindex, uint32_t classid)
{
	struct class_question asked = { .classid = classid };
	struct dump ask = question(RTM_GETTCLASS, ifindex, 0);

	return dump(&ask, take_class, &asked) ? 0 : asked.rate_bps;
}

static void count_filter(const struct tcmsg *tc, int bytes, void *data)
{
	int *n = data;

	(void)bytes;
	*n += tc->tcm_handle != 0; /* without one: the priority's own row */
}

int filters_count(uint32_t ifindex)
{
	static const uint32_t sides[] = {
		TC_H_MAKE(TC_H_CLSACT, TC_H_MIN_INGRESS),
		TC_H_MAKE(TC_H_CLSACT, TC_H_MIN_EGRESS)
	};
	int n = 0, err = 0;

	for (int i = 0; !err && i < 2; i++) {
		struct dump ask = question(RTM_GETTFILTER, ifindex, sides[i]);

		err = dump(&ask, count_filter, &n);
	}
	return err ?: n;
}
