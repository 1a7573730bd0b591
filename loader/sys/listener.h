/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A TCP socket that listens where a user says:
 *
 *   PORT, :PORT      on 127.0.0.1
 *   ADDRESS:PORT     an IPv4 address; 0.0.0.0: all of them
 *   [ADDRESS]:PORT   an IPv6 address; [::]: all, also those of IPv4
 *
 * Addresses are numbers, never names. Port 0 is one that is free.
 */
#ifndef CCBPF_LISTENER_H
#define CCBPF_LISTENER_H

#include <stdint.h>
#include <sys/socket.h>

struct listener {
	int fd; /* does not block */
	struct sockaddr_storage address; /* with the port that it got */
	socklen_t size;
};

/* What the words say, without a socket. Returns 0 or -EINVAL. */
int listener_parse(const char *given, struct listener *out);

/*
 * Listen there, with `backlog` connections waiting at most. Returns EXIT_OK, or the exit code after
 * saying why not.
 */
int listener_open(const char *given, int backlog, struct listener *out);

/* Its address (a text()), its port, and both as words that listener_parse() takes ("[::1]:80"). */
const char *listener_address(const struct listener *listener);
uint16_t listener_port(const struct listener *listener);
const char *listener_place(const struct listener *listener);

#endif
