// SPDX-License-Identifier: GPL-2.0-only
/*
 * Make the guest's random numbers ready, and the same in each run: credit the kernel's pool with stdin (at most 64
 * bytes). Else the first reader of /dev/urandom waits a virtual second while the kernel gathers jitter.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/random.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define ENOUGH_BITS 256 /* drivers/char/random.c: POOL_READY_BITS */

int main(void)
{
	struct {
		struct rand_pool_info info;
		char bytes[64];
	} pool = { .info = { .entropy_count = ENOUGH_BITS, .buf_size = sizeof(pool.bytes) } };
	int fd = open("/dev/urandom", O_WRONLY | O_CLOEXEC);

	if (read(STDIN_FILENO, pool.bytes, sizeof(pool.bytes)) < 0 || fd < 0 ||
	    ioctl(fd, RNDADDENTROPY, &pool)) {
		fprintf(stderr, "entropy: %s\n", strerror(errno));
		return 1;
	}
	return 0;
}
