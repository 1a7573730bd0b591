/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The pin directory: $CCBPF_PIN_ROOT, by default /sys/fs/bpf/ccbpf.
 *
 *   <root>/flows events stats listener   the shared maps
 *   <root>/default                       the default controller before ours
 *   <root>/trace/                        exists, locked, while a trace runs
 *   <root>/<controller>/params identity  its own maps; with _new behind: of a
 *                                        reload that is under way
 *   <root>/<controller>/link             pinned last: a directory without it
 *                                        is what an interrupted ccbpf left
 *   <root>/<controller>/ops              instead of link, where the kernel has
 *                                        no struct_ops links
 *
 * Whoever changes something locks the root exclusively, whoever reads locks it
 * shared, for 10 s at most.
 */
#ifndef CCBPF_PINS_H
#define CCBPF_PINS_H

#include <bpf/bpf.h>
#include <stdbool.h>
#include <sys/types.h>

#define PINS_DEFAULT_ROOT "/sys/fs/bpf/ccbpf"
#define PINS_TRACE "trace"

/*
 * The root, without a slash at its end. Under `ip netns exec`, which hides
 * bpffs, it is a path through who called it: /proc/<pid>/root/sys/fs/bpf/...
 */
const char *pins_root(void);

/* <root>, <root>/<a> or <root>/<a>/<b>: NULL ends. In text()'s buffers. */
const char *pin_path(const char *a, const char *b);

/*
 * Lock the root for a change: mounts bpffs on /sys/fs/bpf where it is missing
 * and makes the directory. Returns EXIT_OK, or the exit code after saying why
 * not (no bpffs, no permission, another ccbpf holds the lock).
 */
int pins_lock_change(const char *what);

/*
 * Lock the root for reading. Where it does not exist, nothing is locked and
 * `*exists` false: nothing runs.
 */
int pins_lock_read(const char *what, bool *exists);

/* Let the lock go. After a change a root that is empty is removed. */
void pins_unlock(void);

/* Whether the path is there; also where that cannot be told. */
bool pin_exists(const char *path);

/*
 * Pin a BPF file descriptor. Returns EXIT_OK, or the exit code after saying why
 * not.
 */
int pin_make(const char *what, int fd, const char *path);

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

/* What a map at a pin must be: max_entries 0 means any. */
struct map_shape {
	enum bpf_map_type type;
	uint32_t key_size, value_size, max_entries;
};

/*
 * Open the map pinned at `path`. Returns its descriptor; -ENOENT, silently,
 * where there is no pin; -EMEDIUMTYPE where the pin is not a map of this shape;
 * else -errno.
 */
int pin_open_map(const char *path, const struct map_shape *shape);

/*
 * Say that the pin at `path` could not be opened with `err`, as pin_open_map
 * returned it. Returns the exit code.
 */
int pin_unusable(const char *what, const char *path, int err);

/*
 * Open a directory and lock it exclusively, at once. Returns its descriptor or
 * -errno; EWOULDBLOCK: held.
 */
int pin_lock_dir(const char *path);

/*
 * The process that holds a flock(2) on the directory behind `fd`, or 0 where it
 * is not known.
 */
pid_t pin_lock_holder(int fd);

#endif
