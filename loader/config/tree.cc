// SPDX-License-Identifier: GPL-2.0-only
/*
 * TOML by toml++: see tree.h. This file is the only one in C++, because Debian 12 has no TOML
 * library for C.
 *
 * The library is compiled into it. Version 3.3.0 (Debian 12) fails an assertion on some malformed
 * documents. The library lets its user define what an assertion does: here it throws, so that such
 * a document is an error like all others. Some functions with assertions of the parser's own state
 * are noexcept; there the process ends, before anything was changed. Fuzzing has found no such
 * document.
 */
#undef NDEBUG /* it would turn some assertions into assumptions of the compiler */
#include <algorithm>
#include <stdexcept>
#include <string>
#include <string_view>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/tree.h"
extern "C" {
#include "util/memory.h"
}

namespace
{
/* An assertion of the parser fails. */
struct refusal : std::logic_error {
	using std::logic_error::logic_error;
};

[[noreturn]] void refuse()
{
	throw refusal("a syntax error");
}
} // namespace

#define TOML_HEADER_ONLY 1
#define TOML_ENABLE_FORMATTERS 0
#define TOML_MAX_NESTED_VALUES TREE_DEEPEST
#define TOML_ASSERT(expression)    \
	do {                       \
		if (!(expression)) \
			refuse();  \
	} while (0)
#include <toml++/toml.h>

namespace
{
struct fault : std::runtime_error {
	unsigned int line;

	fault(unsigned int at, const char *why) : std::runtime_error(why), line(at)
	{
	}
};

node_kind kind_of(const toml::node &value)
{
	switch (value.type()) {
	case toml::node_type::table:
		return NODE_TABLE;
	case toml::node_type::array:
		return NODE_ARRAY;
	case toml::node_type::string:
		return NODE_TEXT;
	case toml::node_type::integer:
		return NODE_NUMBER;
	case toml::node_type::boolean:
		return NODE_BOOL;
	default:
		return NODE_OTHER;
	}
}

/* A string for C, which cannot have a NUL inside. */
char *copy(unsigned int line, std::string_view string)
{
	if (string.find('\0') != string.npos)
		throw fault(line, "there is a character \\u0000");
	return must_copy(std::string(string).c_str());
}

/* The members that fill() has put before `node`, in the order of their lines. */
void sort(struct node *node)
{
	std::vector<struct node *> members;
	struct node **end = &node->first;

	for (struct node *member = node->first; member; member = member->next)
		members.push_back(member);
	std::sort(members.begin(), members.end(), [](const struct node *a, const struct node *b) {
		return a->line != b->line ? a->line < b->line : strcmp(a->key, b->key) < 0;
	});
	for (struct node *member : members) {
		*end = member;
		end = &member->next;
	}
	*end = nullptr;
}

void fill(struct node *node, const toml::node &value);

/* A member in front of the others: a tree that is not complete can be freed. */
void add(struct node *node, unsigned int line, const toml::node &value, const toml::key *key)
{
	auto *member = static_cast<struct node *>(must_alloc(1, sizeof(*node)));

	member->line = line;
	member->next = node->first;
	node->first = member;
	if (key)
		member->key = copy(line, key->str());
	fill(member, value);
}

void fill(struct node *node, const toml::node &value)
{
	node->kind = kind_of(value);
	if (const toml::table *table = value.as_table()) {
		for (auto &&[key, member] : *table)
			add(node, key.source().begin.line, member, &key);
		sort(node);
	} else if (const toml::array *array = value.as_array()) {
		for (size_t i = array->size(); i > 0; i--)
			add(node, (*array)[i - 1].source().begin.line, (*array)[i - 1], nullptr);
	} else if (auto text = value.as_string()) {
		node->text = copy(node->line, text->get());
	} else if (auto number = value.as_integer()) {
		node->number = number->get();
	} else if (auto boolean = value.as_boolean()) {
		node->number = boolean->get();
	}
}

/*
 * What the parser is not asked to read. Dots nest, and it has no limit of its own for them. Some
 * characters that are not ASCII, outside a string, let version 3.3.0 reach what it holds for
 * unreachable: they are refused except in lines that begin with `#`. Without strings of several
 * lines, which no key here needs, such a line is a comment.
 */
void check_line(std::string_view line, unsigned int number)
{
	bool comment = line.substr(0, line.find('#')).find_first_not_of(" \t") == line.npos;
	bool ascii = std::all_of(line.begin(), line.end(), [](signed char c) { return c >= 0; });

	if (std::count(line.begin(), line.end(), '.') > TREE_DOTS_MOST)
		throw fault(number, "the line has too many dots");
	if (line.find("\"\"\"") != line.npos || line.find("'''") != line.npos)
		throw fault(number, "there is a string of several lines");
	if (!ascii && !comment)
		throw fault(number,
			    "a character is not ASCII, and it is not in a line of its own for a "
			    "comment; in a string write \\u00E9 for it, with its code");
}

void check_lines(std::string_view bytes)
{
	for (unsigned int number = 1; !bytes.empty(); number++) {
		size_t end = std::min(bytes.find('\n'), bytes.size() - 1);

		check_line(bytes.substr(0, end + 1), number);
		bytes.remove_prefix(end + 1);
	}
}

bool is_refused(std::string_view bytes)
{
	try {
		static_cast<void>(toml::parse(bytes));
	} catch (const refusal &) {
		return true;
	} catch (const std::exception &) {
	}
	return false;
}

/* A refusal names no line: the line where the shortest refused beginning of the document ends. */
unsigned int line_of_refusal(std::string_view bytes)
{
	std::vector<size_t> ends;
	size_t low = 0, high;

	for (size_t i = 0; i < bytes.size(); i++)
		if (bytes[i] == '\n')
			ends.push_back(i + 1);
	high = ends.size();
	while (low < high) {
		size_t middle = (low + high) / 2;

		if (is_refused(bytes.substr(0, ends[middle])))
			high = middle;
		else
			low = middle + 1;
	}
	return low + 1;
}

void say(struct tree_error *error, unsigned int line, std::string_view why)
{
	error->line = line;
	snprintf(error->why, sizeof(error->why), "%.*s", static_cast<int>(why.size()), why.data());
}

/* Of a string that does not end, the library names the end of the line or of the file. */
std::string explained(std::string_view why)
{
	bool open = why.find("string: unescaped control") != why.npos ||
		    why.find("string: encountered end-of-file") != why.npos;

	return std::string(why) + (open ? " (is a closing quote missing?)" : "");
}
} // namespace

void tree_free(struct node *node)
{
	while (node) {
		struct node *next = node->next;

		tree_free(node->first);
		free(node->key);
		free(node->text);
		free(node);
		node = next;
	}
}

struct node *tree_parse(const char *bytes, size_t length, struct tree_error *error)
{
	auto *root = static_cast<struct node *>(must_alloc(1, sizeof(struct node)));
	std::string_view document(bytes, length);

	try {
		check_lines(document);
		fill(root, toml::parse(document));
		return root;
	} catch (const toml::parse_error &why) {
		say(error, why.source().begin.line, explained(why.description()));
	} catch (const fault &why) {
		say(error, why.line, why.what());
	} catch (const refusal &why) {
		say(error, line_of_refusal(document), why.what());
	} catch (const std::exception &why) {
		say(error, 0, why.what());
	}
	tree_free(root);
	return nullptr;
}
