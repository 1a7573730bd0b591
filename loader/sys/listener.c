// SPDX-License-Identifier: GPL-2.0-only
/* A TCP socket that listens: see listener.h. */
#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "out/errors.h"
#include "sys/listener.h"
#include "util/text.h"

#define WHAT "listen at"
#define DEFAULT_HOST "127.0.0.1"
#define PORT_MOST 65535
#define HOST_MOST 64 /* bytes: INET6_ADDRSTRLEN and a device behind % */

static bool parse_port(const char *word, uint16_t *port)
{
	size_t digits = strspn(word, "0123456789");
	unsigned long value = strtoul(word, NULL, 10);

	*port = value;
	return digits && digits <= strlen("65535") && !word[digits] && value <= PORT_MOST;
}

/* An address of exactly this form: what getaddrinfo() takes for one besides (127.1) is refused. */
static bool parse_host(const char *host, int family, struct listener *out)
{
	struct addrinfo hints = { .ai_family = family,
				  .ai_socktype = SOCK_STREAM,
				  .ai_flags = AI_NUMERICHOST };
	struct addrinfo *found = NULL;
	struct in_addr four;

	if (family == AF_INET && inet_pton(AF_INET, host, &four) != 1)
		return false;
	if (getaddrinfo(host, NULL, &hints, &found) || !found)
		return false;
	memcpy(&out->address, found->ai_addr, found->ai_addrlen);
	out->size = found->ai_addrlen;
	freeaddrinfo(found);
	return true;
}

static in_port_t *port_of(struct listener *listener)
{
	return listener->address.ss_family == AF_INET6
		       ? &((struct sockaddr_in6 *)&listener->address)->sin6_port
		       : &((struct sockaddr_in *)&listener->address)->sin_port;
}

int listener_parse(const char *given, struct listener *out)
{
	const char *colon = strrchr(given, ':'), *begin = given, *end = colon;
	char host[HOST_MOST] = DEFAULT_HOST;
	int family = AF_INET;
	uint16_t port;

	*out = (struct listener){ .fd = -1 };
	if (!parse_port(colon ? colon + 1 : given, &port))
		return -EINVAL;
	if (*given == '[' && colon > given + 1 && colon[-1] == ']') {
		family = AF_INET6;
		begin++;
		end--;
	}
	if (end > given) {
		if (end - begin >= (ptrdiff_t)sizeof(host))
			return -EINVAL;
		memcpy(host, begin, end - begin);
		host[end - begin] = '\0';
	}
	if (!parse_host(host, family, out))
		return -EINVAL;
	*port_of(out) = htons(port);
	return 0;
}

uint16_t listener_port(const struct listener *listener)
{
	struct listener copy = *listener;

	return ntohs(*port_of(&copy));
}

const char *listener_address(const struct listener *listener)
{
	char host[HOST_MOST] = "?";

	getnameinfo((const struct sockaddr *)&listener->address, listener->size, host, sizeof(host),
		    NULL, 0, NI_NUMERICHOST);
	return text("%s", host);
}

const char *listener_place(const struct listener *listener)
{
	bool six = listener->address.ss_family == AF_INET6;

	return text("%s%s%s:%u", six ? "[" : "", listener_address(listener), six ? "]" : "",
		    listener_port(listener));
}

static int not_listening(const struct listener *listener, int err)
{
	const char *on = listener_place(listener);

	if (err == EADDRINUSE)
		return FAIL(
			EXIT_FAILED, .what = WHAT, .on = on, .why = "another process listens there",
			.remedy = text(
				"`ss -ltnp sport = :%u` names it; give another port, or 0 for one that is free",
				listener_port(listener)));
	if (err == EACCES)
		return FAIL(EXIT_PERMISSION, .what = WHAT, .on = on,
			    .why = "this process lacks cap_net_bind_service for a port below 1024",
			    .remedy = "give a port from 1024 on");
	if (err == EADDRNOTAVAIL || err == ENODEV)
		return FAIL(EXIT_FAILED, .what = WHAT, .on = on,
			    .why = "this network namespace has no such address",
			    .remedy = "`ip address` shows those that it has");
	if (err == EAFNOSUPPORT)
		return FAIL(EXIT_FAILED, .what = WHAT, .on = on, .why = "this system has no IPv6",
			    .remedy = "give an IPv4 address");
	return fail_errno(WHAT, on, err);
}

/* Returns 0 or -errno. */
static int bind_and_listen(struct listener *listener, int backlog)
{
	static const int on = 1, off = 0;
	int family = listener->address.ss_family;
	struct sockaddr *address = (struct sockaddr *)&listener->address;

	listener->fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (listener->fd < 0 ||
	    setsockopt(listener->fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) ||
	    (family == AF_INET6 &&
	     setsockopt(listener->fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off))) ||
	    bind(listener->fd, address, listener->size) || listen(listener->fd, backlog) ||
	    getsockname(listener->fd, address, &listener->size))
		return -errno;
	return 0;
}

int listener_open(const char *given, int backlog, struct listener *out)
{
	int err = listener_parse(given, out);

	if (err)
		return FAIL(
			EXIT_USAGE, .what = WHAT, .on = *given ? given : "nothing",
			.why = "it is no address and port",
			.remedy =
				"give PORT (0 to 65535), ADDRESS:PORT or [ADDRESS]:PORT, in numbers");
	err = bind_and_listen(out, backlog);
	if (!err)
		return EXIT_OK;
	if (out->fd >= 0)
		close(out->fd);
	return not_listening(out, -err);
}
