/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What is attached to the kernel, as its pins tell: one life for a controller, for a queue, and
 * for any program that a bpf_link keeps. Nothing else is remembered between two commands.
 *
 *   <root>/<dir>/identity   map of one value, read-only; it begins with the ABI of the layouts
 *   <root>/<dir>/MAP        the other maps of its table
 *   <root>/<dir>/MAP_new    of a reload under way (bpffs refuses names with a dot)
 *   <root>/<dir>/link       the bpf_link that keeps the program attached
 *   <root>/<dir>/INSTEAD    where the kernel has no such link: what tells that it is attached
 *
 * Order of making: directory, maps, link. Order of removal: whatever stays attached without its
 * pins; the link's pin; the link; the maps, identity last; the directory. So a kill at any instant
 * leaves it HELD and whole, or STALE.
 *
 *   state        what is found                                  what removes it
 *   ----------   --------------------------------------------   -------------------------------
 *   ABSENT       no directory                                   -
 *   STALE        no link: an interrupted ccbpf left it          clean; enable or attach anew
 *   GONE         what it was attached to is no more             the same
 *   DETACHED     its link, but somebody detached that           the same
 *   HELD         it is attached                                 disable, detach, clean --all
 *   UNREADABLE   something else in the place of our directory   clean --all
 *                or of our link
 *
 * Nothing of a pin is used before its kind and shape are checked (pin.h), and that it holds our
 * program or map. A sort of attachments is strict (a queue) or not (a controller):
 *
 *                              strict               not strict
 *   ------------------------   ------------------   ------------------------
 *   no identity                STALE                HELD, of unknown version
 *   identity of another ABI    UNREADABLE           HELD, of unknown version
 *   only pins of others        STALE                ABSENT
 *   pins of others remain      its removal fails    it is removed all the same
 *
 * A reload pins the new object's maps as MAP_new, lets the link change over, and renames them.
 * When it is killed between, the question is which of the two the running program uses. Map ids
 * only grow, and libbpf makes an object's data maps before its struct_ops map: so what is pinned
 * as MAP_new is in force exactly if its id is below that of the struct_ops map in the link.
 */
#ifndef CCBPF_ATTACHMENT_H
#define CCBPF_ATTACHMENT_H

#include <bpf/libbpf.h>
#include <json-c/json.h>

#include "sys/pin.h"

#define PIN_LINK "link"
#define PIN_IDENTITY "identity"

enum attachment_state {
	ATTACHMENT_ABSENT,
	ATTACHMENT_STALE,
	ATTACHMENT_GONE,
	ATTACHMENT_DETACHED,
	ATTACHMENT_HELD,
	ATTACHMENT_UNREADABLE,
};

struct attachment_map {
	const char *pin, *name; /* in the directory, in the BPF object */
	struct map_shape shape;
};

struct attachment;

/* A sort of attachments. */
struct attachment_kind {
	unsigned int n_maps; /* the first is the identity */
	uint32_t abi;
	uint32_t link_type; /* enum bpf_link_type */
	const char *instead; /* name of the pin where there is no link, or NULL */
	enum pin_kind instead_kind;
	bool strict; /* see above */
	bool reloads; /* it holds a struct_ops map, and a MAP_new may be in force */
	const char *program; /* the one that is held, or NULL: a struct_ops map is */
	enum bpf_prog_type program_type;

	/*
	 * Where is it attached? `hold_fd` is open, of the right kind, and of this program. Sets
	 * `state`, unless it is something else, and `held_id` of a struct_ops map. `link`: NULL
	 * of what is pinned instead. Returns 0, or -errno where that cannot be asked.
	 */
	int (*read)(struct attachment *a, const struct bpf_link_info *link);

	/*
	 * Take away what stays attached without its pins; NULL: nothing does. Returns EXIT_OK or
	 * the exit code.
	 */
	int (*release)(const char *what, const struct attachment *a);
};

struct attachment {
	const struct attachment_kind *kind; /* these three are filled in before it is opened */
	const struct attachment_map *maps;
	char dir[64]; /* below the root */

	enum attachment_state state;
	bool by_link;
	bool ours; /* what holds it is of this kind */
	int hold_fd; /* the link, or what is pinned instead; or -1 */
	int identity_err; /* -ENOENT: none, -EMEDIUMTYPE: of another ABI */
	uint32_t link_id; /* 0 without a link */
	uint32_t held_id; /* of the program, or of the struct_ops map */
};

/* Path of a pin in its directory; NULL: of the directory. A text(). */
const char *attachment_path(const struct attachment *a, const char *pin);

/*
 * Read the pins. `identity` gets the value of the first map if it is HELD or strict: zeroes where
 * that is not readable or of another ABI. Returns EXIT_OK whatever the state is, or the exit code
 * after saying what is refused; then nothing is open.
 */
int attachment_open(const char *what, struct attachment *a, void *identity);
void attachment_close(struct attachment *a);

/*
 * Open the map that is in force, or read its one value. Return its descriptor or 0, or an
 * error as pin_open_map() does.
 */
int attachment_open_map(const struct attachment *a, unsigned int map);
int attachment_read_map(const struct attachment *a, unsigned int map, void *value);

/*
 * Pin a map of a loaded object, as MAP_new if `as_new`; or make the directory and pin them all.
 * Return EXIT_OK or the exit code.
 */
int attachment_pin_map(const char *what, const struct attachment *a, const struct bpf_object *obj,
		       unsigned int map, bool as_new);
int attachment_pin_maps(const char *what, const struct attachment *a, const struct bpf_object *obj);

/*
 * Pin what holds it, a link or what is pinned instead; `fd` is closed with the attachment. Returns
 * EXIT_OK or the exit code.
 */
int attachment_pin_hold(const char *what, struct attachment *a, int fd, bool by_link);

/* Finish what an interrupted reload left (needs the lock for a change). */
void attachment_settle(const struct attachment *a);

/* Detach it and remove its pins. Returns EXIT_OK or the exit code. */
int attachment_remove(const char *what, struct attachment *a);

/*
 * Whether `clean` removes it, and do so; `all`: as `clean --all`. `removed`: an array that gets
 * its path, or NULL. Returns EXIT_OK or the exit code.
 */
bool attachment_goes(const struct attachment *a, bool all);
int attachment_sweep(const char *what, struct attachment *a, bool all, struct json_object *removed);

/* Put those entries of a directory behind `foreign` that are not ours. */
void attachment_foreign(struct attachment *a, struct json_object *foreign);
void foreign_in(const char *dir, bool (*is_ours)(void *data, const char *name), void *data,
		struct json_object *foreign);

#endif
