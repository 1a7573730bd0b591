/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A TOML document as a tree, for C. The parser is toml++, in tree.cc; nothing else of the
 * loader is C++.
 */
#ifndef CCBPF_CONFIG_TREE_H
#define CCBPF_CONFIG_TREE_H

#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Deepest nesting of arrays and inline tables, and most dots of a line (a dotted key nests as
 * well). Both limit the recursion of the parser.
 */
#define TREE_DEEPEST 8
#define TREE_DOTS_MOST 128

enum node_kind {
	NODE_TABLE,
	NODE_ARRAY,
	NODE_TEXT,
	NODE_NUMBER, /* a whole one */
	NODE_BOOL,
	NODE_OTHER, /* a float, a date, a time */
};

struct node {
	enum node_kind kind;
	unsigned int line; /* of its key; of an array's element: where it begins */
	char *key; /* NULL: an array's element */
	char *text; /* of NODE_TEXT */
	long long number; /* of NODE_NUMBER, NODE_BOOL */
	struct node *first; /* member of a table or array, by lines */
	struct node *next; /* beside it */
};

/* Why a document is none. */
struct tree_error {
	unsigned int line;
	char why[256];
};

/* Parse `length` bytes. Returns the table of the whole, or NULL after filling `error`. */
struct node *tree_parse(const char *bytes, size_t length, struct tree_error *error);

/* Free a tree; NULL is fine. */
void tree_free(struct node *node);

#ifdef __cplusplus
}
#endif

#endif
