// SPDX-License-Identifier: GPL-2.0-only
/*
 * The list of pods of `ccbpf apply --pods`: an input is what the API server says.
 *
 *  1. What is no list is refused in one sentence with a remedy; nothing of it becomes a rule.
 *  2. A pod's rule has one cgroup, which is a pod's, and a controller that is open to all; no two
 *     have the same cgroup.
 *  3. No name leads out of the cgroup file system.
 *
 * The cgroup file system is a directory of ours.
 */
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "config/pods.h"
#include "frame.h"
#include "out/errors.h"

static int open_below(int dir, const char *path, int flags);

#define openat(dir, path, flags) open_below(dir, path, flags)
#define fstatfs(fd, fs) ((fs)->f_type = CGROUP2_SUPER_MAGIC, 0)
#include "sys/cgroup.c"
#undef openat
#undef fstatfs

#define UID "6c1f2d3e-4a5b-4c6d-8e7f-000000000001"
#define UNDERSCORED "6c1f2d3e_4a5b_4c6d_8e7f_000000000002"

static int open_below(int dir, const char *path, int flags)
{
	HOLDS(*path != '/' && !strstr(path, ".."));
	HOLDS(dir != top_fd || !strncmp(path, "kubepods", 8));
	return openat(dir, path, flags);
}

/* Beside the program: those of two pods. */
static void make_cgroups(void)
{
	static const char *const names[] = {
		"",
		"/kubepods",
		"/kubepods/pod" UID,
		"/kubepods.slice",
		"/kubepods.slice/kubepods-burstable.slice",
		("/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" UNDERSCORED
		 ".slice"),
	};
	char at[PATH_MAX / 2] = "", path[PATH_MAX];

	HOLDS(readlink("/proc/self/exe", at, sizeof(at) - 16) > 0);
	strcpy(strrchr(at, '/'), "/cgroups-of-pods");
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		snprintf(path, sizeof(path), "%s%s", at, names[i]);
		mkdir(path, 0755);
	}
	top_fd = openat(AT_FDCWD, at, O_PATH | O_DIRECTORY | O_CLOEXEC);
	HOLDS(top_fd >= 0);
}

static void check(const struct config *config)
{
	for (unsigned int i = 0; i < config->n_rules; i++) {
		const struct config_rule *of = &config->rules[i];

		HOLDS(of->controller && of->controller->open);
		HOLDS(!strcmp(of->rule.choice.controller, of->controller->name));
		HOLDS(!of->rule.choice.flags && of->rule.choice.dscp == CCBPF_DSCP_KEEP);
		HOLDS(of->rule.conditions == CCBPF_RULE_CGROUP && of->rule.cgroup_id);
		HOLDS(strstr(of->rule.cgroup, "pod" UID) || strstr(of->rule.cgroup, UNDERSCORED));
		HOLDS(of->rule.place == CCBPF_PLACE_POD && of->pod && !of->section);
		for (unsigned int j = 0; j < i; j++)
			HOLDS(!rule_same_conditions(&config->rules[j].rule, &of->rule));
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = fuzz_text(data, size);
	struct config config = { 0 };
	int code;

	if (top_fd < 0)
		make_cgroups();
	fuzz_begin();
	code = pods_parse("apply", text, size, &config);
	if (code)
		fuzz_said(code); /* else there may be notes */
	HOLDS(!code || !config.n_rules);
	check(&config);
	config_free(&config);
	fuzz_end();
	free(text);
	return 0;
}
