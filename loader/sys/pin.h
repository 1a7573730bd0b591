/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * One pin: open, make, remove. Whatever lies at a path of ours may have been put
 * there by somebody else, so nothing is used before its kind and shape are known.
 */
#ifndef CCBPF_PIN_H
#define CCBPF_PIN_H

#include <bpf/bpf.h>
#include <stdbool.h>

/* Whether the path is there; also where that cannot be told. */
bool pin_exists(const char *path);

/*
 * Pin a BPF file descriptor. Returns EXIT_OK, or the exit code after saying why
 * not.
 */
int pin_make(const char *what, int fd, const char *path);

/* Whether a directory is there, not a link to one. */
bool pin_is_dir(const char *path);

/*
 * Make a directory for pins; one that is there already is fine. Returns EXIT_OK
 * or the exit code.
 */
int pin_make_dir(const char *what, const char *path);

/*
 * Remove a pin or, with pin_remove_dir, a directory; being absent is fine.
 * Return 0 or -errno.
 */
int pin_remove(const char *path);
int pin_remove_dir(const char *path);

enum pin_kind {
	PIN_KIND_MAP,
	PIN_KIND_PROGRAM,
	PIN_KIND_LINK
};

/*
 * Open the object pinned at `path`. Returns its descriptor; -ENOENT where there
 * is nothing; -EMEDIUMTYPE where it is something else; else -errno. Silent. The
 * kind is checked first because BPF_OBJ_GET_INFO_BY_FD takes a descriptor of any
 * kind and answers with the structure of that kind.
 */
int pin_open(const char *path, enum pin_kind kind);

/* What a map at a pin must be: value_size or max_entries 0 means any. */
struct map_shape {
	enum bpf_map_type type;
	uint32_t key_size, value_size, max_entries;
};
#define ONE_VALUE(type, bytes) { type, sizeof(uint32_t), bytes, 1 }

/* Whether a map has this shape. */
bool pin_is_shape(const struct bpf_map_info *info, const struct map_shape *shape);

/* pin_open() of a map, which must have this shape as well. */
int pin_open_map(const char *path, const struct map_shape *shape);

/*
 * Read the one value of the map behind `fd`, and close it; a negative `fd` is the -errno of
 * opening it. Returns 0 or -errno.
 */
int map_take_value(int fd, void *value);

/*
 * Say that the pin at `path` could not be opened with `err`, as pin_open and
 * pin_open_map returned it. Returns the exit code.
 */
int pin_unusable(const char *what, const char *path, int err);

#endif
