// SPDX-License-Identifier: GPL-2.0-only
/*
 * A transfer in TLS of the kernel (KTLS), whose keys both ends know: there is no handshake.
 *
 *	ktls send PORT BYTES		to the first that connects: a known sequence, in the largest records
 *	ktls receive ADDRESS PORT	to its end; a line of JSON: bytes, whether they are that sequence, and the
 *					two longest waits for them in ms
 */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/tls.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define RECORD 16384 /* bytes: the most that one record of TLS carries */

static unsigned char buffer[4 * RECORD];

static int fail(const char *what)
{
	fprintf(stderr, "ktls: %s: %s\n", what, strerror(errno));
	exit(1);
}

static unsigned char byte_at(uint64_t place)
{
	return place * 2654435761u >> 24;
}

static double now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1e3 + now.tv_nsec / 1e6;
}

static void encrypt(int fd, int direction)
{
	struct tls12_crypto_info_aes_gcm_128 info = {
		.info = { .version = TLS_1_2_VERSION, .cipher_type = TLS_CIPHER_AES_GCM_128 },
		.key = "a known key",
	};

	if (setsockopt(fd, IPPROTO_TCP, TCP_ULP, "tls", sizeof("tls")))
		fail("TCP_ULP");
	if (setsockopt(fd, SOL_TLS, direction, &info, sizeof(info)))
		fail("SOL_TLS");
}

static int accept_at(uint16_t port)
{
	struct sockaddr_in at = { .sin_family = AF_INET, .sin_port = htons(port) };
	int listener = socket(AF_INET, SOCK_STREAM, 0), fd;

	if (bind(listener, (struct sockaddr *)&at, sizeof(at)) || listen(listener, 1))
		fail("listen");
	fd = accept(listener, NULL, NULL);
	return fd < 0 ? fail("accept") : fd;
}

static int connect_to(const char *address, uint16_t port)
{
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons(port) };
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	inet_pton(AF_INET, address, &to.sin_addr);
	if (connect(fd, (struct sockaddr *)&to, sizeof(to)))
		fail("connect");
	return fd;
}

static void send_all(int fd, uint64_t bytes)
{
	for (uint64_t sent = 0; sent < bytes;) {
		uint64_t part = bytes - sent < RECORD ? bytes - sent : RECORD;
		ssize_t done;

		for (uint64_t i = 0; i < part; i++)
			buffer[i] = byte_at(sent + i);
		done = send(fd, buffer, part, 0);
		if (done <= 0)
			fail("send");
		sent += done;
	}
}

static void receive_all(int fd)
{
	double before = now_ms(), longest = 0, second = 0;
	uint64_t bytes = 0;
	bool same = true;
	ssize_t done;

	while ((done = recv(fd, buffer, sizeof(buffer), 0)) > 0) {
		double wait = now_ms() - before;

		if (wait > longest) {
			second = longest;
			longest = wait;
		} else if (wait > second) {
			second = wait;
		}
		for (ssize_t i = 0; i < done; i++)
			same &= buffer[i] == byte_at(bytes + i);
		bytes += done;
		before = now_ms();
	}
	if (done < 0)
		fail("recv");
	printf("{\"bytes\": %llu, \"same\": %s, \"waits_ms\": [%.1f, %.1f]}\n",
	       (unsigned long long)bytes, same ? "true" : "false", longest, second);
}

int main(int argc, char **argv)
{
	int fd;

	if (argc == 4 && !strcmp(argv[1], "send")) {
		fd = accept_at(atoi(argv[2]));
		encrypt(fd, TLS_TX);
		send_all(fd, strtoull(argv[3], NULL, 10));
	} else if (argc == 4 && !strcmp(argv[1], "receive")) {
		fd = connect_to(argv[2], atoi(argv[3]));
		encrypt(fd, TLS_RX);
		receive_all(fd);
	} else {
		fprintf(stderr, "usage: ktls send PORT BYTES | ktls receive ADDRESS PORT\n");
		return 2;
	}
	return close(fd) ? fail("close") : 0;
}
