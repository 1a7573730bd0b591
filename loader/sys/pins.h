/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The pin directory: $CCBPF_PIN_ROOT, by default /sys/fs/bpf/ccbpf.
 *
 *   <root>/flows events stats listener   the shared maps
 *   <root>/default                       the default controller before ours
 *   <root>/applied                       what the file of `ccbpf apply` has
 *   <root>/trace/                        exists, locked, while a trace runs
 *   <root>/rules/, runs/, units/         see rules/
 *   <root>/<controller>/, aqm/…/         see attachment.h
 *
 * Whoever changes something locks the root exclusively, whoever reads locks it
 * shared. A command gives up once another process has held it for 10 s.
 */
#ifndef CCBPF_PINS_H
#define CCBPF_PINS_H

#include <stdbool.h>
#include <sys/types.h>

#include "sys/pin.h"

#define PINS_DEFAULT_ROOT "/sys/fs/bpf/ccbpf"
#define PINS_TRACE "trace"

/*
 * The root, without a slash at its end. Under `ip netns exec`, which hides
 * bpffs, it is a path through who called it: /proc/<pid>/root/sys/fs/bpf/...
 */
const char *pins_root(void);

/* The root as it was named, without that path. */
const char *pins_named_root(void);

/* <root>, <root>/<a> or <root>/<a>/<b>: NULL ends. A text(). */
const char *pin_path(const char *a, const char *b);

/*
 * Lock the root for a change: mounts bpffs on /sys/fs/bpf where it is missing
 * and makes the directory. Returns EXIT_OK, or the exit code after saying why
 * not (no bpffs, a read-only one, no permission, another ccbpf holds the lock).
 */
int pins_lock_change(const char *what);

/*
 * Lock the root for reading. Where it does not exist, nothing is locked and
 * `*exists` false: nothing runs.
 */
int pins_lock_read(const char *what, bool *exists);

/* The same, at once and in silence: false where it is not there, or another ccbpf holds it. */
bool pins_try_read(void);

/* Let the lock go. After a change a root that is empty is removed. */
void pins_unlock(void);

/*
 * Open a directory and lock it exclusively, at once. Returns its descriptor or
 * -errno; EWOULDBLOCK: held.
 */
int pin_lock_dir(const char *path);

/* Whether somebody holds that lock. It may be asked by several at once. */
bool pin_dir_is_held(const char *path);

/*
 * The process that holds a flock(2) on the directory behind `fd`, or 0 where it
 * is not known.
 */
pid_t pin_lock_holder(int fd);

#endif
