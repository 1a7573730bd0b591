// SPDX-License-Identifier: GPL-2.0-only
/* A run: see run.h. */
#include <bpf/bpf.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "out/errors.h"
#include "out/json.h"
#include "rules/object.h"
#include "rules/prepared.h"
#include "rules/programs.h"
#include "rules/run.h"
#include "sys/attachment.h"
#include "sys/cgroup.h"
#include "sys/pins.h"
#include "util/memory.h"
#include "util/text.h"

#define MAP_ACCOUNTS "accounts" /* storage of the sockets that it reached */
#define MAP_RECEIVES "receives" /* of those whose receive window it holds */
#define RUNS_MOST 100000 /* ids */

/* As they are removed. */
static const char *const own_pins[] = { PIN_LINK, PIN_RECEIVE, PIN_COUNTS, PIN_RUN };

static const char *dir_of(unsigned int id)
{
	return text(RUNS_DIR "/%u", id);
}

/* A directory of its own, locked. Returns EXIT_OK or the exit code. */
static int make_dir(const char *what, struct run *run)
{
	int err = pin_make_dir(what, pin_path(RUNS_DIR, NULL));

	for (run->id = 1; !err && run->id < RUNS_MOST; run->id++)
		if (!pin_exists(pin_path(dir_of(run->id), NULL)))
			break;
	if (!err)
		err = pin_make_dir(what, pin_path(dir_of(run->id), NULL));
	if (err)
		return err;
	run->lock_fd = pin_lock_dir(pin_path(dir_of(run->id), NULL));
	return run->lock_fd < 0 ? fail_errno(what, pin_path(dir_of(run->id), NULL), run->lock_fd)
				: EXIT_OK;
}

/* Where its cgroup will be. */
static int plan_cgroup(const char *what, struct run *run)
{
	char *path = run->about.cgroup, name[64];
	int err;

	if (*path)
		return EXIT_OK;
	err = cgroup_require(what, "a cgroup for it");
	if (err)
		return err;
	err = cgroup_parent_for_child(path, CCBPF_CGROUP_LEN);
	snprintf(name, sizeof(name), "%sccbpf-run-%u-%d", err || path[1] ? "/" : "", run->id,
		 getpid());
	if (!err && strlen(path) + strlen(name) >= CCBPF_CGROUP_LEN)
		err = -ENAMETOOLONG;
	if (!err) {
		strcat(path, name);
		return EXIT_OK;
	}
	*path = '\0';
	return FAIL(EXIT_FAILED, .what = what, .on = "a cgroup for it",
		    .why = text("there is no place: %s", strerror(-err)),
		    .remedy = "run it from another cgroup");
}

/* Remove its cgroup and pins. Returns 0 or -errno: -EBUSY while a process is in the cgroup. */
static int remove_run(const struct run *run)
{
	const char *cgroup = run->about.cgroup;
	int err = 0;
	bool ours = !prepared_is(cgroup) || prepared_shut(cgroup);

	if (ours && run->known && *cgroup && cgroup_reach() == 0)
		err = cgroup_remove(cgroup);
	if (err == -EBUSY && prepared_is(cgroup))
		err = 0; /* without the program it is a cgroup like any other */
	if (!err)
		programs_open_windows("run", dir_of(run->id), run->known ? &run->about : NULL);
	for (size_t i = 0; !err && i < sizeof(own_pins) / sizeof(own_pins[0]); i++)
		err = pin_remove(pin_path(dir_of(run->id), own_pins[i]));
	if (!err)
		err = pin_remove_dir(pin_path(dir_of(run->id), NULL));
	rmdir(pin_path(RUNS_DIR, NULL)); /* refused unless empty */
	return err;
}

int run_begin(const char *what, const struct ccbpf_run *about, struct run *run)
{
	int err;

	*run = (struct run){ .about = *about, .lock_fd = -1, .cgroup_fd = -1, .counts_fd = -1 };
	err = make_dir(what, run);
	if (!err)
		err = plan_cgroup(what, run);
	if (!err)
		err = programs_begin(what, run, dir_of(run->id));
	if (!err) {
		run->phase = RUN_LED;
		return EXIT_OK;
	}
	if (run->lock_fd >= 0)
		remove_run(run);
	run_close(run);
	return err;
}

void run_count(struct run *run)
{
	uint32_t zero = 0;

	if (run->counts_fd < 0 || bpf_map_lookup_elem(run->counts_fd, &zero, &run->counts))
		run->counts = (struct ccbpf_run_counts){ 0 };
}

/* Whether the directory is still its own: after `clean --all` another run may have the id. */
static bool is_own_dir(const struct run *run)
{
	struct stat ours, named;

	return fstat(run->lock_fd, &ours) == 0 &&
	       lstat(pin_path(dir_of(run->id), NULL), &named) == 0 && ours.st_ino == named.st_ino &&
	       ours.st_dev == named.st_dev;
}

unsigned int run_end(struct run *run)
{
	unsigned int left = 0;

	run_count(run);
	if (is_own_dir(run) && remove_run(run) == -EBUSY && cgroup_populated(run->about.cgroup))
		left = cgroup_processes(run->about.cgroup, NULL, 0) ?: 1;
	return left;
}

void run_close(struct run *run)
{
	int *const fds[] = { &run->lock_fd, &run->cgroup_fd, &run->counts_fd };

	for (size_t i = 0; i < sizeof(fds) / sizeof(fds[0]); i++) {
		if (*fds[i] >= 0)
			close(*fds[i]);
		*fds[i] = -1;
	}
}

/* Read a pinned array of one. Returns whether it is one. */
static bool read_pin(unsigned int id, const char *pin, void *value, uint32_t size)
{
	const struct map_shape shape = { BPF_MAP_TYPE_ARRAY, sizeof(uint32_t), size, 1 };

	return !map_take_value(pin_open_map(pin_path(dir_of(id), pin), &shape), value);
}

static int open_storage(unsigned int id, const char *pin, const char *map, uint32_t size)
{
	const struct map_shape shape = { BPF_MAP_TYPE_SK_STORAGE, sizeof(int), size, 0 };
	uint64_t cgroup;
	int fd, program = sockops_at(pin_path(dir_of(id), pin), &cgroup);

	if (program < 0)
		return program;
	fd = sockops_open_map(program, map, &shape);
	close(program);
	return fd;
}

int run_open_chosen(unsigned int id)
{
	/* as in bpf/run.bpf.c: four numbers of 8 bytes */
	return open_storage(id, PIN_LINK, MAP_ACCOUNTS, 4 * sizeof(uint64_t));
}

int run_open_receives(unsigned int id)
{
	return open_storage(id, PIN_RECEIVE, MAP_RECEIVES, 0);
}

/* Another cgroup may have the path by now. */
static bool is_at_its_cgroup(const struct run *run)
{
	int fd = cgroup_open(run->about.cgroup);
	bool same;

	if (fd < 0)
		return false;
	same = programs_attached(dir_of(run->id)) == cgroup_id(fd);
	close(fd);
	return same;
}

static void read_run(unsigned int id, struct run *run)
{
	*run = (struct run){ .id = id, .lock_fd = -1, .cgroup_fd = -1, .counts_fd = -1 };
	run->known = read_pin(id, PIN_RUN, &run->about, sizeof(run->about)) &&
		     run->about.abi == CCBPF_RULE_ABI;
	if (!run->known)
		run->about = (struct ccbpf_run){ 0 };
	run->about.cgroup[CCBPF_CGROUP_LEN - 1] = '\0';
	run->about.command[CCBPF_WORD_LEN - 1] = '\0';
	run->about.choice.controller[CCBPF_NAME_LEN - 1] = '\0';
	/* somebody could have pinned anything: never touch a cgroup that is not a run's */
	if (!strstr(run->about.cgroup, "/ccbpf-run-") || strstr(run->about.cgroup, "/.."))
		*run->about.cgroup = '\0';
	if (!read_pin(id, PIN_COUNTS, &run->counts, sizeof(run->counts)))
		run->counts = (struct ccbpf_run_counts){ 0 };
	if (pin_dir_is_held(pin_path(dir_of(id), NULL)))
		run->phase = RUN_LED;
	else if (prepared_is(run->about.cgroup) && is_at_its_cgroup(run))
		run->phase = RUN_PREPARED;
	else if (*run->about.cgroup && programs_attached(dir_of(id)) &&
		 cgroup_populated(run->about.cgroup))
		run->phase = RUN_BEHIND;
}

/* Whether a name is that of a run's directory. */
static bool parse_id(const char *name, unsigned int *id)
{
	char *end;
	unsigned long value = strtoul(name, &end, 10);

	*id = value;
	return *name >= '1' && *name <= '9' && !*end && value < RUNS_MOST;
}

static int by_id(const void *a, const void *b)
{
	const struct run *x = a, *y = b;

	return x->id < y->id ? -1 : x->id > y->id;
}

unsigned int runs_read(struct run **out)
{
	DIR *dir = opendir(pin_path(RUNS_DIR, NULL));
	struct dirent *entry;
	unsigned int n = 0, id;

	*out = NULL;
	while (dir && (entry = readdir(dir))) {
		if (!parse_id(entry->d_name, &id) || !pin_is_dir(pin_path(dir_of(id), NULL)))
			continue;
		*out = must_grow(*out, (n + 1) * sizeof(**out));
		read_run(id, &(*out)[n++]);
	}
	if (dir)
		closedir(dir);
	if (n)
		qsort(*out, n, sizeof(**out), by_id);
	return n;
}

/*
 * Its processes go on in the cgroup above, without the program. That above a prepared one may
 * take no processes: they stay. Returns 0 or -errno.
 */
static int dissolve(const struct run *run)
{
	char above[CCBPF_CGROUP_LEN];
	char *slash;
	int err;

	if (!*run->about.cgroup || !cgroup_populated(run->about.cgroup))
		return 0;
	snprintf(above, sizeof(above), "%s", run->about.cgroup);
	slash = strrchr(above, '/');
	slash[slash == above] = '\0';
	err = cgroup_move(run->about.cgroup, above);
	return prepared_is(run->about.cgroup) ? 0 : err;
}

/* Remove it, whoever needs it. Returns 0 or -errno. */
static int end_now(const struct run *run)
{
	return dissolve(run) ?: remove_run(run);
}

int runs_sweep(const char *what, bool all, struct json_object *removed)
{
	struct run *runs;
	unsigned int n = runs_read(&runs);
	int first = EXIT_OK;

	while (n-- > 0) { /* a run within a run was made later */
		const char *path = pin_path(dir_of(runs[n].id), NULL);
		int err;

		if (runs[n].phase != RUN_REST && !all)
			continue;
		err = all ? end_now(&runs[n]) : remove_run(&runs[n]);
		if (!err && removed)
			json_object_array_add(removed, json_text(path));
		/* a process may have come between: the next command sees it; pins of others stay */
		if (err && (all || err != -EBUSY) && err != -ENOTEMPTY && !first)
			first = fail_errno(what, path, err);
	}
	free(runs);
	rmdir(pin_path(RUNS_DIR, NULL)); /* refused unless empty */
	return first;
}

int run_take_back(const char *what, const char *cgroup)
{
	struct run *runs;
	unsigned int n = runs_read(&runs), i = 0;
	int err;

	while (i < n &&
	       (runs[i].phase != RUN_PREPARED || strcmp(runs[i].about.cgroup, cgroup) != 0))
		i++;
	err = i < n ? end_now(&runs[i]) : 0;
	if (err)
		err = fail_errno(what, text("the cgroup %s", cgroup), err);
	else if (i == n)
		err = FAIL(EXIT_NOTHING, .what = what, .on = text("the cgroup %s", cgroup),
			   .why = "it is not prepared", .remedy = "`ccbpf status` shows which are");
	free(runs);
	return err;
}

static bool is_run_pin(void *data, const char *name)
{
	(void)data;
	for (size_t i = 0; i < sizeof(own_pins) / sizeof(own_pins[0]); i++)
		if (!strcmp(name, own_pins[i]))
			return true;
	return false;
}

/* A run's directory; what is in it that is not ours goes to `data`. */
static bool is_run(void *data, const char *name)
{
	unsigned int id;

	if (!parse_id(name, &id))
		return false;
	foreign_in(dir_of(id), is_run_pin, NULL, data);
	return true;
}

void runs_collect_foreign(struct json_object *foreign)
{
	foreign_in(RUNS_DIR, is_run, foreign, foreign);
}
