/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Control groups, version 2. A path is one below the root of the hierarchy as this process
 * sees it, as /proc/<pid>/cgroup has it: "/", "/system.slice/backup.service". The file
 * system is found in the mounts of this process, or, where `ip netns exec` hides it behind
 * a /sys of its own, in those of a process that called us.
 */
#ifndef CCBPF_CGROUP_H
#define CCBPF_CGROUP_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define CGROUP_DEEPEST 32 /* levels that a walk or a search goes down */

/* Whether it can be reached. Returns 0, or -ENOENT where it is not mounted. */
int cgroup_reach(void);

/* The same. Returns EXIT_OK, or EXIT_KERNEL after saying what to do. */
int cgroup_require(const char *what, const char *on);

/* Where it is mounted, a text(), "" where it cannot be reached. */
const char *cgroup_mount(void);

/* The cgroup of this process, in a buffer of `size` bytes. Returns 0 or -errno. */
int cgroup_own(char *path, unsigned int size);

/*
 * Where a cgroup for a command is made: below the own one, so that its limits hold, or
 * beside it where it is threaded and could not have such a child. Returns 0 or -errno.
 */
int cgroup_parent_for_child(char *path, unsigned int size);

int cgroup_make(const char *path);

/* A descriptor of the directory, or -errno. */
int cgroup_open(const char *path);

/* The kernel's id of the cgroup behind a descriptor; never used twice. 0: it is no cgroup. */
uint64_t cgroup_id(int fd);

/* Whether a process is in it or below it. False where it is gone. */
bool cgroup_populated(const char *path);

/* The processes in it, not below it: at most `most` into `pids`. Returns how many. */
unsigned int cgroup_processes(const char *path, pid_t *pids, unsigned int most);

/* Move all processes that are in it or below it into another one. Returns 0 or -errno. */
int cgroup_move(const char *from, const char *to);

/*
 * Remove it with what is below it. Being absent is fine. Returns 0 or -errno: -EBUSY
 * while a process is in it.
 */
int cgroup_remove(const char *path);

/* The path of the cgroup with this id, in a buffer of `size` bytes. Returns 0 or -errno. */
int cgroup_path(uint64_t id, char *path, unsigned int size);

/* Whether an error of cgroup_path() says that the cgroup was removed; others only that it has no name here. */
bool cgroup_removed(int err);

/*
 * The cgroups with this name, where no cgroup above is one as well. Returns how many there are, 2 for
 * several, and the paths of the first two, each a text().
 */
unsigned int cgroup_find(const char *name, const char *paths[2]);

/*
 * The same of the containers and pods with this id, which may be cut short. Their names:
 *
 *   docker-ID.scope, cri-containerd-ID.scope, libpod-ID.scope, crio-ID.scope   a systemd driver
 *   ID, libpod-ID, crio-ID                                                     a cgroupfs driver
 *   kubepods-besteffort-podID.slice, podID, machine-libpod_pod_ID.slice        pods
 *
 * Not the cgroups of their monitors: libpod-conmon-ID.scope, crio-conmon-ID.scope.
 */
unsigned int cgroup_find_id(const char *id, const char *paths[2]);

#endif
