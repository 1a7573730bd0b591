/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The file of `ccbpf apply`, by default /etc/ccbpf.toml, read and checked without a look at what
 * runs:
 *
 *   [controller.NAME]     enabled, with its default parameters
 *   set.KEY = NUMBER      but this one
 *   default = true        the default of this network namespace
 *   ecn = true            connections of this network namespace ask for ECN
 *
 *   [[rule]]              as `ccbpf assign` takes it
 *   controller = NAME     by default that of `ccbpf assign`, or
 *   not = true            or
 *   download = true       what they receive, and what they send only with upload = true
 *   cgroup, remote, netns, from, dscp = TEXT;  local-port, remote-port = NUMBER or TEXT;  force = true
 *
 * Each error names the file, the line and the remedy. They stay the place of what is said
 * (fault_place() in out/errors.h) until the caller changes it.
 */
#ifndef CCBPF_CONFIG_H
#define CCBPF_CONFIG_H

#include <stdbool.h>

#include "cc/controllers.h"
#include "cc/params.h"
#include "config/tree.h"
#include "rules/rule.h"

#define CONFIG_PATH "/etc/ccbpf.toml"
#define CONFIG_BYTES_MOST (1 << 20)

/* A section [controller.NAME]. */
struct config_controller {
	unsigned int line; /* 0: the file has none */
	unsigned int default_line,
		ecn_line; /* of `default = true`, of `ecn = true`; 0: not given */
	struct values values; /* all of them */
};

/* A section [[rule]]. */
struct config_rule {
	const struct node *section; /* NULL: not of the file, but of `pod` */
	const struct controller *controller; /* NULL: not = true, or it is for what is received */
	struct rule_words words;
	struct ccbpf_rule rule; /* without an id: see config_find() */
	const char *pod; /* "pod NAMESPACE/NAME": see pods.h; NULL: of the file */
};

struct config {
	const char *path;
	struct node *tree; /* owns the words */
	struct config_controller controllers[CCBPF_KINDS]; /* in the order of controllers[] */
	struct config_rule *rules;
	unsigned int n_rules;
};

/*
 * Read the file: a regular one of limited size, which only root, or whoever runs this, may
 * write. Returns EXIT_OK, or the exit code after saying what is wrong.
 */
int config_read(const char *what, const char *path, struct config *out);

/* The same of what a file holds, `length` bytes. */
int config_parse(const char *what, const char *bytes, size_t length, struct config *out);

/*
 * Find the cgroups and network namespaces that the rules name, on this system now, and compare the
 * rules with each other. Returns EXIT_OK or the exit code, said.
 */
int config_find(const char *what, struct config *config);

void config_free(struct config *config);

#endif
