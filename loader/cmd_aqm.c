// SPDX-License-Identifier: GPL-2.0-only
/*
 * ccbpf aqm attach|show|set|detach: the early-marking queue nf_red on a device
 * of this network namespace. `show` without a name shows those of all
 * namespaces: {"time_ns": CLOCK_MONOTONIC now, "queues": [{...}]}, one document
 * a line with --watch; attach and set answer with the one that they changed.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "aqm.h"
#include "aqmconf.h"
#include "aqmtext.h"
#include "commands.h"
#include "errors.h"
#include "kernel.h"
#include "output.h"
#include "pins.h"
#include "ticker.h"

/* A verb: what it does and what it is called in an error. */
struct verb {
	const char *name, *what;
	int (*run)(const struct request *request, const struct verb *verb);
	bool takes_options; /* --limit and so on */
	bool takes_device; /* must have one, unless --all */
};

static const struct aqm_options *options_of(const struct request *request)
{
	static struct aqm_options options;

	memcpy(options.given, request->own, sizeof(options.given));
	return &options;
}

static int find_device(const char *what, const char *name,
		       struct device *device)
{
	int err = device_find(name, device);

	if (!err)
		return EXIT_OK;
	if (err != -ENODEV)
		return fail_errno(what, name, err);
	return FAIL(EXIT_FAILED, .what = what, .on = name,
		    .why = "there is no such device in this network namespace",
		    .remedy = "`ip link` shows those that are here");
}

static int absent(const char *what, const char *name)
{
	return FAIL(EXIT_NOTHING, .what = what, .on = name,
		    .why = "it has no nf_red",
		    .remedy = text("`ccbpf aqm attach %s` attaches it", name));
}

static int unreadable(const char *what, const struct aqm *aqm)
{
	return FAIL(EXIT_FAILED, .what = what, .on = pin_path(aqm->dir, NULL),
		    .why = aqm_state_text(aqm),
		    .remedy = "`ccbpf clean --all` removes it");
}

/* --- show ------------------------------------------------------------------ */

/* Everything about one. Returns EXIT_OK or the exit code. */
static int look(const char *what, const struct aqm *aqm, struct aqm_view *view)
{
	struct qdiscs *all = must_alloc(1, sizeof(*all));
	struct device device;
	const char *name;
	int err;

	*view = (struct aqm_view){ .aqm = aqm };
	snprintf(view->device, sizeof(view->device), "%s",
		 aqm->identity.device);
	err = aqm_read_config(what, aqm, &view->config)
		      ?: aqm_read_state(what, aqm, &view->state)
		      ?: aqm_read_counts(what, aqm, &view->counts);
	name = aqm->identity.netns == device_netns()
		       ? device_name(aqm->identity.ifindex)
		       : NULL;
	if (!err && name && !device_find(name, &device) &&
	    !qdiscs_read(device.ifindex, all)) {
		view->here = true;
		memcpy(view->device, device.name, sizeof(view->device));
		view->packet_bytes = device.packet_bytes;
		aqm_look_at_queue(&device, all, view->config.leaf,
				  &view->queue);
		view->queue.root = NULL; /* ends with us */
	}
	free(all);
	return err;
}

static struct json_object *envelope(struct json_object **list)
{
	struct json_object *doc = json_object_new_object();

	*list = json_object_new_array();
	add_number(doc, "time_ns", monotonic_ns());
	json_object_object_add(doc, "queues", *list);
	return doc;
}

/* Show what is attached of these. */
static int show_these(const char *what, const struct aqm *found, unsigned int n)
{
	struct json_object *list, *doc = envelope(&list);
	unsigned int shown = 0;
	struct aqm_view view;
	int err = EXIT_OK;

	for (unsigned int i = 0; !err && i < n; i++) {
		if (found[i].state != AQM_ATTACHED) {
			note(pin_path(found[i].dir, NULL),
			     aqm_state_text(&found[i]),
			     found[i].state == AQM_UNREADABLE
				     ? "`ccbpf clean --all` removes it"
				     : "`ccbpf clean` removes it");
			continue;
		}
		err = look(what, &found[i], &view);
		if (err)
			break;
		if (!output.json && shown++)
			putchar('\n');
		if (output.json)
			json_object_array_add(list, aqm_json(&view));
		else
			aqm_print(&view);
	}
	return output_answer(err, doc);
}

static int by_dir(const void *a, const void *b)
{
	return strcmp(((const struct aqm *)a)->dir,
		      ((const struct aqm *)b)->dir);
}

static int show_all(const char *what)
{
	struct aqm *found;
	unsigned int n;
	int err = aqm_open_all(what, &found, &n);

	if (n)
		qsort(found, n, sizeof(*found), by_dir);
	if (!err)
		err = show_these(what, found, n);
	if (!err && !n && !output.json)
		printf("no device has nf_red\n");
	for (unsigned int i = 0; i < n; i++)
		aqm_close(&found[i]);
	free(found);
	return err;
}

/*
 * One that is not in this namespace any more but was, under this name: so that
 * an error can say more than "no such device".
 */
static bool find_gone(const char *what, const char *name, struct aqm *out)
{
	struct aqm *found;
	unsigned int n;
	bool is = false;

	aqm_open_all(what, &found, &n);
	for (unsigned int i = 0; i < n; i++)
		if (!is && found[i].identity.netns == device_netns() &&
		    strcmp(found[i].identity.device, name) == 0 &&
		    found[i].state == AQM_GONE) {
			*out = found[i];
			is = true;
		} else {
			aqm_close(&found[i]);
		}
	free(found);
	return is;
}

/* Open the one of a device by its name; the device may be gone. */
static int open_named(const char *what, const char *name, struct aqm *out)
{
	struct device device;
	int err;

	if (device_find(name, &device) == -ENODEV) {
		if (find_gone(what, name, out))
			return EXIT_OK;
		return find_device(what, name, &device);
	}
	err = find_device(what, name, &device)
		      ?: aqm_open(what, device.netns, device.ifindex, out);
	if (!err && out->state == AQM_ABSENT)
		err = absent(what, name);
	else if (!err && out->state == AQM_UNREADABLE)
		err = unreadable(what, out);
	return err;
}

static int show_one(const char *what, const char *name)
{
	struct aqm aqm = { .hold_fd = -1 };
	int err = open_named(what, name, &aqm);

	if (!err && aqm.state != AQM_ATTACHED)
		err = FAIL(EXIT_NOTHING, .what = what, .on = name,
			   .why = aqm_state_text(&aqm),
			   .remedy = "`ccbpf clean` removes what is left");
	if (!err)
		err = show_these(what, &aqm, 1);
	aqm_close(&aqm);
	return err;
}

/* What `show` was asked for. */
struct showing {
	const struct request *request;
	const char *what;
};

static int show_now(void *data)
{
	const struct showing *showing = data;
	const struct request *request = showing->request;
	bool exists;
	int err = pins_lock_read(showing->what, &exists);

	if (!err)
		err = request->n_args > 1
			      ? show_one(showing->what, request->args[1])
			      : show_all(showing->what);
	pins_unlock();
	return err;
}

static int run_show(const struct request *request, const struct verb *verb)
{
	struct showing showing = { request, verb->what };

	return kernel_require_reading(verb->what)
		       ?: ticker_repeat(verb->what, request->watch_ns, show_now,
					&showing);
}

/* --- attach, set, detach --------------------------------------------------- */

/* Say what is so now. */
static int report(const char *what, const struct aqm *aqm)
{
	struct aqm_view view;
	struct json_object *list, *doc;
	int err = look(what, aqm, &view);

	if (err)
		return err;
	if (!output.json) {
		printf("%s: nf_red %s: %s, limit %u bytes, nf from %s to %s %%, probes above %u bytes, %s\n",
		       view.device, *what == 'a' ? "attached" : "set",
		       view.queue.kind, view.config.limit_bytes,
		       aqm_percent(view.config.nf_min),
		       aqm_percent(view.config.nf_max),
		       view.config.packet_bytes, aqm_weight(&view.config));
		return EXIT_OK;
	}
	doc = envelope(&list);
	json_object_array_add(list, aqm_json(&view));
	output_json(doc);
	return EXIT_OK;
}

/* The device, its queue and the options, made into a configuration. */
static int configure(const struct request *request, const char *what,
		     const struct device *device, bool fresh,
		     struct ccbpf_aqm_config *config)
{
	const struct aqm_options *options = options_of(request);
	struct qdiscs *all = must_alloc(1, sizeof(*all));
	struct aqm_queue queue = { 0 };
	char with[64]; /* "attach nf_red to v0 with" an option */
	uint32_t leaf;
	int err, unread;

	snprintf(with, sizeof(with), "%s %s with", what, device->name);
	err = aqm_parse_class(with, options, &leaf);
	unread = qdiscs_read(device->ifindex, all);
	if (!err && unread)
		err = fail_errno(what, device->name, unread);
	if (!err && !fresh)
		aqm_follow_device(device, all, config);
	if (!err && (fresh || leaf))
		err = aqm_find_queue(what, device, all, leaf, &queue);
	if (!err)
		err = aqm_configure(with, options, device, &queue, fresh,
				    config);
	free(all);
	return err;
}

static int already(const char *what, const char *name, const struct aqm *aqm)
{
	return FAIL(
		EXIT_NOTHING, .what = what, .on = name,
		.why = aqm->by_filter
			       ? text("it has nf_red already (program %u)",
				      aqm->program_id)
			       : text("it has nf_red already (link %u)",
				      aqm->link_id),
		.remedy = text(
			"`ccbpf aqm set %s ...` changes it, `ccbpf aqm detach %s` takes it away",
			name, name));
}

/* Make room: what an interrupted ccbpf or another device left is removed. */
static int make_room(const char *what, const char *name, struct aqm *aqm)
{
	if (aqm->state == AQM_ABSENT)
		return EXIT_OK;
	if (aqm->state == AQM_ATTACHED)
		return already(what, name, aqm);
	if (aqm->state == AQM_UNREADABLE)
		return unreadable(what, aqm);
	note(name, aqm_state_text(aqm), "removed");
	return aqm_remove(what, aqm);
}

static int attach_locked(const struct request *request, const char *what,
			 const struct device *device)
{
	struct ccbpf_aqm_config config;
	struct aqm aqm;
	int err = aqm_open(what, device->netns, device->ifindex, &aqm);

	if (!err)
		err = make_room(what, device->name, &aqm);
	aqm_close(&aqm);
	if (!err)
		err = configure(request, what, device, true, &config);
	if (!err)
		err = aqm_attach(what, device, &config, &aqm);
	if (!err)
		err = report(what, &aqm);
	aqm_close(&aqm);
	return err;
}

static int run_attach(const struct request *request, const struct verb *verb)
{
	struct device device;
	int err = aqm_require(verb->what)
			  ?: find_device(verb->what, request->args[1], &device)
			  ?: pins_lock_change(verb->what);

	if (err)
		return err;
	err = attach_locked(request, verb->what, &device);
	pins_unlock();
	return err;
}

static int set_locked(const struct request *request, const char *what,
		      const struct device *device)
{
	struct ccbpf_aqm_config config;
	struct aqm aqm = { .hold_fd = -1 };
	int err = open_named(what, device->name, &aqm);

	if (!err && aqm.state != AQM_ATTACHED)
		err = FAIL(
			EXIT_NOTHING, .what = what, .on = device->name,
			.why = aqm_state_text(&aqm),
			.remedy = text("`ccbpf aqm attach %s` attaches it anew",
				       device->name));
	if (!err)
		err = aqm_read_config(what, &aqm, &config)
			      ?: configure(request, what, device, false,
					   &config)
			      ?: aqm_write_config(what, &aqm, &config)
			      ?: report(what, &aqm);
	aqm_close(&aqm);
	return err;
}

static bool gives_any(const struct request *request)
{
	for (int i = 0; i < AQM_OPTION_COUNT; i++)
		if (request->own[i])
			return true;
	return false;
}

static int run_set(const struct request *request, const struct verb *verb)
{
	const char *what = verb->what;
	struct device device;
	int err = kernel_require_reading(what)
			  ?: find_device(what, request->args[1], &device);

	if (!err && !pin_exists(pins_root()))
		err = absent(what, request->args[1]);
	if (!err)
		err = pins_lock_change(what);
	if (err)
		return err;
	err = set_locked(request, what, &device);
	pins_unlock();
	return err;
}

/* Detach one and say so. */
static int detach_one(const char *what, struct aqm *aqm,
		      struct json_object *list)
{
	const char *name = aqm->identity.device;
	bool was = aqm->state == AQM_ATTACHED;
	const char *why = aqm_state_text(aqm);
	int err = aqm_remove(what, aqm);

	if (err)
		return err;
	json_object_array_add(list,
			      json_text(*name ? name : aqm->dir));
	if (!output.json && was)
		printf("%s: nf_red detached\n", name);
	else if (!was)
		note(*name ? name : aqm->dir, why, "what was left is removed");
	return EXIT_OK;
}

static int no_device_has_it(const char *what)
{
	return FAIL(EXIT_NOTHING, .what = what, .on = "any device",
		    .why = "none has nf_red",
		    .remedy = "`ccbpf aqm attach DEV` attaches it");
}

/* Every one that can be; each that cannot is named. */
static int detach_all(const char *what, struct json_object *list)
{
	struct aqm *found;
	unsigned int n, failed = 0;
	int err = aqm_open_all(what, &found, &n);

	for (unsigned int i = 0; i < n; i++) {
		failed += !!(found[i].state == AQM_UNREADABLE
				     ? unreadable(what, &found[i])
				     : detach_one(what, &found[i], list));
		aqm_close(&found[i]);
	}
	free(found);
	if (!err && failed)
		err = EXIT_FAILED;
	return !err && !n ? no_device_has_it(what) : err;
}

static int detach_locked(const struct request *request, const char *what)
{
	struct json_object *doc = json_object_new_object(),
			   *list = json_object_new_array();
	struct aqm aqm = { .hold_fd = -1 };
	int err;

	json_object_object_add(doc, "detached", list);
	if (request->all) {
		err = detach_all(what, list);
	} else {
		err = open_named(what, request->args[1], &aqm)
			      ?: detach_one(what, &aqm, list);
		aqm_close(&aqm);
	}
	/* of several some may be, beside those that failed */
	output_answer(json_object_array_length(list) ? EXIT_OK : err, doc);
	return err;
}

static int run_detach(const struct request *request, const struct verb *verb)
{
	const char *what = verb->what;
	struct device device;
	int err = kernel_require_changing(what);

	if (!err && !pin_exists(pins_root()))
		err = request->all ? no_device_has_it(what)
				   : find_device(what, request->args[1],
						 &device)
					     ?: absent(what, request->args[1]);
	if (!err)
		err = pins_lock_change(what);
	if (err)
		return err;
	err = detach_locked(request, what);
	pins_unlock();
	return err;
}

/* --- the command line ------------------------------------------------------ */

static const struct verb verbs[] = {
	{ "attach", "attach nf_red to", run_attach, true, true },
	{ "show", "show nf_red of", run_show, false, false },
	{ "set", "set nf_red of", run_set, true, true },
	{ "detach", "detach nf_red from", run_detach, false, true },
};

static int bad_usage(const char *on, const char *why)
{
	return FAIL(EXIT_USAGE, .what = "aqm", .on = on, .why = why,
		    .remedy = "see `ccbpf aqm --help`");
}

static int check_usage(const struct request *request, const struct verb *verb)
{
	unsigned int devices = request->n_args - 1;

	if (request->all && strcmp(verb->name, "detach"))
		return bad_usage(verb->name, "only detach takes --all");
	if (request->all && devices)
		return bad_usage(request->args[1], "--all takes no device");
	if (devices > 1)
		return bad_usage(request->args[2], "one device at a time");
	if (verb->takes_device && !devices && !request->all)
		return bad_usage(verb->name, "no device is named");
	if (gives_any(request) && !verb->takes_options)
		return bad_usage(verb->name,
				 "only attach and set take options like these");
	if (request->watch_ns && strcmp(verb->name, "show"))
		return bad_usage(verb->name, "only show takes --watch");
	return EXIT_OK;
}

static int aqm(const struct request *request)
{
	const struct verb *verb = NULL;

	if (!request->n_args)
		return bad_usage(
			NULL, "neither attach, show, set nor detach is said");
	for (size_t i = 0; i < sizeof(verbs) / sizeof(verbs[0]); i++)
		if (strcmp(verbs[i].name, request->args[0]) == 0)
			verb = &verbs[i];
	if (!verb)
		return bad_usage(request->args[0],
				 "it is not attach, show, set or detach");
	return check_usage(request, verb) ?: verb->run(request, verb);
}

static const struct argp_option options[] = {
#define X(id, name, argument, text) \
	{ name, OPTION_OWN + AQM_OPTION_##id, argument, 0, text, 0 },
	AQM_OPTIONS(X)
#undef X
		{ "all", OPTION_ALL, 0, 0, "detach: from all devices", 0 },
	{ "watch", OPTION_WATCH, "SECONDS", 0,
	  "show: again every so many seconds, until Ctrl-C", 0 },
	{ 0 },
};

_Static_assert(AQM_OPTION_COUNT <= MOST_OWN, "struct request has room");

const struct command cmd_aqm = {
	.name = "aqm",
	.args = "attach|show|set|detach [DEV]",
	.text = "Mark background traffic early at a queue",
	.more = "attach DEV and set DEV take the options; without options attach goes by the paper, and set takes DEV's MTU "
		"where it has changed. show without DEV shows all. A packet's class is told by its DSCP: nf, probe, or standard, "
		"which is all others. At DEV's egress those of class nf are marked (ECN) once the average queue exceeds nf-min, "
		"those of class probe whenever more than one packet waits; what is not ECN-capable is dropped instead, of TCP "
		"half. Where standard packets are marked those of both are dropped.",
	.options = options,
	.run = aqm,
};
