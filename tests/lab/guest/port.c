// SPDX-License-Identifier: GPL-2.0-only
/*
 * The guest's way out: bytes to an x86 I/O port, which QEMU listens on.
 *
 *	port PORT <FILE		write stdin, one byte after the other
 *	port PORT VALUE		write one byte
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/io.h>
#include <unistd.h>

static int stream(unsigned short port)
{
	static char buffer[65536];
	ssize_t n;

	while ((n = read(STDIN_FILENO, buffer, sizeof(buffer))) > 0)
		outsb(port, buffer, n);
	if (n < 0)
		fprintf(stderr, "port: stdin: %s\n", strerror(errno));
	return n < 0;
}

int main(int argc, char **argv)
{
	unsigned long port;

	if (argc < 2 || argc > 3) {
		fprintf(stderr, "usage: port PORT [VALUE]\n");
		return 2;
	}
	port = strtoul(argv[1], NULL, 0);
	if (iopl(3)) {
		fprintf(stderr, "port: iopl: %s\n", strerror(errno));
		return 1;
	}
	if (argc == 2)
		return stream(port);
	outb(strtoul(argv[2], NULL, 0), port);
	return 0;
}
