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

#include "errors.h"
#include "output.h"
#include "pins.h"
#include "running.h"

/*
 * The kernel's struct bpf_struct_ops_common_value, with which the value of
 * every struct_ops map begins.
 */
struct ops_head {
	uint32_t refcnt;
	uint32_t state;
};
#define OPS_INUSE \
	1 /* BPF_STRUCT_OPS_STATE_INUSE: registered without a link \
		     */

static const char *const own_pins[] = { PIN_PARAMS, PIN_IDENTITY };

const char *run_state_word(enum run_state state)
{
	static const char *const words[] = {
		[RUN_ABSENT] = "absent",	 [RUN_STALE] = "stale",
		[RUN_DETACHED] = "detached",	 [RUN_ENABLED] = "enabled",
		[RUN_UNREADABLE] = "unreadable",
	};

	return words[state];
}

static uint32_t map_id(int fd)
{
	struct bpf_map_info info = { 0 };
	__u32 size = sizeof(info);

	return fd >= 0 && bpf_map_get_info_by_fd(fd, &info, &size) == 0
		       ? info.id
		       : 0;
}

/* The state that a pinned link tells. */
static enum run_state read_link_state(struct running *running)
{
	struct bpf_link_info info = { 0 };
	__u32 size = sizeof(info);

	if (bpf_link_get_info_by_fd(running->hold_fd, &info, &size) ||
	    info.type != BPF_LINK_TYPE_STRUCT_OPS)
		return RUN_UNREADABLE;
	running->by_link = true;
	running->link_id = info.id;
	running->ops_id = info.struct_ops.map_id;
	return running->ops_id ? RUN_ENABLED : RUN_DETACHED;
}

/* The state that a pinned struct_ops map tells, on kernels without links. */
static enum run_state read_ops_state(struct running *running)
{
	struct bpf_map_info info = { 0 };
	__u32 size = sizeof(info), zero = 0;
	union {
		struct ops_head head;
		char bytes[4096]; /* the value is 256 bytes on Linux 6.18 */
	} value = { 0 };

	if (bpf_map_get_info_by_fd(running->hold_fd, &info, &size) ||
	    info.type != BPF_MAP_TYPE_STRUCT_OPS ||
	    info.value_size > sizeof(value))
		return RUN_UNREADABLE;
	running->ops_id = info.id;
	if (bpf_map_lookup_elem(running->hold_fd, &zero, &value))
		return RUN_UNREADABLE;
	return value.head.state == OPS_INUSE ? RUN_ENABLED : RUN_STALE;
}

/* Whether there is a directory that we left: one of our pins is in it, or nothing. One
 * with only foreign pins in it is no concern of ours. */
static bool has_rests(const char *dir)
{
	struct dirent *entry;
	bool empty = true, ours = false;
	DIR *open = opendir(pin_path(dir, NULL));

	while (open && (entry = readdir(open)))
		empty &= !strcmp(entry->d_name, ".") ||
			 !strcmp(entry->d_name, "..");
	if (open)
		closedir(open);
	for (size_t i = 0; i < sizeof(own_pins) / sizeof(own_pins[0]); i++)
		ours |= pin_exists(pin_path(dir, own_pins[i])) ||
			pin_exists(pin_path(dir, text("%s" PIN_NEW,
						      own_pins[i])));
	return (open && empty) || ours;
}

static int read_state(const char *what, struct running *running)
{
	const char *dir = running->controller->name;
	const char *path = pin_path(dir, PIN_LINK);

	running->hold_fd = bpf_obj_get(path);
	if (running->hold_fd >= 0) {
		running->state = read_link_state(running);
		return EXIT_OK;
	}
	if (errno != ENOENT)
		goto refused;
	path = pin_path(dir, PIN_OPS);
	running->hold_fd = bpf_obj_get(path);
	if (running->hold_fd >= 0) {
		running->state = read_ops_state(running);
		return EXIT_OK;
	}
	if (errno != ENOENT)
		goto refused;
	running->state = has_rests(dir) ? RUN_STALE : RUN_ABSENT;
	return EXIT_OK;
refused:
	if (errno == EPERM || errno == EACCES)
		return fail_errno(what, path, errno);
	running->state = RUN_UNREADABLE; /* a directory, a link to nowhere: not
					    made by us */
	return EXIT_OK;
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

/* What another layout's parameters mean is not known, even of as many. */
static void refuse_params(struct running *running)
{
	if (running->params_fd < 0)
		return;
	close(running->params_fd);
	running->params_fd = -1;
	running->params_err = -EMEDIUMTYPE;
}

static void read_identity(struct running *running)
{
	const struct map_shape shape = { BPF_MAP_TYPE_ARRAY, sizeof(__u32),
					 sizeof(running->identity), 1 };
	int fd = open_current(running, PIN_IDENTITY, &shape);
	uint32_t zero = 0;

	if (fd < 0)
		return;
	if (bpf_map_lookup_elem(fd, &zero, &running->identity))
		memset(&running->identity, 0, sizeof(running->identity));
	if (running->identity.abi != CCBPF_ABI) {
		memset(&running->identity, 0, sizeof(running->identity));
		refuse_params(running);
	}
	running->identity.version[CCBPF_VERSION_LEN - 1] = '\0';
	close(fd);
}

int running_open(const char *what, const struct controller *c,
		 struct running *running)
{
	struct map_shape shape = { BPF_MAP_TYPE_ARRAY, sizeof(__u32),
				   values_size(c), 1 };
	int err;

	*running = (struct running){ .controller = c,
				     .hold_fd = -1,
				     .params_fd = -1,
				     .params_err = -ENOENT };
	err = read_state(what, running);
	if (err || running->state != RUN_ENABLED)
		return err;
	running->params_fd = open_current(running, PIN_PARAMS, &shape);
	running->params_err = running->params_fd < 0 ? running->params_fd : 0;
	read_identity(running);
	return EXIT_OK;
}

void running_close(struct running *running)
{
	if (running->hold_fd >= 0)
		close(running->hold_fd);
	if (running->params_fd >= 0)
		close(running->params_fd);
	running->hold_fd = running->params_fd = -1;
}

void running_settle(const struct running *running)
{
	const char *dir = running->controller->name;

	if (running->state != RUN_ENABLED)
		return;
	for (size_t i = 0; i < sizeof(own_pins) / sizeof(own_pins[0]); i++) {
		const char *new =
			pin_path(dir, text("%s" PIN_NEW, own_pins[i]));
		int fd = bpf_obj_get(new);

		if (fd < 0)
			continue;
		if (map_id(fd) < running->ops_id)
			rename(new, pin_path(dir, own_pins[i]));
		else
			pin_remove(new);
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
	const char *path = pin_path(running->controller->name,
				    running->by_link ? PIN_LINK : PIN_OPS);
	uint32_t zero = 0;
	int err;

	if (running->hold_fd >= 0 && !running->by_link &&
	    running->state == RUN_ENABLED)
		if (bpf_map_delete_elem(running->hold_fd, &zero))
			return fail_errno(what, running->controller->name,
					  errno);
	err = pin_remove(path);
	if (err)
		return fail_errno(what, path, err);
	if (running->hold_fd >= 0 && running->by_link)
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
	pin_remove(pin_path(dir, running->by_link ? PIN_OPS : PIN_LINK)); /* one
									     that
									     is
									     something
									     else
									   */
	for (size_t i = 0; i < sizeof(own_pins) / sizeof(own_pins[0]); i++) {
		pin_remove(pin_path(dir, own_pins[i]));
		pin_remove(pin_path(dir, text("%s" PIN_NEW, own_pins[i])));
	}
	err = pin_remove_dir(pin_path(dir, NULL));
	if (err && err != -ENOTEMPTY && err != -EEXIST)
		return fail_errno(what, pin_path(dir, NULL), err);
	return EXIT_OK;
}

int running_none(const char *what, const char *on)
{
	return FAIL(
		EXIT_NOTHING, .what = what, .on = on,
		.why = "no controller is enabled",
		.remedy =
			"`ccbpf enable NAME` enables one, `ccbpf list` shows which there are");
}

int running_lock(const char *what, const struct controller *first)
{
	struct running absent = { .controller = first, .state = RUN_ABSENT };

	if (pin_exists(pins_root()))
		return pins_lock_change(what);
	return first ? running_absent(what, &absent)
		     : running_none(what, "any");
}

int running_absent(const char *what, const struct running *running)
{
	const char *name = running->controller->name;

	if (running->state == RUN_UNREADABLE)
		return FAIL(
			EXIT_FAILED, .what = what, .on = name,
			.why = text("the pin %s is not a controller's link",
				    pin_path(name, PIN_LINK)),
			.remedy =
				"`ccbpf clean --all` disables all and removes it");
	if (running->state == RUN_ABSENT)
		return FAIL(EXIT_NOTHING, .what = what, .on = name,
			    .why = "it is not enabled",
			    .remedy =
				    text("`ccbpf enable %s` enables it", name));
	return FAIL(
		EXIT_NOTHING, .what = what, .on = name,
		.why = running->state == RUN_DETACHED
			       ? "it is not enabled: somebody detached its link"
			       : "it is not enabled: its pins are stale",
		.remedy = text(
			"`ccbpf enable %s` enables it, `ccbpf clean` removes what is left",
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
