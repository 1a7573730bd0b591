// SPDX-License-Identifier: GPL-2.0-only
/* One pin: see pin.h. */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "out/errors.h"
#include "sys/pin.h"
#include "util/text.h"

bool pin_exists(const char *path)
{
	struct stat st;

	return lstat(path, &st) == 0 || (errno != ENOENT && errno != ENOTDIR);
}

int pin_make(const char *what, int fd, const char *path)
{
	return bpf_obj_pin(fd, path) ? fail_errno(what, path, errno) : EXIT_OK;
}

bool pin_is_dir(const char *path)
{
	struct stat st;

	return lstat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

int pin_make_dir(const char *what, const char *path)
{
	if (mkdir(path, 0700) == 0 || (errno == EEXIST && pin_is_dir(path)))
		return EXIT_OK;
	return pin_unusable(what, path, errno == EEXIST ? -EMEDIUMTYPE : -errno);
}

/* A directory may lie in the place of a pin, and a pin in that of a directory. */
int pin_remove(const char *path)
{
	if (unlink(path) == 0 || errno == ENOENT || errno == ENOTDIR)
		return 0;
	return errno == EISDIR && rmdir(path) == 0 ? 0 : -errno;
}

int pin_remove_dir(const char *path)
{
	if (rmdir(path) == 0 || errno == ENOENT)
		return 0;
	return errno == ENOTDIR && unlink(path) == 0 ? 0 : -errno;
}

/* What an error of bpf_obj_get() means: the kernel says EACCES of a directory, and
 * ENOENT of a symbolic link to nowhere. */
static int understand(const char *path, int err)
{
	struct stat st;

	if (err == ELOOP || err == ENOTDIR)
		return -EMEDIUMTYPE;
	if ((err == EACCES || err == ENOENT) && lstat(path, &st) == 0 && !S_ISREG(st.st_mode))
		return -EMEDIUMTYPE;
	return -err;
}

/* Whether a descriptor is of this kind, by the name that the kernel gives it. */
static bool is_kind(int fd, enum pin_kind kind)
{
	static const char *const names[] = {
		[PIN_KIND_MAP] = "bpf-map",
		[PIN_KIND_PROGRAM] = "bpf-prog",
		[PIN_KIND_LINK] = "bpf-link",
	};
	char name[64];
	ssize_t length = readlink(text("/proc/self/fd/%d", fd), name, sizeof(name) - 1);

	if (length < 0)
		return false;
	name[length] = '\0';
	return strstr(name, names[kind]); /* "anon_inode:bpf-map" */
}

int pin_open(const char *path, enum pin_kind kind)
{
	int fd = bpf_obj_get(path);

	if (fd < 0)
		return understand(path, errno);
	if (is_kind(fd, kind))
		return fd;
	close(fd);
	return -EMEDIUMTYPE;
}

bool pin_is_shape(const struct bpf_map_info *info, const struct map_shape *shape)
{
	return info->type == shape->type && info->key_size == shape->key_size &&
	       (!shape->value_size || info->value_size == shape->value_size) &&
	       (!shape->max_entries || info->max_entries == shape->max_entries);
}

int pin_open_map(const char *path, const struct map_shape *shape)
{
	struct bpf_map_info info = { 0 };
	__u32 size = sizeof(info);
	int err, fd = pin_open(path, PIN_KIND_MAP);

	if (fd < 0)
		return fd;
	err = bpf_map_get_info_by_fd(fd, &info, &size) ? -errno : -EMEDIUMTYPE;
	if (err == -EMEDIUMTYPE && pin_is_shape(&info, shape))
		return fd;
	close(fd);
	return err;
}

int map_take_value(int fd, void *value)
{
	__u32 zero = 0;
	int err;

	if (fd < 0)
		return fd;
	err = bpf_map_lookup_elem(fd, &zero, value) ? -errno : 0;
	close(fd);
	return err;
}

int pin_unusable(const char *what, const char *path, int err)
{
	if (err != -EMEDIUMTYPE)
		return fail_errno(what, path, err);
	return FAIL(
		EXIT_FAILED, .what = what, .on = path,
		.why = "the pin there is not one of this ccbpf: another version or another program made it",
		.remedy = "`ccbpf clean --all` disables all and removes it");
}
