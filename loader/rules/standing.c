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
#include "rules/counts.h"
#include "rules/ids.h"
#include "rules/object.h"
#include "rules/prefixes.h"
#include "rules/sets.h"
#include "rules/standing.h"
#include "rules/windows.h"
#include "sys/attachment.h"
#include "sys/objects.h"
#include "sys/pins.h"
#include "sys/prefix.h"
#include "sys/shared.h"
#include "util/memory.h"

#define MAP_TABLE ".rodata.table"
#define MAP_RULES "rules"
#define MAP_COUNTS "rule_counts"
#define MAP_RULED "ruled"
#define MAP_RECEIVES "receives"

/* As in bpf/assign.bpf.c. */
struct table {
	__u32 abi, rules, marks, receives, names, next;
};

static const struct map_shape table_shape = ONE_VALUE(BPF_MAP_TYPE_ARRAY, sizeof(struct table));
static const struct map_shape rules_shape = { BPF_MAP_TYPE_ARRAY, sizeof(__u32),
					      sizeof(struct ccbpf_rule), 0 };
static const struct map_shape counts_shape = { BPF_MAP_TYPE_HASH, sizeof(__u32),
					       sizeof(struct ccbpf_choice_counts),
					       CCBPF_RULES_MOST };
static const struct map_shape ruled_shape = { BPF_MAP_TYPE_SK_STORAGE, sizeof(int),
					      sizeof(struct ccbpf_chosen), 0 };
static const struct map_shape receives_shape = { BPF_MAP_TYPE_SK_STORAGE, sizeof(int), 0, 0 };

/* Those of a struct standing. */
#define DESCRIPTORS(of) { &(of)->link_fd, &(of)->counts_fd, &(of)->ruled_fd, &(of)->receives_fd }

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

/* What a program was loaded with. Returns 0, or -errno: -EMEDIUMTYPE where it is of another layout. */
static int read_table(int program, struct table *table)
{
	int err = map_take_value(sockops_open_map(program, MAP_TABLE, &table_shape), table);

	return !err && table->abi != CCBPF_RULE_ABI ? -EMEDIUMTYPE : err;
}

/* What somebody else may have written there is made harmless. */
static void terminate(struct ccbpf_rule *rule)
{
	rule->choice.controller[CCBPF_NAME_LEN - 1] = '\0';
	rule->netns[CCBPF_UNIT_LEN - 1] = '\0';
	rule->cgroup[CCBPF_CGROUP_LEN - 1] = '\0';
	rule->from[CCBPF_NAME_LEN - 1] = '\0';
	if (rule->remote.bits > PREFIX_BITS)
		rule->remote.bits = PREFIX_BITS;
	rule->remote = prefix_cut(&rule->remote, rule->remote.bits);
}

static int read_rules(struct standing *standing, int program)
{
	int fd = sockops_open_map(program, MAP_RULES, &rules_shape), err;
	struct ccbpf_rule rule;
	struct table table;

	if (fd < 0)
		return fd;
	err = read_table(program, &table);
	if (err) {
		close(fd);
		return err;
	}
	standing->next = table.next;
	standing->counts_fd = sockops_open_map(program, MAP_COUNTS, &counts_shape);
	standing->ruled_fd = sockops_open_map(program, MAP_RULED, &ruled_shape);
	standing->receives_fd = sockops_open_map(program, MAP_RECEIVES, &receives_shape);
	for (__u32 i = 0;
	     standing->counts_fd >= 0 && i < table.rules && bpf_map_lookup_elem(fd, &i, &rule) == 0;
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

	*out = (struct standing)STANDING_NONE;
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
	int *const fds[] = DESCRIPTORS(&copy);

	copy.rules = must_alloc(copy.n + 1, sizeof(*copy.rules));
	copy.counts = must_alloc(copy.n + 1, sizeof(*copy.counts));
	for (unsigned int i = 0; i < copy.n; i++) {
		copy.rules[i] = standing->rules[i];
		copy.counts[i] = standing->counts[i];
	}
	for (size_t i = 0; i < sizeof(fds) / sizeof(fds[0]); i++)
		if (*fds[i] >= 0)
			*fds[i] = fcntl(*fds[i], F_DUPFD_CLOEXEC, 3);
	return copy;
}

const struct ccbpf_rule *standing_rule(const struct standing *standing, __u32 id)
{
	for (unsigned int i = 0; i < standing->n; i++)
		if (standing->rules[i].id == id)
			return &standing->rules[i];
	return NULL;
}

void standing_add(struct standing *standing, struct ccbpf_rule *rule)
{
	unsigned int n = standing->n;

	ids_give(standing, rule);
	standing->n++;
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
static int reuse_maps(const char *what, const struct standing *standing, struct bpf_object *obj)
{
	int err = EXIT_OK;

	if (standing->counts_fd >= 0)
		err = object_reuse(what, obj, MAP_COUNTS, standing->counts_fd);
	if (!err && standing->ruled_fd >= 0)
		err = object_reuse(what, obj, MAP_RULED, standing->ruled_fd);
	if (!err && windows_same_layout(standing->receives_fd, obj))
		err = object_reuse(what, obj, MAP_RECEIVES, standing->receives_fd);
	return err;
}

static int load(const char *what, const struct standing *standing, struct bpf_object **obj)
{
	struct table *initial;
	int err = object_open(what, "assign", ccbpf_object_assign, ccbpf_object_assign_end, obj);
	struct bpf_map *table, *rules;
	bool receives = false;

	if (!err)
		err = object_map(what, *obj, MAP_TABLE, sizeof(*initial), &table);
	if (!err)
		err = object_map(what, *obj, MAP_RULES, sizeof(*standing->rules), &rules);
	if (err)
		return err;
	initial = object_initial(table);
	initial->rules = standing->n;
	initial->next = standing->next;
	for (unsigned int i = 0; i < standing->n; i++) {
		const struct ccbpf_choice *choice = &standing->rules[i].choice;

		initial->marks |= choice->dscp < CCBPF_DSCP_KEEP;
		receives |= choice->flags & CCBPF_CHOICE_DOWNLOAD;
		initial->names |= !!(standing->rules[i].conditions & CCBPF_RULE_FROM);
	}
	initial->receives = receives;
	bpf_map__set_max_entries(rules, standing->n ?: 1);
	err = prefixes_prepare(what, *obj, standing->rules, standing->n);
	if (!err)
		err = reuse_maps(what, standing, *obj);
	if (!err)
		err = shared_load(what, *obj);
	if (err)
		return err;
	err = sets_fill(*obj, standing->rules, standing->n);
	if (!err)
		err = counts_fill(bpf_object__find_map_fd_by_name(*obj, MAP_COUNTS),
				  standing->rules, standing->n);
	return err ? fail_errno(what, "the maps of the rules", err) : EXIT_OK;
}

static int attach(const char *what, const struct standing *standing, const struct bpf_object *obj)
{
	if (standing->link_fd >= 0 && !standing->detached) {
		int err = bpf_link_update(standing->link_fd, sockops_program(obj), NULL);

		return err ? fail_errno(what, link_path(), err) : EXIT_OK;
	}
	return sockops_attach_root(what, obj, STANDING_DIR);
}

/* Open the program that is in force, and read what it was loaded with. Returns 0 or -errno. */
static int table_in_force(struct table *table)
{
	uint64_t cgroup;
	int program = sockops_at(link_path(), &cgroup), err;

	if (program < 0)
		return program;
	err = read_table(program, table);
	close(program);
	return err;
}

/* The windows that the program behind the link holds; `*table`: what it was loaded with. */
static struct windows held_windows(struct table *table)
{
	*table = (struct table){ 0 };
	return windows_at(link_path(), table_in_force(table));
}

/* Those that rules hold. With no rules left the program holds no new ones, until it goes. */
static void open_windows(const char *what)
{
	struct bpf_object *obj = NULL;
	struct standing standing;
	struct table table;
	struct windows windows = held_windows(&table);

	if (windows.foreign || table.receives || !table.rules) {
		if (!standing_read_quietly(&standing) && standing.link_fd >= 0) {
			standing.n = 0;
			if (!standing.detached && !load(what, &standing, &obj))
				attach(what, &standing, obj);
			bpf_object__close(obj);
		}
		standing_close(&standing);
		windows_open(&windows, NULL, 0);
		windows_wait(what, &windows, CCBPF_RECEIVED_BY_RULE);
	}
	windows_close(&windows);
}

/* Rules that are no more: the windows that they hold open, and then their counters go. */
static void settle(const struct standing *standing)
{
	struct table table;
	struct windows windows;

	if (!standing->n || !counts_are_stale(standing->counts_fd, standing->rules, standing->n))
		return;
	windows = held_windows(&table);
	windows_open(&windows, standing->rules, standing->n);
	windows_close(&windows);
	counts_drop(standing->counts_fd, standing->rules, standing->n);
}

static int remove_all(const char *what)
{
	int err;

	open_windows(what);
	err = pin_remove(link_path());
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
		settle(standing);
	bpf_object__close(obj);
	return err;
}

void standing_close(struct standing *standing)
{
	int *const fds[] = DESCRIPTORS(standing);

	free(standing->rules);
	free(standing->counts);
	for (size_t i = 0; i < sizeof(fds) / sizeof(fds[0]); i++)
		if (*fds[i] >= 0)
			close(*fds[i]);
	*standing = (struct standing)STANDING_NONE;
}

bool standing_is_pinned(void)
{
	return pin_exists(link_path());
}

bool standing_receives(void)
{
	struct table table;

	return !table_in_force(&table) && table.receives;
}

int standing_sweep(const char *what, bool all, struct json_object *removed)
{
	bool there = pin_exists(link_path());
	struct standing standing;
	struct table table;
	int err;

	if (!all && !table_in_force(&table) && !table.rules)
		return remove_all(what); /* killed in open_windows() */
	if (!all) {
		if (!standing_read_quietly(&standing))
			settle(&standing);
		standing_close(&standing);
		rmdir(pin_path(STANDING_DIR, NULL)); /* refused unless empty */
		return EXIT_OK;
	}
	err = remove_all(what);
	if (!err && there && removed)
		json_object_array_add(removed, json_text(link_path()));
	return err;
}

void standing_collect_foreign(struct json_object *foreign)
{
	sockops_collect_foreign(STANDING_DIR, foreign);
}
