// SPDX-License-Identifier: GPL-2.0-only
/* What the fuzz targets share: see frame.h. */
#include <json-c/json.h>
#include <stdio.h>
#include <string.h>

#include "frame.h"
#include "out/output.h"
#include "util/text.h"

static char said[16384]; /* longer than four texts of TEXT_MOST */
static FILE *own_stderr;

void fuzz_broken(const char *file, int line, const char *condition)
{
	if (own_stderr)
		fflush(stderr);
	fprintf(own_stderr ?: stderr, "%s:%d: does not hold: %s\nsaid: %s\n", file, line, condition,
		said);
	abort();
}

/* What was said so far is forgotten. */
static void forget(void)
{
	fflush(stderr);
	rewind(stderr);
	memset(said, 0, strlen(said)); /* the stream does not terminate what is shorter */
}

char *fuzz_text(const uint8_t *data, size_t size)
{
	char *copy = malloc(size + 1);

	if (size)
		memcpy(copy, data, size);
	copy[size] = '\0';
	return copy;
}

void fuzz_begin(void)
{
	if (!own_stderr) {
		own_stderr = stderr;
		stderr = fmemopen(said, sizeof(said), "w");
		HOLDS(stderr);
	}
	forget();
	output.json = output.pretty = false;
}

void fuzz_end(void)
{
	text_release(NULL);
}

/* Bytes of the UTF-8 character that a string begins with; 0: none that may be printed. */
static int character(const unsigned char *s)
{
	static const uint32_t least[] = { 0, ' ', 0xa0, 0x800, 0x10000 };
	int length = *s < 0x80 ? 1 : *s >> 5 == 6 ? 2 : *s >> 4 == 14 ? 3 : *s >> 3 == 30 ? 4 : 0;
	uint32_t code = length == 1 ? *s : *s & (0x7f >> length);

	for (int i = 1; i < length; i++) {
		if (s[i] >> 6 != 2)
			return 0;
		code = code << 6 | (s[i] & 0x3f);
	}
	if (code < least[length] || code == 0x7f || code > 0x10ffff || code >> 11 == 0x1b)
		return 0;
	return length;
}

bool fuzz_printable(const char *string)
{
	const unsigned char *s = (const unsigned char *)string;

	while (*s) {
		int length = character(s);

		if (!length)
			return false;
		s += length;
	}
	return true;
}

/* An error: "ccbpf: cannot …: why; remedy", or the same as JSON. */
static void check_sentence(char *line)
{
	struct json_object *doc, *error, *remedy;

	if (!output.json) {
		HOLDS(!strncmp(line, "ccbpf: ", 7) && strchr(line, ';'));
		HOLDS(strstr(line, "cannot ")); /* perhaps behind "FILE:LINE: " */
		return;
	}
	doc = json_tokener_parse(line);
	HOLDS(json_object_object_get_ex(doc, "error", &error));
	HOLDS(json_object_object_get_ex(error, "remedy", &remedy) && remedy);
	json_object_put(doc);
}

void fuzz_said(int code)
{
	char *end;

	fflush(stderr);
	HOLDS(code >= 0 && code <= 5);
	if (!code) {
		HOLDS(!*said);
		return;
	}
	end = strchr(said, '\n');
	HOLDS(end && !end[1]);
	*end = '\0';
	HOLDS(fuzz_printable(said));
	check_sentence(said);
	*end = '\n';
	forget();
}

void fuzz_json(struct json_object *doc)
{
	const char *text = json_object_to_json_string_ext(doc, JSON_C_TO_STRING_PLAIN);
	struct json_object *again = json_tokener_parse(text);

	HOLDS(fuzz_printable(text));
	HOLDS(json_object_equal(doc, again));
	json_object_put(again);
}
