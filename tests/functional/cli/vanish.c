// SPDX-License-Identifier: GPL-2.0-only
/*
 * Preloaded into a ccbpf: another command removes the directory $VANISH right
 * after each of the first $VANISH_TIMES times that it was made, as the last
 * `disable` of several at once does.
 */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int mkdir(const char *path, mode_t mode)
{
	int (*real)(const char *, mode_t) = dlsym(RTLD_NEXT, "mkdir");
	const char *vanishing = getenv("VANISH"), *times = getenv("VANISH_TIMES");
	static int n;
	int err = real(path, mode);

	if (!err && vanishing && times && strcmp(path, vanishing) == 0 && n++ < atoi(times))
		rmdir(path);
	return err;
}
