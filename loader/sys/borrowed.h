/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A sysctl of this network namespace that a command borrows for as long as controllers
 * are enabled, and gives back. What was there before is kept in a small pinned map,
 * <root>/<pin>, with the namespace it belongs to. A value that somebody changed since
 * is left alone.
 */
#ifndef CCBPF_BORROWED_H
#define CCBPF_BORROWED_H

#include <stdbool.h>
#include <stdint.h>

#define BORROWED_LEN 16 /* of a value, with its 0 */

struct borrowed {
	const char *pin; /* its map's name */
	const char *name; /* net.ipv4... */
	const char *path; /* /proc/sys/net/ipv4/... */

	bool (*is_ours)(const char *value); /* a command of ours wrote it */
	/*
	 * What to take for the value before, where it is one of ours and nothing
	 * is remembered. NULL: that cannot be.
	 */
	const char *(*guess)(void);
	const char *fallback; /* where the value before is refused, or NULL */

	/* Words of errors and notes. */
	const char *verb; /* of writing it; NULL: the command's own */
	const char *forgotten; /* the value of another namespace is */
	const char *fell_back; /* the fallback is in force */
	const char *not_back; /* what goes on where nothing could be written */
};

/* What is remembered of a sysctl, and its value now. */
struct loan {
	bool known; /* something is remembered */
	bool own; /* and it is of this network namespace */
	uint64_t netns; /* inode of the one that it is of */
	char previous[BORROWED_LEN];
	char now[BORROWED_LEN]; /* "" where it cannot be read: */
	int unread; /* then why, -errno */
	bool told; /* borrowed_give_back() has said why it was not restored */
};

void borrowed_look(const struct borrowed *sysctl, struct loan *loan);

/* Its value now, "" where it cannot be read. Returns 0 or -errno. */
int borrowed_now(const struct borrowed *sysctl, char *value, unsigned int size);

/*
 * Write `value`, and remember what was there unless that is one of ours. Returns
 * EXIT_OK, or the exit code after saying why not.
 */
int borrowed_take(const char *what, const struct borrowed *sysctl, const char *value);

/*
 * `mine` is about to go, and something is remembered: if it is the value now,
 * restore what was before. Returns the value restored, which lives as long as the
 * loan, or NULL. `elsewhere` is said where another namespace has borrowed it.
 */
const char *borrowed_give_back(const struct borrowed *sysctl, struct loan *loan, const char *mine,
			       const char *elsewhere);

/* Say why another network namespace is concerned, and how to set it there. */
void borrowed_note_elsewhere(const struct borrowed *sysctl, const struct loan *loan,
			     const char *why);

void borrowed_forget(const struct borrowed *sysctl);

/* Whether something is remembered for this network namespace, or may be. */
bool borrowed_remains(const struct borrowed *sysctl);

#endif
