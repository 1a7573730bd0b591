// SPDX-License-Identifier: GPL-2.0-only
/* Rules of pods, by their annotation: see pods.h. */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "config/pods.h"
#include "out/errors.h"
#include "sys/cgroup.h"
#include "util/memory.h"
#include "util/text.h"

#define JSON_DEEPEST 64
#define UID_LEN 36 /* 8-4-4-4-12 hexadecimal digits */
#define WORD_MOST 64 /* bytes of an annotation that are shown */
#define NAME_MOST 253 /* bytes of a name, as Kubernetes has them */
#define CHUNK (1 << 16)
#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static int no_list(const char *what, const char *why)
{
	return FAIL(EXIT_FAILED, .what = what, .on = "the list of pods", .why = why,
		    .remedy = "give what the API server answers to GET /api/v1/pods");
}

static struct json_object *member(struct json_object *doc, const char *key)
{
	struct json_object *value = NULL;

	if (json_object_is_type(doc, json_type_object))
		json_object_object_get_ex(doc, key, &value);
	return value;
}

/* A member that is a text without a NUL in it, or NULL. */
static const char *word(struct json_object *doc, const char *key)
{
	struct json_object *value = member(doc, key);
	const char *string;

	if (!json_object_is_type(value, json_type_string))
		return NULL;
	string = json_object_get_string(value);
	return strlen(string) == (size_t)json_object_get_string_len(value) ? string : NULL;
}

/* It becomes a part of a path. */
static bool is_uid(const char *uid)
{
	unsigned int i = 0;

	for (; uid[i] && i < UID_LEN; i++) {
		bool dash = i == 8 || i == 13 || i == 18 || i == 23;

		if (dash ? uid[i] != '-' : !isxdigit((unsigned char)uid[i]))
			return false;
	}
	return i == UID_LEN && !uid[i];
}

/* Open one of the cgroups that a pod may have. Returns its descriptor or -ENOENT. */
static int open_cgroup(const char *uid, char path[CCBPF_CGROUP_LEN])
{
	static const struct {
		const char *cgroupfs, *systemd;
	} classes[] = {
		{ "", "/kubepods" },
		{ "/burstable", "/kubepods-burstable.slice/kubepods-burstable" },
		{ "/besteffort", "/kubepods-besteffort.slice/kubepods-besteffort" },
	};
	char underscored[UID_LEN + 1];
	int fd = -ENOENT;

	for (unsigned int i = 0; i <= UID_LEN; i++)
		underscored[i] = uid[i] == '-' ? '_' : uid[i];
	for (unsigned int i = 0; fd < 0 && i < COUNT(classes); i++) {
		snprintf(path, CCBPF_CGROUP_LEN, "/kubepods%s/pod%s", classes[i].cgroupfs, uid);
		fd = cgroup_open(path);
		if (fd >= 0)
			break;
		snprintf(path, CCBPF_CGROUP_LEN, "/kubepods.slice%s-pod%s.slice",
			 classes[i].systemd, underscored);
		fd = cgroup_open(path);
	}
	return fd;
}

static bool find_cgroup(const char *uid, struct ccbpf_rule *rule)
{
	int fd = open_cgroup(uid, rule->cgroup);

	if (fd < 0)
		return false;
	rule->cgroup_id = cgroup_id(fd);
	close(fd);
	rule->conditions = CCBPF_RULE_CGROUP;
	return rule->cgroup_id;
}

/* Why a pod cannot have this rule, or NULL. */
static const char *obstacle(const struct config *config, const struct ccbpf_rule *rule)
{
	for (unsigned int i = 0; i < config->n_rules; i++)
		if (rule_same_conditions(&config->rules[i].rule, rule))
			return config->rules[i].pod ? "it is in the list already"
						    : "the file has a rule for its cgroup";
	return config->n_rules < CCBPF_RULES_MOST ? NULL : "there are too many rules";
}

static void add_rule(struct config *config, const char *pod, const struct controller *c,
		     struct ccbpf_rule *rule)
{
	const char *why = obstacle(config, rule);

	if (why) {
		note(pod, why, NULL);
		return;
	}
	rule->choice.dscp = CCBPF_DSCP_KEEP;
	rule->place = CCBPF_PLACE_POD;
	rule_give(rule, c->name, false);
	config->rules = must_grow(config->rules, (config->n_rules + 1) * sizeof(*config->rules));
	config->rules[config->n_rules++] =
		(struct config_rule){ .controller = c, .rule = *rule, .pod = pod };
}

static void parse_pod(struct config *config, struct json_object *item)
{
	struct json_object *metadata = member(item, "metadata");
	struct json_object *annotations = member(metadata, "annotations");
	struct json_object *given = member(annotations, PODS_ANNOTATION);
	const char *name = word(annotations, PODS_ANNOTATION), *uid = word(metadata, "uid"), *pod;
	const struct controller *c = name ? controller_find(name) : NULL;
	struct ccbpf_rule rule = { 0 };

	if (!given)
		return;
	pod = text("pod %.*s/%.*s", NAME_MOST, word(metadata, "namespace") ?: "?", NAME_MOST,
		   word(metadata, "name") ?: "?");
	if (!uid || !is_uid(uid))
		note(pod,
		     uid ? text("its uid `%.*s` is not a Kubernetes UID", WORD_MOST, uid)
			 : "it has no uid",
		     "give what the API server answers to GET /api/v1/pods");
	else if (!find_cgroup(uid, &rule))
		return;
	else if (!c)
		note(pod, text("there is no controller `%.*s`", WORD_MOST, name ?: "?"),
		     "`ccbpf list` shows those that there are");
	else if (!c->open)
		note(pod, text("%s is reserved for root", c->name), "make a rule in the file");
	else
		add_rule(config, pod, c, &rule);
}

/* Its `items`, in `*items`; Go writes an empty list as null. Returns EXIT_OK or the exit code. */
static int find_items(const char *what, struct json_object *list, struct json_object **items)
{
	const char *kind = word(list, "kind") ?: "", *more;

	*items = member(list, "items");
	if (strcmp(kind, "PodList") && strcmp(kind, "PartialObjectMetadataList") &&
	    strcmp(kind, "List"))
		return no_list(what, text("its kind is `%.*s`", WORD_MOST, kind));
	if (*items && !json_object_is_type(*items, json_type_array))
		return no_list(what, "its items are no list");
	more = word(member(list, "metadata"), "continue");
	return more && *more ? no_list(what, "there are more: it is a part of a list") : EXIT_OK;
}

static struct json_object *parse(const char *bytes, size_t length)
{
	struct json_tokener *tokener = json_tokener_new_ex(JSON_DEEPEST);
	struct json_object *doc = NULL;

	while (length && isspace((unsigned char)bytes[length - 1]))
		length--; /* a strict parser takes nothing behind a document */
	if (!tokener)
		out_of_memory();
	json_tokener_set_flags(tokener, JSON_TOKENER_STRICT);
	if (length)
		doc = json_tokener_parse_ex(tokener, bytes, (int)length);
	if (json_tokener_get_error(tokener) != json_tokener_success) {
		json_object_put(doc);
		doc = NULL;
	}
	json_tokener_free(tokener);
	return doc;
}

int pods_parse(const char *what, const char *bytes, size_t length, struct config *config)
{
	struct json_object *list = parse(bytes, length), *items = NULL;
	int err = list ? find_items(what, list, &items) : no_list(what, "it is no JSON");

	for (size_t i = 0; !err && items && i < json_object_array_length(items); i++)
		parse_pod(config, json_object_array_get_idx(items, i));
	json_object_put(list);
	return err;
}

/* All bytes, at most PODS_BYTES_MOST, in memory to be freed. Returns how many, or -errno. */
static ssize_t read_all(int fd, char **bytes)
{
	size_t length = 0, room = 0;
	ssize_t n = 1;

	while (n) {
		if (length > PODS_BYTES_MOST)
			return -EFBIG;
		if (room - length < CHUNK) {
			room = 2 * room + CHUNK;
			*bytes = must_grow(*bytes, room);
		}
		n = read(fd, *bytes + length, CHUNK);
		if (n < 0 && errno != EINTR)
			return -errno;
		length += n > 0 ? n : 0;
	}
	return length;
}

int pods_add(const char *what, const char *path, struct config *config)
{
	bool own = strcmp(path, "-");
	int fd = own ? open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY) : STDIN_FILENO, err;
	char *bytes = NULL;
	ssize_t length;

	fault_place(own ? path : NULL, 0);
	if (fd < 0)
		return fail_file(what, "the list of pods", errno, "name another file");
	length = read_all(fd, &bytes);
	if (own)
		close(fd);
	err = length < 0 ? fail_errno(what, "the list of pods", length)
			 : cgroup_require(what, "the list of pods");
	if (!err)
		err = pods_parse(what, bytes, length, config);
	free(bytes);
	return err;
}
