// SPDX-License-Identifier: GPL-2.0-only
/* rtnetlink: see netlink.h. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>

#include "sys/netlink.h"
#include "util/memory.h"

#define BUFFER_BYTES 65536 /* the kernel sends at most 32 KiB of a dump at once */
#define ANSWER_S 5

_Static_assert(TCA_MAX < NETLINK_TYPES, "the attributes of a message have room");

static int put_in_place(const struct nlattr *at, void *data)
{
	const struct nlattr **out = data;

	if (mnl_attr_get_type(at) < NETLINK_TYPES)
		out[mnl_attr_get_type(at)] = at;
	return MNL_CB_OK;
}

void netlink_parse_nest(const struct nlattr *nest, const struct nlattr *out[NETLINK_TYPES])
{
	memset(out, 0, NETLINK_TYPES * sizeof(*out));
	if (nest)
		mnl_attr_parse_nested(nest, put_in_place, out);
}

bool netlink_take(const struct nlattr *at, void *out, size_t size)
{
	if (!at || mnl_attr_get_payload_len(at) < size)
		return false;
	memcpy(out, mnl_attr_get_payload(at), size);
	return true;
}

const char *netlink_string(const struct nlattr *at)
{
	return at && mnl_attr_validate(at, MNL_TYPE_NUL_STRING) == 0 ? mnl_attr_get_str(at) : "";
}

static size_t put_question(char *buffer, uint16_t type, uint32_t ifindex, uint32_t parent)
{
	struct nlmsghdr *head = mnl_nlmsg_put_header(buffer);
	struct tcmsg *tc = mnl_nlmsg_put_extra_header(head, sizeof(*tc));

	head->nlmsg_type = type;
	head->nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP;
	tc->tcm_ifindex = ifindex;
	tc->tcm_parent = parent;
	if (type == RTM_GETQDISC)
		mnl_attr_put(head, TCA_DUMP_INVISIBLE, 0, "");
	return head->nlmsg_len;
}

/*
 * Hand each message of one datagram on. Returns an MNL_CB_...: whether more will come.
 * NLMSG_OK, because libmnl before 1.0.5 takes a length above INT_MAX for a negative one.
 */
static int hand_on(const char *buffer, ssize_t length, netlink_each each, void *data)
{
	const struct nlmsghdr *head = (const void *)buffer;
	int more = MNL_CB_OK;

	for (; more == MNL_CB_OK && NLMSG_OK(head, length); head = NLMSG_NEXT(head, length)) {
		const struct nlattr *at[NETLINK_TYPES] = { 0 };

		if (head->nlmsg_type < NLMSG_MIN_TYPE) { /* the end, or an error */
			more = mnl_cb_run(head, head->nlmsg_len, 0, 0, NULL, NULL);
		} else if (mnl_nlmsg_get_payload_len(head) >= sizeof(struct tcmsg)) {
			mnl_attr_parse(head, sizeof(struct tcmsg), put_in_place, at);
			each(mnl_nlmsg_get_payload(head), at, data);
		}
	}
	return more;
}

int netlink_dump(uint16_t type, uint32_t ifindex, uint32_t parent, netlink_each each, void *data)
{
	char *buffer = must_alloc(1, BUFFER_BYTES);
	ssize_t length = put_question(buffer, type, ifindex, parent);
	struct mnl_socket *nl = mnl_socket_open2(NETLINK_ROUTE, SOCK_CLOEXEC);
	struct timeval wait = { .tv_sec = ANSWER_S };
	int err, more = MNL_CB_OK;

	if (!nl ||
	    setsockopt(mnl_socket_get_fd(nl), SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof(wait)) ||
	    mnl_socket_sendto(nl, buffer, length) < 0)
		more = MNL_CB_ERROR;
	while (more == MNL_CB_OK) {
		length = mnl_socket_recvfrom(nl, buffer, BUFFER_BYTES);
		more = length < 0 ? MNL_CB_ERROR : hand_on(buffer, length, each, data);
	}
	err = more == MNL_CB_ERROR ? -errno : 0;
	if (nl)
		mnl_socket_close(nl);
	free(buffer);
	return err;
}
