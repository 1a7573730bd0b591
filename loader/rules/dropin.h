/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The drop-in file that gives a unit of systemd the program of a controller, that for what it
 * receives, or both (units.h):
 *
 *   /etc/systemd/system/UNIT.d/50-ccbpf.conf
 */
#ifndef CCBPF_DROPIN_H
#define CCBPF_DROPIN_H

#include <stdbool.h>

/* A unit, with the section of its files that takes BPFProgram=. */
struct unit {
	const char *name; /* whole, a text() */
	const char *section;
};

/*
 * A unit's name as systemctl takes it, ".service" where it has no ending. Returns EXIT_OK, or
 * EXIT_USAGE after saying what is wrong.
 */
int unit_parse(const char *what, const char *given, struct unit *out);

/* Path of the drop-in, a text(). */
const char *dropin_path(const struct unit *unit);

/*
 * What it says for a controller (NULL: none), and with `download` for what is received, a text().
 * Returns EXIT_OK, or the exit code after saying that the pin directory has no name that can be in
 * it.
 */
int dropin_words(const char *what, const struct unit *unit, const char *controller, bool download,
		 const char **words);

/*
 * Write it, at once, in the place of one that ccbpf wrote. `*did`: it said something else before.
 * Returns EXIT_OK, or the exit code after saying why not.
 */
int dropin_write(const char *what, const struct unit *unit, const char *words, bool *did);

/* Remove it, with its directory if that is empty. Returns EXIT_OK, or the exit code, said. */
int dropin_remove(const char *what, const struct unit *unit);

/* Whether any drop-in of ccbpf names the program of this controller, or CCBPF_RECEIVER. */
bool dropin_names(const char *controller);

#endif
