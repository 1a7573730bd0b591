/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A cgroup as the user names it, for every command with a --cgroup:
 *
 *   unit:NAME[.service]     a unit of systemd
 *   slice:NAME[.slice]      a slice
 *   container:ID            the running container with this id (12 or more hex digits)
 *   pod:UID                 the running pod
 *   another word            a path; which ones are taken is the command's matter
 */
#ifndef CCBPF_CGROUPWORD_H
#define CCBPF_CGROUPWORD_H

struct cgroup_word {
	const char *unit; /* the whole name of the unit or slice, which need not run; else NULL */
	const char *path; /* of the container's or pod's cgroup, which exists; else NULL */
};

/*
 * Understand it, as the value of `option`. Both members are NULL for a path. Returns EXIT_OK, or
 * the exit code after saying what is wrong.
 */
int cgroup_word_parse(const char *what, const char *option, const char *given,
		      struct cgroup_word *out);

#endif
