// SPDX-License-Identifier: GPL-2.0-only
/*
 * What runs: see running.h.
 *
 * A reload pins the new object's maps as identity_new (and params_new), lets
 * the link change over, and renames them. When it is killed between, the
 * question is which of the two the running program uses. Map ids only grow, and
 * libbpf makes an object's data maps before its struct_ops map: so what is
 * pinned as _new is in force exactly if its id is below that of the struct_ops
 * map that the link holds.
 */
#include <bpf/bpf.h>
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cc/running.h"
#include "out/errors.h"
#include "out/json.h"
#include "sys/pins.h"
#include "sys/registration.h"
#include "util/text.h"

static const char *const own_pins[] = { PIN_PARAMS, PIN_IDENTITY };
static const char *const all_pins[] = { PIN_LINK,	    PIN_OPS,
					PIN_PARAMS,	    PIN_IDENTITY,
					PIN_PARAMS PIN_NEW, PIN_IDENTITY PIN_NEW };

const char *run_state_word(enum run_state state)
{
	static const char *const words[] = {
		[RUN_ABSENT] = "absent",	 [RUN_STALE] = "stale",
		[RUN_DETACHED] = "detached",	 [RUN_ENABLED] = "enabled",
		[RUN_UNREADABLE] = "unreadable",
	};

	return words[state];
}

bool running_is_pin(const char *name)
{
	for (size_t i = 0; i < sizeof(all_pins) / sizeof(all_pins[0]); i++)
		if (strcmp(name, all_pins[i]) == 0)
			return true;
	return false;
}

static uint32_t map_id(int fd)
{
	struct bpf_map_info info = { 0 };
	__u32 size = sizeof(info);

	return fd >= 0 && bpf_map_get_info_by_fd(fd, &info, &size) == 0 ? info.id : 0;
}

/* Whether there is a directory that we left: one of our pins is in it, or nothing. One
 * with only foreign pins in it is no concern of ours. */
static bool has_rests(const char *dir)
{
	struct dirent *entry;
	bool empty = true, ours = false;
	DIR *open = opendir(pin_path(dir, NULL));

	while (open && (entry = readdir(open)))
		empty &= !strcmp(entry->d_name, ".") || !strcmp(entry->d_name, "..");
	if (open)
		closedir(open);
	for (size_t i = 0; i < sizeof(own_pins) / sizeof(own_pins[0]); i++)
		ours |= pin_exists(pin_path(dir, own_pins[i])) ||
			pin_exists(pin_path(dir, text("%s" PIN_NEW, own_pins[i])));
	return (open && empty) || ours;
}

/* What the link or the map that is open holds. Returns 0 or -errno. */
static int read_registration(struct running *running, bool link)
{
	static const enum run_state states[] = {
		[REGISTRATION_FOREIGN] = RUN_UNREADABLE,
		[REGISTRATION_NONE] = RUN_STALE,
		[REGISTRATION_DETACHED] = RUN_DETACHED,
		[REGISTRATION_HELD] = RUN_ENABLED,
	};
	const char *name = running->controller->name;
	struct registration held;
	int err = link ? registration_of_link(running->hold_fd, name, &held)
		       : registration_of_map(running->hold_fd, name, &held);

	running->state = states[held.state];
	running->by_link = held.by_link;
	running->link_id = held.link_id;
	running->ops_id = held.ops_id;
	return err;
}

/* The state that the pins tell. Returns 0 or -errno; `*path`: of which pin. */
static int read_state(struct running *running, const char **path)
{
	const char *dir = running->controller->name;
	bool link = true;

	*path = pin_path(dir, NULL);
	running->state = RUN_UNREADABLE;
	if (pin_exists(*path) && !pin_is_dir(*path))
		return 0;
	*path = pin_path(dir, PIN_LINK);
	running->hold_fd = pin_open(*path, PIN_KIND_LINK);
	if (running->hold_fd == -ENOENT) {
		link = false;
		*path = pin_path(dir, PIN_OPS);
		running->hold_fd = pin_open(*path, PIN_KIND_MAP);
	}
	if (running->hold_fd >= 0)
		return read_registration(running, link);
	if (running->hold_fd == -ENOENT)
		running->state = has_rests(dir) ? RUN_STALE : RUN_ABSENT;
	else if (running->hold_fd != -EMEDIUMTYPE)
		return running->hold_fd;
	return 0;
}

/*
 * Open a map of the controller: what is pinned as _new if that is in force (see
 * the top), else the plain name.
 */
static int open_current(const struct running *running, const char *name,
			const struct map_shape *shape)
{
	const char *dir = running->controller->name;
	int fd = pin_open_map(pin_path(dir, text("%s" PIN_NEW, name)), shape);

	if (fd >= 0 && map_id(fd) < running->ops_id)
		return fd;
	if (fd >= 0)
		close(fd);
	return pin_open_map(pin_path(dir, name), shape);
}

/* Whether a pin tells nothing, rather than that it could not be asked. */
static bool is_nothing(int err)
{
	return err == -ENOENT || err == -EMEDIUMTYPE;
}

/*
 * Read the identity, or leave zeroes where it is not readable or of another ABI.
 * Returns 0 or -errno.
 */
static int read_identity(struct running *running)
{
	const struct map_shape shape = { BPF_MAP_TYPE_ARRAY, sizeof(__u32),
					 sizeof(running->identity), 1 };
	int err, fd = open_current(running, PIN_IDENTITY, &shape);
	struct ccbpf_identity identity;
	uint32_t zero = 0;

	if (fd < 0)
		return is_nothing(fd) ? 0 : fd;
	err = bpf_map_lookup_elem(fd, &zero, &identity) ? -errno : 0;
	close(fd);
	if (err)
		return err;
	identity.version[CCBPF_VERSION_LEN - 1] = '\0';
	if (identity.abi == CCBPF_ABI)
		running->identity = identity;
	else
		running->params_err = -EMEDIUMTYPE; /* not known, even of as many */
	return 0;
}

/* The same of the parameters: `params_fd`, or `params_err`. */
static int open_params(struct running *running)
{
	struct map_shape shape = { BPF_MAP_TYPE_ARRAY, sizeof(__u32),
				   values_size(running->controller), 1 };

	if (running->params_err)
		return 0;
	running->params_fd = open_current(running, PIN_PARAMS, &shape);
	running->params_err = running->params_fd < 0 ? running->params_fd : 0;
	return is_nothing(running->params_err) ? 0 : running->params_err;
}

int running_open(const char *what, const struct controller *c, struct running *running)
{
	const char *path;
	int err;

	*running = (struct running){ .controller = c, .hold_fd = -1, .params_fd = -1 };
	err = read_state(running, &path);
	if (!err && running->state == RUN_ENABLED) {
		path = pin_path(c->name, NULL);
		err = read_identity(running);
		if (!err)
			err = open_params(running);
	}
	if (!err)
		return EXIT_OK;
	running_close(running);
	return fail_errno(what, path, err);
}

void running_close(struct running *running)
{
	if (running->hold_fd >= 0)
		close(running->hold_fd);
	if (running->params_fd >= 0)
		close(running->params_fd);
	running->hold_fd = running->params_fd = -1;
}

bool running_is_enabled(const struct controller *c)
{
	struct running running;
	bool enabled = !running_open("look at", c, &running) && running.state == RUN_ENABLED;

	running_close(&running);
	return enabled;
}

void running_settle(const struct running *running)
{
	const char *dir = running->controller->name;

	if (running->state != RUN_ENABLED)
		return;
	for (size_t i = 0; i < sizeof(own_pins) / sizeof(own_pins[0]); i++) {
		const char *new = pin_path(dir, text("%s" PIN_NEW, own_pins[i]));
		int fd = pin_open(new, PIN_KIND_MAP);

		if (fd >= 0 && map_id(fd) < running->ops_id)
			rename(new, pin_path(dir, own_pins[i]));
		else if (fd >= 0 || fd == -EMEDIUMTYPE)
			pin_remove(new);
		if (fd >= 0)
			close(fd);
	}
}

bool running_is_rest(const struct running *running)
{
	return running->state == RUN_STALE || running->state == RUN_DETACHED;
}

/*
 * Take the registration back: without its pin first, so that a kill between
 * leaves only what is stale.
 */
static int unregister(const char *what, struct running *running)
{
	const char *path =
		pin_path(running->controller->name, running->by_link ? PIN_LINK : PIN_OPS);
	uint32_t zero = 0;
	int err;

	if (running->hold_fd >= 0 && !running->by_link && running->state == RUN_ENABLED)
		if (bpf_map_delete_elem(running->hold_fd, &zero))
			return fail_errno(what, running->controller->name, errno);
	err = pin_remove(path);
	if (err)
		return fail_errno(what, path, err);
	if (running->by_link && running->state != RUN_UNREADABLE)
		bpf_link_detach(running->hold_fd); /* 6.10; else closing the
						      last descriptor does it */
	return EXIT_OK;
}

int running_remove(const char *what, struct running *running)
{
	const char *dir = running->controller->name;
	int err = unregister(what, running);

	running_close(running);
	if (err)
		return err;
	for (size_t i = 0; i < sizeof(all_pins) / sizeof(all_pins[0]); i++) {
		err = pin_remove(pin_path(dir, all_pins[i]));
		if (err)
			return fail_errno(what, pin_path(dir, all_pins[i]), err);
	}
	err = pin_remove_dir(pin_path(dir, NULL));
	if (err && err != -ENOTEMPTY && err != -EEXIST)
		return fail_errno(what, pin_path(dir, NULL), err);
	return EXIT_OK;
}

int running_none(const char *what, const char *on)
{
	return FAIL(EXIT_NOTHING, .what = what, .on = on, .why = "no controller is enabled",
		    .remedy =
			    "`ccbpf enable NAME` enables one, `ccbpf list` shows which there are");
}

int running_lock(const char *what, const struct controller *first)
{
	struct running absent = { .controller = first, .state = RUN_ABSENT };

	if (pin_exists(pins_root()))
		return pins_lock_change(what);
	return first ? running_absent(what, &absent) : running_none(what, "any");
}

int running_absent(const char *what, const struct running *running)
{
	const char *name = running->controller->name;

	if (running->state == RUN_UNREADABLE)
		return FAIL(EXIT_FAILED, .what = what, .on = name,
			    .why = text("the pin %s is not a controller's link",
					pin_path(name, PIN_LINK)),
			    .remedy = "`ccbpf clean --all` disables all and removes it");
	if (running->state == RUN_ABSENT)
		return FAIL(EXIT_NOTHING, .what = what, .on = name, .why = "it is not enabled",
			    .remedy = text("`ccbpf enable %s` enables it", name));
	return FAIL(EXIT_NOTHING, .what = what, .on = name,
		    .why = running->state == RUN_DETACHED
				   ? "it is not enabled: somebody detached its link"
				   : "it is not enabled: its pins are stale",
		    .remedy =
			    text("`ccbpf enable %s` enables it, `ccbpf clean` removes what is left",
				 name));
}

const char *running_handle(const struct running *running)
{
	return running->by_link ? text("link %u", running->link_id)
				: text("map %u", running->ops_id);
}

struct json_object *running_json(const struct running *running)
{
	struct json_object *doc = json_object_new_object();

	add_text(doc, "name", running->controller->name);
	add_number(doc, "link_id", running->link_id);
	add_number(doc, "map_id", running->ops_id);
	add_number(doc, "instance", running->identity.instance);
	return doc;
}
