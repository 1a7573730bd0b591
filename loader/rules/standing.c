// SPDX-License-Identifier: GPL-2.0-only
/* The standing rules: see standing.h. */
#include <bpf/bpf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "out/errors.h"
#include "out/json.h"
#include "rules/object.h"
#include "rules/sets.h"
#include "rules/standing.h"
#include "sys/attachment.h"
#include "sys/cgroup.h"
#include "sys/objects.h"
#include "sys/pins.h"
#include "util/memory.h"

#define MAP_RULES "rules"
#define MAP_COUNTS "rule_counts"
#define MAP_CHOSEN "chosen"

static const struct map_shape rules_shape = { BPF_MAP_TYPE_ARRAY, sizeof(__u32),
					      sizeof(struct ccbpf_rule), 0 };
static const struct map_shape counts_shape = { BPF_MAP_TYPE_HASH, sizeof(__u32),
					       sizeof(struct ccbpf_choice_counts),
					       CCBPF_RULES_MOST };
static const struct map_shape chosen_shape = { BPF_MAP_TYPE_SK_STORAGE, sizeof(int),
					       sizeof(struct ccbpf_chosen), 0 };

static const char *link_path(void)
{
	return pin_path(STANDING_DIR, PIN_LINK);
}

/* The program that the link holds, or -errno. */
static int open_program(struct standing *standing)
{
	uint64_t cgroup = 0;
	int fd = sockops_behind(standing->link_fd, &cgroup);

	standing->detached = !cgroup;
	return fd;
}

/* What somebody else may have written there is made harmless. */
static void terminate(struct ccbpf_rule *rule)
{
	rule->choice.controller[CCBPF_NAME_LEN - 1] = '\0';
	rule->netns[CCBPF_UNIT_LEN - 1] = '\0';
	rule->cgroup[CCBPF_CGROUP_LEN - 1] = '\0';
}

static int read_rules(struct standing *standing, int program)
{
	int fd = sockops_open_map(program, MAP_RULES, &rules_shape);
	struct ccbpf_rule rule;

	if (fd < 0)
		return fd;
	standing->counts_fd = sockops_open_map(program, MAP_COUNTS, &counts_shape);
	standing->chosen_fd = sockops_open_map(program, MAP_CHOSEN, &chosen_shape);
	for (__u32 i = 0; standing->counts_fd >= 0 && bpf_map_lookup_elem(fd, &i, &rule) == 0;
	     i++) {
		terminate(&rule);
		standing->rules = must_grow(standing->rules, (i + 1) * sizeof(rule));
		standing->counts = must_grow(standing->counts, (i + 1) * sizeof(*standing->counts));
		standing->rules[i] = rule;
		if (bpf_map_lookup_elem(standing->counts_fd, &rule.id, &standing->counts[i]))
			standing->counts[i] = (struct ccbpf_choice_counts){ 0 };
		standing->n = i + 1;
	}
	close(fd);
	return standing->counts_fd < 0 ? standing->counts_fd : 0;
}

int standing_read_quietly(struct standing *out)
{
	int program, err;

	*out = (struct standing){ .counts_fd = -1, .chosen_fd = -1 };
	out->link_fd = pin_open(link_path(), PIN_KIND_LINK);
	if (out->link_fd == -ENOENT) {
		out->link_fd = -1;
		return 0;
	}
	program = out->link_fd < 0 ? out->link_fd : open_program(out);
	err = program < 0 ? program : read_rules(out, program);
	if (program >= 0)
		close(program);
	if (err)
		standing_close(out);
	return err;
}

int standing_read(const char *what, struct standing *out)
{
	int err = standing_read_quietly(out);

	return err ? pin_unusable(what, link_path(), err) : EXIT_OK;
}

struct standing standing_copy(const struct standing *standing)
{
	struct standing copy = *standing;

	copy.rules = must_alloc(copy.n + 1, sizeof(*copy.rules));
	copy.counts = must_alloc(copy.n + 1, sizeof(*copy.counts));
	for (unsigned int i = 0; i < copy.n; i++) {
		copy.rules[i] = standing->rules[i];
		copy.counts[i] = standing->counts[i];
	}
	if (copy.link_fd >= 0)
		copy.link_fd = fcntl(copy.link_fd, F_DUPFD_CLOEXEC, 3);
	if (copy.counts_fd >= 0)
		copy.counts_fd = fcntl(copy.counts_fd, F_DUPFD_CLOEXEC, 3);
	if (copy.chosen_fd >= 0)
		copy.chosen_fd = fcntl(copy.chosen_fd, F_DUPFD_CLOEXEC, 3);
	return copy;
}

void standing_add(struct standing *standing, struct ccbpf_rule *rule)
{
	unsigned int n = standing->n++;

	rule->id = 1;
	for (unsigned int i = 0; i < n; i++)
		if (standing->rules[i].id >= rule->id)
			rule->id = standing->rules[i].id + 1;
	standing->rules = must_grow(standing->rules, (n + 1) * sizeof(*rule));
	standing->counts = must_grow(standing->counts, (n + 1) * sizeof(*standing->counts));
	standing->rules[n] = *rule;
	standing->counts[n] = (struct ccbpf_choice_counts){ 0 };
}

void standing_drop(struct standing *standing, unsigned int i)
{
	unsigned int behind = --standing->n - i;

	memmove(&standing->rules[i], &standing->rules[i + 1], behind * sizeof(*standing->rules));
	memmove(&standing->counts[i], &standing->counts[i + 1], behind * sizeof(*standing->counts));
}

/* Counters, and what sockets remember, go on from program to program. */
static int reuse_maps(const char *what, const struct standing *standing,
		      const struct bpf_object *obj)
{
	int err = EXIT_OK;

	if (standing->counts_fd >= 0)
		err = object_reuse(what, obj, MAP_COUNTS, standing->counts_fd);
	if (!err && standing->chosen_fd >= 0)
		err = object_reuse(what, obj, MAP_CHOSEN, standing->chosen_fd);
	return err;
}

static int fill_counts(const struct standing *standing, const struct bpf_object *obj)
{
	int fd = bpf_object__find_map_fd_by_name(obj, MAP_COUNTS), err = 0;
	struct ccbpf_choice_counts none = { 0 };

	for (unsigned int i = 0; !err && i < standing->n; i++)
		if (bpf_map_update_elem(fd, &standing->rules[i].id, &none, BPF_NOEXIST) &&
		    errno != EEXIST)
			err = -errno;
	return err;
}

/* Counters of rules that are no more. */
static void drop_counts(const struct standing *standing)
{
	__u32 key, next, *previous = NULL;

	for (int i = 0; standing->counts_fd >= 0 && i < 2 * CCBPF_RULES_MOST; i++) {
		bool found = false;

		if (bpf_map_get_next_key(standing->counts_fd, previous, &next))
			return;
		for (unsigned int j = 0; j < standing->n; j++)
			found |= standing->rules[j].id == next;
		if (!found) {
			bpf_map_delete_elem(standing->counts_fd, &next);
			previous = NULL;
			continue;
		}
		key = next;
		previous = &key;
	}
}

static int load(const char *what, const struct standing *standing, struct bpf_object **obj)
{
	struct {
		__u32 abi, rules, marks;
	} *initial;
	int err = object_open(what, "assign", ccbpf_object_assign, ccbpf_object_assign_end, obj);
	struct bpf_map *table, *rules;

	if (!err)
		err = object_map(what, *obj, ".rodata.table", sizeof(*initial), &table);
	if (!err)
		err = object_map(what, *obj, MAP_RULES, sizeof(*standing->rules), &rules);
	if (err)
		return err;
	initial = object_initial(table);
	initial->rules = standing->n;
	for (unsigned int i = 0; i < standing->n; i++)
		initial->marks |= standing->rules[i].choice.dscp < CCBPF_DSCP_KEEP;
	bpf_map__set_max_entries(rules, standing->n);
	err = reuse_maps(what, standing, *obj);
	if (!err)
		err = object_load(what, *obj);
	if (err)
		return err;
	err = sets_fill(*obj, standing->rules, standing->n) ?: fill_counts(standing, *obj);
	return err ? fail_errno(what, "the maps of the rules", err) : EXIT_OK;
}

static int attach(const char *what, const struct standing *standing, const struct bpf_object *obj)
{
	int fd, err;

	if (standing->link_fd >= 0 && !standing->detached) {
		err = bpf_link_update(standing->link_fd, sockops_program(obj), NULL);
		return err ? fail_errno(what, link_path(), err) : EXIT_OK;
	}
	err = pin_remove(link_path());
	if (err)
		return fail_errno(what, link_path(), err);
	err = pin_make_dir(what, pin_path(STANDING_DIR, NULL));
	if (err)
		return err;
	err = cgroup_require(what, "the root cgroup");
	if (err)
		return err;
	fd = cgroup_open("/");
	if (fd < 0)
		return fail_errno(what, "the root cgroup", fd);
	err = sockops_attach(what, obj, fd, "the root cgroup", link_path());
	close(fd);
	return err;
}

static int remove_all(const char *what)
{
	int err = pin_remove(link_path());

	rmdir(pin_path(STANDING_DIR, NULL)); /* refused unless empty */
	return err ? fail_errno(what, link_path(), err) : EXIT_OK;
}

int standing_write(const char *what, struct standing *standing)
{
	struct bpf_object *obj = NULL;
	int err;

	if (!standing->n)
		return remove_all(what);
	qsort(standing->rules, standing->n, sizeof(*standing->rules), rule_order);
	err = load(what, standing, &obj);
	if (!err)
		err = attach(what, standing, obj);
	if (!err)
		drop_counts(standing);
	bpf_object__close(obj);
	return err;
}

void standing_close(struct standing *standing)
{
	free(standing->rules);
	free(standing->counts);
	if (standing->link_fd >= 0)
		close(standing->link_fd);
	if (standing->counts_fd >= 0)
		close(standing->counts_fd);
	if (standing->chosen_fd >= 0)
		close(standing->chosen_fd);
	*standing = (struct standing){ .link_fd = -1, .counts_fd = -1, .chosen_fd = -1 };
}

int standing_sweep(const char *what, bool all, struct json_object *removed)
{
	bool there = pin_exists(link_path());
	int err;

	if (!all) {
		rmdir(pin_path(STANDING_DIR, NULL)); /* refused unless empty */
		return EXIT_OK;
	}
	err = remove_all(what);
	if (!err && there && removed)
		json_object_array_add(removed, json_text(link_path()));
	return err;
}

static bool is_link(void *data, const char *name)
{
	(void)data;
	return !strcmp(name, PIN_LINK);
}

void standing_collect_foreign(struct json_object *foreign)
{
	foreign_in(STANDING_DIR, is_link, NULL, foreign);
}
